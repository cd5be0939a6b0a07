/* PEFT's folders: adapter_config.json and adapter_model.safetensors. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/lora/read.h"
#include "model/tokenizer/regex.h"

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

/* ---- regular expressions of Python ----------------------------------------------------------- */

/* Refuses what Python's re refuses or reads in another way than PCRE2 does: escapes of other letters, flags
 * inside, groups that Python has not, counts without a least number, POSIX's classes. */
static int is_python(const char *regex)
{
    static const char *const others[] = {"(*", "[:", "[.", "[=", "{,"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(regex, others[i]))
            return 0;
    for (const char *c = regex; *c; c++) {
        if (*c == '\\') {
            c++;
            if (!*c || (isalpha((unsigned char)*c) && !strchr("AbBdDsSwWZafnrtx", *c)))
                return 0;
        } else if (c[0] == '(' && c[1] == '?' && !strchr(":=!>#(", c[2]) &&
                   !(c[2] == '<' && (c[3] == '=' || c[3] == '!')) &&
                   !(c[2] == 'P' && (c[3] == '<' || c[3] == '=')) && !(c[2] == 'i' && c[3] == ':')) {
            return 0;
        }
    }
    return 1;
}

/* Whether BEFORE, the regex, then AFTER matches the module. *end is where the match ends. */
static clef_status matches(const clef__lora_file *f, const char *key, const char *before, const char *regex,
                           const char *after, const clef__lora_pair *p, int *found, size_t *end,
                           clef_error *err)
{
    const size_t n = strlen(before) + strlen(regex) + strlen(after) + 1;
    clef_error why = {0};
    clef__regex *compiled = NULL;
    clef__regex_run run = {0};
    size_t begin = 0;
    char *whole = malloc(n);
    *found = 0;
    if (!whole)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a regular expression", f->config_path);
    snprintf(whole, n, "%s%s%s", before, regex, after);
    clef_status status = is_python(regex)
                             ? clef__regex_create(whole, n - 1, &compiled, &why)
                             : clef__fail(&why, CLEF_E_UNSUPPORTED, "not supported, or not one of Python's");
    if (status)
        clef__fail(err, status, "%s: %s: the regular expression %.80s: %.200s", f->config_path, key, regex,
                   why.text);
    else
        status = clef__regex_find(compiled, &run, p->module, (size_t)p->n_module, 0, &begin, end, found, err);
    clef__regex_run_finish(&run);
    clef__regex_destroy(compiled);
    free(whole);
    return status;
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
    json_object_foreach(pattern, key, value) {
        if (!json_is_number(value))
            return clef__fail(err, CLEF_E_FORMAT, "%s: %s.%.80s is %s, expected a number", f->config_path,
                              name, key, clef__json_kind(value));
        int fits = 0;
        size_t end;
        const clef_status s = matches(f, name, "\\A(.*\\.)?(", key, ")\\z", p, &fits, &end, err);
        if (s)
            return s;
        if (!found && fits)
            *out = json_number_value(value);
        found |= fits;
    }
    return CLEF_OK;
}

/* ---- the modules that PEFT gives an adapter -------------------------------------------------- */

/* Whether the module is `name`, or ends with it after a dot. */
static int is_named(const clef__lora_pair *p, const char *name)
{
    const size_t n = strlen(name), all = (size_t)p->n_module;
    return n <= all && memcmp(p->module + all - n, name, n) == 0 &&
           (n == all || p->module[all - n - 1] == '.');
}

/* Whether `key` names the module: a regular expression of all of its name, or a list of names. */
static clef_status is_listed(const clef__lora_file *f, const char *key, const clef__lora_pair *p, int *found,
                             clef_error *err)
{
    const json_t *list = json_object_get(f->config, key), *one;
    size_t i, end;
    *found = 0;
    if (json_is_string(list))
        return matches(f, key, "\\A(?:", json_string_value(list), ")\\z", p, found, &end, err);
    json_array_foreach(list, i, one) {
        if (!json_is_string(one))
            return clef__fail(err, CLEF_E_FORMAT, "%s: %s holds %s, expected names of modules",
                              f->config_path, key, clef__json_kind(one));
        *found |= is_named(p, json_string_value(one));
    }
    return CLEF_OK;
}

