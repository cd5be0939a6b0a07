/* Compiles the constraint that a command's flags name. */
#include "tools/constraint.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"

static int fail_twice(const char *command)
{
    return cli_fail(CLI_USAGE, "%s: expected one of --grammar, --json-schema, --json, --regex and --choice",
                    command);
}

/* "A,B" as a JSON list. */
static char *list_of(const char *text)
{
    json_t *list = json_array();
    while (list) {
        const size_t n = strcspn(text, ",");
        json_array_append_new(list, json_stringn(text, n));
        if (!text[n])
            break;
        text += n + 1;
    }
    char *out = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return out;
}

static int looks_like_json(const char *text)
{
    text += strspn(text, " \t\r\n");
    return *text == '{' || !strcmp(text, "true") || !strcmp(text, "false");
}

int cli_constraint_open(const cli_constraint *f, const char *command, const clef_tokenizer *tok,
                        clef_constraint **out)
{
    const int n = !!f->grammar + !!f->schema + !!f->regex + !!f->choice + !!f->json;
    const clef_constraint_opts opts = {.strict = f->strict, .tok = tok};
    clef_constraint_kind kind = CLEF_CONSTRAIN_SCHEMA;
    const char *source = f->json ? "true" : f->schema;
    char *own = NULL;
    size_t n_bytes = 0;
    clef_error err = {0};
    *out = NULL;
    if (n > 1)
        return fail_twice(command);
    if (n == 0)
        return f->strict ? cli_fail(CLI_USAGE, "%s --strict: expected --json-schema", command) : CLI_GO_ON;
    if (f->regex || f->choice) {
        kind = f->regex ? CLEF_CONSTRAIN_REGEX : CLEF_CONSTRAIN_CHOICES;
        source = f->regex ? f->regex : (own = list_of(f->choice));
        if (!source)
            return cli_fail(CLI_FAILED, "%s --choice: expected UTF-8", command);
    } else if (f->grammar || (f->schema && !looks_like_json(f->schema))) {
        kind = f->grammar ? CLEF_CONSTRAIN_GBNF : CLEF_CONSTRAIN_SCHEMA;
        const int rc = cli_read_file(f->grammar ? f->grammar : f->schema, &own, &n_bytes);
        if (rc != CLI_GO_ON)
            return rc;
        source = own;
    }
    const clef_status s =
        clef_constraint_create(kind, source, n_bytes ? n_bytes : strlen(source), &opts, out, NULL, &err);
    free(own);
    return s ? cli_report(&err) : CLI_GO_ON;
}
