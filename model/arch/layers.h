/* Layers and other pieces that architectures share. They all read and return values of b->g. Given NULL they
 * return NULL, so that an architecture reads like its paper and errors are checked once, at the end.
 *
 * The pieces name what they compute by its role in the layer ("attn.q", "mlp.up"); docs/graph-format.md lists
 * the names. */
#ifndef CLEF_MODEL_LAYERS_H
#define CLEF_MODEL_LAYERS_H

#include "graph/value.h"
#include "model/open/arch.h"

/** 1 when the model has the role's weight in the current layer. */
int clef__has_weight(const clef_builder *b, clef_role role, const char *suffix);
/** The weight of a role in the current layer, with ".weight" or ".bias" after its name. The optional form
 *  returns NULL, without an error, when the file has no such weight. */
clef_value *clef__role_weight(clef_builder *b, clef_role role, const char *suffix);
clef_value *clef__role_weight_optional(clef_builder *b, clef_role role, const char *suffix);
/** clef__role_weight(), which fails with CLEF_E_SHAPE and the weight's name if its shape differs from the one
 *  that the hyperparameters imply. */
clef_value *clef__role_weight_shaped(clef_builder *b, clef_role role, const char *suffix, clef_shape wanted);
/** The same, read as a matrix [first dim, all others]. */
clef_value *clef__role_weight_flat(clef_builder *b, clef_role role, const char *suffix, clef_shape stored);
/** The suffix of weights that a folder stores under their bare name: "" there, "weight" in GGUF. */
const char *clef__bare_suffix(const clef_builder *b);

/** Names v within the current scope and returns it. If the name is in use, because a weight is used twice, v
 *  keeps its generated name. */
clef_value *clef__name_value(clef_builder *b, clef_value *v, const char *name);

/** A state of the current layer, "layerL.NAME". A model has one for each role in a layer. */
clef_value *clef__layer_state(clef_builder *b, clef__state_role role, clef_dtype dtype, clef_shape shape);

/** Token embeddings [B, T, d] of b->ids. */
clef_value *clef__embed(clef_builder *b);
/** In steps of rows with pictures: their inputs; the embeddings x [B, 1, d], with the rows of pictures in
 *  place of those of their tokens; and what comes out of the current layer, with what pictures add to it. */
void        clef__picture_inputs(clef_builder *b);
clef_value *clef__with_pictures(clef_builder *b, clef_value *x);
clef_value *clef__with_deep(clef_builder *b, clef_value *x);
/** Gemma 4's per-layer embedding [B, T, layers, p] of each token: a row of a table, and a projection of its
 *  embedding x. */
clef_value *clef__per_layer_embed(clef_builder *b, clef_value *x);
/** x W^T (+ bias, when the file has one): x [B, T, in] -> [B, T, n_out]. */
clef_value *clef__linear(clef_builder *b, clef_value *x, clef_role role, int32_t n_in, int32_t n_out);
/** The family's norm with the role's weight (and bias) and the model's epsilon: a layer norm if the family
 *  has layer_norms, else an RMS norm. */
clef_value *clef__norm(clef_builder *b, clef_value *x, clef_role role);
/** x as F32: most ops take nothing else, and weights may be F16 or BF16. */
clef_value *clef__in_floats(clef_graph *g, clef_value *x);
/** [B, T, n * head_dim] -> [B, T, n, head_dim]. */
clef_value *clef__split_heads(clef_builder *b, clef_value *x, int32_t n, int32_t head_dim);
/** RoPE with the frequencies and pairing of the layer (full or sliding): [B, T, n, head_dim]. Returns x if
 *  nothing is rotated. `name` names the result: "attn.q_rope". */
clef_value *clef__layer_rope(clef_builder *b, clef_value *x, const char *name);
/** Self-attention over the layer's KV cache: q [B, T, H, D], k [B, T, Hk, D], v [B, T, Hk, E]. It appends k
 *  and v to the cache, and scales and caps scores by the hyperparameters. Layers with a sliding window use
 *  it. Returns [B, T, H * E]. The softmax weights are called layerL.attention. */
