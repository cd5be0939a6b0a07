/* What an architecture is: the names it answers to, its weights' names, and the function that builds its graph.
 * To add one: docs/adding-a-model.md. */
#ifndef CLEF_MODEL_ARCH_H
#define CLEF_MODEL_ARCH_H

#include "clef/model.h"
#include "graph/fail.h"

/** What a weight is for. Layers' weights come in one for each layer. */
typedef enum clef_role {
    CLEF_W_EMBED,
    CLEF_W_POSITIONS,
    CLEF_W_ATTN_NORM,
    CLEF_W_ATTN_QKV,
    CLEF_W_ATTN_Q,
    CLEF_W_ATTN_K,
    CLEF_W_ATTN_V,
    CLEF_W_ATTN_Q_NORM,
    CLEF_W_ATTN_K_NORM,
    CLEF_W_ATTN_OUT,
    CLEF_W_FFN_NORM,
    CLEF_W_FFN_GATE,
    CLEF_W_FFN_UP,
    CLEF_W_FFN_DOWN,
    CLEF_W_OUT_NORM,
    CLEF_W_OUT,
    CLEF_N_ROLES
} clef_role;

/** A weight's name without ".weight" or ".bias": in a Hugging Face folder and in GGUF. "%d" stands for the layer. NULL: has none. */
typedef struct clef_weight_name {
    const char *hf, *gguf;
} clef_weight_name;

/** The model under construction: what the functions of model/layers.h share. */
typedef struct clef_builder {
    clef_graph           *g;
    const clef_model     *model;
    const clef_hparams   *hp;
    const struct clef_arch *arch;
    int32_t               n_context, all_logits;
    int32_t               layer;   /* the one being built, -1 outside the layers */
    clef_dim              B, T, S; /* sequences, tokens of this step, cached positions that it may see */
    int32_t               max_B;
    clef_dtype            kv_type; /* of the cache */
    clef_value           *ids;     /* I32 [B, T] */
    clef_value           *pos;     /* I32 [B]: positions in the cache before this step */
    clef_value           *mask;    /* NULL, or I32 [B, 1, 1, S]: 0 where a key is padding */
    clef_value           *freqs;   /* of RoPE, made at first use */
} clef_builder;

typedef struct clef_arch {
    const char *const      *names;   /* ends with NULL */
    const clef_weight_name *weights; /* [CLEF_N_ROLES] */
    const char             *hf_prefix; /* of every name in a folder but the output matrix's */
    int32_t                 hf_conv1d; /* 1: a folder's matrices are [in, out] (GPT-2's Conv1D) */
    /** Builds the graph from b->ids to the logits, which it returns. */
    clef_value *(*build)(clef_builder *b);
} clef_arch;

#define ARCH(name) extern const clef_arch clef__arch_##name;
#include "model/archs.def"
#undef ARCH

/** The architecture that answers to `name`, NULL if none. */
const clef_arch *clef__arch_find(const char *name);

#endif
