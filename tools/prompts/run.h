/* The options and the state of clef run. cmd_run.c opens what a run needs and closes it; run_text.c makes the
 * text in between. */
#ifndef CLEF_TOOLS_RUN_H
#define CLEF_TOOLS_RUN_H

#include "tools/adapters.h"
#include "tools/bench/bench.h"
#include "tools/cli/common.h"
#include "tools/constraint.h"
#include "tools/inspect/run_inside.h"
#include "tools/inspect/trace.h"
#include "tools/cli/progress.h"
#include "tools/prompts/run_file.h"
#include "tools/prompt_pictures.h"
#include "tools/prompt_cache.h"
#include "tools/speculation.h"
#include "tools/sampling.h"

/* A --length-penalty that no flag sets. */
enum { NOT_GIVEN = -1000 };

typedef struct run_options {
    const char *model, *prompt, *file, *ids, *device, *prompt_cache;
    cli_split split;
    int32_t n_predict, n_context, n_batch, n_threads, pin, kv_type;
    clef_compile_opts compile;
    cli_sampling sampling;
    int32_t echo, print_ids, ignore_eos, no_special, quiet, verbose;
    const char *target, *trace;
    int32_t n_beams, n_best, early_stopping;
    float length_penalty; /* or NOT_GIVEN */
    cli_inside_opts inside;
    cli_list loras, stops, images;
    const char *mmproj;
    int32_t profile;
    int32_t max_seqs, kv_tokens, step_tokens, repeatable, no_prefix_cache;
    cli_speculation speculation;
    cli_constraint constraint;
    const char *constrain_after;
} run_options;

/** State of a run. */
typedef struct run {
    const run_options *o;
    clef_model *model;
    const clef_hparams *hparams;
    const clef_tokenizer *tokenizer; /* NULL if neither the prompt nor the output is text */
    int32_t *ids;                    /* the prompt */
    int32_t n_ids, n_context;
    int32_t is_seq2seq, target; /* of an encoder-decoder, whose source is in ids; target: -1, or the id of
                                   --target */
    clef_device *device;
    clef_lora_set *loras; /* NULL: none */
    clef_session *session; /* NULL with --image: then the teller generates */
    cli_prompt_pictures pictures;
    cli_teller teller;
    cli_sampler sampling;
    clef_stream stream;
    clef_stop *stop; /* NULL: no --stop */
    cli_guide guide;
    cli_progress progress;
    cli_trace trace;
    bench_options profile_options;
    bench profile;     /* its `to` holds the tables until the text is complete */
    double step_began; /* start of the search's current step */
    int32_t n_traced;
    cli_prompt fed_ids;             /* what the session is fed, and what --prompt-cache spared it */
    int32_t *kept, n_kept, n_start; /* for --tap and --stats: the tokens that were fed, then those
                                       that were made; the number that was fed */
    int32_t n_new;
    double start, fed, prompt_seconds, first_seconds, new_seconds;
    const char *ended; /* the reason why it ended before -n tokens; NULL if it did not */
    int32_t not_finite; /* the text ended with CLEF_E_NOT_FINITE: --stats is of use all the more */
} run;

/** Generates and prints the text, or searches for it. CLI_GO_ON, or an exit code after a message. */
int  cli_run_text(run *r);
/** Parts of that: the prompt goes through the stream; tokens are generated and printed; after a prompt with
 *  pictures. */
int  cli_run_prompt(run *r);
int  cli_run_tokens(run *r);
int  cli_run_seen(run *r);
/** Prints what a stop string held back, the last, incomplete character, and a newline if stdout is a
 *  terminal. */
int  cli_run_end(run *r);
/** Prints times and memory to stderr. */
void cli_run_statistics(const run *r);

#endif
