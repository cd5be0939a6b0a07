/* clef_imatrix_collect(): the graph of a decoder gets an output for the input of each matrix. Of matrices
 * that all tokens use it is the sum of squares over the tokens of a step; of experts it is the input itself,
 * which is summed up here by the experts that the tokens chose. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clef/gradient.h"
#include "clef/ranks.h"
#include "model/convert/imatrix.h"
#include "model/convert/quantize.h"
#include "model/plan_io.h"

enum {
    MAX_CHUNK = 512,
    MAX_STEP = 128, /* the inputs of all matrices are in memory at once */
    VISIBLE_STEP = 64
};

/* The input of one or more matrices. */
typedef struct source {
    clef_value *x, *ids;           /* ids: NULL, or the experts of each token */
    int32_t n_experts, per_choice; /* per_choice: x has a row for each chosen expert */
    size_t n_columns;
    char name[32], ids_name[32];
    double *sums, *counts; /* [n_experts, n_columns], [n_experts]; one row without experts */
} source;

typedef struct use {
    const char *weight; /* the stored tensor */
    int32_t source;
} use;

typedef struct work {
    clef_device *dev;
    clef_model *model;
    const clef_imatrix_opts *opts;
    clef_graph *graph;
    clef_plan *plan;
    clef__plan_io io;
    source *sources;
    use *uses;
    int32_t n_sources, n_uses, n_context, step;
    float *values; /* of one output */
    int32_t *chosen;
} work;

/* ---- what is summed up ----------------------------------------------------------------------- */

/* The stored tensor of which w is a view; NULL if it is computed. */
static const char *weight_of(const clef_value *w)
{
    static const char *const views[] = {"reshape", "permute", "slice", NULL};
    clef_value_info info = clef_value_describe(w);
    for (int i = 0; info.op && views[i]; i++)
        if (strcmp(info.op, views[i]) == 0) {
            w = clef_value_input(w, 0, NULL);
            info = clef_value_describe(w);
            i = -1;
        }
    return info.kind == CLEF_WEIGHT ? info.name : NULL;
}

/* The number of the source of x and ids, which is added if there is none; -1 when out of memory. */
static int32_t source_of(work *w, clef_value *x, clef_value *ids, const clef_value *weight)
{
    for (int32_t i = 0; i < w->n_sources; i++)
        if (w->sources[i].x == x && w->sources[i].ids == ids)
            return i;
    source *grown = realloc(w->sources, ((size_t)w->n_sources + 1) * sizeof *grown);
    if (!grown)
        return -1;
    w->sources = grown;
    const clef_shape shape = clef_value_describe(x).shape;
    source *s = &w->sources[w->n_sources];
    *s = (source){.x = x, .ids = ids, .n_experts = 1, .n_columns = (size_t)shape.dim[shape.rank - 1].n};
    if (ids) {
        s->n_experts = (int32_t)clef_value_describe(weight).shape.dim[0].n;
        s->per_choice = shape.rank == 4;
    }
    s->sums = calloc((size_t)s->n_experts * s->n_columns, sizeof *s->sums);
    s->counts = calloc((size_t)s->n_experts, sizeof *s->counts);
    snprintf(s->name, sizeof s->name, "imatrix.%" PRId32, w->n_sources);
    snprintf(s->ids_name, sizeof s->ids_name, "imatrix.%" PRId32 ".ids", w->n_sources);
    w->n_sources++;
    return s->sums && s->counts ? w->n_sources - 1 : -1;
}

static clef_status add_use(work *w, const clef_value *product, clef_error *err)
{
    const clef_value_info info = clef_value_describe(product);
    const int of_experts = info.op && strcmp(info.op, "expert_matmul") == 0;
    if (!of_experts && !(info.op && strcmp(info.op, "matmul") == 0))
        return CLEF_OK;
    clef_value *x = clef_value_input(product, 0, NULL), *weight = clef_value_input(product, 1, NULL);
    const char *name = weight_of(weight);
    if (!name)
        return CLEF_OK;
    use *grown = realloc(w->uses, ((size_t)w->n_uses + 1) * sizeof *grown);
    const int32_t i =
        grown ? source_of(w, x, of_experts ? clef_value_input(product, 2, NULL) : NULL, weight) : -1;
    if (grown)
        w->uses = grown;
    if (i < 0)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for an importance matrix");
    for (int32_t k = 0; k < w->n_uses; k++)
        if (w->uses[k].source == i && strcmp(w->uses[k].weight, name) == 0)
            return CLEF_OK; /* parts of one matrix */
    w->uses[w->n_uses++] = (use){name, i};
    return CLEF_OK;
}

