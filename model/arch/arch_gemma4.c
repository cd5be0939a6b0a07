/* Gemma 4 (Google 2026): Gemma 3's block with wider heads in the layers that see everything, of which a part
 * turns, values normed too, and (the smaller ones) a vector of each layer for each token, and last layers
 * that read the keys and values of earlier ones. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_arch_alias gemma4_names[] = {{"gemma4_text", "gemma4", 2, 1}, {NULL, NULL, 0, 0}};

static const clef_weight_name gemma4_weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = {"embed_tokens", "token_embd"},
    [CLEF_W_EMBED_LAYERS] = {"embed_tokens_per_layer", "per_layer_token_embd"},
    [CLEF_W_LAYERS_PROJECTION] = {"per_layer_model_projection", "per_layer_model_proj"},
    [CLEF_W_LAYERS_NORM] = {"per_layer_projection_norm", "per_layer_proj_norm"},
    [CLEF_W_ATTN_NORM] = {"layers.%d.input_layernorm", "blk.%d.attn_norm"},
    [CLEF_W_ATTN_Q] = {"layers.%d.self_attn.q_proj", "blk.%d.attn_q"},
    [CLEF_W_ATTN_K] = {"layers.%d.self_attn.k_proj", "blk.%d.attn_k"},
    [CLEF_W_ATTN_V] = {"layers.%d.self_attn.v_proj", "blk.%d.attn_v"},
    [CLEF_W_ATTN_Q_NORM] = {"layers.%d.self_attn.q_norm", "blk.%d.attn_q_norm"},
    [CLEF_W_ATTN_K_NORM] = {"layers.%d.self_attn.k_norm", "blk.%d.attn_k_norm"},
    [CLEF_W_ATTN_OUT] = {"layers.%d.self_attn.o_proj", "blk.%d.attn_output"},
    [CLEF_W_ATTN_POST_NORM] = {"layers.%d.post_attention_layernorm", "blk.%d.post_attention_norm"},
    [CLEF_W_FFN_NORM] = {"layers.%d.pre_feedforward_layernorm", "blk.%d.ffn_norm"},
    [CLEF_W_FFN_GATE] = {"layers.%d.mlp.gate_proj", "blk.%d.ffn_gate"},
    [CLEF_W_FFN_UP] = {"layers.%d.mlp.up_proj", "blk.%d.ffn_up"},
    [CLEF_W_FFN_DOWN] = {"layers.%d.mlp.down_proj", "blk.%d.ffn_down"},
    [CLEF_W_FFN_POST_NORM] = {"layers.%d.post_feedforward_layernorm", "blk.%d.post_ffw_norm"},
    [CLEF_W_LAYER_GATE] = {"layers.%d.per_layer_input_gate", "blk.%d.inp_gate"},
    [CLEF_W_LAYER_PROJECTION] = {"layers.%d.per_layer_projection", "blk.%d.proj"},
    [CLEF_W_LAYER_NORM] = {"layers.%d.post_per_layer_input_norm", "blk.%d.post_norm"},
    [CLEF_W_LAYER_SCALE] = {"layers.%d.layer_scalar", "blk.%d.layer_output_scale"},
    [CLEF_W_OUT_NORM] = {"norm", "output_norm"},
    [CLEF_W_OUT] = {"lm_head", "output"},
};

/* ---- the graph
 * ------------------------------------------------------------------------------------------------------------------------
 */

/* What each layer is told about each token [B, T, layers, p]: a row of a table, and a projection of the
 * embedding x. */
static clef_value *layer_inputs(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    const int32_t L = hp->n_layers, p = hp->d_per_layer_embed;
    const clef_shape shape = clef_shape_4(b->B, b->T, clef_n(L), clef_n(p));
    clef_value *table = clef__weight(b, CLEF_W_EMBED_LAYERS, "weight");
    clef_value *own = clef__scaled(b, clef_gather(g, table, b->ids, NULL), sqrtf((float)p));
    clef_value *seen = clef__scaled(b, clef__linear(b, x, CLEF_W_LAYERS_PROJECTION, hp->d_model, L * p),
                                    1 / sqrtf((float)hp->d_model));
    seen = clef__rms_norm(b, clef_reshape(g, seen, shape), CLEF_W_LAYERS_NORM);
    return clef__scaled(b, clef_add(g, seen, clef_reshape(g, own, shape)), sqrtf(0.5f));
}

