/* Model folders and GGUF models as a whole: hyperparameters, shards, names, metadata. CLEF_SHARED names a
 * folder with data/ and oracle/ for the tests of real files, which are skipped without it. */
#define TEST_NAME "test-models"
#include "tests/files.h"
#include "tests/skip.h"

#include <math.h>

#include "model/open/config.h"
#include "model/open/model.h"

/* ---- config.json ----------------------------------------------------------------------------- */

static const char llama_config[] = "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":160,"
                                   "\"num_hidden_layers\":3,\"num_attention_heads\":8,"
                                   "\"num_key_value_heads\":2,\"max_position_embeddings\":256,\"vocab_size\":"
                                   "100,\"rms_norm_eps\":1e-6,\"hidden_act\":\"silu\","
                                   "\"bos_token_id\":1,\"eos_token_id\":2}";
static const char gpt2_config[] = "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_head\":4,\"n_layer\":3,\"n_"
                                  "positions\":128,\"vocab_size\":100,"
                                  "\"layer_norm_epsilon\":1e-5}";

static const char gemma3_config[] =
    "{\"model_type\":\"gemma3_text\",\"hidden_size\":64,\"intermediate_size\":128,"
    "\"num_hidden_layers\":6,\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":32,"
    "\"max_position_embeddings\":256,\"vocab_size\":100,\"sliding_window\":16}";

/* The base config with the keys of `patch` put over it; "key": "REMOVE" takes a key away. */
static clef_status read_config(const char *base, const char *patch, const char *generation, clef_hparams *hp,
                               clef_error *err)
{
    json_t *config = NULL, *over = NULL, *gen = NULL, *value;
    const char *key;
    assert_int_equal(clef__json_parse(base, strlen(base), "base", &config, err), CLEF_OK);
    if (clef__json_parse(patch, strlen(patch), "patch", &over, err) != CLEF_OK)
        fail_msg("%s: %s", patch, err->text);
    if (generation)
        assert_int_equal(clef__json_parse(generation, strlen(generation), "generation", &gen, err), CLEF_OK);
    json_object_foreach(over, key, value) {
        if (json_is_string(value) && strcmp(json_string_value(value), "REMOVE") == 0)
            json_object_del(config, key);
        else
            json_object_set(config, key, value);
    }
    memset(hp, 0, sizeof *hp);
    const clef_status status = clef__config_from_json(config, gen, "config.json", hp, err);
    json_decref(config);
    json_decref(over);
    json_decref(gen);
    return status;
}

