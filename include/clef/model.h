/* Model files: opening them, looking inside, and building their graph. */
#ifndef CLEF_MODEL_H
#define CLEF_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "clef/graph.h"
#include "clef/plan.h"
#include "clef/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clef_model clef_model;

/** Opens a GGUF file (v2, v3) or a Hugging Face folder (config.json with model.safetensors or model.safetensors.index.json).
 *  Everything is checked against the files' sizes; weights are mapped, not read. Free with clef_model_close(), after the plans made of it.
 *  CLEF_OK, CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED (an architecture or dtype that clef does not know: the text lists what it
 *  knows), CLEF_E_NOT_FOUND (a weight is missing), CLEF_E_NOMEM. */
CLEF_API clef_status clef_model_open(const char *path, clef_model **out, clef_error *err);
CLEF_API void        clef_model_close(clef_model *model);

/** Pairing of RoPE's dims: (i, i + R/2) as in Hugging Face's code, or (2i, 2i + 1). Where GGUF stores pairs of what was trained as halves
 *  (llama), heads leave RoPE in the order of a folder's, so that all that follows is the same, bit for bit. */
typedef enum clef_rope_pairing { CLEF_ROPE_HALVES, CLEF_ROPE_PAIRS, CLEF_ROPE_PAIRS_TO_HALVES } clef_rope_pairing;

/** How RoPE's frequencies are made to reach beyond the context of the first training, by the names of rope_scaling in config.json. */
typedef enum clef_rope_type {
    CLEF_ROPE_DEFAULT,
    CLEF_ROPE_LINEAR,
    CLEF_ROPE_DYNAMIC,
    CLEF_ROPE_LLAMA3,
    CLEF_ROPE_YARN,
    CLEF_ROPE_LONGROPE,
    CLEF_ROPE_PROPORTIONAL
} clef_rope_type;

typedef struct clef_rope_params {
    int32_t dims;    /* rotated dims of each head; 0: none */
    int32_t n_rotated_pairs; /* proportional: pairs of `dims` that are rotated; the rest pass unchanged */
    int32_t pairing; /* clef_rope_pairing */
    int32_t type;    /* clef_rope_type */
    double  theta;
    double  factor;                            /* of every type but default */
    double  low_freq_factor, high_freq_factor; /* llama3 */
    double  beta_fast, beta_slow;              /* yarn: turns within the original context from which on dims keep, and lose, their speed */
    double  mscale, mscale_all_dim;            /* yarn; 0: none */
    int32_t truncate;                          /* yarn: 1 where its range of dims is rounded to whole ones */
    double  attention_factor;                  /* yarn, longrope: of the rotated dims; 0: by the type's formula */
    int32_t original_context;                  /* of the first training */
} clef_rope_params;

/** The feed-forward's function. */
typedef enum clef_activation { CLEF_SILU, CLEF_GELU, CLEF_GELU_TANH, CLEF_RELU } clef_activation;

/** What an expert weighs: its probability among all, the same over their sum for the token's experts, or the softmax over these alone. */
typedef enum clef_router { CLEF_ROUTER_ALL, CLEF_ROUTER_NORMED, CLEF_ROUTER_CHOSEN } clef_router;

/** Most layers a model may have. */
enum { CLEF_MAX_LAYERS = 1024 };

