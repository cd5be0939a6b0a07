/* What the lowerings of panel_matmul on GPUs share. */
#ifndef CLEF_GRAPH_PANEL_GPU_H
#define CLEF_GRAPH_PANEL_GPU_H

#include "graph/lower/choose.h"
#include "graph/lower/panel/panel.h"

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
/** Returns 1 when decoding to bf16 is predicted to be faster. Only NVIDIA's units
 *  differ in this. */
int         clef__matrix_decoding_pays(const clef_lowering *lo, const clef_value *n);

/** Rows of x in slices of 32 bytes (cl/panel/panel_gpu_activations.cl). */
typedef struct clef_x_slices {
    uint32_t rows;   /* the number of rows is made a multiple of it */
    int32_t  paired; /* 1 for pairs of words that a work-item of CLEF_MATRIX_MMA or CLEF_MATRIX_MFMA takes
                        together */
} clef_x_slices;

/** A launch of cl/panel/panel_gpu_activations.cl. */
typedef struct clef_x_launch {
    clef_x_form          form;
    int32_t              norm;                        /* index in PANEL_NORMS */
    const clef_value    *x, *norm_weight, *norm_bias; /* the last two may be NULL */
    const clef_x_slices *slices;                      /* NULL for rows one after the other */
    clef_subgroups       subgroups;
    uint32_t             group, rows; /* work-items of a group; rows that are stored */
    uint64_t             scratch_bytes;
} clef_x_launch;

/** Appends the launch. It writes to the scratch memory of the node that lo lowers. */
clef_status clef__launch_activations(clef_lowering *lo, const rows_args *args, const clef_x_launch *l,
                                     clef_error *err);
/** Appends the launch that prepares rows of x of the node n, a panel_matmul, in its scratch memory. slices:
 *  NULL for rows one after the other. */
clef_status clef__lower_lane_rows(clef_lowering *lo, const clef_value *n, clef_x_form x,
                                  const clef_x_slices *slices, clef_subgroups subgroups, clef_error *err);

/** 1 for a node of more than a few rows, or one that must be batch-invariant. */
int clef__has_many_rows(const clef_lowering *lo, const clef_value *n);

/** The shuffles that the device's work-items can use, NONE if there are none. */
clef_subgroups clef__shuffles_of(const clef_caps *caps);

#endif