static const struct {
    const char *base, *patch;
    clef_status status;
    const char *piece;
} bad_configs[] = {
    {llama_config, "{\"model_type\":\"REMOVE\"}", CLEF_E_UNSUPPORTED,
     "architecture \"\" is not supported, known are: "},
    {llama_config, "{\"model_type\":\"mamba\"}", CLEF_E_UNSUPPORTED,
     "architecture mamba is not supported, known are: "},
    {llama_config, "{\"model_type\":7}", CLEF_E_FORMAT, "model_type is an integer, expected a string"},
    {llama_config, "{\"hidden_size\":\"REMOVE\"}", CLEF_E_FORMAT, "hidden_size is missing"},
    {llama_config, "{\"hidden_size\":null}", CLEF_E_FORMAT, "hidden_size is missing"},
    {llama_config, "{\"hidden_size\":\"64\"}", CLEF_E_FORMAT, "hidden_size is a string, expected an integer"},
    {llama_config, "{\"hidden_size\":64.5}", CLEF_E_FORMAT, "hidden_size is a fraction"},
    {llama_config, "{\"hidden_size\":0}", CLEF_E_FORMAT, "hidden_size is 0, expected 1 to"},
    {llama_config, "{\"hidden_size\":-64}", CLEF_E_FORMAT, "hidden_size is -64"},
    {llama_config, "{\"hidden_size\":4294967360}", CLEF_E_FORMAT, "hidden_size is 4294967360"},
    {llama_config, "{\"hidden_size\":65}", CLEF_E_FORMAT, "a width of 65 is not a multiple of 8 heads"},
    {llama_config, "{\"num_attention_heads\":0}", CLEF_E_FORMAT, "num_attention_heads is 0"},
    {llama_config, "{\"num_key_value_heads\":3}", CLEF_E_FORMAT, "8 attention heads over 3 key-value heads"},
    {llama_config, "{\"num_key_value_heads\":0}", CLEF_E_FORMAT, "num_key_value_heads is 0"},
    {llama_config, "{\"num_hidden_layers\":1000000}", CLEF_E_FORMAT, "num_hidden_layers is 1000000"},
    {llama_config, "{\"vocab_size\":\"REMOVE\"}", CLEF_E_FORMAT, "vocab_size is missing"},
    {llama_config, "{\"vocab_size\":9223372036854775807}", CLEF_E_FORMAT,
     "vocab_size is 9223372036854775807"},
    {llama_config, "{\"head_dim\":7}", CLEF_E_FORMAT, "rotates 7 dims"},
    {llama_config, "{\"head_dim\":16384,\"num_attention_heads\":16384}", CLEF_E_FORMAT,
     "16384 heads of 16384 dims"},
    {llama_config, "{\"rms_norm_eps\":-1}", CLEF_E_FORMAT, "rms_norm_eps is -1"},
    {llama_config, "{\"rms_norm_eps\":\"small\"}", CLEF_E_FORMAT,
     "rms_norm_eps is a string, expected a number"},
    {llama_config, "{\"tie_word_embeddings\":1}", CLEF_E_FORMAT,
     "tie_word_embeddings is an integer, expected true or false"},
    {llama_config, "{\"hidden_act\":\"mish\"}", CLEF_E_UNSUPPORTED,
     "hidden_act mish is not supported, known are: silu"},
    {llama_config, "{\"rope_theta\":0}", CLEF_E_FORMAT, "rope_theta is 0"},
    {llama_config, "{\"partial_rotary_factor\":2}", CLEF_E_FORMAT, "partial_rotary_factor is 2"},
    {llama_config, "{\"rope_scaling\":3}", CLEF_E_FORMAT, "rope_scaling is an integer"},
    {llama_config, "{\"rope_scaling\":{\"type\":\"mrope\",\"factor\":2}}", CLEF_E_UNSUPPORTED,
     "rope_scaling.rope_type mrope"},
    {llama_config, "{\"rope_scaling\":{\"rope_type\":\"yarn\"}}", CLEF_E_FORMAT,
     "rope_scaling.factor is missing"},
    {llama_config, "{\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2,\"beta_slow\":32}}", CLEF_E_FORMAT,
     "beta_fast 32 is not above"},
    {llama_config, "{\"rope_parameters\":{\"full_attention\":3}}", CLEF_E_UNSUPPORTED,
     "parameters of RoPE for each type of layer are not supported"},
    {gemma3_config, "{\"rope_parameters\":{\"full_attention\":3}}", CLEF_E_FORMAT,
     "rope_parameters.full_attention is an integer"},
    {gemma3_config, "{\"use_bidirectional_attention\":true}", CLEF_E_UNSUPPORTED,
     "use_bidirectional_attention true is not supported"},
    {gemma3_config, "{\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2}}", CLEF_E_UNSUPPORTED,
     "rope_parameters: expected full_attention and sliding_attention"},
    {gemma3_config, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}", CLEF_E_UNSUPPORTED,
     "rope_scaling.type: expected rope_type"},
    {gemma3_config, "{\"sliding_window\":null}", CLEF_E_FORMAT, "but there is no sliding_window"},
    {llama_config, "{\"partial_rotary_factor\":0.5}", CLEF_E_UNSUPPORTED,
     "partial_rotary_factor other than 1 is not supported"},
    {llama_config, "{\"rope_parameters\":{\"rope_theta\":10000.0,\"partial_rotary_factor\":0.5}}",
     CLEF_E_UNSUPPORTED, "partial_rotary_factor 0.5: expected 1"},
    {llama_config, "{\"rope_parameters\":{\"rope_theta\":null}}", CLEF_E_FORMAT, "rope_theta is missing"},
    {llama_config, "{\"rope_parameters\":{\"rope_type\":null}}", CLEF_E_FORMAT, "rope_type is null"},
    {llama_config, "{\"hidden_act\":null}", CLEF_E_FORMAT, "hidden_act is null"},
    {llama_config, "{\"attention_bias\":1}", CLEF_E_FORMAT, "attention_bias is an integer"},
    {llama_config, "{\"is_causal\":false}", CLEF_E_UNSUPPORTED, "is_causal false is not supported"},
    {llama_config, "{\"text_config\":{\"hidden_size\":32}}", CLEF_E_UNSUPPORTED, "text_config is {"},
    {llama_config, "{\"pruned_heads\":{\"0\":[1]}}", CLEF_E_UNSUPPORTED, "pruned_heads is {"},
    {llama_config,
     "{\"model_type\":\"mistral\",\"sliding_window\":8,\"layer_types\":"
     "[\"full_attention\",\"sliding_attention\",\"full_attention\"]}",
     CLEF_E_UNSUPPORTED, "a mistral has the sliding window in every layer"},
    {llama_config, "{\"model_type\":\"mistral\",\"num_key_value_heads\":null}", CLEF_E_FORMAT,
     "num_key_value_heads is missing"},
    {gpt2_config, "{\"hidden_size\":32}", CLEF_E_FORMAT, "hidden_size and n_embd differ"},
    {llama_config, "{\"rope_scaling\":{\"type\":\"linear\"}}", CLEF_E_FORMAT,
     "rope_scaling.factor is missing"},
    {llama_config, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}", CLEF_E_FORMAT,
     "rope_scaling.factor is 0.5"},
    {llama_config, "{\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8}}", CLEF_E_FORMAT,
     "rope_parameters.low_freq_factor is missing"},
    {llama_config,
     "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4,"
     "\"original_max_position_embeddings\":64}}",
     CLEF_E_FORMAT, "high_freq_factor 4 is not above"},
    {llama_config, "{\"eos_token_id\":\"x\"}", CLEF_E_FORMAT, "eos_token_id is a string"},
    {llama_config, "{\"eos_token_id\":[1,\"x\"]}", CLEF_E_FORMAT, "eos_token_id[1]"},
    {llama_config, "{\"eos_token_id\":[1,-2]}", CLEF_E_FORMAT, "eos_token_id[1]"},
    {llama_config,
     "{\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,"
     "32,33,34,35,36,37,38,39,40,41,42]}",
     CLEF_E_UNSUPPORTED, "eos_token_id lists 42 ids, expected at most 41"},
    {llama_config, "{\"bos_token_id\":99999999999}", CLEF_E_FORMAT, "bos_token_id is 99999999999"},
    {llama_config, "{\"quantization_config\":{\"quant_method\":\"gptq\"}}", CLEF_E_UNSUPPORTED,
     "quantization_config (gptq)"},
    {llama_config, "{\"layer_types\":[\"full_attention\"]}", CLEF_E_FORMAT, "layer_types is an array of 1"},
    {llama_config, "{\"layer_types\":7}", CLEF_E_FORMAT, "layer_types is an integer"},
    {llama_config, "{\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\"]}",
     CLEF_E_FORMAT, "there is no sliding_window"},
    {llama_config, "{\"layer_types\":[\"full_attention\",\"linear_attention\",\"full_attention\"]}",
     CLEF_E_UNSUPPORTED, "layer_types[1] linear_attention"},
    {llama_config, "{\"layer_types\":[\"full_attention\",4,\"full_attention\"]}", CLEF_E_UNSUPPORTED,
     "layer_types[1] is not a string"},
    {llama_config, "{\"model_type\":\"mistral\",\"sliding_window\":-1}", CLEF_E_FORMAT,
     "sliding_window is -1"},
    {llama_config, "{\"model_type\":\"mixtral\",\"num_experts_per_tok\":9}", CLEF_E_FORMAT,
     "9 experts a token of 8 experts"},
    {llama_config, "{\"model_type\":\"qwen3_moe\",\"num_experts\":0}", CLEF_E_FORMAT, "num_experts is 0"},
    {llama_config, "{\"model_type\":\"qwen3_moe\",\"num_experts_per_tok\":65}", CLEF_E_FORMAT,
     "num_experts_per_tok is 65"},
    {llama_config, "{\"model_type\":\"gpt_oss\",\"quantization_config\":{\"quant_method\":\"awq\"}}",
     CLEF_E_UNSUPPORTED, "quantization_config (awq)"},
    {llama_config, "{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"mxfp4\"}}",
     CLEF_E_UNSUPPORTED, "quantization_config (mxfp4)"},
    {llama_config, "{\"model_type\":\"gpt_oss\",\"swiglu_limit\":-1}", CLEF_E_FORMAT, "swiglu_limit is -1"},
    {llama_config, "{\"model_type\":\"deepseek_v2\",\"norm_topk_prob\":true}", CLEF_E_UNSUPPORTED,
     "norm_topk_prob true"},
    {llama_config, "{\"model_type\":\"deepseek_v2\",\"topk_method\":\"group_limited_greedy\",\"n_group\":8}",
     CLEF_E_UNSUPPORTED, "topk_method other than greedy"},
    {llama_config, "{\"model_type\":\"deepseek_v2\",\"v_head_dim\":0}", CLEF_E_FORMAT, "v_head_dim is 0"},
    {llama_config, "{\"model_type\":\"gemma4_text\",\"enable_moe_block\":true}", CLEF_E_FORMAT,
     "num_experts is missing"},
    {llama_config, "{\"model_type\":\"gemma4_text\",\"num_kv_shared_layers\":3}", CLEF_E_FORMAT,
     "num_kv_shared_layers is 3"},
    {llama_config, "{\"model_type\":\"gemma4_text\",\"per_layer_config\":{\"0\":{\"head_dim\":32}}}",
     CLEF_E_UNSUPPORTED, "per_layer_config of a layer with sliding_attention"},
    {llama_config, "{\"model_type\":\"qwen3_5_text\",\"linear_conv_kernel_dim\":1}", CLEF_E_FORMAT,
     "linear_conv_kernel_dim is 1"},
    {llama_config,
     "{\"model_type\":\"nomic_bert\",\"n_embd\":64,\"n_head\":4,\"n_layer\":2,\"n_positions\":64,\"prenorm\":"
     "true}",
     CLEF_E_UNSUPPORTED, "prenorm true"},
    {gpt2_config, "{\"n_embd\":\"REMOVE\"}", CLEF_E_FORMAT, "n_embd is missing"},
    {gpt2_config, "{\"n_embd\":66}", CLEF_E_FORMAT, "a width of 66 is not a multiple of 4 heads"},
    {gpt2_config, "{\"n_positions\":null}", CLEF_E_FORMAT, "n_positions is missing"},
    {gpt2_config, "{\"n_inner\":0}", CLEF_E_FORMAT, "n_inner is 0"},
    {gpt2_config, "{\"activation_function\":\"mish\"}", CLEF_E_UNSUPPORTED,
     "activation_function mish is not supported"},
    {gpt2_config, "{\"scale_attn_by_inverse_layer_idx\":true}", CLEF_E_UNSUPPORTED,
     "scale_attn_by_inverse_layer_idx true"},
    {gpt2_config, "{\"scale_attn_weights\":false}", CLEF_E_UNSUPPORTED, "scale_attn_weights false"},
    {gpt2_config, "{\"add_cross_attention\":true}", CLEF_E_UNSUPPORTED, "add_cross_attention true"},
};

