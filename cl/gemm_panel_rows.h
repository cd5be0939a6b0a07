/* For gemm_panel.cl: packs rows of a. Needs a_elem, A1, A16 and the steps of packed rows. */
#ifndef CLEF_CL_GEMM_PANEL_ROWS_H
#define CLEF_CL_GEMM_PANEL_ROWS_H

/* Packs `depth` columns, from k0 on, of `blocks` blocks of NT rows from `row` on. Rows beyond the last have
 * any values. */
#if TRANSPOSED_A
INLINED void pack_a(const matmul_args *p, float *to, global const a_elem *a, uint row, uint blocks, uint k0,
                    uint depth)
{
    const size_t stride = p->a_stride[2];
    /* What is read beyond the last row is the start of the next k, except at the last k. */
    const uint end = k0 + depth, last_row = row + (blocks - 1) * NT,
               whole = last_row + 16 <= p->m ? end
                       : stride < 16         ? k0
                                             : min(end, p->k - 1);
    uint k = k0;
    a += k0 * stride + row;
    for (; k < whole; k++, a += stride, to += LANES)
        for (uint j = 0; j < blocks; j++)
            STORE_LOOSE(A16(a + j * NT), to + j * BLOCK_ELEMS);
    for (; k < end; k++, a += stride, to += LANES)
        for (uint t = 0; t < blocks * NT; t++)
            to[t / NT * BLOCK_ELEMS + t % NT] = A1(a + min(t, p->m - 1 - row));
}
#else
INLINED void pack_a(const matmul_args *p, float *to, global const a_elem *a, uint row, uint blocks, uint k0,
                    uint depth)
{
    for (uint t = 0; t < blocks * NT; t++, to += ROW_STEP) {
        global const a_elem *from = a + min(row + t, p->m - 1) * (size_t)p->a_stride[2] + k0;
        uint k = 0;
        for (; k + 16 <= depth; k += 16)
            STORE_LOOSE(A16(from + k), to + k);
        for (; k < depth; k++)
            to[k] = A1(from + k);
    }
}
#endif

#endif
