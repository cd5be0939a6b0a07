/* Random requests for tests of batches, and running them. */
#ifndef CLEF_TESTS_BATCH_TEXTS_H
#define CLEF_TESTS_BATCH_TEXTS_H

#include <stdlib.h>

#include "clef/batch.h"
#include "graph/cases/oracle.h"
#include "tests/check.h"

enum { MOST_REQUESTS = 24, MOST_PROMPT = 200, MOST_SOURCE = 60, N_GENERATED = 12 };

typedef struct test_request {
    int32_t ids[MOST_PROMPT], n, source[MOST_SOURCE], n_source;
} test_request;

typedef struct test_text {
    int32_t ids[N_GENERATED], n, n_cached;
    float logprobs[N_GENERATED];
} test_text;

/* How requests arrive and are sampled. */
typedef struct test_arrival {
    uint64_t seed;
    float temperature;
    int32_t one_by_one;  /* 1: a request is added when the one before it has ended */
    int32_t no_logprobs; /* 1: the device samples the tokens, and the host does not need their logits */
} test_arrival;

static inline int32_t random_below(uint64_t *random, int32_t n)
{
    return (int32_t)(clef__random_uniform(random) * n);
}

/* Prompts of 1 to `longest` random tokens; half of them begin like an earlier one. Encoder-decoders:
 * sources. */
static inline void make_requests(const clef_hparams *hp, int32_t longest, test_request *all, int32_t n)
{
    uint64_t random = 77;
    for (int32_t i = 0; i < n; i++) {
        test_request *r = &all[i];
        const test_request *like = i && random_below(&random, 2) ? &all[random_below(&random, i)] : NULL;
        const int32_t same = like ? random_below(&random, like->n + 1) : 0;
        r->n = hp->n_decoder_layers ? 1 : 1 + random_below(&random, longest);
        for (int32_t k = 0; k < r->n; k++)
            r->ids[k] = k < same ? like->ids[k] : random_below(&random, hp->n_vocab);
        r->n_source = hp->n_decoder_layers ? 1 + random_below(&random, MOST_SOURCE) : 0;
        for (int32_t k = 0; k < r->n_source; k++)
            r->source[k] = random_below(&random, hp->n_vocab);
    }
}

static inline clef_request request_of(const test_request *r, const test_arrival *arrival, int32_t seed)
{
    clef_request out = {.ids = r->ids,
                        .n = r->n,
                        .source = r->source,
                        .n_source = r->n_source,
                        .n_max = N_GENERATED,
                        .ignore_eos = 1,
                        .logprobs = !arrival->no_logprobs};
    if (arrival->temperature > 0)
        out.sampling = (clef_sampler_opts){.temperature = arrival->temperature,
                                           .top_p = 0.9f,
                                           .repeat_penalty = 1.1f,
                                           .seed = (uint64_t)seed};
    return out;
}

static inline void keep_tokens(clef_batch *b, test_text *texts, int32_t *n_done)
{
    clef_batch_token t[8];
    int32_t n;
    while ((n = clef_batch_take(b, t, 8)) > 0)
        for (int32_t i = 0; i < n; i++) {
            test_text *text = &texts[t[i].sequence];
            assert_in_range(text->n, 0, N_GENERATED - 1);
            text->ids[text->n] = t[i].id;
            text->logprobs[text->n++] = t[i].logprob;
            text->n_cached = t[i].n_cached;
            assert_int_equal(t[i].n_generated, text->n);
            *n_done += t[i].finish != CLEF_FINISH_NONE;
        }
}

/* Runs all requests of a new batch; texts are zeroed. */
static inline void run_requests(clef_batch *b, const test_request *all, int32_t n,
                                const test_arrival *arrival, test_text *texts)
{
    clef_error err = {0};
    uint64_t random = arrival->seed;
    int32_t n_added = 0, n_done = 0;
    while (n_done < n) {
        const clef_batch_stats now = clef_batch_describe(b);
        const int is_free = now.n_running + now.n_waiting == 0;
        int32_t n_rows;
        if (n_added < n && (arrival->one_by_one ? is_free : is_free || random_below(&random, 3))) {
            const clef_request r = request_of(&all[n_added], arrival, n_added);
            int64_t number;
            ok(clef_batch_add(b, &r, &number, &err), &err);
            assert_int_equal(number, n_added++);
        }
        ok(clef_batch_step(b, &n_rows, &err), &err);
        assert_true(n_rows > 0);
        keep_tokens(b, texts, &n_done);
    }
}

#endif
