/* Weights, embedding, projections, norms, feed-forwards, the head, and whole layers. */
#include "model/arch/layers.h"

#include <stdio.h>
#include <string.h>

#include "clef/gradient.h"
#include "model/open/declared.h"
#include "model/open/lora.h"
#include "model/open/model.h"

/* ---- weights by role ------------------------------------------------------------------------- */

/* The file's tensor for a role, NULL if it has none. `name` is set to its name, which is empty if the family
 * has no such weight. */
static const clef_tensor_info *find_tensor(const clef_builder *b, clef_role role, const char *suffix,
                                           char name[CLEF_WEIGHT_NAME_BYTES])
{
    const char *prefix = b->is_gguf ? "" : b->arch->hf_prefix;
    const size_t n = strlen(prefix);
    if (!clef__weight_name(b->arch, b->weights, role, b->is_gguf, b->layer, suffix, name))
        return NULL;
    if (b->prefix && strncmp(name, prefix, n) == 0) {
        char own[CLEF_WEIGHT_NAME_BYTES];
        snprintf(own, sizeof own, "%s", name + n);
        snprintf(name, CLEF_WEIGHT_NAME_BYTES, "%.96s%.95s", b->prefix, own);
        return clef__model_find(b->model, name);
    }
    const clef_tensor_info *t = clef__model_find(b->model, name);
    return t || strncmp(name, prefix, n) != 0
               ? t
               : clef__model_find(b->model, name + n); /* a folder of the base model has no prefix */
}

/* 1 when a model that has no weights yet will have the role's. */
static int will_have(const clef_builder *b, clef_role role, const char *suffix)
{
    char name[CLEF_WEIGHT_NAME_BYTES];
    const clef__declared *d = b->model->declared;
    return clef__weight_name(b->arch, b->weights, role, 0, b->layer, suffix, name) &&
           d->has(d->user, role, suffix);
}

/* Fails if a folder has a bias that its configuration does not have, or the reverse: transformers would drop
 * the stored one, or begin a new one. */
static void check_stored(const clef_builder *b, clef_role role, const char *suffix, int is_stored,
                         const char *name)
{
    const int is_main = b->weights == &b->arch->weights || b->weights == &b->arch->decoder_weights;
    const json_t *config =
        b->hp == b->model->vision ? json_object_get(b->model->outer, "vision_config") : b->model->config;
    const int wanted = is_main && !b->is_gguf && name[0] ? clef__class_has(config, role, suffix) : -1;
    if (wanted == 1 && !is_stored)
        clef__graph_fail(b->g, CLEF_E_NOT_FOUND, "%s: the weight %s is missing", clef_model_path(b->model),
                         name);
    else if (wanted == 0 && is_stored)
        clef__graph_fail(b->g, CLEF_E_UNSUPPORTED,
                         "%s: the weight %s is stored, but by config.json a model of type %s has none",
                         clef_model_path(b->model), name, b->hp->arch);
}

int clef__has_weight(const clef_builder *b, clef_role role, const char *suffix)
{
    char name[CLEF_WEIGHT_NAME_BYTES];
    if (b->model->declared)
        return will_have(b, role, suffix);
    const int is_stored = find_tensor(b, role, suffix, name) != NULL;
    check_stored(b, role, suffix, is_stored, name);
    return is_stored;
}

static clef_value *weight_of(clef_builder *b, const clef_tensor_info *t)
{
    clef_shape shape = {.rank = t->rank};
    for (int32_t i = 0; i < t->rank; i++)
        shape.dim[i] = clef_n(t->dims[i]);
    return clef_weight(b->g, t->name, t->dtype, shape);
}

/* A convolution [n, c, h, w] whose windows do not overlap is a matrix [n, c h w]. */
static clef_value *matrix_of(clef_builder *b, const clef_tensor_info *t)
{
    return clef_weight(b->g, t->name, t->dtype,
                       clef_shape_2(clef_n(t->dims[0]), clef_n(t->dims[1] * t->dims[2] * t->dims[3])));
}

