/* Stop strings: texts that end what a model writes. */
#ifndef CLEF_STOP_H
#define CLEF_STOP_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Reads a text in pieces and ends it before the first stop string. The first is the one whose last byte
 *  comes first; of several that end there, the longest. Neither the stop string nor what follows it is given.
 *
 *  Text is held back while it may begin a stop string. All pieces given, added up, depend on the text alone
 *  and not on where it was cut. Each piece is whole code points: an incomplete one waits for its other bytes,
 *  and bytes that are not UTF-8 become U+FFFD (one for each maximal subpart, Unicode 15, section 3.9).
 *
 *  A byte costs one step of the Knuth-Morris-Pratt search (SIAM J. Comput. 6 (1977), 323) for each stop
 *  string. One thread at a time. */
typedef struct clef_stop clef_stop;

enum {
    CLEF_MOST_STOPS = 256,       /* the most stop strings of a text */
    CLEF_MOST_STOP_BYTES = 65536 /* the most bytes of a stop string */
};

/** Copies the n stop strings; texts may be NULL for n 0, where only UTF-8 is repaired. CLEF_E_ARG for an
 *  empty text and one that is not UTF-8, CLEF_E_LIMIT beyond the limits above; both name the text by its
 *  number, from 1. CLEF_E_NOMEM. Free *out with clef_stop_destroy(). */
CLEF_API clef_status clef_stop_create(const char *const *texts, int32_t n, clef_stop **out, clef_error *err);
/** Accepts NULL. */
CLEF_API void        clef_stop_destroy(clef_stop *stop);
/** Begins another text. */
CLEF_API void        clef_stop_reset(clef_stop *stop);

/** Adds n bytes of the text. *text, with *n_text bytes and without NUL, is what can be given now; it belongs
 *  to `stop`, and the next call overwrites it. After a stop string, nothing is added or given any more.
 *  CLEF_E_NOMEM: the bytes were not added. */
CLEF_API clef_status clef_stop_push(clef_stop *stop, const char *bytes, size_t n, const char **text,
                                    size_t *n_text, clef_error *err);
/** Ends the text: gives what was held back, with U+FFFD for an incomplete character. CLEF_E_NOMEM. */
CLEF_API clef_status clef_stop_finish(clef_stop *stop, const char **text, size_t *n_text, clef_error *err);

/** The number of the stop string that ended the text, from 0, or -1. */
CLEF_API int32_t clef_stop_found(const clef_stop *stop);

#ifdef __cplusplus
}
#endif
#endif
