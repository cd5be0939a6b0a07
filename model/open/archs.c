/* The table of architectures, found by the name in a file, and the names of their weights. */
#include <stdio.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/arch.h"

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
