/* clef train: trains a model on texts, from nothing or from a model, wholly or as an adapter. */
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/ranks.h"
#include "train/command/plot.h"
#include "train/command/train.h"

const char *const train_objective_names[] = {"auto", "next", "masked", "pairs", NULL};
static const char *const document_names[] = {"marked", "blank", "lines", "files", NULL};
static const char *const packing_names[] = {"stream", "whole", NULL};
static const char *const schedule_names[] = {"constant", "cosine", "linear", NULL};
static const char *const optimizer_names[] = {"adamw", "sgd", NULL};
static const char *const dtype_names[] = {"f32", "f16", "bf16", NULL};

static const train_options train_defaults = {.validation = TRAIN_VALIDATION_DEFAULT,
                                             .epochs = 1,
                                             .rate = 1e-3f,
                                             .final_rate = 0.1f,
                                             .beta1 = 0.9f,
                                             .beta2 = 0.95f,
                                             .eps = 1e-8f,
                                             .decay = 0.1f,
                                             .clip = 1,
                                             .n_warmup = -1,
                                             .schedule = CLEF_SCHEDULE_COSINE,
                                             .eval_every = -1,
                                             .sample_every = -1,
                                             .sample_tokens = 60,
                                             .checkpoint_every = -1,
                                             .keep = 2};

