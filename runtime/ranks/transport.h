/* How ranks exchange bytes. A rank is one of several processes that run a graph together. The module that
 * moves the bytes is a library of its own (runtime/mpi/), which is opened only where ranks are asked for. */
#ifndef CLEF_RUNTIME_TRANSPORT_H
#define CLEF_RUNTIME_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

/** How sums cross between ranks: as they are, or rounded to fewer bytes. */
typedef enum clef__wire {
    CLEF__WIRE_F32,
    CLEF__WIRE_F16, /* half the bytes */
    CLEF__WIRE_Q8   /* 8 bits for an element and a scale for every 32 */
} clef__wire;

/** Some of the ranks, which take part in collectives together. */
typedef struct clef__group clef__group;

typedef struct clef__transport {
    int32_t rank, size;             /* of this process among all */
    int32_t local_rank, local_size; /* among those on this node */
    int32_t node, n_nodes;          /* number of this node; nodes are numbered by their first rank */
    void   *state;
    const struct clef__transport_calls *calls;
} clef__transport;

/** What a transport does. Calls return when they are done; while a rank waits, it leaves its core to others.
 *  A lost rank does not return: the transport writes one line that names it, and ends the process. */
typedef struct clef__transport_calls {
    /** The name of a rank's host; lives as long as the transport. */
    const char *(*host)(const clef__transport *t, int32_t rank);
    const int32_t *(*nodes)(const clef__transport *t); /* the node of each rank */
    /** A group of n ranks in this order; all of its members call this in the same order of groups. */
    clef_status (*group)(clef__transport *t, const int32_t *ranks, int32_t n, clef__group **out,
                         clef_error *err);
    void        (*group_free)(clef__group *group);
    /** x[i] becomes the sum over the group's ranks. Every rank gets the same bits. */
    clef_status (*all_reduce)(clef__group *group, float *x, size_t n, clef__wire wire, clef_error *err);
    /** The group's contributions one after the other: n_bytes[i] bytes of its rank i. `mine` may lie at its
     *  place in `all`. */
    clef_status (*all_gather)(clef__group *group, const void *mine, void *all, const size_t *n_bytes,
                              clef_error *err);
    /** Copies the bytes of the group's rank `root` to the others. */
    clef_status (*broadcast)(clef__group *group, int32_t root, void *data, size_t n_bytes, clef_error *err);
    /** Messages from one rank to another (numbers among all ranks) arrive in their order. send() returns when
     *  `data` may be used again, which may be before the message has arrived. Two ranks may send to each
     *  other at the same time. */
    clef_status (*send)(clef__transport *t, int32_t to, const void *data, size_t n_bytes, clef_error *err);
    clef_status (*receive)(clef__transport *t, int32_t from, void *data, size_t n_bytes, clef_error *err);
    /** Tells the transport what this rank does now ("loading", "step 12"), for the message if it is lost.
     *  Allocates nothing; `what` is static. */
    void        (*at)(clef__transport *t, const char *what, int64_t number);
    /** Ends all ranks after `message` is written to stderr once. Does not return. */
    void        (*abort)(clef__transport *t, const char *message);
    void        (*close)(clef__transport *t);
} clef__transport_calls;

/** The one function that libclef_mpi.so exports for clef; `version` is CLEF__TRANSPORT_VERSION. */
#define CLEF__TRANSPORT_VERSION 1
typedef clef_status (*clef__transport_open)(int32_t version, clef__transport **out, clef_error *err);
#define CLEF__TRANSPORT_SYMBOL "clef__mpi_open"

#endif
