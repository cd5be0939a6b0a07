/* Tiles of an f32 product on CPUs. */
#include "graph/lower/tile.h"

enum {
    WIDE = 16,       /* floats of a vector; wider registers hold the large tile */
    LARGE_ROWS = 14, /* 28 sums, two vectors of w and an element of x in 32 registers */
    MEDIUM_ROWS = 8,
    MEDIUM_MOST = 48, /* most rows of x for which the medium tile may waste less */
    SMALL_ROWS = 6,   /* 12 sums of half a vector in 16 registers */
    MAX_BLOCKS = 8,
    MAX_PAIRS =
        4, /* of a group: 8 blocks of x and a pair of panels for 256 of k fill half of a second cache */
    MAX_SMALL_BLOCKS = MAX_BLOCKS * MAX_PAIRS, /* small tiles reread w most, so that a group has many rows */
    MAX_TILES_ONE_PART = 512, /* of a group that keeps no sums, because it needs no second part of k */
    GROUPS_PER_UNIT = 16      /* wanted, so that the compute units end together */
};

static int is_wide(const clef_caps *caps)
{
    return caps->float_width >= WIDE;
}

/* The rows that are computed for m, including those beyond the last, and a little for each tile. */
static uint32_t rows_cost(uint32_t m, uint32_t rows)
{
    return clef__ceil_div(m, rows) * (rows + 1);
}

static uint32_t rows_of_tile(const clef_caps *caps, uint32_t m)
{
    if (!is_wide(caps))
        return SMALL_ROWS;
    return m <= MEDIUM_MOST && rows_cost(m, MEDIUM_ROWS) < rows_cost(m, LARGE_ROWS) ? MEDIUM_ROWS
                                                                                    : LARGE_ROWS;
}

clef_tile clef__tile_of(const clef_caps *caps, uint32_t m, uint32_t pairs, uint32_t batches)
{
    const uint32_t rows = rows_of_tile(caps, m), all_blocks = clef__ceil_div(m, rows);
    const uint64_t wanted = (uint64_t)GROUPS_PER_UNIT * (uint64_t)(caps->n_units > 0 ? caps->n_units : 1);
    clef_tile t = {.rows = (int32_t)rows,
                   .vectors = is_wide(caps) ? 2 : 1,
                   .all_blocks = all_blocks,
                   .blocks = is_wide(caps) ? MAX_BLOCKS : MAX_SMALL_BLOCKS,
                   .pairs = is_wide(caps) ? MAX_PAIRS : 1};
    while (t.pairs * t.blocks > 1 &&
           (uint64_t)clef__ceil_div(pairs, t.pairs) * clef__ceil_div(all_blocks, t.blocks) * batches <
               wanted) {
        if (t.pairs > 1)
            t.pairs /= 2;
        else
            t.blocks /= 2;
    }
    /* so that all groups are alike */
    t.blocks = clef__ceil_div(all_blocks, clef__ceil_div(all_blocks, t.blocks));
    return t;
}

/* The time of a product in groups of blocks x n, in tiles: of all tiles, of packing for each group, and of
 * waiting for the last group. The constants were measured on Zen 4. */
static double time_of_groups(const clef_tile *t, uint32_t blocks, uint32_t pairs, uint32_t n, double units,
                             double batches, int is_packed)
{
    const double block = 0.15, pair = is_packed ? 0.05 : 0.4, start = 0.05;
    const double rows = clef__ceil_div(t->all_blocks, blocks), columns = clef__ceil_div(pairs, n);
    const double all = (double)t->all_blocks * pairs + block * t->all_blocks * columns + pair * pairs * rows +
                       start * rows * columns;
    const double group = (double)blocks * n + block * blocks + pair * n + start;
    return all * batches / units + group * (units - 1) / units * 0.6;
}

clef_tile clef__tile_of_gemm(const clef_caps *caps, const matmul_args *p, int is_packed)
{
    const uint32_t rows = rows_of_tile(caps, p->m), pairs = clef__ceil_div(p->n, PANEL_PAD);
    const uint32_t most = p->k <= CLEF__TILE_DEPTH ? MAX_TILES_ONE_PART : MAX_BLOCKS * MAX_PAIRS;
    const double units = caps->n_units > 0 ? caps->n_units : 1, batches = (double)p->n0 * p->n1;
    double least = 0;
    clef_tile t = {
        .rows = (int32_t)rows, .vectors = is_wide(caps) ? 2 : 1, .all_blocks = clef__ceil_div(p->m, rows)};
    for (uint32_t blocks = 1; blocks <= MAX_BLOCKS && blocks <= t.all_blocks; blocks++)
        for (uint32_t n = 1; n <= pairs && n * blocks <= most; n++) {
            const double time = time_of_groups(&t, blocks, pairs, n, units, batches, is_packed);
            if (least == 0 || time < least) {
                least = time;
                t.blocks = blocks;
                t.pairs = n;
            }
        }
    return t;
}

/* The rows that m packed rows have room for, in blocks of `rows`. */
static uint32_t packed_rows(uint32_t m, uint32_t rows)
{
    return clef__ceil_div(m, rows) * X_LANES(rows);
}

uint64_t clef__tile_scratch(const clef_caps *caps, uint32_t m, uint32_t k)
{
    const uint32_t medium = packed_rows(m < MEDIUM_MOST ? m : MEDIUM_MOST, MEDIUM_ROWS),
                   large = packed_rows(m, LARGE_ROWS), wide = medium > large ? medium : large;
    return (uint64_t)(is_wide(caps) ? wide : packed_rows(m, SMALL_ROWS)) * k * sizeof(float);
}
