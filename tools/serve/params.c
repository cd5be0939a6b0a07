/* Reads the fields of requests by their table. */
#include "tools/serve/params.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/serve/base/body.h"

typedef enum field_type {
    BOOL,
    INT,
    NUMBER,
    SEED,
    STRING,
    ANY,
    IGNORED_FIELD,
    REFUSED_FIELD,
    ONLY_FIELD
} field_type;

typedef struct field {
    const char *name;
    int where;
    field_type type;
    double lo, hi;
    size_t offset;
    const char *otherwise, *help;
} field;

enum {
    CHAT = 1,
    TEXT = 2,
    EMBED = 4,
    TOKENS = 8,
    BACK = 16,
    RENDER = 32,
    RANK = 64,
    MESSAGES = 128,
    COUNT = 256,
    RESPONSES = 512,
    OLLAMA = 1024,
    SHOW = 2048,
    INFILL = 4096,
    HEAR = 8192,
    NATIVE = 16384,
    OLLAMA_EMBED = 32768,
    GENERATES = CHAT | TEXT | MESSAGES | COUNT | RESPONSES
};

static const field fields[] = {
#define FIELD(name, where, type, lo, hi, member, otherwise, help)                                            \
    {name, where, type, lo, hi, offsetof(serve_params, member), otherwise, help},
#define IGNORED(name, where, help) {name, where, IGNORED_FIELD, 0, 0, 0, "", help},
#define REFUSED(name, where, help) {name, where, REFUSED_FIELD, 0, 0, 0, "", help},
#define ONLY(name, where, values, help) {name, where, ONLY_FIELD, 0, 0, 0, values, help},
#include "tools/serve/fields.def"
};
enum { N_FIELDS = sizeof fields / sizeof *fields, MOST_LAST = 65536 };

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

int serve_is_plain(const json_t *text)
{
    return json_is_string(text) && !memchr(json_string_value(text), '\0', json_string_length(text));
}

int serve_has_nul(const json_t *value)
{
    const char *name;
    json_t *one;
    size_t i;
    if (json_is_string(value))
        return !serve_is_plain(value);
    json_array_foreach(value, i, one) {
        if (serve_has_nul(one))
            return 1;
    }
    json_object_foreach((json_t *)value, name, one) {
        if (serve_has_nul(one))
            return 1;
    }
    return 0;
}

/* ---- one field ------------------------------------------------------------------------------- */

static int wrong_type(const field *f, const json_t *value, const char *wanted, serve_error *e)
{
    return serve_fail(e, SERVE_E_INVALID_VALUE, f->name, "%s: expected %s, got %s", f->name, wanted,
                      serve_kind_of(value));
}

int serve_integer(const json_t *value, int64_t *out)
{
    const double x = json_number_value(value);
    if (json_is_integer(value))
        *out = json_integer_value(value);
    else if (json_is_real(value) && x == floor(x) && fabs(x) <= 9007199254740992.0)
        *out = (int64_t)x;
    else
        return 0;
    return 1;
}

static int read_integer(const field *f, const json_t *value, void *to, serve_error *e)
{
    int64_t x;
    const int is_integer = serve_integer(value, &x);
    if (!is_integer && !(json_is_real(value) && json_real_value(value) == floor(json_real_value(value))))
        return wrong_type(f, value, "an integer", e);
    if (!is_integer || (double)x < f->lo || (double)x > f->hi)
        return serve_fail(e, SERVE_E_INVALID_VALUE, f->name, "%s: expected %.0f to %.0f, got %.17g", f->name,
                          f->lo, f->hi, json_number_value(value));
    *(int32_t *)to = (int32_t)x;
    return 1;
}

/* Any integer of 64 bits, with or without a sign: one below 0 stands for the bits that it has. As in
 * llama-server, -1 asks for a random one, also as an unsigned number; of 64 bits only in its own forms. */
static int read_seed(const field *f, const json_t *value, serve_params *p, const serve_body *body,
                     serve_error *e)
{
    int64_t x = 0;
    if (!serve_integer(value, &x) && value != body->large)
        return wrong_type(f, value, "a 64-bit integer", e);
    const int is_large = value == body->large;
    p->seed = is_large ? body->large_value : (uint64_t)x;
    p->draws_seed = p->seed == UINT32_MAX || (p->seed == UINT64_MAX && (!is_large || p->form & NATIVE));
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
    if (!serve_is_plain(value))
        return serve_fail(e, SERVE_E_INVALID_VALUE, f->name, "%s: expected a string without \\u0000",
                          f->name);
    if ((double)n < f->lo || (double)n > f->hi)
        return serve_fail(e, SERVE_E_INVALID_VALUE, f->name, "%s: expected %.0f to %.0f bytes, got %zu",
                          f->name, f->lo, f->hi, n);
    *(const char **)to = json_string_value(value);
    return 1;
}

