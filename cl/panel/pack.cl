/* Packs a weight as panels (cl/panel/panel.h). Launch: one work-group of one work-item for each tile of 16
 * rows.
 *   -D W_TYPE  dtype of w */
#define WG 1
#include "args.h"
#include "substep.h"
#include "fetch.h"
#include "weights.h"

#ifndef W_TYPE
#  error "pack.cl needs W_TYPE"
#endif

/* Prefetches n bytes from p on. A tile's sixteen rows are sixteen streams, too many and too short for the
 * processor's prefetcher. The rows of the next tile follow them in one piece, which is fetched meanwhile. */
static inline void fetch_bytes(global const uchar *p, uint n)
{
    for (uint i = 0; i < n; i += LINE_BYTES)
        FETCH_NEAR(p + i);
}

#if W_TYPE <= DTYPE_BF16

#  if W_TYPE == DTYPE_F32
typedef uint word;
typedef uint16 word16;
#  else
typedef ushort word;
typedef ushort16 word16;
#  endif

/* Transposes in four rounds. Each round interleaves the lanes of vector i with those of vector i + 8. */
static inline void transpose(word16 v[16])
{
#  pragma unroll
    for (int round = 0; round < 4; round++) {
        word16 u[16];
#  pragma unroll
        for (int i = 0; i < 8; i++) {
            const word16 a = v[i], b = v[i + 8];
            u[2 * i] = (word16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6,
                                b.s6, a.s7, b.s7);
            u[2 * i + 1] = (word16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd,
                                    a.se, b.se, a.sf, b.sf);
        }
#  pragma unroll
        for (int i = 0; i < 16; i++)
            v[i] = u[i];
    }
}

/* Packs columns k .. k + n - 1 of the tile whose first row is `first`. */
static void pack_columns(const pack_args *a, global word *out, global const word *w, uint first, uint k,
                         uint n)
{
    for (uint i = k; i < k + n; i++)
        for (uint r = 0; r < PANEL_ROWS; r++)
            out[i * PANEL_ROWS + r] = first + r < a->n
                                          ? w[(size_t)(first + r) * a->row_stride + (size_t)i * a->col_stride]
                                          : (word)0;
}

STAGE_KERNEL void pack(STAGE_GROUP const pack_args a, global uchar *bytes, global const word *w)
{
    const uint tile = a.tile + group_id(0) * a.step, first = group_id(0) * PANEL_ROWS;
    global word *out = (global word *)bytes + (size_t)tile * PANEL_ROWS * a.k;
    uint k = 0;
    if (first + PANEL_ROWS <= a.n && a.row_stride == 1)
        for (; k < a.k; k++)
            vstore16(vload16(0, w + first + (size_t)k * a.col_stride), k, out);
    else if (first + PANEL_ROWS <= a.n && a.col_stride == 1)
        for (; k + 16 <= a.k; k += 16) {
            word16 v[16];
            const size_t next = (size_t)(first + PANEL_ROWS) * a.row_stride + (size_t)PANEL_ROWS * k;
            fetch_bytes((global const uchar *)(w + next), sizeof v);
#  pragma unroll
            for (int r = 0; r < 16; r++)
                v[r] = vload16(0, w + (size_t)(first + r) * a.row_stride + k);
            transpose(v);
#  pragma unroll
            for (int i = 0; i < 16; i++)
                vstore16(v[i], k + i, out);
        }
    pack_columns(&a, out, w, first, k, a.k - k);
}

#else

#  include "pack_blocks.h"

STAGE_KERNEL void pack(STAGE_GROUP const pack_args a, global uchar *bytes, global const uchar *w)
{
    enum { CODES = STEP_BLOCKS * CODE_VECTORS * 64 };
    const uint tile = a.tile + group_id(0) * a.step, first = group_id(0) * PANEL_ROWS,
               steps = a.k / (32 * STEP_BLOCKS);
    global uchar *codes = bytes + (size_t)tile * steps * CODES;
    global uchar *scales = bytes + (size_t)a.tiles * steps * CODES + (size_t)tile * steps * SCALE_BYTES;
    stored_rows s;
    s.row_bytes = (size_t)steps * STORED_BYTES;
    s.n = first < a.n ? min(a.n - first, (uint)PANEL_ROWS) : 0;
    s.at = w + first * s.row_bytes;
    for (uint i = 0; i < steps; i++) {
        fetch_bytes(s.at + PANEL_ROWS * s.row_bytes + i * (PANEL_ROWS - 1) * STORED_BYTES,
                    PANEL_ROWS * STORED_BYTES);
        pack_codes(codes, &s);
        pack_scales(scales, &s);
        s.at += STORED_BYTES;
        codes += CODES;
        scales += SCALE_BYTES;
    }
}

#endif