/* Notes the weight of a model that has none yet. */
static clef_value *declare(clef_builder *b, clef_role role, const char *suffix, const clef_shape *wanted)
{
    char name[CLEF_WEIGHT_NAME_BYTES];
    if (!clef__weight_name(b->arch, b->weights, role, 0, b->layer, suffix, name) || !wanted)
        return clef__graph_fail(b->g, CLEF_E_UNSUPPORTED,
                                "%s: a new %s: the hyperparameters do not say the shape of the weight %s",
                                clef_model_path(b->model), b->hp->arch, name);
    const clef_tensor_info *t = clef__declare(b->model->declared, role, suffix, name, wanted);
    return t ? weight_of(b, t)
             : clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for the list of its weights",
                                clef_model_path(b->model));
}

/* The weight, or NULL without an error. wanted: NULL, or the shape that it has in a new model. */
static clef_value *optional_weight(clef_builder *b, clef_role role, const char *suffix,
                                   const clef_shape *wanted)
{
    char name[CLEF_WEIGHT_NAME_BYTES];
    if (b->model->declared)
        return will_have(b, role, suffix) ? declare(b, role, suffix, wanted) : NULL;
    const clef_tensor_info *t = find_tensor(b, role, suffix, name);
    check_stored(b, role, suffix, t != NULL, name);
    return t ? weight_of(b, t) : NULL;
}

static clef_value *needed_weight(clef_builder *b, clef_role role, const char *suffix,
                                 const clef_shape *wanted)
{
    char name[CLEF_WEIGHT_NAME_BYTES];
    if (b->model->declared)
        return declare(b, role, suffix, wanted);
    const clef_tensor_info *t = find_tensor(b, role, suffix, name);
    if (t && t->rank == 4 && wanted && wanted->rank == 2)
        return matrix_of(b, t);
    if (t)
        return weight_of(b, t);
    return clef__graph_fail(b->g, CLEF_E_NOT_FOUND, "%s: the weight %s is missing", clef_model_path(b->model),
                            name);
}

clef_value *clef__role_weight_optional(clef_builder *b, clef_role role, const char *suffix)
{
    return optional_weight(b, role, suffix, NULL);
}

clef_value *clef__role_weight(clef_builder *b, clef_role role, const char *suffix)
{
    return needed_weight(b, role, suffix, NULL);
}

/* Fails if the shape of w differs from what the hyperparameters imply. */
static clef_value *check_shape(clef_builder *b, clef_value *w, clef_shape wanted)
{
    char a[96], c[96];
    if (!w || clef__shape_equal(&w->shape, &wanted))
        return w;
    return clef__graph_fail(b->g, CLEF_E_SHAPE, "%s: the weight %s is %s, the hyperparameters say %s",
                            clef_model_path(b->model), w->name, clef__shape_text(b->g, &w->shape, a),
                            clef__shape_text(b->g, &wanted, c));
}

clef_value *clef__role_weight_shaped(clef_builder *b, clef_role role, const char *suffix, clef_shape wanted)
{
    return check_shape(b, needed_weight(b, role, suffix, &wanted), wanted);
}

clef_value *clef__role_weight_flat(clef_builder *b, clef_role role, const char *suffix, clef_shape stored)
{
    char name[CLEF_WEIGHT_NAME_BYTES];
    int64_t n_columns = 1, is_stored = 1;
    const clef_tensor_info *t = b->model->declared ? NULL : find_tensor(b, role, suffix, name);
    for (int32_t i = 1; i < stored.rank; i++)
        n_columns *= stored.dim[i].n;
    const clef_shape flat = clef_shape_2(stored.dim[0], clef_n(n_columns));
    for (int32_t i = 0; t && i < t->rank; i++)
        is_stored &= t->rank == stored.rank && t->dims[i] == stored.dim[i].n;
    if (!t || !is_stored) /* which says what is wrong */
        return clef__role_weight_shaped(b, role, suffix, b->model->declared ? flat : stored);
    return clef_weight(b->g, t->name, t->dtype, flat);
}

