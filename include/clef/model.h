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
typedef struct clef_lora clef_lora;         /* an adapter, and several: clef/lora.h */
typedef struct clef_lora_set clef_lora_set;

/** Opens a GGUF file (v2, v3) or a Hugging Face folder (config.json with model.safetensors or
 *  model.safetensors.index.json). All offsets are checked against the files' sizes. Weights are mapped, not
 *  read. Free with clef_model_close(), after the plans made from it. CLEF_OK, CLEF_E_IO, CLEF_E_FORMAT,
 *  CLEF_E_UNSUPPORTED (an unknown architecture or dtype; the text lists the known ones), CLEF_E_NOT_FOUND (a
 *  weight is missing), CLEF_E_NOMEM. */
CLEF_API clef_status clef_model_open(const char *path, clef_model **out, clef_error *err);
/** Opens what can be listed of a file or folder, whether clef runs it or not: clef_model_metadata() and
 *  clef_model_tensor(). Nothing else may be asked of the model; it has no hyperparameters but `arch`.
 *
 *  near  NULL, or gets a line about the family that has the most of its tensors; "" if none has any.
 *
 *  CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
CLEF_API clef_status clef_model_look(const char *path, clef_model **out, char near[512], clef_error *err);
/** Opens the hyperparameters alone, to plan with models that are not here: a config.json, or a folder with
 *  one. The model has no weights and no tokenizer. Its graphs can be written, counted and cut for ranks. They
 *  have matrices of `dtype` (of F16 where its blocks do not fit), and vectors of F32. CLEF_E_IO,
 *  CLEF_E_FORMAT, CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. Families whose weights do not follow from the
 *  hyperparameters are CLEF_E_UNSUPPORTED when the graph is built. */
CLEF_API clef_status clef_model_open_shape(const char *path, clef_dtype dtype, clef_model **out,
                                           clef_error *err);
CLEF_API void        clef_model_close(clef_model *model);

/** How RoPE's frequencies are scaled beyond the context of the original training; names as in rope_scaling of
 *  config.json. */
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
    int32_t dims;            /* rotated dims of each head; 0: none */
    int32_t n_rotated_pairs; /* PROPORTIONAL: the pairs of `dims` that are rotated; the rest pass unchanged */
    clef_rope_pairing pairing;
    clef_rope_type    type;
    double  theta;           /* base of the frequencies */
    double  factor;          /* scale of the context length; of every type but DEFAULT */
    double  low_freq_factor, high_freq_factor; /* LLAMA3 */
    /* YARN: dims with more rotations than beta_fast within the original context keep their frequency; dims
     * with fewer than beta_slow are scaled. */
    double  beta_fast, beta_slow;
    double  mscale, mscale_all_dim; /* YARN; 0: none */
    int32_t truncate;               /* YARN: 1: the two limits between the dims are rounded to integers */
    double  attention_factor;       /* YARN, LONGROPE: multiplies the rotated dims; 0: the type's formula */
    double  short_factor, long_factor; /* Phi-MoE: it, within and beyond the original context; 0: none */
    int32_t original_context;       /* context length of the original training */
} clef_rope_params;

/** The feed-forward's function. */
typedef enum clef_activation {
    CLEF_SILU,
    CLEF_GELU,
    CLEF_GELU_TANH,
    CLEF_RELU,
    CLEF_RELU2, /* the square of RELU */
    CLEF_GELU_QUICK /* x sigmoid(1.702 x) */
} clef_activation;

/** How the weight of a chosen expert is computed. */
typedef enum clef_router {
    CLEF_ROUTER_ALL,    /* its probability by the softmax over all experts */
    CLEF_ROUTER_NORMED, /* that probability, divided by the sum over the token's experts */
    CLEF_ROUTER_CHOSEN, /* a softmax over the token's experts only */
    CLEF_ROUTER_SIGMOID, /* the sigmoid of its logit */
    CLEF_ROUTER_SIGMOID_NORMED, /* that, divided by the sum over the token's experts */
    CLEF_ROUTER_NEAR    /* Phi-MoE: a softmax over the logits near its own, without those above it */
} clef_router;

/** Most layers a model may have. */
enum { CLEF_MAX_LAYERS = 1024 };
/** Most convolutions before the layers. */
enum { CLEF_MAX_CONVS = 16 };

