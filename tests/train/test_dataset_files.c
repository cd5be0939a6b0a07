/* The files of a dataset: how they are cut into documents, what is refused, and the cache of tokens. */
#define TEST_NAME "test-dataset-files"
#include "tests/train/words.h"

static space got, again;
static clef_tokenizer *tok;

static clef_status open_file(const char *path, clef_dataset_opts opts, clef_dataset **ds, clef_error *err)
{
    const char *const files[] = {path};
    if (!opts.files) {
        opts.files = files;
        opts.n_files = 1;
    }
    opts.n_tokens = opts.n_tokens ? opts.n_tokens : 8;
    opts.validation = opts.validation == 0 ? -1 : opts.validation;
    opts.cache_dir = opts.cache_dir ? opts.cache_dir : "";
    return clef_dataset_open(tok, &opts, ds, err);
}

/* ---- documents ------------------------------------------------------------------------------- */

#define MARK "<|endoftext|>"
#define BOM "\xEF\xBB\xBF"

/* A file and the words of its documents. E is the token <|endoftext|> inside a document, U an unknown
 * word. */
static const struct {
    const char *name, *text;
    clef_dataset_opts opts;
    const char *documents;
    int32_t n_empty;
} cuts[] = {
    {"a.txt", "w0 w1\nw2\n\nw3\n", {0}, "w0 w1 w2 w3", 0},
    {"a.txt", BOM "w0", {0}, "w0", 0},
    {"a.txt", "w0\n" MARK "\nw1\nw2\r\n" MARK "\r\nw3", {0}, "w0|w1 w2|w3", 0},
    {"a.txt", MARK "\nw0\n" MARK "\n \n\n" MARK "\nw1\n" MARK "\n", {0}, "w0|w1", 2},
    {"a.txt", "w0\n " MARK "\nw1", {0}, "w0 E w1", 0}, /* no line of its own: the tokenizer's own token */
    {"a.txt", "w0\n--\nw1\n---\nw2", {.separator = "--"}, "w0|w1 U w2", 0},
    {"a.txt",
     "\n\nw0 w1\nw2\n\n \t\n\nw3\r\n\r\nw4\n",
     {.documents = CLEF_DOCUMENTS_BLANK_LINES},
     "w0 w1 w2|w3|w4",
     0},
    {"a.txt", "w0 w1\n\nw2\r\nw3", {.documents = CLEF_DOCUMENTS_LINES}, "w0 w1|w2|w3", 0},
    {"a.txt", "w0\n" MARK "\nw1\n", {.documents = CLEF_DOCUMENTS_FILES}, "w0 E w1", 0},
    {"a.jsonl",
     "{\"text\":\"w0\\nw1\"}\n\n{\"id\":1,\"text\":\"w2\"}\r\n{\"text\":\" \\n\"}\n{\"text\":\"w3\"}",
     {.documents = CLEF_DOCUMENTS_LINES},
     "w0 w1|w2|w3",
     1},
};

/* Writes the documents of the validation, which are in one row, in the way of `cuts`. */
static void write_documents(const clef_dataset *ds, char *out)
{
    clef_error err = {0};
    clef_rows rows = rows_in(&got);
    ok(clef_dataset_read(ds, CLEF_VALIDATION, 0, 1, &rows, &err), &err);
    *out = 0;
    for (int i = 0; got.attention_mask[i]; i++) {
        const int32_t id = got.input_ids[i];
        if (got.labels[i] == -1) {
            assert_int_equal(id, END); /* what ends the document */
            continue;
        }
        strcat(out, i == 0 ? "" : got.positions[i] == 0 ? "|" : " ");
        if (id < N_WORDS)
            sprintf(out + strlen(out), "w%d", id);
        else
            strcat(out, id == END ? "E" : id == UNKNOWN ? "U" : "?");
    }
}

