/* The keys of a quantised file (ggml's docs/gguf.md): copied from another GGUF file, or made from a
 * folder's config. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/imatrix.h"
#include "model/arch/apertus.h"
#include "model/arch/layers.h"
#include "model/convert/quantize.h"
#include "model/open/config.h"
#include "model/open/config_keys.h"
#include "model/tasks/embed_config.h"
#include "model/tasks/rank_config.h"

enum { QUANTIZATION_VERSION = 2 };

/* Keys that are written again, or that are no longer true. */
static int is_dropped(const clef_gguf_string *key)
{
    static const char *const dropped[] = {"general.file_type", "general.quantization_version",
                                          "general.alignment"};
    static const char *const starts[] = {"split.", "quantize.imatrix."};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (key->n_bytes > strlen(starts[i]) && memcmp(key->text, starts[i], strlen(starts[i])) == 0)
            return 1;
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        if (strlen(dropped[i]) == key->n_bytes && memcmp(dropped[i], key->text, key->n_bytes) == 0)
            return 1;
    return 0;
}

/* ---- keys of the architecture */

typedef struct arch_keys {
    clef_gguf_writer *w;
    const char *arch;
    int32_t n_further; /* layers that predict further tokens, behind the model's own */
    char key[96];
} arch_keys;

static const char *key_of(arch_keys *k, const char *name)
{
    snprintf(k->key, sizeof k->key, "%s.%s", k->arch, name);
    return k->key;
}

static void put_int(arch_keys *k, const char *name, int32_t x)
{
    clef__gguf_put_u32(k->w, key_of(k, name), (uint32_t)x);
}

static void put_float(arch_keys *k, const char *name, double x)
{
    clef__gguf_put_f32(k->w, key_of(k, name), (float)x);
}

/* YaRN's and longrope's factor of the rotated dims becomes a number of its own, as GGUF has it. 0: the
 * formula of YaRN. DeepSeek's two are needed for its scores. */
static void plain_rope(clef_rope_params *r, int is_latent)
{
    if (r->dims == 0)
        *r = (clef_rope_params){0};
    else if (r->type == CLEF_ROPE_DEFAULT)
        *r = (clef_rope_params){.dims = r->dims,
                                .pairing = r->pairing,
                                .theta = r->theta,
                                .attention_factor = r->attention_factor};
    if (r->type != CLEF_ROPE_YARN && r->type != CLEF_ROPE_LONGROPE)
        return;
    const double own = 1 + 0.1 * log(r->factor), whole = (double)clef__rope_attention_factor(r);
    r->attention_factor = whole;
    if (r->type == CLEF_ROPE_LONGROPE)
        r->factor = 1;
    else if (is_latent ? fabs(whole - 1) < 1e-6 : fabs(whole - own) < 1e-6 * own)
        r->attention_factor = 0;
    if (!is_latent)
        r->mscale = r->mscale_all_dim = 0;
}

/* ggml has names for these scalings only. Llama 3's and longrope's factors are tensors. llama.cpp multiplies
 * YaRN's own factor by attn_factor, except in DeepSeek. */
static void put_rope(arch_keys *k, const clef_hparams *hp)
{
    static const char *const types[] = {
        [CLEF_ROPE_LINEAR] = "linear", [CLEF_ROPE_YARN] = "yarn", [CLEF_ROPE_LONGROPE] = "longrope"};
    const clef_rope_params *r = &hp->rope;
    if (r->dims == 0)
        return;
    const double own = r->type == CLEF_ROPE_YARN && hp->kv_lora_rank == 0 ? 1 + 0.1 * log(r->factor) : 1;
    if (r->attention_factor > 0)
        put_float(k, "rope.scaling.attn_factor", r->attention_factor / own);
    if ((size_t)r->type >= sizeof types / sizeof *types || !types[r->type])
        return;
    clef__gguf_put_text(k->w, key_of(k, "rope.scaling.type"), types[r->type]);
    put_int(k, "rope.scaling.original_context_length", r->original_context);
    if (r->type != CLEF_ROPE_LONGROPE)
        put_float(k, "rope.scaling.factor", r->factor);
    if (r->type != CLEF_ROPE_YARN)
        return;
    put_float(k, "rope.scaling.yarn_beta_fast", r->beta_fast);
    put_float(k, "rope.scaling.yarn_beta_slow", r->beta_slow);
    if (r->mscale_all_dim > 0)
        put_float(k, "rope.scaling.yarn_log_multiplier", r->mscale_all_dim / 10);
}

