/* The entry point of a prover: the one function that library and command share beside the public headers.
 *
 * To try kernels that may crash or hang, a plan starts the program clef_device_opts.prover, which is the clef
 * command, as `clef selftest --prove FILE`. That command calls clef_prove(). The function is exported because
 * the command links the shared library. It is not part of the API: this header is not installed, and only the
 * version of clef that wrote a case file reads it. */
#ifndef CLEF_RUNTIME_PROVER_H
#define CLEF_RUNTIME_PROVER_H

#include "clef/device.h"

/** Opens the device that `which` names, as clef_device_open() does, and tries the units of a case file: from
 *  number `first` on, then those before it, without the units that another child has claimed. Then waits for
 *  another file (runtime/device/child.h), unless mailbox is NULL.
 *
 *  Results go to a journal (runtime/prove/trial.h). A unit that crashes or hangs ends the process. After the
 *  last unit nobody waits for this process. It leaves its terminal, runs at idle priority, and stores the
 *  programs that it built when its device is closed ($CLEF_DEBUG=background=0 prevents this).
 *
 *  CLEF_OK, CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_NOMEM, and the errors of clef_device_open(). */
CLEF_API clef_status clef_prove(const char *which, const char *path, int32_t first, const char *mailbox,
                                clef_error *err);

#endif
