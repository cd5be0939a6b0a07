/* PEFT's folders: adapter_config.json and adapter_model.safetensors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/lora/read.h"

enum { MAX_CONFIG_BYTES = 16 << 20 };

/* "folder/file" in new memory; NULL when there is none. */
static char *join_path(const char *folder, const char *file)
{
    const size_t n = strlen(folder) + strlen(file) + 2;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s", folder, file);
    return path;
}

/* ---- the configuration ----------------------------------------------------------------------- */

/* 1 for what switches something on: true, a text, a number, a list or an object with entries. */
static int is_set(const json_t *x)
{
    return json_is_true(x) || json_is_number(x) || (json_is_string(x) && json_string_length(x)) ||
           (json_is_array(x) && json_array_size(x)) || (json_is_object(x) && json_object_size(x));
}

/* Refuses keys that change what the tensors mean, or that need tensors of other kinds. */
static clef_status check_keys(const clef__lora_file *f, clef_error *err)
{
    static const char *const refused[][2] = {
        {"use_dora", "DoRA"},
        {"modules_to_save", "modules that were trained in full"},
        {"lora_bias", "biases"},
        {"use_qalora", "QALoRA"},
        {"alora_invocation_tokens", "an activated LoRA (aLoRA)"},
        {"target_parameters", "adapters of parameters (experts)"},
        {"trainable_token_indices", "trained token embeddings"},
        {"layer_replication", "replicated layers"},
        {"arrow_config", "Arrow routing"},
        {"use_bdlora", "block-diagonal LoRA"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_set(json_object_get(f->config, refused[i][0])))
            return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: %s is set: %s: expected a plain LoRA",
                              f->config_path, refused[i][0], refused[i][1]);
    return CLEF_OK;
}

/* Ways to begin a training that change the model's own weights too. */
static clef_status check_init(const clef__lora_file *f, const char *init, clef_error *err)
{
    static const char *const changing[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    for (size_t i = 0; init && i < sizeof changing / sizeof *changing; i++)
        if (strncmp(init, changing[i], strlen(changing[i])) == 0)
            return clef__fail(
                err, CLEF_E_UNSUPPORTED,
                "%s: init_lora_weights is %.40s, which changes the model's weights too: expected an "
                "adapter that PEFT converted to a plain LoRA",
                f->config_path, init);
    return CLEF_OK;
}

static clef_status check_config(const clef__lora_file *f, clef_error *err)
{
    clef_json_fields fields = {.object = f->config, .file = f->config_path, .err = err};
    if (!json_is_object(f->config))
        return clef__fail(err, CLEF_E_FORMAT, "%s: is %s, expected an object", f->config_path,
                          clef__json_kind(f->config));
    const char *type = clef__json_string(&fields, "peft_type", "LORA"),
               *bias = clef__json_string(&fields, "bias", "none");
    clef__json_need_int(&fields, "r", 1, INT32_MAX);
    clef__json_need_double(&fields, "lora_alpha", -1e9, 1e9);
    clef__json_bool(&fields, "use_rslora", 0);
    clef__json_bool(&fields, "fan_in_fan_out", 0); /* A and B have one form, however the weight is stored */
    if (fields.status)
        return fields.status;
    if (strcmp(type, "LORA") != 0)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: peft_type is %.40s, expected LORA", f->config_path,
                          type);
    if (strcmp(bias, "none") != 0)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: bias is \"%.40s\", expected \"none\"", f->config_path,
                          bias);
    const clef_status status = check_keys(f, err);
    return status ? status
                  : check_init(f, json_string_value(json_object_get(f->config, "init_lora_weights")), err);
}

/* 1 when a pattern's key means the module: its whole name, or what it ends with after a dot. PEFT takes keys
 * as regular expressions; those with more than '^', '$' and escaped dots are refused before. */
static int key_matches(const char *key, const char *module, size_t n_module)
{
    const int whole = key[0] == '^';
    char plain[256];
    size_t n = 0;
    for (key += whole; *key && n < sizeof plain; key++)
        if (*key != '\\' && !(*key == '$' && !key[1]))
            plain[n++] = *key;
    if (n > n_module || memcmp(module + n_module - n, plain, n) != 0)
        return 0;
    return n == n_module || (!whole && module[n_module - n - 1] == '.');
}

