/* Datasets: rows of each objective, splits, order. */
#define TEST_NAME "test-dataset"
#include "tests/skip.h"
#include "tests/train/words.h"

#include "train/model/dataset_order.h"

static space got, again;
static clef_tokenizer *plain, *framed; /* without and with special tokens around a text */
static int32_t n_seen[N_IDS];

static clef_dataset *open_words(const clef_tokenizer *tok, clef_dataset_opts opts)
{
    const char *const files[] = {temp_path("words.txt")};
    clef_error err = {0};
    clef_dataset *ds;
    opts.cache_dir = "";
    opts.end_of_text = opts.objective == CLEF_NEXT_TOKEN && tok == plain ? "<|endoftext|>" : NULL;
    if (!opts.files) {
        opts.files = files;
        opts.n_files = 1;
    }
    ok(clef_dataset_open(tok, &opts, &ds, &err), &err);
    return ds;
}

static clef_rows read_rows(const clef_dataset *ds, clef_split split, int64_t begin, int64_t n, space *to)
{
    clef_error err = {0};
    clef_rows rows = rows_in(to);
    ok(clef_dataset_read(ds, split, begin, (int32_t)n, &rows, &err), &err);
    return rows;
}

/* ---- the order ------------------------------------------------------------------------------- */

TEST(orders_are_permutations)
{
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 17, 64, 100, 255, 256, 257, 1000, 4097};
    static uint8_t seen[5000];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < sizes[k]; i++) {
            const uint64_t at = clef__draw_order(7, CLEF_DRAW_ROWS, 3, sizes[k], i);
            assert_true(at < sizes[k] && !seen[at]);
            seen[at] = 1;
        }
    }
}

/* Over many epochs each row comes first about equally often. */
TEST(orders_are_even)
{
    int n[6] = {0};
    for (uint32_t epoch = 0; epoch < 6000; epoch++)
        n[clef__draw_order(1, CLEF_DRAW_ROWS, epoch, 6, 0)]++;
    for (int i = 0; i < 6; i++)
        assert_in_range(n[i], 880, 1120); /* 1000 +- 4 standard deviations */
}

/* ---- next token ------------------------------------------------------------------------------ */

/* Checks rows of next-token training against the corpus: each token has its true label, and `first` is where
 * its document begins in the row. Counts ids. `cut` is a word whose next one belongs to the other split; -1:
 * none. Returns the number of padding tokens. */
static int64_t check_rows(const corpus *c, const clef_rows *r, int64_t n_rows, int T, int cut)
{
    int64_t n_padding = 0, n_labels = 0;
    for (int64_t i = 0; i < n_rows * T; i++) {
        const int t = (int)(i % T), id = r->input_ids[i], first = r->first[i], label = r->labels[i];
        assert_int_equal(r->positions[i], t - first);
        assert_int_equal(r->attention_mask[i], id != PAD);
        if (id == PAD) {
            assert_int_equal(first, t);
            assert_int_equal(label, -1);
            n_padding++;
            continue;
        }
        n_seen[id]++;
        n_labels += label >= 0;
        if (id == END || id == cut)
            assert_int_equal(label, -1);
        else
            assert_int_equal(label, id + 1 == c->start[document_of(c, id) + 1] ? END : id + 1);
        assert_in_range(first, 0, t);
        if (first < t) { /* it continues the document of the token before it */
            assert_int_equal(r->first[i - 1], first);
            assert_int_equal(r->labels[i - 1], id);
        } else if (t > 0) {
            assert_int_not_equal(r->labels[i - 1], id);
        }
    }
    assert_int_equal(n_labels, r->n_labels);
    assert_int_equal(n_rows * T - n_padding, r->n_tokens);
    return n_padding;
}

