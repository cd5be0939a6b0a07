/* The table of architectures, found by the name in a file, or as the nearest of one that is not there; and
 * the names of their weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/arch.h"
#include "model/open/model.h"

static const clef_arch *const archs[] = {
#define ARCH(name) &clef__arch_##name,
#include "model/open/archs.def"
#undef ARCH
};

/* Name i of all: for each row the folder's name, then GGUF's if it differs. */
const char *clef_arch_name(int32_t i)
{
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
        for (const clef_arch_alias *n = archs[a]->names; n->hf || n->gguf; n++) {
            if (n->hf && i-- == 0)
                return n->hf;
            if (n->gguf && (!n->hf || strcmp(n->hf, n->gguf) != 0) && i-- == 0)
                return n->gguf;
        }
    return NULL;
}

const clef_arch_alias *clef__arch_alias(const clef_arch *arch, const char *name, int is_gguf)
{
    for (const clef_arch_alias *n = arch->names; n->hf || n->gguf; n++) {
        const char *known = is_gguf ? n->gguf : n->hf;
        if (known && strcmp(known, name) == 0)
            return n;
    }
    return NULL;
}

const clef_arch *clef__arch_at(int32_t i)
{
    return i >= 0 && (size_t)i < sizeof archs / sizeof *archs ? archs[i] : NULL;
}

const clef_arch *clef__arch_find(const char *name, int is_gguf)
{
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
        if (clef__arch_alias(archs[a], name, is_gguf))
            return archs[a];
    return NULL;
}

/* Appends the names that begin as this one does, and counts all of the format. */
static int32_t list_alike(const char *name, int is_gguf, char *out, size_t capacity)
{
    enum { ALIKE = 3 }; /* first letters */
    size_t n = 0;
    int32_t n_all = 0;
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
        for (const clef_arch_alias *one = archs[a]->names; one->hf || one->gguf; one++) {
            const char *text = is_gguf ? one->gguf : one->hf;
            n_all += text != NULL;
            if (text && strncmp(text, name, ALIKE) == 0 && n + strlen(text) + 2 < capacity)
                n += (size_t)snprintf(out + n, capacity - n, " %s", text);
        }
    return n_all;
}

clef_status clef__arch_unknown(const char *name, int is_gguf, const char *file, clef_error *err)
{
    char alike[512] = "";
    if (is_gguf && strcmp(name, "clef") == 0)
        return clef__fail(
            err, CLEF_E_UNSUPPORTED,
            "%s: general.architecture is clef, a decision model of llama.cpp that shares the name "
            "of this program: it is not supported",
            file);
    const int32_t n = list_alike(name, is_gguf, alike, sizeof alike);
    return clef__fail(
        err, CLEF_E_UNSUPPORTED,
        "%s: architecture %.40s is not supported%s%s (docs/models.md lists the %d names that are)", file,
        name[0] ? name : "\"\"", alike[0] ? "; names like it are:" : "", alike, (int)n);
}

/* ---- names of weights ------------------------------------------------------------------------ */

static const struct {
    const char *gguf, *value;
} roles[CLEF_N_ROLES] = {
#define ROLE(name, gguf_name, value_name) [CLEF_W_##name] = {gguf_name, value_name},
#include "model/open/roles.def"
#undef ROLE
};

const char *clef__role_value_name(clef_role role)
{
    return roles[role].value;
}

static const char *own_gguf_name(const clef_weight_names *names, clef_role role)
{
    for (const clef_gguf_name *own = names->gguf; own && own->name; own++)
        if (own->role == role)
            return own->name;
    return NULL;
}

int clef__weight_in_gguf(const clef_weight_names *names, clef_role role)
{
    return names->hf[role] != NULL || own_gguf_name(names, role) != NULL;
}

/* Joins prefix, form with its layer, and suffix, which a '/' at the end of the form omits. */
static void join_name(const char *prefix, const char *form, int32_t layer, const char *suffix,
                      char out[CLEF_WEIGHT_NAME_BYTES])
{
    const size_t capacity = CLEF_WEIGHT_NAME_BYTES;
    const char *number = strstr(form, "%d");
    if (number)
        snprintf(out, capacity, "%s%.*s%d%s", prefix, (int)(number - form), form, (int)layer, number + 2);
    else
        snprintf(out, capacity, "%s%s", prefix, form);
    const size_t n = strlen(out);
    if (n > 0 && out[n - 1] == '/')
        out[n - 1] = 0;
    else if (*suffix)
        snprintf(out + n, capacity - n, ".%s", suffix);
}

int clef__weight_name(const clef_arch *arch, const clef_weight_names *names, clef_role role, int is_gguf,
                      int32_t layer, const char *suffix, char out[CLEF_WEIGHT_NAME_BYTES])
{
    const char *hf = names->hf[role], *own = own_gguf_name(names, role);
    const char *form = is_gguf && own ? own : is_gguf ? roles[role].gguf : hf;
    const char *prefix = is_gguf ? names->gguf_prefix : role == CLEF_W_OUT ? NULL : arch->hf_prefix;
    out[0] = 0;
    if (is_gguf ? !hf && !own : !hf)
        return 0;
    if (*form == '/') {
        form++;
        prefix = NULL;
    }
    if (is_gguf && hf && !strstr(hf, "%d"))
        layer = 0;
    join_name(prefix ? prefix : "", form, layer, suffix, out);
    return 1;
}

/* ---- the family that has the most of a model's tensors -------------------------------------------- */

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
