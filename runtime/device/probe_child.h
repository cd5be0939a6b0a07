/* Probes that crash or hang: found by a child process, passed over by all others. */
#ifndef CLEF_RUNTIME_PROBE_CHILD_H
#define CLEF_RUNTIME_PROBE_CHILD_H

#include "runtime/device/device.h"

/** The first line of the file that a child is started with, and that it writes its findings to. */
extern const char clef__probe_head[];

typedef enum clef__probes { CLEF__PROBES_OF_OPEN, CLEF__PROBES_OF_MEASURE } clef__probes;

/** Adds to dev->probes which probes of the device, or which of the kernels that measure it, crash or hang. If
 *  that is not known yet, and the device has a prover and a cache folder, children find out, and the device's
 *  notice is called for each of them. */
void clef__probes_load(clef_device *dev, clef__probes which);
/** Keeps what another machine found, as the text of its file, unless it is known here. 1: kept. */
int clef__probes_take(const clef_device *dev, clef__probes which, const char *text);
/** Builds the kernels that measure a device, each as a probe (runtime/device/measure.c). */
void clef__measure_build(clef_device *dev);
/** The child: opens the device, which runs its probes. `text` is the file's; with *waits it is no longer
 *  needed, and the child may do other work with the device. Else the caller closes it at once. The errors of
 *  clef_device_open(), CLEF_E_IO. */
clef_status clef__probe_as_child(const char *which, const char *path, const char *text, clef_device **out,
                                 int *waits, clef_error *err);

/** Called before a probe's kernel is built. Returns 0 when the probe crashed or hung before, and is not to
 *  run. */
int  clef__probe_begin(const clef_device *dev, const clef_launch *launch);
/** Called when the probe has run, if clef__probe_begin() returned 1. */
void clef__probe_end(void);

#endif
