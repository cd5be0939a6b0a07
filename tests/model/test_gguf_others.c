/* GGUF files as others write them: without clef's own keys, in parts, with a tensor or a key more. They are
 * made of what clef writes of the demo model and of the tiny ones in tests/fixtures. */
#define TEST_NAME "test-gguf-others"
#include "tests/files.h"

#include "model/file/gguf_write.h"
#include "model/open/config_keys.h"
#include "model/open/model.h"

static const char *const folders[] = {"share/demo", "tests/fixtures/tiny-bert", "tests/fixtures/tiny-t5"};

/* Writes the folder as GGUF. */
static void convert(const char *folder, const char *path)
{
    char full[600];
    clef_model *m = NULL;
    clef_error err = {0};
    snprintf(full, sizeof full, "%s/%s", CLEF_SOURCE_DIR, folder);
    check_error(folder, clef_model_open(full, &m, &err), &err, CLEF_OK, "");
    check_error(
        folder,
        clef_model_quantize(m, path, &(clef_quantize_opts){.type = "stored", .no_tokenizer = 1}, &err), &err,
        CLEF_OK, "");
    clef_model_close(m);
}

/* What differs from the file that clef wrote. */
typedef struct change {
    int own;                  /* 1: with clef's own keys */
    int old;                  /* 1: these have the names that they had before */
    const char *arch;         /* NULL, or another general.architecture */
    const char *key, *tensor; /* NULL, or one more: 7, and F32 [32] */
    int32_t part, n_parts;    /* n_parts > 0: of the tensors those of this part */
    int32_t n_tensors;        /* of all parts */
} change;

static int is_in_part(const change *c, uint64_t i)
{
    return c->n_parts == 0 || i % (uint64_t)c->n_parts == (uint64_t)c->part;
}

static int begins(const clef_gguf_string *key, const char *text)
{
    return key->n_bytes >= strlen(text) && memcmp(key->text, text, strlen(text)) == 0;
}

static void put_entry(clef_gguf_writer *w, clef_gguf_entry e, const change *c)
{
    const int is_own = begins(&e.key, CLEF_GGUF_OWN);
    if (is_own && c->old) {
        e.key.text += strlen("lib");
        e.key.n_bytes -= strlen("lib");
    }
    if (c->arch && begins(&e.key, "general.architecture"))
        clef__gguf_put_text(w, "general.architecture", c->arch);
    else if (!is_own || c->own)
        clef__gguf_put_entry(w, &e);
}

static void put_keys(clef_gguf_writer *w, const clef_gguf *g, const change *c)
{
    for (uint64_t i = 0; i < g->n_entries && c->part == 0; i++)
        put_entry(w, g->entries[i], c);
    if (c->key)
        clef__gguf_put_u32(w, c->key, 7);
    if (c->n_parts > 0) {
        clef__gguf_put_u32(w, "split.no", (uint32_t)c->part);
        clef__gguf_put_u32(w, "split.count", (uint32_t)c->n_parts);
        clef__gguf_put_u32(w, "split.tensors.count", (uint32_t)c->n_tensors);
    }
}

static void rewrite(const char *from, const char *to, const change *c)
{
    static const float zeros[32];
    const clef_tensor_info more = {
        .name = c->tensor, .dtype = CLEF_F32, .rank = 1, .dims = {32}, .n_bytes = sizeof zeros};
    clef_gguf g;
    clef_gguf_writer w = {0};
    clef_os_file *file = NULL;
    clef_error err = {0};
    check_error(from, clef__gguf_open(from, &g, &err), &err, CLEF_OK, "");
    put_keys(&w, &g, c);
    for (uint64_t i = 0; i < g.n_tensors; i++)
        if (is_in_part(c, i))
            clef__gguf_put_tensor(&w, &g.tensors[i]);
    if (c->tensor)
        clef__gguf_put_tensor(&w, &more);
    check_error(to, clef__os_file_begin(to, &file, &err), &err, CLEF_OK, "");
    check_error(to, clef__gguf_write_head(&w, file, &err), &err, CLEF_OK, "");
    for (uint64_t i = 0; i < g.n_tensors; i++)
        if (is_in_part(c, i)) {
            clef__os_file_write(file, g.tensors[i].data, (size_t)g.tensors[i].n_bytes, &err);
            clef__gguf_write_padding(file, g.tensors[i].n_bytes, &err);
        }
    if (c->tensor)
        clef__os_file_write(file, zeros, sizeof zeros, &err);
    check_error(to, clef__os_file_commit(file, &err), &err, CLEF_OK, "");
    clef__gguf_writer_finish(&w);
    clef__gguf_close(&g);
}

