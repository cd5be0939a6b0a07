/* Cutting a graph into stages: where it may be cut, what each stage has, what crosses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/pipeline.h"
#include "tests/check.h"

/* Three layers, each adding its weight; layer2 reads the state of layer1. skip reaches from layer0 to the
 * end; mask is in no layer. */
static const char text[] = "clef-graph 1\n"
                           "symbol T <= 4\n"
                           "input x f32 [T, 8]\n"
                           "input unused i32 [T]\n"
                           "weight w0 f32 [8]\n"
                           "weight w1 f32 [8]\n"
                           "weight w2 f32 [8]\n"
                           "mask = relu(x)\n"
                           "layer0.out = add(x, w0)\n"
                           "layer0.skip = mul(layer0.out, mask)\n"
                           "state layer1.cache f32 [1, 1, 4, 8]\n"
                           "layer1.rows = reshape(layer0.out) : f32 [1, 1, T, 8]\n"
                           "layer1.written = cache_write(layer1.cache, layer1.rows)\n"
                           "layer1.out = add(layer0.out, w1)\n"
                           "layer2.seen = slice(layer1.written) axis=2 size=T\n"
                           "layer2.flat = reshape(layer2.seen) : f32 [T, 8]\n"
                           "layer2.out = add(layer2.flat, w2)\n"
                           "layer3.out = mul(layer2.out, mask)\n"
                           "y = add(layer3.out, layer0.skip)\n"
                           "output y\n"
                           "output layer0.out\n";

static clef_graph *parse(void)
{
    clef_graph *g = NULL;
    clef_error err = {0};
    if (clef_graph_parse(text, sizeof text - 1, "cut", &g, &err))
        fail_msg("%s", err.text);
    return g;
}

TEST(layers_and_places)
{
    clef_graph *g = parse();
    clef_cut cut;
    clef_error err = {0};
    assert_int_equal(clef__cut_init(&cut, g, &err), CLEF_OK);
    assert_int_equal(cut.n_layers, 4);
    assert_true(cut.may_begin[1]);
    assert_false(cut.may_begin[2]); /* layer2 reads the state of layer1 */
    assert_true(cut.may_begin[3]);

    int32_t begin[CLEF_MAX_STAGES];
    static const struct {
        double shares[3];
        int32_t n, begin[3];
    } cases[] = {
        {{1, 1}, 2, {0, 3}},   {{3, 1}, 2, {0, 3}},       {{1, 100}, 2, {0, 1}},
        {{100, 1}, 2, {0, 3}}, {{1, 1, 1}, 3, {0, 1, 3}}, {{9, 1, 1}, 3, {0, 1, 3}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(clef__cut_choose(&cut, cases[i].shares, cases[i].n, begin, &err), CLEF_OK);
        for (int32_t k = 0; k < cases[i].n; k++)
            if (begin[k] != cases[i].begin[k])
                fail_msg("case %zu: stage %d begins at layer %d, expected %d", i, k, begin[k],
                         cases[i].begin[k]);
    }
    const double many[4] = {1, 1, 1, 1};
    assert_int_equal(clef__cut_choose(&cut, many, 4, begin, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "4 stages"));
    assert_non_null(strstr(err.text, "2 places"));
    clef__cut_finish(&cut);
    clef_graph_destroy(g);
}

/* Ten layers of 10 bytes. */
TEST(shares_by_speed)
{
    double bytes[10];
    const clef_cut cut = {.n_layers = 10, .bytes = bytes};
    static const struct {
        double speeds[3], rooms[3], want[3];
        int32_t n;
    } cases[] = {
        {{1, 1}, {0, 0}, {5, 5}, 2}, /* by speed */
        {{40, 10}, {0, 0}, {8, 2}, 2},
        {{40, 10}, {55, 0}, {5, 5}, 2}, /* the first is full: the second gets the rest */
        {{10, 40}, {0, 45}, {6, 4}, 2}, /* the last is full: back to the front */
        {{1, 1, 2}, {25, 1000, 35}, {2, 5, 3}, 3},
        {{1, 1},
         {5, 1000},
         {1e-3, 10},
         2}, /* not even a layer fits: it gets one all the same, and its plan says so */
    };
    for (int i = 0; i < 10; i++)
        bytes[i] = 10;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double shares[3];
        clef__shares_by_speed(&cut, cases[i].speeds, cases[i].rooms, cases[i].n, shares);
        for (int32_t k = 0; k < cases[i].n; k++)
            if (shares[k] < cases[i].want[k] - 1e-9 || shares[k] > cases[i].want[k] + 1e-9)
                fail_msg("case %zu: device %d gets %g layers, expected %g", i, k, shares[k],
                         cases[i].want[k]);
    }
}

