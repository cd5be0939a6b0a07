/* How ranks exchange bytes. A rank is one of several processes that run a graph together. The module that
 * moves the bytes is a library of its own (ranks/mpi/), which is opened only where ranks are asked for. */
#ifndef CLEF_RUNTIME_TRANSPORT_H
#define CLEF_RUNTIME_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

/** How sums cross between ranks: as they are, or rounded to fewer bytes. Each rank's contribution is rounded
 *  once, this rank's own, too, and the rounded ones are added in f32. The error of a sum is at most the sum
 *  of the errors below over the ranks, and the rounding of the additions. NaN and infinity stay not
 *  finite. */
typedef enum clef__wire {
    CLEF__WIRE_F32, /* no error */
    CLEF__WIRE_F16, /* half the bytes. |x| / 2048, or 2^-25 if that is more; beyond 65504 it is infinite */
    CLEF__WIRE_Q8   /* 8 bits for an element, and a scale of 4 bytes for every 32, counted from the first.
                       max |x| / 253 of these 32. If max |x| is below 1e-36 they become 0; if one of them is
                       not finite they become NaN */
} clef__wire;

/** Some of the ranks, which take part in collectives together. */
typedef struct clef__group clef__group;

/** Memory in which the ranks of a group, which share a node, exchange in rounds, so that a device that works
 *  in host memory can take a rank's part in a sum. Each rank has a segment: the number of rounds that it has
 *  raised (uint64), and two slots, which rounds use in turn. A rank takes part in round k (1, 2, ...) so:
 *
 *    it waits until every rank has raised k - 1 or more, and writes its contribution into its slot k % 2
 *    it raises k: what it wrote becomes visible before (release)
 *    it waits until every rank has raised k or more (acquire), and reads their slots k % 2
 *
 *  Segments of rank i of the group begin at base + i * segment_bytes. A second set of segments, for trials,
 *  begins at base + trial. All are 0 at first. The memory lives as long as the group. */
typedef struct clef__group_memory {
    unsigned char *base; /* aligned to 128 bytes */
    size_t n_bytes;      /* of both sets */
    size_t trial, segment_bytes;
    size_t slots, slot_bytes; /* the first slot begins at `slots` of the segment, the second after it */
    size_t most_bytes;        /* sums of at most as many bytes are one round */
} clef__group_memory;

/** A set of processors: a bit for each, by the system's numbers. */
enum { CLEF__TRANSPORT_CORE_BYTES = 128 };

typedef struct clef__transport {
    int32_t rank, size;             /* of this process among all */
    int32_t local_rank, local_size; /* among those on this node */
    int32_t node, n_nodes;          /* number of this node; nodes are numbered by their first rank */
    const unsigned char *cores;     /* the processors that this rank should use
                                       [CLEF__TRANSPORT_CORE_BYTES]. NULL: those that it may use, because
                                       no other rank of this node may use the same, or there are too few */
    void   *state;
    const struct clef__transport_calls *calls;
} clef__transport;

/** What a transport does. Calls return when they are done; while a rank waits, it leaves its core to others.
 *  If a rank is lost, calls do not return: the transport writes one line that names it, and ends all ranks.
 *  Calls come from one thread at a time, but for `at`, `before_end` and `abort`, which any thread may
 *  call. Nothing is allocated in collectives and messages, unless one is larger than ever before. A status
 *  other than CLEF_OK (CLEF_E_ARG, CLEF_E_NOMEM) leaves the other ranks waiting, so the caller then ends them
 *  with `abort`. */