static void config_refused(void **state)
{
    (void)state;
    clef_hparams hp;
    for (size_t i = 0; i < sizeof bad_configs / sizeof *bad_configs; i++) {
        clef_error err = {0};
        const clef_status status = read_config(bad_configs[i].base, bad_configs[i].patch, NULL, &hp, &err);
        check_error(bad_configs[i].patch, status, &err, bad_configs[i].status, bad_configs[i].piece);
        assert_non_null(strstr(err.text, "config.json: "));
    }
    clef_error err = {0};
    json_t *array = json_array();
    check_error("[]", clef__config_from_json(array, NULL, "config.json", &hp, &err), &err, CLEF_E_FORMAT,
                "config.json: is an array");
    json_decref(array);
}

static void config_llama(void **state)
{
    (void)state;
    clef_hparams hp;
    clef_error err = {0};
    check_error("llama", read_config(llama_config, "{}", NULL, &hp, &err), &err, CLEF_OK, "");
    assert_string_equal(hp.arch, "llama");
    assert_true(hp.n_layers == 3 && hp.d_model == 64 && hp.d_ff == 160 && hp.n_heads == 8 &&
                hp.n_kv_heads == 2 && hp.head_dim == 8);
    assert_true(hp.n_vocab == 100 && hp.n_context == 256 && hp.rope.dims == 8 &&
                hp.rope.pairing == CLEF_ROPE_HALVES);
    assert_true(hp.rope.theta == 10000 && hp.norm_eps == 1e-6f && hp.bos == 1 && hp.eos == 2 &&
                hp.tied_embeddings == 0);
    assert_true(hp.sliding_window == 0 && hp.rope.type == CLEF_ROPE_DEFAULT);

    read_config(
        llama_config,
        "{\"num_key_value_heads\":null,\"head_dim\":32,\"rope_theta\":500000,\"tie_word_embeddings\":true}",
        NULL, &hp, &err);
    assert_true(hp.n_kv_heads == 8 && hp.head_dim == 32 && hp.rope.dims == 32 && hp.rope.theta == 500000 &&
                hp.tied_embeddings == 1);
    read_config(llama_config, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":4},\"rope_theta\":20000}",
                NULL, &hp, &err);
    assert_true(hp.rope.type == CLEF_ROPE_LINEAR && hp.rope.factor == 4 && hp.rope.theta == 20000);
    read_config(llama_config,
                "{\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":5e5,\"factor\":8,\"low_freq_"
                "factor\":1,"
                "\"high_freq_factor\":4,\"original_max_position_embeddings\":64}}",
                NULL, &hp, &err);
    assert_true(hp.rope.theta == 5e5 && hp.rope.type == CLEF_ROPE_LLAMA3 && hp.rope.factor == 8 &&
                hp.rope.low_freq_factor == 1 && hp.rope.high_freq_factor == 4);
    assert_true(hp.rope.original_context == 64);
}

static void good(clef_status status, const clef_error *err)
{
    if (status != CLEF_OK)
        fail_msg("%s", err->text);
}

