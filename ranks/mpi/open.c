/* Starts MPI, finds out where the ranks are, and ends it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "ranks/mpi/cores.h"
#include "ranks/mpi/state.h"
#include "ranks/mpi/system.h"

enum { SECONDS_TO_START = 120 };

#define EXPORTED __attribute__((visibility("default")))

static const char *call_host(const clef__transport *t, int32_t rank)
{
    return clef__mpi_host(t->state, rank);
}

static const int32_t *call_nodes(const clef__transport *t)
{
    return ((const clef__mpi *)t->state)->nodes;
}

static void call_at(clef__transport *t, const char *what, int64_t number)
{
    clef__mpi *m = t->state;
    atomic_store_explicit(&m->what, what, memory_order_relaxed);
    atomic_store_explicit(&m->number, number, memory_order_relaxed);
}

static uint64_t call_sent(const clef__transport *t)
{
    return ((const clef__mpi *)t->state)->n_sent;
}

static void call_device_sums(clef__transport *t, uint64_t n_bytes)
{
    clef__mpi *m = t->state;
    m->n_sent += n_bytes;
}

static void call_abort(clef__transport *t, const char *message)
{
    clef__mpi_end(t->state, message);
}

static void release(clef__mpi *m)
{
    clef__mpi_report_free(m);
    MPI_Comm *const communicators[] = {&m->world, &m->talk, &m->beat};
    for (size_t i = 0; i < sizeof communicators / sizeof *communicators; i++)
        if (*communicators[i] != MPI_COMM_NULL)
            MPI_Comm_free(communicators[i]);
    if (m->must_finalize)
        MPI_Finalize();
    free(m->nodes);
    free(m->hosts);
    free(m);
}

static void call_close(clef__transport *t)
{
    if (!t)
        return;
    clef__mpi *m = t->state;
    clef__mpi_outbox_free(m);
    clef__mpi_request all = {.peer = -1};
    clef__mpi_check(m, MPI_Ibarrier(m->world, &all.mpi), -1);
    clef__mpi_finish(m, &all);
    clef__mpi_heart_stop(m);
    release(m);
}

static const clef__transport_calls calls = {.host = call_host,
                                            .nodes = call_nodes,
                                            .group = clef__mpi_group,
                                            .group_free = clef__mpi_group_free,
                                            .all_reduce = clef__mpi_all_reduce,
                                            .all_gather = clef__mpi_all_gather,
                                            .broadcast = clef__mpi_broadcast,
                                            .memory = clef__mpi_memory,
                                            .rounds = clef__mpi_rounds,
                                            .device_sums = call_device_sums,
                                            .send = clef__mpi_send,
                                            .receive = clef__mpi_receive,
                                            .at = call_at,
                                            .sent = call_sent,
                                            .before_end = clef__mpi_before_end,
                                            .abort = call_abort,
                                            .close = call_close};

/* ---- opening ---- */

/* The heart sends messages from a thread of its own. */
static clef_status start_mpi(clef__mpi *m, clef_error *err)
{
    int is_up = 0, is_down = 0, level = MPI_THREAD_SINGLE;
    MPI_Finalized(&is_down);
    if (is_down)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "transport: MPI cannot start twice in a process");
    MPI_Initialized(&is_up);
    if (is_up)
        MPI_Query_thread(&level);
    else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "transport: MPI does not start");
    m->must_finalize = !is_up;
    if (level < MPI_THREAD_MULTIPLE)
        return clef__fail(
            err, CLEF_E_UNSUPPORTED,
            "transport: expected an MPI for several threads (MPI_THREAD_MULTIPLE), got level %d of %d", level,
            MPI_THREAD_MULTIPLE);
    return CLEF_OK;
}

static clef_status make_communicators(clef__mpi *m, clef_error *err)
{
    MPI_Comm *const communicators[] = {&m->world, &m->talk, &m->beat};
    for (size_t i = 0; i < sizeof communicators / sizeof *communicators; i++) {
        if (MPI_Comm_dup(MPI_COMM_WORLD, communicators[i]))
            return clef__fail(err, CLEF_E_UNSUPPORTED, "transport: MPI makes no communicator");
        MPI_Comm_set_errhandler(*communicators[i], MPI_ERRORS_RETURN);
    }
    MPI_Comm_rank(m->world, &m->t.rank);
    MPI_Comm_size(m->world, &m->t.size);
    return CLEF_OK;
}

/* Finds out whether the processors that the ranks of this node may use are at least as many as the ranks.
 * Where several may use the same, which the launcher has then not divided, each gets a part. */
