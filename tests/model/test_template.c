/* Chat templates: the language beside what Jinja 3.1.6 makes of the same sources (scripts/template-cases),
 * which bytes came from a message, and templates when memory is short. */
#define TEST_NAME "template"
#include "tests/files.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/template.h"
#include "tests/check.h"
#include "tests/failing_alloc.h"

enum { MAX_ARGS = 32 };

/* The conversation: messages, and other variables as JSON. */
static char *messages;
static clef_template_arg args[MAX_ARGS];
static int n_args;

static json_t *load(const char *name)
{
    char path[600];
    json_error_t why;
    snprintf(path, sizeof path, "%s/tests/fixtures/%s", CLEF_SOURCE_DIR, name);
    json_t *root = json_load_file(path, 0, &why);
    if (!root)
        fail_msg("%s: %s", path, why.text);
    return root;
}

static int read_talk(void **state)
{
    make_temp_dir(state);
    static json_t *talk; /* its keys are borrowed */
    const char *key;
    json_t *value;
    talk = load("template_talk.json");
    json_object_foreach(talk, key, value) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        if (strcmp(key, "messages") == 0)
            messages = text;
        else
            args[n_args++] = (clef_template_arg){.name = key, .json = text};
    }
    return 0;
}

static clef_status render(const char *source, clef_rendered *out, clef_error *err)
{
    clef_template *tpl;
    *out = (clef_rendered){0};
    clef_status s = clef_template_parse(source, strlen(source), "test", &tpl, err);
    if (!s)
        s = clef_template_render(tpl,
                                 &(clef_template_opts){.messages = messages,
                                                       .messages_bytes = strlen(messages),
                                                       .args = args,
                                                       .n_args = n_args,
                                                       .date = "2026-01-02"},
                                 out, err);
    clef_template_destroy(tpl);
    return s;
}

static void test_cases(void **state)
{
    (void)state;
    json_t *cases = load("template_cases.json");
    assert_true(json_array_size(cases) > 100);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const char *source = json_string_value(json_object_get(json_array_get(cases, i), "source")),
                   *want = json_string_value(json_object_get(json_array_get(cases, i), "want"));
        clef_error err = {.text = ""};
        clef_rendered text;
        const clef_status s = render(source, &text, &err);
        if (want ? s || strcmp(text.text, want) != 0 : !s)
            fail_msg("%s\nwant: %s\ngot:  %s%s", source, want ? want : "an error", text.text ? text.text : "",
                     err.text);
        clef_rendered_finish(&text);
    }
    json_decref(cases);
}

/* The bytes that came from messages, the others as dots. */
static void from_messages(const char *source, char out[200])
{
    clef_error err;
    clef_rendered text;
    ok(render(source, &text, &err), &err);
    size_t n = 0;
    for (int32_t i = 0; i < text.n_parts; i++) {
        assert_int_equal(text.parts[i].begin, n);
        for (; n < text.parts[i].end; n++)
            out[n] = text.parts[i].from_message ? text.text[n] : '.';
    }
    assert_int_equal(n, text.n_bytes);
    out[n] = '\0';
    clef_rendered_finish(&text);
}

static void test_marks(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"<{{ messages[0].role }}>", ".user."},
        {"{{ 'a' + messages[0].role + 'b' }}", ".user."},
        {"{{ (messages[0].role ~ 'xyz')[2:6] }}", "er.."},
        {"{{ messages[0].role | upper }}", "USER"},
        {"{{ (messages[0].role + 'xx').replace('x', 'y') }}", "user.."},
        {"{{ 'abc'.replace('b', messages[0].role) }}", ".user."},
        {"{{ [messages[0].role, 'x'] | join('-') }}", "user.."},
        {"{{ messages[0].role | tojson }}", ".user."},
        {"{{ [messages[0].role] }}", "..user.."},
        {"{% set x %}a{{ messages[0].role }}{% endset %}{{ x | trim }}", ".user"},
        {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(messages[0].role) }}", ".user."},
        {"{{ '%s!' % messages[0].role }}", "user."},
        {"{{ '%5s|%.2s' % (messages[0].role, messages[0].role) }}", ".user.us"},
        {"{{ '{:>6}{0}'.replace('{0}', '{}').format(messages[0].role, 1) }}", "..user."},
        {"{{ messages[0].role.split('s')[1] }}", "er"},
        {"{{ messages[0].role | reverse }}", "resu"},
        {"{% for c in messages[0].role %}{{ c }},{% endfor %}", "u.s.e.r."},
        {"{{ messages[0].role | title | indent(2, true) }}", "..User"},
        {"{{ (' ' ~ messages[0].role ~ ' ') | trim }}", "user"},
    };
    char got[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        from_messages(cases[i][0], got);
        if (strcmp(got, cases[i][1]) != 0)
            fail_msg("%s: want %s, got %s", cases[i][0], cases[i][1], got);
    }
}

