/* Files of prompts. */
#include "tools/prompts/prompt_lines.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/adapters.h"
#include "tools/cli/common.h"
#include "tools/cli/json.h"

/** The line that is being read. */
typedef struct reading {
    const char *path;
    prompt_line *line;
    int32_t has_seed;
} reading;

/** A key of a line's object. `set` returns CLI_GO_ON, or CLI_FAILED after a message. */
typedef struct line_key {
    const char *name, *wanted; /* wanted: the type, for messages */
    int (*set)(const struct line_key *key, reading *r, const json_t *value);
    size_t offset;
    double lo, hi;
} line_key;

static int refuse(const line_key *key, const reading *r)
{
    return cli_fail(CLI_FAILED, "%s: line %" PRId32 ": \"%s\": expected %s", r->path, r->line->number,
                    key->name, key->wanted);
}

static int no_memory(const char *path)
{
    return cli_fail(CLI_FAILED, "%s: out of host memory", path);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static int set_text(const line_key *key, reading *r, const json_t *value)
{
    prompt_line *line = r->line;
    if (!json_is_string(value))
        return refuse(key, r);
    line->n_bytes = json_string_length(value);
    line->text = malloc(line->n_bytes + 1);
    if (!line->text)
        return no_memory(r->path);
    memcpy(line->text, json_string_value(value), line->n_bytes + 1);
    return CLI_GO_ON;
}

static int set_id(const line_key *key, reading *r, const json_t *value)
{
    if (!json_is_string(value) && !json_is_number(value))
        return refuse(key, r);
    r->line->id = json_dumps(value, JSON_ENCODE_ANY);
    return r->line->id ? CLI_GO_ON : no_memory(r->path);
}

static int set_int(const line_key *key, reading *r, const json_t *value)
{
    const json_int_t x = json_integer_value(value);
    if (!json_is_integer(value) || (double)x < key->lo || (double)x > key->hi)
        return refuse(key, r);
    *(int32_t *)((char *)r->line + key->offset) = (int32_t)x;
    return CLI_GO_ON;
}

static int set_u64(const line_key *key, reading *r, const json_t *value)
{
    const json_int_t x = json_integer_value(value);
    if (!json_is_integer(value) || x < 0)
        return refuse(key, r);
    *(uint64_t *)((char *)r->line + key->offset) = (uint64_t)x;
    r->has_seed |= strcmp(key->name, "seed") == 0;
    return CLI_GO_ON;
}

static int set_float(const line_key *key, reading *r, const json_t *value)
{
    const double x = json_number_value(value);
    if (!json_is_number(value) || !(x >= key->lo && x <= key->hi))
        return refuse(key, r);
    *(float *)((char *)r->line + key->offset) = (float)x;
    return CLI_GO_ON;
}

static int set_lora(const line_key *key, reading *r, const json_t *value)
{
    const char *name = json_is_null(value) ? "" : json_string_value(value);
    if (json_is_object(value) || json_is_array(value))
        return cli_fail(CLI_FAILED,
                        "%s: line %" PRId32
                        ": \"lora\": expected one name; `--lora NAME=PATH:SCALE` gives an "
                        "adapter its scale",
                        r->path, r->line->number);
    if (!name || (json_is_string(value) && strlen(name) != json_string_length(value)))
        return refuse(key, r);
    if (strcmp(name, NO_ADAPTER) == 0)
        name = "";
    r->line->lora = malloc(strlen(name) + 1);
    if (!r->line->lora)
        return no_memory(r->path);
    strcpy(r->line->lora, name);
    return CLI_GO_ON;
}

static int add_stop(reading *r, const json_t *value)
{
    prompt_line *line = r->line;
    const size_t n = json_string_length(value);
    char *text = malloc(n + 1);
    if (!text)
        return no_memory(r->path);
    memcpy(text, json_string_value(value), n + 1);
    line->own_stops[line->n_own_stops++] = text;
    line->stops.items[line->stops.n++] = text;
    return CLI_GO_ON;
}

/* A text or a list of texts; an empty list takes away those of the flags. */
static int set_stop(const line_key *key, reading *r, const json_t *value)
{
    prompt_line *line = r->line;
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;
    int rc = n > CLI_MAX_LIST ? refuse(key, r) : CLI_GO_ON;
    line->stops.n = 0;
    line->own_stops = calloc(n + 1, sizeof *line->own_stops);
    if (!line->own_stops)
        return no_memory(r->path);
    for (size_t i = 0; i < n && rc == CLI_GO_ON; i++) {
        const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
        /* no empty text, and no NUL inside */
        const int is_text = json_is_string(text) && json_string_length(text) &&
                            strlen(json_string_value(text)) == json_string_length(text);
        rc = is_text ? add_stop(r, text) : refuse(key, r);
    }
    return rc;
}

#define AT(field) .offset = offsetof(prompt_line, field)
static const char stop_wanted[] = "a text, or a list of at most 64 texts, none of them empty";
static const char u64_wanted[] = "an integer from 0 to 9223372036854775807";
static const line_key keys[] = {
    {.name = "prompt", .wanted = "a string", .set = set_text},
    {.name = "id", .wanted = "a string or a number", .set = set_id},
    {.name = "n",
     .wanted = "an integer from -1 to 2147483647",
     .set = set_int,
     AT(n_predict),
     .lo = -1,
     .hi = INT32_MAX},
    {.name = "seed", .wanted = u64_wanted, .set = set_u64, AT(sampling.seed)},
    {.name = "temperature",
     .wanted = "a number from 0 to 100",
     .set = set_float,
     AT(sampling.temperature),
     .hi = 100},
    {.name = "top_k",
     .wanted = "an integer from 0 to 2147483647",
     .set = set_int,
     AT(sampling.top_k),
     .hi = INT32_MAX},
    {.name = "top_p", .wanted = "a number from 0 to 1", .set = set_float, AT(sampling.top_p), .hi = 1},
    {.name = "min_p", .wanted = "a number from 0 to 1", .set = set_float, AT(sampling.min_p), .hi = 1},
    {.name = "repeat_penalty",
     .wanted = "a number from 0 to 100",
     .set = set_float,
     AT(sampling.repeat_penalty),
     .hi = 100},
    {.name = "presence_penalty",
     .wanted = "a number from -2 to 2",
     .set = set_float,
     AT(sampling.presence_penalty),
     .lo = -2,
     .hi = 2},
    {.name = "frequency_penalty",
     .wanted = "a number from -2 to 2",
     .set = set_float,
     AT(sampling.frequency_penalty),
     .lo = -2,
     .hi = 2},
    {.name = "typical", .wanted = "a number from 0 to 1", .set = set_float, AT(sampling.typical), .hi = 1},
    {.name = "top_n_sigma",
     .wanted = "a number from 0 to 100",
     .set = set_float,
     AT(sampling.top_n_sigma),
     .hi = 100},
    {.name = "xtc_probability",
     .wanted = "a number from 0 to 1",
     .set = set_float,
     AT(sampling.xtc_probability),
     .hi = 1},
    {.name = "stop", .wanted = stop_wanted, .set = set_stop},
    {.name = "salt", .wanted = u64_wanted, .set = set_u64, AT(salt)},
    {.name = "lora", .wanted = "the name of an adapter, or null, \"\" or \"none\" for none", .set = set_lora},
    {.name = NULL},
};

static const line_key *find_key(const char *name)
{
    for (const line_key *key = keys; key->name; key++)
        if (strcmp(key->name, name) == 0)
            return key;
    return NULL;
}

static int unknown_key(const reading *r, const char *name)
{
    char nearest[64];
    const int found = cli_nearest(name, &keys->name, sizeof *keys, nearest) != NULL;
    return cli_fail(CLI_FAILED, "%s: line %" PRId32 ": no key \"%.60s\"%s%s%s", r->path, r->line->number,
                    name, found ? "; did you mean \"" : "", found ? nearest : "", found ? "\"?" : "");
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int read_object(reading *r, const char *text, size_t n_bytes)
{
    json_error_t error;
    const char *name;
    json_t *value, *object = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    int rc = CLI_GO_ON;
    if (!object)
        return cli_fail(CLI_FAILED, "%s: line %" PRId32 ", column %d: no JSON: %s", r->path, r->line->number,
                        error.column, error.text);
    if (!json_is_object(object))
        rc = cli_fail(CLI_FAILED, "%s: line %" PRId32 ": expected a JSON object", r->path, r->line->number);
    json_object_foreach(object, name, value) {
        const line_key *key = find_key(name);
        if (rc == CLI_GO_ON)
            rc = key ? key->set(key, r, value) : unknown_key(r, name);
    }
    if (rc == CLI_GO_ON && !r->line->text)
        rc = cli_fail(CLI_FAILED, "%s: line %" PRId32 ": expected a \"prompt\"", r->path, r->line->number);
    json_decref(object);
    return rc;
}

static int read_text(reading *r, const char *text, size_t n_bytes)
{
    if (!n_bytes)
        return cli_fail(CLI_FAILED, "%s: line %" PRId32 ": the prompt is empty", r->path, r->line->number);
    r->line->text = malloc(n_bytes + 1);
    if (!r->line->text)
        return no_memory(r->path);
    memcpy(r->line->text, text, n_bytes);
    r->line->text[n_bytes] = 0;
    r->line->n_bytes = n_bytes;
    return CLI_GO_ON;
}

static int check_utf8(const reading *r, const char *text, size_t n_bytes)
{
    for (size_t i = 0, n; i < n_bytes; i += n) {
        n = (size_t)cli_utf8_length(text + i);
        if (!n)
            return cli_fail(CLI_FAILED, "%s: line %" PRId32 ": byte %zu is not UTF-8", r->path,
                            r->line->number, i + 1);
    }
    return CLI_GO_ON;
}

static int read_line(reading *r, int is_json, const char *text, size_t n_bytes)
{
    if (n_bytes && text[n_bytes - 1] == '\r')
        n_bytes--;
    const int rc = check_utf8(r, text, n_bytes);
    if (rc != CLI_GO_ON)
        return rc;
    return is_json ? read_object(r, text, n_bytes) : read_text(r, text, n_bytes);
}

static int32_t count_lines(const char *text, size_t n_bytes)
{
    int32_t n = n_bytes && text[n_bytes - 1] != '\n';
    for (size_t i = 0; i < n_bytes; i++)
        n += text[i] == '\n' && n < INT32_MAX;
    return n;
}

static int read_lines(prompt_lines *out, int is_json, const char *text, size_t n_bytes,
                      const prompt_line *defaults, int32_t own_seeds)
{
    const char *end = text + n_bytes;
    const int32_t n = count_lines(text, n_bytes);
    int rc = CLI_GO_ON;
    if (!n)
        return cli_fail(CLI_FAILED, "%s: no line: expected a prompt in each", out->path);
    out->items = calloc((size_t)n, sizeof *out->items);
    if (!out->items)
        return no_memory(out->path);
    for (int32_t i = 0; i < n && rc == CLI_GO_ON; i++) {
        const char *next = memchr(text, '\n', (size_t)(end - text));
        reading r = {.path = out->path, .line = &out->items[out->n++]};
        *r.line = *defaults;
        r.line->number = i + 1;
        rc = read_line(&r, is_json, text, (size_t)((next ? next : end) - text));
        if (own_seeds && !r.has_seed)
            r.line->sampling.seed += (uint64_t)i;
        text = next ? next + 1 : end;
    }
    return rc;
}

int prompt_lines_is_jsonl(const char *path)
{
    const size_t n = strlen(path);
    return n > 6 && strcmp(path + n - 6, ".jsonl") == 0;
}

int prompt_lines_read(const char *path, const prompt_line *defaults, int32_t own_seeds, prompt_lines *out)
{
    static const char mark[] = "\xef\xbb\xbf"; /* which some editors put before UTF-8 */
    char *text;
    size_t n_bytes;
    *out = (prompt_lines){.path = strcmp(path, "-") == 0 ? "stdin" : path};
    int rc = cli_read_file(path, &text, &n_bytes);
    if (rc != CLI_GO_ON)
        return rc;
    const size_t skipped = n_bytes >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
    rc = read_lines(out, prompt_lines_is_jsonl(path) || text[skipped] == '{', text + skipped,
                    n_bytes - skipped, defaults, own_seeds);
    free(text);
    return rc;
}

void prompt_lines_finish(prompt_lines *lines)
{
    for (int32_t i = 0; i < lines->n; i++) {
        free(lines->items[i].text);
        free(lines->items[i].id);
        free(lines->items[i].lora);
        for (int32_t k = 0; k < lines->items[i].n_own_stops; k++)
            free(lines->items[i].own_stops[k]);
        free(lines->items[i].own_stops);
    }
    free(lines->items);
    lines->items = NULL;
    lines->n = 0;
}
