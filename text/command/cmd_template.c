/* clef template: the text that a model expects of a conversation; and back, the message that its answer is.
 */
#include <stdlib.h>
#include <string.h>

#include "clef/template.h"
#include "tools/cli/common.h"
#include "tools/cli/json.h"

typedef struct template_options {
    const char *messages, *tools, *template, *date, *parse, *tool_format;
    cli_list args;
    int32_t no_generation_prompt, join_parts, parts, ids, special_in_content, starts_thinking;
} template_options;

static const template_options template_defaults = {0};

/* clang-format off */
#define AT(field) .offset = offsetof(template_options, field)
static const cli_option template_option_table[] = {
    {.names = "messages", .type = CLI_TEXT, .value = "FILE", AT(messages),
     .help = "the conversation: OpenAI's messages, a JSON array"},
    {.names = "tools", .type = CLI_TEXT, .value = "FILE", AT(tools),
     .help = "the tools that the model may call: OpenAI's tools, a JSON array"},
    {.names = "template", .type = CLI_TEXT, .value = "NAME|FILE", AT(template),
     .help = "another template than the model's: one of its templates, a built-in one, a file, "
             "or the template itself",
     .choice = clef_template_builtin_name},
    {.names = "arg", .type = CLI_LIST, .value = "KEY=JSON", AT(args),
     .help = "a variable of the template, such as enable_thinking=false; may be repeated"},
    {.names = "no-generation-prompt", .type = CLI_SWITCH, AT(no_generation_prompt),
     .help = "end with the last message, without the start of an answer"},
    {.names = "join-parts", .type = CLI_SWITCH, AT(join_parts),
     .help = "join a content of several text parts by line ends, for templates that know only texts"},
    {.names = "date", .type = CLI_TEXT, .value = "YYYY-MM-DD", AT(date),
     .help = "the date that the template sees [today]"},
    {.names = "parts", .type = CLI_SWITCH, AT(parts),
     .help = "print JSON: the pieces of the text, and whether each came from the template or a message"},
    {.names = "ids", .type = CLI_SWITCH, AT(ids),
     .help = "print the token ids as a JSON list. Text from messages gives no special token"},
    {.names = "special-in-content", .type = CLI_SWITCH, AT(special_in_content),
     .help = "with --ids: special tokens that a message writes count, as in transformers"},
    {.type = CLI_HEADING, .names = "", .help = "An answer"},
    {.names = "parse", .type = CLI_TEXT, .value = "FILE", AT(parse),
     .help = "read a model's answer, and print the message: content, reasoning, tool calls"},
    {.names = "tool-format", .type = CLI_TEXT, .value = "NAME", AT(tool_format),
     .help = "how the model writes tool calls [by its template]"},
    {.names = "starts-thinking", .type = CLI_SWITCH, AT(starts_thinking),
     .help = "the prompt ended with the tag that opens reasoning"},
    {.names = NULL},
};
/* clang-format on */

static void print_parts(clef_rendered *text)
{
    putchar('[');
    for (int32_t i = 0; i < text->n_parts; i++) {
        const clef_template_part *part = &text->parts[i];
        printf("%s{\"from\": \"%s\", \"text\": ", i ? ",\n " : "",
               part->from_message ? "message" : "template");
        const char next = text->text[part->end];
        text->text[part->end] = '\0'; /* which cli_json_text() wants */
        cli_json_text(stdout, text->text + part->begin, part->end - part->begin);
        text->text[part->end] = next;
        putchar('}');
    }
    puts("]");
}

static clef_status print_ids(const clef_rendered *text, const char *model, int special_in_content,
                             clef_error *err)
{
    clef_tokenizer *tok = NULL;
    int32_t *ids = NULL, n = 0;
    size_t n_spans = 0;
    clef_byte_span *spans = malloc(((size_t)text->n_parts + 1) * sizeof *spans);
    if (!spans)
        return cli_error(err, CLEF_E_NOMEM, "template: out of host memory");
    for (int32_t i = 0; i < text->n_parts && !special_in_content; i++)
        if (text->parts[i].from_message)
            spans[n_spans++] = (clef_byte_span){text->parts[i].begin, text->parts[i].end};
    clef_status s = clef_tokenizer_open(model, &tok, err);
    if (!s)
        s = clef_tokenizer_encode_plain(tok, text->text, text->n_bytes, spans, n_spans, &ids, &n, err);
    if (!s)
        s = cli_begin_with_bos(model, tok, &ids, &n, err);
    if (!s) {
        cli_json_ints(stdout, ids, n);
        putchar('\n');
    }
    clef_tokens_free(ids);
    clef_tokenizer_close(tok);
    free(spans);
    return s;
}

