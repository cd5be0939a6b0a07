/* Attention: heads and their projections, the KV cache, scores, cross-attention. */
#include <math.h>
#include <stdio.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

enum { NAME_BYTES = 64 };

clef_value *clef__split_heads(clef_builder *b, clef_value *x, int32_t n, int32_t head_dim)
{
    return clef_reshape(b->g, x, clef_shape_4(b->B, b->T, clef_n(n), clef_n(head_dim)));
}

/* [B, T, heads, D] -> [B, heads, T, D] */
static clef_value *heads_first(clef_builder *b, clef_value *x)
{
    return clef_permute(b->g, x, &(clef_permute_opts){{0, 2, 1, 3}});
}

/* Writes x [B, 1, Hk, D] to the layer's pool of pages, which it returns. */
static clef_value *write_to_pool(clef_builder *b, clef_value *x, clef__state_role role)
{
    const int slides = clef__layer_slides(b->hp, b->layer);
    clef_value *pool = clef__layer_state(
        b, role, b->kv_type,
        clef_shape_4(clef_n(b->n_pages[slides]), x->shape.dim[2], clef_n(CLEF_KV_PAGE), x->shape.dim[3]));
    return clef_paged_write(b->g, pool, heads_first(b, x), b->pos, b->runs, b->pages[slides]);
}

/* Appends x [B, T, Hk, D] to the layer's cache of keys or values, and returns the positions that this step
 * sees: [B, Hk, S, D], or with runs the pool of pages. */
static clef_value *append_to_cache(clef_builder *b, clef_value *x, clef__state_role role)
{
    clef_graph *g = b->g;
    if (!x)
        return NULL;
    if (b->runs)
        return write_to_pool(b, x, role);
    clef_value *cache = clef__layer_state(
        b, role, b->kv_type,
        clef_shape_4(clef_n(b->max_B), x->shape.dim[2], clef_n(b->n_context), x->shape.dim[3]));
    x = heads_first(b, x);
    if (b->order)
        cache = clef_cache_reorder(g, cache, b->order, &(clef_cache_reorder_opts){b->S});
    x = clef_cache_write(g, cache, x, b->pos);
    x = clef_slice(g, x, &(clef_slice_opts){.axis = 0, .size = b->B});
    return clef_slice(g, x, &(clef_slice_opts){.axis = 2, .size = b->S});
}

/* Joins the padding mask and the position biases. */
static clef_value *joint_mask(clef_builder *b)
{
    static const float drop_keep[] = {-1e30f, 0}; /* indexed by the mask */
    if (!b->mask || !b->bias)
        return b->bias ? b->bias : b->mask;
    if (b->bias->shape.rank == 4) /* joined before */
        return b->bias;
    clef_value *table = clef_graph_find(b->g, "mask.values");
    if (!table)
        table = clef_constant(b->g, "mask.values", CLEF_F32, clef_shape_2(clef_n(2), clef_n(1)), drop_keep);
    clef_value *x =
        clef_gather(b->g, table, clef_reshape(b->g, b->mask, clef_shape_2(b->B, b->S)), NULL); /* [B, S, 1] */
    return b->bias =
               clef_add(b->g, b->bias, clef_reshape(b->g, x, clef_shape_4(b->B, clef_n(1), clef_n(1), b->S)));
}

/* Names of the values of one attention. */
typedef struct attention_names {
    const char *scores, *weights, *heads;
} attention_names;

static const attention_names self_names = {"attn.scores", "attention", "attn.heads"};
static const attention_names cross_names = {"cross.scores", "cross_attention", "cross.heads"};

/* softmax(scale q k^T) v for q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, E], as [B, T, H, E]. pages: NULL,
 * or k and v are pools of pages. */
