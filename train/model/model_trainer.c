/* Trains a model: its graph with a loss, and batches of rows. */
#include <stdlib.h>
#include <string.h>

#include "graph/divisor.h"
#include "graph/fail.h"
#include "graph/value.h"
#include "model/open/arch.h"
#include "train/model/lora_begin.h"
#include "train/model/model_trainer.h"

enum { MOST_TOKENS = 1024, ROWS = 8, N_ARRAYS = 7 };

/* ---- the graph --------------------------------------------------------------------------------- */

static void set_defaults(clef_model_train_opts *o, const clef_model *model)
{
    const int32_t context = model->hparams.n_context;
    o->n_tokens = o->n_tokens ? o->n_tokens : context < MOST_TOKENS ? context : MOST_TOKENS;
    o->n_rows = o->n_rows ? o->n_rows : ROWS;
    o->n_parts = o->n_parts ? o->n_parts : 1;
    o->lora_alpha = o->lora_alpha != 0 ? o->lora_alpha : (float)o->lora_rank;
}

static clef_status check_opts(const clef_model_train_opts *o, const clef_model *model, clef_error *err)
{
    const int32_t context = model->hparams.n_context;
    if (o->n_tokens < 1 || o->n_rows < 1 || o->n_parts < 1 || o->lora_rank < 0 ||
        o->lora_rank > CLEF_MAX_LOW_RANK || !(o->dropout >= 0 && o->dropout < 1))
        return clef__fail(
            err, CLEF_E_ARG,
            "training: expected at least 1 token, row and part, a rank of 0 to %d and a dropout below "
            "1, got %d, %d, %d, %d and %g",
            CLEF_MAX_LOW_RANK, o->n_tokens, o->n_rows, o->n_parts, o->lora_rank, (double)o->dropout);
    if (o->n_tokens > context)
        return clef__fail(err, CLEF_E_ARG,
                          "%s: rows of %d tokens: expected at most %d, the model's context (clef train "
                          "--tokens)",
                          clef_model_path(model), o->n_tokens, context);
    if ((int64_t)o->n_rows * o->n_parts > INT32_MAX)
        return clef__fail(err, CLEF_E_ARG,
                          "training: %d rows times %d parts: expected fewer than 2^31 rows a step", o->n_rows,
                          o->n_parts);
    return CLEF_OK;
}

/* Divides a step among the ranks: its parts as far as they divide, and then the rows of each part. So a rank
 * computes as many rows at once as was asked for, where it can. */
static clef_status divide(clef_model_trainer *t, clef_error *err)
{
    const clef_model_train_opts *o = &t->opts;
    clef_ranks_info ranks = {.n = 1};
    if (o->optimizer.ranks)
        clef_ranks_describe(o->optimizer.ranks, &ranks);
    const int32_t by_parts = (int32_t)clef__common_divisor(o->n_parts, ranks.n), by_rows = ranks.n / by_parts,
                  below = o->n_rows / by_rows * by_rows;
    char less[24] = "";
    if (below)
        snprintf(less, sizeof less, "%d or ", below);
    if (o->n_rows % by_rows)
        return clef__fail(
            err, CLEF_E_ARG,
            "training: %d rows in each of %d parts do not divide among %d ranks: expected %s%d rows "
            "(clef train --rows), or a multiple of %d parts (--accumulate)",
            o->n_rows, o->n_parts, ranks.n, less, below + by_rows, ranks.n);
    t->share = (clef__row_share){.n_rows = o->n_rows / by_rows,
                                 .first_row = ranks.rank % by_rows * (o->n_rows / by_rows),
                                 .n_parts = o->n_parts / by_parts,
                                 .first_part = ranks.rank / by_rows * (o->n_parts / by_parts),
                                 .rank = ranks.rank,
                                 .n_ranks = ranks.n};
    return CLEF_OK;
}

