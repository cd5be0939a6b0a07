/* clef tokenize: converts text to token ids, and back. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/json.h"
#include "tools/cli/progress.h"
#include "tools/cli/terminal.h"

typedef struct tokenize_options {
    int32_t no_special, json, pieces, decode;
    int32_t train, min_frequency, quiet;
    const char *out;
    cli_list special;
} tokenize_options;

static const tokenize_options tokenize_defaults = {0};

/* clang-format off */
#define AT(field) .offset = offsetof(tokenize_options, field)
static const cli_option tokenize_option_table[] = {
    {.names = "no-special", .type = CLI_SWITCH, AT(no_special),
     .help = "add no special tokens, such as BOS and EOS"},
    {.names = "json", .type = CLI_SWITCH, AT(json),
     .help = "print the ids as a JSON list; this is the default"},
    {.names = "pieces", .type = CLI_SWITCH, AT(pieces),
     .help = "print one line for each token: id, tab, its text as a JSON string"},
    {.names = "decode", .type = CLI_SWITCH, AT(decode),
     .help = "decode: TEXT is a list of ids, and their text is printed"},
    {.type = CLI_HEADING, .names = "", .help = "A new tokenizer"},
    {.names = "train", .type = CLI_INT, .value = "SIZE", AT(train), .lo = 257, .hi = 1 << 20,
     .help = "learn a byte-level BPE of so many tokens; the arguments are text files"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "FOLDER", AT(out),
     .help = "where the new tokenizer is written"},
    {.names = "special", .type = CLI_LIST, .value = "TOKEN", AT(special),
     .help = "a special token, the first ids; may be repeated [<|endoftext|>]"},
    {.names = "min-frequency", .type = CLI_INT, .value = "N", AT(min_frequency), .lo = 0, .hi = INT32_MAX,
     .help = "a pair of tokens becomes one if it occurs so often [0]"},
    QUIET_OPTION(tokenize_options),
    {.names = NULL},
};
/* clang-format on */

static int print_pieces(const clef_tokenizer *tok, const int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        clef_error err = {0};
        char *text = NULL;
        size_t n_bytes = 0;
        if (clef_tokenizer_decode(tok, &ids[i], 1, &text, &n_bytes, &err) != CLEF_OK)
            return cli_report(&err);
        printf("%" PRId32 "\t", ids[i]);
        cli_json_string(stdout, text);
        putchar('\n');
        clef_text_free(text);
    }
    return CLI_OK;
}

static int encode_text(const clef_tokenizer *tok, const tokenize_options *o, const char *text, size_t n_bytes)
{
    clef_error err = {0};
    int32_t *ids = NULL, n = 0;
    int rc = CLI_OK;
    if (clef_tokenizer_encode(tok, text, n_bytes, o->no_special ? CLEF_SPECIAL_NONE : CLEF_SPECIAL_ADD, &ids,
                              &n, &err) != CLEF_OK)
        return cli_report(&err);
    if (o->pieces) {
        rc = print_pieces(tok, ids, n);
    } else {
        cli_json_ints(stdout, ids, n);
        putchar('\n');
    }
    clef_tokens_free(ids);
    return rc;
}

static int decode_ids(const clef_tokenizer *tok, const char *text, size_t n_bytes)
{
    clef_error err = {0};
    char *out = NULL;
    size_t n_out = 0;
    int32_t n = 0;
    int32_t *ids =
        n_bytes < INT32_MAX ? malloc((n_bytes + 1) * sizeof *ids) : NULL; /* an id has at least one byte */
    if (!ids)
        return cli_fail(CLI_FAILED, "tokenize: out of host memory");
    for (const char *s = text + strspn(text, "[, \n\t"); *s && *s != ']'; s += strspn(s, ", \n\t")) {
        char *end;
        errno = 0;
        const long x = strtol(s, &end, 10);
        if (end == s || errno || x < 0 || x > INT32_MAX) {
            free(ids);
            return cli_fail(CLI_USAGE, "tokenize --decode: expected ids such as 1,2,3, got '%.20s'", s);
        }
        ids[n++] = (int32_t)x;
        s = end;
    }
    const clef_status status = clef_tokenizer_decode(tok, ids, n, &out, &n_out, &err);
    free(ids);
    if (status != CLEF_OK)
        return cli_report(&err);
    fwrite(out, 1, n_out, stdout);
    if (cli_terminal_stdout())
        putchar('\n');
    clef_text_free(out);
    return CLI_OK;
}