TEST(stream_has_each_token_once)
{
    enum { T = 32 };
    corpus c;
    make_corpus(&c, 90, 75);
    write_corpus(temp_path("words.txt"), &c, "<|endoftext|>\n");
    clef_dataset *ds = open_words(plain, (clef_dataset_opts){.n_tokens = T, .seed = 5, .validation = -1});
    const clef_dataset_info info = clef_dataset_describe(ds);
    const int64_t n_rows = info.splits[CLEF_TRAINING].n_rows;
    int64_t starts[3] = {0};
    assert_int_equal(info.splits[CLEF_TRAINING].n_documents, c.n_documents);
    assert_int_equal(info.splits[CLEF_TRAINING].n_tokens, c.n_words + c.n_documents);
    assert_int_equal(n_rows, (c.n_words + c.n_documents + T - 1) / T);
    assert_int_equal(info.splits[CLEF_VALIDATION].n_rows, 0);
    for (int epoch = 0; epoch < 3; epoch++) {
        memset(n_seen, 0, sizeof n_seen);
        const clef_rows r = read_rows(ds, CLEF_TRAINING, epoch * n_rows, n_rows, &got);
        assert_true(check_rows(&c, &r, n_rows, T, -1) < T);
        for (int w = 0; w < c.n_words; w++)
            assert_int_equal(n_seen[w], 1);
        assert_int_equal(n_seen[END], c.n_documents);
        assert_int_equal(r.n_labels, c.n_words);
        for (int64_t i = 0; i < n_rows; i++) /* whatever the rows' order */
            starts[epoch] += got.input_ids[i * T];
    }
    assert_true(starts[0] != starts[1] && starts[1] != starts[2] && starts[0] != starts[2]);
    clef_dataset_close(ds);
    clef__os_remove(temp_path("words.txt"));
}

TEST(one_text_is_cut_into_windows)
{
    enum { T = 64 };
    corpus c;
    make_corpus(&c, 1, 1);
    c.start[1] = c.n_words = 5000;
    write_corpus(temp_path("words.txt"), &c, "");
    clef_dataset *ds = open_words(plain, (clef_dataset_opts){.n_tokens = T, .seed = 5, .validation = 0.1});
    const clef_dataset_info info = clef_dataset_describe(ds);
    const int64_t n_train = info.splits[CLEF_TRAINING].n_rows, n_valid = info.splits[CLEF_VALIDATION].n_rows;
    assert_int_equal(info.from_cut, 1);
    assert_int_equal(info.splits[CLEF_TRAINING].n_tokens, 4500);
    assert_int_equal(info.splits[CLEF_VALIDATION].n_tokens, 501);
    for (int epoch = 0; epoch < 2; epoch++) {
        memset(n_seen, 0, sizeof n_seen);
        const clef_rows r = read_rows(ds, CLEF_TRAINING, epoch * n_train, n_train, &got);
        assert_true(check_rows(&c, &r, n_train, T, 4499) < T);
        assert_int_equal(r.n_labels, 4499); /* not the first of the validation */
        for (int w = 0; w < 5000; w++)
            assert_int_equal(n_seen[w], w < 4500);
    }
    memset(n_seen, 0, sizeof n_seen);
    const clef_rows r = read_rows(ds, CLEF_VALIDATION, 0, n_valid, &got);
    check_rows(&c, &r, n_valid, T, -1);
    for (int w = 0; w < 5000; w++)
        assert_int_equal(n_seen[w], w >= 4500);
    for (int i = 0; i < 500; i++)
        assert_int_equal(got.input_ids[i], 4500 + i); /* in order */
    clef_dataset_close(ds);
    clef__os_remove(temp_path("words.txt"));
}

/* A document's own special tokens; a short corpus that fits into one row. */
TEST(templates_frame_documents)
{
    static const int32_t ids[] = {BEGIN, 0, 1, 2, STOP, PAD, PAD, PAD},
                         labels[] = {0, 1, 2, STOP, -1, -1, -1, -1}, first[] = {0, 0, 0, 0, 0, 5, 6, 7};
    write_text(temp_path("words.txt"), "w0 w1 w2");
    clef_dataset *ds = open_words(framed, (clef_dataset_opts){.n_tokens = 8, .validation = -1});
    for (int epoch = 0; epoch < 3; epoch++) {
        const clef_rows r = read_rows(ds, CLEF_TRAINING, epoch, 1, &got);
        assert_int_equal(r.n_labels, 4);
        assert_memory_equal(got.input_ids, ids, sizeof ids);
        assert_memory_equal(got.labels, labels, sizeof labels);
        assert_memory_equal(got.first, first, sizeof first);
    }
    clef_dataset_close(ds);
    clef__os_remove(temp_path("words.txt"));
}

