/* The mixers of Mamba 1 (arXiv:2312.00752) and 2 (2405.21060), which their hybrids share. Of the second's
 * hyperparameters, linear_n_v_heads heads are linear_v_dim wide, linear_k_dim is the size of the state, and
 * linear_n_k_heads the number of groups. */
#include <stdio.h>
#include <stdlib.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

static int32_t inner_width(const clef_hparams *hp)
{
    return hp->linear_n_v_heads * hp->linear_v_dim;
}

/* A vector of the role, which GGUF has as a matrix with one column. */
static clef_value *vector(clef_builder *b, clef_role role, const char *suffix, int32_t n)
{
    return clef_reshape(b->g, clef__role_weight(b, role, suffix), clef_shape_1(clef_n(n)));
}

/* xbc [B, T, inner + 2 groups state]: what is scanned, then what it is written by, then what reads it. */
static clef_value *scanned(clef_builder *b, clef_value *xbc, clef_value *dt)
{
    const clef_hparams *hp = b->hp;
    const int32_t H = hp->linear_n_v_heads, E = hp->linear_v_dim, G = hp->linear_n_k_heads,
                  N = hp->linear_k_dim, d = inner_width(hp);
    const clef_selective_scan_in in = {
        .c = clef__split_heads(b, clef__part(b, xbc, 2, d + G * N, G * N), G, N),
        .b = clef__split_heads(b, clef__part(b, xbc, 2, d, G * N), G, N),
        .x = clef__split_heads(b, clef__part(b, xbc, 2, 0, d), H, E),
        .dt = dt,
        .skip = vector(b, CLEF_W_SCAN_SKIP, clef__bare_suffix(b), H),
        .rates = vector(b, CLEF_W_LINEAR_RATES, clef__bare_suffix(b), H),
        .bias = vector(b, CLEF_W_LINEAR_BIAS, clef__bare_suffix(b), H),
        .state = clef__memory(b, CLEF__STATE_MEMORY, H, N, E),
        .pos = b->pos,
        .runs = b->runs};
    const clef_selective_scan_opts opts = {.min = hp->scan_min, .max = hp->scan_max};
    clef_value *y =
        clef_reshape(b->g, clef_selective_scan(b->g, &in, &opts), clef_shape_3(b->B, b->T, clef_n(d)));
    return clef__name_value(b, y, "attn.heads");
}

/* An RMS norm of each group of channels, if the model has its weight. */
static clef_value *group_norm(clef_builder *b, clef_value *y)
{
    const int32_t G = b->hp->linear_n_k_heads, d = inner_width(b->hp);
    if (!clef__has_weight(b, CLEF_W_LINEAR_NORM, "weight"))
        return y;
    y = clef_reshape(b->g, y, clef_shape_4(b->B, b->T, clef_n(G), clef_n(d / G)));
    y = clef_rms_norm(b->g, y, NULL, &(clef_norm_opts){.eps = b->hp->norm_eps});
    y = clef_mul(b->g, clef_reshape(b->g, y, clef_shape_3(b->B, b->T, clef_n(d))),
                 vector(b, CLEF_W_LINEAR_NORM, "weight", d));
    return clef__name_value(b, y, clef__role_value_name(CLEF_W_LINEAR_NORM));
}

/* Times what a folder's rows of the projection are multiplied by more than its first one. */
static clef_value *row_scaled(clef_builder *b, clef_value *x, int32_t n)
{
    const float first = clef__folder_scale(b, CLEF_W_SCAN_IN, 0);
    char name[64];
    if (b->is_gguf || !b->arch->hf_scale)
        return x;
    float *all = malloc((size_t)n * sizeof *all);
    if (!all)
        return clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for %d factors", clef_model_path(b->model),
                                n);
    for (int32_t i = 0; i < n; i++)
        all[i] = b->arch->hf_scale(b->hp, CLEF_W_SCAN_IN, 0, i) / first;
    snprintf(name, sizeof name, "layer%d.scan.scales", b->layer);
    x = clef_mul(b->g, x, clef_constant(b->g, name, CLEF_F32, clef_shape_1(clef_n(n)), all));
    free(all);
    return x;
}

/* One of step, b and c [B, T, n], normed where the model does so. */
static clef_value *normed_part(clef_builder *b, clef_value *x, clef_role norm)
{
    const float eps = b->hp->scan_norm_eps;
    if (eps == 0)
        return x;
    clef_value *w = b->weights->hf[norm] ? clef__role_weight(b, norm, "weight") : NULL;
    x = clef_rms_norm(b->g, x, w, &(clef_norm_opts){.eps = eps});
    return clef__name_value(b, x, clef__role_value_name(norm));
}

