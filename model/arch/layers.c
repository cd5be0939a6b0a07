/* Embedding, projections, norms, attention over the cache, and the head. */
#include "model/arch/layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/value.h"
#include "model/open/model.h"

enum { NAME_BYTES = 192 };

/* ---- weights by role
 * -------------------------------------------------------------------------------------------------------------
 */

/* The file's tensor for a role, NULL if it has none; `name` is what was looked for ("" when the table has no
 * name for it). */
static const clef_tensor_info *find_tensor(const clef_builder *b, clef_role role, const char *suffix,
                                           char name[NAME_BYTES])
{
    const clef_weight_name *names = &b->weights[role];
    const char *form = b->model->is_gguf ? names->gguf : names->hf,
               *prefix = b->model->is_gguf ? "" : b->arch->hf_prefix;
    *name = 0;
    if (!form)
        return NULL;
    if (*form == '/') {
        form++;
        prefix = "";
    }
    const char *layer = strstr(form, "%d"), *dot = *suffix ? "." : "";
    if (layer)
        snprintf(name, NAME_BYTES, "%s%.*s%d%s%s%s", prefix, (int)(layer - form), form, b->layer, layer + 2,
                 dot, suffix);
    else
        snprintf(name, NAME_BYTES, "%s%s%s%s", role == CLEF_W_OUT ? "" : prefix, form, dot, suffix);
    const clef_tensor_info *t = clef__model_find(b->model, name);
    const size_t n = strlen(prefix);
    return t || strncmp(name, prefix, n) != 0
               ? t
               : clef__model_find(b->model, name + n); /* a folder of the base model has no prefix */
}

clef_value *clef__weight_optional(clef_builder *b, clef_role role, const char *suffix)
{
    char name[NAME_BYTES];
    const clef_tensor_info *t = find_tensor(b, role, suffix, name);
    if (!t)
        return NULL;
    clef_shape shape = {.rank = t->rank};
    for (int32_t i = 0; i < t->rank; i++)
        shape.dim[i] = clef_n(t->dims[i]);
    return clef_weight(b->g, t->name, t->dtype, shape);
}

clef_value *clef__weight(clef_builder *b, clef_role role, const char *suffix)
{
    char name[NAME_BYTES];
    if (find_tensor(b, role, suffix, name))
        return clef__weight_optional(b, role, suffix);
    return clef__graph_fail(b->g, CLEF_E_NOT_FOUND, "%s: the weight %s is missing", clef_model_path(b->model),
                            name);
}

/* Fails when w is not of the shape that the hyperparameters say. */
static clef_value *shaped(clef_builder *b, clef_value *w, clef_shape wanted)
{
    char a[96], c[96];
    if (!w || clef__shape_equal(&w->shape, &wanted))
        return w;
    return clef__graph_fail(b->g, CLEF_E_SHAPE, "%s: the weight %s is %s, the hyperparameters say %s",
                            clef_model_path(b->model), w->name, clef__shape_text(b->g, &w->shape, a),
                            clef__shape_text(b->g, &wanted, c));
}

clef_value *clef__weight_shaped(clef_builder *b, clef_role role, const char *suffix, clef_shape wanted)
{
    return shaped(b, clef__weight(b, role, suffix), wanted);
}

/* ---- the pieces
 * -------------------------------------------------------------------------------------------------------------------
 */

static int32_t embedding_width(const clef_builder *b)
{
    return b->hp->d_embed ? b->hp->d_embed : b->hp->d_model;
}

static clef_value *embedding_matrix(clef_builder *b)
{
    return shaped(b, clef__weight(b, CLEF_W_EMBED, "weight"),
                  clef_shape_2(clef_n(b->hp->n_vocab), clef_n(embedding_width(b))));
}

clef_value *clef__embed(clef_builder *b)
{
    clef_value *x = clef_named(clef_gather(b->g, embedding_matrix(b), b->ids, NULL), "embed");
    return clef__scaled(b, x, b->hp->embed_scale);
}

