/* Messages with tool calls in every format, read whole and cut at every byte. The examples are written after
 * what the models' chat templates and cards show (docs/tools.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/tools.h"
#include "tests/check.h"
#include "tests/failing_alloc.h"

/* ---- reading ---------------------------------------------------------------------------------- */

/* What was given, as text: reasoning and content are joined; each call is "id NAME ARGUMENTS\n". */
typedef struct message {
    char reasoning[4096], content[4096], calls[4096];
} message;

static void append(char to[4096], const char *text, size_t n)
{
    const size_t at = strlen(to);
    assert_true(at + n < 4096);
    memcpy(to + at, text, n);
    to[at + n] = '\0';
}

static clef_status keep(void *user, const clef_reply_part *part)
{
    message *m = user;
    if (part->kind == CLEF_REPLY_REASONING)
        append(m->reasoning, part->text, part->n_bytes);
    if (part->kind == CLEF_REPLY_CONTENT)
        append(m->content, part->text, part->n_bytes);
    if (part->kind == CLEF_REPLY_CALL) {
        char line[4096];
        const int n =
            snprintf(line, sizeof line, "%s %s %s\n", part->call.id, part->call.name, part->call.arguments);
        append(m->calls, line, (size_t)n);
    }
    return CLEF_OK;
}

/* Reads a text in pieces: up to `cut`, then of `size` bytes. */
static clef_status read_pieces(const clef_reply_opts *opts, const char *text, size_t n, size_t cut,
                               size_t size, message *out, clef_error *err)
{
    clef_reply_reader *r;
    *out = (message){0};
    clef_status s = clef_reply_reader_create(opts, &r, err);
    if (s)
        return s;
    s = clef_reply_read(r, text, cut, keep, out, err);
    for (size_t at = cut; at < n && !s; at += size) {
        char *piece = __real_malloc(size); /* of its own, so that reading beyond it is seen */
        const size_t length = n - at < size ? n - at : size;
        memcpy(piece, text + at, length);
        s = clef_reply_read(r, piece, length, keep, out, err);
        free(piece);
    }
    if (!s)
        s = clef_reply_end(r, keep, out, err);
    clef_reply_reader_destroy(r);
    return s;
}

/* ---- examples --------------------------------------------------------------------------------- */

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\","
    "\"properties\": {\"city\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\"}, \"zip\": "
    "{\"type\": "
    "[\"string\", \"null\"]}, \"exact\": {\"type\": \"boolean\"}, \"near\": {\"type\": \"object\"}}}}},"
    "{\"type\": \"function\", \"function\": {\"name\": \"noop\", \"parameters\": {}}}]";

typedef struct example {
    clef_tool_format format;
    int starts_thinking;
    const char *text, *reasoning, *content, *calls;
} example;

#define BAR "\xEF\xBD\x9C"
#define LOW "\xE2\x96\x81"
#define DS(name) "<" BAR "tool" LOW name BAR ">"

