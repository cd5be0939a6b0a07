/* INLINED: a function that must be inlined. PoCL 3.1 computes nonsense in a function with arrays of vectors
 * that is not. A kernel's local array that such a function names, which LLVM may do where all calls pass it,
 * is one for all groups there, also for those that run at the same time. */
#ifndef CLEF_CL_INLINE_H
#define CLEF_CL_INLINE_H

#define INLINED static inline __attribute__((always_inline))

#endif
