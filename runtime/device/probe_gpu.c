/* Tests what kernels for GPUs may use beyond OpenCL 1.2: subgroups and products of bytes. A feature that the
 * driver reports, or the compiler accepts, counts only if the device computes a known case correctly. */
#include "graph/lower/panel/panel.h"
#include "runtime/device/device.h"

#include <string.h>

enum { ITEMS = 64, WORDS = 8 };
enum { PTX = 1, AMD = 2 }; /* compilers */

static const cl_uint nothing[ITEMS] = {0};

/* Runs a kernel of cl/probe/probe_gpu.cl by one group of `n` work-items on w and x[0]. got: n x WORDS ints.
 * Returns 0 if it did not build or run. */
static int run_probe(clef_device *dev, const clef_launch *launch, size_t n, const cl_uint w[ITEMS], cl_uint x,
                     cl_int got[ITEMS * WORDS])
{
    memset(got, 0, ITEMS * WORDS * sizeof *got);
    return clef__probe_run(dev, launch, n, w, ITEMS * sizeof *w, &x, sizeof x, got,
                           ITEMS * WORDS * sizeof *got);
}

static size_t group_of(const clef_caps *caps)
{
    const int32_t most = caps->max_group < caps->max_items[0] ? caps->max_group : caps->max_items[0];
    return most < ITEMS ? (size_t)most : ITEMS;
}

/* ---- products of bytes ----------------------------------------------------------------------- */

static int dot_works(clef_device *dev, clef_int_dot kind)
{
    const clef_launch launch = {.source = "probe_gpu",
                                .kernel = "probe_dot",
                                .defs = {{"INT_DOT", (int32_t)kind}},
                                .c_version = clef__int_dot_c_version(kind)};
    const cl_uint x = 0x81fe037f; /* 127, 3, -2, -127 */
    const size_t n = group_of(&dev->info.caps);
    cl_uint w[ITEMS];
    cl_int got[ITEMS * WORDS];
    for (cl_uint i = 0; i < ITEMS; i++)
        w[i] = 0x8a80017fu + i * 0x2f35a101u;
    if (!run_probe(dev, &launch, n, w, x, got))
        return 0;
    for (size_t i = 0; i < n; i++) {
        cl_int want = 1;
        for (int k = 0; k < 32; k += 8)
            want += (int8_t)(w[i] >> k & 255u) * (int8_t)(x >> k & 255u);
        if (got[i] != want)
            return 0;
    }
    return 1;
}

/* ---- subgroups ------------------------------------------------------------------------------- */

/* Compares one work-item's results with those of the others. */
static int item_is_right(const cl_int *got, const cl_uint w[ITEMS], size_t n, size_t i, int shuffles)
{
    const cl_int *mine = got + i * WORDS;
    cl_int sum = 0, most = 0, beside = -1, across = -1;
    for (size_t k = 0; k < n; k++) {
        const cl_int *other = got + k * WORDS;
        if (other[0] != mine[0])
            continue;
        if (k != i && other[1] == mine[1]) /* two work-items in one place */
            return 0;
        sum += (cl_int)w[k];
        most = (cl_int)w[k] > most ? (cl_int)w[k] : most;
        if (other[1] == (mine[1] ^ 1))
            beside = (cl_int)w[k];
        if (other[1] == (mine[1] ^ mine[2] / 2))
            across = (cl_int)w[k];
    }
    return mine[1] >= 0 && mine[1] < mine[2] && mine[3] == sum && mine[4] == most &&
           (!shuffles || ((beside < 0 || mine[5] == beside) && (across < 0 || mine[6] == across)));
}

/* The width of a subgroup, 0 when anything about subgroups is wrong. */
static int32_t subgroups_work(clef_device *dev, clef_subgroups kind, int32_t demanded, int shuffles)
{
    const clef_launch launch = {
        .source = "probe_gpu",
        .kernel = "probe_subgroups",
        .c_version = clef__subgroup_c_version(&dev->info.caps, kind),
        .defs = {{"SUBGROUPS", (int32_t)kind}, {"SUBGROUP_SIZE", demanded}, {"SHUFFLES", shuffles}}};
    const size_t n = group_of(&dev->info.caps);
    cl_uint w[ITEMS];
    cl_int got[ITEMS * WORDS];
    for (cl_uint i = 0; i < ITEMS; i++)
        w[i] = i * 37u % 101u + 1u;
    if (n < ITEMS || !run_probe(dev, &launch, n, w, 0, got))
        return 0;
    const cl_int width = got[2];
    int right = width > 0 && width <= (cl_int)n && (!demanded || width == demanded);
    for (size_t i = 0; i < n && right; i++)
        right = got[i * WORDS + 2] == width && item_is_right(got, w, n, i, shuffles);
    return right ? width : 0;
}

