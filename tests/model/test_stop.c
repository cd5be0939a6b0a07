/* Stop strings: the text given is the same wherever the text is cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/stop.h"
#include "tests/check.h"

enum { MOST = 4096 };

static const char *const three[] = {"DEFGHIJ", "\n", "Alice:"};

typedef struct given {
    char text[MOST];
    size_t n;
    int32_t found;
} given;

static int is_whole(const char *text, size_t n)
{
    static const unsigned char ends_inside = 0x80;
    return n == 0 || ((unsigned char)text[0] & 0xc0) != ends_inside;
}

/* A piece must be whole code points, so none begins inside one. */
static void take(given *g, const char *text, size_t n)
{
    assert_true(g->n + n < MOST);
    assert_true(is_whole(text, n));
    memcpy(g->text + g->n, text, n);
    g->n += n;
}

/* Pushes the text cut after byte i where bit i of `cuts` is set. */
static void read_cut(clef_stop *stop, const char *text, size_t n, uint64_t cuts, given *g)
{
    clef_error err = {0};
    const char *out;
    size_t n_out;
    *g = (given){0};
    clef_stop_reset(stop);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && !(cuts >> (to - 1) & 1); to++)
            ;
        ok(clef_stop_push(stop, text + from, to - from, &out, &n_out, &err), &err);
        take(g, out, n_out);
    }
    ok(clef_stop_finish(stop, &out, &n_out, &err), &err);
    take(g, out, n_out);
    g->found = clef_stop_found(stop);
}

static clef_stop *stop_of(const char *const *texts, int32_t n)
{
    clef_error err = {0};
    clef_stop *stop;
    ok(clef_stop_create(texts, n, &stop, &err), &err);
    return stop;
}

/* All 2^(n - 1) ways to cut the text give `wanted`. */
static void every_cut(const char *const *stops, int32_t n_stops, const char *text, const char *wanted,
                      int32_t found)
{
    clef_stop *stop = stop_of(stops, n_stops);
    const size_t n = strlen(text);
    static given g;
    assert_true(n <= 18);
    for (uint64_t cuts = 0; cuts < (uint64_t)1 << (n ? n - 1 : 0); cuts++) {
        read_cut(stop, text, n, cuts, &g);
        assert_int_equal(g.n, strlen(wanted));
        assert_memory_equal(g.text, wanted, g.n);
        assert_int_equal(g.found, found);
    }
    clef_stop_destroy(stop);
}

TEST(every_cut_of_three)
{
    every_cut(three, 3, "ABCDEFGHIJKLM", "ABC", 0);
    every_cut(three, 3, "ABCDEFGHI", "ABCDEFGHI", -1); /* held back, then given */
    every_cut(three, 3, "DEFDEFGHIJ", "DEF", 0);
    every_cut(three, 3, "DEFGHI\nJ", "DEFGHI", 1);
    every_cut(three, 3, "AlAliceAlice: x\nDE", "AlAlice", 2);
    every_cut(three, 3, "Alice\nAlice:", "Alice", 1);
    every_cut(three, 3, "DEFGHAlice:", "DEFGH", 2);
    every_cut(three, 3, "\nDEFGHIJ", "", 1);
    every_cut(three, 3, "", "", -1);
    every_cut(three, 3, "a\xc3\xa9\xf0\x9f\x99\x82 Alice:", "a\xc3\xa9\xf0\x9f\x99\x82 ", 2);
}

TEST(every_cut_of_overlapping)
{
    static const char *const nested[] = {"cd", "abcde", "bcd"}, *const repeated[] = {"aabaaa", "bb"},
                             *const euro[] = {"\xe2\x82\xac", "x\xe2\x82\xad"},
                             *const bad[] = {"\xef\xbf\xbd."};
    every_cut(nested, 3, "xabcdefg", "xa", 2); /* "cd" and "bcd" end first; "bcd" is longer */
    every_cut(repeated, 2, "aaabaabaaabaaa", "aaab", 0);
    every_cut(repeated, 2, "aabaab", "aabaab", -1);
    every_cut(euro, 2, "x\xe2\x82\xae\xe2\x82\xac!", "x\xe2\x82\xae", 0);
    every_cut(euro, 2, "\xe2\x82x\xe2\x82\xad", "\xef\xbf\xbd", 1);
    every_cut(bad, 1, "a\xf0\x9f\x99.b", "a", 0); /* a stop string meets the replaced text */
    every_cut(NULL, 0, "a\xff\xe2\x82z\xe2\x82", "a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd", -1);
}