/* Splits KEY=JSON; the key is copied to `name`. */
static int read_arg(const char *text, char name[64], clef_template_arg *out)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || equals - text >= 64)
        return cli_fail(CLI_USAGE, "template --arg: expected KEY=JSON, got '%.60s'", text);
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    *out = (clef_template_arg){.name = name, .json = equals + 1};
    return CLI_OK;
}

static int render(const template_options *o, clef_template_opts *opts)
{
    char names[CLI_MAX_LIST][64];
    clef_template_arg args[CLI_MAX_LIST];
    clef_template *tpl = NULL;
    clef_rendered text = {0};
    clef_error err = {0};
    for (int32_t i = 0; i < o->args.n; i++) {
        const int rc = read_arg(o->args.items[i], names[i], &args[i]);
        if (rc)
            return rc;
    }
    opts->args = args;
    opts->n_args = o->args.n;
    clef_status s = clef_template_open(opts->model, o->template, o->tools != NULL, &tpl, &err);
    if (!s)
        s = clef_template_render(tpl, opts, &text, &err);
    if (!s && o->ids)
        s = print_ids(&text, opts->model, o->special_in_content, &err);
    else if (!s && o->parts)
        print_parts(&text);
    else if (!s)
        fwrite(text.text, 1, text.n_bytes, stdout);
    clef_rendered_finish(&text);
    clef_template_destroy(tpl);
    return s ? cli_report(&err) : CLI_OK;
}

/* ---- answers ---------------------------------------------------------------------------------- */

/* A message that is put together. */
typedef struct message {
    char *text[2]; /* by kind: content, reasoning */
    size_t n[2];
    clef_tool_call *calls; /* their strings are owned */
    int32_t n_calls;
} message;

