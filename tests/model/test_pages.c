/* The bookkeeping of a paged KV cache (model/batch/pages.h): random prompts, adapters and salts, with hashes
 * of 4 bits. A shadow of the pool knows what every row of every page holds. */
#include <stdlib.h>
#include <string.h>

#include "graph/cases/oracle.h"
#include "model/batch/pages.h"
#include "tests/check.h"

enum {
    N_BLOCKS = 16,
    N_CHAINS = 6,
    LONGEST = 400,
    N_STEPS = 20000,
    N_SLIDING = 11,
    WINDOW = 100,
    N_MARKS = 64
};

/* What a row holds: a number that stands for the key and all tokens up to this one. */
typedef struct shadow {
    uint64_t rows[N_BLOCKS][KV_BLOCK], sliding[N_BLOCKS][KV_BLOCK], marks[N_MARKS];
} shadow;

typedef struct sequence {
    int32_t is_open, n, n_past; /* tokens; those that are in the cache */
    clef__pages_key key;
    int32_t tokens[LONGEST], blocks[N_BLOCKS];
    clef__chain chain;
} sequence;

typedef struct world {
    clef__pages *pages;
    clef__pages_opts opts;
    shadow now;
    sequence all[N_CHAINS];
    uint64_t random;
    int64_t n_hits, n_copies, n_refused;
} world;

static int32_t draw(world *w, int32_t n)
{
    return (int32_t)(clef__random_uniform(&w->random) * n);
}

static uint64_t prefix_number(const sequence *s, int32_t n)
{
    uint64_t h = 7 + (uint64_t)s->key.adapter * 1000003 + s->key.salt * 7919;
    for (int32_t i = 0; i < n; i++)
        h = (h ^ (uint64_t)(uint32_t)s->tokens[i]) * 0x9e3779b97f4a7c15u + (uint64_t)i;
    return h;
}

/* Every row that the sequence may read holds its own tokens. */
static void check_rows(const world *w, const sequence *s)
{
    const int32_t seen = s->n_past - WINDOW + 1;
    for (int32_t i = 0; i < s->n_past; i++) {
        const int32_t b = s->chain.blocks[i / KV_BLOCK], page = clef__pages_sliding(w->pages, b);
        assert_true(w->now.rows[b][i % KV_BLOCK] == prefix_number(s, i + 1));
        if (w->opts.window && i >= seen) {
            assert_true(page >= 0 && page < N_SLIDING);
            assert_true(w->now.sliding[page][i % KV_BLOCK] == prefix_number(s, i + 1));
        }
    }
}

/* Blocks in chains are those that the open sequences reach. */
static void check_counts(const world *w)
{
    unsigned char reached[N_BLOCKS] = {0};
    int32_t n = 0;
    for (int32_t i = 0; i < N_CHAINS; i++)
        for (int32_t b = 0; w->all[i].is_open && b < w->all[i].chain.n; b++) {
            n += !reached[w->all[i].chain.blocks[b]];
            reached[w->all[i].chain.blocks[b]] = 1;
        }
    const clef__pages_count c = clef__pages_counts(w->pages);
    assert_int_equal(c.in_chains, n);
    assert_int_equal(c.in_chains + c.kept + c.free, N_BLOCKS);
    assert_true(c.kept >= 0 && c.free >= 0 && c.sliding_kept >= 0 && c.sliding_free >= 0);
    assert_int_equal(clef__pages_available(w->pages), c.kept + c.free);
}

/* A prompt that often shares its beginning with others: few tokens, and a few that recur. */
static void make_prompt(world *w, sequence *s)
{
    const int32_t common = draw(w, 3), n_common = draw(w, LONGEST / 2);
    s->n = 1 + draw(w, LONGEST - 60);
    for (int32_t i = 0; i < s->n; i++)
        s->tokens[i] = i < n_common ? (common * 31 + i * i) % 11 : draw(w, 2);
    s->key = (clef__pages_key){draw(w, 3), (uint64_t)draw(w, 2)};
}

