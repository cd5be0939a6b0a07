/* The graph without a device: builders, errors, the text form, passes, the memory plan, dumps. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "graph/cases/cases.h"
#include "graph/memory.h"
#include "graph/pass/pass.h"
#include "graph/text/text.h"

#ifndef CLEF_SOURCE_DIR
#    define CLEF_SOURCE_DIR "."
#endif

static char *text_of(const clef_graph *g, clef_status (*write)(const clef_graph *, FILE *, clef_error *))
{
    char *text = NULL;
    size_t n;
    clef_error err;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    assert_int_equal(write(g, to, &err), CLEF_OK);
    fclose(to);
    return text;
}

static clef_graph *parse(const char *text)
{
    clef_graph *g = NULL;
    clef_error err = {0};
    if (clef_graph_parse(text, strlen(text), "test", &g, &err))
        fail_msg("%s", err.text);
    return g;
}

static void optimize(clef_graph *g)
{
    clef_error err = {0};
    if (clef_graph_optimize(g, NULL, &err))
        fail_msg("%s", err.text);
    if (clef_graph_optimize(g, "verify", &err)) /* what the passes leave is valid */
        fail_msg("%s", err.text);
}

static int count_op(const clef_graph *g, const char *op)
{
    int n = 0;
    for (int32_t i = 0; i < clef_graph_n_values(g); i++) {
        const clef_value_info info = clef_value_describe(clef_graph_value(g, i));
        n += info.op && strcmp(info.op, op) == 0;
    }
    return n;
}

/* ---- the text form --------------------------------------------------------------------------- */

/* One layer of attention as architectures write it, with every kind of leaf and attribute. */
static const char layer_text[] =
    "clef-graph 1\n"
    "symbol B <= 2\n"
    "symbol T <= 8\n"
    "symbol S <= 16\n"
    "input x f32 [B, T, 32]\n"
    "input pos i32 [B]\n"
    "weight \"w q\" f16 [32, 32]\n"
    "weight w.bias f32 [32]\n"
    "state layer0.k f32 [2, 4, 16, 8]\n"
    "const freqs f32 [4] = 1, 0.5, 0.25, 0.125\n"
    "layer0.q0 = matmul(x, \"w q\") transpose_b=1 : f32 [B, T, 32]\n"
    "layer0.q = add(layer0.q0, w.bias) : f32 [B, T, 32]\n"
    "layer0.qh = reshape(layer0.q) : f32 [B, T, 4, 8]\n"
    "layer0.qr = rope(layer0.qh, freqs, pos) pairing=interleaved : f32 [B, T, 4, 8]\n"
    "layer0.qp = permute(layer0.qr) axes=[0, 2, 1, 3] : f32 [B, 4, T, 8]\n"
    "layer0.kw = cache_write(layer0.k, layer0.qp, pos) : f32 [2, 4, 16, 8]\n"
    "layer0.kb = slice(layer0.kw) size=B : f32 [B, 4, 16, 8]\n"
    "layer0.ks = slice(layer0.kb) axis=2 size=S : f32 [B, 4, S, 8]\n"
    "layer0.s = matmul(layer0.qp, layer0.ks) transpose_b=1 alpha=0.353553385 : f32 [B, 4, T, S]\n"
    "layer0.attention = softmax(layer0.s, _, pos) causal=1 window=7 : f32 [B, 4, T, S]\n"
    "layer0.o = matmul(layer0.attention, layer0.ks) : f32 [B, 4, T, 8]\n"
    "layer0.op = permute(layer0.o) axes=[0, 2, 1, 3] : f32 [B, T, 4, 8]\n"
    "layer0.oc = copy(layer0.op) : f32 [B, T, 4, 8]\n"
    "y = reshape(layer0.oc) : f32 [B, T, 32]\n"
    "output logits = y\n";

