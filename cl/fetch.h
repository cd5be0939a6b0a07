/* Prefetches the 64-byte line at p: FETCH to the second cache, FETCH_NEAR to the first, and a line that will
 * be written. A core follows a stream by itself only to the end of a page, so FETCH_AHEAD is one page, in
 * bytes. Only CPUs prefetch: compilers for other targets (SPIR-V, GPUs) refuse the instruction or lack it. */
#ifndef CLEF_CL_FETCH_H
#define CLEF_CL_FETCH_H

#if defined(__clang__) && (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) ||               \
                           defined(__arm__) || defined(__riscv))
#    define FETCH(p) __builtin_prefetch(p, 0, 2)
#    define FETCH_NEAR(p) __builtin_prefetch(p, 0, 3)
#    define FETCH_TO_WRITE(p) __builtin_prefetch(p, 1, 3)
#else
#  define FETCH(p) (void)(p)
#  define FETCH_NEAR(p) (void)(p)
#  define FETCH_TO_WRITE(p) (void)(p)
#endif

enum { LINE_BYTES = 64, FETCH_AHEAD = 4096, FETCH_NEAR_AHEAD = 2048 };

#endif
