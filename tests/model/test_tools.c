/* Messages with tool calls in every format, read whole and cut at every byte. The examples are written after
 * what the models' chat templates and cards show (docs/tools.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/tools.h"
#include "tests/cases.h"
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

/* ---- cases: tests/fixtures/tools.json ------------------------------------------------------------ */

static clef_tool_format format_of(const json_t *c)
{
    clef_error err;
    clef_tool_format format = CLEF_TOOLS_NONE;
    ok(clef_tool_format_find(case_text(c, "format"), &format, &err), &err);
    return format;
}

static clef_reply_opts opts_of(const json_t *c)
{
    static char *tools; /* left to the end of the program */
    tools = tools ? tools : json_dumps(case_file("tools.json", "tools"), 0);
    return (clef_reply_opts){.format = format_of(c),
                             .tools = tools,
                             .tools_bytes = strlen(tools),
                             .starts_thinking = case_number(c, "starts_thinking", 0) != 0,
                             .first_call = 7};
}

/* A text that is empty where the case has none. */
static const char *wanted(const json_t *c, const char *key)
{
    const char *text = case_text(c, key);
    return text ? text : "";
}

static void check(const json_t *c, const message *m, size_t cut, size_t size)
{
    if (strcmp(m->reasoning, wanted(c, "reasoning")) || strcmp(m->content, wanted(c, "content")) ||
        strcmp(m->calls, wanted(c, "calls")))
        fail_case(c, "cut at %zu, then each %zu bytes: reasoning [%s], content [%s], calls [%s]", cut, size,
                  m->reasoning, m->content, m->calls);
}

static void check_reply(const json_t *c)
{
    clef_error err;
    message m;
    const clef_reply_opts opts = opts_of(c);
    const char *text = case_text(c, "text");
    const size_t n = strlen(text);
    for (size_t cut = 0; cut <= n; cut++) {
        ok(read_pieces(&opts, text, n, cut, n, &m, &err), &err);
        check(c, &m, cut, n);
    }
    for (size_t size = 1; size < 5; size++) {
        ok(read_pieces(&opts, text, n, 0, size, &m, &err), &err);
        check(c, &m, 0, size);
    }
}

TEST(test_replies)
{
    for_each_case("tools.json", "replies", check_reply);
}

/* Damaged texts: whatever they are taken for, it does not depend on the cuts, and arguments are JSON objects.
 */
TEST(test_damaged)
{
    clef_error err;
    message whole, cut;
    char text[1024];
    uint32_t random = 1;
    const json_t *replies = case_file("tools.json", "replies");
    const size_t n_replies = json_array_size(replies);
    for (size_t i = 0; i < 20000; i++) {
        const json_t *c = json_array_get(replies, i % n_replies);
        const clef_reply_opts opts = opts_of(c);
        size_t n = strlen(case_text(c, "text"));
        memcpy(text, case_text(c, "text"), n);
        for (int k = (int)(i / n_replies % 4); k >= 0 && n; k--) {
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
            fail_case(c, "%.*s\nwhole: [%s] [%s] [%s]\ncut: [%s] [%s] [%s]", (int)n, text, whole.reasoning,
                      whole.content, whole.calls, cut.reasoning, cut.content, cut.calls);
    }
}

static void check_memory(const json_t *c)
{
    clef_error err;
    message m;
    const clef_reply_opts opts = opts_of(c);
    const char *text = case_text(c, "text");
    clef_status s = CLEF_E_NOMEM;
    for (int k = 1; s; k++) {
        n_allocations = 0;
        fail_allocation = k;
        s = read_pieces(&opts, text, strlen(text), 0, 5, &m, &err);
        fail_allocation = 0;
        if (s)
            assert_int_equal(s, CLEF_E_NOMEM);
        assert_true(k < 1000);
    }
    check(c, &m, 0, 5);
}

TEST(test_memory)
{
#if defined(_WIN32)
    skip(); /* there the C library is part of the program, and its printf() would run out of memory too */
#endif
    for_each_case("tools.json", "replies", check_memory);
}

/* ---- templates and names ---------------------------------------------------------------------- */

static void check_template(const json_t *c)
{
    const char *text = case_text(c, "template");
    const clef_tool_format format = clef_tool_format_of_template(text, strlen(text));
    if (format != format_of(c))
        fail_case(c, "got %s", clef_tool_format_name(format));
}

TEST(test_templates)
{
    for_each_case("tools.json", "templates", check_template);
}

TEST(test_names)
{
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
static void check_tag(const json_t *c)
{
    const char *text = case_text(c, "text");
    if (clef_tool_format_has_tag(format_of(c), text, strlen(text)) != (int32_t)case_number(c, "is_tag", 0))
        fail_case(c, "got the other answer");
}

TEST(test_tags)
{
    for_each_case("tools.json", "tags", check_tag);
    assert_int_equal(clef_tool_format_has_tag(CLEF_TOOLS_HERMES, "", 0), 0);
}

TESTS(NULL, NULL)
