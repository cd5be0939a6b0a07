/* Tests what a driver does not report (runtime/device/probe.c). Launch: one work-item.
 *   -D DOT    as in panel.h
 *   -D WHOLE_BODY  as in substep.h, for tests of assembly
 *   -D TEST  1: probe_builtins; 2: probe_whole
 * Without both, only probe_loop and probe_step are built. */
#include "args.h"
#include "inline.h"

/* out[0]: how many of n rounds were executed; out[1]: the result of n rounds of a generator that starts with
 * 1. */
kernel void probe_loop(global uint *out, uint n)
{
    uint rounds = 0, x = 1;
    for (uint i = 0; i < n; i++) {
        x = (x ^ i) * 1664525u + 1013904223u;
        rounds++;
    }
    out[0] = rounds;
    out[1] = x;
}

/* A step of a chain: its result depends on all earlier steps. */
kernel void probe_step(global uint *out, uint i)
{
    *out = *out * 1664525u + i + 1013904223u;
}

#if TEST == 1
/* The sum of functions of each kind that runtime/device/builtins.def declares, each of which gives w. */
kernel void probe_builtins(global int16 *out, global const int16 *w, global const int *x)
{
    int16 v = vload16(0, (global const int *)w), kept;
    const float16 f = convert_float16(v);
    vstore16(v, 0, (int *)&kept);
    *out = kept + convert_int16(fma(f, (float16)1.0f, exp(f) - exp(f))) + max(v, v - 1) +
           select(v, v + 1, isnan(f)) + convert_int16(fmin(f, INFINITY)) + (int)get_global_id(0);
}
#elif TEST == 2
/* An array of vectors in a function that is not inlined. */
static void sum_whole(const uint *group, global int16 *out, global const int16 *w, global const int *x)
{
    WHOLE
    int16 part[4];
    for (uint i = 0; i < 4; i++)
        part[i] = *w * x[i] + (int16)(group[0]);
    *out = part[0] + part[1] - part[2] + part[3];
}

kernel void probe_whole(global int16 *out, global const int16 *w, global const int *x)
{
    const uint group[3] = {get_group_id(0), get_group_id(1), get_group_id(2)};
    sum_whole(group, out, w, x);
}
#endif

#ifdef DOT
#include "panel.h"

static void dot_whole(global int16 *out, global const int16 *w, global const int *x)
{
    BODY
    int16 acc = 1;
    DOT4(acc, *w, x);
    *out = acc;
}

kernel void probe_dot4(global int16 *out, global const int16 *w, global const int *x)
{
    dot_whole(out, w, x);
}

#if DOT == 5
static void usmmla_whole(global int16 *out, global const int16 *w, global const int4 *x)
{
    BODY
    int16 acc = 1;
    const int4 both = *x;
    ARM_DOT16(ARM_USMMLA, acc, *w, both);
    *out = acc;
}

kernel void probe_usmmla(global int16 *out, global const int16 *w, global const int4 *x)
{
    usmmla_whole(out, w, x);
}
#endif
#endif