static void copy_rows(world *w, const clef__page_copy *c)
{
    for (int32_t r = 0; r < c->rows; r++) {
        w->now.rows[c->to][r] = w->now.rows[c->from][r];
        if (w->opts.window && c->sliding_to != c->sliding_from) /* the page may stay (model/batch/plan.c) */
            w->now.sliding[c->sliding_to][r] = w->now.sliding[c->sliding_from][r];
    }
    w->n_copies += c->rows > 0;
}

static void open_sequence(world *w, sequence *s)
{
    clef__page_copy copy;
    int32_t mark;
    make_prompt(w, s);
    const int32_t n = clef__pages_find(w->pages, s->key, s->tokens, s->n - 1, &mark);
    assert_in_range(n, 0, s->n - 1);
    assert_true(mark < 0 || w->now.marks[mark] == prefix_number(s, n));
    assert_int_equal(mark >= 0, w->opts.n_marks && n);
    s->chain.blocks = s->blocks;
    s->is_open = clef__pages_begin(w->pages, s->key, s->tokens, n, &s->chain, &copy);
    w->n_refused += !s->is_open;
    if (!s->is_open)
        return;
    copy_rows(w, &copy);
    w->n_hits += n > 0;
    s->n_past = n;
    check_rows(w, s);
}

/* Computes some tokens more, as a step does. */
static void feed(world *w, sequence *s)
{
    int32_t n = 1 + draw(w, 90);
    if (s->n_past == s->n && s->n < LONGEST)
        s->tokens[s->n++] = draw(w, 2);
    n = n < s->n - s->n_past ? n : s->n - s->n_past;
    clef__pages_slide(w->pages, &s->chain, s->n_past);
    if (n == 0 || !clef__pages_grow(w->pages, &s->chain, s->n_past + n)) {
        w->n_refused += n > 0;
        return;
    }
    for (int32_t i = s->n_past; i < s->n_past + n; i++) {
        const int32_t b = s->chain.blocks[i / KV_BLOCK], page = clef__pages_sliding(w->pages, b);
        w->now.rows[b][i % KV_BLOCK] = prefix_number(s, i + 1);
        if (w->opts.window)
            w->now.sliding[page][i % KV_BLOCK] = prefix_number(s, i + 1);
    }
    clef__pages_note(w->pages, &s->chain, s->n_past, s->tokens + s->n_past, n);
    s->n_past += n;
    const int32_t mark = clef__pages_mark(w->pages, &s->chain, s->n_past);
    if (mark >= 0)
        w->now.marks[mark] = prefix_number(s, s->n_past);
}

static void run_world(int32_t window, int32_t hash_bits, int32_t n_marks)
{
    world *w = calloc(1, sizeof *w);
    clef_error err = {0};
    const int64_t least = n_marks ? 20 : 100; /* a prefix has to end at a mark */
    assert_non_null(w);
    w->random = 99 + (uint64_t)window;
    w->opts = (clef__pages_opts){.n_blocks = N_BLOCKS,
                                 .n_chains = N_CHAINS,
                                 .window = window,
                                 .n_sliding = N_SLIDING,
                                 .n_marks = n_marks,
                                 .keeps = 1,
                                 .hash_bits = hash_bits};
    ok(clef__pages_create(&w->opts, &w->pages, &err), &err);
    for (int32_t i = 0; i < N_STEPS; i++) {
        sequence *s = &w->all[draw(w, N_CHAINS)];
        if (!s->is_open) {
            open_sequence(w, s);
        } else if (draw(w, 25) == 0) {
            clef__pages_end(w->pages, &s->chain);
            s->is_open = 0;
        } else {
            feed(w, s);
        }
        check_counts(w);
        for (int32_t k = 0; k < N_CHAINS; k++)
            if (w->all[k].is_open)
                check_rows(w, &w->all[k]);
    }
    assert_true(w->n_hits > least);
    assert_true(w->n_copies > least);
    assert_true(w->n_refused > 100);
    for (int32_t i = 0; i < N_CHAINS; i++)
        if (w->all[i].is_open)
            clef__pages_end(w->pages, &w->all[i].chain);
    assert_int_equal(clef__pages_counts(w->pages).in_chains, 0);
    assert_int_equal(clef__pages_counts(w->pages).sliding_in_chains, 0);
    clef__pages_destroy(w->pages);
    free(w);
}

