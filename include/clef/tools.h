/* What a chat model says, read as it comes: content, reasoning and tool calls.
 *
 *   clef_tool_format format = clef_tool_format_of_template(chat_template, n_bytes);
 *   clef_reply_reader_create(&(clef_reply_opts){.format = format, .tools = tools}, &reader, &err);
 *   for each piece of text:
 *       clef_reply_read(reader, piece, n_bytes, part, user, &err);
 *   clef_reply_end(reader, part, user, &err);
 *
 * The pieces may be cut anywhere. The parts add up to the same message wherever they are: what may yet
 * become a tag or a call is held back until it is one, or is not. Text that looks like the start of a call
 * but is none is content, never an error. The text includes those special tokens of the model that are tags
 * (clef_tool_format_has_tag()), but not the token that ends its turn. */
#ifndef CLEF_TOOLS_H
#define CLEF_TOOLS_H

#include <stddef.h>
#include <stdint.h>

#include "clef/constrain.h"
#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How a family of models writes its calls and its reasoning: name, example of a call. docs/tools.md says
 *  which models use which. */
#define CLEF_TOOL_FORMATS(X)                                                                     \
    X(NONE, "none", "")                                                                          \
    X(HERMES, "hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call>")   \
    X(LLAMA3, "llama3-json", "{\"name\": \"f\", \"parameters\": {\"x\": 1}}")                    \
    X(MISTRAL, "mistral", "[TOOL_CALLS]f[ARGS]{\"x\": 1}")                                       \
    X(QWEN_CODER, "qwen3-coder",                                                                 \
      "<tool_call><function=f><parameter=x>1</parameter></function></tool_call>")                \
    X(GEMMA4, "gemma4", "<|tool_call>call:f{x:1}<tool_call|>")                                   \
    X(HARMONY, "gpt-oss",                                                                        \
      "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\": 1}")             \
    X(GRANITE, "granite", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"x\": 1}}]")         \
    X(COMMAND_R, "command-r",                                                                    \
      "Action: ```json\n[{\"tool_name\": \"f\", \"parameters\": {\"x\": 1}}]\n```")              \
    X(DEEPSEEK, "deepseek-v3",                                                                   \
      "<\xEF\xBD\x9Ctool\xE2\x96\x81" "call\xE2\x96\x81" "begin\xEF\xBD\x9C>f"                   \
      "<\xEF\xBD\x9Ctool\xE2\x96\x81" "sep\xEF\xBD\x9C>{\"x\": 1}"                               \
      "<\xEF\xBD\x9Ctool\xE2\x96\x81" "call\xE2\x96\x81" "end\xEF\xBD\x9C>")                     \
    X(PHI4, "phi4",                                                                              \
      "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"x\": 1}}]<|/tool_call|>")               \
    X(JSON, "json", "{\"tool_calls\": [{\"name\": \"f\", \"arguments\": {\"x\": 1}}]}")

typedef enum clef_tool_format {
#define CLEF_X(id, name, example) CLEF_TOOLS_##id,
    CLEF_TOOL_FORMATS(CLEF_X)
#undef CLEF_X
    CLEF_N_TOOL_FORMATS
} clef_tool_format;

/** The name of a format, and an example of a call; both static. "?" for a number that is none. */
CLEF_API const char *clef_tool_format_name(clef_tool_format format);
CLEF_API const char *clef_tool_format_example(clef_tool_format format);
/** The format of this name. CLEF_E_NOT_FOUND, with the names there are. */
CLEF_API clef_status clef_tool_format_find(const char *name, clef_tool_format *out, clef_error *err);
/** The format that a chat template writes, by the tags in its source text. CLEF_TOOLS_NONE: it writes none
 *  of these. */
CLEF_API clef_tool_format clef_tool_format_of_template(const char *text, size_t n_bytes);

/** The tags around a format's reasoning, with `most` 0. */
CLEF_API clef_thought clef_tool_format_thought(clef_tool_format format);
/** 1 if a special token of this text is one of the format's tags, or a part of one: a reader needs it.
 *  Others that a model writes are not part of its message. */
CLEF_API int32_t clef_tool_format_has_tag(clef_tool_format format, const char *text, size_t n_bytes);