static void put_window(arch_keys *k, const clef_hparams *hp, int32_t is_encoder)
{
    if (hp->sliding_window == 0)
        return;
    put_int(k, "attention.sliding_window", is_encoder ? 2 * (hp->sliding_window - 1) : hp->sliding_window);
    int32_t all = 1;
    for (int32_t i = 0; i < hp->n_layers; i++)
        all = all && clef__layer_slides(hp, i);
    if (all)
        return;
    clef__gguf_put_array(k->w, key_of(k, "attention.sliding_window_pattern"), CLEF_GGUF_I32,
                         (uint64_t)hp->n_layers);
    for (int32_t i = 0; i < hp->n_layers; i++)
        clef__gguf_add_i32(k->w, clef__layer_slides(hp, i));
}

static int has_in_layer(const clef__quantize_plan *plan, const char *name, int32_t layer)
{
    char full[CLEF_WEIGHT_NAME_BYTES];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    for (size_t i = 0; i < plan->n_items; i++)
        if (strcmp(plan->items[i].name, full) == 0)
            return 1;
    return 0;
}

/* Keys with a number for each layer, in some families. */
static void put_varied(arch_keys *k, const clef_hparams *hp, const clef_arch *arch,
                       const clef__quantize_plan *plan)
{
    if (hp->linear_taps > 0 && arch->gguf_varied) {
        clef__gguf_put_array(k->w, key_of(k, "attention.head_count_kv"), CLEF_GGUF_I32,
                             (uint64_t)hp->n_layers);
        for (int32_t i = 0; i < hp->n_layers; i++)
            clef__gguf_add_i32(k->w, has_in_layer(plan, "attn_q.weight", i) ? hp->n_kv_heads : 0);
    } else if (hp->full_n_kv_heads > 0 && hp->full_n_kv_heads != hp->n_kv_heads) {
        clef__gguf_put_array(k->w, key_of(k, "attention.head_count_kv"), CLEF_GGUF_I32,
                             (uint64_t)hp->n_layers);
        for (int32_t i = 0; i < hp->n_layers; i++)
            clef__gguf_add_i32(k->w, clef__layer_slides(hp, i) ? hp->n_kv_heads : hp->full_n_kv_heads);
    } else {
        put_int(k, "attention.head_count_kv", hp->n_kv_heads);
    }
    if (hp->linear_taps > 0 && arch->gguf_varied && arch->gguf_varied[1]) {
        clef__gguf_put_array(k->w, key_of(k, "feed_forward_length"), CLEF_GGUF_I32, (uint64_t)hp->n_layers);
        for (int32_t i = 0; i < hp->n_layers; i++)
            clef__gguf_add_i32(k->w, has_in_layer(plan, "ffn_up_exps.weight", i) ? hp->d_ff_expert
                                     : has_in_layer(plan, "ffn_up.weight", i)    ? hp->d_ff
                                                                                 : 0);
    } else if (hp->double_shared_ff && hp->n_kv_shared_layers > 0) {
        clef__gguf_put_array(k->w, key_of(k, "feed_forward_length"), CLEF_GGUF_I32, (uint64_t)hp->n_layers);
        for (int32_t i = 0; i < hp->n_layers; i++)
            clef__gguf_add_i32(k->w, i < hp->n_layers - hp->n_kv_shared_layers ? hp->d_ff : 2 * hp->d_ff);
    } else {
        put_int(k, "feed_forward_length", hp->d_ff);
    }
}

