/* Looking at graphs and plans: bounds, differences, launches, the arena, plans that are only described. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cases.h"

static clef_error err;

static clef_graph *parse(const char *text)
{
    clef_graph *g = NULL;
    if (clef_graph_parse(text, strlen(text), "test", &g, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    return g;
}

static const char layered[] = "symbol T <= 32\ninput x f32 [T, 64]\na = gelu(x)\nb = mul(a, x)\nc = "
                              "softmax(b)\nd = add(c, b)\noutput y = d\n";

TEST(bounds)
{
    clef_graph *g = parse(layered);
    int64_t bound = 0;
    assert_int_equal(clef_graph_set_bound(g, "T", 8, &err), CLEF_OK);
    assert_string_equal(clef_graph_symbol(g, 1, &bound), "T");
    assert_int_equal(bound, 8);
    assert_int_equal(clef_graph_set_bound(g, "T", 9, &err), CLEF_E_ARG);
    assert_string_equal(err.text, "symbol T: expected 1 to 8, got 9");
    assert_int_equal(clef_graph_set_bound(g, "T", 0, &err), CLEF_E_ARG);
    assert_int_equal(clef_graph_set_bound(g, "S", 1, &err), CLEF_E_NOT_FOUND);
    clef_graph_destroy(g);
}

TEST(inputs_of_values)
{
    clef_graph *g = parse(layered);
    const clef_value *b = clef_graph_find(g, "b");
    int32_t n = 0;
    assert_ptr_equal(clef_value_input(b, 0, &n), clef_graph_find(g, "a"));
    assert_int_equal(n, 2);
    assert_ptr_equal(clef_value_input(b, 1, NULL), clef_graph_find(g, "x"));
    assert_null(clef_value_input(b, 2, NULL));
    assert_null(clef_value_input(b, -1, NULL));
    clef_graph_destroy(g);
}

/* What a text differs in from `layered`, and the other way round. */
static void check_difference(const json_t *c)
{
    clef_graph *a = parse(layered), *b = parse(case_text(c, "text"));
    const int32_t removed = (int32_t)case_number(c, "removed", 0),
                  added = (int32_t)case_number(c, "added", 0),
                  changed = (int32_t)case_number(c, "changed", 0);
    clef_graph_difference d = {-1, -1, -1}, back = {-1, -1, -1};
    ok(clef_graph_write_diff(a, b, NULL, &d, &err), &err);
    ok(clef_graph_write_diff(b, a, NULL, &back, &err), &err);
    if (d.removed != removed || d.added != added || d.changed != changed || back.removed != added ||
        back.added != removed || back.changed != changed)
        fail_case(c, "got %d, %d and %d", (int)d.removed, (int)d.added, (int)d.changed);
    clef_graph_destroy(a);
    clef_graph_destroy(b);
}

TEST(differences)
{
    for_each_case("graph_texts.json", "differences", check_difference);
}

TEST(folded_dot)
{
    clef_graph *g = parse("input x f32 [2]\nlayer0.a = neg(x)\nlayer0.b = exp(layer0.a)\nlayer1.a = "
                          "neg(layer0.b)\nlayer1.b = exp(layer1.a)\n"
                          "output y = layer1.b\n");
    char text[8192];
    FILE *to = tmpfile();
    assert_non_null(to);
    assert_int_equal(clef_graph_write_folded_dot(g, (const int32_t[]){1}, 1, to, &err), CLEF_OK);
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = 0;
    assert_int_equal(clef_graph_write_folded_dot(g, (const int32_t[]){1, 2}, 2, to, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "layer 2"));
    fclose(to);
    assert_non_null(strstr(text, "layer 0\\n2 nodes"));
    assert_non_null(strstr(text, "cluster_layer1"));
    assert_null(strstr(text, "cluster_layer0"));
    assert_non_null(strstr(text, "\"layer0\" -> "));
    clef_graph_destroy(g);
}

/* A product of [T, 64] with a matrix of 64 x 32, its sum over ranks, and a message. */
static const char rank_text[] =
    "symbol T <= 8\ninput x f32 [T, 64]\nweight w f16 [64, 32]\nstate s f32 [10]\n"
    "layer0.a = matmul(x, w)\nlayer0.b = all_reduce(layer0.a)\n"
    "layer0.c = send(layer0.b) rank=1\noutput y = layer0.b\n";

TEST(counts)
{
    clef_graph *g = parse(rank_text);
    clef_graph_counts c;
    clef_exchange_info all[4];
    assert_int_equal(clef_graph_count(g, 2, 0, &c, &err), CLEF_OK);
    assert_int_equal(c.n_launches, 1);
    assert_int_equal(c.weight_bytes, 64 * 32 * 2);
    assert_int_equal(c.state_bytes, 40);
    assert_int_equal((int64_t)c.flops, 2 * 2 * 64 * 32);
    assert_int_equal((int64_t)c.bytes, 64 * 32 * 2 + 2 * 64 * 4 + 2 * 32 * 4);
    assert_true(c.arena_bytes >= 8 * 32 * 4);
    assert_int_equal(clef_graph_exchanges(g, 2, 0, all, 4), 2);
    assert_string_equal(all[0].op, "all_reduce");
    assert_int_equal(all[0].n_bytes, 2 * 32 * 4);
    assert_int_equal(all[0].peer, -1);
    assert_string_equal(all[1].op, "send");
    assert_int_equal(all[1].peer, 1);
    assert_int_equal(clef_graph_exchanges(g, 0, 0, all, 1),
                     2); /* at the bound, and no more than there is room */
    assert_int_equal(all[0].n_bytes, 8 * 32 * 4);
    clef_graph_destroy(g);
}

