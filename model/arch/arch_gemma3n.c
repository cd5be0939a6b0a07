/* Gemma 3n (Google 2025): Gemma 4's block before it, within AltUp (arXiv:2301.13310). A layer has several
 * streams [B, T, n, d]: it predicts them all, computes one of them, and corrects the others by the
 * difference. Beside attention there is a projection of low rank (Laurel), and the first layers let through
 * only the largest gates. */
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_arch_alias names[] = {{"gemma3n_text", "gemma3n", 2, 1}, {NULL, NULL, 0, 0}};

static const char *const weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_ATTENTION,
    CLEF_HF_QK_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_EMBED_LAYERS] = "embed_tokens_per_layer",
    [CLEF_W_LAYERS_PROJECTION] = "per_layer_model_projection",
    [CLEF_W_LAYERS_NORM] = "per_layer_projection_norm",
    [CLEF_W_ALTUP_PROJECTION] = "altup_projections.*",
    [CLEF_W_ALTUP_JOIN] = "altup_unembed_projections.*",
    [CLEF_W_ALTUP_CORRECT] = "layers.%d.altup.correction_coefs",
    [CLEF_W_ALTUP_SCALE] = "layers.%d.altup.correct_output_scale",
    [CLEF_W_ALTUP_PREDICT] = "layers.%d.altup.prediction_coefs",
    [CLEF_W_ALTUP_ROUTER] = "layers.%d.altup.modality_router",
    [CLEF_W_ALTUP_NORM] = "layers.%d.altup.router_norm",
    [CLEF_W_LAUREL_IN] = "layers.%d.laurel.linear_left",
    [CLEF_W_LAUREL_OUT] = "layers.%d.laurel.linear_right",
    [CLEF_W_LAUREL_NORM] = "layers.%d.laurel.post_laurel_norm",
    [CLEF_W_ATTN_NORM] = "layers.%d.input_layernorm",
    [CLEF_W_ATTN_POST_NORM] = "layers.%d.post_attention_layernorm",
    [CLEF_W_FFN_NORM] = "layers.%d.pre_feedforward_layernorm",
    [CLEF_W_FFN_POST_NORM] = "layers.%d.post_feedforward_layernorm",
    [CLEF_W_LAYER_GATE] = "layers.%d.per_layer_input_gate",
    [CLEF_W_LAYER_PROJECTION] = "layers.%d.per_layer_projection",
    [CLEF_W_LAYER_NORM] = "layers.%d.post_per_layer_input_norm",
};

/* ---- streams ------------------------------------------------------------------------------------ */

static clef_value *mean_square(clef_builder *b, clef_value *x)
{
    return clef_reduce(b->g, clef_square(b->g, x), &(clef_reduce_opts){.kind = CLEF_REDUCE_MEAN});
}

/* x [.., d] with the root mean square of like [.., 1]. */
static clef_value *as_large(clef_builder *b, clef_value *x, clef_value *size)
{
    const float least = 1e-5f;
    clef_graph *g = b->g;
    clef_value *own = clef_affine(g, mean_square(b, x), &(clef_affine_opts){.scale = 1, .shift = -least});
    own = clef_affine(g, clef_relu(g, own), &(clef_affine_opts){.scale = 1, .shift = least});
    return clef_mul(g, x, clef_div(g, size, clef_sqrt(g, own)));
}

/* Streams x [B, n - 1 or 1, T, d] times the matrices of all but the first, with the size of the first. */
static clef_value *projected(clef_builder *b, clef_value *x, clef_value *first, clef_role role)
{
    const clef_dim d = clef_n(b->hp->d_model);
    clef_value *w =
        clef__role_weight_shaped(b, role, "weight", clef_shape_3(clef_n(b->hp->n_altup - 1), d, d));
    clef_value *size = clef_reshape(b->g, clef_sqrt(b->g, mean_square(b, first)),
                                    clef_shape_4(b->B, clef_n(1), b->T, clef_n(1)));
    return as_large(b, clef_matmul(b->g, x, w, NULL, &(clef_matmul_opts){.transpose_b = 1}), size);
}

static clef_value *stream(clef_builder *b, clef_value *x, int32_t i)
{
    return clef_reshape(b->g, clef__part(b, x, 2, i, 1), clef_shape_3(b->B, b->T, clef_n(b->hp->d_model)));
}

static clef_value *streams_first(clef_builder *b, clef_value *x)
{
    return clef_permute(b->g, x, &(clef_permute_opts){{0, 2, 1, 3}});
}

/* Embeddings [B, T, d] -> all streams. */
static clef_value *spread(clef_builder *b, clef_value *x)
{
    const clef_dim d = clef_n(b->hp->d_model), one = clef_n(1);
    clef_value *more =
        projected(b, clef_reshape(b->g, x, clef_shape_4(b->B, one, b->T, d)), x, CLEF_W_ALTUP_PROJECTION);
    return clef_concat(b->g, clef_reshape(b->g, x, clef_shape_4(b->B, b->T, one, d)), streams_first(b, more),
                       &(clef_concat_opts){.axis = 2});
}