/* Dropout drops what it would drop if all rows of a part were here. */
static clef_status number_dropouts(const clef_model_trainer *t, clef_graph *g, clef_error *err)
{
    for (int32_t i = 0; i < g->n_values; i++) {
        clef_value *v = g->values[i];
        const int64_t first = clef__elements(v, NULL) / t->share.n_rows * t->share.first_row;
        if (v->op != CLEF_OP_dropout)
            continue;
        if (first > INT32_MAX)
            return clef__fail(err, CLEF_E_LIMIT,
                              "training: dropout of %s: more than 2^31 elements in the rows of a part",
                              v->name);
        ((clef_dropout_opts *)(void *)v->attr)->first = (int32_t)first;
    }
    return CLEF_OK;
}

static clef_status build(const clef_model_trainer *t, clef_graph **out, clef_error *err)
{
    const clef_model_train_opts *o = &t->opts;
    const clef_build_lora lora = {.rank = o->lora_rank,
                                  .scale = o->lora_rank ? o->lora_alpha / (float)o->lora_rank : 0,
                                  .wants = clef__lora_wants,
                                  .user = (void *)(uintptr_t)o->lora_targets};
    const clef_build_opts opts = {.train = 1,
                                  .n_sequences = t->share.n_rows,
                                  .n_context = o->n_tokens, /* longrope's frequencies depend on it */
                                  .n_batch = o->n_tokens,
                                  .dropout = o->dropout,
                                  .new_lora = o->lora_rank ? &lora : NULL};
    return clef_model_build(t->model, &opts, out, err);
}

/* A clef_weight_source: the model's weights as the training began, whatever was published since, and new
 * matrices of an adapter. */
static const void *begin_of(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    clef_model_trainer *t = user;
    const clef_tensor_info *stored = clef__is_lora(name) ? NULL : clef__model_find(t->model, name);
    if (stored && stored->dtype == dtype && stored->n_bytes == n_bytes &&
        clef__model_trainer_begin(t, stored))
        return clef__model_trainer_begin(t, stored);
    if (!clef__is_lora(name))
        return clef_model_weight(t->model, name, dtype, n_bytes);
    free(t->begin);
    t->begin = clef__lora_begin(t->opts.seed, name, n_bytes / sizeof(float), t->opts.lora_rank);
    return t->begin;
}

/* The bias of BART's logits is a buffer in transformers, not a parameter. */
static int trains_weights(void *user, const char *name)
{
    const clef_model *model = user;
    const clef_arch *arch = clef__arch_find(model->hparams.arch, model->is_gguf);
    const clef_weight_names *const tables[] = {&arch->weights, &arch->decoder_weights};
    char fixed[CLEF_WEIGHT_NAME_BYTES];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if ((model->is_gguf ? tables[i]->gguf != NULL : tables[i]->hf != NULL) &&
            clef__weight_name(arch, tables[i], CLEF_W_LOGITS_BIAS, model->is_gguf, 0, "", fixed) &&
            strcmp(fixed, name) == 0)
            return 0;
    return 1;
}

static int trains_lora(void *user, const char *name)
{
    (void)user;
    return clef__is_lora(name);
}

/* The name of the model's tensor that has the first n bytes of `name`; NULL if there is none. */
static const char *tensor_named(const clef_model *model, const char *name, size_t n)
{
    for (int32_t i = 0; i < model->n_tensors; i++)
        if (strlen(model->tensors[i].name) == n && strncmp(model->tensors[i].name, name, n) == 0)
            return model->tensors[i].name;
    return NULL;
}

/* Lists the pairs of matrices. */
static clef_status find_lora(clef_model_trainer *t, clef_error *err)
{
    const int32_t n = clef_trainer_n_parameters(t->trainer);
    t->lora = calloc((size_t)n + 1, sizeof *t->lora);
    if (!t->lora)
        return clef__fail(err, CLEF_E_NOMEM, "training: no memory for the list of an adapter's matrices");
    for (int32_t i = 0; i < n && t->opts.lora_rank; i++) {
        const char *name = clef_trainer_parameter(t->trainer, i).name,
                   *end = clef__ends_with(name, CLEF__LORA_A);
        char other[CLEF_NAME_BYTES];
        if (!end)
            continue;
        snprintf(other, sizeof other, "%.*s%s", (int)(end - name), name, CLEF__LORA_B);
        const clef__lora_parameters pair = {.weight = tensor_named(t->model, name, (size_t)(end - name)),
                                            .a = i,
                                            .b = clef__model_trainer_find(t, other)};
        if (!pair.weight || pair.b < 0)
            return clef__fail(err, CLEF_E_UNSUPPORTED,
                              "%s: an adapter of %.*s: the model stores this weight in parts (clef train "
                              "--lora-targets leaves it out)",
                              clef_model_path(t->model), (int)(end - name), name);
        t->lora[t->n_lora++] = pair;
    }
    return CLEF_OK;
}

