/* Hyperparameters in GGUF files under clef's own keys. */
#ifndef CLEF_MODEL_CONFIG_KEYS_H
#define CLEF_MODEL_CONFIG_KEYS_H

#include "model/open/config.h"
#include "model/file/gguf_write.h"

/** Writes all of them. */
void clef__config_put_keys(clef_gguf_writer *w, const clef_hparams *hp);
/** Reads those that the file has; the other fields of hp keep their values. hp->n_layers must be set. */
void clef__config_get_keys(clef_gguf_keys *k, clef_hparams *hp);

#endif
