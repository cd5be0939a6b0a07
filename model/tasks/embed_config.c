/* Reads pooling from a model's files: sentence-transformers' modules.json and the files that it names, or
 * GGUF's pooling_type. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/open/arch.h"
#include "model/open/model.h"
#include "model/tasks/embed_config.h"
#include "model/tasks/rank_config.h"
#include "model/tokenizer/read/formats.h"
#include "runtime/os/os.h"

enum { MAX_FILE_BYTES = 1 << 20 };

clef_status clef__load_part(const clef_model *m, const char *part, const char *file, char **path,
                            json_t **out, clef_error *err)
{
    const size_t n = strlen(m->path) + strlen(part) + strlen(file) + 3;
    *out = NULL;
    *path = malloc(n);
    if (!*path)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a path", m->path);
    snprintf(*path, n, "%s/%s%s%s", m->path, part, *part ? "/" : "", file);
    return clef__os_is_file(*path) ? clef__json_load(*path, MAX_FILE_BYTES, out, err) : CLEF_OK;
}

/* ---- sentence-transformers */

/* The supported modes, with their flags in a 1_Pooling/config.json and their words in newer files. */
static const struct {
    const char *flag, *word;
    clef_pooling pooling;
} modes[] = {
    {"pooling_mode_cls_token", "cls", CLEF_POOL_CLS},
    {"pooling_mode_mean_tokens", "mean", CLEF_POOL_MEAN},
    {"pooling_mode_lasttoken", "lasttoken", CLEF_POOL_LAST},
};

static clef_pooling mode_of_word(clef_json_fields *f, const char *word)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(word, modes[i].word) == 0)
            return modes[i].pooling;
    f->status =
        clef__fail(f->err, CLEF_E_UNSUPPORTED,
                   "%s: pooling_mode %.40s is not supported, known are: cls mean lasttoken", f->file, word);
    return CLEF_POOL_NONE;
}

static clef_pooling mode_of_flags(clef_json_fields *f)
{
    clef_pooling mode = CLEF_POOL_NONE;
    int n = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)f->object, key, value) {
        if (strncmp(key, "pooling_mode_", strlen("pooling_mode_")) != 0 || !clef__json_bool(f, key, 0))
            continue;
        n++;
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
            if (strcmp(key, modes[i].flag) == 0)
                mode = modes[i].pooling;
        if (!mode && f->status == CLEF_OK)
            f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %.60s is not supported", f->file, key);
    }
    if (f->status == CLEF_OK && n != 1)
        f->status =
            clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %d kinds of pooling, expected one", f->file, n);
    return mode;
}

static clef_status read_pooling(const clef_model *m, const char *part, clef_embedder_info *out,
                                clef_error *err)
{
    char *path;
    json_t *root;
    clef_status status = clef__load_part(m, part, "config.json", &path, &root, err);
    if (status == CLEF_OK && !json_is_object(root))
        status = clef__fail(err, root ? CLEF_E_FORMAT : CLEF_E_NOT_FOUND, "%s: %s", path,
                            root ? "is not an object" : "is missing");
    if (status == CLEF_OK) {
        clef_json_fields f = {.object = root, .file = path, .err = err};
        const json_t *modes_of = json_object_get(root, "pooling_mode");
        const char *word = json_array_size(modes_of) == 1 ? json_string_value(json_array_get(modes_of, 0))
                                                          : clef__json_string(&f, "pooling_mode", NULL);
        if (f.status == CLEF_OK)
            out->pooling = word ? mode_of_word(&f, word) : mode_of_flags(&f);
        if (f.status == CLEF_OK && !clef__json_bool(&f, "include_prompt", 1) && out->prompt)
            f.status =
                clef__fail(err, CLEF_E_UNSUPPORTED,
                           "%s: include_prompt false with a prompt before each text is not supported", path);
        status = f.status;
    }
    json_decref(root);
    free(path);
    return status;
}

/* Loads the first of sentence-transformers' files that there is, by its names over time. */
static clef_status load_transformer(const clef_model *m, const char *part, char **path, json_t **out,
                                    clef_error *err)
{
    static const char *const kinds[] = {"bert",   "roberta",     "distilbert", "camembert",
                                        "albert", "xlm-roberta", "xlnet"};
    clef_status status = CLEF_OK;
    *path = NULL;
    *out = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && status == CLEF_OK && !*out; i++) {
        char name[64];
        snprintf(name, sizeof name, "sentence_%s_config.json", kinds[i]);
        free(*path);
        status = clef__load_part(m, part, name, path, out, err);
    }
    return status;
}

