/* Trained models as folders and GGUF files, and adapters: what is read back is what was trained, what was
 * there is kept or replaced as documented, and a failure leaves nothing behind. */
#define _XOPEN_SOURCE 700
#define TEST_NAME "save-model"
#include "tests/folders.h"

#include <math.h>

#include "clef/train_files.h"
#include "model/open/lora.h"
#include "model/open/model.h"
#include "tests/check.h"

#define DEMO CLEF_SOURCE_DIR "/share/demo"
#define TRAINED "transformer.h.1.mlp.c_fc.weight"

static clef_error err;

/* ---- trained values: those of one weight, made from the model's own --------------------------- */

typedef struct training {
    const clef_model *model;
    const char *name;   /* of the trained weight */
    float scale, first; /* its values are the model's times `scale`; the first is `first`, unless that is 0 */
    float *x;
    int32_t n_asked;
} training;

static clef_status read_trained(void *user, const char *name, uint64_t n, const float **out, clef_error *e)
{
    training *t = user;
    (void)e;
    t->n_asked++;
    *out = NULL;
    if (strcmp(name, t->name) != 0)
        return CLEF_OK;
    const clef_tensor_info *info = clef__model_find(t->model, name);
    free(t->x);
    t->x = malloc(n * sizeof *t->x);
    clef_dtype_decode(info->dtype, info->data, n, t->x);
    for (uint64_t i = 0; i < n; i++)
        t->x[i] *= t->scale;
    if (t->first != 0)
        t->x[0] = t->first;
    *out = t->x;
    return CLEF_OK;
}

static clef_status fail_to_read(void *user, const char *name, uint64_t n, const float **out, clef_error *e)
{
    (void)n;
    *out = NULL;
    if (++*(int32_t *)user < 20)
        return CLEF_OK;
    snprintf(e->text, sizeof e->text, "%s is away", name);
    return CLEF_E_CL;
}

static clef_model *open_model(const char *path)
{
    clef_model *m = NULL;
    ok(clef_model_open(path, &m, &err), &err);
    return m;
}

static float *floats_of(const clef_model *m, const char *name, size_t *n)
{
    const clef_tensor_info *t = clef__model_find(m, name);
    assert_non_null(t);
    *n = t->n_bytes / (size_t)clef_dtype_block_bytes(t->dtype) * (size_t)clef_dtype_block_elems(t->dtype);
    float *x = malloc(*n * sizeof *x);
    clef_dtype_decode(t->dtype, t->data, *n, x);
    return x;
}

/* Every tensor of the saved folder is the demo's, times 2 if it was trained, to `relative` of the dtype. */
static void check_saved(const clef_model *demo, const char *path, clef_dtype dtype, float relative)
{
    clef_model *m = open_model(path);
    assert_int_equal(clef_model_n_tensors(m), clef_model_n_tensors(demo));
    for (int32_t i = 0; i < clef_model_n_tensors(m); i++) {
        const clef_tensor_info t = clef_model_tensor(m, i);
        size_t n, n_demo;
        float *x = floats_of(m, t.name, &n), *y = floats_of(demo, t.name, &n_demo);
        const float scale = strcmp(t.name, TRAINED) == 0 ? 2.0f : 1.0f;
        assert_int_equal(t.dtype, dtype);
        assert_int_equal(n, n_demo);
        for (size_t k = 0; k < n; k++)
            if (fabsf(x[k] - scale * y[k]) > relative * fabsf(scale * y[k]))
                fail_msg("%s[%zu]: %g, expected %g", t.name, k, (double)x[k], (double)(scale * y[k]));
        free(x);
        free(y);
    }
    assert_int_equal(clef_tokenizer_n_tokens(clef_model_tokenizer(m, &err)), 1024);
    clef_model_close(m);
}

static int has_text(const char *path, const char *text)
{
    char *all = NULL;
    size_t n;
    ok(clef__os_read(path, 1 << 24, &all, &n, &err), &err);
    const int found = strstr(all, text) != NULL;
    free(all);
    return found;
}