/** Hyperparameters. A field is 0 if the architecture does not use it. In the sets of layers, bit l % 32 of
 *  element l / 32 stands for layer l. */
typedef struct clef_hparams {
    char    arch[32]; /* "gpt2", "llama", "qwen3": as in the file */
    char    name[96]; /* general.name, or the folder's name */
    int32_t n_layers, d_model, d_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_context;

    /* Positions */
    clef_rope_params rope;         /* of layers with full attention */
    clef_rope_params rope_sliding; /* of layers with sliding-window attention */
    uint32_t no_rope_layers[CLEF_MAX_LAYERS / 32]; /* layers without rotary positions */
    int32_t  position_offset;      /* rows in the table of learned positions before that of position 0 */
    int32_t  disentangled;         /* DeBERTa: bits, in model/arch/arch_deberta.c; 0: others */
    int32_t  n_buckets, max_distance; /* relative position bias (T5, MPNet) */

    /* Attention */
    int32_t  sliding_window;       /* positions that a query sees; 0: all */
    int32_t  has_chunks;           /* 1: of these it sees those of its own chunk of so many positions */
    uint32_t sliding_layers[CLEF_MAX_LAYERS / 32]; /* layers with the sliding window */
    float    attention_scale;      /* multiplies scores; 0: 1 / sqrt(head_dim) */
    float    attention_softcap;    /* x -> cap tanh(x / cap); 0: none */
    int32_t  unit_qk;              /* 1: after RoPE q and k are RMS-normed, without weights (Llama 4) */
    float    attention_beta;       /* queries at position p are multiplied by 1 + beta log(1 + floor((p + */
    int32_t  attention_beta_first, attention_beta_length; /* first) / length)); 0: not */
    int32_t  beta_without_rope;    /* 1: only in layers without RoPE */
    float    clip_qkv;             /* q, k and v are within -clip .. clip; 0: all values */
    float    value_scale;          /* multiplies values; 0: 1 */
    int32_t  v_head_dim;           /* width of a head of v; 0: head_dim */
    int32_t  full_head_dim, full_n_kv_heads; /* of layers with full attention; 0: head_dim, n_kv_heads */
    int32_t  full_values; /* in layers with full attention, by which projection: 1: that of keys; -1: their
                             own; 0: their own where it is stored */
    int32_t  n_kv_shared_layers;   /* these last layers read keys and values of the last earlier layer with
                                      the same kind of attention */
    int32_t  double_shared_ff;     /* 1: the feed-forward of those layers is twice as wide */
    int32_t  q_lora_rank, kv_lora_rank; /* widths of DeepSeek's latents */

    /* Linear attention (Qwen 3.5), Mamba 2 and short convolutions (LFM2) */
    uint32_t linear_layers[CLEF_MAX_LAYERS / 32]; /* layers with it */
    int32_t  linear_n_k_heads, linear_n_v_heads, linear_k_dim, linear_v_dim;
    int32_t  linear_taps;          /* positions that its convolution sees */
    int32_t  scan_rank;            /* Mamba 1: width of what steps are projected from; 0: Mamba 2 */
    float    scan_norm_eps;        /* of the RMS norms of Mamba 1's step, b and c; 0: it has none */
    float    scan_min, scan_max;   /* Mamba 2: bounds of a step; scan_max 0: none */
    int32_t  scan_norm_first;      /* 1: its norm is before the gate; 0: after it */
    float    folder_scales[14];    /* Falcon-H1: factors of a folder's matrices, which GGUF's contain */

    /* Feed-forward and experts */
    clef_activation activation;
    int32_t gated;                 /* 1: with a gate */
    int32_t parallel_residual;     /* 1: attention and feed-forward read the same input */
    int32_t n_experts, n_experts_used;  /* all experts; the experts that a token uses */
    int32_t d_ff_expert, d_ff_shared;   /* width in each expert; in the expert of all tokens, 0: none */
    clef_router router;
    int32_t n_expert_groups, n_groups_used; /* a token's experts are in the best of these groups; 0, 1: all */
    float   router_noise;          /* NEAR: how near, as half of a share of the logit */
    int32_t expert_inputs;         /* 1: an expert's weight multiplies its input; 0: its output */
    float   expert_scale;          /* multiplies the experts' weights; 0: 1 */
    float   glu_alpha, glu_limit;  /* of clef_clamped_swiglu() */

    /* Embeddings, norms and head */
    int32_t tied_embeddings;       /* 1: the output matrix is the embedding matrix */
    int32_t d_embed;               /* width of token embeddings; 0: d_model */
    int32_t d_per_layer_embed;     /* width of Gemma 4's per-layer token embedding; 0: none */
    int32_t n_altup, altup_active; /* Gemma 3n: streams, and the one that a layer computes */
    int32_t altup_scaled;          /* 1: with a factor for each of its elements */
    int32_t laurel_rank;           /* Gemma 3n: rank of the projection beside attention */
    uint32_t sparse_layers[CLEF_MAX_LAYERS / 32]; /* layers that drop gates which are not above the mean */
    float   sparsity;              /* by so many standard deviations */
    int32_t n_token_types;
    float   norm_eps;
    float   embed_scale;           /* multiplies embeddings; 0: 1 */
    float   block_scales[6];       /* MiniMax-01: of the stream and of the blocks (arch_minimax.c) */
    float   residual_scale;        /* multiplies what a block adds to its input; 0: 1 */
    float   logit_scale;           /* multiplies logits; 0: 1 */
    float   logit_softcap;         /* x -> cap tanh(x / cap); 0: none */

    /* Pictures */
    int32_t image_height, image_width; /* pixels that the model was trained with; 0: it reads no pictures */
    int32_t patch_size;            /* pixels of a patch's side */
    int32_t n_registers;           /* tokens between the class token and the patches */
    int32_t colours_last;          /* 1: a patch's numbers are [p, p, 3]; 0: [3, p, p] */

    /* Special tokens; -1: none */
    int32_t bos, eos, pad;
    int32_t pads_texts;            /* 1: an embedder fills texts up to n_context with `pad` (SigLIP) */
    int32_t eos_more[40], n_eos_more; /* further ids that end the text (eos_token_id as a list) */
    int32_t n_eos_by_text;         /* the last of them, which no file names: tokens such as <|im_end|>. Those
                                      of a folder are known once clef_model_tokenizer() was called */

    /* Encoder-decoders */
    int32_t n_decoder_layers;      /* layers of the decoder; n_layers are the encoder's */
    int32_t decoder_start;         /* the id that a target begins with; -1: none */
    int32_t forced_bos;            /* the id that always follows it; -1: none */
    int32_t n_mels, n_source;      /* Whisper: numbers of a frame of its spectrogram, which has 2 n_source
                                      frames; positions of the encoder. 0: the source is a text */

    /* wav2vec 2.0: convolutions over samples of a sound; 0: it reads no samples */
    int32_t n_convs, conv_widths[CLEF_MAX_CONVS], conv_taps[CLEF_MAX_CONVS], conv_strides[CLEF_MAX_CONVS];
    int32_t conv_norms;            /* 1: a norm of each frame behind each; 0: one over all frames behind the
                                      first */
    int32_t position_taps, position_groups; /* of the convolution that makes positions */
    int32_t norm_first;            /* 1: layers have their norms before their blocks; 0: behind them */
} clef_hparams;

