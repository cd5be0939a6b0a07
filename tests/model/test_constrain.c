/* Constraints: which texts each keyword and construct allows, what is refused, and that masks say the same as
 * the tokens one by one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/constrain.h"
#include "tests/cases.h"
#include "text/constrain/constraint.h"

/* Where a text is refused, or complete. */
typedef enum verdict { ACCEPTED, INCOMPLETE, REJECTED } verdict;

static clef_constraint *compile(clef_constraint_kind kind, const char *source,
                                const clef_constraint_opts *opts)
{
    clef_constraint *c = NULL;
    clef_error err = {0};
    const clef_status s = clef_constraint_create(kind, source, strlen(source), opts, &c, NULL, &err);
    if (s)
        fail_msg("%s: %s", source, err.text);
    return c;
}

static verdict judge(clef_constraint *c, const char *text)
{
    clef_constraint_state state;
    clef_error err = {0};
    size_t n = 0;
    ok(clef_constraint_begin(c, &state, &err), &err);
    ok(clef_constraint_read(c, &state, text, strlen(text), &n, &err), &err);
    return n < strlen(text) ? REJECTED : clef_constraint_may_end(c, &state) ? ACCEPTED : INCOMPLETE;
}

/* ---- cases: tests/fixtures/constraints.json ------------------------------------------------------ */

