/* Measures how fast a CPU multiplies bytes: the product of cl/panel/panel.h on registers, in independent
 * chains (runtime/device/measure.c). It stores a value that depends on all its work.
 * Launch: groups of one work-item; x has at least CHAINS + 7 words.
 *   -D DOT     the instruction that multiplies bytes (cl/panel/panel.h)
 *   -D CHAINS  chains, as many as the registers hold
 *   -D WHOLE_BODY  as in substep.h */
#define WG 1
#include "args.h"
#include "group.h"
#include "inline.h"
#include "panel.h"

#ifndef CHAINS
#  error "measure_dot.cl needs DOT and CHAINS"
#endif

static void dot_whole(uint rounds, uint group, global int16 *out, global const int *x)
{
    BODY
    const int16 w = (int16)(0x01020304);
    int16 r[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        r[c] = c;
    for (uint i = 0; i < rounds; i++) {
        global const int *const from =
            x + i % 8; /* another place in each round, so that nothing can be computed once for all rounds */
#pragma unroll
        for (int c = 0; c < CHAINS; c++)
            DOT4(r[c], w, from + c);
    }
    for (int c = 1; c < CHAINS; c++)
        r[0] += r[c];
    out[group] = r[0];
}

GROUP_KERNEL
void measure_dot(const measure_args a, global int16 *out, global const int *x)
{
    dot_whole(a.rounds, get_group_id(0), out, x);
}