/* Forms of transformers 4, and defaults of the classes. */
static void config_forms(void **state)
{
    (void)state;
    clef_hparams hp;
    clef_error err = {0};
    good(read_config(gemma3_config,
                     "{\"rope_theta\":500000,\"rope_local_base_freq\":300,\"sliding_window_pattern\":2,"
                     "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}}",
                     NULL, &hp, &err),
         &err);
    assert_true(hp.rope.theta == 500000 && hp.rope.factor == 8 && hp.rope_sliding.theta == 300);
    assert_int_equal(hp.rope_sliding.type, CLEF_ROPE_DEFAULT);
    assert_int_equal(hp.sliding_layers[0], 0x15);
    good(read_config(gemma3_config, "{}", NULL, &hp, &err), &err);
    assert_true(hp.rope.theta == 1000000 && hp.rope_sliding.theta == 10000);
    assert_int_equal(hp.sliding_layers[0], 0x1f);

    good(read_config(llama_config,
                     "{\"rope_parameters\":{\"rope_theta\":7.0},\"rope_scaling\":{\"type\":\"dynamic\","
                     "\"factor\":2.0,\"original_max_position_embeddings\":64}}",
                     NULL, &hp, &err),
         &err); /* rope_scaling wins; dynamic counts from max_position_embeddings */
    assert_int_equal(hp.rope.type, CLEF_ROPE_DYNAMIC);
    assert_int_equal(hp.rope.original_context, 256);
    assert_int_equal(hp.n_context, 512);
    assert_true(hp.rope.theta == 10000);
    good(read_config(llama_config,
                     "{\"original_max_position_embeddings\":128,\"rope_parameters\":{\"rope_type\":\"yarn\","
                     "\"factor\":4,\"original_max_position_embeddings\":64}}",
                     NULL, &hp, &err),
         &err); /* the number outside wins */
    assert_int_equal(hp.rope.original_context, 128);
    assert_int_equal(hp.n_context, 512);
    good(read_config(llama_config,
                     "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":null,"
                     "\"original_max_position_embeddings\":64}}",
                     NULL, &hp, &err),
         &err);
    assert_true(hp.rope.factor == 4 && hp.n_context == 256);
    good(read_config(gpt2_config, "{\"n_embd\":\"REMOVE\",\"hidden_size\":64,\"num_hidden_layers\":3}", NULL,
                     &hp, &err),
         &err);
    assert_int_equal(hp.d_model, 64);
}

static void add_key(void *user, const char *key)
{
    strcat(user, key);
    strcat(user, " ");
}

/* Keys that are neither read nor known to change nothing. */
static void config_unread(void **state)
{
    (void)state;
    char names[256] = "";
    json_t *config = json_loads(llama_config, 0, NULL);
    json_object_set_new(config, "clip_qkv", json_real(8));
    json_object_set_new(config, "attention_dropout", json_real(0.1));
    json_object_set_new(config, "zzz", json_null());
    clef__config_unread(config, "config.json", add_key, names);
    assert_string_equal(names, "clip_qkv zzz ");
    json_decref(config);
}

static void config_windows(void **state)
{
    (void)state;
    static const struct {
        const char *patch;
        int32_t window, from;
    } rows[] = {
        {"{\"sliding_window\":16}", 0, 3}, /* llama has none */
        {"{\"model_type\":\"mistral\",\"sliding_window\":16}", 16, 0},
        {"{\"model_type\":\"mistral\",\"sliding_window\":null}", 0, 3},
        {"{\"model_type\":\"mistral\"}", 4096, 0},
        {"{\"model_type\":\"qwen2\",\"sliding_window\":16}", 0, 3},
        {"{\"model_type\":\"qwen2\",\"sliding_window\":16,\"use_sliding_window\":true,\"max_window_layers\":"
         "1}",
         16, 1},
        {"{\"model_type\":\"qwen2\",\"sliding_window\":16,\"use_sliding_window\":true,\"max_window_layers\":"
         "0}",
         16, 0},
        {"{\"model_type\":\"qwen2\",\"sliding_window\":16,\"use_sliding_window\":true,\"max_window_layers\":"
         "3}",
         16, 3},
        {"{\"model_type\":\"qwen2\",\"sliding_window\":16,\"use_sliding_window\":true}", 16,
         3}, /* 28 full layers first */
        {"{\"model_type\":\"qwen3\",\"sliding_window\":16,\"use_sliding_window\":true,"
         "\"layer_types\":[\"full_attention\",\"full_attention\",\"sliding_attention\"]}",
         16, 2},
        {"{\"model_type\":\"qwen3\",\"layer_types\":[\"full_attention\",\"full_attention\",\"full_"
         "attention\"]}",
         0, 3},
        {"{\"model_type\":\"mistral\",\"sliding_window\":8,"
         "\"layer_types\":[\"sliding_attention\",\"sliding_attention\",\"sliding_attention\"]}",
         8, 0},
        {"{\"model_type\":\"smollm3\",\"sliding_window\":8,\"use_sliding_window\":true,"
         "\"no_rope_layers\":[1,0,1]}",
         8, 1},
    };
    clef_hparams hp;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clef_error err = {0};
        check_error(rows[i].patch, read_config(llama_config, rows[i].patch, NULL, &hp, &err), &err, CLEF_OK,
                    "");
        int32_t first = 0;
        while (first < hp.n_layers && !clef__layer_slides(&hp, first))
            first++;
        if (hp.sliding_window != rows[i].window || first != rows[i].from)
            fail_msg("%s\n  gives window %d from %d", rows[i].patch, hp.sliding_window, first);
    }
}

static void config_gpt2_and_marks(void **state)
{
    (void)state;
    clef_hparams hp;
    clef_error err = {0};
    check_error("gpt2",
                read_config(gpt2_config, "{\"activation_function\":\"gelu_pytorch_tanh\"}", NULL, &hp, &err),
                &err, CLEF_OK, "");
    assert_true(hp.d_model == 64 && hp.d_ff == 256 && hp.n_heads == 4 && hp.n_kv_heads == 4 &&
                hp.head_dim == 16 && hp.n_context == 128);
    assert_true(hp.tied_embeddings == 1 && hp.rope.dims == 0 && hp.bos == 50256 && hp.eos == 50256);
    read_config(gpt2_config, "{\"n_inner\":77,\"tie_word_embeddings\":false,\"bos_token_id\":null}", NULL,
                &hp, &err);
    assert_true(hp.d_ff == 77 && hp.tied_embeddings == 0 && hp.bos == -1);

    read_config(llama_config, "{\"eos_token_id\":[5,6,7],\"bos_token_id\":null}", NULL, &hp, &err);
    assert_true(hp.bos == -1 && hp.eos == 5 && hp.n_eos_more == 2 && hp.eos_more[0] == 6 &&
                hp.eos_more[1] == 7);
    read_config(llama_config, "{\"eos_token_id\":[5,6,7]}", "{\"eos_token_id\":9,\"bos_token_id\":8}", &hp,
                &err);
    assert_true(hp.bos == 8 && hp.eos == 9 && hp.n_eos_more == 0);
    read_config(llama_config, "{\"eos_token_id\":[5,6,7]}", "{\"eos_token_id\":null}", &hp, &err);
    assert_true(hp.bos == 1 && hp.eos == 5 && hp.n_eos_more == 2);
    check_error("generation", read_config(llama_config, "{}", "{\"eos_token_id\":{}}", &hp, &err), &err,
                CLEF_E_FORMAT, "generation_config.json: eos_token_id is an object");
}

