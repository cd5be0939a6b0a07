/* The graph without a device: builders, names, errors, dumps. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <jansson.h>

#include "graph/op.h"
#include "graph_text.h"

#ifndef CLEF_SOURCE_DIR
#    define CLEF_SOURCE_DIR "."
#endif

/* ---- builders -------------------------------------------------------------------------------- */

TEST(builder_error_sticks)
{
    clef_graph *g = clef_graph_create();
    clef_value *a = clef_input(g, "a", CLEF_F32, clef_shape_2(clef_n(4), clef_n(7)));
    clef_value *b = clef_input(g, "b", CLEF_F32, clef_shape_2(clef_n(4), clef_n(8)));
    clef_value *bad = clef_gelu(g, clef_add(g, a, b));
    assert_null(bad);
    assert_null(clef_softmax(g, bad, NULL, NULL, NULL));
    assert_null(clef_gelu(g, a)); /* nothing is added once it is broken */
    clef_error err;
    assert_int_equal(clef_graph_error(g, &err), CLEF_E_SHAPE);
    assert_non_null(strstr(err.text, "add_0"));
    assert_non_null(strstr(err.text, "[4, 7]"));
    assert_non_null(strstr(err.text, "[4, 8]"));
    clef_graph_destroy(g);
}

TEST(values_of_another_graph)
{
    clef_graph *g = clef_graph_create(), *h = clef_graph_create();
    clef_value *a = clef_input(g, "a", CLEF_F32, clef_shape_1(clef_n(4)));
    assert_null(clef_gelu(h, a));
    assert_int_equal(clef_graph_error(h, NULL), CLEF_E_ARG);
    clef_graph_destroy(g);
    clef_graph_destroy(h);
}

TEST(names_and_scopes)
{
    clef_graph *g = clef_graph_create();
    clef_value *x = clef_input(g, "x", CLEF_F32, clef_shape_1(clef_n(4)));
    clef_scope_push(g, "layer%d", 3);
    clef_value *y = clef_named(clef_gelu(g, x), "act");
    clef_value *z = clef_named(clef_gelu(g, y), "/free");
    clef_scope_pop(g);
    assert_true(clef__in_layer(y->scope) && y->scope.layer == 3);
    assert_false(clef__in_layer(z->scope));
    clef_output(g, "out", clef_relu(g, z));
    assert_string_equal(clef_value_describe(y).name, "layer3.act");
    assert_ptr_equal(clef_graph_find(g, "layer3.act"), y);
    assert_ptr_equal(clef_graph_find(g, "free"), z);
    assert_non_null(clef_graph_find(g, "out"));
    assert_null(clef_graph_find(g, "layer3.gelu_0"));
    assert_null(clef_named(z, "/out")); /* taken */
    assert_int_equal(clef_graph_error(g, NULL), CLEF_E_ARG);
    clef_graph_destroy(g);
}

