/* The commands of a chat, a table. */
#include "tools/chat/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/output.h"

extern const cli_command cli_command_chat;

typedef struct command {
    const char *name, *value, *help;
    chat_next (*run)(talk *t, const char *rest);
} command;

static chat_next show_help(talk *t, const char *rest);

static chat_next set_system(talk *t, const char *rest)
{
    if (talk_system(t, rest) == CLI_GO_ON)
        fprintf(stderr, "clef: %s\n", *rest ? "the system message is set" : "there is no system message");
    return CHAT_NEXT;
}

static chat_next undo(talk *t, const char *rest)
{
    (void)rest;
    const size_t before = json_array_size(t->messages);
    if (talk_undo(t))
        fprintf(stderr, "clef: %zu messages removed, %zu left\n", before - json_array_size(t->messages),
                json_array_size(t->messages));
    else
        fprintf(stderr, "clef: there is no turn to undo\n");
    return CHAT_NEXT;
}

/* Removes what follows the user's last message, and asks again. */
static chat_next again(talk *t, const char *rest)
{
    (void)rest;
    size_t n = json_array_size(t->messages);
    while (n > 0 &&
           strcmp(json_string_value(json_object_get(json_array_get(t->messages, n - 1), "role")), "user"))
        n--;
    if (n == 0) {
        fprintf(stderr, "clef: there is no message to answer again\n");
        return CHAT_NEXT;
    }
    while (json_array_size(t->messages) > n)
        json_array_remove(t->messages, n);
    t->n_answers++;
    return CHAT_ANSWER;
}

static chat_next show_image(talk *t, const char *rest)
{
    if (!*rest)
        fprintf(stderr, "clef: expected /image FILE\n");
    else if (talk_show(t, rest) == CLI_GO_ON)
        fprintf(stderr, "clef: the picture goes with your next message\n");
    return CHAT_NEXT;
}

