/* Bytes from each rank of a group to all others, and from one of them to the others. */
#include <string.h>

#include "ranks/mpi/state.h"

/* ---- all_gather ---- */

/* What is left of n_bytes after `at`, up to `length`. */
static size_t part(size_t n_bytes, size_t at, size_t length)
{
    return n_bytes <= at ? 0 : n_bytes - at < length ? n_bytes - at : length;
}

static void gather_messages(clef__group *g, const char *mine, char *all, const size_t *n_bytes, size_t at)
{
    const size_t length = clef__mpi_most_bytes(g), own = part(n_bytes[g->me], at, length);
    for (int32_t i = 0; i < g->n; all += n_bytes[i], i++) {
        const size_t n = part(n_bytes[i], at, length);
        if (i != g->me && n > 0)
            clef__mpi_post_receive(g, i, all + at, n);
    }
    for (int32_t i = 0; i < g->n && own > 0; i++)
        if (i != g->me)
            clef__mpi_post_send(g, i, mine + at, own);
    clef__mpi_post_finish(g);
}

static void gather_shared(clef__group *g, const char *mine, char *all, const size_t *n_bytes, size_t at)
{
    const size_t own = part(n_bytes[g->me], at, CLEF__MPI_SLOT);
    void *slot = clef__mpi_shared_begin(g);
    if (own > 0)
        memcpy(slot, mine + at, own);
    g->m->n_sent += (uint64_t)(g->n - 1) * own;
    clef__mpi_shared_raise(g);
    for (int32_t i = 0; i < g->n; all += n_bytes[i], i++) {
        const size_t n = part(n_bytes[i], at, CLEF__MPI_SLOT);
        if (i != g->me && n > 0)
            memcpy(all + at, clef__mpi_shared_of(g, i), n);
    }
}

clef_status clef__mpi_all_gather(clef__group *g, const void *mine, void *all, const size_t *n_bytes,
                                 clef_error *err)
{
    (void)err;
    size_t place = 0, longest = 0;
    for (int32_t i = 0; i < g->n; i++) {
        longest = n_bytes[i] > longest ? n_bytes[i] : longest;
        place += i < g->me ? n_bytes[i] : 0;
    }
    if ((char *)all + place != mine && n_bytes[g->me] > 0)
        memcpy((char *)all + place, mine, n_bytes[g->me]);
    if (g->n < 2)
        return CLEF_OK;
    const size_t length = g->shared ? CLEF__MPI_SLOT : clef__mpi_most_bytes(g);
    for (size_t at = 0; at < longest; at += length)
        (g->shared ? gather_shared : gather_messages)(g, mine, all, n_bytes, at);
    return CLEF_OK;
}

/* ---- broadcast ---- */

static void broadcast_shared(clef__group *g, int32_t root, char *data, size_t n_bytes)
{
    void *slot = clef__mpi_shared_begin(g);
    if (g->me == root) {
        memcpy(slot, data, n_bytes);
        g->m->n_sent += (uint64_t)(g->n - 1) * n_bytes;
    }
    clef__mpi_shared_raise(g);
    if (g->me != root)
        memcpy(data, clef__mpi_shared_of(g, root), n_bytes);
}

/* A binomial tree. Ranks are counted from the root; rank i receives from i without its lowest bit, and sends
 * to i plus each lower bit. */
static void broadcast_messages(clef__group *g, int32_t root, char *data, size_t n_bytes)
{
    const int32_t i = (g->me - root + g->n) % g->n;
    int32_t bit = 1;
    while (bit < g->n && !(i & bit))
        bit <<= 1;
    if (i > 0)
        clef__mpi_post_receive(g, (i - bit + root) % g->n, data, n_bytes);
    clef__mpi_post_finish(g);
    for (bit >>= 1; bit > 0; bit >>= 1)
        if (i + bit < g->n)
            clef__mpi_post_send(g, (i + bit + root) % g->n, data, n_bytes);
    clef__mpi_post_finish(g);
}

clef_status clef__mpi_broadcast(clef__group *g, int32_t root, void *data, size_t n_bytes, clef_error *err)
{
    (void)err;
    if (g->n < 2)
        return CLEF_OK;
    const size_t length = g->shared ? CLEF__MPI_SLOT : clef__mpi_most_bytes(g);
    for (size_t at = 0; at < n_bytes; at += length)
        (g->shared ? broadcast_shared : broadcast_messages)(g, root, (char *)data + at,
                                                            part(n_bytes, at, length));
    return CLEF_OK;
}
