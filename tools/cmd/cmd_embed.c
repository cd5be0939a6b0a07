/* clef embed: computes vectors of texts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/cli/lines.h"
#include "tools/cli/terminal.h"
#include "tools/embedding.h"
#include "tools/inspect/npy.h"
#include "tools/picture.h"

typedef struct embed_options {
    cli_embedding_options common;
    const char *file, *out, *calibrate;
    int32_t json, npy, n_repeats, form, kind;
    cli_list images;
} embed_options;

enum { KIND_SPARSE = 1, KIND_MULTI };
static const char *const kind_names[] = {"dense", "sparse", "multi", NULL};

/* By clef_vector_form: the names of --precision, and NumPy's codes. */
static const char *const form_names[] = {"float32", "int8", "uint8", "binary", "ubinary", NULL};
static const char *const form_codes[] = {"f4", "i1", "u1", "i1", "u1"};

static const embed_options embed_defaults = {.common = {.n_batch = 32}};

/* clang-format off */
#define AT(field) .offset = offsetof(embed_options, field)
static const cli_option embed_option_table[] = {
    IMAGE_OPTION(embed_options, images,
                 "embed a picture instead of texts: PNG, JPEG, WebP or PPM, - is stdin; may be repeated"),
    {.names = "file", .letter = 'f', .type = CLI_TEXT, .value = "FILE", AT(file),
     .help = "read more texts, one per line, from a file; - is stdin"},
    {.names = "json", .type = CLI_SWITCH, AT(json),
     .help = "print JSON in the form of OpenAI's embeddings API"},
    {.names = "npy", .type = CLI_SWITCH, AT(npy), .help = "write a NumPy file: float32 [texts, dims]"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "OUT", AT(out),
     .help = "write to this file instead of stdout"},
    {.names = "kind", .type = CLI_CHOICE, .value = "KIND", AT(kind), .choices = kind_names,
     .help = "bge-m3's other vectors, a line of JSON for each text: sparse, the weights of its tokens by "
             "their ids; multi, a vector for each token [dense]"},
    {.names = "precision", .type = CLI_CHOICE, .value = "FORM", AT(form), .choices = form_names,
     .help = "fewer bits: int8 and uint8 cut each number's range into 256, binary and ubinary keep signs as "
             "bits [float32]"},
    {.names = "calibrate", .type = CLI_TEXT, .value = "FILE", AT(calibrate),
     .help = "take the ranges of int8 and uint8 from the vectors of these texts, one per line, instead of "
             "from the texts themselves"},
    {.names = "batch-size", .letter = 'b', .type = CLI_INT, .value = "N", AT(common.n_batch), .lo = 1,
     .hi = 4096, .help = "most texts per run [32]"},
    {.names = "repeat", .type = CLI_INT, .value = "N", AT(n_repeats), .lo = 0, .hi = 1000,
     .help = "embed all texts N more times and print the best rate, without loading"},
    EMBEDDING_OPTIONS(embed_options),
    {.names = NULL},
};
/* clang-format on */

/* ---- output ----------------------------------------------------------------------------------- */

/* What is written: vectors of n_values numbers each, in a form. */
typedef struct vectors {
    clef_vector_form form;
    const unsigned char *data; /* [n, n_bytes] */
    size_t n_bytes;
    int32_t n, n_values;
} vectors;

static void write_row(FILE *to, const vectors *v, int32_t i, const char *between)
{
    const unsigned char *row = v->data + (size_t)i * v->n_bytes;
    const int is_signed = form_codes[v->form][0] == 'i';
    for (int32_t k = 0; k < v->n_values; k++)
        if (v->form == CLEF_VECTOR_F32)
            fprintf(to, "%s%.9g", k ? between : "", (double)((const float *)(const void *)row)[k]);
        else
            fprintf(to, "%s%d", k ? between : "", is_signed ? (int)(signed char)row[k] : (int)row[k]);
}

/* Writes a reply of POST /v1/embeddings (platform.openai.com/docs/api-reference/embeddings). */
static void write_json(FILE *to, const char *model, const vectors *v, int64_t n_tokens)
{
    fputs("{\"object\": \"list\", \"data\": [", to);
    for (int32_t i = 0; i < v->n; i++) {
        fprintf(to, "%s{\"object\": \"embedding\", \"index\": %" PRId32 ", \"embedding\": [", i ? ", " : "",
                i);
        write_row(to, v, i, ", ");
        fputs("]}", to);
    }
    fputs("], \"model\": ", to);
    cli_json_string(to, model);
    fprintf(to, ", \"usage\": {\"prompt_tokens\": %" PRId64 ", \"total_tokens\": %" PRId64 "}}\n", n_tokens,
            n_tokens);
}