/* All streams -> their mean [B, T, d]. */
static clef_value *joined(clef_builder *b, clef_value *x)
{
    const int32_t n = b->hp->n_altup, d = b->hp->d_model;
    clef_value *first = stream(b, x, 0), *sum = first;
    clef_value *more =
        projected(b, streams_first(b, clef__part(b, x, 2, 1, n - 1)), first, CLEF_W_ALTUP_JOIN);
    for (int32_t i = 0; i + 1 < n; i++)
        sum = clef_add(b->g, sum,
                       clef_reshape(b->g, clef__part(b, more, 1, i, 1), clef_shape_3(b->B, b->T, clef_n(d))));
    return clef__name_value(b, clef__scaled(b, sum, 1 / (float)n), "altup.joined");
}

/* What predictions and corrections are made by: [B, T, n]. */
static clef_value *routed(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model;
    x = clef__scaled(b, clef__norm(b, x, CLEF_W_ALTUP_NORM), 1 / (float)d);
    return clef_tanh(b->g, clef__linear(b, x, CLEF_W_ALTUP_ROUTER, d, b->hp->n_altup));
}

static clef_value *predicted(clef_builder *b, clef_value *x)
{
    const int32_t n = b->hp->n_altup;
    clef_value *by =
        clef__linear(b, routed(b, stream(b, x, b->hp->altup_active)), CLEF_W_ALTUP_PREDICT, n, n * n);
    by = clef_reshape(b->g, by, clef_shape_4(b->B, b->T, clef_n(n), clef_n(n)));
    return clef__name_value(b, clef_add(b->g, clef_matmul(b->g, by, x, NULL, NULL), x), "altup.predicted");
}

static clef_value *corrected(clef_builder *b, clef_value *x, clef_value *active, clef_value *y)
{
    const int32_t n = b->hp->n_altup, d = b->hp->d_model;
    clef_value *by = clef__linear(b, routed(b, y), CLEF_W_ALTUP_CORRECT, n, n);
    by = clef_reshape(b->g, clef_affine(b->g, by, &(clef_affine_opts){.scale = 1, .shift = 1}),
                      clef_shape_4(b->B, b->T, clef_n(n), clef_n(1)));
    y = clef_reshape(b->g, clef_sub(b->g, y, active), clef_shape_4(b->B, b->T, clef_n(1), clef_n(d)));
    return clef__name_value(b, clef_add(b->g, x, clef_mul(b->g, y, by)), "altup.corrected");
}

/* ---- layers ------------------------------------------------------------------------------------- */

static clef_value *attention(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t Hk = hp->n_kv_heads;
    clef_value *q = clef__heads(b, x, CLEF_W_ATTN_Q, CLEF_W_ATTN_Q_NORM, hp->n_heads);
    q = clef__layer_rope(b, q, "attn.q_rope");
    if (b->layer >= hp->n_layers - hp->n_kv_shared_layers) {
        x = clef__shared_attention(b, q);
    } else {
        clef_value *k = clef__heads(b, x, CLEF_W_ATTN_K, CLEF_W_ATTN_K_NORM, Hk);
        clef_value *v = clef_rms_norm(b->g, clef__heads(b, x, CLEF_W_ATTN_V, CLEF_N_ROLES, Hk), NULL,
                                      &(clef_norm_opts){.eps = hp->norm_eps});
        x = clef__self_attention(b, q, clef__layer_rope(b, k, "attn.k_rope"),
                                 clef__name_value(b, v, "attn.v_norm"));
    }
    return clef__linear(b, x, CLEF_W_ATTN_OUT, hp->n_heads * hp->head_dim, hp->d_model);
}

/* Lets through what is above the mean by so many standard deviations, in layers that do so. */
static clef_value *sparse(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    if (!(hp->sparse_layers[b->layer / 32] >> (b->layer % 32) & 1))
        return x;
    x = clef_sub(b->g, x, clef_reduce(b->g, x, &(clef_reduce_opts){.kind = CLEF_REDUCE_MEAN}));
    clef_value *least =
        clef_affine(b->g, clef_sqrt(b->g, mean_square(b, x)), &(clef_affine_opts){.scale = hp->sparsity});
    return clef_relu(b->g, clef_sub(b->g, x, least));
}

static clef_value *feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    clef_value *gate = sparse(b, clef__linear(b, x, CLEF_W_FFN_GATE, d, d_ff));
    return clef__gated_down(b, gate, clef__linear(b, x, CLEF_W_FFN_UP, d, d_ff));
}

