/* clef chat: a conversation with a model, by its own template. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/adapters.h"
#include "tools/chat/commands.h"
#include "tools/chat/talk.h"
#include "tools/cli/common.h"
#include "tools/cli/terminal.h"

static const chat_options chat_defaults = {
    .pin = CLEF_PIN_AUTO,
    .n_predict = -1,
    .n_context = -1,
    .n_batch = 512,
    .thinking_budget = -1,
    .sampling = CLI_SAMPLING_DEFAULTS,
};

static const char *const thinking_names[] = {"show", "hide", "off", NULL};

/* clang-format off */
#define AT(field) .offset = offsetof(chat_options, field)
static const cli_option chat_option_table[] = {
    {.names = "", .type = CLI_HEADING, .help = "The conversation"},
    MODEL_OPTION(chat_options),
    {.names = "system", .type = CLI_TEXT, .value = "TEXT|@FILE", AT(system),
     .help = "the system message, or a file with it"},
    {.names = "chat-template,template", .type = CLI_TEXT, .value = "NAME|FILE", AT(template),
     .help = "another template than the model's: one of its templates, a built-in one, a file, "
             "or the template itself",
     .choice = clef_template_builtin_name},
    {.names = "arg", .type = CLI_LIST, .value = "KEY=JSON", AT(args),
     .help = "a variable of the template; may be repeated"},
    {.names = "image", .type = CLI_LIST, .value = "FILE", AT(images),
     .help = "a picture for the first message: PNG, JPEG, WebP or PPM; may be repeated"},
    {.names = "mmproj", .type = CLI_TEXT, .value = "FILE", AT(mmproj),
     .help = "the tower of a GGUF model that reads pictures, in a file of its own"},
    {.names = "date", .type = CLI_TEXT, .value = "YYYY-MM-DD", AT(date),
     .help = "the date that the template sees [today]"},
    {.names = "thinking", .type = CLI_CHOICE, .value = "HOW", AT(thinking), .choices = thinking_names,
     .help = "show the model's reasoning, hide it, or off: tell the template that there is none [show]"},
    {.names = "thinking-budget,reasoning-budget", .type = CLI_INT, .value = "N", AT(thinking_budget),
     .lo = -1, .hi = INT32_MAX,
     .help = "most tokens of an answer's reasoning, after which the model has to answer; -1: no limit [-1]"},
    {.names = "tools", .type = CLI_TEXT, .value = "FILE", AT(tools),
     .help = "the tools that the model may call: OpenAI's tools, a JSON array. Calls are shown, and you type "
             "the result; nothing is executed"},
    {.names = "tool-format", .type = CLI_TEXT, .value = "NAME", AT(tool_format),
     .help = "how the model writes tool calls [by its template]"},
    {.names = "tool-choice", .type = CLI_TEXT, .value = "CHOICE", AT(tool_choice),
     .help = "auto: the model may call tools; required: it must; or the name of the function to call [auto]"},
    {.names = "drop-oldest", .type = CLI_SWITCH, AT(drop_oldest),
     .help = "when the context is full, drop the oldest turns, and say so each time"},
    LORA_OPTION(offsetof(chat_options, loras)),
    {.names = "n-predict,predict", .letter = 'n', .type = CLI_INT, .value = "N", AT(n_predict), .lo = -1,
     .hi = INT32_MAX, .help = "most tokens of an answer; -1: until the model ends it [-1]"},
    {.names = "stop", .type = CLI_LIST, .value = "TEXT", AT(stops),
     .help = "end an answer before TEXT; may be repeated"},
    {.names = "ctx-size", .letter = 'c', .type = CLI_INT, .value = "N", AT(n_context), .lo = 0,
     .hi = INT32_MAX,
     .help = "positions of the context; 0: as many as the model has [the model's, at most 8192]"},
    {.names = "batch-size", .letter = 'b', .type = CLI_INT, .value = "N", AT(n_batch), .lo = 1, .hi = 65536,
     .help = "prompt tokens per step [512]"},
    {.names = "", .type = CLI_HEADING, .help = "Sampling"},
    SAMPLING_OPTIONS(chat_options, sampling),
    CLI_CONSTRAINT_OPTIONS(offsetof(chat_options, constraint)),
    {.names = "", .type = CLI_HEADING, .help = "Device and kernels"},
    DEVICES_OPTION(chat_options),
    KV_TYPE_OPTION(chat_options),
    THREADS_OPTION(chat_options),
    PIN_OPTION(chat_options),
    COMPILE_OPTIONS(chat_options),
    QUIET_OPTION(chat_options),
    VERBOSE_OPTION(chat_options),
    {.names = NULL},
};
/* clang-format on */

