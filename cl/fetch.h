/* Hints to bring the line of 64 bytes at p near: of what is read next, of what will be written. A core follows a stream by itself no
 * further
 * than the end of a page, so FETCH_AHEAD is one: bytes. */
#ifndef CLEF_CL_FETCH_H
#define CLEF_CL_FETCH_H

#ifdef __clang__
#  define FETCH(p) __builtin_prefetch(p, 0, 2)
#  define FETCH_TO_WRITE(p) __builtin_prefetch(p, 1, 3)
#else
#  define FETCH(p) (void)(p)
#  define FETCH_TO_WRITE(p) (void)(p)
#endif

enum { LINE_BYTES = 64, FETCH_AHEAD = 4096 };

#endif
