/* Rotary position embedding of x [B, T, H, D] at positions pos[b] + t. Pair i of a head, i < half_n, is
 * rotated by position times freqs[i] and multiplied by scale; dims from 2 half_n on pass unchanged. sin and
 * cos are the precise ones, because an angle is a position (100000 and more) times up to 1.
 * Launch: one group for `heads` heads of a token; out is dense and may be x.
 *   -D WG           work-items in a group
 *   -D PAIRING      clef_rope_pairing: 0: pair i is (x[i], x[i + half_n]), 1: (x[2i], x[2i + 1]); 2: it is
 *                   read from (x[2i], x[2i + 1]) and written to (i, i + half_n); out is not x then; 3: the
 *                   other way round
 *   -D INVERSE      1: turned by the negative angle
 *   -D POS          1: token t of sequence b is at position pos[b] + t, else at t */
#include "args.h"
#include "group.h"

#if !defined(PAIRING) || !defined(POS) || !defined(INVERSE)
#  error "rope.cl needs WG, PAIRING, POS and INVERSE"
#endif

#define READS_HALVES  (PAIRING == 0 || PAIRING == 3)
#define WRITES_HALVES (PAIRING == 0 || PAIRING == 2)

GROUP_KERNEL
void rope(STAGE_GROUP const rope_args a, global float *out, global const float *x, global const float *freqs,
          global const int *pos)
{
    const uint B_T = a.n[0] * a.n[1], H = a.n[2], D = a.n[3], half_n = a.half_n;
    const uint token = group_id(0) % B_T, h0 = group_id(0) / B_T * a.heads, t = token % a.n[1],
               b = token / a.n[1];
    const uint lane = local_id(0);
#if POS
    const float at = (float)(pos[a.pos + b] + (int)t);
#else
    const float at = (float)t;
#endif
    x += a.x.offset + b * (size_t)a.x.stride[0] + t * (size_t)a.x.stride[1] + h0 * (size_t)a.x.stride[2];
    out += ((size_t)token * H + h0) * D;
    freqs += a.freqs;

    uint i = lane;
#if WG == 1
    for (; i + 16 <= half_n; i += 16) {
        const float16 angle = at * vload16(0, freqs + i), c = cos(angle) * a.scale,
                      s = sin(angle) * (INVERSE ? -a.scale : a.scale);
        for (uint h = 0; h < a.heads; h++) {
            global const float *from = x + h * (size_t)a.x.stride[2];
            global float *to = out + h * D;
#  if READS_HALVES
            const float16 even = vload16(0, from + i), odd = vload16(0, from + i + half_n);
#  else
            const float16 lo = vload16(0, from + 2 * i), hi = vload16(0, from + 2 * i + 16);
            const float16 even = (float16)(lo.even, hi.even), odd = (float16)(lo.odd, hi.odd);
#  endif
            const float16 re = even * c - odd * s, im = odd * c + even * s;
#  if WRITES_HALVES
            vstore16(re, 0, to + i);
            vstore16(im, 0, to + i + half_n);
#  else
            float16 first, second;
            first.even = re.lo;
            first.odd = im.lo;
            second.even = re.hi;
            second.odd = im.hi;
            vstore16(first, 0, to + 2 * i);
            vstore16(second, 0, to + 2 * i + 16);
#  endif
        }
    }
#endif
    for (; i < half_n; i += WG) {
        const float angle = at * freqs[i], c = cos(angle) * a.scale,
                    s = sin(angle) * (INVERSE ? -a.scale : a.scale);
        const uint i0 = READS_HALVES ? i : 2 * i, i1 = READS_HALVES ? i + half_n : 2 * i + 1;
        const uint to0 = WRITES_HALVES ? i : 2 * i, to1 = WRITES_HALVES ? i + half_n : 2 * i + 1;
        for (uint h = 0; h < a.heads; h++) {
            const float re = x[h * (size_t)a.x.stride[2] + i0], im = x[h * (size_t)a.x.stride[2] + i1];
            out[h * D + to0] = re * c - im * s;
            out[h * D + to1] = im * c + re * s;
        }
    }
    for (uint h = 0; h < a.heads; h++)
        for (uint d = 2 * half_n + lane; d < D; d += WG)
            out[h * D + d] = x[h * (size_t)a.x.stride[2] + d];
}
