/* Gemma 4 (Google 2026): Gemma 3's block, with normed values. Full layers have wider heads, a part of which
 * is rotated. The smaller models have a per-layer embedding of each token, and last layers that read the keys
 * and values of earlier ones. The 26 B model has experts beside the dense feed-forward. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_arch_alias gemma4_names[] = {{"gemma4_text", "gemma4", 2, 1}, {NULL, NULL, 0, 0}};

static const char *const gemma4_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_ATTENTION,
    CLEF_HF_QK_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_EMBED_LAYERS] = "embed_tokens_per_layer",
    [CLEF_W_LAYERS_PROJECTION] = "per_layer_model_projection",
    [CLEF_W_LAYERS_NORM] = "per_layer_projection_norm",
    [CLEF_W_ATTN_NORM] = "layers.%d.input_layernorm",
    [CLEF_W_ATTN_POST_NORM] = "layers.%d.post_attention_layernorm",
    [CLEF_W_FFN_NORM] = "layers.%d.pre_feedforward_layernorm",
    [CLEF_W_FFN_POST_NORM] = "layers.%d.post_feedforward_layernorm",
    [CLEF_W_ROUTER] = "layers.%d.router.proj",
    [CLEF_W_ROUTER_SCALE] = "layers.%d.router.scale",
    [CLEF_W_EXPERT_SCALE] = "layers.%d.router.per_expert_scale",
    [CLEF_W_EXPERT_GATE_UP] = "layers.%d.experts.gate_up_proj",
    [CLEF_W_EXPERT_DOWN] = "layers.%d.experts.down_proj",
    [CLEF_W_FFN_POST_NORM_1] = "layers.%d.post_feedforward_layernorm_1",
    [CLEF_W_FFN_NORM_2] = "layers.%d.pre_feedforward_layernorm_2",
    [CLEF_W_FFN_POST_NORM_2] = "layers.%d.post_feedforward_layernorm_2",
    [CLEF_W_LAYER_GATE] = "layers.%d.per_layer_input_gate",
    [CLEF_W_LAYER_PROJECTION] = "layers.%d.per_layer_projection",
    [CLEF_W_LAYER_NORM] = "layers.%d.post_per_layer_input_norm",
    [CLEF_W_LAYER_SCALE] = "layers.%d.layer_scalar",
};

/* ---- the graph ------------------------------------------------------------------------------- */

clef_value *clef__per_layer_embed(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    const int32_t L = hp->n_layers, p = hp->d_per_layer_embed;
    const clef_shape shape = clef_shape_4(b->B, b->T, clef_n(L), clef_n(p));
    clef_value *table = clef__role_weight(b, CLEF_W_EMBED_LAYERS, "weight");
    clef_value *own = clef__scaled(b, clef_gather(g, table, b->ids, NULL), sqrtf((float)p));
    clef_value *seen = clef__scaled(b, clef__linear(b, x, CLEF_W_LAYERS_PROJECTION, hp->d_model, L * p),
                                    1 / sqrtf((float)hp->d_model));
    seen = clef__norm(b, clef_reshape(g, seen, shape), CLEF_W_LAYERS_NORM);
    x = clef__scaled(b, clef_add(g, seen, clef_reshape(g, own, shape)), sqrtf(0.5f));
    return clef__name_value(b, x, "per_layer.embed");
}

/* Adds the layer's part of the per-layer embedding to x, after its gate and projection. */
static clef_value *add_per_layer(clef_builder *b, clef_value *x, clef_value *embed)
{
    clef_graph *g = b->g;
    const int32_t d = b->hp->d_model, p = b->hp->d_per_layer_embed;
    clef_value *own =
        clef_slice(g, embed, &(clef_slice_opts){.axis = 2, .start = b->layer, .size = clef_n(1)});
    own = clef_reshape(g, own, clef_shape_3(b->B, b->T, clef_n(p)));
    clef_value *y = clef_mul(g, clef__activation(b, clef__linear(b, x, CLEF_W_LAYER_GATE, d, p)), own);
    y = clef__linear(b, clef__name_value(b, y, "per_layer.act"), CLEF_W_LAYER_PROJECTION, p, d);
    return clef__add_residual(b, x, clef__norm(b, y, CLEF_W_LAYER_NORM), "per_layer_residual");
}

