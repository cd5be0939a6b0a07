/* Families of which new models can be made (model/open/families.h). Names, biases and ranges are those of
 * the classes in transformers. */
#include "model/open/families.h"

#include <math.h>
#include <string.h>

#include "clef/train_files.h"

enum { NO_PADDING_ROW = -2 };

static int is_bias(const char *suffix)
{
    return strcmp(suffix, "bias") == 0;
}

static int is_set(const json_t *config, const char *key)
{
    return json_is_true(json_object_get(config, key));
}

/* Every weight that the family has a name for, and every bias but the output matrix's. */
static int has_all_but_out_bias(const json_t *config, clef_role role, const char *suffix)
{
    (void)config;
    return role != CLEF_W_OUT || !is_bias(suffix);
}

static int has_all(const json_t *config, clef_role role, const char *suffix)
{
    (void)config;
    (void)role;
    (void)suffix;
    return 1;
}

static int has_none(const json_t *config, clef_role role, const char *suffix)
{
    (void)config;
    (void)role;
    (void)suffix;
    return 0;
}

static int is_qkv(clef_role role)
{
    return role == CLEF_W_ATTN_Q || role == CLEF_W_ATTN_K || role == CLEF_W_ATTN_V;
}

static int llama_has(const json_t *config, clef_role role, const char *suffix)
{
    if (!is_bias(suffix))
        return 0;
    if (is_qkv(role) || role == CLEF_W_ATTN_OUT)
        return is_set(config, "attention_bias");
    return is_set(config, "mlp_bias") &&
           (role == CLEF_W_FFN_GATE || role == CLEF_W_FFN_UP || role == CLEF_W_FFN_DOWN);
}

static int qwen2_has(const json_t *config, clef_role role, const char *suffix)
{
    (void)config;
    return is_bias(suffix) && is_qkv(role);
}

static int qwen3_has(const json_t *config, clef_role role, const char *suffix)
{
    if (is_bias(suffix))
        return (is_qkv(role) || role == CLEF_W_ATTN_OUT) && is_set(config, "attention_bias");
    return role == CLEF_W_ATTN_Q_NORM || role == CLEF_W_ATTN_K_NORM;
}

/* What is added to the residual stream begins smaller (Radford et al. 2019, section 2.3). */
static double gpt2_deviation(const clef_hparams *hp, clef_role role, double range)
{
    const int is_residual = role == CLEF_W_ATTN_OUT || role == CLEF_W_FFN_DOWN;
    return is_residual ? range / sqrt(2.0 * hp->n_layers) : range;
}

/* T5's scores are not scaled, so q begins with the scale in it (Mesh TensorFlow's initialisers). */
static double t5_deviation(const clef_hparams *hp, clef_role role, double range)
{
    const double d = hp->d_model, D = hp->head_dim;
    switch (role) {
    case CLEF_W_EMBED:
    case CLEF_W_OUT:
        return range;
    case CLEF_W_ATTN_Q:
    case CLEF_W_CROSS_Q:
        return range / sqrt(d * D);
    case CLEF_W_ATTN_OUT:
    case CLEF_W_CROSS_OUT:
        return range / sqrt(hp->n_heads * D);
    case CLEF_W_FFN_DOWN:
        return range / sqrt(hp->d_ff);
    default:
        return range / sqrt(d);
    }
}

static const clef__new_family families[] = {
    {"gpt2", "GPT2LMHeadModel", "initializer_range", 0.02, NO_PADDING_ROW, has_all_but_out_bias,
     gpt2_deviation},
    {"llama", "LlamaForCausalLM", "initializer_range", 0.02, -1, llama_has, NULL},
    {"mistral", "MistralForCausalLM", "initializer_range", 0.02, -1, has_none, NULL},
    {"qwen2", "Qwen2ForCausalLM", "initializer_range", 0.02, -1, qwen2_has, NULL},
    {"qwen3", "Qwen3ForCausalLM", "initializer_range", 0.02, -1, qwen3_has, NULL},
    {"bert", "BertForMaskedLM", "initializer_range", 0.02, 0, has_all, NULL},
    {"bart", "BartForConditionalGeneration", "init_std", 0.02, 1, has_all_but_out_bias, NULL},
    {"t5", "T5ForConditionalGeneration", "initializer_factor", 1, NO_PADDING_ROW, has_none, t5_deviation},
};

enum { N_FAMILIES = sizeof families / sizeof *families };

const clef__new_family *clef__new_family_find(const char *model_type)
{
    for (int32_t i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    return NULL;
}

const char *clef_model_new_type(int32_t i)
{
    return i >= 0 && i < N_FAMILIES ? families[i].model_type : NULL;
}
