/* Session files: what was saved goes on as if it had never stopped, for each KV type and kind of model; files
 * of another model or adapter, cut, damaged or made up are refused and harm nothing; every OpenCL call and
 * allocation made to fail once. Runs under tests/layers/count_layer.c (OPENCL_LAYERS), with malloc wrapped by
 * the linker. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#define TEST_NAME "test-session-file"
#include "tests/debug.h"
#include "tests/failing_alloc.h"
#include "tests/folders.h"

#include "clef/lora.h"
#include "clef/train_files.h"
#include "model/file/gguf_write.h"
#include "model/session/session_format.h"
#include "run_graph.h"
#include "tests/check.h"
#include "tests/layers/count.h"
#include "tests/skip.h"

enum { N_FED = 70, N_MORE = 5, MAX_FILE = 4 << 20, MAX_VOCAB = 4096 };

static count_layer layer;
static clef_device *dev;
static clef_model *model;
static unsigned char *saved; /* a file of the bundled model */
static size_t n_saved;

/* ---- sessions -------------------------------------------------------------------------------- */

static clef_session *open_session(clef_device *on, clef_model *of, clef_dtype kv_type, int32_t n_context)
{
    clef_error err = {0};
    clef_session *s;
    const clef_session_opts opts = {.n_context = n_context,
                                    .n_batch = 32,
                                    .n_source = 32,
                                    .kv_type = kv_type,
                                    .compile = {.no_tune = 1, .no_proof = 1}};
    ok(clef_session_create(on, of, &opts, &s, &err), &err);
    return s;
}

/* One of the bundled model, with an adapter of the set. */
static clef_session *open_adapted(clef_lora_set *set, int32_t lora)
{
    clef_error err = {0};
    clef_session *s;
    const clef_session_opts opts = {.n_context = 128,
                                    .n_batch = 32,
                                    .kv_type = CLEF_F32,
                                    .loras = set,
                                    .lora = lora,
                                    .compile = {.no_tune = 1, .no_proof = 1}};
    ok(clef_session_create(dev, model, &opts, &s, &err), &err);
    return s;
}

static void number_ids(int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        ids[i] = 3 + i * 7 % 300;
}

static void feed(clef_session *s, int32_t n)
{
    int32_t ids[N_FED];
    clef_error err = {0};
    const float *logits;
    number_ids(ids, n);
    ok(clef_session_feed(s, ids, n, &logits, &err), &err);
}

/* Greedy with a penalty, which looks back at all ids: the history must be there too. */
static void go_on(clef_session *s, int32_t out[N_MORE])
{
    const clef_sampler_opts opts = {.repeat_penalty = 1.3f, .repeat_last_n = 64};
    const int32_t id = 9;
    clef_error err = {0};
    ok(clef_session_generate(s, &id, 1, N_MORE, &opts, &err), &err);
    for (int i = 0; i < N_MORE; i++)
        ok(clef_session_next(s, &out[i], &err), &err);
}

static int setup(void **state)
{
    clef_error err = {0};
    (void)state;
    set_debug("fused", "0"); /* PoCL compiles a fused step for seconds */
    dev = test_device();
    if (!dev || !open_count_layer(&layer))
        return 1;
    if (make_temp_dir(state) || clef_model_open(CLEF_SOURCE_DIR "/share/demo", &model, &err))
        return 1;
    clef_session *s = open_session(dev, model, CLEF_F32, 128);
    feed(s, N_FED);
    ok(clef_session_save(s, temp_path("demo"), &err), &err);
    clef_session_destroy(s);
    ok(clef__os_read(temp_path("demo"), MAX_FILE, (char **)&saved, &n_saved, &err), &err);
    return 0;
}

static clef_status remove_file(void *user, const clef__os_file_info *file)
{
    (void)user;
    clef__os_remove(file->path);
    return CLEF_OK;
}

static int teardown(void **state)
{
    clef__os_list(temp_dir, remove_file, NULL);
    free(saved);
    clef_model_close(model);
    clef_device_close(dev);
    return remove_temp_dir(state) || layer.live(NULL) ? 1 : 0;
}

/* ---- what was saved goes on ------------------------------------------------------------------ */

