/* Tries what a driver does not report (runtime/device/probe.c). Launch: one item.
 *   -D DOT  as in panel.h; without it probe_loop alone */
#include "args.h"

/* out[0]: how many of n rounds were done; out[1]: what n rounds of a generator make of 1. */
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

/* A step of a chain: what came before counts. */
kernel void probe_step(global uint *out, uint i)
{
    *out = *out * 1664525u + i + 1013904223u;
}

#ifdef DOT
#include "panel.h"

kernel void probe_dot4(global int16 *out, global const int16 *w, global const int *x)
{
    int16 acc = 1;
    DOT4(acc, *w, x);
    *out = acc;
}
#endif
