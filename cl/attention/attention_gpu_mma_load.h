/* For attention_gpu_flash_mma.cl: brings queries, keys and values into local memory, as the unit reads them.
 * Needs D, E, KEYS, WG, SLOTS, K_WORDS and V_WORDS. */
#ifndef CLEF_CL_ATTENTION_GPU_MMA_LOAD_H
#define CLEF_CL_ATTENTION_GPU_MMA_LOAD_H

/* Writes x and y as sums of two halves each. */
static inline void put_pair(local uint *high, local uint *low, float x, float y)
{
    const uint2 pair = split_pair(x, y);
    *high = pair.x;
    *low = pair.y;
}

/* Loads a query, divided by a power of two that is returned. */
INLINED float load_query(local uint *high, local uint *low, global const float *q, uint slot)
{
    float most = 0;
    for (uint d = 0; d < D; d++)
        most = fmax(most, fabs(q[d]));
    const float2 powers = powers_of(most);
    for (uint d = slot; d < D / 2; d += SLOTS)
        put_pair(high + d, low + d, q[2 * d] * powers.y, q[2 * d + 1] * powers.y);
    return powers.x;
}

/* The eight halves from `at` on, or zeros. */
static inline uint4 eight_halves(global const half *x, size_t at, int exists)
{
    return exists ? *(global const uint4 *)(x + at) : (uint4)0;
}

/* Loads n keys; the others of the chunk are zeros. */
INLINED void load_keys(local uint *to, global const half *k, size_t at, size_t stride, int n, uint item)
{
    for (uint u = item; u < KEYS * (D / 8); u += WG) {
        const uint s = u / (D / 8), d = u % (D / 8);
        vstore4(eight_halves(k, at + s * stride + d * 8, (int)s < n), 0, to + s * K_WORDS + d * 4);
    }
}

/* Loads n values, transposed: word s of row e has element e of keys 2 s and 2 s + 1. */
INLINED void load_values(local uint *to, global const half *v, size_t at, size_t stride, int n, uint item)
{
    for (uint u = item; u < KEYS / 2 * (E / 8); u += WG) {
        const uint s = u % (KEYS / 2), e = u / (KEYS / 2) * 8;
        const uint4 a = eight_halves(v, at + 2 * s * stride + e, (int)(2 * s) < n),
                    b = eight_halves(v, at + (2 * s + 1) * stride + e, (int)(2 * s + 1) < n);
        const uint4 even = (a & 0xffffu) | b << 16u, odd = a >> 16u | (b & 0xffff0000u);
        to[(e + 0) * V_WORDS + s] = even.x;
        to[(e + 1) * V_WORDS + s] = odd.x;
        to[(e + 2) * V_WORDS + s] = even.y;
        to[(e + 3) * V_WORDS + s] = odd.y;
        to[(e + 4) * V_WORDS + s] = even.z;
        to[(e + 5) * V_WORDS + s] = odd.z;
        to[(e + 6) * V_WORDS + s] = even.w;
        to[(e + 7) * V_WORDS + s] = odd.w;
    }
}

#endif