/* The source of a case, which has a schema as JSON, or any source as text. It is valid until the next one. */
static const char *source_of(const json_t *c)
{
    static char *text;
    const json_t *schema = case_value(c, "schema");
    if (!schema)
        return case_text(c, "source");
    free(text);
    return text = json_dumps(schema, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
}

static void check_texts(const json_t *c, clef_constraint_kind kind)
{
    const char *text;
    clef_constraint *made = compile(kind, source_of(c), NULL);
    for (size_t i = 0; (text = case_item(c, "yes", i)) != NULL; i++)
        if (judge(made, text) != ACCEPTED)
            fail_case(c, "%s is not accepted", text);
    for (size_t i = 0; (text = case_item(c, "no", i)) != NULL; i++)
        if (judge(made, text) == ACCEPTED)
            fail_case(c, "%s is accepted", text);
    clef_constraint_destroy(made);
}

static void check_schema(const json_t *c)
{
    check_texts(c, CLEF_CONSTRAIN_SCHEMA);
}

static void check_grammar(const json_t *c)
{
    check_texts(c, CLEF_CONSTRAIN_GBNF);
}

static void check_regex(const json_t *c)
{
    check_texts(c, CLEF_CONSTRAIN_REGEX);
}

static void check_choices(const json_t *c)
{
    check_texts(c, CLEF_CONSTRAIN_CHOICES);
}

TEST(test_texts)
{
    for_each_case("constraints.json", "schemas", check_schema);
    for_each_case("constraints.json", "grammars", check_grammar);
    for_each_case("constraints.json", "regexes", check_regex);
    for_each_case("constraints.json", "choices", check_choices);
    clef_constraint *c = compile(CLEF_CONSTRAIN_SCHEMA, "{\"const\":\"\\u00e9\"}", NULL);
    assert_int_not_equal(judge(c, "\"\xC3\""), ACCEPTED); /* half a character */
    clef_constraint_destroy(c);
}

TEST(test_any_order)
{
    clef_constraint *c =
        compile(CLEF_CONSTRAIN_SCHEMA,
                "{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}},\"required\":[\"a\"]}",
                &(clef_constraint_opts){.any_order = 1});
    assert_int_equal(judge(c, "{ \"z\":1,  \"b\":1,\"a\":1.0}"), ACCEPTED);
    assert_int_equal(judge(c, "{\"b\":1}"), INCOMPLETE + 1);
    clef_constraint_destroy(c);
}

/* ---- what is refused ------------------------------------------------------------------------------ */

static clef_status refuse(const json_t *c, clef_constraint_kind kind, clef_constraint_problem *problem,
                          clef_error *err)
{
    clef_constraint *made = NULL;
    const char *source = source_of(c);
    const clef_constraint_opts opts = {.strict = (int32_t)case_number(c, "strict", 0)};
    const clef_status s = clef_constraint_create(kind, source, strlen(source), &opts, &made, problem, err);
    if (!s || made)
        fail_case(c, "it is accepted");
    return s;
}

static void refuse_schema(const json_t *c)
{
    clef_constraint_problem problem = {{0}, {0}};
    clef_error err = {0};
    check_case(c, refuse(c, CLEF_CONSTRAIN_SCHEMA, &problem, &err), &err);
    assert_string_equal(problem.path, case_text(c, "path"));
    assert_string_equal(problem.keyword, case_text(c, "keyword"));
}

static void refuse_grammar(const json_t *c)
{
    refuse(c, CLEF_CONSTRAIN_GBNF, NULL, NULL);
}

static void refuse_regex(const json_t *c)
{
    refuse(c, CLEF_CONSTRAIN_REGEX, NULL, NULL);
}

TEST(test_refused)
{
    for_each_case("constraints.json", "refused_schemas", refuse_schema);
    for_each_case("constraints.json", "refused_grammars", refuse_grammar);
    for_each_case("constraints.json", "refused_regexes", refuse_regex);
}

TEST(test_limits)
{
    enum { DEEP = 300 };
    char deep[2 * DEEP * 16], *at = deep;
    clef_constraint *c = NULL;
    clef_error err = {0};
    for (int i = 0; i < DEEP; i++)
        at += sprintf(at, "{\"items\":");
    at += sprintf(at, "true");
    for (int i = 0; i < DEEP; i++)
        *at++ = '}';
    assert_int_equal(
        clef_constraint_create(CLEF_CONSTRAIN_SCHEMA, deep, (size_t)(at - deep), NULL, &c, NULL, &err),
        CLEF_E_LIMIT);
    const size_t n = (1 << 20) + 1;
    char *large = malloc(n);
    assert_non_null(large);
    memset(large, ' ', n);
    for (int kind = CLEF_CONSTRAIN_GBNF; kind <= CLEF_CONSTRAIN_CHOICES; kind++)
        assert_int_equal(clef_constraint_create((clef_constraint_kind)kind, large, n, NULL, &c, NULL, &err),
                         CLEF_E_LIMIT);
    free(large);
}

TEST(test_deep_grammar)
{
    enum { DEPTH = 60000 };
    char *text = malloc(2 * DEPTH + 32);
    clef_constraint *c = NULL;
    clef_error err = {0};
    assert_non_null(text);
    memcpy(text, "root ::= ", 9);
    memset(text + 9, '(', DEPTH);
    memcpy(text + 9 + DEPTH, "\"a\"", 3);
    memset(text + 12 + DEPTH, ')', DEPTH);
    assert_int_equal(clef_constraint_create(CLEF_CONSTRAIN_GBNF, text, 12 + 2 * DEPTH, NULL, &c, NULL, &err),
                     CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "256"));
    free(text);
}

/* ---- masks ---------------------------------------------------------------------------------- */

enum { STEPS = 60, END_ID = 0 };

typedef struct vocabulary {
    clef_tokenizer *tok;
    clef_token_trie *trie;
    uint32_t *mask;
    uint64_t random;
} vocabulary;

static uint32_t next_random(vocabulary *v)
{
    v->random = v->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(v->random >> 33);
}

/* The mask says of each token what accepting it says, and of the end what may_end says. */
static void check_mask(vocabulary *v, clef_constraint *c, const clef_constraint_state *state)
{
    clef_error err = {0};
    ok(clef_constraint_mask(c, v->trie, state, v->mask, &err), &err);
    for (int32_t id = 0; id < clef_tokenizer_n_tokens(v->tok); id++) {
        clef_constraint_state next = *state;
        const int allowed = clef_constraint_accept(c, v->trie, &next, id, NULL) == CLEF_OK;
        if (allowed != (int)(v->mask[id / 32] >> id % 32 & 1))
            fail_msg("token %d: mask %d, accepted %d", id, !allowed, allowed);
    }
    assert_int_equal(v->mask[END_ID / 32] >> END_ID % 32 & 1, clef_constraint_may_end(c, state));
}

