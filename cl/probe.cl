/* Tries what a driver does not report (runtime/probe.c). Launch: one item.
 *   -D DOT  as in panel.h */
#include "args.h"
#include "panel.h"

kernel void probe_dot4(global int16 *out, global const int16 *w, global const int *x)
{
    int16 acc = 1;
    DOT4(acc, *w, x);
    *out = acc;
}