/** Hyperparameters in the field's words. 0 where an architecture has no such thing. */
typedef struct clef_hparams {
    char    arch[32];         /* "gpt2", "llama", "qwen3": as the file says */
    char    name[96];         /* general.name, or the folder's name */
    int32_t n_layers, d_model, d_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_context;
    clef_rope_params rope;         /* of layers that see everything */
    clef_rope_params rope_sliding; /* of layers with the window */
    int32_t sliding_window;        /* 0: none */
    uint32_t sliding_layers[CLEF_MAX_LAYERS / 32]; /* bit l % 32 of [l / 32]: layer l sees the window alone */
    uint32_t no_rope_layers[CLEF_MAX_LAYERS / 32]; /* layers without rotary positions, likewise */
    int32_t parallel_residual;     /* attention and feed-forward both read the block's input */
    float   norm_eps;
    int32_t activation;            /* clef_activation */
    int32_t tied_embeddings;       /* the output matrix is the embedding */
    int32_t d_embed;               /* width of the embeddings, where it is not d_model */
    int32_t position_offset;       /* rows before position 0's in the table of learned positions */
    int32_t n_token_types;
    int32_t n_decoder_layers;      /* of an encoder-decoder, whose n_layers are the encoder's */
    int32_t n_buckets, max_distance; /* relative position biases */
    int32_t gated;                 /* the feed-forward has a gate */
    int32_t decoder_start;         /* the id that a decoder begins with; -1: none */
    int32_t forced_bos;            /* the id that always follows it; -1: none */
    int32_t pad;                   /* -1: none */
    int32_t full_head_dim, full_n_kv_heads; /* of layers that see everything, where these have heads of their own; 0: as the others */
    int32_t n_kv_shared_layers;    /* last layers, which read the keys and values of the last layer of their kind before them */
    int32_t double_shared_ff;      /* 1: these have a feed-forward twice as wide */
    uint32_t linear_layers[CLEF_MAX_LAYERS / 32]; /* layers of linear attention (Qwen 3.5), as sliding_layers */
    int32_t linear_n_k_heads, linear_n_v_heads, linear_k_dim, linear_v_dim, linear_taps; /* its heads, and its convolution's reach */
    int32_t d_per_layer_embed;     /* width of Gemma 4's per-layer token embedding; 0: none */
    int32_t v_head_dim;            /* of v, where it is not head_dim */
    int32_t q_lora_rank, kv_lora_rank; /* widths of DeepSeek's latents */
    int32_t n_experts, n_experts_used; /* mixtures of experts: all, and those of a token */
    int32_t d_ff_expert, d_ff_shared;  /* the feed-forward's width in an expert, in the shared one (0: none) */
    int32_t router;                    /* clef_router */
    float   glu_alpha, glu_limit;  /* clef_clamped_swiglu */
    float   expert_scale;          /* multiplies the experts' weights; 0: 1 */
    float   embed_scale, residual_scale, logit_scale; /* multiply embeddings, what a block adds, and logits; 0: 1 */
    float   attention_scale;       /* multiplies scores; 0: 1 / sqrt(head_dim) */
    float   attention_softcap, logit_softcap; /* x -> cap tanh(x / cap); 0: none */
    int32_t bos, eos;              /* -1: none */
    int32_t eos_more[4], n_eos_more; /* further ids that end the text (eos_token_id as a list) */
} clef_hparams;

/** Borrowed; lives as long as the model. */
CLEF_API const clef_hparams *clef_model_hparams(const clef_model *model);
CLEF_API const char         *clef_model_path(const clef_model *model);
/** The model's tokenizer, opened at the first call; NULL and an error when it has none. Belongs to the model. */
CLEF_API const clef_tokenizer *clef_model_tokenizer(clef_model *model, clef_error *err);

typedef struct clef_tensor_info {
    const char *name;
    clef_dtype  dtype;
    int32_t     rank;
    int64_t     dims[CLEF_MAX_DIMS]; /* row-major: dims[0] outermost */
    uint64_t    n_bytes;
    const void *data;                /* in the mapped file */
} clef_tensor_info;

CLEF_API int32_t clef_model_n_tensors(const clef_model *model);
/** Tensor i in the file's order; a zeroed struct outside 0 .. n-1. Borrowed from the model. */
CLEF_API clef_tensor_info clef_model_tensor(const clef_model *model, int32_t i);
/** Calls back for each metadata entry: a GGUF key and its value as text (long arrays are abbreviated), or a key of config.json. */
CLEF_API void clef_model_metadata(const clef_model *model,
                                  void (*entry)(void *user, const char *key, const char *value), void *user);
