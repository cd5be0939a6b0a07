/* Every call of the transport, on as many ranks as it is started with. usage: mpirun -n N test_transport
 * LIBRARY Rank 0 prints a line for each check that all ranks passed. */
#include <math.h>
#include <stdint.h>
#include <time.h>

#include "graph/hash.h"
#include "tests/mpi/open.h"

static clef__transport *t;
static const clef__transport_calls *calls;
static clef__group *all;
static clef_error err;
static int failures; /* of this rank since the last report */

static void expect(int is_true, const char *what, size_t n)
{
    if (!is_true && failures++ < 3)
        fprintf(stderr, "FAIL rank %d of %d: %s, %zu\n", t->rank, t->size, what, n);
}

static int exit_code;

/* All ranks call it at the end of a check. */
static void report(const char *name)
{
    int32_t mine = failures, of_all[64] = {0};
    size_t sizes[64] = {0};
    for (int32_t i = 0; i < t->size; i++)
        sizes[i] = sizeof mine;
    must(calls->all_gather(all, &mine, of_all, sizes, &err), &err);
    for (int32_t i = 0; i < t->size; i++)
        failures = i == 0 ? of_all[0] : failures + of_all[i];
    if (t->rank == 0)
        printf("%s %s, %d ranks\n", failures ? "FAIL" : "ok", name, t->size);
    fflush(stdout);
    exit_code |= failures > 0;
    failures = 0;
}

/* ---- data that every rank can reckon ---- */

static uint32_t hash(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = a * 0x9E3779B1u ^ b * 0x85EBCA77u ^ c * 0xC2B2AE3Du;
    h = (h ^ h >> 15) * 0x2C1B3C6Du;
    h = (h ^ h >> 12) * 0x297A2D39u;
    return h ^ h >> 15;
}

/* Values of different magnitudes, of either sign. */
static float value(int32_t rank, uint32_t seed, size_t i)
{
    const uint32_t h = hash((uint32_t)rank, seed, (uint32_t)i);
    return ldexpf((float)((int32_t)(h & 0xFFFF) - 32768) / 32768, (int)(h >> 16 & 15) - 8);
}

static void expect_equal_everywhere(clef__group *group, int32_t n, const void *data, size_t n_bytes,
                                    const char *what)
{
    uint64_t mine = clef__hash(CLEF__HASH_START, data, n_bytes), others[64];
    size_t sizes[64] = {0};
    for (int32_t i = 0; i < n; i++)
        sizes[i] = sizeof mine;
    must(calls->all_gather(group, &mine, others, sizes, &err), &err);
    for (int32_t i = 0; i < n; i++)
        expect(others[i] == mine, what, n_bytes);
}

static void *memory(size_t n_bytes)
{
    void *p = malloc(n_bytes);
    if (!p)
        exit(1);
    return p;
}

/* ---- the checks ---- */

static void check_places(void)
{
    const int32_t *nodes = calls->nodes(t);
    int32_t n_local = 0;
    expect(nodes[0] == 0, "the first rank is on node 0", 0);
    for (int32_t i = 0; i < t->size; i++) {
        expect(calls->host(t, i)[0] != '\0', "a host has a name", (size_t)i);
        expect(nodes[i] >= 0 && nodes[i] < t->n_nodes, "a node's number", (size_t)i);
        n_local += nodes[i] == t->node;
    }
    expect(nodes[t->rank] == t->node && n_local == t->local_size && t->local_rank < t->local_size,
           "places on this node", 0);
    report("hosts and nodes");
}

static const char *const wire_names[] = {"f32", "f16", "q8"};

/* What the rounding of the group's contributions may change at i, as transport.h states it, and what adding
 * rounded values in f32 may. */