TEST(folders)
{
    clef_model *demo = open_model(DEMO);
    training t = {.model = demo, .name = TRAINED, .scale = 2};
    const clef_weight_values values = {read_trained, &t};
    const clef_save_opts halves = {.dtype = CLEF_BF16}, small = {.dtype = CLEF_F16, .shard_bytes = 300000};
    ok(clef_model_save(demo, temp_path("out"), NULL, &values, &err), &err);
    assert_int_equal(t.n_asked, clef_model_n_tensors(demo));
    check_saved(demo, temp_path("out"), CLEF_F32, 0);
    assert_true(has_text(temp_path("out/config.json"), "\"dtype\": \"float32\""));
    assert_true(has_text(temp_path("out/config.json"), "\"torch_dtype\": \"float32\""));
    assert_true(has_text(temp_path("out/config.json"), "\"layer_norm_epsilon\": 1e-5"));

    /* It is replaced; what was put beside its files stays. */
    write_text(temp_path("out/log.jsonl"), "{}\n");
    ok(clef_model_save(demo, temp_path("out/"), &small, &values, &err), &err);
    check_saved(demo, temp_path("out"), CLEF_F16, 0);
    assert_false(clef__os_is_file(temp_path("out/model.safetensors")));
    assert_true(has_text(temp_path("out/model.safetensors.index.json"), "model-00002-of-"));
    ok(clef_model_save(demo, temp_path("out"), &halves, &values, &err), &err);
    check_saved(demo, temp_path("out"), CLEF_BF16, 1 / 256.0f);
    assert_false(clef__os_is_file(temp_path("out/model.safetensors.index.json")));
    assert_true(has_text(temp_path("out/log.jsonl"), "{}"));
    assert_int_equal(look_into(temp_path("out")).n, 9);
    assert_int_equal(look_into(temp_dir).n, 1);
    free(t.x);
    clef_model_close(demo);
    remove_tree(temp_path("out"));
}

/* A folder can be claimed before there is a model. */
TEST(claims)
{
    clef_model *demo = open_model(DEMO);
    ok(clef_train_check_folder(temp_path("a/b"), &err), &err);
    ok(clef_train_claim_folder(temp_path("a/b"), &err), &err);
    ok(clef_train_claim_folder(temp_path("a/b"), &err), &err);
    write_text(temp_path("a/b/ckpt-00000001.clef"), "x");
    ok(clef_model_save(demo, temp_path("a/b"), NULL, NULL, &err), &err);
    assert_int_equal(look_into(temp_path("a/b")).n, 9);
    ok(clef_train_check_folder(temp_path("a/b"), &err), &err);

    check_error("parent", clef_train_claim_folder(temp_path("a"), &err), &err, CLEF_E_IO,
                "/a: has b: expected");
    ok(clef__os_make_dirs(temp_path("a/b/more"), &err), &err);
    check_error("folder", clef_train_claim_folder(temp_path("a/b"), &err), &err, CLEF_E_IO, "a folder more");
    write_text(temp_path("file"), "x");
    check_error("file", clef_train_claim_folder(temp_path("file"), &err), &err, CLEF_E_IO,
                "/file: is a file");
    check_error("no name", clef_train_claim_folder("", &err), &err, CLEF_E_ARG, "expected a name");
    check_error("demo", clef_model_save(demo, DEMO, NULL, NULL, &err), &err, CLEF_E_IO,
                "expected nothing there");
    clef_model_close(demo);
    remove_tree(temp_path("a"));
    remove(temp_path("file"));
}