/* A session that loads goes on as the one that saved. */
static void check_round_trip(clef_session *from, clef_session *to, const char *file)
{
    clef_error err = {0};
    int32_t want[N_MORE], got[N_MORE], n_source[2];
    const int32_t n_past = clef_session_n_past(from);
    ok(clef_session_save(from, temp_path(file), &err), &err);
    assert_int_equal(clef_session_n_past(from), n_past);
    ok(clef_session_load(to, temp_path(file), &err), &err);
    assert_int_equal(clef_session_n_past(to), n_past);
    assert_memory_equal(clef_session_ids(to), clef_session_ids(from), (size_t)n_past * sizeof(int32_t));
    clef_session_source(from, &n_source[0]);
    clef_session_source(to, &n_source[1]);
    assert_int_equal(n_source[0], n_source[1]);
    go_on(from, want);
    go_on(to, got);
    assert_memory_equal(want, got, sizeof want);
}

/* Another length of the context, other rows in the cache before. */
TEST(each_kv_type)
{
    static const clef_dtype types[] = {CLEF_F32, CLEF_F16, CLEF_Q8_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        clef_session *from = open_session(dev, model, types[i], 128),
                     *to = open_session(dev, model, types[i], 200);
        feed(from, N_FED);
        feed(to, 20);
        check_round_trip(from, to, clef_dtype_name(types[i]));
        check_round_trip(to, from, clef_dtype_name(types[i])); /* after a generation, the other way */
        clef_session_destroy(from);
        clef_session_destroy(to);
    }
}

TEST(an_empty_session)
{
    clef_session *from = open_session(dev, model, CLEF_F32, 128),
                 *to = open_session(dev, model, CLEF_F32, 64);
    feed(to, 20);
    check_round_trip(from, to, "empty");
    clef_session_destroy(from);
    clef_session_destroy(to);
}

TEST(several_devices)
{
    const clef_device_info *info = clef_device_describe(dev);
    clef_error err = {0};
    clef_device *both;
    char twice[64];
    snprintf(twice, sizeof twice, "%d:%d,%d:%d", info->platform, info->index, info->platform, info->index);
    const clef_device_opts opts = {.several = 1, .shares = (float[]){1, 1}, .n_shares = 2};
    ok(clef_device_open(twice, &opts, &both, &err), &err);
    clef_session *one = open_session(dev, model, CLEF_F16, 128),
                 *two = open_session(both, model, CLEF_F16, 128);
    feed(one, N_FED);
    check_round_trip(one, two, "split");
    check_round_trip(two, one, "split");
    clef_session_destroy(two);
    clef_session_destroy(one);
    clef_device_close(both);
}

static clef_model *oracle_model(const char *name)
{
    const char *shared = getenv("CLEF_SHARED");
    clef_error err = {0};
    clef_model *m = NULL;
    char path[1024];
    snprintf(path, sizeof path, "%s/oracle/models/%s", shared ? shared : "", name);
    if (clef__os_is_dir(path))
        ok(clef_model_open(path, &m, &err), &err);
    return m;
}

/* The step that runs ahead has changed the recurrent state: it is brought back before it is saved. */
TEST(a_recurrent_model)
{
    clef_model *m = oracle_model("qwen3.5");
    if (!m)
        skip_without("qwen3.5");
    clef_error err = {0};
    int32_t want[N_MORE], got[N_MORE], id;
    clef_session *from = open_session(dev, m, CLEF_F32, 128), *to = open_session(dev, m, CLEF_F32, 200);
    feed(from, N_FED);
    feed(to, 20);
    check_round_trip(from, to, "recurrent");
    ok(clef_session_generate(from, (int32_t[]){5}, 1, 0, NULL, &err), &err);
    for (int i = 0; i < 3; i++)
        ok(clef_session_next(from, &id, &err), &err);
    check_round_trip(from, to, "ahead");
    ok(clef_session_reset(to, &err), &err);
    feed(to, 40);
    ok(clef_session_load(from, temp_path("recurrent"), &err), &err);
    ok(clef_session_keep(from, 40, &err), &err);
    go_on(to, want);
    go_on(from, got);
    assert_memory_equal(want, got, sizeof want);
    clef_session_destroy(from);
    clef_session_destroy(to);
    clef_model_close(m);
}