const char *clef__bare_suffix(const clef_builder *b)
{
    return b->is_gguf ? "weight" : "";
}

/* ---- names of values ------------------------------------------------------------------------- */

clef_value *clef__name_value(clef_builder *b, clef_value *v, const char *name)
{
    char full[CLEF_NAME_BYTES];
    if (!v || snprintf(full, sizeof full, "%s%s", b->g->prefix, name) >= (int)sizeof full)
        return v;
    const clef_value *other = clef_graph_find(b->g, full);
    return other && other != v && other->named ? v : clef_named(v, "%s", name);
}

clef_value *clef__layer_state(clef_builder *b, clef__state_role role, clef_dtype dtype, clef_shape shape)
{
    static const char *const names[] = {[CLEF__STATE_KEYS] = "cache_k",
                                        [CLEF__STATE_VALUES] = "cache_v",
                                        [CLEF__STATE_CONV] = "conv",
                                        [CLEF__STATE_MEMORY] = "memory"};
    char full[64];
    snprintf(full, sizeof full, "layer%d.%s", b->layer, names[role]);
    clef_value *state = clef_state(b->g, full, dtype, shape);
    if (state)
        state->role = role;
    return state;
}

static clef_value *name_by_role(clef_builder *b, clef_value *v, clef_role role)
{
    const char *name = clef__role_value_name(role);
    return name ? clef__name_value(b, v, name) : v;
}

/* ---- projections, norms and feed-forwards ----------------------------------------------------- */

static int32_t embedding_width(const clef_builder *b)
{
    return b->hp->d_embed ? b->hp->d_embed : b->hp->d_model;
}

static clef_value *embedding_matrix(clef_builder *b)
{
    return clef__role_weight_shaped(b, CLEF_W_EMBED, "weight",
                                    clef_shape_2(clef_n(b->hp->n_vocab), clef_n(embedding_width(b))));
}

float clef__folder_scale(const clef_builder *b, clef_role role, int is_bias)
{
    return b->is_gguf || !b->arch->hf_scale ? 1 : b->arch->hf_scale(b->hp, role, is_bias, 0);
}

clef_value *clef__embed(clef_builder *b)
{
    const float own = b->hp->embed_scale > 0 ? b->hp->embed_scale : 1;
    clef_value *x = clef_named(clef_gather(b->g, embedding_matrix(b), b->ids, NULL), "embed");
    clef_value *y = clef__scaled(b, x, own * clef__folder_scale(b, CLEF_W_EMBED, 0));
    return clef__with_pictures(b, y == x ? x : clef__name_value(b, y, "embed.scaled"));
}

/* A leaf for the stack of the adapters' matrices. */
static clef_value *stack_weight(clef_builder *b, const clef_tensor_info *t)
{
    return clef_weight(b->g, t->name, t->dtype,
                       clef_shape_3(clef_n(t->dims[0]), clef_n(t->dims[1]), clef_n(t->dims[2])));
}

/* y + scale s B(A x) of the adapters that change w. */
static clef_value *add_adapters(clef_builder *b, clef_value *y, clef_value *x, const clef_value *w,
                                float scale)
{
    const clef__lora_stack *s = b->loras && w ? clef__lora_stack_of(b->loras, w->name) : NULL;
    if (!s || !x || !y || x->shape.rank != 3 || !clef__dim_equal(x->shape.dim[0], b->B))
        return y;
    x = clef__scaled(b, x, scale);
    return clef_low_rank_add(b->g, y, x, stack_weight(b, &s->down), stack_weight(b, &s->up), b->adapter);
}

