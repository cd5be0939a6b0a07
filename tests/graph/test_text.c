/* The text form of a graph: printing, parsing, and what is refused. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <locale.h>
#include <math.h>

#include "graph/cases/cases.h"
#include "graph/text/text.h"
#include "graph_text.h"
#include "tests/cases.h"

TEST(text_round_trip)
{
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
TEST(text_round_trip_of_cases)
{
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

static void refuse_cases(const json_t *c)
{
    clef_op_case *cases = NULL;
    clef_error err = {0};
    check_case(c, clef__cases_parse(case_text(c, "text"), "bad", NULL, &cases, &err), &err);
    assert_null(cases);
}

TEST(cases_text)
{
    static const char good[] =
        "# A comment.\n\n# for n more in 3 \"\"\n#   4 \" scale=2\"\n# ints -1 $n\n# tol 1e-3\n"
        "input x f32 [$n]\ny = $op(x)$more\noutput y\n\n# spread 2\noutput z\n";
    clef_op_case *c = NULL;
    clef_error err = {0};
    assert_int_equal(clef__cases_parse(good, "good", "affine", &c, &err), CLEF_OK);
    assert_string_equal(c[0].graph, "input x f32 [3]\ny = affine(x)\noutput y\n");
    assert_string_equal(c[1].graph, "input x f32 [4]\ny = affine(x) scale=2\noutput y\n");
    assert_true(c[1].int_lo == -1 && c[1].int_hi == 4 && c[1].tol == 1e-3f && c[1].spread == 0);
    assert_true(strcmp(c[2].graph, "output z\n") == 0 && c[2].spread == 2 && !c[3].graph);
    clef__cases_free(c);
    for_each_case("graph_texts.json", "refused_cases", refuse_cases);
}

static void refuse_text(const json_t *c)
{
    clef_graph *g;
    clef_error err = {0};
    const char *text = case_text(c, "text");
    check_case(c, clef_graph_parse(text, strlen(text), "bad.clef", &g, &err), &err);
    if (!strstr(err.text, "bad.clef:") || g)
        fail_case(c, "expected bad.clef: in %s", err.text);
}

TEST(text_refuses)
{
    for_each_case("graph_texts.json", "refused", refuse_text);
}

/* The text is the same in a locale with a decimal comma, if there is one here. */
TEST(text_in_a_comma_locale)
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8",  "fr_FR.UTF-8",
                                         "fr_FR.utf8",  "ru_RU.UTF-8", "nl_NL.UTF-8"};
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

static void refuse_number(const json_t *c)
{
    float x;
    if (clef__read_float(case_text(c, "text"), &x) != 0)
        fail_case(c, "it is read as a number");
}

TEST(numbers_read_as_written)
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
    float x;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (clef__read_float(good[i].text, &x) != 1 || x != good[i].x)
            fail_msg("'%s' is read as %g", good[i].text, (double)x);
    for_each_case("graph_texts.json", "not_numbers", refuse_number);
    assert_int_equal(clef__read_float("nan", &x), 1);
    assert_true(isnan(x));
    assert_int_equal(clef__read_float("1e-46", &x), -1);
    assert_int_equal(clef__read_float("-4e38", &x), -1);
}

/* Cut anywhere, the text is refused or read, never more. */
TEST(text_cut_anywhere)
{
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

TESTS(NULL, NULL)