TEST(an_encoder_decoder)
{
    static const char *const names[] = {"t5", "bart"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        clef_model *m = oracle_model(names[i]);
        if (!m)
            skip_without("t5 and bart");
        clef_error err = {0};
        int32_t source[20];
        number_ids(source, 20);
        clef_session *from = open_session(dev, m, CLEF_F32, 64), *to = open_session(dev, m, CLEF_F32, 48);
        ok(clef_session_save(from, temp_path("no-source"), &err), &err);
        ok(clef_session_load(to, temp_path("no-source"), &err), &err);
        ok(clef_session_encode(from, source, 20, &err), &err);
        ok(clef_session_encode(to, source + 5, 3, &err), &err);
        feed(from, 9);
        check_round_trip(from, to, names[i]);
        clef_session_destroy(from);
        clef_session_destroy(to);
        clef_model_close(m);
    }
}

TEST(keeping)
{
    clef_error err = {0};
    int32_t want[N_MORE], got[N_MORE];
    clef_session *s = open_session(dev, model, CLEF_F32, 128);
    feed(s, 40);
    go_on(s, want);
    ok(clef_session_reset(s, &err), &err);
    feed(s, N_FED);
    assert_int_equal(clef_session_keep(s, N_FED + 1, &err), CLEF_E_ARG);
    assert_int_equal(clef_session_keep(s, -1, &err), CLEF_E_ARG);
    assert_int_equal(clef_session_n_past(s), N_FED);
    ok(clef_session_keep(s, 40, &err), &err);
    assert_int_equal(clef_session_n_past(s), 40);
    go_on(s, got);
    assert_memory_equal(want, got, sizeof want);
    clef_session_destroy(s);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Computes the checksum anew, as someone would who makes a file up. */
static void sign(unsigned char *file, size_t n)
{
    clef_sha256 sum;
    clef__sha256_init(&sum);
    clef__sha256_add(&sum, file, n - CLEF_SHA256_BYTES);
    clef__sha256_finish(&sum, file + n - CLEF_SHA256_BYTES);
}

/* The status of loading these bytes. The session keeps what it holds. */
static clef_status load_bytes(clef_session *s, const unsigned char *file, size_t n, clef_error *err)
{
    write_file(temp_path("changed"), file, n);
    const int32_t n_past = clef_session_n_past(s);
    const clef_status status = clef_session_load(s, temp_path("changed"), err);
    if (status && (!*err->text || clef_session_n_past(s) != n_past))
        fail_msg("%s: '%s', and %d positions", clef_status_name(status), err->text, clef_session_n_past(s));
    return status;
}

static void check_words(clef_session *s, const unsigned char *file, size_t n, clef_status want,
                        const char *words)
{
    clef_error err = {0};
    assert_int_equal(load_bytes(s, file, n, &err), want);
    if (!strstr(err.text, words) || !strstr(err.text, "changed"))
        fail_msg("expected the path and '%s': %s", words, err.text);
}

/* The check without a session says the same of the bytes that were loaded last. */
static void check_alone(const clef_model *m, clef_dtype kv_type, clef_status want, const char *words)
{
    clef_error err = {0};
    assert_int_equal(clef_session_check(m, kv_type, NULL, 0, temp_path("changed"), &err), want);
    if (!strstr(err.text, words))
        fail_msg("expected '%s': %s", words, err.text);
}

TEST(what_differs_is_named)
{
    clef_error err = {0};
    clef_session *s = open_session(dev, model, CLEF_F32, 128),
                 *halves = open_session(dev, model, CLEF_F16, 128),
                 *small = open_session(dev, model, CLEF_F32, N_FED - 1);
    unsigned char *file = malloc(n_saved + 1);
    int32_t want[N_MORE], got[N_MORE];
    feed(s, 20);
    memcpy(file, saved, n_saved);
    file[8] = 2;
    check_words(s, file, n_saved, CLEF_E_UNSUPPORTED, "version 2, expected 1");
    file[8] = 1;
    check_words(s, file, n_saved - 1, CLEF_E_FORMAT, "cut: ");
    check_words(s, file, 0, CLEF_E_FORMAT, "no session file");
    check_words(s, file, 20, CLEF_E_FORMAT, "cut: 20 bytes, expected at least 216");
    file[n_saved] = 0;
    check_words(s, file, n_saved + 1, CLEF_E_FORMAT, "too long");
    file[n_saved / 2] ^= 1;
    check_words(s, file, n_saved, CLEF_E_FORMAT, "checksum differs: the file is damaged");
    check_alone(model, CLEF_F32, CLEF_E_FORMAT, "checksum differs");
    file[n_saved / 2] ^= 1;
    file[24] ^= 1; /* the fingerprint */
    sign(file, n_saved);
    check_words(s, file, n_saved, CLEF_E_ARG, "made with model demo (fingerprint ");
    check_alone(model, CLEF_F32, CLEF_E_ARG, "made with model demo (fingerprint ");
    memcpy(file, saved, n_saved);
    check_words(halves, file, n_saved, CLEF_E_ARG, "KV type f32, expected f16");
    check_alone(model, CLEF_F16, CLEF_E_ARG, "KV type f32, expected f16");
    check_alone(model, CLEF_F32, CLEF_OK, "");
    check_words(small, file, n_saved, CLEF_E_LIMIT, "70 positions, the context holds 69");
    memcpy(file + 184, (unsigned char[]){0xff, 0xff, 0xff, 0x7f}, 4); /* the first id */
    sign(file, n_saved);
    check_words(s, file, n_saved, CLEF_E_FORMAT, "the vocabulary has 0 to 1023");
    assert_int_equal(clef_session_load(s, temp_path("nosuch"), &err), CLEF_E_IO);
    assert_int_equal(clef_session_load(s, temp_dir, &err), CLEF_E_IO);
    assert_int_equal(clef_session_save(s, temp_path("no/folder"), &err), CLEF_E_IO);
    go_on(s, got); /* as if nothing had been loaded */
    ok(clef_session_reset(s, &err), &err);
    feed(s, 20);
    go_on(s, want);
    assert_memory_equal(want, got, sizeof want);
    free(file);
    clef_session_destroy(small);
    clef_session_destroy(halves);
    clef_session_destroy(s);
}

TEST(another_model)
{
    clef_model *m = oracle_model("gpt2");
    if (!m)
        skip_without("gpt2");
    clef_session *s = open_session(dev, m, CLEF_F32, 128);
    check_words(s, saved, n_saved, CLEF_E_ARG, "expected gpt2 (fingerprint ");
    clef_session_destroy(s);
    clef_model_close(m);
}

/* With dynamic RoPE, keys depend on the context, beyond the original one of 80. */
TEST(other_frequencies)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"max_position_embeddings\": 80, "
        "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 4.0}}";
    static const int32_t contexts[][2] = {{80, 72}, {80, 128}, {128, 128}, {128, 160}};
    clef_error err = {0};
    clef_model *m;
    write_text(temp_path("config.json"), config);
    ok(clef_model_create_new(temp_path("config.json"), CLEF_SOURCE_DIR "/share/demo", temp_path("dynamic"), 7,
                             &err),
       &err);
    ok(clef_model_open(temp_path("dynamic"), &m, &err), &err);
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        clef_session *from = open_session(dev, m, CLEF_F32, contexts[i][0]),
                     *to = open_session(dev, m, CLEF_F32, contexts[i][1]);
        feed(from, N_FED);
        ok(clef_session_save(from, temp_path("file"), &err), &err);
        assert_int_equal(clef_session_load(to, temp_path("file"), &err), i % 2 ? CLEF_E_ARG : CLEF_OK);
        clef_session_destroy(from);
        clef_session_destroy(to);
    }
    clef_model_close(m);
    remove_tree(temp_path("dynamic"));
}

