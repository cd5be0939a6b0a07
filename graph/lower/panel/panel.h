/* The panel layouts on the host: sizes, and reading panels for the references. cl/panel/panel.h describes the
 * order of the bytes. */
#ifndef CLEF_GRAPH_PANEL_H
#define CLEF_GRAPH_PANEL_H

#include "graph/lower/subgroup.h"
#include "graph/lower/panel/panel_ops.h"

/* The inputs of panel_matmul. */
enum { PANEL_X, PANEL_PACKED, PANEL_BIAS, PANEL_NORM_WEIGHT, PANEL_NORM_BIAS, PANEL_RESIDUAL, PANEL_INPUTS };

/** A pack node of n weights lowers to n x PACK_MAX_PIECES launches at most. Each reads a part of one
 *  weight. */
enum { PACK_MAX_PIECES = 16 };

/** For clef_op_def.shrink: rebuilds a packed weight with fewer rows and sets *n to their number. NULL if it
 *  is not packed from weights alone. */
struct clef__shrinker;
clef_value *clef__shrink_pack(struct clef__shrinker *s, const clef_value *packed, int32_t *n);

/** 1 when weights of this dtype have a panel layout for rows of k columns. */
int     clef__panel_has(clef_dtype dtype, int64_t k);
/** 1 when codes of this dtype, after the table, need eight bits. */
int     clef__panel_codes_are_bytes(clef_dtype dtype);
/** Bytes of n packed rows of k columns. */
int64_t clef__panel_bytes(clef_dtype dtype, int64_t n, int64_t k);
/** The most bytes of a packed weight where buffers hold `max_alloc_bytes`: kernels count in 32 bits. */
uint64_t clef__panel_most_bytes(uint64_t max_alloc_bytes);
/** Element (row, col) of packed bytes. The references hold each I8 as a double. */
double clef__panel_element(clef_dtype dtype, int64_t n, int64_t k, const double *bytes, int64_t row,
                           int64_t col);

/** Rounds a row of k elements to 8 bits in blocks of 32, as CLEF_PANEL_INT8 says; for references. */
void clef__panel_quantise_row(double *x, int64_t k);

/** Rows of the packed weight of n: with a gate, those of both interleaved weights. */
int64_t clef__panel_rows(const clef_panel_matmul_opts *o);

/** Values of the CPU variants' tunable "prefetch": without the hints to fetch a weight ahead, or with
 *  them. */
enum { PANEL_NO_PREFETCH = 1, PANEL_PREFETCH };

/** The instructions that multiply bytes: -D DOT of cl/panel/panel.h. */
typedef enum clef_dot {
    CLEF_DOT_PORTABLE,
    CLEF_DOT_VNNI,
    CLEF_DOT_AVXVNNI,
    CLEF_DOT_AVX2,
    CLEF_DOT_SDOT,
    CLEF_DOT_I8MM
} clef_dot;

/** The instructions that multiply signed bytes on GPUs: -D INT_DOT of cl/instruction/dot.h. */
typedef enum clef_int_dot {
    CLEF_INT_DOT_PLAIN,
    CLEF_INT_DOT_KHR,
    CLEF_INT_DOT_PTX,
    CLEF_INT_DOT_SDOT4,
    CLEF_INT_DOT_SUDOT4,
    CLEF_INT_DOT_ARM,
    CLEF_N_INT_DOTS
} clef_int_dot;

/** clef_launch.c_version of a program that uses it. */
int32_t clef__int_dot_c_version(clef_int_dot dot);

/** Returns 1 when the device has a matrix unit for one of these types (bits CLEF_MATRIX_BYTES ..), and its
 *  groups are large enough for the kernel. */
int     clef__matrix_multiplies(const clef_caps *caps, int32_t type);
/** What the device's unit (clef_caps.matrix, .matrix_plain) needs: the number of work-items that share it,
 *  and clef_launch.c_version. */
int32_t clef__matrix_lanes(const clef_caps *caps);
int32_t clef__matrix_c_version(const clef_caps *caps);
/** clef_variant.device_text of variants that need a unit. */
#define CLEF_NEEDS_MATRIX "a unit for small matrices: mma.sync, WMMA, MFMA or DPAS"
/** -D SUBGROUPS and SUBGROUP_SIZE for the unit. */
int32_t clef__matrix_subgroups(const clef_caps *caps);
int32_t clef__matrix_subgroup_size(const clef_caps *caps);

/** 1 when the device has instructions that multiply bytes, and groups. */
int      clef__has_byte_products(const clef_caps *caps);

/** The dtype of an input, as kernels need it: DTYPE_NONE for NULL. */
int32_t    clef__panel_dtype(const clef_value *v);
/** The dtype that CPUs' kernels are compiled for. One program serves products with and without input `which`
 *  (a bias, a norm's weight or bias), so without it this is the dtype that files which have it mostly use. */
int32_t    clef__panel_type_of(const clef_value *n, int32_t which);
/** The arguments for a panel_matmul's rows of x and their norm. */
rows_args  clef__panel_rows_args(const clef_lowering *lo, const clef_value *n);
/** The arguments of the product, for x in the order of its view. */
panel_args clef__panel_args(const clef_lowering *lo, const clef_value *n);

/** Launches for a panel_matmul of x in f32, for any number of rows. lo->serving->method names the
 *  instructions that decode a weight in blocks (clef_dot). */
clef_status clef__lower_panel_cpu_f32(clef_lowering *lo, const clef_value *n, clef_error *err);

/** Launches for a panel_matmul on CPUs, with the instructions lo->serving->method (clef_dot). */
clef_status clef__lower_panel_cpu(clef_lowering *lo, const clef_value *n, clef_error *err);

#endif
