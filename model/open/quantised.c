/* Finds the matrices of a quantised folder, and keeps those that are in memory. */
#include "model/open/quantised.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/arch.h"
#include "model/open/joined.h"
#include "model/open/model.h"
#include "runtime/os/os.h"

enum { LARGE_BYTES = 2 << 20, MAX_CONFIG_BYTES = 16 << 20, NAME_BYTES = 256 };

/* ---- configuration --------------------------------------------------------------------------- */

static clef_status load_beside(const clef_model *m, const char *name, json_t **out, clef_error *err)
{
    char path[4096];
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/%s", m->path, name) >= (int)sizeof path || !clef__os_is_file(path))
        return CLEF_OK;
    return clef__json_load(path, MAX_CONFIG_BYTES, out, err);
}

clef_status clef__quantised_beside(clef_model *m, clef_error *err)
{
    json_t *modelopt = NULL, *gptq = NULL;
    if (!json_is_object(m->config) || clef__packed_object(m->config))
        return CLEF_OK;
    clef_status status = load_beside(m, "hf_quant_config.json", &modelopt, err);
    if (status == CLEF_OK && !modelopt)
        status = load_beside(m, "quantize_config.json", &gptq, err);
    json_t *object = modelopt ? json_object_get(modelopt, "quantization") : gptq;
    if (json_is_object(object) &&
        (json_object_set_new(object, "quant_method", json_string(modelopt ? "modelopt" : "gptq")) != 0 ||
         json_object_set(m->config, "quantization_config", object) != 0))
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its configuration", m->path);
    json_decref(modelopt);
    json_decref(gptq);
    return status;
}

int clef__is_quantised(const clef_model *m)
{
    const json_t *object = m->is_gguf ? NULL : clef__packed_object(m->config);
    const char *method = json_string_value(json_object_get(object, "quant_method"));
    const clef_arch *arch = object ? clef__arch_find(m->hparams.arch, 0) : NULL;
    const char *own = arch ? arch->packed : NULL; /* a folder that is looked at may be of no known family */
    return object && !(own && method && strcmp(own, method) == 0);
}

/* ---- the parts of a matrix ------------------------------------------------------------------- */

