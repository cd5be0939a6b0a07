/* Hyperparameters from a config.json or from GGUF keys, checked. */
#ifndef CLEF_MODEL_CONFIG_H
#define CLEF_MODEL_CONFIG_H

#include "clef/model.h"
#include "model/file/gguf.h"
#include "model/file/json.h"

/** Fills hp from a Hugging Face config.json (of a model_type that an architecture answers to) and, when there
 *  is one, the generation_config.json beside it, whose bos and eos win. `file` names the config in messages.
 *  hp->name is left alone. A feature that would change the result and that clef does not have is refused:
 *  CLEF_E_UNSUPPORTED names key and value. CLEF_OK, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED. */
clef_status clef__config_from_json(const json_t *config, const json_t *generation, const char *file,
                                   clef_hparams *hp, clef_error *err);

/** Calls `entry` with each key of a config.json that clef_config_from_json() neither reads nor knows to
 * change nothing. */
void clef__config_unread(const json_t *config, const char *file, void (*entry)(void *user, const char *key),
                         void *user);

/** Fills hp from a GGUF file's keys. CLEF_OK, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED. */
clef_status clef__config_from_gguf(const clef_gguf *gguf, const char *file, clef_hparams *hp,
                                   clef_error *err);

/* ---- what both readers use ------------------------------------------------------------------- */

/** Bounds of single numbers: far above any model, far below what could overflow a product of two in 64
 *  bits. */
enum {
    CLEF_MAX_WIDTH = 1 << 22,
    CLEF_MAX_HEADS = 1 << 14,
    CLEF_MAX_HEAD_DIM = 1 << 14,
    CLEF_MAX_VOCAB = 1 << 26,
    CLEF_MAX_CONTEXT = 1 << 30,
    CLEF_MAX_EXPERTS = 1 << 16,
    CLEF_MAX_EXPERTS_USED = 64 /* topk's */
};

/** Checks how fields depend on each other: heads and key-value heads, rotated dims and head_dim, products. */
clef_status clef__config_check(const clef_hparams *hp, const char *file, clef_error *err);
/** Copies text to `out`, cut between UTF-8 characters. Control characters become '?'. */
void clef__config_text(const char *text, char *out, size_t capacity);

/** 1 when layer `layer` sees the sliding window alone; marks layers first .. n_layers - 1, every `step`-th,
 *  as such. */
int  clef__layer_slides(const clef_hparams *hp, int32_t layer);
void clef__slide_layers(clef_hparams *hp, int32_t first, int32_t step);
/** Gives every layer the sliding window, except layer `first` (negative: counted from `step`) and every
 *  `step`-th layer after it. */
void clef__slide_but(clef_hparams *hp, int32_t first, int32_t step);

/* ---- fields of a config.json that several families have: what an architecture's read_json is made of --- */

/** Width, layers, heads, context and feed-forward under Llama's keys; head_dim of its key, or d_model /
 *  n_heads. */
void clef__json_sizes(clef_json_fields *f, clef_hparams *hp);
/** The same without the feed-forward. */
void clef__json_widths(clef_json_fields *f, clef_hparams *hp);
/** The same under GPT-2's keys; head_dim is d_model / n_heads. */
void clef__json_gpt2_sizes(clef_json_fields *f, clef_hparams *hp);
/** Sets head_dim = d_model / n_heads; fails if there is a remainder. */
void clef__json_head_dim(clef_json_fields *f, clef_hparams *hp);
/** hp->activation by the field's names ("silu", "gelu", "gelu_new", ...). */
void clef__json_activation(clef_json_fields *f, clef_hparams *hp, const char *key, const char *missing);
/** RoPE from rope_parameters (transformers 5), or from rope_theta and rope_scaling (earlier versions), which
 *  win where a file has both. Fills hp->rope, which rotates whole heads. theta: of an absent key. */
void clef__json_rope(clef_json_fields *f, clef_hparams *hp, double theta);
/** The same for classes that rotate a part of each head: partial_rotary_factor, or `partial`. */
void clef__json_partial_rope(clef_json_fields *f, clef_hparams *hp, double theta, double partial);
/** The same with GPT-NeoX's keys rotary_emb_base and rotary_pct. */
void clef__json_neox_rope(clef_json_fields *f, clef_hparams *hp, double theta, double partial);

/** RoPE of classes that have parameters for each type of layer. */
typedef struct clef_layer_ropes {
    const char *full_key, *sliding_key; /* keys of the bases before transformers 5; NULL: none */
    double full_theta, sliding_theta;   /* of absent keys; 0: the parameters must have rope_theta */
    int32_t full_head_dim;              /* 0: head_dim */
    int32_t scale_both;                 /* 1: rope_scaling is for both types; 0: for full layers */
    double  partial;                    /* of an absent partial_rotary_factor; 0: whole heads are rotated */
    int32_t needs_both;                 /* 1: the file must have parameters for both types */
} clef_layer_ropes;
/** Fills hp->rope and hp->rope_sliding. */
void clef__json_layer_ropes(clef_json_fields *f, clef_hparams *hp, const clef_layer_ropes *keys);
/** Raises hp->n_context, max_position_embeddings, to what RoPE's scaling reaches: N * factor for linear and
 *  dynamic, the original context * factor for yarn. */