/* y + scale s (x A^T) B^T of the adapter that is trained. */
static clef_value *add_new_lora(clef_builder *b, clef_value *y, clef_value *x, const clef_value *w,
                                int32_t n_in, int32_t n_out, float scale)
{
    const clef_build_lora *lora = b->new_lora;
    char name[CLEF_NAME_BYTES + 8];
    if (!lora || !y || !w || !lora->wants(lora->user, w->name))
        return y;
    snprintf(name, sizeof name, "%s.lora_A", w->name);
    clef_value *a = clef_weight(b->g, name, CLEF_F32, clef_shape_2(clef_n(lora->rank), clef_n(n_in)));
    snprintf(name, sizeof name, "%s.lora_B", w->name);
    clef_value *up = clef_weight(b->g, name, CLEF_F32, clef_shape_2(clef_n(n_out), clef_n(lora->rank)));
    clef_value *low = clef_matmul(b->g, x, a, NULL, &(clef_matmul_opts){.transpose_b = 1});
    return clef_add(b->g, y,
                    clef_matmul(b->g, low, up, NULL,
                                &(clef_matmul_opts){.transpose_b = 1, .alpha = lora->scale * scale}));
}

/* 1 where what a quantised matrix is multiplied by may be beside it, as "scale". */
static int has_scales(const clef_builder *b)
{
    return (b->is_gguf || b->model->n_packed > 0) && !b->model->declared;
}

/* What a product with a matrix is multiplied by, which a file has beside a quantised one; 1: no such tensor.
 * It becomes a leaf that nothing uses, by which it counts as read. A "scale" beside a router's matrix is the
 * vector CLEF_W_ROUTER_SCALE. */
static float stored_scale(clef_builder *b, clef_role role)
{
    char name[CLEF_WEIGHT_NAME_BYTES];
    float scale = 1;
    const clef_tensor_info *t =
        has_scales(b) && role != CLEF_W_ROUTER ? find_tensor(b, role, "scale", name) : NULL;
    if (!t)
        return 1;
    weight_of(b, t);
    if (t->dtype == CLEF_F32 && t->n_bytes == sizeof scale && t->data)
        memcpy(&scale, t->data, sizeof scale);
    else
        clef__graph_fail(b->g, CLEF_E_SHAPE, "%s: the tensor %s: expected one number in f32",
                         clef_model_path(b->model), name);
    if (scale == 0) /* alpha 0 would mean 1 */
        clef__graph_fail(b->g, CLEF_E_FORMAT, "%s: the tensor %s: expected a factor, got 0",
                         clef_model_path(b->model), name);
    return scale;
}

clef_value *clef__linear(clef_builder *b, clef_value *x, clef_role role, int32_t n_in, int32_t n_out)
{
    const int in_out = b->arch->hf_conv1d && !b->is_gguf;
    const clef_dim in = clef_n(n_in), out = clef_n(n_out);
    const clef_shape bias_shape = clef_shape_1(out);
    clef_value *order = b->model->n_packed > 0 ? optional_weight(b, role, "order", NULL) : NULL;
    const clef_dim stored = order ? order->shape.dim[2] : in;
    clef_value *w = clef__role_weight_shaped(b, role, "weight",
                                             in_out ? clef_shape_2(in, out) : clef_shape_2(out, stored));
    const float scale = clef__folder_scale(b, role, 0);
    const clef_matmul_opts opts = {.transpose_b = !in_out, .alpha = stored_scale(b, role) * scale};
    clef_value *y = clef_matmul(b->g, order ? clef_gather_elements(b->g, x, order) : x, w, NULL, &opts);
    if (role != CLEF_W_HEAD_DENSE) /* nobody would read an adapter of it (check_use() in model/lora/open.c) */
        y = add_new_lora(b, y, x, w, n_in, n_out, scale);
    clef_value *bias = optional_weight(b, role, "bias", &bias_shape);
    if (bias)
        y = clef_add(b->g, y,
                     clef__scaled(b, check_shape(b, bias, bias_shape), clef__folder_scale(b, role, 1)));
    return name_by_role(b, add_adapters(b, y, x, w, scale), role);
}

clef_value *clef__in_floats(clef_graph *g, clef_value *x)
{
    return x && x->dtype != CLEF_F32 ? clef_copy(g, x) : x;
}