TEST(failures)
{
    clef_model *demo = open_model(DEMO);
    int32_t n = 0;
    training t = {.model = demo, .name = TRAINED, .scale = 1, .first = INFINITY};
    const clef_weight_values values = {read_trained, &t}, failing = {fail_to_read, &n};
    const clef_save_opts halves = {.dtype = CLEF_F16}, blocks = {.dtype = CLEF_Q8_0};
    static const char *const names[] = {"out", "out.gguf"};
    for (int i = 0; i < 2; i++) {
        const char *path = temp_path(names[i]);
        n = 0;
        t.first = INFINITY;
        check_error("infinite", clef_model_save(demo, path, NULL, &values, &err), &err, CLEF_E_LIMIT,
                    TRAINED "[0]: expected a finite value, got inf");
        t.first = 70000;
        check_error("f16", clef_model_save(demo, path, &halves, &values, &err), &err, CLEF_E_LIMIT,
                    TRAINED "[0]: 70000 is more than f16 can hold, expected f32 or bf16");
        assert_int_equal(clef_model_save(demo, path, NULL, &failing, &err), CLEF_E_CL);
        assert_non_null(strstr(err.text, " is away"));
        check_error("q8_0", clef_model_save(demo, path, &blocks, NULL, &err), &err, CLEF_E_ARG, "q8_0");
        for (size_t limit = 1; limit < 6000000; limit = 4 * limit + 1) {
            limit_files(limit);
            const clef_status s = clef_model_save(demo, path, NULL, NULL, &err);
            limit_files(0);
            check_error("full disk", s, &err, CLEF_E_IO, "cannot write: File too large");
            assert_int_equal(look_into(temp_dir).n, 0);
        }
    }
    check_error("no folder", clef_model_save(demo, "/dev/null/out", NULL, NULL, &err), &err, CLEF_E_IO,
                "/dev/null");
    free(t.x);
    clef_model_close(demo);
}

/* Folders of writers that were killed are removed, others not. */
TEST(leftovers)
{
    clef_os_folder *living = NULL;
    clef_model *demo = open_model(DEMO);
    ok(clef__os_make_dirs(temp_path("out.4194304-7.tmp"), &err), &err);
    write_text(temp_path("out.4194304-7.tmp/model.safetensors"), "half");
    ok(clef__os_make_dirs(temp_path("out.mine.tmp"), &err), &err);
    ok(clef__os_make_dirs(temp_path("out.1-2.tmp.kept"), &err), &err);
    ok(clef__os_folder_begin(temp_path("out"), &living, &err), &err);
    assert_false(clef__os_is_dir(temp_path("out.4194304-7.tmp")));
    ok(clef_model_save(demo, temp_path("out"), NULL, NULL, &err), &err);
    assert_true(clef__os_is_dir(clef__os_folder_path(living)));
    assert_int_equal(look_into(temp_dir).n, 4);
    clef__os_folder_abort(living);
    assert_int_equal(look_into(temp_dir).n, 3);
    clef_model_close(demo);
    remove_tree(temp_path("out"));
    remove_tree(temp_path("out.mine.tmp"));
    remove_tree(temp_path("out.1-2.tmp.kept"));
}

/* A folder that is replaced is as it was after a failure. */
TEST(failed_replacement)
{
    clef_model *demo = open_model(DEMO);
    training t = {.model = demo, .name = TRAINED, .scale = 2};
    const clef_weight_values values = {read_trained, &t};
    ok(clef_model_save(demo, temp_path("out"), NULL, &values, &err), &err);
    limit_files(100000);
    const clef_status s = clef_model_save(demo, temp_path("out"), NULL, NULL, &err);
    limit_files(0);
    check_error("full disk", s, &err, CLEF_E_IO, "cannot write");
    check_saved(demo, temp_path("out"), CLEF_F32, 0);
    assert_int_equal(look_into(temp_dir).n, 1);
    free(t.x);
    clef_model_close(demo);
    remove_tree(temp_path("out"));
}

