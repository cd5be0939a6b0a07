/* Measures collectives and messages between ranks, through the calls of the transport alone. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "ranks/join/network.h"
#include "runtime/os/os.h"

enum { MAX_TRIES = 301, N_WORKS = 15 };
static const double seconds_for_one = 0.05, seconds_of_work = 200e-6;

typedef struct measuring {
    clef__transport *t;
    clef__group *group;
    const int32_t *ranks;
    int32_t n;
    char *mine, *all;
    size_t n_bytes;
    size_t *gathered;    /* [n] n_bytes each */
    int32_t n_steps;     /* of work between two collectives */
    double work_seconds; /* that it takes alone */
    double call_seconds; /* that this try has spent in collectives so far */
    clef_error *err;
} measuring;

/* One try of something; returns its status. */
typedef clef_status (*attempt)(measuring *m);

static clef_status reduce_f32(measuring *m)
{
    return m->t->calls->all_reduce(m->group, (float *)m->mine, m->n_bytes / 4, CLEF__WIRE_F32, m->err);
}

static clef_status reduce_f16(measuring *m)
{
    return m->t->calls->all_reduce(m->group, (float *)m->mine, m->n_bytes / 4, CLEF__WIRE_F16, m->err);
}

static clef_status reduce_q8(measuring *m)
{
    return m->t->calls->all_reduce(m->group, (float *)m->mine, m->n_bytes / 4, CLEF__WIRE_Q8, m->err);
}

static clef_status gather(measuring *m)
{
    return m->t->calls->all_gather(m->group, m->mine, m->all, m->gathered, m->err);
}

/* There and back: the last rank sends when it has received. */
static clef_status broadcast_twice(measuring *m)
{
    const clef_status s = m->t->calls->broadcast(m->group, 0, m->mine, m->n_bytes, m->err);
    return s ? s : m->t->calls->broadcast(m->group, m->n - 1, m->mine, m->n_bytes, m->err);
}

static clef_status send_twice(measuring *m)
{
    const clef__transport_calls *calls = m->t->calls;
    const int32_t first = m->ranks[0], last = m->ranks[m->n - 1];
    clef_status s = CLEF_OK;
    if (m->t->rank == first)
        s = calls->send(m->t, last, m->mine, m->n_bytes, m->err);
    if (!s && m->t->rank == last)
        s = calls->receive(m->t, first, m->mine, m->n_bytes, m->err);
    if (!s && m->t->rank == last)
        s = calls->send(m->t, first, m->mine, m->n_bytes, m->err);
    if (!s && m->t->rank == first)
        s = calls->receive(m->t, last, m->mine, m->n_bytes, m->err);
    return s;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Keeps this core busy, as a model does between two sums. Returns the seconds. */
static double work(int32_t n_steps)
{
    const double begin = clef__os_seconds();
    volatile uint32_t x = 0;
    for (int32_t i = 0; i < n_steps; i++)
        x = x * 1664525u + 1013904223u;
    return clef__os_seconds() - begin;
}

/* Finds how many steps of work take seconds_of_work, and what they take exactly. All ranks do so at once, in
 * case some share a core. */
static void find_work(measuring *m)
{
    double times[N_WORKS];
    m->n_steps = 1 << 10;
    while (m->n_steps < 1 << 28 && work(m->n_steps) < seconds_of_work)
        m->n_steps *= 2;
    for (int32_t i = 0; i < N_WORKS; i++)
        times[i] = work(m->n_steps);
    qsort(times, N_WORKS, sizeof *times, compare);
    m->work_seconds = times[N_WORKS / 2];
}

/* Work and a collective, twice. A rank that comes late waits less, and the others wait more. The next time it
 * is the other way round, so two together take the same time on all ranks.
 *
 * The work is there because it meets what the collective before has left: the network's part of the system
 * handles acknowledgements, and runs on the core that computes if there is no other. Only the sum of both is
 * what a collective costs a model. */
static clef_status twice(measuring *m, attempt one)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < 2 && !s; i++) {
        work(m->n_steps);
        const double begin = clef__os_seconds();
        s = one(m);
        m->call_seconds += clef__os_seconds() - begin;
    }
    return s;
}

