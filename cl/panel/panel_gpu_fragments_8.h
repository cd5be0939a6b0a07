/* Fragments of units of eight work-items (matrix.h, MATRIX 3) in memory. A fragment of w or x is FRAGMENT
 * adjacent words: element i of work-item l is word 8 i + l. Where the device has a message for that, a unit
 * reads or writes a fragment at once.
 *   fragment_read(from, lane)         from global memory
 *   fragment_halves(from, lane)       FRAGMENT numbers of 16 bits from global memory, in the same order
 *   fragment_words4(from, lane), fragment_halves4  half as many
 *   fragment_load(from, lane)         from local memory, whose address is a multiple of 16 bytes
 *   fragment_store(to, v, lane)       to local memory, likewise
 *   -D MATRIX_PLAIN  1: no message */
#ifndef CLEF_CL_PANEL_GPU_FRAGMENTS_8_H
#define CLEF_CL_PANEL_GPU_FRAGMENTS_8_H

#if MATRIX != 3
#  error "panel_gpu_fragments_8.h needs MATRIX 3"
#endif

enum { FRAGMENT = 64 };

#define OF_EIGHT(type, from) \
    (type)((from)[0], (from)[8], (from)[16], (from)[24], (from)[32], (from)[40], (from)[48], (from)[56])

static inline uint8 fragment_read(global const uint *from, uint lane)
{
#if MATRIX_PLAIN
    return OF_EIGHT(uint8, from + lane);
#else
    return intel_sub_group_block_read8(from);
#endif
}

static inline ushort8 fragment_halves(global const ushort *from, uint lane)
{
#if MATRIX_PLAIN
    return OF_EIGHT(ushort8, from + lane);
#else
    return intel_sub_group_block_read_us8(from);
#endif
}

static inline uint4 fragment_words4(global const uint *from, uint lane)
{
#if MATRIX_PLAIN
    return (uint4)(from[lane], from[8 + lane], from[16 + lane], from[24 + lane]);
#else
    return intel_sub_group_block_read4(from);
#endif
}

static inline ushort4 fragment_halves4(global const ushort *from, uint lane)
{
#if MATRIX_PLAIN
    return (ushort4)(from[lane], from[8 + lane], from[16 + lane], from[24 + lane]);
#else
    return intel_sub_group_block_read_us4(from);
#endif
}

UNIT_INLINED uint8 fragment_load(local const uint *from, uint lane)
{
#if MATRIX_PLAIN || !defined(cl_intel_subgroup_local_block_io)
    return OF_EIGHT(uint8, from + lane);
#else
    return intel_sub_group_block_read8(from);
#endif
}

UNIT_INLINED void fragment_store(local uint *to, uint8 v, uint lane)
{
#if MATRIX_PLAIN || !defined(cl_intel_subgroup_local_block_io)
    to += lane;
    to[0] = v.s0;
    to[8] = v.s1;
    to[16] = v.s2;
    to[24] = v.s3;
    to[32] = v.s4;
    to[40] = v.s5;
    to[48] = v.s6;
    to[56] = v.s7;
#else
    intel_sub_group_block_write8(to, v);
#endif
}

#endif
