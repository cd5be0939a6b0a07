/* Calls that are written at random under their constraint, token by token: each comes to an end, and the
 * reader of messages finds in it what was written. */
#define TEST_NAME "tool_walks"
#include "tests/files.h"

#include "clef/clef.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/check.h"

enum {
    N_WALKS = 100,
    MOST_TOKENS = 20000,
    FREE_TOKENS = 300,
    MOST_TEXT = 1 << 17,
    END_ID = 0,
    MOST_IDS = 2048
};

#define LONG_60 "a_name_of_sixty_characters_as_they_come_from_a_generated_api_"
#define LONG_NAME LONG_60 LONG_60 LONG_60 LONG_60 LONG_60

/* Texts of a bounded length, of a set, of a pattern; numbers; lists and objects; texts that look like other
 * values, or like the formats' tags; nothing. */
static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\",\"enum\":[\"Paris\",\"Rom\\u00e9\",\"\\ud83d\\ude00\"]},"
    "\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9},\"note\":{\"type\":\"string\","
    "\"maxLength\":6}},\"required\":[\"city\",\"days\",\"note\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"n\":{\"type\":\"integer\"},\"s\":{\"type\":\"string\",\"maxLength\":2},\"b\":{\"type\":\"boolean\"},"
    "\"d\":{\"type\":\"string\",\"format\":\"date\"},\"p\":{\"type\":\"string\",\"pattern\":\"^[a-z]{2}$\"},"
    "\"x\":{\"type\":[\"number\",\"null\"]}},\"required\":[\"n\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"nested_one\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"list\":{\"type\":\"array\",\"maxItems\":3,\"items\":{\"type\":\"object\","
    "\"properties\":{\"k\\\"1\":{\"type\":\"string\",\"maxLength\":3},\"v\":{\"enum\":[1,2.5,null,"
    "\"\\u4e00\"]}},"
    "\"required\":[\"v\"],\"additionalProperties\":false}},\"free\":{\"type\":\"string\",\"maxLength\":40}},"
    "\"required\":[\"list\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"mixed\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{"
    "\"kind\":{\"enum\":[\"1\",\"true\",\"a\"]},\"one\":{\"enum\":[\"7\",null,\"[]\"]},\"any\":{\"anyOf\":[{"
    "\"type\":"
    "\"string\",\"pattern\":\"^[0-9]{1,2}$\"},{\"type\":\"null\"},{\"type\":\"boolean\"}]},\"ref\":{\"$ref\":"
    "\"#/$defs/r\"},"
    "\"list\":{\"type\":\"array\",\"maxItems\":3,\"items\":{\"enum\":[\"</parameter>\",\"a</tool_call>\",\"</"
    "function>\","
    "\"<|\\\"|>\",\"<tool_call|>\",\"[ARGS]\",\"<|end|>\",\"<|call|>\",\"<|start|>assistant\",\"[TOOL_CALLS]["
    "{\",\"<|END_ACTION|>\",\"<|/tool_call|>\",\"<\\uff5ctool\\u2581call\\u2581end\\uff5c>\",\"</"
    "think>\",\"<|eot_id|>\",\"\\n```\",\"<\",2]}},\"map\":{\"type\":\"object\","
    "\"patternProperties\":{\"^</(parameter|x)>$\":{\"type\":\"boolean\"}},\"additionalProperties\":false},"
    "\"" LONG_NAME "\":{\"type\":\"integer\"}},\"required\":[\"kind\",\"" LONG_NAME
    "\"],\"$defs\":{\"r\":{\"type\":"
    "\"string\",\"enum\":[\"null\",\"{}\",\"\"]}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"noop\"}}]";

typedef struct vocabulary {
    clef_tokenizer *tok;
    clef_token_trie *trie;
    uint32_t mask[MOST_IDS / 32];
    int32_t n;
} vocabulary;

static uint64_t state_of_random;

static uint32_t next_random(void)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state_of_random >> 33);
}

/* ---- vocabularies ----------------------------------------------------------------------------- */

static void open_vocabulary(vocabulary *v, const char *path)
{
    const int32_t end = END_ID;
    clef_error err = {0};
    ok(clef_tokenizer_open(path, &v->tok, &err), &err);
    ok(clef_token_trie_create(v->tok, &end, 1, &v->trie, &err), &err);
    v->n = clef_tokenizer_n_tokens(v->tok);
    assert_true(v->n <= MOST_IDS);
}