clef_value *clef__linear(clef_builder *b, clef_value *x, clef_role role, int32_t n_in, int32_t n_out)
{
    const int in_out = b->arch->hf_conv1d && !b->model->is_gguf;
    const clef_dim in = clef_n(n_in), out = clef_n(n_out);
    clef_value *w =
        shaped(b, clef__weight(b, role, "weight"), in_out ? clef_shape_2(in, out) : clef_shape_2(out, in));
    clef_value *y = clef_matmul(b->g, x, w, NULL, &(clef_matmul_opts){.transpose_b = !in_out});
    clef_value *bias = clef__weight_optional(b, role, "bias");
    return bias ? clef_add(b->g, y, shaped(b, bias, clef_shape_1(out))) : y;
}

clef_value *clef__layer_norm(clef_builder *b, clef_value *x, clef_role role)
{
    return clef_layer_norm(b->g, x, clef__weight(b, role, "weight"), clef__weight_optional(b, role, "bias"),
                           &(clef_norm_opts){.eps = b->hp->norm_eps});
}

clef_value *clef__rms_norm(clef_builder *b, clef_value *x, clef_role role)
{
    clef_value *w = clef__weight(b, role, "weight");
    if (b->arch->hf_norm_offset && !b->model->is_gguf)
        w = clef_affine(b->g, w, &(clef_affine_opts){.scale = 1, .shift = 1});
    return clef_rms_norm(b->g, x, w, &(clef_norm_opts){.eps = b->hp->norm_eps});
}

clef_value *clef__add_residual(clef_builder *b, clef_value *x, clef_value *y)
{
    return clef_add(b->g, x, clef__scaled(b, y, b->hp->residual_scale));
}

clef_value *clef__learned_positions(clef_builder *b)
{
    const clef_hparams *hp = b->hp;
    const clef_shape shape =
        clef_shape_2(clef_n((int64_t)hp->n_context + hp->position_offset), clef_n(embedding_width(b)));
    clef_value *table = clef__weight_shaped(b, CLEF_W_POSITIONS, "weight", shape);
    if (!b->pos) /* from 0 on: the rows as they lie */
        return clef_slice(b->g, table,
                          &(clef_slice_opts){.axis = 0, .start = hp->position_offset, .size = b->T});
    if (hp->position_offset)
        table = clef_slice(
            b->g, table,
            &(clef_slice_opts){.axis = 0, .start = hp->position_offset, .size = clef_n(hp->n_context)});
    return clef_gather(b->g, table, clef_positions(b->g, b->pos, &(clef_positions_opts){.length = b->T}),
                       NULL);
}

clef_value *clef__scaled(clef_builder *b, clef_value *x, float scale)
{
    return scale == 0 || scale == 1 ? x : clef_affine(b->g, x, &(clef_affine_opts){.scale = scale});
}

clef_value *clef__activation(clef_builder *b, clef_value *x)
{
    switch (b->hp->activation) {
    case CLEF_GELU:
        return clef_gelu(b->g, x);
    case CLEF_GELU_TANH:
        return clef_gelu_tanh(b->g, x);
    case CLEF_RELU:
        return clef_relu(b->g, x);
    default:
        return clef_silu(b->g, x);
    }
}

clef_value *clef__feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    return clef__linear(b, clef__activation(b, clef__linear(b, x, CLEF_W_FFN_UP, d, d_ff)), CLEF_W_FFN_DOWN,
                        d_ff, d);
}

clef_value *clef__gated_feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    clef_value *gate = clef__activation(b, clef__linear(b, x, CLEF_W_FFN_GATE, d, d_ff));
    return clef__linear(b, clef_mul(b->g, gate, clef__linear(b, x, CLEF_W_FFN_UP, d, d_ff)), CLEF_W_FFN_DOWN,
                        d_ff, d);
}

clef_value *clef__joint_gated_feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    clef_value *both = clef__linear(b, x, CLEF_W_FFN_UP, d, 2 * d_ff);
    clef_value *gate = clef_slice(b->g, both, &(clef_slice_opts){.axis = 2, .size = clef_n(d_ff)});
    clef_value *up =
        clef_slice(b->g, both, &(clef_slice_opts){.axis = 2, .start = d_ff, .size = clef_n(d_ff)});
    return clef__linear(b, clef_mul(b->g, clef__activation(b, gate), up), CLEF_W_FFN_DOWN, d_ff, d);
}