static void probe_subgroups(clef_device *dev, clef_caps *caps)
{
    /* 0 stands for any size. 16 is tried first, and demanded of Intel: its threads have 4 KiB of registers,
     * however many work-items share them; with 32 most hot kernels spill. */
    static const int32_t sizes[] = {16, 32, 64, 0};
    const int shuffles = caps->subgroup_shuffle;
    int32_t demanded = 0;
    caps->subgroup_size = 0;
    for (size_t i = caps->subgroup_demand ? 0 : sizeof sizes / sizeof *sizes - 1;
         i < sizeof sizes / sizeof *sizes; i++) {
        demanded = sizes[i];
        caps->subgroup_size = subgroups_work(dev, CLEF_SUBGROUPS_BUILTIN, demanded, shuffles);
        if (caps->subgroup_size)
            break;
    }
    caps->subgroup_shuffle = shuffles && caps->subgroup_size;
    if (!caps->subgroup_size && shuffles) /* subgroups without shuffles can still add up */
        caps->subgroup_size = subgroups_work(dev, CLEF_SUBGROUPS_BUILTIN, demanded = 0, 0);
    caps->subgroup_demand = demanded;
}

/* NVIDIA's copies in bulk. */
static int bulk_works(clef_device *dev)
{
    const clef_launch launch = {.source = "probe_gpu", .kernel = "probe_bulk", .defs = {{"BULK", 1}}};
    cl_int got[ITEMS * WORDS];
    return run_probe(dev, &launch, 1, nothing, 0, got) && got[0] == 1;
}

/* The compiler's own extensions (cl/probe/probe_gpu.cl). */
static cl_int find_compiler(clef_device *dev, int32_t *nv_warps)
{
    const clef_launch launch = {.source = "probe_gpu", .kernel = "probe_compiler"};
    cl_int got[ITEMS * WORDS];
    if (!run_probe(dev, &launch, 1, nothing, 0, got))
        return 0;
    *nv_warps = got[1];
    return got[0];
}

/* Tests the unit of an extension or, if there is none, of the compiler; or the one that a test asked for. */
static void probe_matrix(clef_device *dev, clef_caps *caps, cl_int compiler)
{
    if (caps->matrix && !caps->matrix_plain && caps->matrix != CLEF_MATRIX_DPAS)
        caps->matrix = compiler == AMD                   ? CLEF_MATRIX_WMMA
                       : compiler == PTX && caps->nv_asm ? CLEF_MATRIX_MMA
                                                         : CLEF_MATRIX_NONE;
    if (caps->matrix)
        caps->matrix_types = clef__matrix_works(dev);
    if (caps->matrix == CLEF_MATRIX_WMMA && !caps->matrix_plain && !caps->matrix_types) {
        caps->matrix = CLEF_MATRIX_MFMA; /* AMD's GPUs have at most one of the two */
        caps->matrix_types = clef__matrix_works(dev);
    }
    if (!caps->matrix_types)
        caps->matrix = caps->matrix_plain = 0;
}

/* Masked capabilities are not tested. A CPU whose driver reports none of these features is left alone. */
void clef__probe_gpu(clef_device *dev)
{
    clef_caps *caps = &dev->info.caps;
    int32_t nv_warps = 0;
    const cl_int compiler =
        !caps->is_cpu && (caps->nv_asm || caps->amd_dot || caps->matrix) ? find_compiler(dev, &nv_warps) : 0;
    if (compiler == AMD && caps->amd_dot) /* no extension reports it */
        caps->subgroup_shuffle = caps->subgroups != CLEF_SUBGROUP_SUPPORT_NONE;
    if (caps->subgroups)
        probe_subgroups(dev, caps);
    else
        caps->subgroup_size = caps->subgroup_demand = caps->subgroup_shuffle = 0;
    caps->int_dot = caps->int_dot && dot_works(dev, CLEF_INT_DOT_KHR);
    caps->arm_dot = caps->arm_dot && dot_works(dev, CLEF_INT_DOT_ARM);
    caps->nv_asm = compiler == PTX && caps->nv_asm && dot_works(dev, CLEF_INT_DOT_PTX) &&
                   subgroups_work(dev, CLEF_SUBGROUPS_PTX, 0, 1) == 32;
    caps->nv_bulk_copies = caps->nv_asm && bulk_works(dev);
    caps->nv_warps = caps->nv_asm ? nv_warps : 0;
    if (compiler != AMD || !caps->amd_dot)
        caps->amd_dot = 0;
    else
        caps->amd_dot = dot_works(dev, CLEF_INT_DOT_SUDOT4)  ? CLEF_AMD_DOT_SUDOT4
                        : dot_works(dev, CLEF_INT_DOT_SDOT4) ? CLEF_AMD_DOT_SDOT4
                                                             : CLEF_AMD_DOT_NONE;
    probe_matrix(dev, caps, compiler);
}
