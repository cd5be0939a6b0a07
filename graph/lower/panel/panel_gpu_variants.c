/* Variants of panel_matmul on GPUs: by the unit or instruction that multiplies, and by how the work-items of
 * a group exchange their sums. */
#include "graph/lower/panel/panel_gpu.h"
#include "graph/lower/variant.h"

static int has_groups(const clef_caps *caps)
{
    return clef__group_most(caps) >= CLEF_PANEL_LEAST_GROUP;
}

static int has_groups_and_shuffles(const clef_caps *caps)
{
    return has_groups(caps) && clef__has_shuffles(caps);
}

static int is_gpu_with_groups(const clef_caps *caps)
{
    return has_groups(caps) && !caps->is_cpu;
}

int clef__has_byte_products(const clef_caps *caps)
{
    return clef__matrix_multiplies(caps, CLEF_MATRIX_BYTES) ||
           (has_groups(caps) && (caps->int_dot || caps->nv_asm || caps->amd_dot || caps->arm_dot));
}

static int has_int8_activations(const clef_lowering *lo, const clef_value *n)
{
    (void)lo;
    return clef__is_int8((const void *)n->attr);
}

/* A few rows wait for memory, so halves gain nothing there. */
static int takes_halves(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return o->activations == CLEF_PANEL_HALF && clef_dtype_block_elems((clef_dtype)o->dtype) > 1 &&
           clef__panel_takes_tiles(lo, n, CLEF_X_HALVES);
}

/* A CPU with subgroups or dot products runs these kernels too, but only after a measurement. */
static int is_no_cpu(const clef_lowering *lo, const clef_value *n)
{
    (void)n;
    return !lo->caps->is_cpu;
}

/* ---- matrix units ---------------------------------------------------------------------------- */

const clef_variant clef__panel_matmul_gpu_mma = {
    .name = "gpu_mma",
    .device_text = CLEF_NEEDS_MATRIX,
    .shape_text = "more than 4 rows of activations in 8 bits or half precision",
    .cap = CLEF_CAP(matrix),
    .fits = clef__matrix_fits,
    .lower = clef__lower_panel_matrix};
const clef_variant clef__panel_matmul_gpu_mma_bf16 = {
    .name = "gpu_mma_bf16",
    .device_text = CLEF_NEEDS_MATRIX,
    .shape_text = "more than 16 rows of activations that the device may round to bf16",
    .cap = CLEF_CAP(matrix),
    .fits = clef__matrix_decodes,
    .is_default = clef__matrix_decoding_pays,
    .method = CLEF_BY_BF16,
    .lower = clef__lower_panel_matrix};

/* ---- instructions. Tunable `items`: work-items of a group that computes a few rows ----------- */

const clef_variant clef__panel_matmul_dot = {.name = "dot",
                                             .device_text = "cl_khr_integer_dot_product",
                                             .shape_text = "8-bit activations",
                                             .cap = CLEF_CAP(int_dot),
                                             .runs_on = has_groups,
                                             .fits = has_int8_activations,
                                             .is_default = is_no_cpu,
                                             .method = CLEF_INT_DOT_KHR,
                                             .tunables = {{"items", {32, 64, 128, 256}}},
                                             .lower = clef__lower_panel_gpu};
const clef_variant clef__panel_matmul_dp4a = {.name = "dp4a",
                                              .device_text = "a compiler that takes PTX, and dp4a",
                                              .shape_text = "8-bit activations",
                                              .cap = CLEF_CAP(nv_asm),
                                              .runs_on = has_groups,
                                              .fits = has_int8_activations,
                                              .method = CLEF_INT_DOT_PTX,
                                              .tunables = {{"items", {32, 64, 128, 256}}},
                                              .lower = clef__lower_panel_gpu};
/* Which of the two a compiler has is in clef_caps.amd_dot. */
const clef_variant clef__panel_matmul_sdot4 = {.name = "sdot4",
                                               .device_text = "AMD's built-in sudot4 or sdot4",
                                               .shape_text = "8-bit activations",
                                               .cap = CLEF_CAP(amd_dot),
                                               .runs_on = has_groups,
                                               .fits = has_int8_activations,
                                               .method = CLEF_INT_DOT_SDOT4,
                                               .tunables = {{"items", {32, 64, 128, 256}}},
                                               .lower = clef__lower_panel_gpu};
const clef_variant clef__panel_matmul_arm_dot = {.name = "arm_dot",
                                                 .device_text = "cl_arm_integer_dot_product_accumulate_int8",
                                                 .shape_text = "8-bit activations",
                                                 .cap = CLEF_CAP(arm_dot),
                                                 .runs_on = has_groups,
                                                 .fits = has_int8_activations,
                                                 .is_default = is_no_cpu,
                                                 .method = CLEF_INT_DOT_ARM,
                                                 .tunables = {{"items", {32, 64, 128, 256}}},
                                                 .lower = clef__lower_panel_gpu};
const clef_variant clef__panel_matmul_half = {.name = "half",
                                              .device_text = "cl_khr_fp16",
                                              .shape_text = "more than 4 rows of half activations",
                                              .cap = CLEF_CAP(fp16),
                                              .runs_on = has_groups,
                                              .fits = takes_halves,
                                              .is_default = is_no_cpu,
                                              .method = CLEF_BY_HALVES,
                                              .lower = clef__lower_panel_gpu};
const clef_variant clef__panel_matmul_subgroup = {
    .name = "subgroup",
    .device_text = "subgroups with shuffles (OpenCL's, Intel's, or by PTX)",
    .runs_on = has_groups_and_shuffles,
    .is_default = is_no_cpu,
    .method = CLEF_BY_SUBGROUPS,
    .tunables = {{"items", {32, 64, 128, 256}}},
    .lower = clef__lower_panel_gpu};
const clef_variant clef__panel_matmul_groups = {.name = "groups",
                                                .device_text = "a device that is no CPU, with groups of 32",
                                                .runs_on = is_gpu_with_groups,
                                                .method = CLEF_BY_GROUPS,
                                                .tunables = {{"items", {32, 64, 128, 256}}},
                                                .lower = clef__lower_panel_gpu};
