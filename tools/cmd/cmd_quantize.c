/* clef quantize and clef convert: a model as a GGUF file, its weights coded anew or kept. */
#include <inttypes.h>
#include <string.h>

#include "tools/common.h"
#include "tools/progress.h"
#include "tools/terminal.h"

typedef struct quantize_options {
    int32_t quiet;
    const char *type; /* convert */
    int32_t no_tokenizer;
} quantize_options;

static const quantize_options quantize_defaults = {.type = "stored"};

#define NO_TOKENIZER_OPTION                                                                                  \
    {                                                                                                        \
        .names = "no-tokenizer", .type = CLI_SWITCH, .offset = offsetof(quantize_options, no_tokenizer),     \
        .help = "of a folder: the weights alone"                                                             \
    }

static const cli_option quantize_option_table[] = {
    NO_TOKENIZER_OPTION,
    QUIET_OPTION(quantize_options),
    {.names = NULL},
};

static const cli_option convert_option_table[] = {
    {.names = "type",
     .value = "TYPE",
     .type = CLI_TEXT,
     .offset = offsetof(quantize_options, type),
     .help = "code matrices as `clef quantize` does"},
    NO_TOKENIZER_OPTION,
    QUIET_OPTION(quantize_options),
    {.names = NULL},
};

static uint64_t weight_bytes(const clef_model *model)
{
    uint64_t n = 0;
    for (int32_t i = 0; i < clef_model_n_tensors(model); i++)
        n += clef_model_tensor(model, i).n_bytes;
    return n;
}

static void show_note(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "clef: %s\n", text);
}

/* Opens what was written and shows its size. */
static int show_result(const clef_model *from, const char *path, int32_t quiet)
{
    clef_error err = {0};
    clef_model *written = NULL;
    char before[24], after[24];
    if (clef_model_open(path, &written, &err) != CLEF_OK)
        return cli_report(&err);
    if (!quiet)
        fprintf(stderr, "clef: %s: %s of weights, before %s\n", path,
                cli_bytes_text(weight_bytes(written), after), cli_bytes_text(weight_bytes(from), before));
    clef_model_close(written);
    return CLI_OK;
}

static int known_type(const char *command, const char *type)
{
    char all[200] = "";
    size_t n = 0;
    if (clef_quantize_knows(type))
        return CLI_GO_ON;
    for (int32_t i = 0; clef_quantize_type(i); i++) {
        const int more = snprintf(all + n, sizeof all - n, " %s", clef_quantize_type(i));
        n += more > 0 && (size_t)more < sizeof all - n ? (size_t)more : 0;
    }
    return cli_fail(CLI_USAGE, "%s: no type '%s'; known are:%s", command, type, all);
}

static int write_gguf(const char *from, const char *to, const char *type, const quantize_options *o)
{
    clef_error err = {0};
    clef_model *model = NULL;
    cli_progress progress;
    if (clef_model_open(from, &model, &err) != CLEF_OK)
        return cli_report(&err);
    cli_progress_init(&progress, o->quiet);
    const clef_quantize_opts opts = {.type = type,
                                     .progress = cli_progress_step,
                                     .progress_user = &progress,
                                     .no_tokenizer = o->no_tokenizer,
                                     .note = o->quiet ? NULL : show_note};
    const clef_status status = clef_model_quantize(model, to, &opts, &err);
    cli_progress_finish(&progress);
    const int rc = status == CLEF_OK ? show_result(model, to, o->quiet) : cli_report(&err);
    clef_model_close(model);
    return rc;
}

static int quantize_run(const void *options, int32_t n_args, char **args)
{
    const quantize_options *o = options;
    (void)n_args;
    const int rc = known_type("quantize", args[2]);
    return rc == CLI_GO_ON ? write_gguf(args[0], args[1], args[2], o) : rc;
}

static int convert_run(const void *options, int32_t n_args, char **args)
{
    const quantize_options *o = options;
    (void)n_args;
    const int rc = known_type("convert", o->type);
    return rc == CLI_GO_ON ? write_gguf(args[0], args[1], o->type, o) : rc;
}

const cli_command cli_command_quantize = {
    .name = "quantize",
    .usage = "IN OUT TYPE",
    .summary = "Write a model as GGUF with its weights coded anew",
    .notes = "IN is a GGUF file or a Hugging Face folder, OUT the new file. TYPE: f32 f16 bf16 q8_0 q4_0 "
             "q4_1 q5_0 q5_1 q4_k q5_k q6_k\n"
             "iq4_nl mxfp4 code every matrix alike; the mixes q4_k_m and q5_k_m give those more bits that "
             "need them. Rows that are\n"
             "no whole blocks take the next larger type that fits; vectors stay f32. What is quantised in IN "
             "already is coded from\n"
             "what it decodes to, which costs accuracy. The tokenizer comes along; see `clef help convert`.",
    .options = quantize_option_table,
    .min_args = 3,
    .max_args = 3,
    .defaults = &quantize_defaults,
    .options_bytes = sizeof quantize_defaults,
    .run = quantize_run,
};

const cli_command cli_command_convert = {
    .name = "convert",
    .usage = "FOLDER OUT",
    .summary = "Write a Hugging Face folder as one GGUF file",
    .notes = "Names and keys are llama.cpp's; what these cannot say stands under keys of clef's own. "
             "Matrices keep the type that the\n"
             "folder has, and give the same logits; vectors become f32. The tokenizer comes along: "
             "byte-level BPE, SentencePiece's BPE and\n"
             "Unigram, WordPiece. Where llama.cpp's keys leave something of a tokenizer.json out, a line "
             "says what, and the file holds all\n"
             "of it too, which clef reads first. A tokenizer that GGUF cannot hold is refused, unless "
             "--no-tokenizer leaves it out.",
    .options = convert_option_table,
    .min_args = 2,
    .max_args = 2,
    .defaults = &quantize_defaults,
    .options_bytes = sizeof quantize_defaults,
    .run = convert_run,
};
