/* What an architecture consists of: its names, its weights' names, and the function that builds its graph.
 * docs/adding-a-model.md explains how to add one. */
#ifndef CLEF_MODEL_ARCH_H
#define CLEF_MODEL_ARCH_H

#include "clef/model.h"
#include "graph/fail.h"
#include "model/open/config.h"
#include "model/open/joined.h"

typedef struct clef_arch clef_arch;

/** The purpose of a weight (model/open/roles.def). A weight of a layer exists once in each layer. */
typedef enum clef_role {
#define ROLE(name, gguf, value) CLEF_W_##name,
#include "model/open/roles.def"
#undef ROLE
    CLEF_N_ROLES
} clef_role;

/** A tensor whose name in GGUF is not the role's standard one. */
typedef struct clef_gguf_name {
    clef_role   role;
    const char *name;
} clef_gguf_name;

/** The names of a family's weights, without ".weight" or ".bias". "%d" stands for the layer. If a folder's
 *  name has no "%d", all layers share the weight, which GGUF stores in block 0. */
typedef struct clef_weight_names {
    /* [CLEF_N_ROLES]: in a folder. NULL: no such weight. A leading '/' means that the name gets no prefix */
    const char *const    *hf;
    /* NULL, or the names that differ from the standard ones; ends with a NULL name */
    const clef_gguf_name *gguf;
    const char           *gguf_prefix; /* NULL, or a prefix of the standard names: "enc." */
} clef_weight_names;

/* Rows of names that most decoders share. */
#define CLEF_HF_EMBED_AND_HEAD \
    [CLEF_W_EMBED] = "embed_tokens", [CLEF_W_OUT_NORM] = "norm", [CLEF_W_OUT] = "lm_head"
#define CLEF_HF_ATTENTION                                                                                    \
    [CLEF_W_ATTN_Q] = "layers.%d.self_attn.q_proj", [CLEF_W_ATTN_K] = "layers.%d.self_attn.k_proj",          \
    [CLEF_W_ATTN_V] = "layers.%d.self_attn.v_proj", [CLEF_W_ATTN_OUT] = "layers.%d.self_attn.o_proj"
#define CLEF_HF_QK_NORMS                                                                                     \
    [CLEF_W_ATTN_Q_NORM] = "layers.%d.self_attn.q_norm", [CLEF_W_ATTN_K_NORM] = "layers.%d.self_attn.k_norm"
#define CLEF_HF_NORMS                                                                                        \
    [CLEF_W_ATTN_NORM] = "layers.%d.input_layernorm", [CLEF_W_FFN_NORM] = "layers.%d.post_attention_layernorm"
/* The layer that predicts further tokens has the number of layers for its number. Qwen's names of its weights
 * are spellings of these (clef__further_name()). */
#define CLEF_HF_FURTHER                                                                                      \
    [CLEF_W_FURTHER_EMBED_NORM] = "layers.%d.enorm", [CLEF_W_FURTHER_HIDDEN_NORM] = "layers.%d.hnorm",       \
    [CLEF_W_FURTHER_PROJECTION] = "layers.%d.eh_proj", [CLEF_W_FURTHER_NORM] = "layers.%d.shared_head.norm"
#define CLEF_HF_DECODER CLEF_HF_EMBED_AND_HEAD, CLEF_HF_NORMS, CLEF_HF_ATTENTION
#define CLEF_HF_EXPERTS                                                                                      \
    [CLEF_W_EXPERT_GATE] = "layers.%d.mlp.experts.*.gate_proj",                                              \
    [CLEF_W_EXPERT_UP] = "layers.%d.mlp.experts.*.up_proj",                                                  \
    [CLEF_W_EXPERT_DOWN] = "layers.%d.mlp.experts.*.down_proj"
#define CLEF_HF_SHARED_EXPERT(name)                                                                          \
    [CLEF_W_SHARED_GATE] = "layers.%d.mlp." name ".gate_proj",                                               \
    [CLEF_W_SHARED_UP] = "layers.%d.mlp." name ".up_proj",                                                   \
    [CLEF_W_SHARED_DOWN] = "layers.%d.mlp." name ".down_proj"
#define CLEF_HF_GATED_MLP                                                                                    \
    [CLEF_W_FFN_GATE] = "layers.%d.mlp.gate_proj", [CLEF_W_FFN_UP] = "layers.%d.mlp.up_proj",                \
    [CLEF_W_FFN_DOWN] = "layers.%d.mlp.down_proj"

