/* Launches at which ranks exchange values, in two steps: other work of the device can be enqueued between
 * them. */
#ifndef CLEF_RUNTIME_EXCHANGE_H
#define CLEF_RUNTIME_EXCHANGE_H

#include "runtime/plan/plan.h"
#include "runtime/ranks/copies.h"

/** A value's memory as the host sees it. */
typedef struct clef__window {
    cl_mem mem;
    size_t offset, n_bytes;
    void  *at;
    int    is_mapped;
} clef__window;

/** A sum over the ranks that has begun. */
typedef struct clef__sum {
    clef__window in, out;  /* of a device that works in host memory. in.at is NULL if both are the same */
    char        *copy;     /* of the value, for a device with memory of its own; else NULL */
    size_t       piece;    /* bytes that cross at once */
    cl_event     arrived[CLEF__MOST_PIECES]; /* of each piece in `copy`, or of the windows, in this order */
    int32_t      n;        /* events; 0: nothing to wait for */
} clef__sum;

/** The bytes of host memory that launch i needs for its exchange on a device with memory of its own. */
size_t      clef__plan_exchange_bytes(const clef_plan *plan, int32_t i);
/** Enqueues what launch i, an exchange, needs of the device before the ranks meet. What is enqueued after it
 *  runs meanwhile. Only sums begin; other exchanges do all at their end. copies: NULL, or on a device with
 *  memory of its own host memory of clef__plan_exchange_bytes(), which no other sum may use until this one's
 *  writes are done. */
clef_status clef__plan_exchange_begin(const clef_plan *plan, int32_t i, char *copies, clef__sum *sum,
                                      clef_error *err);
/** Waits for that, exchanges, and enqueues what gives the device the result. */
clef_status clef__plan_exchange_end(const clef_plan *plan, int32_t i, clef__sum *sum, clef_error *err);
/** Instead of the end, after an error: forgets what has begun. */
void        clef__plan_exchange_drop(clef__sum *sum);

#endif
