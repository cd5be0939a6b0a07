/* cache[b, h, pos[b] + t, :] = x[b, h, t, :] for x [B, H, T, D]. Rows beyond the cache's capacity are
 * dropped. cache_row.h describes the rounding.
 * Launch: one group for each row of x.
 *   -D WG    work-items in a group
 *   -D TYPE  dtype of the cache: f32, f16 or q8_0 (D a multiple of 32)
 *   -D POS   1: with pos, else every sequence begins at row 0
 *   -D PAGED 1: the cache is a pool of pages, and b numbers the rows of several sequences (paging.h). T
 *            is 1 */
#include "args.h"
#include "group.h"
#include "weights.h"
#include "cache_row.h"

#if !defined(TYPE) || !defined(POS) || !defined(PAGED)
#  error "cache.cl needs WG, TYPE, POS and PAGED"
#endif
#include "paging.h"

typedef ELEM(TYPE) cache_elem;

#if TYPE == DTYPE_F32
static void write_row(global cache_elem *to, size_t at, global const float *x, uint n)
{
    for (uint i = local_id(0); i < n; i += WG)
        to[at + i] = x[i];
}
#elif TYPE == DTYPE_F16
static void write_row(global cache_elem *to, size_t at, global const float *x, uint n)
{
    const uint wide = n / 16;
    for (uint i = local_id(0); i < wide; i += WG)
        vstore_half16_rte(vload16(i, x), 0, to + at + 16 * i);
    for (uint i = 16 * wide + local_id(0); i < n; i += WG)
        vstore_half_rte(x[i], at + i, to);
}
#elif TYPE == DTYPE_Q8_0
static void write_row(global cache_elem *to, size_t at, global const float *x, uint n)
{
    for (uint i = local_id(0); i < n / 32; i += WG)
        keep_block(to + (at / 32 + i) * Q8_0_BYTES, vload16(2 * i, x), vload16(2 * i + 1, x));
}
#endif

GROUP_KERNEL
void cache_write(STAGE_GROUP const cache_write_args a, global cache_elem *cache, global const float *x,
                 global const int *pos PAGING_PARAMS)
{
    const uint row = group_id(0), t = row % a.n[2], h = row / a.n[2] % a.n[1], b = row / a.n[2] / a.n[1];
#if POS
    const int at = pos[a.pos + b] + (int)t;
#else
    const int at = (int)t;
#endif
    if (at < 0 || at >= (int)a.capacity)
        return;
    x += a.x.offset + b * (size_t)a.x.stride[0] + h * (size_t)a.x.stride[1] + t * (size_t)a.x.stride[2];
#if PAGED
    const run_of run = run_with(&a.paging, b, runs, pages);
    if (run.rows)
        write_row(cache, page_at(&a.cache, h, at, run.pages), x, a.n[3]);
#else
    write_row(cache,
              a.cache.offset + b * (size_t)a.cache.stride[0] + h * (size_t)a.cache.stride[1] +
                  (uint)at * (size_t)a.cache.stride[2],
              x, a.n[3]);
#endif
}
