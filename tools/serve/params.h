/* The fields of a request. */
#ifndef CLEF_TOOLS_SERVE_PARAMS_H
#define CLEF_TOOLS_SERVE_PARAMS_H

#include <jansson.h>
#include <stdio.h>

#include "clef/sampler.h"
#include "tools/prompt_pictures.h"
#include "tools/serve/base/error.h"
#include "tools/serve/http.h"

typedef enum serve_form {
    SERVE_FORM_CHAT = 1,
    SERVE_FORM_TEXT = 2,
    SERVE_FORM_EMBED = 4,
    SERVE_FORM_TOKENS = 8,
    SERVE_FORM_BACK = 16,
    SERVE_FORM_RENDER = 32,
    SERVE_FORM_RANK = 64,
    SERVE_FORM_MESSAGES = 128, /* Anthropic's */
    SERVE_FORM_COUNT = 256,    /* of their tokens */
    SERVE_FORM_RESPONSES = 512, /* OpenAI's */
    SERVE_FORM_OLLAMA = 1024,  /* besides CHAT or TEXT */
    SERVE_FORM_SHOW = 2048,    /* Ollama's /api/show */
    SERVE_FORM_INFILL = 4096,  /* besides TEXT */
    SERVE_FORM_HEAR = 8192,    /* transcriptions and translations */
    SERVE_FORM_NATIVE = 16384, /* llama-server's own, besides TEXT */
    SERVE_FORM_OLLAMA_EMBED = 32768 /* besides EMBED */
} serve_form;

/** Texts and values are borrowed from `root`, until serve_params_shrink(). Of ANY fields: NULL if absent. */
typedef struct serve_params {
    json_t *root;
    cli_prompt_pictures pictures; /* of its messages */
    serve_form form;
    const char *model, *encoding_format, *grammar, *regex, *reasoning_effort, *cache_salt, *cache_key;
    const char *reasoning_format, *kind;
    int32_t dimensions, max_tokens, min_tokens, n, n_top, text_logprobs; /* max_tokens, text_logprobs,
                                                                            dimensions: -1 if absent */
    int32_t ignore_eos, echo, stream, logprobs, parallel, continue_final, generation_prompt;
    int32_t return_ids, return_progress, timings, timings_per_token, cache_prompt, add_special;
    int32_t parse_special, with_pieces, include_usage;
    int32_t do_sample, skip_special, enable_thinking; /* enable_thinking: -1 if absent */
    int32_t thinking_budget, hides_thinking;          /* -1: no limit; 1: a reply has no text of it */
    uint64_t seed;
    int32_t draws_seed;
    clef_sampler_opts sampling; /* without lists */
    json_t *messages, *prompt, *input, *stop, *stop_ids, *stream_options, *dry_breakers, *samplers,
        *logit_bias, *allowed_ids;
    json_t *response_format, *json_schema, *format, *structured, *choice, *tools, *tool_choice, *kwargs,
        *lora;
    json_t *last_parts; /* of a last message that is continued, as the client wrote them; owned */
    json_t *content, *tokens, *query, *documents, *texts, *system, *thinking, *output, *images;
    json_t *suffix, *input_prefix, *extra, *text, *options, *reasoning, *metadata, *include;
    const char *instructions, *previous, *truncation;
    const char *language, *hint, *said_form; /* of sounds: hint is the field `prompt` */
    json_t *granularities;
    const serve_part *file; /* NULL if absent; borrowed from the body */
    int32_t store, raw, parse_calls;
    int32_t n_probs, post_probs, n_indent, most_ms; /* most_ms: of generation; 0, -1: no limit */
    json_t *fields;                                 /* those of the reply that are wanted; NULL: all */
    int32_t top_n, return_documents, raw_scores, truncate; /* top_n: 0 if absent */
} serve_params;

/** Reads the body of a request; 0, and its error is set. Free with serve_params_finish() in either case. */
int serve_params_read(serve_request *r, serve_form form, serve_params *out);
/** The same for a body with parts, which stays. `parts` is room for them. */
int serve_params_read_parts(serve_request *r, serve_form form, serve_parts *parts, serve_params *out);
/** Drops all but what a request still needs while it is computed: `stop` and what is not text. */
void serve_params_shrink(serve_request *r, serve_params *p);
void serve_params_finish(serve_params *p);
/** Reads the parts of type image_url of p->messages, which were checked, into p->pictures. Templates then see
 *  {"type": "image"}, and lists of parts in all messages. Returns 0 and sets the request's error for a URL
 *  that is not data:, for bytes of anything else, and for a model that reads none. */
int serve_images_read(serve_request *r, serve_params *p);
/** Makes texts of p->messages lists of parts, if there are pictures. */
void serve_images_as_parts(serve_params *p);
/** Bytes of the pictures' pixels. */
size_t serve_images_bytes(const serve_params *p);

/** The integer that a value is, also as 42.0. Returns 0 if it is none that a double or int64_t holds exactly.
 */
int serve_integer(const json_t *value, int64_t *out);
/** 1 if a value is a text that a C string can hold: without a NUL. */
int serve_is_plain(const json_t *text);
/** 1 if a value has a NUL in a string. */
int serve_has_nul(const json_t *value);

/** Adds the text of a message, of parts with `between` between them. 1: it is more than blank. */
int serve_message_text(const json_t *content, const char *between, serve_buffer *all);
/** Makes the messages say what functions there are, and how to call one; tools NULL: only what was called
 *  before becomes text. 0 and an error: no memory. */
int serve_generic_tools(serve_request *r, serve_params *p, const char *tools, size_t n);

/** The reply's header says that a field was ignored. */
void serve_note_ignored(serve_request *r, const char *name);
/** A path for errors: "messages[2].content". */
const char *serve_path(char out[128], const char *format, ...) CLI_PRINTF(2, 3);
/** "a string", "null", .. */
const char *serve_kind_of(const json_t *value);
/** How a text is sampled, under llama-server's names. */
json_t *serve_settings_of(const clef_sampler_opts *o);
/** Writes a line of Markdown's table for each field. */
void serve_fields_list(FILE *to);

#endif