/** Borrowed; lives as long as the model. */
CLEF_API const clef_hparams *clef_model_hparams(const clef_model *model);
/** An option that the model's files recommend, by its name in clef_sampler_opts: temperature, top_k, top_p,
 *  min_p, typical (none of these five where do_sample is false), repeat_penalty, repeat_last_n; and
 *  length_penalty and early_stopping of clef_beam_opts. They come from generation_config.json (config.json
 *  where there is none), or from general.sampling.* of a GGUF file (temp, top_k, top_p, min_p, typical_p,
 *  penalty_repeat, penalty_last_n). 1, and *value is set; 0: the files say nothing, or no number within the
 *  option's range. */
CLEF_API int32_t clef_model_sampling(const clef_model *model, const char *option, double *value);
/** The order of samplers for which these options are meant, by clef_sampler_name(), with commas: that of
 *  transformers where they come from generation_config.json. NULL: that of clef_sampler_kind. */
CLEF_API const char *clef_model_samplers(const clef_model *model);
/** The other keys of generation_config.json that do something, for a message: "bad_words_ids, min_length 5".
 *  applied 1: those that hold for each text that a session or a batch generates, unless its options have
 *  no_rules; 0: those that clef does not apply, with the flag of `clef run` that does: "num_beams 4
 *  (--beams)". "" for none. Borrowed from the model. */
