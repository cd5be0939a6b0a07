/* How many rows a step has, so that no launch is expected to hold the device for more than 100 ms. */
#include <string.h>

#include "graph/value.h"
#include "runtime/device/device.h"
#include "runtime/plan/bounded.h"
#include "tests/check.h"

/* The largest products of a model of 8 billion parameters, and attention with 8192 keys. */
static const char layer[] =
    "symbol T <= 512\ninput x f32 [T, 4096]\nweight w q4_k [28672, 4096]\ny = matmul(x, w) transpose_b=1\n"
    "input q f32 [1, 32, T, 128]\nweight k f16 [1, 8, 8192, 128]\nz = attention(q, k, k)\n"
    "output y\noutput z\n";

static const struct {
    const char *name;
    clef_caps caps;
    int64_t rows;
} devices[] = {
    {"UHD 750, 32 units", {.is_gpu = 1, .n_units = 32, .mhz = 1300}, 128},
    {"Iris Plus, 24 units", {.is_gpu = 1, .n_units = 24, .mhz = 1100}, 64},
    {"Iris Xe, 96 units", {.is_gpu = 1, .n_units = 96, .mhz = 1300}, 256},
    {"RTX 4060 Laptop", {.is_gpu = 1, .n_units = 24, .mhz = 2370, .nv_asm = 1}, 512},
    {"H100", {.is_gpu = 1, .n_units = 132, .mhz = 1980, .nv_asm = 1}, 512},
    {"RX 7900 XTX", {.is_gpu = 1, .n_units = 48, .mhz = 2371, .amd_dot = CLEF_AMD_DOT_SUDOT4}, 512},
    {"Adreno 740 by Mesa", {.is_gpu = 1, .n_units = 9999, .mhz = 0}, 16},
    {"a CPU", {.is_cpu = 1, .n_units = 2, .mhz = 2000}, 512},
};

/* The seconds of the slowest node at full rate, by the arithmetic of the header. */
static double worst_seconds(const clef_caps *caps, int64_t rows)
{
    const double units = caps->n_units > 2048 ? 8 : caps->n_units, mhz = caps->mhz ? caps->mhz : 500,
                 rate = units * mhz * 1e6 *
                        (caps->nv_asm    ? 64
                         : caps->amd_dot ? 32
                                         : 8),
                 product = 2.0 * 28672 * 4096 * (double)rows / rate;
    return product;
}

TEST(launches_are_short)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        clef_device dev = {.info.caps = devices[i].caps};
        clef_error err = {0};
        clef_graph *g;
        ok(clef_graph_parse(layer, sizeof layer - 1, "layer", &g, &err), &err);
        ok(clef__bound_rows(&dev, g, "T", CLEF__LEAST_ROWS, &err), &err);
        const int64_t rows = g->symbols[0].bound;
        if (rows != devices[i].rows)
            fail_msg("%s: expected %d rows, got %d", devices[i].name, (int)devices[i].rows, (int)rows);
        if (!devices[i].caps.is_cpu && rows > CLEF__LEAST_ROWS)
            assert_true(worst_seconds(&devices[i].caps, rows) <= 0.1);
        clef_graph_destroy(g);
    }
}

TESTS(NULL, NULL)
