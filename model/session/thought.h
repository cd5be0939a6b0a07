/* How long a text's reasoning may be: counts its tokens between two tags, and says which are to be written
 * where it has to end. */
#ifndef CLEF_MODEL_SESSION_THOUGHT_H
#define CLEF_MODEL_SESSION_THOUGHT_H

#include "clef/constrain.h"

typedef enum clef__thought_stage {
    CLEF__THOUGHT_OVER, /* or there is none to count */
    CLEF__THOUGHT_AHEAD,
    CLEF__THOUGHT_INSIDE,
    CLEF__THOUGHT_ENDS /* a part of the ending is written */
} clef__thought_stage;

/** Zeroed: reasoning has no limit. */
typedef struct clef__thought {
    char *open, *close;
    int32_t *ending, n_ending; /* tokens that end it */
    int32_t anywhere, most;
    const clef_tokenizer *tok; /* borrowed */
    clef__thought_stage stage;
    int32_t n_tokens, n_ended; /* of the reasoning; of the ending */
    size_t n_matched;          /* bytes of the next tag at the end of the text */
} clef__thought;

/** NULL: no limit. CLEF_E_ARG (a tag that is missing), CLEF_E_NOMEM. */
clef_status clef__thought_begin(clef__thought *t, const clef_thought *limits, const clef_tokenizer *tok,
                                clef_error *err);
void clef__thought_finish(clef__thought *t);
/** The token that has to come next; -1: any may come. */
int32_t clef__thought_next(const clef__thought *t);
/** Goes on by a token of the text. */
void clef__thought_take(clef__thought *t, int32_t id);

/** Bytes of `tag` at the end of a text that ends with those n_matched and then `byte`. */
size_t clef__tag_match(const char *tag, size_t n_matched, char byte);

#endif