static void text_round_trip(void **state)
{
    (void)state;
    clef_graph *g = parse(layer_text);
    char *once = text_of(g, clef_graph_write_text);
    assert_string_equal(once, layer_text);
    free(once);
    for (int32_t i = 0; clef_pass_name(i); i++) { /* and after every pass */
        clef_error err;
        clef_graph *after = clef_graph_clone(g);
        assert_int_equal(clef_graph_optimize(after, clef_pass_name(i), &err), CLEF_OK);
        char *a = text_of(after, clef_graph_write_text);
        clef_graph *again = parse(a);
        char *b = text_of(again, clef_graph_write_text);
        assert_string_equal(a, b);
        free(a);
        free(b);
        clef_graph_destroy(again);
        clef_graph_destroy(after);
    }
    clef_graph_destroy(g);
}

/* Each op's own cases, printed and parsed. */
static void text_round_trip_of_cases(void **state)
{
    (void)state;
    for (int32_t op = 0; op < CLEF_N_OPS; op++) {
        clef_op_case *cases = NULL;
        clef_error err = {0};
        if (clef__cases_load(clef__ops[op], &cases, &err))
            fail_msg("%s", err.text);
        for (const clef_op_case *c = cases; c->graph; c++) {
            clef_graph *g = parse(c->graph);
            char *a = text_of(g, clef_graph_write_text);
            clef_graph *again = parse(a);
            char *b = text_of(again, clef_graph_write_text);
            assert_string_equal(a, b);
            free(a);
            free(b);
            clef_graph_destroy(again);
            clef_graph_destroy(g);
        }
        clef__cases_free(cases);
    }
}

static void cases_text(void **state)
{
    static const char good[] =
        "# A comment.\n\n# for n more in 3 \"\"\n#   4 \" scale=2\"\n# ints -1 $n\n# tol 1e-3\n"
        "input x f32 [$n]\ny = $op(x)$more\noutput y\n\n# spread 2\noutput z\n";
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "it has no case"},
        {"# for n m in 1 2 3\nx [$n]\n", "do not fill whole rows"},
        {"# for n 1 2\nx [$n]\n", "expected 'for NAMES in VALUES'"},
        {"x [$n]\n", "no 'for' gives this name"},
        {"# ints 0 x\nx\n", "expected numbers"},
    };
    clef_op_case *c = NULL;
    clef_error err = {0};
    (void)state;
    assert_int_equal(clef__cases_parse(good, "good", "affine", &c, &err), CLEF_OK);
    assert_string_equal(c[0].graph, "input x f32 [3]\ny = affine(x)\noutput y\n");
    assert_string_equal(c[1].graph, "input x f32 [4]\ny = affine(x) scale=2\noutput y\n");
    assert_true(c[1].int_lo == -1 && c[1].int_hi == 4 && c[1].tol == 1e-3f && c[1].spread == 0);
    assert_true(strcmp(c[2].graph, "output z\n") == 0 && c[2].spread == 2 && !c[3].graph);
    clef__cases_free(c);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(clef__cases_parse(bad[i].text, "bad", NULL, &c, &err), CLEF_E_FORMAT);
        assert_null(c);
        assert_non_null(strstr(err.text, bad[i].says));
    }
}

typedef struct bad_text {
    const char *text, *says;
    clef_status status;
} bad_text;

#define STATE_TEXT "state s f32 [1, 2, 4, 4]\ninput x f32 [1, 2, 4, 4]\n"

#define ROPE_TEXT "input x f32 [1, 1, 1, 2]\ninput f f32 [1]\ny = rope(x, f) "

