/* No launch may run long: where a GPU also draws, its driver ends what holds it for seconds, and the context with it. */
#ifndef CLEF_RUNTIME_BOUNDED_H
#define CLEF_RUNTIME_BOUNDED_H

#include "clef/device.h"
#include "clef/graph.h"

/** Lowers the bound of `symbol` (the rows of a step) by halves until no node of the graph is expected to take longer than a second on any
 *  of the devices opened as one with `dev` (half of the shortest limit, Windows' 2 s), but not below `least`. Expected is: a tenth of the
 *  measured multiply-adds and a quarter of the measured read bandwidth; where nothing was measured, 8 operations a unit and clock, and 10
 *  GB/s. CPUs have no limit, and a graph without the symbol is left alone. CLEF_LAUNCH_SECONDS sets another limit, for CPUs too (tests).
 *  CLEF_E_ARG: that is no number above 0. */
clef_status clef__bound_rows(clef_device *dev, clef_graph *graph, const char *symbol, int64_t least, clef_error *err);

#endif
