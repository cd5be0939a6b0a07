/* Passes over a graph, and the memory plan. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "graph/memory.h"
#include "graph/pass/pass.h"
#include "graph_text.h"
#include "tests/cases.h"

/* ---- passes ---------------------------------------------------------------------------------- */

TEST(fuses_attention)
{
    clef_graph *g = parse(layer_text);
    optimize(g);
    assert_int_equal(count_op(g, "attention"), 1);
    assert_int_equal(count_op(g, "softmax"), 0);
    assert_int_equal(count_op(g, "matmul"), 1); /* the projection, its bias within */
    assert_int_equal(count_op(g, "add"), 0);
    assert_int_equal(count_op(g, "copy"), 0); /* attention writes what the reshape wants */
    assert_int_equal(count_op(g, "permute"), 1);
    clef_graph_destroy(g);
}

TEST(tapped_weights_are_not_fused)
{
    clef_graph *g = parse(layer_text);
    clef_output(g, "attention_0", clef_graph_find(g, "layer0.attention"));
    optimize(g);
    assert_int_equal(count_op(g, "attention"), 0);
    assert_int_equal(count_op(g, "softmax"), 1);
    clef_graph_destroy(g);
}

/* How many nodes of an op there are after the passes: tests/fixtures/graph_texts.json. */
static void check_counts(const json_t *c)
{
    const char *op;
    json_t *n;
    clef_graph *g = parse(case_text(c, "text"));
    optimize(g);
    json_object_foreach(case_value(c, "counts"), op, n) {
        if (count_op(g, op) != json_integer_value(n))
            fail_case(c, "%s: got %d", op, (int)count_op(g, op));
    }
    clef_graph_destroy(g);
}

TEST(counts_of_ops)
{
    for_each_case("graph_texts.json", "passes", check_counts);
}

TEST(folds_constants)
{
    clef_graph *g = parse("input x f32 [3]\nconst a f32 [3] = 1, 2, 3\nconst b f32 [3] = 10, 20, 30\nc = "
                          "mul(a, b)\nd = affine(c) scale=2 shift=1\n"
                          "e = affine(x) scale=1\nf = reshape(e) : f32 [3]\ny = add(f, d)\noutput y\n");
    optimize(g);
    assert_int_equal(count_op(g, "mul") + count_op(g, "affine") + count_op(g, "reshape"), 0);
    const clef_value *y = clef_graph_find(g, "y");
    assert_int_equal(y->in[1]->kind, CLEF_CONSTANT);
    const float *c = y->in[1]->data;
    assert_true(c[0] == 21 && c[1] == 81 && c[2] == 181);
    assert_ptr_equal(y->in[0], clef_graph_find(g, "x"));
    clef_graph_destroy(g);
}

TEST(merges_and_drops)
{
    clef_graph *g = parse("input x f32 [3]\ninput unused f32 [3]\nweight w f32 [9]\na = gelu(x)\nb = "
                          "gelu(x)\nc = relu(x)\ndead = exp(a)\n"
                          "y = add(a, b)\nz = mul(y, c)\noutput z\n");
    optimize(g);
    assert_int_equal(count_op(g, "gelu"), 1);
    assert_int_equal(count_op(g, "exp"), 0);
    assert_null(clef_graph_find(g, "w"));
    assert_null(clef_graph_find(g, "dead"));
    assert_non_null(clef_graph_find(g, "unused")); /* an input is part of the interface */
    const clef_value *y = clef_graph_find(g, "y");
    assert_ptr_equal(y->in[0], y->in[1]);
    clef_graph_destroy(g);
}

TEST(unknown_pass)
{
    clef_graph *g = parse(layer_text);
    clef_error err;
    assert_int_equal(clef_graph_optimize(g, "nosuch", &err), CLEF_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "nosuch"));
    for (int32_t i = 0; clef_pass_name(i); i++)
        assert_non_null(strstr(err.text, clef_pass_name(i)));
    clef_graph_destroy(g);
}

