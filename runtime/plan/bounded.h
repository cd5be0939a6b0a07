/* Keeps launches short: the driver of a GPU that also draws the screen kills a kernel that runs for seconds,
 * and the context is lost with it. */
#ifndef CLEF_RUNTIME_BOUNDED_H
#define CLEF_RUNTIME_BOUNDED_H

#include "clef/device.h"
#include "clef/graph.h"

/** The fewest tokens that a step is cut to. */
enum { CLEF__LEAST_ROWS = 16 };

/** Halves the bound of `symbol` (the rows of a step), but not below `least`, until no node of the graph is
 *  expected to take longer than 100 ms on any device that was opened with `dev`. The shortest limit known is
 *  Windows' 2 s, and a screen that stands still for 100 ms is not noticed.
 *
 *  The expected rates are a quarter of the measured multiply-adds and of the measured read bandwidth. On
 *  devices that were not measured they are 64 operations per unit and clock where the compiler takes PTX, 32
 *  where it has AMD's built-ins, 8 elsewhere, and 10 GB/s. CPUs have no limit, and a graph without the symbol
 *  is not changed. launch_seconds of CLEF_DEBUG sets another limit, for CPUs too (for tests). CLEF_E_ARG: it
 *  is not a number above 0. */
clef_status clef__bound_rows(clef_device *dev, clef_graph *graph, const char *symbol, int64_t least,
                             clef_error *err);

#endif
