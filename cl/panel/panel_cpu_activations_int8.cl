/* Rows of x [m, k] as a product with panels reads them, see panel_cpu_activations.h. Launch: one group of
 * one item a row. Quantised, the tokens lie in blocks as args.h describes with TOKEN_BLOCK. */
#define WG 1
#include "args.h"
#include "weights.h"

#define ROWS_SPACE global
#include "panel_cpu_activations.h"

kernel void panel_cpu_activations_int8(const rows_args a, global uchar *out, global const float *x,
                                       global const norm_weight_elem *weight,
                                       global const norm_bias_elem *bias)
{
    const uint row = get_group_id(0);
    const normed_row r = row_at(&a, row, x, weight, bias);
#if QUANTISE
    uint nt = TOKEN_BLOCK, start = row / TOKEN_BLOCK * TOKEN_BLOCK;
    for (uint size = 8; start + nt > a.m; size /= 2) { /* in what is left behind the whole blocks */
        nt = size;
        if (start + size <= a.m && row >= start + size) {
            start += size;
            nt = TOKEN_BLOCK; /* not in this one: look at the next smaller */
        }
    }
    prepare_row(&a, &r, out + (size_t)start * (a.k / 8 * 11), row - start, nt);
#else
    prepare_row(&a, &r, out, row, 0);
#endif
}
