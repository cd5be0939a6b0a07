/* A piece of a row of k or v: UNIT (4 or 8) elements, read by one load of up to 16 bytes where the format
 * allows it, and decoded later, so that many loads are under way at once. Include it after weights.h and
 * inline.h.
 *   RAW(type)          what a piece is kept in before it is decoded
 *   PIECE(type)(p, i)  the piece from element i on, a multiple of UNIT. Floats are aligned to the piece
 *   DECODE(type)(raw)  its elements */
#ifndef CLEF_CL_ATTENTION_GPU_ROW_H
#define CLEF_CL_ATTENTION_GPU_ROW_H

#define RAW(type)    JOIN(raw_, type)
#define PIECE(type)  JOIN(piece_, type)
#define DECODE(type) JOIN(decode_, type)

/* A piece of Q8_0 is the block's scale, then two elements in each ushort: blocks are aligned to 2 bytes. */
#if UNIT == 8
typedef float8  unit_floats;
typedef float8  raw_0;
typedef uint4   raw_1;
typedef uint4   raw_2;
typedef ushort8 raw_5;

INLINED float8 piece_0(global const float *p, size_t i)
{
    global const float4 *x = (global const float4 *)(p + i);
    return (float8)(x[0], x[1]);
}

INLINED ushort8 piece_5(global const uchar *p, size_t i)
{
    global const ushort *block = (global const ushort *)(p + i / 32 * Q8_0_BYTES);
    global const ushort *x = block + 1 + i % 32 / 2;
    return (ushort8)(block[0], x[0], x[1], x[2], x[3], 0, 0, 0);
}

INLINED float8 decode_1(uint4 raw)
{
    const ushort8 h = as_ushort8(raw); /* one by one: whole vectors would pass through memory */
    return (float8)(half_of_bits(h.s0), half_of_bits(h.s1), half_of_bits(h.s2), half_of_bits(h.s3),
                    half_of_bits(h.s4), half_of_bits(h.s5), half_of_bits(h.s6), half_of_bits(h.s7));
}

INLINED float8 decode_2(uint4 raw) { return as_float8(convert_uint8(as_ushort8(raw)) << 16); }

INLINED float8 decode_5(ushort8 raw)
{
    return half_of_bits(raw.s0) * convert_float8(as_char8((ushort4)(raw.s1, raw.s2, raw.s3, raw.s4)));
}

INLINED float product(float8 x, float8 y, float sum)
{
    sum = fma(x.s0, y.s0, sum);
    sum = fma(x.s1, y.s1, sum);
    sum = fma(x.s2, y.s2, sum);
    sum = fma(x.s3, y.s3, sum);
    sum = fma(x.s4, y.s4, sum);
    sum = fma(x.s5, y.s5, sum);
    sum = fma(x.s6, y.s6, sum);
    return fma(x.s7, y.s7, sum);
}
#elif UNIT == 4
typedef float4  unit_floats;
typedef float4  raw_0;
typedef uint2   raw_1;
typedef uint2   raw_2;
typedef ushort4 raw_5;

INLINED float4 piece_0(global const float *p, size_t i) { return *(global const float4 *)(p + i); }

INLINED ushort4 piece_5(global const uchar *p, size_t i)
{
    global const ushort *block = (global const ushort *)(p + i / 32 * Q8_0_BYTES);
    global const ushort *x = block + 1 + i % 32 / 2;
    return (ushort4)(block[0], x[0], x[1], 0);
}

INLINED float4 decode_1(uint2 raw)
{
    const ushort4 h = as_ushort4(raw);
    return (float4)(half_of_bits(h.s0), half_of_bits(h.s1), half_of_bits(h.s2), half_of_bits(h.s3));
}

INLINED float4 decode_2(uint2 raw) { return as_float4(convert_uint4(as_ushort4(raw)) << 16); }

INLINED float4 decode_5(ushort4 raw)
{
    return half_of_bits(raw.s0) * convert_float4(as_char4((ushort2)(raw.s1, raw.s2)));
}

INLINED float product(float4 x, float4 y, float sum)
{
    sum = fma(x.s0, y.s0, sum);
    sum = fma(x.s1, y.s1, sum);
    sum = fma(x.s2, y.s2, sum);
    return fma(x.s3, y.s3, sum);
}
#else
#  error "attention_gpu_row.h needs UNIT, 4 or 8"
#endif

INLINED raw_1 piece_1(global const half *p, size_t i)
{
    return *(global const raw_1 *)((global const ushort *)p + i);
}
INLINED raw_2 piece_2(global const ushort *p, size_t i) { return *(global const raw_2 *)(p + i); }
INLINED unit_floats decode_0(raw_0 raw) { return raw; }

#endif
