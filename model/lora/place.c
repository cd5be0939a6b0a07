/* The model's weight that a pair of an adapter changes: its name, its shape, the order of its rows. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/lora/read.h"
#include "model/open/arch.h"
#include "model/open/model.h"

/* The number of the layer in a module's name, which is between two dots; -1 if there is none. */
static int32_t layer_of(const char *module)
{
    for (const char *dot = strchr(module, '.'); dot; dot = strchr(dot + 1, '.')) {
        const size_t n = strspn(dot + 1, "0123456789");
        if (n > 0 && n < 6 && (dot[1 + n] == '.' || !dot[1 + n]))
            return (int32_t)strtol(dot + 1, NULL, 10);
    }
    return -1;
}

/* 1 when both name one module; a folder's adapter may have been trained on a base model without the
 * prefix. */
static int same_module(const char *wanted, const char *module, const char *prefix)
{
    const size_t n = strlen(prefix);
    if (strcmp(wanted, module) == 0)
        return 1;
    return n > 0 && strncmp(wanted, prefix, n) == 0 && strcmp(wanted + n, module) == 0;
}

/* A folder's tensor of that name, with or without the prefix of the base model. */
static const clef_tensor_info *find_in_model(const clef_model *m, const clef_arch *arch, const char *name)
{
    char longer[CLEF_WEIGHT_NAME_BYTES + 32];
    const clef_tensor_info *t = clef__model_find(m, name);
    if (t || m->is_gguf)
        return t;
    snprintf(longer, sizeof longer, "%s%s", arch->hf_prefix, name);
    return clef__model_find(m, longer);
}

/* Finds the weight through its role, whose names in both formats are known. */
static const clef_tensor_info *find_by_role(const clef_model *m, const clef_arch *arch, int32_t from_gguf,
                                            const char *module, clef__quantize_item *rows)
{
    const clef_weight_names *tables[] = {&arch->weights, &arch->decoder_weights};
    const int32_t layer = layer_of(module);
    char name[CLEF_WEIGHT_NAME_BYTES];
    for (int k = 0; k < 2; k++)
        for (int role = 0; role < CLEF_N_ROLES && tables[k]->hf; role++) {
            if (!clef__weight_name(arch, tables[k], (clef_role)role, from_gguf, layer, "", name) ||
                !same_module(name, module, from_gguf ? "" : arch->hf_prefix))
                continue;
            clef__weight_name(arch, tables[k], (clef_role)role, m->is_gguf, layer, "weight", name);
            const clef_tensor_info *t = name[0] ? find_in_model(m, arch, name) : NULL;
            clef__quantize_set_rows(m, arch, (clef_role)role, rows);
            if (t)
                return t;
        }
    return NULL;
}

static clef_status check_shape(const clef_model *m, const clef__lora_file *f, const clef__lora_pair *p,
                               clef__lora_place *out, clef_error *err)
{
    const clef_arch *arch = clef__arch_find(m->hparams.arch, m->is_gguf);
    const clef_tensor_info *t = out->weight;
    const int in_out = arch->hf_conv1d && !m->is_gguf;
    if (t->rank != 2)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: %.*s: the model's %s has %d dims, expected a matrix",
                          f->path, p->n_module, p->module, t->name, t->rank);
    const int64_t n_in = t->dims[in_out ? 0 : 1], n_out = t->dims[in_out ? 1 : 0];
    if (p->a->dims[1] != n_in || p->b->dims[0] != n_out)
        return clef__fail(
            err, CLEF_E_SHAPE,
            "%s: %.*s: A has %lld columns and B %lld rows, expected %lld and %lld, as the model's %s",
            f->path, p->n_module, p->module, (long long)p->a->dims[1], (long long)p->b->dims[0],
            (long long)n_in, (long long)n_out, t->name);
    out->n_in = (int32_t)n_in;
    out->n_out = (int32_t)n_out;
    if (out->rows.order == CLEF_COLUMNS_MAPPED || (arch->hf_scale && f->is_gguf != m->is_gguf) ||
        (out->rows.order == CLEF_ROWS_MAPPED && n_out != out->rows.map->stored(out->rows.hp)))
        return clef__fail(
            err, CLEF_E_UNSUPPORTED,
            "%s: %.*s: GGUF has the numbers of %s in another order or scale: expected an adapter in the "
            "model's own format",
            f->path, p->n_module, p->module, t->name);
    if (out->rows.order == CLEF_ROWS_MAPPED)
        return CLEF_OK;
    const int64_t heads =
        out->rows.order == CLEF_ROWS_PAIRED ? 1 : out->rows.n_heads + 2 * out->rows.n_kv_heads;
    if (out->rows.order != CLEF_ROWS_SAME &&
        (n_out % (heads * out->rows.head_dim) != 0 || out->rows.head_dim % 2))
        return clef__fail(err, CLEF_E_SHAPE, "%s: %.*s: %lld rows are not whole heads of %d", f->path,
                          p->n_module, p->module, (long long)n_out, out->rows.head_dim);
    return CLEF_OK;
}

static const clef_tensor_info *find_weight(const clef_model *m, const clef__lora_file *f, const char *module,
                                           clef__quantize_item *rows)
{
    const clef_arch *arch = clef__arch_find(m->hparams.arch, m->is_gguf);
    char name[CLEF_WEIGHT_NAME_BYTES];
    if (f->is_gguf != m->is_gguf)
        return find_by_role(m, arch, f->is_gguf, module, rows);
    snprintf(name, sizeof name, "%.170s.weight", module);
    return find_in_model(m, arch, name);
}

/* Which prefix a wrapper's text model has in PEFT's names depends on the version of transformers, and whether
 * it was trained alone. */
clef_status clef__lora_find_place(const clef_model *m, const clef__lora_file *f, const clef__lora_pair *p,
                                  clef__lora_place *out, clef_error *err)
{
    char module[CLEF_WEIGHT_NAME_BYTES], plain[CLEF_WEIGHT_NAME_BYTES];
    *out = (clef__lora_place){.rows = {.order = CLEF_ROWS_SAME}};
    if (snprintf(module, sizeof module, "%.*s", p->n_module, p->module) >= (int)sizeof module - 16)
        return clef__fail(err, CLEF_E_LIMIT, "%s: the module name %.80s... is too long", f->path, module);
    out->weight = find_weight(m, f, module, &out->rows);
    if (!out->weight && !f->is_gguf && clef__plain_text_name(module, plain, sizeof plain))
        out->weight = find_weight(m, f, plain, &out->rows);
    if (!out->weight)
        return clef__fail(
            err, CLEF_E_NOT_FOUND,
            "%s: the adapter changes %s, %s (%s) has no such weight: expected an adapter for this model",
            f->path, module, clef_model_path(m), m->hparams.arch);
    return check_shape(m, f, p, out, err);
}
