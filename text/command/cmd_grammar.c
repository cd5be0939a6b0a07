/* clef grammar: compiles a constraint, and says which texts it allows. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "clef/clef.h"
#include "tools/cli/cli.h"
#include "tools/cli/common.h"
#include "tools/cli/json.h"
#include "tools/cli/terminal.h"
#include "tools/constraint.h"

enum { REJECTED = 1, INCOMPLETE = 3 };

typedef struct grammar_options {
    cli_constraint source;
    const char *cases, *bench, *tools, *tool_format, *tool_choice;
    int32_t check, print, ordered;
} grammar_options;

static const grammar_options grammar_defaults = {.check = 0};

/* clang-format off */
#define AT(field) .offset = offsetof(grammar_options, field)
static const cli_option grammar_option_table[] = {
    CLI_CONSTRAINT_OPTIONS(offsetof(grammar_options, source)),
    {.names = "tools", .type = CLI_TEXT, .value = "FILE", AT(tools),
     .help = "calls of these tools: OpenAI's tools, a JSON array; needs --tool-format"},
    {.names = "tool-format", .type = CLI_TEXT, .value = "NAME", AT(tool_format),
     .help = "how the calls are written"},
    {.names = "tool-choice", .type = CLI_TEXT, .value = "CHOICE", AT(tool_choice),
     .help = "auto: text or calls; required: only calls; or the name of a function [auto]"},
    {.type = CLI_HEADING, .names = "", .help = "What is asked"},
    {.names = "check", .type = CLI_SWITCH, AT(check),
     .help = "judge each TEXT: accepted, rejected at byte N, or incomplete; exit 0, 1 or 3"},
    {.names = "print", .type = CLI_SWITCH, AT(print),
     .help = "print what was compiled"},
    {.names = "cases", .type = CLI_TEXT, .value = "FILE", AT(cases),
     .help = "judge the texts of many constraints: lines {\"schema\"|\"gbnf\"|\"regex\": …, \"tests\": "
             "[\"text\", …]}. Answers are lines {\"ok\": [true, …]} or {\"error\": {\"path\", \"keyword\", "
             "\"message\"}}. Members may come in any order"},
    {.names = "ordered", .type = CLI_SWITCH, AT(ordered),
     .help = "with --cases: texts are as they are generated, members in the order of the schema"},
    {.names = "bench", .type = CLI_TEXT, .value = "MODEL", AT(bench),
     .help = "with --cases: print the times of compiling and of masks over this model's vocabulary"},
    {.names = NULL},
};
/* clang-format on */

/* ---- --check --------------------------------------------------------------------------------- */

static clef_status judge(clef_constraint *c, const char *text, size_t n, size_t *n_read, int *complete,
                         clef_error *err)
{
    clef_constraint_state state;
    clef_status s = clef_constraint_begin(c, &state, err);
    if (!s)
        s = clef_constraint_read(c, &state, text, n, n_read, err);
    *complete = !s && *n_read == n && clef_constraint_may_end(c, &state);
    return s;
}

static int check(clef_constraint *c, int32_t n_texts, char **texts)
{
    int rc = CLI_OK;
    for (int32_t i = 0; i < n_texts; i++) {
        const size_t n = strlen(texts[i]);
        size_t n_read = 0;
        int complete = 0;
        clef_error err = {0};
        if (judge(c, texts[i], n, &n_read, &complete, &err))
            return cli_report(&err);
        if (n_read < n)
            printf("rejected at byte %zu\n", n_read);
        else
            puts(complete ? "accepted" : "incomplete");
        const int this = n_read < n ? REJECTED : complete ? CLI_OK : INCOMPLETE;
        rc = rc == REJECTED || this == CLI_OK ? rc : this;
    }
    return rc;
}

/* ---- --cases --------------------------------------------------------------------------------- */

typedef struct times {
    double *at;
    size_t n, room;
} times;

typedef struct bench {
    clef_token_trie *trie;
    clef_tokenizer *tok;
    uint32_t *mask;
    times compile, masks;
} bench;

