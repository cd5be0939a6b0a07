/* Model folders and GGUF models as a whole: hyperparameters, shards, names, metadata. CLEF_SHARED names a
 * folder with data/ and oracle/ for the tests of real files, which are skipped without it. */
#define TEST_NAME "test-models"
#include "tests/cases.h"
#include "tests/files.h"
#include "tests/skip.h"

#include <math.h>

#include "model/open/config.h"
#include "model/open/model.h"

/* ---- config.json ----------------------------------------------------------------------------- */

static json_t *base_config(const char *name)
{
    json_t *base = json_object_get(case_file("models.json", "bases"), name);
    assert_non_null(base);
    return json_deep_copy(base);
}

static void write_base_config(const char *name)
{
    json_t *config = base_config(name);
    char *text = json_dumps(config, 0);
    write_text(temp_path("config.json"), text);
    free(text);
    json_decref(config);
}

/* The base config with the keys of `patch` put over it; "key": "REMOVE" takes a key away. */
static clef_status read_config(const char *base, json_t *patch, const json_t *generation, clef_hparams *hp,
                               clef_error *err)
{
    json_t *config = base_config(base), *value;
    const char *key;
    json_object_foreach(patch, key, value) {
        if (json_is_string(value) && strcmp(json_string_value(value), "REMOVE") == 0)
            json_object_del(config, key);
        else
            json_object_set(config, key, value);
    }
    memset(hp, 0, sizeof *hp);
    const clef_status status = clef__config_from_json(config, generation, "config.json", hp, err);
    json_decref(config);
    return status;
}

static clef_status read_case(const json_t *c, clef_hparams *hp, clef_error *err)
{
    return read_config(case_text(c, "base"), case_value(c, "patch"), case_value(c, "generation"), hp, err);
}

/* ---- what was read ------------------------------------------------------------------------------ */

typedef struct field {
    const char *name;
    size_t at;
    char kind; /* i: int32_t, f: float, d: double, t: a type of RoPE */
} field;

#define FIELD(kind, name)                                                                                    \
    {                                                                                                        \
#        name, offsetof(clef_hparams, name), kind                                                            \
    }
static const field fields[] = {
    FIELD('i', n_layers),
    FIELD('i', d_model),
    FIELD('i', d_ff),
    FIELD('i', n_heads),
    FIELD('i', n_kv_heads),
    FIELD('i', head_dim),
    FIELD('i', n_vocab),
    FIELD('i', n_context),
    FIELD('i', tied_embeddings),
    FIELD('i', bos),
    FIELD('i', eos),
    FIELD('i', n_eos_more),
    FIELD('i', eos_more[0]),
    FIELD('i', eos_more[1]),
    FIELD('i', sliding_window),
    FIELD('i', sliding_layers[0]),
    FIELD('i', full_n_kv_heads),
    FIELD('i', full_head_dim),
    FIELD('i', d_ff_expert),
    FIELD('i', n_experts),
    FIELD('i', n_experts_used),
    FIELD('f', norm_eps),
    FIELD('i', rope.dims),
    FIELD('i', rope.pairing),
    FIELD('t', rope.type),
    FIELD('d', rope.theta),
    FIELD('d', rope.factor),
    FIELD('d', rope.attention_factor),
    FIELD('d', rope.low_freq_factor),
    FIELD('d', rope.high_freq_factor),
    FIELD('i', rope.truncate),
    FIELD('i', rope.original_context),
    FIELD('i', rope_sliding.dims),
    FIELD('t', rope_sliding.type),
    FIELD('d', rope_sliding.theta),
};

static double field_value(const clef_hparams *hp, const field *f)
{
    const void *at = (const char *)hp + f->at;
    return f->kind == 'd'   ? *(const double *)at
           : f->kind == 'f' ? (double)*(const float *)at
                            : (double)*(const int32_t *)at;
}