TEST(files_are_cut_into_documents)
{
    char other[300];
    snprintf(other, sizeof other, "%s", temp_path("other.txt"));
    write_text(other, "w100 w101");
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const char *const train[] = {other}, *const valid[] = {temp_path(cuts[i].name)};
        clef_dataset_opts opts = cuts[i].opts;
        clef_error err = {0};
        clef_dataset *ds;
        char text[300];
        opts.files = train;
        opts.n_files = opts.n_validation_files = 1;
        opts.validation_files = valid;
        opts.n_tokens = 64; /* one row, so that positions show where documents begin */
        opts.end_of_text = MARK;
        write_text(valid[0], cuts[i].text);
        ok(open_file(NULL, opts, &ds, &err), &err);
        write_documents(ds, text);
        if (strcmp(text, cuts[i].documents) != 0 || clef_dataset_describe(ds).n_empty != cuts[i].n_empty)
            fail_msg("case %zu: got '%s' and %d empty, expected '%s' and %d", i, text,
                     (int)clef_dataset_describe(ds).n_empty, cuts[i].documents, cuts[i].n_empty);
        clef_dataset_close(ds);
        clef__os_remove(valid[0]);
    }
    clef__os_remove(other);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static const struct {
    const char *name, *text; /* NULL: no such file */
    clef_dataset_opts opts;
    clef_status status;
    const char *piece;
} refused[] = {
    {"a.txt", NULL, {0}, CLEF_E_IO, "a.txt"},
    {"a.txt", "", {0}, CLEF_E_FORMAT, "a.txt: expected text, got an empty file"},
    {"a.jsonl", "", {0}, CLEF_E_FORMAT, "an empty file"},
    {"a.txt", " \n\t\n", {0}, CLEF_E_FORMAT, "expected text to train on"},
    {"a.txt", "w0", {.end_of_text = ""}, CLEF_E_FORMAT, "1 documents with 1 tokens"},
    {"a.txt",
     "w0\nw1 \xFFw2",
     {0},
     CLEF_E_FORMAT,
     "a.txt: expected UTF-8 text, got an invalid byte at byte 6 (line 2)"},
    {"a.txt", "w0\xC3", {0}, CLEF_E_FORMAT, "at byte 2 (line 1)"},
    {"a.txt", "w0\xED\xA0\x80", {0}, CLEF_E_FORMAT, "at byte 2"}, /* a surrogate */
    {"a.jsonl", "{\"text\":\"w0\"}\n\n{\"text\":\"w1\"", {0}, CLEF_E_FORMAT, "a.jsonl, line 3"},
    {"a.jsonl",
     "{\"text\":\"w0\"}\n[1]\n",
     {0},
     CLEF_E_FORMAT,
     "a.jsonl, line 2: expected an object, got an array"},
    {"a.jsonl",
     "{\"text\":7}\n",
     {0},
     CLEF_E_FORMAT,
     "a.jsonl, line 1: text is an integer, expected a string"},
    {"a.jsonl", "{\"txt\":\"\"}\n", {0}, CLEF_E_FORMAT, "a.jsonl, line 1: expected a string 'text'"},
    {"a.jsonl", "{\"text\":\"a\\u0000\"}\n", {0}, CLEF_E_FORMAT, "a.jsonl, line 1"},
    {"a.jsonl",
     "{\"source\":\"w0\"}",
     {.objective = CLEF_TEXT_PAIRS},
     CLEF_E_FORMAT,
     "expected a string 'target'"},
    {"a.txt", "w0", {.objective = CLEF_TEXT_PAIRS}, CLEF_E_ARG, ".jsonl"},
    {"a.txt", "w0", {.objective = CLEF_TEXT_PAIRS, .decoder_start = N_IDS}, CLEF_E_ARG, "decoder_start"},
    {"a.txt", "w0", {.end_of_text = "</s>"}, CLEF_E_NOT_FOUND, "no token '</s>'"},
    {"a.txt", "w0", {.n_tokens = 1}, CLEF_E_ARG, "2 tokens at least, got 1"},
    {"a.txt", "w0", {.validation = 1}, CLEF_E_ARG, "below 1"},
    {"a.txt", "w0", {.mask_rate = 1.5}, CLEF_E_ARG, "mask rate"},
    {"a.txt", "w0", {.separator = "a\nb"}, CLEF_E_ARG, "separator of one line"},
    {"a.txt", "w0", {.packing = (clef_packing)2}, CLEF_E_ARG, "packing"},
};

TEST(wrong_files_are_refused)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *path = temp_path(refused[i].name);
        clef_error err = {0};
        clef_dataset *ds;
        if (refused[i].text)
            write_text(path, refused[i].text);
        const clef_status st = open_file(path, refused[i].opts, &ds, &err);
        check_error(refused[i].piece, st, &err, refused[i].status, refused[i].piece);
        assert_null(ds);
        clef__os_remove(path);
    }
}

