/* A plan on several ranks. Rank 0 has the plan that callers see; what they ask of it goes to the other
 * ranks as commands, and each rank has a plan for its own part of the graph. */
#ifndef CLEF_RUNTIME_RANKED_H
#define CLEF_RUNTIME_RANKED_H

#include "graph/pass/cut.h"
#include "runtime/plan/together.h"
#include "ranks/join/ranks.h"

typedef struct clef_ranked {
    int32_t    number;    /* of the plan, on all ranks */
    clef_plan *mine;      /* rank 0's part; described only, if the whole plan is */
    clef_plan *stages[CLEF_MAX_STAGES]; /* of each stage the part of its first rank: [0] is `mine`, the
                                           others are described only */
    int32_t   *homes;     /* by output: the rank that has it */
    int32_t   *outputs;   /* by output: its number in `mine`; -1: another rank has it */
    int32_t   *inputs;    /* by input: its number in `mine`; -1: that has none */
    int32_t    reading;   /* 1: a read that has ended is pending; 0: one of `mine`; -1: none */
    struct clef__state_piece *pieces;   /* of the states; NULL: not listed yet */
    int32_t    n_pieces;
} clef_ranked;

clef_status clef__ranked_create(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                clef_plan **out, clef_error *err);
/** Launch i, an exchange (plan_exchange.c). */
clef_status clef__ranked_exchange(const clef_plan *plan, int32_t i, clef_error *err);
/** Runs a rank's part of a plan: values are exchanged. */
clef_status clef__ranked_run(clef_plan *mine, clef_error *err);

/* ---- whole states: ranked_state.c -------------------------------------------------------------- */

/** The rows of a whole state are gathered from the ranks, or each rank gets its part. */
clef_status clef__ranked_read_state(const clef__plan_state *state, const clef__state_rows *rows, void *data,
                                    clef_error *err);
clef_status clef__ranked_write_state(const clef__plan_state *state, const clef__state_rows *rows,
                                     const void *data, clef_error *err);
void        clef__ranked_free_pieces(clef_ranked *r);
/** Copies within a state on all ranks that have parts of it. */
clef_status clef__ranked_copy_state(const clef__plan_state *state, uint64_t to, uint64_t from,
                                    uint64_t n_bytes, clef_error *err);
/** What one rank does of that, with the parts of the whole state `name` that its plan has. */
clef_status clef__ranked_copy_parts(const clef_plan *mine, const char *name, uint64_t to, uint64_t from,
                                    uint64_t n_bytes, clef_error *err);

/** What CLEF__COMMAND_STATE says: rows of a state of the rank's own part of the graph. The name ends with a
 *  NUL. */
typedef struct clef__state_order {
    clef__state_rows rows;
    char             name[CLEF_NAME_BYTES];
} clef__state_order;

/** What a device that leads or follows carries (lead.c). */
extern const clef__together clef__ranks_together;

/* ---- how a plan is sent to the other ranks ---------------------------------------------------- */

/** The graph, the options and the names that they need, as one block for free(); NULL: out of memory, or
 *  the graph could not be written. */
char *clef__ranked_pack(const clef_graph *graph, const clef_plan_opts *opts, size_t *n_bytes,
                        clef_error *err);
/** The reverse. opts' texts lie in `data`. The caller destroys *graph. */
clef_status clef__ranked_unpack(const void *data, size_t n_bytes, clef_graph **graph, clef_plan_opts *opts,
                                clef_error *err);

#endif
