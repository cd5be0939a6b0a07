/* A request for texts: its prompts, its choices, and the runs of the engine that generate them. */
#ifndef CLEF_TOOLS_SERVE_TASK_H
#define CLEF_TOOLS_SERVE_TASK_H

#include <jansson.h>

#include "tools/sampling.h"
#include "tools/serve/base/buffer.h"
#include "tools/serve/base/responses.h"
#include "tools/serve/engine.h"
#include "tools/serve/http.h"
#include "tools/serve/params.h"

enum { SERVE_PING_SECONDS = 15 };

typedef struct serve_prompt {
    int32_t *ids;          /* [n], freed with clef_tokens_free() or free(), by own */
    int32_t n, own, n_max; /* n_max: the most tokens after it; 0: until the context is full */
    int32_t starts_thinking;
    serve_buffer text; /* for echo, and for the log */
} serve_prompt;

/** A part of a reply that is reasoning, text or a call. */
typedef struct serve_block {
    clef_reply_kind kind;
    int32_t index;      /* among those of the reply */
    size_t begin;       /* where its text begins in the choice's */
    const json_t *call; /* OpenAI's tool call */
    char id[40];        /* for forms in which parts have ids */
} serve_block;

struct serve_task;

/** What is kept of a token until its log-probability is reported. */
typedef struct serve_choice {
    struct serve_task *task;
    serve_run *run;
    int32_t index, prompt, n_forced; /* n_forced: tokens of the prompt that the run computes, for echo */
    clef_stream stream, forced;      /* of what is generated; of the prompt's tokens, for echo */
    clef_stop *stop;
    clef_tool_format format;   /* of the reader */
    clef_reply_reader *reader; /* NULL: all is content */
    struct {
        size_t byte;             /* of what is generated */
        size_t character;        /* from the prompt's begin */
        int32_t is_said;         /* it has some of `content` */
        int32_t is_first;        /* the text begins with it, and may lose its space */
    } * begins;                  /* [capacity]: where each token begins */
    int32_t n_seen, n_reported;  /* tokens that became text; of these, those with reported logprobs */
    int32_t n_used, n_reasoning; /* of the reply: before a stop string; of these, of its reasoning */
    size_t n_text, n_let;        /* bytes that were generated; of these, what stop strings let through */
    size_t n_before, n_passed, n_characters; /* characters of the prompt; of these, of reported tokens;
                                                of what is generated */
    clef_reply_kind kind;                    /* of the last part */
    serve_buffer content, reasoning;
    size_t n_sent_content, n_sent_reasoning; /* by streams */
    json_t *calls;                           /* OpenAI's tool_calls */
    size_t n_sent_calls;
    json_t *logprobs;   /* of tokens that were reported and not sent yet; NULL: not asked for */
    const char *finish; /* NULL: it goes on */
    int32_t sent_finish, sent_role, stopped, is_cut; /* is_cut: t_max_predict_ms or n_indent ended it */
    size_t line;                                     /* where its last line begins, in `content` */
    int32_t n_sent_ids;
    int32_t has_first; /* the prompt's first id is to be reported, with no log-probability */
} serve_choice;

/** How requests of a form are read, and their replies written. Functions that return int return 0 after an
 * error, which is then the request's. */
typedef struct serve_writer {
    const char *id; /* what the ids of replies begin with */
    /** Makes the fields of a chat of those of the form. NULL: they are. */
    int (*read)(struct serve_task *t);
    /** The reply. NULL: no memory. */
    json_t *(*whole)(struct serve_task *t);
    /** Adds events for what is new to t->out. */
    int (*news)(struct serve_task *t);
    /** Adds the last events. */
    int (*end)(struct serve_task *t);
    const char *stream_type; /* of its streams; NULL: events, which may have comments */
    /** Adds the request's error as an event: the status is long sent. */
    void (*error)(struct serve_task *t);
} serve_writer;

typedef struct serve_task {
    serve_request *r;
    serve_params p;
    const serve_writer *writer; /* of its form */
    serve_group group;
    serve_prompt *prompts;
    serve_choice *choices;
    serve_run *runs;
    int32_t n_prompts, n_choices, is_chat, submitted, has_guide;
    int32_t is_raw;  /* reasoning_format none: nothing is read out of a chat's text */
    int32_t is_held; /* 1: the engine may use it until the process ends */
    char id[48], model[160];
    clef_constraint *constraint;
    clef_guide guide;
    clef_thought thought; /* the tags of its reasoning, and its limit */
    clef_logit_bias *biases;
    cli_sampler breakers;
    char **stops;
    int32_t *ends, n_ends; /* tokens that end the text */
    int32_t n_stops, lora, has_tools, may_think;
    char *tools; /* JSON */
    size_t n_tools;
    uint64_t salt;
    int32_t n_calls;              /* calls before this message */
    serve_block block;            /* the last one */
    int32_t n_blocks, has_block;  /* has_block: it goes on */
    json_t *parts;                /* the finished ones, as the form has them */
    json_t *logprobs;             /* of responses: of the last block, a text */
    json_t *echo, *ids;           /* of responses: fields of the request; ids of its items, if it is stored */
    char *stored[SERVE_N_STORED]; /* of these what is known before the reply */
    json_t *customs;              /* names of custom tools; NULL: none */
    int32_t n_events;
    /* of streams */
    serve_buffer out;
    size_t n_out;                            /* bytes of it that were taken */
    int32_t ended, n_progress, has_progress; /* n_progress: what was reported last; -1: no more */
    char late[1024];                         /* an error under way */
    double last_sent, next_look;
    uint64_t seen; /* of the group's changes */
} serve_task;

/** The parts of a request; each returns 0 and sets its error where that fails. */
int serve_task_begin(serve_task *t, serve_request *r, serve_form form, const serve_writer *writer);
int serve_task_prompt_chat(serve_task *t);
int serve_task_prompt_texts(serve_task *t);
int serve_task_prompt_infill(serve_task *t);
/** Samplers, constraint, stop strings, adapter. */
int serve_task_set_picks(serve_task *t);
/** The adapter of a list as `lora` is; 0: none. Returns 0 after an error. */
int serve_pick_adapter(serve_request *r, const json_t *list, int32_t *out);
/** Makes the choices, hands them to the engine, and waits until one of them has begun. */
int serve_task_submit(serve_task *t);
/** Waits until there is something new; 0 when the request is over, with its error set, or the client gone. */
int serve_task_wait(serve_task *t);
/** Turns new tokens into text. 0: an error. */
int serve_task_take(serve_task *t);
int serve_task_done(const serve_task *t);
/** Ends what still runs, and notes what the request took. */
void serve_task_end(serve_task *t);
/** Frees a task that calloc() made, unless the engine still has it. */
void serve_task_free(serve_task *t);

/** 1 if a prompt, or an embedding's input, is one and no list of them: one number makes a list ids. */
int serve_is_one_prompt(const json_t *value);
/** 1 if a prompt that is an object has `multimodal_data`. */
int serve_has_media(const json_t *object);
/** Reads ids and texts in one list, as llama-server has them; to->ids is to be freed with free(). */
int serve_read_mixed(serve_request *r, const json_t *list, const char *path, serve_prompt *to);
/** Reads the id of a token. */
int serve_read_id(serve_request *r, const json_t *value, const char *path, int32_t *out);

int serve_choice_begin(serve_choice *c);
int serve_choice_take(serve_choice *c);
void serve_choice_free(serve_choice *c);

#endif
