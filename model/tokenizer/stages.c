/* The lists of stages: adding stages, and running text through them. */
#include "model/tokenizer/stages.h"

#include <string.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/models.h"

void clef__stages_finish(clef__stages *stages)
{
    for (size_t i = 0; i < stages->n_normalizers; i++)
        clef__regex_destroy(stages->normalizers[i].pattern.regex);
    for (size_t i = 0; i < stages->n_pretokenizers; i++)
        clef__regex_destroy(stages->pretokenizers[i].pattern.regex);
    for (size_t i = 0; i < stages->n_decoders; i++)
        clef__regex_destroy(stages->decoders[i].pattern.regex);
    clef__text_arena_finish(&stages->texts);
    *stages = (clef__stages){0};
}

/* ---- adding */

/* Replaces a stage's string by a copy; NULL stays NULL. */
static clef_status own_text(clef__stages *stages, const char **text, size_t n, const char *kind,
                            clef_error *err)
{
    if (!*text)
        return CLEF_OK;
    *text = clef__text_arena_copy(&stages->texts, *text, n);
    return *text ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a string", kind);
}

/* Checks that there is room for one more than `n` stages, and destroys the new stage's regex if not. */
static clef_status check_room(size_t n, const clef__pattern *pattern, const char *kind, clef_error *err)
{
    if (n < CLEF_MAX_TOKEN_STAGES)
        return CLEF_OK;
    clef__regex_destroy(pattern->regex);
    return clef__fail(err, CLEF_E_LIMIT, "%s: more than %d steps", kind, CLEF_MAX_TOKEN_STAGES);
}

clef_status clef__normalizer_append(clef__stages *stages, const clef__normalizer *like, clef_error *err)
{
    clef_status st = check_room(stages->n_normalizers, &like->pattern, "normalizer", err);
    if (st)
        return st;
    clef__normalizer *self = &stages->normalizers[stages->n_normalizers++];
    *self = *like;
    st = own_text(stages, &self->pattern.text, like->pattern.n_text, "normalizer", err);
    return st ? st : own_text(stages, &self->text, like->n_text, "normalizer", err);
}

clef_status clef__pretokenizer_append(clef__stages *stages, const clef__pretokenizer *like, clef_error *err)
{
    clef_status st = check_room(stages->n_pretokenizers, &like->pattern, "pre_tokenizer", err);
    if (st)
        return st;
    clef__pretokenizer *self = &stages->pretokenizers[stages->n_pretokenizers++];
    *self = *like;
    st = own_text(stages, &self->pattern.text, like->pattern.n_text, "pre_tokenizer", err);
    return st ? st : own_text(stages, &self->text, like->n_text, "pre_tokenizer", err);
}

clef_status clef__decoder_append(clef__stages *stages, const clef__token_decoder *like, clef_error *err)
{
    clef_status st = check_room(stages->n_decoders, &like->pattern, "decoder", err);
    if (st)
        return st;
    clef__token_decoder *self = &stages->decoders[stages->n_decoders++];
    *self = *like;
    st = own_text(stages, &self->pattern.text, like->pattern.n_text, "decoder", err);
    return st ? st : own_text(stages, &self->to, like->n_to, "decoder", err);
}

/* ---- running */

static int begins_with(const clef__chars *text, const char *with, size_t n)
{
    return n > 0 && text->n >= n && memcmp(text->at, with, n) == 0;
}

/* How many of the changed text's leading bytes come from the first character of the whole text: as many as
 * the normalizer makes of that character alone. */
static clef_status follow_first(const clef__normalizer *stage, clef__encoding *enc, clef__fragment in,
                                const clef__chars *changed, size_t *first)
{
    clef__chars *alone = &enc->first;
    if (in.first == 0 || in.first > in.n)
        return CLEF_OK;
    alone->n = 0;
    const clef_status st = stage->run(stage, enc, (clef__fragment){in.text, in.first, in.first}, alone);
    if (begins_with(changed, alone->at, alone->n))
        *first = alone->n;
    else if (alone->n == 0) /* dropped, unless it is so at the end of a text alone */
        *first = begins_with(changed, in.text, in.first) ? in.first : 0;
    else
        *first = changed->n ? clef__utf8_size(changed->at[0]) : 0;
    return st;
}

clef_status clef__normalize(clef__encoding *enc, clef__fragment in, clef__fragment *out)
{
    const clef__stages *stages = enc->stages;
    for (size_t i = 0; i < stages->n_normalizers; i++) {
        clef__chars *to = &enc->normal[i % 2];
        to->n = 0;
        size_t first = in.first;
        clef_status st = stages->normalizers[i].run(&stages->normalizers[i], enc, in, to);
        if (st == CLEF_OK && stages->uses_first)
            st = follow_first(&stages->normalizers[i], enc, in, to, &first);
        if (st)
            return st;
        in.first = first < to->n ? first : to->n;
        in.text = to->at ? to->at : "";
        in.n = to->n;
    }
    *out = in;
    return CLEF_OK;
}

clef_status clef__pretokenize(clef__encoding *enc, size_t index, clef__fragment in)
{
    const clef__stages *stages = enc->stages;
    if (in.n == 0)
        return CLEF_OK;
    if (index < stages->n_pretokenizers)
        return stages->pretokenizers[index].run(&stages->pretokenizers[index], enc, index, in);
    return enc->model->encode(enc->model, enc, in.text, in.n);
}

clef_status clef__decode_token(const clef__stages *stages, int first, const char *text, size_t n,
                               clef__chars work[2], clef_error *err)
{
    work[0].n = 0;
    clef_status st = clef__chars_append(&work[0], text, n, err);
    for (size_t i = 0; i < stages->n_decoders && st == CLEF_OK; i++) {
        work[1].n = 0;
        st = stages->decoders[i].run(&stages->decoders[i], first, work[0].at ? work[0].at : "", work[0].n,
                                     &work[1], err);
        const clef__chars swap = work[0];
        work[0] = work[1];
        work[1] = swap;
    }
    return st;
}
