/* The reader of a message: what it has read and not yet given. */
#ifndef CLEF_MODEL_REPLY_H
#define CLEF_MODEL_REPLY_H

#include "clef/tools.h"
#include "text/tools/calls.h"
#include "text/tools/formats.h"

/** What is being read: text, reasoning, or what may be calls; gpt-oss also has heads of messages. */
typedef enum clef__reading {
    CLEF__IN_CONTENT,
    CLEF__IN_REASONING,
    CLEF__IN_CALL,
    CLEF__IN_HEAD
} clef__reading;

struct clef_reply_reader {
    clef_reply_opts opts;
    char           *tools;       /* a copy of opts.tools without white space around it; NULL: none */
    const clef__tags *tags;
    clef__reading   reading;
    clef__text      text;        /* what was read and not yet given or dropped */
    size_t          at, scanned; /* given up to `at`; no tag begins before `scanned` */
    clef__text      space;       /* white space that belongs to the message if content follows */
    clef__text      name;        /* gpt-oss: the function that is called */
    clef__block     block;       /* of IN_CALL, its text from block_at on */
    size_t          block_at;
    clef__calls     calls;
    int32_t         n_given;     /* calls that were given */
    int32_t         gave_content, gave_reasoning;
    int32_t         is_plain;    /* the message does not begin with a call */
    int32_t         drops_space; /* white space that comes next does not count */
    int32_t         at_end;
    clef_reply_fn   part;        /* of the running call of the API */
    void           *user;
};

/** Gives text.at[at .. to) as content or reasoning, and moves `at` there. White space at its end waits. */
clef_status clef__reply_give(clef_reply_reader *r, clef_reply_kind kind, size_t to, clef_error *err);
/** Gives the calls that were not given yet. */
clef_status clef__reply_give_calls(clef_reply_reader *r, clef_error *err);
/** Finds the first of these tags (NULL: none) from `scanned` on. Returns its number from 0 on with *at; or
 *  -1, and then `scanned` is where a tag may begin of which the text has only the start. */
int clef__reply_find(clef_reply_reader *r, const char *const *tags, int32_t n, size_t *at);

/** Reads on in gpt-oss's format. *is_stuck is 1 when nothing can be done without more text. */
clef_status clef__harmony_step(clef_reply_reader *r, int *is_stuck, clef_error *err);

#endif
