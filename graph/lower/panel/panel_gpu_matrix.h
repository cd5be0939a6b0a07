/* What the lowerings of panel_matmul to units for small matrices share. */
#ifndef CLEF_GRAPH_PANEL_GPU_MATRIX_H
#define CLEF_GRAPH_PANEL_GPU_MATRIX_H

#include "graph/lower/panel/panel_gpu.h"

/** The shape of a group of units. */
typedef struct clef__unit_group {
    uint32_t tiles;       /* of the weight, of PANEL_ROWS rows each */
    uint32_t tokens;      /* rows of x, in sixteens */
    uint32_t unit_tokens; /* rows of x of a unit */
    uint32_t parts;       /* of the columns: units of the group divide them */
    uint32_t step;        /* blocks of 32 columns that are multiplied at a time */
} clef__unit_group;

/** Work-items of a group. */
uint32_t clef__unit_group_items(const clef_caps *caps, const clef__unit_group *g);
/** What such a group needs, with so many bytes of local memory beside those of plain units. */
clef__candidate clef__unit_candidate(const clef_caps *caps, const clef__unit_group *g, uint64_t local_bytes);

/** Launches a kernel with its own constants, and those that all kernels on units have. */
clef_status clef__launch_units(clef_lowering *lo, const clef_value *n, clef_x_form x, const clef_launch *own,
                               clef_error *err);
/** Local memory in which the work-items of plain units exchange words; group: their number. */
uint64_t clef__plain_unit_bytes(const clef_caps *caps, uint32_t group);

/** cl/panel/panel_gpu_gemm_mma_local.cl: whether it multiplies x in this form, and whether the device has
 *  enough local memory for it. */
int clef__is_matrix_local(const clef_caps *caps, clef_x_form x);
int clef__has_matrix_local(const clef_caps *caps);
/** Rows of x in a group, in sixteens, for m rows. */
uint32_t clef__matrix_local_tokens(const clef_caps *caps, uint32_t m);
clef_status clef__lower_matrix_local(clef_lowering *lo, const clef_value *n, clef_x_form x, clef_error *err);

#endif