TEST(other_faults_are_refused)
{
    const char *const twice[] = {temp_path("a.txt"), temp_path("b.txt")};
    clef_error err = {0};
    clef_dataset *ds;
    clef_rows rows = rows_in(&got);
    write_file(twice[0], "w0\n\0w1", 6);
    check_error("NUL", open_file(twice[0], (clef_dataset_opts){0}, &ds, &err), &err, CLEF_E_FORMAT,
                "a NUL at byte 3 (line 2)");
    check_error("a folder", open_file(temp_dir, (clef_dataset_opts){0}, &ds, &err), &err, CLEF_E_IO,
                "is a folder");
    write_text(twice[0], "w0 w1");
    write_text(twice[1], "w0 w1");
    check_error("twice", open_file(NULL, (clef_dataset_opts){.files = twice, .n_files = 2}, &ds, &err), &err,
                CLEF_E_ARG, "b.txt: holds the same as");
    check_error(
        "training and validation",
        open_file(NULL,
                  (clef_dataset_opts){
                      .files = twice, .n_files = 1, .validation_files = twice + 1, .n_validation_files = 1},
                  &ds, &err),
        &err, CLEF_E_ARG, "b.txt: holds the same as");
    check_error("no file", clef_dataset_open(tok, &(clef_dataset_opts){.n_tokens = 8}, &ds, &err), &err,
                CLEF_E_ARG, "got none");
    assert_int_equal(clef_dataset_open(NULL, NULL, &ds, &err), CLEF_E_ARG);
    ok(open_file(twice[0], (clef_dataset_opts){0}, &ds, &err), &err);
    assert_int_equal(clef_dataset_read(ds, CLEF_TRAINING, -1, 1, &rows, &err), CLEF_E_ARG);
    assert_int_equal(clef_dataset_read(ds, CLEF_TRAINING, 0, -1, &rows, &err), CLEF_E_ARG);
    rows = (clef_rows){0}; /* arrays may be left out */
    ok(clef_dataset_read(ds, CLEF_TRAINING, 0, 1, &rows, &err), &err);
    assert_int_equal(rows.n_tokens, 3);
    clef_dataset_close(ds);
    clef_dataset_close(NULL);
    clef__os_remove(twice[0]);
    clef__os_remove(twice[1]);
}

TEST(objectives_need_their_tokens)
{
    const char *path = temp_path("a.txt"), *files[] = {path};
    clef_dataset_opts opts = {
        .files = files, .n_files = 1, .n_tokens = 2, .objective = CLEF_MASKED_TOKENS, .cache_dir = ""};
    clef_error err = {0};
    clef_dataset *ds;
    clef_tokenizer *demo, *framed;
    write_text(path, "w0");
    ok(clef_tokenizer_open(CLEF_SOURCE_DIR "/share/demo", &demo, &err), &err);
    check_error("mask", clef_dataset_open(demo, &opts, &ds, &err), &err, CLEF_E_NOT_FOUND, "no mask token");
    write_tokenizer(temp_path("tokenizer.json"), 1);
    ok(clef_tokenizer_open(temp_path("tokenizer.json"), &framed, &err), &err);
    check_error("room", clef_dataset_open(framed, &opts, &ds, &err), &err, CLEF_E_LIMIT,
                "rows of 2 tokens have no room for a text beside 2 special tokens");
    clef_tokenizer_close(demo);
    clef_tokenizer_close(framed);
    clef__os_remove(path);
    clef__os_remove(temp_path("tokenizer.json"));
}

/* ---- progress -------------------------------------------------------------------------------- */

typedef struct watch {
    uint64_t last, total, stop_at;
    int n_calls;
} watch;

static int watch_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    watch *w = user;
    assert_string_equal(what, "tokens");
    assert_true(done >= w->last && done <= total && (!w->total || total == w->total));
    w->last = done;
    w->total = total;
    w->n_calls++;
    return w->stop_at && done >= w->stop_at;
}

TEST(progress_is_reported_and_may_stop)
{
    enum { N = 700 << 10 };
    static char text[N + 1];
    const char *path = temp_path("long.txt");
    watch w = {0};
    clef_error err = {0};
    clef_dataset *ds;
    for (int i = 0; i < N; i++)
        text[i] = "w1 w2\n"[i % 6];
    write_text(path, text);
    clef_dataset_opts opts = {
        .documents = CLEF_DOCUMENTS_LINES, .progress = watch_progress, .progress_user = &w};
    ok(open_file(path, opts, &ds, &err), &err);
    assert_true(w.n_calls >= 4 && w.last == N && w.total == N);
    clef_dataset_close(ds);
    w = (watch){.stop_at = N / 2};
    assert_int_equal(open_file(path, opts, &ds, &err), CLEF_E_CANCELLED);
    assert_null(ds);
    assert_true(w.last < N);
    clef__os_remove(path);
}