/* The sum of squares over all dims but the last. */
static clef_value *column_sums(clef_graph *g, clef_value *x)
{
    const int32_t rank = clef_value_describe(x).shape.rank;
    return clef_sum_axes(g, clef_square(g, x), &(clef_sum_axes_opts){(1 << (rank - 1)) - 1});
}

static clef_status add_outputs(work *w, clef_error *err)
{
    const int32_t n = clef_graph_n_values(w->graph);
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < n && status == CLEF_OK; i++)
        status = add_use(w, clef_graph_value(w->graph, i), err);
    for (int32_t i = 0; i < w->n_sources && status == CLEF_OK; i++) {
        const source *s = &w->sources[i];
        if (s->ids) {
            clef_output(w->graph, s->name, clef_copy(w->graph, s->x));
            clef_output(w->graph, s->ids_name, clef_copy(w->graph, s->ids));
        } else {
            clef_output(w->graph, s->name, column_sums(w->graph, s->x));
        }
    }
    return status == CLEF_OK ? clef_graph_error(w->graph, err) : status;
}

/* ---- running --------------------------------------------------------------------------------- */

static clef_status make_plan(work *w, clef_error *err)
{
    const clef_build_opts build = {
        .n_context = w->n_context, .n_batch = w->step, .n_sequences = 1, .no_head = 1, .all_logits = 1};
    const clef_plan_opts opts = {.compile = w->opts->compile,
                                 .weights = clef_model_weight,
                                 .weights_user = w->model,
                                 .weights_name = clef_model_weights_name(w->model, NULL)};
    clef_status status = clef_model_build(w->model, &build, &w->graph, err);
    if (status == CLEF_OK)
        status = add_outputs(w, err);
    clef_graph *optimised = status == CLEF_OK ? clef_graph_clone(w->graph) : NULL;
    if (status == CLEF_OK && !optimised)
        status = clef__fail(err, CLEF_E_NOMEM, "no memory for a graph");
    if (status == CLEF_OK)
        status = clef_graph_optimize(optimised, NULL, err);
    if (status == CLEF_OK)
        status = clef_plan_create(w->dev, optimised, &opts, &w->plan, err);
    clef_graph_destroy(optimised);
    if (status == CLEF_OK)
        w->io = clef__plan_io_of(w->plan);
    return status;
}

/* Adds rows of inputs [n, n_columns] to the experts' sums. */
static void add_rows(source *s, const float *x, const int32_t *chosen, int32_t n_tokens, int32_t n_choices)
{
    for (int32_t i = 0; i < n_tokens * n_choices; i++) {
        const int32_t e = chosen[i];
        const float *row = x + (size_t)(s->per_choice ? i : i / n_choices) * s->n_columns;
        if (e < 0 || e >= s->n_experts)
            continue;
        s->counts[e]++;
        for (size_t k = 0; k < s->n_columns; k++)
            s->sums[(size_t)e * s->n_columns + k] += (double)row[k] * (double)row[k];
    }
}

static clef_status read_source(work *w, source *s, int32_t n_tokens, clef_error *err)
{
    const int32_t out = clef_plan_output(w->plan, s->name);
    int32_t rank;
    int64_t dims[CLEF_MAX_DIMS];
    const size_t n_bytes = clef_plan_output_bytes(w->plan, out, &rank, dims);
    float *values = realloc(w->values, n_bytes);
    if (!values)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for an importance matrix");
    w->values = values;
    clef_status status = clef_plan_read(w->plan, out, values, n_bytes, err);
    if (status != CLEF_OK)
        return status;
    if (!s->ids) {
        for (size_t k = 0; k < s->n_columns; k++)
            s->sums[k] += (double)values[k];
        s->counts[0] += n_tokens;
        return CLEF_OK;
    }
    const int32_t ids = clef_plan_output(w->plan, s->ids_name);
    const size_t id_bytes = clef_plan_output_bytes(w->plan, ids, &rank, dims);
    int32_t *chosen = realloc(w->chosen, id_bytes);
    if (!chosen)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for an importance matrix");
    w->chosen = chosen;
    status = clef_plan_read(w->plan, ids, chosen, id_bytes, err);
    if (status == CLEF_OK)
        add_rows(s, values, chosen, n_tokens, (int32_t)(id_bytes / sizeof *chosen) / n_tokens);
    return status;
}

