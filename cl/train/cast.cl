/* out = x rounded to 16 bits: to nearest, ties to even. NaN stays NaN.
 * Launch: one group of WG work-items for `span` elements, a multiple of 16.
 *   -D WG        work-items in a group
 *   -D OUT_TYPE  dtype of out: f16 or bf16 */
#include "args.h"
#include "group.h"
#include "weights.h"

#if !defined(OUT_TYPE)
#    error "cast.cl needs WG and OUT_TYPE"
#endif

#if OUT_TYPE == DTYPE_F16
#    define STORE(x, i, to) vstore_half_rte(x, i, to)
#    define STORE16(x, to)  vstore_half16_rte(x, 0, to)
#else
/* Adds half of the last bit that stays, or a little less if that bit is 0. */
#    define ROUNDED(T, x) ((x) + (T)0x7fffu + ((x) >> (T)16 & (T)1)) >> (T)16
static ushort bf16_of(float x)
{
    const uint bits = as_uint(x);
    return isnan(x) ? (ushort)(bits >> 16 | 0x40) : (ushort)(ROUNDED(uint, bits));
}
static ushort16 bf16_of_16(float16 x)
{
    const uint16 bits = as_uint16(x);
    return convert_ushort16(select(ROUNDED(uint16, bits), bits >> (uint16)16 | (uint16)0x40, isnan(x)));
}
#    define STORE(x, i, to) (to)[i] = bf16_of(x)
#    define STORE16(x, to)  vstore16(bf16_of_16(x), 0, to)
#endif

GROUP_KERNEL
void cast(const cast_args a, global ELEM(OUT_TYPE) *out, global const float *x)
{
    const uint begin = get_group_id(0) * a.span, end = min(begin + a.span, a.n);
    uint i = begin;
    x += a.x;
#if WG == 1
    for (; i + 16 <= end; i += 16)
        STORE16(vload16(0, x + i), out + i);
#endif
    for (i += get_local_id(0); i < end; i += WG)
        STORE(x[i], i, out);
}
