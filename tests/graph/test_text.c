/* The text form of a graph: printing, parsing, and what is refused. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <locale.h>
#include <math.h>

#include "graph/cases/cases.h"
#include "graph/text/text.h"
#include "graph_text.h"

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

#define ATTENTION_TEXT "input x f32 [1, 2, 4, 8]\n"
#define ROPE_TEXT "input x f32 [1, 1, 1, 2]\ninput f f32 [1]\ny = rope(x, f) "

static void text_refuses(void **state)
{
    (void)state;
    static const bad_text bad[] = {
        {"", "no output", CLEF_E_FORMAT},
        {"clef-graph 2\n", "version 2", CLEF_E_UNSUPPORTED},
        {"clef-graph x\n", "integer", CLEF_E_FORMAT},
        {"input x f32 [2\n", "']'", CLEF_E_FORMAT},
        {"input x f33 [2]\n", "'f33' is not a dtype", CLEF_E_FORMAT},
        {"input x f32 [T]\n", "'T' is not a declared symbol", CLEF_E_FORMAT},
        {"input x f32 [0]\n", "integer from 1", CLEF_E_FORMAT},
        {"input x f32 [1, 2, 3, 4, 5]\n", "more than 4 dims", CLEF_E_FORMAT},
        {"input x f32 [99999999999]\n", "integer from 1", CLEF_E_FORMAT},
        {"input x f32 [2000000000, 2000000000]\n", "too large", CLEF_E_LIMIT},
        {"weight x q8_0 [3, 33]\n", "whole blocks of 32", CLEF_E_SHAPE},
        {"symbol T <= 0\n", "integer from 1", CLEF_E_FORMAT},
        {"symbol T <= 4\nsymbol T <= 4\n", "declared twice", CLEF_E_FORMAT},
        {"symbol T <= 4\nstate s f32 [T]\n", "state s", CLEF_E_SHAPE},
        {"input x f32 [2]\ninput x f32 [2]\n", "'x' already exists", CLEF_E_FORMAT},
        {"const c f32 [3] = 1, 2\n", "expected ','", CLEF_E_FORMAT},
        {"const c f32 [2] = 1, two\n", "'two'", CLEF_E_FORMAT},
        {"const c f16 [1] = 1\n", "expected f32 or i32", CLEF_E_ARG},
        {"const c f32 [2000000000] = 1\n", "more elements", CLEF_E_SHAPE},
        {"y = nosuch(x)\n", "'nosuch' is not an op", CLEF_E_FORMAT},
        {"y = gelu(x)\n", "no value called 'x'", CLEF_E_FORMAT},
        {"input x f32 [2]\ny = gelu(x, x)\n", "at most 1", CLEF_E_ARG},
        {"input x f32 [2]\ny = gelu(_)\n", "input 0 is missing", CLEF_E_ARG},
        {"input x i32 [2]\ny = gelu(x)\n", "is i32, expected f32", CLEF_E_SHAPE},
        {"input x f32 [2]\ny = softmax(x) nosuch=1\n", "causal, window, log, got 'nosuch'", CLEF_E_FORMAT},
        {ROPE_TEXT "interleaved=1\n", "attributes pairing, scale, inverse, got 'interleaved'", CLEF_E_FORMAT},
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
        {STATE_TEXT "p = slice(s) axis=2 start=1 size=1\nw = cache_write(s, p)\n", "a part of the state",
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
        {ATTENTION_TEXT "input f i32 [1, 4]\ny = attention(x, x, x, _, _, _, _, _, f)\n",
         "first: expected causal=1 and no pages, came causal=0", CLEF_E_ARG},
        {ATTENTION_TEXT "input f i32 [1, 3]\ny = attention(x, x, x, _, _, _, _, _, f) causal=1\n",
         "first [1, 3] is not [B, T] of q [1, 2, 4, 8]", CLEF_E_SHAPE},
        {ATTENTION_TEXT "y = attention_grad(x, x, x, x, x)\n",
         "out [1, 2, 4, 8], expected [1, 4, 2, 8] as attention's result", CLEF_E_SHAPE},
        {"symbol T <= 4\ninput x f32 [1, 1, T, 8]\ny = attention(x, x, x)\nz = attention_grad(x, x, x, y, "
         "y)\n",
         "x [1, 1, T, 8]: expected numbers as sizes", CLEF_E_SHAPE},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(text_round_trip_of_cases),
        cmocka_unit_test(cases_text),
        cmocka_unit_test(text_refuses),
        cmocka_unit_test(text_in_a_comma_locale),
        cmocka_unit_test(numbers_read_as_written),
        cmocka_unit_test(text_cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