/* clang-format off */
#define AT(field) .offset = offsetof(train_options, field)
static const cli_option train_option_table[] = {
    {.type = CLI_HEADING, .names = "", .help = "What is trained"},
    {.names = "new", .type = CLI_TEXT, .value = "CONFIG", AT(new_config),
     .help = "start a new model by a Hugging Face config.json, in place of MODEL"},
    {.names = "tokenizer", .type = CLI_TEXT, .value = "WHICH", AT(tokenizer),
     .help = "of a new model: a folder or tokenizer.json; or train:SIZE, a byte-level BPE made from the "
              "data"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "OUT", AT(out),
     .help = "the trained model: a folder, or a file that ends with .gguf; with --lora an adapter's folder"},
    {.names = "lora", .type = CLI_INT, .value = "RANK", AT(lora_rank), .lo = 1, .hi = CLEF_MAX_LOW_RANK,
     .help = "train an adapter of this rank and leave the weights as they are"},
    {.names = "lora-alpha", .type = CLI_FLOAT, .value = "A", AT(lora_alpha), .lo = 1e-6, .hi = 1e6,
     .help = "the adapter is scaled by A / RANK [RANK]"},
    {.names = "lora-targets", .type = CLI_TEXT, .value = "NAMES", AT(lora_targets),
     .help = "parts of the names of the weights that the adapter changes, with commas [all projections]"},
    {.names = "dtype", .type = CLI_CHOICE, .value = "TYPE", AT(dtype), .choices = dtype_names,
     .help = "number format of the saved weights [f32]"},

    {.type = CLI_HEADING, .names = "", .help = "Data"},
    {.names = "data", .type = CLI_LIST, .value = "FILE", AT(data),
     .help = "a text file, or .jsonl with {\"text\": ..} or {\"source\": .., \"target\": ..} a line; may be "
              "repeated"},
    {.names = "validation-data", .type = CLI_LIST, .value = "FILE", AT(validation_files),
     .help = "a file whose loss is measured and which is not trained on; may be repeated"},
    {.names = "validation", .type = CLI_FLOAT, .value = "PART", AT(validation), .lo = 0, .hi = 0.9,
     .help = "without such files, the part of the data that is kept for validation; 0: none [0.05]"},
    {.names = "objective", .type = CLI_CHOICE, .value = "WHAT", AT(objective),
     .choices = train_objective_names,
     .help = "predict the next token, masked tokens, or targets from sources [by the model]"},
    {.names = "documents", .type = CLI_CHOICE, .value = "HOW", AT(documents), .choices = document_names,
     .help = "how a text is cut into documents: at marked lines (--separator), blank lines, all lines, or "
              "not"},
    {.names = "separator", .type = CLI_TEXT, .value = "TEXT", AT(separator),
     .help = "the line between two documents [<|endoftext|>]"},
    {.names = "packing", .type = CLI_CHOICE, .value = "HOW", AT(packing), .choices = packing_names,
     .help = "stream: rows cut the documents anywhere; whole: documents that fit a row are not cut"},
    {.names = "tokens", .letter = 'c', .type = CLI_INT, .value = "N", AT(n_tokens), .lo = 2, .hi = 1 << 20,
     .help = "tokens of a row [the model's context, at most 1024]"},
    {.names = "mask-rate", .type = CLI_FLOAT, .value = "P", AT(mask_rate), .lo = 1e-6, .hi = 1,
     .help = "the part of the tokens that is masked [0.15]"},

    {.type = CLI_HEADING, .names = "", .help = "Steps"},
    {.names = "rows", .letter = 'b', .type = CLI_INT, .value = "N", AT(n_rows), .lo = 1, .hi = 1 << 16,
     .help = "rows that are computed at once [8]"},
    {.names = "accumulate", .type = CLI_INT, .value = "N", AT(n_parts), .lo = 1, .hi = 1 << 16,
     .help = "times --rows before each update [1]"},
    {.names = "steps", .letter = 'n', .type = CLI_INT, .value = "N", AT(n_steps), .lo = 1, .hi = INT32_MAX,
     .help = "updates; in place of --epochs"},
    {.names = "epochs", .type = CLI_FLOAT, .value = "N", AT(epochs), .lo = 1e-6, .hi = 1e6,
     .help = "how often the data is read [1]"},
    {.names = "dropout", .type = CLI_FLOAT, .value = "P", AT(dropout), .lo = 0, .hi = 0.99,
     .help = "of the embeddings and of each block's result [0]"},
    {.names = "seed", .letter = 's', .type = CLI_SEED, .value = "N", AT(seed),
     .help = "decides the order of the data, the initial values and dropout [0]"},
    {.names = "recompute", .type = CLI_SWITCH, AT(recompute),
     .help = "compute each layer again for its gradient, which needs less memory and a third more time"},

    {.type = CLI_HEADING, .names = "", .help = "Optimiser"},
    {.names = "optimizer", .type = CLI_CHOICE, .value = "HOW", AT(optimizer), .choices = optimizer_names,
     .help = "AdamW, or SGD with momentum [adamw]"},
    {.names = "rate", .letter = 'r', .type = CLI_FLOAT, .value = "R", AT(rate), .lo = 0, .hi = 1e9,
     .help = "the learning rate [1e-3]"},
    {.names = "warmup", .type = CLI_INT, .value = "N", AT(n_warmup), .lo = 0, .hi = INT32_MAX,
     .help = "steps in which the rate rises to R [a tenth of the steps, at most 100]"},
    {.names = "schedule", .type = CLI_CHOICE, .value = "HOW", AT(schedule), .choices = schedule_names,
     .help = "how the rate falls afterwards [cosine]"},
    {.names = "final-rate", .type = CLI_FLOAT, .value = "F", AT(final_rate), .lo = 0, .hi = 1,
     .help = "the last rate, as a part of R [0.1]"},
    {.names = "beta1", .type = CLI_FLOAT, .value = "B", AT(beta1), .lo = 0, .hi = 0.99999,
     .help = "of AdamW; the momentum of SGD [0.9]"},
    {.names = "beta2", .type = CLI_FLOAT, .value = "B", AT(beta2), .lo = 0, .hi = 0.999999,
     .help = "of AdamW [0.95]"},
    {.names = "eps", .type = CLI_FLOAT, .value = "E", AT(eps), .lo = 0, .hi = 1,
     .help = "of AdamW [1e-8]"},
    {.names = "weight-decay", .type = CLI_FLOAT, .value = "D", AT(decay), .lo = 0, .hi = 10,
     .help = "of matrices; vectors do not decay [0.1]"},
    {.names = "clip", .type = CLI_FLOAT, .value = "N", AT(clip), .lo = 0, .hi = 1e9,
     .help = "the largest norm of the gradient; 0: any [1]"},
    {.names = "compute", .type = CLI_CHOICE, .value = "TYPE", AT(compute), .choices = dtype_names,
     .help = "number format of what is multiplied; parameters and sums are f32 [f32]"},
    {.names = "loss-scale", .type = CLI_FLOAT, .value = "S", AT(loss_scale), .lo = 1e-6, .hi = 1e9,
     .help = "what the loss is multiplied by for the gradients, which are divided by it again; of f16 it "
             "adapts [1; with --compute f16 65536]"},

    {.type = CLI_HEADING, .names = "", .help = "On the way"},
    {.names = "eval-every", .type = CLI_INT, .value = "N", AT(eval_every), .lo = 0, .hi = INT32_MAX,
     .help = "steps between two measurements of the validation loss; 0: none [a tenth of the steps]"},
    {.names = "eval-rows", .type = CLI_INT, .value = "N", AT(eval_rows), .lo = 0, .hi = INT32_MAX,
     .help = "rows that are measured at most; 0: all"},
    {.names = "prompt", .letter = 'p', .type = CLI_TEXT, .value = "TEXT", AT(prompt),
     .help = "decoders: write a text that begins so, on the way and at the end"},
    {.names = "sample-every", .type = CLI_INT, .value = "N", AT(sample_every), .lo = 0, .hi = INT32_MAX,
     .help = "steps between two such texts; 0: none [as --eval-every]"},
    {.names = "sample-tokens", .type = CLI_INT, .value = "N", AT(sample_tokens), .lo = 1, .hi = 1 << 16,
     .help = "their length [60]"},
    {.names = "checkpoint-every", .type = CLI_INT, .value = "N", AT(checkpoint_every), .lo = 0,
     .hi = INT32_MAX,
     .help = "steps between two checkpoints; 0: only at the end and on Ctrl-C [a tenth of the steps]"},
    {.names = "keep", .type = CLI_INT, .value = "N", AT(keep), .lo = 1, .hi = 1000,
     .help = "checkpoints that are kept [2]"},
    {.names = "resume", .type = CLI_SWITCH, AT(resume),
     .help = "go on from the newest checkpoint in OUT.train, as if there had been no break"},
    {.names = "log", .type = CLI_TEXT, .value = "FILE", AT(log),
     .help = "JSON lines of losses and texts [OUT.train/log.jsonl]; `clef train plot` draws them"},
    {.names = "dp", .type = CLI_INT, .value = "N", AT(dp), .lo = 1, .hi = 4096,
     .help = "under mpirun: ranks with the whole model each, which share the rows of a step [all ranks]"},
    {.names = "dry-run", .type = CLI_SWITCH, AT(dry_run),
     .help = "print parameters, memory, data, steps and expected time, and train nothing (with --new, "
             "OUT.train gets the new model)"},

    {.type = CLI_HEADING, .names = "", .help = "Device"},
    DEVICE_OPTION(train_options),
    GEMM_OPTION(train_options),
    TUNE_OPTION(train_options),
    PROOF_OPTION(train_options),
    STRICT_OPTION(train_options),
    QUIET_OPTION(train_options),
    {.names = NULL},
};
/* clang-format on */

