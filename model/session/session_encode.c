/* The source of an encoder-decoder: runs the encoder once, and copies keys and values to the decoder's
 * plan. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/model.h"
#include "model/session/session.h"

static size_t features_bytes(const clef_session *s)
{
    return (size_t)s->hp->n_mels * 2 * (size_t)s->hp->n_source * sizeof(float);
}

clef_status clef__session_encoder(clef_session *s, clef_device *dev, clef_model *model, clef_error *err)
{
    session_encoder *e = &s->encoder;
    const int hears = s->hp->n_mels > 0; /* what is heard has no tokens */
    const clef_build_opts opts = {.n_context = hears ? s->opts.n_context : s->opts.n_source,
                                  .n_batch = hears ? 1 : s->opts.n_source,
                                  .n_sequences = 1,
                                  .part = CLEF_PART_ENCODER};
    const clef_status status = clef__session_plan(s, dev, model, &opts, &e->plan, err);
    if (status)
        return status;
    if (!e->rows)
        e->rows = malloc((size_t)s->opts.n_source * (size_t)s->hp->n_heads * (size_t)s->hp->head_dim *
                         sizeof *e->rows);
    if (!e->source)
        e->source = calloc((size_t)s->opts.n_source, sizeof *e->source);
    if (!e->features && hears)
        e->features = malloc(features_bytes(s));
    if (!e->rows || !e->source || (hears && !e->features))
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a source of %" PRId32 " tokens",
                          s->opts.n_source);
    e->io = clef__plan_io_of(e->plan);
    return CLEF_OK;
}

clef_status clef__session_join(clef_session *s, clef_error *err)
{
    session_encoder *e = &s->encoder;
    const clef_graph *g = clef_plan_graph(e->plan);
    const int32_t n = clef_graph_n_outputs(g);
    free(e->inputs);
    e->inputs = malloc((size_t)n * sizeof *e->inputs);
    if (!e->inputs)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " inputs", n);
    for (int32_t i = 0; i < n; i++) {
        const char *name;
        clef_graph_output(g, i, &name);
        e->inputs[i] = clef_plan_input(s->plan, name);
    }
    return CLEF_OK;
}

static clef_status check_source(const clef_session *s, const int32_t *ids, int32_t n, clef_error *err)
{
    if (!s->is_seq2seq)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s is not an encoder-decoder: it has no source",
                          s->hp->arch);
    if (s->hp->n_mels)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s hears its source: it has no tokens (clef transcribe)",
                          s->hp->arch);
    if (!s->plan || !s->encoder.plan)
        return clef__fail(err, CLEF_E_ARG, "the session's device was lost and did not come back");
    if (n < 1)
        return clef__fail(err, CLEF_E_ARG, "a source of %" PRId32 " tokens, expected at least 1", n);
    if (n > s->opts.n_source)
        return clef__fail(err, CLEF_E_LIMIT, "a source of %" PRId32 " tokens, the session accepts %" PRId32,
                          n, s->opts.n_source);
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->hp->n_vocab)
            return clef__fail(err, CLEF_E_ARG,
                              "token %" PRId32 " of the source is %" PRId32
                              ", the vocabulary has 0 to %" PRId32,
                              i, ids[i], s->hp->n_vocab - 1);
    return clef__check_padding(s->model, ids, n, err);
}

/* Copies an output of the encoder to the decoder's input with the same name. */
static clef_status hand_over(clef_session *s, int32_t output, size_t n_bytes, clef_error *err)
{
    session_encoder *e = &s->encoder;
    const clef_status status = clef_plan_read(e->plan, output, e->rows, n_bytes, err);
    return status ? status : clef_plan_write(s->plan, e->inputs[output], e->rows, n_bytes, err);
}

static clef_status write_source(clef_session *s, const int32_t *ids, int32_t n, clef_error *err)
{
    session_encoder *e = &s->encoder;
    if (s->hp->n_mels)
        return clef_plan_write(e->plan, e->io.features, e->features, features_bytes(s), err);
    clef_status status = clef_plan_bind(e->plan, e->io.T, n, err);
    if (!status)
        status = clef_plan_bind(s->plan, s->io.U, n, err);
    return status ? status : clef_plan_write(e->plan, e->io.ids, ids, (size_t)n * sizeof *ids, err);
}

clef_status clef__session_encode(clef_session *s, const int32_t *ids, int32_t n, clef_error *err)
{
    session_encoder *e = &s->encoder;
    const size_t n_bytes = (size_t)n * (size_t)s->hp->n_heads * (size_t)s->hp->head_dim * sizeof *e->rows;
    e->n = 0;
    clef_status status = write_source(s, ids, n, err);
    if (!status)
        status = clef_plan_run(e->plan, err);
    const int32_t n_outputs = clef_graph_n_outputs(clef_plan_graph(e->plan));
    for (int32_t i = 0; !status && i < n_outputs; i++)
        status = hand_over(s, i, n_bytes, err);
    if (!status)
        e->n = n;
    return status;
}

/* Encodes the source, which the session keeps, and once more if the device was lost meanwhile. */
static clef_status encode_kept(clef_session *s, int32_t n, clef_error *err)
{
    const int32_t *ids = s->encoder.source;
    clef_error why = {0};
    s->n_past = 0;
    clef_status status = clef__session_encode(s, ids, n, &why);
    if (status)
        status = clef__session_recover(s, NULL, &why, err);
    return !status && why.status ? clef__session_encode(s, ids, n, err) : status;
}

clef_status clef_session_encode(clef_session *s, const int32_t *ids, int32_t n, clef_error *err)
{
    clef_status status = check_source(s, ids, n, err);
    if (!status)
        status = clef__session_end(s, err);
    if (status)
        return status;
    memmove(s->encoder.source, ids, (size_t)n * sizeof *ids);
    return encode_kept(s, n, err);
}

clef_status clef_session_hear(clef_session *s, const float *features, clef_error *err)
{
    if (!s->hp->n_mels)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s does not hear: it has no spectrogram", s->hp->arch);
    if (!s->plan || !s->encoder.plan)
        return clef__fail(err, CLEF_E_ARG, "the session's device was lost and did not come back");
    const clef_status status = clef__session_end(s, err);
    if (status)
        return status;
    memmove(s->encoder.features, features, features_bytes(s));
    return encode_kept(s, s->hp->n_source, err);
}

int32_t clef_session_start(const clef_session *s, int32_t ids[2])
{
    int32_t n = 0;
    if (s->is_seq2seq && s->hp->decoder_start >= 0)
        ids[n++] = s->hp->decoder_start;
    if (s->is_seq2seq && s->hp->forced_bos >= 0)
        ids[n++] = s->hp->forced_bos;
    return n;
}