clef_value *clef__split_heads(clef_builder *b, clef_value *x, int32_t n, int32_t head_dim)
{
    return clef_reshape(b->g, x, clef_shape_4(b->B, b->T, clef_n(n), clef_n(head_dim)));
}

/* Appends x [B, T, Hk, D] to the layer's cache and gives the part that this step sees: [B, Hk, S, D]. */
static clef_value *cached(clef_builder *b, clef_value *x, const char *name)
{
    clef_graph *g = b->g;
    char full[NAME_BYTES];
    if (!x)
        return NULL;
    snprintf(full, sizeof full, "layer%d.cache_%s", b->layer, name);
    clef_value *cache =
        clef_state(g, full, b->kv_type,
                   clef_shape_4(clef_n(b->max_B), x->shape.dim[2], clef_n(b->n_context), x->shape.dim[3]));
    x = clef_permute(g, x, &(clef_permute_opts){{0, 2, 1, 3}});
    if (b->order)
        cache = clef_cache_reorder(g, cache, b->order, &(clef_cache_reorder_opts){b->S});
    x = clef_cache_write(g, cache, x, b->pos);
    x = clef_slice(g, x, &(clef_slice_opts){.axis = 0, .size = b->B});
    return clef_slice(g, x, &(clef_slice_opts){.axis = 2, .size = b->S});
}

/* The padding mask and the position biases as one. */
static clef_value *joint_mask(clef_builder *b)
{
    static const float drop_keep[] = {-1e30f, 0}; /* by what the mask says */
    if (!b->mask || !b->bias)
        return b->bias ? b->bias : b->mask;
    if (b->bias->shape.rank == 4) /* joined before */
        return b->bias;
    clef_value *table =
        clef_constant(b->g, "mask.values", CLEF_F32, clef_shape_2(clef_n(2), clef_n(1)), drop_keep);
    clef_value *x =
        clef_gather(b->g, table, clef_reshape(b->g, b->mask, clef_shape_2(b->B, b->S)), NULL); /* [B, S, 1] */
    return b->bias =
               clef_add(b->g, b->bias, clef_reshape(b->g, x, clef_shape_4(b->B, clef_n(1), clef_n(1), b->S)));
}

/* softmax(scale q k^T) v for q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, E], as [B, T, H, E]; the weights
 * get a name. */
static clef_value *attend(clef_builder *b, clef_value *q, clef_value *k, clef_value *v, clef_value *mask,
                          clef_value *pos, clef_value *sinks, clef_softmax_opts opts, const char *name)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    if (!q || !k || !v)
        return NULL;
    const float scale =
        hp->attention_scale != 0 ? hp->attention_scale : 1.0f / sqrtf((float)q->shape.dim[3].n);
    opts.softcap = hp->attention_softcap;
    if (clef_dtype_block_elems(k->dtype) >
        1) { /* no product runs across the blocks of v: only the fused op reads them */
        const clef_attention_opts fused = {
            .scale = scale, .softcap = opts.softcap, .causal = opts.causal, .window = opts.window};
        return clef_attention_with_sinks(g, q, k, v, mask, pos, sinks, &fused);
    }
    clef_value *scores = clef_matmul(g, q, k, NULL, &(clef_matmul_opts){.transpose_b = 1, .alpha = scale});
    clef_value *p = clef_softmax_with_sinks(g, scores, mask, pos, sinks, &opts); /* [B, H, T, S] */
    clef_named(p, name);
    return clef_permute(g, clef_matmul(g, p, v, NULL, NULL), &(clef_permute_opts){{0, 2, 1, 3}});
}

/* [B, T, heads, D] -> [B, heads, T, D] */
static clef_value *heads_first(clef_builder *b, clef_value *x)
{
    return clef_permute(b->g, x, &(clef_permute_opts){{0, 2, 1, 3}});
}

/* The layer's attention sinks, whose name in a folder has nothing behind it; NULL where there are none. */
static clef_value *sinks(clef_builder *b)
{
    return clef__weight_optional(b, CLEF_W_ATTN_SINKS, b->model->is_gguf ? "weight" : "");
}

