/* New models of every family: which weights they have, how these begin, and what is refused. */
#define _XOPEN_SOURCE 700
#define TEST_NAME "new-models"
#include "tests/folders.h"

#include <math.h>

#include "clef/train_files.h"
#include "model/open/model.h"
#include "tests/check.h"

#define DEMO CLEF_SOURCE_DIR "/share/demo"
#define WORDS CLEF_SOURCE_DIR "/tests/fixtures/tiny-bert"

static clef_error err;

static const char llama_config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 64}";

/* Each with the number of tensors that transformers' class has. */
#define SIZES                                                                                                \
    "\"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, " \
    "\"num_key_value_heads\": 4, \"max_position_embeddings\": 64"
static const struct {
    const char *config, *tokenizer;
    int32_t n_tensors, n_biases;
} families[] = {
    {"{\"model_type\": \"gpt2\", \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 4, \"n_positions\": 64}", DEMO,
     2 + 2 * 12 + 2, 2 * 6 + 1},
    {llama_config, DEMO, 2 + 2 * 9 + 1, 0},
    {"{\"model_type\": \"llama\", " SIZES ", \"attention_bias\": true, \"mlp_bias\": true, "
     "\"tie_word_embeddings\": true}",
     DEMO, 1 + 2 * 16 + 1, 2 * 7},
    {"{\"model_type\": \"mistral\", " SIZES ", \"head_dim\": 16}", DEMO, 2 + 2 * 9 + 1, 0},
    {"{\"model_type\": \"qwen2\", " SIZES "}", DEMO, 2 + 2 * 12 + 1, 2 * 3},
    {"{\"model_type\": \"qwen3\", " SIZES ", \"head_dim\": 16}", DEMO, 2 + 2 * 11 + 1, 0},
    {"{\"model_type\": \"bert\", " SIZES "}", WORDS, 5 + 2 * 16 + 5, 1 + 2 * 8 + 3},
    {"{\"model_type\": \"t5\", \"d_model\": 32, \"d_ff\": 48, \"d_kv\": 8, \"num_layers\": 2, "
     "\"num_heads\": 4, \"eos_token_id\": 3}",
     WORDS, 1 + 2 * 8 + 2 + 2 * 13 + 2, 0},
    {"{\"model_type\": \"t5\", \"d_model\": 32, \"d_ff\": 48, \"d_kv\": 8, \"num_layers\": 1, "
     "\"num_heads\": 4, \"feed_forward_proj\": \"gated-gelu\", \"tie_word_embeddings\": false}",
     WORDS, 2 + 9 + 2 + 14 + 2, 0},
    {"{\"model_type\": \"bart\", \"d_model\": 32, \"encoder_ffn_dim\": 48, \"decoder_ffn_dim\": 48, "
     "\"encoder_layers\": 1, \"decoder_layers\": 2, \"encoder_attention_heads\": 4, "
     "\"decoder_attention_heads\": 4, \"max_position_embeddings\": 64}",
     DEMO, 3 + 4 + 16 + 2 * 26, 2 + 8 + 2 * 13},
};

static clef_status create(const char *config, const char *tokenizer, const char *name, uint64_t seed)
{
    write_text(temp_path("config.json"), config);
    const clef_status s =
        clef_model_create_new(temp_path("config.json"), tokenizer, temp_path(name), seed, &err);
    remove(temp_path("config.json"));
    return s;
}

static clef_model *open_new(const char *config, const char *tokenizer, const char *name, uint64_t seed)
{
    clef_model *m = NULL;
    ok(create(config, tokenizer, name, seed), &err);
    ok(clef_model_open(temp_path(name), &m, &err), &err);
    return m;
}

static const float *values_of(const clef_model *m, const char *name, size_t *n)
{
    const clef_tensor_info *t = clef__model_find(m, name);
    if (!t || t->dtype != CLEF_F32)
        fail_msg("%s: expected f32", name);
    *n = t->n_bytes / sizeof(float);
    return t->data;
}

/* ---- new models ------------------------------------------------------------------------------ */

static int has(const char *name, const char *piece)
{
    return strstr(name, piece) != NULL;
}