static void add_time(times *t, double seconds)
{
    if (t->n == t->room) {
        const size_t room = t->room ? t->room * 2 : 1024;
        double *grown = realloc(t->at, room * sizeof *grown);
        if (!grown)
            return;
        t->at = grown;
        t->room = room;
    }
    t->at[t->n++] = seconds;
}

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, times *t, double unit, const char *unit_name)
{
    static const double parts[] = {0.5, 0.9, 0.99, 0.999, 1};
    static const char *const names[] = {"p50", "p90", "p99", "p99.9", "max"};
    qsort(t->at, t->n, sizeof *t->at, order);
    printf("%s: %zu", name, t->n);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && t->n; i++) {
        const size_t k = (size_t)(parts[i] * (double)(t->n - 1));
        printf(", %s %.3f %s", names[i], t->at[k] * unit, unit_name);
    }
    puts("");
}

/* Masks along a text's tokens, as a model that writes it would need them. */
static void time_masks(bench *b, clef_constraint *c, const char *text, size_t n)
{
    clef_constraint_state state;
    clef_error err = {0};
    int32_t *ids = NULL, n_ids = 0;
    clef_status s = clef_constraint_begin(c, &state, &err);
    if (!s)
        s = clef_tokenizer_encode(b->tok, text, n, CLEF_SPECIAL_NONE, &ids, &n_ids, &err);
    for (int32_t i = 0; i <= n_ids && !s; i++) {
        const double begin = cli_terminal_seconds();
        s = clef_constraint_mask(c, b->trie, &state, b->mask, &err);
        add_time(&b->masks, cli_terminal_seconds() - begin);
        if (!s && i < n_ids)
            s = clef_constraint_accept(c, b->trie, &state, ids[i], &err);
    }
    clef_tokens_free(ids);
}

static clef_status compile_case(const json_t *line, int ordered, clef_constraint **out,
                                clef_constraint_problem *problem, clef_error *err)
{
    const json_t *schema = json_object_get(line, "schema"), *gbnf = json_object_get(line, "gbnf");
    const json_t *regex = json_object_get(line, "regex");
    const clef_constraint_opts opts = {.any_order = !ordered};
    if (!schema && !json_is_string(gbnf) && !json_is_string(regex))
        return cli_error(err, CLEF_E_FORMAT, "expected a member schema, gbnf or regex");
    if (!schema) {
        const json_t *text = gbnf ? gbnf : regex;
        return clef_constraint_create(gbnf ? CLEF_CONSTRAIN_GBNF : CLEF_CONSTRAIN_REGEX,
                                      json_string_value(text), json_string_length(text), &opts, out, problem,
                                      err);
    }
    char *text = json_dumps(schema, JSON_ENCODE_ANY | JSON_COMPACT);
    const clef_status s =
        text ? clef_constraint_create(CLEF_CONSTRAIN_SCHEMA, text, strlen(text), &opts, out, problem, err)
             : cli_error(err, CLEF_E_NOMEM, "out of host memory");
    free(text);
    return s;
}

static void print_error(const clef_constraint_problem *problem, const clef_error *err)
{
    printf("{\"error\": {\"path\": ");
    cli_json_string(stdout, problem->path);
    printf(", \"keyword\": ");
    cli_json_string(stdout, problem->keyword);
    printf(", \"message\": ");
    cli_json_string(stdout, err->text);
    puts("}}");
}

static void run_case(const json_t *line, const grammar_options *o, bench *b)
{
    clef_constraint *c = NULL;
    clef_constraint_problem problem = {{0}, {0}};
    clef_error err = {0};
    const double begin = cli_terminal_seconds();
    clef_status s = compile_case(line, o->ordered || b, &c, &problem, &err);
    if (b)
        add_time(&b->compile, cli_terminal_seconds() - begin);
    const json_t *tests = json_object_get(line, "tests"), *test;
    size_t i;
    if (!s && !b)
        printf("{\"ok\": [");
    json_array_foreach(tests, i, test) {
        size_t n_read = 0;
        int complete = 0;
        if (s)
            break;
        const char *text = json_is_string(test) ? json_string_value(test) : "";
        if (b)
            time_masks(b, c, text, json_string_length(test));
        else if (!judge(c, text, json_string_length(test), &n_read, &complete, &err))
            printf("%s%s", i ? ", " : "", complete ? "true" : "false");
        else
            printf("%sfalse", i ? ", " : "");
    }
    if (s && !b)
        print_error(&problem, &err);
    else if (!b)
        puts("]}");
    clef_constraint_destroy(c);
}

/* A line that is not JSON, or has an integer of more than 64 bits, is an answer too: one for each line. */
static void print_unread(size_t line_number, const char *why)
{
    const clef_constraint_problem problem = {"", "JSON"};
    clef_error err = {0};
    cli_error(&err, CLEF_E_FORMAT, "line %zu: %.120s", line_number, why);
    print_error(&problem, &err);
}