TEST(names_of_texts_say_scopes)
{
    static const struct {
        const char *name, *layer;
    } cases[] = {{"layer3.act", "layer3"},
                 {"encoder.layer12.attn.q", "encoder.layer12"},
                 {"decoder.layer0.out", "decoder.layer0"},
                 {"loss.layer1.matmul_0", "loss.layer1"},
                 {"encoder.out", ""},
                 {"layer3", ""},
                 {"layers.act", ""},
                 {"layer.act", ""},
                 {"layer-1.act", ""},
                 {"layer 1.act", ""},
                 {"of.layer1.act", ""}};
    char layer[CLEF__LAYER_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(clef__layer_name(clef__scope_of_name(cases[i].name), layer), cases[i].layer);
}

TEST(many_values)
{
    clef_graph *g = clef_graph_create();
    clef_value *x = clef_input(g, "x", CLEF_F32, clef_shape_1(clef_n(4)));
    for (int i = 0; i < 5000; i++)
        x = clef_named(clef_gelu(g, x), "v%d", i);
    clef_output(g, "y", x);
    assert_int_equal(clef_graph_error(g, NULL), CLEF_OK);
    assert_string_equal(clef_value_describe(clef_graph_find(g, "v1234")).name, "v1234");
    assert_int_equal(clef_graph_n_values(g), 5001);
    optimize(g);
    clef_graph_destroy(g);
}

/* Names that the graph made up give way to those that the text gives. */
TEST(made_up_names_give_way)
{
    clef_graph *g = parse("input x f32 [2, 3]\np = permute(x) axes=[1, 0]\ny = softmax(p)\ncopy_0 = "
                          "gelu(x)\ncopy_1 = softmax(p)\n"
                          "output y\noutput copy_0\noutput copy_1\n");
    assert_string_equal(clef_value_describe(clef_graph_find(g, "copy_0")).op, "gelu");
    assert_string_equal(clef_value_describe(clef_graph_find(g, "copy_1")).op, "softmax");
    assert_int_equal(count_op(g, "copy"), 2);
    optimize(g);
    clef_graph_destroy(g);
    g = clef_graph_create();
    clef_value *x = clef_input(g, "x", CLEF_F32, clef_shape_1(clef_n(4)));
    clef_value *a = clef_gelu(g, x), *b = clef_gelu(g, a);
    assert_ptr_equal(clef_named(b, "gelu_0"), b);
    assert_ptr_equal(clef_graph_find(g, "gelu_0"), b);
    assert_ptr_equal(clef_graph_find(g, clef_value_describe(a).name), a);
    assert_non_null(clef_weight(g, clef_value_describe(a).name, CLEF_F32, clef_shape_1(clef_n(4))));
    clef_value *c = clef_relu(g, b);
    clef_output(g, clef_value_describe(a).name, c);
    assert_int_equal(clef_graph_error(g, NULL), CLEF_OK);
    clef_graph_destroy(g);
}

/* One limit for all names, however they come about. */
TEST(names_have_a_limit)
{
    char name[302];
    memset(name, 'n', sizeof name);
    for (size_t n = CLEF_NAME_BYTES - 1; n <= CLEF_NAME_BYTES; n++) {
        const clef_status want = n < CLEF_NAME_BYTES ? CLEF_OK : CLEF_E_LIMIT;
        name[n] = 0;
        clef_graph *g = clef_graph_create();
        clef_input(g, name, CLEF_F32, clef_shape_1(clef_n(4)));
        assert_int_equal(clef_graph_error(g, NULL), want);
        clef_graph_destroy(g);
        g = clef_graph_create();
        clef_named(clef_gelu(g, clef_input(g, "x", CLEF_F32, clef_shape_1(clef_n(4)))), "%s", name);
        assert_int_equal(clef_graph_error(g, NULL), want);
        clef_graph_destroy(g);
        name[n] = 'n';
    }
    clef_graph *g = clef_graph_create();
    clef_value *x = clef_input(g, "x", CLEF_F32, clef_shape_1(clef_n(4)));
    name[250] = 0;
    clef_scope_push(g, "%s", name);
    assert_null(clef_gelu(g, x)); /* its made-up name would be too long */
    assert_int_equal(clef_graph_error(g, NULL), CLEF_E_LIMIT);
    clef_graph_destroy(g);
}

TEST(symbols_have_bare_names)
{
    static const char *const bad[] = {"", "_", "2T", "a b", "\"", "T*2", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        clef_graph *g = clef_graph_create();
        clef_symbol(g, bad[i], 4);
        assert_int_equal(clef_graph_error(g, NULL), CLEF_E_ARG);
        clef_graph_destroy(g);
    }
}

/* Lowering walks views, so that their number is bounded; of folded copies, too. */
TEST(views_have_a_limit)
{
    for (int with_copies = 0; with_copies < 2; with_copies++) {
        clef_graph *g = clef_graph_create();
        clef_value *x = clef_input(g, "x", CLEF_F32, clef_shape_1(clef_n(1000)));
        for (int i = 1; i <= 400; i++) {
            x = clef_slice(g, x, &(clef_slice_opts){.size = clef_n(1000 - i)});
            if (with_copies && i % CLEF_MAX_VIEWS == 0)
                x = clef_copy(g, x);
        }
        clef_output(g, "y", clef_gelu(g, x));
        assert_int_equal(clef_graph_error(g, NULL), with_copies ? CLEF_OK : CLEF_E_LIMIT);
        if (with_copies) {
            optimize(g);
            for (int32_t i = 0; i < g->n_values; i++)
                assert_true(clef__view_depth(g->values[i]) < 2 * CLEF_MAX_VIEWS);
        }
        clef_graph_destroy(g);
    }
}

TEST(scalars_can_be_permuted)
{
    clef_graph *g = parse("input x f32 []\nv = permute(x)\nw = permute(v)\ny = gelu(w)\noutput y\n");
    assert_true(clef__rows_dense(clef_graph_find(g, "w")));
    optimize(g);
    clef_graph_destroy(g);
}

/* What integers number: rows from `first` on, of a dim that may be a symbol; several at once in a cache. */
TEST(integers_number_rows)
{
    clef_graph *g = parse("symbol T <= 4\ninput x f32 [T, 3]\ninput i i32 [2]\nstate k f32 [2, 1, 9, 3]\n"
                          "a = gather(x, i) first=5\nr = reshape(x) : f32 [1, 1, T, 3]\n"
                          "p = slice(i) size=1\nw = cache_write(k, r, p)\noutput a\n");
    clef_row_range range;
    assert_true(clef_value_row_range(clef_graph_find(g, "a"), 1, &range));
    assert_true(range.first == 5 && range.n_rows.n == 1 && range.n_rows.symbol == 1 && range.span.n == 1);
    assert_true(clef_value_row_range(clef_graph_find(g, "w"), 2, &range));
    assert_true(range.first == 0 && range.n_rows.n == 9 && range.span.n == 1 && range.span.symbol == 1);
    assert_false(clef_value_row_range(clef_graph_find(g, "a"), 0, &range));
    assert_false(clef_value_row_range(clef_graph_find(g, "a"), 2, &range));
    assert_false(clef_value_row_range(clef_graph_find(g, "a"), -1, &range));
    assert_false(clef_value_row_range(clef_graph_find(g, "x"), 0, &range));
    clef_graph_destroy(g);
}

/* ---- dumps ----------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = calloc(1, 1 << 20);
    const size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

/* Golden files; CLEF_UPDATE_GOLDEN=1 writes them anew, to be looked at with git diff. */
static void golden(const char *name, char *text)
{
    char path[512];
    snprintf(path, sizeof path, CLEF_SOURCE_DIR "/tests/fixtures/%s", name);
    if (getenv("CLEF_UPDATE_GOLDEN")) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
    }
    char *want = read_file(path);
    assert_non_null(want);
    assert_string_equal(text, want);
    free(want);
    free(text);
}

