/* Constraints on tool calls: what each format allows, what it rejects, and that the reader of messages finds
 * in what is allowed the calls that were written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clef/clef.h"
#include "tests/check.h"

/* U+FF5C and U+2581 are part of DeepSeek's tags. */
#define BAR "\xEF\xBD\x9C"
#define LOW "\xE2\x96\x81"
#define BEGIN "<" BAR "tool" LOW "calls" LOW "begin" BAR ">"
#define OPEN "<" BAR "tool" LOW "call" LOW "begin" BAR ">"
#define SEP "<" BAR "tool" LOW "sep" BAR ">"
#define CLOSE "<" BAR "tool" LOW "call" LOW "end" BAR ">"
#define END "<" BAR "tool" LOW "calls" LOW "end" BAR ">"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{"
    "\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\",\"minimum\":1}},\"required\":[\"city\"],"
    "\"additionalProperties\":false}}},{\"type\":\"function\",\"function\":{\"name\":\"noop\"}}]";

typedef struct example {
    clef_tool_format format;
    const char *text, *calls; /* calls: as the reader gives them, "name arguments\n" */
} example;

#define WEATHER "weather {\"city\": \"Paris\", \"days\": 3}\n"

static const example examples[] = {
    {CLEF_TOOLS_HERMES,
     "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 3}}\n</tool_call>",
     WEATHER},
    {CLEF_TOOLS_HERMES,
     "<tool_call>\n{\"name\": \"noop\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"noop\", "
     "\"arguments\": {}}\n</tool_call>",
     "noop {}\nnoop {}\n"},
    {CLEF_TOOLS_LLAMA3, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Paris\", \"days\": 3}}",
     WEATHER},
    {CLEF_TOOLS_MISTRAL, "[TOOL_CALLS]weather[ARGS]{\"city\": \"Paris\", \"days\": 3}", WEATHER},
    {CLEF_TOOLS_MISTRAL,
     "[TOOL_CALLS][{\"name\": \"noop\", \"arguments\": {}}, {\"name\": \"noop\", \"arguments\": {}}]",
     "noop {}\nnoop {}\n"},
    {CLEF_TOOLS_QWEN_CODER,
     "<tool_call>\n<function=weather>\n<parameter=city>\nNew \"York\"\n</parameter>\n<parameter=days>\n3\n"
     "</parameter>\n</function>\n</tool_call>",
     "weather {\"city\": \"New \\\"York\\\"\", \"days\": 3}\n"},
    {CLEF_TOOLS_QWEN_CODER, "<tool_call>\n<function=noop>\n</function>\n</tool_call>", "noop {}\n"},
    {CLEF_TOOLS_GEMMA4, "<|tool_call>call:weather{city:<|\"|>New \"York\"<|\"|>,days:3}<tool_call|>",
     "weather {\"city\": \"New \\\"York\\\"\", \"days\": 3}\n"},
    {CLEF_TOOLS_GEMMA4, "<|tool_call>call:noop{}<tool_call|><|tool_call>call:noop{}<tool_call|>",
     "noop {}\nnoop {}\n"},
    {CLEF_TOOLS_HARMONY,
     "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Paris\", \"days\": "
     "3}",
     WEATHER},
    {CLEF_TOOLS_HARMONY,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.noop "
     "<|constrain|>json<|message|>{}",
     "noop {}\n"},
    {CLEF_TOOLS_GRANITE,
     "<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 3}}]", WEATHER},
    {CLEF_TOOLS_COMMAND_R,
     "Action: ```json\n[{\"tool_name\": \"weather\", \"parameters\": {\"city\": \"Paris\", \"days\": "
     "3}}]\n```",
     WEATHER},
    {CLEF_TOOLS_COMMAND_R, "<|START_ACTION|>[{\"tool_name\": \"noop\", \"parameters\": {}}]<|END_ACTION|>",
     "noop {}\n"},
    {CLEF_TOOLS_DEEPSEEK, BEGIN OPEN "weather" SEP "{\"city\": \"Paris\", \"days\": 3}" CLOSE END, WEATHER},
    {CLEF_TOOLS_DEEPSEEK, BEGIN OPEN "function" SEP "noop\n```json\n{}\n```" CLOSE END, "noop {}\n"},
    {CLEF_TOOLS_PHI4, "<|tool_call|>[{\"name\": \"noop\", \"arguments\": {}}]<|/tool_call|>", "noop {}\n"},
    {CLEF_TOOLS_JSON,
     "{\"tool_calls\": [{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 3}}]}",
     WEATHER},
};