TEST(test_random_trees)
{
    run_world(0, 4, 0);
    run_world(0, 0, 0);
    run_world(0, 0, N_MARKS);
}

TEST(test_random_trees_with_a_window)
{
    run_world(WINDOW, 4, 0);
    run_world(WINDOW, 4, N_MARKS);
}

/* With room for everything the longest common prefix is found, exact to the token. */
TEST(test_longest_prefix)
{
    enum { N = 30, LENGTH = 200, ROOM = N * 8 };
    static int32_t tokens[N][LENGTH], blocks[ROOM];
    const clef__pages_opts opts = {.n_blocks = ROOM, .n_chains = 1, .keeps = 1, .hash_bits = 4};
    clef__pages *pages;
    clef__page_copy copy;
    clef_error err = {0};
    uint64_t random = 5;
    int32_t mark;
    ok(clef__pages_create(&opts, &pages, &err), &err);
    for (int32_t k = 0; k < N; k++) {
        const int32_t like = (int32_t)(clef__random_uniform(&random) * k),
                      same = (int32_t)(clef__random_uniform(&random) * (double)LENGTH);
        int32_t longest = 0;
        for (int32_t i = 0; i < LENGTH; i++)
            tokens[k][i] = k && i < same ? tokens[like][i] : (int32_t)(clef__random_uniform(&random) * 3);
        for (int32_t other = 0; other < k; other++) {
            int32_t n = 0;
            while (n < LENGTH - 1 && tokens[other][n] == tokens[k][n])
                n++;
            longest = n > longest ? n : longest;
        }
        clef__chain chain = {.blocks = blocks};
        const int32_t n = clef__pages_find(pages, (clef__pages_key){0, 0}, tokens[k], LENGTH - 1, &mark);
        assert_int_equal(n, longest);
        assert_int_equal(clef__pages_find(pages, (clef__pages_key){0, 1}, tokens[k], LENGTH - 1, &mark), 0);
        assert_int_equal(clef__pages_find(pages, (clef__pages_key){1, 0}, tokens[k], LENGTH - 1, &mark), 0);
        assert_true(clef__pages_begin(pages, (clef__pages_key){0, 0}, tokens[k], n, &chain, &copy));
        assert_true(clef__pages_grow(pages, &chain, LENGTH));
        clef__pages_note(pages, &chain, n, tokens[k] + n, LENGTH - n);
        clef__pages_end(pages, &chain);
    }
    clef__pages_forget(pages);
    assert_int_equal(clef__pages_counts(pages).free, ROOM);
    clef__pages_destroy(pages);
}

