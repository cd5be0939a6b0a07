/* The entry point of a prover: the one call that library and command share beside the public headers.
 *
 * To try kernels that may crash or hang, a plan starts the program clef_device_opts.prover, which is the
 * clef command, as `clef selftest --prove FILE`; that command calls clef_prove(). The function is exported
 * because the command links the shared library. It is no part of the API: this header is not installed, and
 * the file is only read by the version of clef that wrote it. */
#ifndef CLEF_RUNTIME_PROVER_H
#define CLEF_RUNTIME_PROVER_H

#include "clef/device.h"

/** Runs the cases of a file that a plan has written: from number `first` on, then those before it, without
 *  the cases that another prover of the same file has claimed. A file that names the launches of a step is
 *  built as one fused step instead.
 *
 *  Results go to FILE.first.out: a line when a case begins and one when it has ended, so that a crash or a
 *  hang tells which case it was, then a last line. After that line nobody waits for the process: it leaves
 *  its terminal, runs at idle priority, and stores the programs it built when its device is closed
 *  ($CLEF_BACKGROUND=0 prevents this).
 *
 *  CLEF_OK, CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_NOMEM. */
CLEF_API clef_status clef_prove(clef_device *dev, const char *path, int32_t first, clef_error *err);

#endif