TEST(whole_documents_are_not_cut)
{
    enum { T = 48 };
    corpus c;
    make_corpus(&c, 120, 110);
    write_corpus(temp_path("words.txt"), &c, "<|endoftext|>\n");
    clef_dataset *ds =
        open_words(plain, (clef_dataset_opts){.n_tokens = T, .packing = CLEF_PACK_WHOLE, .validation = -1});
    const int64_t n_rows = clef_dataset_describe(ds).splits[CLEF_TRAINING].n_rows,
                  n_all = c.n_words + c.n_documents;
    for (int epoch = 0; epoch < 2; epoch++) {
        memset(n_seen, 0, sizeof n_seen);
        const clef_rows r = read_rows(ds, CLEF_TRAINING, epoch * n_rows, n_rows, &got);
        check_rows(&c, &r, n_rows, T, -1);
        for (int w = 0; w < c.n_words; w++)
            assert_int_equal(n_seen[w], 1);
        for (int64_t i = 0; i < n_rows * T; i++) {
            const int id = got.input_ids[i];
            if (id >= N_WORDS)
                continue;
            const int d = document_of(&c, id), from = got.input_ids[i - i % T + got.first[i]];
            const int whole = c.start[d + 1] - c.start[d] + 1 <= T;
            assert_int_equal((from - c.start[d]) % T, 0); /* a window begins at a multiple of T */
            assert_true(!whole || from == c.start[d]);
        }
    }
    assert_true(n_rows * T <= n_all + n_all / 10); /* little padding */
    clef_dataset_close(ds);
    clef__os_remove(temp_path("words.txt"));
}

TEST(rows_do_not_depend_on_earlier_calls)
{
    enum { T = 16, N = 200 };
    corpus c;
    make_corpus(&c, 60, 40);
    write_corpus(temp_path("words.txt"), &c, "<|endoftext|>\n");
    for (int packing = 0; packing < 2; packing++) {
        const clef_dataset_opts opts = {.n_tokens = T, .seed = 99, .packing = (clef_packing)packing};
        clef_dataset *ds = open_words(plain, opts), *other = open_words(plain, opts);
        read_rows(ds, CLEF_TRAINING, 0, N, &got);
        for (int i = N - 1; i >= 0; i--) { /* backwards, from another dataset, across epochs */
            read_rows(other, CLEF_VALIDATION, i % 3, 1, &again);
            read_rows(other, CLEF_TRAINING, i, 1, &again);
            assert_memory_equal(again.input_ids, got.input_ids + i * T, T * 4);
            assert_memory_equal(again.labels, got.labels + i * T, T * 4);
            assert_memory_equal(again.first, got.first + i * T, T * 4);
        }
        assert_string_equal(clef_dataset_describe(ds).fingerprint, clef_dataset_describe(other).fingerprint);
        clef_dataset_close(other);
        clef_dataset_opts reseeded = opts;
        reseeded.seed = 100;
        other = open_words(plain, reseeded);
        read_rows(other, CLEF_TRAINING, 0, N, &again);
        assert_memory_not_equal(again.input_ids, got.input_ids, N * T * 4);
        assert_string_not_equal(clef_dataset_describe(ds).fingerprint,
                                clef_dataset_describe(other).fingerprint);
        clef_dataset_close(other);
        clef_dataset_close(ds);
    }
    clef__os_remove(temp_path("words.txt"));
}

/* ---- splits ---------------------------------------------------------------------------------- */

