/* Sums over the ranks of a group. Whatever the way, an element's contributions are added in the order of
 * ranks, so every way gives the same bits on every rank. */
#include "ranks/mpi/state.h"
#include "ranks/mpi/wire.h"

/* Values that are summed at once: bounds the memory, and what MPI counts in int. */
static const size_t segment_length = (size_t)1 << 20, round_length = CLEF__MPI_SLOT / sizeof(float);

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Where the part of rank i begins, if n values are cut into a part for each rank. */
static size_t part_begin(const clef__group *g, size_t n, int32_t i)
{
    const size_t n_blocks = (n + CLEF__WIRE_BLOCK - 1) / CLEF__WIRE_BLOCK;
    return least(n, n_blocks * (size_t)i / (size_t)g->n * CLEF__WIRE_BLOCK);
}

/* ---- by messages ---- */

static size_t aligned(size_t n_bytes)
{
    return (n_bytes + 63) / 64 * 64;
}

/* Scratch memory with place for `count` of n_bytes each. parts[i] becomes the i-th; of this rank, the last.
 */
static clef_status places(clef__group *g, size_t n_bytes, clef_error *err)
{
    const size_t each = aligned(n_bytes);
    const clef_status s = clef__mpi_scratch(g, each * (size_t)g->n, err);
    for (int32_t i = 0; !s && i < g->n; i++)
        g->parts[i] = g->scratch + each * (size_t)i;
    return s;
}

static clef_status sum_messages(clef__group *g, float *x, size_t n, clef__wire wire, clef_error *err)
{
    const size_t n_bytes = clef__wire_bytes(wire, n);
    const clef_status s = places(g, n_bytes, err);
    if (s)
        return s;
    const void *mine = x;
    if (wire != CLEF__WIRE_F32) {
        mine = g->parts[g->me];
        clef__wire_pack(wire, x, n, g->scratch + aligned(n_bytes) * (size_t)g->me);
    }
    for (int32_t i = 0; i < g->n; i++)
        if (i != g->me)
            clef__mpi_post_receive(g, i, g->scratch + aligned(n_bytes) * (size_t)i, n_bytes);
    for (int32_t i = 0; i < g->n; i++)
        if (i != g->me)
            clef__mpi_post_send(g, i, mine, n_bytes);
    clef__mpi_post_finish(g);
    g->parts[g->me] = mine;
    clef__wire_sum(wire, g->parts, g->n, x, n);
    return CLEF_OK;
}

/* Sends each part of x to the rank that sums it, and receives this rank's part of the others. */
static void scatter(clef__group *g, float *x, size_t n, clef__wire wire, const unsigned char *packed)
{
    const size_t begin = part_begin(g, n, g->me), count = part_begin(g, n, g->me + 1) - begin;
    const size_t each = aligned(clef__wire_bytes(wire, count));
    for (int32_t i = 0; i < g->n; i++) {
        if (i == g->me)
            continue;
        clef__mpi_post_receive(g, i, g->scratch + each * (size_t)i, clef__wire_bytes(wire, count));
        g->parts[i] = g->scratch + each * (size_t)i;
    }
    for (int32_t i = 0; i < g->n; i++) {
        const size_t from = part_begin(g, n, i), to = part_begin(g, n, i + 1);
        const unsigned char *part = packed + clef__wire_bytes(wire, from);
        if (i != g->me)
            clef__mpi_post_send(g, i, part, clef__wire_bytes(wire, to - from));
        else
            g->parts[i] = part;
    }
    clef__mpi_post_finish(g);
    clef__wire_sum(wire, g->parts, g->n, x + begin, count);
}