/* Two stages of one rank: the message is an arrow, and the receive is below the send. */
TEST(ranks_dot)
{
    clef_graph *graphs[] = {parse(rank_text), parse("symbol T <= 8\ninput x f32 [T, 32]\n"
                                                    "layer1.r = receive(x) rank=0\nlayer1.a = neg(layer1.r)\n"
                                                    "output y = layer1.a\n")};
    char text[8192];
    FILE *to = tmpfile();
    assert_non_null(to);
    assert_int_equal(clef_graph_write_ranks_dot(graphs, 2, 1, NULL, 0, to, &err), CLEF_OK);
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = 0;
    assert_non_null(strstr(text, "layer 0\\n2 nodes"));
    assert_non_null(strstr(text, "send to rank 1"));
    assert_non_null(strstr(text, "receive from rank 0"));
    assert_non_null(strstr(text, " [penwidth=2, constraint=false"));
    assert_null(strstr(text, "penwidth=5"));
    assert_int_equal(clef_graph_write_ranks_dot(graphs, 2, 1, (const int32_t[]){7}, 1, to, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "layer 7"));
    assert_int_equal(clef_graph_write_ranks_dot(graphs, 2, 3, NULL, 0, to, &err), CLEF_E_ARG);
    fclose(to);
    clef_graph_destroy(graphs[0]);
    clef_graph_destroy(graphs[1]);
}

TEST(described_plans)
{
    clef_device *dev = *state;
    clef_graph *g = parse(layered);
    clef_plan *real = NULL, *described = NULL;
    float x[32 * 64] = {0};
    assert_int_equal(clef_plan_create(dev, g, NULL, &real, &err), CLEF_OK);
    assert_int_equal(clef_plan_create(dev, g, &(clef_plan_opts){.describe_only = 1}, &described, &err),
                     CLEF_OK);
    const clef_plan_stats a = clef_plan_describe(real), b = clef_plan_describe(described);
    assert_true(a.arena_bytes > 0 && a.staging_bytes == sizeof x);
    assert_int_equal(a.arena_bytes, b.arena_bytes);
    assert_int_equal(a.io_bytes, b.io_bytes);
    assert_int_equal(a.scratch_bytes, b.scratch_bytes);
    assert_int_equal(a.weight_bytes, b.weight_bytes);
    assert_int_equal(a.staging_bytes, b.staging_bytes);
    assert_int_equal(a.unshared_bytes, b.unshared_bytes);
    assert_int_equal(clef_plan_write(described, 0, x, sizeof x, &err), CLEF_E_ARG);
    assert_int_equal(clef_plan_run(described, &err), CLEF_E_ARG);
    assert_int_equal(clef_plan_read(described, 0, x, sizeof x, &err), CLEF_E_ARG);
    assert_int_equal(clef_plan_reset(described, &err), CLEF_OK);
    clef_plan_destroy(described);
    clef_plan_destroy(real);
    clef_graph_destroy(g);
}

TEST(launches_and_tensors)
{
    clef_device *dev = *state;
    clef_graph *g = parse(layered);
    clef_plan *plan = NULL;
    clef_launch_info launches[16];
    clef_plan_tensor tensors[16];
    assert_int_equal(clef_plan_create(dev, g, NULL, &plan, &err), CLEF_OK);
    assert_int_equal(clef_plan_run(plan, &err), CLEF_OK);
    const int32_t n = clef_plan_launches(plan, launches, 16), m = clef_plan_tensors(plan, tensors, 16);
    assert_int_equal(n, clef_plan_describe(plan).n_launches);
    assert_int_equal(clef_plan_launches(plan, launches, 1), n);
    assert_int_equal(clef_plan_tensors(plan, NULL, 0), m);
    assert_true(n >= 3 && m >= 2);
    for (int32_t i = 0; i < n; i++) {
        assert_non_null(clef_graph_find(clef_plan_graph(plan), launches[i].node));
        assert_true(launches[i].groups[0] * launches[i].local[0] > 0);
    }
    for (int32_t i = 0; i < m; i++) {
        assert_true(tensors[i].offset + tensors[i].bytes <= clef_plan_describe(plan).arena_bytes);
        assert_true(tensors[i].first <= tensors[i].last);
    }
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
}

static int open_device(void **state)
{
    clef_device *dev = NULL;
    if (clef_device_open(NULL, NULL, &dev, &err) != CLEF_OK)
        return 1;
    *state = dev;
    return 0;
}

static int close_device(void **state)
{
    clef_device_close(*state);
    return 0;
}

TESTS(open_device, close_device)