static clef_status run_step(work *w, const int32_t *ids, int32_t at, int32_t n, clef_error *err)
{
    int32_t visible = (at + n + VISIBLE_STEP - 1) / VISIBLE_STEP * VISIBLE_STEP;
    visible = visible > w->n_context ? w->n_context : visible;
    clef_status status = clef_plan_bind(w->plan, w->io.T, n, err);
    if (status == CLEF_OK && w->io.S)
        status = clef_plan_bind(w->plan, w->io.S, visible, err);
    if (status == CLEF_OK)
        status = clef_plan_write(w->plan, w->io.ids, ids + at, (size_t)n * sizeof *ids, err);
    if (status == CLEF_OK && w->io.pos >= 0)
        status = clef_plan_write(w->plan, w->io.pos, &at, sizeof at, err);
    if (status == CLEF_OK)
        status = clef_plan_run(w->plan, err);
    for (int32_t i = 0; i < w->n_sources && status == CLEF_OK; i++)
        status = read_source(w, &w->sources[i], n, err);
    return status;
}

static clef_status run_chunk(work *w, const int32_t *ids, int32_t bos, clef_error *err)
{
    int32_t *own = malloc((size_t)w->n_context * sizeof *own);
    if (!own)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " tokens", w->n_context);
    memcpy(own, ids, (size_t)w->n_context * sizeof *own);
    own[0] = bos >= 0 ? bos : own[0];
    clef_status status = clef_plan_reset(w->plan, err);
    for (int32_t at = 0; at < w->n_context && status == CLEF_OK; at += w->step)
        status = run_step(w, own, at, w->n_context - at < w->step ? w->n_context - at : w->step, err);
    free(own);
    return status;
}

static clef_status run_all(work *w, const int32_t *ids, int32_t n_chunks, int32_t bos, clef_error *err)
{
    const clef_compile_opts *o = &w->opts->compile;
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < n_chunks && status == CLEF_OK; i++) {
        status = run_chunk(w, ids + (size_t)i * (size_t)w->n_context, bos, err);
        if (status == CLEF_OK && o->progress &&
            o->progress(o->progress_user, "chunks", (uint64_t)i + 1, (uint64_t)n_chunks))
            status = clef__fail(err, CLEF_E_CANCELLED, "interrupted at chunk %" PRId32 " of %" PRId32, i + 1,
                                n_chunks);
    }
    return status;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Adds a source's sums to an entry, in the order that the file's matrix has its columns. */
static clef_status fill_entry(clef_imatrix_entry *e, const source *s, const clef__quantize_item *item,
                              clef_error *err)
{
    float *sums = (float *)(uintptr_t)e->sums, *counts = (float *)(uintptr_t)e->counts;
    for (int32_t m = 0; m < s->n_experts; m++) {
        counts[m] += (float)s->counts[m];
        for (size_t k = 0; k < s->n_columns; k++) {
            const size_t from =
                item->order == CLEF_COLUMNS_MAPPED ? (size_t)item->map->source(item->hp, (int64_t)k) : k;
            const double x = s->sums[(size_t)m * s->n_columns + from];
            if (!isfinite(x))
                return clef__fail(
                    err, CLEF_E_NOT_FINITE,
                    "the input of %s: the squares of column %zu add up to %g, expected a finite "
                    "number",
                    e->name, k, x);
            sums[(size_t)m * s->n_columns + k] += (float)x;
        }
    }
    return CLEF_OK;
}

