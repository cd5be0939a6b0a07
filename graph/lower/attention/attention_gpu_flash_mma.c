/* attention and cached_attention on GPUs with units that multiply matrices: tiles of queries by chunks of
 * keys in halves (cl/attention/attention_gpu_flash_mma.cl). Unless they may be rounded to halves, queries and
 * weights are sums of two halves, so results are as exact as those of the other kernels. */
#include "graph/lower/attention/attention.h"
#include "graph/lower/attention/attention_gpu_parts.h"
#include "graph/lower/panel/panel.h"

enum {
    KEYS = 64,         /* of a chunk; Intel's units have half as many */
    UNIT_ROWS = 16,    /* queries of a unit; of Intel's 8 */
    MOST_UNITS = 4,    /* of a group; of Intel's 8 */
    MOST_HEAD = 128,   /* elements: of sums, and with WMMA of queries, which registers hold */
    MOST_GROUPS = 2,   /* for each compute unit */
    ENGINES = 16,      /* compute units of Intel's that share local memory: vector engines of a core */
    REGISTERS = 256,   /* of a thread of Intel's: sums take 128 */
    LEAST_QUERIES = 17 /* of a head of k: most calls with fewer are for the kernel of decode */
};

static int is_dpas(const clef_caps *caps)
{
    return caps->matrix == CLEF_MATRIX_DPAS;
}

static uint32_t unit_rows(const clef_caps *caps)
{
    return is_dpas(caps) ? UNIT_ROWS / 2 : UNIT_ROWS;
}

static uint32_t most_units(const clef_caps *caps)
{
    return is_dpas(caps) ? MOST_UNITS * 2 : MOST_UNITS;
}

static uint32_t keys_of(const clef_caps *caps)
{
    return is_dpas(caps) ? KEYS / 2 : KEYS;
}

/* As the kernels have it. */
static uint64_t local_bytes(const clef_caps *caps, uint32_t units, uint32_t D, uint32_t E, int exact)
{
    const uint64_t rows = (uint64_t)units * unit_rows(caps), keys = keys_of(caps),
                   lanes = (uint64_t)units * (uint32_t)clef__matrix_lanes(caps);
    const uint64_t words = is_dpas(caps) ? rows * D / (exact ? 1 : 2) + keys / 2 * (D + E)
                           : caps->matrix == CLEF_MATRIX_MMA
                               ? keys * ((D / 2 + 15) / 32 * 32 + 16 + E / 2 + 4)
                               : keys * (D / 2 + 4) + (keys / 2 + 4) * E;
    return 4 * words + (caps->matrix_plain ? lanes * 64 : 0);
}

/* Units of a group for so many queries; 0: none fits the device. */
static uint32_t units_of(const clef_caps *caps, uint32_t queries, uint32_t D, uint32_t E, int exact)
{
    const uint32_t most = most_units(caps), lanes = (uint32_t)clef__matrix_lanes(caps);
    clef__candidate candidates[CLEF__MOST_CANDIDATES];
    int32_t n = 0;
    for (uint32_t units = most; units; units /= 2, n++)
        candidates[n] = clef__attention_candidate(units * lanes, local_bytes(caps, units, D, E, exact),
                                                  queries, units * unit_rows(caps), keys_of(caps));
    const int32_t best = clef__fastest(caps, candidates, n, 1);
    return best < 0 ? 0 : most >> best;
}

static int has_heads(const clef_caps *caps, uint32_t D, uint32_t E)
{
    if (caps->matrix == CLEF_MATRIX_WMMA && D > MOST_HEAD)
        return 0;
    return E <= MOST_HEAD && (is_dpas(caps) ? D == E && D % 64 == 0 : D % 16 == 0 && E % 16 == 0);
}

/* 1 where rows begin at multiples of n elements. */
static int is_aligned(const view_args *view, uint32_t n)
{
    return view->offset % n == 0 && view->stride[0] % n == 0 && view->stride[1] % n == 0 &&
           view->stride[2] % n == 0;
}

/* Queries of a head of k; with pages those of a run, on average. */
static uint32_t queries_of(const clef_attention_call *call)
{
    const attention_args *a = &call->args.a;
    return a->group * (call->pages ? clef__ceil_div(a->n[0], a->paging.n_runs) : a->n[2]);
}

int clef__attention_gpu_mma_takes(const clef_lowering *lo, const clef_attention_call *call)
{
    const attention_args *a = &call->args.a;
    const uint32_t D = clef__n(lo, call->k, 0), E = clef__n(lo, call->v, 0), queries = queries_of(call);
    return !call->batch_invariant && queries >= LEAST_QUERIES && has_heads(lo->caps, D, E) &&
           call->k->dtype == CLEF_F16 && call->v->dtype == CLEF_F16 && is_aligned(&a->k, 8) &&
           is_aligned(&a->v, 8) && is_aligned(&a->q, 4) &&
           units_of(lo->caps, queries, D, E, !call->halves) > 0;
}

int clef__attention_gpu_mma_runs(const clef_caps *caps)
{
    return clef__matrix_multiplies(caps, CLEF_MATRIX_HALVES);
}

clef_status clef__attention_gpu_mma_launch(clef_lowering *lo, const clef_attention_call *call,
                                           clef_error *err)
{
    const clef_caps *caps = lo->caps;
    const uint32_t units = units_of(caps, queries_of(call), clef__n(lo, call->k, 0), clef__n(lo, call->v, 0),
                                    !call->halves),
                   rows = units * unit_rows(caps);
    const char *kernel = is_dpas(caps) ? "attention_gpu_flash_dpas" : "attention_gpu_flash_mma";
    clef_launch launch = {.source = kernel,
                          .kernel = kernel,
                          .registers = is_dpas(caps) && !caps->matrix_plain ? REGISTERS : 0,
                          .defs = {{"UNITS", (int32_t)units},
                                   {"KEYS", (int32_t)keys_of(caps)},
                                   {"EXACT", !call->halves},
                                   {"SOFTCAP", call->args.a.softcap > 0},
                                   {"MATRIX", (int32_t)caps->matrix},
                                   {"MATRIX_PLAIN", caps->matrix_plain},
                                   {"SUBGROUPS", clef__matrix_subgroups(caps)},
                                   {"SUBGROUP_SIZE", clef__matrix_subgroup_size(caps)},
                                   CLEF_ATTENTION_DEFS(lo, call),
                                   {"FIRST", call->first != NULL}},
                          .c_version = clef__matrix_c_version(caps),
                          .local = {units * (uint32_t)clef__matrix_lanes(caps)}};
    uint32_t wanted = (units == most_units(caps) ? 1 : MOST_GROUPS) * clef__units(caps);
    if (is_dpas(caps)) { /* compute units share local memory, which has room for MOST_GROUPS groups */
        const uint32_t at_once = MOST_GROUPS * clef__ceil_div(clef__units(caps), ENGINES);
        wanted = wanted < at_once ? wanted : at_once;
    }
    return clef__attention_parts_launch(lo, call, &launch, rows, wanted, err);
}
