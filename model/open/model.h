/* The fields of an open model, for the code in model/. */
#ifndef CLEF_MODEL_MODEL_H
#define CLEF_MODEL_MODEL_H

#include "clef/model.h"
#include "model/file/gguf.h"
#include "model/file/json.h"
#include "model/file/safetensors.h"
#include "model/open/generation.h"

/* Options of clef_model_sampling(). */
enum { CLEF_N_SAMPLING = 9 };

/** Room for the name of a dense layer's weight; the most layers. */
enum { CLEF_DENSE_NAME = 96, CLEF_MAX_DENSE = 4 };

/** A dense layer behind the pooling: act(x W^T + bias). */
typedef struct clef__dense {
    /* "2_Dense.linear", "dense_2"; its weights have .weight and .bias behind it */
    char             name[CLEF_DENSE_NAME - 8];
    int32_t          n_in, n_out;
    const char      *act_name;
    clef_value      *(*act)(clef_graph *g, clef_value *x); /* NULL: none */
    clef_tensor_info weight, bias; /* bias.data NULL: none */
    clef_safetensors file;         /* of a folder */
    char             names[2][CLEF_DENSE_NAME];
} clef__dense;

struct clef_model {
    clef_hparams hparams;
    uint32_t     has_sampling; /* a bit for each option that the files set */
    double       sampling[CLEF_N_SAMPLING];
    clef__rules  rules;      /* of generation_config.json */
    json_t      *embedding;  /* config_sentence_transformers.json, once an embedder has asked; else NULL */
    json_t      *classifier; /* config.json, or what a GGUF file says of a classifier in its form; or NULL */
    json_t      *generation; /* that file, or what config.json says in its place; NULL: neither */
    int32_t      is_gguf; /* 1: GGUF tensor names and order; 0: a Hugging Face folder's */
    char        *path;

    clef_gguf         gguf;   /* is_gguf */
    clef_safetensors *shards; /* else */
    size_t            n_shards;
    json_t           *config; /* config.json, or the text model's part of it */
    clef_hparams     *vision; /* NULL, or the encoder of pictures beside a model of texts */
    clef_error       *vision_error; /* NULL, or why that cannot be run */
    char             *tower_prefix; /* NULL, or what its tensors have in place of the family's prefix */
    const char       *text_prefix; /* NULL, or that of the text model's tensors (clef__find_text_prefix) */

    clef_tensor_info        *tensors; /* of all files; names and data are borrowed from the files */
    clef_tensor_info        *tensors_before; /* NULL, or without a tower's; `joined` points into it */
    int32_t                  n_tensors;
    const clef_tensor_info **by_name;
    struct clef_joined      *joined; /* weights that are stored in parts (model/open/joined.h) */
    clef_tensor_info        *joined_infos;
    const clef_tensor_info **joined_by_name;
    size_t                   n_joined;
    struct clef__packed     *packed; /* matrices of a quantised folder (model/open/quantised.h) */
    size_t                   n_packed;
    struct clef__packed     *packed_idle; /* NULL, or one that is in memory and not needed now */
    const clef_tensor_info  *last_asked; /* NULL, or the stored tensor whose bytes were asked for last */
    clef_tokenizer          *tokenizer; /* opened at the first request */
    clef__dense dense[CLEF_MAX_DENSE]; /* once has_dense: clef__dense_open() */
    int32_t     n_dense, has_dense;
    clef__dense token_heads[2];        /* by clef_token_head - 1; n_out 0: not open */
    char *weights_name; /* what clef__weights_name() gave last */
    /* NULL, or the model has no weights yet, and those that its graph asks for are noted */
    struct clef__declared   *declared;
    json_t      *outer; /* of a folder: config.json as it is */
    /* Of a GGUF model to which a tower was added (model/tower/mmproj.c): its file, the names of its tensors,
     * and the configuration of its image processor; else NULL */
    clef_model *pictures;
    char       *picture_names, *picture_config;
    struct clef__sight *sight; /* NULL, or what it says of pictures (model/sight/sight.h) */
    struct clef__published  *published; /* NULL, or what trainers published (model/open/published.h) */
};

/** model/open/sampling_defaults.c: reads the options of clef_model_sampling(). */
void clef__sampling_from_json(clef_model *model);
void clef__sampling_from_gguf(clef_model *model);

/** The tensor with that name, NULL if there is none; borrowed from the model; O(log n). The result's name is
 *  the stored one. In a folder two more spellings are tried: without the base model's prefix (GPT2Model
 *  stores "transformer.h.0..." as "h.0...", others drop "model."), and, if tied_embeddings, the embedding for
 *  lm_head.weight and the reverse. Weights that are stored in parts are found by their joint name; they have
 *  no data until clef_model_weight() was called. */
const clef_tensor_info *clef__model_find(const clef_model *model, const char *name);

