/* clef run --prompt-cache: what an earlier run computed, kept in a file. */
#ifndef CLEF_TOOLS_PROMPT_CACHE_H
#define CLEF_TOOLS_PROMPT_CACHE_H

#include "clef/generate.h"

/** A prompt that is to be fed: of an encoder-decoder the source, and the ids that its text starts with. */
typedef struct cli_prompt {
    const int32_t *ids, *source;
    int32_t        n, n_source; /* n_source: 0 for other models */
    int32_t        n_kept;      /* set: the first ids that the session holds already */
    int32_t        has_source;  /* set: 1 when the session holds the source */
} cli_prompt;

/** A check before the model is loaded: a file that is there must be whole, of this model, KV type and adapter
 *  (as for clef_session_check()). Returns CLI_GO_ON, or CLI_FAILED after saying what differs. */
int cli_prompt_cache_check(const char *path, const clef_model *model, clef_dtype kv_type,
                           const clef_lora_set *loras, int32_t lora);
/** Loads the file into the session, unless there is none, and keeps the ids that it shares with the beginning
 *  of the prompt; the last id of the prompt is always to be fed, since it gives the first logits. A recurrent
 *  state is kept if all the file's ids are such a beginning, else nothing is. A file of an encoder-decoder
 *  that does not fit into the session is of another source, or longer than needed: nothing is kept. Returns
 *  CLI_GO_ON, or CLI_FAILED after saying why. */
int cli_prompt_cache_load(const char *path, clef_session *session, const clef_hparams *hparams,
                          cli_prompt *prompt);
/** Writes the session to the file. Returns CLI_GO_ON, or CLI_FAILED after saying why. */
int cli_prompt_cache_save(const char *path, clef_session *session);

#endif