static void text_refuses(void **state)
{
    (void)state;
    static const bad_text bad[] = {
        {"", "no output", CLEF_E_FORMAT},
        {"clef-graph 2\n", "version 2", CLEF_E_UNSUPPORTED},
        {"clef-graph x\n", "integer", CLEF_E_FORMAT},
        {"input x f32 [2\n", "']'", CLEF_E_FORMAT},
        {"input x f33 [2]\n", "'f33' is no dtype", CLEF_E_FORMAT},
        {"input x f32 [T]\n", "'T' is no declared symbol", CLEF_E_FORMAT},
        {"input x f32 [0]\n", "integer from 1", CLEF_E_FORMAT},
        {"input x f32 [1, 2, 3, 4, 5]\n", "more than 4 dims", CLEF_E_FORMAT},
        {"input x f32 [99999999999]\n", "integer from 1", CLEF_E_FORMAT},
        {"input x f32 [2000000000, 2000000000]\n", "too many elements", CLEF_E_LIMIT},
        {"weight x q8_0 [3, 33]\n", "whole blocks of 32", CLEF_E_SHAPE},
        {"symbol T <= 0\n", "integer from 1", CLEF_E_FORMAT},
        {"symbol T <= 4\nsymbol T <= 4\n", "declared twice", CLEF_E_FORMAT},
        {"symbol T <= 4\nstate s f32 [T]\n", "state s", CLEF_E_SHAPE},
        {"input x f32 [2]\ninput x f32 [2]\n", "'x' already exists", CLEF_E_FORMAT},
        {"const c f32 [3] = 1, 2\n", "expected ','", CLEF_E_FORMAT},
        {"const c f32 [2] = 1, two\n", "'two'", CLEF_E_FORMAT},
        {"const c f16 [1] = 1\n", "expected f32 or i32", CLEF_E_ARG},
        {"const c f32 [2000000000] = 1\n", "more elements", CLEF_E_SHAPE},
        {"y = nosuch(x)\n", "'nosuch' is no op", CLEF_E_FORMAT},
        {"y = gelu(x)\n", "no value called 'x'", CLEF_E_FORMAT},
        {"input x f32 [2]\ny = gelu(x, x)\n", "at most 1", CLEF_E_ARG},
        {"input x f32 [2]\ny = gelu(_)\n", "input 0 is missing", CLEF_E_ARG},
        {"input x i32 [2]\ny = gelu(x)\n", "is i32, expected f32", CLEF_E_SHAPE},
        {"input x f32 [2]\ny = softmax(x) nosuch=1\n", "causal, window, log, got 'nosuch'", CLEF_E_FORMAT},
        {ROPE_TEXT "interleaved=1\n", "attributes pairing, scale, got 'interleaved'", CLEF_E_FORMAT},
        {ROPE_TEXT "pairing=1\n", "one of halves, interleaved, interleaved_to_halves, got '1'",
         CLEF_E_FORMAT},
        {"input x f32 [2]\ny = gelu(x) a=1\n", "(it has none), got 'a'", CLEF_E_FORMAT},
        {"input x f32 [2]\ny = softmax(x) scale=abc\n", "'abc'", CLEF_E_FORMAT},
        {"input x f32 [2]\ny = softmax(x) scale=1,5\n", "got ','", CLEF_E_FORMAT},
        {"input x f32 [2]\ny = softmax(x) scale=1e-46\n", "does not fit f32", CLEF_E_FORMAT},
        {"input x f32 [2]\ny = softmax(x) scale=1e39\n", "does not fit f32", CLEF_E_FORMAT},
        {"input x f32 [2]\ny = softmax(x) scale=1e\n", "'1e'", CLEF_E_FORMAT},
        {"input x f32 [2]\ny = softmax(x) scale=.\n", "'.'", CLEF_E_FORMAT},
        {"symbol 2T <= 4\n", "cannot name a symbol", CLEF_E_FORMAT},
        {STATE_TEXT "w = cache_write(s, x)\ny = add(s, w)\n", "input 0 (s) shows a state that w has written",
         CLEF_E_ARG},
        {STATE_TEXT "w = cache_write(s, x)\nv = cache_write(w, x)\ny = add(v, w)\n", "input 1 (w)",
         CLEF_E_ARG},
        {STATE_TEXT "p = slice(s) axis=2 size=1\nw = cache_write(s, x)\ny = gelu(p)\n", "input 0 (p)",
         CLEF_E_ARG},
        {STATE_TEXT "w = cache_write(s, x)\np = slice(s) axis=2 size=1\n", "input 0 (s)", CLEF_E_ARG},
        {STATE_TEXT "w = cache_write(s, x)\nv = cache_write(s, x)\n", "input 0 (s)", CLEF_E_ARG},
        {STATE_TEXT "w = cache_write(s, x)\noutput s\n", "output s", CLEF_E_ARG},
        {STATE_TEXT "output s\nw = cache_write(s, x)\n", "output s", CLEF_E_ARG},
        {STATE_TEXT "p = slice(s) axis=2 start=1 size=1\nw = cache_write(s, p)\n", "lies in the state",
         CLEF_E_ARG},
        {"input x f32 [2]\ny = reshape(x)\n", "expected ':'", CLEF_E_FORMAT},
        {"input x f32 [2]\ny = reshape(x) : f32 [3]\n", "y: reshape_0", CLEF_E_SHAPE},
        {"input x f32 [2]\ny = gelu(x) : f32 [3]\n", "is written", CLEF_E_SHAPE},
        {"input a f32 [2]\ninput b f32 [3]\ny = add(a, b)\n", "add_0", CLEF_E_SHAPE},
        {"input a f32 [2]\ninput b f32 [3, 2]\ny = matmul(a, b)\n", "a [2] and b [3, 2] do not multiply",
         CLEF_E_SHAPE},
        {"input a f32 [2]\ninput b f32 [3]\ny = matmul(a, b) transpose_b=1\n",
         "a [2] and b [3] do not multiply", CLEF_E_SHAPE},
        {"input a f32 []\ninput b f32 [3]\ny = matmul(a, b)\n", "a [] and b [3] do not", CLEF_E_SHAPE},
        {"input x f32 [2, 3]\ny = permute(x) axes=[0, 0]\n", "permute_0", CLEF_E_ARG},
        {"input x f32 [2, 3]\ny = slice(x) axis=1 start=2 size=2\n", "slice_0", CLEF_E_SHAPE},
        {"output y\n", "no value of that name", CLEF_E_FORMAT},
        {"input x f32 [2]\noutput x\noutput x\n", "two outputs", CLEF_E_ARG},
        {"input x f32 [2] junk\n", "unexpected text after the statement", CLEF_E_FORMAT},
        {"input \"x f32 [2]\n", "does not end", CLEF_E_FORMAT},
        {"input \"\\q\" f32 [2]\n", "escape", CLEF_E_FORMAT},
        {"= gelu(x)\n", "expected a name", CLEF_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        clef_graph *g;
        clef_error err = {0};
        const clef_status s = clef_graph_parse(bad[i].text, strlen(bad[i].text), "bad.clef", &g, &err);
        const char *says = strncmp(bad[i].says, "y: ", 3) == 0 ? bad[i].says + 3 : bad[i].says;
        if (s != bad[i].status || !strstr(err.text, says) || !strstr(err.text, "bad.clef:") || g)
            fail_msg("case %zu: expected %s with \"%s\", got %s: %s", i, clef_status_name(bad[i].status),
                     says, clef_status_name(s), err.text);
    }
}

/* The text is the same in a locale with a decimal comma, if there is one here. */
static void text_in_a_comma_locale(void **state)
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8",  "fr_FR.UTF-8",
                                         "fr_FR.utf8",  "ru_RU.UTF-8", "nl_NL.UTF-8"};
    (void)state;
    size_t i = 0;
    while (i < sizeof commas / sizeof *commas && !setlocale(LC_NUMERIC, commas[i]))
        i++;
    if (i == sizeof commas / sizeof *commas)
        skip();
    clef_graph *g = parse(layer_text);
    char *text = text_of(g, clef_graph_write_text), *json = text_of(g, clef_graph_write_json);
    setlocale(LC_NUMERIC, "C");
    char *plain = text_of(g, clef_graph_write_json);
    assert_string_equal(text, layer_text);
    assert_string_equal(json, plain);
    free(text);
    free(json);
    free(plain);
    clef_graph_destroy(g);
}