static double bound(clef__wire wire, const int32_t *ranks, int32_t n_ranks, uint32_t seed, size_t i, size_t n)
{
    double sum = 0, magnitude = 0;
    for (int32_t r = 0; r < n_ranks; r++) {
        const double x = fabs((double)value(ranks[r], seed, i));
        double most = 0;
        for (size_t j = i / 32 * 32; wire == CLEF__WIRE_Q8 && j < n && j < i / 32 * 32 + 32; j++)
            most = fmax(most, fabs((double)value(ranks[r], seed, j)));
        sum += wire == CLEF__WIRE_Q8 ? most / 253 : fmax(x * 0x1p-11, 0x1p-25);
        magnitude += x + most;
    }
    return sum + magnitude * n_ranks * 0x1p-22;
}

static void check_sum(clef__group *group, const int32_t *ranks, int32_t n_ranks, size_t n, clef__wire wire)
{
    const uint32_t seed = (uint32_t)n * 3 + wire;
    float *x = memory(n * sizeof *x + 16);
    for (size_t i = 0; i < n; i++)
        x[i] = value(t->rank, seed, i);
    memset(x + n, 0x5A, 16);
    must(calls->all_reduce(group, x, n, wire, &err), &err);
    const size_t step = wire == CLEF__WIRE_F32 || n < 20000 ? 1 : 97;
    for (size_t i = 0; i < n; i += step) {
        float sum = value(ranks[0], seed, i);
        for (int32_t r = 1; r < n_ranks; r++)
            sum += value(ranks[r], seed, i);
        if (wire == CLEF__WIRE_F32 || n_ranks == 1)
            expect(x[i] == sum, "a sum in the order of ranks", n);
        else
            expect(fabs((double)x[i] - (double)sum) <= bound(wire, ranks, n_ranks, seed, i, n),
                   wire_names[wire], n);
    }
    expect(((unsigned char *)(x + n))[0] == 0x5A && ((unsigned char *)(x + n))[15] == 0x5A,
           "no more is written", n);
    expect_equal_everywhere(group, n_ranks, x, n * sizeof *x, "the same bits on all ranks");
    free(x);
}

static void check_sums(void)
{
    static const size_t sizes[] = {
        1,    2,     3,     31,    32,     33,      100,           1000,          4096,
        4097, 16384, 16385, 32769, 100003, 1 << 20, (1 << 20) + 7, (2 << 20) + 41};
    int32_t ranks[64];
    for (int32_t i = 0; i < t->size; i++)
        ranks[i] = i;
    for (int32_t wire = CLEF__WIRE_F32; wire <= CLEF__WIRE_Q8; wire++) {
        char name[64];
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_sum(all, ranks, t->size, sizes[i], (clef__wire)wire);
        snprintf(name, sizeof name, "all_reduce over %s", wire_names[wire]);
        report(name);
    }
}

static void check_groups(void)
{
    int32_t ranks[64];
    clef__group *group;
    for (int32_t i = 0; i < t->size; i++) /* in another order */
        ranks[i] = t->size - 1 - i;
    must(calls->group(t, ranks, t->size, &group, &err), &err);
    check_sum(group, ranks, t->size, 5000, CLEF__WIRE_F32);
    calls->group_free(group);
    const int32_t pair[2] = {0, t->size - 1};
    if (t->size > 1 && (t->rank == pair[0] || t->rank == pair[1])) { /* some of the ranks */
        must(calls->group(t, pair, 2, &group, &err), &err);
        check_sum(group, pair, 2, 777, CLEF__WIRE_F16);
        calls->group_free(group);
    }
    must(calls->group(t, &t->rank, 1, &group, &err), &err);
    check_sum(group, &t->rank, 1, 99, CLEF__WIRE_Q8);
    calls->group_free(group);
    const int32_t twice[2] = {t->rank, t->rank}, beyond = t->size, other = (t->rank + 1) % t->size;
    expect(calls->group(t, twice, 2, &group, &err) == CLEF_E_ARG && !group, "a rank twice", 0);
    expect(calls->group(t, &beyond, 1, &group, &err) == CLEF_E_ARG, "a rank that is none", 0);
    expect(t->size == 1 || calls->group(t, &other, 1, &group, &err) == CLEF_E_ARG, "a group of others", 0);
    report("groups");
}