/* Adds to x what the layer makes of its own input. */
static clef_value *add_layer_input(clef_builder *b, clef_value *x, clef_value *inputs)
{
    clef_graph *g = b->g;
    const int32_t d = b->hp->d_model, p = b->hp->d_per_layer_embed;
    clef_value *own =
        clef_slice(g, inputs, &(clef_slice_opts){.axis = 2, .start = b->layer, .size = clef_n(1)});
    own = clef_reshape(g, own, clef_shape_3(b->B, b->T, clef_n(p)));
    clef_value *y = clef_mul(g, clef__activation(b, clef__linear(b, x, CLEF_W_LAYER_GATE, d, p)), own);
    return clef_add(g, x,
                    clef__rms_norm(b, clef__linear(b, y, CLEF_W_LAYER_PROJECTION, p, d), CLEF_W_LAYER_NORM));
}

static int reads_earlier_keys(const clef_builder *b)
{
    return b->layer >= b->hp->n_layers - b->hp->n_kv_shared_layers;
}

static clef_value *attention(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t H = hp->n_heads, Hk = hp->n_kv_heads, D = hp->head_dim;
    clef_value *q = clef__rope(b, clef__heads(b, x, CLEF_W_ATTN_Q, CLEF_W_ATTN_Q_NORM, H));
    if (reads_earlier_keys(b)) {
        x = clef__shared_attention(b, q);
    } else {
        const clef_role v_role =
            clef__weight_optional(b, CLEF_W_ATTN_V, "weight") ? CLEF_W_ATTN_V : CLEF_W_ATTN_K;
        clef_value *v = clef__heads(b, x, v_role, CLEF_N_ROLES, Hk);
        v = clef_rms_norm(b->g, v, NULL, &(clef_norm_opts){.eps = hp->norm_eps});
        x = clef__self_attention(b, q,
                                 clef__rope(b, clef__heads(b, x, CLEF_W_ATTN_K, CLEF_W_ATTN_K_NORM, Hk)), v);
    }
    return clef__linear(b, x, CLEF_W_ATTN_OUT, H * D, hp->d_model);
}

static clef_value *block(clef_builder *b, clef_value *x, clef_value *inputs)
{
    clef_graph *g = b->g;
    clef_value *y = attention(b, clef__rms_norm(b, x, CLEF_W_ATTN_NORM));
    x = clef_add(g, x, clef__rms_norm(b, y, CLEF_W_ATTN_POST_NORM));
    y = clef__gated_feed_forward(b, clef__rms_norm(b, x, CLEF_W_FFN_NORM));
    x = clef_add(g, x, clef__rms_norm(b, y, CLEF_W_FFN_POST_NORM));
    if (inputs)
        x = add_layer_input(b, x, inputs);
    clef_value *scale = clef__weight_optional(b, CLEF_W_LAYER_SCALE, b->model->is_gguf ? "weight" : "");
    return scale ? clef_mul(g, x, scale) : x;
}

static clef_value *build(clef_builder *b)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    clef_hparams own = *hp; /* the layer's */
    clef_value *x = clef__embed(b), *inputs = hp->d_per_layer_embed ? layer_inputs(b, x) : NULL;
    b->hp = &own;
    for (b->layer = 0; b->layer < hp->n_layers; b->layer++) {
        const int slides = clef__layer_slides(hp, b->layer);
        own.head_dim = slides ? hp->head_dim : hp->full_head_dim;
        own.n_kv_heads = slides ? hp->n_kv_heads : hp->full_n_kv_heads;
        own.d_ff = hp->d_ff * (hp->double_shared_ff && reads_earlier_keys(b) ? 2 : 1);
        clef_scope_push(g, "layer%d", b->layer);
        x = clef_named(block(b, x, inputs), "out");
        clef_scope_pop(g);
    }
    b->hp = hp;
    return clef__lm_head(b, clef__rms_norm(b, clef__wanted_positions(b, x), CLEF_W_OUT_NORM));
}

