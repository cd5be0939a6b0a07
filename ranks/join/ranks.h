/* The fields of the ranks. */
#ifndef CLEF_RUNTIME_RANKS_H
#define CLEF_RUNTIME_RANKS_H

#include "clef/ranks.h"
#include "ranks/shard/shard.h"
#include "ranks/join/transport.h"

struct clef_ranks {
    clef__transport *transport;
    clef_layout      layout;
    int32_t          rank;      /* among those that run a model together */
    clef__wire       wire;
    clef__group     *all;       /* they, rank 0 first */
    clef__group     *stage;     /* those of this rank's stage */
    size_t          *counts;    /* [width]: for all_gather */
    char            *staging;   /* host memory for values on their way */
    size_t           n_staging;
    size_t           piece_bytes; /* in which long sums cross; 0: in one (copies.h) */
    int32_t          n_plans;   /* made so far: the next one's number */
    int64_t          n_steps;   /* runs of plans so far */
    int32_t          has_led;   /* rank 0: a device was opened before */
    int32_t          apart;     /* 1: clef_ranks_opts.apart; `stage` is this rank alone */
    uint64_t         n_reports; /* bytes that were sent for clef_ranks_sent() */
    clef__group_memory memory;  /* of the stage */
    const void      *summing;   /* the OpenCL device that sums over ranks; NULL: the host does */
};

/** Host memory of at least n_bytes, which the next call overwrites; grows to the largest size that was
 *  asked for. NULL when out of memory. */
char *clef__ranks_staging(clef_ranks *ranks, size_t n_bytes);

/* ---- what rank 0 tells the others ------------------------------------------------------------ */

typedef enum clef__command_kind {
    CLEF__COMMAND_END,
    CLEF__COMMAND_CREATE,  /* a plan; data: its options, names and graph */
    CLEF__COMMAND_DESTROY,
    CLEF__COMMAND_BIND,    /* a: symbol, b: value */
    CLEF__COMMAND_WRITE,   /* a: input; data */
    CLEF__COMMAND_RUN,
    CLEF__COMMAND_READ,    /* a: output; its home sends it to rank 0 */
    CLEF__COMMAND_RESET,
    CLEF__COMMAND_COPY,    /* within a whole state: a: to, b: from, c: bytes; data: its name */
    CLEF__COMMAND_STATE,   /* rank a reads rows of its part of a state for rank 0, or (b: 1) writes what it
                              gets from rank 0; data: a clef__state_order */
    CLEF__COMMAND_SENT     /* all say how many bytes they have sent */
} clef__command_kind;
enum { CLEF__COMMAND_INLINE = 192 };
typedef struct clef__command {
    int32_t  kind, plan;
    int64_t  a, b, c;
    uint64_t n_bytes; /* of the data */
    unsigned char data[CLEF__COMMAND_INLINE]; /* the data, if they are no more */
} clef__command;

/** On rank 0: sends a command with its data to all. */
clef_status clef__ranks_command(clef_ranks *ranks, clef__command *command, const void *data, clef_error *err);
/** On the others: waits for one. *data is valid until the next call. */
clef_status clef__ranks_next(clef_ranks *ranks, clef__command *command, const void **data, clef_error *err);
/** On all: CLEF_OK if `mine` is CLEF_OK on every rank; else the first rank's failure, with its number and
 *  host. */
clef_status clef__ranks_agree(clef_ranks *ranks, clef_status mine, const clef_error *why, clef_error *err);

/** On all: out[i] (unless out is NULL) becomes rank i's `begin`, the bytes that it had sent when the report
 *  began, without those of reports before. */
clef_status clef__ranks_report_sent(clef_ranks *ranks, uint64_t begin, uint64_t *out, clef_error *err);

#endif