void serve_note_ignored(serve_request *r, const char *name)
{
    const size_t n = strlen(r->ignored);
    size_t at = 0;
    while (name[at] > ' ' && name[at] <= '~' && name[at] != ',')
        at++;
    if (!name[at] && at && n + at + 3 < sizeof r->ignored && at <= 64)
        snprintf(r->ignored + n, sizeof r->ignored - n, "%s%s", n ? ", " : "", name);
}

/* 5 and 5.0 are the same number. */
static int are_same(const json_t *a, const json_t *b)
{
    return json_equal(a, b) ||
           (json_is_number(a) && json_is_number(b) && fabs(json_number_value(a) - json_number_value(b)) <= 0);
}

/* A value that changes nothing. */
static int read_only(const field *f, const json_t *value, serve_error *e)
{
    json_t *values = json_loads(f->otherwise, 0, NULL);
    const json_t *one;
    size_t i;
    int same = 0;
    json_array_foreach(values, i, one)
        same |= are_same(one, value);
    json_decref(values);
    if (same)
        return 1;
    return serve_fail(e, SERVE_E_UNSUPPORTED, f->name, "%s: not supported but for one of %s: %s", f->name,
                      f->otherwise, f->help);
}

static int read_field(serve_request *r, const field *f, json_t *value, serve_params *p,
                      const serve_body *body)
{
    serve_error *e = &r->error;
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
        return read_seed(f, value, p, body, e);
    case STRING:
        return read_string(f, value, to, e);
    case ANY:
        *(json_t **)to = value;
        return 1;
    case IGNORED_FIELD:
        serve_note_ignored(r, f->name);
        return 1;
    case ONLY_FIELD:
        return read_only(f, value, e);
    case REFUSED_FIELD:
        break;
    }
    return serve_fail(e, SERVE_E_UNSUPPORTED, f->name, "%s: not supported: %s", f->name, f->help);
}

/* ---- the body -------------------------------------------------------------------------------- */

static const field *find_field(serve_form form, const char *name)
{
    for (int i = 0; i < N_FIELDS; i++)
        if (fields[i].where & (int)form && *fields[i].name == *name && !strcmp(fields[i].name, name))
            return &fields[i];
    return NULL;
}

/* Two names of one field with two values: which of them is meant cannot be known. */
static int check_names(const serve_params *p, const field *f, const json_t *value, serve_error *e)
{
    for (int i = 0; i < N_FIELDS; i++) {
        const field *g = &fields[i];
        if (g == f || !(g->where & (int)p->form) || g->offset != f->offset || g->type != f->type ||
            f->type >= IGNORED_FIELD)
            continue;
        const json_t *other = json_object_get(p->root, g->name);
        if (other && !json_is_null(other) && !are_same(other, value))
            return serve_fail(e, SERVE_E_INVALID_VALUE, f->name,
                              "%s and %s are one field, and have two values", f->name, g->name);
    }
    return 1;
}

/* Reads the members of an object: of the body, or of Ollama's `options`. */
static int read_all(serve_request *r, serve_params *p, const serve_body *body, json_t *from)
{
    const char *name;
    json_t *value;
    json_object_foreach(from, name, value) {
        const field *f = find_field(p->form, name);
        if (f && !json_is_null(value) &&
            (!check_names(p, f, value, &r->error) || !read_field(r, f, value, p, body)))
            return 0;
    }
    return 1;
}

static int require(const serve_params *p, const json_t *value, const char *name, int form, serve_error *e)
{
    if (value || !((int)p->form & form))
        return 1;
    return serve_fail(e, SERVE_E_INVALID_VALUE, name, "%s: it is required", name);
}

static int is_given(const serve_params *p, const char *name)
{
    const json_t *value = json_object_get(p->root, name), *option = json_object_get(p->options, name);
    return (value && !json_is_null(value)) || (option && !json_is_null(option));
}

/* They look at no token. */
static void no_penalties(clef_sampler_opts *o)
{
    o->repeat_penalty = 1;
    o->presence_penalty = o->frequency_penalty = 0;
}