TEST(forced_apart)
{
    clef_graph *g = parse();
    clef_cut cut;
    clef_error err = {0};
    assert_int_equal(clef__cut_init(&cut, g, &err), CLEF_OK);
    assert_int_equal(clef__cut_at(&cut, (int32_t[]){0, 2}, 2, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "layer1.cache"));
    clef__cut_finish(&cut);
    clef_graph_destroy(g);
}

static const clef_value *need(const clef_graph *g, const char *name, clef_value_kind kind)
{
    const clef_value *v = clef_graph_find(g, name);
    if (!v)
        fail_msg("%s is not there", name);
    if (v->kind != kind)
        fail_msg("%s is of kind %d, expected %d", name, v->kind, kind);
    return v;
}

TEST(stages)
{
    clef_graph *g = parse(), *stage[3];
    clef_cut cut;
    clef_error err = {0};
    assert_int_equal(clef__cut_init(&cut, g, &err), CLEF_OK);
    assert_int_equal(clef__cut_at(&cut, (int32_t[]){0, 1, 3}, 3, &err), CLEF_OK);
    for (int32_t s = 0; s < 3; s++) {
        assert_int_equal(clef__cut_stage(&cut, s, &stage[s], &err), CLEF_OK);
        assert_int_equal(stage[s]->n_symbols, 1);
    }
    /* the first has all inputs, and what later ones read; the whole's outputs come first */
    need(stage[0], "x", CLEF_INPUT);
    need(stage[0], "unused", CLEF_INPUT);
    need(stage[0], "w0", CLEF_WEIGHT);
    assert_null(clef_graph_find(stage[0], "w1"));
    assert_null(clef_graph_find(stage[0], "layer1.cache"));
    assert_int_equal(stage[0]->n_outputs, 3);
    assert_string_equal(stage[0]->outputs[0].name, "layer0.out");
    assert_string_equal(stage[0]->outputs[1].name, "cross:layer0.out");
    assert_string_equal(stage[0]->outputs[2].name, "cross:layer0.skip");
    /* the state lives with both layers that use it */
    need(stage[1], "layer0.out", CLEF_INPUT);
    need(stage[1], "layer1.cache", CLEF_STATE);
    need(stage[1], "w2", CLEF_WEIGHT);
    assert_null(clef_graph_find(stage[1], "layer0.skip"));
    assert_int_equal(stage[1]->n_outputs, 1);
    assert_string_equal(stage[1]->outputs[0].name, "cross:layer2.out");
    /* from the first to the last past the one between; the mask is made again where it is read */
    need(stage[2], "layer0.skip", CLEF_INPUT);
    need(stage[2], "layer2.out", CLEF_INPUT);
    need(stage[2], "x", CLEF_INPUT);
    need(stage[2], "mask", CLEF_COMPUTED);
    assert_int_equal(stage[2]->n_outputs, 1);
    assert_string_equal(stage[2]->outputs[0].name, "y");
    for (int32_t s = 0; s < 3; s++) {
        assert_int_equal(clef_graph_optimize(stage[s], NULL, &err),
                         CLEF_OK); /* each is a graph like any other */
        clef_graph_destroy(stage[s]);
    }
    clef__cut_finish(&cut);
    clef_graph_destroy(g);
}