/* Too little memory is an error that says what takes less. */
static clef_status create_graph_trainer(clef_model_trainer *t, clef_device *dev, const clef_graph *g,
                                        const clef_train_opts *opts, clef_error *err)
{
    clef_error why = {0};
    const clef_status s = clef_trainer_create(dev, g, "loss", opts, &t->trainer, &why);
    if (s == CLEF_E_LIMIT)
        return clef__fail(err, s,
                          "training on %d rows of %d tokens at once: %s; fewer rows in more parts "
                          "(clef train --rows, --accumulate) and --recompute take less memory",
                          t->share.n_rows, t->opts.n_tokens, why.text);
    return s ? clef__fail(err, s, "%s", why.text) : s;
}

static clef_status make_trainer(clef_model_trainer *t, clef_device *dev, clef_error *err)
{
    clef_train_opts opts = t->opts.optimizer;
    clef_graph *g = NULL;
    clef_status s = build(t, &g, err);
    if (!s)
        s = number_dropouts(t, g, err);
    if (s) {
        clef_graph_destroy(g);
        return s;
    }
    opts.weights = begin_of;
    opts.weights_user = t;
    opts.trains = t->opts.lora_rank ? trains_lora : trains_weights;
    opts.trains_user = t->model;
    int n_lora = 0;
    for (int32_t i = 0; i < clef_graph_n_values(g); i++)
        n_lora += clef__is_lora(clef_value_describe(clef_graph_value(g, i)).name);
    if (t->opts.lora_rank && !n_lora)
        s = clef__fail(err, CLEF_E_ARG,
                       "%s: no projection has '%s' in its name, so the adapter would be empty",
                       clef_model_path(t->model), t->opts.lora_targets);
    if (!s)
        s = create_graph_trainer(t, dev, g, &opts, err);
    clef_graph_destroy(g);
    free(t->begin);
    t->begin = NULL;
    return s ? s : find_lora(t, err);
}