static void put_attention(arch_keys *k, const clef_hparams *hp, const clef_arch *arch)
{
    const int32_t wide = hp->full_head_dim ? hp->full_head_dim : hp->head_dim;
    put_int(k, "attention.key_length", wide);
    put_int(k, "attention.value_length", hp->v_head_dim ? hp->v_head_dim : wide);
    if (hp->full_head_dim) {
        put_int(k, "attention.key_length_swa", hp->head_dim);
        put_int(k, "attention.value_length_swa", hp->head_dim);
    }
    put_float(k, arch->layer_norms ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
              (double)hp->norm_eps);
    if (strncmp(k->arch, "nemotron_h", strlen("nemotron_h")) == 0) /* llama.cpp needs both names */
        put_float(k, "attention.layer_norm_epsilon", (double)hp->norm_eps);
    if (strcmp(k->arch, "phimoe") == 0) /* llama.cpp knows no other */
        put_float(k, "attention.layer_norm_rms_epsilon", (double)hp->norm_eps);
    if (arch->kind == CLEF_ENCODER)
        clef__gguf_put_bool(k->w, key_of(k, "attention.causal"), 0);
    put_window(k, hp, arch->kind == CLEF_ENCODER);
    if (hp->attention_beta > 0)
        put_float(k, "attention.temperature_scale", (double)hp->attention_beta);
    if (strcmp(hp->arch, "mpt") == 0) /* llama.cpp has it for no other family that clef writes */
        put_float(k, "attention.max_alibi_bias", 8);
    if (hp->value_scale > 0)
        put_float(k, "attention.value_scale", (double)hp->value_scale);
    if (hp->block_scales[0] > 0)
        put_float(k, "residual_scale", (double)hp->block_scales[0]);
    if (hp->clip_qkv > 0)
        put_float(k, "attention.clamp_kqv", (double)hp->clip_qkv);
}

/* Sets to 0 what the graph does not read, so that it does not count as a difference. */
static void leave_out_unused(clef_hparams *hp)
{
    plain_rope(&hp->rope, hp->kv_lora_rank > 0);
    plain_rope(&hp->rope_sliding, 0);
    if (hp->n_experts == 0)
        hp->router = CLEF_ROUTER_ALL;
}

/* What a reader makes of the keys written so far, and of the tensors. */
static clef_status read_back(const clef_gguf_writer *w, const clef__quantize_plan *plan, const char *file,
                             clef_hparams *out, clef_error *err)
{
    clef_gguf_writer all = {0};
    clef_gguf g = {0};
    clef_tensor_info *tensors = malloc((plan->n_items + 1) * sizeof *tensors);
    clef_status status =
        tensors ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its keys", file);
    if (!status)
        status = clef__gguf_keys_of(w, &all, &g, file, err);
    for (size_t i = 0; !status && i < plan->n_items; i++) {
        tensors[i] = plan->items[i].to;
        tensors[i].name = plan->items[i].name;
    }
    clef_gguf with = g; /* borrows the keys */
    with.tensors = tensors;
    with.n_tensors = plan->n_items;
    if (!status)
        status = clef__config_from_gguf(&with, file, out, err);
    clef__gguf_close(&g);
    clef__gguf_writer_finish(&all);
    free(tensors);
    return status;
}