static int32_t pick(vocabulary *v)
{
    const int32_t n = clef_tokenizer_n_tokens(v->tok);
    for (int32_t i = 0, at = (int32_t)(next_random(v) % (uint32_t)n); i < n; i++, at = (at + 1) % n)
        if (v->mask[at / 32] >> at % 32 & 1)
            return at;
    return -1;
}

static vocabulary words = {.random = 5};

/* Walks at random; there is always a token that may come next. */
static void walk(const json_t *of)
{
    const char *kind = case_text(of, "kind");
    clef_constraint *c = compile(!kind                          ? CLEF_CONSTRAIN_SCHEMA
                                 : strcmp(kind, "grammar") == 0 ? CLEF_CONSTRAIN_GBNF
                                 : strcmp(kind, "regex") == 0   ? CLEF_CONSTRAIN_REGEX
                                                                : CLEF_CONSTRAIN_CHOICES,
                                 source_of(of), NULL);
    clef_constraint_state state;
    clef_error err = {0};
    ok(clef_constraint_begin(c, &state, &err), &err);
    for (int step = 0; step < STEPS; step++) {
        check_mask(&words, c, &state);
        const int32_t id = pick(&words);
        assert_true(id >= 0);
        if (id == END_ID)
            break;
        ok(clef_constraint_accept(c, words.trie, &state, id, &err), &err);
    }
    clef_constraint_destroy(c);
}

TEST(test_masks)
{
    vocabulary *v = &words;
    const int32_t end = END_ID;
    clef_error err = {0};
    ok(clef_tokenizer_open(CLEF_SOURCE_DIR "/share/demo", &v->tok, &err), &err);
    ok(clef_token_trie_create(v->tok, &end, 1, &v->trie, &err), &err);
    v->mask = malloc((size_t)clef_token_trie_mask_words(v->trie) * sizeof *v->mask);
    assert_non_null(v->mask);
    for (int round = 0; round < 3; round++)
        for_each_case("constraints.json", "masks", walk);
    free(v->mask);
    clef_token_trie_destroy(v->trie);
    clef_tokenizer_close(v->tok);
}

/* ---- memory ----------------------------------------------------------------------------------- */

static void read_all(clef_constraint *c, clef_constraint_state *state, const char *text, size_t n)
{
    clef_error err = {0};
    size_t n_read = 0;
    ok(clef_constraint_read(c, state, text, n, &n_read, &err), &err);
    assert_int_equal(n_read, n);
}

/* Texts in which every place is a state of its own need more memory than a constraint may have: what is
 * behind them is dropped. A place that is asked for goes on, one that nobody asks for is gone, and that is
 * its own error alone. */
TEST(test_generations)
{
    enum { N_LETTERS = 8000, N_TEXTS = 150 };
    static const char begin[] = "{\"b\":1,\"list\":[\"x\"", end[] = "],\"a\":true}", twice[] = "],\"b\":1}";
    clef_constraint *c =
        compile(CLEF_CONSTRAIN_SCHEMA,
                "{\"properties\":{\"a\":{\"type\":\"boolean\"},\"b\":{\"type\":\"integer\"},"
                "\"list\":{\"type\":\"array\",\"maxItems\":9000,\"items\":{\"type\":\"string\","
                "\"maxLength\":9000}}},\"required\":[\"a\"],\"additionalProperties\":false}",
                &(clef_constraint_opts){.any_order = 1});
    clef_constraint_state writes, waits, is_forgotten, try;
    clef_error err = {0};
    char *text = malloc(N_LETTERS + 4);
    size_t n = 0;
    assert_non_null(text);
    memset(text, 'a', N_LETTERS + 3);
    memcpy(text, ",\"", 2);
    text[N_LETTERS + 2] = '"';
    ok(clef_constraint_begin(c, &writes, &err), &err);
    read_all(c, &writes, begin, sizeof begin - 1);
    waits = is_forgotten = writes;
    for (int i = 0; i < N_TEXTS; i++) {
        read_all(c, &writes, text, N_LETTERS + 3);
        read_all(c, &waits, " ", 1);
        assert_true(clef_constraint_bytes(c) < (80 << 20));
    }
    assert_int_equal(clef_constraint_read(c, &is_forgotten, " ", 1, &n, &err), CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "gone"));
    try = waits;
    ok(clef_constraint_read(c, &try, twice, sizeof twice - 1, &n, &err), &err);
    assert_int_equal(n, 3); /* "b" was there */
    read_all(c, &waits, end, sizeof end - 1);
    assert_true(clef_constraint_may_end(c, &waits));
    read_all(c, &writes, end, sizeof end - 1);
    assert_true(clef_constraint_may_end(c, &writes));
    ok(clef_constraint_begin(c, &writes, &err), &err);
    read_all(c, &writes, "{\"a\":true}", 10);
    assert_true(clef_constraint_may_end(c, &writes));
    free(text);
    clef_constraint_destroy(c);
}