static clef_status sum_messages_scatter(clef__group *g, float *x, size_t n, clef__wire wire, clef_error *err)
{
    const size_t begin = part_begin(g, n, g->me), end = part_begin(g, n, g->me + 1);
    const size_t received = aligned(clef__wire_bytes(wire, end - begin)) * (size_t)g->n;
    const size_t packed = wire == CLEF__WIRE_F32 ? 0 : clef__wire_bytes(wire, n);
    const clef_status s = clef__mpi_scratch(g, received + packed, err);
    if (s)
        return s;
    if (packed)
        clef__wire_pack(wire, x, n, g->scratch + received);
    scatter(g, x, n, wire, packed ? g->scratch + received : (const unsigned char *)x);
    for (int32_t i = 0; i < g->n; i++) {
        const size_t from = part_begin(g, n, i), to = part_begin(g, n, i + 1);
        if (i != g->me)
            clef__mpi_post_receive(g, i, x + from, (to - from) * sizeof *x);
    }
    for (int32_t i = 0; i < g->n; i++)
        if (i != g->me)
            clef__mpi_post_send(g, i, x + begin, (end - begin) * sizeof *x);
    clef__mpi_post_finish(g);
    return CLEF_OK;
}

/* ---- in shared memory ---- */

static void sum_shared(clef__group *g, float *x, size_t n, clef__wire wire)
{
    clef__wire_pack(wire, x, n, clef__mpi_shared_begin(g));
    clef__mpi_shared_raise(g);
    g->m->n_sent += (uint64_t)(g->n - 1) * clef__wire_bytes(wire, n);
    for (int32_t i = 0; i < g->n; i++)
        g->parts[i] = clef__mpi_shared_of(g, i);
    clef__wire_sum(wire, g->parts, g->n, x, n);
}

static void sum_shared_scatter(clef__group *g, float *x, size_t n, clef__wire wire)
{
    const size_t begin = part_begin(g, n, g->me), count = part_begin(g, n, g->me + 1) - begin;
    clef__wire_pack(wire, x, n, clef__mpi_shared_begin(g));
    clef__mpi_shared_raise(g);
    for (int32_t i = 0; i < g->n; i++)
        g->parts[i] = (const unsigned char *)clef__mpi_shared_of(g, i) + clef__wire_bytes(wire, begin);
    g->m->n_sent += clef__wire_bytes(wire, n) - clef__wire_bytes(wire, count) +
                    (uint64_t)(g->n - 1) * count * sizeof(float);
    float *sums = clef__mpi_shared_begin(g);
    clef__wire_sum(wire, g->parts, g->n, sums, count);
    clef__mpi_shared_raise(g);
    for (int32_t i = 0; i < g->n; i++) {
        const size_t from = part_begin(g, n, i), to = part_begin(g, n, i + 1);
        clef__wire_pack(CLEF__WIRE_F32, clef__mpi_shared_of(g, i), to - from, x + from);
    }
}

/* ---- all of them ---- */

clef_status clef__mpi_sum(clef__group *g, clef__mpi_way way, float *x, size_t n, clef__wire wire,
                          clef_error *err)
{
    const int is_shared = way == CLEF__MPI_SHARED || way == CLEF__MPI_SHARED_SCATTER;
    const size_t length = is_shared ? round_length : segment_length;
    clef_status s = CLEF_OK;
    for (size_t at = 0; !s && at < n; at += length) {
        const size_t count = least(length, n - at);
        if (way == CLEF__MPI_SHARED)
            sum_shared(g, x + at, count, wire);
        else if (way == CLEF__MPI_SHARED_SCATTER)
            sum_shared_scatter(g, x + at, count, wire);
        else if (way == CLEF__MPI_MESSAGES_SCATTER)
            s = sum_messages_scatter(g, x + at, count, wire, err);
        else
            s = sum_messages(g, x + at, count, wire, err);
    }
    return s;
}

clef_status clef__mpi_all_reduce(clef__group *g, float *x, size_t n, clef__wire wire, clef_error *err)
{
    if (g->n < 2 || n == 0)
        return CLEF_OK;
    const clef_status s = clef__mpi_sum(g, clef__mpi_choose(g, n, wire), x, n, wire, err);
    return s;
}
