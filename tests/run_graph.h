/* For tests: run a graph in the text form on the test's device and look at what comes out. */
#ifndef CLEF_TESTS_RUN_GRAPH_H
#define CLEF_TESTS_RUN_GRAPH_H

#include "clef/clef.h"

/** NULL; with CLEF_TEST_STORE=0 the options of a device without clef's cache. PoCL compiles a program again
 *  when clef stores it, and has a cache of its own. */
const clef_device_opts *test_device_opts(void);

/** The device that tests use: $CLEF_TEST_DEVICE, else a CPU if there is one, else the best. NULL, after
 *  saying so, when there is none. */
clef_device *test_device(void);
/** That device, for tests of a group that share it: what cmocka calls before them and after. */
extern clef_device *shared_device;
int open_shared_device(void **state);
int close_shared_device(void **state);

typedef struct test_tensor {
    const char  *name;
    const void  *data;
    size_t       n_bytes;
} test_tensor;

/** Parses, optimises (with optimize) and runs the graph with its symbols at their bounds; inputs end with a
 *  NULL name. Any error fails the test. out takes n_bytes of the output called `output`. */
void test_run(clef_device *dev, const char *text, int optimize, clef_gemm gemm, const test_tensor *inputs,
              const char *output, void *out, size_t n_bytes);

#endif