/* Zeros, since the projection of steps has the bias. */
static clef_value *no_bias(clef_builder *b, int32_t n)
{
    clef_value *made = clef_graph_find(b->g, "scan.no_bias");
    float *zeros = made ? NULL : calloc((size_t)n, sizeof *zeros);
    if (zeros)
        made = clef_constant(b->g, "scan.no_bias", CLEF_F32, clef_shape_2(clef_n(1), clef_n(n)), zeros);
    free(zeros);
    return made ? made
                : clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for %d numbers",
                                   clef_model_path(b->model), n);
}

/* The mixer of Mamba 1: each channel has its own rates and step, so all of them are one head. */
static clef_value *mamba1(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t d = inner_width(hp), N = hp->linear_k_dim, R = hp->scan_rank;
    const clef_shape row = clef_shape_2(clef_n(1), clef_n(d));
    clef_value *all = clef__linear(b, x, CLEF_W_SCAN_IN, hp->d_model, 2 * d);
    x = clef_silu(b->g, clef__short_conv(b, clef__part(b, all, 2, 0, d), CLEF_W_LINEAR_CONV, d));
    x = clef__name_value(b, x, "attn.conv");
    clef_value *parts = clef__linear(b, x, CLEF_W_SCAN_X, d, R + 2 * N);
    clef_value *step = normed_part(b, clef__part(b, parts, 2, 0, R), CLEF_W_SCAN_STEP_NORM),
               *by_b = normed_part(b, clef__part(b, parts, 2, R, N), CLEF_W_SCAN_B_NORM),
               *by_c = normed_part(b, clef__part(b, parts, 2, R + N, N), CLEF_W_SCAN_C_NORM);
    clef_value *rates = clef__role_weight_shaped(b, CLEF_W_LINEAR_RATES, clef__bare_suffix(b),
                                                 clef_shape_2(clef_n(d), clef_n(N))),
               *skip = clef__role_weight_shaped(b, CLEF_W_SCAN_SKIP, clef__bare_suffix(b),
                                                clef_shape_1(clef_n(d)));
    const clef_selective_scan_in in = {
        .c = clef__split_heads(b, by_c, 1, N),
        .b = clef__split_heads(b, by_b, 1, N),
        .x = clef__split_heads(b, x, 1, d),
        .dt = clef__split_heads(b, clef__linear(b, step, CLEF_W_SCAN_STEP, R, d), 1, d),
        .skip = clef_reshape(b->g, skip, row),
        .rates = clef_reshape(b->g, rates, clef_shape_3(clef_n(1), clef_n(d), clef_n(N))),
        .bias = no_bias(b, d),
        .state = clef__memory(b, CLEF__STATE_MEMORY, 1, N, d),
        .pos = b->pos,
        .runs = b->runs};
    x = clef_reshape(b->g, clef_selective_scan(b->g, &in, NULL), clef_shape_3(b->B, b->T, clef_n(d)));
    x = clef_mul(b->g, clef__name_value(b, x, "attn.heads"), clef_silu(b->g, clef__part(b, all, 2, d, d)));
    return clef__linear(b, clef__name_value(b, x, "attn.gated"), CLEF_W_LINEAR_OUT, d, hp->d_model);
}

clef_value *clef__mamba(clef_builder *b, clef_value *x)
{
    const clef_hparams *hp = b->hp;
    const int32_t H = hp->linear_n_v_heads, d = inner_width(hp),
                  n = d + 2 * hp->linear_n_k_heads * hp->linear_k_dim;
    if (clef__refuses_padding(b))
        return NULL;
    if (hp->scan_rank > 0)
        return mamba1(b, x);
    clef_value *all = row_scaled(b, clef__linear(b, x, CLEF_W_SCAN_IN, hp->d_model, d + n + H), d + n + H);
    clef_value *xbc =
        clef_silu(b->g, clef__short_conv(b, clef__part(b, all, 2, d, n), CLEF_W_LINEAR_CONV, n));
    x = scanned(b, clef__name_value(b, xbc, "attn.conv"), clef__part(b, all, 2, d + n, H));
    x = hp->scan_norm_first ? group_norm(b, x) : x;
    x = clef__name_value(b, clef_mul(b->g, x, clef_silu(b->g, clef__part(b, all, 2, 0, d))), "attn.gated");
    x = hp->scan_norm_first ? x : group_norm(b, x);
    return clef__linear(b, x, CLEF_W_LINEAR_OUT, d, hp->d_model);
}

/* ---- configuration --------------------------------------------------------------------------- */

