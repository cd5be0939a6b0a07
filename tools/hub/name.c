/* Names of models on the Hub, of their files, and of the cache's folders. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hub/hub.h"

static int is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-_.", c);
}

/* The Hub's rules for the name of an organisation or a repository. "--" separates them in the cache. */
static int is_part(const char *text, size_t n)
{
    if (n == 0 || n > 96 || strchr("-.", text[0]) || strchr("-.", text[n - 1]))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!text[i] || !is_name_char(text[i]) || (i > 0 && strchr("-.", text[i]) && text[i] == text[i - 1]))
            return 0;
    return 1;
}

int hub_name_parse(const char *text, hub_name *out)
{
    const char *slash = strchr(text, '/'), *colon = slash ? strchr(slash, ':') : NULL;
    const size_t n = colon ? (size_t)(colon - text) : strlen(text), n_quant = colon ? strlen(colon + 1) : 0;
    if (!slash || n >= HUB_MOST_NAME || n_quant >= HUB_MOST_NAME || !is_part(text, (size_t)(slash - text)) ||
        !is_part(slash + 1, n - (size_t)(slash + 1 - text)))
        return 0;
    if (colon && !hub_is_inside(colon + 1))
        return 0;
    *out = (hub_name){{0}, {0}};
    memcpy(out->repo, text, n);
    memcpy(out->quant, colon ? colon + 1 : "", n_quant);
    return 1;
}

int hub_is_inside(const char *path)
{
    enum { MOST_PART = 255 };
    for (const char *at = path;; at++) {
        const size_t n = strcspn(at, "/");
        if (n == 0 || n > MOST_PART || (n <= 2 && strncmp(at, "..", n) == 0))
            return 0;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)at[i] < 0x20 || at[i] == 0x7f || at[i] == '\\' || at[i] == ':')
                return 0;
        at += n;
        if (!*at)
            return strlen(path) < HUB_MOST_PATH / 2;
    }
}

char *hub_plain(const char *text, char out[HUB_MOST_NAME])
{
    size_t n = 0;
    for (; text && text[n] && n + 1 < HUB_MOST_NAME; n++)
        out[n] = (char)((unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n]);
    out[n] = '\0';
    return out;
}

/* ---- lists of files -------------------------------------------------------------------------- */

clef_status hub_files_add(hub_files *files, const char *name, clef_error *err)
{
    if (files->n == files->capacity) {
        const int32_t capacity = files->capacity ? 2 * files->capacity : 16;
        char **names = realloc(files->names, (size_t)capacity * sizeof *names);
        if (!names)
            return cli_error(err, CLEF_E_NOMEM, "out of host memory");
        files->names = names;
        files->capacity = capacity;
    }
    char *copy = malloc(strlen(name) + 1);
    if (!copy)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    files->names[files->n++] = strcpy(copy, name);
    return CLEF_OK;
}

int32_t hub_files_has(const hub_files *files, const char *name)
{
    for (int32_t i = 0; i < files->n; i++)
        if (strcmp(files->names[i], name) == 0)
            return 1;
    return 0;
}

void hub_files_free(hub_files *files)
{
    for (int32_t i = 0; i < files->n; i++)
        free(files->names[i]);
    free(files->names);
    *files = (hub_files){0};
}

/* ---- folders --------------------------------------------------------------------------------- */

clef_status hub_path(char out[HUB_MOST_PATH], clef_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(out, HUB_MOST_PATH, format, args);
    va_end(args);
    if (n < 0 || n >= HUB_MOST_PATH)
        return cli_error(err, CLEF_E_ARG, "%.200s..: expected a path of fewer than %d bytes", out,
                         HUB_MOST_PATH);
    return CLEF_OK;
}

/* The variable's value; NULL where it is not set, or empty. "~" at its beginning is the home. */
static const char *variable(const char *name, const char **home)
{
    const char *value = getenv(name);
    *home = "";
    if (!value || !*value)
        return NULL;
    if (value[0] == '~' && (!value[1] || value[1] == '/')) {
        *home = getenv("HOME") ? getenv("HOME") : "";
        return value + 1;
    }
    return value;
}

clef_status hub_cache_folder(char out[HUB_MOST_PATH], clef_error *err)
{
    /* huggingface_hub's order */
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"},
                  {"USERPROFILE", "/.cache/huggingface/hub"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *home, *value = variable(places[i].variable, &home);
        if (!value)
            continue;
        return hub_path(out, err, "%s%s%s", home, value, places[i].below);
    }
    return cli_error(err, CLEF_E_ARG, "expected HF_HUB_CACHE, HF_HOME or HOME to name the cache's folder");
}

clef_status hub_repo_folder(const hub_name *name, char out[HUB_MOST_PATH], clef_error *err)
{
    char cache[HUB_MOST_PATH];
    const int n_org = (int)strcspn(name->repo, "/");
    const clef_status status = hub_cache_folder(cache, err);
    return status
               ? status
               : hub_path(out, err, "%s/models--%.*s--%s", cache, n_org, name->repo, name->repo + n_org + 1);
}