#define CLEF_HF_MAMBA(mixer)                                                                                 \
    [CLEF_W_SCAN_IN] = "layers.%d." mixer ".in_proj", [CLEF_W_LINEAR_CONV] = "layers.%d." mixer ".conv1d",   \
    [CLEF_W_LINEAR_RATES] = "layers.%d." mixer ".rates", [CLEF_W_SCAN_SKIP] = "layers.%d." mixer ".D",       \
    [CLEF_W_LINEAR_BIAS] = "layers.%d." mixer ".dt_bias", [CLEF_W_LINEAR_NORM] = "layers.%d." mixer ".norm", \
    [CLEF_W_LINEAR_OUT] = "layers.%d." mixer ".out_proj"
/* Attention and feed-forwards of Jamba, and of those that name them as it does. */
#define CLEF_HF_HYBRID                                                                                       \
    CLEF_HF_ATTENTION, [CLEF_W_EMBED] = "embed_tokens", [CLEF_W_OUT_NORM] = "final_layernorm",               \
    [CLEF_W_OUT] = "/lm_head", [CLEF_W_ATTN_NORM] = "layers.%d.input_layernorm",                             \
    [CLEF_W_FFN_NORM] = "layers.%d.pre_ff_layernorm",                                                        \
    [CLEF_W_FFN_GATE] = "layers.%d.feed_forward.gate_proj",                                                  \
    [CLEF_W_FFN_UP] = "layers.%d.feed_forward.up_proj",                                                      \
    [CLEF_W_FFN_DOWN] = "layers.%d.feed_forward.down_proj"
#define CLEF_GGUF_MAMBA \
    {CLEF_W_LINEAR_RATES, "blk.%d.ssm_a/"}, {CLEF_W_LINEAR_BIAS, "blk.%d.ssm_dt.bias/"}

/** The model that is being built: what the functions of model/arch/layers.h share. */
typedef struct clef_builder {
    clef_graph           *g;
    const clef_model     *model;
    const clef_hparams   *hp;
    const clef_arch      *arch;
    const clef_weight_names *weights; /* the current table; an encoder-decoder has two */
    int32_t               n_context, all_logits, no_head, for_export;
    clef_mtp              mtp;
    /* 1: attention reads the cache; 1: a token does not see later tokens */
    int32_t               cached, causal;
    int32_t               layer;   /* the current layer, -1 outside the layers */
    clef_dim              B, T, S; /* sequences, tokens of this step, cached positions that it may see */
    int32_t               max_B;
    clef_dtype            kv_type; /* of the cache */
    clef_value           *ids;     /* I32 [B, T] */
    clef_value           *features; /* NULL, or F32 [B, n_mels, 2 n_source]: a source that is heard; or
                                       F32 [1, samples] */
    int32_t               is_gguf; /* 1: of GGUF are the names of the weights */
    clef_value           *pixels;  /* encoders of pictures: F32 [B, 3, height, width] */
    clef_value           *cosines, *sines; /* NULL, or F32 [T, 1, D]: RoPE by angles of the rows themselves */
    const char           *prefix;  /* NULL, or what names have in a folder in place of arch->hf_prefix */
    clef_value           *pos;     /* I32 [B]: positions in the cache before this step */
    /* Steps of rows: NULL, or I32 [M, 3]: the runs of clef_paged_write(). B is then rows, T is 1 */
    clef_value           *runs;
    clef_value           *pages[2]; /* the pages of full and of sliding layers */
    int32_t               n_pages[2]; /* of their pools */
    clef_value           *samples;    /* I32 [N]: the rows whose logits are wanted */
    const clef_lora_set  *loras;   /* NULL, or adapters that the graph offers */
    clef_value           *adapter; /* with loras: I32 [B], the number of each sequence's adapter */
    clef_value           *order;   /* NULL, or I32 [B]: the sequence of the cache that each sequence
                                      continues */
    /* Training: NULL, or I32 [B, T]: what each token should predict; the place of a token in its document,
     * and the place in the row at which its document begins */
    clef_value           *labels, *positions, *first;
    float                 dropout;
    clef_value           *random;  /* with dropout: clef_dropout() */
    int32_t               n_dropouts;
    const clef_build_lora *new_lora; /* NULL, or the adapter that is trained */
    clef_value           *types;   /* NULL, or I32 [B, T]: token types */
    clef_value           *mask;    /* NULL, or I32 [B, 1, 1, S]: 0 where a key is padding */
    /* NULL, or F32 [H, 1 or T, S], with a mask [B, H, ..]: added to all scores */
    clef_value           *bias;
    /* encoder-decoders: the encoder's output [B, S', d]; NULL where its keys and values are inputs */
    clef_value           *memory;
    clef_value           *memory_mask; /* NULL, or I32 [B, 1, 1, S']: 0 where a source token is padding */
    clef_dim              source;  /* S' */
    /* steps of rows: NULL, or I32 [sequences, n], the pages of each sequence's source, and I32 [B], the last
     * position of the source of each row's sequence */
    clef_value           *source_pages, *source_end;
    clef_value           *sinusoids; /* F32 [n_context, d], made at first use */
    /* keys and values of the last full, and of the last sliding layer that computed its own */
    clef_value           *seen_k[2], *seen_v[2];
    clef_value           *freqs[2]; /* RoPE's frequencies in full and in sliding layers, made at first use */
    clef_value           *no_freqs; /* frequencies of 0, made at first use */
    clef_value           *zeros;    /* DeepSeek: F32 [H, R], made at first use */
    clef_value           *query_scales; /* F32 [n_context, 1], made at first use: see attention_beta */
    /* Rows of pictures: NULL, or F32 [B, 1 + deep, d]: what is in place of each row's embedding, and what is
     * added to the results of the first layers; F32 [B, 1, 1]: 1 for rows of tokens, 0 for pictures' */
    clef_value           *pictures, *is_token;
    clef_value           *turns[3]; /* M-RoPE: NULL, or I32 [B]: a row's time, height and width */
    clef_value           *sees;     /* NULL, or I32 [B]: the last position that a row sees */
    clef_value           *sees_from; /* NULL, or I32 [B, 1]: the first one that it sees in sliding layers */
    clef_value           *layer_embed; /* Gemma 4: NULL, or the per-layer embedding [B, T, layers, p] */
} clef_builder;