static clef_constraint *make(clef_tool_format format, clef_tool_choice choice, const char *name)
{
    clef_constraint *c = NULL;
    char *warnings = NULL;
    clef_error err = {0};
    const clef_tool_constraint_opts opts = {.format = format,
                                            .tools = tools,
                                            .tools_bytes = sizeof tools - 1,
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

static void read_back(const example *e)
{
    clef_reply_reader *reader = NULL;
    clef_error err = {0};
    char came[1024] = "", wanted[1024] = "";
    ok(clef_reply_reader_create(
           &(clef_reply_opts){.format = e->format, .tools = tools, .tools_bytes = sizeof tools - 1}, &reader,
           &err),
       &err);
    ok(clef_reply_read(reader, e->text, strlen(e->text), note_call, came, &err), &err);
    ok(clef_reply_end(reader, note_call, came, &err), &err);
    clef_reply_reader_destroy(reader);
    for (const char *line = e->calls, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        const char *space = strchr(line, ' ');
        char one[512];
        snprintf(one, sizeof one, "%.*s", (int)(end - space - 1), space + 1);
        strncat(wanted, line, (size_t)(space + 1 - line));
        add_compact(wanted, one);
        strcat(wanted, "\n");
    }
    assert_string_equal(came, wanted);
}

static void test_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *e = &examples[i];
        for (int choice = CLEF_TOOL_CHOICE_AUTO; choice <= CLEF_TOOL_CHOICE_REQUIRED; choice++) {
            clef_constraint *c = make(e->format, (clef_tool_choice)choice, NULL);
            int ends;
            const size_t n = read_text(c, e->text, &ends);
            if (n < strlen(e->text) || !ends)
                fail_msg("%s: %s: %zu bytes allowed", clef_tool_format_name(e->format), e->text, n);
            clef_constraint_destroy(c);
        }
        read_back(e);
    }
}

static void test_rejected(void **state)
{
    int ends;
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        clef_constraint *c = make(examples[i].format, CLEF_TOOL_CHOICE_REQUIRED, NULL);
        assert_true(read_text(c, "Hello", &ends) < 5);
        clef_constraint_destroy(c);
        c = make(examples[i].format, CLEF_TOOL_CHOICE_AUTO, NULL);
        assert_int_equal(read_text(c, "Hello, [world].", &ends), 15);
        assert_true(ends);
        clef_constraint_destroy(c);
    }
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

