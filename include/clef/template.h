/* Chat templates: a conversation becomes the text that a model expects.
 *
 *   clef_template_open(model_path, NULL, has_tools, &tpl, &err);
 *   clef_template_render(tpl, &(clef_template_opts){.messages = json, .messages_bytes = n}, &text, &err);
 *
 * Templates are written in Jinja. The text is, byte for byte, what transformers' apply_chat_template() makes
 * of the same template (docs/templates.md lists the language). A template reaches nothing outside: it cannot
 * include files or call other code, and its memory, steps and output are bounded. */
#ifndef CLEF_TEMPLATE_H
#define CLEF_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A template that was parsed. It is never changed afterwards: several threads may render it at once. */
typedef struct clef_template clef_template;

/** Parses `n_bytes` of source; `name` stands for it in messages, and is copied. CLEF_E_FORMAT (line and
 *  reason), CLEF_E_LIMIT (a source of more than 1 MiB, or nested too deeply), CLEF_E_UNSUPPORTED,
 *  CLEF_E_NOMEM. */
CLEF_API clef_status clef_template_parse(const char *source, size_t n_bytes, const char *name,
                                         clef_template **out, clef_error *err);
CLEF_API void        clef_template_destroy(clef_template *tpl); /* accepts NULL */

/** Opens a model's own template, or another one.
 *
 *  model  NULL, or a folder or GGUF file. In this order: chat_template.jinja; "chat_template" of
 *         tokenizer_config.json, or chat_template.json, a text or a list by name; the GGUF keys
 *         tokenizer.chat_template.NAME and tokenizer.chat_template.
 *  which  NULL, or the name of a built-in template (clef_template_builtin()), of one of the model's, a file,
 *         or a template's text.
 *  has_tools  of several templates the one named "tool_use" is taken, else the one named "default".
 *
 *  CLEF_E_NOT_FOUND: the model has no template, and none was named. Statuses of clef_template_parse();
 *  CLEF_E_IO. */
CLEF_API clef_status clef_template_open(const char *model, const char *which, int32_t has_tools,
                                        clef_template **out, clef_error *err);
/** The source of a built-in template: chatml, llama2, llama3, mistral, gemma, command-r, phi3, zephyr. NULL:
 *  there is none of this name. Static. */
CLEF_API const char *clef_template_builtin(const char *name);
/** The name of built-in template i; NULL ends the list. Static. */
CLEF_API const char *clef_template_builtin_name(int32_t i);
/** The template's source, as it was parsed. Lives as long as the template. */
CLEF_API const char *clef_template_source(const clef_template *tpl, size_t *n_bytes);

/** A variable of the template: its name, and its value as JSON. */
typedef struct clef_template_arg {
    const char *name, *json;
} clef_template_arg;

typedef struct clef_template_opts {
    const char *messages; /* required: OpenAI's messages as a JSON array. Arguments of tool calls that are a
                             JSON text become the object in it */
    size_t messages_bytes;
    const char *tools; /* NULL, or OpenAI's tools as a JSON array */
    size_t  tools_bytes;
    const char *model; /* NULL, or the folder or GGUF file that gives bos_token, eos_token and the other
                          special tokens */
    const clef_template_arg *args; /* further variables; they replace those of the same name */
    int32_t n_args;
    int32_t no_generation_prompt; /* 1: the text ends with the last message */
    int32_t join_parts;           /* 1: a content of text parts becomes one string, joined by "\n" */
    const char *date;             /* NULL: now; or "YYYY-MM-DD", for strftime_now() */
} clef_template_opts;

/** A rendered conversation. The parts follow each other to the whole text. */
typedef struct clef_template_part {
    size_t  begin, end;   /* in bytes */
    int32_t from_message; /* 1: this text came from a message or a tool, 0: from the template */
} clef_template_part;
typedef struct clef_rendered {
    char  *text; /* n_bytes, and a NUL that is not counted */
    size_t n_bytes;
    clef_template_part *parts;
    int32_t n_parts;
} clef_rendered;

/** Renders. Overwrites *out; free its contents with clef_rendered_finish(). CLEF_E_FORMAT (messages or tools
 *  are not a JSON array; the template fails or refuses, with its line), CLEF_E_LIMIT (which limit:
 *  docs/templates.md), CLEF_E_ARG (date), CLEF_E_NOMEM. */
CLEF_API clef_status clef_template_render(const clef_template *tpl, const clef_template_opts *opts,
                                          clef_rendered *out, clef_error *err);
CLEF_API void        clef_rendered_finish(clef_rendered *rendered); /* accepts NULL and a zeroed struct */

#ifdef __cplusplus
}
#endif
#endif