static void test_memory(void **state)
{
    (void)state;
#if defined(_WIN32)
    skip(); /* there the C library is part of the program, and its printf() would run out of memory too */
#endif
    static const char source[] = "{% macro m(a, b=1) %}[{{ a }}{{ b }}]{% endmacro %}{% set ns = "
                                 "namespace(x='') %}{% for k in messages %}"
                                 "{% set ns.x = ns.x ~ k.role ~ (k | tojson(indent=1)) %}{{ m(k.role | "
                                 "upper, b=loop.index) }}{% endfor %}"
                                 "{{ ns.x.split('s') | map('trim') | list | sort }}{{ 'y' * 70000 }}";
    clef_error err;
    clef_rendered text;
    clef_status s = CLEF_E_NOMEM;
    int k = 0;
    while (s) {
        n_allocations = 0;
        fail_allocation = ++k;
        s = render(source, &text, &err);
        fail_allocation = 0;
        if (s)
            assert_int_equal(s, CLEF_E_NOMEM);
        clef_rendered_finish(&text);
    }
    assert_in_range(k, 6, 200);
}

/* What Jinja has and clef does not is an error that names it. */
static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{{ l | random }}", "random"},
        {"{{ ('x' * 100) | pprint }}", "pprint"},
        {"{{ 'a.b' | urlize }}", "urlize"},
        {"{{ 'a-b' | wordwrap(1) }}", "hyphens"},
        {"{% block a %}{% endblock %}", "block"},
        {"{% autoescape true %}{% endautoescape %}", "autoescape"},
        {"{{ 2 ** 64 }}", "64 bits"},
        {"{{ 9223372036854775807 + 1 }}", "64 bits"},
        {"{{ 12345678901234567890 * 2 }}", "64 bits"},
        {"{{ '\\N{LINEAR B SYLLABLE B008 A}' }}", "LINEAR B SYLLABLE B008 A"},
        {"{{ lipsum() }}", "lipsum"},
        {"{{ 'x'.encode() }}", "encode"},
        {"{% filter length %}abc{% endfilter %}", "a filter block gives int, expected str"},
        {"{% call namespace() %}{% endcall %}", "a call block gives Namespace, expected str"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clef_error err = {.text = ""};
        clef_rendered text;
        if (!render(cases[i][0], &text, &err) || !strstr(err.text, cases[i][1]))
            fail_msg("%s: got '%s%s'", cases[i][0], text.text ? text.text : "", err.text);
    }
}

/* Special tokens are those that transformers takes of the same files. */
static void test_special_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *config, *map, *want;
    } cases[] = {
        {"{\"bos_token\":\"<b>\",\"eos_token\":{\"content\":\"<e>\"}}", NULL, "<b><e>"},
        {"{\"bos_token\":\"<b>\"}", "{\"bos_token\":\"<map>\",\"eos_token\":\"<e>\"}", "<map><e>"},
        {"{\"bos_token\":\"<b>\",\"added_tokens_decoder\":{}}",
         "{\"bos_token\":\"<map>\",\"eos_token\":\"<e>\"}", "<b>"},
        {NULL, "{\"eos_token\":{\"content\":\"<e>\"}}", "<e>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clef_error err = {.text = ""};
        clef_template *tpl = NULL;
        clef_rendered text = {0};
        if (cases[i].config)
            write_text(temp_path("tokenizer_config.json"), cases[i].config);
        if (cases[i].map)
            write_text(temp_path("special_tokens_map.json"), cases[i].map);
        ok(clef_template_parse("{{ bos_token }}{{ eos_token }}", 30, "t", &tpl, &err), &err);
        const clef_template_opts opts = {.messages = "[]", .messages_bytes = 2, .model = temp_dir};
        ok(clef_template_render(tpl, &opts, &text, &err), &err);
        assert_string_equal(text.text, cases[i].want);
        clef_rendered_finish(&text);
        clef_template_destroy(tpl);
        clef__os_remove(temp_path("tokenizer_config.json"));
        clef__os_remove(temp_path("special_tokens_map.json"));
    }
}

static void test_errors(void **state)
{
    (void)state;
    clef_error err;
    clef_template *tpl;
    clef_rendered text;
    ok(clef_template_parse("x", 1, "t", &tpl, &err), &err);
    static const struct {
        const char *messages, *tools, *date, *words;
        clef_status status;
    } cases[] = {
        {"{}", NULL, NULL, "messages", CLEF_E_FORMAT},
        {"[1]", NULL, NULL, "item 0", CLEF_E_FORMAT},
        {"[", NULL, NULL, "messages", CLEF_E_FORMAT},
        {"[]", "{}", NULL, "tools", CLEF_E_FORMAT},
        {"[]", NULL, "2026-1-1", "YYYY-MM-DD", CLEF_E_ARG},
        {"[]", NULL, "20260101xx", "YYYY-MM-DD", CLEF_E_ARG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const clef_template_opts opts = {.messages = cases[i].messages,
                                         .messages_bytes = strlen(cases[i].messages),
                                         .tools = cases[i].tools,
                                         .tools_bytes = cases[i].tools ? strlen(cases[i].tools) : 0,
                                         .date = cases[i].date};
        assert_int_equal(clef_template_render(tpl, &opts, &text, &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].words));
    }
    clef_template_destroy(tpl);
    assert_int_equal(clef_template_parse("\xFF", 1, "t", &tpl, &err), CLEF_E_FORMAT);
    assert_int_equal(clef_template_open(NULL, "nothing", 0, &tpl, &err), CLEF_E_NOT_FOUND);
    assert_int_equal(clef_template_open(NULL, NULL, 0, &tpl, &err), CLEF_E_NOT_FOUND);
    clef_template_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),   cmocka_unit_test(test_marks),          cmocka_unit_test(test_memory),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_special_tokens), cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, read_talk, remove_temp_dir);
}