static void numbers_read_as_written(void **state)
{
    static const struct {
        const char *text;
        float x;
    } good[] = {{"0", 0},
                {"-0.0", 0},
                {"0e9", 0},
                {"1.5", 1.5f},
                {".5", 0.5f},
                {"2.", 2},
                {"1e-40", 1e-40f},
                {"+3E+2", 300},
                {"inf", INFINITY},
                {"-inf", -INFINITY},
                {"3.4028235e38", 3.4028235e38f}};
    static const char *const bad[] = {"",    "-",    ".",     "e5", "1e",       "1e+",
                                      "1,5", "0x10", "1.5.5", "1 ", "infinite", "--1"};
    float x;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (clef__read_float(good[i].text, &x) != 1 || x != good[i].x)
            fail_msg("'%s' is read as %g", good[i].text, (double)x);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (clef__read_float(bad[i], &x) != 0)
            fail_msg("'%s' is read as a number", bad[i]);
    assert_int_equal(clef__read_float("nan", &x), 1);
    assert_true(isnan(x));
    assert_int_equal(clef__read_float("1e-46", &x), -1);
    assert_int_equal(clef__read_float("-4e38", &x), -1);
}

/* Names that the graph made up give way to those that the text gives. */
static void made_up_names_give_way(void **state)
{
    (void)state;
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
static void names_have_a_limit(void **state)
{
    char name[302];
    (void)state;
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

static void symbols_have_bare_names(void **state)
{
    static const char *const bad[] = {"", "_", "2T", "a b", "\"", "T*2", "\xc3\xa4"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        clef_graph *g = clef_graph_create();
        clef_symbol(g, bad[i], 4);
        assert_int_equal(clef_graph_error(g, NULL), CLEF_E_ARG);
        clef_graph_destroy(g);
    }
}

/* Lowering walks views, so that their number is bounded; of folded copies, too. */
static void views_have_a_limit(void **state)
{
    (void)state;
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

static void scalars_can_be_permuted(void **state)
{
    (void)state;
    clef_graph *g = parse("input x f32 []\nv = permute(x)\nw = permute(v)\ny = gelu(w)\noutput y\n");
    assert_true(clef__rows_dense(clef_graph_find(g, "w")));
    optimize(g);
    clef_graph_destroy(g);
}

/* Cut anywhere, the text is refused or read, never more. */
static void text_cut_anywhere(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof layer_text - 1; n++) {
        char *cut = malloc(n + 1); /* exactly as long as it is: a read beyond it shows under ASan */
        memcpy(cut, layer_text, n);
        clef_graph *g;
        clef_error err;
        if (clef_graph_parse(cut, n, "cut", &g, &err) == CLEF_OK)
            clef_graph_destroy(g);
        free(cut);
    }
}

/* ---- builders -------------------------------------------------------------------------------- */

static void builder_error_sticks(void **state)
{
    (void)state;
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

static void values_of_another_graph(void **state)
{
    (void)state;
    clef_graph *g = clef_graph_create(), *h = clef_graph_create();
    clef_value *a = clef_input(g, "a", CLEF_F32, clef_shape_1(clef_n(4)));
    assert_null(clef_gelu(h, a));
    assert_int_equal(clef_graph_error(h, NULL), CLEF_E_ARG);
    clef_graph_destroy(g);
    clef_graph_destroy(h);
}

static void names_and_scopes(void **state)
{
    (void)state;
    clef_graph *g = clef_graph_create();
    clef_value *x = clef_input(g, "x", CLEF_F32, clef_shape_1(clef_n(4)));
    clef_scope_push(g, "layer%d", 3);
    clef_value *y = clef_named(clef_gelu(g, x), "act");
    clef_value *z = clef_named(clef_gelu(g, y), "/free");
    clef_scope_pop(g);
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

static void many_values(void **state)
{
    (void)state;
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

/* ---- passes ---------------------------------------------------------------------------------- */

static void fuses_attention(void **state)
{
    (void)state;
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

static void tapped_weights_are_not_fused(void **state)
{
    (void)state;
    clef_graph *g = parse(layer_text);
    clef_output(g, "attention_0", clef_graph_find(g, "layer0.attention"));
    optimize(g);
    assert_int_equal(count_op(g, "attention"), 0);
    assert_int_equal(count_op(g, "softmax"), 1);
    clef_graph_destroy(g);
}

static void fuses_swiglu(void **state)
{
    (void)state;
    clef_graph *g = parse("input g f32 [2, 3]\ninput u f32 [2, 3]\ns = silu(g)\ny = mul(u, s)\noutput y\n");
    optimize(g);
    assert_int_equal(count_op(g, "swiglu"), 1);
    assert_int_equal(count_op(g, "silu"), 0);
    assert_string_equal(clef_value_describe(clef_graph_find(g, "y")).op, "swiglu");
    clef_graph_destroy(g);
    g = parse(
        "input g f32 [2, 3]\ninput u f32 [2, 3]\ns = silu(g)\ny = mul(u, s)\noutput y\noutput s\n"); /* s is
                                                                                                        wanted
                                                                                                        itself
                                                                                                      */
    optimize(g);
    assert_int_equal(count_op(g, "swiglu"), 0);
    clef_graph_destroy(g);
}

static void folds_constants(void **state)
{
    (void)state;
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

static void merges_and_drops(void **state)
{
    (void)state;
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

/* A read of a state keeps its place before the write; so does what looks as if it did nothing. */
static void reads_stay_before_writes(void **state)
{
    static const struct {
        const char *text, *op;
    } cases[] = {
        {"a = affine(k) scale=1\nw = cache_write(k, x)\ny = add(a, w)\noutput y\n", "affine"},
        {"s = matmul(x, k) transpose_b=1\nw = cache_write(k, x)\np = softmax(s)\ny = matmul(p, x)\noutput "
         "y\n",
         "softmax"},
        {"s = silu(k)\nw = cache_write(k, x)\ny = mul(s, x)\noutput y\n", "silu"},
        {"weight b f32 [4]\nm = matmul(x, k)\nw = cache_write(k, x)\ny = add(m, b)\noutput y\n", "add"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(text, sizeof text, "input x f32 [1, 2, 4, 4]\nstate k f32 [1, 2, 4, 4]\n%s", cases[i].text);
        clef_graph *g = parse(text);
        optimize(g);
        assert_int_equal(count_op(g, cases[i].op), 1);
        clef_graph_destroy(g);
    }
}

/* What looks like attention and cannot be done by it stays. */
static void fuses_only_what_fits(void **state)
{
    static const struct {
        const char *leaves, *attrs;
    } cases[] = {
        {"input q f32 [1, 1, 3, 8]\ninput k f32 [1, 4, 5, 8]\ninput v f32 [1, 4, 5, 8]\n", ""},
        {"symbol H <= 4\ninput q f32 [1, H, 3, 8]\ninput k f32 [1, H, 5, 8]\ninput v f32 [1, H, 5, 8]\n", ""},
        {"input q f32 [1, 4, 3, 8]\ninput k f32 [1, 4, 5, 8]\ninput v f32 [1, 4, 5, 8]\n", " scale=1e-30"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(
            text, sizeof text,
            "%ss = matmul(q, k) transpose_b=1 alpha=1e-30\np = softmax(s)%s\ny = matmul(p, v)\noutput y\n",
            cases[i].leaves, cases[i].attrs);
        clef_graph *g = parse(text);
        optimize(g);
        assert_int_equal(count_op(g, "attention"), 0);
        clef_graph_destroy(g);
    }
}

/* What is read of a state before and after a write is not the same. */
static void keeps_order_of_states(void **state)
{
    (void)state;
    clef_graph *g = parse("input x f32 [1, 1, 1, 4]\nstate k f32 [1, 1, 8, 4]\na = copy(k)\nw = "
                          "cache_write(k, x)\nb = copy(w)\ny = sub(a, b)\noutput y\n");
    optimize(g);
    assert_int_equal(count_op(g, "copy"), 2);
    assert_int_equal(count_op(g, "cache_write"), 1); /* an effect, though nothing uses its value */
    clef_graph_destroy(g);
}

static void unknown_pass(void **state)
{
    (void)state;
    clef_graph *g = parse(layer_text);
    clef_error err;
    assert_int_equal(clef_graph_optimize(g, "nosuch", &err), CLEF_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "nosuch"));
    for (int32_t i = 0; clef_pass_name(i); i++)
        assert_non_null(strstr(err.text, clef_pass_name(i)));
    clef_graph_destroy(g);
}

static void verify_sees_damage(void **state)
{
    (void)state;
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

static void memory_is_reused(void **state)
{
    (void)state;
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

static void memory_keeps_what_is_needed(void **state)
{
    (void)state;
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

static void memory_of_a_layer(void **state)
{
    (void)state;
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

static void golden_dumps(void **state)
{
    (void)state;
    clef_graph *g = parse(layer_text);
    golden("layer.dot", text_of(g, clef_graph_write_dot));
    golden("layer.json", text_of(g, clef_graph_write_json));
    optimize(g);
    golden("layer-fused.clef", text_of(g, clef_graph_write_text));
    golden("layer-fused.dot", text_of(g, clef_graph_write_dot));
    clef_graph_destroy(g);
}

static void json_is_json(void **state)
{
    (void)state;
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

static void stream_that_fails(void **state)
{
    (void)state;
    clef_graph *g = parse(layer_text);
    clef_error err;
    FILE *full = fopen("/dev/full", "r+");
    if (full) {
        assert_int_equal(clef_graph_write_text(g, full, &err), CLEF_E_IO);
        fclose(full);
    }
    clef_graph_destroy(g);
}

static void statuses_have_texts(void **state)
{
    (void)state;
    for (int i = 0; i < CLEF_N_STATUSES; i++)
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(clef_status_name((clef_status)i), clef_status_name((clef_status)j));
            assert_string_not_equal(clef_status_text((clef_status)i), clef_status_text((clef_status)j));
        }
    assert_string_equal(clef_status_name((clef_status)999), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(text_round_trip_of_cases),
        cmocka_unit_test(cases_text),
        cmocka_unit_test(text_refuses),
        cmocka_unit_test(text_cut_anywhere),
        cmocka_unit_test(builder_error_sticks),
        cmocka_unit_test(values_of_another_graph),
        cmocka_unit_test(names_and_scopes),
        cmocka_unit_test(many_values),
        cmocka_unit_test(fuses_attention),
        cmocka_unit_test(tapped_weights_are_not_fused),
        cmocka_unit_test(fuses_swiglu),
        cmocka_unit_test(folds_constants),
        cmocka_unit_test(merges_and_drops),
        cmocka_unit_test(keeps_order_of_states),
        cmocka_unit_test(unknown_pass),
        cmocka_unit_test(verify_sees_damage),
        cmocka_unit_test(memory_is_reused),
        cmocka_unit_test(memory_keeps_what_is_needed),
        cmocka_unit_test(memory_of_a_layer),
        cmocka_unit_test(golden_dumps),
        cmocka_unit_test(json_is_json),
        cmocka_unit_test(stream_that_fails),
        cmocka_unit_test(statuses_have_texts),
        cmocka_unit_test(text_in_a_comma_locale),
        cmocka_unit_test(numbers_read_as_written),
        cmocka_unit_test(made_up_names_give_way),
        cmocka_unit_test(names_have_a_limit),
        cmocka_unit_test(symbols_have_bare_names),
        cmocka_unit_test(views_have_a_limit),
        cmocka_unit_test(scalars_can_be_permuted),
        cmocka_unit_test(reads_stay_before_writes),
        cmocka_unit_test(fuses_only_what_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