clef_value *clef__self_attention(clef_builder *b, clef_value *q, clef_value *k, clef_value *v)
{
    if (!q || !k || !v)
        return NULL;
    const int slides = clef__layer_slides(b->hp, b->layer);
    b->seen_k[slides] = b->cached ? cached(b, k, "k") : heads_first(b, k); /* [B, Hk, S, D] */
    b->seen_v[slides] = b->cached ? cached(b, v, "v") : heads_first(b, v);
    return clef__shared_attention(b, q);
}

clef_value *clef__shared_attention(clef_builder *b, clef_value *q)
{
    const int slides = clef__layer_slides(b->hp, b->layer);
    clef_value *k = b->seen_k[slides], *v = b->seen_v[slides];
    if (!q || !k || !v)
        return NULL;
    const int64_t H = q->shape.dim[2].n, E = v->shape.dim[3].n;
    const clef_softmax_opts opts = {.causal = b->causal, .window = slides ? b->hp->sliding_window : 0};
    clef_value *x = attend(b, heads_first(b, q), k, v, joint_mask(b), b->pos, sinks(b), opts, "attention");
    return clef_reshape(b->g, x, clef_shape_3(b->B, b->T, clef_n(H * E)));
}

/* Keys or values of the layer's cross-attention [B, H, S', D]: of the encoder's output, or an input. */
static clef_value *of_memory(clef_builder *b, clef_role role, const char *name)
{
    const int32_t H = b->hp->n_heads, D = b->hp->head_dim;
    char full[NAME_BYTES];
    if (b->memory)
        return heads_first(
            b, clef_reshape(b->g, clef__linear(b, b->memory, role, b->hp->d_model, H * D),
                            clef_shape_4(b->memory->shape.dim[0], b->source, clef_n(H), clef_n(D))));
    snprintf(full, sizeof full, "cross_%s_%d", name, b->layer);
    return clef_input(b->g, full, CLEF_F32, clef_shape_4(clef_n(1), clef_n(H), b->source, clef_n(D)));
}

void clef__cross_outputs(clef_builder *b)
{
    char full[NAME_BYTES];
    for (b->layer = 0; b->layer < b->hp->n_decoder_layers; b->layer++)
        for (int i = 0; i < 2; i++) {
            snprintf(full, sizeof full, "cross_%s_%d", i ? "v" : "k", b->layer);
            clef_output(b->g, full, of_memory(b, i ? CLEF_W_CROSS_V : CLEF_W_CROSS_K, i ? "v" : "k"));
        }
}

clef_value *clef__cross_attention(clef_builder *b, clef_value *x)
{
    const int32_t H = b->hp->n_heads, D = b->hp->head_dim, d = b->hp->d_model;
    clef_value *q = clef__linear(b, x, CLEF_W_CROSS_Q, d, H * D);
    clef_value *k = of_memory(b, CLEF_W_CROSS_K, "k"), *v = of_memory(b, CLEF_W_CROSS_V, "v");
    /* Where the source is an input it is one for all sequences, which stand as queries of it. */
    const clef_dim B = b->memory ? b->B : clef_n(1), T = b->memory ? b->T : b->B;
    q = heads_first(b, clef_reshape(b->g, q, clef_shape_4(B, T, clef_n(H), clef_n(D))));
    x = attend(b, q, k, v, b->memory_mask, NULL, NULL, (clef_softmax_opts){0}, "cross_attention");
    x = clef_reshape(b->g, x, clef_shape_3(b->B, b->T, clef_n(H * D)));
    return clef__linear(b, x, CLEF_W_CROSS_OUT, H * D, d);
}

clef_value *clef__heads(clef_builder *b, clef_value *x, clef_role projection, clef_role norm, int32_t n)
{
    const int32_t D = b->hp->head_dim;
    x = clef__split_heads(b, clef__linear(b, x, projection, b->hp->d_model, n * D), n, D);
    return norm != CLEF_N_ROLES && clef__weight_optional(b, norm, "weight") ? clef__rms_norm(b, x, norm) : x;
}

/* Heads first .. first + n - 1 of x [.., heads, D]. */
static clef_value *some_heads(clef_builder *b, clef_value *x, int32_t first, int32_t n)
{
    return clef_slice(b->g, x, &(clef_slice_opts){.axis = 2, .start = first, .size = clef_n(n)});
}

