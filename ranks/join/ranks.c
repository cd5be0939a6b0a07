/* Joining the ranks, and what they tell each other beside values. */
#include "ranks/join/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/clef.h"
#include "graph/fail.h"
#include "runtime/device/device.h"
#include "runtime/device/library.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

enum { AGREE_BYTES = 1024, REPORT_BYTES = 768 };

/* ---- the module ------------------------------------------------------------------------------ */

static const char *const places[] = {"libclef_mpi.so", NULL};
static const char *const names[] = {CLEF__TRANSPORT_SYMBOL};
static void *functions[1];
static clef__library module = {
    .variable = "CLEF_MPI", .places = places, .names = names, .functions = functions, .n = 1};

static clef_status open_transport(clef__transport **out, clef_error *err)
{
    if (!clef__library_open(&module) || !functions[0])
        return clef__fail(
            err, CLEF_E_NOT_FOUND,
            "%" PRId32 " ranks were started, and the module for MPI cannot be opened: %s. Debian: "
            "libclef-mpi, openmpi-bin",
            clef_ranks_started(), module.is_open ? "it lacks " CLEF__TRANSPORT_SYMBOL : module.why);
    clef__transport_open open;
    memcpy(&open, functions, sizeof open);
    const clef__transport_opts opts = {.sum = clef__debug("rank_sum"),
                                       .shared = clef__debug("rank_shared"),
                                       .eager = clef__debug("rank_eager")};
    return open(CLEF__TRANSPORT_VERSION, &opts, out, err);
}

/* ---- the layout ------------------------------------------------------------------------------ */

/* Ranks of a node share layers; nodes have layers of their own, since what crosses between them is less then.
 */
static clef_status choose_layout(clef_ranks *r, const clef_ranks_opts *o, clef_error *err)
{
    const clef__transport *t = r->transport;
    int32_t width = o->width, stages = o->stages;
    if (o->apart) {
        r->layout = (clef_layout){1, 1};
        return CLEF_OK;
    }
    if (!width && !stages)
        width = t->n_nodes > 1 && t->size % t->n_nodes == 0 ? t->size / t->n_nodes
                : t->n_nodes > 1                            ? 1
                                                            : t->size;
    if (!stages)
        stages = width > 0 ? t->size / width : 0;
    else if (!width)
        width = t->size / stages;
    r->layout = (clef_layout){width, stages};
    return width > 0 && stages > 0 && width <= t->size && width * stages == t->size
               ? CLEF_OK
               : clef__fail(err, CLEF_E_ARG,
                            "%" PRId32 " ranks were started: they cannot be divided into stages of %" PRId32
                            " ranks (--tp)%s",
                            t->size, width, o->stages ? " in the number of --pp" : "");
}

static clef_status make_groups(clef_ranks *r, clef_error *err)
{
    const clef_layout *l = &r->layout;
    const int32_t n = r->transport->size;
    int32_t *list = malloc((size_t)n * sizeof *list);
    r->counts = malloc((size_t)l->width * sizeof *r->counts);
    clef_status s =
        list && r->counts ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " ranks", n);
    for (int32_t i = 0; i < n && !s; i++)
        list[i] = i;
    if (!s)
        s = r->transport->calls->group(r->transport, list, n, &r->all, err);
    for (int32_t i = 0; i < l->width && !s; i++)
        list[i] = r->rank / l->width * l->width + i;
    if (!s)
        s = r->transport->calls->group(r->transport, list, l->width, &r->stage, err);
    free(list);
    return s;
}

static clef_status choose_wire(clef_ranks *r, const char *wire, clef_error *err)
{
    static const char *const wires[] = {"f32", "f16", "q8"};
    for (int32_t i = 0; i < 3; i++)
        if (strcmp(wire ? wire : "f32", wires[i]) == 0) {
            r->wire = (clef__wire)i;
            return CLEF_OK;
        }
    return clef__fail(err, CLEF_E_ARG, "'%.40s' between ranks: expected f32, f16 or q8", wire);
}

/* ---- agreeing -------------------------------------------------------------------------------- */

/* Every rank's text of n bytes, one after the other. NULL when out of memory. */
static char *collect(clef_ranks *r, const char *mine, size_t n, clef_error *err)
{
    const size_t ranks = (size_t)r->transport->size;
    size_t *counts = malloc(ranks * sizeof *counts);
    char *all = calloc(ranks, n);
    for (size_t i = 0; counts && i < ranks; i++)
        counts[i] = n;
    if (!counts || !all || r->transport->calls->all_gather(r->all, mine, all, counts, err)) {
        if (!counts || !all)
            clef__fail(err, CLEF_E_NOMEM, "no memory for what %zu ranks report", ranks);
        free(all);
        all = NULL;
    }
    free(counts);
    return all;
}

