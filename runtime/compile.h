/* Compiling a graph for one device, for those who make plans of several such plans. */
#ifndef CLEF_RUNTIME_COMPILE_H
#define CLEF_RUNTIME_COMPILE_H

#include "runtime/plan/plan.h"

/** clef_plan_create() for `dev` alone, whether or not it was opened with others or leads ranks. */
clef_status clef__compile_for_one(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                                  clef_plan **out, clef_error *err);

#endif
