/* One case of an op on one device: whether it has to run, and whether what the device computes is right. */
#ifndef CLEF_TESTS_OP_RUN_H
#define CLEF_TESTS_OP_RUN_H

#include "clef/clef.h"
#include "graph/cases/cases.h"
#include "graph/cases/oracle.h"
#include "graph/lower/variant.h"

/** A case, its graph, and the data that is drawn for it. */
typedef struct case_data {
    const clef_op_case *of;
    clef_graph *graph;
    clef__oracle oracle;
} case_data;

typedef struct op_run {
    const clef_op_def *op;
    clef_device *dev;
    const clef_caps *other; /* NULL, or what the device can do under CLEF_TEST_BEYOND */
    clef_gemm gemm;
    const clef_variant *variant; /* forced; NULL: free choice */
    case_data *data;
    clef_plan *plan;
    double worst; /* error relative to what is allowed */
} op_run;

/** Makes the run of a case on a device. other: NULL, or what the device can do in a run whose tests need no
 *  second one. variant: NULL means free choice. 0 after a message; op_run_close() in any case. */
int  op_run_open(op_run *r, case_data *c, const clef_op_def *op, const clef_op_case *of, clef_device *dev,
                 const clef_caps *other, const clef_variant *variant);
void op_run_close(case_data *c);
/** 1 when the variant can do the case in at most so many operations, and the other run does not launch the
 *  same. */
int  op_run_is_due(op_run *r, double most_flops);
/** Runs the case as it is written, and what the passes make of it. 0 after a message. */
int  op_run_check(op_run *r);

#endif