TEST(wrong_sessions)
{
    clef_error err = {0};
    clef_session *s;
    clef_session_opts opts = {.n_context = 32, .n_beams = 2, .compile = {.no_tune = 1, .no_proof = 1}};
    ok(clef_session_create(dev, model, &opts, &s, &err), &err);
    assert_int_equal(clef_session_save(s, temp_path("wrong"), &err), CLEF_E_UNSUPPORTED);
    assert_int_equal(clef_session_load(s, temp_path("demo"), &err), CLEF_E_UNSUPPORTED);
    clef_session_destroy(s);
    opts = (clef_session_opts){.n_context = 32, .describe_only = 1};
    ok(clef_session_create(dev, model, &opts, &s, &err), &err);
    assert_int_equal(clef_session_save(s, temp_path("wrong"), &err), CLEF_E_ARG);
    assert_int_equal(clef_session_load(s, temp_path("demo"), &err), CLEF_E_ARG);
    clef_session_destroy(s);
    assert_false(clef__os_is_file(temp_path("wrong")));
}

/* ---- adapters -------------------------------------------------------------------------------- */

/* A GGUF adapter of rank 1 for the output of the bundled model's first attention. */
static void write_adapter(const char *path, float middle)
{
    enum { D = 192 };
    float a[D], b[D];
    const clef_tensor_info tensors[] = {{.name = "blk.0.attn_output.weight.lora_a",
                                         .dtype = CLEF_F32,
                                         .rank = 2,
                                         .dims = {1, D},
                                         .n_bytes = sizeof a,
                                         .data = a},
                                        {.name = "blk.0.attn_output.weight.lora_b",
                                         .dtype = CLEF_F32,
                                         .rank = 2,
                                         .dims = {D, 1},
                                         .n_bytes = sizeof b,
                                         .data = b}};
    clef_gguf_writer w = {0};
    clef_os_file *file = NULL;
    clef_error err = {0};
    for (int i = 0; i < D; i++) {
        a[i] = middle + (float)(i % 7 - 3) / 8;
        b[i] = (float)(i % 5 - 2) / 4;
    }
    clef__gguf_put_text(&w, "general.type", "adapter");
    clef__gguf_put_text(&w, "general.architecture", "gpt2");
    clef__gguf_put_text(&w, "adapter.type", "lora");
    clef__gguf_put_f32(&w, "adapter.lora.alpha", 1);
    for (int i = 0; i < 2; i++)
        clef__gguf_put_tensor(&w, &tensors[i]);
    ok(clef__os_file_begin(path, &file, &err), &err);
    ok(clef__gguf_write_head(&w, file, &err), &err);
    for (int i = 0; i < 2; i++) {
        ok(clef__os_file_write(file, tensors[i].data, (size_t)tensors[i].n_bytes, &err), &err);
        ok(clef__gguf_write_padding(file, tensors[i].n_bytes, &err), &err);
    }
    ok(clef__os_file_commit(file, &err), &err);
    clef__gguf_writer_finish(&w);
}

