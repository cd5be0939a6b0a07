/* WHOLE: the first statement of a function that must not be inlined. PoCL marks every function of a program
 * as one to be inlined; but LLVM copies no function that uses the address of a label (isInlineViable() in its
 * InlineCost.cpp). Such a function must not ask for the ids of its work-item: PoCL gives them to what it
 * inlines into a kernel alone.
 * BODY: the first statement of a function with a kernel's whole body; with -D WHOLE_BODY=1 it is WHOLE.
 * PoCL 6 aborts at assembly in a kernel itself, unless it knows the local size.
 * INLINED: a function that must be inlined. In one that is not, PoCL 3.1 computes nonsense with arrays of
 * vectors as arguments. It also makes a local array that such a function names one array for all groups,
 * though groups run at the same time; LLVM does the same to a function that takes such an array as an
 * argument, if all calls pass the same one. */
#ifndef CLEF_CL_INLINE_H
#define CLEF_CL_INLINE_H

#if defined(__x86_64__) || defined(__aarch64__) /* not Oclgrind, which interprets and would crash */
#  define WHOLE                            \
    __asm__ volatile("" : : "r"(&&whole)); \
    whole:;
#endif
#if WHOLE_BODY
#  define BODY WHOLE
#else
#  define BODY
#endif
#define INLINED static inline __attribute__((always_inline))

#endif