static int is_field(const clef_hparams *hp, const char *name, const json_t *wanted, double *got)
{
    static const char *const types[] = {"DEFAULT", "LINEAR",   "DYNAMIC",     "LLAMA3",
                                        "YARN",    "LONGROPE", "PROPORTIONAL"};
    const char *text = json_string_value(wanted);
    if (strcmp(name, "arch") == 0 || strcmp(name, "name") == 0)
        return text && strcmp(text, name[0] == 'a' ? hp->arch : hp->name) == 0;
    size_t i = 0;
    while (i < sizeof fields / sizeof *fields && strcmp(fields[i].name, name) != 0)
        i++;
    assert_true(i < sizeof fields / sizeof *fields);
    *got = field_value(hp, &fields[i]);
    if (fields[i].kind == 't')
        return text && strcmp(text, types[(int)*got]) == 0;
    const double x = json_number_value(wanted);
    return json_is_number(wanted) && fabs(*got - x) <= (fields[i].kind == 'f' ? 1e-7 * fabs(x) : 1e-12);
}

static void check_hparams(const json_t *c, const clef_hparams *hp)
{
    const char *name;
    json_t *wanted;
    int32_t first = 0;
    json_object_foreach(case_value(c, "hparams"), name, wanted) {
        double got = 0;
        if (!is_field(hp, name, wanted, &got))
            fail_case(c, "%s is %.17g", name, got);
    }
    while (first < hp->n_layers && !clef__layer_slides(hp, first))
        first++;
    if (case_number(c, "slides_from", first) != first)
        fail_case(c, "layers slide from %d", first);
}

/* ---- config.json ----------------------------------------------------------------------------- */

static void check_config(const json_t *c)
{
    clef_hparams hp;
    clef_error err = {0};
    const clef_status status = read_case(c, &hp, &err);
    check_case(c, status, &err);
    if (status)
        assert_non_null(strstr(err.text, "config.json: "));
    else
        check_hparams(c, &hp);
}

TEST(config_refused)
{
    for_each_case("models.json", "refused", check_config);
    clef_hparams hp;
    clef_error err = {0};
    json_t *array = json_array();
    check_error("[]", clef__config_from_json(array, NULL, "config.json", &hp, &err), &err, CLEF_E_FORMAT,
                "config.json: is an array");
    json_decref(array);
}

TEST(config_read)
{
    for_each_case("models.json", "read", check_config);
}

static void add_key(void *user, const char *key)
{
    strcat(user, key);
    strcat(user, " ");
}

/* Keys that are neither read nor known to change nothing. */
TEST(config_unread)
{
    char names[256] = "";
    json_t *config = base_config("llama");
    json_object_set_new(config, "clip_qkv", json_real(8));
    json_object_set_new(config, "attention_dropout", json_real(0.1));
    json_object_set_new(config, "zzz", json_null());
    clef__config_unread(config, "config.json", add_key, names);
    assert_string_equal(names, "clip_qkv zzz ");
    json_decref(config);
}

/* RoBERTa's positions count all tokens but padding, which MPNet's code has as 1 whatever the file says. */
TEST(padding_ids)
{
    clef_error err;
    static const char *const types[] = {"roberta", "xlm-roberta", "mpnet", "bert"};
    static const int32_t ids[] = {5, 3, 6};
    for (int i = 0; i < 4; i++) {
        clef_model model = {0};
        json_t *patch = json_pack("{s:s,s:i}", "model_type", types[i], "pad_token_id", 3);
        assert_int_equal(read_config("llama", patch, NULL, &model.hparams, &err), CLEF_OK);
        json_decref(patch);
        assert_int_equal(clef_model_padding(&model), i < 2 ? 3 : i == 2 ? 1 : -1);
        const clef_status status = clef__check_padding(&model, ids, 3, &err);
        if (i < 2)
            check_error(types[i], status, &err, CLEF_E_UNSUPPORTED, "token 1 is 3, the padding id");
        else
            assert_int_equal(status, CLEF_OK);
        assert_int_equal(clef__check_padding(&model, ids, 1, &err), CLEF_OK);
    }
}

/* ---- GGUF keys ------------------------------------------------------------------------------- */