static clef_lora *open_adapter(const char *file, float scale)
{
    clef_error err = {0};
    clef_lora *lora;
    ok(clef_lora_open(temp_path(file), model, scale, &lora, &err), &err);
    return lora;
}

/* Two adapters, the first at two scales, in either order. */
static clef_lora_set *make_set(int is_reversed)
{
    clef_lora *loras[] = {open_adapter("first.gguf", 1), open_adapter("first.gguf", 0.5f),
                          open_adapter("second.gguf", 1)};
    const clef_lora *list[] = {loras[is_reversed ? 2 : 0], loras[1], loras[is_reversed ? 0 : 2]};
    clef_error err = {0};
    clef_lora_set *set;
    ok(clef_lora_set_create(model, list, 3, &set, &err), &err);
    for (int i = 0; i < 3; i++)
        clef_lora_close(loras[i]);
    return set;
}

enum { N_WITH = 4 }; /* none, and the three of a set */
static const char *const adapter_names[N_WITH] = {"no adapter", "adapter first.gguf (scale 1)",
                                                  "adapter first.gguf (scale 0.5)",
                                                  "adapter second.gguf (scale 1)"};

/* A file that was written with adapter `file` is refused by a session with another, which keeps what it
 * holds; the check without a session says the same. */
static void refuse_adapter(clef_session *s, clef_lora_set *set, int32_t session, int32_t file,
                           const char *path)
{
    char made[80], expected[80];
    clef_error errs[2] = {{0}, {0}};
    const int32_t n_past = clef_session_n_past(s);
    snprintf(made, sizeof made, ": made with %s", adapter_names[file]);
    snprintf(expected, sizeof expected, ", expected %s", adapter_names[session]);
    assert_int_equal(clef_session_load(s, path, &errs[0]), CLEF_E_ARG);
    assert_int_equal(clef_session_check(model, CLEF_F32, set, session, path, &errs[1]), CLEF_E_ARG);
    assert_int_equal(clef_session_n_past(s), n_past);
    for (int i = 0; i < 2; i++)
        if (!strstr(errs[i].text, path) || !strstr(errs[i].text, made) || !strstr(errs[i].text, expected))
            fail_msg("expected '%s' and '%s': %s", made, expected, errs[i].text);
}

