/* Embedding, projections, norms, attention over the cache, and the head. */
#include "model/layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/value.h"
#include "model/model.h"

enum { NAME_BYTES = 192 };

/* ---- weights by role ------------------------------------------------------------------------------------------------------------- */

/* The file's tensor for a role, NULL if it has none; `name` is what was looked for ("" when the table has no name for it). */
static const clef_tensor_info *find_tensor(const clef_builder *b, clef_role role, const char *suffix, char name[NAME_BYTES])
{
    const clef_weight_name *names = &b->arch->weights[role];
    const char *form = b->model->is_gguf ? names->gguf : names->hf, *prefix = b->model->is_gguf ? "" : b->arch->hf_prefix;
    *name = 0;
    if (!form)
        return NULL;
    const char *layer = strstr(form, "%d");
    if (layer)
        snprintf(name, NAME_BYTES, "%s%.*s%d%s.%s", prefix, (int)(layer - form), form, b->layer, layer + 2, suffix);
    else
        snprintf(name, NAME_BYTES, "%s%s.%s", role == CLEF_W_OUT ? "" : prefix, form, suffix);
    return clef__model_find(b->model, name);
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
    return clef__graph_fail(b->g, CLEF_E_NOT_FOUND, "%s: the weight %s is missing", clef_model_path(b->model), name);
}

/* Fails when w is not of the shape that the hyperparameters say. */
static clef_value *shaped(clef_builder *b, clef_value *w, clef_shape wanted)
{
    char a[96], c[96];
    if (!w || clef__shape_equal(&w->shape, &wanted))
        return w;
    return clef__graph_fail(b->g, CLEF_E_SHAPE, "%s: the weight %s is %s, the hyperparameters say %s", clef_model_path(b->model), w->name,
                            clef__shape_text(b->g, &w->shape, a), clef__shape_text(b->g, &wanted, c));
}

clef_value *clef__weight_shaped(clef_builder *b, clef_role role, const char *suffix, clef_shape wanted)
{
    return shaped(b, clef__weight(b, role, suffix), wanted);
}

/* ---- the pieces ------------------------------------------------------------------------------------------------------------------- */

static clef_value *embedding_matrix(clef_builder *b)
{
    return shaped(b, clef__weight(b, CLEF_W_EMBED, "weight"), clef_shape_2(clef_n(b->hp->n_vocab), clef_n(b->hp->d_model)));
}

clef_value *clef__embed(clef_builder *b)
{
    return clef_named(clef_gather(b->g, embedding_matrix(b), b->ids, NULL), "embed");
}

clef_value *clef__linear(clef_builder *b, clef_value *x, clef_role role, int32_t n_in, int32_t n_out)
{
    const int in_out = b->arch->hf_conv1d && !b->model->is_gguf;
    const clef_dim in = clef_n(n_in), out = clef_n(n_out);
    clef_value *w = shaped(b, clef__weight(b, role, "weight"), in_out ? clef_shape_2(in, out) : clef_shape_2(out, in));
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
    return clef_rms_norm(b->g, x, clef__weight(b, role, "weight"), &(clef_norm_opts){.eps = b->hp->norm_eps});
}

clef_value *clef__split_heads(clef_builder *b, clef_value *x, int32_t n, int32_t head_dim)
{
    return clef_reshape(b->g, x, clef_shape_4(b->B, b->T, clef_n(n), clef_n(head_dim)));
}

clef_value *clef__rope(clef_builder *b, clef_value *x)
{
    enum { MAX_FREQS = 512 };
    const int32_t n = b->hp->rope_dims / 2;
    if (!b->freqs) {
        float freqs[MAX_FREQS];
        const clef_tensor_info *factors = clef__model_find(b->model, "rope_freqs.weight");
        if (n < 1 || n > MAX_FREQS || (factors && (factors->dtype != CLEF_F32 || factors->n_bytes != (uint64_t)n * sizeof *freqs)))
            return clef__graph_fail(b->g, CLEF_E_SHAPE, "%s: %d rotated dims: wanted 2 to %d, and rope_freqs.weight to be f32 [dims / 2]",
                                    clef_model_path(b->model), 2 * n, 2 * MAX_FREQS);
        clef__rope_freqs(b->hp, factors ? factors->data : NULL, n, freqs);
        b->freqs = clef_constant(b->g, "rope.freqs", CLEF_F32, clef_shape_1(clef_n(n)), freqs);
    }
    return clef_rope(b->g, x, b->freqs, b->pos, &(clef_rope_opts){.interleaved = b->hp->rope_pairing == CLEF_ROPE_PAIRS});
}

