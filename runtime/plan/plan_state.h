/* The states of a plan (KV caches, recurrent states), read and written from the host. */
#ifndef CLEF_RUNTIME_PLAN_STATE_H
#define CLEF_RUNTIME_PLAN_STATE_H

#include "clef/plan.h"
#include "graph/value.h"

/** One state. Valid until its plan is destroyed. */
typedef struct clef__plan_state {
    clef_plan        *stage; /* the plan for one device that has it: the plan itself, or a stage of it */
    const clef_value *value; /* its name, dtype and shape, which has no symbols: the bounds of the graph */
    uint64_t          n_bytes;
} clef__plan_state;

/** The states of a plan in the order of its graph; of a plan over several devices, those of its stages one
 *  after the other. Each state is whole, as the graph has it that the caller gave. It has one buffer on one
 *  device, or several ranks have parts of it: then it is read from them and written to them. Writes at most
 *  `capacity` entries and returns how many there are. */
int32_t clef__plan_states(clef_plan *plan, clef__plan_state *out, int32_t capacity);

/** Rows of n_bytes each in a state: row r begins at byte offset + r * pitch. A range without gaps is one row.
 *  The first n positions of each head of a KV cache [B, H, S, D] are B * H rows of n * D elements, and the
 *  pitch is S * D elements. */
typedef struct clef__state_rows {
    uint64_t offset, n_rows, n_bytes;
    uint64_t pitch; /* at least n_bytes; not read where n_rows is 1 */
} clef__state_rows;

/** Waits for all runs so far and copies rows of a state to `data`, where they lie without gaps. CLEF_E_ARG:
 *  rows that overlap or do not lie in the state, or a plan that is only described. CLEF_E_CL. Both name the
 *  state. */
clef_status clef__plan_state_read(const clef__plan_state *state, const clef__state_rows *rows, void *data,
                                  clef_error *err);
/** Copies `data` to rows of a state, after all runs so far and before the next. Returns when `data` may be
 *  reused. Errors as above. */
clef_status clef__plan_state_write(const clef__plan_state *state, const clef__state_rows *rows,
                                   const void *data, clef_error *err);
/** Enqueues a copy of n_bytes inside a state, after all runs so far and before the next. Does not wait, and
 *  allocates nothing. On several ranks the ranges are a number of entries of the first axis apart. CLEF_E_ARG
 *  also where they overlap. */
clef_status clef__plan_state_copy(const clef__plan_state *state, uint64_t to, uint64_t from, uint64_t n_bytes,
                                  clef_error *err);

/** The copy itself, in a state of a plan for one device. */
clef_status clef__plan_copy_within(const clef_plan *plan, const clef_value *state, uint64_t to, uint64_t from,
                                   uint64_t n_bytes, clef_error *err);

#endif
