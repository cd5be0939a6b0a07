/* What an architecture is: the names it answers to, its weights' names, and the function that builds its graph.
 * To add one: docs/adding-a-model.md. */
#ifndef CLEF_MODEL_ARCH_H
#define CLEF_MODEL_ARCH_H

#include "clef/model.h"
#include "graph/fail.h"
#include "model/open/config.h"
#include "model/open/joined.h"

/** What a weight is for. Layers' weights come in one for each layer. */
typedef enum clef_role {
    CLEF_W_EMBED,
    CLEF_W_EMBED_NORM,
    CLEF_W_EMBED_TYPES,
    CLEF_W_EMBED_PROJECTION,
    CLEF_W_POSITIONS,
    CLEF_W_RELATIVE, /* biases of position buckets [buckets, heads] */
    CLEF_W_ATTN_NORM,
    CLEF_W_ATTN_NORM_2,
    CLEF_W_ATTN_QKV,
    CLEF_W_ATTN_Q,
    CLEF_W_ATTN_K,
    CLEF_W_ATTN_V,
    CLEF_W_ATTN_Q_NORM,
    CLEF_W_ATTN_K_NORM,
    CLEF_W_ATTN_Q_A, /* DeepSeek's latents: down to them, their norm, up from them */
    CLEF_W_ATTN_Q_A_NORM,
    CLEF_W_ATTN_Q_B,
    CLEF_W_ATTN_KV_A,
    CLEF_W_ATTN_KV_A_NORM,
    CLEF_W_ATTN_KV_B,
    CLEF_W_ATTN_SINKS, /* a logit of each head (clef_softmax_with_sinks) */
    CLEF_W_ATTN_OUT,
    CLEF_W_ATTN_POST_NORM, /* of what the attention adds */
    CLEF_W_CROSS_NORM,
    CLEF_W_CROSS_Q,
    CLEF_W_CROSS_K,
    CLEF_W_CROSS_V,
    CLEF_W_CROSS_OUT,
    CLEF_W_FFN_NORM,
    CLEF_W_FFN_GATE,
    CLEF_W_FFN_UP,
    CLEF_W_FFN_UP_GATED, /* where a gated feed-forward names it otherwise */
    CLEF_W_FFN_DOWN,
    CLEF_W_FFN_POST_NORM,
    CLEF_W_ROUTER, /* mixtures of experts: the logits of each expert */
    CLEF_W_EXPERT_GATE, /* of all experts [experts, ..]; "*" stands for their numbers where a folder has them one by one */
    CLEF_W_EXPERT_UP,
    CLEF_W_EXPERT_DOWN,
    CLEF_W_SHARED_GATE, /* of the expert that every token meets */
    CLEF_W_SHARED_UP,
    CLEF_W_SHARED_DOWN,
    CLEF_W_EMBED_LAYERS, /* what each layer is told of each token: the table, a projection of the embedding, its norm */
    CLEF_W_LAYERS_PROJECTION,
    CLEF_W_LAYERS_NORM,
    CLEF_W_LAYER_GATE, /* and how a layer takes it */
    CLEF_W_LAYER_PROJECTION,
    CLEF_W_LAYER_NORM,
    CLEF_W_LAYER_SCALE, /* multiplies the layer's output */
    CLEF_W_LINEAR_QKV, /* linear attention (clef_gated_delta) */
    CLEF_W_LINEAR_GATE,
    CLEF_W_LINEAR_A,
    CLEF_W_LINEAR_B,
    CLEF_W_LINEAR_CONV,
    CLEF_W_LINEAR_RATES,
    CLEF_W_LINEAR_BIAS,
    CLEF_W_LINEAR_NORM,
    CLEF_W_LINEAR_OUT,
    CLEF_W_OUT_NORM,
    CLEF_W_HEAD_DENSE,
    CLEF_W_HEAD_NORM,
    CLEF_W_OUT,
    CLEF_W_LOGITS_BIAS,
    CLEF_N_ROLES
} clef_role;

/** A weight's name without ".weight" or ".bias": in a Hugging Face folder and in GGUF. "%d" stands for the layer, a leading '/' says that
 *  the folder's prefix is not put before it. NULL: has none. */
typedef struct clef_weight_name {
    const char *hf, *gguf;
} clef_weight_name;

