/* out[t, r] = alpha x[t] . w[r] + bias[r] for NT tokens and the 16 or 32 rows of a panel (cl/panel.h). One item a group.
 * Launch: {blocks of NT tokens, tiles or pairs of tiles}; consecutive groups share the panel.
 *   panel_q  x quantised (quantize_args), one tile a group
 *   panel_f  x f32 rows, two tiles a group
 *   -D NT         tokens a group
 *   -D W_TYPE     dtype of w
 *   -D BIAS_TYPE  dtype of bias, DTYPE_NONE without
 *   -D DOT        how four bytes multiply: 0 plain, 1 x86 AVX-512 VNNI */
#define WG 1
#include "args.h"
#include "panel.h"
#include "weights.h"

#if !defined(NT) || !defined(W_TYPE) || !defined(BIAS_TYPE) || !defined(DOT)
#  error "panel.cl needs NT, W_TYPE, BIAS_TYPE and DOT"
#endif

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

#if W_TYPE == DTYPE_Q8_0 || W_TYPE == DTYPE_Q4_0

#  if W_TYPE == DTYPE_Q8_0
enum { GROUPS = 8, OFFSET = 128 };
#  else
enum { GROUPS = 4, OFFSET = 8 };
#  endif

/* Sixteen halves. vload_half16 is two instructions of half the width on PoCL. */
static inline float16 halves(global const ushort *p)
{
#  if DOT == 1
    float16 v;
    __asm__("vcvtph2ps %1, %0" : "=v"(v) : "m"(*(global const ushort16 *)p));
    return v;
#  else
    return vload_half16(0, (global const half *)p);
#  endif
}

kernel void panel_q(const panel_args a, global float *out, global const uchar *x, global const uchar *w, global const bias_elem *bias)
{
    const uint tile = get_group_id(1), blocks = a.k / 32, tiles = (a.n + PANEL_PAD - 1) / PANEL_PAD * (PANEL_PAD / PANEL_ROWS);
    const uint token = a.first + get_group_id(0) * NT;
    global const int16 *quants = (global const int16 *)(w + (size_t)tile * blocks * GROUPS * 64);
    global const ushort *scales = (global const ushort *)(w + (size_t)tiles * blocks * GROUPS * 64) + (size_t)tile * blocks * PANEL_ROWS;
    x += a.x + (size_t)token * (a.k / 8 * 11);
    global const int *q = (global const int *)x;
    global const float *d = (global const float *)(x + (size_t)NT * a.k);
    global const int2 *sums = (global const int2 *)(d + (size_t)NT * blocks);
    float16 acc[NT];
#  pragma unroll
    for (int t = 0; t < NT; t++)
        acc[t] = 0;
    for (uint b = 0; b < blocks; b++) {
        int16 v[8];
#  if W_TYPE == DTYPE_Q8_0
#    pragma unroll
        for (int g = 0; g < 8; g++)
            v[g] = quants[g];
#  else
#    pragma unroll
        for (int g = 0; g < 4; g++) {
            const int16 both = quants[g];
            v[g] = both & 0x0f0f0f0f;
            v[g + 4] = as_int16(as_uint16(both) >> 4u) & 0x0f0f0f0f;
        }
#  endif
        const float16 scale = halves(scales);
#  pragma unroll
        for (int t = 0; t < NT; t++) {
            int16 i = -OFFSET * (sums[t].x + sums[t].y), j = 0; /* two chains: one instruction waits for the other */
            DOT4(i, v[0], q + t * 8);
            DOT4(j, v[1], q + t * 8 + 1);
            DOT4(i, v[2], q + t * 8 + 2);
            DOT4(j, v[3], q + t * 8 + 3);
            DOT4(i, v[4], q + t * 8 + 4);
            DOT4(j, v[5], q + t * 8 + 5);
            DOT4(i, v[6], q + t * 8 + 6);
            DOT4(j, v[7], q + t * 8 + 7);
            acc[t] = fma(convert_float16(i + j) * d[t], scale, acc[t]);
        }
        quants += GROUPS;
        scales += PANEL_ROWS;
        q += NT * 8;
        d += NT;
        sums += NT;
    }
#  pragma unroll
    for (int t = 0; t < NT; t++)
        finish(&a, out, bias, token + t, tile * PANEL_ROWS, acc[t]);
}