static int run_cases(const grammar_options *o, bench *b)
{
    char *text = NULL;
    size_t n = 0, line_number = 0;
    int rc = cli_read_file(o->cases, &text, &n);
    if (rc != CLI_GO_ON)
        return rc;
    rc = CLI_OK;
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t size = end ? (size_t)(end - text) - at : n - at;
        json_error_t problem;
        line_number++;
        if (size && strspn(text + at, " \t\r") < size) {
            json_t *line = json_loadb(text + at, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
            if (line)
                run_case(line, o, b);
            else if (!b)
                print_unread(line_number, problem.text);
            json_decref(line);
        }
        at += size + 1;
    }
    free(text);
    return rc;
}

static int run_bench(const grammar_options *o)
{
    bench b = {.trie = NULL};
    clef_error err = {0};
    clef_status s = clef_tokenizer_open(o->bench, &b.tok, &err);
    const int32_t end = s ? -1 : clef_tokenizer_eos(b.tok);
    if (!s)
        s = clef_token_trie_create(b.tok, &end, end >= 0, &b.trie, &err);
    if (!s) {
        b.mask = malloc((size_t)clef_token_trie_mask_words(b.trie) * sizeof *b.mask);
        s = b.mask ? CLEF_OK : cli_error(&err, CLEF_E_NOMEM, "grammar: out of host memory");
    }
    int rc = s ? cli_report(&err) : run_cases(o, &b);
    if (rc == CLI_OK) {
        print_times("compile", &b.compile, 1e3, "ms");
        print_times("mask", &b.masks, 1e6, "us");
    }
    free(b.compile.at);
    free(b.masks.at);
    free(b.mask);
    clef_token_trie_destroy(b.trie);
    clef_tokenizer_close(b.tok);
    return rc;
}

static int print(const clef_constraint *c)
{
    char *text = NULL;
    size_t n = 0;
    clef_error err = {0};
    const clef_status s = clef_constraint_describe(c, &text, &n, &err);
    if (!s)
        fwrite(text, 1, n, stdout);
    clef_text_free(text);
    return s ? cli_report(&err) : CLI_OK;
}

static int open_tools(const grammar_options *o, clef_constraint **out)
{
    clef_tool_constraint_opts opts = {.parallel = 1};
    char *tools = NULL;
    clef_error err = {0};
    if (cli_constraint_given(&o->source))
        return cli_fail(CLI_USAGE, "grammar: --tools excludes other constraints");
    if (o->tool_format && clef_tool_format_find(o->tool_format, &opts.format, &err) != CLEF_OK)
        return cli_report(&err);
    int rc = cli_read_file(o->tools, &tools, &opts.tools_bytes);
    opts.tools = tools;
    cli_tool_choice(o->tool_choice, &opts);
    if (rc == CLI_GO_ON)
        rc = cli_tool_constraint_open(&opts, out);
    free(tools);
    return rc;
}

static int grammar_run(const void *options, int32_t n_args, char **args)
{
    const grammar_options *o = options;
    clef_constraint *c = NULL;
    if (o->cases)
        return o->bench ? run_bench(o) : run_cases(o, NULL);
    if (o->bench)
        return cli_fail(CLI_USAGE, "grammar --bench: expected --cases FILE");
    const int rc = o->tools ? open_tools(o, &c) : cli_constraint_open(&o->source, "grammar", NULL, &c);
    if (rc != CLI_GO_ON)
        return rc;
    if (!c)
        return cli_fail(CLI_USAGE,
                        "grammar: expected --grammar, --json-schema, --json, --regex, --choice or --cases");
    int result = CLI_OK;
    if (o->print)
        result = print(c);
    if (o->check && result == CLI_OK)
        result = check(c, n_args, args);
    else if (n_args)
        result = cli_fail(CLI_USAGE, "grammar: unexpected '%.40s'; texts are judged with --check", args[0]);
    clef_constraint_destroy(c);
    return result;
}

const cli_command cli_command_grammar = {
    .name = "grammar",
    .usage = "--json-schema FILE [--check TEXT…] | --cases FILE",
    .summary = "Compile a constraint on generated text, and say which texts it allows",
    .notes = "Without --check and --print, it only says whether the constraint can be held: exit 0 or 1.\n",
    .options = grammar_option_table,
    .max_args = 1000,
    .defaults = &grammar_defaults,
    .options_bytes = sizeof(grammar_options),
    .run = grammar_run,
};