/* What follows from several fields. */
static int check_together(serve_request *r, serve_params *p)
{
    serve_error *e = &r->error;
    const serve_options *o = &r->s->o;
    if (!require(p, p->messages, "messages", CHAT | RENDER | MESSAGES | COUNT, e) ||
        (!(p->form & OLLAMA) && !require(p, p->form & INFILL ? p->suffix : p->prompt,
                                         p->form & INFILL ? "input_suffix" : "prompt", TEXT, e)) ||
        !require(p, p->content ? p->content : p->input, "input", EMBED | RESPONSES, e) ||
        !require(p, p->content, "content", TOKENS, e) || !require(p, p->tokens, "tokens", BACK, e) ||
        !require(p, p->query, "query", RANK, e))
        return 0;
    if (p->grammar && !*p->grammar)
        p->grammar = NULL;
    if (p->text_logprobs >= 0) {
        p->logprobs = 1;
        p->n_top = p->text_logprobs;
    }
    if (p->n_probs && p->max_tokens) {
        p->logprobs = 1;
        p->n_top = p->n_probs;
    }
    if (p->n_top && !p->logprobs && p->form != SERVE_FORM_RESPONSES)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "top_logprobs", "top_logprobs: only with logprobs true");
    if (p->n > o->max_n)
        return serve_fail(e, SERVE_E_INVALID_VALUE, "n", "n: expected at most %d (--max-n), got %d",
                          (int)o->max_n, (int)p->n);
    if (!p->sampling.repeat_last_n && is_given(p, "repeat_last_n"))
        no_penalties(&p->sampling);
    if (p->sampling.repeat_last_n < 0)
        p->sampling.repeat_last_n = MOST_LAST;
    if (is_given(p, "repetition_penalty") && !is_given(p, "repeat_last_n"))
        p->sampling.repeat_last_n = MOST_LAST;
    if (!p->do_sample)
        p->sampling.temperature = 0;
    if (p->max_tokens == 0 && !p->echo && !(p->form & NATIVE))
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

/* ---- names that nobody knows ------------------------------------------------------------------ */

/* The next word of a name: "maxTokens" and "max_tokens" have two. */
static size_t next_word(const char **at, char word[16])
{
    size_t n = 0;
    while (**at && !isalnum((unsigned char)**at))
        ++*at;
    while (isalnum((unsigned char)**at) &&
           !(n && isupper((unsigned char)**at) && islower((unsigned char)(*at)[-1]))) {
        if (n < 15)
            word[n] = (char)tolower((unsigned char)**at);
        n += n < 15;
        ++*at;
    }
    word[n] = '\0';
    return n;
}

/* 1 if a field of this name may well restrict or change the reply. Other servers have many, and new ones
 * come: such a field is refused rather than ignored. */
