/* The fields of a model's sight, for the files that share it: see.c and expand.c. */
#ifndef CLEF_MODEL_SEE_H
#define CLEF_MODEL_SEE_H

#include "model/tower/tower.h"

/* Pictures whose rows are kept: those of a conversation come with each of its requests. */
enum { CLEF__SIGHT_KEPT = 16, CLEF__SIGHT_MARK = 64 };

/** How the tokens of a picture's rows stand in the text. */
typedef enum clef__sight_layout {
    CLEF__SIGHT_RUN,   /* one after the other */
    CLEF__SIGHT_TILES, /* a run for each tile, behind the name of its place; the whole picture at the end */
    CLEF__SIGHT_LINES  /* with an end of each line, and of the picture */
} clef__sight_layout;

/** What a family's processor writes for a picture: `before`, a token for each row, `after`. */
typedef struct clef__sight_family {
    const char *name;
    const char *encoder; /* NULL, or what its encoder must be: a name may have several rows */
    const clef__tower_form *form;
    const char *mark_key; /* NULL, or the key of the token that a template writes, if that is another */
    int32_t mark;               /* with mark_key: its default */
    const char *before, *after; /* with %s for the mark; NULL: nothing */
    clef__sight_layout layout;
    const char *last;           /* NULL, or what is behind the last picture; a new line ends the text then */
    const char *open, *close;   /* around a mark that clef writes itself; NULL: nothing */
} clef__sight_family;

typedef struct clef__sight_seen {
    uint64_t digest[4];
    clef__sight_rows count;
    float *rows;
} clef__sight_seen;

struct clef_sight {
    clef_device *dev;
    clef_model *model;
    const clef__sight_family *family;
    clef_compile_opts compile;
    clef__tower tower;
    clef_plan *plan; /* NULL before the first picture */
    char token[CLEF__SIGHT_MARK], mark[CLEF__SIGHT_MARK];
    clef__sight_seen kept[CLEF__SIGHT_KEPT];
    uint32_t next_kept;
};

/** The rows that pixels become. CLEF_E_ARG, CLEF_E_SHAPE. */
clef_status clef__sight_count(const clef_sight *s, const clef_sight_pixels *px, clef__sight_rows *out,
                              clef_error *err);
/** The rows of a picture, from the tower or kept. *out is valid until the next call. */
clef_status clef__sight_run(clef_sight *s, const clef_sight_pixels *px, const clef__sight_seen **out,
                            clef_error *err);

#endif
