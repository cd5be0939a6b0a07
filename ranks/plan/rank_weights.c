/* How a rank opens the weights that rank 0 has named (clef_model_weights_name()). */
#include <stdlib.h>
#include <string.h>

#include "clef/ranks.h"
#include "graph/fail.h"
#include "model/open/fingerprint.h"
#include "model/open/lora.h"
#include "model/open/model.h"

enum { MOST_LORAS = 64 };

typedef struct opened {
    clef_model *model;
    clef_lora *loras[MOST_LORAS];
    int32_t n;
    clef_lora_set *set;
} opened;

static void close_weights(void *user)
{
    opened *o = user;
    clef_lora_set_destroy(o->set);
    for (int32_t i = 0; i < o->n; i++)
        clef_lora_close(o->loras[i]);
    clef_model_close(o->model);
    free(o);
}

static clef_status open_lora(opened *o, const char *line, clef_error *err)
{
    char *path;
    const float scale = strtof(line, &path);
    if (o->n == MOST_LORAS || *path != ' ')
        return clef__fail(err, CLEF_E_FORMAT, "'%.200s': expected the scale and the path of an adapter",
                          line);
    const clef_status s = clef_lora_open(path + 1, o->model, scale, &o->loras[o->n], err);
    o->n += !s;
    return s;
}

/* Opens what the lines of `text` name; each line ends with a NUL, and there are `n` of them. */
static clef_status open_lines(opened *o, const char *digest, const char *path, clef_error *err)
{
    char own[CLEF__DIGEST_CHARS + 1];
    const clef_status s = clef_model_open(path, &o->model, err);
    if (s)
        return s;
    clef__model_quick_digest(o->model, own);
    return strcmp(own, digest) == 0
               ? CLEF_OK
               : clef__fail(err, CLEF_E_ARG,
                            "%s: this file differs from that of rank 0 (fingerprint %.12s, there %.12s)",
                            path, own, digest);
}

static clef_status open_all(opened *o, char *text, clef_error *err)
{
    char *path = strchr(text, '\n'), *next = path ? strchr(path + 1, '\n') : NULL;
    if (!path)
        return clef__fail(err, CLEF_E_FORMAT, "'%.200s': expected a fingerprint and a path", text);
    *path++ = 0;
    if (next)
        *next++ = 0;
    clef_status s = open_lines(o, text, path, err);
    while (next && !s) {
        char *line = next;
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        s = open_lora(o, line, err);
    }
    return s || !o->n
               ? s
               : clef_lora_set_create(o->model, (const clef_lora *const *)o->loras, o->n, &o->set, err);
}

clef_status clef_model_open_for_rank(void *user, const char *name, clef_ranks_weights *out, clef_error *err)
{
    (void)user;
    opened *o = calloc(1, sizeof *o);
    char *text = malloc(strlen(name) + 1);
    clef_status s = o && text ? open_all(o, strcpy(text, name), err)
                              : clef__fail(err, CLEF_E_NOMEM, "no memory for the weights of this rank");
    free(text);
    if (s) {
        if (o)
            close_weights(o);
        return s;
    }
    *out = (clef_ranks_weights){.weights = o->set ? clef_lora_set_weight : clef_model_weight,
                                .release = o->set ? clef_lora_set_release : clef_model_release,
                                .user = o->set ? (void *)o->set : (void *)o->model,
                                .close = close_weights,
                                .close_user = o};
    return CLEF_OK;
}