static void test_strict(void **state)
{
    static const char loose[] =
        "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"uniqueItems\":"
        "true},\"b\":{\"pattern\":\"(?=x)\"}}}}}]";
    static const char strict[] =
        "[{\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{\"properties\":{\"a\":{"
        "\"uniqueItems\":true}}}}}]";
    char *warnings = NULL;
    clef_error err = {0};
    (void)state;
    ok(try(CLEF_TOOLS_JSON, loose, NULL, &warnings, &err), &err);
    assert_non_null(warnings);
    assert_non_null(strstr(warnings, "tool f: json schema: /properties/a/uniqueItems: not supported"));
    assert_non_null(strstr(warnings, "/properties/b/pattern"));
    clef_text_free(warnings);
    assert_int_equal(try(CLEF_TOOLS_JSON, strict, NULL, &warnings, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tool f: json schema: /properties/a/uniqueItems"));
    assert_int_equal(try(CLEF_TOOLS_NONE, tools, NULL, &warnings, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "--tool-format"));
    assert_int_equal(try(CLEF_TOOLS_JSON, tools, "other", &warnings, &err), CLEF_E_ARG);
    assert_int_equal(try(CLEF_TOOLS_JSON, "[]", NULL, &warnings, &err), CLEF_E_ARG);
    assert_int_equal(try(CLEF_TOOLS_JSON, "{", NULL, &warnings, &err), CLEF_E_FORMAT);
    assert_int_equal(try(CLEF_TOOLS_JSON, "[{}]", NULL, &warnings, &err), CLEF_E_FORMAT);
}

/* References of a function's schema are its own. */
static void test_references(void **state)
{
    static const char list[] =
        "[{\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{\"$defs\":{\"n\":{\"type\":"
        "\"integer\"}},"
        "\"properties\":{\"x\":{\"$ref\":\"#/$defs/n\"}},\"required\":[\"x\"]}}},"
        "{\"function\":{\"name\":\"g\",\"strict\":true,\"parameters\":{\"$defs\":{\"n\":{\"type\":\"null\"}},"
        "\"properties\":{\"x\":{\"$ref\":\"#/$defs/n\"}},\"required\":[\"x\"]}}}]";
    clef_constraint *c = NULL;
    clef_error err = {0};
    int ends;
    const clef_tool_constraint_opts opts = {.format = CLEF_TOOLS_LLAMA3,
                                            .tools = list,
                                            .tools_bytes = sizeof list - 1,
                                            .choice = CLEF_TOOL_CHOICE_REQUIRED};
    (void)state;
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
static void test_gemma(void **state)
{
    static const char list[] =
        "[{\"function\":{\"name\":\"f\",\"parameters\":{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":"
        "{"
        "\"v\":{\"type\":[\"integer\",\"null\"]},\"a "
        "b\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"},"
        "\"minItems\":1,\"maxItems\":2}},\"required\":[\"v\"],\"additionalProperties\":{\"enum\":[true,\"x\"]"
        "}}},"
        "\"properties\":{\"x\":{\"$ref\":\"#/$defs/t\"},\"y\":{\"type\":\"array\"}},\"required\":[\"x\"]}}}]";
    static const struct {
        const char *text;
        int is_allowed;
    } texts[] = {{"{x:{v:1}}", 1},
                 {"{x:{v:null,<|\"|>a b<|\"|>:[{v:2},{v:3,k:true,l:<|\"|>x<|\"|>}]}}", 1},
                 {"{x:{v:1,k:true},y:[1,<|\"|>z<|\"|>,[],{q:{}}]}", 1},
                 {"{x:{v:1},y:[]}", 1},
                 {"{}", 0},
                 {"{y:[]}", 0},
                 {"{x:{v:1},}", 0},
                 {"{x:{k:true}}", 0},
                 {"{x:{v:1,k:false}}", 0},
                 {"{x:{v:1,<|\"|>a b<|\"|>:[]}}", 0},
                 {"{x:{v:1,<|\"|>a b<|\"|>:[{v:1},{v:1},{v:1}]}}", 0},
                 {"{x:{v:1.5}}", 0},
                 {"{x:{v:1},z:1}", 0}};
    clef_constraint *c = NULL;
    clef_error err = {0};
    const clef_tool_constraint_opts opts = {.format = CLEF_TOOLS_GEMMA4,
                                            .tools = list,
                                            .tools_bytes = sizeof list - 1,
                                            .choice = CLEF_TOOL_CHOICE_REQUIRED};
    (void)state;
    ok(clef_tool_constraint_create(&opts, &c, NULL, &err), &err);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char whole[300];
        int ends;
        snprintf(whole, sizeof whole, "<|tool_call>call:f%s<tool_call|>", texts[i].text);
        read_text(c, whole, &ends);
        if (ends != texts[i].is_allowed)
            fail_msg("%s: allowed %d, expected %d", whole, ends, texts[i].is_allowed);
    }
    clef_constraint_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),   cmocka_unit_test(test_rejected), cmocka_unit_test(test_strict),
        cmocka_unit_test(test_references), cmocka_unit_test(test_gemma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
