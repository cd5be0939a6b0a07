/* clef attention: which token attends to which. */
#include <inttypes.h>
#include <string.h>

#include "tools/cli/output.h"
#include "tools/inspect/attention.h"

typedef struct attention_options {
    cli_forward_opts forward;
    const char *model, *patch, *out;
    int32_t layer, head, kind, format;
} attention_options;

static const attention_options attention_defaults = {
    .layer = -1, .head = -1, .kind = -1, .format = -1, .forward.compile.exact = 1};

static const char *const formats[] = {"text", "json", "npy", "svg", "png", "html", NULL};
static const cli_writer writers[] = {cli_attention_text, cli_attention_json, cli_attention_npy,
                                     cli_attention_svg,  cli_attention_png,  cli_attention_html};

/* clang-format off */
#define AT(field) .offset = offsetof(attention_options, field)
static const cli_option attention_option_table[] = {
    MODEL_OPTION(attention_options),
    FORWARD_OPTIONS(attention_options),
    {.names = "image", .type = CLI_TEXT, .value = "FILE", FORWARD_AT(attention_options, image),
     .help = "a picture instead of a text, for encoders of pictures: PNG, JPEG, WebP or PPM, - is stdin"},
    {.names = "patch", .type = CLI_TEXT, .value = "ROW,COLUMN", AT(patch),
     .help = "with --image: the patch that looks [the class token; in models without one, the mean of all]"},
    {.names = "layer", .letter = 'l', .type = CLI_INT, .value = "L", AT(layer), .lo = 0, .hi = 1023,
     .help = "show only this layer [all]"},
    {.names = "head", .type = CLI_INT, .value = "H", AT(head), .lo = 0, .hi = 4095,
     .help = "show only this head [all]"},
    {.names = "kind", .type = CLI_CHOICE, .value = "KIND", AT(kind), .choices = cli_attention_kinds,
     .help = "encoder-decoders: attention of the decoder to itself, of the encoder, or of the decoder to "
             "the source [html, json: all; else cross]; SigLIP: pool, that of its pooling query"},
    {.names = "format", .type = CLI_CHOICE, .value = "HOW", AT(format), .choices = formats,
     .help = "output format [by the ending of FILE, else text]"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "FILE", AT(out),
     .help = "write to this file instead of stdout"},
    {.names = NULL},
};
/* clang-format on */

static uint32_t kinds_of(const attention_options *o, const cli_forward *f, int32_t format)
{
    if (o->kind >= 0)
        return 1u << o->kind;
    if (f->pixels.values)
        return writers[format] == cli_attention_npy ? 1u << ATTENTION_SELF
                                                    : 1u << ATTENTION_SELF | 1u << ATTENTION_POOL;
    if (!f->is_seq2seq)
        return 1u << ATTENTION_SELF;
    return writers[format] == cli_attention_json || writers[format] == cli_attention_html
               ? (1u << ATTENTION_N_KINDS) - 1
               : 1u << ATTENTION_CROSS;
}

static clef_status check_head(const attention_maps *a, int32_t head, clef_error *err)
{
    for (int32_t i = 0; i < a->n; i++)
        if (head >= a->maps[i].n_heads)
            return cli_error(err, CLEF_E_ARG, "attention: --head %" PRId32 ": %s has heads 0 to %" PRId32,
                             head, a->maps[i].name, a->maps[i].n_heads - 1);
    return CLEF_OK;
}

static int attention_run(const void *options, int32_t n_args, char **args)
{
    const attention_options *o = options;
    clef_error err = {0};
    cli_forward f = {0};
    attention_maps maps = {0};
    const char *path = cli_model_path("attention", n_args, args, o->model);
    if (!path)
        return n_args > 0 && o->model ? CLI_USAGE : CLI_FAILED;
    const int32_t format = cli_format_of("attention", formats, "txt", o->format, o->out);
    if (format < 0)
        return CLI_USAGE;
    if (o->patch && !o->forward.image)
        return cli_fail(CLI_USAGE, "attention: --patch: expected --image beside it");
    clef_status status = cli_forward_open(&f, &o->forward, path, &err);
    if (status == CLEF_OK)
        status = cli_attention_collect(&f, kinds_of(o, &f, format), o->layer, o->patch, &maps, &err);
    if (status == CLEF_OK)
        status = check_head(&maps, o->head, &err);
    maps.title = cli_title_of(path);
    maps.head = o->head;
    if (status == CLEF_OK)
        status = cli_output(o->out, writers[format], &maps, &err);
    cli_attention_finish(&maps);
    cli_forward_close(&f);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

const cli_command cli_command_attention = {
    .name = "attention",
    .usage = "[MODEL] -p TEXT|--image FILE [--layer L] [--head H] [-o FILE]",
    .summary = "Show attention weights: which token attends to which, or which parts of a picture are seen",
    .notes = "Without -o, prints for each head the mean entropy of a row, the mean distance between query "
             "and key, and the mean weight of the first token. With --layer or --head it also prints the "
             "weights.\n\nThe ending of FILE selects the form: .html (all heads, interactive), .svg, .png, "
             ".json or .npy (numbers). Masked cells are exactly 0 and drawn in grey.\n\nWith --image, the "
             "heads of an encoder of pictures are drawn over the picture. In the .html page, a click on a "
             "patch shows what it sees.\n",
    .options = attention_option_table,
    .first = "model prompt file image patch ids in n-predict layer head kind format out device quiet",
    .max_args = 1,
    .defaults = &attention_defaults,
    .options_bytes = sizeof attention_defaults,
    .run = attention_run,
};
