/* Opens the adapters that --lora names. */
#include "tools/adapters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static clef_status no_adapter(const char *text, clef_error *err)
{
    return cli_error(err, CLEF_E_ARG, "--lora: expected [NAME=]PATH[:SCALE], got '%.80s'", text);
}

/* The last name of a path, without ".gguf". */
static void name_path(const char *path, const char **name, size_t *n)
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/';)
        begin--;
    if (end - begin > 5 && memcmp(path + end - 5, ".gguf", 5) == 0)
        end -= 5;
    *name = path + begin;
    *n = end - begin;
}

clef_status cli_adapter_split(const char *text, cli_adapter *out, clef_error *err)
{
    const char *equals = strchr(text, '='), *slash = strchr(text, '/');
    const int has_name = equals && (!slash || equals < slash);
    const char *begin = has_name ? equals + 1 : text, *colon = strrchr(begin, ':'), *name = text;
    size_t n = strlen(begin), n_name = has_name ? (size_t)(equals - text) : 0;
    char *end = NULL;
    out->scale = 1;
    if (colon && colon[1]) {
        const float x = strtof(colon + 1, &end);
        if (!*end) {
            out->scale = x;
            n = (size_t)(colon - begin);
        }
    }
    if (n == 0 || n >= sizeof out->path || (has_name && !n_name))
        return no_adapter(text, err);
    memcpy(out->path, begin, n);
    out->path[n] = 0;
    if (!has_name)
        name_path(out->path, &name, &n_name);
    if (n_name >= sizeof out->name && has_name)
        return cli_error(err, CLEF_E_ARG, "--lora: the name of '%.80s' has more than %d bytes", text,
                         (int)sizeof out->name - 1);
    if (n_name >= sizeof out->name)
        n_name = sizeof out->name - 1;
    memcpy(out->name, name, n_name);
    out->name[n_name] = 0;
    if (strcmp(out->name, NO_ADAPTER) == 0)
        return cli_error(err, CLEF_E_ARG,
                         "--lora: '%.80s': the name " NO_ADAPTER " means no adapter; NAME=PATH gives another",
                         text);
    return CLEF_OK;
}

int32_t cli_adapters_find(const cli_adapters *a, const char *name)
{
    for (int32_t i = 0; i < a->n; i++)
        if (strcmp(a->names[i], name) == 0)
            return i + 1;
    return 0;
}

void cli_adapters_text(const cli_adapters *a, char *out, size_t n_bytes)
{
    static const char more[] = ", ...";
    size_t at = 0;
    snprintf(out, n_bytes, "none");
    for (int32_t i = 0; i < a->n; i++) {
        const size_t n = strlen(a->names[i]) + 4; /* with quotes, a comma and a blank */
        if (at + n + sizeof more > n_bytes) {
            snprintf(out + at, n_bytes - at, "%s", more);
            return;
        }
        at += (size_t)snprintf(out + at, n_bytes - at, "%s'%s'", i ? ", " : "", a->names[i]);
    }
}

void cli_adapters_finish(cli_adapters *a)
{
    clef_lora_set_destroy(a->set);
    free(a->names);
    *a = (cli_adapters){0};
}

static clef_status open_each(const cli_list *list, clef_model *model, cli_adapters *a, clef_lora **loras,
                             clef_error *err)
{
    cli_adapter adapter;
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < (int32_t)list->n && !status; i++) {
        status = cli_adapter_split(list->items[i], &adapter, err);
        if (!status && cli_adapters_find(a, adapter.name))
            status = cli_error(err, CLEF_E_ARG, "--lora: two adapters are named '%s'; NAME=PATH names one",
                               adapter.name);
        if (!status)
            status = clef_lora_open(adapter.path, model, adapter.scale, &loras[i], err);
        if (!status)
            memcpy(a->names[a->n++], adapter.name, sizeof adapter.name);
    }
    return status;
}

clef_status cli_adapters_open_all(const cli_list *list, clef_model *model, cli_adapters *out, clef_error *err)
{
    *out = (cli_adapters){0};
    if (list->n == 0)
        return CLEF_OK;
    clef_lora **loras = calloc((size_t)list->n, sizeof *loras);
    out->names = calloc((size_t)list->n, sizeof *out->names);
    clef_status status = loras && out->names ? open_each(list, model, out, loras, err)
                                             : cli_error(err, CLEF_E_NOMEM, "--lora: out of host memory");
    if (!status)
        status = clef_lora_set_create(model, (const clef_lora *const *)loras, out->n, &out->set, err);
    for (size_t i = 0; loras && i < (size_t)list->n; i++)
        clef_lora_close(loras[i]);
    free(loras);
    if (status)
        cli_adapters_finish(out);
    return status;
}

clef_status cli_adapters_open(const cli_list *list, clef_model *model, clef_lora_set **out, clef_error *err)
{
    cli_adapters one;
    *out = NULL;
    if (list->n > 1)
        return cli_error(err, CLEF_E_ARG, "--lora: one sequence uses one adapter: expected one, got %d",
                         (int)list->n);
    const clef_status status = cli_adapters_open_all(list, model, &one, err);
    if (status)
        return status;
    *out = one.set;
    one.set = NULL;
    cli_adapters_finish(&one);
    return CLEF_OK;
}