/* The module's layer: the first number between dots, with two names at least before it. -1: none. */
static int64_t layer_of(const clef__lora_pair *p)
{
    int32_t n_dots = 0;
    for (int32_t i = 0; i < p->n_module; i++) {
        int64_t layer = 0;
        int32_t k = i + 1;
        if (p->module[i] != '.' || ++n_dots < 2)
            continue;
        for (; k < p->n_module && isdigit((unsigned char)p->module[k]) && layer < INT32_MAX; k++)
            layer = 10 * layer + (p->module[k] - '0');
        if (k > i + 1 && k < p->n_module && p->module[k] == '.')
            return layer;
    }
    return -1;
}

/* The number after the first of layers_pattern that matches. */
static clef_status layer_by_pattern(const clef__lora_file *f, const json_t *pattern, const clef__lora_pair *p,
                                    int64_t *layer, clef_error *err)
{
    int found = 0;
    size_t end = 0, begin;
    const clef_status s = !json_is_string(pattern)
                              ? clef__fail(err, CLEF_E_FORMAT, "%s: layers_pattern holds %s, expected names",
                                           f->config_path, clef__json_kind(pattern))
                              : matches(f, "layers_pattern", "\\A(?:.*?\\.)?(?:", json_string_value(pattern),
                                        ")\\.[0-9]+\\.", p, &found, &end, err);
    *layer = -1;
    if (s || !found)
        return s;
    for (begin = end - 1; begin > 0 && isdigit((unsigned char)p->module[begin - 1]);)
        begin--;
    *layer = strtoll(p->module + begin, NULL, 10);
    return CLEF_OK;
}

/* Whether layers_to_transform has the module's layer, or there is none. */
static clef_status has_layer(const clef__lora_file *f, const clef__lora_pair *p, int *found, clef_error *err)
{
    const json_t *layers = json_object_get(f->config, "layers_to_transform"),
                 *pattern = json_object_get(f->config, "layers_pattern"), *one;
    size_t i;
    int64_t layer = layer_of(p);
    clef_status s = CLEF_OK;
    *found = 1;
    if (!layers || json_is_null(layers) || (json_is_array(layers) && !json_array_size(layers)))
        return CLEF_OK;
    if (json_is_string(pattern) && json_string_length(pattern))
        s = layer_by_pattern(f, pattern, p, &layer, err);
    if (json_is_array(pattern) && json_array_size(pattern)) {
        layer = -1;
        json_array_foreach(pattern, i, one)
            if (layer < 0 && !s)
                s = layer_by_pattern(f, one, p, &layer, err);
    }
    *found = json_is_integer(layers) && json_integer_value(layers) == layer;
    json_array_foreach(layers, i, one)
        *found |= json_is_integer(one) && json_integer_value(one) == layer;
    *found &= layer >= 0;
    return s;
}

/* PEFT drops the matrices of other modules, with a warning. */
static clef_status check_target(const clef__lora_file *f, const clef__lora_pair *p, clef_error *err)
{
    const json_t *targets = json_object_get(f->config, "target_modules");
    const char *text = json_string_value(targets), *why = "target_modules";
    int is_in = 1, is_out = 0;
    clef_status s = is_listed(f, "exclude_modules", p, &is_out, err);
    if (!s && targets && !json_is_null(targets) && !(text && strcmp(text, "all-linear") == 0))
        s = is_listed(f, "target_modules", p, &is_in, err);
    if (!s && is_in && !text) {
        s = has_layer(f, p, &is_in, err);
        why = is_in ? why : "layers_to_transform";
    }
    if (s || (is_in && !is_out))
        return s;
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: has matrices of %.*s, which %s of adapter_config.json %s",
                      f->path, p->n_module, p->module, is_out ? "exclude_modules" : why,
                      is_out ? "excludes" : "does not name");
}

clef_status clef__lora_peft_scale(const clef__lora_file *f, const clef__lora_pair *p, double *out,
                                  clef_error *err)
{
    double r = json_number_value(json_object_get(f->config, "r")),
           alpha = json_number_value(json_object_get(f->config, "lora_alpha"));
    clef_status status = check_target(f, p, err);
    if (!status)
        status = of_pattern(f, "rank_pattern", p, &r, err);
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
