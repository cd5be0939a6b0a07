/* Hyperparameters under keys of our own in a GGUF file. */
#ifndef CLEF_MODEL_CONFIG_KEYS_H
#define CLEF_MODEL_CONFIG_KEYS_H

#include "model/open/config.h"
#include "model/file/gguf_write.h"

/** Writes them all. */
void clef__config_put_keys(clef_gguf_writer *w, const clef_hparams *hp);
/** Reads those that the file has over what stands in hp, whose n_layers must be set. */
void clef__config_get_keys(clef_gguf_keys *k, clef_hparams *hp);

#endif
