/* The encoder of pictures of a model: alone, or beside a model of texts in the same folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/arch.h"
#include "model/open/model.h"

clef_status clef__read_vision_config(clef_model *m, const json_t *config, const char *file, clef_error *err)
{
    const json_t *inner = json_object_get(config, "vision_config");
    char name[600];
    if (!json_is_object(inner))
        return CLEF_OK;
    m->vision = calloc(1, sizeof *m->vision);
    m->vision_error = calloc(1, sizeof *m->vision_error);
    if (!m->vision || !m->vision_error)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", file);
    snprintf(name, sizeof name, "%.500s: vision_config", file);
    clef_status status = clef__config_from_json(inner, NULL, name, m->vision, m->vision_error);
    const clef_arch *arch = clef__arch_find(m->vision->arch, 0);
    if (status == CLEF_OK && !arch->pictures)
        status = clef__fail(m->vision_error, CLEF_E_UNSUPPORTED, "%s: %s is not an encoder of pictures", name,
                            m->vision->arch);
    if (status != CLEF_OK) {
        free(m->vision);
        m->vision = NULL;
    }
    return CLEF_OK;
}

clef_status clef__find_tower(clef_model *m, clef_error *err)
{
    char end[CLEF_WEIGHT_NAME_BYTES];
    if (!m->vision)
        return CLEF_OK;
    const clef_arch *arch = clef__arch_find(m->vision->arch, 0);
    const size_t n_prefix = strlen(arch->hf_prefix);
    clef__weight_name(arch, &arch->weights, CLEF_W_PATCHES, 0, -1, "weight", end);
    const char *own = end + (strncmp(end, arch->hf_prefix, n_prefix) == 0 ? n_prefix : 0);
    for (int32_t i = 0; i < m->n_tensors; i++) {
        const char *name = m->tensors[i].name;
        const size_t n = strlen(name), n_own = strlen(own);
        if (n < n_own || strcmp(name + n - n_own, own) != 0)
            continue;
        m->tower_prefix = calloc(1, n - n_own + 1);
        if (!m->tower_prefix)
            return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", m->path);
        memcpy(m->tower_prefix, name, n - n_own);
        return CLEF_OK;
    }
    clef__fail(m->vision_error, CLEF_E_NOT_FOUND, "%s: the weight %s is missing", m->path, end);
    free(m->vision);
    m->vision = NULL;
    return CLEF_OK;
}

void clef__vision_finish(clef_model *m)
{
    free(m->vision);
    free(m->vision_error);
    free(m->tower_prefix);
}

const clef_hparams *clef_model_pictures(const clef_model *model, const char **why)
{
    const clef_arch *arch = clef__arch_find(model->hparams.arch, model->is_gguf);
    if (why)
        *why = model->vision_error && model->vision_error->text[0] ? model->vision_error->text
                                                                   : "it has no encoder of pictures";
    return arch && arch->pictures ? &model->hparams : model->vision;
}
