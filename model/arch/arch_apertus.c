/* Apertus (arXiv:2509.14233): a Llama with norms of q and k, and a plain feed-forward whose activation, xIELU
 * (arXiv:2411.13010), has numbers of its own in each layer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/arch/apertus.h"
#include "model/arch/layers.h"
#include "model/open/model.h"

static const clef_arch_alias names[] = {{"apertus", "apertus", 1, 2}, {NULL, NULL, 0, 0}};

static const char *const weights[CLEF_N_ROLES] = {CLEF_HF_EMBED_AND_HEAD,
                                                  CLEF_HF_ATTENTION,
                                                  CLEF_HF_QK_NORMS,
                                                  [CLEF_W_ATTN_NORM] = "layers.%d.attention_layernorm",
                                                  [CLEF_W_FFN_NORM] = "layers.%d.feedforward_layernorm",
                                                  [CLEF_W_FFN_UP] = "layers.%d.mlp.up_proj",
                                                  [CLEF_W_FFN_DOWN] = "layers.%d.mlp.down_proj"};

const char *const clef__xielu_names[CLEF_N_XIELU] = {"alpha_p", "alpha_n", "beta", "eps"};

int clef__xielu_number(const clef_model *m, int32_t layer, int which, float *out)
{
    char name[96];
    if (m->is_gguf) {
        snprintf(name, sizeof name, "xielu.%s", clef__xielu_names[which]);
        const clef_gguf_entry *e = clef__gguf_find(&m->gguf, name);
        if (!e || (e->is_array && (uint64_t)layer >= e->n) || e->type == CLEF_GGUF_STRING)
            return 0;
        *out = (float)clef__gguf_item_float(e, e->is_array ? (uint64_t)layer : 0);
        return 1;
    }
    snprintf(name, sizeof name, "model.layers.%d.mlp.act_fn.%s", (int)layer, clef__xielu_names[which]);
    const clef_tensor_info *t = clef__model_find(m, name);
    if (!t || !t->data || clef_dtype_block_elems(t->dtype) != 1)
        return 0;
    clef_dtype_decode(t->dtype, t->data, 1, out);
    return 1;
}

/* x > 0: p x^2 + beta x; else n (exp(x) - 1 - x) + beta x, with p = softplus(alpha_p) and n = beta +
 * softplus(alpha_n). eps, by which transformers bounds x from above in the second line, is less than what
 * float32 shows. */
static clef_value *xielu(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    float numbers[CLEF_N_XIELU] = {0};
    for (int i = 0; i < CLEF_N_XIELU; i++)
        if (!clef__xielu_number(b->model, b->layer, i, &numbers[i]))
            return clef__graph_fail(g, CLEF_E_NOT_FOUND, "%s: xIELU's %s of layer %d is missing",
                                    clef_model_path(b->model), clef__xielu_names[i], (int)b->layer);
    const double beta = (double)numbers[2], p = log1p(exp((double)numbers[0])),
                 n = beta + log1p(exp((double)numbers[1]));
    clef_value *positive = clef_relu(g, x), *negative = clef_sub(g, x, positive);
    clef_value *curve = clef_sub(g, clef_exp(g, negative), negative);
    x = clef_add(g, clef_affine(g, x, &(clef_affine_opts){.scale = (float)beta}),
                 clef_affine(g, clef_square(g, positive), &(clef_affine_opts){.scale = (float)p}));
    return clef_add(g, x, clef_affine(g, curve, &(clef_affine_opts){.scale = (float)n, .shift = (float)-n}));
}

static clef_value *feed_forward(clef_builder *b, clef_value *x)
{
    const int32_t d = b->hp->d_model, d_ff = b->hp->d_ff;
    x = xielu(b, clef__linear(b, x, CLEF_W_FFN_UP, d, d_ff));
    return clef__linear(b, clef__name_value(b, x, "mlp.act"), CLEF_W_FFN_DOWN, d_ff, d);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__sequential_layer(b, x, clef__layer_attention, feed_forward);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    const char *act = clef__json_string(f, "hidden_act", "xielu");
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "rms_norm_eps", 0, 1, 1e-5);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 0);
    clef__json_rope(f, hp, 12000000);
    if (f->status == CLEF_OK && strcmp(act, "xielu") != 0)
        clef__json_refuse(f, "hidden_act: expected xielu");
}

const clef_arch clef__arch_apertus = {
    .names = names,
    .weights = {.hf = weights},
    .hf_prefix = "model.",
    .read_json = read_json,
    .layer = layer,
};
