/* Loading JSON and reading typed fields (model/file/json.h). */
#include "model/file/json.h"

#include <inttypes.h>
#include <stdlib.h>

#include "graph/fail.h"
#include "model/file/foreign.h"
#include "runtime/os/os.h"

/* Returns 1 if brackets nest too deep; brackets in strings do not count. jansson's parser recurses at each
 * bracket, so this is checked first. */
static int too_deep(const char *text, size_t n_bytes)
{
    int depth = 0, in_string = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = 0;
        } else if (c == '"') {
            in_string = 1;
        } else if (c == '[' || c == '{') {
            if (++depth > CLEF_JSON_MAX_DEPTH)
                return 1;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return 0;
}

clef_status clef__json_parse(const char *text, size_t n_bytes, const char *name, json_t **out,
                             clef_error *err)
{
    *out = NULL;
    if (n_bytes == 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: empty, expected JSON", name);
    if (too_deep(text, n_bytes))
        return clef__fail(err, CLEF_E_FORMAT, "%s: brackets nest deeper than %d", name, CLEF_JSON_MAX_DEPTH);
    json_error_t why;
    *out = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &why);
    if (*out)
        return CLEF_OK;
    if (why.text[0] == '\0') /* jansson says nothing when malloc fails */
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to parse it", name);
    return clef__fail(err, CLEF_E_FORMAT, "%s: line %d, column %d: %s", name, why.line, why.column, why.text);
}

clef_status clef__json_load(const char *path, size_t max_bytes, json_t **out, clef_error *err)
{
    char *text = NULL;
    size_t n_bytes = 0;
    *out = NULL;
    clef_status status = clef__os_read(path, max_bytes, &text, &n_bytes, err);
    if (status == CLEF_OK)
        status = clef__foreign_text(text, n_bytes, path, "JSON", err);
    if (status == CLEF_OK)
        status = clef__json_parse(text, n_bytes, path, out, err);
    free(text);
    return status;
}

const char *clef__json_kind(const json_t *value)
{
    if (!value)
        return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "?";
}

const json_t *clef__json_get(const clef_json_fields *f, const char *key)
{
    if (f->seen)
        json_object_set_new(f->seen, key, json_true());
    return json_object_get(f->object, key);
}

int clef__json_has(const clef_json_fields *f, const char *key)
{
    const json_t *value = clef__json_get(f, key);
    return value && !json_is_null(value);
}

/* Returns the value of a key. Returns NULL if the key is missing or null (an error if `needed`), and after an
 * earlier error. */
static const json_t *find_field(clef_json_fields *f, const char *key, int needed, const char *wanted)
{
    if (f->status != CLEF_OK)
        return NULL;
    if (clef__json_has(f, key))
        return json_object_get(f->object, key);
    if (needed)
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s%s%s is missing, expected %s", f->file,
                               f->within ? f->within : "", f->within ? "." : "", key, wanted);
    return NULL;
}

static void wrong_kind(clef_json_fields *f, const char *key, const char *wanted, const json_t *got)
{
    f->status =
        clef__fail(f->err, CLEF_E_FORMAT, "%s: %s%s%s is %s, expected %s", f->file,
                   f->within ? f->within : "", f->within ? "." : "", key, clef__json_kind(got), wanted);
}

static int64_t read_int(clef_json_fields *f, const char *key, int64_t min, int64_t max, int64_t missing,
                        int needed)
{
    const json_t *value = find_field(f, key, needed, "an integer");
    if (!value)
        return missing;
    if (!json_is_integer(value)) {
        wrong_kind(f, key, "an integer", value);
        return missing;
    }
    const int64_t x = json_integer_value(value);
    if (x >= min && x <= max)
        return x;
    f->status =
        clef__fail(f->err, CLEF_E_FORMAT, "%s: %s%s%s is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                   f->file, f->within ? f->within : "", f->within ? "." : "", key, x, min, max);
    return missing;
}

int64_t clef__json_int(clef_json_fields *f, const char *key, int64_t min, int64_t max, int64_t missing)
{
    return read_int(f, key, min, max, missing, 0);
}

int64_t clef__json_need_int(clef_json_fields *f, const char *key, int64_t min, int64_t max)
{
    return read_int(f, key, min, max, min, 1);
}

static double read_double(clef_json_fields *f, const char *key, double min, double max, double missing,
                          int needed)
{
    const json_t *value = find_field(f, key, needed, "a number");
    if (!value)
        return missing;
    if (!json_is_number(value)) {
        wrong_kind(f, key, "a number", value);
        return missing;
    }
    const double x = json_number_value(value);
    if (x >= min && x <= max)
        return x;
    f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s%s%s is %g, expected %g to %g", f->file,
                           f->within ? f->within : "", f->within ? "." : "", key, x, min, max);
    return missing;
}

double clef__json_double(clef_json_fields *f, const char *key, double min, double max, double missing)
{
    return read_double(f, key, min, max, missing, 0);
}

double clef__json_need_double(clef_json_fields *f, const char *key, double min, double max)
{
    return read_double(f, key, min, max, min, 1);
}

int clef__json_bool(clef_json_fields *f, const char *key, int missing)
{
    const json_t *value = find_field(f, key, 0, NULL);
    if (!value)
        return missing;
    if (json_is_boolean(value))
        return json_is_true(value);
    wrong_kind(f, key, "true or false", value);
    return missing;
}

const char *clef__json_string(clef_json_fields *f, const char *key, const char *missing)
{
    const json_t *value = find_field(f, key, 0, NULL);
    if (!value)
        return missing;
    if (json_is_string(value))
        return json_string_value(value);
    wrong_kind(f, key, "a string", value);
    return missing;
}