TEST(verify_sees_damage)
{
    clef_graph *g = parse(layer_text);
    clef_error err;
    clef_graph_find(g, "layer0.q")->shape.dim[2].n = 31;
    assert_int_equal(clef_graph_optimize(g, "verify", &err), CLEF_E_SHAPE);
    assert_non_null(strstr(err.text, "layer0.q"));
    clef_graph_destroy(g);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* No two values that live at the same time may share a byte, but where one took over the other's memory. */
static void check_places(const clef_graph *g, const clef_memory *m, uint64_t chunk)
{
    for (int32_t i = 0; i < m->n_places; i++) {
        const clef_place *p = &m->places[i];
        if (!p->bytes)
            continue;
        assert_true(p->offset + p->bytes <= m->arena_bytes);
        assert_true(p->offset / chunk == (p->offset + p->bytes - 1) / chunk);
        for (int32_t j = 0; j < i; j++) {
            const clef_place *q = &m->places[j];
            const int apart = p->offset + p->bytes <= q->offset || q->offset + q->bytes <= p->offset;
            int32_t owner = i;
            while (owner != j && owner >= 0)
                owner = m->places[owner].in_place_of;
            if (q->bytes && !apart && owner != j && q->last >= p->first &&
                clef__base(g->values[j]) == g->values[j]) {
                int32_t a = i, b = j; /* both may have taken over the same block, one after the other */
                while (m->places[a].in_place_of >= 0)
                    a = m->places[a].in_place_of;
                while (m->places[b].in_place_of >= 0)
                    b = m->places[b].in_place_of;
                if (a != b)
                    fail_msg("%s and %s overlap", g->values[i]->name, g->values[j]->name);
            }
        }
    }
}

TEST(memory_is_reused)
{
    clef_graph *g =
        parse("input x f32 [1024]\na = gelu(x)\nb = exp(a)\nc = relu(b)\nd = add(c, x)\noutput d\n");
    clef_memory m;
    clef_error err;
    assert_int_equal(clef__memory_plan(g, NULL, 128, 1 << 30, &m, &err), CLEF_OK);
    assert_int_equal(m.arena_bytes, 4096); /* all in place */
    assert_int_equal(m.sum_bytes, 4 * 4096);
    check_places(g, &m, 1 << 30);
    clef__memory_finish(&m);
    clef_graph_destroy(g);
}

TEST(memory_keeps_what_is_needed)
{
    /* a is read again after b: b may not take its memory; outputs live to the end */
    clef_graph *g = parse(
        "input x f32 [1024]\na = gelu(x)\nb = exp(a)\nc = mul(a, b)\nd = relu(c)\noutput b\noutput d\n");
    clef_memory m;
    clef_error err;
    assert_int_equal(clef__memory_plan(g, NULL, 128, 1 << 30, &m, &err), CLEF_OK);
    check_places(g, &m, 1 << 30);
    const int32_t a = clef_graph_find(g, "a")->id, b = clef_graph_find(g, "b")->id,
                  d = clef_graph_find(g, "d")->id;
    assert_true(m.places[a].offset != m.places[b].offset);
    assert_true(m.places[d].offset != m.places[b].offset);
    clef__memory_finish(&m);
    clef_graph_destroy(g);
}

TEST(memory_of_a_layer)
{
    clef_graph *g = parse(layer_text);
    clef_memory m;
    clef_error err;
    assert_int_equal(clef__memory_plan(g, NULL, 64, 4096, &m, &err), CLEF_OK); /* cut into small buffers */
    check_places(g, &m, 4096);
    clef__memory_finish(&m);
    assert_int_equal(clef__memory_plan(g, NULL, 64, 1024, &m, &err), CLEF_E_LIMIT);
    assert_null(m.places);
    clef_graph_destroy(g);
}

TESTS(NULL, NULL)
