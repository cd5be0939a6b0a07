/* clef quantize and clef convert: write a model as a GGUF file, with its weights quantised or unchanged. */
#include <inttypes.h>
#include <string.h>

#include "clef/imatrix.h"
#include "tools/cli/common.h"
#include "tools/cli/progress.h"
#include "tools/cli/terminal.h"

typedef struct quantize_options {
    int32_t quiet;
    const char *type; /* convert */
    const char *imatrix;
    cli_list tensor_types;
    int32_t no_tokenizer;
} quantize_options;

static const quantize_options quantize_defaults = {.type = "stored"};

#define NO_TOKENIZER_OPTION                                                                                  \
    {                                                                                                        \
        .names = "no-tokenizer", .type = CLI_SWITCH, .offset = offsetof(quantize_options, no_tokenizer),     \
        .help = "leave the tokenizer of a folder out"                                                        \
    }

static const cli_option quantize_option_table[] = {
    {.names = "imatrix",
     .type = CLI_TEXT,
     .value = "FILE",
     .offset = offsetof(quantize_options, imatrix),
     .help = "weigh errors by how much columns count, as `clef imatrix` or llama-imatrix measured it; the "
             "types with k or iq in their names do"},
    {.names = "tensor-type",
     .type = CLI_LIST,
     .value = "PATTERN=TYPE",
     .offset = offsetof(quantize_options, tensor_types),
     .help =
         "quantise the matrices whose names have PATTERN in them to TYPE; * stands for any text, ? for one "
         "character. The first that fits holds"},
    NO_TOKENIZER_OPTION,
    QUIET_OPTION(quantize_options),
    {.names = NULL},
};

static const cli_option convert_option_table[] = {
    {.names = "type",
     .value = "TYPE",
     .type = CLI_TEXT,
     .offset = offsetof(quantize_options, type),
     .choice = clef_quantize_type,
     .help = "quantise matrices to this type, as `clef quantize` does"},
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

/* Opens the written file and shows its size. */
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
    char all[240] = "";
    size_t n = 0;
    if (clef_quantize_knows(type))
        return CLI_GO_ON;
    for (int32_t i = 0; clef_quantize_type(i); i++) {
        const int more = snprintf(all + n, sizeof all - n, " %s", clef_quantize_type(i));
        n += more > 0 && (size_t)more < sizeof all - n ? (size_t)more : 0;
    }
    return cli_fail(CLI_USAGE, "%s: no type '%s'; known are:%s", command, type, all);
}

enum { MAX_PATTERN = 200 };

/* PATTERN=TYPE as rules, with the patterns in room[]. */
static int read_rules(const cli_list *list, char room[][MAX_PATTERN], clef_quantize_rule *rules)
{
    for (int32_t i = 0; i < list->n; i++) {
        const char *equals = strrchr(list->items[i], '=');
        const size_t n = equals ? (size_t)(equals - list->items[i]) : 0;
        if (n < 1 || n >= MAX_PATTERN)
            return cli_fail(CLI_USAGE, "quantize: --tensor-type: expected PATTERN=TYPE, got '%.100s'",
                            list->items[i]);
        memcpy(room[i], list->items[i], n);
        room[i][n] = 0;
        rules[i] = (clef_quantize_rule){room[i], equals + 1};
    }
    return CLI_GO_ON;
}

static int write_gguf(const char *from, const char *to, const char *type, const quantize_options *o)
{
    static char room[CLI_MAX_LIST][MAX_PATTERN];
    clef_quantize_rule rules[CLI_MAX_LIST];
    clef_error err = {0};
    clef_model *model = NULL;
    clef_imatrix *im = NULL;
    cli_progress progress;
    const int parsed = read_rules(&o->tensor_types, room, rules);
    if (parsed != CLI_GO_ON)
        return parsed;
    if (clef_model_open(from, &model, &err) != CLEF_OK)
        return cli_report(&err);
    if (o->imatrix && clef_imatrix_open(o->imatrix, &im, &err) != CLEF_OK) {
        clef_model_close(model);
        return cli_report(&err);
    }
    cli_progress_init(&progress, o->quiet);
    const clef_quantize_opts opts = {.type = type,
                                     .imatrix = im,
                                     .rules = rules,
                                     .n_rules = o->tensor_types.n,
                                     .progress = cli_progress_step,
                                     .progress_user = &progress,
                                     .no_tokenizer = o->no_tokenizer,
                                     .note = o->quiet ? NULL : show_note};
    const clef_status status = clef_model_quantize(model, to, &opts, &err);
    cli_progress_finish(&progress);
    const int rc = status == CLEF_OK ? show_result(model, to, o->quiet) : cli_report(&err);
    clef_imatrix_close(im);
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
    .summary = "Quantise a model's weights and write them as GGUF",
    .notes = "IN is a GGUF file or a Hugging Face folder, OUT the new GGUF file. The types f32 f16 bf16 q8_0 "
             "q4_0 q4_1 q5_0 q5_1 q3_k q4_k q5_k q6_k iq4_nl mxfp4 nvfp4 q1_0 q2_0 store every matrix in "
             "that format. q2_k q3_k_m q4_k_m q5_k_m iq3_s iq4_xs are llama.cpp's mixes, which give more "
             "bits to the matrices that need them.\n\nA matrix whose rows are not a multiple of the block "
             "size gets the next larger type that fits. "
             "Vectors stay f32. Weights that are already quantised are decoded first, which costs accuracy. "
             "The tokenizer is included; see `clef help convert`.\n\n--imatrix FILE makes the errors small "
             "where they count "
             "most; `clef imatrix` measures that on a text.\n",
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
    .summary = "Convert a Hugging Face folder to a GGUF file",
    .notes = "Names and keys in the file are those of llama.cpp; keys of clef's own hold what these cannot "
             "express. Matrices keep the type that they have in the folder and give the same logits; vectors "
             "become f32.\n\nThe tokenizer is included: byte-level BPE, SentencePiece's BPE and Unigram, "
             "WordPiece. If llama.cpp's keys cannot hold all of tokenizer.json, clef prints what is missing "
             "and stores the whole of it too, which clef reads first. A tokenizer that does not fit into "
             "GGUF is refused, unless --no-tokenizer leaves it out.\n",
    .options = convert_option_table,
    .min_args = 2,
    .max_args = 2,
    .defaults = &quantize_defaults,
    .options_bytes = sizeof quantize_defaults,
    .run = convert_run,
};
