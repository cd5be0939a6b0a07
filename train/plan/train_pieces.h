/* Ranges of the elements of all parameters, counted through from the last parameter to the first, and their
 * way between device and host. A range lies in several arrays: it is a list of pieces, each a part of one. */
#ifndef CLEF_RUNTIME_TRAIN_PIECES_H
#define CLEF_RUNTIME_TRAIN_PIECES_H

#include "runtime/device/opencl.h"
#include "runtime/plan/plan_state.h"
#include "train/plan/train_graphs.h"

typedef struct clef__train_piece {
    const clef__plan_state *state;
    size_t offset, n_bytes;
    char  *at; /* while it is mapped; else NULL */
} clef__train_piece;

/** The pieces of elements `from` to from + n - 1, in their order; states [n_parameters]. Writes at most
 *  n_parameters of them and returns how many there are. */
int32_t clef__train_pieces(const clef__train_graphs *graphs, const clef__plan_state *states, int64_t from,
                           int64_t n, clef__train_piece *out);
/** 1 if the device works in the host's memory, so that pieces are mapped; else they are copied. */
int     clef__train_is_shared(const clef__train_piece *pieces);

/** When commands run. */
typedef struct clef__train_when {
    cl_command_queue queue; /* in order */
    cl_event         after; /* NULL, or what the first command waits for as well */
    cl_event        *done;  /* NULL: the call waits for the last command. Else it is flushed, and this becomes
                               its event */
} clef__train_when;

/** Maps n pieces; none is mapped after a failure. */
clef_status clef__train_map(clef__train_piece *pieces, int32_t n, cl_map_flags flags,
                            const clef__train_when *when, clef_error *err);
/** Unmaps those of n pieces that are mapped. Does not wait. */
clef_status clef__train_unmap(clef__train_piece *pieces, int32_t n, cl_command_queue queue, clef_error *err);
/** Copies n pieces to `host`, or with `writes` from there. */
clef_status clef__train_copy(const clef__train_piece *pieces, int32_t n, int writes, char *host,
                             const clef__train_when *when, clef_error *err);
/** The same for mapped pieces. */
void        clef__train_copy_mapped(const clef__train_piece *pieces, int32_t n, int writes, char *host);

#endif
