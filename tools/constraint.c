/* Compiles the constraint that a command's flags name. */
#include "tools/constraint.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"

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

int cli_constraint_given(const cli_constraint *f)
{
    return f->grammar || f->schema || f->regex || f->choice || f->json || f->strict;
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
        return f->strict ? cli_fail(CLI_USAGE, "%s --strict-schema: expected --json-schema", command)
                         : CLI_GO_ON;
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

int32_t cli_end_tokens(clef_model *model, int32_t ids[CLI_END_TOKENS])
{
    const clef_hparams *hp = clef_model_hparams(model);
    const clef_tokenizer *tok = clef_model_tokenizer(model, NULL);
    const int32_t of_tokenizer = tok ? clef_tokenizer_eos(tok) : -1;
    int32_t n = 0;
    if (hp->eos >= 0)
        ids[n++] = hp->eos;
    if (of_tokenizer >= 0 && of_tokenizer != hp->eos)
        ids[n++] = of_tokenizer;
    for (int32_t i = 0; i < hp->n_eos_more && n < CLI_END_TOKENS; i++)
        ids[n++] = hp->eos_more[i];
    return n;
}

int cli_guide_open(const cli_constraint *f, const char *command, clef_model *model, cli_guide *out)
{
    int32_t ends[CLI_END_TOKENS];
    clef_error err = {0};
    *out = (cli_guide){NULL, NULL};
    if (!cli_constraint_given(f))
        return CLI_GO_ON;
    const clef_tokenizer *tok = clef_model_tokenizer(model, &err);
    if (!tok)
        return cli_report(&err);
    const int rc = cli_constraint_open(f, command, tok, &out->constraint);
    if (rc != CLI_GO_ON)
        return rc;
    const clef_status s = clef_token_trie_create(tok, ends, cli_end_tokens(model, ends), &out->trie, &err);
    return s ? cli_report(&err) : CLI_GO_ON;
}

void cli_guide_finish(cli_guide *guide)
{
    clef_constraint_destroy(guide->constraint);
    clef_token_trie_destroy(guide->trie);
}

void cli_tool_choice(const char *text, clef_tool_constraint_opts *opts)
{
    opts->choice = !text || !strcmp(text, "auto") ? CLEF_TOOL_CHOICE_AUTO
                   : !strcmp(text, "required")    ? CLEF_TOOL_CHOICE_REQUIRED
                                                  : CLEF_TOOL_CHOICE_NAMED;
    opts->name = text;
}

int cli_tool_constraint_open(const clef_tool_constraint_opts *opts, clef_constraint **out)
{
    char *warnings = NULL;
    clef_error err = {0};
    if (clef_tool_constraint_create(opts, out, &warnings, &err) != CLEF_OK)
        return cli_report(&err);
    for (char *line = warnings; line && *line;) {
        char *end = strchr(line, '\n');
        fprintf(stderr, "clef: %.*s\n", (int)(end ? end - line : (int)strlen(line)), line);
        line = end ? end + 1 : NULL;
    }
    clef_text_free(warnings);
    return CLI_GO_ON;
}
