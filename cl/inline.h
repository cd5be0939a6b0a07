/* Functions that a kernel must not call but hold: PoCL 3.1 computes nonsense in one that has arrays of
 * vectors and is not inlined. */
#ifndef CLEF_CL_INLINE_H
#define CLEF_CL_INLINE_H

#define INLINED static inline __attribute__((always_inline))

#endif
