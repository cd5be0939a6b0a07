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
 *  multiply floats or halves. Only CLEF_BY_GROUPS and CLEF_BY_HALVES add their sums in local memory; the
 *  others use shuffles. */
enum { CLEF_BY_SUBGROUPS = CLEF_N_INT_DOTS, CLEF_BY_GROUPS, CLEF_BY_HALVES };

/** The method of the variants with units that multiply a weight in blocks as bf16. */
enum { CLEF_BY_BF16 = 1 };

enum { CLEF_PANEL_LEAST_GROUP = 32 /* two teams of 16 */ };

/** Launches for a panel_matmul without matrix units; lo->serving->method says how to multiply. */
clef_status clef__lower_panel_gpu(clef_lowering *lo, const clef_value *n, clef_error *err);
/** Returns 1 when the node has many rows, which are multiplied in tiles, with x in this form. */
int clef__panel_takes_tiles(const clef_lowering *lo, const clef_value *n, clef_x_form x);
/** Launches for a panel_matmul with the device's matrix unit (clef_caps.matrix). The other functions return 1
 *  when the unit can multiply the node: as its activations say, or with a weight in blocks decoded to bf16
 *  (the method CLEF_BY_BF16). */
clef_status clef__lower_panel_matrix(clef_lowering *lo, const clef_value *n, clef_error *err);
int         clef__matrix_fits(const clef_lowering *lo, const clef_value *n);
int         clef__matrix_decodes(const clef_lowering *lo, const clef_value *n);
/** Returns 1 when decoding to bf16 is predicted to be faster (docs/speed-model.md). Only NVIDIA's units
 *  differ in this. */
int         clef__matrix_decoding_pays(const clef_lowering *lo, const clef_value *n);

/** Rows of x in slices of 32 bytes (cl/panel/panel_gpu_activations.cl): what makes their number a multiple,
 *  and 1 for pairs of words that a work-item of CLEF_MATRIX_MMA takes together. */
typedef struct clef_x_slices {
    uint32_t rows;
    int32_t  paired;
} clef_x_slices;

/** Appends the launch that prepares rows of x in the node's scratch memory. slices: NULL for rows one after
 *  the other, which CLEF_X_ROW_HALVES and CLEF_X_ROW_BF16 cannot be. */
clef_status clef__lower_lane_rows(clef_lowering *lo, const clef_value *n, clef_x_form x,
                                  const clef_x_slices *slices, clef_subgroups subgroups, clef_error *err);

/** 1 for a node of more than a few rows, or one that must be batch-invariant. */
int clef__has_many_rows(const clef_lowering *lo, const clef_value *n);

/** The shuffles that the device's work-items can use, NONE if there are none. */
clef_subgroups clef__shuffles_of(const clef_caps *caps);

#endif