typedef struct finding {
    clef_model *m;
    clef__packed_config config;
    clef__packed *list;
    size_t n, capacity;
    const char **consumed; /* names of tensors that matrices are made of, or that change nothing */
    size_t n_consumed, consumed_capacity;
    clef_error *err;
} finding;

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static clef_status no_memory(const finding *f)
{
    return clef__fail(f->err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors", f->m->path);
}

static clef__packed_part find_part(const clef_model *m, const char *base, const char *end)
{
    char name[NAME_BYTES];
    if (!end || snprintf(name, sizeof name, "%s%s", base, end) >= (int)sizeof name)
        return (clef__packed_part){0};
    for (size_t i = 0; i < m->n_shards; i++) {
        const int32_t at = clef__safetensors_find(&m->shards[i], name);
        if (at >= 0)
            return (clef__packed_part){&m->shards[i].tensors[at], m->shards[i].stored[at]};
    }
    return (clef__packed_part){0};
}

static clef_status consume(finding *f, clef__packed_part part)
{
    if (!part.info)
        return CLEF_OK;
    if (f->n_consumed == f->consumed_capacity) {
        const size_t capacity = 2 * f->consumed_capacity + 64;
        const char **grown = realloc(f->consumed, capacity * sizeof *grown);
        if (!grown)
            return no_memory(f);
        f->consumed = grown;
        f->consumed_capacity = capacity;
    }
    f->consumed[f->n_consumed++] = part.info->name;
    return CLEF_OK;
}

static clef_status consume_all(finding *f, const clef__packed *p, const char *base)
{
    clef_status status = CLEF_OK;
    for (int i = 0; i < CLEF__N_PACKED_PARTS && !status; i++)
        status = consume(f, p->parts[i]);
    for (size_t i = 0; i < sizeof p->layout->ignored / sizeof *p->layout->ignored && !status; i++)
        status = consume(f, find_part(f->m, base, p->layout->ignored[i]));
    return status;
}

/* Leaves of a matrix the rows that the family's rule names. */
static clef_status take_rows(finding *f, clef__packed *p, const clef_join_rule *rule)
{
    const int n = (int)(strlen(p->name) - strlen(rule->of));
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s%s", n, p->name, rule->to);
    if (p->n_rows % rule->step || strlen(name) >= sizeof p->name)
        return clef__fail(f->err, CLEF_E_SHAPE,
                          "%s: tensor %s has %" PRId64 " rows, of which %s cannot be made", f->m->path,
                          p->name, p->n_rows, name);
    strcpy(p->name, name);
    p->n_rows /= rule->step;
    p->first_row = rule->first * p->n_rows;
    return CLEF_OK;
}

/* The matrix whose codes are `codes`, by a layout; with a rule, a part of its rows. */
static clef_status add_matrix(finding *f, const clef__packed_layout *layout, const char *base,
                              clef__packed_part codes, const clef_join_rule *rule)
{
    if (f->n == f->capacity) {
        const size_t capacity = 2 * f->capacity + 64;
        clef__packed *grown = realloc(f->list, capacity * sizeof *grown);
        if (!grown)
            return no_memory(f);
        f->list = grown;
        f->capacity = capacity;
    }
    clef__packed *p = &f->list[f->n];
    *p = (clef__packed){.layout = layout, .factor = 1, .block_rows = 1};
    if (snprintf(p->name, sizeof p->name, "%s.weight", base) >= (int)sizeof p->name)
        return clef__fail(f->err, CLEF_E_LIMIT, "%s: the name of tensor %.80s... is too long", f->m->path,
                          base);
    p->parts[CLEF__PACKED_CODES] = codes;
    f->n++;
    for (int i = 0; i < CLEF__N_PACKED_PARTS; i++) {
        if (!layout->parts[i])
            continue;
        p->parts[i] = find_part(f->m, base, layout->parts[i]);
        if (!p->parts[i].info && !(layout->optional >> i & 1))
            return clef__fail(f->err, CLEF_E_NOT_FOUND,
                              "%s: the tensor %s%s is missing, expected it beside %s", f->m->path, base,
                              layout->parts[i], codes.info->name);
    }
    clef_status status = layout->shape(p, &f->config, f->m->path, f->err);
    if (!status && rule)
        status = take_rows(f, p, rule);
    if (!status)
        status = clef__packed_choose(p, f->m->path, f->err);
    if (!status && p->order && strstr(p->name, ".experts."))
        status = clef__fail(f->err, CLEF_E_UNSUPPORTED,
                            "%s: %s has columns in another order, or that fill no blocks, which is not "
                            "supported for experts",
                            f->m->path, p->name);
    return status ? status : consume_all(f, p, base);
}

/* The matrix, or the matrices that the family makes of its rows. */
static clef_status add_matrices(finding *f, const clef__packed_layout *layout, const char *base,
                                clef__packed_part codes)
{
    char name[NAME_BYTES + 8];
    int found = 0;
    clef_status status = CLEF_OK;
    snprintf(name, sizeof name, "%s.weight", base);
    for (const clef_join_rule *r = clef__arch_find(f->m->hparams.arch, 0)->joins; r && r->join && !status;
         r++)
        if (r->join == &clef__join_rows && ends_with(name, r->of)) {
            status = add_matrix(f, layout, base, codes, r);
            found = 1;
        }
    return found ? status : add_matrix(f, layout, base, codes, NULL);
}

/* Adds a matrix if the tensor has codes of the method. */
static clef_status look_at(finding *f, clef__packed_part codes)
{
    const clef__packed_layout *first = NULL;
    char base[NAME_BYTES];
    for (const clef__packed_layout *const *l = clef__packed_layouts; *l; l++) {
        if (strcmp((*l)->method, f->config.method) != 0 || (*l)->type != codes.type ||
            !ends_with(codes.info->name, (*l)->codes))
            continue;
        if (snprintf(base, sizeof base, "%.*s", (int)(strlen(codes.info->name) - strlen((*l)->codes)),
                     codes.info->name) >= (int)sizeof base)
            return clef__fail(f->err, CLEF_E_LIMIT, "%s: the name of tensor %.80s... is too long", f->m->path,
                              codes.info->name);
        const int has_scales = find_part(f->m, base, (*l)->parts[CLEF__PACKED_SCALES]).info != NULL,
                  has_factor = !(*l)->parts[CLEF__PACKED_FACTOR] ||
                               find_part(f->m, base, (*l)->parts[CLEF__PACKED_FACTOR]).info;
        if (has_scales && has_factor)
            return add_matrices(f, *l, base, codes);
        first = first ? first : *l;
    }
    return first ? add_matrices(f, first, base, codes) : CLEF_OK;
}

static clef_status find_matrices(finding *f)
{
    clef_status status = CLEF_OK;
    for (size_t s = 0; s < f->m->n_shards; s++)
        for (int32_t i = 0; i < f->m->shards[s].n_tensors && !status; i++)
            status = look_at(f, (clef__packed_part){&f->m->shards[s].tensors[i], f->m->shards[s].stored[i]});
    return status;
}

/* The matrices of experts become one weight, so they have one format. */
static clef_status unify_experts(finding *f)
{
    int differ = 0;
    clef_status status = CLEF_OK;
    for (size_t i = 0; i < f->n; i++)
        differ |= strstr(f->list[i].name, ".experts.") && f->list[i].dtype == f->list[i].general;
    for (size_t i = 0; i < f->n && differ && !status; i++)
        if (strstr(f->list[i].name, ".experts.") && f->list[i].dtype != f->list[i].general)
            status = clef__packed_generalize(&f->list[i], f->m->path, f->err);
    return status;
}

/* ---- the list of tensors --------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    return (x > y) - (x < y);
}

static int is_consumed(const finding *f, const clef_tensor_info *t)
{
    static const char *const of_caches[] = {".k_scale",    ".v_scale",  ".q_scale",
                                            ".prob_scale", ".kv_scale", ".output_scale"};
    for (size_t i = 0; i < sizeof of_caches / sizeof *of_caches; i++)
        if (ends_with(t->name, of_caches[i]))
            return 1;
    return f->n_consumed &&
           bsearch(&t->name, f->consumed, f->n_consumed, sizeof *f->consumed, by_address) != NULL;
}

static clef_tensor_info matrix_of(const clef__packed *p)
{
    return (clef_tensor_info){.name = p->name,
                              .dtype = p->dtype,
                              .rank = 2,
                              .dims = {p->n_rows, p->n_stored},
                              .n_bytes = clef__packed_bytes(p)};
}

/* A vector beside the matrix, with a name of its own. */
static void add_beside(clef_model *m, const clef__packed *p, char *name, const char *end, clef_dtype dtype,
                       int64_t n, const void *data)
{
    const size_t base = strlen(p->name) - strlen(".weight");
    memcpy(name, p->name, base);
    strcpy(name + base, end);
    const int is_order = dtype == CLEF_I32;
    m->tensors[m->n_tensors++] = (clef_tensor_info){.name = name,
                                                    .dtype = dtype,
                                                    .rank = is_order ? 3 : 1,
                                                    .dims = {is_order ? 1 : n, 1, n},
                                                    .n_bytes = 4 * (uint64_t)n,
                                                    .data = data};
}

static clef_status replace_tensors(finding *f)
{
    clef_model *m = f->m;
    const int32_t n = m->n_tensors;
    clef_tensor_info *grown = realloc(m->tensors, ((size_t)n + 3 * f->n + 1) * sizeof *grown);
    if (!grown)
        return no_memory(f);
    m->tensors = grown;
    m->n_tensors = 0;
    if (f->n_consumed)
        qsort(f->consumed, f->n_consumed, sizeof *f->consumed, by_address);
    for (int32_t i = 0; i < n; i++) {
        const clef_tensor_info t = grown[i];
        if (is_consumed(f, &t))
            continue;
        if (t.dtype == CLEF_N_DTYPES)
            return clef__fail(f->err, CLEF_E_UNSUPPORTED,
                              "%s: tensor %s has a dtype that no weight of %s has there", m->path, t.name,
                              f->config.method);
        grown[m->n_tensors++] = t;
    }
    for (size_t i = 0; i < m->n_packed; i++) {
        clef__packed *p = &m->packed[i];
        m->tensors[m->n_tensors++] = matrix_of(p);
        if (p->factor != 1)
            add_beside(m, p, p->factor_name, ".scale", CLEF_F32, 1, &p->factor);
        if (p->order)
            add_beside(m, p, p->order_name, ".order", CLEF_I32, p->n_stored, p->order);
    }
    return CLEF_OK;
}

clef_status clef__quantised_find(clef_model *m, clef_error *err)
{
    finding f = {.m = m, .err = err};
    if (!clef__is_quantised(m))
        return CLEF_OK;
    clef_status status = clef__packed_read_config(clef__packed_object(m->config), m->path, &f.config, err);
    if (!status)
        status = find_matrices(&f);
    if (!status)
        status = unify_experts(&f);
    m->packed = f.list;
    m->n_packed = f.n;
    if (!status)
        status = replace_tensors(&f);
    free(f.consumed);
    return status;
}

/* ---- in memory ------------------------------------------------------------------------------- */

clef__packed *clef__packed_of(const clef_model *m, const clef_tensor_info *t)
{
    const uintptr_t at = (uintptr_t)t->name - (uintptr_t)m->packed;
    clef__packed *p = m->n_packed && at / sizeof *p < m->n_packed ? &m->packed[at / sizeof *p] : NULL;
    return p && p->name == t->name ? p : NULL;
}

int clef__is_beside_packed(const clef_model *m, const clef_tensor_info *t)
{
    const clef_tensor_info *first = clef__joined_part(m, t, 0); /* of the experts' */
    const uintptr_t at = (uintptr_t)(first ? first : t)->name - (uintptr_t)m->packed;
    return at / sizeof *m->packed < m->n_packed && !clef__packed_of(m, first ? first : t);
}

static void free_data(clef__packed *p)
{
    if (p->memory && clef__packed_bytes(p) >= LARGE_BYTES)
        clef__os_free_large(p->memory, (size_t)clef__packed_bytes(p));
    else
        free(p->memory);
    p->memory = NULL;
}

const void *clef__packed_data(clef_model *m, clef__packed *p)
{
    const size_t n = (size_t)clef__packed_bytes(p);
    if (m->packed_idle == p)
        m->packed_idle = NULL;
    if (p->memory)
        return p->memory;
    if (m->packed_idle)
        free_data(m->packed_idle);
    m->packed_idle = NULL;
    p->memory = n >= LARGE_BYTES ? clef__os_alloc_large(n) : malloc(n + 1);
    if (p->memory && !clef__packed_write(p, p->memory))
        free_data(p);
    clef__forget_data(m, p->parts[CLEF__PACKED_CODES].info); /* the copy makes the file's pages unnecessary */
    return p->memory;
}

void clef__packed_done(clef_model *m, clef__packed *p)
{
    if (clef__arch_find(m->hparams.arch, m->is_gguf)->kind == CLEF_SEQ2SEQ) /* its two plans share weights */
        return;
    if (m->packed_idle && m->packed_idle != p)
        free_data(m->packed_idle);
    m->packed_idle = p;
}

void clef__packed_finish(clef_model *m)
{
    for (size_t i = 0; i < m->n_packed; i++) {
        free_data(&m->packed[i]);
        free(m->packed[i].order);
        free(m->packed[i].own_scales);
    }
    free(m->packed);
}