/* model_max_length of an object, at most `most`; what is not there, or beyond all models, is `most`. */
static int32_t longest_of(const json_t *object, int32_t most)
{
    const json_t *value = json_object_get(object, "model_max_length");
    const double n = json_number_value(value);
    return json_is_number(value) && n >= 1 && n < most ? (int32_t)n : most; /* 1e30 means none */
}

/* *out is NULL where there is none. */
static clef_status load_tokenizer_config(const clef_model *m, const char *part, json_t **out, clef_error *err)
{
    const size_t n = strlen(m->path) + strlen(part) + 2;
    char *folder = malloc(n);
    *out = NULL;
    if (!folder)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a path", m->path);
    snprintf(folder, n, "%s%s%s", m->path, *part ? "/" : "", part);
    const clef_status status = clef__load_beside(folder, "tokenizer_config.json", out, err);
    free(folder);
    return status;
}

/* Refuses settings of the transformer that give other vectors. Lower case does not where the tokenizer makes
 * it. */
static void check_transformer(clef_json_fields *f, const json_t *tokenizer)
{
    static const char *const words[][2] = {{"transformer_task", "feature-extraction"},
                                           {"module_output_name", "last_hidden_state"}};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(f->object, words[i][0]);
        const char *text = json_string_value(value);
        if (value && !json_is_null(value) && !(text && strcmp(text, words[i][1]) == 0) &&
            f->status == CLEF_OK && !(i == 1 && text && strcmp(text, "token_embeddings") == 0))
            f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s is %.60s, expected %s", f->file,
                                   words[i][0], text ? text : clef__json_kind(value), words[i][1]);
    }
    if (clef__json_bool(f, "do_lower_case", 0) &&
        !json_is_true(json_object_get(tokenizer, "do_lower_case")) && f->status == CLEF_OK)
        f->status =
            clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: do_lower_case true is not supported", f->file);
}

clef_status clef__read_longest(const clef_model *m, const char *part, int of_vectors, int32_t *max_tokens,
                               clef_error *err)
{
    char *path = NULL;
    json_t *root = NULL, *tokenizer;
    int32_t most = 0;
    clef_status status = load_tokenizer_config(m, part, &tokenizer, err);
    if (status == CLEF_OK)
        status = load_transformer(m, part, &path, &root, err);
    if (status == CLEF_OK && root && !json_is_object(root))
        status = clef__fail(err, CLEF_E_FORMAT, "%s: is not an object", path);
    if (status == CLEF_OK && root) {
        clef_json_fields f = {.object = root, .file = path, .err = err};
        const json_t *kwargs = json_object_get(root, "processor_kwargs");
        most = longest_of(kwargs ? kwargs : json_object_get(root, "tokenizer_args"), INT32_MAX);
        if (most == INT32_MAX) /* else it is the first's */
            most = (int32_t)clef__json_int(&f, "max_seq_length", 1, INT32_MAX, 0);
        if (of_vectors)
            check_transformer(&f, tokenizer);
        status = f.status;
    }
    if (status == CLEF_OK && !most) /* the tokenizer's own limit */
        *max_tokens = longest_of(tokenizer, *max_tokens);
    else if (most)
        *max_tokens = most < *max_tokens ? most : *max_tokens;
    json_decref(tokenizer);
    json_decref(root);
    free(path);
    return status;
}

static clef_status read_transformer(const clef_model *m, const char *part, clef_embedder_info *out,
                                    clef_error *err)
{
    return clef__read_longest(m, part, 1, &out->max_tokens, err);
}

static clef_status read_nothing(const clef_model *m, const char *part, clef_embedder_info *out,
                                clef_error *err)
{
    (void)m;
    (void)part;
    (void)out;
    (void)err;
    return CLEF_OK;
}

static clef_status read_normalize(const clef_model *m, const char *part, clef_embedder_info *out,
                                  clef_error *err)
{
    (void)m;
    (void)part;
    (void)err;
    out->normalize = 1;
    return CLEF_OK;
}

/* The layer itself is opened with the others. */
static clef_status read_dense(const clef_model *m, const char *part, clef_embedder_info *out, clef_error *err)
{
    if (!out->pooling || out->normalize)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: modules.json: the module %s is %s, expected it between Pooling and Normalize",
                          m->path, part, out->pooling ? "behind Normalize" : "before Pooling");
    const clef_status status = clef__dense_open((clef_model *)(uintptr_t)m, err);
    if (status == CLEF_OK && m->n_dense)
        out->n_dims = m->dense[m->n_dense - 1].n_out;
    return status;
}