static clef_status reduce_f32_twice(measuring *m)
{
    return twice(m, reduce_f32);
}

static clef_status reduce_f16_twice(measuring *m)
{
    return twice(m, reduce_f16);
}

static clef_status reduce_q8_twice(measuring *m)
{
    return twice(m, reduce_q8);
}

static clef_status gather_twice(measuring *m)
{
    return twice(m, gather);
}

/* Half of the time of two, without `besides` seconds, but no less than was spent in the collectives: work can
 * take a little less than it did alone. The first try warms up; the second one says how many there are. The
 * first rank decides. */
static clef_status measure(measuring *m, attempt two, double besides, clef__network_time *out)
{
    double times[MAX_TRIES];
    int32_t n_tries = MAX_TRIES;
    clef_status s = two(m);
    for (int32_t i = 0; !s && i < n_tries; i++) {
        const double begin = clef__os_seconds();
        m->call_seconds = 0;
        s = two(m);
        const double half = (clef__os_seconds() - begin) / 2, least = m->call_seconds / 2;
        times[i] = half - besides > least ? half - besides : least;
        if (s || i > 0)
            continue;
        const double fit = seconds_for_one / 2 / (half > 1e-9 ? half : 1e-9);
        n_tries = fit < 3 ? 3 : fit < (double)MAX_TRIES ? (int32_t)fit : MAX_TRIES;
        s = m->t->calls->broadcast(m->group, 0, &n_tries, sizeof n_tries, m->err);
    }
    if (s)
        return s;
    qsort(times, (size_t)n_tries, sizeof *times, compare);
    *out = (clef__network_time){times[0], times[n_tries / 2]};
    return m->t->calls->broadcast(m->group, 0, out, sizeof *out, m->err);
}

static clef_status measure_size(measuring *m, size_t n_bytes, clef__network_row *row)
{
    const attempt reduce[3] = {reduce_f32_twice, reduce_f16_twice, reduce_q8_twice};
    clef_status s = CLEF_OK;
    *row = (clef__network_row){.n_bytes = n_bytes};
    m->n_bytes = n_bytes;
    for (int32_t i = 0; i < m->n; i++)
        m->gathered[i] = n_bytes;
    for (int32_t wire = 0; !s && wire < 3; wire++)
        s = measure(m, reduce[wire], m->work_seconds, &row->all_reduce[wire]);
    if (!s)
        s = measure(m, gather_twice, m->work_seconds, &row->all_gather);
    if (!s)
        s = measure(m, broadcast_twice, 0, &row->broadcast);
    return s ? s : measure(m, send_twice, 0, &row->send);
}

clef_status clef__network_measure(clef__transport *t, clef__group *group, const int32_t *ranks, int32_t n,
                                  const size_t *sizes, int32_t n_sizes, clef__network_row *rows,
                                  clef_error *err)
{
    size_t most = 1;
    for (int32_t i = 0; i < n_sizes; i++)
        most = sizes[i] > most ? sizes[i] : most;
    measuring m = {.t = t, .group = group, .ranks = ranks, .n = n, .err = err};
    m.mine = calloc(1, most);
    m.all = malloc(most * (size_t)n);
    m.gathered = malloc((size_t)n * sizeof *m.gathered);
    clef_status s = CLEF_OK;
    if (!m.mine || !m.all || !m.gathered)
        s = clef__fail(err, CLEF_E_NOMEM, "network: no memory for %zu bytes of %d ranks", most, n);
    if (!s)
        find_work(&m);
    for (int32_t i = 0; !s && i < n_sizes; i++)
        s = measure_size(&m, sizes[i], &rows[i]);
    free(m.gathered);
    free(m.all);
    free(m.mine);
    return s;
}