void clef__rope_raise_context(clef_hparams *hp);
/** The object that has RoPE's parameters, and its key; NULL if there is none. */
const json_t *clef__rope_object(const json_t *config, const char **name);
/** Reads layer_types ("sliding_attention", "full_attention") into hp->sliding_layers. `others`: further types
 *  that the caller reads (ends with NULL; NULL: none). Returns 0 when the key is absent. */
int  clef__json_layer_types(clef_json_fields *f, clef_hparams *hp, const char *const *others);
/** Reads sliding_window into hp->sliding_window; null is none, 0. missing: of an absent key. */
void clef__json_window(clef_json_fields *f, clef_hparams *hp, int32_t missing);
/** The same, and gives the window to every layer. */
void clef__json_window_everywhere(clef_json_fields *f, clef_hparams *hp, int32_t missing);
/** Reads hp->n_experts from `key` and n_experts_used from num_experts_per_tok, with the class's defaults. */
void clef__json_experts(clef_json_fields *f, clef_hparams *hp, const char *key, int32_t missing,
                        int32_t missing_used);
/** What classes with experts of DeepSeek's kind do not agree about: keys, and the values of absent ones. */
typedef struct clef_routed_keys {
    /* NULL: n_routed_experts, num_experts_per_tok, n_shared_experts, routed_scaling_factor */
    const char *experts, *used, *shared, *scale;
    int32_t     n_experts, n_used, n_shared, d_ff_expert;
    double      expert_scale;
    int32_t     is_normed;                 /* of norm_topk_prob; -1: there is no such key, they are normed */
    int32_t     n_groups, n_groups_used;   /* 0: there are no such keys */
} clef_routed_keys;
/** Reads how many experts there are, their widths, and how they are chosen: by sigmoids of the router's
 *  logits. */
void clef__json_routed(clef_json_fields *f, clef_hparams *hp, const clef_routed_keys *keys);
/** Leaves RoPE out of the layers without a sliding window, in models that have one. */
void clef__rope_in_windows(clef_hparams *hp);
/** Refuses keys that are null, were asked for and are not listed as NULLABLE. f->seen is set. */
void clef__json_check_nulls(clef_json_fields *f);
/** The same, and refuses keys that no reader asked for and that may only have another value
 *  (model/open/config_known.def). */
void clef__json_check_unread(clef_json_fields *f);
/** 1 for a key that no reader asked for and that is not listed. */
int clef__json_is_unread(const clef_json_fields *f, const char *key);
/** Refuses the feature of `key`: its value must be `supported`; `missing` is the value of an absent key. */
void clef__json_refuse_flag(clef_json_fields *f, const char *key, int supported, int missing);
/** Fails with CLEF_E_UNSUPPORTED and a text, unless f has failed already. */
void clef__json_refuse(clef_json_fields *f, const char *text);

/* ---- keys of a GGUF file: what an architecture's read_gguf is made of ------------------------ */

/** Reads keys of one architecture, with the prefix "llama." for example, and keeps the first error. */
typedef struct clef_gguf_keys {
    const clef_gguf *gguf;
    const char *arch, *file;
    clef_error *err;
    clef_status status;
    /* NULL, or keys that may differ from layer to layer, which the family reads; ends with NULL */
    const char *const *varied;
    char key[96]; /* the key that was looked up last */
} clef_gguf_keys;

/** A key that is looked up is read under its old name too (model/open/gguf_keys.def), and counts as read. */
int     clef__key_has(clef_gguf_keys *k, const char *key);
/** Reads an array with a number for each layer into bits (hp->sliding_layers). Does nothing if the key is
 *  missing. */
void    clef__key_layers(clef_gguf_keys *k, const char *key, int32_t n_layers, uint32_t *bits);
/** The same from GGUF's keys; `missing` as below. */
void clef__key_routed(clef_gguf_keys *k, clef_hparams *hp, clef_router missing);
/** How experts are chosen: expert_gating_func and expert_weights_norm; `missing` of absent keys. */
clef_router clef__key_router(clef_gguf_keys *k, clef_router missing);
/** Finds the layers with the sliding window: attention.sliding_window_pattern is an array with an item for
 *  each layer, or the step of clef__slide_but(). */
void clef__key_windows(clef_gguf_keys *k, clef_hparams *hp, int32_t first, int32_t missing);

enum { CLEF_KEY_NEEDED = -1 }; /* as `missing`: a missing key is an error */
/** A number from min to max. All items of an array (one for each layer) must be equal, unless the key is one
 *  of k->varied; then the result is the first item. */
int32_t clef__key_int(clef_gguf_keys *k, const char *key, int32_t min, int32_t max, int32_t missing);
/** The number of one layer, from an array with an item for each layer or from a single number. 0 if the key
 *  is missing. */
int32_t clef__key_of_layer(clef_gguf_keys *k, const char *key, int32_t layer, int32_t min, int32_t max);
double  clef__key_float(clef_gguf_keys *k, const char *key, double min, double max, double missing);

/** The tensor with that name, NULL if the file has none. */
const clef_tensor_info *clef__gguf_tensor(const clef_gguf *gguf, const char *name);

#endif