TEST(splits_share_nothing)
{
    enum { T = 32 };
    corpus c;
    static int32_t first_seed[N_IDS];
    make_corpus(&c, 200, 60);
    write_corpus(temp_path("words.txt"), &c, "<|endoftext|>\n");
    for (uint64_t seed = 0; seed < 2; seed++) {
        clef_dataset *ds = open_words(plain, (clef_dataset_opts){.n_tokens = T, .seed = seed});
        const clef_dataset_info info = clef_dataset_describe(ds);
        const int64_t n_train = info.splits[CLEF_TRAINING].n_rows,
                      n_valid = info.splits[CLEF_VALIDATION].n_rows;
        memset(n_seen, 0, sizeof n_seen);
        clef_rows r = read_rows(ds, CLEF_VALIDATION, 0, n_valid + 3, &got); /* three rows of padding */
        check_rows(&c, &r, n_valid + 3, T, -1);
        const int64_t n_words =
            info.splits[CLEF_VALIDATION].n_tokens - info.splits[CLEF_VALIDATION].n_documents;
        assert_int_equal(r.n_labels, n_words);
        assert_true(n_words <= c.n_words / 20 && n_words > c.n_words / 40);
        if (seed == 0)
            memcpy(first_seed, n_seen, sizeof n_seen);
        assert_memory_equal(first_seed, n_seen, sizeof n_seen); /* the split does not depend on the seed */
        r = read_rows(ds, CLEF_TRAINING, 0, n_train, &got);
        check_rows(&c, &r, n_train, T, -1);
        for (int w = 0; w < c.n_words; w++) {
            assert_int_equal(n_seen[w], 1);
            assert_int_equal(first_seed[w], first_seed[c.start[document_of(&c, w)]]); /* whole documents */
        }
        clef_dataset_close(ds);
    }
    clef__os_remove(temp_path("words.txt"));
}

TEST(validation_files_are_apart)
{
    const char *const train[] = {temp_path("a.txt"), temp_path("b.txt")}, *const valid[] = {
                                                                              temp_path("c.txt")};
    write_text(train[0], "w0 w1 w2 w3");
    write_text(train[1], "w4 w5 w6 w7 w8");
    write_text(valid[0], "w9 w10\n<|endoftext|>\nw11");
    clef_dataset *ds = open_words(
        plain,
        (clef_dataset_opts){
            .files = train, .n_files = 2, .validation_files = valid, .n_validation_files = 1, .n_tokens = 4});
    const clef_dataset_info info = clef_dataset_describe(ds);
    static const int32_t wanted[] = {9, 10, END, 11, END, PAD, PAD, PAD}, first[] = {0, 0, 0, 3, 0, 1, 2, 3};
    assert_int_equal(info.splits[CLEF_TRAINING].n_documents, 2);
    assert_int_equal(info.splits[CLEF_TRAINING].n_tokens, 11);
    assert_int_equal(info.splits[CLEF_VALIDATION].n_documents, 2);
    read_rows(ds, CLEF_VALIDATION, 0, 2, &got);
    assert_memory_equal(got.input_ids, wanted, sizeof wanted);
    assert_memory_equal(got.first, first, sizeof first);
    assert_int_equal(got.labels[3], END); /* the next token, though it is in the next row */
    assert_int_equal(clef_dataset_n_steps(ds, 1, 2), 2);
    assert_int_equal(clef_dataset_n_steps(ds, 2, 2), 3);
    assert_int_equal(clef_dataset_n_steps(ds, 0, 2), 1);
    clef_dataset_close(ds);
    clef__os_remove(train[0]);
    clef__os_remove(train[1]);
    clef__os_remove(valid[0]);
}

/* ---- masked tokens --------------------------------------------------------------------------- */

