/* The self-test of an op in a process of its own. */
#ifndef CLEF_RUNTIME_SELFTEST_CHILD_H
#define CLEF_RUNTIME_SELFTEST_CHILD_H

#include "clef/selftest.h"
#include "graph/op.h"

/** 1 when the device has a prover, and a folder for what its processes write. */
int clef__selftest_can_be_apart(const clef_device *dev);

/** Starts the device's prover as `clef selftest --op OP --rows FILE`, waits for it, and calls opts->row with
 *  what it wrote. A process that ended early gives a failed row. *n_failed grows by the failed rows whose
 *  variants are used. CLEF_E_IO, CLEF_E_NOMEM, CLEF_E_CANCELLED (`go_on` returned it). */
clef_status clef__selftest_apart(clef_device *dev, clef_op op, const clef_selftest_opts *opts,
                                 clef_status (*go_on)(void *user, clef_error *err), void *user,
                                 int32_t *n_failed, clef_error *err);

#endif
