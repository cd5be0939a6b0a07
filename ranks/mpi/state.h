/* The state of the MPI transport, and what its files call of each other. */
#ifndef CLEF_RANKS_MPI_STATE_H
#define CLEF_RANKS_MPI_STATE_H

#include <mpi.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "ranks/join/transport.h"

/** A request of MPI, and the other end of it as a number among all ranks, for the message if that is lost. */
typedef struct clef__mpi_request {
    MPI_Request mpi;
    int32_t     peer;
} clef__mpi_request;

/** A rank that is silent for so long is lost, unless CLEF_RANK_TIMEOUT says otherwise. */
enum { CLEF__MPI_SILENCE = 5 };
/** The bytes of what a rank says that it does, with the NUL. */
enum { CLEF__MPI_WHAT = 36 };

typedef struct clef__mpi_heart  clef__mpi_heart;
typedef struct clef__mpi_outbox clef__mpi_outbox;

typedef struct clef__mpi {
    clef__transport t;      /* t.state is this struct */
    MPI_Comm world;         /* all ranks: making groups, closing */
    MPI_Comm talk;          /* all ranks: send and receive */
    MPI_Comm beat;          /* all ranks: heartbeats */
    char    *hosts;         /* [size, MPI_MAX_PROCESSOR_NAME] */
    int32_t *nodes;         /* [size] */
    char     sum[24];       /* clef__transport_opts; "": what is the fastest */
    int      shares_memory;
    char     eager;         /* '0', '1'; else what is faster */
    int      may_spin;      /* the ranks of this node have a core each */
    unsigned char cores[CLEF__TRANSPORT_CORE_BYTES]; /* t.cores, unless that is NULL */
    int      must_finalize; /* this library has initialized MPI */
    clef__mpi_outbox *outbox;
    clef__mpi_heart  *heart;
    /* What this rank does; the heart reads it. */
    _Atomic(const char *) what;
    _Atomic int64_t number;
    uint64_t n_sent;         /* bytes, as transport.h counts them */
    atomic_flag  said_locked;    /* for what the heart has heard, which other threads read */
    /* How it ends (end.c). */
    atomic_flag ending;
    atomic_flag last_locked; /* for the two below, and held while the call runs */
    void (*last_call)(void *user); /* before_end(); NULL: none */
    void       *last_user;
    _Atomic int has_called;
    MPI_Win     end_window;        /* memory that this node's ranks share, or MPI_WIN_NULL */
    _Atomic int32_t *has_reported; /* in it: a rank of this node has written why all end. NULL without it */
} clef__mpi;

/* ---- waiting (wait.c) ---- */

/** One wait, from its begin; zero it before the first step. */
typedef struct clef__mpi_wait {
    int32_t n;
    double  since, nap;
} clef__mpi_wait;

/** What a rank does between two looks at what it waits for: it polls for some microseconds if each rank of
 *  the node has a core, then leaves the core to threads that are ready to run, and after 2 ms sleeps between
 *  the looks, up to 0.5 ms. Messages on their way move on meanwhile. */
void clef__mpi_wait_step(clef__mpi *m, clef__mpi_wait *wait);
/** Waits for one request. A lost peer does not return. */
void clef__mpi_finish(clef__mpi *m, clef__mpi_request *request);

/** A lock for what threads hold for a moment; whoever waits for it sleeps meanwhile. */
void clef__mpi_lock(atomic_flag *lock);
void clef__mpi_unlock(atomic_flag *lock);

/* ---- ending (end.c) ---- */

/** Makes the memory by which the ranks of a node agree on who writes why all end. All ranks of the node call
 *  it. Where MPI has no such memory, each rank that notices something writes its line. */
void clef__mpi_report_make(clef__mpi *m, MPI_Comm node);
void clef__mpi_report_free(clef__mpi *m);
/** Writes `line`, if no other rank of this node has written one, and ends this rank, and with it all others.
 *  "": the caller has written why, and no other rank of this node writes a line. The first caller in a
 *  process does it; others wait for the end. */
