/* Families that are a Llama but for a detail: the activation, the pairs of RoPE, norms. */
#include <math.h>

#include "model/arch/layers.h"

/* Arcee (2025): a plain feed-forward, with the square of ReLU. Nemotron (arXiv:2402.16819): the same, layer
 * norms whose weights are stored less one, and RoPE of a half of each head. */
static const clef_arch_alias arcee_names[] = {{"arcee", "arcee", 128000, 128001}, {NULL, NULL, 0, 0}};
static const clef_arch_alias nemotron_names[] = {{"nemotron", "nemotron", 2, 3}, {NULL, NULL, 0, 0}};

/* Seed-OSS (ByteDance 2025): biases of q, k and v. ERNIE 4.5 (Baidu 2025) and Helium (Kyutai 2025): RoPE of
 * neighbouring dims. Ministral 3 and Mistral Small 3.1 (Mistral 2025): queries are larger in long contexts.
 */
static const clef_arch_alias seed_oss_names[] = {{"seed_oss", "seed_oss", 0, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias ernie_names[] = {{"ernie4_5", "ernie4_5", 1, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias helium_names[] = {{"helium", "helium", 1, 2}, {NULL, NULL, 0, 0}};
static const clef_arch_alias ministral_names[] = {{"ministral3", "mistral3", 1, 2}, {NULL, NULL, 0, 0}};

/* Hunyuan (Tencent 2025): norms of q and k after RoPE. */
static const clef_arch_alias hunyuan_names[] = {{"hunyuan_v1_dense", "hunyuan-dense", 1, 2},
                                                {NULL, NULL, 0, 0}};

static const char *const hunyuan_weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER, CLEF_HF_GATED_MLP, [CLEF_W_ATTN_Q_NORM] = "layers.%d.self_attn.query_layernorm",
    [CLEF_W_ATTN_K_NORM] = "layers.%d.self_attn.key_layernorm"};

static void arcee_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama_with(f, hp, 10000, 1e-5, 0);
    clef__json_activation(f, hp, "hidden_act", "relu2");
}

const clef_arch clef__arch_arcee = {
    .names = arcee_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .read_json = arcee_read_json,
    .gguf_activation = CLEF_RELU2,
    .layer = clef__plain_layer,
};

static void nemotron_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "relu2");
    clef__json_partial_rope(f, hp, 10000, 0.5);
}

const clef_arch clef__arch_nemotron = {
    .names = nemotron_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .layer_norms = 1,
    .hf_norm_offset = 1,
    .read_json = nemotron_read_json,
    .gguf_activation = CLEF_RELU2,
    .layer = clef__plain_layer,
};

static void seed_oss_read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama(f, hp, 10000);
}

const clef_arch clef__arch_seed_oss = {
    .names = seed_oss_names,
    .weights = {.hf = clef__llama_weights,
                .gguf = (const clef_gguf_name[]){{CLEF_W_FFN_NORM, "blk.%d.post_attention_norm"}, {0, NULL}}},
    .hf_prefix = "model.",
    .read_json = seed_oss_read_json,
    .layer = clef__llama_layer,
};

static void ernie_read_json(clef_json_fields *f, clef_hparams *hp)
{
    hp->rope.pairing = CLEF_ROPE_INTERLEAVED;
    clef__json_llama_with(f, hp, 500000, 1e-5, 0);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
}

const clef_arch clef__arch_ernie = {
    .names = ernie_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED,
    .read_json = ernie_read_json,
    .layer = clef__llama_layer,
};

static void helium_read_json(clef_json_fields *f, clef_hparams *hp)
{
    hp->rope.pairing = CLEF_ROPE_INTERLEAVED;
    clef__json_llama_with(f, hp, 100000, 1e-8, 0);
}

const clef_arch clef__arch_helium = {
    .names = helium_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED,
    .read_json = helium_read_json,
    .layer = clef__llama_layer,
};

/* Without parameters of RoPE the class has YaRN. */
static void ministral_read_json(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *rope = clef__json_get(f, "rope_parameters");
    clef_json_fields of = {.object = rope, .file = f->file, .within = "rope_parameters", .err = f->err};
    clef__json_llama_with(f, hp, 1000000, 1e-5, 0);
    clef__json_window_everywhere(f, hp, 0);
    if (!json_is_object(rope)) {
        clef__json_refuse(f, "rope_parameters: expected an object");
        return;
    }
    of.status = f->status;
    hp->attention_beta = (float)clef__json_double(&of, "llama_4_scaling_beta", 0, 1e6, 0);
    hp->attention_beta_length =
        (int32_t)clef__json_int(&of, "original_max_position_embeddings", 1, CLEF_MAX_CONTEXT, hp->n_context);
    if (!clef__json_get(&of, "llama_4_scaling_beta"))
        clef__json_refuse(&of, "rope_parameters: llama_4_scaling_beta is missing");
    f->status = of.status;
}

static void ministral_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    clef__llama_read_gguf(k, hp);
    hp->attention_beta = (float)clef__key_float(k, "attention.temperature_scale", 0, 1e6, 0);
    hp->attention_beta_length = hp->attention_beta > 0 ? hp->rope.original_context : 0;
    if (hp->rope.type == CLEF_ROPE_YARN &&
        clef__key_float(k, "rope.scaling.yarn_log_multiplier", 0, 100, 0) > 0)
        hp->rope.attention_factor = 1;
}

const clef_arch clef__arch_ministral3 = {
    .names = ministral_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .read_json = ministral_read_json,
    .read_gguf = ministral_read_gguf,
    .layer = clef__llama_layer,
};

/* "dynamic" with a fixed alpha only raises the base. */
void clef__json_hunyuan(clef_json_fields *f, clef_hparams *hp)
{
    const char *name;
    const json_t *alpha = json_object_get(clef__rope_object(f->object, &name), "alpha");
    clef__json_llama_with(f, hp, 10000, 1e-5, 0);
    if (f->status != CLEF_OK || hp->rope.type != CLEF_ROPE_DYNAMIC || json_number_value(alpha) == 0)
        return;
    if (json_number_value(alpha) < 1 || hp->rope.dims < 4)
        clef__json_refuse(f, "rope_parameters.alpha: expected at least 1");
    hp->rope.theta *= pow(json_number_value(alpha), hp->rope.dims / (hp->rope.dims - 2.0));
    hp->rope.type = CLEF_ROPE_DEFAULT;
}

const clef_arch clef__arch_hunyuan = {
    .names = hunyuan_names,
    .weights = {.hf = hunyuan_weights},
    .hf_prefix = "model.",
    .qk_norms = CLEF_QK_NORM_ROTATED,
    .read_json = clef__json_hunyuan,
    .layer = clef__llama_layer,
};