TEST(adapters_of_a_file)
{
    static const char *const files[N_WITH] = {"with-0", "with-1", "with-2", "with-3"};
    clef_error err = {0};
    write_adapter(temp_path("first.gguf"), 0);
    write_adapter(temp_path("second.gguf"), 0.5f);
    clef_lora_set *set = make_set(0), *reversed = make_set(1);
    for (int32_t i = 0; i < N_WITH; i++) { /* the same adapter has another number in the other set */
        clef_session *from = open_adapted(set, i), *to = open_adapted(i ? reversed : NULL, i ? 4 - i : 0);
        feed(from, N_FED);
        check_round_trip(from, to, files[i]);
        ok(clef_session_check(model, CLEF_F32, set, i, temp_path(files[i]), &err), &err);
        clef_session_destroy(from);
        clef_session_destroy(to);
    }
    for (int32_t i = 0; i < N_WITH; i++) {
        clef_session *s = open_adapted(set, i);
        feed(s, 20);
        for (int32_t k = 0; k < N_WITH; k++)
            if (k != i)
                refuse_adapter(s, set, i, k, temp_path(files[k]));
        clef_session_destroy(s);
    }
    clef_lora_set_destroy(set);
    clef_lora_set_destroy(reversed);
}

/* The file of setup() with a text of the adapters that someone made up. */
TEST(made_up_adapters)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"short", "made with an unknown adapter, expected no adapter"},
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "made with an unknown adapter"},
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef \n\x1b[2Jx\x7f",
         "made with adapter ??[2Jx? [01234567], expected no adapter"},
    };
    clef_session *s = open_adapted(NULL, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t n = strlen(rows[i].text), length = n_saved + n;
        unsigned char *file = malloc(length);
        assert_non_null(file);
        memcpy(file, saved, SESSION_HEADER_BYTES);
        memcpy(file + SESSION_HEADER_BYTES, rows[i].text, n);
        memcpy(file + SESSION_HEADER_BYTES + n, saved + SESSION_HEADER_BYTES, n_saved - SESSION_HEADER_BYTES);
        file[SESSION_HEADER_BYTES - 4] = (unsigned char)n;
        for (int k = 0; k < 8; k++)
            file[16 + k] = (unsigned char)((uint64_t)length >> 8 * k);
        sign(file, length);
        check_words(s, file, length, CLEF_E_ARG, rows[i].words);
        free(file);
    }
    clef_session_destroy(s);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Any bit that differs, and any length but the right one, is an error. */
TEST(damaged_files)
{
    clef_session *s = open_session(dev, model, CLEF_F32, 128);
    unsigned char *file = malloc(n_saved);
    feed(s, 20);
    memcpy(file, saved, n_saved);
    for (size_t at = 0, turn = 0; at < n_saved; at += at < 600 ? 1 : n_saved / 150, turn++) {
        clef_error err = {0};
        file[at] ^= (unsigned char)(1 << turn % 8);
        if (load_bytes(s, file, n_saved, &err) == CLEF_OK)
            fail_msg("a bit of byte %zu differs, and the file was loaded", at);
        file[at] ^= (unsigned char)(1 << turn % 8);
    }
    for (size_t n = 0; n < n_saved; n += n < 600 ? 7 : n_saved / 150) {
        clef_error err = {0};
        if (load_bytes(s, file, n, &err) == CLEF_OK)
            fail_msg("cut to %zu bytes, and the file was loaded", n);
    }
    free(file);
    clef_session_destroy(s);
}

/* Files that someone made up, with a right checksum: numbers of the header and of the first states become
 * others, and lengths too. Each is refused, or loaded where only names of models or data differ. */
TEST(made_up_files)
{
    static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
    clef_error err = {0};
    clef_session *s = open_session(dev, model, CLEF_F32, 128);
    unsigned char *file = malloc(n_saved);
    const size_t head = SESSION_HEADER_BYTES + 4 * N_FED + SESSION_STATE_BYTES;
    int n_refused = 0, n_loaded = 0;
    for (size_t at = 0; at < head; at++)
        for (size_t k = 0; k < sizeof values; k++) {
            memcpy(file, saved, n_saved);
            if (file[at] == values[k] || (at >= SESSION_HEADER_BYTES + 16 && at < head - SESSION_STATE_BYTES))
                continue;
            file[at] = values[k];
            sign(file, n_saved);
            const clef_status status = clef_session_load(
                s, (write_file(temp_path("changed"), file, n_saved), temp_path("changed")), &err);
            n_refused += status != CLEF_OK;
            n_loaded += status == CLEF_OK;
            if (status == CLEF_OK && at < 56)
                fail_msg("byte %zu of the header is %d, and the file was loaded", at, values[k]);
            assert_true(clef_session_n_past(s) <= 128);
        }
    for (size_t n = SESSION_HEADER_BYTES + CLEF_SHA256_BYTES; n < n_saved; n += n_saved / 60) {
        memcpy(file, saved, n);
        for (int i = 0; i < 8; i++)
            file[16 + i] = (unsigned char)((uint64_t)n >> 8 * i); /* the length is right */
        sign(file, n);
        assert_int_equal(load_bytes(s, file, n, &err), CLEF_E_FORMAT);
    }
    print_message("%d refused, %d loaded\n", n_refused, n_loaded);
    assert_true(n_refused > 500);
    ok(clef_session_load(s, temp_path("demo"), &err), &err);
    free(file);
    clef_session_destroy(s);
}