/* The weight of a norm; a folder of some families stores it less one. */
static clef_value *norm_weight(clef_builder *b, clef_role role, const clef_shape *shape)
{
    clef_value *w = needed_weight(b, role, "weight", shape);
    return b->arch->hf_norm_offset && !b->is_gguf
               ? clef_affine(b->g, clef__in_floats(b->g, w), &(clef_affine_opts){.scale = 1, .shift = 1})
               : w;
}

static clef_value *layer_norm(clef_builder *b, clef_value *x, clef_role role)
{
    if (!x)
        return NULL;
    const clef_shape shape = clef_shape_1(clef__dim_right(&x->shape, 0));
    clef_value *w = norm_weight(b, role, &shape), *bias = optional_weight(b, role, "bias", &shape);
    return clef_layer_norm(b->g, x, w, bias, &(clef_norm_opts){.eps = b->hp->norm_eps});
}

static clef_value *rms_norm(clef_builder *b, clef_value *x, clef_role role)
{
    if (!x)
        return NULL;
    const clef_shape shape = clef_shape_1(clef__dim_right(&x->shape, 0));
    return clef_rms_norm(b->g, x, norm_weight(b, role, &shape), &(clef_norm_opts){.eps = b->hp->norm_eps});
}

clef_value *clef__norm(clef_builder *b, clef_value *x, clef_role role)
{
    const int is_layer_norm =
        b->arch->layer_norms == CLEF_NORMS_BY_BIAS ? clef__has_weight(b, role, "bias") : b->arch->layer_norms;
    return name_by_role(b, (is_layer_norm ? layer_norm : rms_norm)(b, x, role), role);
}

/* x with dropout, while training. */
static clef_value *dropped(clef_builder *b, clef_value *x)
{
    return b->random ? clef_dropout(b->g, x, b->random,
                                    &(clef_dropout_opts){.p = b->dropout, .stream = b->n_dropouts++})
                     : x;
}

clef_value *clef__add_residual(clef_builder *b, clef_value *x, clef_value *y, const char *name)
{
    return clef__name_value(b, clef_add(b->g, x, dropped(b, clef__scaled(b, y, b->hp->residual_scale))),
                            name);
}

clef_value *clef__scaled(clef_builder *b, clef_value *x, float scale)
{
    return scale == 0 || scale == 1 ? x : clef_affine(b->g, x, &(clef_affine_opts){.scale = scale});
}

/* cap tanh(x / cap) */
static clef_value *cap_softly(clef_builder *b, clef_value *x, float cap)
{
    return cap == 0 ? x : clef__scaled(b, clef_tanh(b->g, clef__scaled(b, x, 1 / cap)), cap);
}

clef_value *clef__activation(clef_builder *b, clef_value *x)
{
    return clef__activated(b, x, b->hp->activation);
}

clef_value *clef__activated(clef_builder *b, clef_value *x, clef_activation activation)
{
    switch (activation) {
    case CLEF_GELU:
        return clef_gelu(b->g, x);
    case CLEF_GELU_TANH:
        return clef_gelu_tanh(b->g, x);
    case CLEF_GELU_QUICK:
        return clef_mul(b->g, x, clef_sigmoid(b->g, clef__scaled(b, x, 1.702f)));
    case CLEF_RELU:
        return clef_relu(b->g, x);
    case CLEF_RELU2:
        return clef_square(b->g, clef_relu(b->g, x));
    default:
        return clef_silu(b->g, x);
    }
}

clef_value *clef__feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    x = clef__activation(b, clef__linear(b, x, CLEF_W_FFN_UP, d, d_ff));
    return clef__linear(b, clef__name_value(b, x, "mlp.act"), CLEF_W_FFN_DOWN, d_ff, d);
}

clef_value *clef__gated_down(clef_builder *b, clef_value *gate, clef_value *up)
{
    clef_value *x = clef__name_value(b, clef_mul(b->g, clef__activation(b, gate), up), "mlp.act");
    return clef__linear(b, x, CLEF_W_FFN_DOWN, b->hp->d_ff, b->hp->d_model);
}

