/* The plan of a batch: the size of its pool, its inputs, and copies within its states. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clef/ranks.h"
#include "graph/fail.h"
#include "graph/value.h"
#include "model/batch/batch.h"
#include "model/open/arch.h"
#include "model/open/config.h"
#include "runtime/plan/bounded.h"

/* ---- the pool ---------------------------------------------------------------------------------- */

static int is_pool(const clef_value *v)
{
    return v->role == CLEF__STATE_KEYS || v->role == CLEF__STATE_VALUES;
}

/* Bytes of one page in all layers (sliding ones are counted, too), and the largest of one layer. */
static void page_bytes(const clef_graph *g, uint64_t *all, uint64_t *largest)
{
    *all = *largest = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        if (!is_pool(v))
            continue;
        const uint64_t bytes = (uint64_t)clef__bytes(v, NULL) / (uint64_t)v->shape.dim[0].n;
        *all += bytes;
        *largest = bytes > *largest ? bytes : *largest;
    }
}

static uint64_t weight_bytes(const clef_model *model)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < clef_model_n_tensors(model); i++)
        sum += clef_model_tensor(model, i).n_bytes;
    return sum;
}

uint64_t clef__batch_device_bytes(const clef_batch *b)
{
    return weight_bytes(b->model) + (uint64_t)b->stats.n_pages * b->stats.page_bytes;
}

/* The most pages that half of the memory beside the weights holds, and that no buffer's limit forbids. */
static int64_t pages_in_memory(const clef_batch *b, uint64_t all, uint64_t largest)
{
    const clef_caps *caps = &clef_device_describe(b->dev)->caps;
    const uint64_t weights = weight_bytes(b->model) + b->beside_bytes +
                             (b->opts.draft ? weight_bytes(b->opts.draft) : 0),
                   memory = caps->global_bytes > weights ? (caps->global_bytes - weights) / 2 : 0;
    uint64_t n = all ? memory / all : INT32_MAX;
    if (largest && caps->max_alloc_bytes / largest < n)
        n = caps->max_alloc_bytes / largest;
    return n < INT32_MAX ? (int64_t)n : INT32_MAX;
}

/* Pages of sliding layers: what each sequence sees and writes in a step, and as much again for later
 * prompts. */
static int32_t sliding_pages(const clef_batch *b)
{
    const int64_t each = (b->hp->sliding_window + b->opts.step_tokens) / KV_BLOCK + 2,
                  n = 2 * each * b->opts.max_sequences;
    return n < b->build.n_pages ? (int32_t)n : b->build.n_pages;
}

/* The layer that predicts further tokens has pages of the same numbers. */
static clef_status add_further_bytes(clef_batch *b, clef_error *err)
{
    clef_build_opts build = b->build;
    clef_graph *g;
    uint64_t all, largest;
    build.mtp = CLEF_MTP_LAYER;
    const clef_status status = clef_model_build(b->model, &build, &g, err);
    if (status)
        return status;
    page_bytes(g, &all, &largest);
    b->stats.page_bytes += all;
    clef_graph_destroy(g);
    return CLEF_OK;
}

static clef_status size_pool(clef_batch *b, clef_error *err)
{
    clef_graph *g;
    uint64_t largest;
    const int64_t asked = (b->opts.kv_tokens + KV_BLOCK - 1) / KV_BLOCK,
                  most = (int64_t)b->n_each * b->opts.max_sequences;
    b->build.n_pages = 1;
    clef_status status = clef_model_build(b->model, &b->build, &g, err);
    if (status)
        return status;
    page_bytes(g, &b->stats.page_bytes, &largest);
    clef_graph_destroy(g);
    status = b->opts.mtp ? add_further_bytes(b, err) : CLEF_OK;
    if (status)
        return status;
    const int64_t fit = pages_in_memory(b, b->stats.page_bytes, largest), n = asked        ? asked
                                                                              : fit < most ? fit
                                                                                           : most;
    if (n < 1 || n > INT32_MAX / KV_BLOCK)
        return clef__fail(err, CLEF_E_LIMIT, "a pool of %" PRId64 " positions, expected %d (a page) to %d",
                          n * KV_BLOCK, KV_BLOCK, INT32_MAX);
    /* On the device there is a page for each sequence, whatever the bookkeeping gives away. */
    b->build.n_pages = n < b->opts.max_sequences ? b->opts.max_sequences : (int32_t)n;
    b->build.n_sliding_pages = sliding_pages(b);
    b->stats.n_pages = (int32_t)n;
    b->stats.kv_tokens = n * KV_BLOCK;
    return CLEF_OK;
}

/* ---- plans ------------------------------------------------------------------------------------- */