_Noreturn void clef__mpi_end(clef__mpi *m, const char *line);
/** What is called before the end, and NULL for nothing. */
void clef__mpi_before_end(clef__transport *t, void (*call)(void *user), void *user);
/** Ends all ranks if `code` is an error of MPI. peer: the other end, or -1 where there is more than one. */
void clef__mpi_check(clef__mpi *m, int code, int32_t peer);
/** Writes the line for a rank that is lost. */
void clef__mpi_describe(const clef__mpi *m, int32_t rank, const char *what, int64_t number, char *out,
                        size_t capacity);
/** The host's name of a rank. */
const char *clef__mpi_host(const clef__mpi *m, int32_t rank);

/* ---- heartbeats (heart.c) ---- */

/** Starts the thread that sends heartbeats, and ends all ranks when one is lost. All ranks call it.
 *  CLEF_E_NOMEM. */
clef_status clef__mpi_heart_start(clef__mpi *m, clef_error *err);
/** Ends it after all ranks have said goodbye. All ranks call it. */
void        clef__mpi_heart_stop(clef__mpi *m);
/** What a rank said last; 0 where this rank does not hear it. */
int clef__mpi_heart_last(clef__mpi *m, int32_t rank, char what[CLEF__MPI_WHAT], int64_t *number);

/* ---- messages (messages.c) ---- */

clef_status clef__mpi_outbox_make(clef__mpi *m, clef_error *err);
void        clef__mpi_outbox_free(clef__mpi *m); /* waits until all messages have left */
/** Moves messages on their way. Cheap if there are none. */
void        clef__mpi_outbox_move(clef__mpi *m);
clef_status clef__mpi_send(clef__transport *t, int32_t to, const void *data, size_t n_bytes, clef_error *err);
clef_status clef__mpi_receive(clef__transport *t, int32_t from, void *data, size_t n_bytes, clef_error *err);

/* ---- groups (group.c) ---- */

/** The ways to sum. Each adds the contributions of an element in the order of ranks, so all give the same
 *  bits. */
typedef enum clef__mpi_way {
    CLEF__MPI_MESSAGES,         /* each rank sends all to all others, and adds */
    CLEF__MPI_MESSAGES_SCATTER, /* each rank adds a part, and sends the sums to the others */
    CLEF__MPI_SHARED,           /* the first in shared memory */
    CLEF__MPI_SHARED_SCATTER,   /* the second in shared memory */
    CLEF__MPI_N_WAYS
} clef__mpi_way;

/** Seconds of each way by bytes of each contribution, as measured. */
enum { CLEF__MPI_N_SIZES = 4 };
typedef struct clef__mpi_costs {
    uint32_t allowed; /* a bit for each way */
    int32_t  n_sizes[CLEF__MPI_N_WAYS];
    double   seconds[CLEF__MPI_N_WAYS][CLEF__MPI_N_SIZES];
} clef__mpi_costs;

typedef struct clef__mpi_shared clef__mpi_shared;

struct clef__group {
    clef__mpi *m;
    MPI_Comm   comm;
    int32_t    n, me;  /* size, and the number of this rank in the group */
    int32_t   *ranks;  /* [n] numbers among all ranks */
    clef__mpi_request *pending; /* [2 n CLEF__MPI_PIECES] */
    int32_t    n_pending;
    size_t     piece_bytes; /* messages of collectives are sent in pieces of so many bytes at most */
    const void   **parts;   /* [n] */
    unsigned char *scratch; /* grows when a sum needs more than ever before */
    size_t     scratch_bytes;
    clef__mpi_shared *shared; /* NULL if the group's ranks have no common memory */
    clef__mpi_costs   costs;
    size_t     most_round;  /* bytes that clef__mpi_memory() says are one round */
    size_t     round_bytes; /* sums in f32 of at most as many bytes are one round in shared memory; 0: what is
                               the fastest */
};

clef_status clef__mpi_group(clef__transport *t, const int32_t *ranks, int32_t n, clef__group **out,
                            clef_error *err);