CLEF_API const char *clef_model_generation(const clef_model *model, int32_t applied);
/** Calls `entry` with each key of the model's metadata (config.json, or GGUF's hyperparameters) that clef
 *  neither reads nor knows to change nothing: another program may read it, and compute something else. */
CLEF_API void clef_model_unread(const clef_model *model, void (*entry)(void *user, const char *key),
                                void *user);
/** Calls `entry` with each part of the model's files that is left out because it is not of the text model, by
 *  the beginning of its tensors' names: "model.visual", "vision_tower", "mtp", "blk.46". */
CLEF_API void clef_model_left_out(const clef_model *model, void (*entry)(void *user, const char *part),
                                  void *user);
/** The hyperparameters of the encoder of pictures; NULL: the model has none that clef can run, and *why
 *  (NULL: not wanted) is a line that says so. Borrowed; both live as long as the model. */
CLEF_API const clef_hparams *clef_model_pictures(const clef_model *model, const char **why);
/** 1 for a model whose tokens all see each other, such as BERT. (One with a decoder beside its encoder has
 *  n_decoder_layers.) */
CLEF_API int32_t clef_model_is_encoder(const clef_model *model);
/** The padding id of a model whose positions count all other tokens (RoBERTa's kind, MPNet, M2M-100): no text
 *  may contain it. -1: positions count every token. */
CLEF_API int32_t clef_model_padding(const clef_model *model);
CLEF_API const char         *clef_model_path(const clef_model *model);
/** The model's tokenizer, opened by the first call; NULL and an error if it has none. It belongs to the
 *  model. */
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
/** Calls `entry` for each metadata entry: a key of GGUF or config.json, and its value as text. Long arrays
 *  are abbreviated. */
CLEF_API void clef_model_metadata(const clef_model *model,
                                  void (*entry)(void *user, const char *key, const char *value), void *user);
/** clef_model_metadata() for a GGUF file that need not be a model: it may hold a vocabulary alone.
 *
 *  entry      NULL: only counts.
 *  n_tensors  NULL, or set to the number of the file's tensors.
 *
 *  CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
CLEF_API clef_status clef_gguf_metadata(const char *path,
                                        void (*entry)(void *user, const char *key, const char *value),
                                        void *user, uint64_t *n_tensors, clef_error *err);

/** A clef_weight_source for the model's tensors; its user is the model. */
CLEF_API const void *clef_model_weight(void *model, const char *name, clef_dtype dtype, uint64_t n_bytes);
/** The matching clef_weight_release: gives back the physical memory behind the tensor, which stays
 *  readable. */
CLEF_API void        clef_model_release(void *model, const char *name);

/** Which part of an encoder-decoder a graph is. */
typedef enum clef_part {
    /* Inputs input_ids [B, T] and decoder_input_ids [B, U], a known target; output logits [B, U, V]. */
    CLEF_PART_WHOLE,
    /* Input input_ids [B, T]; outputs cross_k_L and cross_v_L [B, H, T, D] for each layer L of the decoder.
     * With for_export the output is last_hidden_state [B, T, d]. */
    CLEF_PART_ENCODER,
    /* Inputs input_ids [B, 1], pos [B], cross_k_L and cross_v_L [1, H, T, D]: B continuations of one source,
     * one token in each step. With for_export the inputs are input_ids [B, T], encoder_attention_mask [B, U]
     * and encoder_hidden_states [B, U, d]. */
    CLEF_PART_DECODER,
    /* Of a model that reads texts and pictures: the encoder of pictures. A model of pictures alone has no
     * parts: CLEF_PART_WHOLE means it, too. Input pixel_values F32 [B, 3, height, width]; hidden_last is
     * [B, T, d], special tokens first, then the patches. */
    CLEF_PART_PICTURES
} clef_part;

/** How the hidden states [T, d] of a text become one embedding: the first row, the mean, or the last row. */
typedef enum clef_pooling { CLEF_POOL_NONE, CLEF_POOL_CLS, CLEF_POOL_MEAN, CLEF_POOL_LAST } clef_pooling;

/** What bge-m3 gives for each token: a weight, max(0, x w + b), or a vector of length 1, of x W^T + b. */
typedef enum clef_token_head { CLEF_TOKENS_NONE, CLEF_TOKENS_SPARSE, CLEF_TOKENS_MULTI } clef_token_head;