/* x and its projection of low rank. */
static clef_value *laurel(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, rank = b->hp->laurel_rank;
    clef_value *y = clef__linear(b, x, CLEF_W_LAUREL_IN, d, rank);
    return clef_add(b->g, x,
                    clef__norm(b, clef__linear(b, y, CLEF_W_LAUREL_OUT, rank, d), CLEF_W_LAUREL_NORM));
}

/* Adds the layer's part of the per-layer embedding to all streams but the first. */
static clef_value *with_layer_embed(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    const int32_t d = hp->d_model, p = hp->d_per_layer_embed, n = hp->n_altup;
    clef_value *y = stream(b, x, hp->altup_active);
    if (hp->altup_scaled)
        y = clef_mul(
            g, y,
            clef__role_weight_shaped(b, CLEF_W_ALTUP_SCALE, clef__bare_suffix(b), clef_shape_1(clef_n(d))));
    clef_value *own =
        clef_reshape(g, clef__part(b, b->layer_embed, 2, b->layer, 1), clef_shape_3(b->B, b->T, clef_n(p)));
    y = clef_mul(g, clef__activation(b, clef__linear(b, y, CLEF_W_LAYER_GATE, d, p)), own);
    y = clef__linear(b, clef__name_value(b, y, "per_layer.act"), CLEF_W_LAYER_PROJECTION, p, d);
    y = clef_reshape(g, clef__norm(b, y, CLEF_W_LAYER_NORM), clef_shape_4(b->B, b->T, clef_n(1), clef_n(d)));
    y = clef_add(g, clef__part(b, x, 2, 1, n - 1), y);
    return clef_concat(g, clef__part(b, x, 2, 0, 1), y, &(clef_concat_opts){.axis = 2});
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    clef_value *streams = predicted(b, x), *active = stream(b, streams, b->hp->altup_active);
    clef_value *normed = clef__norm(b, active, CLEF_W_ATTN_NORM);
    clef_value *beside = laurel(b, normed);
    x = clef_add(b->g, active, clef__norm(b, attention(b, normed), CLEF_W_ATTN_POST_NORM));
    x = clef__name_value(b, clef__scaled(b, clef_add(b->g, x, beside), sqrtf(0.5f)), "attn_residual");
    clef_value *y = feed_forward(b, clef__norm(b, x, CLEF_W_FFN_NORM));
    x = clef__add_residual(b, x, clef__norm(b, y, CLEF_W_FFN_POST_NORM), "mlp_residual");
    return with_layer_embed(b, corrected(b, streams, active, x));
}

static clef_value *build(clef_builder *b)
{
    clef_value *x = clef__embed(b);
    b->layer_embed = clef__per_layer_embed(b, x);
    x = clef__layers(b, spread(b, x), b->hp->n_layers, layer);
    b->layer = -1;
    x = clef__wanted_positions(b, joined(b, x));
    return clef__lm_head(b, clef__norm(b, x, CLEF_W_OUT_NORM));
}

/* ---- configuration ------------------------------------------------------------------------------ */

/* The quantile of a normal distribution: the x of which a share p lies below. */
static double quantile(double p)
{
    double lo = -10, hi = 10;
    for (int i = 0; i < 80; i++) {
        const double x = (lo + hi) / 2;
        *(0.5 * (1 + erf(x / sqrt(2))) < p ? &lo : &hi) = x;
    }
    return (lo + hi) / 2;
}

/* Notes a layer's share of gates that are dropped; all layers that drop some have one. */
static int note_sparsity(clef_hparams *hp, int32_t layer, float by)
{
    const int is_first = hp->sparsity == 0;
    if (is_first)
        hp->sparsity = by;
    hp->sparse_layers[layer / 32] |= 1u << (layer % 32);
    return is_first || fabsf(hp->sparsity - by) <= 1e-6f * fabsf(by);
}

static void read_sparsity(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *list = clef__json_get(f, "activation_sparsity_pattern");
    const int has = clef__json_has(f, "activation_sparsity_pattern");
    if (has && json_array_size(list) != (size_t)hp->n_layers)
        clef__json_refuse(f, "activation_sparsity_pattern: expected a number for each layer");
    for (int32_t i = 0; i < hp->n_layers && f->status == CLEF_OK; i++) {
        const double p = has                           ? json_number_value(json_array_get(list, (size_t)i))
                         : hp->n_layers > 10 && i < 10 ? 0.95
                                                       : 0;
        if (p < 0 || p >= 1 || (p > 0 && !note_sparsity(hp, i, (float)quantile(p))))
            clef__json_refuse(f, "activation_sparsity_pattern: expected 0 and one number below 1");
    }
}