/** The same for a GGUF file that need not be a model: it may hold a vocabulary alone.
 *
 *  entry      NULL: only counts.
 *  n_tensors  NULL, or set to the number of the file's tensors.
 *
 *  CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
CLEF_API clef_status clef_gguf_metadata(const char *path,
                                        void (*entry)(void *user, const char *key, const char *value),
                                        void *user, uint64_t *n_tensors, clef_error *err);

/** A clef_weight_source over the model's tensors: pass the model as its user. */
CLEF_API const void *clef_model_weight(void *model, const char *name, clef_dtype dtype, uint64_t n_bytes);
/** The clef_weight_release that goes with it: lets the physical memory behind the tensor go; it stays readable. */
CLEF_API void        clef_model_release(void *model, const char *name);

/** Which part of an encoder-decoder a graph is. */
typedef enum clef_part {
    CLEF_PART_WHOLE,   /* inputs input_ids [B, T], decoder_input_ids [B, U]; outputs logits [B, U, V] of a target that is known */
    CLEF_PART_ENCODER, /* input input_ids [B, T]; outputs cross_k_L and cross_v_L [B, H, T, D] of each decoder layer */
    CLEF_PART_DECODER  /* inputs input_ids [B, 1], pos [B], cross_k_L and cross_v_L [1, H, T, D]: B continuations of one source, a token
                          a step */
} clef_part;

/** How an embedding comes of a text's hidden states [T, d]: the first, their mean, the last. */
typedef enum clef_pooling { CLEF_POOL_NONE, CLEF_POOL_CLS, CLEF_POOL_MEAN, CLEF_POOL_LAST } clef_pooling;

typedef struct clef_build_opts {
    int32_t     n_context;   /* positions in the KV cache; 0: the model's own */
    int32_t     n_batch;     /* bound of T, tokens a step; 0: min(512, n_context) */
    int32_t     n_sequences; /* bound of B; 0: 1 */
    int32_t     all_logits;  /* 1: logits of every position [B, T, V]; 0: of the last one [B, 1, V] */
    clef_dtype  kv_type;     /* of the KV cache: CLEF_F32 (the zero), CLEF_F16, or CLEF_Q8_0 where head_dim is a multiple of 32 */
    int32_t     padding_mask; /* 1: an input attention_mask I32 [B, S] (encoders: [B, T]), 0 where a key is padding */
    int32_t     sample;       /* 1: an input sampling I32 [16] and an output token I32 [B] (clef_sample); not with all_logits */
    int32_t     token_types;  /* encoders: 1: an input token_type_ids I32 [B, T]; 0: all are 0 */
    int32_t     no_head;      /* 1: the hidden states alone, as output hidden_last; 0: the head that the file has, as logits */
    int32_t     pooling;      /* clef_pooling: in place of logits an output embedding [B, d]; without padding_mask; not of
                                 encoder-decoders */
    int32_t     classify;     /* 1: logits of the classifier that the file has, [B, labels], or [B, T, labels] where it labels each
                                 token; without padding_mask; not of encoder-decoders */
    int32_t     normalize;    /* 1: embeddings are divided by their Euclidean norm */
    int32_t     part;         /* clef_part; CLEF_PART_WHOLE for all but encoder-decoders */
    int32_t     n_source;     /* CLEF_PART_DECODER: bound of the source's length; 0: the model's context */
    int32_t     candidates;   /* k > 0, for beam search: an input order I32 [B], by which the sequences of the cache change places
                                 before the step, and outputs candidates I32 [B, k], the likeliest next tokens, and candidate_scores
                                 F32 [B, k], the logs of their probabilities; not with all_logits */
    const char *const *taps; /* names of values to make outputs: hidden_last, attention_L, or any value of the graph */
    int32_t     n_taps;
} clef_build_opts;

/** Builds the model's graph. Inputs: input_ids I32 [B, T]; pos I32 [B]: positions already in the cache. Symbols: T (tokens of
 *  the step), S (cached positions that the step may see: pos + T <= S <= n_context) and B. Outputs: logits, and the
 *  taps. The caller destroys *out. CLEF_E_NOT_FOUND names a missing weight or an unknown tap. */
CLEF_API clef_status clef_model_build(const clef_model *model, const clef_build_opts *opts, clef_graph **out, clef_error *err);
/** Name of architecture i that clef knows, NULL beyond the last. */
CLEF_API const char *clef_arch_name(int32_t i);