static int write_vectors(const embed_options *o, const char *model, const vectors *v, int64_t n_tokens)
{
    FILE *to = o->out ? fopen(o->out, "wb") : stdout;
    if (!to)
        return cli_fail(CLI_FAILED, "embed: cannot write %s", o->out);
    if (o->json) {
        write_json(to, model, v, n_tokens);
    } else if (o->npy) {
        cli_npy_head(to, form_codes[v->form], 2, (const int64_t[]){v->n, v->n_values});
        fwrite(v->data, v->n_bytes, (size_t)v->n, to);
    }
    for (int32_t i = 0; !o->json && !o->npy && i < v->n; i++) {
        write_row(to, v, i, " ");
        fputc('\n', to);
    }
    const int failed = fflush(to) != 0 || ferror(to);
    if ((o->out && fclose(to) != 0) || failed)
        return cli_fail(CLI_FAILED, "embed: cannot write %s", o->out ? o->out : "to stdout");
    return CLI_OK;
}

/* Vectors of pictures, as f32. */
static int embed_pictures(const embed_options *o, const char *model)
{
    cli_pictures p = {0};
    float *rows = NULL;
    const cli_embedding_options *c = &o->common;
    const cli_picture_opts opts = {
        .place = {.device = c->device, .split = c->split, .n_threads = c->n_threads, .quiet = c->quiet},
        .compile = c->compile,
        .vision = {.mean = c->pooling == CLEF_POOL_MEAN, .normalize = (clef_normalize)c->normalize},
    };
    int rc = cli_pictures_open(&p, &opts, model, &o->images);
    if (rc == CLI_GO_ON)
        rc = cli_pictures_run(&p, &rows);
    const vectors v = {CLEF_VECTOR_F32, (const unsigned char *)rows, (size_t)p.info.width * sizeof *rows, p.n,
                       p.info.width};
    if (rc == CLI_GO_ON)
        rc = write_vectors(o, clef_model_hparams(p.model)->name, &v, 0);
    free(rows);
    cli_pictures_finish(&p);
    return rc;
}

/* The ranges of the texts of --calibrate, else of the n rows; the caller frees *ranges. */
static int find_ranges(cli_embedding *e, const embed_options *o, const float *rows, int32_t n, float **ranges)
{
    cli_lines t = {0};
    const int32_t d = clef_embedder_describe(e->embedder).n_dims;
    float *own = NULL;
    int rc = o->calibrate ? cli_lines_collect(&t, "text", 0, NULL, o->calibrate) : CLI_GO_ON;
    if (rc == CLI_GO_ON && o->calibrate)
        rc = cli_embedding_texts(e, &o->common, t.spans, t.n, &own, NULL);
    *ranges = rc == CLI_GO_ON ? malloc(2 * (size_t)d * sizeof **ranges) : NULL;
    if (*ranges)
        clef_vector_ranges(own ? own : rows, own ? t.n : n, d, *ranges);
    else if (rc == CLI_GO_ON)
        rc = cli_fail(CLI_FAILED, "out of host memory");
    free(own);
    cli_lines_finish(&t);
    return rc;
}

static int has_ranges(const embed_options *o)
{
    return o->form == CLEF_VECTOR_INT8 || o->form == CLEF_VECTOR_UINT8;
}

static int write_result(cli_embedding *e, const embed_options *o, const float *rows, int32_t n,
                        int64_t n_tokens)
{
    const clef_vector_form form = (clef_vector_form)o->form;
    const int32_t d = clef_embedder_describe(e->embedder).n_dims;
    const size_t n_bytes = clef_vector_bytes(form, d);
    float *ranges = NULL;
    unsigned char *data = malloc((size_t)n * n_bytes + 1);
    int rc = data ? CLI_GO_ON : cli_fail(CLI_FAILED, "out of host memory");
    if (rc == CLI_GO_ON && has_ranges(o))
        rc = find_ranges(e, o, rows, n, &ranges);
    if (rc == CLI_GO_ON) {
        clef_vector_pack(form, rows, n, d, ranges, data);
        const vectors v = {form, data, n_bytes, n, form == CLEF_VECTOR_F32 ? d : (int32_t)n_bytes};
        rc = write_vectors(o, clef_model_hparams(e->model)->name, &v, n_tokens);
    }
    free(data);
    free(ranges);
    return rc;
}

