/* Variants of panel_matmul: how four bytes of the weight multiply with four of x (-D DOT of
 * cl/panel/panel.h). They share all else, and what does not multiply bytes (floats, activations that stay
 * f32) has the last one only. */
#include "graph/lower/panel.h"
#include "graph/lower/variant.h"

/* Groups for each unit where a few rows take one launch (graph/lower/panel_cpu.c). */
#define TUNABLES                                                                                             \
    {                                                                                                        \
        {                                                                                                    \
            "groups",                                                                                        \
            {                                                                                                \
                1, 2, 4, 8, 16                                                                               \
            }                                                                                                \
        }                                                                                                    \
    }

static int multiplies_bytes(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    (void)lo;
    return o->quantise != 0;
}

static int has_vnni(const clef_caps *caps)
{
    return caps->x86_vnni;
}

static int has_avxvnni(const clef_caps *caps)
{
    return caps->x86_avxvnni;
}

static int has_avx2(const clef_caps *caps)
{
    return caps->x86_avx2;
}

static clef_status vnni_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return clef__lower_panels(lo, n, CLEF_DOT_VNNI, err);
}

static clef_status avxvnni_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return clef__lower_panels(lo, n, CLEF_DOT_AVXVNNI, err);
}

static clef_status avx2_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return clef__lower_panels(lo, n, CLEF_DOT_AVX2, err);
}

static clef_status portable_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    return clef__lower_panels(lo, n, CLEF_DOT_PORTABLE, err);
}

const clef_variant clef__panel_matmul_vnni = {
    .name = "vnni",
    .needs = "a CPU with AVX-512 VNNI whose compiler takes it as assembly",
    .takes = "8-bit activations",
    .device = has_vnni,
    .fits = multiplies_bytes,
    .tunables = TUNABLES,
    .lower = vnni_lower};
const clef_variant clef__panel_matmul_avxvnni = {
    .name = "avxvnni",
    .needs = "a CPU with AVX-VNNI, and none with AVX-512 VNNI, whose compiler takes it as assembly",
    .takes = "8-bit activations",
    .device = has_avxvnni,
    .fits = multiplies_bytes,
    .tunables = TUNABLES,
    .lower = avxvnni_lower};
const clef_variant clef__panel_matmul_avx2 = {
    .name = "avx2",
    .needs = "a CPU with AVX2, and none with VNNI, whose compiler takes it as assembly",
    .takes = "8-bit activations",
    .device = has_avx2,
    .fits = multiplies_bytes,
    .tunables = TUNABLES,
    .lower = avx2_lower};
const clef_variant clef__panel_matmul_portable = {
    .name = "portable", .tunables = TUNABLES, .lower = portable_lower};