/** One call. Strings end with NUL and live until the callback returns. */
typedef struct clef_tool_call {
    const char *id; /* the model's own, or "call" and five digits: 9 characters, which is what Mistral's
                       templates want */
    const char *name;
    const char *arguments; /* the text of a JSON object */
} clef_tool_call;

typedef enum clef_reply_kind { CLEF_REPLY_CONTENT, CLEF_REPLY_REASONING, CLEF_REPLY_CALL } clef_reply_kind;

/** A part of the message. Contents follow each other to the whole content, and so does reasoning. */
typedef struct clef_reply_part {
    clef_reply_kind kind;
    const char     *text; /* content or reasoning: n_bytes bytes without a NUL. They may end within a
                             character if the text that was read does */
    size_t          n_bytes;
    int32_t         index; /* a call: 0, 1, .. */
    clef_tool_call  call;
} clef_reply_part;

/** Takes a part. Another status than CLEF_OK ends the reading, which returns it. */
typedef clef_status (*clef_reply_fn)(void *user, const clef_reply_part *part);

typedef struct clef_reply_opts {
    clef_tool_format format; /* NONE: reasoning between <think> and </think>, and content */
    const char *tools; /* NULL, or OpenAI's "tools" as a JSON array: the types of parameters (qwen3-coder,
                          whose calls do not tell "1" from 1), and the names that a call may have where it has
                          no tag of its own (llama3-json) */
    size_t  tools_bytes;
    int32_t starts_thinking; /* the prompt ended with the tag that opens reasoning */
    int32_t first_call;      /* the number in the first id that is made here: calls before this message */
} clef_reply_opts;

/** A reader of one message. `opts` is copied. CLEF_E_ARG (no such format), CLEF_E_FORMAT (tools),
 *  CLEF_E_NOMEM. */
typedef struct clef_reply_reader clef_reply_reader;
CLEF_API clef_status clef_reply_reader_create(const clef_reply_opts *opts, clef_reply_reader **out,
                                              clef_error *err);
CLEF_API void        clef_reply_reader_destroy(clef_reply_reader *reader); /* accepts NULL */

/** Reads the next piece. A call becomes a part when all of it was read. CLEF_E_NOMEM, or what `part`
 *  returned. No byte of a call is looked over again for each piece. */
CLEF_API clef_status clef_reply_read(clef_reply_reader *reader, const char *text, size_t n_bytes,
                                     clef_reply_fn part, void *user, clef_error *err);
/** The message has ended: gives what was held back. Nothing may be read afterwards. As clef_reply_read(). */
CLEF_API clef_status clef_reply_end(clef_reply_reader *reader, clef_reply_fn part, void *user,
                                    clef_error *err);

/* ---- constraints ------------------------------------------------------------------------------ */

typedef enum clef_tool_choice {
    CLEF_TOOL_CHOICE_AUTO,     /* text, or calls: the constraint begins at the tag of a call */
    CLEF_TOOL_CHOICE_REQUIRED, /* nothing but calls */
    CLEF_TOOL_CHOICE_NAMED     /* nothing but calls of one function */
} clef_tool_choice;

typedef struct clef_tool_constraint_opts {
    clef_tool_format format;
    const char      *tools; /* OpenAI's "tools" as a JSON array */
    size_t           tools_bytes;
    clef_tool_choice choice;
    const char      *name;     /* NAMED: the function */
    int32_t parallel; /* 1: several calls may follow each other, where the format has that. NAMED: one call */
    const clef_tokenizer *tok; /* NULL, or where the format's tags may be special tokens */
} clef_tool_constraint_opts;

/** A constraint (clef/constrain.h) under which calls are well formed: they name a function of `tools`, and
 *  their arguments are JSON that fits its "parameters": arguments that these do not declare are forbidden
 *  unless they say something of additionalProperties. What surrounds the arguments is written in one way,
 *  without escapes. Where a function has "strict": true, a schema that
 *  cannot be held is an error, which names the tool, path and keyword; else such a keyword is left out, and
 *  *warnings names it (a line for each; NULL: none; free it with clef_text_free()).
 *
 *  CLEF_E_ARG: no such function, or format NONE; CLEF_E_FORMAT: tools are no such list; CLEF_E_UNSUPPORTED:
 *  a strict schema, or what the format cannot be held to; else as clef_constraint_create(). */
CLEF_API clef_status clef_tool_constraint_create(const clef_tool_constraint_opts *opts,
                                                 clef_constraint **out, char **warnings, clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
