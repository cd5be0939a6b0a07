/* What a model's files say about rankings: the form of a score, and the longest pair. */
#ifndef CLEF_MODEL_RANK_CONFIG_H
#define CLEF_MODEL_RANK_CONFIG_H

#include "clef/rerank.h"

/** yes, no: tokens whose logits give the score; -1: of a classifier, or not named. */
typedef struct clef__rank_config {
    clef_ranker_info info;
    int32_t          yes, no;
} clef__rank_config;

/** 1 for a folder that sentence-transformers saved as a CrossEncoder. */
int         clef__is_cross_encoder(const clef_model *model);
/** CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_UNSUPPORTED (an activation or a module, which is named), CLEF_E_NOMEM. */
clef_status clef__rank_config_read(const clef_model *model, clef__rank_config *out, clef_error *err);

/** The question of Qwen3-Reranker's model card, with its instruction for web searches. */
extern const clef_span clef__qwen3_question;
/** Where a word begins in a text, NULL for nowhere. */
const char *clef__find_in(clef_span text, const char *word);

/** llama_pooling_type of llama.cpp's rankers. */
enum { CLEF_GGUF_POOLING_RANK = 4 };
/** Own keys of GGUF files. */
#define CLEF_KEY_RANK_TOKENS "libclef.rerank.max_tokens"
#define CLEF_KEY_RANK_RAW "libclef.rerank.raw"

#endif
