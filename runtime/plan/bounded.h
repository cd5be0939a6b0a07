/* No launch may run long: the driver of a GPU that also draws the screen ends a kernel that holds it for
 * seconds, and the context is lost with it. */
#ifndef CLEF_RUNTIME_BOUNDED_H
#define CLEF_RUNTIME_BOUNDED_H

#include "clef/device.h"
#include "clef/graph.h"

/** Lowers the bound of `symbol` (the rows of a step) by halves, but not below `least`, until no node of the
 *  graph is expected to take longer than a second on any of the devices opened as one with `dev`. A second is
 *  half of the shortest limit known, Windows' 2 s. The expected rates are a tenth of the measured
 *  multiply-adds and a quarter of the measured read bandwidth. Where nothing was measured they are 8
 *  operations a unit and clock, and 10 GB/s. CPUs have no limit, and a graph without the symbol is left
 *  alone. CLEF_LAUNCH_SECONDS sets another limit, for CPUs too (for tests). CLEF_E_ARG: it is no number above
 *  0. */
clef_status clef__bound_rows(clef_device *dev, clef_graph *graph, const char *symbol, int64_t least,
                             clef_error *err);

#endif