clef_status clef__batch_plan(const clef_batch *b, const clef_build_opts *build, clef_plan **out,
                             clef_error *err)
{
    const int is_encoder = build->part == CLEF_PART_ENCODER;
    clef_lora_set *loras = b->opts.loras;
    clef_graph *g;
    clef_status status = clef_model_build(b->model, build, &g, err);
    if (status)
        return status;
    status = clef_graph_error(g, err);
    if (!status)
        status = clef_graph_optimize(g, NULL, err);
    if (!status && !is_encoder)
        status = clef__bound_rows(b->dev, g, "B", CLEF__LEAST_ROWS, err);
    if (!status)
        status =
            clef_plan_create(b->dev, g,
                             &(clef_plan_opts){.compile = b->opts.compile,
                                               .describe_only = b->opts.describe_only,
                                               .batch_invariant = b->opts.repeatable,
                                               .weights = loras ? clef_lora_set_weight : clef_model_weight,
                                               .release = loras ? clef_lora_set_release : clef_model_release,
                                               .weights_name = clef_model_weights_name(b->model, loras),
                                               .weights_user = loras ? (void *)loras : (void *)b->model},
                             out, err);
    clef_graph_destroy(g);
    return status;
}

/* 1 if the shape of a value depends on the symbol. */
static int uses_symbol(const clef_graph *g, int32_t symbol)
{
    for (int32_t i = 0; i < g->n_values; i++)
        for (int32_t d = 0; d < g->values[i]->shape.rank; d++)
            if (g->values[i]->shape.dim[d].symbol == symbol)
                return 1;
    return 0;
}

static void look_up(clef_batch *b)
{
    b->io = clef__plan_io_of(b->plan);
    if (b->io.S && !uses_symbol(clef_plan_graph(b->plan), b->io.S))
        b->io.S = 0;
}

/* The pages of slot i's source are i n .. i n + n - 1. */
static clef_status write_source_pages(clef_batch *b, clef_error *err)
{
    size_t n = clef_plan_input_bytes(b->plan, b->io.source_pages, NULL, NULL) / sizeof(int32_t);
    int32_t *pages = malloc(n * sizeof *pages);
    if (!pages)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %zu page numbers", n);
    for (size_t i = 0; i < n; i++)
        pages[i] = (int32_t)i;
    const clef_status s = clef_plan_write(b->plan, b->io.source_pages, pages, n * sizeof *pages, err);
    free(pages);
    return s;
}

static clef_status list_source_states(clef_batch *b, clef_error *err)
{
    batch_encoder *e = &b->encoder;
    e->n_states = clef__plan_states(b->plan, NULL, 0);
    free(e->states);
    free(e->outputs);
    e->states = malloc(((size_t)e->n_states + 1) * sizeof *e->states);
    e->outputs = malloc(((size_t)e->n_states + 1) * sizeof *e->outputs);
    if (!e->states || !e->outputs)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d states", e->n_states);
    clef__plan_states(b->plan, e->states, e->n_states);
    for (int32_t i = 0; i < e->n_states; i++)
        e->outputs[i] = clef_plan_output(e->plan, e->states[i].value->name);
    return CLEF_OK;
}

static clef_status make_encoder(clef_batch *b, clef_error *err)
{
    batch_encoder *e = &b->encoder;
    const clef_build_opts opts = {.n_context = b->opts.n_source,
                                  .n_batch = b->opts.n_source,
                                  .n_sequences = 1,
                                  .loras = b->opts.loras,
                                  .part = CLEF_PART_ENCODER};
    const size_t row = (size_t)b->hp->n_heads * (size_t)b->hp->head_dim * sizeof *e->rows;
    clef_status s = clef__batch_plan(b, &opts, &e->plan, err);
    if (!s)
        s = list_source_states(b, err);
    if (s)
        return s;
    e->io = clef__plan_io_of(e->plan);
    e->rows_bytes = (size_t)b->opts.n_source * row;
    e->page_bytes = KV_BLOCK * row;
    if (!e->rows)
        e->rows = malloc(e->rows_bytes);
    if (!e->page)
        e->page = calloc(1, e->page_bytes);
    if (!e->rows || !e->page)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a source of %d tokens", b->opts.n_source);
    return b->opts.describe_only || b->io.source_pages < 0 ? CLEF_OK : write_source_pages(b, err);
}

clef_status clef__batch_open(clef_batch *b, clef_error *err)
{
    clef_status s = b->build.n_pages ? CLEF_OK : size_pool(b, err);
    if (!s)
        s = clef__batch_plan(b, &b->build, &b->plan, err);
    if (s)
        return s;
    look_up(b);
    int64_t bound = b->opts.step_tokens;
    clef_graph_symbol(clef_plan_graph(b->plan), b->io.B, &bound);
    if (bound < b->opts.step_tokens) /* the host's rows were made for no more */
        b->opts.step_tokens = (int32_t)bound;
    b->n_states = clef__plan_states(b->plan, NULL, 0);
    free(b->states);
    b->states = malloc(((size_t)b->n_states + 1) * sizeof *b->states);
    if (!b->states)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d states", b->n_states);
    clef__plan_states(b->plan, b->states, b->n_states);
    b->rows.tables_changed = 1; /* the plan has none of the inputs yet */
    batch_picture_rows *p = &b->picture_rows;
    batch_input *const inputs[] = {&b->rows.ids,     &b->rows.pos,  &b->rows.source_end, &b->rows.adapter,
                                   &b->rows.samples, &b->rows.runs, &b->rows.sampling,   &b->rows.recent,
                                   &p->is_token,     &p->turns[0],  &p->turns[1],        &p->turns[2],
                                   &p->sees,         &p->sees_from};
    p->n_zeros = 0;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        inputs[i]->n_sent = 0;
    if (b->opts.mtp)
        return clef__further_open(b, err);
    return b->hp->n_decoder_layers ? make_encoder(b, err) : CLEF_OK;
}