/* RoBERTa's positions count all tokens but padding. */
static void padding_ids(void **state)
{
    (void)state;
    clef_error err;
    static const char *const types[] = {"roberta", "xlm-roberta", "mpnet", "bert"};
    static const int32_t ids[] = {5, 3, 6};
    for (int i = 0; i < 4; i++) {
        clef_model model = {0};
        char patch[96];
        snprintf(patch, sizeof patch, "{\"model_type\":\"%s\",\"pad_token_id\":3}", types[i]);
        assert_int_equal(read_config(llama_config, patch, NULL, &model.hparams, &err), CLEF_OK);
        assert_int_equal(clef_model_padding(&model), i < 3 ? 3 : -1);
        const clef_status status = clef__check_padding(&model, ids, 3, &err);
        if (i < 3)
            check_error(types[i], status, &err, CLEF_E_UNSUPPORTED, "token 1 is 3, the padding id");
        else
            assert_int_equal(status, CLEF_OK);
        assert_int_equal(clef__check_padding(&model, ids, 1, &err), CLEF_OK);
    }
    check_error(
        "a decoder alone",
        read_config(
            llama_config,
            "{\"model_type\":\"t5\",\"hidden_size\":\"REMOVE\",\"num_attention_heads\":\"REMOVE\",\"head_"
            "dim\":\"REMOVE\",\"num_hidden_layers\":\"REMOVE\",\"d_model\":32,\"d_ff\":48,\"num_layers\":2,"
            "\"num_heads\":4,\"d_kv\":8,\"is_encoder_decoder\":false}",
            NULL, &(clef_hparams){.n_layers = 0}, &err),
        &err, CLEF_E_UNSUPPORTED, "is_encoder_decoder false is not supported");
}

/* ---- GGUF keys ------------------------------------------------------------------------------- */

typedef struct gguf_key {
    const char *key, *spec;
} gguf_key;

static const gguf_key llama_keys[] = {
    {"general.architecture", "4:8 s:llama "},
    {"general.name", "4:8 s:tiny\x1b "},
    {"llama.block_count", "4:4 4:2 "},
    {"llama.context_length", "4:4 4:128 "},
    {"llama.embedding_length", "4:4 4:32 "},
    {"llama.feed_forward_length", "4:4 4:80 "},
    {"llama.attention.head_count", "4:4 4:4 "},
    {"llama.attention.head_count_kv", "4:4 4:2 "},
    {"llama.attention.layer_norm_rms_epsilon", "4:6 f:0.00001 "},
    {"tokenizer.ggml.tokens", "4:9 4:8 8:2 s:a s:b "},
    {"tokenizer.ggml.bos_token_id", "4:4 4:1 "},
    {"tokenizer.ggml.eos_token_id", "4:4 4:4294967295 "},
};