clef_value *clef__self_attention(clef_builder *b, clef_value *q, clef_value *k, clef_value *v);
/** 1 in layers that no_rope_layers lists. */
int clef__layer_lacks_rope(const clef_builder *b);
/** clef__self_attention() of q alone, over the keys and values of the last layer of the same kind (sliding or
 *  full) that computed its own. */
clef_value *clef__shared_attention(clef_builder *b, clef_value *q);
/** The model's activation; down(act(up(x))); down(act(gate(x)) up(x)): [B, T, d] -> [B, T, d]. */
clef_value *clef__activation(clef_builder *b, clef_value *x);
clef_value *clef__activated(clef_builder *b, clef_value *x, clef_activation activation);
clef_value *clef__feed_forward(clef_builder *b, clef_value *x);
clef_value *clef__gated_feed_forward(clef_builder *b, clef_value *x);
/** down(act(gate) up) of gate and up [B, T, d_ff]. */
clef_value *clef__gated_down(clef_builder *b, clef_value *gate, clef_value *up);
/** A gated feed-forward whose gate and up are one matrix [2 d_ff, d] with the role of up, gate first. */
clef_value *clef__joint_gated_feed_forward(clef_builder *b, clef_value *x);
/** A gated mixture of experts, with a shared expert if the model has one; the gated feed-forward in layers
 *  without a router: [B, T, d] -> [B, T, d]. */
clef_value *clef__experts_or_gated(clef_builder *b, clef_value *x);
/** How a feed-forward combines its gate and up values; both have the result's shape. */
typedef clef_value *clef_gating(clef_builder *b, clef_value *gate, clef_value *up);
/** The weighted sum of the experts with the n_experts_used largest of the router's logits [B, T, experts]:
 *  [B, T, d]. gated: NULL for act(gate) up. */
clef_value *clef__expert_sum(clef_builder *b, clef_value *logits, clef_value *x, clef_gating *gated);
/** What a folder's matrix (is_bias: its bias) is multiplied by; where rows differ, the first one; 1: GGUF. */
float clef__folder_scale(const clef_builder *b, clef_role role, int is_bias);
/** x times scale (0: 1). */
clef_value *clef__scaled(clef_builder *b, clef_value *x, float scale);
/** One of q, k, v: [B, T, d] -> [B, T, n, head_dim]. Each head is normalised (RMS) if the file has a weight
 *  for it. */
clef_value *clef__heads(clef_builder *b, clef_value *x, clef_role projection, clef_role norm, int32_t n);
/** The attention of most decoders: q, k, v by their projections (one for all three if the file has it, in the
 *  folder's order), RoPE, self-attention, output projection. [B, T, d] -> [B, T, d]. */
clef_value *clef__layer_attention(clef_builder *b, clef_value *x);
/** Attention of the target's x [B, U, d] over the source, with the roles CROSS_*: [B, U, d]. The softmax
 *  weights are called cross_attention. */
clef_value *clef__cross_attention(clef_builder *b, clef_value *x);
/** Adds the outputs cross_k_L and cross_v_L [B, H, S', D]: keys and values of b->memory for each decoder
 *  layer. */
void clef__cross_outputs(clef_builder *b);
/** Switches to the decoder's weights and to causal attention. */
void clef__enter_decoder(clef_builder *b);
/** Sinusoidal positions [T, d] of this step (arXiv:1706.03762, section 3.5), sines in the first half. The
 *  rate of pair i is 10000^(-2i / d). With an offset (fairseq, M2M-100) the table starts there and the rate
 *  is 10000^(-i / (d/2 - 1)). */
clef_value *clef__sinusoidal_positions(clef_builder *b, int32_t offset);
/** x + residual_scale y: adds the result of a block to the residual stream. `name` names the sum:
 *  "attn_residual". */
clef_value *clef__add_residual(clef_builder *b, clef_value *x, clef_value *y, const char *name);
/** Elements start .. start + size - 1 of an axis. */
clef_value *clef__part(clef_builder *b, clef_value *x, int32_t axis, int32_t start, int32_t size);
/** A state [n, rows, columns] for each sequence, in f32 whatever the cache's type. Beam search reorders it
 *  like the cache. */