/* The number of clef's own keys that would tell b from a. */
static uint64_t n_differences(const clef_model *a, const clef_model *b)
{
    clef_gguf_writer w = {0};
    clef__config_put_keys(&w, clef_model_hparams(a), clef_model_hparams(b));
    const uint64_t n = w.n_entries;
    clef__gguf_writer_finish(&w);
    return n;
}

static clef_model *opened(const char *path)
{
    clef_model *m = NULL;
    clef_error err = {0};
    check_error(path, clef_model_open(path, &m, &err), &err, CLEF_OK, "");
    return m;
}

TEST(without_own_keys)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        convert(folders[i], temp_path("own.gguf"));
        rewrite(temp_path("own.gguf"), temp_path("bare.gguf"), &(change){0});
        clef_model *own = opened(temp_path("own.gguf")), *bare = opened(temp_path("bare.gguf"));
        if (n_differences(own, bare) != 0)
            fail_msg("%s: %d hyperparameters differ without clef's own keys", folders[i],
                     (int)n_differences(own, bare));
        clef_model_close(own);
        clef_model_close(bare);
    }
}

static uint64_t n_keys(const char *path, const char *prefix)
{
    clef_gguf g;
    clef_error err = {0};
    uint64_t n = 0;
    check_error(path, clef__gguf_open(path, &g, &err), &err, CLEF_OK, "");
    for (uint64_t i = 0; i < g.n_entries; i++)
        n += (uint64_t)begins(&g.entries[i].key, prefix);
    clef__gguf_close(&g);
    return n;
}

static void same_bytes(const char *a, const char *b)
{
    char *texts[2];
    size_t n[2];
    clef_error err = {0};
    check_error(a, clef__os_read(a, 64 << 20, &texts[0], &n[0], &err), &err, CLEF_OK, "");
    check_error(b, clef__os_read(b, 64 << 20, &texts[1], &n[1], &err), &err, CLEF_OK, "");
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(texts[0], texts[1], n[0]);
    free(texts[0]);
    free(texts[1]);
}

/* Files of before, whose own keys begin with "clef.", are read, and written with the prefix of now. */
TEST(with_old_keys)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        clef_error err = {0};
        convert(folders[i], temp_path("own.gguf"));
        rewrite(temp_path("own.gguf"), temp_path("bare.gguf"), &(change){.own = 1, .old = 1});
        const uint64_t n = n_keys(temp_path("own.gguf"), "libclef.");
        assert_true(n > 0 || i == 0);
        assert_int_equal(n_keys(temp_path("own.gguf"), "clef."), 0);
        assert_int_equal(n_keys(temp_path("bare.gguf"), "clef."), n);
        clef_model *own = opened(temp_path("own.gguf")), *old = opened(temp_path("bare.gguf"));
        assert_int_equal(n_differences(own, old), 0);
        check_error("again",
                    clef_model_quantize(old, temp_path("joined.gguf"),
                                        &(clef_quantize_opts){.type = "stored", .no_tokenizer = 1}, &err),
                    &err, CLEF_OK, "");
        clef_model_close(own);
        clef_model_close(old);
        same_bytes(temp_path("own.gguf"), temp_path("joined.gguf"));
    }
}