static void put_linear(arch_keys *k, const clef_hparams *hp, const clef_arch *arch)
{
    if (clef__weight_in_gguf(&arch->weights, CLEF_W_CONV)) {
        put_int(k, "shortconv.l_cache", hp->linear_taps);
        return;
    }
    put_int(k, "ssm.inner_size", hp->linear_n_v_heads * hp->linear_v_dim);
    if (clef__weight_in_gguf(&arch->weights, CLEF_W_SCAN_IN)) {
        put_int(k, "ssm.conv_kernel", hp->linear_taps);
        put_int(k, "ssm.state_size", hp->linear_k_dim);
        if (hp->scan_rank == 0)
            put_int(k, "ssm.group_count", hp->linear_n_k_heads);
        put_int(k, "ssm.time_step_rank", hp->scan_rank ? hp->scan_rank : hp->linear_n_v_heads);
        if (strcmp(k->arch, "mamba") == 0)
            clef__gguf_put_bool(k->w, key_of(k, "ssm.dt_b_c_rms"), hp->scan_norm_eps > 0);
        return;
    }
    clef__gguf_put_array(k->w, key_of(k, "attention.recurrent_layers"), CLEF_GGUF_BOOL,
                         (uint64_t)(hp->n_layers + k->n_further));
    for (int32_t i = 0; i < hp->n_layers + k->n_further; i++) {
        const unsigned char is = i < hp->n_layers && (hp->linear_layers[i / 32] >> (i % 32) & 1);
        clef__gguf_add_bytes(k->w, &is, 1);
    }
}

/* The layers before the first with experts. */
static int32_t n_dense_layers(const clef__quantize_plan *plan, int32_t n_layers)
{
    int32_t first = n_layers;
    int layer, n = 0;
    for (size_t i = 0; i < plan->n_items; i++)
        if (sscanf(plan->items[i].name, "blk.%d.ffn_gate_inp.%n", &layer, &n) == 1 && n > 0 && layer < first)
            first = layer;
    return first;
}

/* How experts are chosen, of families in which files differ. */
static void put_router(arch_keys *k, const clef_hparams *hp, const clef_arch *arch)
{
    const int by_sigmoid = hp->router == CLEF_ROUTER_SIGMOID || hp->router == CLEF_ROUTER_SIGMOID_NORMED;
    if (hp->n_experts == 0 || !clef__weight_in_gguf(&arch->weights, CLEF_W_ROUTER_BIAS))
        return;
    if (hp->n_expert_groups > 0) {
        put_int(k, "expert_group_count", hp->n_expert_groups);
        put_int(k, "expert_group_used_count", hp->n_groups_used);
    }
    put_int(k, "expert_gating_func", by_sigmoid ? 2 : 1);
    clef__gguf_put_bool(k->w, key_of(k, "expert_weights_norm"),
                        hp->router == CLEF_ROUTER_NORMED || hp->router == CLEF_ROUTER_SIGMOID_NORMED);
}

/* The parts of the RoPE of models that see pictures, which llama.cpp needs. */
static void put_sections(clef_gguf_writer *w, const clef_model *m)
{
    static const int32_t qwen35[] = {11, 11, 10, 0}; /* also of its text models */
    arch_keys k = {.w = w, .arch = clef__quantize_arch(&m->hparams)};
    const char *name;
    const json_t *list = json_object_get(clef__rope_object(m->config, &name), "mrope_section");
    const int is_qwen35 = strncmp(k.arch, "qwen35", strlen("qwen35")) == 0,
              is_listed = json_array_size(list) == 3;
    if (!is_listed && !is_qwen35)
        return;
    clef__gguf_put_array(w, key_of(&k, "rope.dimension_sections"), CLEF_GGUF_I32, 4);
    for (size_t i = 0; i < 4; i++) /* past the end: 0 */
        clef__gguf_add_i32(w, is_listed ? (int32_t)json_integer_value(json_array_get(list, i)) : qwen35[i]);
}

/* Gemma 3n's streams, and how many gates its layers drop. */
static void put_altup(arch_keys *k, const clef_hparams *hp)
{
    if (hp->n_altup == 0)
        return;
    put_int(k, "altup.num_inputs", hp->n_altup);
    put_int(k, "altup.active_idx", hp->altup_active);
    clef__gguf_put_array(k->w, key_of(k, "activation_sparsity_scale"), CLEF_GGUF_F32, (uint64_t)hp->n_layers);
    for (int32_t i = 0; i < hp->n_layers; i++)
        clef__gguf_add_f32(k->w, hp->sparse_layers[i / 32] >> (i % 32) & 1 ? hp->sparsity : -INFINITY);
}

