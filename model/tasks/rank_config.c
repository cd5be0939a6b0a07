/* Reads the form of rankings: sentence-transformers' files of a CrossEncoder, or GGUF's labels and template.
 */
#include "model/tasks/rank_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/open/model.h"
#include "model/tasks/embed_config.h"

/* The question of Qwen3-Reranker's model card, with its instruction for web searches. */
static const char question_text[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    "Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: "
    "Given a web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n"
    "<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

const clef_span clef__qwen3_question = {question_text, sizeof question_text - 1};

const char *clef__find_in(clef_span text, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= text.n_bytes; i++)
        if (memcmp(text.text + i, word, n) == 0)
            return text.text + i;
    return NULL;
}

static int ends_in(const char *text, const char *end)
{
    const size_t n = text ? strlen(text) : 0, n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

static int has_class(const clef_model *m, const char *end)
{
    return ends_in(json_string_value(json_array_get(json_object_get(m->config, "architectures"), 0)), end);
}

/* ---- folders */

int clef__is_cross_encoder(const clef_model *m)
{
    char *path = NULL;
    json_t *root = NULL;
    if (!m->is_gguf)
        clef__load_part(m, "", "config_sentence_transformers.json", &path, &root, NULL);
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const int is = type && strcmp(type, "CrossEncoder") == 0;
    json_decref(root);
    free(path);
    return is;
}

static clef_status read_activation(const char *name, const char *file, clef__rank_config *out,
                                   clef_error *err)
{
    if (!name)
        return CLEF_OK;
    out->info.is_bounded = ends_in(name, ".Sigmoid");
    return out->info.is_bounded || ends_in(name, ".Identity")
               ? CLEF_OK
               : clef__fail(err, CLEF_E_UNSUPPORTED,
                            "%s: activation_fn %.80s is not supported, known are: Sigmoid Identity", file,
                            name);
}

/* config_sentence_transformers.json holds against config.json, where older versions wrote it, by two names.
 */
static clef_status read_activations(const clef_model *m, clef__rank_config *out, clef_error *err)
{
    const json_t *inside = json_object_get(m->config, "sentence_transformers");
    const char *old = json_string_value(json_object_get(m->config, "sbert_ce_default_activation_function"));
    const char *name = json_string_value(json_object_get(inside, "activation_fn"));
    char *path = NULL;
    json_t *root = NULL;
    clef_status status = clef__load_part(m, "", "config_sentence_transformers.json", &path, &root, err);
    const char *newest = json_string_value(json_object_get(root, "activation_fn"));
    if (status == CLEF_OK)
        status = read_activation(newest ? newest
                                 : name ? name
                                        : old,
                                 newest ? path : "config.json", out, err);
    json_decref(root);
    free(path);
    return status;
}

static clef_status read_logit_score(const clef_model *m, const char *part, clef__rank_config *out,
                                    clef_error *err)
{
    char *path = NULL;
    json_t *root = NULL;
    clef_status status = clef__load_part(m, part, "config.json", &path, &root, err);
    clef_json_fields f = {.object = root, .file = path, .err = err};
    if (status == CLEF_OK && !json_is_object(root))
        status = clef__fail(err, CLEF_E_FORMAT, "%s: expected an object, got %s", path,
                            root ? clef__json_kind(root) : "no file");
    if (status == CLEF_OK) {
        out->yes = (int32_t)clef__json_int(&f, "true_token_id", 0, m->hparams.n_vocab - 1, -1);
        out->no = (int32_t)clef__json_int(&f, "false_token_id", 0, m->hparams.n_vocab - 1, -1);
        status = f.status;
    }
    if (status == CLEF_OK && (out->yes < 0 || out->no < 0))
        status = clef__fail(err, CLEF_E_UNSUPPORTED,
                            "%s: expected true_token_id and false_token_id, both set", path);
    json_decref(root);
    free(path);
    return status;
}

static clef_status read_module(const clef_model *m, const char *file, const json_t *module,
                               clef__rank_config *out, clef_error *err)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *part = json_string_value(json_object_get(module, "path"));
    if (!type || !part || !clef__is_plain_folder(part))
        return clef__fail(err, CLEF_E_FORMAT, "%s: expected modules with a type and a folder beside it",
                          file);
    if (ends_in(type, ".Transformer"))
        return clef__read_longest(m, part, 0, &out->info.max_tokens, err);
    if (ends_in(type, ".LogitScore"))
        return read_logit_score(m, part, out, err);
    return clef__fail(err, CLEF_E_UNSUPPORTED,
                      "%s: module %.80s is not supported for rankings, known are: Transformer LogitScore",
                      file, type);
}