static clef_value *attend_heads(clef_builder *b, clef_value *q, clef_value *k, clef_value *v,
                                clef_value *mask, clef_value *pos, clef_value *sinks, clef_value *pages,
                                clef_softmax_opts opts, const attention_names *names)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    if (!q || !k || !v)
        return NULL;
    const float scale =
        hp->attention_scale != 0 ? hp->attention_scale : 1.0f / sqrtf((float)q->shape.dim[3].n);
    opts.softcap = hp->attention_softcap;
    if (pages) {
        clef_value *first = opts.window ? b->sees_from : NULL;
        const clef_paged_attention_in in = {q, k, v, mask, pos, sinks, b->runs, pages, first};
        const clef_attention_opts paged = {
            .scale = scale, .softcap = opts.softcap, .causal = 1, .window = first ? 0 : opts.window};
        return clef__name_value(b, clef_paged_attention(g, &in, &paged), names->heads);
    }
    if (b->first && opts.window < 0)
        return clef__graph_fail(g, CLEF_E_UNSUPPORTED,
                                "%s: training of %s is not supported: its attention is in chunks",
                                clef_model_path(b->model), hp->arch);
    if (b->first && opts.causal && !sinks) { /* documents share a row */
        const clef_attention_opts inside = {
            .scale = scale, .softcap = opts.softcap, .causal = 1, .window = opts.window};
        return clef__name_value(b, clef_attention_of_documents(g, q, k, v, mask, b->first, &inside),
                                names->heads);
    }
    if (b->first && opts.causal)
        return clef__graph_fail(g, CLEF_E_UNSUPPORTED,
                                "%s: training of %s is not supported: its attention has sinks",
                                clef_model_path(b->model), hp->arch);
    if (clef_dtype_block_elems(k->dtype) > 1) { /* only the fused op multiplies across the blocks of v */
        const clef_attention_opts fused = {
            .scale = scale, .softcap = opts.softcap, .causal = opts.causal, .window = opts.window};
        return clef__name_value(b, clef_attention_with_sinks(g, q, k, v, mask, pos, sinks, &fused),
                                names->heads);
    }
    clef_value *scores = clef_matmul(g, q, k, NULL, &(clef_matmul_opts){.transpose_b = 1, .alpha = scale});
    clef_named(scores, "%s", names->scores);
    clef_value *p = clef_softmax_with_sinks(g, scores, mask, pos, sinks, &opts); /* [B, H, T, S] */
    clef_named(p, "%s", names->weights);
    return clef__name_value(b, heads_first(b, clef_matmul(g, p, v, NULL, NULL)), names->heads);
}

clef_value *clef__self_attention(clef_builder *b, clef_value *q, clef_value *k, clef_value *v)
{
    if (!q || !k || !v)
        return NULL;
    const int slides = clef__layer_slides(b->hp, b->layer);
    k = b->cached ? append_to_cache(b, k, CLEF__STATE_KEYS) : heads_first(b, k); /* [B, Hk, S, D] */
    v = b->cached ? append_to_cache(b, v, CLEF__STATE_VALUES) : heads_first(b, v);
    b->seen_k[slides] = clef__name_value(b, k, "attn.keys");
    b->seen_v[slides] = clef__name_value(b, v, "attn.values");
    return clef__shared_attention(b, q);
}

clef_value *clef__shared_attention(clef_builder *b, clef_value *q)
{
    const int slides = clef__layer_slides(b->hp, b->layer);
    clef_value *k = b->seen_k[slides], *v = b->seen_v[slides];
    if (!q || !k || !v)
        return NULL;
    const int64_t H = q->shape.dim[2].n, E = v->shape.dim[3].n;
    const int32_t window = slides ? b->hp->sliding_window : 0;
    const clef_softmax_opts opts = {.causal = b->causal, .window = b->hp->has_chunks ? -window : window};
    clef_value *sinks = clef__role_weight_optional(b, CLEF_W_ATTN_SINKS, clef__bare_suffix(b));
    clef_value *pages = b->runs ? b->pages[slides] : NULL;
    clef_value *last = b->sees ? b->sees : b->pos;
    clef_value *x =
        attend_heads(b, heads_first(b, q), k, v, joint_mask(b), last, sinks, pages, opts, &self_names);
    return clef_reshape(b->g, x, clef_shape_3(b->B, b->T, clef_n(H * E)));
}

/* The keys or values of all sequences' sources, a pool of pages. */
static clef_value *source_pool(clef_builder *b, const char *name)
{
    const int64_t each = clef__dim_right(&b->source_pages->shape, 0).n;
    return clef_state(b->g, name, CLEF_F32,
                      clef_shape_4(clef_n(b->max_B * each), clef_n(b->hp->n_heads), clef_n(CLEF_KV_PAGE),
                                   clef_n(b->hp->head_dim)));
}

/* Keys or values of the layer's cross-attention [B, H, S', D], from the encoder's output or from an input. */
static clef_value *source_heads(clef_builder *b, clef_role role, const char *which)
{
    const int32_t H = b->hp->n_heads, D = b->hp->head_dim;
    char full[NAME_BYTES];
    if (b->memory)
        return heads_first(
            b, clef_reshape(b->g, clef__linear(b, b->memory, role, b->hp->d_model, H * D),
                            clef_shape_4(b->memory->shape.dim[0], b->source, clef_n(H), clef_n(D))));
    snprintf(full, sizeof full, "cross_%s_%d", which, b->layer);
    if (b->source_pages)
        return source_pool(b, full);
    return clef_input(b->g, full, CLEF_F32, clef_shape_4(clef_n(1), clef_n(H), b->source, clef_n(D)));
}

