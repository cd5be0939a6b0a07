/* The way of weights to a device that has memory of its own. */
#ifndef CLEF_RUNTIME_STAGE_H
#define CLEF_RUNTIME_STAGE_H

#include <stdint.h>

#include "runtime/device/device.h"

/** Two buffers in host memory that the device reads by itself. While it reads one, the host fills the other.
 *  A zeroed one has no buffers yet. */
typedef struct clef__stage {
    cl_mem   mem[2];
    void    *host[2];  /* their memory */
    cl_event taken[2]; /* the device has read the buffer; NULL: it was never filled */
    int      next;
} clef__stage;

/** Enqueues `n_bytes` of `data` to be written to the buffer `to`, from byte `at` on. When this returns `data`
 *  is not needed any more. CLEF_E_CL names `subject`. */
clef_status clef__stage_write(clef_device *dev, clef__stage *stage, cl_mem to, uint64_t at, const void *data,
                              uint64_t n_bytes, const char *subject, clef_error *err);

/** Waits for all that was enqueued, and releases the buffers. */
clef_status clef__stage_finish(clef_device *dev, clef__stage *stage, clef_error *err);

#endif