static void write_fingerprint(const clef_model *model, char out[CLEF__FINGERPRINT_TEXT])
{
    unsigned char hash[CLEF_SHA256_BYTES];
    clef__model_fingerprint(model, hash);
    for (size_t i = 0; i < sizeof hash; i++)
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

clef_status clef_model_trainer_create(clef_device *dev, clef_model *model, const clef_model_train_opts *opts,
                                      clef_model_trainer **out, clef_error *err)
{
    clef_model_trainer *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return clef__fail(err, CLEF_E_NOMEM, "training: out of memory");
    t->model = model;
    t->opts = *opts;
    set_defaults(&t->opts, model);
    write_fingerprint(model, t->fingerprint);
    clef_status s = check_opts(&t->opts, model, err);
    if (!s)
        s = divide(t, err);
    if (!s)
        s = clef__publisher_begin(model, &t->publisher, err);
    if (!s)
        s = make_trainer(t, dev, err);
    if (!s) {
        t->ids = calloc((size_t)t->share.n_rows * (size_t)t->opts.n_tokens, N_ARRAYS * sizeof *t->ids);
        if (!t->ids)
            s = clef__fail(err, CLEF_E_NOMEM, "training: no memory for its rows");
    }
    if (s)
        clef_model_trainer_destroy(t);
    else
        *out = t;
    return s;
}

void clef_model_trainer_destroy(clef_model_trainer *t)
{
    if (!t)
        return;
    clef_trainer_destroy(t->trainer);
    clef__publisher_end(t->model, &t->publisher);
    free(t->ids);
    free(t->values);
    free(t->begin);
    free(t->lora);
    free(t);
}

clef_trainer *clef_model_trainer_graph(clef_model_trainer *t)
{
    return t->trainer;
}

int32_t clef_model_trainer_n_tokens(const clef_model_trainer *t)
{
    return t->opts.n_tokens;
}

int32_t clef_model_trainer_n_at_once(const clef_model_trainer *t)
{
    return t->share.n_rows * t->share.n_ranks;
}

int32_t clef_model_trainer_n_rows(const clef_model_trainer *t)
{
    return t->opts.n_rows * t->opts.n_parts;
}

void clef_model_trainer_set_data(clef_model_trainer *t, const char *fingerprint)
{
    snprintf(t->data, sizeof t->data, "%s", fingerprint);
}

/* ---- rows ------------------------------------------------------------------------------------- */

/* The arrays of the graph's inputs, in t->ids. */
enum { IDS, LABELS, POSITIONS, FIRST, MASK, DECODER_IDS };

static int32_t *array(const clef_model_trainer *t, int which)
{
    return t->ids + (size_t)which * (size_t)t->share.n_rows * (size_t)t->opts.n_tokens;
}

/* Copies rows `from` .. and fills the rest of the part with `rest`. */
static void fill(const clef_model_trainer *t, int which, const int32_t *rows, int32_t from, int32_t n,
                 int32_t rest)
{
    const size_t T = (size_t)t->opts.n_tokens, all = (size_t)t->share.n_rows * T,
                 given = rows ? (size_t)n * T : 0;
    int32_t *to = array(t, which);
    if (rows)
        memcpy(to, rows + (size_t)from * T, given * sizeof *to);
    for (size_t i = given; i < all; i++)
        to[i] = rest;
}

static clef_status write_array(clef_model_trainer *t, const char *input, int which, clef_error *err)
{
    const size_t n_bytes = (size_t)t->share.n_rows * (size_t)t->opts.n_tokens * sizeof(int32_t);
    clef_error why;
    const clef_status s = clef_trainer_write(t->trainer, input, array(t, which), n_bytes, &why);
    if (s == CLEF_E_NOT_FOUND) /* not every model has every input */
        return CLEF_OK;
    if (s && err)
        *err = why;
    return s;
}

static clef_status write_rows(clef_model_trainer *t, const clef_rows *r, int32_t from, int32_t n,
                              clef_error *err)
{
    static const struct {
        const char *input;
        int which;
    } inputs[] = {{"input_ids", IDS}, {"labels", LABELS},       {"positions", POSITIONS},
                  {"first", FIRST},   {"attention_mask", MASK}, {"decoder_input_ids", DECODER_IDS}};
    const int32_t T = t->opts.n_tokens;
    clef_status s = CLEF_OK;
    fill(t, IDS, r->input_ids, from, n, 0);
    fill(t, LABELS, r->labels, from, n, -1);
    fill(t, POSITIONS, r->positions, from, n, 0);
    fill(t, FIRST, r->first, from, n, 0);
    fill(t, MASK, r->attention_mask, from, n, 1);
    fill(t, DECODER_IDS, r->decoder_input_ids, from, n, 0);
    for (int32_t i = 0; i < t->share.n_rows * T && !r->positions; i++)
        array(t, POSITIONS)[i] = i % T;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs && !s; i++)
        s = write_array(t, inputs[i].input, inputs[i].which, err);
    return s;
}

static int64_t count_labels(const clef_model_trainer *t, const clef_rows *r, int32_t n_rows)
{
    int64_t n = 0;
    for (int64_t i = 0; i < (int64_t)n_rows * t->opts.n_tokens; i++)
        n += r->labels[i] >= 0;
    return n;
}

static clef_status check_ids(const clef_model_trainer *t, const char *what, const int32_t *ids,
                             int32_t n_rows, int32_t least, clef_error *err)
{
    const int32_t n_vocab = t->model->hparams.n_vocab;
    for (int64_t i = 0; ids && i < (int64_t)n_rows * t->opts.n_tokens; i++)
        if (ids[i] < least || ids[i] >= n_vocab)
            return clef__fail(err, CLEF_E_ARG, "%s: %s %d of row %d: %d, expected %d to %d",
                              clef_model_path(t->model), what, (int)(i % t->opts.n_tokens),
                              (int)(i / t->opts.n_tokens), ids[i], least, n_vocab - 1);
    return CLEF_OK;
}