clef_status clef_ranks_compare(clef_ranks *r, const char *text, clef_error *err)
{
    char mine[AGREE_BYTES] = "";
    snprintf(mine, sizeof mine, "%s", text);
    char *all = collect(r, mine, sizeof mine, err);
    if (!all)
        return CLEF_E_NOMEM;
    clef_status s = CLEF_OK;
    for (int32_t i = 1; i < r->transport->size && !s; i++)
        if (strcmp(all, all + (size_t)i * AGREE_BYTES) != 0)
            s = clef__fail(err, CLEF_E_ARG,
                           "rank %" PRId32 " on %s differs from rank 0 on %s: '%.300s' and '%.300s'", i,
                           clef_ranks_host(r, i), clef_ranks_host(r, 0), all + (size_t)i * AGREE_BYTES, all);
    free(all);
    return s;
}

static clef_status check_agreement(clef_ranks *r, const char *text, clef_error *err)
{
    char mine[AGREE_BYTES] = "";
    snprintf(mine, sizeof mine, "clef %s%s%.900s", clef_version(), text ? ": " : "", text ? text : "");
    return clef_ranks_compare(r, mine, err);
}

clef_status clef_ranks_sum(clef_ranks *r, double *values, int32_t n, clef_error *err)
{
    const size_t n_bytes = (size_t)n * sizeof *values;
    char *all = collect(r, (const char *)values, n_bytes, err);
    if (!all)
        return CLEF_E_NOMEM;
    memset(values, 0, n_bytes);
    for (int32_t i = 0; i < r->transport->size; i++)
        for (int32_t k = 0; k < n; k++) {
            double x;
            memcpy(&x, all + (size_t)i * n_bytes + (size_t)k * sizeof x, sizeof x);
            values[k] += x;
        }
    free(all);
    return CLEF_OK;
}

clef_status clef__ranks_agree(clef_ranks *r, clef_status mine, const clef_error *why, clef_error *err)
{
    char report[REPORT_BYTES] = {0};
    clef_error failed = {0};
    memcpy(report, &mine, sizeof mine);
    if (mine)
        snprintf(report + sizeof mine, sizeof report - sizeof mine, "%.700s", why->text);
    char *all = collect(r, report, sizeof report, &failed);
    if (!all)
        return clef__fail(err, failed.status, "%s", failed.text);
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < r->transport->size && !s; i++) {
        memcpy(&s, all + (size_t)i * REPORT_BYTES, sizeof s);
        if (s && i == r->rank)
            clef__fail(err, s, "%s", why->text);
        else if (s)
            clef__fail(err, s, "rank %" PRId32 " on %s: %s", i, clef_ranks_host(r, i),
                       all + (size_t)i * REPORT_BYTES + sizeof s);
    }
    free(all);
    return s;
}

/* ---- joining and leaving --------------------------------------------------------------------- */

clef_status clef_ranks_open(const clef_ranks_opts *opts, clef_ranks **out, clef_error *err)
{
    const clef_ranks_opts none = {0}, *o = opts ? opts : &none;
    clef_ranks *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for ranks");
    r->n_plans = -1; /* nobody follows yet */
    (void)clef_ranks_started();
    clef_status s = open_transport(&r->transport, err);
    if (!s) {
        r->rank = r->transport->rank;
        r->apart = o->apart != 0;
        if (r->transport->cores)
            clef__os_use_cpus(r->transport->cores, CLEF__TRANSPORT_CORE_BYTES);
        s = choose_layout(r, o, err);
    }
    if (!s)
        s = make_groups(r, err);
    if (!s)
        s = check_agreement(r, o->agree, err);
    if (!s)
        s = choose_wire(r, o->wire, err);
    if (s) {
        clef_ranks_close(r);
        return s;
    }
    clef__launcher_hide();
    r->n_plans = 0;
    *out = r;
    return CLEF_OK;
}

static void release(clef_ranks *r)
{
    if (r->transport) {
        if (r->stage)
            r->transport->calls->group_free(r->stage);
        if (r->all)
            r->transport->calls->group_free(r->all);
        r->transport->calls->close(r->transport);
    }
    free(r->counts);
    free(r->staging);
    free(r);
}