clef_qkv clef__split_qkv(clef_builder *b, clef_value *x, clef_qkv_order order)
{
    const int32_t H = b->hp->n_heads, Hk = b->hp->n_kv_heads, D = b->hp->head_dim, r = H / Hk;
    if (!x)
        return (clef_qkv){NULL, NULL, NULL};
    if (order == CLEF_QKV_PARTS) {
        x = clef__split_heads(b, x, H + 2 * Hk, D);
        return (clef_qkv){some_heads(b, x, 0, H), some_heads(b, x, H, Hk), some_heads(b, x, H + Hk, Hk)};
    }
    clef_dim groups = b->T; /* T groups of r + 2 heads for each head of k */
    groups.n *= Hk;
    x = clef_reshape(b->g, x, clef_shape_4(b->B, groups, clef_n(r + 2), clef_n(D)));
    return (clef_qkv){
        clef_reshape(b->g, some_heads(b, x, 0, r), clef_shape_4(b->B, b->T, clef_n(H), clef_n(D))),
        clef_reshape(b->g, some_heads(b, x, r, 1), clef_shape_4(b->B, b->T, clef_n(Hk), clef_n(D))),
        clef_reshape(b->g, some_heads(b, x, r + 1, 1), clef_shape_4(b->B, b->T, clef_n(Hk), clef_n(D)))};
}

static clef_qkv project_qkv(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    if (clef__weight_optional(b, CLEF_W_ATTN_QKV, "weight"))
        return clef__split_qkv(b,
                               clef__linear(b, x, CLEF_W_ATTN_QKV, hp->d_model,
                                            (hp->n_heads + 2 * hp->n_kv_heads) * hp->head_dim),
                               CLEF_QKV_PARTS);
    return (clef_qkv){clef__heads(b, x, CLEF_W_ATTN_Q, CLEF_W_ATTN_Q_NORM, hp->n_heads),
                      clef__heads(b, x, CLEF_W_ATTN_K, CLEF_W_ATTN_K_NORM, hp->n_kv_heads),
                      clef__heads(b, x, CLEF_W_ATTN_V, CLEF_N_ROLES, hp->n_kv_heads)};
}

void clef__enter_decoder(clef_builder *b)
{
    b->weights = b->arch->decoder_weights;
    b->causal = 1;
    b->bias = NULL;
}

/* The table [n_context, d], made once for both stacks. */
static clef_value *sinusoids(clef_builder *b, int32_t offset)
{
    const int32_t n = b->n_context, d = b->hp->d_model, half = d / 2;
    float *table = malloc((size_t)n * (size_t)d * sizeof *table);
    if (!table)
        return clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for %d positions",
                                clef_model_path(b->model), n);
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < half; i++) {
            const double rate = offset ? exp(-log(10000) * i / (half - 1)) : pow(10000, -2.0 * i / d);
            table[(size_t)t * (size_t)d + (size_t)i] = (float)sin((t + offset) * rate);
            table[(size_t)t * (size_t)d + (size_t)(half + i)] = (float)cos((t + offset) * rate);
        }
    clef_value *x = clef_constant(b->g, "positions", CLEF_F32, clef_shape_2(clef_n(n), clef_n(d)), table);
    free(table);
    return x;
}

clef_value *clef__sinusoidal_positions(clef_builder *b, int32_t offset)
{
    if (!b->sinusoids)
        b->sinusoids = sinusoids(b, offset);
    return b->pos ? clef_gather(b->g, b->sinusoids,
                                clef_positions(b->g, b->pos, &(clef_positions_opts){.length = b->T}), NULL)
                  : clef_slice(b->g, b->sinusoids, &(clef_slice_opts){.axis = 0, .size = b->T});
}

clef_value *clef__attention(clef_builder *b, clef_value *x)
{
    const clef_qkv h = project_qkv(b, x);
    x = clef__self_attention(b, clef__rope(b, h.q), clef__rope(b, h.k), h.v);
    return clef__linear(b, x, CLEF_W_ATTN_OUT, b->hp->n_heads * b->hp->head_dim, b->hp->d_model);
}

/* Slopes of n heads: 2^(-8 i / n) for a power of two; else those of the next smaller one, then every second
 * of the next larger. */
