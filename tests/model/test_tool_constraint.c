/* Constraints on tool calls: what each format allows, what it rejects, and that the reader of messages finds
 * in what is allowed the calls that were written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/clef.h"
#include "tests/cases.h"

/* The list of tools called so in tests/fixtures/tools.json; it is left to the end of the program. */
static const char *tools_of(const char *name)
{
    static json_t *texts;
    texts = texts ? texts : json_object();
    if (!json_object_get(texts, name)) {
        char *text = json_dumps(case_file("tools.json", name), 0);
        json_object_set_new(texts, name, json_string(text));
        free(text);
    }
    return json_string_value(json_object_get(texts, name));
}

static clef_tool_format format_of(const json_t *c)
{
    clef_error err;
    clef_tool_format format = CLEF_TOOLS_NONE;
    ok(clef_tool_format_find(case_text(c, "format"), &format, &err), &err);
    return format;
}

static clef_constraint *make(clef_tool_format format, clef_tool_choice choice, const char *name)
{
    clef_constraint *c = NULL;
    char *warnings = NULL;
    clef_error err = {0};
    const char *tools = tools_of("constrained_tools");
    const clef_tool_constraint_opts opts = {.format = format,
                                            .tools = tools,
                                            .tools_bytes = strlen(tools),
                                            .choice = choice,
                                            .name = name,
                                            .parallel = 1};
    ok(clef_tool_constraint_create(&opts, &c, &warnings, &err), &err);
    assert_null(warnings);
    return c;
}

/* Bytes of a text that are allowed; *ends: the text may end there. */
static size_t read_text(clef_constraint *c, const char *text, int *ends)
{
    clef_constraint_state state;
    clef_error err = {0};
    size_t n = 0;
    ok(clef_constraint_begin(c, &state, &err), &err);
    ok(clef_constraint_read(c, &state, text, strlen(text), &n, &err), &err);
    *ends = n == strlen(text) && clef_constraint_may_end(c, &state);
    return n;
}

/* Without blanks outside of texts, so that both forms of JSON are the same. */
static void add_compact(char *to, const char *json)
{
    int in_text = 0;
    for (to += strlen(to); *json; json++) {
        if (*json == '"' && json[-1] != '\\')
            in_text = !in_text;
        if (in_text || *json != ' ')
            *to++ = *json;
    }
    *to = '\0';
}

static clef_status note_call(void *user, const clef_reply_part *part)
{
    char *calls = user;
    if (part->kind != CLEF_REPLY_CALL)
        return CLEF_OK;
    strcat(strcat(calls, part->call.name), " ");
    add_compact(calls, part->call.arguments);
    strcat(calls, "\n");
    return CLEF_OK;
}

static void read_back(const json_t *c)
{
    const char *tools = tools_of("constrained_tools"), *text = case_text(c, "text");
    clef_reply_reader *reader = NULL;
    clef_error err = {0};
    char got[1024] = "", wanted[1024] = "";
    ok(clef_reply_reader_create(
           &(clef_reply_opts){.format = format_of(c), .tools = tools, .tools_bytes = strlen(tools)}, &reader,
           &err),
       &err);
    ok(clef_reply_read(reader, text, strlen(text), note_call, got, &err), &err);
    ok(clef_reply_end(reader, note_call, got, &err), &err);
    clef_reply_reader_destroy(reader);
    for (const char *line = case_text(c, "calls"), *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        const char *space = strchr(line, ' ');
        char one[512];
        snprintf(one, sizeof one, "%.*s", (int)(end - space - 1), space + 1);
        strncat(wanted, line, (size_t)(space + 1 - line));
        add_compact(wanted, one);
        strcat(wanted, "\n");
    }
    assert_string_equal(got, wanted);
}

static void check_allowed(const json_t *c)
{
    const char *text = case_text(c, "text");
    for (int choice = CLEF_TOOL_CHOICE_AUTO; choice <= CLEF_TOOL_CHOICE_REQUIRED; choice++) {
        clef_constraint *made = make(format_of(c), (clef_tool_choice)choice, NULL);
        int ends;
        const size_t n = read_text(made, text, &ends);
        if (n < strlen(text) || !ends)
            fail_case(c, "%zu bytes are allowed", n);
        clef_constraint_destroy(made);
    }
    read_back(c);
}

static void check_rejected(const json_t *of)
{
    int ends;
    clef_constraint *c = make(format_of(of), CLEF_TOOL_CHOICE_REQUIRED, NULL);
    assert_true(read_text(c, "Hello", &ends) < 5);
    clef_constraint_destroy(c);
    c = make(format_of(of), CLEF_TOOL_CHOICE_AUTO, NULL);
    assert_int_equal(read_text(c, "Hello, [world].", &ends), 15);
    assert_true(ends);
    clef_constraint_destroy(c);
}

static void check_both(const json_t *of)
{
    check_allowed(of);
    check_rejected(of);
}

TEST(test_allowed_and_rejected)
{
    for_each_case("tools.json", "constrained", check_both);
}