/* A Llama's keys but `drop`, then `add`, then one tensor [7, 32] called `tensor` (NULL: no tensor). */
static void put_gguf(blob *b, const char *drop, const char *add, uint64_t n_added, const char *tensor)
{
    const json_t *keys = case_file("models.json", "gguf_keys");
    uint64_t n = n_added;
    blob own = {.n = 0};
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const json_t *row = json_array_get(keys, i);
        const char *key = json_string_value(json_array_get(row, 0));
        if (drop && strcmp(drop, key) == 0)
            continue;
        put_int(&own, strlen(key), 8);
        put(&own, key, strlen(key));
        assemble(&own, json_string_value(json_array_get(row, 1)));
        n++;
    }
    assemble(b, "t:GGUF 4:3");
    put_int(b, tensor != NULL, 8);
    put_int(b, n, 8);
    put(b, own.p, own.n);
    assemble(b, add);
    if (!tensor)
        return;
    put_int(b, strlen(tensor), 8);
    put(b, tensor, strlen(tensor));
    assemble(b, "4:2 8:32 8:7 4:0 8:0 p:32 z:896");
}

static clef_status read_gguf_config(const char *drop, const char *add, const char *tensor, clef_hparams *hp,
                                    clef_error *err)
{
    blob b = {.n = 0};
    clef_gguf g;
    uint64_t n_added = 0;
    for (const char *at = strstr(add, "s:K."); at; at = strstr(at + 1, "s:K."))
        n_added++;
    for (const char *at = strstr(add, "clef."); at; at = strstr(at + 1, "clef."))
        n_added++;
    char expanded[600]; /* K stands for the architecture, so that keys can be counted */
    size_t n = 0;
    for (const char *at = add; *at; at++) {
        const int is_key = strncmp(at, "s:K.", 4) == 0;
        n += (size_t)snprintf(expanded + n, sizeof expanded - n, "%s",
                              is_key ? "s:llama" : (char[]){*at, '\0'});
        at += is_key ? 2 : 0;
    }
    expanded[n] = '\0';
    put_gguf(&b, drop, expanded, n_added, tensor);
    if (clef__gguf_parse(b.p, b.n, "m.gguf", &g, err) != CLEF_OK)
        fail_msg("%s: %s", add, err->text);
    memset(hp, 0, sizeof *hp);
    const clef_status status = clef__config_from_gguf(&g, "m.gguf", hp, err);
    clef__gguf_close(&g);
    return status;
}

static void check_gguf(const json_t *c)
{
    clef_hparams hp;
    clef_error err = {0};
    const char *tensor = case_value(c, "tensor") ? case_text(c, "tensor") : "token_embd.weight";
    const clef_status status = read_gguf_config(case_text(c, "drop"), case_text(c, "add"), tensor, &hp, &err);
    check_case(c, status, &err);
    if (status)
        assert_non_null(strstr(err.text, "m.gguf: "));
    else
        check_hparams(c, &hp);
}

TEST(gguf_config)
{
    for_each_case("models.json", "gguf_refused", check_gguf);
    for_each_case("models.json", "gguf_read", check_gguf);
}

/* ---- folders --------------------------------------------------------------------------------- */

static const char *const folder_files[] = {"config.json",       "generation_config.json",
                                           "model.safetensors", "model.safetensors.index.json",
                                           "a.safetensors",     "b.safetensors"};

static void empty_folder(void)
{
    for (size_t i = 0; i < sizeof folder_files / sizeof *folder_files; i++)
        clef__os_remove(temp_path(folder_files[i]));
}

/* A file of F32 tensors with two elements each; the values are the tensor's place in the list. */
static void write_tensors(const char *file, const char *const *names, int32_t n)
{
    float values[8][2];
    clef_tensor_info t[8];
    clef_error err = {0};
    for (int32_t i = 0; i < n; i++) {
        values[i][0] = values[i][1] = (float)i;
        t[i] = (clef_tensor_info){
            .name = names[i], .dtype = CLEF_F32, .rank = 1, .dims = {2}, .n_bytes = 8, .data = values[i]};
    }
    check_error(file, clef_tensor_file_write(temp_path(file), t, n, &err), &err, CLEF_OK, "");
}

static void refused(const char *what, clef_status status, const char *piece)
{
    clef_error err = {0};
    clef_model *m = NULL;
    check_error(what, clef_model_open(temp_dir, &m, &err), &err, status, piece);
    assert_null(m);
}