TEST(masked_tokens_are_in_proportion)
{
    enum { T = 50, N = 300 };
    corpus c;
    make_corpus(&c, 100, 150);
    write_corpus(temp_path("words.txt"), &c, "<|endoftext|>\n");
    clef_dataset *ds = open_words(
        framed,
        (clef_dataset_opts){.n_tokens = T, .objective = CLEF_MASKED_TOKENS, .seed = 3, .validation = -1});
    const clef_dataset_info info = clef_dataset_describe(ds);
    const int64_t n_rows = info.splits[CLEF_TRAINING].n_rows;
    int64_t n = 0, n_drawn = 0, n_hidden = 0, n_kept = 0, n_tokens = 0;
    assert_true(n_rows <= N);
    for (int epoch = 0; epoch < 4; epoch++) {
        memset(n_seen, 0, sizeof n_seen);
        const clef_rows r = read_rows(ds, CLEF_TRAINING, epoch * n_rows, n_rows, &got);
        for (int64_t i = 0; i < n_rows; i++) {
            int n_labels = 0, end = T;
            const int32_t *ids = got.input_ids + i * T, *labels = got.labels + i * T,
                          *mask = got.attention_mask + i * T;
            while (!mask[end - 1])
                end--;
            n_tokens += end;
            assert_int_equal(ids[0], BEGIN);
            assert_int_equal(ids[end - 1], STOP);
            for (int t = 0; t < T; t++) {
                assert_int_equal(got.first[i * T + t], t < end ? 0 : t);
                assert_int_equal(mask[t], t < end);
                if (t == 0 || t >= end - 1) {
                    assert_int_equal(labels[t], -1);
                    continue;
                }
                n++;
                n_seen[labels[t] < 0 ? ids[t] : labels[t]]++;
                n_drawn += labels[t] >= 0;
                n_labels += labels[t] >= 0;
                n_hidden += ids[t] == HIDDEN;
                n_kept += labels[t] == ids[t];
            }
            assert_true(n_labels >= 1);
        }
        assert_int_equal(n_tokens, info.splits[CLEF_TRAINING].n_tokens * (epoch + 1));
        assert_int_equal(r.n_tokens, info.splits[CLEF_TRAINING].n_tokens);
        for (int w = 0; w < c.n_words; w++)
            assert_int_equal(n_seen[w], 1);
    }
    /* About 30000 tokens: four standard deviations. Rows without a drawn token get one, which adds a
     * little. */
    assert_true(n > 28000);
    assert_in_range(n_drawn * 1000 / n, 142, 162);
    assert_in_range(n_hidden * 1000 / n_drawn, 776, 824);
    assert_in_range(n_kept * 1000 / n_drawn, 82, 118);
    clef_dataset_close(ds);
    clef__os_remove(temp_path("words.txt"));
}

TEST(masks_change_with_the_epoch)
{
    enum { T = 200 };
    corpus c;
    make_corpus(&c, 1, 1);
    c.start[1] = c.n_words = 198 * 2;
    write_corpus(temp_path("words.txt"), &c, "");
    clef_dataset_opts opts = {
        .n_tokens = T, .objective = CLEF_MASKED_TOKENS, .validation = 0.5, .mask_rate = 0.5};
    clef_dataset *ds = open_words(framed, opts);
    read_rows(ds, CLEF_TRAINING, 0, 1, &got);
    read_rows(ds, CLEF_TRAINING, 1, 1, &again);
    assert_memory_not_equal(got.input_ids, again.input_ids, T * 4);
    read_rows(ds, CLEF_VALIDATION, 0, 1, &got);
    clef_dataset_close(ds);
    opts.seed = 17; /* the validation stays as it is */
    ds = open_words(framed, opts);
    read_rows(ds, CLEF_VALIDATION, 0, 1, &again);
    assert_memory_equal(got.input_ids, again.input_ids, T * 4);
    assert_memory_equal(got.labels, again.labels, T * 4);
    clef_dataset_close(ds);
    clef__os_remove(temp_path("words.txt"));
}

/* ---- pairs ----------------------------------------------------------------------------------- */

TEST(pairs_are_shifted)
{
    enum { T = 6, U = 5 };
    const char *const files[] = {temp_path("pairs.jsonl")};
    static const struct {
        int32_t ids[T], mask[T], decoder[U], labels[U];
    } wanted[] = {
        {{BEGIN, 0, 1, STOP, PAD, PAD},
         {1, 1, 1, 1, 0, 0},
         {77, BEGIN, 2, PAD, PAD},
         {BEGIN, 2, STOP, -1, -1}},
        {{BEGIN, 3, 4, 5, 6, STOP}, {1, 1, 1, 1, 1, 1}, {77, BEGIN, 10, 11, 12}, {BEGIN, 10, 11, 12, STOP}}};
    write_text(files[0], "{\"source\": \"w0 w1\", \"target\": \"w2\", \"id\": 7}\n\n"
                         "{\"source\": \" \", \"target\": \"w2\"}\r\n"
                         "{\"target\": \"w10 w11 w12 w13\", \"source\": \"w3 w4 w5 w6 w7\"}");
    clef_dataset *ds = open_words(framed, (clef_dataset_opts){.files = files,
                                                              .n_files = 1,
                                                              .n_tokens = T,
                                                              .n_target = U,
                                                              .objective = CLEF_TEXT_PAIRS,
                                                              .decoder_start = 77});
    const clef_dataset_info info = clef_dataset_describe(ds);
    assert_int_equal(info.splits[CLEF_TRAINING].n_rows, 2);
    assert_int_equal(info.splits[CLEF_TRAINING].n_tokens, 4 + 3 + 6 + 5);
    assert_int_equal(info.n_empty, 1);
    assert_int_equal(info.n_cut, 1);
    const clef_rows r = read_rows(ds, CLEF_TRAINING, 0, 2, &got);
    assert_int_equal(r.n_labels, 8);
    assert_int_equal(r.n_tokens, 4 + 3 + 6 + 5);
    for (int i = 0; i < 2; i++) {
        const int k = got.input_ids[i * T + 1] == 3;
        assert_memory_equal(got.input_ids + i * T, wanted[k].ids, sizeof wanted[k].ids);
        assert_memory_equal(got.attention_mask + i * T, wanted[k].mask, sizeof wanted[k].mask);
        assert_memory_equal(got.labels + i * U, wanted[k].labels, sizeof wanted[k].labels);
        assert_memory_equal(got.decoder_input_ids + i * U, wanted[k].decoder, sizeof wanted[k].decoder);
    }
    read_rows(ds, CLEF_VALIDATION, 0, 1, &got); /* there is none */
    for (int t = 0; t < U; t++)
        assert_true(got.labels[t] == -1 && got.decoder_input_ids[t] == PAD && got.attention_mask[t] == 0);
    clef_dataset_close(ds);
    clef__os_remove(files[0]);
}

