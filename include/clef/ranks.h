/* Several processes ("ranks") that run one model together, each with a part of its weights. They are
 * started by an MPI launcher: mpirun -n 4 PROGRAM. Rank 0 calls the library as one process would; the
 * others follow it. */
#ifndef CLEF_RANKS_H
#define CLEF_RANKS_H

#include "clef/device.h"
#include "clef/lora.h"
#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clef_ranks clef_ranks;

/** Number of this rank, from 0 on, by the launcher's environment variables; 0 without a launcher. */
CLEF_API int32_t clef_ranks_own(void);

typedef struct clef_ranks_opts {
    int32_t     width;  /* ranks that share each layer (tensor parallelism). 0: those of a node, or what
                           `stages` leaves */
    int32_t     stages; /* groups of ranks that have layers of their own (pipeline parallelism). 0: what
                           `width` leaves */
    const char *wire;   /* how sums cross between ranks: "f32" (NULL), "f16" with half the bytes, or "q8"
                           with about a quarter */
    const char *agree;  /* NULL, or a text that has to be the same on all ranks: what the program was asked
                           to do */
    int32_t     apart;  /* 1: each rank calls the library on its own, and only training exchanges values
                           (clef_train_opts.ranks). Nobody leads or follows. width and stages are not read,
                           and are 1 */
} clef_ranks_opts;

/** Number of ranks that the launcher has started, from its environment variables; 1 without a launcher. */
CLEF_API int32_t clef_ranks_started(void);

/** Joins the ranks. Every rank calls this once, with the same options. Opens libclef_mpi.so ($CLEF_MPI
 *  names another file), which needs MPI; nothing else in clef does.
 *
 *  CLEF_E_NOT_FOUND: the module or MPI is missing; CLEF_E_ARG: width times stages is not the number of
 *  ranks, or the ranks differ in version or in opts->agree (the text names the rank, its host and both
 *  sides). */
CLEF_API clef_status clef_ranks_open(const clef_ranks_opts *opts, clef_ranks **out, clef_error *err);
/** On rank 0: lets the other ranks end. To be called after its plans are destroyed; accepts NULL. */
CLEF_API void        clef_ranks_close(clef_ranks *ranks);

typedef struct clef_ranks_info {
    int32_t rank, n;                /* this process and all */
    int32_t local_rank, n_local;    /* among those on this node */
    int32_t node, n_nodes;
    int32_t width, stages;          /* the layout: rank r is number r % width of stage r / width */
    int32_t n_processors;           /* that this rank may use: those of a node are divided among its ranks,
                                       unless the launcher has bound them */
    const char *host;               /* this rank's; lives as long as `ranks` */
} clef_ranks_info;
CLEF_API void        clef_ranks_describe(const clef_ranks *ranks, clef_ranks_info *out);
/** The host of a rank; NULL beyond the last. */
CLEF_API const char *clef_ranks_host(const clef_ranks *ranks, int32_t rank);

/** On rank 0: plans made on `dev` from now on are cut, and run on all ranks. dev is a single device; it is
 *  closed before `ranks`. clef_plan_opts.weights_name says where the others find the weights. */
CLEF_API clef_status clef_ranks_lead(clef_ranks *ranks, clef_device *dev, clef_error *err);

/** On rank 0, while the others follow: out[i] becomes the number of bytes that rank i has sent to others so
 *  far: values, commands, and messages of the start. Heartbeats and headers of the network are not among
 *  them. What several ranks read in shared memory counts for each of them. CLEF_E_ARG on another rank;
 *  CLEF_E_NOMEM. */
CLEF_API clef_status clef_ranks_sent(clef_ranks *ranks, uint64_t *out, clef_error *err);

/** Weights that a following rank has opened. */
typedef struct clef_ranks_weights {
    clef_weight_source  weights;
    clef_weight_release release; /* NULL: not called */
    void               *user;
    void              (*close)(void *close_user); /* called when no plan uses them any more */
    void               *close_user;
} clef_ranks_weights;
/** Opens the weights that rank 0 knows as `name` (clef_plan_opts.weights_name). */
typedef clef_status (*clef_ranks_open_weights)(void *user, const char *name, clef_ranks_weights *out,
                                               clef_error *err);
/** On the other ranks: runs their parts of rank 0's plans on `dev`, until rank 0 closes. A failure in a run
 *  ends all ranks; a plan that cannot be made fails on rank 0, with this rank's reason. open may be
 *  NULL where no plan has weights. */