static void check_shards(const json_t *c)
{
    clef_error err = {0};
    clef_model *m = NULL;
    write_text(temp_path("model.safetensors.index.json"), case_text(c, "index"));
    check_case(c, clef_model_open(temp_dir, &m, &err), &err);
    assert_null(m);
}

TEST(folder_refused)
{
    empty_folder();
    refused("empty folder", CLEF_E_NOT_FOUND, "has no config.json");
    write_text(temp_path("config.json"), "{\"model_type\":\"llama\",");
    refused("cut config", CLEF_E_FORMAT, "config.json: line 1");
    write_text(temp_path("config.json"), "{\"model_type\":\"llama\",\"model_type\":\"gpt2\"}");
    refused("duplicate key", CLEF_E_FORMAT, "duplicate");
    write_base_config("llama");
    refused("no weights", CLEF_E_NOT_FOUND, "has neither model.safetensors nor");
    write_text(temp_path("generation_config.json"), "{");
    refused("cut generation config", CLEF_E_FORMAT, "generation_config.json: line 1");
    clef__os_remove(temp_path("generation_config.json"));
    write_text(temp_path("model.safetensors"), "short");
    refused("short weights", CLEF_E_FORMAT, "model.safetensors: has 5 bytes");
    clef__os_remove(temp_path("model.safetensors"));

    write_tensors("a.safetensors", (const char *const[]){"x", "y"}, 2);
    write_tensors("b.safetensors", (const char *const[]){"z"}, 1);
    for_each_case("models.json", "shards_refused", check_shards);
    empty_folder();

    clef_error err = {0};
    clef_model *m = NULL;
    check_error("absent", clef_model_open(temp_path("absent"), &m, &err), &err, CLEF_E_IO,
                "absent: cannot open");
    check_error("NULL", clef_model_open(NULL, &m, &err), &err, CLEF_E_ARG, "path");
    check_error("NULL", clef_model_open("x", NULL, &err), &err, CLEF_E_ARG, "out");
}

static void count_entries(void *user, const char *key, const char *value)
{
    int *n = user;
    assert_true(key[0] && value[0]);
    ++*n;
}

TEST(folder_shards)
{
    clef_error err = {0};
    clef_model *m = NULL;
    empty_folder();
    write_base_config("llama");
    write_tensors("a.safetensors", (const char *const[]){"lm_head.weight", "stray", "layers.0.w"}, 3);
    write_tensors("b.safetensors", (const char *const[]){"b0", "model.norm.weight"}, 2);
    write_text(temp_path("model.safetensors.index.json"),
               "{\"metadata\":{},\"weight_map\":{\"lm_head.weight\":\"a.safetensors\",\"layers.0.w\":\"a."
               "safetensors\","
               "\"b0\":\"b.safetensors\",\"model.norm.weight\":\"b.safetensors\"}}");
    check_error("shards", clef_model_open(temp_dir, &m, &err), &err, CLEF_OK, "");
    assert_int_equal(clef_model_n_tensors(m), 4);
    assert_non_null(clef__model_find(m, "b0"));
    assert_null(clef__model_find(m, "stray"));
    assert_string_equal(clef__model_find(m, "model.layers.0.w")->name,
                        "layers.0.w");                             /* stored by the base model */
    assert_null(clef__model_find(m, "model.embed_tokens.weight")); /* not tied */
    assert_non_null(clef_model_weight(m, "b0", CLEF_F32, 8));
    assert_null(clef_model_weight(m, "b0", CLEF_F16, 8));
    assert_null(clef_model_weight(m, "b0", CLEF_F32, 4));
    assert_null(clef_model_weight(m, "absent", CLEF_F32, 8));
    assert_null(clef_model_tensor(m, 4).name);
    assert_null(clef_model_tensor(m, -1).name);
    assert_string_equal(clef_model_path(m), temp_dir);
    assert_non_null(strstr(clef_model_hparams(m)->name, TEST_NAME));
    int n = 0;
    clef_model_metadata(m, count_entries, &n);
    assert_int_equal(n, 12);
    clef_model_close(m);
    clef_model_close(NULL);

    clef__os_remove(temp_path("model.safetensors.index.json"));
    write_base_config("gpt2");
    write_tensors("model.safetensors", (const char *const[]){"wte.weight", "h.0.ln_1.weight"}, 2);
    check_error("gpt2", clef_model_open(temp_dir, &m, &err), &err, CLEF_OK, "");
    assert_string_equal(clef__model_find(m, "transformer.h.0.ln_1.weight")->name, "h.0.ln_1.weight");
    assert_string_equal(clef__model_find(m, "lm_head.weight")->name, "wte.weight"); /* tied */
    clef_model_close(m);

    /* Buffers that clef has no dtype for are left out; such a weight is refused. */
    blob b = {.n = 0};
    static const char ids[] = "{\"ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},\"w\":{"
                              "\"dtype\":\"F16\",\"shape\":[4],"
                              "\"data_offsets\":[8,16]}}";
    put_int(&b, strlen(ids), 8);
    put(&b, ids, strlen(ids));
    assemble(&b, "z:16");
    write_file(temp_path("model.safetensors"), b.p, b.n);
    check_error("buffer", clef_model_open(temp_dir, &m, &err), &err, CLEF_OK, "");
    assert_int_equal(clef_model_n_tensors(m), 1);
    clef_model_close(m);
    memcpy(strstr((char *)b.p + 8, "I64"), "F64", 3);
    write_file(temp_path("model.safetensors"), b.p, b.n);
    refused("a weight in F64", CLEF_E_UNSUPPORTED, "model.safetensors: tensor ids is F64");
    empty_folder();
}