/* 1 if there is a layer that predicts further tokens. */
static int has_further(const clef__quantize_plan *plan)
{
    for (size_t i = 0; i < plan->n_items; i++)
        if (strstr(plan->items[i].name, ".nextn.eh_proj."))
            return 1;
    return 0;
}

static clef_status put_hparams(clef_gguf_writer *w, const clef_hparams *hp, const clef__quantize_plan *plan,
                               const char *file, clef_error *err)
{
    const clef_arch *arch = clef__arch_find(hp->arch, 0);
    clef_hparams written = *hp, stated, read = {0};
    arch_keys k = {.w = w, .arch = clef__quantize_arch(hp)};
    if (clef__quantize_cuts_positions(arch, hp))
        written.position_offset = 0;
    leave_out_unused(&written);
    if (arch->hf_scale && hp->tied_embeddings) /* the embedding has its own factor */
        written.logit_scale = arch->hf_scale(hp, CLEF_W_OUT, 0, 0) / arch->hf_scale(hp, CLEF_W_EMBED, 0, 0);
    stated = written;
    const int is_granite = strncmp(k.arch, "granite", strlen("granite")) == 0;
    if (is_granite && hp->logit_scale > 0) /* its logit_scale divides */
        stated.logit_scale = 1 / hp->logit_scale;
    if (arch->kind != CLEF_SEQ2SEQ)
        stated.n_decoder_layers = 0;
    stated.n_kv_heads = stated.d_ff = 0;
    k.n_further = has_further(plan);
    stated.n_layers += k.n_further;
    if (k.n_further)
        put_int(&k, "nextn_predict_layers", k.n_further);
    clef__config_put_standard(w, k.arch, arch, &stated);
    put_varied(&k, hp, arch, plan);
    put_int(&k, "vocab_size", hp->n_vocab);
    put_attention(&k, hp, arch);
    if (strcmp(k.arch, "gemma4") == 0 && hp->logit_softcap == 0) /* without it llama.cpp caps at 30 */
        put_float(&k, "final_logit_softcapping", 0);
    if (strcmp(k.arch, "granitehybrid") == 0 ||
        (is_granite && hp->rope.dims == 0)) /* their switch for RoPE */
        clef__gguf_put_bool(w, key_of(&k, "rope.scaling.finetuned"), hp->rope.dims > 0);
    put_rope(&k, &written);
    put_altup(&k, hp);
    put_router(&k, hp, arch);
    const int32_t n_dense = hp->n_experts > 0 ? n_dense_layers(plan, hp->n_layers) : 0;
    if (strcmp(k.arch, "llama4") == 0)
        put_int(&k, "interleave_moe_layer_step", n_dense + 1);
    else if (n_dense > 0 || (hp->n_experts > 0 && hp->kv_lora_rank > 0))
        put_int(&k, "leading_dense_block_count", n_dense);
    if (hp->d_ff_shared > 0 && (is_granite || clef__weight_in_gguf(&arch->weights, CLEF_W_SCAN_IN) ||
                                clef__weight_in_gguf(&arch->weights, CLEF_W_SHARED_ROUTER)))
        put_int(&k, "expert_shared_feed_forward_length", hp->d_ff_shared);
    else if (hp->d_ff_shared > 0)
        put_int(&k, "expert_shared_count", hp->d_ff_shared / hp->d_ff_expert);
    if (hp->linear_taps > 0)
        put_linear(&k, hp, arch);
    if (arch->kind == CLEF_SEQ2SEQ && hp->decoder_start >= 0)
        put_int(&k, "decoder_start_token_id", hp->decoder_start);
    const clef_status status = read_back(w, plan, file, &read, err);
    leave_out_unused(&read);
    if (status == CLEF_OK && read.activation != written.activation) {
        clef__gguf_put_text(w, key_of(&k, "hidden_activation"), clef__gguf_activation(written.activation));
        read.activation = written.activation;
    }
    if (status == CLEF_OK)
        clef__config_put_keys(w, &written, &read);
    return status;
}