/* ---- beside a search of the whole text -------------------------------------------------------- */

/* The first end of a stop string; of several the longest. */
static size_t cut_of(const char *text, size_t n, const char *const *stops, int32_t n_stops)
{
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;
        for (int32_t i = 0; i < n_stops; i++) {
            const size_t k = strlen(stops[i]);
            if (k <= end && k > longest && memcmp(text + end - k, stops[i], k) == 0)
                longest = k;
        }
        if (longest)
            return end - longest;
    }
    return n;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Random texts of the stop strings' letters, cut at random. */
TEST(random_texts)
{
    static const char letters[] = "DEFGHIJ\nAlice:";
    clef_stop *stop = stop_of(three, 3);
    uint64_t random = 7;
    int32_t n_found = 0;
    static given g;
    for (int round = 0; round < 20000; round++) {
        char text[64];
        size_t n = 0;
        while (n < 48) {
            const char *piece = round % 2 ? three[next_random(&random) % 3] : letters;
            const size_t size = strlen(piece), from = next_random(&random) % size,
                         k = 1 + next_random(&random) % (size - from);
            for (size_t i = 0; i < k && n < 48; i++)
                text[n++] = piece[from + i] == '\n' && next_random(&random) % 4 ? 'x' : piece[from + i];
        }
        read_cut(stop, text, n, (uint64_t)next_random(&random) << 31 | next_random(&random), &g);
        const size_t wanted = cut_of(text, n, three, 3);
        assert_int_equal(g.n, wanted);
        assert_memory_equal(g.text, text, wanted);
        assert_int_equal(g.found < 0, wanted == n);
        n_found += g.found >= 0;
    }
    assert_true(n_found > 1000 && n_found < 20000);
    clef_stop_destroy(stop);
}

/* Text comes out as soon as it begins no stop string. */
TEST(gives_early)
{
    clef_error err = {0};
    clef_stop *stop = stop_of(three, 3);
    const char *text;
    size_t n;
    ok(clef_stop_push(stop, "hello D", 7, &text, &n, &err), &err);
    assert_int_equal(n, 6);
    ok(clef_stop_push(stop, "E", 1, &text, &n, &err), &err);
    assert_int_equal(n, 0);
    ok(clef_stop_push(stop, "X", 1, &text, &n, &err), &err);
    assert_int_equal(n, 3);
    assert_memory_equal(text, "DEX", 3);
    ok(clef_stop_push(stop, "\n", 1, &text, &n, &err), &err);
    assert_int_equal(clef_stop_found(stop), 1);
    ok(clef_stop_push(stop, "more", 4, &text, &n, &err), &err);
    assert_int_equal(n, 0);
    ok(clef_stop_finish(stop, &text, &n, &err), &err);
    assert_int_equal(n, 0);
    clef_stop_destroy(stop);
}

TEST(wrong_texts)
{
    static const char *const empty[] = {"a", ""}, *const bad[] = {"\xff"};
    static const char *many[CLEF_MOST_STOPS + 1];
    clef_error err = {0};
    clef_stop *stop;
    assert_int_equal(clef_stop_create(empty, 2, &stop, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "stop string 2 is empty"));
    assert_int_equal(clef_stop_create(bad, 1, &stop, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "not UTF-8"));
    assert_int_equal(clef_stop_create(many, CLEF_MOST_STOPS + 1, &stop, &err), CLEF_E_LIMIT);
    assert_int_equal(clef_stop_create(NULL, 1, &stop, &err), CLEF_E_ARG);
    char *text = malloc(CLEF_MOST_STOP_BYTES + 2);
    assert_non_null(text);
    memset(text, 'a', CLEF_MOST_STOP_BYTES + 1);
    text[CLEF_MOST_STOP_BYTES + 1] = 0;
    assert_int_equal(clef_stop_create((const char *const[]){text}, 1, &stop, &err), CLEF_E_LIMIT);
    free(text);
    assert_null(stop);
    clef_stop_destroy(NULL);
}

TESTS(NULL, NULL)