void clef__batch_close(clef_batch *b)
{
    clef_plan_destroy(b->plan);
    clef_plan_destroy(b->encoder.plan);
    clef__further_close(b);
    b->plan = b->encoder.plan = NULL;
    b->n_states = 0;
}

/* ---- copies ------------------------------------------------------------------------------------ */

/* Copies the first n rows of each head of a page, unless the new block has its source's. */
static clef_status copy_page(const clef__plan_state *state, int32_t to, int32_t from, int32_t n,
                             clef_error *err)
{
    const uint64_t page = state->n_bytes / (uint64_t)state->value->shape.dim[0].n,
                   heads = (uint64_t)state->value->shape.dim[1].n, head = page / heads;
    clef_status s = CLEF_OK;
    for (uint64_t h = 0; h < heads && to != from && !s; h++)
        s = clef__plan_state_copy(state, (uint64_t)to * page + h * head, (uint64_t)from * page + h * head,
                                  head / KV_BLOCK * (uint64_t)n, err);
    return s;
}

static clef_status copy_pages(const clef_batch *b, const clef__plan_state *states, int32_t n,
                              const clef__page_copy *c, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < n && c->rows && !s; i++) {
        const clef_value *v = states[i].value;
        if (!is_pool(v))
            continue;
        const int slides = clef__layer_slides(b->hp, v->scope.layer);
        s = copy_page(&states[i], slides ? c->sliding_to : c->to, slides ? c->sliding_from : c->from, c->rows,
                      err);
    }
    return s;
}

clef_status clef__batch_copy(clef_batch *b, const clef__page_copy *c, clef_error *err)
{
    const clef_status s = copy_pages(b, b->states, b->n_states, c, err);
    return s ? s : copy_pages(b, b->further.states, b->further.n_states, c, err);
}

clef_status clef__batch_copy_memory(clef_batch *b, int32_t to, int32_t from, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < b->n_states && !s; i++) {
        const clef__plan_state *state = &b->states[i];
        const uint64_t bytes = state->n_bytes / (uint64_t)state->value->shape.dim[0].n;
        if (!is_pool(state->value))
            s = clef__plan_state_copy(state, (uint64_t)to * bytes, (uint64_t)from * bytes, bytes, err);
    }
    return s;
}

/* ---- sources ----------------------------------------------------------------------------------- */

/* Copies the encoder's output for state i, [1, H, n, D], to the pages of a slot [pages, H, KV_BLOCK, D]. */
static clef_status hand_over(clef_batch *b, int32_t i, int32_t slot, int32_t n, clef_error *err)
{
    batch_encoder *e = &b->encoder;
    const clef__plan_state *state = &e->states[i];
    const size_t H = (size_t)b->hp->n_heads, D = (size_t)b->hp->head_dim;
    const size_t pages = (size_t)(state->value->shape.dim[0].n / b->opts.max_sequences);
    clef_status s = clef_plan_read(e->plan, e->outputs[i], e->rows, (size_t)n * H * D * sizeof *e->rows, err);
    for (size_t page = 0; page * KV_BLOCK < (size_t)n && !s; page++) {
        const size_t first = page * KV_BLOCK,
                     rows = (size_t)n - first < KV_BLOCK ? (size_t)n - first : (size_t)KV_BLOCK;
        for (size_t h = 0; h < H; h++)
            memcpy(e->page + h * KV_BLOCK * D, e->rows + (h * (size_t)n + first) * D,
                   rows * D * sizeof *e->page);
        s = clef__plan_state_write(
            state,
            &(clef__state_rows){.offset = ((size_t)slot * pages + page) * e->page_bytes,
                                .n_rows = 1,
                                .n_bytes = e->page_bytes},
            e->page, err);
    }
    return s;
}

clef_status clef__batch_encode(clef_batch *b, const batch_sequence *sequence, clef_error *err)
{
    batch_encoder *e = &b->encoder;
    clef_status s = clef_plan_bind(e->plan, e->io.T, sequence->n_source, err);
    if (!s && e->io.adapter >= 0)
        s = clef_plan_write(e->plan, e->io.adapter, &sequence->key.adapter, sizeof sequence->key.adapter,
                            err);
    if (!s)
        s = clef_plan_write(e->plan, e->io.ids, sequence->source,
                            (size_t)sequence->n_source * sizeof(int32_t), err);
    if (!s)
        s = clef_plan_run(e->plan, err);
    for (int32_t i = 0; i < e->n_states && !s; i++)
        if (e->outputs[i] >= 0)
            s = hand_over(b, i, sequence->slot, sequence->n_source, err);
    e->ends[sequence->slot] = sequence->n_source - 1;
    return s;
}
