/* Keys of a config.json that no reader asked for, and nulls (model/open/config_known.def). */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/config.h"

static const char *const unused[] = {
#define UNUSED(key) #key,
#include "model/open/config_known.def"
};

static const char *const flags[] = {
#define FLAG(key) #key,
#include "model/open/config_known.def"
};

static const char *const nullable[] = {
#define NULLABLE(key) #key,
#include "model/open/config_known.def"
};

static const struct {
    const char *key, *value;
} refused[] = {
#define REFUSED(key, value) {#key, value},
#include "model/open/config_known.def"
};

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static int is_listed(const char *const *list, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], key) == 0)
            return 1;
    return 0;
}

/* The only value that `key` may have, as JSON; NULL: any. */
static const char *only_value(const char *key)
{
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        if (strcmp(refused[i].key, key) == 0)
            return refused[i].value;
    return NULL;
}

static void check_value(clef_json_fields *f, const char *key, const json_t *value, const char *only)
{
    json_t *wanted = json_loads(only, JSON_DECODE_ANY, NULL);
    char *got = json_dumps(value, JSON_ENCODE_ANY);
    if (!json_is_null(value) && !json_equal((json_t *)(uintptr_t)value, wanted) && f->status == CLEF_OK)
        f->status =
            clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s is %.60s, expected %s: it is not supported",
                       f->file, key, got ? got : "?", only);
    free(got);
    json_decref(wanted);
}

void clef__json_check_nulls(clef_json_fields *f)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)f->object, key, value) {
        if (f->status == CLEF_OK && json_is_null(value) && json_object_get(f->seen, key) &&
            !is_listed(nullable, COUNT_OF(nullable), key))
            f->status =
                clef__fail(f->err, CLEF_E_FORMAT, "%s: %s%s%s is null, expected a value or no such key",
                           f->file, f->within ? f->within : "", f->within ? "." : "", key);
    }
}

void clef__json_check_unread(clef_json_fields *f)
{
    const char *key, *only;
    json_t *value;
    clef__json_check_nulls(f);
    json_object_foreach((json_t *)(uintptr_t)f->object, key, value) {
        if (f->status != CLEF_OK || json_object_get(f->seen, key))
            continue;
        if ((only = only_value(key)) != NULL)
            check_value(f, key, value, only);
        else if (is_listed(flags, COUNT_OF(flags), key))
            clef__json_bool(f, key, 0);
    }
}

int clef__json_is_unread(const clef_json_fields *f, const char *key)
{
    return !json_object_get(f->seen, key) && !is_listed(unused, COUNT_OF(unused), key) &&
           !is_listed(flags, COUNT_OF(flags), key) && !only_value(key);
}