static int check_options(const train_options *o, int32_t n_args)
{
    if (n_args > 1)
        return cli_fail(CLI_USAGE, "train: expected one MODEL, got %d arguments", n_args);
    if (n_args && o->new_config)
        return cli_fail(CLI_USAGE, "train: MODEL and --new: expected one of them");
    if (!n_args && !o->new_config)
        return cli_fail(CLI_USAGE, "train: expected MODEL, or --new CONFIG with --tokenizer");
    if (!o->data.n)
        return cli_fail(CLI_USAGE, "train: expected --data FILE");
    if (!o->out && !o->dry_run)
        return cli_fail(CLI_USAGE, "train: expected -o OUT");
    if (o->tokenizer && !o->new_config)
        return cli_fail(CLI_USAGE, "train: --tokenizer is for a new model (--new); MODEL has its own");
    if ((o->lora_alpha != 0 || o->lora_targets) && !o->lora_rank)
        return cli_fail(CLI_USAGE, "train: --lora-alpha and --lora-targets are for an adapter (--lora RANK)");
    return CLI_GO_ON;
}

static int run_train(const void *options, int32_t n_args, char **args)
{
    train_options o = *(const train_options *)options;
    train_run r = {0};
    clef_ranks_info ranks = {.n = 1};
    if (n_args && strcmp(args[0], "plot") == 0)
        return plot_run(n_args - 1, args + 1, o.out);
    int code = cli_ranks_join_apart("train", o.dp, &r.ranks);
    if (code != CLI_GO_ON)
        return code;
    if (r.ranks)
        clef_ranks_describe(r.ranks, &ranks);
    r.rank = ranks.rank;
    o.quiet |= r.rank > 0;
    code = cli_ranks_agree(check_options(&o, n_args));
    if (code == CLI_GO_ON)
        code = train_open(&r, &o, n_args ? args[0] : NULL);
    if (code == CLI_GO_ON)
        code = o.dry_run ? train_dry_run(&r) : train_loop(&r);
    train_close(&r);
    return code;
}

const cli_command cli_command_train = {
    .name = "train",
    .usage = "[MODEL | --new CONFIG --tokenizer WHICH] --data FILE -o OUT | plot LOG.. -o FILE",
    .summary = "Train a model on texts",
    .notes =
        "Gradients and optimiser run on the OpenCL device. The same seed gives the same bits on the same "
        "device. Beside OUT, the folder OUT.train holds checkpoints and the log; --resume goes on from "
        "there, to the last bit as if there had been no break. `clef train plot OUT.train/log.jsonl` draws "
        "the losses. Under mpirun -n N, N ranks share each step, on a device each.",
    .apart = 1,
    .options = train_option_table,
    .first = "new tokenizer out lora data validation-data tokens rows accumulate steps epochs seed "
             "rate eval-every prompt resume device quiet",
    .max_args = CLI_MAX_LIST,
    .defaults = &train_defaults,
    .options_bytes = sizeof(train_options),
    .run = run_train,
};