CLEF_API clef_status clef_ranks_follow(clef_ranks *ranks, clef_device *dev, clef_ranks_open_weights open,
                                       void *user, clef_error *err);
/** clef_plan_opts.weights_name for the weights of a model with adapters (NULL: none): a fingerprint and the
 *  paths of the files. Valid until the next call for this model. NULL without a launcher of ranks, or when
 *  out of memory. */
CLEF_API const char *clef_model_weights_name(clef_model *model, const clef_lora_set *loras);
/** A clef_ranks_open_weights for plans of models, with and without adapters: opens the files that rank 0
 *  uses, which have to be there under the same paths. user: not used. CLEF_E_ARG: a file differs from rank
 *  0's. */
CLEF_API clef_status clef_model_open_for_rank(void *user, const char *name, clef_ranks_weights *out,
                                              clef_error *err);
/** CLEF_OK if `mine` is CLEF_OK on every rank. Else what the first rank that failed has in *err, with its
 *  number and host before it. All ranks call this. */
CLEF_API clef_status clef_ranks_agree(clef_ranks *ranks, clef_status mine, clef_error *err);
/** CLEF_OK if `text` (1023 bytes at most) is the same on all ranks. CLEF_E_ARG: it is not; the text names the
 *  first rank that differs from rank 0, its host and both sides. All ranks call this, and get the same. */
CLEF_API clef_status clef_ranks_compare(clef_ranks *ranks, const char *text, clef_error *err);
/** values[i] becomes the sum of values[i] over the ranks, added in their order: the same bits on all. All
 *  ranks call this with the same n. CLEF_E_NOMEM. */
CLEF_API clef_status clef_ranks_sum(clef_ranks *ranks, double *values, int32_t n, clef_error *err);
/** Seconds of some tries, and what one size takes. */
typedef struct clef_ranks_time { double least, median; } clef_ranks_time;
typedef struct clef_ranks_times {
    uint64_t        n_bytes;       /* of each rank's contribution, or of the message */
    clef_ranks_time all_reduce[3]; /* n_bytes of floats, over each wire: f32, f16, q8 */
    clef_ranks_time all_gather;
    clef_ranks_time broadcast;     /* until the last rank has it */
    clef_ranks_time send;          /* one way, between the first and the last rank */
} clef_ranks_times;
/** Measures exchanges among all ranks, of sizes[n] bytes (multiples of 4). Before each all_reduce and
 *  all_gather the ranks compute for some 0.2 ms, which are not counted. Every rank calls it with the same
 *  sizes and gets the same figures in out[n]; up to about 0.3 s a size. Before clef_ranks_lead(). CLEF_E_ARG:
 *  a single rank; CLEF_E_NOMEM. */
CLEF_API clef_status clef_ranks_measure(clef_ranks *ranks, const uint64_t *sizes, int32_t n,
                                        clef_ranks_times *out, clef_error *err);
/** The graph that one rank of a layout runs, as clef_ranks_lead() makes it: weights and states have only
 *  the rank's part, and all_reduce, all_gather, send and receive exchange values with other ranks. Needs no
 *  ranks. The caller destroys *out. CLEF_E_ARG; CLEF_E_UNSUPPORTED: the heads of attention do not divide by
 *  `width` (the text lists widths that do), or there are fewer layers than stages; CLEF_E_NOMEM. */
CLEF_API clef_status clef_graph_of_rank(const clef_graph *graph, int32_t width, int32_t stages, int32_t rank,
                                        clef_graph **out, clef_error *err);
/** Calls `call` once when all ranks are about to end, because one is lost or has failed: on this rank, in a
 *  thread of its own, for up to a second. Then the process ends, whether `call` has returned or not. Other
 *  threads may be in calls of the library that never return, so it must not wait for them. call NULL: not any
 *  more; to be called before what `user` points to is freed. If a call runs then, this waits until it has
 *  returned, so `call` itself must not do that. */
CLEF_API void        clef_ranks_before_end(clef_ranks *ranks, void (*call)(void *user), void *user);
/** Ends all ranks, after `message` was written to stderr; "": nothing is written, as the caller has said why.
 *  Does not return. */
CLEF_API void        clef_ranks_abort(clef_ranks *ranks, const char *message);

#ifdef __cplusplus
}
#endif
#endif
