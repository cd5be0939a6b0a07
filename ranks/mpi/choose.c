/* Whether messages cross in pieces, and which way to sum is the cheapest: measured when a group is made. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "ranks/mpi/state.h"
#include "ranks/mpi/system.h"
#include "ranks/mpi/wire.h"

static const size_t sizes[CLEF__MPI_N_SIZES] = {(size_t)1 << 10, (size_t)16 << 10, (size_t)128 << 10,
                                                (size_t)1 << 20}; /* bytes of a contribution */
static const double budget_seconds = 50e-3, seconds_for_size = 4e-3;
enum { MIN_TRIES = 1, MAX_TRIES = 4 };

static const char *const names[CLEF__MPI_N_WAYS] = {"messages", "messages-scatter", "shared",
                                                    "shared-scatter"};

/* A bit for each way that this rank can and may take. Two ranks that scatter by messages send as many bytes
 * as those that do not, but one after the other: that is slower whatever is measured. */
static uint32_t allowed(const clef__group *g)
{
    uint32_t bits = 0;
    const char *wanted = g->m->sum;
    for (int32_t way = 0; way < CLEF__MPI_N_WAYS; way++) {
        const int can = g->shared || way == CLEF__MPI_MESSAGES || way == CLEF__MPI_MESSAGES_SCATTER,
                  pays = g->n > 2 || way != CLEF__MPI_MESSAGES_SCATTER;
        if (can && (*wanted ? strcmp(wanted, names[way]) == 0 : pays))
            bits |= 1u << way;
    }
    return bits;
}

/* The shortest of some tries, in seconds; the same on all ranks. A rank that comes late waits less, and more
 * the next time, so a try is half of two sums. */
static clef_status measure_one(clef__group *g, clef__mpi_way way, size_t n_bytes, float *x, double *seconds,
                               double *spent, clef_error *err)
{
    const size_t n = n_bytes / sizeof *x;
    double shortest = 0;
    int32_t n_tries = 1;
    for (int32_t i = 0; i < n_tries; i++) {
        const double begin = clef__mpi_seconds();
        clef_status s = clef__mpi_sum(g, way, x, n, CLEF__WIRE_F32, err);
        if (!s)
            s = clef__mpi_sum(g, way, x, n, CLEF__WIRE_F32, err);
        if (s)
            return s;
        double took = (clef__mpi_seconds() - begin) / 2;
        if (i == 0) {
            clef__mpi_agree_max(g, &took, 1);
            const double fit = took > 0 ? seconds_for_size / took : MAX_TRIES;
            n_tries = fit >= MAX_TRIES ? MAX_TRIES : fit <= MIN_TRIES ? MIN_TRIES : (int32_t)fit;
            *spent += 2 * took * n_tries;
        }
        shortest = i == 0 || took < shortest ? took : shortest;
    }
    clef__mpi_agree_max(g, &shortest, 1);
    *seconds = shortest;
    return CLEF_OK;
}

/* Whether there is time for the next size of a way. All ranks have the same figures. */
static int has_time(const clef__mpi_costs *costs, int32_t way, int32_t size, double spent)
{
    const double per_byte = size == 0 ? 0 : costs->seconds[way][size - 1] / (double)sizes[size - 1];
    return spent + 2 * MIN_TRIES * per_byte * (double)sizes[size] < budget_seconds;
}

/* Bits of what this rank accepts: messages that cross whole, and in pieces. */
enum { WHOLE = 1, PIECES = 2 };

static uint32_t forms(const clef__mpi *m)
{
    return m->eager == '1' ? PIECES : m->eager == '0' ? WHOLE : WHOLE | PIECES;
}

/* Sums of messages that are long enough for MPI to ask before it sends one, whole and in pieces. */
static clef_status choose_form(clef__group *g, float *x, clef_error *err)
{
    enum { SIZE = 2 };
    uint32_t accepted = forms(g->m);
    clef__mpi_agree_and(g, &accepted);
    double whole = 0, pieces = 0, spent = 0, first;
    clef_status s = CLEF_OK;
    if (accepted == (WHOLE | PIECES)) {
        s = measure_one(g, CLEF__MPI_MESSAGES, CLEF__WIRE_BLOCK * sizeof *x, x, &first, &spent, err);
        if (!s)
            s = measure_one(g, CLEF__MPI_MESSAGES, sizes[SIZE], x, &whole, &spent, err);
        g->piece_bytes = CLEF__MPI_PIECE;
        if (!s)
            s = measure_one(g, CLEF__MPI_MESSAGES, sizes[SIZE], x, &pieces, &spent, err);
    }
    const int cut = accepted == PIECES || (accepted == (WHOLE | PIECES) && pieces < whole);
    g->piece_bytes = cut ? CLEF__MPI_PIECE : CLEF__MPI_WHOLE;
    return s;
}