static clef_status read_folder(const clef_model *m, clef__rank_config *out, clef_error *err)
{
    char *path = NULL;
    json_t *root = NULL;
    clef_status status = read_activations(m, out, err);
    if (status == CLEF_OK)
        status = clef__load_part(m, "", "modules.json", &path, &root, err);
    if (status == CLEF_OK && !root)
        status = clef__read_longest(m, "", 0, &out->info.max_tokens, err);
    if (status == CLEF_OK && root && !json_is_array(root))
        status = clef__fail(err, CLEF_E_FORMAT, "%s: expected an array, got %s", path, clef__json_kind(root));
    for (size_t i = 0; status == CLEF_OK && i < json_array_size(root); i++)
        status = read_module(m, path, json_array_get(root, i), out, err);
    if (has_class(m, "ForCausalLM") || out->yes >= 0) {
        out->info.question = clef__qwen3_question;
        out->info.is_assumed = 1;
    }
    json_decref(root);
    free(path);
    return status;
}

/* ---- GGUF */

static clef_status read_gguf(const clef_model *m, clef__rank_config *out, clef_error *err)
{
    const clef_gguf_entry *question = clef__gguf_find(&m->gguf, "tokenizer.chat_template.rerank");
    const int64_t most = clef__gguf_int(&m->gguf, CLEF_KEY_RANK_TOKENS, out->info.max_tokens);
    if (most < 1)
        return clef__fail(err, CLEF_E_FORMAT, "%s: " CLEF_KEY_RANK_TOKENS ": expected 1 or more, got %lld",
                          m->path, (long long)most);
    if (most < out->info.max_tokens)
        out->info.max_tokens = (int32_t)most;
    out->info.is_bounded = !clef__gguf_int(&m->gguf, CLEF_KEY_RANK_RAW, 0);
    if (question && !question->is_array && question->type == CLEF_GGUF_STRING)
        out->info.question = (clef_span){question->strings->text, question->strings->n_bytes};
    return CLEF_OK;
}

int32_t clef_model_is_ranker(const clef_model *m)
{
    clef__rank_config config;
    const clef_tensor_info *labels = clef__model_find(m, "cls.output.weight");
    char key[96];
    if (!m->is_gguf) {
        const json_t *map = json_object_get(m->config, "id2label");
        return clef__is_cross_encoder(m) ||
               (has_class(m, "ForSequenceClassification") && json_object_size(map) == 1) ||
               (clef__rank_config_read(m, &config, NULL) == CLEF_OK && config.yes >= 0);
    }
    snprintf(key, sizeof key, "%s.pooling_type", m->hparams.arch);
    return clef__gguf_int(&m->gguf, key, 0) == CLEF_GGUF_POOLING_RANK || (labels && labels->dims[0] == 1);
}

clef_status clef__rank_config_read(const clef_model *m, clef__rank_config *out, clef_error *err)
{
    *out = (clef__rank_config){
        .info = {.max_tokens = m->hparams.n_context, .is_bounded = 1}, .yes = -1, .no = -1};
    const clef_status status = m->is_gguf ? read_gguf(m, out, err) : read_folder(m, out, err);
    const clef_span *q = &out->info.question;
    if (status == CLEF_OK && q->text && (!clef__find_in(*q, "{query}") || !clef__find_in(*q, "{document}")))
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: tokenizer.chat_template.rerank: expected {query} and {document}", m->path);
    return status;
}