/* ---- a real text ----------------------------------------------------------------------------- */

TEST(real_text_is_whole)
{
    enum { T = 256 };
    char path[700];
    const char *shared = clef__os_env("CLEF_SHARED");
    snprintf(path, sizeof path, "%s/data/text/tinyshakespeare.txt", shared ? shared : "");
    if (!clef__os_is_file(path))
        skip_without("tinyshakespeare.txt");
    clef_error err = {0};
    clef_tokenizer *tok;
    clef_mapping text;
    int32_t *ids, n;
    ok(clef_tokenizer_open(CLEF_SOURCE_DIR "/share/demo", &tok, &err), &err);
    ok(clef__os_map(path, &text, &err), &err);
    ok(clef_tokenizer_encode(tok, text.data, text.n_bytes, CLEF_SPECIAL_NONE, &ids, &n, &err), &err);
    const char *const files[] = {path};
    clef_dataset *ds = open_words(tok, (clef_dataset_opts){.files = files, .n_files = 1, .n_tokens = T});
    const clef_dataset_info info = clef_dataset_describe(ds);
    const int32_t n_valid = n / 20, n_train = n - n_valid;
    assert_int_equal(info.splits[CLEF_TRAINING].n_tokens, n_train);
    assert_int_equal(info.splits[CLEF_VALIDATION].n_tokens, n_valid + 1);
    for (int32_t at = 0; at < n_valid; at += T) {
        const int32_t m = n_valid - at < T ? n_valid - at : T;
        read_rows(ds, CLEF_VALIDATION, at / T, 1, &got);
        assert_memory_equal(got.input_ids, ids + n_train + at, (size_t)m * 4);
    }
    int64_t n_tokens = 0, n_labels = 0;
    for (int64_t i = 0; i < info.splits[CLEF_TRAINING].n_rows; i++) {
        const clef_rows r = read_rows(ds, CLEF_TRAINING, i, 1, &got);
        n_tokens += r.n_tokens;
        n_labels += r.n_labels;
    }
    assert_int_equal(n_tokens, n_train);
    assert_int_equal(n_labels, n_train - 1);
    clef_dataset_close(ds);
    clef_tokens_free(ids);
    clef__os_unmap(&text);
    clef_tokenizer_close(tok);
}

static int open_tokenizers(void **state)
{
    clef_error err = {0};
    if (make_temp_dir(state))
        return -1;
    const char *path = temp_path("tokenizer.json");
    write_tokenizer(path, 0);
    ok(clef_tokenizer_open(path, &plain, &err), &err);
    write_tokenizer(path, 1);
    ok(clef_tokenizer_open(path, &framed, &err), &err);
    clef__os_remove(path);
    return 0;
}

static int close_tokenizers(void **state)
{
    clef_tokenizer_close(plain);
    clef_tokenizer_close(framed);
    return remove_temp_dir(state);
}

TESTS(open_tokenizers, close_tokenizers)
