/* What the lowerings of panel_matmul on GPUs share. */
#ifndef CLEF_GRAPH_PANEL_GPU_H
#define CLEF_GRAPH_PANEL_GPU_H

#include "graph/lower/panel.h"

/** How rows of x are prepared: -D QUANTISE of cl/panel/panel_gpu_activations.cl. */
typedef enum clef_x_form { CLEF_X_FLOATS, CLEF_X_BYTES, CLEF_X_HALVES, CLEF_X_ROW_HALVES, CLEF_X_ROW_BF16 } clef_x_form;

/** The launch that prepares them, into the node's scratch. */
clef_status clef__lower_lane_rows(clef_lowering *lo, const clef_value *n, clef_x_form x, clef_subgroups subgroups, clef_error *err);

/** 1 for a node of more rows than a few, or whose rows are to be alike among any number. */
int clef__has_many_rows(const clef_lowering *lo, const clef_value *n);

/** How its items reach one another, where they do so by shuffles. */
clef_subgroups clef__shuffles_of(const clef_caps *caps);

#endif