static void put_special_tokens(clef_gguf_writer *w, const clef_hparams *hp)
{
    if (hp->bos >= 0)
        clef__gguf_put_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)hp->bos);
    if (hp->n_token_types > 0 || strcmp(clef__quantize_arch(hp), "bert") == 0) /* llama.cpp needs a number */
        clef__gguf_put_u32(w, "tokenizer.ggml.token_type_count",
                           hp->n_token_types > 0 ? (uint32_t)hp->n_token_types : 1);
    if (hp->eos >= 0)
        clef__gguf_put_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)hp->eos);
    const int32_t n_named = hp->n_eos_more - hp->n_eos_by_text;
    if (n_named > 0)
        clef__gguf_put_u32(w, "tokenizer.ggml.eot_token_id", (uint32_t)hp->eos_more[0]);
    if (n_named > 1)
        clef__gguf_put_u32(w, "tokenizer.ggml.eom_token_id", (uint32_t)hp->eos_more[1]);
    if (n_named > 2)
        clef__gguf_put_array(w, CLEF_KEY_MORE_ENDS, CLEF_GGUF_I32, (uint64_t)(n_named - 2));
    for (int32_t i = 2; i < n_named; i++)
        clef__gguf_add_i32(w, hp->eos_more[i]);
}

static int64_t n_labels_of(const clef__quantize_plan *plan)
{
    for (size_t i = 0; i < plan->n_items; i++)
        if (strcmp(plan->items[i].name, "cls.output.weight") == 0)
            return plan->items[i].to.dims[0];
    return 0;
}

/* What classifiers read back. */
static clef_status put_classifier(const clef_model *m, clef_gguf_writer *w, clef_error *err)
{
    static const char *const keys[] = {"model_type",       "architectures",      "id2label",
                                       "problem_type",     "classifier_pooling", "classifier_activation",
                                       "pooler_hidden_act"};
    json_t *root = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(root, keys[i], json_object_get(m->config, keys[i]));
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (!text)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its labels", m->path);
    clef__gguf_put_text(w, CLEF_KEY_CLASSIFIER, text);
    free(text);
    if (strcmp(clef__quantize_arch(&m->hparams), "modern-bert") == 0) {
        const char *pooling = json_string_value(json_object_get(m->config, "classifier_pooling"));
        clef__gguf_put_u32(w, "modern-bert.classifier.pooling_type",
                           pooling && strcmp(pooling, "mean") == 0 ? CLEF_GGUF_POOLING_MEAN
                                                                   : CLEF_GGUF_POOLING_CLS);
    }
    return CLEF_OK;
}

/* What rankers read back, and llama.cpp's name of them. */
static clef_status put_ranker(const clef_model *m, clef_gguf_writer *w, clef_error *err)
{
    clef__rank_config rank;
    char key[96];
    const clef_status status = clef__rank_config_read(m, &rank, err);
    if (status != CLEF_OK)
        return status;
    snprintf(key, sizeof key, "%s.pooling_type", clef__quantize_arch(&m->hparams));
    clef__gguf_put_u32(w, key, CLEF_GGUF_POOLING_RANK);
    clef__gguf_put_i32(w, CLEF_KEY_RANK_TOKENS, rank.info.max_tokens);
    clef__gguf_put_bool(w, CLEF_KEY_RANK_RAW, !rank.info.is_bounded);
    return CLEF_OK;
}

