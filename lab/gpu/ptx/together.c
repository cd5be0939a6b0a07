/* Instructions that all lanes of a warp execute at once. */
#include <string.h>

#include "lab/gpu/ptx/warp.h"
#include "lab/gpu/run/bits.h"

/* d, what is given, the lanes to exchange with, the limit, the lanes that take part. */
static void shuffle(ptx_warp *w, const ptx_insn *i, int by_index)
{
    uint32_t given[PTX_LANES], *d = AT(uint32_t, 0);
    const uint32_t *which = AT(uint32_t, 2), *limit = AT(uint32_t, 3), *members = AT(uint32_t, 4);
    memcpy(given, AT(uint32_t, 1), sizeof given);
    LANES
    {
        if (!ptx_is_on(w, l))
            continue;
        if (members[l] & ~w->mask || !(members[l] >> l & 1))
            gpu_fault(&w->base, (uint32_t)l, "lanes 0x%08x take part, and 0x%08x are here", members[l],
                      w->mask);
        /* the upper bits of the limit are those that a lane has in common with its segment */
        const uint32_t segment = limit[l] >> 8 & 31,
                       with = by_index ? ((uint32_t)l & segment) | (which[l] & ~segment)
                                       : (uint32_t)l ^ which[l];
        if ((limit[l] & 31) != 31 || (!by_index && segment) || with >= PTX_LANES)
            gpu_fault(&w->base, (uint32_t)l, "exchange with lane %u, limit %u: expected lanes below 32", with,
                      limit[l]);
        d[l] = given[with];
    }
}

static void shuffle_across(ptx_warp *w, const ptx_insn *i)
{
    shuffle(w, i, 0);
}

static void shuffle_by_index(ptx_warp *w, const ptx_insn *i)
{
    shuffle(w, i, 1);
}

/* Lane 4 r + c has, of each 8 rows of A, row r and columns c .. of each group; PTX ISA, "Matrix
 * fragments for mma.m16n8k16 with floating point type" and "mma.m16n8k32". `per` values fit a word. */
enum { ROWS = 16, COLUMNS = 8, MOST_K = 32 };

static float value_of(uint32_t word, int j, char type)
{
    const uint16_t half = (uint16_t)(word >> 16 * j);
    return type == 'h' ? (float)gpu_half_of(half) : gpu_float_of((uint32_t)half << 16);
}

#define FRAGMENTS(T, per, value)                                                                             \
    for (int r = 0; r < words_a; r++)                                                                        \
        LANES for (int j = 0; j < (per); j++)                                                                \
        {                                                                                                    \
            const uint32_t word = AT(uint32_t, 4 + r)[l];                                                    \
            a[l / 4 + 8 * (r % 2)][l % 4 * (per) + j + 4 * (per) * (r / 2)] = (T)(value);                    \
        }                                                                                                    \
    for (int r = 0; r < words_a / 2; r++)                                                                    \
        LANES for (int j = 0; j < (per); j++)                                                                \
        {                                                                                                    \
            const uint32_t word = AT(uint32_t, 4 + words_a + r)[l];                                          \
            b[l % 4 * (per) + j + 4 * (per)*r][l / 4] = (T)(value);                                          \
        }

#define SUMS(T, k)                                                                                           \
    for (int q = 0; q < 4; q++)                                                                              \
        LANES c[l / 4 + 8 * (q / 2)][l % 4 * 2 + q % 2] = AT(T, 4 + words_a + words_a / 2 + q)[l];           \
    for (int row = 0; row < ROWS; row++)                                                                     \
        for (int m = 0; m < (k); m++)                                                                        \
            for (int column = 0; column < COLUMNS; column++)                                                 \
                c[row][column] += a[row][m] * b[m][column];                                                  \
    for (int q = 0; q < 4; q++)                                                                              \
        LANES AT(T, q)[l] = c[l / 4 + 8 * (q / 2)][l % 4 * 2 + q % 2];

static void multiply_bytes(ptx_warp *w, const ptx_insn *i, int words_a)
{
    int32_t a[ROWS][MOST_K], b[MOST_K][COLUMNS], c[ROWS][COLUMNS];
    FRAGMENTS(int32_t, 4, (int8_t)(word >> 8 * j))
    SUMS(int32_t, 8 * words_a)
}

static void multiply_floats(ptx_warp *w, const ptx_insn *i, char type)
{
    const int words_a = 4;
    float a[ROWS][MOST_K], b[MOST_K][COLUMNS], c[ROWS][COLUMNS];
    FRAGMENTS(float, 2, value_of(word, j, type))
    SUMS(float, 16)
}

static void whole_warp(ptx_warp *w)
{
    if (w->mask != ~0u)
        gpu_fault(&w->base, (uint32_t)__builtin_ctz(w->mask),
                  "a product of matrices takes all lanes, and 0x%08x are here", w->mask);
}

static void mma_bytes_32(ptx_warp *w, const ptx_insn *i)
{
    whole_warp(w);
    multiply_bytes(w, i, 4);
}

static void mma_bytes_16(ptx_warp *w, const ptx_insn *i)
{
    whole_warp(w);
    multiply_bytes(w, i, 2);
}

static void mma_halves(ptx_warp *w, const ptx_insn *i)
{
    whole_warp(w);
    multiply_floats(w, i, 'h');
}

static void mma_bf16(ptx_warp *w, const ptx_insn *i)
{
    whole_warp(w);
    multiply_floats(w, i, 'b');
}

static void nothing(ptx_warp *w, const ptx_insn *i)
{
    (void)w;
    (void)i;
}

const ptx_row ptx_warp_rows[] = {
    {"shfl.sync.bfly.b32", "wwwww", shuffle_across, PTX_TOGETHER},
    {"shfl.sync.idx.b32", "wwwww", shuffle_by_index, PTX_TOGETHER},
    {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "wwwwwwwwwwwwww", mma_bytes_32, PTX_TOGETHER},
    {"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", "wwwwwwwwwww", mma_bytes_16, PTX_TOGETHER},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "wwwwwwwwwwwwww", mma_halves, PTX_TOGETHER},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "wwwwwwwwwwwwww", mma_bf16, PTX_TOGETHER},
    {"bar.sync", "w", nothing, PTX_BARRIER},
    {"ret", "", nothing, PTX_RETURN},
    {"exit", "", nothing, PTX_RETURN},
    {"membar.cta", "", nothing, PTX_PLAIN},
    {"membar.gl", "", nothing, PTX_PLAIN},
    {"cp.async.bulk.commit_group", "", nothing, PTX_PLAIN},
    {"cp.async.bulk.wait_group", "w", nothing, PTX_PLAIN},
    {0}};
