/* clef_lora_open(): reads an adapter's matrices into the order of its model's weights. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/lora/read.h"
#include "model/open/arch.h"
#include "model/open/lora.h"
#include "model/open/model.h"

/* The row of the model's weight that row `row` of B belongs to. */
static size_t row_in_model(const clef_model *m, const clef__lora_file *f, const clef__lora_place *place,
                           size_t row, const size_t *to_gguf)
{
    if (f->is_gguf == m->is_gguf || place->rows.order == CLEF_ROWS_SAME)
        return row;
    return f->is_gguf ? clef__quantize_source_row(&place->rows, row) : to_gguf[row];
}

/* Row i of the folder's order is row out[i] of GGUF's. */
static size_t *invert_rows(const clef__lora_place *place)
{
    size_t *out = malloc((size_t)place->n_out * sizeof *out);
    for (size_t i = 0; out && i < (size_t)place->n_out; i++)
        out[clef__quantize_source_row(&place->rows, i)] = i;
    return out;
}

static clef_status read_target(const clef_model *m, const clef__lora_file *f, const clef__lora_pair *p,
                               const clef__lora_place *place, double scale, clef_lora_target_info *out,
                               clef_error *err)
{
    const size_t r = (size_t)p->a->dims[0], n_in = (size_t)place->n_in, n_out = (size_t)place->n_out;
    float *down = malloc(r * (n_in + n_out) * sizeof *down), *up = down ? down + r * n_in : NULL,
          *b = malloc(n_out * r * sizeof *b);
    size_t *to_gguf = invert_rows(place);
    clef_status status = CLEF_OK;
    *out = (clef_lora_target_info){.weight = place->weight->name,
                                   .rank = (int32_t)r,
                                   .n_in = place->n_in,
                                   .n_out = place->n_out,
                                   .down = down,
                                   .up = up};
    if (!down || !b || !to_gguf) {
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %s", f->path, place->weight->name);
        goto out;
    }
    clef_dtype_decode(p->a->dtype, p->a->data, r * n_in, down);
    clef_dtype_decode(p->b->dtype, p->b->data, n_out * r, b);
    for (size_t i = 0; i < n_out; i++) {
        const size_t row = row_in_model(m, f, place, i, to_gguf);
        for (size_t j = 0; j < r; j++)
            up[j * n_out + row] = (float)(scale * (double)b[i * r + j]);
    }
    for (size_t i = 0; i < r * (n_in + n_out) && !status; i++)
        if (!isfinite(down[i]))
            status = clef__fail(err, CLEF_E_FORMAT, "%s: %.*s has numbers that are not finite", f->path,
                                p->n_module, p->module);
out:
    free(b);
    free(to_gguf);
    return status;
}

static clef_status read_pair(clef_lora *lora, const clef__lora_file *f, const clef__lora_pair *p,
                             clef_error *err)
{
    clef__lora_place place;
    double scale = 1;
    clef_status status = clef__lora_find_place(lora->model, f, p, &place, err);
    if (!status && !f->is_gguf)
        status = clef__lora_peft_scale(f, p, &scale, err);
    if (f->is_gguf)
        scale = clef__lora_gguf_scale(f, p);
    for (int32_t i = 0; i < lora->n_targets && !status; i++)
        if (strcmp(lora->targets[i].weight, place.weight->name) == 0)
            status = clef__fail(err, CLEF_E_FORMAT, "%s: changes %s twice", f->path, place.weight->name);
    if (status)
        return status;
    return read_target(lora->model, f, p, &place, scale * (double)lora->scale,
                       &lora->targets[lora->n_targets++], err);
}

/* Refuses weights that the graph does not multiply by as a matrix of its own: embeddings, the output matrix,
 * experts. Which these are, the family's own code says. */
static clef_status check_use(const clef_lora *lora, clef_error *err)
{
    clef_model *model = (clef_model *)(uintptr_t)lora->model;
    const clef_arch *arch = clef__arch_find(model->hparams.arch, model->is_gguf);
    clef_lora_set *set = NULL;
    clef_graph *g = NULL;
    clef_status status = clef_lora_set_create(model, &lora, 1, &set, err);
    if (!status)
        status = clef_model_build(
            model, &(clef_build_opts){.no_head = arch->kind == CLEF_ENCODER, .loras = set}, &g, err);
    for (int32_t i = 0; i < lora->n_targets && !status; i++) {
        const clef__lora_stack *stack = clef__lora_stack_of(set, lora->targets[i].weight);
        if (!clef_graph_find(g, stack->down.name))
            status =
                clef__fail(err, CLEF_E_UNSUPPORTED,
                           "%s: changes %s: expected projections of attention and feed-forwards alone; an "
                           "adapter of embeddings, the output matrix or experts is not supported",
                           lora->path, lora->targets[i].weight);
    }
    clef_graph_destroy(g);
    clef_lora_set_destroy(set);
    return status;
}

clef_status clef_lora_open(const char *path, const clef_model *model, float scale, clef_lora **out,
                           clef_error *err)
{
    *out = NULL;
    if (!path || !path[0])
        return clef__fail(err, CLEF_E_ARG, "clef_lora_open: path is NULL or empty");
    if (!isfinite(scale))
        return clef__fail(err, CLEF_E_ARG, "%s: a scale of %g, expected a finite number", path,
                          (double)scale);
    clef__lora_file f = {.path = path};
    clef_lora *lora = calloc(1, sizeof *lora);
    clef_status status = CLEF_OK;
    if (lora)
        lora->path = malloc(strlen(path) + 1);
    if (!lora || !lora->path) {
        free(lora);
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", path);
    }
    strcpy(lora->path, path);
    lora->model = model;
    lora->scale = scale;
    status =
        clef__os_is_dir(path) ? clef__lora_read_peft(model, &f, err) : clef__lora_read_gguf(model, &f, err);
    if (!status) {
        lora->targets = calloc((size_t)f.n_pairs, sizeof *lora->targets);
        if (!lora->targets)
            status =
                clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its %" PRId32 " matrices", path, f.n_pairs);
    }
    for (int32_t i = 0; i < f.n_pairs && !status; i++)
        status = read_pair(lora, &f, &f.pairs[i], err);
    if (!status) {
        clef__lora_sort(lora);
        status = check_use(lora, err);
    }
    clef__lora_file_close(&f);
    if (status)
        clef_lora_close(lora);
    else
        *out = lora;
    return status;
}