clef_value *clef__gated_feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    clef_value *gate = clef__linear(b, x, CLEF_W_FFN_GATE, d, d_ff);
    return clef__gated_down(b, gate, clef__linear(b, x, CLEF_W_FFN_UP, d, d_ff));
}

clef_value *clef__joint_gated_feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    clef_value *both = clef_named(clef__linear(b, x, CLEF_W_FFN_UP, d, 2 * d_ff), "mlp.gate_up");
    clef_value *gate = clef_slice(b->g, both, &(clef_slice_opts){.axis = 2, .size = clef_n(d_ff)});
    clef_value *up =
        clef_slice(b->g, both, &(clef_slice_opts){.axis = 2, .start = d_ff, .size = clef_n(d_ff)});
    return clef__gated_down(b, clef__name_value(b, gate, "mlp.gate"), clef__name_value(b, up, "mlp.up"));
}

void clef__enter_decoder(clef_builder *b)
{
    b->weights = &b->arch->decoder_weights;
    b->causal = 1;
    b->bias = NULL;
}

/* ---- the head -------------------------------------------------------------------------------- */

clef_value *clef__wanted_positions(clef_builder *b, clef_value *x)
{
    if (b->all_logits)
        return x;
    if (b->samples && x) {
        const clef_dim N = b->samples->shape.dim[0], d = clef__dim_right(&x->shape, 0);
        x = clef_gather(b->g, clef_reshape(b->g, x, clef_shape_2(b->B, d)), b->samples, NULL);
        return clef_reshape(b->g, x, clef_shape_3(N, clef_n(1), d));
    }
    return clef_slice(b->g, x, &(clef_slice_opts){.axis = 1, .start = -1, .size = clef_n(1)});
}

static clef_value *logits_bias(clef_builder *b)
{
    const clef_dim V = clef_n(b->hp->n_vocab);
    const clef_shape shape = clef_shape_1(V), row = clef_shape_2(clef_n(1), V);
    clef_value *bias = optional_weight(b, CLEF_W_OUT, "bias", &shape);
    if (bias)
        return check_shape(b, bias, shape);
    bias = optional_weight(b, CLEF_W_LOGITS_BIAS, "", &row);
    return bias ? clef_reshape(b->g, bias, shape) : NULL;
}

/* A training graph has numbers for B and T, so that the tokens of all sequences are one dim. */
static clef_dim all_tokens(const clef_builder *b)
{
    return clef_n(b->B.n * b->T.n);
}

static clef_value *as_rows(clef_builder *b, clef_value *x)
{
    return x ? clef_reshape(b->g, x, clef_shape_2(all_tokens(b), clef__dim_right(&x->shape, 0))) : NULL;
}

static clef_value *flat_labels(clef_builder *b)
{
    return clef_reshape(b->g, b->labels, clef_shape_1(all_tokens(b)));
}

/* The cross-entropy of each token, [B T]. Where there are many logits, they are never in memory at once. */
static clef_value *token_losses(clef_builder *b, clef_value *x, clef_value *w, clef_value *bias, float scale)
{
    enum { MOST_LOGITS = 1 << 24, MOST_PIECES = 64 };
    const int64_t n = all_tokens(b).n * b->hp->n_vocab, pieces = (n + MOST_LOGITS - 1) / MOST_LOGITS;
    return clef_linear_cross_entropy(
        b->g, as_rows(b, x), w, bias, flat_labels(b),
        &(clef_linear_cross_entropy_opts){.alpha = scale,
                                          .pieces = (int32_t)(pieces < MOST_PIECES ? pieces : MOST_PIECES)});
}