/** A part of multi-token prediction: a model that a further layer of its own drafts tokens for, or that
 *  layer. */
typedef enum clef_mtp { CLEF_MTP_NONE, CLEF_MTP_TARGET, CLEF_MTP_LAYER } clef_mtp;

/** The most recent tokens that sampling in steps of rows looks back at. */
#define CLEF_RECENT 64

typedef struct clef_build_opts {
    int32_t     n_context;   /* positions in the KV cache; 0: the model's own */
    int32_t     n_batch;     /* bound of T, the tokens in a step; 0: min(512, n_context) */
    int32_t     n_sequences; /* bound of B; 0: 1 */
    clef_dtype  kv_type;     /* of the KV cache: CLEF_F32 (the zero), CLEF_F16, or CLEF_Q8_0 if head_dim is a
                                multiple of 32 */

    /* Further inputs */
    int32_t     padding_mask; /* 1: attention_mask I32 [B, S] (encoders: [B, T]); 0 in it marks padding */
    int32_t     token_types;  /* encoders: 1: token_type_ids I32 [B, T]; 0: all types are 0 */
    /* NULL, or adapters: an input adapter I32 [B], the number of each sequence's adapter in the set, 0 for
     * none. (In steps of rows: of each row's.) Borrowed for the call. A plan of the graph takes its weights
     * from clef_lora_set_weight(). Not with for_export */
    const clef_lora_set *loras;
    /* 1: an input sampling I32 [16], and an output token I32 [B] (clef_sample()). In steps of rows: inputs
     * sampling I32 [N, 16] and recent I32 [N, CLEF_RECENT], and an output token I32 [N]
     * (clef_sample_rows()) */
    int32_t     sample;
    /* k > 0, for beam search: an input order I32 [B], by which the cache's sequences are reordered before the
     * step. Outputs: candidates I32 [B, k], the likeliest next tokens; candidate_scores F32 [B, k], the logs
     * of their probabilities. `sample` and `candidates` exclude all_logits. */
    int32_t     candidates;

    /* What the graph ends with. pooling and classify exclude padding_mask, and need a model that is no
     * encoder-decoder. */
    int32_t     all_logits;   /* 1: logits of every position [B, T, V]; 0: of the last one [B, 1, V] */
    int32_t     no_head;      /* 1: no logits, but the hidden states as output hidden_last */
    clef_pooling pooling;     /* no logits, but an output embedding [B, d]: the pooled hidden states, through
                                 the dense layers that the model's files have behind the pooling */
    int32_t     n_dims;       /* of an embedding, the first n_dims numbers; 0: all */
    int32_t     normalize;    /* 1: embeddings are then divided by their Euclidean norm */
    clef_token_head token_head; /* no logits, but an output tokens [B, T, 1] or [B, T, d], by sparse_linear or
                                 colbert_linear of the folder */
    int32_t     classify;     /* 1: logits of the file's classifier, [B, labels], or [B, T, labels] where it
                                 labels tokens */

    /* Encoder-decoders */
    clef_part   part;         /* CLEF_PART_WHOLE for all other models */
    int32_t     n_source;     /* CLEF_PART_DECODER: bound of the source's length; 0: the model's context */

    /* Pictures: pixels of the input; 0: as many as the model was trained with. Position embeddings are
     * stretched to other sizes as in transformers. pooling CLEF_POOL_CLS gives the model's own vector of a
     * picture, CLEF_POOL_MEAN the mean of its patches. */
    int32_t     picture_height, picture_width;
    int32_t     sound_samples; /* of models that read samples: those of the input; 0: 16,000 */

    /* Steps of rows: n_rows > 0 is the bound of B, which then counts tokens of up to n_sequences
     * sequences. The caches are pools of pages. Not with for_export, candidates or padding_mask.
     * Inputs: input_ids [B, 1], pos [B], runs [M, 3], pages [n_sequences, ceil(n_context /
     * CLEF_KV_PAGE)], as clef_paged_write() takes them, and samples I32 [N], the rows whose logits are
     * wanted; output: logits [N, 1, V]. Layers with a sliding window have pools of their own, and an
     * input sliding_pages like pages. The decoder of an encoder-decoder has source_pages I32
     * [n_sequences, ceil(n_source / CLEF_KV_PAGE)] and source_end I32 [B], the last position of the
     * source of each row's sequence; the states cross_k_L and cross_v_L are the pools of sources. States
     * of linear attention have n_sequences rows and more for n_snapshots copies. */
    int32_t     n_rows, n_pages, n_sliding_pages, n_snapshots;
    int32_t     n_samples;    /* the bound of N; 0: n_rows */

    /* CLEF_MTP_TARGET: an output hidden [B, T, d] too: each token's hidden state after the last norm.
     * CLEF_MTP_LAYER: the graph of the layer behind the model's own that predicts further tokens. At each
     * position input_ids has the token after that of the position, and a further input hidden F32 [B, T, d]
     * the hidden state of the position. Its logits predict the token after that; a further output
     * next_hidden, of the positions with logits, is what the next position continues with.
     * CLEF_E_UNSUPPORTED if the model has no such layer */
    clef_mtp    mtp;
    /* 1, in steps of rows of a model that reads pictures: inputs is_token F32 [B, 1, 1], 1 for rows of tokens
     * and 0 for those of pictures, and pictures F32 [B, 1 + deep, d], zeros for rows of tokens. Models with
     * M-RoPE have turn_time, turn_height and turn_width I32 [B]; those in which the rows of a picture see
     * each other have sees I32 [B], the last position that a row sees, and with sliding layers sees_from
     * I32 [B, 1] */
    int32_t     pictures;

    /* Training: 1: the graph ends with a loss. Its tokens see each other without a cache. Inputs: input_ids
     * I32 [B, T]; labels I32 [B, T], the id that each token should predict (the next one; of encoders its
     * own), or a negative number for tokens that do not count; loss_weight F32 [1]. Decoders also have
     * positions and first, I32 [B, T]: a token's place in its document, and the place in the row at which its
     * document begins, before which it does not see anything. Encoders and encoder-decoders have
     * attention_mask, the latter decoder_input_ids I32 [B, U], and labels are [B, U]. Outputs: token_loss
     * [tokens], each token's cross-entropy, and loss [], their sum times loss_weight. */
    int32_t     train;
    float       dropout;      /* of the embeddings and of what each block adds to the residual stream; with an
                                 input random I32 [4] (clef_dropout()) */
    const struct clef_build_lora *new_lora; /* NULL, or an adapter to train beside the weights. Borrowed */

    int32_t     for_export;   /* 1: for clef_graph_write_onnx(): implies all_logits, padding_mask, and
                                 token_types if the model has several. Not for plans, in which linear
                                 attention ignores the mask */
    const char *const *taps;  /* values that become outputs: hidden_last, attention_L, or any name */
    int32_t     n_taps;
} clef_build_opts;

