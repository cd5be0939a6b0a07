/* INLINED: a function that must be inlined. PoCL 3.1 computes nonsense in a function with arrays of vectors
 * that is not. */
#ifndef CLEF_CL_INLINE_H
#define CLEF_CL_INLINE_H

#define INLINED static inline __attribute__((always_inline))

#endif