/* Appends x [B, T, Hk, D] to the layer's cache and gives the part that this step sees: [B, Hk, S, D]. */
static clef_value *cached(clef_builder *b, clef_value *x, const char *name, int32_t head_dim)
{
    clef_graph *g = b->g;
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "layer%d.cache_%s", b->layer, name);
    clef_value *cache =
        clef_state(g, full, b->kv_type, clef_shape_4(clef_n(b->max_B), clef_n(b->hp->n_kv_heads), clef_n(b->n_context), clef_n(head_dim)));
    x = clef_permute(g, x, &(clef_permute_opts){{0, 2, 1, 3}});
    x = clef_cache_write(g, cache, x, b->pos);
    x = clef_slice(g, x, &(clef_slice_opts){.axis = 0, .size = b->B});
    return clef_slice(g, x, &(clef_slice_opts){.axis = 2, .size = b->S});
}

clef_value *clef__self_attention(clef_builder *b, clef_value *q, clef_value *k, clef_value *v)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    const int32_t D = hp->head_dim;
    const int32_t window = b->layer >= hp->sliding_from_layer ? hp->sliding_window : 0;
    q = clef_permute(g, q, &(clef_permute_opts){{0, 2, 1, 3}}); /* [B, H, T, D] */
    k = cached(b, k, "k", D);                                   /* [B, Hk, S, D] */
    v = cached(b, v, "v", D);
    const clef_shape merged = clef_shape_3(b->B, b->T, clef_n((int64_t)hp->n_heads * D));
    const float scale = 1.0f / sqrtf((float)D);
    if (clef_dtype_block_elems(b->kv_type) > 1) { /* no product runs across the blocks of v: only the fused op reads them */
        const clef_attention_opts opts = {.scale = scale, .causal = 1, .window = window};
        return clef_reshape(g, clef_attention(g, q, k, v, b->mask, b->pos, &opts), merged);
    }
    clef_value *scores = clef_matmul(g, q, k, NULL, &(clef_matmul_opts){.transpose_b = 1, .alpha = scale});
    clef_value *p = clef_softmax(g, scores, b->mask, b->pos, &(clef_softmax_opts){.causal = 1, .window = window}); /* [B, H, T, S] */
    clef_named(p, "attention");
    clef_value *o = clef_permute(g, clef_matmul(g, p, v, NULL, NULL), &(clef_permute_opts){{0, 2, 1, 3}}); /* [B, T, H, D] */
    return clef_reshape(g, o, merged);
}

clef_value *clef__wanted_positions(clef_builder *b, clef_value *x)
{
    if (b->all_logits)
        return x;
    return clef_slice(b->g, x, &(clef_slice_opts){.axis = 1, .start = -1, .size = clef_n(1)});
}

clef_value *clef__lm_head(clef_builder *b, clef_value *x)
{
    clef_value *w = b->hp->tied_embeddings
                        ? embedding_matrix(b)
                        : shaped(b, clef__weight(b, CLEF_W_OUT, "weight"), clef_shape_2(clef_n(b->hp->n_vocab), clef_n(b->hp->d_model)));
    clef_named(x, "/hidden_last");
    return clef_matmul(b->g, x, w, NULL, &(clef_matmul_opts){.transpose_b = 1});
}

void clef__rope_freqs(const clef_hparams *hp, const float *factors, int32_t n, float *out)
{
    const double pi = 3.14159265358979323846;
    for (int32_t i = 0; i < n; i++) {
        double freq = pow(hp->rope_theta, -2.0 * i / (2.0 * n));
        if (hp->rope_linear_factor > 1)
            freq /= hp->rope_linear_factor;
        if (hp->rope_llama3_factor > 0) {
            const double turns = hp->rope_original_context * freq / (2 * pi); /* within the context of the first training */
            double keep = (turns - hp->rope_low_freq_factor) / (hp->rope_high_freq_factor - hp->rope_low_freq_factor);
            keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
            freq = keep * freq + (1 - keep) * freq / hp->rope_llama3_factor;
        }
        if (factors)
            freq /= (double)factors[i];
        out[i] = (float)freq;
    }
}
