/* What llama-server says of the time that a text took. */
#include "tools/serve/forms/form.h"

static double per_second(int64_t n, double ms)
{
    return ms > 0 ? (double)n / ms * 1e3 : 0;
}

static double per_token(int64_t n, double ms)
{
    return n > 0 ? ms / (double)n : 0;
}

json_t *serve_timings(const serve_counts *n)
{
    const double prompt = n->first > n->began ? (n->first - n->began) * 1e3 : 0,
                 predicted = n->last > n->first ? (n->last - n->first) * 1e3 : 0;
    const int64_t n_fed = n->n_prompt - n->n_cached;
    json_t *o = json_pack("{s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f}", "cache_n", (json_int_t)n->n_cached,
                          "prompt_n", (json_int_t)n_fed, "prompt_ms", prompt, "prompt_per_token_ms",
                          per_token(n_fed, prompt), "prompt_per_second", per_second(n_fed, prompt),
                          "predicted_n", (json_int_t)n->n_generated, "predicted_ms", predicted,
                          "predicted_per_token_ms", per_token(n->n_generated, predicted),
                          "predicted_per_second", per_second(n->n_generated, predicted));
    if (n->n_drafted)
        json_object_update_new(o, json_pack("{s:I, s:I}", "draft_n", (json_int_t)n->n_drafted,
                                            "draft_n_accepted", (json_int_t)n->n_accepted));
    return o;
}