typedef struct clef__transport_calls {
    /** The name of a rank's host; lives as long as the transport. */
    const char *(*host)(const clef__transport *t, int32_t rank);
    const int32_t *(*nodes)(const clef__transport *t); /* the node of each rank */
    /** A group of n ranks in this order; all of its members call this in the same order of groups. Measures
     *  which way to sum is the fastest, which takes up to 0.1 s. All members free it, too. */
    clef_status (*group)(clef__transport *t, const int32_t *ranks, int32_t n, clef__group **out,
                         clef_error *err);
    void        (*group_free)(clef__group *group);
    /** x[i] becomes the sum over the group's ranks. Every rank gets the same bits: contributions are added in
     *  the order of the group's ranks, whatever n is and however they cross. */
    clef_status (*all_reduce)(clef__group *group, float *x, size_t n, clef__wire wire, clef_error *err);
    /** The group's contributions one after the other: n_bytes[i] bytes of its rank i. `mine` may lie at its
     *  place in `all`. */
    clef_status (*all_gather)(clef__group *group, const void *mine, void *all, const size_t *n_bytes,
                              clef_error *err);
    /** Copies the bytes of the group's rank `root` to the others. */
    clef_status (*broadcast)(clef__group *group, int32_t root, void *data, size_t n_bytes, clef_error *err);
    /** Returns 1 if the group has memory in which ranks can wait for each other with a core each, and
     *  describes it. All members call it, and get the same answer. */
    int         (*memory)(clef__group *group, clef__group_memory *out);
    /** With 1, each sum in f32 of at most most_bytes is one round of that memory from now on, so that devices
     *  can take part; with 0, what is the fastest. All members call it alike, between the same sums. */
    void        (*rounds)(clef__group *group, int on);
    /** Says that a device has begun sums in a group's memory, which send n_bytes to others. */
    void        (*device_sums)(clef__transport *t, uint64_t n_bytes);
    /** Messages from one rank to another (numbers among all ranks) arrive in their order. send() returns when
     *  `data` may be used again, which may be before the message has arrived. Two ranks may send to each
     *  other at the same time. send() waits only while 64 messages of this rank, or 256 MiB of them, were not
     *  received yet. The receiver says the same n_bytes. */
    clef_status (*send)(clef__transport *t, int32_t to, const void *data, size_t n_bytes, clef_error *err);
    clef_status (*receive)(clef__transport *t, int32_t from, void *data, size_t n_bytes, clef_error *err);
    /** Tells the transport what this rank does now ("loading", "step 12"), for the message if it is lost.
     *  Allocates nothing; `what` is static, and has 35 bytes at most. A number below 0 is not printed. */
    void        (*at)(clef__transport *t, const char *what, int64_t number);
    /** Bytes that this rank has sent to others so far, without heartbeats and what MPI adds. What several
     *  ranks read in shared memory counts for each of them. */
    uint64_t    (*sent)(const clef__transport *t);
    /** Calls `call` once when all ranks are about to end, because one is lost or has failed: in a thread of
     *  its own, while the thread that ends them waits for up to a second. The thread that uses the transport
     *  may be in a call that never returns, so `call` must not wait for it. NULL: not any more. If a call
     *  runs, this waits until it has returned. Any thread may call this, but not `call` itself. */
    void        (*before_end)(clef__transport *t, void (*call)(void *user), void *user);
    /** Ends all ranks after `message` (a line without its end) is written to stderr. "": the caller has
     *  written why. Does not return. */
    void        (*abort)(clef__transport *t, const char *message);
    /** Waits until all ranks call it. Groups are freed before. A process can open the transport once. */
    void        (*close)(clef__transport *t);
} clef__transport_calls;

/** For tests and debugging: values of keys of CLEF_DEBUG, NULL where they are not set. Borrowed for the
 *  call. */
typedef struct clef__transport_opts {
    const char *sum;    /* the way to sum, in place of the one that is measured to be the fastest */
    const char *shared; /* "0": ranks of one machine share no memory */
    const char *eager;  /* "0": long values cross in whole messages; "1": in pieces */
} clef__transport_opts;

/** The one function that libclef_mpi.so exports for clef; `version` is CLEF__TRANSPORT_VERSION. */
#define CLEF__TRANSPORT_VERSION 6
typedef clef_status (*clef__transport_open)(int32_t version, const clef__transport_opts *opts,
                                            clef__transport **out, clef_error *err);
#define CLEF__TRANSPORT_SYMBOL "clef__mpi_open"

#endif
