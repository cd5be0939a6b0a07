/* The variants of attention and of cached_attention, which differ in what comes before the attention itself.
 */
#include "graph/lower/attention/attention.h"

/* A variant of both ops. */
#define BOTH(variant, ...)                                                                                   \
    const clef_variant clef__attention_##variant = {.name = #variant, __VA_ARGS__};                          \
    const clef_variant clef__cached_attention_##variant = {.name = #variant, __VA_ARGS__}

static int is_cached(const clef_value *n)
{
    return n->op == CLEF_OP_cached_attention;
}

static clef_attention_call call_of(const clef_lowering *lo, const clef_value *n)
{
    return is_cached(n) ? clef__cached_attention_call(lo, n) : clef__attention_call(lo, n);
}

/* Launches what comes before the attention itself. */
static clef_status ready(clef_lowering *lo, const clef_value *n, clef_attention_call *call, clef_error *err)
{
    if (is_cached(n))
        return clef__cached_attention_ready(lo, n, call, err);
    *call = clef__attention_call(lo, n);
    return CLEF_OK;
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

/* With pages a launch may write and read the caches at once, so no row may see another one that it writes. */
static int cpu_decode_fits(const clef_lowering *lo, const clef_value *n)
{
    const clef_attention_call call = call_of(lo, n);
    if (call.pages && (call.batch_invariant || !clef__runs_are_rows(lo, call.runs, clef__n(lo, n, 3))))
        return 0;
    return !call.first &&
           clef__attention_cpu_decode_takes(clef__n(lo, n, 2), clef__n(lo, n, 1) / clef__n(lo, call.k, 2),
                                            clef__n(lo, n, 0));
}

static clef_status cpu_decode_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_attention_call call = call_of(lo, n);
    const clef_status s = clef__attention_cpu_decode_launch(lo, &call, err);
    if (s || !call.new_k || !call.pages)
        return s;
    /* The symbols' bounds may lead here, and other values to the launches that keep heads in the scratch. */
    uint64_t *scratch = &lo->launches[lo->n - 1].scratch_bytes;
    const uint64_t of_heads = (uint64_t)clef__bytes(call.q, NULL);
    *scratch = *scratch > of_heads ? *scratch : of_heads;
    return CLEF_OK;
}

static clef_status cpu_prefill_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    clef_attention_call call;
    const clef_status s = ready(lo, n, &call, err);
    return s ? s : clef__attention_cpu_prefill_launch(lo, &call, err);
}

BOTH(cpu_decode, .device_text = "a CPU with vectors", .shape_text = "up to 4 positions, without `first`",
     .runs_on = clef__attention_has_vectors, .fits = cpu_decode_fits, .lower = cpu_decode_lower);
BOTH(cpu_prefill, .device_text = "a CPU with vectors", .runs_on = clef__attention_has_vectors,
     .lower = cpu_prefill_lower);

/* ---- few queries on GPUs --------------------------------------------------------------------- */

static int gpu_decode_fits(const clef_lowering *lo, const clef_value *n)
{
    const clef_attention_call call = call_of(lo, n);
    return clef__attention_gpu_decode_takes(lo, &call);
}

static clef_status gpu_decode_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    clef_attention_call call = call_of(lo, n);
    const clef_status s =
        clef__attention_gpu_decode_makes_heads(lo, &call) ? CLEF_OK : ready(lo, n, &call, err);
    return s ? s : clef__attention_gpu_decode_launch(lo, &call, err);
}

BOTH(gpu_decode, .device_text = "a GPU with groups of 128", .shape_text = CLEF_ATTENTION_DECODE_TEXT,
     .runs_on = clef__attention_gpu_decode_runs, .fits = gpu_decode_fits, .lower = gpu_decode_lower);

/* ---- tiles of queries on GPUs ---------------------------------------------------------------- */

static int gpu_mma_fits(const clef_lowering *lo, const clef_value *n)
{
    const clef_attention_call call = call_of(lo, n);
    return clef__attention_gpu_mma_takes(lo, &call);
}

static clef_status gpu_mma_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    clef_attention_call call;
    const clef_status s = ready(lo, n, &call, err);
    return s ? s : clef__attention_gpu_mma_launch(lo, &call, err);
}

BOTH(gpu_mma, .device_text = "a GPU with units that multiply matrices of halves",
     .shape_text = CLEF_ATTENTION_MMA_TEXT, .cap = CLEF_CAP(matrix), .runs_on = clef__attention_gpu_mma_runs,
     .fits = gpu_mma_fits, .lower = gpu_mma_lower);

static int gpu_flash_fits(const clef_lowering *lo, const clef_value *n)
{
    const clef_attention_call call = call_of(lo, n);
    return clef__attention_gpu_flash_takes(lo->caps, clef__n(lo, call.k, 0), clef__n(lo, call.v, 0));
}

static clef_status gpu_flash_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    clef_attention_call call;
    const clef_status s = ready(lo, n, &call, err);
    return s ? s : clef__attention_gpu_flash_launch(lo, &call, err);
}

BOTH(gpu_flash, .device_text = "a GPU", .shape_text = "heads that fit local memory",
     .runs_on = clef__attention_gpu_flash_runs, .fits = gpu_flash_fits, .lower = gpu_flash_lower);

/* ---- any device ------------------------------------------------------------------------------ */

/* A work-group of 128 computes one query. */
static int group_takes_subgroups(const clef_lowering *lo, const clef_value *n)
{
    (void)n;
    return clef__fit_local(lo, 128) >= 128;
}

static clef_status gpu_query_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    clef_attention_call call;
    const clef_status s = ready(lo, n, &call, err);
    return s ? s : clef__attention_gpu_query_launch(lo, &call, err);
}

BOTH(gpu_query_subgroup, .device_text = CLEF_NEEDS_SUBGROUPS, .shape_text = "what groups of 128 can",
     .runs_on = clef__has_subgroups, .fits = group_takes_subgroups, .lower = gpu_query_lower);
BOTH(gpu_query, .lower = gpu_query_lower);