/* Measures the speed once kernels and plans are made; tokenising is included. */
static int measure_rate(cli_embedding *e, const embed_options *o, const cli_lines *t)
{
    double best = 0;
    for (int32_t i = 0; i < o->n_repeats; i++) {
        float *rows = NULL;
        int64_t n_tokens = 0;
        const double begin = cli_terminal_seconds();
        const int rc = cli_embedding_texts(e, &o->common, t->spans, t->n, &rows, &n_tokens);
        const double seconds = cli_terminal_seconds() - begin;
        free(rows);
        if (rc != CLI_GO_ON)
            return rc;
        if (i == 0 || seconds < best)
            best = seconds;
    }
    if (best > 0)
        fprintf(stderr, "clef: %" PRId32 " texts in %.3f s, %.1f texts/s, the best of %" PRId32 "\n", t->n,
                best, t->n / best, o->n_repeats);
    return CLI_GO_ON;
}

/* ---- vectors of tokens ------------------------------------------------------------------------ */

static clef_status write_sparse(cli_embedding *e, const clef_encoded *enc, FILE *to, clef_error *err)
{
    clef_token_weight *weights = malloc(((size_t)enc->n + 1) * sizeof *weights);
    int32_t n = 0;
    if (!weights)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    const clef_status status = clef_embed_sparse(e->embedder, enc->ids, enc->n, weights, &n, err);
    for (int32_t i = 0; i < n; i++)
        fprintf(to, "%s\"%" PRId32 "\": %.9g", i ? ", " : "{", weights[i].id, (double)weights[i].weight);
    if (status == CLEF_OK)
        fputs(n ? "}\n" : "{}\n", to);
    free(weights);
    return status;
}

static clef_status write_multi(cli_embedding *e, const clef_encoded *enc, FILE *to, clef_error *err)
{
    int32_t d = 0;
    clef_status status = clef_embed_multi_dims(e->embedder, &d, err);
    float *rows = status == CLEF_OK ? malloc(((size_t)enc->n * (size_t)d + 1) * sizeof *rows) : NULL;
    if (status == CLEF_OK && !rows)
        status = cli_error(err, CLEF_E_NOMEM, "out of host memory");
    if (status == CLEF_OK)
        status = clef_embed_multi(e->embedder, enc->ids, enc->n, rows, err);
    const vectors v = {CLEF_VECTOR_F32, (const unsigned char *)rows, (size_t)d * sizeof *rows, enc->n - 1, d};
    for (int32_t i = 0; status == CLEF_OK && i < v.n; i++) {
        fputs(i ? ", [" : "[[", to);
        write_row(to, &v, i, ", ");
        fputc(']', to);
    }
    if (status == CLEF_OK)
        fputs(v.n > 0 ? "]\n" : "[]\n", to);
    free(rows);
    return status;
}