static int reads_earlier_keys(const clef_builder *b)
{
    return b->layer >= b->hp->n_layers - b->hp->n_kv_shared_layers;
}

/* The values: an RMS norm without a weight, of their own projection or of the keys'. */
static clef_value *values(clef_builder *b, clef_value *x)
{
    const int slides = clef__layer_slides(b->hp, b->layer), is_said = b->hp->full_values != 0;
    const int has_own =
        is_said ? slides || b->hp->full_values < 0 : clef__has_weight(b, CLEF_W_ATTN_V, "weight");
    x = clef__heads(b, x, has_own ? CLEF_W_ATTN_V : CLEF_W_ATTN_K, CLEF_N_ROLES, b->hp->n_kv_heads);
    x = clef_rms_norm(b->g, x, NULL, &(clef_norm_opts){.eps = b->hp->norm_eps});
    return clef__name_value(b, x, "attn.v_norm");
}

static clef_value *attention(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t H = hp->n_heads, Hk = hp->n_kv_heads, D = hp->head_dim;
    clef_value *q = clef__heads(b, x, CLEF_W_ATTN_Q, CLEF_W_ATTN_Q_NORM, H);
    q = clef__layer_rope(b, q, "attn.q_rope");
    if (reads_earlier_keys(b)) {
        x = clef__shared_attention(b, q);
    } else {
        clef_value *k = clef__heads(b, x, CLEF_W_ATTN_K, CLEF_W_ATTN_K_NORM, Hk);
        x = clef__self_attention(b, q, clef__layer_rope(b, k, "attn.k_rope"), values(b, x));
    }
    return clef__linear(b, x, CLEF_W_ATTN_OUT, H * D, hp->d_model);
}

/* The logits of the experts. The router has its own norm, divided by sqrt(d). */
static clef_value *router(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model;
    clef_value *w = clef__role_weight(b, CLEF_W_ROUTER_SCALE, clef__bare_suffix(b));
    x = clef_rms_norm(b->g, x, w, &(clef_norm_opts){.eps = b->hp->norm_eps});
    clef__name_value(b, x, clef__role_value_name(CLEF_W_ROUTER_SCALE));
    return clef__linear(b, clef__scaled(b, x, 1 / sqrtf((float)d)), CLEF_W_ROUTER, d, b->hp->n_experts);
}

/* The dense feed-forward and the experts: both read x, each with its own norms. */
static clef_value *feed_forward(clef_builder *b, clef_value *x)
{
    clef_value *dense = clef__gated_feed_forward(b, clef__norm(b, x, CLEF_W_FFN_NORM));
    if (b->hp->n_experts == 0)
        return dense;
    clef_value *sum = clef__expert_sum(b, router(b, x), clef__norm(b, x, CLEF_W_FFN_NORM_2), NULL);
    dense = clef__norm(b, dense, CLEF_W_FFN_POST_NORM_1);
    return clef__name_value(b, clef_add(b->g, dense, clef__norm(b, sum, CLEF_W_FFN_POST_NORM_2)), "mlp.out");
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    clef_value *y = attention(b, clef__norm(b, x, CLEF_W_ATTN_NORM));
    x = clef__add_residual(b, x, clef__norm(b, y, CLEF_W_ATTN_POST_NORM), "attn_residual");
    y = feed_forward(b, x);
    x = clef__add_residual(b, x, clef__norm(b, y, CLEF_W_FFN_POST_NORM), "mlp_residual");
    if (b->layer_embed)
        x = add_per_layer(b, x, b->layer_embed);
    clef_value *scale = clef__role_weight_optional(b, CLEF_W_LAYER_SCALE, clef__bare_suffix(b));
    return scale ? clef_mul(b->g, x, scale) : x;
}

/* A layer with its own hyperparameters. */
static clef_value *own_layer(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int slides = clef__layer_slides(hp, b->layer);
    clef_hparams own = *hp;
    own.head_dim = slides ? hp->head_dim : hp->full_head_dim;
    own.n_kv_heads = slides ? hp->n_kv_heads : hp->full_n_kv_heads;
    own.d_ff = hp->d_ff * (hp->double_shared_ff && reads_earlier_keys(b) ? 2 : 1);
    b->hp = &own;
    x = layer(b, x);
    b->hp = hp;
    return x;
}