/* A number, or a list of equal ones. */
static void read_width(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *value = clef__json_get(f, "intermediate_size"), *first = json_array_get(value, 0);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_equal((json_t *)(uintptr_t)first, json_array_get(value, i)))
            clef__json_refuse(f, "intermediate_size that differs from layer to layer is not supported");
    if (json_is_array(value) && json_array_size(value) != (size_t)hp->n_layers)
        clef__json_refuse(f, "intermediate_size: expected a number for each layer");
    if (!json_is_array(value))
        hp->d_ff = (int32_t)clef__json_int(f, "intermediate_size", 1, CLEF_MAX_WIDTH, 16384);
    else if (json_integer_value(first) >= 1 && json_integer_value(first) <= CLEF_MAX_WIDTH)
        hp->d_ff = (int32_t)json_integer_value(first);
    else
        clef__json_refuse(f, "intermediate_size: expected numbers above 0");
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    static const clef_layer_ropes ropes = {.full_key = "rope_theta",
                                           .sliding_key = "rope_local_base_freq",
                                           .full_theta = 1000000,
                                           .sliding_theta = 10000};
    clef__json_widths(f, hp);
    read_width(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-6);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->embed_scale = (float)sqrt(hp->d_model);
    hp->attention_scale = 1;
    clef__json_activation(f, hp, "hidden_activation", "gelu_pytorch_tanh");
    hp->logit_softcap = (float)clef__json_double(f, "final_logit_softcapping", 0, 1e6,
                                                 clef__json_get(f, "final_logit_softcapping") ? 0 : 30);
    clef__json_window(f, hp, 512);
    if (!clef__json_layer_types(f, hp, NULL))
        clef__slide_but(hp, -1, 5);
    clef__json_layer_ropes(f, hp, &ropes);
    const int32_t most = hp->n_layers > 0 ? hp->n_layers - 1 : 0;
    hp->n_kv_shared_layers = (int32_t)clef__json_int(f, "num_kv_shared_layers", 0, most, 15);
    hp->d_per_layer_embed = (int32_t)clef__json_int(f, "hidden_size_per_layer_input", 1, CLEF_MAX_WIDTH, 256);
    hp->n_altup = (int32_t)clef__json_int(f, "altup_num_inputs", 2, 64, 4);
    hp->altup_active = (int32_t)clef__json_int(f, "altup_active_idx", 0, hp->n_altup - 1, 0);
    hp->altup_scaled = clef__json_bool(f, "altup_correct_scale", 1);
    hp->laurel_rank = (int32_t)clef__json_int(f, "laurel_rank", 1, CLEF_MAX_WIDTH, 64);
    read_sparsity(f, hp);
}

static const char *const varied[] = {"activation_sparsity_scale", NULL};

/* The number of standard deviations of each layer; that of none is infinite. */
static void read_scales(clef_gguf_keys *k, clef_hparams *hp)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", k->arch, varied[0]);
    const clef_gguf_entry *e = clef__gguf_find(k->gguf, name);
    clef__key_has(k, varied[0]);
    for (int32_t i = 0; i < hp->n_layers && k->status == CLEF_OK; i++) {
        const double by = !e ? (i < 10 ? quantile(0.95) : -INFINITY)
                          : e->type != CLEF_GGUF_STRING && (uint64_t)i < e->n
                              ? clef__gguf_item_float(e, (uint64_t)i)
                              : NAN;
        if (by != by || (by > -1e30 && !note_sparsity(hp, i, (float)by)))
            k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED,
                                   "%s: key %s: expected a number for each layer, and one for all that are "
                                   "finite",
                                   k->file, name);
    }
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    const clef_tensor_info *rank = clef__gguf_tensor(k->gguf, "blk.0.laurel_l.weight");
    hp->embed_scale = (float)sqrt(hp->d_model);
    hp->attention_scale = 1;
    hp->logit_softcap = (float)clef__key_float(k, "final_logit_softcapping", 0, 1e6, 30);
    hp->n_altup = clef__key_int(k, "altup.num_inputs", 2, 64, 4);
    hp->altup_active = clef__key_int(k, "altup.active_idx", 0, hp->n_altup - 1, 0);
    hp->altup_scaled = 1;
    hp->laurel_rank = rank && rank->rank == 2 ? (int32_t)rank->dims[0] : 64;
    hp->rope_sliding = (clef_rope_params){.dims = hp->head_dim,
                                          .pairing = hp->rope.pairing,
                                          .theta = clef__key_float(k, "rope.freq_base_swa", 1, 1e12, 10000)};
    clef__key_windows(k, hp, -1, 5);
    read_scales(k, hp);
}

const clef_arch clef__arch_gemma3n = {
    .names = names,
    .weights = {.hf = weights},
    .hf_prefix = "model.",
    .read_json = read_json,
    .gguf_varied = varied,
    .read_gguf = read_gguf,
    .gguf_activation = CLEF_GELU_TANH,
    .build = build,
};