/** The model under construction: what the functions of model/arch/layers.h share. */
typedef struct clef_builder {
    clef_graph           *g;
    const clef_model     *model;
    const clef_hparams   *hp;
    const struct clef_arch *arch;
    const clef_weight_name *weights; /* the table in use: an encoder-decoder has two */
    int32_t               n_context, all_logits, no_head;
    int32_t               cached, causal; /* attention reads the cache; a token does not see those behind it */
    int32_t               layer;   /* the one being built, -1 outside the layers */
    clef_dim              B, T, S; /* sequences, tokens of this step, cached positions that it may see */
    int32_t               max_B;
    clef_dtype            kv_type; /* of the cache */
    clef_value           *ids;     /* I32 [B, T] */
    clef_value           *pos;     /* I32 [B]: positions in the cache before this step */
    clef_value           *order;   /* NULL, or I32 [B]: the sequence of the cache that each continues */
    clef_value           *types;   /* NULL, or I32 [B, T]: token types */
    clef_value           *mask;    /* NULL, or I32 [B, 1, 1, S]: 0 where a key is padding */
    clef_value           *bias;    /* NULL, or F32 [H, 1 or T, S], with a mask joined to it [B, H, ..]: added to all scores */
    clef_value           *memory;  /* encoder-decoders: the encoder's output [B, S', d]; NULL where its keys and values are inputs */
    clef_value           *memory_mask; /* NULL, or I32 [B, 1, 1, S']: 0 where a source token is padding */
    clef_dim              source;  /* S' */
    clef_value           *sinusoids; /* F32 [n_context, d], made at first use */
    clef_value           *seen_k[2], *seen_v[2]; /* of the last full, and of the last sliding layer that had keys of its own */
    clef_value           *freqs[2]; /* of RoPE, made at first use: of full layers, of sliding ones */
} clef_builder;

/** What an architecture makes of its input. */
typedef enum clef_arch_kind {
    CLEF_DECODER, /* each token sees those before it, through a cache */
    CLEF_ENCODER, /* each token sees all */
    CLEF_SEQ2SEQ  /* an encoder, and a decoder that sees its output */
} clef_arch_kind;

/** A name that an architecture answers to: model_type in a config.json and general.architecture in GGUF (NULL: none), and what
 *  transformers' config class takes for bos and eos when the file does not have the keys (-1: none). */
typedef struct clef_arch_alias {
    const char *hf, *gguf;
    int32_t bos, eos;
} clef_arch_alias;

typedef struct clef_arch {
    const clef_arch_alias  *names;   /* ends with two NULL */
    clef_arch_kind          kind;
    const clef_weight_name *weights; /* [CLEF_N_ROLES] */
    const char             *hf_prefix; /* of every name in a folder but the output matrix's */
    int32_t                 hf_conv1d; /* 1: a folder's matrices are [in, out] (GPT-2's Conv1D) */
    int32_t                 hf_grouped; /* 1: a folder has q, k and v in groups (CLEF_QKV_GROUPS), GGUF in parts */
    int32_t                 layer_norms; /* 1: GGUF has the epsilon of layer norms, not of RMS norms */
    const char             *written_as; /* the general.architecture that a folder is written under, where its name has none in GGUF */
    int32_t                 hf_norm_offset; /* 1: a folder's RMS norms multiply by 1 + weight (Gemma) */
    int32_t                 gguf_pairs; /* clef_rope_pairing of what GGUF stores: PAIRS_TO_HALVES where a folder has halves */
    /** The family's keys of a config.json into hp (bos, eos, n_vocab are read by the caller). NULL: only as GGUF. */
    void (*read_json)(clef_json_fields *f, clef_hparams *hp);
    /** What the standard keys of GGUF do not say, after they were read. NULL: nothing. */
    void (*read_gguf)(clef_gguf_keys *k, clef_hparams *hp);
    const char             *packed; /* NULL, or the quantization_config.quant_method that joins undo */
    const clef_join_rule *joins; /* NULL, or weights that a folder stores in another form; ends with a NULL join */
    const clef_weight_name *decoder_weights; /* encoder-decoders: weights is the encoder's table */
    /** Builds the graph from b->ids to the logits, which it returns. Encoder-decoders: from b->ids to the encoder's output. */
    clef_value *(*build)(clef_builder *b);
    /** Encoder-decoders: from b->ids, the target's, to the logits. */
    clef_value *(*decode)(clef_builder *b);
} clef_arch;

/** Llama's names, which many families took over. */
extern const clef_weight_name clef__llama_weights[CLEF_N_ROLES];

#define ARCH(name) extern const clef_arch clef__arch_##name;
#include "model/open/archs.def"
#undef ARCH

/** The architecture that answers to a model_type (is_gguf 0) or a general.architecture (1), NULL if none. */
const clef_arch *clef__arch_find(const char *name, int is_gguf);
/** The row of its names. */
const clef_arch_alias *clef__arch_alias(const clef_arch *arch, const char *name, int is_gguf);

/** CLEF_E_UNSUPPORTED, listing the known names. */
clef_status clef__arch_unknown(const char *name, const char *file, clef_error *err);

#endif