void clef_ranks_close(clef_ranks *r)
{
    if (!r)
        return;
    if (r->all && r->rank == 0 && r->n_plans >= 0 && !r->apart)
        clef__ranks_command(r, &(clef__command){.kind = CLEF__COMMAND_END}, NULL, NULL);
    release(r);
}

void clef_ranks_describe(const clef_ranks *r, clef_ranks_info *out)
{
    const clef__transport *t = r->transport;
    *out = (clef_ranks_info){.rank = t->rank,
                             .n = t->size,
                             .local_rank = t->local_rank,
                             .n_local = t->local_size,
                             .node = t->node,
                             .n_nodes = t->n_nodes,
                             .width = r->layout.width,
                             .stages = r->layout.stages,
                             .n_processors = clef__os_n_cpus(),
                             .host = clef_ranks_host(r, t->rank)};
}

const char *clef_ranks_host(const clef_ranks *r, int32_t rank)
{
    return rank >= 0 && rank < r->transport->size ? r->transport->calls->host(r->transport, rank) : NULL;
}

void clef_ranks_before_end(clef_ranks *r, void (*call)(void *user), void *user)
{
    r->transport->calls->before_end(r->transport, call, user);
}

void clef_ranks_abort(clef_ranks *r, const char *message)
{
    r->transport->calls->abort(r->transport, message);
}

/* ---- commands -------------------------------------------------------------------------------- */

static char *grow(char **memory, size_t *size, size_t n_bytes)
{
    if (n_bytes > *size) {
        char *more = realloc(*memory, n_bytes);
        if (!more)
            return NULL;
        *memory = more;
        *size = n_bytes;
    }
    return *memory;
}

char *clef__ranks_staging(clef_ranks *r, size_t n_bytes)
{
    return grow(&r->staging, &r->n_staging, n_bytes);
}

clef_status clef__ranks_command(clef_ranks *r, clef__command *command, const void *data, clef_error *err)
{
    const int fits = command->n_bytes <= sizeof command->data;
    if (fits && command->n_bytes)
        memcpy(command->data, data, (size_t)command->n_bytes);
    clef_status s = r->transport->calls->broadcast(r->all, 0, command, sizeof *command, err);
    if (!s && !fits) /* a broadcast does not change the data of the rank that sends */
        s = r->transport->calls->broadcast(r->all, 0, (void *)(uintptr_t)data, (size_t)command->n_bytes, err);
    return s;
}

clef_status clef__ranks_next(clef_ranks *r, clef__command *command, const void **data, clef_error *err)
{
    clef_status s = r->transport->calls->broadcast(r->all, 0, command, sizeof *command, err);
    *data = command->data;
    if (s || command->n_bytes <= sizeof command->data)
        return s;
    char *room = clef__ranks_staging(r, (size_t)command->n_bytes);
    *data = room;
    if (!room)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRIu64 " bytes from rank 0", command->n_bytes);
    return r->transport->calls->broadcast(r->all, 0, room, (size_t)command->n_bytes, err);
}

clef_status clef__ranks_report_sent(clef_ranks *r, uint64_t begin, uint64_t *out, clef_error *err)
{
    const uint64_t mine = begin - r->n_reports;
    char *all = collect(r, (const char *)&mine, sizeof mine, err);
    if (!all)
        return CLEF_E_NOMEM;
    if (out)
        memcpy(out, all, (size_t)r->transport->size * sizeof mine);
    free(all);
    r->n_reports += r->transport->calls->sent(r->transport) - begin;
    return CLEF_OK;
}

clef_status clef_ranks_sent(clef_ranks *r, uint64_t *out, clef_error *err)
{
    const uint64_t begin = r->transport->calls->sent(r->transport);
    if (r->rank)
        return clef__fail(err, CLEF_E_ARG, "rank %" PRId32 " does not ask what others sent: rank 0 does",
                          r->rank);
    const clef_status s = clef__ranks_command(r, &(clef__command){.kind = CLEF__COMMAND_SENT}, "", err);
    return s ? s : clef__ranks_report_sent(r, begin, out, err);
}

clef_status clef_ranks_agree(clef_ranks *r, clef_status mine, clef_error *err)
{
    clef_error why = {0}, all = {0};
    if (mine && err)
        why = *err;
    const clef_status s = clef__ranks_agree(r, mine, &why, &all);
    if (s && err)
        *err = all;
    return s;
}