static clef_status measure_ways(clef__group *g, float *x, clef_error *err)
{
    clef__mpi_costs *costs = &g->costs;
    double spent = 0, first;
    clef_status s = CLEF_OK;
    for (int32_t way = 0; !s && way < CLEF__MPI_N_WAYS; way++) /* connections are made by the first message */
        if (costs->allowed & 1u << way)
            s = measure_one(g, (clef__mpi_way)way, CLEF__WIRE_BLOCK * sizeof *x * (size_t)g->n, x, &first,
                            &spent, err);
    spent = 0;
    for (int32_t size = 0; !s && size < CLEF__MPI_N_SIZES; size++)
        for (int32_t way = 0; !s && way < CLEF__MPI_N_WAYS; way++) {
            if (!(costs->allowed & 1u << way) || costs->n_sizes[way] < size ||
                !has_time(costs, way, size, spent))
                continue;
            s = measure_one(g, (clef__mpi_way)way, sizes[size], x, &costs->seconds[way][size], &spent, err);
            costs->n_sizes[way] = size + 1;
        }
    return s;
}

clef_status clef__mpi_measure(clef__group *g, clef_error *err)
{
    clef__mpi_costs *costs = &g->costs;
    if (g->n < 2)
        return CLEF_OK;
    costs->allowed = allowed(g);
    clef__mpi_agree_and(g, &costs->allowed);
    if (!costs->allowed) /* no such name, or ranks were given different ones */
        costs->allowed = g->shared ? 1u << CLEF__MPI_SHARED : 1u << CLEF__MPI_MESSAGES;
    const int has_choice = (costs->allowed & (costs->allowed - 1)) != 0;
    if (g->shared && !has_choice)
        return CLEF_OK;
    float *x = calloc(sizes[CLEF__MPI_N_SIZES - 1], 1);
    clef_status s =
        x ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "transport: no memory to measure the network");
    if (!s && !g->shared) /* else memory is the faster way for what is longer than a piece */
        s = choose_form(g, x, err);
    if (!s && has_choice)
        s = measure_ways(g, x, err);
    free(x);
    return s;
}

/* Seconds for n_bytes by the nearest measured sizes: constant below the first, else linear. */
static double estimate(const clef__mpi_costs *costs, int32_t way, double n_bytes)
{
    const double *seconds = costs->seconds[way];
    const int32_t n = costs->n_sizes[way];
    if (n == 0 || n_bytes <= (double)sizes[0])
        return seconds[0];
    if (n == 1)
        return seconds[0] * n_bytes / (double)sizes[0];
    int32_t i = 1;
    while (i < n - 1 && n_bytes > (double)sizes[i])
        i++;
    const double from = (double)sizes[i - 1],
                 slope = (seconds[i] - seconds[i - 1]) / ((double)sizes[i] - from);
    return seconds[i - 1] + (slope > 0 ? slope : 0) * (n_bytes - from);
}

clef__mpi_way clef__mpi_choose(const clef__group *g, size_t n, clef__wire wire)
{
    const clef__mpi_costs *costs = &g->costs;
    const double rounded = (double)clef__wire_bytes(wire, n), whole = (double)n * sizeof(float);
    int32_t best = -1;
    double shortest = 0;
    if (wire == CLEF__WIRE_F32 && n * sizeof(float) <= g->round_bytes)
        return CLEF__MPI_SHARED; /* another rank's device may take its part in it */
    for (int32_t way = 0; way < CLEF__MPI_N_WAYS; way++) {
        if (!(costs->allowed & 1u << way))
            continue;
        const int scatters = way == CLEF__MPI_MESSAGES_SCATTER || way == CLEF__MPI_SHARED_SCATTER;
        /* Half of what the second way sends are sums, which are never rounded. */
        const double seconds = estimate(costs, way, scatters ? (rounded + whole) / 2 : rounded);
        if (best < 0 || seconds < shortest) {
            best = way;
            shortest = seconds;
        }
    }
    return (clef__mpi_way)best;
}
