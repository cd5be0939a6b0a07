/* What the tests of both interpreters share: a kernel is run, and its values or its fault are checked. A test
 * defines TARGET, for kernels that name none, and kernel_text(), which makes a module of a body. Its kernel
 * `kern` has two buffers. */
#ifndef CLEF_LAB_GPU_TEST_H
#define CLEF_LAB_GPU_TEST_H

#include <stdio.h>
#include <string.h>

#include "lab/gpu/run/launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { TEXT = 8192, WORDS = 4096 };

static void kernel_text(const char *target, const char *body, char text[TEXT]);

typedef struct job {
    const char *target, *body;
    uint32_t items, groups;
    size_t n_in;                    /* bytes of the second buffer; 0: all */
    uint32_t in[WORDS], out[WORDS]; /* the second buffer, and the first */
    uint64_t seed;
    int finds_races;
    char why[GPU_MESSAGE];
} job;

/* Returns 1 after a fault. */
static int run(job *j)
{
    static const uint32_t numbers[2] = {5, 9}; /* a third argument, for kernels that have one */
    const char *target = j->target ? j->target : TARGET;
    char text[TEXT];
    kernel_text(target, j->body, text);
    gpu_module *m = gpu_module_create(text, strlen(text), target, j->why);
    if (!m)
        fail_msg("%s: %s", j->body, j->why);
    const gpu_arg args[] = {{GPU_MEMORY, NULL, (unsigned char *)j->out, sizeof j->out},
                            {GPU_MEMORY, NULL, (unsigned char *)j->in, j->n_in ? j->n_in : sizeof j->in},
                            {GPU_BYTES, numbers, NULL, sizeof numbers}};
    const gpu_launch launch = {.kernel = gpu_module_kernel(m, "kern"),
                               .args = args,
                               .groups = {j->groups ? j->groups : 1, 1, 1},
                               .items = {j->items ? j->items : 64, 1, 1},
                               .resident_warps = 48,
                               .seed = j->seed,
                               .workers = 2,
                               .finds_races = j->finds_races};
    gpu_count count = {0};
    const int failed = gpu_run_launch(&launch, &count, j->why);
    gpu_module_destroy(m);
    return failed;
}

/* An instruction on a and b. */
typedef struct value {
    const char *text;
    uint32_t a, b, want;
} value;

#define NAN_BITS 0x7FC00000u

/* Runs the job, and checks the first `n` results. */
static void check_value(job *j, const value *v, uint32_t n)
{
    if (run(j))
        fail_msg("%s: %s", v->text, j->why);
    for (uint32_t i = 0; i < n; i++)
        if (j->out[i] != v->want)
            fail_msg("%s on 0x%x, 0x%x: expected 0x%x, got 0x%x", v->text, v->a, v->b, v->want, j->out[i]);
}

/* What a faulty kernel is reported with; its healthy twin differs by little. */
typedef struct fault {
    const char *name, *faulty, *healthy, *words;
    uint32_t items;
    size_t n_in;
    uint32_t groups;
    const char *target;
} fault;

static int run_fault(const fault *f, const char *body, uint64_t seed, char why[GPU_MESSAGE])
{
    static job j;
    j = (job){.target = f->target,
              .body = body,
              .items = f->items,
              .n_in = f->n_in,
              .groups = f->groups,
              .seed = seed,
              .finds_races = 1};
    const int failed = run(&j);
    memcpy(why, j.why, GPU_MESSAGE);
    return failed;
}

static void check_fault(const fault *f, uint64_t n_seeds)
{
    char why[GPU_MESSAGE];
    for (uint64_t seed = 0; seed < n_seeds; seed++) {
        if (!run_fault(f, f->faulty, seed, why))
            fail_msg("%s: not found", f->name);
        if (!strstr(why, f->words) || !strstr(why, "kernel kern, group "))
            fail_msg("%s: expected '%s', got: %s", f->name, f->words, why);
        if (run_fault(f, f->healthy, seed, why))
            fail_msg("the twin without %s: %s", f->name, why);
    }
}

/* A module that is refused. */
static void check_refused(const char *target, const char *body, const char *words)
{
    char text[TEXT], why[GPU_MESSAGE];
    kernel_text(target, body, text);
    if (gpu_module_create(text, strlen(text), target, why))
        fail_msg("not found: %s", words);
    if (!strstr(why, words))
        fail_msg("expected '%s', got '%s'", words, why);
}

#endif