/** A LoRA adapter (arXiv:2106.09685) that a training graph has: y + scale (x A^T) B^T for each product with a
 *  weight that it wants. A [rank, n_in] and B [n_out, rank] are weights of the graph, called WEIGHT.lora_A
 *  and WEIGHT.lora_B. */
typedef struct clef_build_lora {
    int32_t rank;
    float   scale;
    int (*wants)(void *user, const char *weight);
    void *user;
} clef_build_lora;

/** Builds the model's graph. Inputs: input_ids I32 [B, T]; pos I32 [B]: positions already in the cache.
 *  Symbols: T (tokens of the step), S (cached positions that the step may see: pos + T <= S <= n_context)
 *  and B. Outputs: logits, and the taps. The caller destroys *out. CLEF_E_NOT_FOUND names a missing weight
 *  or an unknown tap. */
CLEF_API clef_status clef_model_build(const clef_model *model, const clef_build_opts *opts, clef_graph **out,
                                      clef_error *err);
/** Name of architecture i that clef knows, NULL beyond the last. */
CLEF_API const char *clef_arch_name(int32_t i);

/* ---- quantising weights ---------------------------------------------------------------------- */

typedef struct clef_quantize_opts {
    const char   *type;     /* required: one of clef_quantize_type(), in upper or lower case */
    clef_progress progress; /* NULL: none */
    void         *progress_user;
    int32_t       no_tokenizer; /* 1: the tokenizer of a folder is left out */
    /** NULL, or called with a line (without newline) that the user should see. */
    void (*note)(void *user, const char *text);
    void *note_user;
    /** Adapters of the model that are merged into its weights: W + s B A, added in f32. */
    const clef_lora *const *loras;
    int32_t n_loras;
    /** NULL, or how much columns count (clef/imatrix.h). The K and IQ types weigh errors by it. */
    const struct clef_imatrix *imatrix;
    /** Types of single matrices. The first rule that fits holds, whatever `type` says of the matrix. */
    const struct clef_quantize_rule *rules;
    int32_t n_rules;
} clef_quantize_opts;

