/* Tests a device's unit that multiplies small matrices (cl/instruction/matrix.h): every element must be right
 * and in its place. */
#include "graph/blocks.h"
#include "graph/lower/panel/panel.h"
#include "runtime/device/device.h"

enum { ROWS = 16, WORDS = 8, KINDS = 3, PLANE = 256, PLANES = 5, BYTES = 32, HALVES = 16 };

/* Column k of row r of kind 0 bytes, 1 halves, 2 bf16. No two rows or columns are equal, and x differs from
 * w. Halves and bf16 are integers. */
static int test_element(int kind, int r, int k, int is_x)
{
    const int v = is_x ? r * 29 + k * 17 + r * k * 7 + kind : r * 37 + k * 11 + r * k * 3 + kind;
    return kind ? v % 31 - 15 : v % 253 - 126;
}

static void fill_words(cl_uint words[KINDS * ROWS * WORDS], int is_x)
{
    for (int i = 0; i < KINDS * ROWS * WORDS; i++) {
        const int kind = i / (ROWS * WORDS), r = i / WORDS % ROWS, w = i % WORDS;
        words[i] = 0;
        for (int j = 0; kind == 0 && j < 4; j++)
            words[i] |= (cl_uint)(uint8_t)test_element(kind, r, 4 * w + j, is_x) << 8 * j;
        for (int j = 0; kind != 0 && j < 2; j++) {
            const float v = (float)test_element(kind, r, 2 * w + j, is_x);
            words[i] |= (cl_uint)(kind == 1 ? clef__f16_encode(v) : clef__bf16_encode(v)) << 16 * j;
        }
    }
}

static cl_int dot_product(int kind, int r, int t, int first, int end)
{
    cl_int sum = 0;
    for (int k = first; k < end; k++)
        sum += test_element(kind, r, k, 0) * test_element(kind, t, k, 1);
    return sum;
}

/* Checks one plane of cl/probe/probe_matrix.cl's results: products of a kind over some columns, added `times`
 * times. */
static int is_right(const cl_int *got, const int of[2], int kind, int first, int end, int times)
{
    for (int r = 0; r < of[0]; r++)
        for (int t = 0; t < of[1]; t++)
            if (got[r * of[1] + t] != times * dot_product(kind, r, t, first, end))
                return 0;
    return 1;
}

int32_t clef__matrix_works(clef_device *dev)
{
    static const int sizes[][2] = {[CLEF_MATRIX_MMA] = {16, 8},
                                   [CLEF_MATRIX_WMMA] = {16, 16},
                                   [CLEF_MATRIX_DPAS] = {8, 8},
                                   [CLEF_MATRIX_MFMA] = {16, 16}};
    const clef_caps *caps = &dev->info.caps;
    const clef_launch launch = {.source = "probe_matrix",
                                .kernel = "probe_matrix",
                                .c_version = clef__matrix_c_version(caps),
                                .defs = {{"MATRIX", (int32_t)caps->matrix},
                                         {"MATRIX_PLAIN", caps->matrix_plain},
                                         {"SUBGROUPS", clef__matrix_subgroups(caps)},
                                         {"SUBGROUP_SIZE", clef__matrix_subgroup_size(caps)}}};
    const int *of = sizes[caps->matrix];
    cl_uint w[KINDS * ROWS * WORDS], x[KINDS * ROWS * WORDS];
    cl_int got[PLANES * PLANE] = {0};
    fill_words(w, 0);
    fill_words(x, 1);
    if (!clef__probe_run(dev, &launch, (size_t)clef__matrix_lanes(caps), w, sizeof w, x, sizeof x, got,
                         sizeof got))
        return 0;
    const int bytes = is_right(got, of, 0, 0, BYTES, 1) && is_right(got + PLANE, of, 0, 0, BYTES / 2, 1) &&
                      is_right(got + 2 * PLANE, of, 0, BYTES / 2, BYTES, 1);
    return (bytes ? CLEF_MATRIX_BYTES : 0) |
           (is_right(got + 3 * PLANE, of, 1, 0, HALVES, 2) ? CLEF_MATRIX_HALVES : 0) |
           (is_right(got + 4 * PLANE, of, 2, 0, HALVES, 2) ? CLEF_MATRIX_BF16 : 0);
}
