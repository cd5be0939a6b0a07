/* For attention_gpu_flash_mma.cl: fragments of queries, keys, weights and values, in registers. The order of
 * the columns of a product is free, as long as both operands have it. It is chosen so that a work-item reads
 * adjacent words, and so that the sums of the first product, which it has, are its part of the second one's
 * operand. Needs D, E, KEYS, EXACT, attention_gpu_mma_load.h and attention_halves.h. */
#ifndef CLEF_CL_ATTENTION_GPU_MMA_FRAGMENTS_H
#define CLEF_CL_ATTENTION_GPU_MMA_FRAGMENTS_H

enum {
    OWN = MATRIX == 1 ? 2 : 1, /* queries of which a work-item has sums */
    SLICES = D / 16,
    KEY_PARTS = KEYS / MATRIX_TOKENS,
    VALUE_PARTS = E / MATRIX_TOKENS,
    WORDS = MATRIX == 2 ? 8 : 2 /* of a query, in a fragment */
};

/* Loops over products. Each has barriers in plain C, of which a compiler should not see many. */
#define PRODUCTS_AT_ONCE (MATRIX_PLAIN ? 1 : 64)

/* Row r of those that the work-item has, in its unit's; whether it counts for the row alone. */
static inline uint own_row(uint r, uint lane) { return MATRIX == 1 ? lane / 4 + 8 * r : lane % 16; }
static inline int is_first_of_row(uint lane) { return MATRIX == 1 ? lane % 4 == 0 : lane < 16; }

/* Which of the row's own sums element i of a fragment of sums belongs to. */
#define SUM_ROW(i) (MATRIX == 1 ? (i) / 2 : 0)

/* The place of the work-item among those that share a row of an operand. */
static inline uint quarter_of(uint lane) { return MATRIX == 1 ? lane % 4 : lane / 16; }
static inline uint row_of(uint lane) { return MATRIX == 1 ? lane / 4 : lane % 16; }

/* x of all work-items that have sums of a row. */
UNIT_INLINED float row_max(float x, matrix_scratch s)
{
    const uint first = MATRIX == 1 ? 1 : 16;
    x = fmax(x, as_float(matrix_exchange(as_uint(x), first, s)));
    return MATRIX == 2 ? x : fmax(x, as_float(matrix_exchange(as_uint(x), 2 * first, s)));
}

UNIT_INLINED float row_sum(float x, matrix_scratch s)
{
    const uint first = MATRIX == 1 ? 1 : 16;
    x += as_float(matrix_exchange(as_uint(x), first, s));
    return MATRIX == 2 ? x : x + as_float(matrix_exchange(as_uint(x), 2 * first, s));
}

/* ---- queries --------------------------------------------------------------------------------- */

/* Which word of a row word i of slice d's fragment is. Two slices are read at once, if there are two. */
static inline uint word_of(uint d, uint i, uint lane)
{
    if (MATRIX == 2)
        return d * 8 + i;
    return d / 2 * 2 + 1 < SLICES ? d / 2 * 16 + quarter_of(lane) * 4 + d % 2 * 2 + i
                                  : d * 8 + quarter_of(lane) * 2 + i;
}

/* Elements of a query that are words i and i + 1 of slice d's fragment. Rows begin at multiples of 4. */
static inline float4 two_of_query(global const float *q, uint d, uint i, uint lane)
{
    return *(global const float4 *)(q + 2 * word_of(d, i, lane));
}

/* The largest element of a query. */
UNIT_INLINED float largest_of(global const float *q, uint lane, matrix_scratch scratch)
{
    float most = 0;
#pragma unroll
    for (uint d = 0; d < SLICES; d++)
#pragma unroll
        for (uint i = 0; i < WORDS; i += 2) {
            const float4 x = fabs(two_of_query(q, d, i, lane));
            most = fmax(fmax(most, fmax(x.x, x.y)), fmax(x.z, x.w));
        }
    return row_max(most, scratch);
}