static clef_value *build(clef_builder *b)
{
    clef_value *x = clef__embed(b);
    if (b->hp->d_per_layer_embed)
        b->layer_embed = clef__per_layer_embed(b, x);
    return clef__decoder(b, x, own_layer);
}

/* ---- configuration --------------------------------------------------------------------------- */

/* Reads the heads of full layers: from their own keys, or from keys for each layer. */
static void read_full_heads(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *layers = clef__json_get(f, "per_layer_config"), *layer;
    const char *number;
    const int equal = clef__json_bool(f, "attention_k_eq_v", 0);
    hp->full_values = equal ? 1 : -1;
    hp->full_head_dim = (int32_t)clef__json_int(f, "global_head_dim", 1, CLEF_MAX_HEAD_DIM,
                                                json_is_object(layers) ? hp->head_dim : 512);
    hp->full_n_kv_heads =
        equal ? (int32_t)clef__json_int(f, "num_global_key_value_heads", 1, CLEF_MAX_HEADS, hp->n_kv_heads)
              : hp->n_kv_heads;
    json_object_foreach((json_t *)layers, number, layer) {
        clef_json_fields of = {.object = layer,
                               .file = f->file,
                               .within = "per_layer_config",
                               .err = f->err,
                               .status = f->status};
        const int32_t dim = (int32_t)clef__json_int(&of, "head_dim", 1, CLEF_MAX_HEAD_DIM, hp->head_dim);
        const int32_t heads =
            (int32_t)clef__json_int(&of, "num_key_value_heads", 1, CLEF_MAX_HEADS, hp->n_kv_heads);
        const int is_first = hp->full_head_dim == hp->head_dim && hp->full_n_kv_heads == hp->n_kv_heads;
        f->status = of.status;
        if (f->status == CLEF_OK && !is_first && (dim != hp->full_head_dim || heads != hp->full_n_kv_heads))
            clef__json_refuse(f, "per_layer_config with several sizes of heads is not supported");
        hp->full_head_dim = dim;
        hp->full_n_kv_heads = heads;
    }
    for (int32_t i = 0; i < hp->n_layers && json_is_object(layers) && f->status == CLEF_OK; i++) {
        char key[16];
        snprintf(key, sizeof key, "%" PRId32, i);
        if (json_object_get(layers, key) && clef__layer_slides(hp, i))
            clef__json_refuse(f, "per_layer_config of a layer with sliding_attention is not supported");
    }
}

/* Each kind of layer has its own head width. Full layers rotate a part of each head by default. */
static void read_rope(clef_json_fields *f, clef_hparams *hp)
{
    const clef_layer_ropes keys = {.full_key = "rope_theta",
                                   .sliding_key = "rope_theta",
                                   .full_head_dim = hp->full_head_dim,
                                   .needs_both = 1};
    if (clef__json_has(f, "rope_parameters")) {
        clef__json_layer_ropes(f, hp, &keys);
        return;
    }
    hp->rope = (clef_rope_params){.type = CLEF_ROPE_PROPORTIONAL,
                                  .dims = hp->full_head_dim,
                                  .n_rotated_pairs = hp->full_head_dim / 8,
                                  .theta = 1000000,
                                  .factor = 1};
    hp->rope_sliding = (clef_rope_params){.dims = hp->head_dim, .theta = 10000};
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->embed_scale = (float)sqrt(hp->d_model);
    hp->attention_scale = 1;
    clef__json_activation(f, hp, "hidden_activation", "gelu_pytorch_tanh");
    hp->logit_softcap = (float)clef__json_double(f, "final_logit_softcapping", 0, 1e6, 0);
    clef__json_window(f, hp, 512);
    if (!clef__json_layer_types(f, hp, NULL))
        clef__slide_but(hp, -1, 6);
    read_full_heads(f, hp);
    read_rope(f, hp);
    hp->d_per_layer_embed = (int32_t)clef__json_int(f, "hidden_size_per_layer_input", 0, CLEF_MAX_WIDTH, 256);
    hp->n_kv_shared_layers =
        (int32_t)clef__json_int(f, "num_kv_shared_layers", 0, hp->n_layers > 0 ? hp->n_layers - 1 : 0, 0);
    hp->double_shared_ff = clef__json_bool(f, "use_double_wide_mlp", 0);
    if (clef__json_bool(f, "enable_moe_block", 0)) {
        hp->n_experts = (int32_t)clef__json_need_int(f, "num_experts", 1, CLEF_MAX_EXPERTS);
        hp->n_experts_used = (int32_t)clef__json_need_int(f, "top_k_experts", 1, CLEF_MAX_EXPERTS_USED);
        hp->d_ff_expert = (int32_t)clef__json_need_int(f, "moe_intermediate_size", 1, CLEF_MAX_WIDTH);
        hp->router = CLEF_ROUTER_NORMED;
    }
    if (clef__json_has(f, "use_bidirectional_attention") &&
        strcmp(clef__json_string(f, "use_bidirectional_attention", ""), "all") == 0)
        clef__json_refuse(f, "use_bidirectional_attention all is not supported");
}

