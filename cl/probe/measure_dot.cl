/* How fast a CPU multiplies bytes at most: the product of cl/panel/panel.h on registers, in chains that do
 * not wait for each other (runtime/device/measure.c). Stores what depends on all of it. Launch: groups of
 * one work-item; x has CHAINS + 7 words at least.
 *   -D DOT     how four bytes multiply (cl/panel/panel.h)
 *   -D CHAINS  chains, as many as registers hold */
#define WG 1
#include "args.h"
#include "group.h"
#include "panel.h"

#ifndef CHAINS
#  error "measure_dot.cl needs DOT and CHAINS"
#endif

GROUP_KERNEL
void measure_dot(const measure_args a, global int16 *out, global const int *x)
{
    const int16 w = (int16)(0x01020304);
    int16 r[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        r[c] = c;
    for (uint i = 0; i < a.rounds; i++) {
        global const int *const from =
            x + i % 8; /* another place each time: nothing can be computed once for all */
#pragma unroll
        for (int c = 0; c < CHAINS; c++)
            DOT4(r[c], w, from + c);
    }
    for (int c = 1; c < CHAINS; c++)
        r[0] += r[c];
    out[get_group_id(0)] = r[0];
}
