/* The name of a model's weights, under which other processes open them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/ranks.h"
#include "model/open/fingerprint.h"
#include "model/open/lora.h"
#include "model/open/model.h"

void clef__model_quick_digest(const clef_model *model, char out[CLEF__DIGEST_CHARS + 1])
{
    unsigned char bytes[CLEF_SHA256_BYTES];
    clef__model_quick_fingerprint(model, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
}

const char *clef_model_weights_name(clef_model *model, const clef_lora_set *loras)
{
    const char *adapters = clef__lora_set_sources(loras);
    const size_t room = CLEF__DIGEST_CHARS + strlen(clef_model_path(model)) + strlen(adapters) + 3;
    char digest[CLEF__DIGEST_CHARS + 1];
    if (clef_ranks_started() == 1)
        return NULL;
    free(model->weights_name);
    model->weights_name = malloc(room);
    if (!model->weights_name)
        return NULL;
    clef__model_quick_digest(model, digest);
    snprintf(model->weights_name, room, "%s\n%s%s", digest, clef_model_path(model), adapters);
    return model->weights_name;
}
