/* clef run --max-seqs: the prompts of a file, many in one step. */
#ifndef CLEF_TOOLS_RUN_FILE_H
#define CLEF_TOOLS_RUN_FILE_H

#include "clef/batch.h"
#include "tools/cli/common.h"
#include "tools/prompts/prompt_lines.h"
#include "tools/constraint.h"
#include "tools/sampling.h"

enum { START_TOKENS = 3 /* most tokens before an encoder-decoder's text */ };

typedef struct run_file_opts {
    const char       *model, *file, *target, *draft; /* draft: NULL, or a model that drafts tokens */
    cli_place         place;
    clef_pin          pin;
    clef_batch_opts   batch;     /* n_context: -1 for the default; the KV type is set by kv_type */
    int32_t           kv_type;   /* an index in cli_kv_type_names */
    cli_list          loras;     /* the adapters that --lora names */
    const cli_sampling *sampling; /* the flags */
    const cli_constraint *constraint; /* of all texts */
    const char       *constrain_after;
    prompt_line       defaults;  /* of the lines, but for the sampling */
    int32_t           own_seeds; /* as in prompt_lines_read() */
    int32_t           ignore_eos, no_special, verbose;
} run_file_opts;

/** Runs the prompts of the file, and writes a line of JSON for each to stdout, in the order of the file. An
 *  error in the file is reported before anything runs. Returns the exit code: CLI_FAILED also after requests
 *  that could not fit, whose lines say why. */
int cli_run_file(const run_file_opts *opts);

#endif