static char *copy_text(const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

static clef_status add_call(message *m, const clef_tool_call *call)
{
    clef_tool_call *grown = realloc(m->calls, (size_t)(m->n_calls + 1) * sizeof *grown);
    if (!grown)
        return CLEF_E_NOMEM;
    m->calls = grown;
    clef_tool_call *own = &grown[m->n_calls++];
    *own = (clef_tool_call){copy_text(call->id), copy_text(call->name), copy_text(call->arguments)};
    return own->id && own->name && own->arguments ? CLEF_OK : CLEF_E_NOMEM;
}

static clef_status add_part(void *user, const clef_reply_part *part)
{
    message *m = user;
    if (part->kind == CLEF_REPLY_CALL)
        return add_call(m, &part->call);
    char *grown = realloc(m->text[part->kind], m->n[part->kind] + part->n_bytes + 1);
    if (!grown)
        return CLEF_E_NOMEM;
    memcpy(grown + m->n[part->kind], part->text, part->n_bytes);
    m->text[part->kind] = grown;
    m->n[part->kind] += part->n_bytes;
    grown[m->n[part->kind]] = '\0';
    return CLEF_OK;
}

static void message_free(message *m)
{
    for (int32_t i = 0; i < m->n_calls; i++) {
        free((char *)m->calls[i].id);
        free((char *)m->calls[i].name);
        free((char *)m->calls[i].arguments);
    }
    free(m->calls);
    free(m->text[0]);
    free(m->text[1]);
}

static void print_message(const message *m)
{
    printf("{\"role\": \"assistant\",\n \"content\": ");
    if (m->text[CLEF_REPLY_CONTENT])
        cli_json_text(stdout, m->text[CLEF_REPLY_CONTENT], m->n[CLEF_REPLY_CONTENT]);
    else
        printf("null");
    if (m->text[CLEF_REPLY_REASONING]) {
        printf(",\n \"reasoning_content\": ");
        cli_json_text(stdout, m->text[CLEF_REPLY_REASONING], m->n[CLEF_REPLY_REASONING]);
    }
    for (int32_t i = 0; i < m->n_calls; i++) {
        printf(i ? ",\n  {\"id\": " : ",\n \"tool_calls\": [\n  {\"id\": ");
        cli_json_string(stdout, m->calls[i].id);
        printf(", \"type\": \"function\", \"function\": {\"name\": ");
        cli_json_string(stdout, m->calls[i].name);
        printf(", \"arguments\": ");
        cli_json_string(stdout, m->calls[i].arguments);
        printf("}}");
    }
    puts(m->n_calls ? "]}" : "}");
}

/* The format that is named, or that the template writes. */
static clef_status find_format(const template_options *o, const char *model, clef_tool_format *out,
                               clef_error *err)
{
    clef_template *tpl = NULL;
    size_t n;
    *out = CLEF_TOOLS_NONE;
    if (o->tool_format)
        return clef_tool_format_find(o->tool_format, out, err);
    const clef_status s = clef_template_open(model, o->template, 1, &tpl, err);
    if (s)
        return s;
    const char *source = clef_template_source(tpl, &n);
    *out = clef_tool_format_of_template(source, n);
    clef_template_destroy(tpl);
    return CLEF_OK;
}

static clef_status read_answer(const clef_reply_opts *opts, const char *text, size_t n, message *m,
                               clef_error *err)
{
    clef_reply_reader *reader = NULL;
    clef_status s = clef_reply_reader_create(opts, &reader, err);
    if (!s)
        s = clef_reply_read(reader, text, n, add_part, m, err);
    if (!s)
        s = clef_reply_end(reader, add_part, m, err);
    clef_reply_reader_destroy(reader);
    return s;
}

static int parse_answer(const template_options *o, const char *model, const char *tools, size_t tools_bytes)
{
    char *text = NULL;
    size_t n = 0;
    message m = {.n_calls = 0};
    clef_error err = {0};
    clef_reply_opts opts = {
        .tools = tools, .tools_bytes = tools_bytes, .starts_thinking = o->starts_thinking};
    int rc = cli_read_file(o->parse, &text, &n);
    if (rc != CLI_GO_ON)
        return rc;
    clef_status s = find_format(o, model, &opts.format, &err);
    if (!s)
        s = read_answer(&opts, text, n, &m, &err);
    if (s == CLEF_E_NOMEM && !err.status)
        cli_error(&err, s, "template: out of host memory");
    if (!s)
        print_message(&m);
    message_free(&m);
    free(text);
    return s ? cli_report(&err) : CLI_OK;
}

static int template_run(const void *options, int32_t n_args, char **args)
{
    const template_options *o = options;
    char *messages = NULL, *tools = NULL;
    clef_template_opts opts = {.model = n_args ? args[0] : NULL,
                               .no_generation_prompt = o->no_generation_prompt,
                               .join_parts = o->join_parts,
                               .date = o->date};
    if (!o->messages == !o->parse)
        return cli_fail(CLI_USAGE, "template: expected either --messages FILE or --parse FILE");
    if (o->ids && (!n_args || o->parts || o->parse))
        return cli_fail(CLI_USAGE, n_args ? "template --ids: excludes --parts and --parse"
                                          : "template --ids: expected MODEL, whose tokenizer is used");
    int rc = o->parse ? CLI_GO_ON : cli_read_file(o->messages, &messages, &opts.messages_bytes);
    if (rc == CLI_GO_ON && o->tools)
        rc = cli_read_file(o->tools, &tools, &opts.tools_bytes);
    opts.messages = messages;
    opts.tools = tools;
    if (rc == CLI_GO_ON)
        rc = o->parse ? parse_answer(o, opts.model, tools, opts.tools_bytes) : render(o, &opts);
    free(messages);
    free(tools);
    return rc;
}

const cli_command cli_command_template = {
    .name = "template",
    .usage = "[MODEL] --messages FILE | --parse FILE [options]",
    .summary = "Print the text that a model expects of a conversation, or read its answer",
    .notes = "The template is the model's own, or the one that --template names. Without either there is an "
             "error.\n",
    .options = template_option_table,
    .max_args = 1,
    .defaults = &template_defaults,
    .options_bytes = sizeof(template_options),
    .run = template_run,
};