/* ---- coding weights anew ------------------------------------------------------------------------------------------------------ */

typedef struct clef_quantize_opts {
    const char   *type;     /* needed: one of clef_quantize_type(), in letters of either case */
    clef_progress progress; /* NULL: none */
    void         *progress_user;
    int32_t       no_tokenizer; /* of a folder: the file is to have none */
    /** NULL, or told what a user should know of the file: a line without its end. */
    void (*note)(void *user, const char *text);
    void *note_user;
} clef_quantize_opts;

/** Type i that clef_model_quantize() writes: "f32" ... "mxfp4": every matrix in that dtype; "q4_k_m", "q5_k_m": llama.cpp's mixes, which
 *  give the output matrix and, of some layers, attn_v and ffn_down more bits; "stored": every matrix keeps its own. NULL beyond the
 *  last. */
CLEF_API const char *clef_quantize_type(int32_t i);
/** 1 when there is such a type, in letters of either case. */
CLEF_API int32_t clef_quantize_knows(const char *type);

/** Writes the model as a GGUF v3 file through a temporary name, so that `path` is never half-written; it may be the model's own. One
 *  tensor's f32 copy at most is in memory. A matrix whose rows are no whole blocks takes the next larger type that fits (q4_k q5_0, q5_k
 *  q5_1, q6_k q8_0, at last f16), as in llama.cpp; vectors and position embeddings are f32. What is quantised already is decoded first,
 *  unless it stays what it is: coding twice costs accuracy. A folder is written under llama.cpp's names, keys and orders (docs/models.md).
 *  The tokenizer of a folder comes along under llama.cpp's keys. Where these leave something of a tokenizer.json out, all of it stands
 *  under tokenizer.huggingface.json too (GGUF's name for it), which clef reads first, so that the ids are those of the folder; a note says
 *  what it was. A tokenizer that no key can hold is refused (CLEF_E_UNSUPPORTED), unless opts->no_tokenizer leaves it out.
 *  CLEF_OK, CLEF_E_ARG (the type), CLEF_E_NOT_FOUND (a weight is missing), CLEF_E_UNSUPPORTED (what GGUF's keys cannot say),
 *  CLEF_E_CANCELLED, CLEF_E_IO, CLEF_E_NOMEM. */
CLEF_API clef_status clef_model_quantize(const clef_model *model, const char *path, const clef_quantize_opts *opts, clef_error *err);

/* ---- tensors in files: .safetensors (https://github.com/huggingface/safetensors, "Format") ----------------------------------- */

typedef struct clef_tensor_file clef_tensor_file;
/** Opens and maps; every offset is checked. BOOL and U8 show as I8; what clef has no dtype for (I64, F64 ...) shows as CLEF_N_DTYPES and
 *  is left to clef_tensor_file_read(). Destroy with _close(). */
CLEF_API clef_status      clef_tensor_file_open(const char *path, clef_tensor_file **out, clef_error *err);
CLEF_API void             clef_tensor_file_close(clef_tensor_file *file);
CLEF_API int32_t          clef_tensor_file_count(const clef_tensor_file *file);
CLEF_API clef_tensor_info clef_tensor_file_get(const clef_tensor_file *file, int32_t i);
CLEF_API int32_t          clef_tensor_file_find(const clef_tensor_file *file, const char *name); /* -1: none */
/** Copies tensor i as f32 or i32, converting: any float or integer to f32; I64, I32, I8, BOOL, U8 to i32 (CLEF_E_LIMIT if one does not
 *  fit). `n` is the element count, which must be the tensor's. */
CLEF_API clef_status clef_tensor_file_read(const clef_tensor_file *file, int32_t i, clef_dtype as, void *out, size_t n, clef_error *err);

/** Writes tensors (F32, F16, BF16, I32, I8) to a .safetensors file through a temporary name, so that `path` is never half-written. */
CLEF_API clef_status clef_tensor_file_write(const char *path, const clef_tensor_info *tensors, int32_t n, clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