/* The keys above but `drop`, then `add`, then one tensor [7, 32] called `tensor` (NULL: no tensor). */
static void put_gguf(blob *b, const char *drop, const char *add, uint64_t n_added, const char *tensor)
{
    enum { N = sizeof llama_keys / sizeof *llama_keys };
    uint64_t n = 0;
    for (size_t i = 0; i < N; i++)
        n += !drop || strcmp(drop, llama_keys[i].key) != 0;
    assemble(b, "t:GGUF 4:3");
    put_int(b, tensor != NULL, 8);
    put_int(b, n + n_added, 8);
    for (size_t i = 0; i < N; i++)
        if (!drop || strcmp(drop, llama_keys[i].key) != 0) {
            put_int(b, strlen(llama_keys[i].key), 8);
            put(b, llama_keys[i].key, strlen(llama_keys[i].key));
            assemble(b, llama_keys[i].spec);
        }
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

/* Fields that llama.cpp's keys set, and its defaults. */
static void gguf_rope(void **state)
{
    (void)state;
    static const struct {
        const char *add;
        clef_rope_type type;
        double factor, attention_factor;
        int32_t truncate;
    } rows[] = {
        {"", CLEF_ROPE_DEFAULT, 1, 0, 0},
        {"s:K.rope.scale_linear 4:6 f:4 ", CLEF_ROPE_LINEAR, 4, 0, 0},
        {"s:K.rope.scale_linear 4:6 f:4 s:K.rope.scaling.factor 4:6 f:2 ", CLEF_ROPE_LINEAR, 2, 0, 0},
        {"s:K.rope.scaling.type 4:8 s:none s:K.rope.scaling.factor 4:6 f:2 ", CLEF_ROPE_DEFAULT, 1, 0, 0},
        {"s:K.rope.scaling.type 4:8 s:none s:K.rope.scaling.attn_factor 4:6 f:1.5 ", CLEF_ROPE_DEFAULT, 1,
         1.5, 0},
        {"s:K.rope.scaling.type 4:8 s:yarn s:K.rope.scaling.factor 4:6 f:4 ", CLEF_ROPE_YARN, 4, 0, 1},
        {"s:K.rope.scaling.type 4:8 s:yarn s:K.rope.scaling.factor 4:6 f:4 s:K.rope.scaling.attn_factor 4:6 "
         "f:1.5 ",
         CLEF_ROPE_YARN, 4, 1.7079441541679836, 1}, /* 1.5 (1 + 0.1 ln 4) */
        {"s:K.rope.scaling.type 4:8 s:yarn s:K.rope.scaling.factor 4:6 f:4 s:K.rope.scaling.yarn_attn_factor "
         "4:6 "
         "f:1.5 ",
         CLEF_ROPE_YARN, 4, 1.5, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clef_hparams hp;
        clef_error err = {0};
        check_error(rows[i].add, read_gguf_config(NULL, rows[i].add, "token_embd.weight", &hp, &err), &err,
                    CLEF_OK, "");
        if (hp.rope.type != rows[i].type || hp.rope.factor != rows[i].factor ||
            fabs(hp.rope.attention_factor - rows[i].attention_factor) > 1e-12 ||
            hp.rope.truncate != rows[i].truncate)
            fail_msg("%s: type %d factor %g attention_factor %g truncate %d", rows[i].add, (int)hp.rope.type,
                     hp.rope.factor, hp.rope.attention_factor, hp.rope.truncate);
    }
}

static void gguf_config(void **state)
{
    (void)state;
    static const struct {
        const char *drop, *add;
        clef_status status;
        const char *piece;
    } rows[] = {
        {"general.architecture", "", CLEF_E_FORMAT, "key general.architecture is missing"},
        {"llama.block_count", "", CLEF_E_FORMAT, "key llama.block_count is missing"},
        {"llama.block_count", "s:K.block_count 4:8 s:two ", CLEF_E_FORMAT,
         "key llama.block_count is a string"},
        {"llama.block_count", "s:K.block_count 4:5 4:-1 ", CLEF_E_FORMAT,
         "key llama.block_count is -1, expected 1 to"},
        {"llama.block_count", "s:K.block_count 4:10 8:0x100000002 ", CLEF_E_FORMAT,
         "key llama.block_count is 4294967298"},
        {"llama.context_length", "", CLEF_E_FORMAT, "key llama.context_length is missing"},
        {"llama.embedding_length", "s:K.embedding_length 4:4 4:33 ", CLEF_E_FORMAT,
         "embedding_length 33 is not a multiple of head_count 4"},
        {"llama.feed_forward_length", "s:K.feed_forward_length 4:9 4:4 8:2 4:80 4:96 ", CLEF_E_UNSUPPORTED,
         "key llama.feed_forward_length differs from layer to layer"},
        {"llama.feed_forward_length", "s:K.feed_forward_length 4:9 4:4 8:0 ", CLEF_E_FORMAT,
         "feed_forward_length is an empty array"},
        {"llama.attention.head_count_kv", "s:K.attention.head_count_kv 4:4 4:3 ", CLEF_E_FORMAT,
         "4 attention heads over 3"},
        {"llama.attention.layer_norm_rms_epsilon", "", CLEF_E_FORMAT, "layer_norm_rms_epsilon is missing"},
        {"llama.attention.layer_norm_rms_epsilon", "s:K.attention.layer_norm_rms_epsilon 4:6 f:nan ",
         CLEF_E_FORMAT, "epsilon is "},
        {NULL, "s:K.attention.value_length 4:4 4:16 ", CLEF_E_UNSUPPORTED,
         "value_length is 16, which differs from key_length 8"},
        {NULL, "s:K.rope.dimension_count 4:4 4:5 ", CLEF_E_FORMAT, "rotates 5 dims of a head of 8"},
        {NULL, "s:K.rope.dimension_count 4:4 4:10 ", CLEF_E_FORMAT, "rotates 10 dims of a head of 8"},
        {NULL, "s:K.rope.freq_base 4:6 f:0 ", CLEF_E_FORMAT, "rope.freq_base is 0"},
        {NULL, "s:K.rope.scaling.type 4:8 s:mrope ", CLEF_E_UNSUPPORTED,
         "key llama.rope.scaling.type mrope is not supported"},
        {NULL, "s:K.rope.scaling.factor 4:6 f:0.5 ", CLEF_E_UNSUPPORTED, "rope.scaling.factor is 0.5"},
        {NULL, "s:K.expert_count 4:4 4:8 ", CLEF_E_FORMAT, "key llama.expert_used_count is missing"},
        {NULL, "s:K.expert_count 4:4 4:8 s:K.expert_used_count 4:4 4:9 ", CLEF_E_FORMAT,
         "9 experts a token of 8 experts"},
        {NULL, "s:K.expert_count 4:4 4:8 s:K.expert_used_count 4:4 4:65 ", CLEF_E_FORMAT,
         "expert_used_count is 65, expected 0 to 64"},
        {NULL, "s:K.rope.scale_linear 4:6 f:0.5 ", CLEF_E_UNSUPPORTED, "rope.scaling.factor is 0.5"},
        {NULL, "s:K.attention.clamp_kqv 4:6 f:8 ", CLEF_E_UNSUPPORTED,
         "key llama.attention.clamp_kqv is 8, which is not supported for llama"},
        {NULL, "s:K.attention.causal 4:7 1:0 ", CLEF_E_UNSUPPORTED,
         "llama.attention.causal is 0, expected 1"},
        {NULL, "s:K.embedding_length_per_layer_input 4:4 4:16 ", CLEF_E_UNSUPPORTED,
         "key llama.embedding_length_per_layer_input is 16"},
        {NULL, "s:libclef.activation 4:5 4:9 ", CLEF_E_FORMAT, "key libclef.activation is 9, expected 0 to"},
        {NULL, "s:libclef.head_dim 4:5 4:0 ", CLEF_E_FORMAT, "key libclef.head_dim is 0, expected 1 to"},
        {NULL, "s:libclef.rope.dims 4:5 4:18 ", CLEF_E_FORMAT, "rotates 18 dims of a head of 8"},
        {NULL, "s:clef.rope.factor 4:6 f:nan ", CLEF_E_FORMAT, "key clef.rope.factor is"},
        {NULL, "s:clef.no_rope_layers 4:9 4:5 8:1 4:0 ", CLEF_E_FORMAT,
         "clef.no_rope_layers is not a list with a number for each of 2 layers"},
        {NULL, "s:K.vocab_size 4:4 4:9 ", CLEF_E_FORMAT,
         "llama.vocab_size is 9, but token_embd.weight has 7 rows"},
        {"llama.embedding_length", "s:K.embedding_length 4:4 4:64 ", CLEF_E_FORMAT,
         "token_embd.weight is [7, 32]"},
    };
    clef_hparams hp;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clef_error err = {0};
        const clef_status status =
            read_gguf_config(rows[i].drop, rows[i].add, "token_embd.weight", &hp, &err);
        check_error(rows[i].add[0] ? rows[i].add : rows[i].drop, status, &err, rows[i].status, rows[i].piece);
        assert_non_null(strstr(err.text, "m.gguf: "));
    }
    clef_error err = {0};
    check_error("good", read_gguf_config(NULL, "", "token_embd.weight", &hp, &err), &err, CLEF_OK, "");
    assert_string_equal(hp.name, "tiny?");
    assert_true(hp.n_layers == 2 && hp.n_context == 128 && hp.d_model == 32 && hp.d_ff == 80 &&
                hp.n_heads == 4 && hp.n_kv_heads == 2);
    assert_true(hp.head_dim == 8 && hp.rope.dims == 8 && hp.rope.pairing == CLEF_ROPE_INTERLEAVED_TO_HALVES &&
                hp.rope.theta == 10000);
    assert_true(hp.n_vocab == 7 && hp.tied_embeddings == 1 && hp.bos == 1 && hp.eos == -1 &&
                hp.norm_eps == 1e-5f);
    check_error("more",
                read_gguf_config(NULL,
                                 "s:K.rope.scaling.type 4:8 s:linear s:K.rope.scaling.factor 4:6 f:4 "
                                 "s:K.rope.freq_base 4:6 f:500000 "
                                 "s:K.attention.key_length 4:4 4:16 s:K.rope.dimension_count 4:4 4:12 "
                                 "s:K.attention.sliding_window 4:4 4:9 ",
                                 "output.weight", &hp, &err),
                &err, CLEF_OK, "");
    assert_true(hp.rope.type == CLEF_ROPE_LINEAR && hp.rope.factor == 4 && hp.rope.theta == 500000 &&
                hp.head_dim == 16 && hp.rope.dims == 12);
    assert_true(hp.sliding_window == 9 && clef__layer_slides(&hp, 0) && hp.tied_embeddings == 0 &&
                hp.n_vocab == 2);
    check_error("no vocabulary", read_gguf_config("tokenizer.ggml.tokens", "", NULL, &hp, &err), &err,
                CLEF_E_FORMAT, "the size of the vocabulary is unknown");
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

static void folder_refused(void **state)
{
    (void)state;
    static const struct {
        const char *index;
        clef_status status;
        const char *piece;
    } rows[] = {
        {"[]", CLEF_E_FORMAT, "weight_map is nothing"},
        {"{\"weight_map\":[]}", CLEF_E_FORMAT, "index.json: weight_map is an array"},
        {"{\"weight_map\":{}}", CLEF_E_FORMAT, "index.json: weight_map is an object"},
        {"{\"weight_map\":{\"x\":3}}", CLEF_E_FORMAT, "weight_map.x is an integer"},
        {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}", CLEF_E_FORMAT,
         "weight_map.x is ../a.safetensors, expected the name"},
        {"{\"weight_map\":{\"x\":\"/etc/a.safetensors\"}}", CLEF_E_FORMAT,
         "weight_map.x is /etc/a.safetensors"},
        {"{\"weight_map\":{\"x\":\"a.bin\"}}", CLEF_E_FORMAT, "weight_map.x is a.bin"},
        {"{\"weight_map\":{\"x\":\".safetensors\"}}", CLEF_E_FORMAT, "weight_map.x is .safetensors"},
        {"{\"weight_map\":{\"x\":\"c.safetensors\"}}", CLEF_E_IO, "c.safetensors: cannot open"},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"x\":\"b.safetensors\"}}", CLEF_E_FORMAT, "duplicate"},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"zz\":\"b.safetensors\"}}", CLEF_E_NOT_FOUND,
         "places zz in b.safetensors"},
        {"{\"weight_map\":{\"x\":\"a.safetensors\"", CLEF_E_FORMAT, "line 1"},
        {"", CLEF_E_FORMAT, "index.json: empty"},
    };
    empty_folder();
    refused("empty folder", CLEF_E_NOT_FOUND, "has no config.json");
    write_text(temp_path("config.json"), "{\"model_type\":\"llama\",");
    refused("cut config", CLEF_E_FORMAT, "config.json: line 1");
    write_text(temp_path("config.json"), "{\"model_type\":\"llama\",\"model_type\":\"gpt2\"}");
    refused("duplicate key", CLEF_E_FORMAT, "duplicate");
    write_text(temp_path("config.json"), llama_config);
    refused("no weights", CLEF_E_NOT_FOUND, "has neither model.safetensors nor");
    write_text(temp_path("generation_config.json"), "{");
    refused("cut generation config", CLEF_E_FORMAT, "generation_config.json: line 1");
    clef__os_remove(temp_path("generation_config.json"));
    write_text(temp_path("model.safetensors"), "short");
    refused("short weights", CLEF_E_FORMAT, "model.safetensors: has 5 bytes");
    clef__os_remove(temp_path("model.safetensors"));

    write_tensors("a.safetensors", (const char *const[]){"x", "y"}, 2);
    write_tensors("b.safetensors", (const char *const[]){"z"}, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_text(temp_path("model.safetensors.index.json"), rows[i].index);
        refused(rows[i].index, rows[i].status, rows[i].piece);
    }
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