clef_value *clef__memory(clef_builder *b, clef__state_role role, int32_t n, int32_t rows, int32_t columns);
/** Each of the n channels of x [B, T, n] mixed with its last hp->linear_taps positions, by the role's weight
 *  [n, taps] (and bias, if there is one). */
clef_value *clef__short_conv(clef_builder *b, clef_value *x, clef_role role, int32_t n);
/** 1 when a layer has a memory instead of a cache; marks it as such. */
int  clef__layer_is_linear(const clef_hparams *hp, int32_t layer);
void clef__set_linear(clef_hparams *hp, int32_t layer);
/** Reads layer_types, of which those with a type of `names` (ends with NULL) have a memory. Returns 0 when
 *  the key is absent. */
int  clef__json_linear_layers(clef_json_fields *f, clef_hparams *hp, const char *const *names);
/** All layers but those of a list of numbers have a memory. */
void clef__linear_but(clef_hparams *hp, const json_t *list);
/** The mixer of Mamba 2, or with hp->scan_rank of Mamba 1: [B, T, d] -> [B, T, d]. */
clef_value *clef__mamba(clef_builder *b, clef_value *x);
/** Says that all layers have a memory, and none has attention. */
void clef__all_linear(clef_hparams *hp);
/** The sizes of Mamba 1's scan (hp->linear_taps and .k_dim are set); inner: of the channels. */
void clef__set_mamba1(clef_hparams *hp, int32_t inner, int32_t rank);
/** A layer whose mixer is that, or attention, with experts or a gated feed-forward. */
clef_value *clef__mamba_layer(clef_builder *b, clef_value *x);
/** The keys of its sizes in a config.json, and the defaults of absent ones; missing_head_dim 0: what makes
 *  the heads together `expand` times as wide as the model. */
typedef struct clef_mamba_keys {
    const char *heads, *head_dim, *groups, *state, *taps, *expand;
    int32_t     missing_head_dim, missing_groups, missing_state;
} clef_mamba_keys;
extern const clef_mamba_keys clef__mamba_usual_keys;
void clef__json_mamba(clef_json_fields *f, clef_hparams *hp, const clef_mamba_keys *keys);
void clef__key_mamba(clef_gguf_keys *k, clef_hparams *hp);
/** Its stored logarithms of the rates. */
extern const clef_join_rule clef__mamba_joins[];
/** Layers without heads of keys (attention.head_count_kv is 0) have a memory. */
void clef__key_linear_layers(clef_gguf_keys *k, clef_hparams *hp);
/** 1 and an error if the graph has a padding mask, which a memory does not know. */
int clef__refuses_padding(clef_builder *b);
/** Learned position embeddings [T, d] of this step. The row of position 0 is number position_offset of the
 *  table. */
clef_value *clef__learned_positions(clef_builder *b);
/** Relative position bias (T5): b->bias [H, T, S] from the role's table [buckets, heads]. bidirectional: keys
 *  after the query have buckets of their own. */
void clef__relative_bias(clef_builder *b, clef_role role, int bidirectional);
/** q [B, T, H, D] times the factor of each token's position (hparams' attention_beta); q if there is none. */
clef_value *clef__scaled_queries(clef_builder *b, clef_value *q);
/** ALiBi (arXiv:2108.12409): b->bias [H, 1, S] = slope of the head times the key's position. (The paper uses
 *  the distance; softmax removes the difference, which is equal in a whole row.) */
void clef__alibi(clef_builder *b);
/** The last position of x [B, T, d] -> [B, 1, d]; in steps of rows the rows that are sampled, [N, 1, d]; x
 *  itself if all logits are requested. */
clef_value *clef__wanted_positions(clef_builder *b, clef_value *x);
/** Logits of x [B, T, d] by the output matrix, or by the embedding matrix if they are tied. Names x
 *  hidden_last. */
clef_value *clef__lm_head(clef_builder *b, clef_value *x);
/** Masked language modelling: the head's own dense layer and norm, then the logits. */
clef_value *clef__masked_lm_head(clef_builder *b, clef_value *x);

/* ---- whole layers ---------------------------------------------------------------------------- */

/** A block of a layer: attention or feed-forward, [B, T, d] -> [B, T, d]. */
typedef clef_value *clef_block(clef_builder *b, clef_value *x);