static void close_vocabulary(vocabulary *v)
{
    clef_token_trie_destroy(v->trie);
    clef_tokenizer_close(v->tok);
}

/* The character that stands for a byte in GPT-2's vocabularies. */
static int character_of(int byte)
{
    const int is_itself = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    return is_itself ? byte : byte <= 32 ? 256 + byte : byte == 173 ? 256 + 67 : 256 + 33 + byte - 127;
}

/* A vocabulary of single bytes, in which tags are special tokens. */
static void write_bytes(const char *path)
{
    static const char *const tags[] = {
        "<tool_call>",   "</tool_call>",   "[TOOL_CALLS]",     "[ARGS]",
        "<|tool_call|>", "<|/tool_call|>", "<|START_ACTION|>", "<|END_ACTION|>",
        "<|channel|>",   "<|message|>",    "<|constrain|>",    "<|start|>",
        "<|end|>",       "<|tool_call>",   "<tool_call|>",     "<|\\\"|>"};
    char *text = malloc(1 << 16), *to = text;
    assert_non_null(text);
    to += sprintf(to, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"<|endoftext|>\":0");
    for (int i = 0; i < 256; i++)
        to += sprintf(to, ",\"\\u%04x\":%d", character_of(i), i + 1);
    to +=
        sprintf(to, "},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                    "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":0,\"content\":"
                    "\"<|endoftext|>\",\"special\":true}");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        to += sprintf(to, ",{\"id\":%zu,\"content\":\"%s\",\"special\":true}", 257 + i, tags[i]);
    sprintf(to, "]}");
    write_text(path, text);
    free(text);
}

/* ---- one walk --------------------------------------------------------------------------------- */

static int32_t pick(const vocabulary *v)
{
    int32_t allowed[MOST_IDS], n = 0;
    for (int32_t id = 0; id < v->n; id++)
        if (v->mask[id / 32] >> id % 32 & 1)
            allowed[n++] = id;
    return n ? allowed[next_random() % (uint32_t)n] : -1;
}

/* Writes tokens until the text ends, or so many. Returns its length. */
static size_t write_calls(vocabulary *v, clef_constraint *c, clef_tool_format format, int most, char *text)
{
    clef_constraint_state state;
    clef_error err = {0};
    size_t n = 0;
    ok(clef_constraint_begin(c, &state, &err), &err);
    for (int step = 0; step < most; step++) {
        const clef_status s = clef_constraint_mask(c, v->trie, &state, v->mask, &err);
        const int32_t id = s ? -1 : pick(v);
        text[n] = '\0';
        if (id < 0)
            fail_msg("%s: nothing may follow '%s': %s", clef_tool_format_name(format), text, err.text);
        if (id == END_ID)
            return n;
        ok(clef_constraint_accept(c, v->trie, &state, id, &err), &err);
        const clef__token *token = &v->tok->vocab.tokens[id];
        const int is_special = (token->flags & CLEF_TOKEN_SPECIAL) != 0; /* a tag */
        const size_t length = is_special ? token->n_text : token->n_piece;
        assert_true(n + length < MOST_TEXT);
        memcpy(text + n, is_special ? token->text : token->piece, length);
        n += length;
    }
    if (most == MOST_TOKENS)
        fail_msg("%s: %d tokens, and no end", clef_tool_format_name(format), MOST_TOKENS);
    return n;
}

typedef struct message {
    int n_calls;
    char content[1000];
    const char *only; /* NULL, or the name of all calls */
} message;

/* The arguments are what the function's parameters allow. */
static void check_arguments(const char *name, const char *arguments)
{
    static const char *const others[] = {"weather", "f", "nested_one", "mixed", "noop", NULL};
    char *one = malloc(MOST_TEXT + 200);
    clef_constraint *c = NULL;
    clef_constraint_state state;
    clef_error err = {0};
    size_t n = 0;
    int k = 0;
    while (others[k] && strcmp(others[k], name) != 0)
        k++;
    assert_non_null(others[k]);
    snprintf(one, MOST_TEXT + 200, "{\"name\":\"%s\",\"parameters\":%s}", name, arguments);
    const clef_tool_constraint_opts opts = {.format = CLEF_TOOLS_LLAMA3,
                                            .tools = tools,
                                            .tools_bytes = sizeof tools - 1,
                                            .choice = CLEF_TOOL_CHOICE_NAMED,
                                            .name = name};
    ok(clef_tool_constraint_create(&opts, &c, NULL, &err), &err);
    ok(clef_constraint_begin(c, &state, &err), &err);
    ok(clef_constraint_read(c, &state, one, strlen(one), &n, &err), &err);
    if (n < strlen(one) || !clef_constraint_may_end(c, &state))
        fail_msg("%s does not allow %s", name, arguments);
    clef_constraint_destroy(c);
    free(one);
}