static const struct {
    const char *name; /* the last part of a module's type */
    clef_status (*read)(const clef_model *m, const char *part, clef_embedder_info *out, clef_error *err);
} modules[] = {{"Transformer", read_transformer},
               {"Pooling", read_pooling},
               {"Dense", read_dense},
               {"Normalize", read_normalize},
               {"Dropout", read_nothing}};

static clef_status read_module(const clef_model *m, const char *file, const json_t *module,
                               clef_embedder_info *out, clef_error *err)
{
    clef_json_fields f = {.object = module, .file = file, .err = err};
    if (!json_is_object(module))
        return clef__fail(err, CLEF_E_FORMAT, "%s: holds %s, expected objects", file,
                          clef__json_kind(module));
    const char *type = clef__json_string(&f, "type", ""), *part = clef__json_string(&f, "path", "");
    if (f.status != CLEF_OK)
        return f.status;
    if (!clef__is_plain_folder(part))
        return clef__fail(err, CLEF_E_FORMAT, "%s: path %.80s, expected the name of a folder beside it", file,
                          part);
    const char *dot = strrchr(type, '.'), *name = dot ? dot + 1 : type;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strcmp(name, modules[i].name) == 0)
            return modules[i].read(m, part, out, err);
    return clef__fail(
        err, CLEF_E_UNSUPPORTED,
        "%s: module %.80s is not supported, known are: Transformer Pooling Dense Normalize Dropout", file,
        type);
}

/* "known are: query document", in a buffer. */
static const char *prompt_names(const json_t *prompts, char *out, size_t capacity)
{
    size_t n = (size_t)snprintf(out, capacity, json_object_size(prompts) ? "known are:" : "it has none");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)prompts, key, value) {
        const int more = snprintf(out + n, capacity - n, " %.60s", key);
        n += more > 0 && (size_t)more < capacity - n ? (size_t)more : 0;
    }
    return out;
}

/* The prompt called `name`, which the caller asked for or the file calls its default. */
static clef_status find_prompt(const clef_json_fields *f, const char *name, int is_asked,
                               clef_embedder_info *out)
{
    const json_t *prompts = json_object_get(f->object, "prompts"), *prompt = json_object_get(prompts, name);
    char known[400];
    if (!prompt && is_asked)
        return clef__fail(f->err, CLEF_E_NOT_FOUND, "%s: the model has no prompt %.60s, %s", f->file, name,
                          prompt_names(prompts, known, sizeof known));
    if (!prompt)
        return clef__fail(f->err, CLEF_E_FORMAT, "%s: default_prompt_name %.60s: expected one of the prompts",
                          f->file, name);
    if (!json_is_string(prompt) && !json_is_null(prompt))
        return clef__fail(f->err, CLEF_E_FORMAT, "%s: prompts.%.60s is %s, expected a string", f->file, name,
                          clef__json_kind(prompt));
    if (json_string_length(prompt))
        out->prompt = json_string_value(prompt);
    return CLEF_OK;
}

/* The prompt that sentence-transformers puts before each text, and how vectors are compared. */
static clef_status read_prompt(clef_model *m, const clef_embed_opts *opts, clef_embedder_info *out,
                               clef_error *err)
{
    char *path = NULL;
    clef_status status = CLEF_OK;
    if (!m->embedding)
        status = clef__load_part(m, "", "config_sentence_transformers.json", &path, &m->embedding, err);
    clef_json_fields f = {
        .object = m->embedding, .file = path ? path : "config_sentence_transformers.json", .err = err};
    const char *name = m->embedding ? clef__json_string(&f, "default_prompt_name", NULL) : NULL;
    const char *similarity = m->embedding ? clef__json_string(&f, "similarity_fn_name", NULL) : NULL;
    if (status == CLEF_OK)
        status = f.status;
    const char *asked = opts ? opts->prompt_name : NULL;
    if (status == CLEF_OK && (asked || (name && !(opts && opts->no_prompt))))
        status = find_prompt(&f, asked ? asked : name, asked != NULL, out);
    out->similarity = similarity ? similarity : "cosine";
    free(path);
    return status;
}

clef_status clef__embed_read_folder(const clef_model *model, const clef_embed_opts *opts,
                                    clef_embedder_info *out, clef_error *err)
{
    char *path = NULL;
    json_t *root = NULL;
    clef_model *m = (clef_model *)(uintptr_t)model; /* it keeps the prompt */
    clef_status status = read_prompt(m, opts, out, err);
    if (status == CLEF_OK)
        status = clef__load_part(m, "", "modules.json", &path, &root, err);
    if (status == CLEF_OK && !root) /* as sentence-transformers: the transformer alone */
        status = read_transformer(m, "", out, err);
    if (status == CLEF_OK && root && !json_is_array(root))
        status = clef__fail(err, CLEF_E_FORMAT, "%s: is %s, expected an array", path, clef__json_kind(root));
    for (size_t i = 0; status == CLEF_OK && i < json_array_size(root); i++)
        status = read_module(m, path, json_array_get(root, i), out, err);
    json_decref(root);
    free(path);
    return status;
}