/* A folder as GGUF, and that GGUF trained further. */
TEST(gguf_files)
{
    clef_model *demo = open_model(DEMO);
    training t = {.model = demo, .name = TRAINED, .scale = 2},
             u = {.name = "blk.1.ffn_up.weight", .scale = 0.5f};
    const clef_weight_values values = {read_trained, &t}, further = {read_trained, &u};
    size_t n, m;
    ok(clef_model_save(demo, temp_path("a.gguf"), NULL, &values, &err), &err);
    clef_model *a = open_model(temp_path("a.gguf"));
    float *x = floats_of(a, u.name, &n), *y = floats_of(demo, TRAINED, &m); /* [768, 192], [192, 768] */
    assert_int_equal(n, m);
    for (size_t i = 0; i < 768; i++)
        for (size_t k = 0; k < 192; k++)
            assert_true(x[i * 192 + k] == 2 * y[k * 768 + i]);
    free(x);

    u.model = a;
    ok(clef_model_save(a, temp_path("b.gguf"), &(clef_save_opts){.dtype = CLEF_F16}, &further, &err), &err);
    ok(clef_model_save(a, temp_path("b.gguf"), &(clef_save_opts){.dtype = CLEF_F16}, &further, &err), &err);
    clef_model *b = open_model(temp_path("b.gguf"));
    x = floats_of(b, u.name, &n);
    for (size_t i = 0; i < 768; i++)
        for (size_t k = 0; k < 192; k++)
            assert_true(x[i * 192 + k] == y[k * 768 + i]);
    assert_int_equal(clef_tokenizer_n_tokens(clef_model_tokenizer(b, &err)), 1024);
    assert_int_equal(clef_model_n_tensors(b), clef_model_n_tensors(a));

    check_error("folder", clef_model_save(a, temp_path("out"), NULL, NULL, &err), &err, CLEF_E_UNSUPPORTED,
                "expected a name that ends with .gguf");
    ok(clef_model_quantize(demo, temp_path("own.gguf"), &(clef_quantize_opts){.type = "f16"}, &err), &err);
    check_error("other", clef_model_save(a, temp_path("own.gguf"), NULL, NULL, &err), &err, CLEF_E_IO,
                "clef train did not write it");
    free(x);
    free(y);
    free(t.x);
    free(u.x);
    clef_model_close(a);
    clef_model_close(b);
    clef_model_close(demo);
    remove(temp_path("a.gguf"));
    remove(temp_path("b.gguf"));
    remove(temp_path("own.gguf"));
}

/* ---- adapters -------------------------------------------------------------------------------- */

enum { RANK = 3 };

static float *random_floats(size_t n, uint32_t seed)
{
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
    return x;
}

static void free_matrices(clef_lora_matrices *m, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)m[i].a);
        free((void *)(uintptr_t)m[i].b);
    }
}

/* Random matrices for n weights; in_out: these are [in, out]. */
static void make_matrices(const clef_model *m, const char *const *names, int32_t n, int in_out,
                          clef_lora_matrices *out)
{
    for (int32_t i = 0; i < n; i++) {
        const clef_tensor_info *t = clef__model_find(m, names[i]);
        assert_non_null(t);
        out[i] =
            (clef_lora_matrices){.weight = names[i],
                                 .a = random_floats((size_t)(RANK * t->dims[!in_out]), (uint32_t)i),
                                 .b = random_floats((size_t)(RANK * t->dims[in_out]), 77u + (uint32_t)i)};
    }
}

/* The adapter as clef reads it for `model` has A, and B transposed times 2. */
static void check_adapter(const char *path, const clef_model *model, const clef_lora_matrices *m, int32_t n)
{
    clef_lora *lora = NULL;
    ok(clef_lora_open(path, model, 1, &lora, &err), &err);
    assert_int_equal(clef_lora_n_targets(lora), n);
    for (int32_t i = 0; i < n; i++) {
        const clef_lora_target_info *t = clef__lora_find(lora, m[i].weight);
        assert_non_null(t);
        assert_int_equal(t->rank, RANK);
        assert_memory_equal(t->down, m[i].a, (size_t)(RANK * t->n_in) * sizeof(float));
        for (int32_t k = 0; k < t->n_out; k++)
            for (int32_t r = 0; r < RANK; r++)
                assert_true(t->up[r * t->n_out + k] == 2 * m[i].b[k * RANK + r]);
    }
    clef_lora_close(lora);
}

static const clef_lora_save_opts lora_opts = {.rank = RANK, .alpha = 2 * RANK};