clef_value *clef__lm_head(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    if (b->causal)
        clef_named(x, "/hidden_last");
    if (b->no_head)
        return x;
    if (hp->tied_embeddings && clef__has_classifier(b->model))
        clef__graph_fail(b->g, CLEF_E_NOT_FOUND,
                         "%s/config.json: expected a language model, got a class of classification",
                         clef_model_path(b->model));
    clef_value *w = hp->tied_embeddings
                        ? embedding_matrix(b)
                        : clef__role_weight_shaped(b, CLEF_W_OUT, "weight",
                                                   clef_shape_2(clef_n(hp->n_vocab), clef_n(hp->d_model)));
    clef_value *bias = logits_bias(b);
    const float own = (hp->logit_scale != 0 ? hp->logit_scale : 1) * clef__folder_scale(b, CLEF_W_OUT, 0),
                alpha = own * stored_scale(b, CLEF_W_OUT);
    if (b->labels && hp->logit_softcap == 0)
        return token_losses(b, x, w, bias, own);
    x = clef_matmul(b->g, x, w, NULL, &(clef_matmul_opts){.transpose_b = 1, .alpha = alpha});
    x = bias ? clef_add(b->g, x, bias) : x;
    if (hp->logit_softcap != 0)
        clef__name_value(b, x, "/logits_uncapped");
    x = cap_softly(b, x, hp->logit_softcap);
    return b->labels ? clef_cross_entropy(b->g, as_rows(b, x), flat_labels(b)) : x;
}

clef_value *clef__masked_lm_head(clef_builder *b, clef_value *x)
{
    x = clef__activation(b, clef__linear(b, x, CLEF_W_HEAD_DENSE, b->hp->d_model, embedding_width(b)));
    return clef__lm_head(b, clef__norm(b, x, CLEF_W_HEAD_NORM));
}

/* ---- whole layers ---------------------------------------------------------------------------- */

/* The norm of a role, in families that have it. */
static clef_value *norm_if_any(clef_builder *b, clef_value *x, clef_role role)
{
    return b->weights->hf[role] ? clef__norm(b, x, role) : x;
}

clef_value *clef__sequential_layer(clef_builder *b, clef_value *x, clef_block *attention, clef_block *mlp)
{
    clef_value *y = attention(b, norm_if_any(b, x, CLEF_W_ATTN_NORM));
    x = clef__add_residual(b, x, norm_if_any(b, y, CLEF_W_ATTN_POST_NORM), "attn_residual");
    y = mlp(b, norm_if_any(b, x, CLEF_W_FFN_NORM));
    return clef__add_residual(b, x, norm_if_any(b, y, CLEF_W_FFN_POST_NORM), "mlp_residual");
}

clef_value *clef__plain_layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, clef__layer_attention, clef__feed_forward);
}

clef_value *clef__parallel_layer(clef_builder *b, clef_value *x, clef_block *attention, clef_block *mlp)
{
    clef_value *y = clef__norm(b, x, CLEF_W_ATTN_NORM);
    x = clef__add_residual(b, x, attention(b, y), "attn_residual");
    return clef__add_residual(b, x, mlp(b, y), "mlp_residual");
}

clef_value *clef__post_norm_layer(clef_builder *b, clef_value *x, clef_block *attention, clef_block *mlp)
{
    x = clef__add_residual(b, x, attention(b, x), "attn_residual");
    x = clef__norm(b, x, CLEF_W_ATTN_POST_NORM);
    x = clef__add_residual(b, x, mlp(b, x), "mlp_residual");
    return clef__norm(b, x, CLEF_W_FFN_POST_NORM);
}

clef_value *clef__layers(clef_builder *b, clef_value *x, int32_t n, clef_block *layer)
{
    x = dropped(b, x);
    for (b->layer = 0; b->layer < n; b->layer++) {
        clef_scope_push(b->g, "layer%d", b->layer);
        x = clef_named(clef__with_deep(b, layer(b, x)), "out");
        clef_scope_pop(b->g);
    }
    return x;
}

clef_value *clef__decoder(clef_builder *b, clef_value *x, clef_block *layer)
{
    clef_value *all = clef__layers(b, x, b->hp->n_layers, layer);
    x = clef__norm(b, clef__wanted_positions(b, all), CLEF_W_OUT_NORM);
    if (b->mtp == CLEF_MTP_TARGET)
        clef_output(b->g, "hidden", clef__norm(b, all, CLEF_W_OUT_NORM));
    return clef__lm_head(b, x);
}
