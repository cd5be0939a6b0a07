/* Variants of panel_matmul on CPUs: one for each instruction that multiplies four bytes of the weight with
 * four of x (-D DOT of cl/panel/panel.h). Only the last one supports activations in f32. */
#include "graph/lower/panel/panel.h"
#include "graph/lower/variant.h"

static int has_int8_activations(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    (void)lo;
    return clef__is_int8(o);
}

/* Tunables of the launch for a few rows (graph/lower/panel/panel_cpu.c). groups: work-groups for each compute
 * unit. prefetch: whether the kernel prefetches the weight. */
const clef_variant clef__panel_matmul_vnni = {
    .name = "vnni",
    .device_text = "a CPU with AVX-512 VNNI whose compiler takes it as assembly",
    .shape_text = "8-bit activations",
    .cap = CLEF_CAP(x86_vnni),
    .fits = has_int8_activations,
    .method = CLEF_DOT_VNNI,
    .tunables = {{"groups", {1, 2, 4, 8, 16}}, {"prefetch", {PANEL_NO_PREFETCH, PANEL_PREFETCH}}},
    .lower = clef__lower_panel_cpu};
const clef_variant clef__panel_matmul_avxvnni = {
    .name = "avxvnni",
    .device_text = "a CPU with AVX-VNNI but without AVX-512 VNNI, whose compiler takes it as assembly",
    .shape_text = "8-bit activations",
    .cap = CLEF_CAP(x86_avxvnni),
    .fits = has_int8_activations,
    .method = CLEF_DOT_AVXVNNI,
    .tunables = {{"groups", {1, 2, 4, 8, 16}}, {"prefetch", {PANEL_NO_PREFETCH, PANEL_PREFETCH}}},
    .lower = clef__lower_panel_cpu};
const clef_variant clef__panel_matmul_avx2 = {
    .name = "avx2",
    .device_text = "a CPU with AVX2 but without VNNI, whose compiler takes it as assembly",
    .shape_text = "8-bit activations",
    .cap = CLEF_CAP(x86_avx2),
    .fits = has_int8_activations,
    .method = CLEF_DOT_AVX2,
    .tunables = {{"groups", {1, 2, 4, 8, 16}}, {"prefetch", {PANEL_NO_PREFETCH, PANEL_PREFETCH}}},
    .lower = clef__lower_panel_cpu};
const clef_variant clef__panel_matmul_i8mm = {
    .name = "i8mm",
    .device_text = "an Arm CPU with usdot and usmmla (FEAT_I8MM) whose compiler takes them as assembly",
    .shape_text = "8-bit activations",
    .cap = CLEF_CAP(arm64_i8mm),
    .fits = has_int8_activations,
    .method = CLEF_DOT_I8MM,
    .tunables = {{"groups", {1, 2, 4, 8, 16}}, {"prefetch", {PANEL_NO_PREFETCH, PANEL_PREFETCH}}},
    .lower = clef__lower_panel_cpu};
const clef_variant clef__panel_matmul_sdot = {
    .name = "sdot",
    .device_text =
        "an Arm CPU with sdot (FEAT_DotProd) but without FEAT_I8MM, whose compiler takes it as assembly",
    .shape_text = "8-bit activations",
    .cap = CLEF_CAP(arm64_sdot),
    .fits = has_int8_activations,
    .method = CLEF_DOT_SDOT,
    .tunables = {{"groups", {1, 2, 4, 8, 16}}, {"prefetch", {PANEL_NO_PREFETCH, PANEL_PREFETCH}}},
    .lower = clef__lower_panel_cpu};
const clef_variant clef__panel_matmul_portable = {
    .name = "portable",
    .method = CLEF_DOT_PORTABLE,
    .tunables = {{"groups", {1, 2, 4, 8, 16}}, {"prefetch", {PANEL_NO_PREFETCH, PANEL_PREFETCH}}},
    .lower = clef__lower_panel_cpu};