void clef__cross_outputs(clef_builder *b)
{
    char full[NAME_BYTES];
    for (b->layer = 0; b->layer < b->hp->n_decoder_layers; b->layer++) {
        clef_scope_push(b->g, "cross%d", b->layer); /* without a layer of its own it belongs to the
                                                       encoder's last */
        clef_value *k = source_heads(b, CLEF_W_CROSS_K, "k"), *v = source_heads(b, CLEF_W_CROSS_V, "v");
        clef_scope_pop(b->g);
        snprintf(full, sizeof full, "cross_k_%d", b->layer);
        clef_output(b->g, full, k);
        snprintf(full, sizeof full, "cross_v_%d", b->layer);
        clef_output(b->g, full, v);
    }
}

clef_value *clef__cross_attention(clef_builder *b, clef_value *x)
{
    const int32_t H = b->hp->n_heads, D = b->hp->head_dim, d = b->hp->d_model;
    clef_value *q = clef__linear(b, x, CLEF_W_CROSS_Q, d, H * D);
    clef_value *k = source_heads(b, CLEF_W_CROSS_K, "k"), *v = source_heads(b, CLEF_W_CROSS_V, "v");
    /* If the source is an input, all sequences share it: they become the queries of one attention. */
    const int is_shared = !b->memory && !b->source_pages;
    const clef_dim B = is_shared ? clef_n(1) : b->B, T = is_shared ? b->B : b->T;
    q = heads_first(b, clef_reshape(b->g, q, clef_shape_4(B, T, clef_n(H), clef_n(D))));
    /* A row sees its source up to the last position. */
    x = attend_heads(b, q, k, v, b->memory_mask, b->source_pages ? b->source_end : NULL, NULL,
                     b->source_pages, (clef_softmax_opts){0}, &cross_names);
    x = clef_reshape(b->g, x, clef_shape_3(b->B, b->T, clef_n(H * D)));
    return clef__linear(b, x, CLEF_W_CROSS_OUT, H * D, d);
}

/* The norm of q or k, where the family has it at this place and the file has its weight. */
static clef_value *norm_at(clef_builder *b, clef_value *x, clef_role norm, clef_qk_norms place)
{
    const int is_here = norm != CLEF_N_ROLES && b->arch->qk_norms == place;
    return is_here && clef__has_weight(b, norm, "weight") ? clef__norm(b, x, norm) : x;
}

/* x within -most .. most; 0: x. */
static clef_value *clipped(clef_builder *b, clef_value *x, float most)
{
    clef_graph *g = b->g;
    if (most == 0)
        return x;
    const clef_affine_opts up = {1, most}, from = {-1, 2 * most}, down = {-1, most};
    return clef_affine(g, clef_relu(g, clef_affine(g, clef_relu(g, clef_affine(g, x, &up)), &from)), &down);
}

clef_value *clef__heads(clef_builder *b, clef_value *x, clef_role projection, clef_role norm, int32_t n)
{
    const int32_t D = b->hp->head_dim;
    x = clef__linear(b, x, projection, b->hp->d_model, n * D);
    x = clipped(b, norm_at(b, x, norm, CLEF_QK_NORM_ALL), b->hp->clip_qkv);
    return norm_at(b, clef__split_heads(b, x, n, D), norm, CLEF_QK_NORM_HEADS);
}

/* Heads first .. first + n - 1 of x [.., heads, D]. */
static clef_value *some_heads(clef_builder *b, clef_value *x, int32_t first, int32_t n)
{
    return clef_slice(b->g, x, &(clef_slice_opts){.axis = 2, .start = first, .size = clef_n(n)});
}

/* Each [B, T, heads, D]. */
typedef struct qkv {
    clef_value *q, *k, *v;
} qkv;

static qkv split_parts(clef_builder *b, clef_value *x)
{
    const int32_t H = b->hp->n_heads, Hk = b->hp->n_kv_heads, D = b->hp->head_dim;
    x = clef__split_heads(b, x, H + 2 * Hk, D);
    return (qkv){some_heads(b, x, 0, H), some_heads(b, x, H, Hk), some_heads(b, x, H + Hk, Hk)};
}