static void check_special_values(void)
{
    for (int32_t wire = CLEF__WIRE_F32; wire <= CLEF__WIRE_Q8; wire++) {
        float x[100] = {0};
        x[1] = t->rank == 0 ? INFINITY : 1;
        x[40] = t->rank == 0 ? NAN : 1;
        x[70] = -0.0f;
        x[71] = 1e-38f;
        x[99] = wire == CLEF__WIRE_F16 ? 70000.0f : 3e38f / (float)t->size;
        must(calls->all_reduce(all, x, 100, (clef__wire)wire, &err), &err);
        expect(t->size == 1 || !isfinite(x[1]), "infinity stays", (size_t)wire);
        expect(isnan(x[40]), "NaN stays", (size_t)wire);
        expect(x[70] == 0 && fabsf(x[71]) <= 64e-38f, "small values", (size_t)wire);
        expect(t->size == 1 || wire != CLEF__WIRE_F16 || isinf(x[99]), "too large for f16", (size_t)wire);
        expect(wire == CLEF__WIRE_F16 || (isfinite(x[99]) && x[99] > 2.9e38f), "large values", (size_t)wire);
        expect_equal_everywhere(all, t->size, x, sizeof x, "special values");
    }
    report("NaN, infinity, the least and the greatest values");
}

static void check_gather(void)
{
    static const size_t lengths[] = {0, 1, 5, 1000, 65536, 65537, 300001, (5 << 20) + 3};
    const size_t n_lengths = sizeof lengths / sizeof *lengths;
    for (size_t round = 0; round < 2 * n_lengths; round++) {
        size_t sizes[64], total = 0, place = 0;
        for (int32_t i = 0; i < t->size; i++) {
            sizes[i] = lengths[(round + (size_t)i * (round < n_lengths ? 0 : 3)) % n_lengths];
            place = i == t->rank ? total : place;
            total += sizes[i];
        }
        const size_t own = sizes[t->rank];
        unsigned char *gathered = memory(total + 1), *mine = round % 2 ? gathered + place : memory(own + 1);
        for (size_t i = 0; i < own; i++)
            mine[i] = (unsigned char)hash((uint32_t)t->rank, (uint32_t)round, (uint32_t)i);
        gathered[total] = 0x5A;
        must(calls->all_gather(all, mine, gathered, sizes, &err), &err);
        size_t at = 0;
        for (int32_t r = 0; r < t->size; r++)
            for (size_t i = 0; i < sizes[r]; i++, at++)
                expect(gathered[at] == (unsigned char)hash((uint32_t)r, (uint32_t)round, (uint32_t)i),
                       "a byte that was gathered", total);
        expect(gathered[total] == 0x5A, "no more is written", total);
        if (mine != gathered + place)
            free(mine);
        free(gathered);
    }
    report("all_gather");
}

static void check_broadcast(void)
{
    static const size_t lengths[] = {1, 7, 4096, 65536, 65537, 200001, (5 << 20) + 1};
    for (int32_t root = 0; root < t->size; root++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            unsigned char *data = memory(lengths[l]);
            for (size_t i = 0; i < lengths[l]; i++)
                data[i] = t->rank == root ? (unsigned char)hash((uint32_t)root, (uint32_t)l, (uint32_t)i) : 0;
            must(calls->broadcast(all, root, data, lengths[l], &err), &err);
            if (t->rank == root)
                memset(data, 0, lengths[l]); /* it may be used again */
            else
                for (size_t i = 0; i < lengths[l]; i++)
                    expect(data[i] == (unsigned char)hash((uint32_t)root, (uint32_t)l, (uint32_t)i),
                           "a byte of a broadcast", lengths[l]);
            free(data);
        }
    report("broadcast");
}