/* Without a terminal: stdin is one message, stdout its answer. */
static int answer_stdin(talk *t)
{
    char *text = NULL;
    size_t n = 0;
    int rc = cli_read_file("-", &text, &n);
    if (rc != CLI_GO_ON)
        return rc;
    if (n && text[n - 1] == '\n')
        text[n - 1] = '\0';
    rc = *text ? talk_ask(t, text) : cli_fail(CLI_FAILED, "chat: expected a message on stdin, got none");
    free(text);
    if (rc == CLI_GO_ON)
        rc = talk_answer(t);
    if (rc == CLI_GO_ON && cli_terminal_interrupted())
        rc = CLI_INTERRUPTED;
    return rc == CLI_GO_ON ? CLI_OK : rc;
}

static int converse(talk *t)
{
    int was_interrupted = 0;
    fprintf(stderr, "clef: /help lists the commands; Ctrl-D ends\n");
    for (;;) {
        char *text = NULL;
        const chat_event event = chat_input_read(t->input, "> ", &text);
        if (event == CHAT_END || (event == CHAT_INTERRUPT && was_interrupted)) {
            fputs("\n", stdout);
            return event == CHAT_END ? CLI_OK : CLI_INTERRUPTED;
        }
        was_interrupted = event == CHAT_INTERRUPT;
        if (was_interrupted) {
            fprintf(stderr, "\nclef: Ctrl-C once more, Ctrl-D or /exit ends\n");
            continue;
        }
        chat_next next = CHAT_NEXT;
        if (text[0] == '/')
            next = chat_command(t, text);
        else if (text[strspn(text, " \t\n")])
            next = talk_ask(t, text) == CLI_GO_ON ? CHAT_ANSWER : CHAT_NEXT;
        free(text);
        if (next == CHAT_EXIT)
            return CLI_OK;
        if (next == CHAT_ANSWER)
            talk_answer(t); /* what went wrong was reported, and the conversation goes on */
    }
}

static int chat_run(const void *options, int32_t n_args, char **args)
{
    const chat_options *o = options;
    talk t;
    const char *path = cli_model_path("chat", n_args, args, o->model);
    if (!path)
        return n_args > 0 && o->model ? CLI_USAGE : CLI_FAILED;
    int rc = talk_open(&t, o, path);
    if (rc == CLI_GO_ON)
        rc = cli_terminal_stdin() ? converse(&t) : answer_stdin(&t);
    talk_close(&t);
    return rc;
}

const cli_command cli_command_chat = {
    .name = "chat",
    .usage = "[MODEL] [FLAGS]",
    .summary = "Talk with a model",
    .notes =
        "The conversation is written by the model's own chat template; a model without one needs "
        "--chat-template. Only what is new is computed for each answer. If stdin is not a terminal, it is "
        "one message, and stdout is the answer alone.\n\nInput is edited with libedit; $CLEF_HISTORY names "
        "the "
        "file of the history, and an empty one keeps none.\n\n  clef chat qwen2.5.gguf --system \"Be "
        "brief.\"\n  echo \"What is OpenCL?\" | clef chat qwen2.5.gguf -q\n",
    .options = chat_option_table,
    .first = "model system chat-template image thinking tools lora n-predict stop ctx-size temp top-k "
             "top-p seed json-schema device threads quiet",
    .max_args = 1,
    .defaults = &chat_defaults,
    .options_bytes = sizeof chat_defaults,
    .run = chat_run,
};