/* A mark is found where its tokens are, and goes with its block. */
TEST(test_marks)
{
    const clef__pages_opts opts = {.n_blocks = 7, .n_chains = 1, .n_marks = 2, .keeps = 1};
    int32_t tokens[430], blocks[7], mark;
    clef__chain chain = {.blocks = blocks};
    clef__page_copy copy;
    clef__pages *pages;
    clef_error err = {0};
    for (int32_t i = 0; i < 430; i++)
        tokens[i] = i;
    ok(clef__pages_create(&opts, &pages, &err), &err);
    assert_true(clef__pages_begin(pages, (clef__pages_key){0, 0}, tokens, 0, &chain, &copy));
    assert_true(clef__pages_grow(pages, &chain, 200));
    clef__pages_note(pages, &chain, 0, tokens, 100);
    assert_int_equal(clef__pages_mark(pages, &chain, 101), -1); /* not noted yet */
    const int32_t at_100 = clef__pages_mark(pages, &chain, 100);
    clef__pages_note(pages, &chain, 100, tokens + 100, 100);
    const int32_t at_200 = clef__pages_mark(pages, &chain, 200);
    assert_true(at_100 >= 0 && at_200 >= 0 && at_100 != at_200);
    clef__pages_end(pages, &chain);
    assert_int_equal(clef__pages_find(pages, (clef__pages_key){0, 0}, tokens, 199, &mark), 100);
    assert_int_equal(mark, at_100);
    assert_int_equal(clef__pages_find(pages, (clef__pages_key){0, 0}, tokens, 250, &mark), 200);
    assert_int_equal(mark, at_200);
    assert_int_equal(clef__pages_find(pages, (clef__pages_key){0, 0}, tokens, 99, &mark), 0);
    assert_int_equal(mark, -1);
    /* blocks that are computed once more, as for a prompt that ends before every mark, hide none */
    assert_true(clef__pages_begin(pages, (clef__pages_key){0, 0}, tokens, 0, &chain, &copy));
    assert_true(clef__pages_grow(pages, &chain, 70));
    clef__pages_note(pages, &chain, 0, tokens, 70);
    clef__pages_end(pages, &chain);
    assert_int_equal(clef__pages_find(pages, (clef__pages_key){0, 0}, tokens, 199, &mark), 100);
    assert_int_equal(mark, at_100);
    assert_true(clef__pages_begin(pages, (clef__pages_key){0, 0}, tokens, 100, &chain, &copy));
    assert_int_equal(copy.rows, 36);
    clef__pages_end(pages, &chain);
    tokens[0] = -1; /* another sequence needs the blocks */
    assert_true(clef__pages_begin(pages, (clef__pages_key){0, 0}, tokens, 0, &chain, &copy));
    assert_true(clef__pages_grow(pages, &chain, 430));
    tokens[0] = 0;
    assert_int_equal(clef__pages_find(pages, (clef__pages_key){0, 0}, tokens, 250, &mark), 0);
    clef__pages_end(pages, &chain);
    clef__pages_destroy(pages);
}

/* Trees come and go, each with a salt of its own; a prefix is found by its own key alone. */
TEST(test_many_trees)
{
    const clef__pages_opts opts = {.n_blocks = N_BLOCKS, .n_chains = N_CHAINS, .keeps = 1, .hash_bits = 2};
    int32_t tokens[KV_BLOCK + 1], blocks[2], mark;
    clef__pages *p;
    clef__page_copy copy;
    clef_error err = {0};
    assert_int_equal(clef__pages_create(&opts, &p, &err), CLEF_OK);
    for (int32_t i = 0; i <= KV_BLOCK; i++)
        tokens[i] = i;
    for (int32_t i = 0; i < 2000; i++) {
        const clef__pages_key key = {.adapter = i % 3, .salt = (uint64_t)i};
        clef__chain chain = {.root = -1, .blocks = blocks};
        assert_int_equal(clef__pages_find(p, key, tokens, KV_BLOCK, &mark), 0);
        assert_int_equal(clef__pages_begin(p, key, tokens, 0, &chain, &copy), 1);
        assert_int_equal(clef__pages_grow(p, &chain, KV_BLOCK), 1);
        clef__pages_note(p, &chain, 0, tokens, KV_BLOCK);
        clef__pages_end(p, &chain);
        for (int32_t k = i < N_BLOCKS ? 0 : i - N_BLOCKS; k <= i; k++) /* the last ones are there */
            assert_int_equal(
                clef__pages_find(p, (clef__pages_key){k % 3, (uint64_t)k}, tokens, KV_BLOCK, &mark),
                k > i - N_BLOCKS ? KV_BLOCK : 0);
        assert_int_equal(
            clef__pages_find(p, (clef__pages_key){(i + 1) % 3, (uint64_t)i}, tokens, KV_BLOCK, &mark), 0);
    }
    clef__pages_destroy(p);
}

TESTS(NULL, NULL)
