/* What is near a model that clef does not run: the family that has the most of its tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/open/arch.h"
#include "model/open/model.h"

enum { SEEN_LAYERS = 4 }; /* the first ones stand for all */

/* The number of the layer in a tensor's name; -1: none. */
static int32_t layer_of(const char *name)
{
    for (const char *at = name; (at = strchr(at, '.')); at++) {
        const size_t n = strspn(at + 1, "0123456789");
        if (n > 0 && n < 6 && at[1 + n] == '.')
            return (int32_t)strtol(at + 1, NULL, 10);
    }
    return -1;
}

/* Marks the tensor of that name; an expert's matrices are named by the first expert. */
static void mark(const clef_model *m, char *name, unsigned char *found)
{
    char *star = strchr(name, '*');
    if (star)
        *star = '0';
    const clef_tensor_info *t = clef__model_find(m, name);
    if (t && t >= m->tensors && t < m->tensors + m->n_tensors)
        found[t - m->tensors] = 1;
}

static int ends_with(const char *text, const char *end)
{
    const size_t n = end ? strlen(end) : 0, m = strlen(text);
    return n > 0 && m >= n && strcmp(text + m - n, end) == 0;
}

/* Marks what the family makes other weights of. */
static void mark_joined(const clef_model *m, const clef_arch *arch, unsigned char *found)
{
    for (const clef_join_rule *r = arch->joins; !m->is_gguf && r && r->join; r++)
        for (int32_t i = 0; i < m->n_tensors; i++)
            found[i] |= ends_with(m->tensors[i].name, r->of) || ends_with(m->tensors[i].name, r->with);
}

/* Marks the tensors of the first layers that the family has names for, and counts them. */
static int32_t mark_known(const clef_model *m, const clef_arch *arch, unsigned char *found)
{
    static const char *const suffixes[] = {"weight", "bias", ""};
    const clef_weight_names *tables[] = {&arch->weights, &arch->decoder_weights};
    char name[CLEF_WEIGHT_NAME_BYTES];
    int32_t n = 0;
    memset(found, 0, (size_t)m->n_tensors);
    for (int k = 0; k < 6; k++)
        for (int role = 0; role < CLEF_N_ROLES && tables[k % 2]->hf; role++)
            for (int32_t layer = -1; layer < SEEN_LAYERS; layer++)
                if (clef__weight_name(arch, tables[k % 2], (clef_role)role, m->is_gguf, layer,
                                      suffixes[k / 2], name))
                    mark(m, name, found);
    mark_joined(m, arch, found);
    for (int32_t i = 0; i < m->n_tensors; i++)
        n += found[i] && layer_of(m->tensors[i].name) < SEEN_LAYERS;
    return n;
}

/* Writes up to two of the first layers' tensors that are not marked. */
static void list_others(const clef_model *m, const unsigned char *found, char *out, size_t capacity)
{
    size_t n = 0;
    int n_listed = 0;
    out[0] = 0;
    for (int32_t i = 0; i < m->n_tensors && n_listed < 2; i++) {
        const char *name = m->tensors[i].name;
        if (found[i] || layer_of(name) >= SEEN_LAYERS || n + strlen(name) + 8 >= capacity)
            continue;
        n += (size_t)snprintf(out + n, capacity - n, "%s%s", n ? ", " : "", name);
        n_listed++;
    }
}

int clef__nearest_arch(const clef_model *m, char *out, size_t capacity)
{
    const clef_arch *best = NULL;
    int32_t most = 0, all = 0;
    char others[256];
    unsigned char *found = malloc((size_t)m->n_tensors + 1);
    for (int32_t i = 0; found && i < m->n_tensors; i++)
        all += layer_of(m->tensors[i].name) < SEEN_LAYERS;
    for (int32_t i = 0; found && clef__arch_at(i); i++) {
        const clef_arch *arch = clef__arch_at(i);
        const char *name = m->is_gguf ? arch->names[0].gguf : arch->names[0].hf;
        const int32_t n = name ? mark_known(m, arch, found) : 0;
        if (n > most) {
            most = n;
            best = arch;
        }
    }
    if (best) {
        mark_known(m, best, found);
        list_others(m, found, others, sizeof others);
        snprintf(out, capacity,
                 "the nearest family is %s, which has %d of the %d tensors in the first layers%s%s",
                 m->is_gguf ? best->names[0].gguf : best->names[0].hf, (int)most, (int)all,
                 others[0] ? "; it has no " : "", others);
    }
    free(found);
    return best != NULL;
}
