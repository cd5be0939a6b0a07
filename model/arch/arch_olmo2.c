/* OLMo 2 (arXiv:2501.00656): norms after attention and feed-forward instead of before, and norms of all of q
 * and k. */
#include "model/arch/layers.h"

static const clef_arch_alias olmo2_names[] = {{"olmo2", "olmo2", -1, 50279}, {NULL, NULL, 0, 0}};

static const char *const olmo2_weights[CLEF_N_ROLES] = {
    CLEF_HF_EMBED_AND_HEAD,
    CLEF_HF_ATTENTION,
    CLEF_HF_QK_NORMS,
    CLEF_HF_GATED_MLP,
    [CLEF_W_ATTN_POST_NORM] = "layers.%d.post_attention_layernorm",
    [CLEF_W_FFN_POST_NORM] = "layers.%d.post_feedforward_layernorm"};

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, clef__layer_attention, clef__gated_feed_forward);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_activation(f, hp, "hidden_act", "silu");
    clef__json_rope(f, hp, 10000);
}

/* OLMo 3 has this name too: a window in three of four layers, where RoPE is not scaled. */
static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    const clef_rope_params *r = &hp->rope;
    if (hp->sliding_window == 0)
        return;
    clef__key_windows(k, hp, -1, 4);
    if (hp->rope_sliding.dims == 0 && r->type != CLEF_ROPE_DEFAULT)
        hp->rope_sliding = (clef_rope_params){.dims = r->dims, .pairing = r->pairing, .theta = r->theta};
}

const clef_arch clef__arch_olmo2 = {
    .names = olmo2_names,
    .weights = {.hf = olmo2_weights},
    .hf_prefix = "model.",
    .qk_norms = CLEF_QK_NORM_ALL,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .layer = layer,
};
