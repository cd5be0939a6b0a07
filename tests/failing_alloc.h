/* Allocations of the library that fail on purpose: the linker's --wrap sends malloc(), calloc() and realloc()
 * here (tests/CMakeLists.txt, wrap_malloc). Include it in one file of a test. */
#ifndef CLEF_TESTS_FAILING_ALLOC_H
#define CLEF_TESTS_FAILING_ALLOC_H

#include <stdatomic.h>
#include <stddef.h>

/** How many there were, and the number of the one that fails; 0: none does. Threads may allocate at once. */
static atomic_long n_allocations, fail_allocation;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n)
{
    return ++n_allocations == fail_allocation ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return ++n_allocations == fail_allocation ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return ++n_allocations == fail_allocation ? NULL : __real_realloc(p, n);
}

#endif
