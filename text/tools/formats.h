/* The formats' tags, as a table. */
#ifndef CLEF_MODEL_TOOL_FORMATS_H
#define CLEF_MODEL_TOOL_FORMATS_H

#include "clef/tools.h"
#include "text/tools/calls.h"

enum { CLEF__MAX_CALL_TAGS = 2, CLEF__MAX_FRAMES = 6, CLEF__MAX_INNER = 7 };

/** How messages of a format are read. Lists end with NULL. */
typedef struct clef__tags {
    const char *think, *think_end;             /* NULL: none */
    const char *call[CLEF__MAX_CALL_TAGS + 1]; /* tags before calls */
    const char *frame[CLEF__MAX_FRAMES + 1];   /* tags that mean nothing to a user */
    const char *inner[CLEF__MAX_INNER + 1];    /* tags that `read` looks for */
    clef__block_reader *read;                  /* what follows a call's tag; NULL: no calls */
    int32_t tag_belongs;     /* the number of the tag in `call` that is part of the block, counted from 1 */
    int32_t is_bare;         /* a call needs no tag: it is an object at the start, or behind another call */
    int32_t thinks_anywhere; /* reasoning may follow content: its tags are special tokens */
} clef__tags;

/** The tags of a format; all empty for gpt-oss, which has a reader of its own (harmony.c). */
const clef__tags *clef__tool_tags(clef_tool_format format);

#endif