/* The tokenizer gets a long document in parts, which neither lose nor cut a word. */
TEST(long_documents_are_whole)
{
    enum { N = 17 << 20 };
    static char text[N + 1];
    static const char *const words[] = {"w12 w34\n", "w12 w345 "}; /* with line ends, and with spaces alone */
    const char *path = temp_path("long.txt");
    for (int k = 0; k < 2; k++) {
        const size_t n_word = strlen(words[k]);
        clef_error err = {0};
        clef_dataset *ds;
        clef_rows rows = rows_in(&got);
        for (size_t i = 0; i < N; i++)
            text[i] = words[k][i % n_word];
        write_file(path, text, N - N % n_word);
        ok(open_file(path, (clef_dataset_opts){.n_tokens = 8192}, &ds, &err), &err);
        const clef_dataset_counts counts = clef_dataset_describe(ds).splits[CLEF_TRAINING];
        assert_int_equal(counts.n_documents, 1);
        assert_int_equal(counts.n_tokens, 2 * (N / n_word) + 1);
        for (int64_t row = 0; row < counts.n_rows; row++) {
            ok(clef_dataset_read(ds, CLEF_TRAINING, row, 1, &rows, &err), &err);
            for (int t = 0; t < 8192; t++)
                assert_true(got.input_ids[t] == 12 || got.input_ids[t] == (k ? 345 : 34) ||
                            got.labels[t] < 0);
        }
        clef_dataset_close(ds);
    }
    clef__os_remove(path);
}

/* ---- the cache ------------------------------------------------------------------------------- */

static char entry[700]; /* the only file of the cache */
static int n_entries;

static clef_status see_entry(void *user, const clef__os_file_info *file)
{
    (void)user;
    n_entries++;
    snprintf(entry, sizeof entry, "%s", file->path);
    return CLEF_OK;
}

static clef_status remove_entry(void *user, const clef__os_file_info *file)
{
    (void)user;
    clef__os_remove(file->path);
    return CLEF_OK;
}

static int count_entries(const char *cache)
{
    char folder[700];
    snprintf(folder, sizeof folder, "%s/tokens", cache);
    n_entries = 0;
    clef__os_list(folder, see_entry, NULL);
    return n_entries;
}

/* Opens the text, reads rows into `to`, and returns how many files were cached before. */
static int read_cached(const char *path, const char *cache, clef_dataset_opts opts, space *to)
{
    clef_error err = {0};
    clef_dataset *ds;
    clef_rows rows = rows_in(to);
    opts.cache_dir = cache;
    opts.n_tokens = 64;
    ok(open_file(path, opts, &ds, &err), &err);
    ok(clef_dataset_read(ds, CLEF_TRAINING, 0, 200, &rows, &err), &err);
    const int n = clef_dataset_describe(ds).n_cached;
    clef_dataset_close(ds);
    return n;
}

static void write_long_text(const char *path, int step)
{
    static char text[(N_WORDS + 1) * 12];
    size_t n = 0;
    for (int i = 0; i < 2 * N_WORDS; i++)
        n += (size_t)sprintf(text + n, "w%d%c", i * step % N_WORDS, i % 10 == 9 ? '\n' : ' ');
    assert_true(n >= 64 << 10);
    write_file(path, text, n);
}

/* Damages the cached file in several ways; each time it must be made anew, with the same result. */
static void damage(const char *path, const char *cache, size_t at, size_t n_cut)
{
    clef_error err = {0};
    char *bytes;
    size_t n;
    ok(clef__os_read(entry, 1 << 20, &bytes, &n, &err), &err);
    bytes[at < n ? at : n - 1] ^= 1;
    write_file(entry, bytes, n - n_cut);
    free(bytes);
    assert_int_equal(read_cached(path, cache, (clef_dataset_opts){0}, &again), 0);
    assert_memory_equal(got.input_ids, again.input_ids, sizeof got.input_ids);
    assert_int_equal(read_cached(path, cache, (clef_dataset_opts){0}, &again), 1);
    assert_memory_equal(got.input_ids, again.input_ids, sizeof got.input_ids);
}

static int n_damaged, n_tokens_files;
static void see_report(void *user, const clef_cache_entry *e)
{
    (void)user;
    n_tokens_files += e->kind == CLEF_CACHE_TOKENS;
    n_damaged += e->is_damaged;
}

static void check_report(const char *cache, int wanted_damaged)
{
    clef_error err = {0};
    n_damaged = n_tokens_files = 0;
    ok(clef_cache_list(cache, &(clef_cache_report){.verify = 1, .entry = see_report}, &err), &err);
    assert_int_equal(n_tokens_files, 1);
    assert_int_equal(n_damaged, wanted_damaged);
}

