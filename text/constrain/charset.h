/* Sets of code points. */
#ifndef CLEF_TEXT_CONSTRAIN_CHARSET_H
#define CLEF_TEXT_CONSTRAIN_CHARSET_H

#include "text/constrain/work.h"

typedef struct clef__range {
    uint32_t lo, hi;
} clef__range;

/** Ranges in rising order which neither overlap nor touch, once clef__set_order() was called. Surrogates are
 *  in no set. Zeroed: empty. */
typedef struct clef__set {
    clef__range *at; /* in the work's arena */
    uint32_t     n, room;
} clef__set;

void clef__set_add(clef__work *w, clef__set *set, uint32_t lo, uint32_t hi);
void clef__set_add_all(clef__work *w, clef__set *set, const clef__set *other);
void clef__set_order(clef__work *w, clef__set *set);
/** All code points that are not in an ordered set. */
clef__set clef__set_not(clef__work *w, const clef__set *set);

#endif