/* The bounds of a step; without an upper one it is null or infinite. */
static void read_limits(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *list = clef__json_get(f, "time_step_limit"), *lo = json_array_get(list, 0),
                 *hi = json_array_get(list, 1);
    if (!list || json_is_null(list))
        return;
    hp->scan_min = (float)json_number_value(lo);
    hp->scan_max = json_is_number(hi) ? (float)json_number_value(hi) : 0;
    if (json_array_size(list) != 2 || !json_is_number(lo) || hp->scan_min < 0 ||
        (json_is_number(hi) && hp->scan_max < hp->scan_min))
        clef__json_refuse(f, "time_step_limit is not supported: expected two numbers, from 0 on");
    if (json_is_number(hi) && hp->scan_max == 0)
        clef__json_refuse(f, "time_step_limit that ends at 0 is not supported");
}

void clef__json_mamba(clef_json_fields *f, clef_hparams *hp, const clef_mamba_keys *keys)
{
    hp->linear_n_v_heads = (int32_t)clef__json_int(f, keys->heads, 1, CLEF_MAX_HEADS, 128);
    hp->linear_n_k_heads = (int32_t)clef__json_int(f, keys->groups, 1, CLEF_MAX_HEADS, keys->missing_groups);
    hp->linear_k_dim = (int32_t)clef__json_int(f, keys->state, 1, CLEF_MAX_HEAD_DIM, keys->missing_state);
    hp->linear_taps = (int32_t)clef__json_int(f, keys->taps, 2, 16, 4);
    const int64_t expand = clef__json_int(f, keys->expand, 1, 1024, 2);
    if (keys->head_dim && json_is_integer(clef__json_get(f, keys->head_dim)))
        hp->linear_v_dim = (int32_t)clef__json_int(f, keys->head_dim, 1, CLEF_MAX_HEAD_DIM, 64);
    else
        hp->linear_v_dim = keys->missing_head_dim ? keys->missing_head_dim
                                                  : (int32_t)(expand * hp->d_model / hp->linear_n_v_heads);
    if (f->status == CLEF_OK && (hp->linear_v_dim < 1 || hp->linear_n_v_heads % hp->linear_n_k_heads != 0 ||
                                 (int64_t)hp->linear_n_v_heads * hp->linear_v_dim > CLEF_MAX_WIDTH))
        clef__json_refuse(f, "heads, groups and widths of the scan do not fit together");
    read_limits(f, hp);
}

void clef__key_mamba(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->linear_taps = clef__key_int(k, "ssm.conv_kernel", 2, 16, CLEF_KEY_NEEDED);
    hp->linear_k_dim = clef__key_int(k, "ssm.state_size", 1, CLEF_MAX_HEAD_DIM, CLEF_KEY_NEEDED);
    hp->linear_n_k_heads = clef__key_int(k, "ssm.group_count", 1, CLEF_MAX_HEADS, 1);
    hp->linear_n_v_heads = clef__key_int(k, "ssm.time_step_rank", 1, CLEF_MAX_HEADS, CLEF_KEY_NEEDED);
    const int32_t inner = clef__key_int(k, "ssm.inner_size", 1, CLEF_MAX_WIDTH, CLEF_KEY_NEEDED);
    hp->linear_v_dim = inner / hp->linear_n_v_heads;
    if (k->status == CLEF_OK && (hp->linear_v_dim * hp->linear_n_v_heads != inner ||
                                 hp->linear_n_v_heads % hp->linear_n_k_heads != 0))
        k->status =
            clef__fail(k->err, CLEF_E_FORMAT,
                       "%s: key %s.ssm.inner_size is %d, expected a multiple of ssm.time_step_rank %d, "
                       "and that a multiple of ssm.group_count %d",
                       k->file, k->arch, inner, hp->linear_n_v_heads, hp->linear_n_k_heads);
}

void clef__set_mamba1(clef_hparams *hp, int32_t inner, int32_t rank)
{
    hp->linear_n_v_heads = hp->linear_n_k_heads = 1;
    hp->linear_v_dim = inner;
    hp->scan_rank = rank;
}

clef_value *clef__mamba_layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(
        b, x, clef__layer_is_linear(b->hp, b->layer) ? clef__mamba : clef__layer_attention,
        b->hp->n_experts > 0 ? clef__experts_or_gated : clef__gated_feed_forward);
}

const clef_mamba_keys clef__mamba_usual_keys = {"mamba_n_heads",
                                                "mamba_d_head",
                                                "mamba_n_groups",
                                                "mamba_d_state",
                                                "mamba_d_conv",
                                                "mamba_expand",
                                                0,
                                                1,
                                                256};
