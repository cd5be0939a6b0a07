/* Lowering for devices that are not here: capabilities are plain data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "clef/clef.h"
#include "graph/op.h"

/* What lowering the graph's last node says on a device whose loops are short, or are not. */
static clef_status lower_last(const char *text, int32_t short_loops, clef_error *err)
{
    const clef_caps caps = {.short_loops = short_loops, .max_group = 256, .max_items = {256, 256, 256}, .n_units = 4};
    unsigned char args[8 * CLEF_MAX_ARGS_BYTES];
    clef_launch launches[8];
    int64_t symbols[CLEF_MAX_SYMBOLS] = {0};
    clef_graph *g = NULL;
    assert_int_equal(clef_graph_parse(text, strlen(text), "test", &g, err), CLEF_OK);
    const clef_value *n = g->outputs[0].value;
    for (int32_t i = 0; i < g->n_symbols; i++)
        symbols[i] = g->symbols[i].bound;
    clef_lowering lo = {.graph = g, .caps = &caps, .symbols = symbols, .node = n, .launches = launches, .cap = 8, .args = args};
    const clef_status s = clef__ops[n->op]->lower(&lo, n, err);
    clef_graph_destroy(g);
    return s;
}

#define ATTENTION(keys, options)                                                                                                           \
    "symbol S <= " keys "\ninput q f32 [1, 1, 1, 64]\ninput k f16 [1, 1, S, 64]\ny = attention(q, k, k) " options "\noutput y\n"

/* A device that ends loops early is told of before it gives wrong numbers. */
static void short_loops(void **state)
{
    clef_error err = {0};
    (void)state;
    assert_int_equal(lower_last(ATTENTION("40000", "scale=1"), 1, &err), CLEF_OK);
    assert_int_equal(lower_last(ATTENTION("70000", "scale=1"), 0, &err), CLEF_OK);
    assert_int_equal(lower_last(ATTENTION("70000", "scale=1 causal=1 window=4096"), 1, &err), CLEF_OK);
    assert_int_equal(lower_last(ATTENTION("70000", "scale=1"), 1, &err), CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "70000 keys"));
    assert_int_equal(lower_last("input x f32 [3, 1000000]\ny = softmax(x)\noutput y\n", 1, &err), CLEF_OK); /* groups share the row */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_loops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