static const example examples[] = {
    {CLEF_TOOLS_NONE, 0, " Hello.\n", "", " Hello.\n", ""},
    {CLEF_TOOLS_NONE, 0, "<think>\nadd <b>\n</think>\n\n4\n", "add <b>", "4\n", ""},
    {CLEF_TOOLS_NONE, 1, "add\n</think>\n\n4", "add", "4", ""},
    {CLEF_TOOLS_NONE, 0, "Tags: <think> and </think>.", "", "Tags: <think> and </think>.", ""},
    {CLEF_TOOLS_NONE, 0, "<think>never ends\n", "never ends", "", ""},
    {CLEF_TOOLS_NONE, 0, "<think>\n\n</think>\n\nHi <thin", "", "Hi <thin", ""},

    {CLEF_TOOLS_HERMES, 0,
     "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Z\xC3\xBCrich\", \"r\": "
     "1.0}}\n</tool_call>",
     "", "", "call00007 weather {\"city\": \"Z\xC3\xBCrich\", \"r\": 1.0}\n"},
    {CLEF_TOOLS_HERMES, 0,
     "<think>\nTwo.\n</think>\n\nI look.\n\n<tool_call>\n{\"name\": \"a\", \"arguments\": "
     "{}}\n</tool_call>\n<tool_call>\n"
     "{\"arguments\": {\"t\": \"</tool_call> }{\\\"\"}, \"name\": \"b\"}\n</tool_call>\n",
     "Two.", "I look.", "call00007 a {}\ncall00008 b {\"t\": \"</tool_call> }{\\\"\"}\n"},
    {CLEF_TOOLS_HERMES, 0, "<tool_call>{\"name\": \"a\", \"arguments\": \"{\\\"x\\\": 1}\"}", "", "",
     "call00007 a {\"x\": 1}\n"},
    {CLEF_TOOLS_HERMES, 0, "See <tool_call> {\"name\": 1} </tool_call> there", "",
     "See <tool_call> {\"name\": 1} </tool_call> there", ""},
    {CLEF_TOOLS_HERMES, 0, "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": ", "",
     "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": ", ""},
    {CLEF_TOOLS_HERMES, 0, "<tool_call><tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call>", "",
     "<tool_call>", "call00007 a {}\n"},

    {CLEF_TOOLS_LLAMA3, 0, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Paris\"}}", "", "",
     "call00007 weather {\"city\": \"Paris\"}\n"},
    {CLEF_TOOLS_LLAMA3, 0,
     "<|python_tag|>{\"name\": \"noop\", \"parameters\": {}}; {\"name\": \"noop\", \"parameters\": {\"a\": "
     "[1]}}",
     "", "", "call00007 noop {}\ncall00008 noop {\"a\": [1]}\n"},
    {CLEF_TOOLS_LLAMA3, 0, "{\"name\": \"Paris\", \"parameters\": {}}", "",
     "{\"name\": \"Paris\", \"parameters\": {}}", ""},
    {CLEF_TOOLS_LLAMA3, 0, "{\"a\": 1} is JSON", "", "{\"a\": 1} is JSON", ""},
    {CLEF_TOOLS_LLAMA3, 0, "As JSON: {\"name\": \"noop\", \"parameters\": {}}", "",
     "As JSON: {\"name\": \"noop\", \"parameters\": {}}", ""},

    {CLEF_TOOLS_MISTRAL, 0,
     "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}, \"id\": \"abcdefghi\"}, "
     "{\"name\": \"noop\", \"arguments\": {}}]",
     "", "", "abcdefghi weather {\"city\": \"Paris\"}\ncall00008 noop {}\n"},
    {CLEF_TOOLS_MISTRAL, 0,
     "[THINK]Hm.[/THINK]I ask.[TOOL_CALLS]weather[ARGS]{\"city\": "
     "\"[TOOL_CALLS]\"}[TOOL_CALLS]noop[CALL_ID]123456789[ARGS]{}",
     "Hm.", "I ask.", "call00007 weather {\"city\": \"[TOOL_CALLS]\"}\n123456789 noop {}\n"},
    {CLEF_TOOLS_MISTRAL, 0, "a [TOOL_CALLS]weather", "", "a [TOOL_CALLS]weather", ""},

    {CLEF_TOOLS_QWEN_CODER, 0,
     "I "
     "do.\n<tool_call>\n<function=weather>\n<parameter=city>\n1\n</parameter>\n<parameter=days>\n3\n</"
     "parameter>\n"
     "<parameter=zip>\n8001\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n<parameter=near>\n{\"a\": "
     "\"<b>\"}\n"
     "</parameter>\n</function>\n</tool_call>",
     "", "I do.",
     "call00007 weather {\"city\": \"1\", \"days\": 3, \"zip\": \"8001\", \"exact\": true, \"near\": {\"a\": "
     "\"<b>\"}}\n"},
    {CLEF_TOOLS_QWEN_CODER, 0,
     "<tool_call>\n<function=write>\n<parameter=text>\nif (a < "
     "b)\n\t\"x\";\n\n</parameter>\n<parameter=n>\n-2.50\n</parameter>\n"
     "</function>\n</tool_call>\n<tool_call>\n<function=noop>\n</function>\n</tool_call>",
     "", "",
     "call00007 write {\"text\": \"if (a < b)\\n\\t\\\"x\\\";\\n\", \"n\": -2.50}\ncall00008 noop {}\n"},
    {CLEF_TOOLS_QWEN_CODER, 0, "<function=noop>\n</function>\n</tool_call>", "", "", "call00007 noop {}\n"},
    {CLEF_TOOLS_QWEN_CODER, 0,
     "<tool_call>\n<function=weather>\n<parameter=city>\nBern\n</function>\n</tool_call>", "",
     "<tool_call>\n<function=weather>\n<parameter=city>\nBern\n</function>\n</tool_call>", ""},

    {CLEF_TOOLS_GEMMA4, 0,
     "<|channel>thought\nI need it.\n<channel|><|tool_call>call:weather{city:<|\"|>Z\xC3\xBCrich, "
     "{a}<|\"|>,days:3,exact:true,"
     "list:[1,<|\"|>b<|\"|>],near:{x:null}}<tool_call|><|tool_call>call:noop{}<tool_call|>",
     "I need it.", "",
     "call00007 weather {\"city\": \"Z\xC3\xBCrich, {a}\", \"days\": 3, \"exact\": true, \"list\": [1, "
     "\"b\"], \"near\": {\"x\": null}}\n"
     "call00008 noop {}\n"},
    {CLEF_TOOLS_GEMMA4, 0, "A <|tool_call>call:weather{city:}<tool_call|>", "",
     "A <|tool_call>call:weather{city:}<tool_call|>", ""},

    {CLEF_TOOLS_HARMONY, 0,
     "<|channel|>analysis<|message|>User wants it.<|end|><|start|>assistant<|channel|>commentary<|message|>I "
     "look.<|end|>"
     "<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": "
     "\"Paris\"}<|call|>",
     "User wants it.", "I look.", "call00007 weather {\"city\": \"Paris\"}\n"},
    {CLEF_TOOLS_HARMONY, 0, " to=functions.noop<|channel|>commentary json<|message|>{}", "", "",
     "call00007 noop {}\n"},
    {CLEF_TOOLS_HARMONY, 0,
     "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>"
     "<|start|>assistant<|channel|>final<|message|>Hi <|there|>.\n",
     "a\nb", "Hi <|there|>.\n", ""},
    {CLEF_TOOLS_HARMONY, 0, "No head.", "", "No head.", ""},
    {CLEF_TOOLS_HARMONY, 0, "<|channel|>commentary to=functions.noop<|message|>{oops<|call|>", "", "{oops",
     ""},

    {CLEF_TOOLS_GRANITE, 0,
     "<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}, {\"name\": \"noop\", "
     "\"arguments\": {}}]",
     "", "", "call00007 weather {\"city\": \"Paris\"}\ncall00008 noop {}\n"},
    {CLEF_TOOLS_GRANITE, 0, "<think>Hm.</think><response>Yes.</response>", "Hm.", "Yes.", ""},

    {CLEF_TOOLS_COMMAND_R, 0,
     "Action: ```json\n[\n    {\n        \"tool_name\": \"weather\",\n        \"parameters\": {\"city\": "
     "\"Paris\"}\n    }\n]\n```",
     "", "", "call00007 weather {\"city\": \"Paris\"}\n"},
    {CLEF_TOOLS_COMMAND_R, 0,
     "<|START_THINKING|>I call.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
     "\"tool_name\": \"noop\", \"parameters\": {}}\n]<|END_ACTION|>",
     "I call.", "", "0 noop {}\n"},
    {CLEF_TOOLS_COMMAND_R, 0, "<|START_RESPONSE|>Done.<|END_RESPONSE|>", "", "Done.", ""},
    {CLEF_TOOLS_COMMAND_R, 0, "Action: leave!", "", "Action: leave!", ""},

    {CLEF_TOOLS_DEEPSEEK, 0,
     "</think>I ask.\n\n" DS("calls" LOW "begin")
         DS("call" LOW "begin") "weather" DS("sep") "{\"city\": \"Paris\"}" DS("call" LOW "end")
             DS("call" LOW "begin") "noop" DS("sep") "{}" DS("call" LOW "end") DS("calls" LOW "end"),
     "", "</think>I ask.", "call00007 weather {\"city\": \"Paris\"}\ncall00008 noop {}\n"},
    {CLEF_TOOLS_DEEPSEEK, 1,
     "Hm.\n</think>\n\n" DS("calls" LOW "begin")
         DS("call" LOW "begin") "function" DS("sep") "weather\n```json\n{\"city\": \"Paris\"}\n```" DS(
             "call" LOW
             "end") "\n" DS("call" LOW "begin") "function" DS("sep") "noop\n```json\n{}\n```" DS("call" LOW
                                                                                                 "end")
             DS("calls" LOW "end"),
     "Hm.", "", "call00007 weather {\"city\": \"Paris\"}\ncall00008 noop {}\n"},

    {CLEF_TOOLS_PHI4, 0, "<|tool_call|>[{\"name\": \"noop\", \"arguments\": {}}]<|/tool_call|>", "", "",
     "call00007 noop {}\n"},

    {CLEF_TOOLS_JSON, 0,
     "{\"tool_calls\": [{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}, {\"name\": \"noop\", "
     "\"arguments\": {}, \"id\": \"x\"}]}",
     "", "", "call00007 weather {\"city\": \"Paris\"}\nx noop {}\n"},
    {CLEF_TOOLS_JSON, 0, "{\"tool_call\": {\"name\": \"noop\", \"arguments\": {}}}", "", "",
     "call00007 noop {}\n"},
    {CLEF_TOOLS_JSON, 0, "{\"response\": \"A \\\"text\\\".\"}", "", "A \"text\".", ""},
    {CLEF_TOOLS_JSON, 0, "{\"response\": 1}", "", "{\"response\": 1}", ""},
};
enum { N_EXAMPLES = sizeof examples / sizeof *examples };

static clef_reply_opts opts_of(const example *e)
{
    return (clef_reply_opts){.format = e->format,
                             .tools = tools,
                             .tools_bytes = sizeof tools - 1,
                             .starts_thinking = e->starts_thinking,
                             .first_call = 7};
}

static void check(const example *e, const message *m, size_t cut, size_t size)
{
    if (strcmp(m->reasoning, e->reasoning) || strcmp(m->content, e->content) || strcmp(m->calls, e->calls))
        fail_msg("%s, cut at %zu, then each %zu bytes:\n%s\nreasoning [%s], wanted [%s]\ncontent [%s], "
                 "wanted [%s]\n"
                 "calls [%s], wanted [%s]",
                 clef_tool_format_name(e->format), cut, size, e->text, m->reasoning, e->reasoning, m->content,
                 e->content, m->calls, e->calls);
}

static void test_examples(void **state)
{
    (void)state;
    clef_error err;
    message m;
    for (int i = 0; i < N_EXAMPLES; i++) {
        const example *e = &examples[i];
        const clef_reply_opts opts = opts_of(e);
        const size_t n = strlen(e->text);
        for (size_t cut = 0; cut <= n; cut++) {
            ok(read_pieces(&opts, e->text, n, cut, n, &m, &err), &err);
            check(e, &m, cut, n);
        }
        for (size_t size = 1; size < 5; size++) {
            ok(read_pieces(&opts, e->text, n, 0, size, &m, &err), &err);
            check(e, &m, 0, size);
        }
    }
}

/* Damaged texts: whatever they are taken for, it does not depend on the cuts, and arguments are JSON objects.
 */
static void test_damaged(void **state)
{
    (void)state;
    clef_error err;
    message whole, cut;
    char text[1024];
    uint32_t random = 1;
    for (int i = 0; i < 20000; i++) {
        const example *e = &examples[i % N_EXAMPLES];
        const clef_reply_opts opts = opts_of(e);
        size_t n = strlen(e->text);
        memcpy(text, e->text, n);
        for (int k = i / N_EXAMPLES % 4; k >= 0 && n; k--) {
            random = random * 1664525 + 1013904223;
            const size_t at = (random >> 8) % n, from = (random >> 4) % n;
            if (random & 0x80000000)
                memmove(text + at, text + at + 1, --n - at);
            else
                text[at] = text[from];
        }
        ok(read_pieces(&opts, text, n, n, 1, &whole, &err), &err);
        ok(read_pieces(&opts, text, n, 0, 1 + random % 7, &cut, &err), &err);
        if (memcmp(&whole, &cut, sizeof whole) != 0)
            fail_msg("%s: %.*s\nwhole: [%s] [%s] [%s]\ncut: [%s] [%s] [%s]", clef_tool_format_name(e->format),
                     (int)n, text, whole.reasoning, whole.content, whole.calls, cut.reasoning, cut.content,
                     cut.calls);
    }
}

static void test_memory(void **state)
{
    (void)state;
#if defined(_WIN32)
    skip(); /* there the C library is part of the program, and its printf() would run out of memory too */
#endif
    clef_error err;
    message m;
    for (int i = 0; i < N_EXAMPLES; i++) {
        const clef_reply_opts opts = opts_of(&examples[i]);
        const size_t n = strlen(examples[i].text);
        clef_status s = CLEF_E_NOMEM;
        for (int k = 1; s; k++) {
            n_allocations = 0;
            fail_allocation = k;
            s = read_pieces(&opts, examples[i].text, n, 0, 5, &m, &err);
            fail_allocation = 0;
            if (s)
                assert_int_equal(s, CLEF_E_NOMEM);
            assert_true(k < 1000);
        }
        check(&examples[i], &m, 0, 5);
    }
}

/* ---- templates and names ---------------------------------------------------------------------- */

static clef_tool_format format_of(const char *text)
{
    return clef_tool_format_of_template(text, strlen(text));
}

static void test_templates(void **state)
{
    (void)state;
    assert_int_equal(format_of("{{- '<tool_call>\\n{\"name\": ' }}..</tool_call>"), CLEF_TOOLS_HERMES);
    assert_int_equal(format_of("<tool_call>\\n<function=x>\\n<parameter=y>..</tool_call>"),
                     CLEF_TOOLS_QWEN_CODER);
    assert_int_equal(format_of("<tool_call>f<arg_key>k</arg_key></tool_call>"), CLEF_TOOLS_NONE);
    assert_int_equal(format_of("<|start|>assistant<|channel|>final<|message|>"), CLEF_TOOLS_HARMONY);
    assert_int_equal(format_of("'<|tool_call>call:' + name"), CLEF_TOOLS_GEMMA4);
    assert_int_equal(format_of("[TOOL_CALLS]"), CLEF_TOOLS_MISTRAL);
    assert_int_equal(
        format_of("<" BAR "tool" LOW "calls" LOW "begin" BAR "><" BAR "tool" LOW "call" LOW "begin" BAR ">"),
        CLEF_TOOLS_DEEPSEEK);
    assert_int_equal(format_of("followed by <|tool_call|> and a list"), CLEF_TOOLS_GRANITE);
    assert_int_equal(format_of("<|tool|>{{ tools }}<|/tool|>"), CLEF_TOOLS_PHI4);
    assert_int_equal(format_of("Action: ```json [{\"tool_name\": ..}]"), CLEF_TOOLS_COMMAND_R);
    assert_int_equal(format_of("<|python_tag|> .. \"parameters\""), CLEF_TOOLS_LLAMA3);
    assert_int_equal(format_of("<|im_start|>user"), CLEF_TOOLS_NONE);
}

static void test_names(void **state)
{
    (void)state;
    clef_error err;
    clef_tool_format format = CLEF_TOOLS_NONE;
    clef_reply_reader *r;
    message m;
    ok(clef_tool_format_find("gpt-oss", &format, &err), &err);
    assert_int_equal(format, CLEF_TOOLS_HARMONY);
    assert_int_equal(clef_tool_format_find("hermse", &format, &err), CLEF_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "'hermse'"));
    assert_non_null(strstr(err.text, "hermes, "));
    assert_string_equal(clef_tool_format_name((clef_tool_format)99), "?");
    assert_int_equal(clef_reply_reader_create(&(clef_reply_opts){.format = (clef_tool_format)99}, &r, &err),
                     CLEF_E_ARG);
    assert_int_equal(clef_reply_reader_create(&(clef_reply_opts){.tools = "{}", .tools_bytes = 2}, &r, &err),
                     CLEF_E_FORMAT);
    for (int i = 1; i < CLEF_N_TOOL_FORMATS; i++) { /* the example of each is a call of f */
        const char *text = clef_tool_format_example((clef_tool_format)i);
        ok(read_pieces(&(clef_reply_opts){.format = (clef_tool_format)i}, text, strlen(text), 0, 3, &m, &err),
           &err);
        assert_string_equal(m.calls, "call00000 f {\"x\": 1}\n");
    }
}