static qkv split_groups(clef_builder *b, clef_value *x)
{
    const int32_t H = b->hp->n_heads, Hk = b->hp->n_kv_heads, D = b->hp->head_dim, r = H / Hk;
    clef_dim groups = b->T; /* T groups of r + 2 heads for each head of k */
    groups.n *= Hk;
    x = clef_reshape(b->g, x, clef_shape_4(b->B, groups, clef_n(r + 2), clef_n(D)));
    return (qkv){
        clef_reshape(b->g, some_heads(b, x, 0, r), clef_shape_4(b->B, b->T, clef_n(H), clef_n(D))),
        clef_reshape(b->g, some_heads(b, x, r, 1), clef_shape_4(b->B, b->T, clef_n(Hk), clef_n(D))),
        clef_reshape(b->g, some_heads(b, x, r + 1, 1), clef_shape_4(b->B, b->T, clef_n(Hk), clef_n(D)))};
}

/* A joint projection [B, T, (H + 2 Hk) D] holds all of q, of k and of v; or, in folders of some families, for
 * each head of k its heads of q, then k, then v. */
static qkv split_qkv(clef_builder *b, clef_value *x)
{
    const int is_grouped = b->arch->hf_grouped && !b->is_gguf && b->hp->n_kv_heads > 1;
    if (!x)
        return (qkv){NULL, NULL, NULL};
    x = clipped(b, x, b->hp->clip_qkv);
    qkv h = is_grouped ? split_groups(b, x) : split_parts(b, x);
    clef__name_value(b, h.q, "attn.q");
    clef__name_value(b, h.k, "attn.k");
    clef__name_value(b, h.v, "attn.v");
    h.q = norm_at(b, h.q, CLEF_W_ATTN_Q_NORM, CLEF_QK_NORM_HEADS);
    h.k = norm_at(b, h.k, CLEF_W_ATTN_K_NORM, CLEF_QK_NORM_HEADS);
    return h;
}

static qkv project_qkv(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t n = hp->n_heads + 2 * hp->n_kv_heads;
    if (clef__has_weight(b, CLEF_W_ATTN_QKV, "weight"))
        return split_qkv(b, clef__linear(b, x, CLEF_W_ATTN_QKV, hp->d_model, n * hp->head_dim));
    return (qkv){clef__heads(b, x, CLEF_W_ATTN_Q, CLEF_W_ATTN_Q_NORM, hp->n_heads),
                 clef__heads(b, x, CLEF_W_ATTN_K, CLEF_W_ATTN_K_NORM, hp->n_kv_heads),
                 clef__heads(b, x, CLEF_W_ATTN_V, CLEF_N_ROLES, hp->n_kv_heads)};
}

/* q or k [B, T, heads, D] after RoPE. */
static clef_value *rotated(clef_builder *b, clef_value *x, clef_role norm, const char *name)
{
    return norm_at(b, clef__layer_rope(b, x, name), norm, CLEF_QK_NORM_ROTATED);
}

/* The heads' outputs, times the sigmoid of their gate in families that have one. x: attention's input. */
static clef_value *gated_heads(clef_builder *b, clef_value *heads, clef_value *x)
{
    const int32_t n = b->hp->n_heads * b->hp->head_dim;
    if (!b->weights->hf[CLEF_W_ATTN_GATE])
        return heads;
    clef_value *gate = clef__linear(b, x, CLEF_W_ATTN_GATE, b->hp->d_model, n);
    return clef__name_value(b, clef_mul(b->g, heads, clef_sigmoid(b->g, gate)), "attn.gated");
}

/* q or k with a root mean square of 1, in layers with RoPE of families that want it. */
static clef_value *unit(clef_builder *b, clef_value *x, const char *name)
{
    if (!b->hp->unit_qk || clef__layer_lacks_rope(b))
        return x;
    return clef__name_value(b, clef_rms_norm(b->g, x, NULL, &(clef_norm_opts){.eps = b->hp->norm_eps}), name);
}

clef_value *clef__layer_attention(clef_builder *b, clef_value *x)
{
    const qkv h = project_qkv(b, x);
    clef_value *q = unit(b, rotated(b, h.q, CLEF_W_ATTN_Q_NORM, "attn.q_rope"), "attn.q_unit");
    q = clef__scaled_queries(b, q);
    clef_value *k = unit(b, rotated(b, h.k, CLEF_W_ATTN_K_NORM, "attn.k_rope"), "attn.k_unit");
    clef_value *y = gated_heads(b, clef__self_attention(b, q, k, h.v), x);
    return clef__linear(b, y, CLEF_W_ATTN_OUT, b->hp->n_heads * b->hp->head_dim, b->hp->d_model);
}