TEST(golden_dumps)
{
    clef_graph *g = parse(layer_text);
    golden("layer.dot", text_of(g, clef_graph_write_dot));
    golden("layer.json", text_of(g, clef_graph_write_json));
    optimize(g);
    golden("layer-fused.clef", text_of(g, clef_graph_write_text));
    golden("layer-fused.dot", text_of(g, clef_graph_write_dot));
    clef_graph_destroy(g);
}

TEST(json_is_json)
{
    clef_graph *g = parse("input \"a \\\"b\\\\\\u0001\" f32 [2]\nconst c f32 [2] = inf, 2\ny = add(\"a "
                          "\\\"b\\\\\\u0001\", c)\noutput y\n");
    char *text = text_of(g, clef_graph_write_json);
    json_error_t why;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!json)
        fail_msg("line %d: %s", why.line, why.text);
    const json_t *values = json_object_get(json, "values");
    assert_int_equal(json_array_size(values), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(values, 0), "name")), "a \"b\\\x01");
    json_decref(json);
    free(text);
    clef_graph_destroy(g);
}

TEST(stream_that_fails)
{
    clef_graph *g = parse(layer_text);
    clef_error err;
    FILE *full = fopen("/dev/full", "r+");
    if (full) {
        assert_int_equal(clef_graph_write_text(g, full, &err), CLEF_E_IO);
        fclose(full);
    }
    clef_graph_destroy(g);
}

TEST(statuses_have_texts)
{
    for (int i = 0; i < CLEF_N_STATUSES; i++)
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(clef_status_name((clef_status)i), clef_status_name((clef_status)j));
            assert_string_not_equal(clef_status_text((clef_status)i), clef_status_text((clef_status)j));
        }
    assert_string_equal(clef_status_name((clef_status)999), "?");
}

TESTS(NULL, NULL)
