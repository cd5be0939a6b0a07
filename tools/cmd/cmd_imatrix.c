/* clef imatrix: how much the columns of a model's matrices count on a text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clef/imatrix.h"
#include "clef/tokenizer.h"
#include "tools/cli/common.h"
#include "tools/cli/progress.h"

typedef struct imatrix_options {
    const char *out;
    cli_place place;
    int32_t n_context, n_chunks;
    clef_compile_opts compile;
} imatrix_options;

static const imatrix_options imatrix_defaults = {.out = "imatrix.gguf"};

/* clang-format off */
#define AT(field) .offset = offsetof(imatrix_options, field)
static const cli_option imatrix_option_table[] = {
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "OUT", AT(out),
     .help = "write to this file [imatrix.gguf]"},
    {.names = "ctx-size", .letter = 'c', .type = CLI_INT, .value = "CTX", AT(n_context), .lo = 1,
     .hi = INT32_MAX, .help = "tokens of a chunk [512, or the model's context]"},
    {.names = "chunks", .type = CLI_INT, .value = "N", AT(n_chunks), .lo = 1, .hi = INT32_MAX,
     .help = "read the first N chunks alone [all]"},
    {.names = "threads", .letter = 't', .type = CLI_INT, .value = "N", AT(place.n_threads), .lo = 1,
     .hi = 1024, .help = "threads of a CPU device"},
    {.names = "device", .letter = 'd', .type = CLI_TEXT, .value = "DEVICE", AT(place.device),
     .env = "CLEF_DEVICE",
     .help = "the OpenCL device: platform and number (0:1), a part of its name, or auto; see `clef devices`"},
    COMPILE_OPTIONS(imatrix_options),
    {.names = "quiet", .letter = 'q', .type = CLI_SWITCH, AT(place.quiet),
     .help = "print no progress, only errors"},
    {.names = NULL},
};
/* clang-format on */

/* The text's ids, and BOS (-1: the model's texts begin without it). Each chunk has it first, so the first of
 * the ids is BOS, too. */
static clef_status encode(clef_model *model, const char *text, size_t n_bytes, int32_t **ids, int32_t *n,
                          int32_t *bos, clef_error *err)
{
    const clef_tokenizer *tok = clef_model_tokenizer(model, err);
    *bos = clef_tokenizer_leading_bos(tok);
    return tok ? clef_tokenizer_encode(tok, text, n_bytes, CLEF_SPECIAL_ADD, ids, n, err) : err->status;
}

static void show(const clef_imatrix *im, const char *path)
{
    int32_t n_unused = 0;
    for (int32_t i = 0; i < clef_imatrix_n(im); i++) {
        const clef_imatrix_entry e = clef_imatrix_get(im, i);
        for (int32_t m = 0; m < e.n_matrices; m++)
            n_unused += e.counts[m] <= 0;
    }
    fprintf(stderr, "clef: %s: %" PRId32 " matrices, %" PRId32 " chunks\n", path, clef_imatrix_n(im),
            clef_imatrix_chunks(im));
    if (n_unused)
        fprintf(stderr,
                "clef: the text reaches %" PRId32 " experts' matrices never; their columns count equally\n",
                n_unused);
}

static int run_model(const imatrix_options *o, char **args, const char *text, size_t n_bytes)
{
    clef_error err = {0};
    clef_model *model = NULL;
    clef_device *device = NULL;
    clef_imatrix *im = NULL;
    cli_progress progress = {0};
    int32_t *ids = NULL, n = 0, bos = -1;
    const char *slash = strrchr(args[1], '/');
    int rc = cli_model_open(args[0], &o->place, &progress, &model, &device);
    clef_status status = rc == CLI_GO_ON ? encode(model, text, n_bytes, &ids, &n, &bos, &err) : CLEF_OK;
    const clef_imatrix_opts opts = {.n_context = o->n_context,
                                    .n_chunks = o->n_chunks,
                                    .dataset = slash ? slash + 1 : args[1],
                                    .compile = cli_compile_opts(&o->compile, &progress)};
    if (rc == CLI_GO_ON && status == CLEF_OK)
        status = clef_imatrix_collect(device, model, ids, n, bos, &opts, &im, &err);
    if (im)
        status = clef_imatrix_write(im, o->out, &err);
    cli_progress_finish(&progress);
    if (rc == CLI_GO_ON)
        rc = status == CLEF_OK ? CLI_OK : cli_report(&err);
    if (rc == CLI_OK && !o->place.quiet)
        show(im, o->out);
    clef_imatrix_close(im);
    clef_tokens_free(ids);
    clef_device_close(device);
    clef_model_close(model);
    return rc;
}

static int imatrix_run(const void *options, int32_t n_args, char **args)
{
    char *text = NULL;
    size_t n_bytes = 0;
    (void)n_args;
    int rc = cli_read_file(args[1], &text, &n_bytes);
    if (rc == CLI_GO_ON)
        rc = run_model(options, args, text, n_bytes);
    free(text);
    return rc;
}

const cli_command cli_command_imatrix = {
    .name = "imatrix",
    .usage = "MODEL FILE [-o OUT]",
    .summary = "Measure on a text how much each weight counts, for `clef quantize --imatrix`",
    .notes =
        "FILE is UTF-8 text; - is stdin. It is cut into chunks of CTX tokens, and each is read on its own, "
        "with BOS in place of its first token if the model's tokenizer adds one. For each matrix the file "
        "holds the sums of the squares of its inputs, by columns, of experts each on its own. It is a file "
        "of llama.cpp's, as llama-imatrix writes it.\n\nMODEL should be the one that is quantised later, in "
        "f16 or f32: a GGUF file or a Hugging Face folder. Either gives the same file.\n",
    .options = imatrix_option_table,
    .min_args = 2,
    .max_args = 2,
    .defaults = &imatrix_defaults,
    .options_bytes = sizeof imatrix_defaults,
    .run = imatrix_run,
};