/* Each text is computed and written on its own. */
static int write_tokens(cli_embedding *e, const embed_options *o, const cli_lines *t)
{
    clef_error err = {0};
    clef_status status = CLEF_OK;
    FILE *to = o->out ? fopen(o->out, "wb") : stdout;
    if (!to)
        return cli_fail(CLI_FAILED, "embed: cannot write %s", o->out);
    for (int32_t i = 0; i < t->n && status == CLEF_OK; i++) {
        clef_encoded enc = {0};
        status = clef_embed_encode(e->embedder, t->spans[i], o->common.truncate, &enc, &err);
        if (status == CLEF_OK)
            status =
                o->kind == KIND_SPARSE ? write_sparse(e, &enc, to, &err) : write_multi(e, &enc, to, &err);
        clef_encoded_finish(&enc);
    }
    const int failed = fflush(to) != 0 || ferror(to);
    if (((o->out && fclose(to) != 0) || failed) && status == CLEF_OK)
        return cli_fail(CLI_FAILED, "embed: cannot write %s", o->out ? o->out : "to stdout");
    if (status != CLEF_OK && o->out)
        remove(o->out);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

/* What --image excludes. */
static int check_pictures(const embed_options *o, int32_t n_texts)
{
    const cli_embedding_options *c = &o->common;
    if (n_texts || o->file)
        return cli_fail(CLI_USAGE, "embed: expected texts or --image, not both");
    if (o->kind || o->form || o->calibrate || o->n_repeats || c->n_dims || c->prompt_name || c->no_prompt)
        return cli_fail(CLI_USAGE,
                        "embed: --image: expected none of --kind, --precision, --calibrate, --repeat, "
                        "--dimensions and prompts");
    return c->pooling == CLEF_POOL_LAST
               ? cli_fail(CLI_USAGE, "embed: --image: expected --pooling model, cls or mean, got last")
               : CLI_GO_ON;
}

static int check_options(const embed_options *o)
{
    if (o->kind && (o->json || o->npy || o->form || o->common.n_dims || o->n_repeats))
        return cli_fail(CLI_USAGE,
                        "embed: --kind %s: expected none of --json, --npy, --precision, --dimensions and "
                        "--repeat",
                        kind_names[o->kind]);
    if (o->json && o->npy)
        return cli_fail(CLI_USAGE, "embed: expected --json or --npy, not both");
    if (o->npy && !o->out && cli_terminal_stdout())
        return cli_fail(CLI_USAGE, "embed: --npy is binary; use --out FILE, or redirect stdout to a file");
    if (o->calibrate && !has_ranges(o))
        return cli_fail(CLI_USAGE, "embed: --calibrate: expected --precision int8 or uint8, got %s",
                        form_names[o->form]);
    return CLI_GO_ON;
}

static int embed_run(const void *options, int32_t n_args, char **args)
{
    const embed_options *o = options;
    cli_embedding e = {0};
    cli_lines t = {0};
    float *rows = NULL;
    int64_t n_tokens = 0;
    int rc = check_options(o);
    if (rc == CLI_GO_ON && o->images.n)
        rc = check_pictures(o, n_args - 1);
    if (o->images.n)
        return rc == CLI_GO_ON ? embed_pictures(o, args[0]) : rc;
    if (rc == CLI_GO_ON)
        rc = cli_lines_collect(&t, "TEXT", n_args - 1, args + 1, o->file);
    if (rc == CLI_GO_ON && has_ranges(o) && t.n < 2 && !o->calibrate)
        rc = cli_fail(CLI_USAGE, "embed: --precision %s: expected several texts, or --calibrate FILE",
                      form_names[o->form]);
    if (rc == CLI_GO_ON)
        rc = cli_embedding_open(&e, &o->common, args[0]);
    if (rc == CLI_GO_ON && o->kind)
        rc = write_tokens(&e, o, &t);
    const double begin = cli_terminal_seconds();
    if (rc == CLI_GO_ON)
        rc = cli_embedding_texts(&e, &o->common, t.spans, t.n, &rows, &n_tokens);
    if (rc == CLI_GO_ON) {
        const double seconds = cli_terminal_seconds() - begin;
        if (!o->common.quiet)
            fprintf(stderr,
                    "clef: %" PRId32 " texts of %" PRId64 " tokens in %.3f s, %.1f texts/s, with loading\n",
                    t.n, n_tokens, seconds, seconds > 0 ? t.n / seconds : 0);
        rc = measure_rate(&e, o, &t);
    }
    if (rc == CLI_GO_ON)
        rc = write_result(&e, o, rows, t.n, n_tokens);
    cli_embedding_finish(&e);
    free(rows);
    cli_lines_finish(&t);
    return rc;
}

const cli_command cli_command_embed = {
    .name = "embed",
    .usage = "MODEL TEXT... [--file FILE] [--image FILE] [--json|--npy]",
    .summary = "Compute embedding vectors of texts or pictures",
    .notes = "MODEL is an encoder, or a decoder that was trained for embeddings: a GGUF file or a Hugging "
             "Face folder. Each text becomes one line of numbers.\n\nPooling and normalisation come from "
             "modules.json and 1_Pooling/config.json of a folder, or from pooling_type of a GGUF file. "
             "Without these files, the vector is the mean of the hidden states, not normalised. A text that "
             "is too long for the model is refused.\n\nWith --image, MODEL is a folder that reads pictures: "
             "CLIP and "
             "SigLIP, whose vectors of texts and pictures can be compared, ViT, DeiT, DINOv2 or DINOv3.\n",
    .options = embed_option_table,
    .first =
        "file image json npy out kind precision dimensions prompt-name no-prompt pooling normalize truncate "
        "batch-size threads device quiet",
    .min_args = 1,
    .max_args = INT32_MAX,
    .defaults = &embed_defaults,
    .options_bytes = sizeof embed_defaults,
    .run = embed_run,
};
