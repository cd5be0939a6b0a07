/* Rounds rows of x [m, k] to 8 bits in blocks of 32: d = max |x| / 127, q = round(x / d), in the order that cl/args.h gives for
 * quantize_args. Launch: one group of one item a row. k is a multiple of 32. */
#include "args.h"

kernel void quantize(const quantize_args a, global char *out, global const float *x)
{
    const uint row = get_group_id(0), blocks = a.k / 32;
    uint nt = TOKEN_BLOCK, start = row / TOKEN_BLOCK * TOKEN_BLOCK;
    for (uint size = 8; start + nt > a.m; size /= 2) { /* in what is left behind the whole blocks */
        nt = size;
        if (start + size <= a.m && row >= start + size) {
            start += size;
            nt = TOKEN_BLOCK; /* not in this one: look at the next smaller */
        }
    }
    const uint t = row - start;
    global char *base = out + (size_t)start * (a.k / 8 * 11);
    global float *scales = (global float *)(base + (size_t)nt * a.k);
    global int *sums = (global int *)(scales + (size_t)nt * blocks);
    x += a.x.offset + row / a.n2 / a.n1 * (size_t)a.x.stride[0] + row / a.n2 % a.n1 * (size_t)a.x.stride[1] +
         row % a.n2 * (size_t)a.x.stride[2];
    for (uint b = 0; b < blocks; b++) {
        const float16 lo = vload16(2 * b, x), hi = vload16(2 * b + 1, x);
        const float16 m16 = fmax(fabs(lo), fabs(hi));
        const float8 m8 = fmax(m16.lo, m16.hi);
        const float4 m4 = fmax(m8.lo, m8.hi);
        const float d = fmax(fmax(m4.x, m4.y), fmax(m4.z, m4.w)) / 127.0f;
        const float inverse = d > 0 ? 1.0f / d : 0.0f;
        const int16 q_lo = convert_int16_rte(lo * inverse), q_hi = convert_int16_rte(hi * inverse);
        vstore16(convert_char16(q_lo), 0, base + ((size_t)b * nt + t) * 32);
        vstore16(convert_char16(q_hi), 1, base + ((size_t)b * nt + t) * 32);
        const int8 s_lo = q_lo.lo + q_lo.hi, s_hi = q_hi.lo + q_hi.hi;
        const int4 u_lo = s_lo.lo + s_lo.hi, u_hi = s_hi.lo + s_hi.hi;
        scales[b * nt + t] = d;
        sums[(b * nt + t) * 2] = u_lo.x + u_lo.y + u_lo.z + u_lo.w;
        sums[(b * nt + t) * 2 + 1] = u_hi.x + u_hi.y + u_hi.z + u_hi.w;
    }
}