TEST(gguf_model)
{
    blob b = {.n = 0};
    clef_error err = {0};
    clef_model *m = NULL;
    const char *path = temp_path("m.gguf");
    put_gguf(&b, NULL, "", 0, NULL);
    write_file(path, b.p, b.n);
    check_error("vocabulary", clef_model_open(path, &m, &err), &err, CLEF_E_NOT_FOUND,
                "m.gguf: has no tensors");
    b.n = 0;
    put_gguf(&b, NULL, "", 0, "token_embd.weight");
    write_file(path, b.p, b.n);
    check_error("model", clef_model_open(path, &m, &err), &err, CLEF_OK, "");
    assert_true(m->is_gguf && clef_model_n_tensors(m) == 1 && clef_model_tensor(m, 0).dims[0] == 7);
    assert_non_null(clef_model_weight(m, "token_embd.weight", CLEF_F32, 7 * 32 * 4));
    int n = 0;
    clef_model_metadata(m, count_entries, &n);
    assert_int_equal(n, 12);
    clef_model_close(m);
    clef__os_remove(path);
}

/* ---- real files ------------------------------------------------------------------------------ */

static int n_real;

static void check_real(const json_t *c)
{
    const char *shared = clef__os_env("CLEF_SHARED");
    char path[512];
    snprintf(path, sizeof path, "%s/%s", shared, case_text(c, "path"));
    if (!clef__os_is_dir(path) && !clef__os_is_file(path)) {
        case_skip(c);
        return;
    }
    n_real++;
    clef_model *m = NULL;
    clef_error err = {0};
    check_case(c, clef_model_open(path, &m, &err), &err);
    const clef_hparams *hp = clef_model_hparams(m);
    check_hparams(c, hp);
    assert_int_equal(clef_model_n_tensors(m), case_number(c, "n_tensors", 0));
    for (int32_t k = 0; k < clef_model_n_tensors(m); k++) {
        const clef_tensor_info t = clef_model_tensor(m, k);
        assert_ptr_equal(clef_model_weight(m, t.name, t.dtype, t.n_bytes), t.data);
    }
    const char *embedding = m->is_gguf                  ? "token_embd.weight"
                            : !strcmp(hp->arch, "gpt2") ? "transformer.wte.weight"
                                                        : "model.embed_tokens.weight";
    const clef_tensor_info *e = clef__model_find(m, embedding);
    assert_true(e && e->dims[0] == hp->n_vocab && e->dims[1] == hp->d_model);
    clef_model_close(m);
}

