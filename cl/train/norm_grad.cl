/* The gradient of x in a norm of its rows [n0, n1, n2, n3]: with g = d weight, x' = (x - mean) r and
 * r = 1 / sqrt(mean((x - mean)^2) + eps), out = r (g - mean(g) - x' mean(g x')). Without CENTER mean and
 * mean(g) are 0.
 * Launch: one group of WG work-items for each row. out is dense and may be x or d.
 *   -D WG           work-items in a group, a power of two
 *   -D CENTER       1: layer_norm, 0: rms_norm
 *   -D WEIGHT_TYPE  dtype of weight, DTYPE_NONE (-1) without */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(CENTER) || !defined(WEIGHT_TYPE)
#  error "norm_grad.cl needs WG, CENTER and WEIGHT_TYPE"
#endif

#if WEIGHT_TYPE < 0
typedef float weight_elem;
#  define WEIGHT(i)   1.0f
#  define WEIGHT16(i) 1.0f
#else
typedef ELEM(WEIGHT_TYPE) weight_elem;
#  define WEIGHT(i)   LOAD(WEIGHT_TYPE, weight, a.weight + i)
#  define WEIGHT16(i) LOAD16(WEIGHT_TYPE, weight, a.weight + i)
#endif

GROUP_KERNEL
void norm_grad_rows(const norm_grad_args a, global float *out, global const float *x, global const float *d,
                    global const weight_elem *weight)
{
    const uint row = get_group_id(0), i2 = row % a.n[2], i1 = row / a.n[2] % a.n[1], i0 = row / a.n[2] /
            a.n[1];
    const uint n = a.n[3], whole = n / 16 * 16, lane = get_local_id(0);
    GROUP_SCRATCH(scratch);
    x += a.x.offset + i0 * (size_t)a.x.stride[0] + i1 * (size_t)a.x.stride[1] + i2 * (size_t)a.x.stride[2];
    d += a.d.offset + i0 * (size_t)a.d.stride[0] + i1 * (size_t)a.d.stride[1] + i2 * (size_t)a.d.stride[2];
    out += (size_t)row * n;

    float mean = 0;
#if CENTER
    float16 wide = 0;
    float one = 0;
    for (uint i = lane * 16; i < whole; i += WG * 16)
        wide += vload16(0, x + i);
    for (uint i = whole + lane; i < n; i += WG)
        one += x[i];
    mean = group_sum(sum16(wide) + one, scratch) / n;
#endif
    float16 squares = 0, gs = 0, gxs = 0;
    float square = 0, g_sum = 0, gx_sum = 0;
    for (uint i = lane * 16; i < whole; i += WG * 16) {
        const float16 c = vload16(0, x + i) - mean, g = vload16(0, d + i) * WEIGHT16(i);
        squares += c * c;
        gs += g;
        gxs += g * c;
    }
    for (uint i = whole + lane; i < n; i += WG) {
        const float c = x[i] - mean, g = d[i] * WEIGHT(i);
        square += c * c;
        g_sum += g;
        gx_sum += g * c;
    }
    const float r = 1.0f / sqrt(group_sum(sum16(squares) + square, scratch) / n + a.eps);
    const float g_mean = CENTER ? group_sum(sum16(gs) + g_sum, scratch) / n : 0.0f;
    const float slope = group_sum(sum16(gxs) + gx_sum, scratch) / n * r * r;
    for (uint i = lane * 16; i < whole; i += WG * 16) {
        const float16 c = vload16(0, x + i) - mean, g = vload16(0, d + i) * WEIGHT16(i);
        vstore16(r * (g - g_mean - c * slope), 0, out + i);
    }
    for (uint i = whole + lane; i < n; i += WG)
        out[i] = r * (d[i] * WEIGHT(i) - g_mean - (x[i] - mean) * slope);
}
