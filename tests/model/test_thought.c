/* How long a text's reasoning may be (model/session/thought.c): where it begins, where it ends, and which
 * tokens are then written. */
#include <string.h>

#include "model/session/thought.h"
#include "tests/check.h"

static clef_tokenizer *tok;

/* Feeds a text, whatever should have come next, and returns how many of its tokens were free. */
static int32_t feed(clef__thought *t, const char *text)
{
    int32_t *ids = NULL, n = 0, n_free = 0;
    assert_int_equal(clef_tokenizer_encode(tok, text, strlen(text), CLEF_SPECIAL_NONE, &ids, &n, NULL),
                     CLEF_OK);
    for (int32_t i = 0; i < n; i++) {
        n_free += clef__thought_next(t) < 0;
        clef__thought_take(t, ids[i]);
    }
    clef_tokens_free(ids);
    return n_free;
}

/* The text that has to come next. */
static void write_ending(clef__thought *t, char *out, size_t room)
{
    size_t n = 0;
    for (int32_t id; (id = clef__thought_next(t)) >= 0;) {
        size_t size = 0;
        const char *bytes = clef_tokenizer_bytes(tok, id, &size);
        assert_true(n + size < room);
        memcpy(out + n, bytes, size);
        n += size;
        clef__thought_take(t, id);
    }
    out[n] = '\0';
}

static clef__thought begun(const clef_thought *limits)
{
    clef__thought t;
    assert_int_equal(clef__thought_begin(&t, limits, tok, NULL), CLEF_OK);
    return t;
}

#define TAGS .open = "<think>", .close = "</think>"

TEST(the_prompt_opens_it)
{
    char text[64];
    clef__thought t = begun(&(clef_thought){TAGS, .begun = 1, .most = 3});
    for (int i = 0; i < 3; i++)
        assert_int_equal(feed(&t, "a"), 1);
    write_ending(&t, text, sizeof text);
    assert_string_equal(text, "</think>");
    assert_true(feed(&t, "a long text that nothing ends") > 3);
    clef__thought_finish(&t);
}

TEST(the_text_opens_it)
{
    char text[64];
    clef__thought t = begun(&(clef_thought){TAGS, .most = 2});
    feed(&t, "\n<think>");
    assert_int_equal(t.stage, CLEF__THOUGHT_INSIDE);
    feed(&t, "a");
    assert_int_equal(clef__thought_next(&t), -1);
    feed(&t, "b");
    write_ending(&t, text, sizeof text);
    assert_string_equal(text, "</think>");
    clef__thought_finish(&t);
}

TEST(it_ends_by_itself)
{
    clef__thought t = begun(&(clef_thought){TAGS, .begun = 1, .most = 100});
    feed(&t, "so </thin no </think> <think>");
    assert_int_equal(t.stage, CLEF__THOUGHT_OVER);
    clef__thought_finish(&t);
}

TEST(other_text_comes_first)
{
    clef__thought t = begun(&(clef_thought){TAGS, .most = 0}),
                  anywhere = begun(&(clef_thought){TAGS, .anywhere = 1});
    feed(&t, "x <think>");
    assert_int_equal(t.stage, CLEF__THOUGHT_OVER);
    feed(&anywhere, "x <think>");
    assert_true(clef__thought_next(&anywhere) >= 0);
    clef__thought_finish(&t);
    clef__thought_finish(&anywhere);
}

TEST(it_ends_at_once_in_other_words)
{
    char text[64];
    clef__thought t = begun(&(clef_thought){TAGS, .ending = "so.</think>\nWell", .begun = 1});
    write_ending(&t, text, sizeof text);
    assert_string_equal(text, "so.</think>\nWell");
    clef__thought_finish(&t);
}

TEST(what_is_refused)
{
    clef__thought t;
    clef_error err = {0};
    const clef_thought wrong[] = {
        {.open = "<think>"}, {.close = "</think>"}, {TAGS, .most = -1}, {.open = "", .close = "x"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(clef__thought_begin(&t, &wrong[i], tok, &err), CLEF_E_ARG);
    assert_int_equal(clef__thought_begin(&t, NULL, tok, &err), CLEF_OK);
    assert_int_equal(clef__thought_next(&t), -1);
    clef__thought_take(&t, 5);
    clef__thought_finish(&t);
}

static int open_tokenizer(void **state)
{
    (void)state;
    return clef_tokenizer_open(CLEF_SOURCE_DIR "/share/demo", &tok, NULL);
}

static int close_tokenizer(void **state)
{
    (void)state;
    clef_tokenizer_close(tok);
    return 0;
}

TESTS(open_tokenizer, close_tokenizer)