void        clef__mpi_group_free(clef__group *group);
/** Messages of collectives cross whole, or cut into pieces. MPI asks the other end before it sends a message
 *  beyond some size, which costs two trips. Over TCP the answer also queues behind data that travels the same
 *  way, so that a link in use in both directions stands still again and again. Open MPI asks beyond 64 KiB
 *  over TCP, and a piece is shorter than that by more than any header. */
enum {
    CLEF__MPI_PIECE = 63 << 10,
    CLEF__MPI_WHOLE = 1 << 30, /* MPI counts in int */
    CLEF__MPI_PIECES = 66      /* of one message, at most: those of 4 MiB */
};
/** The bytes of the longest message that a collective may start. */
static inline size_t clef__mpi_most_bytes(const clef__group *g)
{
    return g->piece_bytes < CLEF__MPI_WHOLE ? (size_t)4 << 20 : CLEF__MPI_WHOLE;
}
/** Starts to send to, or to receive from, the group's rank `to` or `from`; at most clef__mpi_most_bytes(),
 *  and for either rank one message each way. Both ends say the same n_bytes. */
void clef__mpi_post_send(clef__group *group, int32_t to, const void *data, size_t n_bytes);
void clef__mpi_post_receive(clef__group *group, int32_t from, void *data, size_t n_bytes);
/** Waits for all that was started. */
void clef__mpi_post_finish(clef__group *group);
/** Memory of at least n_bytes. CLEF_E_NOMEM. */
clef_status clef__mpi_scratch(clef__group *group, size_t n_bytes, clef_error *err);
/** The greatest of each of the group's values[n], or the bits that all have, in place. */
void clef__mpi_agree_max(clef__group *group, double *values, int32_t n);
void clef__mpi_agree_and(clef__group *group, uint32_t *bits);

/* ---- collectives (collectives.c, sum.c, choose.c) ---- */

clef_status clef__mpi_all_reduce(clef__group *group, float *x, size_t n, clef__wire wire, clef_error *err);
clef_status clef__mpi_all_gather(clef__group *group, const void *mine, void *all, const size_t *n_bytes,
                                 clef_error *err);
clef_status clef__mpi_broadcast(clef__group *group, int32_t root, void *data, size_t n_bytes,
                                clef_error *err);
/** all_reduce in one of the ways. */
clef_status clef__mpi_sum(clef__group *group, clef__mpi_way way, float *x, size_t n, clef__wire wire,
                          clef_error *err);
/** Measures whether messages in pieces arrive sooner, and the ways to sum; all of the group's ranks call it,
 *  and come to the same figures. Below 100 ms on an idle machine. */
clef_status   clef__mpi_measure(clef__group *group, clef_error *err);
clef__mpi_way clef__mpi_choose(const clef__group *group, size_t n, clef__wire wire);

/* ---- memory that the ranks of a node share (shared.c) ---- */

/** In each round every rank of the group may write CLEF__MPI_SLOT bytes, and read those of the others.
 *
 *    slot = clef__mpi_shared_begin(group);      waits until the slot is free, which it nearly always is
 *    ... writes into the slot
 *    clef__mpi_shared_raise(group);             from here on others may read it
 *    for each rank: other = clef__mpi_shared_of(group, rank);    waits until that rank has raised
 *    ... reads
 *
 *  All ranks take part in all rounds, in the same order. What was read stays until the next begin. A rank
 *  that has nothing to write or to read calls begin and raise alone. */
enum { CLEF__MPI_SLOT = 131072 };
/** Makes it if all ranks of the group are on one node and MPI has such memory; else group->shared stays NULL.
 *  All ranks come to the same. CLEF_E_NOMEM. */
clef_status clef__mpi_shared_make(clef__group *group, clef_error *err);
void        clef__mpi_shared_free(clef__group *group);
int         clef__mpi_memory(clef__group *group, clef__group_memory *out);
void        clef__mpi_rounds(clef__group *group, int on);
void       *clef__mpi_shared_begin(clef__group *group);
void        clef__mpi_shared_raise(clef__group *group);
const void *clef__mpi_shared_of(clef__group *group, int32_t rank);
#endif
