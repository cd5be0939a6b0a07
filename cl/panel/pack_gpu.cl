/* Packs a weight as panels (cl/panel/panel.h) on GPUs: what pack.cl writes, by many work-items. Work-item r
 * of each sixteen packs row r of a tile, so that they write side by side.
 * Launch: work-groups [tiles, steps of the columns], each of a multiple of sixteen work-items. In a step
 * sixteen work-items pack a block of the format, or COLUMNS columns.
 *   -D W_TYPE  dtype of w */
#define ONE_ROW
#include "args.h"
#include "weights.h"

#ifndef W_TYPE
#  error "pack_gpu.cl needs W_TYPE"
#endif

/* Of sixteen work-items, in all groups of a tile. */
static inline uint step_of_item(void)
{
    return (uint)(get_group_id(1) * get_local_size(0) + get_local_id(0)) / PANEL_ROWS;
}

#if W_TYPE <= DTYPE_BF16

#  if W_TYPE == DTYPE_F32
typedef uint word;
#  else
typedef ushort word;
#  endif

kernel void pack_gpu(const pack_args a, global uchar *bytes, global const word *w)
{
    const uint tile = a.tile + get_group_id(0) * a.step, r = get_local_id(0) % PANEL_ROWS,
               row = get_group_id(0) * PANEL_ROWS + r, k = step_of_item() * PACK_COLUMNS;
    global word *out = (global word *)bytes + (size_t)tile * PANEL_ROWS * a.k + r;
    for (uint i = k; i < min(k + PACK_COLUMNS, a.k); i++)
        out[(size_t)i * PANEL_ROWS] =
            row < a.n ? w[(size_t)row * a.row_stride + (size_t)i * a.col_stride] : (word)0;
}

#else

#  include "pack_blocks.h"

kernel void pack_gpu(const pack_args a, global uchar *bytes, global const uchar *w)
{
    enum { CODES = STEP_BLOCKS * CODE_VECTORS * 64 };
    const uint tile = a.tile + get_group_id(0) * a.step, r = get_local_id(0) % PANEL_ROWS,
               row = get_group_id(0) * PANEL_ROWS + r, steps = a.k / (32 * STEP_BLOCKS), i = step_of_item();
    const size_t block = (size_t)tile * steps + i;
    if (i < steps) {
        const stored_rows s = {w + ((size_t)row * steps + i) * STORED_BYTES, r, row < a.n};
        pack_codes(bytes + block * CODES, &s);
        pack_scales(bytes + (size_t)a.tiles * steps * CODES + block * SCALE_BYTES, &s);
    }
}

#endif
