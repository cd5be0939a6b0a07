/* What the lowerings of panel_matmul on GPUs share. */
#ifndef CLEF_GRAPH_PANEL_GPU_H
#define CLEF_GRAPH_PANEL_GPU_H

#include "graph/lower/panel.h"

/** How rows of x are prepared: -D QUANTISE of cl/panel/panel_gpu_activations.cl. */
typedef enum clef_x_form {
    CLEF_X_FLOATS,
    CLEF_X_BYTES,
    CLEF_X_HALVES,
    CLEF_X_ROW_HALVES,
    CLEF_X_ROW_BF16
} clef_x_form;

/** How a variant of panel_gpu.c multiplies (clef_variant.method): a clef_int_dot, or one of these, which
 *  multiply floats or halves. Only CLEF_BY_GROUPS and CLEF_BY_HALVES add their sums in local memory rather
 *  than by shuffles. */
enum { CLEF_BY_SUBGROUPS = CLEF_N_INT_DOTS, CLEF_BY_GROUPS, CLEF_BY_HALVES };

enum { CLEF_PANEL_LEAST_GROUP = 32 /* work-items: two teams of 16 */ };

/** Launches for a panel_matmul without matrix units, by lo->serving->method. */
clef_status clef__lower_panel_gpu(clef_lowering *lo, const clef_value *n, clef_error *err);
/** Returns 1 when many rows of the node go in tiles, with x in this form. */
int clef__panel_takes_tiles(const clef_lowering *lo, const clef_value *n, clef_x_form x);
/** Launches for a panel_matmul by the device's matrix unit (clef_caps.matrix), and 1 when the unit can
 *  multiply the node. */
clef_status clef__lower_panel_matrix(clef_lowering *lo, const clef_value *n, clef_error *err);
int         clef__matrix_fits(const clef_lowering *lo, const clef_value *n);

/** The launch that prepares them, into the node's scratch. */
clef_status clef__lower_lane_rows(clef_lowering *lo, const clef_value *n, clef_x_form x,
                                  clef_subgroups subgroups, clef_error *err);

/** 1 for a node of more rows than a few, or whose rows are to be alike among any number. */
int clef__has_many_rows(const clef_lowering *lo, const clef_value *n);

/** How its items reach one another, where they do so by shuffles. */
clef_subgroups clef__shuffles_of(const clef_caps *caps);

#endif