/* ---- injected failures ----------------------------------------------------------------------- */

static clef_status count_unfinished(void *user, const clef__os_file_info *file)
{
    *(int *)user += strncmp(file->name, "faults", 6) == 0 && strcmp(file->name, "faults") != 0;
    return CLEF_OK;
}

static clef_status save_and_load(clef_session *s, clef_error *err)
{
    clef_status status = clef_session_save(s, temp_path("faults"), err);
    return status ? status : clef_session_load(s, temp_path("faults"), err);
}

/* A call fails: either the session is as good as before, because its device is back, or there is an error
 * and a session that works. The file is always whole. */
static void check_after(clef_session *s, clef_status status, const clef_error *why, const int32_t *want)
{
    clef_error err = {0};
    int32_t got[N_MORE];
    int unfinished = 0;
    assert_int_equal(clef__os_list(temp_dir, count_unfinished, &unfinished), CLEF_OK);
    assert_int_equal(unfinished, 0);
    assert_true(!status || (why->status == status && *why->text));
    ok(clef_session_load(s, temp_path("faults"), &err), &err);
    go_on(s, got);
    assert_memory_equal(want, got, sizeof got);
    ok(clef_session_load(s, temp_path("faults"), &err), &err);
}

TEST(every_opencl_call_may_fail)
{
    clef_error err = {0};
    int32_t want[N_MORE];
    clef_session *s = open_session(dev, model, CLEF_F32, 128),
                 *other = open_session(dev, model, CLEF_F32, 16); /* so the device does not come back */
    feed(s, N_FED);
    ok(clef_session_save(s, temp_path("faults"), &err), &err);
    go_on(s, want);
    ok(clef_session_load(s, temp_path("faults"), &err), &err);
    const long live = layer.live(NULL);
    long n = 1, failed = 0;
    for (int done = 0; !done; n++) {
        err = (clef_error){0};
        layer.fail_at(NULL, n, 0);
        const clef_status status = save_and_load(s, &err);
        done = layer.count(NULL) < n;
        layer.fail_at(NULL, 0, 0);
        failed += status != CLEF_OK;
        assert_true(!done || !status);
        assert_int_equal(layer.live(NULL), live);
        check_after(s, status, &err, want);
    }
    print_message("%ld calls, %ld statuses\n", n - 2, failed);
    assert_true(failed == n - 2 && failed >= 2 * 13);
    clef_session_destroy(other);
    layer.fail_at("clEnqueueReadBufferRect", 2, 0); /* alone, it gets its device back */
    ok(save_and_load(s, &err), &err);
    layer.fail_at("clEnqueueWriteBufferRect", 2, 0);
    ok(save_and_load(s, &err), &err);
    layer.fail_at(NULL, 0, 0);
    go_on(s, want);
    clef_session_destroy(s);
}

TEST(every_allocation_may_fail)
{
    clef_error err = {0};
    int32_t want[N_MORE];
    clef_session *s = open_session(dev, model, CLEF_F32, 128);
    feed(s, N_FED);
    ok(clef_session_save(s, temp_path("faults"), &err), &err);
    go_on(s, want);
    ok(clef_session_load(s, temp_path("faults"), &err), &err);
    long n = 1;
    for (int done = 0; !done; n++) {
        err = (clef_error){0};
        n_allocations = 0;
        fail_allocation = n;
        const clef_status status = save_and_load(s, &err);
        done = n_allocations < n;
        fail_allocation = 0;
        assert_true(!done || !status);
        check_after(s, status, &err, want);
    }
    assert_true(n > 5);
    clef_session_destroy(s);
}

TESTS(setup, teardown)
