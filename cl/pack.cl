/* Lays a weight out in panels (cl/panel.h). Launch: one group of one item for each tile of 16 rows that the weight fills.
 *   -D W_TYPE  dtype of w */
#define WG 1
#include "args.h"
#include "weights.h"

#ifndef W_TYPE
#  error "pack.cl needs W_TYPE"
#endif

#if W_TYPE == DTYPE_F32
typedef uint word;
#elif W_TYPE == DTYPE_F16 || W_TYPE == DTYPE_BF16
typedef ushort word;
#endif

#if W_TYPE <= DTYPE_BF16

kernel void pack(const pack_args a, global uchar *bytes, global const word *w)
{
    const uint tile = a.tile + get_group_id(0) * a.step, first = get_group_id(0) * PANEL_ROWS;
    global word *out = (global word *)bytes + (size_t)tile * PANEL_ROWS * a.k;
    w += a.w;
    for (uint k = 0; k < a.k; k++)
        for (uint r = 0; r < PANEL_ROWS; r++)
            out[k * PANEL_ROWS + r] =
                first + r < a.n ? w[(size_t)(first + r) * a.row_stride + (size_t)k * a.col_stride] : (word)0;
}

#else

/* Block formats whose quants are whole bytes of the block: `groups` of four bytes go to the rows' places as they are. */
#  if W_TYPE == DTYPE_Q8_0
enum { BYTES = Q8_0_BYTES, GROUPS = 8 };
#    define STORED(q) ((q) ^ 0x80808080u)
#  else
enum { BYTES = Q4_0_BYTES, GROUPS = 4 };
#    define STORED(q) (q)
#  endif

kernel void pack(const pack_args a, global uchar *bytes, global const uchar *w)
{
    const uint tile = a.tile + get_group_id(0) * a.step, tiles = a.tiles, blocks = a.k / 32;
    global uint *quants = (global uint *)bytes + (size_t)tile * blocks * GROUPS * PANEL_ROWS;
    global ushort *scales =
        (global ushort *)(bytes + (size_t)tiles * blocks * GROUPS * PANEL_ROWS * 4) + (size_t)tile * blocks * PANEL_ROWS;
    for (uint r = 0; r < PANEL_ROWS; r++) {
        const uint row = get_group_id(0) * PANEL_ROWS + r;
        for (uint b = 0; b < blocks; b++) {
            global const uchar *block = w + (a.w / 32 + (size_t)min(row, a.n - 1) * blocks + b) * BYTES;
            scales[b * PANEL_ROWS + r] = row < a.n ? *(global const ushort *)block : 0;
            for (uint g = 0; g < GROUPS; g++) {
                global const ushort *q = (global const ushort *)(block + 2 + 4 * g);
                quants[(b * GROUPS + g) * PANEL_ROWS + r] = row < a.n ? STORED((uint)q[0] | (uint)q[1] << 16) : 0;
            }
        }
    }
}

#endif