TEST(test_rejected)
{
    int ends;
    clef_constraint *c = make(CLEF_TOOLS_HERMES, CLEF_TOOL_CHOICE_NAMED, "noop");
    assert_int_equal(read_text(c, "<tool_call>\n{\"name\": \"weather", &ends), 22);
    clef_constraint_destroy(c);
    c = make(CLEF_TOOLS_HERMES, CLEF_TOOL_CHOICE_AUTO, NULL);
    assert_int_equal(read_text(c, "a <tool_call>b", &ends), 13);
    assert_false(ends);
    read_text(c, "a <tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>", &ends);
    assert_false(ends); /* the city is missing */
    clef_constraint_destroy(c);
}

TEST(test_white_space_around_arguments)
{
    int ends;
    clef_constraint *c = make(CLEF_TOOLS_HERMES, CLEF_TOOL_CHOICE_NAMED, "noop");
    read_text(c, "<tool_call>\n{\n        \"name\": \"noop\",\n\t\"arguments\": {}\n}\n</tool_call>", &ends);
    assert_true(ends);
    assert_int_equal(read_text(c, "<tool_call>\n{\n\n", &ends), 14);
    assert_int_equal(read_text(c, "<tool_call>\n{\n          ", &ends), 22);
    assert_int_equal(read_text(c, "<tool_call>\n{\"name\"\n", &ends), 19);
    assert_int_equal(read_text(c, "<tool_call>\n{\"name\":  ", &ends), 21);
    clef_constraint_destroy(c);
}

static clef_status try(clef_tool_format format, const char *list, const char *name, char **warnings,
                       clef_error *err)
{
    clef_constraint *c = NULL;
    const clef_tool_constraint_opts opts = {.format = format,
                                            .tools = list,
                                            .tools_bytes = strlen(list),
                                            .choice = name ? CLEF_TOOL_CHOICE_NAMED : CLEF_TOOL_CHOICE_AUTO,
                                            .name = name};
    const clef_status s = clef_tool_constraint_create(&opts, &c, warnings, err);
    clef_constraint_destroy(c);
    return s;
}

TEST(test_strict)
{
    static const char loose[] =
        "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"uniqueItems\":"
        "true},\"b\":{\"pattern\":\"(?=x)\"}}}}}]";
    static const char strict[] =
        "[{\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{\"properties\":{\"a\":{"
        "\"uniqueItems\":true}}}}}]";
    char *warnings = NULL;
    clef_error err = {0};
    ok(try(CLEF_TOOLS_JSON, loose, NULL, &warnings, &err), &err);
    assert_non_null(warnings);
    assert_non_null(strstr(warnings, "tool f: json schema: /properties/a/uniqueItems: not supported"));
    assert_non_null(strstr(warnings, "/properties/b/pattern"));
    clef_text_free(warnings);
    assert_int_equal(try(CLEF_TOOLS_JSON, strict, NULL, &warnings, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tool f: json schema: /properties/a/uniqueItems"));
    assert_int_equal(try(CLEF_TOOLS_NONE, tools_of("constrained_tools"), NULL, &warnings, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "--tool-format"));
    assert_int_equal(try(CLEF_TOOLS_JSON, tools_of("constrained_tools"), "other", &warnings, &err),
                     CLEF_E_ARG);
    assert_int_equal(try(CLEF_TOOLS_JSON, "[]", NULL, &warnings, &err), CLEF_E_ARG);
    assert_int_equal(try(CLEF_TOOLS_JSON, "{", NULL, &warnings, &err), CLEF_E_FORMAT);
    assert_int_equal(try(CLEF_TOOLS_JSON, "[{}]", NULL, &warnings, &err), CLEF_E_FORMAT);
}

/* References of a function's schema are its own. */
TEST(test_references)
{
    const char *list = tools_of("referring_tools");
    clef_constraint *c = NULL;
    clef_error err = {0};
    int ends;
    const clef_tool_constraint_opts opts = {.format = CLEF_TOOLS_LLAMA3,
                                            .tools = list,
                                            .tools_bytes = strlen(list),
                                            .choice = CLEF_TOOL_CHOICE_REQUIRED};
    ok(clef_tool_constraint_create(&opts, &c, NULL, &err), &err);
    read_text(c, "{\"name\": \"f\", \"parameters\": {\"x\": 1}}", &ends);
    assert_true(ends);
    read_text(c, "{\"name\": \"g\", \"parameters\": {\"x\": null}}", &ends);
    assert_true(ends);
    read_text(c, "{\"name\": \"g\", \"parameters\": {\"x\": 1}}", &ends);
    assert_false(ends);
    clef_constraint_destroy(c);
}

/* Values within values, as Gemma 4 writes them. */
static void check_gemma(const json_t *of)
{
    const char *list = tools_of("gemma_tools");
    clef_constraint *c = NULL;
    clef_error err = {0};
    char whole[300];
    int ends;
    const clef_tool_constraint_opts opts = {.format = CLEF_TOOLS_GEMMA4,
                                            .tools = list,
                                            .tools_bytes = strlen(list),
                                            .choice = CLEF_TOOL_CHOICE_REQUIRED};
    ok(clef_tool_constraint_create(&opts, &c, NULL, &err), &err);
    snprintf(whole, sizeof whole, "<|tool_call>call:f%s<tool_call|>", case_text(of, "text"));
    read_text(c, whole, &ends);
    if (ends != (int)case_number(of, "is_allowed", 0))
        fail_case(of, "allowed %d", ends);
    clef_constraint_destroy(c);
}

TEST(test_gemma)
{
    for_each_case("tools.json", "gemma", check_gemma);
}

TESTS(NULL, NULL)