static clef_status add_entry(clef_imatrix *im, const work *w, const use *u, const clef__quantize_item *item,
                             clef_error *err)
{
    const source *s = &w->sources[u->source];
    const size_t n = (size_t)s->n_experts * s->n_columns;
    if (item->to.rank < 2 || (size_t)item->to.dims[item->to.rank - 1] != s->n_columns)
        return CLEF_OK; /* no matrix of the file */
    int32_t i = clef_imatrix_find(im, item->to.name);
    if (i < 0 && !clef__imatrix_add(im, item->to.name, strlen(item->to.name), s->n_experts, n))
        return clef__fail(err, CLEF_E_NOMEM, "no memory for an importance matrix");
    i = i < 0 ? im->n - 1 : i;
    return im->entries[i].n == n ? fill_entry(&im->entries[i], s, item, err) : CLEF_OK;
}

/* The sums under the names that a GGUF file of the model has. */
static clef_status name_sums(const work *w, clef_imatrix *im, clef_error *err)
{
    const clef__quantize_type stored = {.name = "stored", .dtype = CLEF_N_DTYPES};
    clef__quantize_plan plan = {0};
    clef_status status = clef__quantize_plan_init(w->model, &stored, &plan, err);
    for (size_t i = 0; i < plan.n_items && status == CLEF_OK; i++)
        for (int32_t k = 0; k < w->n_uses && status == CLEF_OK; k++)
            if (strcmp(plan.items[i].from->name, w->uses[k].weight) == 0)
                status = add_entry(im, w, &w->uses[k], &plan.items[i], err);
    clef__quantize_plan_finish(&plan);
    return status;
}

static void finish(work *w)
{
    for (int32_t i = 0; i < w->n_sources; i++) {
        free(w->sources[i].sums);
        free(w->sources[i].counts);
    }
    free(w->sources);
    free(w->uses);
    free(w->values);
    free(w->chosen);
    clef_plan_destroy(w->plan);
    clef_graph_destroy(w->graph);
}

static clef_status check(work *w, int32_t n, clef_error *err)
{
    const clef_hparams *hp = clef_model_hparams(w->model);
    const clef_arch *arch = clef__arch_find(hp->arch, w->model->is_gguf);
    const int32_t asked = w->opts->n_context;
    w->n_context = asked ? asked : hp->n_context < MAX_CHUNK ? hp->n_context : MAX_CHUNK;
    w->step = w->n_context < MAX_STEP ? w->n_context : MAX_STEP;
    if (arch->kind != CLEF_DECODER)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: an importance matrix: expected a decoder, got %s",
                          clef_model_path(w->model), hp->arch);
    if (w->n_context < 1 || w->n_context > hp->n_context)
        return clef__fail(err, CLEF_E_LIMIT, "%s: chunks of %" PRId32 " tokens, expected 1 to %" PRId32,
                          clef_model_path(w->model), w->n_context, hp->n_context);
    if (w->opts->n_chunks < 0)
        return clef__fail(err, CLEF_E_ARG, "%" PRId32 " chunks, expected 0 or more", w->opts->n_chunks);
    if (n < w->n_context)
        return clef__fail(err, CLEF_E_ARG,
                          "a text of %" PRId32 " tokens, expected at least a chunk of %" PRId32, n,
                          w->n_context);
    return CLEF_OK;
}

clef_status clef_imatrix_collect(clef_device *dev, clef_model *model, const int32_t *ids, int32_t n,
                                 int32_t bos, const clef_imatrix_opts *opts, clef_imatrix **out,
                                 clef_error *err)
{
    const clef_imatrix_opts none = {0};
    work w = {.dev = dev, .model = model, .opts = opts ? opts : &none};
    *out = NULL;
    clef_status status = check(&w, n, err);
    if (status != CLEF_OK)
        return status;
    int32_t n_chunks = n / w.n_context;
    n_chunks = w.opts->n_chunks && w.opts->n_chunks < n_chunks ? w.opts->n_chunks : n_chunks;
    clef_imatrix *im = calloc(1, sizeof *im);
    if (!im)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for an importance matrix");
    im->n_chunks = n_chunks;
    im->chunk_size = w.n_context;
    snprintf(im->dataset, sizeof im->dataset, "%s", w.opts->dataset ? w.opts->dataset : "");
    status = make_plan(&w, err);
    if (status == CLEF_OK)
        status = run_all(&w, ids, n_chunks, bos, err);
    if (status == CLEF_OK)
        status = name_sums(&w, im, err);
    if (status == CLEF_OK)
        *out = im;
    else
        clef_imatrix_close(im);
    finish(&w);
    return status;
}
