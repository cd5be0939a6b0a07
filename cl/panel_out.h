/* The end of a panel product: v -> out[token, row ..]. Needs panel_args and BIAS_TYPE. */
#ifndef CLEF_CL_PANEL_OUT_H
#define CLEF_CL_PANEL_OUT_H

#if BIAS_TYPE < 0
typedef float bias_elem;
#else
typedef ELEM(BIAS_TYPE) bias_elem;
#endif

/* Writes one tile's 16 results of a token. */
static inline void finish(const panel_args *a, global float *out, global const bias_elem *bias, uint token, uint row, float16 v)
{
    v *= a->alpha;
    out += (size_t)token * a->n + row;
    if (row + PANEL_ROWS <= a->n) {
#if BIAS_TYPE >= 0
        v += LOAD16(BIAS_TYPE, bias, a->bias + row);
#endif
        vstore16(v, 0, out);
        return;
    }
    float lanes[PANEL_ROWS];
    vstore16(v, 0, lanes);
    for (uint r = 0; row + r < a->n; r++)
#if BIAS_TYPE >= 0
        out[r] = lanes[r] + LOAD(BIAS_TYPE, bias, a->bias + row + r);
#else
        out[r] = lanes[r];
#endif
}

#endif