/* Norms are 1, biases 0; matrices have the mean 0 and vary. */
static void check_values(const clef_tensor_info *t, int32_t *n_biases)
{
    const float *x = t->data;
    const size_t n = t->n_bytes / sizeof *x;
    double sum = 0, squares = 0;
    const int is_bias = has(t->name, "bias") && !has(t->name, "relative_attention_bias");
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    *n_biases += is_bias && !has(t->name, "final_logits_bias");
    if (is_bias || t->rank == 1) {
        for (size_t i = 0; i < n; i++)
            assert_true(x[i] == (is_bias ? 0.0f : 1.0f));
        return;
    }
    const double deviation = sqrt(squares / (double)n);
    if (deviation == 0 || fabs(sum / (double)n) > 5 * deviation / sqrt((double)n))
        fail_msg("%s: mean %g, deviation %g", t->name, sum / (double)n, deviation);
}

TEST(every_family)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        clef_model *m = open_new(families[i].config, families[i].tokenizer, "new", 7);
        clef_graph *g = NULL;
        int32_t n_biases = 0, n_used = 0;
        ok(clef_model_build(m, NULL, &g, &err), &err);
        for (int32_t k = 0; k < clef_graph_n_values(g); k++)
            n_used += clef_value_describe(clef_graph_value(g, k)).kind == CLEF_WEIGHT;
        for (int32_t k = 0; k < clef_model_n_tensors(m); k++) {
            const clef_tensor_info t = clef_model_tensor(m, k);
            check_values(&t, &n_biases);
        }
        if (n_used != clef_model_n_tensors(m) ||
            clef_model_n_tensors(m) - (has(families[i].config, "bart")) != families[i].n_tensors)
            fail_msg("%s: %d tensors, %d used, expected %d", families[i].config, clef_model_n_tensors(m),
                     n_used, families[i].n_tensors);
        assert_int_equal(n_biases, families[i].n_biases);
        assert_non_null(clef_model_tokenizer(m, &err));
        clef_graph_destroy(g);
        clef_model_close(m);
        remove_tree(temp_path("new"));
    }
}

static double deviation_of(const clef_model *m, const char *name)
{
    size_t n;
    double squares = 0;
    const float *x = values_of(m, name, &n);
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return sqrt(squares / (double)n);
}

static void near(double x, double wanted, double n)
{
    if (fabs(x / wanted - 1) > 5 / sqrt(2 * n))
        fail_msg("deviation %g, expected %g", x, wanted);
}

TEST(ranges)
{
    clef_model *m = open_new("{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, "
                             "\"n_positions\": 64, \"initializer_range\": 0.05}",
                             DEMO, "new", 1);
    near(deviation_of(m, "transformer.wte.weight"), 0.05, 1024 * 64);
    near(deviation_of(m, "transformer.h.1.attn.c_attn.weight"), 0.05, 64 * 192);
    near(deviation_of(m, "transformer.h.1.attn.c_proj.weight"), 0.025, 64 * 64);
    near(deviation_of(m, "transformer.h.0.mlp.c_proj.weight"), 0.025, 256 * 64);
    assert_int_equal(clef_model_hparams(m)->n_vocab, 1024);
    assert_int_equal(clef_model_hparams(m)->eos, 0);
    clef_model_close(m);
    remove_tree(temp_path("new"));

    m = open_new(families[7].config, WORDS, "new", 1);
    near(deviation_of(m, "shared.weight"), 1, 43 * 32);
    near(deviation_of(m, "encoder.block.0.layer.0.SelfAttention.q.weight"), 1 / 16.0, 32 * 32);
    near(deviation_of(m, "decoder.block.1.layer.1.EncDecAttention.k.weight"), 1 / sqrt(32), 32 * 32);
    near(deviation_of(m, "decoder.block.1.layer.2.DenseReluDense.wo.weight"), 1 / sqrt(48), 32 * 48);
    clef_model_close(m);
    remove_tree(temp_path("new"));
}