/* The words of a slice of a query, times `by`, as fragments have them: of each pair of elements the halves,
 * then what these leave. */
INLINED void query_words(uint *high, uint *low, global const float *q, float by, uint d, uint lane)
{
#pragma unroll
    for (uint i = 0; i < WORDS; i += 2) {
        const float4 x = two_of_query(q, d, i, lane) * by;
        const uint2 first = half_words(x.x, x.y), second = half_words(x.z, x.w);
        high[i] = first.x;
        high[i + 1] = second.x;
        low[i] = first.y;
        low[i + 1] = second.y;
    }
}

INLINED matrix_w query_fragment(const uint *words)
{
#if MATRIX == 1
    return (uint4)(words[0], words[2], words[1], words[3]);
#elif MATRIX == 2
    return (uint8)(words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]);
#else
    return (uint2)(words[0], words[1]);
#endif
}

/* Loads the unit's queries. by: what each of the work-item's own is multiplied by. */
INLINED void load_queries(matrix_w *high, matrix_w *low, global const float *const *q, const float *by,
                          uint lane)
{
#pragma unroll
    for (uint d = 0; d < SLICES; d++) {
        uint h[OWN * WORDS], l[OWN * WORDS];
#pragma unroll
        for (uint r = 0; r < OWN; r++)
            query_words(h + r * WORDS, l + r * WORDS, q[r], by[r], d, lane);
        high[d] = query_fragment(h);
        if (EXACT)
            low[d] = query_fragment(l);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

UNIT_INLINED matrix_floats times(matrix_w high, matrix_w low, matrix_x x, matrix_floats sums,
                                 matrix_scratch scratch)
{
    if (EXACT)
        sums = matrix_halves(low, x, sums, scratch);
    return matrix_halves(high, x, sums, scratch);
}

/* z[j] = q . k of part j of the keys. */
UNIT_INLINED void score(matrix_floats *z, const matrix_w *high, const matrix_w *low, local const uint *keys,
                        uint lane, matrix_scratch scratch)
{
    keys += row_of(lane) * K_WORDS;
#pragma unroll
    for (uint j = 0; j < KEY_PARTS; j++)
        z[j] = 0;
#if MATRIX == 2
#  pragma unroll PRODUCTS_AT_ONCE
    for (uint d = 0; d < SLICES; d++)
#  pragma unroll PRODUCTS_AT_ONCE
        for (uint j = 0; j < KEY_PARTS; j++) {
            local const uint *from = keys + j * MATRIX_TOKENS * K_WORDS + d * 8;
            z[j] = times(high[d], low[d], (uint8)(four_words(from), four_words(from + 4)), z[j], scratch);
        }
#else
#  pragma unroll PRODUCTS_AT_ONCE
    for (uint d = 0; d + 1 < SLICES; d += 2)
#  pragma unroll PRODUCTS_AT_ONCE
        for (uint j = 0; j < KEY_PARTS; j++) {
            const uint4 x = four_words(keys + j * MATRIX_TOKENS * K_WORDS + word_of(d, 0, lane));
            z[j] = times(high[d], low[d], x.xy, z[j], scratch);
            z[j] = times(high[d + 1], low[d + 1], x.zw, z[j], scratch);
        }
#  if D / 16 % 2
#    pragma unroll PRODUCTS_AT_ONCE
    for (uint j = 0; j < KEY_PARTS; j++) {
        const uint2 x = two_words(keys + j * MATRIX_TOKENS * K_WORDS + word_of(SLICES - 1, 0, lane));
        z[j] = times(high[SLICES - 1], low[SLICES - 1], x, z[j], scratch);
    }
#  endif
#endif
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The weights of 16 keys as a fragment. words: pairs of those that the work-item has. */
UNIT_INLINED matrix_w weight_fragment(const uint *words, uint lane, matrix_scratch scratch)
{
#if MATRIX == 1
    return (uint4)(words[0], words[1], words[2], words[3]);
#elif MATRIX == 2
    const uint4 own = (uint4)(words[0], words[1], words[2], words[3]);
    const uint4 other =
        (uint4)(matrix_exchange(own.x, 16, scratch), matrix_exchange(own.y, 16, scratch),
                matrix_exchange(own.z, 16, scratch), matrix_exchange(own.w, 16, scratch));
    return lane < 16 ? (uint8)(own, other) : (uint8)(other, own);
#else
    return (uint2)(words[0], words[1]);
#endif
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The element of the values that token t of part j is. */
static inline uint element_of(uint j, uint t)
{
    if (MATRIX != 1)
        return j * MATRIX_TOKENS + t;
    return E % 64 == 0 ? j / 8 * 64 + t * 8 + j % 8 : j / 2 * 16 + t * 2 + j % 2;
}

#if MATRIX == 1
/* Two parts' sums and the values of 16 keys, times their weights. a, b, c, d: a word of each key that the
 * work-item has. */
#  define ADD_TWO(j, s)                                                                                      \
      acc[j] = times(high, low, (uint2)(lower_halves(a s, b s), lower_halves(c s, d s)), acc[j], scratch);   \
      acc[j + 1] =                                                                                           \
          times(high, low, (uint2)(upper_halves(a s, b s), upper_halves(c s, d s)), acc[j + 1], scratch)

UNIT_INLINED void add_values(matrix_floats *acc, matrix_w high, matrix_w low, local const uint *values,
                             uint s, uint lane, matrix_scratch scratch)
{
    values += (16 * s + lane % 4 * 2) * V_WORDS;
#  if E % 64 == 0
#    pragma unroll PRODUCTS_AT_ONCE
    for (uint j = 0; j < VALUE_PARTS; j += 8) {
        local const uint *from = values + j * 4 + lane / 4 * 4;
        const uint4 a = four_words(from), b = four_words(from + V_WORDS), c = four_words(from + 8 * V_WORDS),
                    d = four_words(from + 9 * V_WORDS);
        ADD_TWO(j, .x);
        ADD_TWO(j + 2, .y);
        ADD_TWO(j + 4, .z);
        ADD_TWO(j + 6, .w);
    }
#  else
#    pragma unroll PRODUCTS_AT_ONCE
    for (uint j = 0; j < VALUE_PARTS; j += 2) {
        local const uint *from = values + j * 4 + lane / 4;
        const uint a = from[0], b = from[V_WORDS], c = from[8 * V_WORDS], d = from[9 * V_WORDS];
        ADD_TWO(j, );
    }
#  endif
}
#else
/* Where group g of the work-item's element of part j begins: group_at(), in which all but `upper`, the
 * element's bit 3, and for an odd group its sign, are constants. */
INLINED local const uint *values_at(local const uint *values, uint j, uint g, int upper)
{
    const int place = (g ^ 2 * j) % 8;
    return values + j * MATRIX_TOKENS * V_WORDS + (place + (place % 2 ? -upper : upper)) * 4;
}

UNIT_INLINED void add_values(matrix_floats *acc, matrix_w high, matrix_w low, local const uint *values,
                             uint s, uint lane, matrix_scratch scratch)
{
    const int upper = lane / 8 % 2 ^ (MATRIX == 4 ? lane / 32 : 0);
    values += lane % 16 * V_WORDS + (MATRIX == 4 ? lane / 16 % 2 * 2 : 0);
#  pragma unroll PRODUCTS_AT_ONCE
    for (uint j = 0; j < VALUE_PARTS; j++) {
#  if MATRIX == 2
        const matrix_x x = (uint8)(four_words(values_at(values, j, 2 * s, upper)),
                                   four_words(values_at(values, j, 2 * s + 1, upper)));
#  else
        const matrix_x x = two_words(values_at(values, j, 2 * s, upper));
#  endif
        acc[j] = times(high, low, x, acc[j], scratch);
    }
}
#endif

#endif
