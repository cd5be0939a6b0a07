/* Opens the adapters that --lora names. */
#include "tools/adapters.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

clef_status cli_adapter_split(const char *text, char path[PATH_BYTES], float *scale, clef_error *err)
{
    const char *equals = strchr(text, '='), *slash = strchr(text, '/');
    const char *begin = equals && (!slash || equals < slash) ? equals + 1 : text,
               *colon = strrchr(begin, ':');
    char *end = NULL;
    size_t n = strlen(begin);
    *scale = 1;
    if (colon && colon[1]) {
        const float x = strtof(colon + 1, &end);
        if (!*end) {
            *scale = x;
            n = (size_t)(colon - begin);
        }
    }
    if (n == 0 || n >= PATH_BYTES)
        return cli_error(err, CLEF_E_ARG, "--lora: expected [NAME=]PATH[:SCALE], got '%.80s'", text);
    memcpy(path, begin, n);
    path[n] = 0;
    return CLEF_OK;
}

clef_status cli_adapters_open(const cli_list *list, clef_model *model, clef_lora_set **out, clef_error *err)
{
    char path[PATH_BYTES];
    float scale;
    clef_lora *lora = NULL;
    *out = NULL;
    if (list->n == 0)
        return CLEF_OK;
    if (list->n > 1)
        return cli_error(err, CLEF_E_ARG, "--lora: one sequence uses one adapter: expected one, got %d",
                         (int)list->n);
    clef_status status = cli_adapter_split(list->items[0], path, &scale, err);
    if (status == CLEF_OK)
        status = clef_lora_open(path, model, scale, &lora, err);
    if (status == CLEF_OK)
        status = clef_lora_set_create(model, (const clef_lora *const *)&lora, 1, out, err);
    clef_lora_close(lora);
    return status;
}
