/* A conversation with a model: its messages, how they become tokens, and the answers. */
#ifndef CLEF_TOOLS_CHAT_TALK_H
#define CLEF_TOOLS_CHAT_TALK_H

#include <jansson.h>

#include "clef/clef.h"
#include "tools/chat/input.h"
#include "tools/cli/cli.h"
#include "tools/cli/common.h"
#include "tools/constraint.h"
#include "tools/cli/progress.h"
#include "tools/prompt_pictures.h"
#include "tools/sampling.h"

typedef enum chat_thinking { CHAT_SHOW, CHAT_HIDE, CHAT_OFF } chat_thinking;

typedef struct chat_options {
    const char    *model, *template, *tool_format, *system, *tools, *tool_choice, *device, *date;
    cli_split      split;
    cli_list       args, stops, loras, images;
    const char    *mmproj;
    int32_t        n_predict, n_context, n_batch, n_threads, pin, kv_type, quiet, verbose, thinking;
    int32_t        drop_oldest, thinking_budget; /* thinking_budget: -1: no limit */
    clef_compile_opts compile;
    cli_sampling   sampling;
    cli_constraint constraint;
} chat_options;

/** What is said of the last answer. */
typedef struct chat_stats {
    int32_t n_prompt, n_cached, n_new;
    double  prompt_seconds, new_seconds;
} chat_stats;

typedef struct talk {
    chat_options   o; /* changed by /set */
    const char    *path;
    clef_model    *model;
    clef_tokenizer *tok; /* the model's */
    clef_device   *device;
    clef_lora_set *loras;
    clef_session  *session;  /* NULL while there are pictures: then the teller answers */
    cli_prompt_pictures   pictures; /* of the messages, in their order, then those of the next one */
    cli_teller     teller;
    int32_t        n_images; /* of the messages */
    clef_template *tpl;
    clef_tool_format format;
    cli_sampler    sampling;
    cli_guide      guide;
    cli_progress   progress;
    json_t        *messages; /* OpenAI's, an array */
    char          *tools;    /* NULL, or OpenAI's tools as JSON */
    size_t         tools_bytes;
    int32_t        n_context, interactive, n_ends, ends[CLI_END_TOKENS], n_calls;
    uint64_t       n_answers; /* to vary the seed of /again */
    chat_input    *input;
    chat_stats     stats;
    char         **kept_texts; /* values of /set, which options borrow */
    int32_t        n_kept_texts;
} talk;

/** Opens model, template, tools, device and session. CLI_GO_ON, or an exit code after a message. */
int  talk_open(talk *t, const chat_options *options, const char *path);
void talk_close(talk *t);

/** Adds a message of a role. */
int talk_add(talk *t, const char *role, const char *content);
/** Adds a message of the user, with the pictures that were added since the one before. */
int talk_ask(talk *t, const char *text);
/** Adds a picture for the next message of the user. */
int talk_show(talk *t, const char *path);
/** Forgets pictures whose messages are gone: the first ones of the conversation, or the last ones. */
void talk_forget(talk *t, int first);
/** Puts a system message at the start, or replaces the one that is there; "" removes it. */
int talk_system(talk *t, const char *text);
/** Removes the last message of the user and all that follows it. Returns 0 if there is none. */
int talk_undo(talk *t);
/** Lets the model answer the messages, and answers its tool calls with what the user types. CLI_GO_ON also
 *  after Ctrl-C; an exit code after a message if nothing was answered. */
int talk_answer(talk *t);
/** The text that the model would be given. Free with clef_rendered_finish(). */
clef_status talk_render(talk *t, clef_rendered *out, clef_error *err);
/** A copy that lives as long as the talk; NULL when out of memory. */
char *talk_keep_text(talk *t, const char *text);
void talk_print_stats(const talk *t);

#endif
