/* The forms of replies: OpenAI's completions, chat completions and responses, and Anthropic's messages. */
#ifndef CLEF_TOOLS_SERVE_FORMS_FORM_H
#define CLEF_TOOLS_SERVE_FORMS_FORM_H

#include "tools/serve/task.h"

typedef struct serve_counts {
    int64_t n_prompt, n_cached, n_generated, n_reasoning, n_drafted, n_accepted;
    double began, first, last;
    int32_t slot; /* of the last choice */
} serve_counts;

extern const serve_writer serve_writer_openai, serve_writer_messages, serve_writer_responses;

/** Makes the fields of a chat of those of Anthropic's messages. */
int serve_messages_read(serve_task *t);

/** Makes the fields of a chat of those of OpenAI's responses. */
int serve_responses_read(serve_task *t);
/** Reads a stored response, or what it answers. NULL after an error. */
json_t *serve_responses_stored(serve_request *r, const char *id, serve_stored what, const char *param);
/** Reads an item of a stored response's output or input. NULL after an error. */
json_t *serve_responses_item(serve_request *r, const json_t *id, const char *path);
/** The fields of a request that its response repeats; NULL: no memory. */
json_t *serve_responses_echo(const serve_task *t);

/** `thinking` and `reasoning` of a request. */
int serve_read_thinking(serve_task *t);
int serve_read_reasoning(serve_task *t);
int serve_chat_read(serve_task *t);

/** A custom tool, as a response has it, as a function with one argument, `input`. Its name is noted. NULL and
 *  an error: it cannot be. */
json_t *serve_custom_tool(serve_task *t, const json_t *tool, const char *path);
/** 1 if a tool of this name is a custom one. */
int serve_is_custom(const serve_task *t, const json_t *name);
/** The input in the arguments of such a call, which are dropped; and the arguments for an input. */
json_t *serve_custom_input(json_t *arguments);
json_t *serve_custom_arguments(const json_t *input);
/** Makes functions of the custom tools of a chat, and of their calls. */
int serve_custom_read(serve_task *t);
/** A call of a chat's reply as its client has the tool. */
json_t *serve_custom_call(const serve_task *t, json_t *call);
/** Fails with what a field should have been and what it is. */
int serve_wrong(serve_request *r, const char *path, const json_t *value, const char *wanted);
/** Sets a field of the body to a new value, which may be NULL when there is no memory, and returns it. */
json_t *serve_set_field(serve_task *t, const char *name, json_t *value);

/** Answers a request for texts, from its body to the reply or the stream. */
void serve_answer_texts(serve_request *r, serve_form form, const serve_writer *writer);

/** Answers it with the tokens of its prompt alone, in an `object` of that name, which may be NULL. */
void serve_answer_count(serve_request *r, serve_form form, const serve_writer *writer, const char *object);

/** Tokens and times of all choices. Each prompt counts once, whatever its choices. */
serve_counts serve_task_count(const serve_task *t);
/** Those of one choice, and of its prompt. */
serve_counts serve_choice_count(const serve_choice *c);

/** What writes the parts of a reply, for forms that have one text: they come one after the other. `text` is
 * what the block has so far; of a call its arguments. */
typedef struct serve_block_events {
    int (*begin)(serve_task *t, const serve_block *b);
    int (*more)(serve_task *t, const serve_block *b, json_t *text);
    int (*end)(serve_task *t, const serve_block *b, json_t *text);
} serve_block_events;

/** Calls them for what is new of the reply; a member may be NULL. They drop the texts. */
int serve_blocks_take(serve_task *t, const serve_block_events *on);

/** {"prompt_n", "prompt_ms", ..}, as llama-server has them. */
json_t *serve_timings(const serve_counts *n);
json_t *serve_task_timings(const serve_task *t);
/** Puts {"total", "cache", "processed", "time_ms"} of the prompts, where that was asked for and is new. */
int serve_take_progress(serve_task *t, int (*put)(serve_task *t, json_t *progress));
/** llama-server's reply for a choice. */
json_t *serve_native_whole(serve_choice *c);
/** Adds the request's error as OpenAI's event. */
void serve_put_openai_error(serve_task *t);

json_t *serve_text_of(const serve_buffer *t);
/** Add to t->out; `value` is dropped. `name` NULL: an event without one. */
int serve_put_text(serve_task *t, const char *text);
int serve_put_event(serve_task *t, const char *name, json_t *value);

#endif
