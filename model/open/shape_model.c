/* clef_model_open_shape(): a model of its hyperparameters alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/config.h"
#include "model/open/declared.h"
#include "model/open/families.h"
#include "model/open/model.h"
#include "runtime/os/os.h"

enum { MAX_CONFIG_BYTES = 16 << 20 };

static int is_of_experts(clef_role role)
{
    return role == CLEF_W_ROUTER || role == CLEF_W_EXPERT_GATE || role == CLEF_W_EXPERT_UP ||
           role == CLEF_W_EXPERT_DOWN;
}

/* What the builder could do without: the router and the experts of a model that has some, and what a new
 * model of the family would have. */
static int has_weight(const void *user, clef_role role, const char *suffix)
{
    const clef_model *m = user;
    if (is_of_experts(role) && strcmp(suffix, "weight") == 0)
        return m->hparams.n_experts > 0;
    const char *type = json_string_value(json_object_get(m->config, "model_type"));
    if (type && strcmp(type, "qwen3_moe") == 0)
        type = "qwen3";
    const clef__new_family *family = type ? clef__new_family_find(type) : NULL;
    return family && family->has(m->config, role, suffix);
}

static clef_status read_config(clef_model *m, clef_error *err)
{
    char *path = malloc(strlen(m->path) + sizeof "/config.json");
    if (!path)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", m->path);
    strcpy(path, m->path);
    if (clef__os_is_dir(m->path))
        strcat(path, "/config.json");
    clef_status s = clef__json_load(path, MAX_CONFIG_BYTES, &m->config, err);
    if (!s && !json_is_object(m->config))
        s = clef__fail(err, CLEF_E_FORMAT, "%s: is %s, expected an object", path, clef__json_kind(m->config));
    if (!s)
        s = clef__unwrap_config(&m->config, path, err);
    if (!s)
        s = clef__config_from_json(m->config, NULL, path, &m->hparams, err);
    free(path);
    return s;
}

clef_status clef_model_open_shape(const char *path, clef_dtype dtype, clef_model **out, clef_error *err)
{
    clef_model *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m) {
        m->declared = calloc(1, sizeof *m->declared);
        m->path = malloc(strlen(path) + 1);
    }
    clef_status s = m && m->declared && m->path
                        ? CLEF_OK
                        : clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", path);
    if (!s) {
        strcpy(m->path, path);
        *m->declared = (clef__declared){.has = has_weight, .user = m, .matrices = dtype};
        s = read_config(m, err);
    }
    if (s)
        clef_model_close(m);
    else
        *out = m;
    return s;
}
