/* MiniMax-Text-01 and M1 (arXiv:2501.08313): layers of lightning attention, a linear attention whose memory
 * forgets at a fixed rate of each head, between layers of softmax attention; and experts. The residual stream
 * is normed before it is added to. */
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"

/* What the stream, and what a block's result is multiplied by. */
enum { FULL, FULL_RESULT, LINEAR, LINEAR_RESULT, MLP, MLP_RESULT, N_SCALES };

static const clef_arch_alias names[] = {{"minimax", "minimax-01", 1, 2}, {NULL, NULL, 0, 0}};

static const clef_gguf_name gguf_names[] = {
    {CLEF_W_LINEAR_NORM, "blk.%d.attn_norm_2"}, {CLEF_W_LINEAR_OUT, "blk.%d.attn_output"}, {0, NULL}};

static const char *const weights[CLEF_N_ROLES] = {
    CLEF_HF_DECODER,
    [CLEF_W_ATTN_QKV] = "layers.%d.self_attn.qkv_proj",
    [CLEF_W_LINEAR_NORM] = "layers.%d.self_attn.norm",
    [CLEF_W_LINEAR_GATE] = "layers.%d.self_attn.output_gate",
    [CLEF_W_LINEAR_OUT] = "layers.%d.self_attn.out_proj",
    [CLEF_W_ROUTER] = "layers.%d.block_sparse_moe.gate",
    [CLEF_W_EXPERT_GATE] = "layers.%d.block_sparse_moe.experts.*.w1",
    [CLEF_W_EXPERT_UP] = "layers.%d.block_sparse_moe.experts.*.w3",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.block_sparse_moe.experts.*.w2"};

/* How fast each head of the layer forgets, as rates of a scan whose steps are all 1; and no skip, no bias. */
static clef_value *constants(clef_builder *b, float rates[CLEF_MAX_HEADS], const char *name)
{
    const int32_t H = b->hp->n_heads;
    const double of_layer = 1 - b->layer / (b->hp->n_layers - 1 + 1e-5) + 1e-5;
    for (int32_t h = 0; h < H; h++)
        rates[h] = name ? (float)-(pow(pow(2, -8.0 / H), h + 1) * of_layer) : 0;
    char full[64];
    snprintf(full, sizeof full, name ? "layer%d.%s" : "lightning.zeros", b->layer, name ? name : "");
    clef_value *made = clef_graph_find(b->g, full);
    return made ? made : clef_constant(b->g, full, CLEF_F32, clef_shape_1(clef_n(H)), rates);
}

static clef_value *lightning(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    const int32_t H = hp->n_heads, D = hp->head_dim;
    float numbers[CLEF_MAX_HEADS];
    if (clef__refuses_padding(b))
        return NULL;
    clef_value *gate = clef_sigmoid(g, clef__linear(b, x, CLEF_W_LINEAR_GATE, hp->d_model, H * D));
    clef_value *all = clef__activation(b, clef__linear(b, x, CLEF_W_ATTN_QKV, hp->d_model, 3 * H * D));
    all = clef__split_heads(b, all, H, 3 * D);
    const clef_selective_scan_in in = {.c = clef__part(b, all, 3, 0, D),
                                       .b = clef__part(b, all, 3, D, D),
                                       .x = clef__part(b, all, 3, 2 * D, D),
                                       .dt = clef__part(b, gate, 2, 0, H), /* any numbers: see below */
                                       .skip = constants(b, numbers, NULL),
                                       .rates = constants(b, numbers, "lightning.rates"),
                                       .bias = constants(b, numbers, NULL),
                                       .state = clef__memory(b, CLEF__STATE_MEMORY, H, D, D),
                                       .pos = b->pos,
                                       .runs = b->runs};
    x = clef_selective_scan(g, &in, &(clef_selective_scan_opts){.min = 1, .max = 1});
    x = clef__name_value(b, clef_reshape(g, x, clef_shape_3(b->B, b->T, clef_n(H * D))), "attn.heads");
    x = clef_rms_norm(g, x, clef__role_weight(b, CLEF_W_LINEAR_NORM, "weight"),
                      &(clef_norm_opts){.eps = 1e-6f});
    return clef__linear(b, clef__name_value(b, clef_mul(g, gate, x), "attn.gated"), CLEF_W_LINEAR_OUT, H * D,
                        hp->d_model);
}

/* by[0] x + by[1] block(x). */
static clef_value *blended(clef_builder *b, clef_value *x, clef_block *block, const float by[2],
                           const char *name)
{
    clef_value *y = clef__scaled(b, block(b, x), by[1]);
    return clef__name_value(b, clef_add(b->g, clef__scaled(b, x, by[0]), y), name);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    const int is_linear = clef__layer_is_linear(b->hp, b->layer);
    const float *by = b->hp->block_scales;
    x = blended(b, clef__norm(b, x, CLEF_W_ATTN_NORM), is_linear ? lightning : clef__layer_attention,
                by + (is_linear ? LINEAR : FULL), "attn_residual");
    return blended(b, clef__norm(b, x, CLEF_W_FFN_NORM), clef__experts_or_gated, by + MLP, "mlp_residual");
}

static void set_memory(clef_hparams *hp)
{
    hp->linear_n_k_heads = hp->linear_n_v_heads = hp->n_heads;
    hp->linear_k_dim = hp->linear_v_dim = hp->head_dim;
    hp->linear_taps = 1; /* without a convolution */
    hp->router = CLEF_ROUTER_NORMED;
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const char *const keys[N_SCALES] = {"full_attn_alpha_factor",   "full_attn_beta_factor",
                                               "linear_attn_alpha_factor", "linear_attn_beta_factor",
                                               "mlp_alpha_factor",         "mlp_beta_factor"};
    static const char *const linear[] = {"linear_attention", NULL};
    clef__json_llama_with(f, hp, 1000000, 1e-5, 0);
    clef__json_window(f, hp, 0);
    if (hp->sliding_window > 0)
        clef__json_refuse(f, "sliding_window is not supported for minimax");
    clef__json_experts(f, hp, "num_local_experts", 8, 2);
    hp->d_ff_expert = hp->d_ff;
    for (int i = 0; i < N_SCALES; i++)
        hp->block_scales[i] = (float)clef__json_double(f, keys[i], 1e-9, 1e9, 1);
    set_memory(hp);
    if (!clef__json_linear_layers(f, hp, linear))
        for (int32_t i = 1; i < hp->n_layers; i += 2)
            clef__set_linear(hp, i);
    if (f->status == CLEF_OK && hp->head_dim > 256)
        clef__json_refuse(f, "head_dim above 256 is not supported");
}

/* The files of llama.cpp's converter have one factor for the stream. */
static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    for (int i = 0; i < N_SCALES; i++)
        hp->block_scales[i] = i % 2 || hp->residual_scale == 0 ? 1 : hp->residual_scale;
    hp->residual_scale = 0;
    set_memory(hp);
    clef__key_int(k, "ssm.inner_size", 0, CLEF_MAX_WIDTH, 0);
    if (clef__key_has(k, "attention.recurrent_layers"))
        clef__key_layers(k, "attention.recurrent_layers", hp->n_layers, hp->linear_layers);
    else
        for (int32_t i = 0, n = clef__key_int(k, "full_attention_interval", 1, CLEF_MAX_LAYERS, 8);
             i < hp->n_layers; i++)
            if ((i + 1) % n != 0)
                clef__set_linear(hp, i);
}

const clef_arch clef__arch_minimax_01 = {
    .names = names,
    .weights = {.hf = weights, .gguf = gguf_names},
    .hf_prefix = "model.",
    .read_json = read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};
