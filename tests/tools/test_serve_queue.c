/* Whose turn it is (tools/serve/queue.c): clients take turns, then their requests. */
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tools/serve/queue.h"

enum { MOST_ACTIVE = 8, MOST_RUNS = 512 };

typedef struct world {
    serve_queue queue;
    serve_run *active[MOST_ACTIVE];
    int32_t n_active;
    double now;
} world;

static serve_run *make_request(world *w, serve_group *g, uint64_t client, int32_t n)
{
    serve_run *runs = calloc((size_t)n, sizeof *runs);
    assert_non_null(runs);
    *g = (serve_group){.client = client, .is_waiting = 1, .submitted = ++w->now};
    for (int32_t i = 0; i < n; i++) {
        runs[i].group = g;
        serve_queue_add(&w->queue, &runs[i]);
    }
    return runs;
}

/* As the engine does: begins runs while there is a place for the next one, or one is made. */
static void begin(world *w)
{
    for (serve_run *r; (r = serve_queue_next(&w->queue, w->active, w->n_active));) {
        const int32_t victim =
            w->n_active == MOST_ACTIVE ? serve_queue_victim(r, w->active, w->n_active) : -1;
        if (w->n_active == MOST_ACTIVE && victim < 0)
            return;
        serve_queue_remove(&w->queue, r);
        if (victim >= 0) {
            serve_run *paused = w->active[victim];
            w->active[victim] = w->active[--w->n_active];
            paused->is_paused = 1;
            serve_queue_put_back(&w->queue, paused);
        }
        r->is_paused = 0;
        r->n_before = r->n_tokens;
        w->active[w->n_active++] = r;
    }
}

static void step(world *w)
{
    for (int32_t i = 0; i < w->n_active; i++)
        w->active[i]->n_tokens++;
    begin(w);
}

static void finish(world *w, const serve_group *g)
{
    for (int32_t i = w->n_active - 1; i >= 0; i--)
        if (w->active[i]->group == g)
            w->active[i] = w->active[--w->n_active];
    begin(w);
}

static int32_t count(const world *w, const serve_group *g)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->n_active; i++)
        n += w->active[i]->group == g;
    return n;
}

/* One request of many texts has all places while it is alone. Each other one begins at once, or after a step,
 * whether it comes from another client or not. Then the first goes on where it was. */
TEST(one_request_does_not_stop_others)
{
    for (int others_are_one = 0; others_are_one <= 1; others_are_one++) {
        world w = {.n_active = 0};
        serve_group hog, others[MOST_ACTIVE];
        serve_run *runs = make_request(&w, &hog, 1, MOST_RUNS), *more[MOST_ACTIVE];
        (void)state;
        begin(&w);
        assert_int_equal(count(&w, &hog), MOST_ACTIVE);
        assert_int_equal(w.queue.n_waiting, 0);
        step(&w);
        for (int32_t i = 0; i < MOST_ACTIVE; i++) {
            more[i] = make_request(&w, &others[i], others_are_one ? 1 : 2 + (uint64_t)i, 1);
            step(&w);
            assert_int_equal(count(&w, &others[i]), 1);
        }
        assert_int_equal(count(&w, &hog), 0);
        for (int32_t i = 0; i < MOST_ACTIVE; i++)
            finish(&w, &others[i]);
        assert_int_equal(count(&w, &hog), MOST_ACTIVE);
        for (int32_t i = 0; i < MOST_ACTIVE; i++)
            assert_true(runs[i].n_tokens >= 1 && !runs[i].is_paused);
        for (int32_t i = 0; i < MOST_ACTIVE; i++)
            free(more[i]);
        free(runs);
    }
}

/* Two clients share the places, whatever they have: the later one gets half. */
TEST(clients_share)
{
    world w = {.n_active = 0};
    serve_group a, b, c;
    serve_run *runs[3] = {make_request(&w, &a, 1, 100)};
    begin(&w);
    runs[1] = make_request(&w, &b, 1, 100); /* the same client */
    begin(&w);
    assert_int_equal(count(&w, &a), MOST_ACTIVE / 2);
    assert_int_equal(count(&w, &b), MOST_ACTIVE / 2);
    runs[2] = make_request(&w, &c, 2, 100);
    begin(&w);
    assert_int_equal(count(&w, &c), MOST_ACTIVE / 2);
    assert_int_equal(count(&w, &a), MOST_ACTIVE / 4);
    assert_int_equal(count(&w, &b), MOST_ACTIVE / 4);
    for (int i = 0; i < 3; i++)
        free(runs[i]);
}

/* Requests of one text each are not paused for each other: the oldest is next. */
TEST(equals_wait_in_order)
{
    world w = {.n_active = 0};
    serve_group groups[MOST_ACTIVE + 3];
    serve_run *runs[MOST_ACTIVE + 3];
    for (int32_t i = 0; i < MOST_ACTIVE + 3; i++)
        runs[i] = make_request(&w, &groups[i], (uint64_t)i % 3, 1);
    for (int i = 0; i < 100; i++)
        step(&w);
    assert_int_equal(w.queue.n_waiting, 3);
    for (int32_t i = 0; i < MOST_ACTIVE; i++)
        assert_int_equal(count(&w, &groups[i]), 1);
    finish(&w, &groups[5]);
    assert_int_equal(count(&w, &groups[MOST_ACTIVE]) + count(&w, &groups[MOST_ACTIVE + 2]), 1);
    for (int32_t i = 0; i < MOST_ACTIVE + 3; i++)
        free(runs[i]);
}

TESTS(NULL, NULL)