/* The parts of config_sentence_transformers.json that an embedder reads. */
static clef_status put_prompts(const clef_model *m, clef_gguf_writer *w, clef_error *err)
{
    static const char *const keys[] = {"prompts", "default_prompt_name", "similarity_fn_name"};
    json_t *root = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(root, keys[i], json_object_get(m->embedding, keys[i]));
    char *text = json_dumps(root, JSON_COMPACT);
    const int has_any = json_object_size(root) > 0;
    json_decref(root);
    if (!text)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its prompts", m->path);
    if (has_any)
        clef__gguf_put_text(w, CLEF_KEY_PROMPTS, text);
    free(text);
    return CLEF_OK;
}

/* llama.cpp's keys of the first two layers, and clef's own where they have activations. */
static void put_dense(const clef_model *m, clef_gguf_writer *w)
{
    char key[96], names[CLEF_MAX_DENSE * 16] = "";
    int has_any = 0;
    for (int32_t i = 0; i < m->n_dense; i++) {
        const clef__dense *d = &m->dense[i];
        snprintf(key, sizeof key, "%s.dense_%" PRId32 "_feat_in", clef__quantize_arch(&m->hparams), i + 2);
        clef__gguf_put_u32(w, key, (uint32_t)d->n_in);
        snprintf(key, sizeof key, "%s.dense_%" PRId32 "_feat_out", clef__quantize_arch(&m->hparams), i + 2);
        clef__gguf_put_u32(w, key, (uint32_t)d->n_out);
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.12s", i ? " " : "", d->act_name);
        has_any |= d->act != NULL;
    }
    if (has_any)
        clef__gguf_put_text(w, CLEF_KEY_DENSE, names);
}

/* Writes what clef__embed_config() reads back. If the folder names no pooling, the architecture's default
 * holds. */
static clef_status put_embedding(const clef_model *m, clef_gguf_writer *w, clef_error *err)
{
    clef_embedder_info info = {.n_dims = m->hparams.d_model, .max_tokens = m->hparams.n_context};
    char key[96];
    uint32_t n = 0;
    clef_status status = clef__embed_read_folder(m, NULL, &info, err);
    if (status == CLEF_OK)
        status = put_prompts(m, w, err);
    if (status != CLEF_OK)
        return status;
    while (clef__gguf_poolings[n] != info.pooling)
        n++;
    snprintf(key, sizeof key, "%s.pooling_type", clef__quantize_arch(&m->hparams));
    if (info.pooling)
        clef__gguf_put_u32(w, key, n);
    clef__gguf_put_bool(w, "libclef.embedding.normalize", info.normalize);
    clef__gguf_put_i32(w, "libclef.embedding.max_tokens", info.max_tokens);
    put_dense(m, w);
    return CLEF_OK;
}

/* llama.cpp's keys of the importance matrix. */
static void put_imatrix(const clef_quantize_opts *opts, clef_gguf_writer *w)
{
    const clef_imatrix *im = opts ? opts->imatrix : NULL;
    if (!im)
        return;
    const char *path = clef_imatrix_path(im), *slash = strrchr(path, '/');
    clef__gguf_put_text(w, "quantize.imatrix.file", slash ? slash + 1 : path);
    clef__gguf_put_u32(w, "quantize.imatrix.entries_count", (uint32_t)clef_imatrix_n(im));
    clef__gguf_put_u32(w, "quantize.imatrix.chunks_count", (uint32_t)clef_imatrix_chunks(im));
}

/* What is recommended for texts, and the rules that hold for them. */
static void put_generation(clef_gguf_writer *w, const clef_model *m)
{
    const int has_any = m->rules.n || m->rules.ignored[0] || m->has_sampling;
    char *text = has_any ? json_dumps(m->generation, JSON_COMPACT) : NULL;
    if (text)
        clef__gguf_put_text(w, CLEF_GENERATION_KEY, text);
    free(text);
}

/* llama.cpp opens no encoder with such a head. */
static void note_head(const clef_quantize_opts *opts, const clef__quantize_plan *plan)
{
    for (size_t i = 0; opts->note && i < plan->n_items; i++)
        if (strncmp(plan->items[i].name, "head.", strlen("head.")) == 0) {
            opts->note(opts->note_user, "the file has the head of masked language modelling, with which "
                                        "llama.cpp opens no file; a folder with modules.json is written "
                                        "without it");
            return;
        }
}