static clef_status share_cores(clef__mpi *m, MPI_Comm node, clef_error *err)
{
    enum { BYTES = CLEF__TRANSPORT_CORE_BYTES };
    unsigned char all[BYTES] = {0};
    const int32_t n_ranks = m->t.local_size;
    int32_t n_cores = 0, n_same = 0, before = 0;
    unsigned char *masks = malloc((size_t)n_ranks * BYTES), mine[BYTES];
    if (!masks)
        return clef__fail(err, CLEF_E_NOMEM, "transport: no memory for %d ranks", n_ranks);
    clef__mpi_cores(mine);
    if (MPI_Allgather(mine, BYTES, MPI_UNSIGNED_CHAR, masks, BYTES, MPI_UNSIGNED_CHAR, node)) {
        free(masks);
        return clef__fail(err, CLEF_E_UNSUPPORTED, "transport: MPI does not say which cores the ranks have");
    }
    for (int32_t i = 0; i < n_ranks; i++) {
        const unsigned char *mask = masks + (size_t)i * BYTES;
        for (int32_t k = 0; k < BYTES; k++)
            all[k] |= mask[k];
        if (memcmp(mask, mine, BYTES) == 0) {
            before += i < m->t.local_rank;
            n_same++;
        }
    }
    free(masks);
    for (int32_t i = 0; i < 8 * BYTES; i++)
        n_cores += all[i / 8] >> i % 8 & 1;
    m->may_spin = n_cores >= n_ranks;
    m->t.cores = clef__mpi_cores_divide(mine, before, n_same, m->cores) ? m->cores : NULL;
    return CLEF_OK;
}

/* Numbers the nodes by their first ranks. nodes[i] is the first rank on the node of rank i before. */
static void number_nodes(clef__mpi *m)
{
    int32_t *nodes = m->nodes;
    m->t.n_nodes = 0;
    for (int32_t i = 0; i < m->t.size; i++)
        nodes[i] = nodes[i] == i ? m->t.n_nodes++ : nodes[nodes[i]];
    m->t.node = nodes[m->t.rank];
}

static clef_status find_places(clef__mpi *m, clef_error *err)
{
    clef__transport *t = &m->t;
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length;
    MPI_Comm node;
    m->hosts = calloc((size_t)t->size, MPI_MAX_PROCESSOR_NAME);
    m->nodes = calloc((size_t)t->size, sizeof *m->nodes);
    if (!m->hosts || !m->nodes)
        return clef__fail(err, CLEF_E_NOMEM, "transport: no memory for %d ranks", t->size);
    MPI_Get_processor_name(name, &length);
    if (MPI_Allgather(name, sizeof name, MPI_CHAR, m->hosts, sizeof name, MPI_CHAR, m->world) ||
        MPI_Comm_split_type(m->world, MPI_COMM_TYPE_SHARED, t->rank, MPI_INFO_NULL, &node))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "transport: MPI does not say where the ranks are");
    MPI_Comm_rank(node, &t->local_rank);
    MPI_Comm_size(node, &t->local_size);
    int32_t first = t->rank;
    const clef_status shared = share_cores(m, node, err);
    const int failed = MPI_Bcast(&first, 1, MPI_INT32_T, 0, node) ||
                       MPI_Allgather(&first, 1, MPI_INT32_T, m->nodes, 1, MPI_INT32_T, m->world);
    clef__mpi_report_make(m, node);
    MPI_Comm_free(&node);
    if (shared)
        return shared;
    if (failed)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "transport: MPI does not say where the ranks are");
    number_nodes(m);
    return CLEF_OK;
}

/* Until the heart beats, no other rank would notice that one does not come. MPI itself waits for ever. */
static void bound_start(void)
{
    const double seconds = clef__mpi_env_number("CLEF_RANK_START", SECONDS_TO_START);
    char line[128];
    if (seconds < 1 || seconds > 1e6)
        return;
    snprintf(line, sizeof line, "clef: the ranks have not met within %.0f s (CLEF_RANK_START)", seconds);
    clef__mpi_end_unless((unsigned)seconds, line);
}

static void read_opts(clef__mpi *m, const clef__transport_opts *opts)
{
    snprintf(m->sum, sizeof m->sum, "%s", opts->sum ? opts->sum : "");
    m->shares_memory = !opts->shared || strcmp(opts->shared, "0") != 0;
    m->eager = opts->eager ? opts->eager[0] : 0;
}

EXPORTED clef_status clef__mpi_open(int32_t version, const clef__transport_opts *opts, clef__transport **out,
                                    clef_error *err);

EXPORTED clef_status clef__mpi_open(int32_t version, const clef__transport_opts *opts, clef__transport **out,
                                    clef_error *err)
{
    *out = NULL;
    if (version != CLEF__TRANSPORT_VERSION)
        return clef__fail(
            err, CLEF_E_UNSUPPORTED,
            "libclef_mpi: expected clef's version %d of transports, got %d: it is of another clef",
            CLEF__TRANSPORT_VERSION, version);
    clef__mpi *m = calloc(1, sizeof *m);
    if (!m)
        return clef__fail(err, CLEF_E_NOMEM, "transport: no memory");
    m->world = m->talk = m->beat = MPI_COMM_NULL;
    m->end_window = MPI_WIN_NULL;
    read_opts(m, opts);
    m->t.state = m;
    m->t.calls = &calls;
    atomic_flag_clear(&m->ending);
    atomic_flag_clear(&m->last_locked);
    atomic_flag_clear(&m->said_locked);
    call_at(&m->t, "starting", -1);
    bound_start();
    clef_status s = start_mpi(m, err);
    if (!s)
        s = make_communicators(m, err);
    if (!s)
        s = find_places(m, err);
    if (!s)
        s = clef__mpi_outbox_make(m, err);
    if (!s)
        s = clef__mpi_heart_start(m, err);
    if (s) { /* which waits for the other ranks, so the start's limit still holds */
        free(m->outbox);
        release(m);
    } else {
        *out = &m->t;
    }
    clef__mpi_in_time();
    return s;
}