TEST(adapters_of_gpt2)
{
    static const char *const names[] = {"transformer.h.0.attn.c_attn.weight",
                                        "transformer.h.5.mlp.c_proj.weight",
                                        "transformer.h.1.attn.c_attn.weight"};
    clef_model *demo = open_model(DEMO);
    clef_lora_matrices m[3];
    make_matrices(demo, names, 3, 1, m);
    ok(clef_lora_save(demo, temp_path("lora"), &lora_opts, m, 3, &err), &err);
    check_adapter(temp_path("lora"), demo, m, 3);
    assert_true(has_text(temp_path("lora/adapter_config.json"), "\"fan_in_fan_out\": true"));
    assert_true(has_text(temp_path("lora/adapter_config.json"), "\"transformer.h.5.mlp.c_proj\""));

    m[1].weight = "transformer.wte.weight";
    check_error("embedding", clef_lora_save(demo, temp_path("lora"), &lora_opts, m, 3, &err), &err,
                CLEF_E_UNSUPPORTED, "transformer.wte.weight: expected projections");
    m[1].weight = names[0];
    check_error("twice", clef_lora_save(demo, temp_path("lora"), &lora_opts, m, 3, &err), &err, CLEF_E_ARG,
                "two adapters");
    m[1].weight = "transformer.h.9.mlp.c_proj.weight";
    check_error("missing", clef_lora_save(demo, temp_path("lora"), &lora_opts, m, 3, &err), &err,
                CLEF_E_NOT_FOUND, "no such matrix");
    m[1].weight = "transformer.h.0.ln_1.weight";
    check_error("vector", clef_lora_save(demo, temp_path("lora"), &lora_opts, m, 3, &err), &err, CLEF_E_SHAPE,
                "has 1 dims");
    check_error("rank", clef_lora_save(demo, temp_path("lora"), &(clef_lora_save_opts){0}, m, 1, &err), &err,
                CLEF_E_ARG, "rank 0");
    limit_files(500);
    const clef_status s = clef_lora_save(demo, temp_path("lora"), &lora_opts, m, 1, &err);
    limit_files(0);
    check_error("full disk", s, &err, CLEF_E_IO, "cannot write");
    m[1].weight = names[1];
    check_adapter(temp_path("lora"), demo, m, 3);
    free_matrices(m, 3);
    clef_model_close(demo);
    remove_tree(temp_path("lora"));
}

/* Llama's rows of q and k are in another order in GGUF: the adapter of a GGUF model works with the folder
 * too. */
TEST(adapters_of_llama)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": "
        "1, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 64}";
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.ffn_up.weight"};
    clef_lora_matrices m[3];
    clef_lora *lora = NULL;
    write_text(temp_path("config.json"), config);
    ok(clef_model_create_new(temp_path("config.json"), DEMO, temp_path("new"), 1, &err), &err);
    clef_model *folder = open_model(temp_path("new"));
    ok(clef_model_save(folder, temp_path("new.gguf"), NULL, NULL, &err), &err);
    clef_model *gguf = open_model(temp_path("new.gguf"));
    make_matrices(gguf, names, 3, 0, m);
    ok(clef_lora_save(gguf, temp_path("lora"), &lora_opts, m, 3, &err), &err);
    check_adapter(temp_path("lora"), gguf, m, 3);
    assert_true(has_text(temp_path("lora/adapter_config.json"), "\"q_proj\""));

    /* heads of 8: row 1 of a head in GGUF is row 4 of it in a folder */
    ok(clef_lora_open(temp_path("lora"), folder, 1, &lora, &err), &err);
    const clef_lora_target_info *q = clef__lora_find(lora, "model.layers.0.self_attn.q_proj.weight");
    assert_non_null(q);
    for (int32_t head = 0; head < 4; head++)
        for (int32_t i = 0; i < 8; i++)
            assert_true(q->up[head * 8 + i % 2 * 4 + i / 2] == 2 * m[0].b[(head * 8 + i) * RANK]);
    clef_lora_close(lora);
    free_matrices(m, 3);
    clef_model_close(folder);
    clef_model_close(gguf);
    remove_tree(temp_path("new"));
    remove_tree(temp_path("lora"));
    remove(temp_path("new.gguf"));
    remove(temp_path("config.json"));
}

TESTS(make_temp_dir, remove_temp_tree)