TESTS(NULL, NULL)
/* Two layers with experts. In the second, what they are multiplied by is computed after x is read once more.
 */
static const char experts_text[] = "clef-graph 1\n"
                                   "symbol T <= 4\n"
                                   "input x f32 [1, T, 8]\n"
                                   "weight w0 f32 [3, 8, 8]\n"
                                   "weight w1 f32 [3, 8, 8]\n"
                                   "h = relu(x)\n"
                                   "layer0.ids = topk(h) k=2\n"
                                   "layer0.y = expert_matmul(h, w0, layer0.ids) transpose_b=1\n"
                                   "layer0.act = relu(layer0.y)\n"
                                   "layer0.sum = reduce(layer0.act)\n"
                                   "layer0.flat = reshape(layer0.sum) : f32 [1, T, 2]\n"
                                   "layer0.shared = mul(h, h)\n"
                                   "layer0.most = reduce(layer0.flat) kind=max\n"
                                   "layer0.out = add(layer0.shared, layer0.most)\n"
                                   "layer1.ids = topk(layer0.out) k=2\n"
                                   "layer1.y = expert_matmul(layer0.out, w1, layer1.ids) transpose_b=1\n"
                                   "layer1.factors = relu(layer0.out)\n"
                                   "layer1.shares = reshape(layer1.factors) : f32 [1, T, 1, 8]\n"
                                   "layer1.scaled = mul(layer1.y, layer1.shares)\n"
                                   "layer1.sum = reduce(layer1.scaled)\n"
                                   "layer1.flat = reshape(layer1.sum) : f32 [1, T, 2]\n"
                                   "layer1.out = reduce(layer1.flat) kind=max\n"
                                   "output layer1.out\n"
                                   "output layer1.y\n";

/* The ops of a graph in order, and what exchanges which value. */
static void describe(const clef_graph *g, char *out, size_t n)
{
    *out = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        const size_t at = strlen(out);
        if (v->op == CLEF_OP_send)
            snprintf(out + at, n - at, "send %s, ", v->in[0]->name);
        else if (v->op == CLEF_OP_receive)
            snprintf(out + at, n - at, "%s from %s, ", v->name, v->in[0]->name);
        else if (v->op != CLEF_OP_NONE)
            snprintf(out + at, n - at, "%s, ", v->name);
    }
}

TEST(experts_apart)
{
    static const char *const want[] = {
        [CLEF__CUT_REST] =
            "h, layer0.ids, send h, send layer0.ids, layer0.shared, layer0.flat from received.0, "
            "layer0.most, layer0.out, layer1.ids, layer1.factors, layer1.shares, send layer0.out, "
            "send layer1.ids, send layer1.shares, layer1.flat from received.0, layer1.out, ",
        [CLEF__CUT_EXPERTS] = "h from received.0, layer0.ids from received.1, layer0.y, layer0.act, "
                              "layer0.sum, layer0.flat, send layer0.flat, layer0.out from received.0, "
                              "layer1.ids from received.1, layer1.y, layer1.shares from received.2, "
                              "layer1.scaled, layer1.sum, layer1.flat, send layer1.flat, "};
    clef_graph *g = NULL, *part;
    clef_cut cut;
    clef_error err = {0};
    char got[1000];
    if (clef_graph_parse(experts_text, sizeof experts_text - 1, "experts", &g, &err))
        fail_msg("%s", err.text);
    assert_int_equal(clef__cut_init(&cut, g, &err), CLEF_OK);
    assert_int_equal(clef__cut_experts(&cut, &err), CLEF_OK);
    assert_int_equal(cut.n_stages, 2);
    for (int32_t s = 0; s < 2; s++) {
        if (clef__cut_exchanging(&cut, s, &part, &err))
            fail_msg("%s", err.text);
        describe(part, got, sizeof got);
        assert_string_equal(got, want[s]);
        assert_int_equal(part->n_outputs, 1);
        clef_graph_destroy(part);
    }
    clef__cut_finish(&cut);
    clef_graph_destroy(g);
}
