/* INLINED: a function that must be inlined. In one that is not, PoCL 3.1 computes nonsense with arrays of
 * vectors. It also makes a local array that such a function names one array for all groups, though groups run
 * at the same time; LLVM does the same to a function that takes such an array as an argument, if all calls
 * pass the same one. */
#ifndef CLEF_CL_INLINE_H
#define CLEF_CL_INLINE_H

#define INLINED static inline __attribute__((always_inline))

#endif
