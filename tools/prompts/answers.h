/* The answers to the prompts of a file: kept until all before them are done, then written. */
#ifndef CLEF_TOOLS_ANSWERS_H
#define CLEF_TOOLS_ANSWERS_H

#include "clef/batch.h"
#include "clef/stop.h"
#include "clef/tokenizer.h"
#include "tools/prompts/prompt_lines.h"

typedef struct answer {
    int32_t    *prompt; /* [n_prompt], of clef_tokenizer_encode(); NULL: the one id `bos` */
    int32_t     n_prompt, bos;
    int64_t     sequence;
    int32_t    *ids; /* [n], without the end token */
    int32_t     n, capacity;
    clef_finish finish; /* CLEF_FINISH_NONE until it is done */
    int32_t     n_cached, n_preemptions;
    clef_stop  *stop;   /* NULL: no stop strings */
    clef_stream stream; /* of the tokens, for `stop` */
    char       *error; /* NULL, or why it did not run */
} answer;

typedef struct answers {
    const clef_tokenizer *tokenizer;
    int32_t               is_new_text; /* 1: texts do not continue their prompts (encoder-decoders) */
    answer               *items;
    int32_t               n, n_written;
    int32_t               broken; /* 1: stdout cannot be written */
    char                 *text;   /* of the answer that is being written */
    size_t                n_bytes, capacity;
} answers;

/** These return CLI_GO_ON, or an exit code after a message. */
int answers_create(answers *all, int32_t n, const clef_tokenizer *tokenizer, int32_t is_new_text);
/** Appends a token. */
int answer_push(answer *a, int32_t id);
/** Sets the stop strings of an answer, after its prompt. */
int answer_set_stops(answers *all, answer *a, const cli_list *stops);
/** 1 if the text, which token `id` was added to, has come to a stop string. *rc is set after an error. */
int answer_stops(answer *a, int32_t id, int *rc);
int answer_fail(answer *a, const char *why);
/** Writes the answers that are done up to the first that is not; with `skip`, also those after it. */
int  answers_write(answers *all, const prompt_lines *lines, int32_t skip);
void answers_finish(answers *all);

#endif
