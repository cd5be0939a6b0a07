/* Chat templates: the language beside what Jinja 3.1.6 makes of the same sources (scripts/template-cases),
 * which bytes came from a message, and templates when memory is short. */
#define TEST_NAME "template"
#include "tests/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/template.h"
#include "tests/cases.h"
#include "tests/failing_alloc.h"

enum { MAX_ARGS = 32 };

/* The conversation: messages, and other variables as JSON. */
static char *messages;
static clef_template_arg args[MAX_ARGS];
static int n_args;

static int read_talk(void **state)
{
    make_temp_dir(state);
    json_t *talk = (json_t *)(uintptr_t)case_file("template_talk.json", NULL); /* its keys are borrowed */
    const char *key;
    json_t *value;
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

static void check_source(const json_t *c)
{
    const char *source = case_text(c, "source"), *want = case_text(c, "want");
    clef_error err = {.text = ""};
    clef_rendered text;
    const clef_status s = render(source, &text, &err);
    if (want ? s || strcmp(text.text, want) != 0 : !s)
        fail_case(c, "got: %s%s", text.text ? text.text : "", err.text);
    clef_rendered_finish(&text);
}

TEST(test_sources)
{
    for_each_case("template_cases.json", NULL, check_source);
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

static void check_marks(const json_t *c)
{
    char got[200];
    from_messages(case_text(c, "source"), got);
    if (strcmp(got, case_text(c, "want")) != 0)
        fail_case(c, "got %s", got);
}

TEST(test_marks)
{
    for_each_case("templates.json", "marks", check_marks);
}

TEST(test_memory)
{
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
static void check_refused(const json_t *c)
{
    clef_error err = {.text = ""};
    clef_rendered text;
    if (!render(case_text(c, "source"), &text, &err) || !strstr(err.text, case_text(c, "piece")))
        fail_case(c, "got '%s%s'", text.text ? text.text : "", err.text);
}

TEST(test_refused)
{
    for_each_case("templates.json", "refused", check_refused);
}

static void write_member(const json_t *c, const char *key, const char *file)
{
    const json_t *value = case_value(c, key);
    if (!value)
        return;
    char *text = json_dumps(value, 0);
    write_text(temp_path(file), text);
    free(text);
}

/* Special tokens are those that transformers takes of the same files. */
static void check_special_tokens(const json_t *c)
{
    clef_error err = {.text = ""};
    clef_template *tpl = NULL;
    clef_rendered text = {0};
    write_member(c, "config", "tokenizer_config.json");
    write_member(c, "map", "special_tokens_map.json");
    ok(clef_template_parse("{{ bos_token }}{{ eos_token }}", 30, "t", &tpl, &err), &err);
    const clef_template_opts opts = {.messages = "[]", .messages_bytes = 2, .model = temp_dir};
    ok(clef_template_render(tpl, &opts, &text, &err), &err);
    assert_string_equal(text.text, case_text(c, "want"));
    clef_rendered_finish(&text);
    clef_template_destroy(tpl);
    clef__os_remove(temp_path("tokenizer_config.json"));
    clef__os_remove(temp_path("special_tokens_map.json"));
}

TEST(test_special_tokens)
{
    for_each_case("templates.json", "special_tokens", check_special_tokens);
}

static void check_arguments(const json_t *c)
{
    clef_error err = {0};
    clef_template *tpl;
    clef_rendered text;
    const char *list = case_text(c, "messages"), *tools = case_text(c, "tools");
    const clef_template_opts opts = {.messages = list,
                                     .messages_bytes = strlen(list),
                                     .tools = tools,
                                     .tools_bytes = tools ? strlen(tools) : 0,
                                     .date = case_text(c, "date")};
    ok(clef_template_parse("x", 1, "t", &tpl, &err), &err);
    check_case(c, clef_template_render(tpl, &opts, &text, &err), &err);
    clef_template_destroy(tpl);
}

TEST(test_errors)
{
    clef_error err;
    clef_template *tpl;
    for_each_case("templates.json", "refused_arguments", check_arguments);
    assert_int_equal(clef_template_parse("\xFF", 1, "t", &tpl, &err), CLEF_E_FORMAT);
    assert_int_equal(clef_template_open(NULL, "nothing", 0, &tpl, &err), CLEF_E_NOT_FOUND);
    assert_int_equal(clef_template_open(NULL, NULL, 0, &tpl, &err), CLEF_E_NOT_FOUND);
    clef_template_destroy(NULL);
}

TESTS(read_talk, remove_temp_dir)