/* A place differs from one of the same number many generations later. */
TEST(test_old_places)
{
    clef_constraint *c = compile(CLEF_CONSTRAIN_REGEX, "ab", NULL);
    clef_constraint_state place, old;
    clef_error err = {0};
    size_t n = 0;
    ok(clef_constraint_begin(c, &place, &err), &err);
    c->machine.generation += 1024;
    ok(clef_constraint_begin(c, &old, &err), &err);
    assert_int_equal(clef_constraint_read(c, &place, "a", 1, &n, &err), CLEF_E_LIMIT);
    read_all(c, &old, "a", 1);
    c->machine.generation += 1u << 31;
    assert_int_equal(clef_constraint_read(c, &old, "b", 1, &n, &err), CLEF_E_LIMIT);
    clef_constraint_destroy(c);
}

TEST(test_arguments)
{
    clef_constraint *c = NULL;
    clef_error err = {0};
    assert_int_equal(clef_constraint_create((clef_constraint_kind)9, "x", 1, NULL, &c, NULL, &err),
                     CLEF_E_ARG);
    assert_int_equal(clef_constraint_create(CLEF_CONSTRAIN_CHOICES, "[]", 2, NULL, &c, NULL, &err),
                     CLEF_E_FORMAT);
    clef_constraint_destroy(NULL);
    clef_token_trie_destroy(NULL);
    char *text = NULL;
    size_t n = 0;
    c = compile(CLEF_CONSTRAIN_SCHEMA, "{\"type\":\"object\",\"properties\":{\"a\":{\"maxLength\":3}}}",
                NULL);
    ok(clef_constraint_describe(c, &text, &n, &err), &err);
    assert_non_null(strstr(text, "\"a\" (optional)"));
    assert_true(clef_constraint_bytes(c) > n);
    clef_text_free(text);
    clef_constraint_destroy(c);
}

TEST(test_cache)
{
    clef_constraint_cache *cache = NULL;
    clef_constraint *made[3];
    clef_error err = {0};
    for (int i = 0; i < 3; i++)
        ok(clef_constraint_create(CLEF_CONSTRAIN_REGEX, "a+", 2, NULL, &made[i], NULL, &err), &err);
    ok(clef_constraint_cache_create(1, &cache, &err), &err); /* nothing is kept that nobody uses */
    assert_null(clef_constraint_cache_take(cache, "a", 1));
    assert_ptr_equal(clef_constraint_cache_put(cache, "a", 1, made[0]), made[0]);
    assert_ptr_equal(clef_constraint_cache_put(cache, "a", 1, made[1]), made[0]); /* the first stays */
    assert_ptr_equal(clef_constraint_cache_put(cache, "b", 1, made[2]), made[2]);
    assert_ptr_equal(clef_constraint_cache_take(cache, "a", 1), made[0]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(judge(made[0], "aa"), ACCEPTED); /* still in use */
        clef_constraint_cache_give(cache, made[0]);
    }
    assert_null(clef_constraint_cache_take(cache, "a", 1));
    assert_ptr_equal(clef_constraint_cache_take(cache, "b", 1), made[2]);
    clef_constraint_cache_destroy(cache);
    clef_constraint_cache_destroy(NULL);
}

TESTS(NULL, NULL)