static clef_status note_part(void *user, const clef_reply_part *part)
{
    message *m = user;
    if (part->kind != CLEF_REPLY_CALL) {
        if (part->kind == CLEF_REPLY_CONTENT)
            snprintf(m->content + strlen(m->content), sizeof m->content - strlen(m->content), "%.*s",
                     (int)part->n_bytes, part->text);
        return CLEF_OK;
    }
    m->n_calls++;
    if (m->only)
        assert_string_equal(part->call.name, m->only);
    check_arguments(part->call.name, part->call.arguments);
    return CLEF_OK;
}

/* In pieces of a random size, as a model's text comes. */
static void read_calls(clef_tool_format format, const char *text, size_t n, message *m)
{
    clef_reply_reader *reader = NULL;
    clef_error err = {0};
    const clef_reply_opts opts = {.format = format, .tools = tools, .tools_bytes = sizeof tools - 1};
    ok(clef_reply_reader_create(&opts, &reader, &err), &err);
    for (size_t at = 0, size; at < n; at += size) {
        size = 1 + next_random() % 40;
        size = size < n - at ? size : n - at;
        ok(clef_reply_read(reader, text + at, size, note_part, m, &err), &err);
    }
    ok(clef_reply_end(reader, note_part, m, &err), &err);
    clef_reply_reader_destroy(reader);
}

static void walk(vocabulary *v, clef_tool_format format, clef_tool_choice choice, const char *name,
                 int parallel, int n_walks)
{
    char *text = malloc(MOST_TEXT);
    clef_constraint *c = NULL;
    clef_error err = {0};
    assert_non_null(text);
    const clef_tool_constraint_opts opts = {.format = format,
                                            .tools = tools,
                                            .tools_bytes = sizeof tools - 1,
                                            .choice = choice,
                                            .name = name,
                                            .parallel = parallel,
                                            .tok = v->tok};
    ok(clef_tool_constraint_create(&opts, &c, NULL, &err), &err);
    for (int i = 0; i < n_walks; i++) {
        message m = {.only = name};
        const int is_free = choice == CLEF_TOOL_CHOICE_AUTO; /* a text may go on for ever */
        const size_t n = write_calls(v, c, format, is_free ? FREE_TOKENS : MOST_TOKENS, text);
        if (is_free)
            continue;
        read_calls(format, text, n, &m);
        if (m.n_calls < 1 || m.content[0] || ((name || !parallel) && m.n_calls != 1))
            fail_msg("%s: %d calls and '%s' in '%s'", clef_tool_format_name(format), m.n_calls, m.content,
                     text);
    }
    clef_constraint_destroy(c);
    free(text);
}

static void walk_all(const char *path)
{
    vocabulary v = {0};
    open_vocabulary(&v, path);
    for (int format = 1; format < CLEF_N_TOOL_FORMATS; format++) {
        state_of_random = (uint64_t)format;
        walk(&v, (clef_tool_format)format, CLEF_TOOL_CHOICE_REQUIRED, NULL, 0, N_WALKS);
        walk(&v, (clef_tool_format)format, CLEF_TOOL_CHOICE_REQUIRED, NULL, 1, N_WALKS / 5);
        walk(&v, (clef_tool_format)format, CLEF_TOOL_CHOICE_NAMED, "weather", 1, N_WALKS / 5);
        walk(&v, (clef_tool_format)format, CLEF_TOOL_CHOICE_AUTO, NULL, 1, N_WALKS / 5);
    }
    close_vocabulary(&v);
}

TEST(test_trained)
{
    walk_all(CLEF_SOURCE_DIR "/share/demo");
}

TEST(test_bytes)
{
    write_bytes(temp_path("tokenizer.json"));
    walk_all(temp_path("tokenizer.json"));
    clef__os_remove(temp_path("tokenizer.json"));
}

TESTS(make_temp_dir, remove_temp_dir)
