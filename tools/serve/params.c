/* Reads the fields of requests by their table. */
#include "tools/serve/params.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/terminal.h"

typedef enum field_type { BOOL, INT, NUMBER, SEED, STRING, ANY, IGNORED_FIELD, REFUSED_FIELD } field_type;

typedef struct field {
    const char *name;
    int where;
    field_type type;
    double lo, hi;
    size_t offset;
    const char *otherwise, *help;
} field;

enum { CHAT = 1, TEXT = 2, EMBED = 4, TOKENS = 8, BACK = 16, RENDER = 32 };

static const field fields[] = {
#define FIELD(name, where, type, lo, hi, member, otherwise, help)                                            \
    {name, where, type, lo, hi, offsetof(serve_params, member), otherwise, help},
#define IGNORED(name, where, help) {name, where, IGNORED_FIELD, 0, 0, 0, "", help},
#define REFUSED(name, where, help) {name, where, REFUSED_FIELD, 0, 0, 0, "", help},
#include "tools/serve/fields.def"
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

const char *serve_kind_of(const json_t *value)
{
    static const char *const names[] = {"an object", "a list", "a string", "an integer",
                                        "a number",  "true",   "false",    "null"};
    return value ? names[json_typeof(value)] : "nothing";
}

const char *serve_path(char out[128], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out, 128, format, args);
    va_end(args);
    return out;
}

/* ---- one field ------------------------------------------------------------------------------- */

static int wrong_type(const field *f, const json_t *value, const char *wanted, serve_error *e)
{
    return serve_fail(e, SERVE_E_INVALID_VALUE, f->name, "%s: expected %s, got %s", f->name, wanted,
                      serve_kind_of(value));
}

static int read_integer(const field *f, const json_t *value, void *to, serve_error *e)
{
    const double x = json_number_value(value);
    if (!json_is_integer(value) && !(json_is_real(value) && x == floor(x)))
        return wrong_type(f, value, "an integer", e);
    if (!(x >= f->lo && x <= f->hi))
        return serve_fail(e, SERVE_E_INVALID_VALUE, f->name, "%s: expected %.0f to %.0f, got %.17g", f->name,
                          f->lo, f->hi, x);
    *(int32_t *)to = (int32_t)x;
    return 1;
}

static int read_number(const field *f, const json_t *value, void *to, serve_error *e)
{
    const double x = json_number_value(value);
    if (!json_is_number(value))
        return wrong_type(f, value, "a number", e);
    if (!(x >= f->lo && x <= f->hi))
        return serve_fail(e, SERVE_E_INVALID_VALUE, f->name, "%s: expected %g to %g, got %.17g", f->name,
                          f->lo, f->hi, x);
    *(float *)to = (float)x;
    return 1;
}

static int read_string(const field *f, const json_t *value, void *to, serve_error *e)
{
    if (!json_is_string(value))
        return wrong_type(f, value, "a string", e);
    const size_t n = json_string_length(value);
    if ((double)n < f->lo || (double)n > f->hi)
        return serve_fail(e, SERVE_E_INVALID_VALUE, f->name, "%s: expected %.0f to %.0f bytes, got %zu",
                          f->name, f->lo, f->hi, n);
    *(const char **)to = json_string_value(value);
    return 1;
}

static int read_field(const field *f, json_t *value, serve_params *p, serve_error *e)
{
    void *to = (char *)p + f->offset;
    switch (f->type) {
    case BOOL:
        if (!json_is_boolean(value))
            return wrong_type(f, value, "true or false", e);
        *(int32_t *)to = json_is_true(value);
        return 1;
    case INT:
        return read_integer(f, value, to, e);
    case NUMBER:
        return read_number(f, value, to, e);
    case SEED:
        if (!json_is_integer(value))
            return wrong_type(f, value, "a 64-bit integer", e);
        p->seed = json_integer_value(value);
        p->has_seed = 1;
        return 1;
    case STRING:
        return read_string(f, value, to, e);
    case ANY:
        *(json_t **)to = value;
        return 1;
    case IGNORED_FIELD:
        return 1;
    case REFUSED_FIELD:
        break;
    }
    return serve_fail(e, SERVE_E_UNSUPPORTED, f->name, "%s: not supported: %s", f->name, f->help);
}