/* The number that a pattern has for the module, as PEFT finds it: that of the first key that matches. */
static clef_status of_pattern(const clef__lora_file *f, const char *name, const clef__lora_pair *p,
                              double *out, clef_error *err)
{
    json_t *pattern = json_object_get(f->config, name), *value;
    const char *key;
    int found = 0;
    if (!pattern || json_is_null(pattern))
        return CLEF_OK;
    if (!json_is_object(pattern))
        return clef__fail(err, CLEF_E_FORMAT, "%s: %s is %s, expected an object", f->config_path, name,
                          clef__json_kind(pattern));
    json_object_foreach(pattern, key, value)
    {
        if (strpbrk(key, "*+?[](){}|") || strlen(key) > 250)
            return clef__fail(err, CLEF_E_UNSUPPORTED,
                              "%s: %s has the regular expression %.80s, expected names of modules",
                              f->config_path, name, key);
        if (!json_is_number(value))
            return clef__fail(err, CLEF_E_FORMAT, "%s: %s.%.80s is %s, expected a number", f->config_path,
                              name, key, clef__json_kind(value));
        if (!found && key_matches(key, p->module, (size_t)p->n_module)) {
            *out = json_number_value(value);
            found = 1;
        }
    }
    return CLEF_OK;
}

clef_status clef__lora_peft_scale(const clef__lora_file *f, const clef__lora_pair *p, double *out,
                                  clef_error *err)
{
    double r = json_number_value(json_object_get(f->config, "r")),
           alpha = json_number_value(json_object_get(f->config, "lora_alpha"));
    clef_status status = of_pattern(f, "rank_pattern", p, &r, err);
    if (!status)
        status = of_pattern(f, "alpha_pattern", p, &alpha, err);
    if (!status && r != (double)p->a->dims[0])
        status = clef__fail(err, CLEF_E_SHAPE, "%s: %.*s has rank %lld, %s says %g", f->path, p->n_module,
                            p->module, (long long)p->a->dims[0], f->config_path, r);
    *out = alpha / (json_is_true(json_object_get(f->config, "use_rslora")) ? sqrt(r) : r);
    return status;
}

/* ---- the tensors ----------------------------------------------------------------------------- */

static clef_status split_name(const clef__lora_file *f, const clef_tensor_info *t, const char **module,
                              int32_t *n_module, int *half, clef_error *err)
{
    static const char prefix[] = "base_model.model.";
    static const char *const ends[] = {".lora_A.weight", ".lora_B.weight"};
    static const char *const refused[][2] = {{"lora_magnitude_vector", "DoRA"},
                                             {"lora_embedding_", "an adapter of an embedding"},
                                             {".modules_to_save.", "a module that was trained in full"},
                                             {".lora_B.bias", "a bias"},
                                             {".bias", "a bias"}};
    const size_t n = strlen(t->name), skip = sizeof prefix - 1;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strstr(t->name, refused[i][0]))
            return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: tensor %s: %s: expected a plain LoRA", f->path,
                              t->name, refused[i][1]);
    for (int i = 0; i < 2; i++) {
        const size_t m = strlen(ends[i]);
        if (n > skip + m && strncmp(t->name, prefix, skip) == 0 && strcmp(t->name + n - m, ends[i]) == 0) {
            *half = i;
            *module = t->name + skip;
            *n_module = (int32_t)(n - skip - m);
            return CLEF_OK;
        }
    }
    return clef__fail(
        err, CLEF_E_UNSUPPORTED,
        "%s: tensor %s: expected base_model.model.MODULE.lora_A.weight and .lora_B.weight alone", f->path,
        t->name);
}

clef_status clef__lora_read_peft(const clef_model *model, clef__lora_file *f, clef_error *err)
{
    (void)model;
    char *tensors = join_path(f->path, "adapter_model.safetensors"),
         *old = join_path(f->path, "adapter_model.bin");
    clef_status status;
    f->config_path = join_path(f->path, "adapter_config.json");
    if (!f->config_path || !tensors || !old)
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", f->path);
    else if (!clef__os_is_file(f->config_path))
        status =
            clef__fail(err, CLEF_E_NOT_FOUND,
                       "%s: has no adapter_config.json, expected a PEFT folder or a GGUF adapter", f->path);
    else if (!clef__os_is_file(tensors))
        status = clef__fail(err, CLEF_E_NOT_FOUND, "%s: has no adapter_model.safetensors%s", f->path,
                            clef__os_is_file(old) ? ": expected it instead of adapter_model.bin" : "");
    else
        status = clef__json_load(f->config_path, MAX_CONFIG_BYTES, &f->config, err);
    if (!status)
        status = check_config(f, err);
    if (!status)
        status = clef__safetensors_open(tensors, &f->st, err);
    if (!status)
        status = clef__lora_pair_up(f, f->st.tensors, (size_t)f->st.n_tensors, split_name, err);
    free(tensors);
    free(old);
    return status;
}