/* A weight's numbers depend on the seed and its name, not on what else the model has. */
TEST(seeds)
{
    static const char name[] = "model.layers.1.mlp.up_proj.weight";
    static const char deeper[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": "
        "3, "
        "\"num_attention_heads\": 4, \"max_position_embeddings\": 64, \"tie_word_embeddings\": true, "
        "\"pad_token_id\": 5}";
    size_t n, n_embed;
    clef_model *a = open_new(llama_config, DEMO, "a", 11), *b = open_new(llama_config, DEMO, "b", 11),
               *c = open_new(llama_config, DEMO, "c", 12), *d = open_new(deeper, DEMO, "d", 11);
    const float *x = values_of(a, name, &n), *e = values_of(d, "model.embed_tokens.weight", &n_embed);
    for (int32_t i = 0; i < 32; i++)
        assert_true(e[5 * 32 + i] == 0 && e[6 * 32 + i] != 0);
    for (int32_t i = 0; i < clef_model_n_tensors(a); i++) {
        const clef_tensor_info t = clef_model_tensor(a, i), u = clef_model_tensor(b, i);
        assert_memory_equal(t.data, u.data, t.n_bytes);
    }
    assert_memory_equal(x, values_of(d, name, &n), n * sizeof *x);
    assert_memory_not_equal(x, values_of(c, name, &n), n * sizeof *x);
    assert_memory_not_equal(x, values_of(a, "model.layers.0.mlp.up_proj.weight", &n), n * sizeof *x);
    clef_model *all[] = {a, b, c, d};
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        clef_model_close(all[i]);
        remove_tree(temp_path(names[i]));
    }
}

TEST(wrong_configs)
{
    static const struct {
        const char *config, *tokenizer;
        clef_status status;
        const char *piece;
    } rows[] = {
        {"[]", DEMO, CLEF_E_FORMAT, "is an array"},
        {"{}", DEMO, CLEF_E_FORMAT, "has no model_type"},
        {"{\"model_type\": \"gemma2\"}", DEMO, CLEF_E_UNSUPPORTED,
         "gemma2 is not supported, known are: gpt2 llama mistral qwen2 qwen3 bert bart t5"},
        {"{\"model_type\": \"gpt2\"}", DEMO, CLEF_E_FORMAT, "n_embd"},
        {"{\"model_type\": \"gpt2\", \"vocab_size\": 1000}", DEMO, CLEF_E_SHAPE,
         "vocab_size is 1000, the tokenizer " DEMO " has 1024 tokens"},
        {"{\"model_type\": \"gpt2\", \"eos_token_id\": 3}", DEMO, CLEF_E_SHAPE, "eos_token_id is not 0"},
        {"{\"model_type\": \"gpt2\", \"pad_token_id\": 1024}", DEMO, CLEF_E_SHAPE,
         "an id below vocab_size, 1024"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 30, \"n_layer\": 1, \"n_head\": 4, \"n_positions\": 8}",
         DEMO, CLEF_E_FORMAT, "not a multiple of 4 heads"},
        {llama_config, DEMO "/merges.txt", CLEF_E_UNSUPPORTED, "expected a folder or a tokenizer.json"},
        {llama_config, "/nowhere", CLEF_E_IO, "/nowhere"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_error(rows[i].config, create(rows[i].config, rows[i].tokenizer, "new", 1), &err, rows[i].status,
                    rows[i].piece);
        assert_int_equal(look_into(temp_dir).n, 0);
    }
}

/* A tokenizer.json alone gets a tokenizer_config.json with its special tokens. */
TEST(one_file)
{
    clef_model *m = open_new(llama_config, DEMO "/tokenizer.json", "new", 1);
    char *text = NULL;
    size_t n;
    ok(clef__os_read(temp_path("new/tokenizer_config.json"), 1 << 20, &text, &n, &err), &err);
    assert_non_null(strstr(text, "\"eos_token\": \"<|endoftext|>\""));
    assert_int_equal(clef_tokenizer_n_tokens(clef_model_tokenizer(m, &err)), 1024);
    assert_true(clef__os_is_file(temp_path("new/generation_config.json")));
    free(text);
    clef_model_close(m);
    remove_tree(temp_path("new"));
}

TESTS(make_temp_dir, remove_temp_tree)
