/* Ranges of the elements of all parameters, and their way between device and host. */
#include "train/plan/train_pieces.h"

#include <string.h>

#include "runtime/plan/plan.h"

int32_t clef__train_pieces(const clef__train_graphs *graphs, const clef__plan_state *states, int64_t from,
                           int64_t n, clef__train_piece *out)
{
    int32_t n_pieces = 0;
    for (int32_t i = graphs->n_parameters - 1; i >= 0; i--) {
        const clef__train_parameter *p = &graphs->parameters[i];
        const int64_t first = from > p->start ? from : p->start,
                      end = from + n < p->start + p->n ? from + n : p->start + p->n;
        if (first < end)
            out[n_pieces++] = (clef__train_piece){.state = &states[i],
                                                  .offset = (size_t)(first - p->start) * sizeof(float),
                                                  .n_bytes = (size_t)(end - first) * sizeof(float)};
    }
    return n_pieces;
}

int clef__train_is_shared(const clef__train_piece *pieces)
{
    return pieces->state->stage->dev->info.caps.unified_memory;
}

static cl_mem memory_of(const clef__train_piece *p)
{
    return p->state->stage->mem[p->state->value->id];
}

/* What command i of n waits for, whether its call waits, and where its event goes: the queue runs its
 * commands in order, so the first waits for all, and the last ends after all. */
typedef struct command {
    cl_uint n_after;
    const cl_event *after;
    cl_bool waits;
    cl_event *done;
} command;

static command command_at(const clef__train_when *when, int32_t i, int32_t n)
{
    const int is_first = i == 0 && when->after != NULL, is_last = i == n - 1;
    return (command){.n_after = is_first ? 1 : 0,
                     .after = is_first ? &when->after : NULL,
                     .waits = is_last && !when->done ? CL_TRUE : CL_FALSE,
                     .done = is_last ? when->done : NULL};
}

static clef_status flush(const clef__train_when *when, clef_error *err)
{
    const cl_int code = when->done ? clFlush(when->queue) : CL_SUCCESS;
    return code ? clef__cl_fail(err, "clFlush", "an exchange of parameters", code) : CLEF_OK;
}

clef_status clef__train_map(clef__train_piece *pieces, int32_t n, cl_map_flags flags,
                            const clef__train_when *when, clef_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        clef__train_piece *p = &pieces[i];
        const command c = command_at(when, i, n);
        cl_int code = CL_SUCCESS;
        p->at = clEnqueueMapBuffer(when->queue, memory_of(p), c.waits, flags, p->offset, p->n_bytes,
                                   c.n_after, c.after, c.done, &code);
        if (!code)
            continue;
        p->at = NULL;
        clef__train_unmap(pieces, i, when->queue, NULL);
        return clef__cl_fail(err, "clEnqueueMapBuffer", p->state->value->name, code);
    }
    return flush(when, err);
}

clef_status clef__train_unmap(clef__train_piece *pieces, int32_t n, cl_command_queue queue, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < n; i++) {
        clef__train_piece *p = &pieces[i];
        const cl_int code =
            p->at ? clEnqueueUnmapMemObject(queue, memory_of(p), p->at, 0, NULL, NULL) : CL_SUCCESS;
        p->at = NULL;
        if (code && !s)
            s = clef__cl_fail(err, "clEnqueueUnmapMemObject", p->state->value->name, code);
    }
    return s;
}

clef_status clef__train_copy(const clef__train_piece *pieces, int32_t n, int writes, char *host,
                             const clef__train_when *when, clef_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        const clef__train_piece *p = &pieces[i];
        const command c = command_at(when, i, n);
        const cl_int code = writes ? clEnqueueWriteBuffer(when->queue, memory_of(p), c.waits, p->offset,
                                                          p->n_bytes, host, c.n_after, c.after, c.done)
                                   : clEnqueueReadBuffer(when->queue, memory_of(p), c.waits, p->offset,
                                                         p->n_bytes, host, c.n_after, c.after, c.done);
        if (code)
            return clef__cl_fail(err, writes ? "clEnqueueWriteBuffer" : "clEnqueueReadBuffer",
                                 p->state->value->name, code);
        host += p->n_bytes;
    }
    return flush(when, err);
}

void clef__train_copy_mapped(const clef__train_piece *pieces, int32_t n, int writes, char *host)
{
    for (int32_t i = 0; i < n; i++) {
        memcpy(writes ? pieces[i].at : host, writes ? host : pieces[i].at, pieces[i].n_bytes);
        host += pieces[i].n_bytes;
    }
}