/* ---- GGUF */

const clef_pooling clef__gguf_poolings[] = {CLEF_POOL_NONE, CLEF_POOL_MEAN, CLEF_POOL_CLS, CLEF_POOL_LAST};

static const clef_gguf_string *text_of(const clef_gguf *gguf, const char *key)
{
    const clef_gguf_entry *e = clef__gguf_find(gguf, key);
    return e && !e->is_array && e->type == CLEF_GGUF_STRING ? e->strings : NULL;
}

/* What clef convert has kept of config_sentence_transformers.json; version 0.1 kept the default prompt alone.
 */
static clef_status read_prompts(clef_model *m, clef_error *err)
{
    const clef_gguf_string *all = text_of(&m->gguf, CLEF_KEY_PROMPTS),
                           *one = text_of(&m->gguf, "libclef.embedding.prompt");
    if (!m->embedding && all)
        return clef__json_parse(all->text, all->n_bytes, CLEF_KEY_PROMPTS, &m->embedding, err);
    if (!m->embedding && one)
        m->embedding = json_pack("{s:{s:s%},s:s}", "prompts", "text", one->text, one->n_bytes,
                                 "default_prompt_name", "text");
    return CLEF_OK;
}

/* The longest text and the normalisation have clef's own keys: llama.cpp always normalises. */
static clef_status read_gguf(clef_model *m, const clef_embed_opts *opts, clef_embedder_info *out,
                             clef_error *err)
{
    char key[96];
    snprintf(key, sizeof key, "%s.pooling_type", m->hparams.arch);
    const int64_t n = clef__gguf_int(&m->gguf, key, 0);
    if (n == CLEF_GGUF_POOLING_RANK)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: expected a model for embeddings, got one for rankings "
                          "(clef rerank)",
                          m->path);
    if (n < 0 || n >= CLEF_N_GGUF_POOLINGS)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: %s %lld is not supported, known are 0 to 3", m->path,
                          key, (long long)n);
    clef_status status = read_prompts(m, err);
    if (status == CLEF_OK)
        status = read_prompt(m, opts, out, err);
    if (status == CLEF_OK)
        status = clef__dense_open(m, err);
    if (status != CLEF_OK)
        return status;
    const int64_t most = clef__gguf_int(&m->gguf, "libclef.embedding.max_tokens", out->max_tokens);
    if (most < 1)
        return clef__fail(err, CLEF_E_FORMAT, "%s: libclef.embedding.max_tokens is %lld, expected 1 or more",
                          m->path, (long long)most);
    out->pooling = clef__gguf_poolings[n];
    out->normalize = clef__gguf_int(&m->gguf, "libclef.embedding.normalize", 1) != 0;
    out->max_tokens = most < out->max_tokens ? (int32_t)most : out->max_tokens;
    if (m->n_dense)
        out->n_dims = m->dense[m->n_dense - 1].n_out;
    return CLEF_OK;
}

/* Families with a projection behind their pooling. */
static void set_own_width(const clef_model *model, const clef_arch *arch, clef_embedder_info *out)
{
    char name[CLEF_WEIGHT_NAME_BYTES];
    if (!clef__weight_name(arch, &arch->weights, CLEF_W_PROJECTION, model->is_gguf, -1, "weight", name))
        return;
    const clef_tensor_info *t = clef__model_find(model, name);
    if (t && t->dims[0] <= CLEF_MAX_WIDTH)
        out->n_dims = (int32_t)t->dims[0];
}

clef_status clef__embed_config(const clef_model *model, const clef_embed_opts *opts, clef_embedder_info *out,
                               clef_error *err)
{
    const clef_hparams *hp = &model->hparams;
    const clef_arch *arch = clef__arch_find(hp->arch, model->is_gguf);
    *out = (clef_embedder_info){.n_dims = hp->d_model, .max_tokens = hp->n_context};
    if (arch->pictures)
        return clef__check_reads_texts(model, err);
    const clef_status status = model->is_gguf ? read_gguf((clef_model *)(uintptr_t)model, opts, out, err)
                                              : clef__embed_read_folder(model, opts, out, err);
    if (status == CLEF_OK && !out->pooling)
        out->pooling = arch->kind == CLEF_DECODER || arch->vector ? CLEF_POOL_LAST : CLEF_POOL_MEAN;
    if (status == CLEF_OK && arch->vector)
        set_own_width(model, arch, out);
    return status;
}