/* Which special tokens a reader needs. */
static void test_tags(void **state)
{
    static const struct {
        clef_tool_format format;
        const char *text;
        int32_t is_tag;
    } cases[] = {{CLEF_TOOLS_NONE, "</think>", 1},         {CLEF_TOOLS_NONE, "<s>", 0},
                 {CLEF_TOOLS_NONE, "<tool_call>", 0},      {CLEF_TOOLS_HERMES, "</tool_call>", 1},
                 {CLEF_TOOLS_HERMES, "<|im_start|>", 0},   {CLEF_TOOLS_MISTRAL, "[ARGS]", 1},
                 {CLEF_TOOLS_GEMMA4, "<|channel>", 1},     {CLEF_TOOLS_HARMONY, "<|message|>", 1},
                 {CLEF_TOOLS_HARMONY, "<|endoftext|>", 0}, {CLEF_TOOLS_LLAMA3, "<|python_tag|>", 1},
                 {CLEF_TOOLS_LLAMA3, "<|eot_id|>", 0},     {CLEF_TOOLS_PHI4, "<|/tool_call|>", 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(clef_tool_format_has_tag(cases[i].format, cases[i].text, strlen(cases[i].text)),
                         cases[i].is_tag);
    assert_int_equal(clef_tool_format_has_tag(CLEF_TOOLS_HERMES, "", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),  cmocka_unit_test(test_damaged), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_templates), cmocka_unit_test(test_names),   cmocka_unit_test(test_tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