/* ---- configuration
 * --------------------------------------------------------------------------------------------------------------------
 */

/* Heads of the full layers: under keys of their own, or told layer by layer. */
static void read_full_heads(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *layers = json_object_get(f->object, "per_layer_config"), *layer;
    const char *number;
    const int equal = clef__json_bool(f, "attention_k_eq_v", 0);
    hp->full_head_dim = (int32_t)clef__json_int(f, "global_head_dim", 1, CLEF_MAX_HEAD_DIM,
                                                json_is_object(layers) ? hp->head_dim : 512);
    hp->full_n_kv_heads =
        equal ? (int32_t)clef__json_int(f, "num_global_key_value_heads", 1, CLEF_MAX_HEADS, hp->n_kv_heads)
              : hp->n_kv_heads;
    json_object_foreach((json_t *)layers, number, layer)
    {
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

/* Each kind of layer with its own width of heads. */
static void read_rope(clef_json_fields *f, clef_hparams *hp)
{
    const int32_t narrow = hp->head_dim;
    clef__json_rope(f, hp, 10000, 1);
    const clef_rope_params sliding = hp->rope_sliding.dims ? hp->rope_sliding : hp->rope;
    hp->head_dim = hp->full_head_dim;
    clef__json_rope(f, hp, 1000000, 1);
    hp->head_dim = narrow;
    hp->rope_sliding = sliding;
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
    hp->sliding_window = (int32_t)clef__json_int(f, "sliding_window", 1, CLEF_MAX_CONTEXT, 512);
    if (!clef__json_layer_types(f, hp, NULL))
        clef__slide_but(hp, -1, 6);
    read_full_heads(f, hp);
    read_rope(f, hp);
    hp->d_per_layer_embed = (int32_t)clef__json_int(f, "hidden_size_per_layer_input", 0, CLEF_MAX_WIDTH, 256);
    hp->n_kv_shared_layers =
        (int32_t)clef__json_int(f, "num_kv_shared_layers", 0, hp->n_layers > 0 ? hp->n_layers - 1 : 0, 0);
    hp->double_shared_ff = clef__json_bool(f, "use_double_wide_mlp", 0);
    clef__json_refuse_flag(f, "enable_moe_block", 0, 0);
    if (clef__json_has(f, "use_bidirectional_attention") &&
        strcmp(clef__json_string(f, "use_bidirectional_attention", ""), "all") == 0)
        clef__json_refuse(f, "use_bidirectional_attention all is not supported");
}

/* llama.cpp's keys: of the full layers, and with _swa behind them of those with a window. */
static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->embed_scale = (float)sqrt(hp->d_model);
    hp->attention_scale = 1;
    hp->activation = CLEF_GELU_TANH;
    hp->full_head_dim = hp->head_dim;
    hp->full_n_kv_heads = hp->n_kv_heads;
    hp->head_dim = clef__key_int(k, "attention.key_length_swa", 1, CLEF_MAX_HEAD_DIM, hp->head_dim);
    hp->rope_sliding = (clef_rope_params){
        .dims = clef__key_int(k, "rope.dimension_count_swa", 2, CLEF_MAX_HEAD_DIM, hp->head_dim),
        .pairing = hp->rope.pairing,
        .theta = clef__key_float(k, "rope.freq_base_swa", 1, 1e12, 10000)};
    hp->d_per_layer_embed = clef__key_int(k, "embedding_length_per_layer_input", 0, CLEF_MAX_WIDTH, 0);
    hp->n_kv_shared_layers = clef__key_int(k, "attention.shared_kv_layers", 0, hp->n_layers - 1, 0);
    clef__key_windows(k, hp, -1, 6);
}

const clef_arch clef__arch_gemma4 = {
    .names = gemma4_names,
    .weights = gemma4_weights,
    .hf_prefix = "model.",
    .read_json = read_json,
    .read_gguf = read_gguf,
    .build = build,
};
