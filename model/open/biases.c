/* Which biases and norms of q and k a folder's model has, by its config.json (model/open/biases.def). */
#include <string.h>

#include "model/open/arch.h"

typedef enum bias_group {
    QKV,
    ATTN_OUT,
    FEED_FORWARD,
    NORMS,
    HEAD,
    QK_NORMS,
    QK_NORM_BIASES,
    EXPERTS,
    UNKNOWN
} bias_group;

static const struct {
    const char *model_type, *has[QK_NORM_BIASES];
} classes[] = {
#define BIASES(type, qkv, attn_out, feed_forward, norms, head, qk_norms)                                     \
    {#type, {qkv, attn_out, feed_forward, norms, head, qk_norms}},
#include "model/open/biases.def"
#undef BIASES
};

/* The biases of layers with a memory: of the convolution, and of the projections around it. */
static const struct {
    const char *model_type, *conv, *projections, *out, *norm; /* NULL: as `projections`; not known */
} memories[] = {{"falcon_h1", "mamba_conv_bias=1", "mamba_proj_bias", "projectors_bias", "mamba_rms_norm"},
                {"mamba", "use_conv_bias=1", "use_bias", NULL, NULL},
                {"falcon_mamba", "use_conv_bias=1", "use_bias", NULL, NULL},
                {"jamba", "mamba_conv_bias=1", "mamba_proj_bias", NULL, NULL},
                {"mamba2", "use_conv_bias=1", "use_bias", NULL, NULL},
                {"nemotron_h", "use_conv_bias=1", "use_bias", NULL, NULL},
                {"bamba", "mamba_conv_bias=1", "mamba_proj_bias", NULL, NULL},
                {"granitemoehybrid", "mamba_conv_bias=1", "mamba_proj_bias", NULL, NULL},
                {"lfm2", "conv_bias", "conv_bias", NULL, NULL},
                {"lfm2_moe", "conv_bias", "conv_bias", NULL, NULL}};

static bias_group group_of(clef_role role, const char *suffix)
{
    const int is_bias = strcmp(suffix, "bias") == 0;
    switch (role) {
    case CLEF_W_ATTN_Q_NORM:
    case CLEF_W_ATTN_K_NORM:
        return is_bias ? QK_NORM_BIASES : QK_NORMS;
    case CLEF_W_ATTN_Q:
    case CLEF_W_ATTN_K:
    case CLEF_W_ATTN_V:
    case CLEF_W_ATTN_QKV:
    case CLEF_W_ATTN_Q_A:
    case CLEF_W_ATTN_KV_A:
    case CLEF_W_CROSS_Q:
    case CLEF_W_CROSS_K:
    case CLEF_W_CROSS_V:
        return is_bias ? QKV : UNKNOWN;
    case CLEF_W_ATTN_OUT:
    case CLEF_W_CROSS_OUT:
        return is_bias ? ATTN_OUT : UNKNOWN;
    case CLEF_W_FFN_GATE:
    case CLEF_W_FFN_UP:
    case CLEF_W_FFN_UP_GATED:
    case CLEF_W_FFN_DOWN:
        return is_bias ? FEED_FORWARD : UNKNOWN;
    case CLEF_W_ROUTER:
    case CLEF_W_EXPERT_GATE:
    case CLEF_W_EXPERT_UP:
    case CLEF_W_EXPERT_DOWN:
        return is_bias ? EXPERTS : UNKNOWN;
    case CLEF_W_EMBED_NORM:
    case CLEF_W_ATTN_NORM:
    case CLEF_W_ATTN_NORM_2:
    case CLEF_W_ATTN_POST_NORM:
    case CLEF_W_CROSS_NORM:
    case CLEF_W_FFN_NORM:
    case CLEF_W_FFN_POST_NORM:
    case CLEF_W_OUT_NORM:
    case CLEF_W_HEAD_NORM:
        return is_bias ? NORMS : UNKNOWN;
    case CLEF_W_OUT:
        return is_bias ? HEAD : UNKNOWN;
    default:
        return UNKNOWN;
    }
}

/* "1", "0", "key" or "key=1". */
static int follows(const json_t *config, const char *rule)
{
    char key[64];
    const char *end = strchr(rule, '=');
    const size_t n = end ? (size_t)(end - rule) : strlen(rule);
    if (strcmp(rule, "0") == 0 || strcmp(rule, "1") == 0 || n >= sizeof key)
        return rule[0] == '1';
    memcpy(key, rule, n);
    key[n] = 0;
    const json_t *value = json_object_get(config, key);
    return value ? json_is_true(value) : end != NULL;
}

static int class_follows(const json_t *config, const char *const *has, bias_group group)
{
    if (group == EXPERTS)
        return strcmp(has[FEED_FORWARD], "1") == 0;
    return group == QK_NORM_BIASES ? follows(config, has[NORMS]) && follows(config, has[QK_NORMS])
                                   : follows(config, has[group]);
}

int clef__class_has(const json_t *config, clef_role role, const char *suffix)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const int is_low_rank = role == CLEF_W_ATTN_Q && json_is_integer(json_object_get(config, "kv_lora_rank"));
    const bias_group group = group_of(role, suffix);
    const int is_conv = role == CLEF_W_LINEAR_CONV || role == CLEF_W_CONV,
              is_beside = role == CLEF_W_SCAN_IN || role == CLEF_W_LINEAR_OUT || role == CLEF_W_CONV_IN ||
                          role == CLEF_W_CONV_OUT;
    for (size_t i = 0; type && i < sizeof memories / sizeof *memories; i++) {
        const int is_bias = strcmp(suffix, "bias") == 0;
        if (strcmp(memories[i].model_type, type) != 0)
            continue;
        if (role == CLEF_W_LINEAR_NORM && !is_bias && memories[i].norm)
            return follows(config, memories[i].norm);
        if (role == CLEF_W_LINEAR_OUT && is_bias && memories[i].out)
            return follows(config, memories[i].out);
        if (is_bias && (is_conv || is_beside))
            return follows(config, is_conv ? memories[i].conv : memories[i].projections);
    }
    if (is_low_rank && group == QKV)
        return 0;
    for (size_t i = 0; type && group != UNKNOWN && i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i].model_type, type) == 0)
            return class_follows(config, classes[i].has, group);
    return -1;
}
