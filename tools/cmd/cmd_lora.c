/* clef lora: writes a model with an adapter merged into its weights. */
#include <math.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/progress.h"

typedef struct lora_options {
    float scale;
    const char *type;
    int32_t no_tokenizer, quiet;
} lora_options;

static const lora_options lora_defaults = {.scale = 1, .type = "stored"};

/* clang-format off */
static const cli_option lora_option_table[] = {
    {.names = "scale", .type = CLI_FLOAT, .value = "S", .offset = offsetof(lora_options, scale), .lo = -1000,
     .hi = 1000, .help = "multiply what the adapter adds [1]"},
    {.names = "type", .type = CLI_TEXT, .value = "TYPE", .offset = offsetof(lora_options, type),
     .choice = clef_quantize_type,
     .help = "quantise matrices to this type, as `clef quantize` does [stored: each keeps its own]"},
    {.names = "no-tokenizer", .type = CLI_SWITCH, .offset = offsetof(lora_options, no_tokenizer),
     .help = "leave the tokenizer of a folder out"},
    QUIET_OPTION(lora_options),
    {.names = NULL},
};
/* clang-format on */

static void show_note(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "clef: %s\n", text);
}

static clef_status merge(clef_model *model, const clef_lora *lora, const char *to, const lora_options *o,
                         clef_error *err)
{
    cli_progress progress;
    cli_progress_init(&progress, o->quiet);
    const clef_quantize_opts opts = {.type = o->type,
                                     .progress = cli_progress_step,
                                     .progress_user = &progress,
                                     .no_tokenizer = o->no_tokenizer,
                                     .note = o->quiet ? NULL : show_note,
                                     .loras = &lora,
                                     .n_loras = 1};
    const clef_status status = clef_model_quantize(model, to, &opts, err);
    cli_progress_finish(&progress);
    return status;
}

static int lora_run(const void *options, int32_t n_args, char **args)
{
    const lora_options *o = options;
    clef_error err = {0};
    clef_model *model = NULL;
    clef_lora *lora = NULL;
    (void)n_args;
    if (strcmp(args[0], "merge") != 0)
        return cli_fail(CLI_USAGE, "lora: expected merge, got '%s'", args[0]);
    if (!clef_quantize_knows(o->type))
        return cli_fail(CLI_USAGE, "lora: no type '%s'; `clef help quantize` lists the types", o->type);
    clef_status status = clef_model_open(args[1], &model, &err);
    if (status == CLEF_OK)
        status = clef_lora_open(args[2], model, o->scale, &lora, &err);
    if (status == CLEF_OK)
        status = merge(model, lora, args[3], o, &err);
    if (status == CLEF_OK && !o->quiet)
        fprintf(stderr, "clef: %s: %d matrices of %s have %s\n", args[3], (int)clef_lora_n_targets(lora),
                args[1], args[2]);
    clef_lora_close(lora);
    clef_model_close(model);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

const cli_command cli_command_lora = {
    .name = "lora",
    .usage = "merge MODEL ADAPTER OUT",
    .summary = "Merge a LoRA adapter into a model",
    .notes =
        "Writes MODEL, a GGUF file or a Hugging Face folder, as the GGUF file OUT, with ADAPTER, a PEFT "
        "folder "
        "or a GGUF adapter, added to the matrices that it changes: W + s B A, added in f32 and stored in the "
        "type of W or in --type. A quantised matrix is decoded and quantised again, which costs accuracy; "
        "`clef run --lora` uses an adapter without merging it.\n",
    .options = lora_option_table,
    .min_args = 4,
    .max_args = 4,
    .defaults = &lora_defaults,
    .options_bytes = sizeof lora_defaults,
    .run = lora_run,
};
