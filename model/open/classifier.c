/* What a GGUF file says of its classifier, in the form of a config.json. */
#include <stdio.h>
#include <string.h>

#include "model/open/model.h"

/* llama.cpp's list of labels, as an id2label. */
static json_t *labels_of(const clef_gguf *gguf, const char *arch)
{
    char key[96], number[16];
    snprintf(key, sizeof key, "%s.classifier.output_labels", arch);
    const clef_gguf_entry *e = clef__gguf_find(gguf, key);
    json_t *map = e && e->is_array && e->type == CLEF_GGUF_STRING ? json_object() : NULL;
    for (uint64_t i = 0; map && i < e->n; i++) {
        snprintf(number, sizeof number, "%u", (unsigned)i);
        json_object_set_new(map, number, json_stringn(e->strings[i].text, e->strings[i].n_bytes));
    }
    return map;
}

/* llama.cpp's name of what ModernBERT's classifier reads; NULL: the file has no such classifier. Without the
 * key it takes the mean. */
static const char *pooling_of(const clef_gguf *gguf, const char *arch)
{
    char key[96];
    snprintf(key, sizeof key, "%s.classifier.pooling_type", arch);
    const int64_t type =
        clef__gguf_int(gguf, key, strcmp(arch, "modern-bert") == 0 ? CLEF_GGUF_POOLING_MEAN : 0);
    return type == CLEF_GGUF_POOLING_MEAN ? "mean" : type == CLEF_GGUF_POOLING_CLS ? "cls" : NULL;
}

clef_status clef__classifier_of_gguf(clef_model *m, clef_error *err)
{
    const clef_gguf_entry *own = clef__gguf_find(&m->gguf, CLEF_KEY_CLASSIFIER);
    if (own && !own->is_array && own->type == CLEF_GGUF_STRING)
        return clef__json_parse(own->strings->text, own->strings->n_bytes, CLEF_KEY_CLASSIFIER,
                                &m->classifier, err);
    json_t *labels = labels_of(&m->gguf, m->hparams.arch);
    const char *pooling = pooling_of(&m->gguf, m->hparams.arch);
    m->classifier = labels || pooling
                        ? json_pack("{s:o*, s:s*}", "id2label", labels, "classifier_pooling", pooling)
                        : NULL;
    return CLEF_OK;
}