TEST(tokens_are_cached)
{
    char path[300], cache[300];
    static const struct {
        size_t at, n_cut;
    } damages[] = {{0, 0},    {9, 0},        {12, 0}, {20, 0}, {64, 0},
                   {5000, 0}, {SIZE_MAX, 0}, {64, 1}, {64, 8}, {64, 30000}};
    snprintf(path, sizeof path, "%s", temp_path("text.txt"));
    snprintf(cache, sizeof cache, "%s", temp_path("cache"));
    write_long_text(path, 7);
    read_cached(path, "", (clef_dataset_opts){0}, &got);
    assert_int_equal(read_cached(path, cache, (clef_dataset_opts){0}, &again), 0);
    assert_memory_equal(got.input_ids, again.input_ids, sizeof got.input_ids);
    assert_int_equal(read_cached(path, cache, (clef_dataset_opts){0}, &again), 1);
    assert_memory_equal(got.input_ids, again.input_ids, sizeof got.input_ids);
    assert_int_equal(count_entries(cache), 1); /* no temporary file beside it */
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++)
        damage(path, cache, damages[i].at, damages[i].n_cut);
    check_report(cache, 0);
    write_file(entry, "cleftoks", 8);
    check_report(cache, 1);
    write_file(entry, "", 0);
    assert_int_equal(read_cached(path, cache, (clef_dataset_opts){0}, &again), 0);

    assert_int_equal(read_cached(path, cache, (clef_dataset_opts){.documents = CLEF_DOCUMENTS_LINES}, &again),
                     0);
    assert_int_equal(count_entries(cache), 2); /* another rule */
    write_long_text(path, 11);
    assert_int_equal(read_cached(path, cache, (clef_dataset_opts){0}, &again), 0); /* another text */
    assert_int_equal(count_entries(cache), 3);
    clef_tokenizer *const kept = tok;
    clef_error err = {0};
    ok(clef_tokenizer_open(CLEF_SOURCE_DIR "/share/demo", &tok, &err), &err); /* another tokenizer */
    assert_int_equal(read_cached(path, cache, (clef_dataset_opts){0}, &again), 0);
    clef_tokenizer_close(tok);
    tok = kept;
    assert_int_equal(count_entries(cache), 4);
    write_text(path, "w1 w2 w3"); /* too short for a file of its own */
    assert_int_equal(read_cached(path, cache, (clef_dataset_opts){0}, &again), 0);
    assert_int_equal(count_entries(cache), 4);

    char folder[320];
    snprintf(folder, sizeof folder, "%s/tokens", cache);
    clef__os_list(folder, remove_entry, NULL);
    clef__os_remove(path);
    assert_int_equal(remove(folder), 0);
    assert_int_equal(remove(cache), 0);
}

static void take_note(void *user, const char *text)
{
    assert_non_null(strstr(text, "tokens are kept in memory"));
    ++*(int *)user;
}

/* The cache's folder is a file. */
TEST(without_a_cache_tokens_stay_in_memory)
{
    char path[300], cache[300];
    int n_notes = 0;
    snprintf(path, sizeof path, "%s", temp_path("text.txt"));
    snprintf(cache, sizeof cache, "%s", temp_path("file"));
    write_long_text(path, 7);
    write_text(cache, "no folder");
    read_cached(path, "", (clef_dataset_opts){0}, &got);
    assert_int_equal(
        read_cached(path, cache, (clef_dataset_opts){.note = take_note, .note_user = &n_notes}, &again), 0);
    assert_int_equal(n_notes, 1);
    assert_memory_equal(got.input_ids, again.input_ids, sizeof got.input_ids);
    clef__os_remove(path);
    clef__os_remove(cache);
}

/* A stopped run leaves nothing in the cache. */
TEST(stopping_leaves_no_file)
{
    char path[300], cache[300], folder[320];
    watch w = {.stop_at = 1};
    clef_error err = {0};
    clef_dataset *ds;
    snprintf(path, sizeof path, "%s", temp_path("text.txt"));
    snprintf(cache, sizeof cache, "%s", temp_path("cache"));
    snprintf(folder, sizeof folder, "%s/tokens", cache);
    write_long_text(path, 7);
    assert_int_equal(
        open_file(path,
                  (clef_dataset_opts){.cache_dir = cache, .progress = watch_progress, .progress_user = &w},
                  &ds, &err),
        CLEF_E_CANCELLED);
    assert_int_equal(count_entries(cache), 0);
    clef__os_remove(path);
    assert_int_equal(remove(folder), 0);
    assert_int_equal(remove(cache), 0);
}

static int open_tokenizer(void **state)
{
    clef_error err = {0};
    if (make_temp_dir(state))
        return -1;
    write_tokenizer(temp_path("words.json"), 0);
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
