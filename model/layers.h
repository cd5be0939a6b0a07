/* Pieces that architectures share, named after what they are. All take and return values of b->g; given NULL they give NULL, so
 * that an architecture reads like its paper and errors are looked at once, at the end. */
#ifndef CLEF_MODEL_LAYERS_H
#define CLEF_MODEL_LAYERS_H

#include "model/arch.h"

/** The weight of a role in the present layer, with ".weight" or ".bias" after its name, as the file stores it. The optional form gives
 *  NULL, without an error, when the file has none. */
clef_value *clef__weight(clef_builder *b, clef_role role, const char *suffix);
clef_value *clef__weight_optional(clef_builder *b, clef_role role, const char *suffix);
/** The same, refused by name (CLEF_E_SHAPE) when it is of another shape than the hyperparameters say. */
clef_value *clef__weight_shaped(clef_builder *b, clef_role role, const char *suffix, clef_shape wanted);

/** Token embeddings [B, T, d] of b->ids. */
clef_value *clef__embed(clef_builder *b);
/** x W^T (+ bias, when the file has one): x [B, T, in] -> [B, T, n_out]. Refuses a weight of another shape by name. */
clef_value *clef__linear(clef_builder *b, clef_value *x, clef_role role, int32_t n_in, int32_t n_out);
/** Norms with the role's weight (and bias) and the model's epsilon. */
clef_value *clef__layer_norm(clef_builder *b, clef_value *x, clef_role role);
clef_value *clef__rms_norm(clef_builder *b, clef_value *x, clef_role role);
/** [B, T, n * head_dim] -> [B, T, n, head_dim]. */
clef_value *clef__split_heads(clef_builder *b, clef_value *x, int32_t n, int32_t head_dim);
/** RoPE with the model's frequencies and pairing: [B, T, n, head_dim]. */
clef_value *clef__rope(clef_builder *b, clef_value *x);
/** Causal self-attention over the layer's KV cache: q [B, T, H, D], k and v [B, T, Hk, D]; k and v are appended to the cache.
 *  scores / sqrt(D); the layer's sliding window when it has one. Gives [B, T, H * D]. The weights are called layerL.attention. */
clef_value *clef__self_attention(clef_builder *b, clef_value *q, clef_value *k, clef_value *v);
/** The last position of x [B, T, d] -> [B, 1, d]; x itself when all logits are wanted. */
clef_value *clef__wanted_positions(clef_builder *b, clef_value *x);
/** Logits of x [B, T, d] by the output matrix, or by the embedding when they are tied. Calls x hidden_last. */
clef_value *clef__lm_head(clef_builder *b, clef_value *x);

/** RoPE's frequencies [n]: theta^(-2i / 2n), then linear scaling or Llama 3's (whose wavelengths over original / low_freq_factor are
 *  stretched by factor, under original / high_freq_factor kept, and blended in between: as in transformers' modeling_rope_utils).
 *  factors: NULL, or [n] divisors that the file carries (GGUF's rope_freqs.weight). */
void clef__rope_freqs(const clef_hparams *hp, const float *factors, int32_t n, float *out);

#endif