static void folder_shards(void **state)
{
    (void)state;
    clef_error err = {0};
    clef_model *m = NULL;
    empty_folder();
    write_text(temp_path("config.json"), llama_config);
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
    write_text(temp_path("config.json"), gpt2_config);
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

static void gguf_model(void **state)
{
    (void)state;
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

static void real_models(void **state)
{
    (void)state;
    static const struct {
        const char *path, *arch;
        int32_t layers, d_model, d_ff, heads, kv_heads, head_dim, vocab, context, tied, bos, eos, n_tensors;
    } rows[] = {
        {"data/stories260K/stories260K.gguf", "llama", 5, 64, 172, 8, 4, 8, 512, 2048, 0, 1, 2, 48},
        {"data/stories260K/hf", "llama", 5, 64, 172, 8, 4, 8, 512, 512, 1, 1, 2, 47},
        {"data/demo", "gpt2", 6, 192, 768, 6, 6, 32, 1024, 256, 1, 0, 0, 76},
        {"data/tinystories-656k", "llama", 2, 128, 384, 8, 4, 16, 2048, 512, 1, 1, 2, 20},
        {"oracle/models/gpt2", "gpt2", 3, 64, 256, 4, 4, 16, 384, 128, 1, 50256, 50256, 40},
        {"oracle/models/llama", "llama", 3, 64, 176, 8, 2, 8, 384, 256, 0, 1, 2, 30},
        {"oracle/models/llama3", "llama", 2, 64, 160, 4, 4, 16, 384, 512, 1, 1, 2, 20},
        {"oracle/models/qwen2", "qwen2", 2, 56, 152, 7, 1, 8, 384, 256, 1, -1, -1, 26},
        {"oracle/models/qwen3", "qwen3", 2, 64, 128, 4, 2, 32, 384, 256, 0, -1, -1, 25},
        {"oracle/models/mistral", "mistral", 2, 64, 128, 4, 2, 16, 384, 256, 0, 1, 2, 21},
    };
    const char *shared = clef__os_env("CLEF_SHARED");
    char path[512];
    int n_seen = 0;
    for (size_t i = 0; shared && i < sizeof rows / sizeof *rows; i++) {
        snprintf(path, sizeof path, "%s/%s", shared, rows[i].path);
        if (!clef__os_is_dir(path) && !clef__os_is_file(path))
            continue;
        n_seen++;
        clef_model *m = NULL;
        clef_error err = {0};
        check_error(path, clef_model_open(path, &m, &err), &err, CLEF_OK, "");
        const clef_hparams *hp = clef_model_hparams(m);
        assert_string_equal(hp->arch, rows[i].arch);
        if (hp->n_layers != rows[i].layers || hp->d_model != rows[i].d_model || hp->d_ff != rows[i].d_ff ||
            hp->n_heads != rows[i].heads || hp->n_kv_heads != rows[i].kv_heads ||
            hp->head_dim != rows[i].head_dim || hp->n_vocab != rows[i].vocab ||
            hp->n_context != rows[i].context || hp->tied_embeddings != rows[i].tied ||
            hp->bos != rows[i].bos || hp->eos != rows[i].eos || clef_model_n_tensors(m) != rows[i].n_tensors)
            fail_msg("%s: %d %d %d %d %d %d %d %d %d %d %d %d", path, hp->n_layers, hp->d_model, hp->d_ff,
                     hp->n_heads, hp->n_kv_heads, hp->head_dim, hp->n_vocab, hp->n_context,
                     hp->tied_embeddings, hp->bos, hp->eos, clef_model_n_tensors(m));
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
    if (n_seen == 0)
        skip_without("models");
}

/* The same model in both formats has the same embedding, and the vocabularies open without tensors. */
static void real_gguf(void **state)
{
    (void)state;
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
static const char gemma4_keys[] =
    "s:general.architecture 4:8 s:gemma4 s:gemma4.block_count 4:4 4:30 s:gemma4.context_length 4:4 4:262144 "
    "s:gemma4.embedding_length 4:4 4:2816 s:gemma4.feed_forward_length 4:4 4:2112 "
    "s:gemma4.attention.head_count 4:4 4:16 s:gemma4.rope.freq_base 4:6 f:1000000 "
    "s:gemma4.rope.freq_base_swa 4:6 f:10000 s:gemma4.attention.layer_norm_rms_epsilon 4:6 f:1e-6 "
    "s:gemma4.expert_count 4:4 4:128 s:gemma4.expert_used_count 4:4 4:8 "
    "s:gemma4.attention.key_length 4:4 4:512 s:gemma4.attention.value_length 4:4 4:512 "
    "s:gemma4.final_logit_softcapping 4:6 f:30 s:gemma4.attention.sliding_window 4:4 4:1024 "
    "s:gemma4.attention.shared_kv_layers 4:4 4:0 s:gemma4.embedding_length_per_layer_input 4:4 4:0 "
    "s:gemma4.attention.key_length_swa 4:4 4:256 s:gemma4.attention.value_length_swa 4:4 4:256 "
    "s:gemma4.expert_feed_forward_length 4:4 4:704 s:gemma4.rope.dimension_count 4:4 4:512 "
    "s:gemma4.rope.dimension_count_swa 4:4 4:256 "
    "s:tokenizer.ggml.tokens 4:9 4:8 8:2 s:a s:b ";

static void gemma4_config(void **state)
{
    (void)state;
    enum { N_LAYERS = 30, N_KEYS = 23 };
    blob b = {.n = 0};
    clef_error err = {0};
    clef_gguf g;
    clef_hparams hp = {0};
    assemble(&b, "t:GGUF 4:3 8:0");
    put_int(&b, N_KEYS + 2, 8);
    assemble(&b, gemma4_keys);
    assemble(&b, "s:gemma4.attention.head_count_kv 4:9 4:5 8:30");
    for (int32_t i = 0; i < N_LAYERS; i++)
        put_int(&b, i % 6 == 5 ? 2 : 8, 4);
    assemble(&b, "s:gemma4.attention.sliding_window_pattern 4:9 4:7 8:30");
    for (int32_t i = 0; i < N_LAYERS; i++)
        put_int(&b, i % 6 != 5, 1);
    check_error("gemma4", clef__gguf_parse(b.p, b.n, "m.gguf", &g, &err), &err, CLEF_OK, "");
    check_error("gemma4", clef__config_from_gguf(&g, "m.gguf", &hp, &err), &err, CLEF_OK, "");
    clef__gguf_close(&g);
    assert_int_equal(hp.n_layers, 30);
    assert_int_equal(hp.n_heads, 16);
    assert_int_equal(hp.n_kv_heads, 8);
    assert_int_equal(hp.full_n_kv_heads, 2);
    assert_int_equal(hp.head_dim, 256);
    assert_int_equal(hp.full_head_dim, 512);
    assert_int_equal(hp.rope.dims, 512);
    assert_int_equal(hp.rope_sliding.dims, 256);
    assert_int_equal(hp.d_ff, 2112);
    assert_int_equal(hp.d_ff_expert, 704);
    assert_int_equal(hp.n_experts, 128);
    assert_int_equal(hp.n_experts_used, 8);
    assert_int_equal(hp.sliding_window, 1024);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding_ids),           cmocka_unit_test(config_refused),
        cmocka_unit_test(config_llama),          cmocka_unit_test(config_windows),
        cmocka_unit_test(config_gpt2_and_marks), cmocka_unit_test(config_forms),
        cmocka_unit_test(config_unread),         cmocka_unit_test(gguf_rope),
        cmocka_unit_test(gguf_config),           cmocka_unit_test(folder_refused),
        cmocka_unit_test(folder_shards),         cmocka_unit_test(gguf_model),
        cmocka_unit_test(real_models),           cmocka_unit_test(real_gguf),
        cmocka_unit_test(gemma4_config),
    };
    return cmocka_run_group_tests(tests, make_temp_dir, remove_temp_dir);
}