/* Fields of which only one value is refused. */
static int read_special(const char *name, const json_t *value, serve_form form, serve_error *e, int *known)
{
    *known = 1;
    if (!strcmp(name, "store") && form & (SERVE_FORM_CHAT | SERVE_FORM_TEXT)) {
        if (json_is_false(value))
            return 1;
        return serve_fail(e, json_is_true(value) ? SERVE_E_UNSUPPORTED : SERVE_E_INVALID_VALUE, name,
                          "store: expected false, since clef stores nothing; got %s", serve_kind_of(value));
    }
    if (!strcmp(name, "best_of") && form == SERVE_FORM_TEXT) {
        if (json_is_integer(value) && json_integer_value(value) == 1)
            return 1;
        return serve_fail(e, SERVE_E_UNSUPPORTED, name, "best_of: not supported; `n` gives several choices");
    }
    if (!strcmp(name, "modalities") && form == SERVE_FORM_CHAT) {
        const char *only = json_string_value(json_array_get(value, 0));
        if (json_array_size(value) == 1 && only && !strcmp(only, "text"))
            return 1;
        return serve_fail(e, SERVE_E_UNSUPPORTED, name,
                          "modalities: expected [\"text\"], clef has no others");
    }
    *known = 0;
    return 1;
}

/* ---- the body -------------------------------------------------------------------------------- */

static void note_ignored(serve_request *r, const char *name)
{
    const size_t n = strlen(r->ignored);
    size_t at = 0;
    while (name[at] > ' ' && name[at] <= '~' && name[at] != ',')
        at++;
    if (!name[at] && at && n + at + 3 < sizeof r->ignored && at <= 64)
        snprintf(r->ignored + n, sizeof r->ignored - n, "%s%s", n ? ", " : "", name);
}

static int read_all(serve_request *r, serve_params *p)
{
    const char *name;
    json_t *value;
    json_object_foreach(p->root, name, value)
    {
        int known = 0;
        if (json_is_null(value))
            continue;
        if (!read_special(name, value, p->form, &r->error, &known))
            return 0;
        for (int i = 0; i < N_FIELDS && !known; i++) {
            if (!(fields[i].where & (int)p->form) || strcmp(fields[i].name, name) != 0)
                continue;
            known = 1;
            if (!read_field(&fields[i], value, p, &r->error))
                return 0;
        }
        if (!known)
            note_ignored(r, name);
    }
    return 1;
}

static int require(const serve_params *p, const json_t *value, const char *name, int form, serve_error *e)
{
    if (value || !((int)p->form & form))
        return 1;
    return serve_fail(e, SERVE_E_INVALID_VALUE, name, "%s: it is required", name);
}

/* What follows from several fields. */
static int check_together(serve_request *r, serve_params *p)
{
    serve_error *e = &r->error;
    const serve_options *o = &r->s->o;
    if (!require(p, p->messages, "messages", CHAT | RENDER, e) || !require(p, p->prompt, "prompt", TEXT, e) ||
        !require(p, p->input, "input", EMBED, e) || !require(p, p->content, "content", TOKENS, e) ||
        !require(p, p->tokens, "tokens", BACK, e))
        return 0;
    if (p->text_logprobs >= 0) {
        p->logprobs = 1;
        p->n_top = p->text_logprobs;
    }
    if (p->n_top && !p->logprobs)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "top_logprobs", "top_logprobs: only with logprobs true");
    if (p->n > o->max_n)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "n", "n: expected at most %d (--max-n), got %d",
                          (int)o->max_n, (int)p->n);
    if (p->max_tokens == 0 && !p->echo)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "max_tokens",
                          "max_tokens: expected at least 1, 0 only with echo");
    if (o->max_tokens && p->max_tokens > o->max_tokens)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "max_tokens",
                          "max_tokens: expected at most %d (--max-tokens), got %d", (int)o->max_tokens,
                          (int)p->max_tokens);
    if (p->max_tokens < 0 && o->max_tokens)
        p->max_tokens = o->max_tokens;
    if (p->sampling.mirostat == 1)
        return serve_fail(e, SERVE_E_UNSUPPORTED, "mirostat",
                          "mirostat: expected 0 or 2, clef has Mirostat 2");
    if (p->stream_options) {
        const json_t *usage = json_object_get(p->stream_options, "include_usage");
        if (!json_is_object(p->stream_options) || (usage && !json_is_boolean(usage) && !json_is_null(usage)))
            return serve_fail(e, SERVE_E_INVALID_VALUE, "stream_options",
                              "stream_options: expected {\"include_usage\": true or false}");
        if (!p->stream)
            return serve_fail(e, SERVE_E_INVALID_VALUE, "stream_options",
                              "stream_options: only with stream true");
        p->include_usage = json_is_true(usage);
    }
    return 1;
}