static const char *const varied[] = {"attention.head_count_kv", "feed_forward_length", NULL};

/* Refuses a file whose layers of one kind differ in `key`. */
static void check_layers(clef_gguf_keys *k, const char *key, int32_t layer, int32_t is, int32_t wanted)
{
    if (is != wanted && k->status == CLEF_OK)
        k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED,
                               "%s: key %s.%s is %" PRId32 " in layer %" PRId32 ", expected %" PRId32
                               " as in the other layers of its kind",
                               k->file, k->arch, key, is, layer, wanted);
}

/* Heads of k and v differ between full layers and layers with the window. The feed-forward's width differs
 * between layers with their own keys and layers that read earlier ones. */
static void read_layers(clef_gguf_keys *k, clef_hparams *hp)
{
    int32_t heads[2] = {0, 0}, widths[2] = {0, 0};
    for (int32_t i = 0; i < hp->n_layers && k->status == CLEF_OK; i++) {
        const int slides = clef__layer_slides(hp, i), shares = i >= hp->n_layers - hp->n_kv_shared_layers;
        const int32_t n = clef__key_of_layer(k, varied[0], i, 1, CLEF_MAX_HEADS),
                      d = clef__key_of_layer(k, varied[1], i, 1, CLEF_MAX_WIDTH);
        heads[slides] = heads[slides] ? heads[slides] : n;
        widths[shares] = widths[shares] ? widths[shares] : d;
        check_layers(k, varied[0], i, n, heads[slides]);
        check_layers(k, varied[1], i, d, widths[shares]);
    }
    hp->full_n_kv_heads = heads[0] ? heads[0] : hp->n_kv_heads;
    hp->n_kv_heads = heads[1] ? heads[1] : hp->n_kv_heads;
    hp->double_shared_ff = widths[1] == 2 * hp->d_ff;
    if (widths[1] && !hp->double_shared_ff)
        check_layers(k, varied[1], hp->n_layers - 1, widths[1], hp->d_ff);
}

/* llama.cpp's keys are for full layers, and with the suffix _swa for layers with the window. */
static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->embed_scale = (float)sqrt(hp->d_model);
    hp->attention_scale = 1;
    hp->full_head_dim = hp->head_dim;
    hp->router = CLEF_ROUTER_NORMED;
    hp->head_dim = clef__key_int(k, "attention.key_length_swa", 1, CLEF_MAX_HEAD_DIM, hp->head_dim);
    clef__key_int(k, "attention.value_length_swa", hp->head_dim, hp->head_dim, hp->head_dim);
    hp->rope_sliding = (clef_rope_params){
        .dims = clef__key_int(k, "rope.dimension_count_swa", 2, CLEF_MAX_HEAD_DIM, hp->head_dim),
        .pairing = hp->rope.pairing,
        .theta = clef__key_float(k, "rope.freq_base_swa", 1, 1e12, 10000)};
    clef__key_int(k, "attention.shared_kv_layers", 0, hp->n_layers - 1, 0);
    clef__key_windows(k, hp, -1, 6);
    read_layers(k, hp);
}

const clef_arch clef__arch_gemma4 = {
    .names = gemma4_names,
    .weights = {.hf = gemma4_weights},
    .hf_prefix = "model.",
    .read_json = read_json,
    .gguf_varied = varied,
    .read_gguf = read_gguf,
    .gguf_activation = CLEF_GELU_TANH,
    .build = build,
};
