/* Prepares rows of x [m, k] for a product with panels (panel_cpu_activations.h). With QUANTISE, tokens are
 * stored in blocks, which args.h describes at TOKEN_BLOCK. Launch: one work-group of one work-item for each
 * row; groups beyond the last row fill its block with copies of that row. */
#define WG 1
#include "args.h"
#include "substep.h"
#include "weights.h"

#define ROWS_SPACE global
#include "panel_cpu_activations.h"

STAGE_KERNEL void panel_cpu_activations_int8(STAGE_GROUP const rows_args a, global uchar *out,
                                             global const float *x, global const norm_weight_elem *weight,
                                             global const norm_bias_elem *bias)
{
    const uint row = group_id(0);
    const normed_row r = row_at(&a, min(row, a.m - 1), x, weight, bias);
#if QUANTISE
    const uint most = a.block ? a.block : TOKEN_BLOCK, start = row / most * most,
               nt = a.block ? a.block : min(most, (a.m - start + 3) / 4 * 4);
    prepare_row(&a, &r, out + (size_t)start * TOKEN_BYTES(a.k, a.words), row - start, nt, a.words);
#else
    prepare_row(&a, &r, out, row, 0, 0);
#endif
}