static void clean_sampling(clef_sampler_opts *o)
{
    o->top_k = o->top_k < 0 ? 0 : o->top_k;
    o->top_n_sigma = o->top_n_sigma < 0 ? 0 : o->top_n_sigma;
    if (o->xtc_threshold <= 0) /* 0 would be the default: the least that changes nothing else */
        o->xtc_threshold = 1e-6f;
    if (o->top_p <= 0) /* 0 would be off: only the likeliest */
        o->top_p = 1e-6f;
    if (o->typical <= 0)
        o->typical = 1e-6f;
    if (o->mirostat_tau <= 0)
        o->mirostat_tau = 1e-3f;
    if (o->mirostat_eta <= 0)
        o->mirostat_eta = 1e-6f;
    if (o->dry_last_n == 0)
        o->dry_multiplier = 0;
}

int serve_params_read(serve_request *r, serve_form form, serve_params *p)
{
    json_error_t why;
    *p = (serve_params){.form = form,
                        .max_tokens = -1,
                        .dimensions = -1,
                        .text_logprobs = -1,
                        .n = 1,
                        .parallel = 1,
                        .generation_prompt = 1,
                        .parse_special = 1,
                        .sampling = r->s->m.sampling};
    p->root = json_loadb(r->body ? r->body : "", r->n_body, 0, &why);
    if (!p->root &&
        json_error_code(&why) == json_error_numeric_overflow) /* it may be a field out of its range */
        p->root = json_loadb(r->body, r->n_body, JSON_DECODE_INT_AS_REAL, &why);
    if (!p->root) {
        serve_clean_text(why.text);
        return serve_fail(&r->error, SERVE_E_INVALID_JSON, NULL,
                          "the body is no JSON: line %d, column %d: %s", why.line, why.column, why.text);
    }
    if (!json_is_object(p->root))
        return serve_fail(&r->error, SERVE_E_INVALID_JSON, NULL, "the body: expected a JSON object, got %s",
                          serve_kind_of(p->root));
    if (!read_all(r, p) || !check_together(r, p))
        return 0;
    clean_sampling(&p->sampling);
    p->sampling.seed = p->has_seed ? (uint64_t)p->seed : cli_terminal_entropy();
    return 1;
}

void serve_params_finish(serve_params *p)
{
    json_decref(p->root);
    p->root = NULL;
}

/* ---- the list -------------------------------------------------------------------------------- */

static void list_range(const field *f, FILE *to)
{
    static const char *const types[] = {"boolean", "integer",   "number", "integer",
                                        "string",  "see below", "any",    "refused"};
    fputs(types[f->type], to);
    if (f->type == INT && f->hi > 2e9)
        fprintf(to, " from %.0f", f->lo);
    else if (f->type == INT || f->type == NUMBER)
        fprintf(to, " %g to %g", f->lo, f->hi);
}

void serve_fields_list(FILE *to)
{
    static const char *const forms[] = {"chat",     "completions", "embeddings",
                                        "tokenize", "detokenize",  "apply-template"};
    fputs("| field | of | type | default | |\n|---|---|---|---|---|\n", to);
    for (int i = 0; i < N_FIELDS; i++) {
        const field *f = &fields[i];
        const char *comma = "";
        fprintf(to, "| `%s` | ", f->name);
        for (int k = 0; k < 6; k++)
            if (f->where >> k & 1) {
                fprintf(to, "%s%s", comma, forms[k]);
                comma = ", ";
            }
        fputs(" | ", to);
        if (f->type == ANY)
            fputs("JSON", to);
        else
            list_range(f, to);
        fprintf(to, " | %s | %s |\n", f->otherwise, f->help);
    }
}