/* The same with x in f32: the weights are decoded as they come. */
kernel void panel_f(const panel_args a, global float *out, global const float *x, global const uchar *w, global const bias_elem *bias)
{
    const uint blocks = a.k / 32, tiles = (a.n + PANEL_PAD - 1) / PANEL_PAD * (PANEL_PAD / PANEL_ROWS);
    const uint token = a.first + get_group_id(0) * NT;
    x += a.x + (size_t)token * a.x_stride;
    for (uint tile = get_group_id(1) * 2; tile < get_group_id(1) * 2 + 2; tile++) {
        global const int16 *quants = (global const int16 *)(w + (size_t)tile * blocks * GROUPS * 64);
        global const ushort *scales =
            (global const ushort *)(w + (size_t)tiles * blocks * GROUPS * 64) + (size_t)tile * blocks * PANEL_ROWS;
        float16 acc[NT];
#  pragma unroll
        for (int t = 0; t < NT; t++)
            acc[t] = 0;
        for (uint b = 0; b < blocks; b++) {
            float16 sum[NT];
#  pragma unroll
            for (int t = 0; t < NT; t++)
                sum[t] = 0;
            for (uint k = 0; k < 32; k++) {
#  if W_TYPE == DTYPE_Q8_0
                const float16 v = convert_float16(quants[k / 4] >> (int)(k % 4 * 8) & 255) - 128.0f;
#  else
                const float16 v = convert_float16(quants[k % 16 / 4] >> (int)(k % 4 * 8 + k / 16 * 4) & 15) - 8.0f;
#  endif
#  pragma unroll
                for (int t = 0; t < NT; t++)
                    sum[t] = fma(v, (float16)x[t * a.x_stride + b * 32 + k], sum[t]);
            }
            const float16 scale = halves(scales);
#  pragma unroll
            for (int t = 0; t < NT; t++)
                acc[t] = fma(sum[t], scale, acc[t]);
            quants += GROUPS;
            scales += PANEL_ROWS;
        }
#  pragma unroll
        for (int t = 0; t < NT; t++)
            finish(&a, out, bias, token + t, tile * PANEL_ROWS, acc[t]);
    }
}

#else

/* A chain of sums for each of `CHAINS` columns in turn: few tokens would wait for the multiplier otherwise. */
#  if NT == 1
enum { CHAINS = 4 };
#  elif NT == 2
enum { CHAINS = 2 };
#  else
enum { CHAINS = 1 };
#  endif

kernel void panel_f(const panel_args a, global float *out, global const float *x, global const ELEM(W_TYPE) *w,
                    global const bias_elem *bias)
{
    const uint pair = get_group_id(1), token = a.first + get_group_id(0) * NT;
    w += (size_t)pair * PANEL_PAD * a.k;
    x += a.x + (size_t)token * a.x_stride;
    float16 s[CHAINS][NT], u[CHAINS][NT];
#  pragma unroll
    for (int c = 0; c < CHAINS; c++)
#  pragma unroll
        for (int t = 0; t < NT; t++)
            s[c][t] = u[c][t] = 0;
    const size_t next = (size_t)PANEL_ROWS * a.k;
    uint k = 0;
    for (; k + CHAINS <= a.k; k += CHAINS)
#  pragma unroll
        for (int c = 0; c < CHAINS; c++) {
            const float16 v0 = LOAD16(W_TYPE, w, (k + c) * PANEL_ROWS), v1 = LOAD16(W_TYPE, w, next + (k + c) * PANEL_ROWS);
#  pragma unroll
            for (int t = 0; t < NT; t++) {
                const float16 xt = x[t * a.x_stride + k + c];
                s[c][t] = fma(v0, xt, s[c][t]);
                u[c][t] = fma(v1, xt, u[c][t]);
            }
        }
    for (; k < a.k; k++) {
        const float16 v0 = LOAD16(W_TYPE, w, k * PANEL_ROWS), v1 = LOAD16(W_TYPE, w, next + k * PANEL_ROWS);
#  pragma unroll
        for (int t = 0; t < NT; t++) {
            s[0][t] = fma(v0, (float16)x[t * a.x_stride + k], s[0][t]);
            u[0][t] = fma(v1, (float16)x[t * a.x_stride + k], u[0][t]);
        }
    }
#  pragma unroll
    for (int t = 0; t < NT; t++) {
#  pragma unroll
        for (int c = 1; c < CHAINS; c++) {
            s[0][t] += s[c][t];
            u[0][t] += u[c][t];
        }
        finish(&a, out, bias, token + t, pair * PANEL_PAD, s[0][t]);
        if (pair * PANEL_PAD + PANEL_ROWS < a.n)
            finish(&a, out, bias, token + t, pair * PANEL_PAD + PANEL_ROWS, u[0][t]);
    }
}

#endif
