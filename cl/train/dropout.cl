/* out = scale x where a random word is at least `least`, else 0. Element i has number e = first + i, and word
 * e / 16 % 4 of the counter (e / 64 * 16 + e % 16, stream, random[2], random[3]) with key random[0],
 * random[1].
 * Launch: one group of WG work-items for `span` elements, a multiple of 64; out may be x.
 *   -D WG  work-items in a group */
#include "args.h"
#include "group.h"
#include "philox.h"

#if WG == 1
DEFINE_PHILOX(philox16, uint16)
#endif
DEFINE_PHILOX(philox, uint)

static float kept(const dropout_args *a, float x, uint word) { return word >= a->least ? a->scale * x :
                  0.0f; }

GROUP_KERNEL
void dropout(const dropout_args a, global float *out, global const float *x, global const uint *random)
{
    const uint begin = get_group_id(0) * a.span, end = min(begin + a.span, a.n);
    const uint key0 = random[a.random], key1 = random[a.random + 1], at2 = random[a.random + 2],
               at3 = random[a.random + 3];
    x += a.x;
    uint e = begin;
#if WG == 1
    const uint16 lanes = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (; a.first % 64 == 0 && e + 64 <= end; e += 64) {
        uint16 c[4] = {(a.first + e) / 64 * 16 + lanes, a.stream, at2, at3};
        philox16(&c[0], &c[1], &c[2], &c[3], key0, key1);
        for (uint w = 0; w < 4; w++) {
            const float16 v = a.scale * vload16(w, x + e);
            vstore16(select((float16)(0.0f), v, c[w] >= a.least), w, out + e);
        }
    }
#endif
    for (e += get_local_id(0); e < end; e += WG) {
        const uint number = a.first + e;
        uint c[4] = {number / 64 * 16 + number % 16, a.stream, at2, at3};
        philox(&c[0], &c[1], &c[2], &c[3], key0, key1);
        out[e] = kept(&a, x[e], c[number / 16 % 4]);
    }
}