/* Says how many tokens there are if the texts were too small for all that were asked for. */
static int check_size(const tokenize_options *o)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    if (clef_tokenizer_open(o->out, &tok, &err) != CLEF_OK)
        return cli_report(&err);
    const int32_t n = clef_tokenizer_n_tokens(tok);
    clef_tokenizer_close(tok);
    if (n < o->train && !o->quiet)
        fprintf(stderr, "clef: %s: %" PRId32 " tokens in place of %" PRId32 ": no other pair occurs %s\n",
                o->out, n, o->train,
                o->min_frequency > 1 ? "often enough (--min-frequency)" : "in the texts");
    return CLI_OK;
}

static int train_tokenizer(const tokenize_options *o, int32_t n_files, char **files)
{
    cli_progress progress;
    clef_error err = {0};
    if (!o->out)
        return cli_fail(CLI_USAGE, "tokenize --train: expected -o FOLDER");
    cli_progress_init(&progress, o->quiet);
    cli_terminal_catch_interrupt();
    const clef_tokenizer_train_opts opts = {.files = (const char *const *)files,
                                            .n_files = n_files,
                                            .n_vocab = o->train,
                                            .min_frequency = o->min_frequency,
                                            .special = o->special.items,
                                            .n_special = o->special.n,
                                            .progress = cli_progress_step,
                                            .progress_user = &progress};
    const clef_status s = clef_tokenizer_train(&opts, o->out, &err);
    cli_progress_finish(&progress);
    return s ? cli_report(&err) : check_size(o);
}

static int tokenize_run(const void *options, int32_t n_args, char **args)
{
    const tokenize_options *o = options;
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    char *from_stdin = NULL;
    if (o->train)
        return train_tokenizer(o, n_args, args);
    if (o->out || o->special.n || o->min_frequency)
        return cli_fail(CLI_USAGE,
                        "tokenize: --out, --special and --min-frequency: expected --train SIZE too");
    if (n_args != 2)
        return cli_fail(CLI_USAGE, "tokenize: expected MODEL and TEXT, got %d arguments", n_args);
    size_t n_bytes = strlen(args[1]);
    if (strcmp(args[1], "-") == 0) {
        const int rc = cli_read_file("-", &from_stdin, &n_bytes);
        if (rc != CLI_GO_ON)
            return rc;
    }
    const char *text = from_stdin ? from_stdin : args[1];
    int rc;
    if (clef_tokenizer_open(args[0], &tok, &err) != CLEF_OK)
        rc = cli_report(&err);
    else
        rc = o->decode ? decode_ids(tok, text, n_bytes) : encode_text(tok, o, text, n_bytes);
    clef_tokenizer_close(tok);
    free(from_stdin);
    return rc;
}

const cli_command cli_command_tokenize = {
    .name = "tokenize",
    .usage = "MODEL TEXT [--no-special] [--json] | --train SIZE FILE.. -o FOLDER",
    .summary = "Print the token ids of a text, or learn a tokenizer",
    .notes = "MODEL may also be a GGUF file that holds only a vocabulary, a folder that holds only tokenizer "
             "files, or one such file. TEXT - reads standard input.\n\n"
             "--train learns the same vocabulary and merges as Hugging Face tokenizers' BpeTrainer "
             "(ByteLevel) from the same files.\n",
    .options = tokenize_option_table,
    .min_args = 1,
    .max_args = CLI_MAX_LIST,
    .defaults = &tokenize_defaults,
    .options_bytes = sizeof tokenize_defaults,
    .run = tokenize_run,
};
