/* Reads the cases of tests/fixtures. */
#include "tests/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const json_t *case_file(const char *file, const char *member)
{
    static json_t *files; /* by name; they are left to the end of the program */
    char path[600];
    json_error_t why;
    files = files ? files : json_object();
    json_t *root = json_object_get(files, file);
    snprintf(path, sizeof path, "%s/tests/fixtures/%s", CLEF_SOURCE_DIR, file);
    if (!root) {
        root = json_load_file(path, JSON_ALLOW_NUL, &why);
        if (!root)
            fail_msg("%s:%d: %s", path, why.line, why.text);
        json_object_set_new(files, file, root);
    }
    const json_t *found = member ? json_object_get(root, member) : root;
    if (!found)
        fail_msg("%s: has no %s", path, member);
    return found;
}

static json_t *keys_read; /* a set: by check(), of any case of the list */

/** Fails for a member whose name was never asked for, but for those that describe the case. */
static void check_that_all_was_read(const json_t *c)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)c, key, value) {
        if (!json_object_get(keys_read, key) && strcmp(key, "name") != 0 && strcmp(key, "why") != 0)
            fail_case(c, "expected members that the test reads, got \"%s\"", key);
    }
}

void for_each_case(const char *file, const char *list, void (*check)(const json_t *c))
{
    const json_t *cases = case_file(file, list);
    assert_true(json_array_size(cases) > 0);
    keys_read = json_object();
    for (size_t i = 0; i < json_array_size(cases); i++)
        check(json_array_get(cases, i));
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_that_all_was_read(json_array_get(cases, i));
    json_decref(keys_read);
    keys_read = NULL;
}

json_t *case_value(const json_t *c, const char *key)
{
    if (keys_read)
        json_object_set_new(keys_read, key, json_true());
    return json_object_get(c, key);
}

void case_skip(const json_t *c)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)c, key, value) {
        (void)value;
        case_value(c, key);
    }
}

const char *case_text(const json_t *c, const char *key)
{
    return json_string_value(case_value(c, key));
}

double case_number(const json_t *c, const char *key, double otherwise)
{
    const json_t *value = case_value(c, key);
    return json_is_number(value) ? json_number_value(value) : json_is_true(value) ? 1 : otherwise;
}

const char *case_item(const json_t *c, const char *key, size_t i)
{
    return json_string_value(json_array_get(case_value(c, key), i));
}

void case_print(const json_t *c)
{
    char *text = json_dumps(c, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    fprintf(stderr, "case: %s\n", text ? text : "?");
    free(text);
}

void check_case(const json_t *c, clef_status status, const clef_error *err)
{
    const char *wanted = case_text(c, "status"), *piece = case_text(c, "piece");
    if (strcmp(clef_status_name(status), wanted ? wanted : "OK") != 0)
        fail_case(c, "expected %s, got %s: %s", wanted ? wanted : "OK", clef_status_name(status),
                  status ? err->text : "");
    if (piece && status && !strstr(err->text, piece))
        fail_case(c, "expected \"%s\" in: %s", piece, err->text);
}