static void put_xielu(const clef_model *m, clef_gguf_writer *w)
{
    char key[64];
    float x = 0;
    for (int i = 0; i < CLEF_N_XIELU && clef__xielu_number(m, 0, i, &x); i++) {
        snprintf(key, sizeof key, "xielu.%s", clef__xielu_names[i]);
        clef__gguf_put_array(w, key, CLEF_GGUF_F32, (uint64_t)m->hparams.n_layers);
        for (int32_t layer = 0; layer < m->hparams.n_layers; layer++) {
            clef__xielu_number(m, layer, i, &x);
            clef__gguf_add_f32(w, x);
        }
    }
}

static clef_status put_folder_keys(const clef_model *m, const clef__quantize_plan *plan,
                                   const clef_quantize_opts *opts, clef_gguf_writer *w, clef_error *err)
{
    const clef_hparams *hp = &m->hparams;
    clef__gguf_put_text(w, "general.architecture", clef__quantize_arch(hp));
    if (hp->name[0])
        clef__gguf_put_text(w, "general.name", hp->name);
    put_special_tokens(w, hp);
    put_generation(w, m);
    note_head(opts, plan);
    put_sections(w, m);
    clef_status status = put_hparams(w, hp, plan, m->path, err);
    if (status == CLEF_OK && strcmp(hp->arch, "apertus") == 0)
        put_xielu(m, w);
    const int64_t n_labels = n_labels_of(plan);
    if (status == CLEF_OK)
        status = n_labels == 1 && !clef__labels_tokens(m) ? put_ranker(m, w, err) : put_embedding(m, w, err);
    if (status == CLEF_OK && n_labels)
        status = put_classifier(m, w, err);
    return status == CLEF_OK ? clef__quantize_tokenizer(m, opts, w, err) : status;
}

/* The llama_ftype of the type in which the largest tensor is stored. */
static uint32_t stored_type(const clef_model *m)
{
    const clef_tensor_info *largest = NULL;
    for (int32_t i = 0; i < m->n_tensors; i++)
        if (!largest || m->tensors[i].n_bytes > largest->n_bytes)
            largest = &m->tensors[i];
    return largest && largest->dtype == CLEF_BF16 ? 32 : largest && largest->dtype == CLEF_F16 ? 1 : 0;
}

/* Writes an entry of the model's file, with the name that its key has now. */
static void put_entry(clef_gguf_writer *w, const clef_gguf_entry *from)
{
    clef_gguf_entry e = *from;
    char name[128];
    const size_t n_old = sizeof CLEF_GGUF_OWN_OLD - 1, n = from->key.n_bytes;
    if (n > n_old && n < 100 && memcmp(from->key.text, CLEF_GGUF_OWN_OLD, n_old) == 0) {
        e.key.n_bytes = (size_t)snprintf(name, sizeof name, CLEF_GGUF_OWN "%.*s", (int)(n - n_old),
                                         from->key.text + n_old);
        e.key.text = name;
    }
    clef__gguf_put_entry(w, &e);
}

clef_status clef__quantize_keys(const clef_model *model, const clef__quantize_type *type,
                                const clef__quantize_plan *plan, const clef_quantize_opts *opts,
                                clef_gguf_writer *w, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (uint64_t i = 0; i < model->gguf.n_entries; i++)
        if (!is_dropped(&model->gguf.entries[i].key))
            put_entry(w, &model->gguf.entries[i]);
    if (!model->is_gguf)
        status = put_folder_keys(model, plan, opts, w, err);
    clef__gguf_put_u32(w, "general.file_type",
                       type->dtype == CLEF_N_DTYPES ? stored_type(model) : type->file_type);
    clef__gguf_put_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    put_imatrix(opts, w);
    return status;
}