static int seems_to_matter(const char *name)
{
    static const char *const words[] = {
        "schema",    "grammar",   "regex",        "regexp",      "pattern",     "guided",     "guide",
        "guidance",  "constrain", "constraint",   "constraints", "constrained", "structured", "structural",
        "format",    "json",      "ebnf",         "gbnf",        "lark",        "ban",        "bans",
        "banned",    "bad",       "badwords",     "stop",        "stops",       "forbid",     "forbidden",
        "force",     "forced",    "suppress",     "suppressed",  "allow",       "allowed",    "eos",
        "penalty",   "penalties", "logit",        "logits",      "bias",        "max",        "min",
        "beam",      "beams",     "length",       "top",         "temperature", "temp",       "sampler",
        "samplers",  "sampling",  "sample",       "ngram",       "choice",      "choices",    "parameters",
        "config",    "tools",     "functions",    "truncate",    "cutoff",      "enum",       "prefix",
        "prompt",    "system",    "instructions", "stopping",    "mime",        "text",       "lora",
        "loras",     "adapter",   "adapters",     "budget",      "thinking",    "repetition", "repeat",
        "repeats",   "penalize",  "exclude",      "excluded",    "block",       "blocked",    "blocklist",
        "blacklist", "whitelist", "allowlist",    "stopwords",   "words",       "phrases",    "enforce",
        "enforced",  "require",   "required",     "dry",         "xtc",         "mirostat",   "typical",
        "nsigma",    "best",      "filter",       "cfg",         "suffix",      "vocab"};
    char word[16];
    for (const char *at = name; next_word(&at, word);)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (*word == *words[i] && !strcmp(word, words[i]))
                return 1;
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reading {
    serve_request *r;
    serve_form form;
    char refused[64]; /* the first name that nobody knows and that seems to matter */
} reading;

static int wants(void *user, const char *name)
{
    const reading *w = user;
    return find_field(w->form, name) != NULL;
}

static void leaves(void *user, const char *name)
{
    reading *w = user;
    const int makes_reply = (int)w->form & (CHAT | TEXT | EMBED | RANK | MESSAGES | RESPONSES | HEAR);
    if (!makes_reply || !seems_to_matter(name))
        serve_note_ignored(w->r, name);
    else if (!w->refused[0])
        snprintf(w->refused, sizeof w->refused, "%s", name);
}

static int hold(void *user, size_t n_bytes)
{
    const reading *w = user;
    return serve_hold(w->r, n_bytes);
}

static int check_known(const reading *w)
{
    return !w->refused[0] ||
           serve_fail(&w->r->error, SERVE_E_UNSUPPORTED, w->refused,
                      "%s: not supported: clef does not know it, and by its name it may change the reply",
                      w->refused);
}

static int read_body(serve_request *r, serve_params *p)
{
    reading w = {.r = r, .form = p->form};
    const serve_body_opts opts = {.wants = wants, .leaves = leaves, .hold = hold, .user = &w};
    char none[] = "";
    serve_body body;
    const char *name;
    json_t *value;
    const int ok = serve_body_read(r->body ? r->body : none, r->n_body, &opts, &body, &r->error);
    p->root = body.root;
    serve_drop_body(r);
    if (!ok || !check_known(&w) || !read_all(r, p, &body, p->root))
        return 0;
    if (p->options && !json_is_object(p->options))
        return serve_fail(&r->error, SERVE_E_INVALID_VALUE, "options", "options: expected an object, got %s",
                          serve_kind_of(p->options));
    json_object_foreach(p->options, name, value)
        if (!json_is_null(value) && !find_field(p->form, name))
            leaves(&w, name);
    return check_known(&w) && read_all(r, p, &body, p->options);
}

static void begin(const serve_request *r, serve_form form, serve_params *p)
{
    *p = (serve_params){.form = form,
                        .max_tokens = -1,
                        .dimensions = -1,
                        .text_logprobs = -1,
                        .n = 1,
                        .parallel = 1,
                        .truncate = 1,
                        .store = 1,
                        .timings = 1,
                        .parse_calls = 1,
                        .cache_prompt = 1,
                        .stream = (form & SERVE_FORM_OLLAMA) != 0,
                        .generation_prompt = -1,
                        .parse_special = 1,
                        .do_sample = 1,
                        .seed = r->s->o.seed.value,
                        .draws_seed = !r->s->o.seed.given,
                        .skip_special = 1,
                        .enable_thinking = -1,
                        .thinking_budget = r->s->o.thinking_budget,
                        .sampling = r->m->sampling};
}

int serve_params_read(serve_request *r, serve_form form, serve_params *p)
{
    begin(r, form, p);
    if (!read_body(r, p) || !check_together(r, p))
        return 0;
    clean_sampling(&p->sampling);
    p->sampling.seed = p->draws_seed ? cli_terminal_entropy() : p->seed;
    return 1;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The text of a part as the value that its field has. NULL: it is none, which read_field() then says. */
static json_t *value_of(const field *f, const serve_part *part)
{
    char text[40], *end = text;
    snprintf(text, sizeof text, "%.*s", part->n < sizeof text ? (int)part->n : 0, part->data);
    const double x = strtod(text, &end);
    if (f->type == BOOL && (!strcmp(text, "true") || !strcmp(text, "True") || !strcmp(text, "1")))
        return json_true();
    if (f->type == BOOL && (!strcmp(text, "false") || !strcmp(text, "False") || !strcmp(text, "0")))
        return json_false();
    if ((f->type == INT || f->type == NUMBER) && *text && !*end && isfinite(x))
        return json_real(x);
    return json_stringn(part->data, part->n);
}

static int add_part(reading *w, serve_params *p, const serve_part *part)
{
    serve_error *e = &w->r->error;
    const field *f = find_field(w->form, part->name);
    if (!strcmp(part->name, "file")) {
        if (p->file)
            return serve_fail(e, SERVE_E_INVALID_VALUE, "file", "file: expected one, got two");
        p->file = part;
        return 1;
    }
    if (!f) {
        leaves(w, part->name);
        return 1;
    }
    json_t *value = value_of(f, part), *list = json_object_get(p->root, part->name);
    if (!value)
        return serve_fail(e, SERVE_E_INVALID_VALUE, part->name, "%s: expected UTF-8", part->name);
    if (list && f->type != ANY) {
        json_decref(value);
        return serve_fail(e, SERVE_E_INVALID_VALUE, part->name, "%s: expected one, got two", part->name);
    }
    if (f->type != ANY) /* an empty field is as none: forms of browsers have them */
        return json_object_set_new(p->root, part->name,
                                   part->n ? value : (json_decref(value), json_null())) == 0;
    if (!list)
        json_object_set_new(p->root, part->name, list = json_array());
    return json_array_append_new(list, value) == 0;
}

int serve_params_read_parts(serve_request *r, serve_form form, serve_parts *parts, serve_params *p)
{
    reading w = {.r = r, .form = form};
    serve_body body = {.root = json_object()};
    begin(r, form, p);
    p->root = body.root;
    p->sampling.temperature = 0;
    if (!p->root || !serve_multipart_read(r->body ? r->body : "", r->n_body, r->boundary, parts, &r->error))
        return p->root ? 0 : serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    for (int32_t i = 0; i < parts->n; i++)
        if (!add_part(&w, p, &parts->items[i]))
            return serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory"); /* if nothing else */
    return check_known(&w) && read_all(r, p, &body, p->root);
}

void serve_params_shrink(serve_request *r, serve_params *p)
{
    json_t *kept = json_pack("[O?, O?]", p->stop, p->fields);
    json_decref(p->last_parts);
    p->last_parts = NULL;
    json_decref(p->root); /* the pictures stay: their run needs them */
    p->root = kept;
    p->messages = p->prompt = p->input = p->stop_ids = p->stream_options = p->dry_breakers = NULL;
    p->samplers = p->logit_bias = p->allowed_ids = p->response_format = p->json_schema = p->format =
        p->structured = NULL;
    p->choice = p->tools = p->tool_choice = p->kwargs = p->lora = p->content = p->tokens = NULL;
    p->query = p->documents = p->texts = p->system = p->thinking = p->output = NULL;
    p->suffix = p->input_prefix = p->extra = p->images = NULL;
    p->text = p->options = p->reasoning = p->metadata = p->include = NULL;
    p->instructions = p->previous = p->truncation = NULL;
    p->model = p->encoding_format = p->grammar = p->regex = p->reasoning_effort = p->reasoning_format = NULL;
    p->cache_salt = p->cache_key = NULL;
    serve_let_all_but(r, serve_images_bytes(p));
}

void serve_params_finish(serve_params *p)
{
    json_decref(p->last_parts);
    json_decref(p->root);
    p->last_parts = NULL;
    cli_prompt_pictures_close(&p->pictures);
    p->root = NULL;
}

/* ---- the list -------------------------------------------------------------------------------- */

static void list_range(const field *f, FILE *to)
{
    static const char *const types[] = {"boolean",   "integer", "number",  "integer", "string",
                                        "see below", "ignored", "refused", "refused"};
    fputs(types[f->type], to);
    if (f->type == INT && f->hi > 2e9)
        fprintf(to, " from %.0f", f->lo);
    else if (f->type == INT || f->type == NUMBER)
        fprintf(to, " %g to %g", f->lo, f->hi);
}

void serve_fields_list(FILE *to)
{
    static const char *const forms[] = {"chat",         "completions",    "embeddings", "tokenize",
                                        "detokenize",   "apply-template", "rerank",     "messages",
                                        "count_tokens", "responses",      "Ollama",     "show",
                                        "infill",       "transcriptions", "completion", "Ollama's embed"};
    fputs("| field | of | type | default | |\n|---|---|---|---|---|\n", to);
    for (int i = 0; i < N_FIELDS; i++) {
        const field *f = &fields[i];
        const char *comma = "";
        fprintf(to, "| `%s` | ", f->name);
        for (int k = 0; k < (int)(sizeof forms / sizeof *forms); k++)
            if (f->where >> k & 1) {
                fprintf(to, "%s%s", comma, forms[k]);
                comma = ", ";
            }
        fputs(" | ", to);
        if (f->type == ANY)
            fputs("JSON", to);
        else
            list_range(f, to);
        if (f->type == ONLY_FIELD)
            fprintf(to, " but for one of `%s`", f->otherwise);
        fprintf(to, " | %s | %s |\n", f->type == ONLY_FIELD ? "" : f->otherwise, f->help);
    }
}