static chat_next reset(talk *t, const char *rest)
{
    (void)rest;
    const json_t *first = json_array_get(t->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    const size_t keep = role && !strcmp(role, "system");
    while (json_array_size(t->messages) > keep)
        json_array_remove(t->messages, json_array_size(t->messages) - 1);
    talk_forget(t, 0);
    fprintf(stderr, "clef: the conversation is empty%s\n", keep ? " but for the system message" : "");
    return CHAT_NEXT;
}

static clef_status write_messages(void *user, FILE *to, clef_error *err)
{
    const talk *t = user;
    if (json_dumpf(t->messages, to, JSON_INDENT(1)) != 0 || fputc('\n', to) == EOF)
        return cli_error(err, CLEF_E_IO, "chat: the messages cannot be written");
    return CLEF_OK;
}

static chat_next save(talk *t, const char *rest)
{
    clef_error err = {0};
    if (!*rest)
        fprintf(stderr, "clef: expected /save FILE\n");
    else if (cli_output(rest, write_messages, t, &err) != CLEF_OK)
        cli_report(&err);
    else
        fprintf(stderr, "clef: %zu messages saved to %s\n", json_array_size(t->messages), rest);
    return CHAT_NEXT;
}

/* Returns NULL, or what is wrong with a list of messages. */
static const char *check_messages(const json_t *list)
{
    const json_t *m;
    size_t i;
    if (!json_is_array(list))
        return "expected a list of messages";
    json_array_foreach(list, i, m)
        if (!json_is_string(json_object_get(m, "role")))
            return "a message without a role";
    return NULL;
}

static int has_images(const json_t *messages)
{
    const json_t *message, *part;
    size_t i, k;
    json_array_foreach(messages, i, message)
        json_array_foreach(json_object_get(message, "content"), k, part)
            if (!json_object_get(part, "text"))
                return 1;
    return 0;
}

static chat_next load(talk *t, const char *rest)
{
    char *text = NULL;
    size_t n = 0;
    json_error_t problem;
    if (!*rest) {
        fprintf(stderr, "clef: expected /load FILE\n");
        return CHAT_NEXT;
    }
    if (cli_read_file(rest, &text, &n) != CLI_GO_ON)
        return CHAT_NEXT;
    json_t *list = json_loadb(text, n, JSON_REJECT_DUPLICATES, &problem);
    const char *why = !list              ? problem.text
                      : has_images(list) ? "it has pictures, which are not in the file"
                                         : check_messages(list);
    free(text);
    if (why) {
        fprintf(stderr, "clef: %s: %s\n", rest, why);
        json_decref(list);
        return CHAT_NEXT;
    }
    json_decref(t->messages);
    t->messages = list;
    talk_forget(t, 0);
    fprintf(stderr, "clef: %zu messages loaded\n", json_array_size(list));
    return CHAT_NEXT;
}

/* /set NAME VALUE takes the flags of sampling, and a few others, by the table of the command. */
static int may_set(const cli_option *option)
{
    static const char *const names[] = {"n-predict", "thinking", "drop-oldest", NULL};
    for (size_t i = 0; names[i]; i++)
        if (!strncmp(option->names, names[i], strlen(names[i])))
            return 1;
    return option->offset >= offsetof(chat_options, sampling) &&
           option->offset < offsetof(chat_options, sampling) + sizeof(cli_sampling);
}

static const cli_option *find_option(const char *name, size_t n)
{
    for (const cli_option *o = cli_command_chat.options; o->names; o++)
        for (const char *at = o->names; *at; at += strcspn(at, ","), at += *at == ',')
            if (o->type != CLI_HEADING && strcspn(at, ",") == n && !strncmp(at, name, n))
                return o;
    return NULL;
}

static chat_next set(talk *t, const char *rest)
{
    const size_t n = strcspn(rest, " =");
    const char *value = rest + n + strspn(rest + n, " =");
    char flag[64], *given = talk_keep_text(t, value);
    chat_options changed = t->o;
    cli_sampler sampling = {.cap_breakers = 0};
    const cli_option *option = n && n < sizeof flag - 3 ? find_option(rest, n) : NULL;
    if (!option || !may_set(option) || (!*value && option->type != CLI_SWITCH)) {
        fprintf(stderr, "clef: expected /set NAME VALUE with a flag of sampling, n-predict, thinking or "
                        "drop-oldest; `clef help chat --all` lists them\n");
        return CHAT_NEXT;
    }
    snprintf(flag, sizeof flag, "--%.*s", (int)n, rest);
    char *argv[] = {flag, given, NULL};
    int32_t n_args = 0;
    if (!given || cli_parse(&cli_command_chat, option->type == CLI_SWITCH ? 1 : 2, argv, &changed, &n_args) !=
                      CLI_GO_ON)
        return CHAT_NEXT;
    if (cli_sampler_make(&changed.sampling, "chat", t->model, &sampling) != CLI_GO_ON) {
        cli_sampler_finish(&sampling);
        return CHAT_NEXT;
    }
    cli_sampler_finish(&t->sampling);
    t->sampling = sampling;
    t->o = changed;
    fprintf(stderr, "clef: %s is %s\n", flag + 2, option->type == CLI_SWITCH ? "on" : given);
    return CHAT_NEXT;
}

static chat_next prompt(talk *t, const char *rest)
{
    clef_rendered text = {0};
    clef_error err = {0};
    (void)rest;
    if (talk_render(t, &text, &err) == CLEF_OK) {
        fwrite(text.text, 1, text.n_bytes, stdout);
        fputs("\n", stdout);
        fflush(stdout);
    } else {
        cli_report(&err);
    }
    clef_rendered_finish(&text);
    return CHAT_NEXT;
}

static chat_next stats(talk *t, const char *rest)
{
    (void)rest;
    talk_print_stats(t);
    return CHAT_NEXT;
}

static chat_next leave(talk *t, const char *rest)
{
    (void)t;
    (void)rest;
    return CHAT_EXIT;
}

static const command commands[] = {
    {"help", "", "this list", show_help},
    {"system", "TEXT", "set the system message; without TEXT remove it", set_system},
    {"undo", "", "remove your last message and its answer", undo},
    {"again", "", "answer your last message again", again},
    {"image", "FILE", "a picture for your next message", show_image},
    {"reset", "", "forget the conversation, but for the system message", reset},
    {"save", "FILE", "write the messages as JSON", save},
    {"load", "FILE", "continue with the messages of a file", load},
    {"set", "NAME VALUE", "change a flag of sampling, n-predict, thinking or drop-oldest", set},
    {"prompt", "", "print the text that the model is given", prompt},
    {"stats", "", "print the size of the conversation, and times", stats},
    {"exit", "", "end; so does Ctrl-D", leave},
};

static chat_next show_help(talk *t, const char *rest)
{
    (void)t;
    (void)rest;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(stderr, "  /%-7s%-11s %s\n", commands[i].name, commands[i].value, commands[i].help);
    fprintf(stderr, "Ctrl-C ends an answer. Lines between \"\"\" and \"\"\", or that end with \\, are one "
                    "message.\n");
    return CHAT_NEXT;
}

chat_next chat_command(talk *t, const char *line)
{
    const size_t n = strcspn(line + 1, " ");
    const char *rest = line + 1 + n + strspn(line + 1 + n, " ");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strlen(commands[i].name) == n && !strncmp(commands[i].name, line + 1, n))
            return commands[i].run(t, rest);
    fprintf(stderr, "clef: no command /%.*s; /help lists them\n", (int)(n < 40 ? n : 40), line + 1);
    return CHAT_NEXT;
}
