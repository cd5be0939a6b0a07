/* Hyperparameters under GGUF's keys, and under clef's own. */
#ifndef CLEF_MODEL_CONFIG_KEYS_H
#define CLEF_MODEL_CONFIG_KEYS_H

#include "model/file/gguf_write.h"
#include "model/open/arch.h"
#include "model/open/config.h"

/** Reads those of gguf_keys.def that the family has and the file states; other fields keep their values. */
void clef__config_read_standard(clef_gguf_keys *k, const clef_arch *arch, clef_hparams *hp);
/** Writes those of gguf_keys.def that the family has, with the architecture's name in GGUF as the prefix. A
 *  field that is 0 is left out where the key is optional. */
void clef__config_put_standard(clef_gguf_writer *w, const char *prefix, const clef_arch *arch,
                               const clef_hparams *hp);
/** The earlier name of a key, or NULL. */
const char *clef__key_old_name(const char *name);

/** The name of a function as the key hidden_activation has it. */
const char *clef__gguf_activation(clef_activation activation);

/** The ids that end a text beyond the three that GGUF has keys for: an array. */
#define CLEF_KEY_MORE_ENDS "libclef.eos_token_ids"

/** Refuses a key of the architecture that nothing read and that asks for what clef does not have. */
void clef__gguf_check_unread(clef_gguf_keys *k);
/** Calls `entry` for each other key of the architecture that nothing read, unless it is known to change
 *  nothing. */
void clef__gguf_unread(const clef_gguf *gguf, const char *arch,
                         void (*entry)(void *user, const char *name), void *user);

/** Writes under clef's own keys each field of hp that differs from `read`, which is what a reader makes of
 *  the other keys. */
void clef__config_put_keys(clef_gguf_writer *w, const clef_hparams *hp, const clef_hparams *read);
/** Reads those that the file has; the other fields of hp keep their values. hp->n_layers must be set. */
void clef__config_get_keys(clef_gguf_keys *k, clef_hparams *hp);

#endif