/** The rows (or columns) of a role's matrix, where GGUF has them in another order than a folder, or only some
 *  of them. A list ends with a NULL source. */
typedef struct clef_row_map {
    clef_role role;
    int32_t   of_columns;
    int64_t (*source)(const clef_hparams *hp, int64_t i); /* the folder's row for row i of GGUF's */
    int64_t (*stored)(const clef_hparams *hp);            /* how many a folder has */
    int64_t (*wanted)(const clef_hparams *hp);            /* how many GGUF has; NULL: all */
} clef_row_map;

/** How the tokens of an architecture see each other. */
typedef enum clef_arch_kind {
    CLEF_DECODER, /* each token sees the tokens before it, through a cache */
    CLEF_ENCODER, /* each token sees all tokens */
    CLEF_SEQ2SEQ  /* an encoder, and a decoder that sees the encoder's output */
} clef_arch_kind;

/** A name of an architecture: model_type in a config.json and general.architecture in GGUF (NULL: none); and
 *  the default bos and eos of transformers' config class, for files without these keys (-1: none). */
typedef struct clef_arch_alias {
    const char *hf, *gguf;
    int32_t bos, eos;
} clef_arch_alias;

/** Where the norms of q and k are, in families that have them. */
typedef enum clef_qk_norms {
    CLEF_QK_NORM_HEADS, /* of each head, before RoPE */
    CLEF_QK_NORM_ALL,   /* of all heads together, before RoPE */
    CLEF_QK_NORM_ROTATED /* of each head, after RoPE */
} clef_qk_norms;

/** A value of layer_norms: norms with a bias are layer norms, the others RMS norms. */
enum { CLEF_NORMS_BY_BIAS = 2 };

struct clef_arch {
    const clef_arch_alias  *names;   /* ends with two NULL */
    clef_arch_kind          kind;
    clef_weight_names       weights;
    const char             *hf_prefix; /* prefix of every name in a folder except the output matrix's */
    int32_t                 hf_conv1d; /* 1: a folder's matrices are [in, out] (GPT-2's Conv1D) */
    /* 1: a folder's joint q, k and v are in groups: for each head of k its heads of q, then k, then v */
    int32_t                 hf_grouped;
    int32_t                 v_widths; /* 1: heads of v may have a width of their own */
    int32_t                 layer_norms; /* 1: GGUF stores the epsilon of layer norms, not of RMS norms; or
                                         * CLEF_NORMS_BY_BIAS */
    clef_qk_norms           qk_norms;
    /* the general.architecture of a converted folder, if its name has none in GGUF */
    const char             *written_as;
    /* NULL, or what a row of the role's matrix (is_bias: of its bias) is multiplied by in a folder; GGUF's
     * contain the factor */
    float (*hf_scale)(const clef_hparams *hp, clef_role role, int is_bias, int64_t row);
    int32_t                 hf_norm_offset; /* 1: a folder's norms multiply by 1 + weight (Gemma) */
    /* pairing of GGUF's weights: INTERLEAVED_TO_HALVES if a folder has halves */
    clef_rope_pairing       gguf_pairing;
    /** Reads the family's keys of a config.json into hp (bos, eos and n_vocab are read by the caller). NULL:
     *  the family is only read from GGUF. */
    void (*read_json)(clef_json_fields *f, clef_hparams *hp);
    /* NULL, or keys of GGUF that may differ from layer to layer; read_gguf reads them */
    const char *const      *gguf_varied;
    clef_activation         gguf_activation; /* GGUF has no key for it */
    /** Sets what the standard keys of GGUF cannot express, after they were read. NULL: nothing. */
    void (*read_gguf)(clef_gguf_keys *k, clef_hparams *hp);
    const char             *packed; /* NULL, or the quantization_config.quant_method that the joins can
                                       read */
    /* NULL, or weights that a folder stores in another form; ends with a NULL join */
    const clef_join_rule *joins;
    const clef_row_map     *gguf_rows; /* NULL, or the matrices that GGUF has in another order */
    clef_weight_names       decoder_weights; /* encoder-decoders: the decoder's names (weights has the
                                                encoder's); else zero */
    /** Builds b->layer of a decoder that is embeddings, these layers and the head. NULL: `build` says all. */
    clef_value *(*layer)(clef_builder *b, clef_value *x);
    /** Builds the graph from b->ids to the logits, which it returns. For encoder-decoders: to the encoder's
     *  output. NULL: `layer` is enough. */
    clef_value *(*build)(clef_builder *b);
    /** Encoder-decoders: builds the graph from b->ids, the target's ids, to the logits. */
    clef_value *(*decode)(clef_builder *b);
    int32_t pictures; /* 1: `build` reads b->pixels, not b->ids */
    int32_t samples;  /* 1: `build` reads b->features, F32 [1, samples], not b->ids */
    /** Of the hidden states [B, T, d]: the model's own vector [B, n], and the logits of a picture's classes.
     *  NULL: as most models of texts. */
    clef_value *(*vector)(clef_builder *b, clef_value *x);
    clef_value *(*classes)(clef_builder *b, clef_value *x);
};