TEST(real_models)
{
    if (clef__os_env("CLEF_SHARED"))
        for_each_case("models.json", "real", check_real);
    if (n_real == 0)
        skip_without("models");
}

/* The same model in both formats has the same embedding, and the vocabularies open without tensors. */
TEST(real_gguf)
{
    static const char *const vocabularies[] = {"llama-bpe", "gpt-2", "llama-spm", "qwen2", "bert-bge"};
    const char *shared = clef__os_env("CLEF_SHARED");
    char path[512];
    snprintf(path, sizeof path, "%s/data/stories260K/stories260K.gguf", shared ? shared : "");
    if (!shared || !clef__os_is_file(path))
        skip_without("stories260K.gguf");
    clef_model *a = NULL, *b = NULL;
    clef_error err = {0};
    check_error(path, clef_model_open(path, &a, &err), &err, CLEF_OK, "");
    snprintf(path, sizeof path, "%s/data/stories260K/hf", shared);
    check_error(path, clef_model_open(path, &b, &err), &err, CLEF_OK, "");
    const clef_tensor_info *x = clef__model_find(a, "token_embd.weight"),
                           *y = clef__model_find(b, "model.embed_tokens.weight");
    assert_int_equal(x->n_bytes, y->n_bytes);
    assert_memory_equal(x->data, y->data, x->n_bytes);
    clef_model_close(a);
    clef_model_close(b);
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        clef_gguf g;
        snprintf(path, sizeof path, "%s/data/vocab/ggml-vocab-%s.gguf", shared, vocabularies[i]);
        check_error(path, clef__gguf_open(path, &g, &err), &err, CLEF_OK, "");
        assert_true(g.n_tensors == 0 && clef__gguf_find(&g, "tokenizer.ggml.tokens")->n > 10000);
        clef__gguf_close(&g);
    }
}

/* The metadata of llama.cpp's file of the 26 B Gemma 4: heads, windows and rotary positions that differ
 * between two kinds of layers, and experts beside a dense feed-forward. */
TEST(gemma4_config)
{
    enum { N_LAYERS = 30, N_KEYS = 23 };
    blob b = {.n = 0};
    clef_error err = {0};
    clef_gguf g;
    clef_hparams hp = {0};
    assemble(&b, "t:GGUF 4:3 8:0");
    put_int(&b, N_KEYS + 2, 8);
    assemble(&b, json_string_value(case_file("models.json", "gemma4_keys")));
    assemble(&b, "s:gemma4.attention.head_count_kv 4:9 4:5 8:30");
    for (int32_t i = 0; i < N_LAYERS; i++)
        put_int(&b, i % 6 == 5 ? 2 : 8, 4);
    assemble(&b, "s:gemma4.attention.sliding_window_pattern 4:9 4:7 8:30");
    for (int32_t i = 0; i < N_LAYERS; i++)
        put_int(&b, i % 6 != 5, 1);
    check_error("gemma4", clef__gguf_parse(b.p, b.n, "m.gguf", &g, &err), &err, CLEF_OK, "");
    check_error("gemma4", clef__config_from_gguf(&g, "m.gguf", &hp, &err), &err, CLEF_OK, "");
    clef__gguf_close(&g);
    check_hparams(case_file("models.json", "gemma4"), &hp);
    for (int32_t i = 0; i < hp.n_layers; i++)
        assert_int_equal(clef__layer_slides(&hp, i), i % 6 != 5);
    static const char key[] = "attention.sliding_window\4"; /* its end, and its type */
    for (size_t i = 0; i + sizeof key < b.n; i++)
        if (memcmp(b.p + i, key, sizeof key - 1) == 0)
            b.p[i] = 'A'; /* another key */
    check_error("gemma4", clef__gguf_parse(b.p, b.n, "m.gguf", &g, &err), &err, CLEF_OK, "");
    check_error("gemma4", clef__config_from_gguf(&g, "m.gguf", &hp, &err), &err, CLEF_E_FORMAT,
                "key gemma4.attention.sliding_window is missing");
    clef__gguf_close(&g);
}

TESTS(make_temp_dir, remove_temp_dir)
