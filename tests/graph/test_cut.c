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