typedef struct clef_quantize_rule {
    const char *pattern; /* a part of the matrix's name in GGUF, in which * stands for any text, ? for one
                            character: "attn_v", "blk.0.*exps" */
    const char *type;    /* the name of a dtype that is encoded, such as "q6_k" or "iq3_s" */
} clef_quantize_rule;

/** Type i that clef_model_quantize() can write, NULL beyond the last. "f32" .. "q2_0": all matrices in that
 *  dtype. "q2_k" .. "iq4_xs": llama.cpp's mixes of that name, with more bits for the output matrix and
 *  for some matrices of the layers, such as attn_v. "stored": each matrix keeps its dtype. */
CLEF_API const char *clef_quantize_type(int32_t i);
/** 1 if there is such a type, in upper or lower case. */
CLEF_API int32_t clef_quantize_knows(const char *type);

/** Writes the model as a GGUF v3 file under a temporary name, so that `path` never holds half a file; it may
 *  be the model's own path. Needs memory for the f32 copy of one tensor at most.
 *
 *  A matrix whose rows are not whole blocks gets the next larger type that fits (q4_k q5_0, q5_k q5_1, q6_k
 *  q8_0, fewer bits iq4_nl, last f16), as in llama.cpp. Vectors and positions are f32. Quantised weights are
 *  decoded first, unless they keep their type; quantising twice costs accuracy. A folder is written with
 *  llama.cpp's names, keys and orders.
 *
 *  The tokenizer of a folder is written under llama.cpp's keys. If these cannot hold all of tokenizer.json,
 *  the whole of it is also written under tokenizer.huggingface.json (GGUF's name for it), which clef reads
 *  first; opts->note says what was missing. A tokenizer that no key can hold is refused
 *  (CLEF_E_UNSUPPORTED), unless opts->no_tokenizer leaves it out.
 *
 *  CLEF_OK, CLEF_E_ARG (a type), CLEF_E_NOT_FOUND (a weight is missing, a rule fits no matrix), CLEF_E_SHAPE
 *  (an importance matrix of another model), CLEF_E_UNSUPPORTED (GGUF's keys cannot express something),
 *  CLEF_E_CANCELLED, CLEF_E_IO, CLEF_E_NOMEM. */
CLEF_API clef_status clef_model_quantize(const clef_model *model, const char *path,
                                         const clef_quantize_opts *opts, clef_error *err);

/* ---- tensors in files: .safetensors (https://github.com/huggingface/safetensors, "Format") ---- */

typedef struct clef_tensor_file clef_tensor_file;
/** Opens and maps a .safetensors file; every offset is checked. BOOL and U8 appear as I8. Dtypes that clef
 *  does not have (I64, F64 ..) appear as CLEF_N_DTYPES; clef_tensor_file_read() converts them. Free with
 *  _close(). */
CLEF_API clef_status      clef_tensor_file_open(const char *path, clef_tensor_file **out, clef_error *err);
CLEF_API void             clef_tensor_file_close(clef_tensor_file *file);
CLEF_API int32_t          clef_tensor_file_count(const clef_tensor_file *file);
CLEF_API clef_tensor_info clef_tensor_file_get(const clef_tensor_file *file, int32_t i);
/** Index of the tensor `name`, -1 if there is none. */
CLEF_API int32_t          clef_tensor_file_find(const clef_tensor_file *file, const char *name);
/** Copies tensor i, converted to f32 or i32: any float or integer to f32; I64, I32, I8, BOOL and U8 to i32
 *  (CLEF_E_LIMIT if a value does not fit). `n` must be the tensor's element count. */
CLEF_API clef_status clef_tensor_file_read(const clef_tensor_file *file, int32_t i, clef_dtype as, void *out,
                                           size_t n, clef_error *err);

/** Writes tensors (F32, F16, BF16, I32, I8) to a .safetensors file under a temporary name, so that `path`
 *  never holds half a file. */
CLEF_API clef_status clef_tensor_file_write(const char *path, const clef_tensor_info *tensors, int32_t n,
                                            clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