/* A decision model of llama.cpp, whose architecture has the name of this program. */
TEST(of_a_namesake)
{
    clef_model *m = NULL;
    clef_error err = {0};
    convert(folders[0], temp_path("own.gguf"));
    rewrite(temp_path("own.gguf"), temp_path("more.gguf"),
            &(change){.own = 1, .arch = "clef", .key = "clef.block_count"});
    check_error("clef", clef_model_open(temp_path("more.gguf"), &m, &err), &err, CLEF_E_UNSUPPORTED,
                "general.architecture is clef, a decision model of llama.cpp");
}

TEST(in_parts)
{
    enum { PARTS = 3 };
    const char *const names[PARTS] = {"p-00001-of-00003.gguf", "p-00002-of-00003.gguf",
                                      "p-00003-of-00003.gguf"};
    convert(folders[0], temp_path("own.gguf"));
    clef_model *own = opened(temp_path("own.gguf"));
    const int32_t n = clef_model_n_tensors(own);
    for (int32_t k = 0; k < PARTS; k++)
        rewrite(temp_path("own.gguf"), temp_path(names[k]),
                &(change){.own = 1, .part = k, .n_parts = PARTS, .n_tensors = n});
    clef_model *m = opened(temp_path(names[1]));
    assert_int_equal(clef_model_n_tensors(m), n);
    for (int32_t i = 0; i < n; i++) {
        const clef_tensor_info a = clef_model_tensor(own, i);
        const void *b = clef_model_weight(m, a.name, a.dtype, a.n_bytes);
        assert_non_null(b);
        assert_memory_equal(a.data, b, a.n_bytes);
        clef_model_release(m, a.name);
    }
    clef_error err = {0};
    check_error("joined",
                clef_model_quantize(m, temp_path("joined.gguf"),
                                    &(clef_quantize_opts){.type = "stored", .no_tokenizer = 1}, &err),
                &err, CLEF_OK, "");
    clef_model *joined = opened(temp_path("joined.gguf"));
    assert_true(clef_model_n_tensors(joined) == n && n_differences(own, joined) == 0);
    clef_model_close(joined);
    clef_model_close(m);
    clef_model_close(own);
}

TEST(with_more)
{
    static const struct {
        const char *key, *tensor;
        clef_status status;
        const char *piece;
    } rows[] = {
        {NULL, "blk.0.attn_sinks.weight", CLEF_E_UNSUPPORTED, "tensor blk.0.attn_sinks.weight is stored"},
        {NULL, "something.weight", CLEF_E_UNSUPPORTED, "tensor something.weight is stored"},
        {NULL, "blk.99.nextn.eh_proj.weight", CLEF_OK, ""},
        {NULL, "v.patch_embd.weight", CLEF_OK, ""},
        {"gpt2.attention.clamp_kqv", NULL, CLEF_E_UNSUPPORTED, "key gpt2.attention.clamp_kqv is 7"},
        {"gpt2.expert_count", NULL, CLEF_E_UNSUPPORTED, "key gpt2.expert_count is 7"},
        {"gpt2.rope.dimension_sections", NULL, CLEF_OK, ""},
        {"gpt2.something", NULL, CLEF_OK, ""},
    };
    convert(folders[0], temp_path("own.gguf"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clef_model *m = NULL;
        clef_error err = {0};
        rewrite(temp_path("own.gguf"), temp_path("more.gguf"),
                &(change){.own = 1, .key = rows[i].key, .tensor = rows[i].tensor});
        const clef_status status = clef_model_open(temp_path("more.gguf"), &m, &err);
        check_error(rows[i].key ? rows[i].key : rows[i].tensor, status, &err, rows[i].status, rows[i].piece);
        clef_model_close(m);
    }
}

static int remove_files(void **state)
{
    static const char *const names[] = {"own.gguf",
                                        "bare.gguf",
                                        "more.gguf",
                                        "joined.gguf",
                                        "p-00001-of-00003.gguf",
                                        "p-00002-of-00003.gguf",
                                        "p-00003-of-00003.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(temp_path(names[i]));
    return remove_temp_dir(state);
}

TESTS(make_temp_dir, remove_files)