/** x + block(norm(x)). */
clef_value *clef__one_block(clef_builder *b, clef_value *x, clef_block *block);
/** y = x + attention(norm(x)), y + mlp(norm(y)) (GPT-2, Llama). Families whose tables have names for them
 *  have norms of the blocks' results, too (Gemma 2), or only these (OLMo 2). */
clef_value *clef__sequential_layer(clef_builder *b, clef_value *x, clef_block *attention, clef_block *mlp);
/** That of clef__layer_attention and clef__feed_forward. */
clef_value *clef__plain_layer(clef_builder *b, clef_value *x);
/** Both blocks read one norm: x + attention(norm(x)) + mlp(norm(x)) (GPT-J). */
clef_value *clef__parallel_layer(clef_builder *b, clef_value *x, clef_block *attention, clef_block *mlp);
/** Post-norm: y = norm(x + attention(x)), norm(y + mlp(y)) (BERT). */
clef_value *clef__post_norm_layer(clef_builder *b, clef_value *x, clef_block *attention, clef_block *mlp);

/** Llama's: clef__sequential_layer() of clef__layer_attention and clef__experts_or_gated. */
clef_value *clef__llama_layer(clef_builder *b, clef_value *x);
/** x [B, T, d] through n layers, each in a scope "layerL"; layer(b, x) builds b->layer. */
clef_value *clef__layers(clef_builder *b, clef_value *x, int32_t n, clef_block *layer);
/** A decoder's layers and last norm, then the logits of the requested positions. */
clef_value *clef__decoder(clef_builder *b, clef_value *x, clef_block *layer);

/** 1 if the model has a layer behind its own that predicts further tokens, and its family knows it. */
int clef__has_further_layer(const clef_model *model);
/** Checks the options of a graph with it: CLEF_E_UNSUPPORTED. */
clef_status clef__check_further_opts(const clef_model *model, const clef_build_opts *o, clef_error *err);
/** That layer, from b->ids and an input hidden to the logits; adds the output next_hidden [N, 1, d]. */
clef_value *clef__further_layer(clef_builder *b);

/** One vector of hidden states x [B, T, d] without padding: [B, d]. */
clef_value *clef__pooled(clef_builder *b, clef_value *x, clef_pooling pooling);
/** The embeddings of it: the pooled vector through the model's dense layers, which are open, then what o says
 *  of dimensions and norm. */
clef_value *clef__embedded(clef_builder *b, clef_value *x, const clef_build_opts *o);

/** What the model gives for each token of x, by its layer for that, which is open. */
clef_value *clef__token_vectors(clef_builder *b, clef_value *x, clef_token_head head);

/** The activation in the head of a ModernBERT: its folder's classifier_activation, or GELU. */
clef_activation clef__classifier_activation(clef_builder *b);
/** Logits of the file's classifier for hidden states x [B, T, d] without padding: [B, labels], or [B, T,
 *  labels] of a model that labels tokens. clef__labels_tokens() reads which from "architectures" in
 *  config.json. */
clef_value *clef__classified(clef_builder *b, clef_value *x);
int         clef__labels_tokens(const clef_model *model);
/** 1 if padding behind a text does not change its classes: they are those of each token, or of the first. */
int         clef__classes_by_first(const clef_model *model);
/** 1 if the file's class is one of classification; and the names of its classifier's weights, in hf and for
 *  GGUF. */
int               clef__has_classifier(const clef_model *model);
clef_weight_names clef__class_names(const clef_model *model, const char *hf[CLEF_N_ROLES]);

/** RoPE's frequencies [dims / 2] for a context of n_context positions, by the formulas of transformers'
 *  modeling_rope_utils.py (stated in model/arch/rope.c). factors: NULL, or [dims / 2] divisors from the file
 *  (GGUF's rope_freqs.weight, longrope's lists). */
void clef__rope_freqs(const clef_rope_params *rope, int32_t n_context, const float *factors, float *out);
/** What multiplies the rotated dims: YaRN's and longrope's factor, else 1. */
float clef__rope_attention_factor(const clef_rope_params *rope);

#endif