static void alibi_slopes(int32_t n, float *out)
{
    int32_t whole = 1;
    while (2 * whole <= n)
        whole *= 2;
    for (int32_t i = 0; i < n; i++)
        out[i] = (float)(i < whole ? pow(2, -8.0 * (i + 1) / whole)
                                   : pow(2, -4.0 * (2 * (i - whole) + 1) / whole));
}

void clef__alibi(clef_builder *b)
{
    const int32_t H = b->hp->n_heads, n = b->n_context;
    float *numbers = malloc(((size_t)H + (size_t)n) * sizeof *numbers);
    if (!numbers) {
        clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for %d positions", clef_model_path(b->model), n);
        return;
    }
    alibi_slopes(H, numbers);
    for (int32_t i = 0; i < n; i++)
        numbers[H + i] = (float)i;
    clef_value *slopes =
        clef_constant(b->g, "alibi.slopes", CLEF_F32, clef_shape_3(clef_n(H), clef_n(1), clef_n(1)), numbers);
    clef_value *places =
        clef_constant(b->g, "alibi.positions", CLEF_F32, clef_shape_1(clef_n(n)), numbers + H);
    free(numbers);
    b->bias = clef_mul(b->g, slopes, clef_slice(b->g, places, &(clef_slice_opts){.axis = 0, .size = b->S}));
}

clef_value *clef__wanted_positions(clef_builder *b, clef_value *x)
{
    if (b->all_logits)
        return x;
    return clef_slice(b->g, x, &(clef_slice_opts){.axis = 1, .start = -1, .size = clef_n(1)});
}

clef_value *clef__lm_head(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    if (b->causal)
        clef_named(x, "/hidden_last");
    if (b->no_head)
        return x;
    clef_value *w = hp->tied_embeddings ? embedding_matrix(b)
                                        : shaped(b, clef__weight(b, CLEF_W_OUT, "weight"),
                                                 clef_shape_2(clef_n(hp->n_vocab), clef_n(hp->d_model)));
    x = clef_matmul(b->g, x, w, NULL, &(clef_matmul_opts){.transpose_b = 1, .alpha = hp->logit_scale});
    clef_value *bias = clef__weight_optional(b, CLEF_W_OUT, "bias");
    if (bias)
        x = clef_add(b->g, x, shaped(b, bias, clef_shape_1(clef_n(hp->n_vocab))));
    bias = clef__weight_optional(b, CLEF_W_LOGITS_BIAS, "");
    if (bias)
        x = clef_add(b->g, x, clef_reshape(b->g, bias, clef_shape_1(clef_n(hp->n_vocab))));
    return clef__softcapped(b, x, hp->logit_softcap);
}

clef_value *clef__softcapped(clef_builder *b, clef_value *x, float cap)
{
    return cap == 0 ? x : clef__scaled(b, clef_tanh(b->g, clef__scaled(b, x, 1 / cap)), cap);
}

/* ---- whole layers
 * ------------------------------------------------------------------------------------------------------------------
 */

clef_value *clef__sequential_layer(clef_builder *b, clef_value *x)
{
    x = clef_add(b->g, x, clef__attention(b, clef__layer_norm(b, x, CLEF_W_ATTN_NORM)));
    return clef_add(b->g, x, clef__feed_forward(b, clef__layer_norm(b, x, CLEF_W_FFN_NORM)));
}

clef_value *clef__parallel_layer(clef_builder *b, clef_value *x)
{
    clef_value *y = clef__layer_norm(b, x, CLEF_W_ATTN_NORM);
    return clef_add(b->g, clef_add(b->g, x, clef__attention(b, y)), clef__feed_forward(b, y));
}

clef_value *clef__decoder(clef_builder *b, clef_value *x,
                          clef_value *(*layer)(clef_builder *b, clef_value *x))
{
    for (b->layer = 0; b->layer < b->hp->n_layers; b->layer++) {
        clef_scope_push(b->g, "layer%d", b->layer);
        x = layer(b, x);
        clef_named(x, "out");
        clef_scope_pop(b->g);
    }
    x = clef__wanted_positions(b, x);
    return clef__lm_head(b,
                         (b->arch->layer_norms ? clef__layer_norm : clef__rms_norm)(b, x, CLEF_W_OUT_NORM));
}