static clef_status check_rows(const clef_model_trainer *t, const clef_rows *r, int32_t n, int32_t most,
                              clef_error *err)
{
    if (n < 1 || n > most || !r->input_ids || !r->labels)
        return clef__fail(err, CLEF_E_ARG, "training: %d rows, expected 1 to %d, with ids and labels", n,
                          most);
    clef_status s = check_ids(t, "token", r->input_ids, n, 0, err);
    if (!s)
        s = check_ids(t, "decoder token", r->decoder_input_ids, n, 0, err);
    return s ? s : check_ids(t, "label", r->labels, n, INT32_MIN, err);
}

/* ---- steps ------------------------------------------------------------------------------------ */

static clef_status write_random(clef_model_trainer *t, int64_t step, int32_t part, clef_error *err)
{
    const int32_t words[4] = {(int32_t)(uint32_t)t->opts.seed, (int32_t)(uint32_t)(t->opts.seed >> 32),
                              (int32_t)step, part};
    return t->opts.dropout > 0 ? clef_trainer_write(t->trainer, "random", words, sizeof words, err) : CLEF_OK;
}

/* This rank's rows of part `part` of a step, or none if the step has fewer rows. */
static clef_status add_part(clef_model_trainer *t, const clef_rows *r, int32_t n, int32_t part,
                            clef_error *err)
{
    const int64_t from = (int64_t)part * t->opts.n_rows + t->share.first_row, left = n - from;
    const int32_t here = left < 0 ? 0 : left < t->share.n_rows ? (int32_t)left : t->share.n_rows;
    clef_status s = write_rows(t, r, here ? (int32_t)from : 0, here, err);
    if (!s)
        s = write_random(t, clef_trainer_step(t->trainer) + 1, part, err);
    return s ? s : clef_trainer_add(t->trainer, err);
}

clef_status clef_model_trainer_step(clef_model_trainer *t, const clef_rows *r, int32_t n,
                                    clef_train_result *out, clef_error *err)
{
    const int32_t first = t->share.first_part, n_parts = (n + t->opts.n_rows - 1) / t->opts.n_rows;
    clef_status s = check_rows(t, r, n, t->opts.n_rows * t->opts.n_parts, err);
    const int64_t n_labels = s ? 0 : count_labels(t, r, n);
    const float weight = n_labels ? (float)(1.0 / (double)n_labels) : 0;
    if (!s && !n_labels)
        s = clef__fail(err, CLEF_E_ARG, "training: a step in which no token has a label");
    if (!s)
        s = clef_trainer_write(t->trainer, "loss_weight", &weight, sizeof weight, err);
    for (int32_t i = first; i < first + t->share.n_parts && !s; i++)
        if (i < n_parts || i == first) /* a rank without rows adds zeros */
            s = add_part(t, r, n, i, err);
    return s ? s : clef_trainer_update(t->trainer, out, err);
}

/* The sum over the ranks of what each has evaluated. */
static clef_status join_losses(clef_model_trainer *t, double *sum, clef_error *err)
{
    return t->share.n_ranks > 1 ? clef_ranks_sum(t->opts.optimizer.ranks, sum, 1, err) : CLEF_OK;
}

clef_status clef_model_trainer_evaluate(clef_model_trainer *t, const clef_rows *r, int32_t n, double *sum,
                                        int64_t *n_labels, clef_error *err)
{
    const float one = 1;
    const int32_t each = (n + t->share.n_ranks - 1) / t->share.n_ranks, from = t->share.rank * each,
                  here = n - from < each ? n - from : each;
    clef_status s = check_rows(t, r, n, clef_model_trainer_n_at_once(t), err);
    *sum = 0;
    *n_labels = s ? 0 : count_labels(t, r, n);
    if (!s)
        s = clef_trainer_write(t->trainer, "loss_weight", &one, sizeof one, err);
    if (!s && here > 0)
        s = write_rows(t, r, from, here, err);
    if (!s && here > 0)
        s = clef_trainer_evaluate(t->trainer, sum, err);
    return s ? s : join_losses(t, sum, err);
}
