/* Command buffers (cl_khr_command_buffer): a plan's launches recorded once and enqueued as one. */
#ifndef CLEF_RUNTIME_REPLAY_H
#define CLEF_RUNTIME_REPLAY_H

#include "runtime/plan/plan.h"

/** Whether the device's command buffers are used: it has the extension with simultaneous use, what it recorded on trial came out right, and
 *  was measured to be faster than enqueueing the same launches one by one. Tried once for a device, in some 20 ms; without measuring
 *  (no_tune, CLEF_TUNE=0) they are not used. CLEF_REPLAY=1: used where right, measured or not; 0: not used. */
int  clef__replay_serves(clef_device *dev, int no_tune);

/** Enqueues the plan's recording, made at the second run of the same launches. 0: there is none, enqueue them. */
int  clef__replay_run(clef_plan *plan, clef_status *status, clef_error *err);
/** The launches change: the recording goes. */
void clef__replay_drop(clef_plan *plan);
/** With the device's context. */
void clef__replay_close(clef_device *dev);

#endif
