/* The measured steps: feeding prompts, generating tokens, and their cost. */
#include "tools/bench/bench.h"
#include "tools/cli/terminal.h"

static void add_cost(const bench *b, double *flops, double *bytes)
{
    if (!flops)
        return;
    const clef_plan_stats stats = clef_session_describe(b->session);
    *flops += stats.run_flops;
    *bytes += stats.run_bytes;
}

clef_status cli_bench_interrupted(clef_error *err)
{
    return cli_terminal_interrupted() ? cli_error(err, CLEF_E_CANCELLED, "bench: interrupted") : CLEF_OK;
}

clef_status cli_bench_feed(bench *b, int32_t n, double *flops, double *bytes, clef_error *err)
{
    clef_status status = CLEF_OK;
    const float *logits;
    for (int32_t at = 0, step; at < n && status == CLEF_OK; at += step) {
        step = n - at < b->o->n_batch ? n - at : b->o->n_batch;
        status = clef_session_feed(b->session, b->ids + at, step, &logits, err);
        add_cost(b, flops, bytes);
    }
    return status;
}

clef_status cli_bench_decode(bench *b, int32_t n, double *flops, double *bytes, clef_error *err)
{
    int32_t id;
    clef_status status = clef_session_generate(b->session, b->ids, 1, n, NULL, err);
    for (int32_t i = 0; i < n && status == CLEF_OK; i++) {
        status = clef_session_next(b->session, &id, err);
        add_cost(b, flops, bytes);
        if (status == CLEF_OK)
            status = cli_bench_interrupted(err);
    }
    return status;
}