/** Own key of GGUF files: what config.json says of a classifier, as JSON. */
#define CLEF_KEY_CLASSIFIER "libclef.classifier"
/* llama_pooling_type of what ModernBERT's classifier reads. */
enum { CLEF_GGUF_POOLING_MEAN = 1, CLEF_GGUF_POOLING_CLS = 2 };
/** Reads what a GGUF file says of a classifier into model->classifier. */
clef_status clef__classifier_of_gguf(clef_model *model, clef_error *err);

/* ---- dense layers behind the pooling (model/open/dense.c) ---- */

/** Own key of GGUF files: the activations of the layers, as words; absent: none has one. */
#define CLEF_KEY_DENSE "libclef.embedding.dense"
/** Opens them, once. CLEF_E_FORMAT, CLEF_E_NOT_FOUND, CLEF_E_SHAPE, CLEF_E_UNSUPPORTED, CLEF_E_LIMIT. */
clef_status clef__dense_open(clef_model *m, clef_error *err);
void        clef__dense_finish(clef_model *m);
/** Opens bge-m3's layer for each token, once: sparse_linear.safetensors or colbert_linear.safetensors.
 *  CLEF_E_NOT_FOUND names what is there instead. */
clef_status clef__token_head_open(clef_model *m, clef_token_head head, clef_error *err);
/** Their tensor with that name, or NULL. */
const clef_tensor_info *clef__dense_find(const clef_model *m, const char *name);
/** 1 for the name of a folder inside the model's: the list of modules must not lead elsewhere. */
int clef__is_plain_folder(const char *name);

/* ---- folders of models that also read pictures or sound (model/open/wrapper.c) ---- */

/** Replaces a config.json that has a text_config by the configuration of its text model, with the outer keys
 *  that hold for it. Leaves any other as it is. CLEF_OK, CLEF_E_NOMEM. */
clef_status clef__unwrap_config(json_t **config, const char *file, clef_error *err);
/** Reads the vision_config of a config.json before clef__unwrap_config(), into m->vision or m->vision_error.
 *  A folder whose texts alone can be run opens all the same. CLEF_E_NOMEM. */
clef_status clef__read_vision_config(clef_model *m, const json_t *config, const char *file, clef_error *err);
/** CLEF_E_UNSUPPORTED if the model reads pictures and no texts. */
clef_status clef__check_reads_texts(const clef_model *m, clef_error *err);
/** Finds where the tensors of m->vision are: sets m->tower_prefix. CLEF_E_NOMEM. */
clef_status clef__find_tower(clef_model *m, clef_error *err);
void        clef__vision_finish(clef_model *m);
/** Sets m->text_prefix, which is before the names of the text model's tensors in place of "model.". */
void clef__find_text_prefix(clef_model *m);
/** Writes the stored name of the text model's tensor `name` to `out`. Returns 0 if it is the same. */
int clef__text_name(const clef_model *m, const char *name, char *out, size_t capacity);
/** The other way round: `name` with "model." in place of any prefix that text models have. Returns 0 if it
 *  has none of these. */
int clef__plain_text_name(const char *name, char *out, size_t capacity);
/** Writes the name that Qwen's folders have for tensor `name` of the layer that predicts further tokens.
 *  Returns 0 if it is not of that layer. */
int clef__further_name(const clef_model *m, const char *name, char *out, size_t capacity);
/** 1 for a tensor that is not of the text model. */
int clef__is_left_out(const clef_model *m, const char *name);

/** Fails with CLEF_E_UNSUPPORTED if an opened model has a tensor that its graph does not read and that is not
 *  known to change nothing: buffers, heads, other modalities. A model whose graph cannot be built is not
 *  checked; building it says why. CLEF_E_NOMEM. */
clef_status clef__check_unread_tensors(const clef_model *model, clef_error *err);

/** Fails with CLEF_E_NOT_FOUND and "folder: lacks", then the files there that hold weights in another way,
 *  and what to do with them.
 *
 *  lacks  "has no config.json" */
clef_status clef__no_weights(const char *folder, const char *lacks, clef_error *err);

/** Gives back the physical memory behind a stored tensor, which stays readable. */
void clef__forget_data(const clef_model *model, const clef_tensor_info *t);

/** 1 if both tensors have the same dtype and bytes. Reads the bytes. */
int clef__tensors_equal(const clef_tensor_info *a, const clef_tensor_info *b);

/** CLEF_E_UNSUPPORTED if ids [n] have that of clef_model_padding(). */
clef_status clef__check_padding(const clef_model *model, const int32_t *ids, int32_t n, clef_error *err);

/** Writes a line about the family that has the most of the model's tensors. 0: none has any. */
int clef__nearest_arch(const clef_model *m, char *out, size_t capacity);

#endif