/** EXAONE 4's windows and RoPE, by config.json and by GGUF's keys. */
void clef__json_exaone4(clef_json_fields *f, clef_hparams *hp);
void clef__exaone4_read_gguf(clef_gguf_keys *k, clef_hparams *hp);
/** Hunyuan's keys of config.json. */
void clef__json_hunyuan(clef_json_fields *f, clef_hparams *hp);
/** Llama's names, keys of config.json (theta: of an absent rope_theta) and reader of GGUF's keys, which many
 *  families use. The last one says that the weights of a token's experts are normed. */
extern const char *const clef__llama_weights[CLEF_N_ROLES], *const clef__olmo2_weights[CLEF_N_ROLES],
    *const clef__gptj_weights[CLEF_N_ROLES], *const clef__mixtral_weights[CLEF_N_ROLES];
void clef__json_llama(clef_json_fields *f, clef_hparams *hp, double theta);
/** The same with another default of rms_norm_eps, and RoPE of a part of each head (partial: by default; 0: of
 *  whole heads). */
void clef__json_llama_with(clef_json_fields *f, clef_hparams *hp, double theta, double eps, double partial);
/** no_rope_layers, or every no_rope_layer_interval-th; every `step`-th layer. */
void clef__json_rope_layers(clef_json_fields *f, clef_hparams *hp);
void clef__leave_rope(clef_hparams *hp, int32_t step);
void clef__llama_read_gguf(clef_gguf_keys *k, clef_hparams *hp);

enum { CLEF_WEIGHT_NAME_BYTES = 192 };
/** Writes the full name of a role's tensor in a folder (is_gguf 0) or a GGUF file, with ".weight" or ".bias"
 *  appended (suffix "": nothing). `layer` replaces "%d". Returns 0 and an empty name when the family has no
 *  such weight. */
int clef__weight_name(const clef_arch *arch, const clef_weight_names *names, clef_role role, int is_gguf,
                      int32_t layer,
                      const char *suffix, char out[CLEF_WEIGHT_NAME_BYTES]);
/** 1 when the family has the role in GGUF. */
int clef__weight_in_gguf(const clef_weight_names *names, clef_role role);
/** The name of the value that the graph computes with the weight, within the layer's scope; NULL if no value
 *  is named after it. */
const char *clef__role_value_name(clef_role role);

/** Whether the class that a config.json names has the bias of a role, or the norm of q or k: 1 or 0; -1 if
 *  that is not known, or for other weights (model/open/biases.def). */
int clef__class_has(const json_t *config, clef_role role, const char *suffix);

#define ARCH(name) extern const clef_arch clef__arch_##name;
#include "model/open/archs.def"
#undef ARCH

/** The architecture with a model_type (is_gguf 0) or a general.architecture (1), NULL if there is none. */
const clef_arch *clef__arch_find(const char *name, int is_gguf);
/** Architecture i, NULL beyond the last. */
const clef_arch *clef__arch_at(int32_t i);
/** The row of its names that has `name`. */
const clef_arch_alias *clef__arch_alias(const clef_arch *arch, const char *name, int is_gguf);

/** Fails with CLEF_E_UNSUPPORTED and lists the known names of this format. */
clef_status clef__arch_unknown(const char *name, int is_gguf, const char *file, clef_error *err);

#endif
