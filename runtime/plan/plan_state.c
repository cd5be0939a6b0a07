/* Reads, writes and copies of a plan's states. */
#include "runtime/plan/plan_state.h"

#include <inttypes.h>

#include "runtime/plan/plan.h"
#include "runtime/plan/together.h"

/* Adds those of a plan to the n that are there. */
static int32_t add_states(clef_plan *plan, clef__plan_state *out, int32_t capacity, int32_t n)
{
    for (int32_t i = 0; i < plan->graph->n_values; i++) {
        const clef_value *v = plan->graph->values[i];
        if (v->kind != CLEF_STATE)
            continue;
        if (n < capacity)
            out[n] = (clef__plan_state){.stage = plan, .value = v, .n_bytes = (uint64_t)clef__bytes(v, NULL)};
        n++;
    }
    return n;
}

static int is_whole(const clef_plan *plan)
{
    return plan->kind->whole_states;
}

int32_t clef__plan_states(clef_plan *plan, clef__plan_state *out, int32_t capacity)
{
    int32_t n = 0;
    if (is_whole(plan))
        return add_states(plan, out, capacity, 0);
    for (int32_t s = 0; clef_plan_stage(plan, s); s++)
        n = add_states((clef_plan *)(uintptr_t)clef_plan_stage(plan, s), out, capacity, n);
    return n;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static clef_status check_memory(const clef__plan_state *state, clef_error *err)
{
    if (state->stage->ranked)
        return CLEF_OK;
    if (state->stage->mem[state->value->id])
        return CLEF_OK;
    return clef__fail(err, CLEF_E_ARG, "state %s: the plan was made with describe_only: it has no memory",
                      state->value->name);
}

static clef_status check_range(const clef__plan_state *state, uint64_t offset, uint64_t n_bytes,
                               clef_error *err)
{
    if (n_bytes <= state->n_bytes && offset <= state->n_bytes - n_bytes)
        return check_memory(state, err);
    return clef__fail(err, CLEF_E_ARG, "state %s: %" PRIu64 " bytes from byte %" PRIu64 ", it has %" PRIu64,
                      state->value->name, n_bytes, offset, state->n_bytes);
}

static clef_status check_rows(const clef__plan_state *state, const clef__state_rows *rows, clef_error *err)
{
    const clef_status s = check_range(state, rows->offset, rows->n_bytes, err);
    if (s || rows->n_rows <= 1)
        return s;
    if (rows->pitch < rows->n_bytes)
        return clef__fail(err, CLEF_E_ARG,
                          "state %s: rows of %" PRIu64 " bytes overlap at a pitch of %" PRIu64,
                          state->value->name, rows->n_bytes, rows->pitch);
    const uint64_t left = state->n_bytes - rows->offset - rows->n_bytes; /* after the first row */
    if (rows->pitch && rows->n_rows - 1 > left / rows->pitch)
        return clef__fail(err, CLEF_E_ARG,
                          "state %s: %" PRIu64 " rows at a pitch of %" PRIu64 " from byte %" PRIu64
                          ", it has %" PRIu64 " bytes",
                          state->value->name, rows->n_rows, rows->pitch, rows->offset, state->n_bytes);
    return CLEF_OK;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int has_gaps(const clef__state_rows *rows)
{
    return rows->n_rows > 1 && rows->pitch > rows->n_bytes;
}

static size_t all_bytes(const clef__state_rows *rows)
{
    return (size_t)(rows->n_rows * rows->n_bytes);
}

clef_status clef__plan_state_read(const clef__plan_state *state, const clef__state_rows *rows, void *data,
                                  clef_error *err)
{
    const clef_status s = check_rows(state, rows, err);
    if (s || !all_bytes(rows))
        return s;
    if (is_whole(state->stage))
        return state->stage->dev->together->read_state(state, rows, data, err);
    const cl_command_queue queue = state->stage->dev->queue;
    const cl_mem mem = state->stage->mem[state->value->id];
    const size_t offset = (size_t)rows->offset, pitch = (size_t)rows->pitch, n_bytes = (size_t)rows->n_bytes;
    if (!has_gaps(rows)) {
        const cl_int code =
            clEnqueueReadBuffer(queue, mem, CL_TRUE, offset, all_bytes(rows), data, 0, NULL, NULL);
        return code ? clef__cl_fail(err, "clEnqueueReadBuffer", state->value->name, code) : CLEF_OK;
    }
    const cl_int code = clEnqueueReadBufferRect(
        queue, mem, CL_TRUE, (size_t[3]){offset % pitch, offset / pitch, 0}, (size_t[3]){0},
        (size_t[3]){n_bytes, (size_t)rows->n_rows, 1}, pitch, 0, n_bytes, 0, data, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueReadBufferRect", state->value->name, code) : CLEF_OK;
}

clef_status clef__plan_state_write(const clef__plan_state *state, const clef__state_rows *rows,
                                   const void *data, clef_error *err)
{
    const clef_status s = check_rows(state, rows, err);
    if (s || !all_bytes(rows))
        return s;
    if (is_whole(state->stage))
        return state->stage->dev->together->write_state(state, rows, data, err);
    const cl_command_queue queue = state->stage->dev->queue;
    const cl_mem mem = state->stage->mem[state->value->id];
    const size_t offset = (size_t)rows->offset, pitch = (size_t)rows->pitch, n_bytes = (size_t)rows->n_bytes;
    if (!has_gaps(rows)) {
        const cl_int code =
            clEnqueueWriteBuffer(queue, mem, CL_TRUE, offset, all_bytes(rows), data, 0, NULL, NULL);
        return code ? clef__cl_fail(err, "clEnqueueWriteBuffer", state->value->name, code) : CLEF_OK;
    }
    const cl_int code = clEnqueueWriteBufferRect(
        queue, mem, CL_TRUE, (size_t[3]){offset % pitch, offset / pitch, 0}, (size_t[3]){0},
        (size_t[3]){n_bytes, (size_t)rows->n_rows, 1}, pitch, 0, n_bytes, 0, data, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueWriteBufferRect", state->value->name, code) : CLEF_OK;
}

clef_status clef__plan_copy_within(const clef_plan *plan, const clef_value *state, uint64_t to, uint64_t from,
                                   uint64_t n_bytes, clef_error *err)
{
    const cl_mem mem = plan->mem[state->id];
    const cl_int code = clEnqueueCopyBuffer(plan->dev->queue, mem, mem, (size_t)from, (size_t)to,
                                            (size_t)n_bytes, 0, NULL, NULL);
    return code ? clef__cl_fail(err, "clEnqueueCopyBuffer", state->name, code) : CLEF_OK;
}

clef_status clef__plan_state_copy(const clef__plan_state *state, uint64_t to, uint64_t from, uint64_t n_bytes,
                                  clef_error *err)
{
    clef_status s = check_range(state, from, n_bytes, err);
    if (!s)
        s = check_range(state, to, n_bytes, err);
    if (s || !n_bytes)
        return s;
    if (to < from + n_bytes && from < to + n_bytes)
        return clef__fail(err, CLEF_E_ARG,
                          "state %s: a copy of %" PRIu64 " bytes from byte %" PRIu64 " to byte %" PRIu64
                          " overlaps itself",
                          state->value->name, n_bytes, from, to);
    if (is_whole(state->stage))
        return state->stage->dev->together->copy_state(state, to, from, n_bytes, err);
    return clef__plan_copy_within(state->stage, state->value, to, from, n_bytes, err);
}