/* Every rank sends to all others before it receives anything. */
static void check_messages(void)
{
    static const size_t lengths[] = {1, 1000, 5 << 20, 3, 70000, 4096, (1 << 20) + 3, 16384};
    enum { N = sizeof lengths / sizeof *lengths, REPEATS = 2 };
    unsigned char *data = memory(5 << 20);
    for (int32_t to = 0; to < t->size; to++)
        for (uint32_t l = 0; to != t->rank && l < N * REPEATS; l++) {
            for (size_t i = 0; i < lengths[l % N]; i++)
                data[i] = (unsigned char)hash((uint32_t)t->rank * 64 + (uint32_t)to, l, (uint32_t)i);
            must(calls->send(t, to, data, lengths[l % N], &err), &err);
            memset(data, 0, lengths[l % N]); /* it may be used again */
        }
    for (int32_t from = 0; from < t->size; from++)
        for (uint32_t l = 0; from != t->rank && l < N * REPEATS; l++) {
            must(calls->receive(t, from, data, lengths[l % N], &err), &err);
            for (size_t i = 0; i < lengths[l % N]; i++)
                expect(data[i] ==
                           (unsigned char)hash((uint32_t)from * 64 + (uint32_t)t->rank, l, (uint32_t)i),
                       "a byte of a message", lengths[l % N]);
        }
    expect(calls->send(t, t->rank, data, 1, &err) == CLEF_E_ARG, "a message to itself", 0);
    expect(calls->receive(t, t->size, data, 1, &err) == CLEF_E_ARG, "a message from nobody", 0);
    free(data);
    report("messages that cross");
}

/* Calls of all kinds follow each other, and ranks come late in turns. */
static void check_mixed(void)
{
    float x[3000];
    for (uint32_t round = 0; round < 400; round++) {
        const size_t n = 1 + hash(round, 1, 2) % 3000;
        const int32_t root = (int32_t)(hash(round, 3, 4) % (uint32_t)t->size), next = (t->rank + 1) % t->size;
        calls->at(t, "round", round);
        if (hash(round, 5, 6) % 8 == 0 && t->rank == root)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        if (hash(round, 7, 8) % 3 == 0) {
            for (size_t i = 0; i < n; i++)
                x[i] = value(t->rank, round, i);
            must(calls->broadcast(all, root, x, n * sizeof *x, &err), &err);
            expect(x[n - 1] == value(root, round, n - 1) && x[0] == value(root, round, 0), "a broadcast", n);
        } else if (hash(round, 7, 8) % 3 == 1 && t->size > 1) {
            for (size_t i = 0; i < n; i++)
                x[i] = value(t->rank, round, i);
            must(calls->send(t, next, x, n * sizeof *x, &err), &err);
            const int32_t from = (t->rank + t->size - 1) % t->size;
            must(calls->receive(t, from, x, n * sizeof *x, &err), &err);
            expect(x[n - 1] == value(from, round, n - 1) && x[0] == value(from, round, 0), "a message", n);
        } else {
            for (size_t i = 0; i < n; i++)
                x[i] = value(t->rank, round, i);
            must(calls->all_reduce(all, x, n, CLEF__WIRE_F32, &err), &err);
            for (size_t i = 0; i < n; i++) {
                float sum = value(0, round, i);
                for (int32_t r = 1; r < t->size; r++)
                    sum += value(r, round, i);
                expect(x[i] == sum, "a sum", n);
            }
        }
    }
    report("calls of all kinds in turn");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return fprintf(stderr, "usage: mpirun -n N test_transport LIBRARY\n"), 2;
    t = open_transport(argv[1], &err);
    calls = t->calls;
    all = group_of_all(t, &err);
    check_places();
    check_sums();
    check_groups();
    check_special_values();
    check_gather();
    check_broadcast();
    check_messages();
    check_mixed();
    calls->group_free(all);
    calls->close(t);
    return exit_code;
}
