/* The names of GGUF's tokenizer.ggml.pre: how a text is normalised and cut before BPE. */
#ifndef CLEF_MODEL_GGUF_PRE_H
#define CLEF_MODEL_GGUF_PRE_H

#include <stddef.h>

#include "clef/status.h"

/* Early files of Gemma 4 say that a text has no BOS. */
enum { CLEF_GGUF_PRE_NAMES = 13, CLEF_GGUF_REGEXES = 6, CLEF_GGUF_BOS_ALWAYS = 2 };

typedef struct clef__gguf_pre {
    const char *names[CLEF_GGUF_PRE_NAMES];
    const char *regexes[CLEF_GGUF_REGEXES]; /* run one after the other; each isolates its matches */
    int32_t     ignore_merges, add_bos, nfc;
    int32_t     is_roberta; /* a text is between BOS and EOS */
    int32_t     escapes;    /* not byte-level: spaces are written as U+2581, unknown characters as bytes */
} clef__gguf_pre;

/** CLEF_E_UNSUPPORTED: the message contains the name, the known names and `path`. */
clef_status clef__gguf_pre_find(const char *name, const char *path, const clef__gguf_pre **out,
                                clef_error *err);

/** Of the entries with these n_regexes regexes, the one that agrees best with `like` in nfc, ignore_merges
 *  and is_roberta; NULL if none has the regexes. */
const clef__gguf_pre *clef__gguf_pre_of(const clef__gguf_pre *like, size_t n_regexes);

#endif
