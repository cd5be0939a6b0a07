/* Finds the functions of the counting layer (count_layer.c) under which a test runs. */
#ifndef CLEF_TESTS_LAYERS_COUNT_H
#define CLEF_TESTS_LAYERS_COUNT_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct count_layer {
    long (*count)(const char *api);
    long (*live)(const char *kind);
    void (*fail_at)(const char *api, long n, int sticky);
    long (*flushed)(long i);
    void (*reset)(void);
} count_layer;

/* Returns 1 when OPENCL_LAYERS names the layer and the loader has loaded it, which the first OpenCL call
 * does. Otherwise says what is missing, sets *out to zeros, and returns 0. */
static inline int open_count_layer(count_layer *out)
{
    const char *path = getenv("OPENCL_LAYERS");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    *out = (count_layer){0};
    if (library) {
        /* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the bytes
         * agree. */
        *(void **)&out->count = dlsym(library, "clef_layer_count");
        *(void **)&out->live = dlsym(library, "clef_layer_live");
        *(void **)&out->fail_at = dlsym(library, "clef_layer_fail");
        *(void **)&out->flushed = dlsym(library, "clef_layer_flushed");
        *(void **)&out->reset = dlsym(library, "clef_layer_reset");
    }
    if (out->count && out->live && out->fail_at && out->flushed && out->reset)
        return 1;
    fprintf(stderr, "needs OPENCL_LAYERS naming the counting layer (ctest sets it)\n");
    *out = (count_layer){0};
    return 0;
}

#endif
