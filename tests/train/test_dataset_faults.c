/* Datasets when memory is short: each allocation in turn fails. And reading rows allocates nothing. */
#define TEST_NAME "test-dataset-faults"
#include "tests/failing_alloc.h"
#include "tests/train/words.h"

static space got;
static clef_tokenizer *tok;

/* Opens it with one more allocation that succeeds each time, until all do. */
static void fail_each(clef_dataset_opts opts, int n_least)
{
    clef_error err = {0};
    clef_dataset *ds = NULL;
    int n_failures = 0;
    opts.n_tokens = 16;
    for (int i = 1;; i++) {
        atomic_store(&n_allocations, 0);
        atomic_store(&fail_allocation, i);
        const clef_status st = clef_dataset_open(tok, &opts, &ds, &err);
        atomic_store(&fail_allocation, 0);
        if (atomic_load(&n_allocations) < i) {
            ok(st, &err);
            break;
        }
        if (st) {
            assert_null(ds);
            assert_int_equal(st, CLEF_E_NOMEM);
            assert_true(err.text[0] != 0);
            n_failures++;
        } else {
            clef_dataset_close(ds); /* it can do without: a list is not shrunk */
        }
    }
    assert_true(n_failures >= n_least);
    clef_rows rows = rows_in(&got);
    atomic_store(&n_allocations, 0);
    ok(clef_dataset_read(ds, CLEF_TRAINING, 0, 40, &rows, &err), &err);
    ok(clef_dataset_read(ds, CLEF_VALIDATION, 0, 40, &rows, &err), &err);
    assert_int_equal(atomic_load(&n_allocations), 0);
    clef_dataset_close(ds);
}

TEST(failures_are_reported)
{
    char text[300], pairs[300];
    corpus c;
    snprintf(text, sizeof text, "%s", temp_path("words.txt"));
    snprintf(pairs, sizeof pairs, "%s", temp_path("pairs.jsonl"));
    make_corpus(&c, 30, 40);
    write_corpus(text, &c, "<|endoftext|>\n");
    write_text(pairs, "{\"source\":\"w1 w2\",\"target\":\"w3\"}\n{\"source\":\"w4\",\"target\":\"w5\"}\n");
    const char *const texts[] = {text}, *const both[] = {pairs};
    fail_each((clef_dataset_opts){.files = texts, .n_files = 1, .cache_dir = ""}, 20);
    fail_each((clef_dataset_opts){.files = texts, .n_files = 1, .cache_dir = "", .packing = CLEF_PACK_WHOLE},
              30);
    fail_each(
        (clef_dataset_opts){.files = texts, .n_files = 1, .cache_dir = "", .objective = CLEF_MASKED_TOKENS},
        20);
    fail_each((clef_dataset_opts){.files = both, .n_files = 1, .cache_dir = "", .objective = CLEF_TEXT_PAIRS},
              8);
    clef__os_remove(text);
    clef__os_remove(pairs);
}

static int open_tokenizer(void **state)
{
    clef_error err = {0};
    if (make_temp_dir(state))
        return -1;
    write_tokenizer(temp_path("words.json"), 1);
    ok(clef_tokenizer_open(temp_path("words.json"), &tok, &err), &err);
    return 0;
}

static int close_tokenizer(void **state)
{
    clef_tokenizer_close(tok);
    clef__os_remove(temp_path("words.json"));
    return remove_temp_dir(state);
}

TESTS(open_tokenizer, close_tokenizer)
