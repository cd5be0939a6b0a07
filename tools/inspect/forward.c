/* Reads ids from the command line, and runs a model once over them. */
#include "tools/inspect/forward.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- ids ------------------------------------------------------------------------------------- */

static clef_status parse_ids(cli_forward *f, const char *text, clef_error *err)
{
    f->ids = malloc((strlen(text) + 1) * sizeof *f->ids); /* an id has at least one byte */
    if (!f->ids)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    for (const char *s = text; *s;) {
        char *end;
        const long long id = strtoll(s, &end, 10);
        if (end == s || id < 0 || id > INT32_MAX)
            return cli_error(err, CLEF_E_ARG, "--ids: expected numbers, got '%.20s'", s);
        f->ids[f->n_ids++] = (int32_t)id;
        s = end + strspn(end, ", \n\t");
    }
    return CLEF_OK;
}

static clef_status encode(cli_forward *f, const char *text, size_t n_bytes, int32_t **out, int32_t *n,
                          clef_error *err)
{
    int32_t *ids = NULL, n_ids = 0;
    clef_status status =
        clef_tokenizer_encode(f->tokenizer, text, n_bytes, CLEF_SPECIAL_ADD, &ids, &n_ids, err);
    if (status != CLEF_OK)
        return status;
    *out = malloc(((size_t)n_ids + 1) * sizeof **out);
    if (*out && n_ids)
        memcpy(*out, ids, (size_t)n_ids * sizeof *ids);
    *n = n_ids;
    clef_tokens_free(ids);
    return *out ? CLEF_OK : cli_error(err, CLEF_E_NOMEM, "out of host memory");
}

static clef_status encode_text(cli_forward *f, clef_error *err)
{
    char *text = NULL;
    size_t n_bytes = f->o->prompt ? strlen(f->o->prompt) : 0;
    if (f->o->file && cli_read_file(f->o->file, &text, &n_bytes) != CLI_GO_ON)
        return cli_error(err, CLEF_E_IO, "%s: cannot read it", f->o->file);
    f->tokenizer = clef_model_tokenizer(f->model, err);
    const clef_status status =
        f->tokenizer ? encode(f, text ? text : f->o->prompt, n_bytes, &f->ids, &f->n_ids, err) : err->status;
    free(text);
    return status;
}

/* Reads the first sequence of a tensor [1, n]; *out is NULL if there is none. */
static clef_status read_row(const clef_tensor_file *in, const char *path, const char *name, int32_t **out,
                            int32_t *n, clef_error *err)
{
    const int32_t at = clef_tensor_file_find(in, name);
    if (at < 0)
        return CLEF_OK;
    const clef_tensor_info t = clef_tensor_file_get(in, at);
    char dims[96];
    if (t.rank != 2 || t.dims[0] != 1 || t.dims[1] < 1 || t.dims[1] > INT32_MAX)
        return cli_error(err, CLEF_E_SHAPE, "%s: %s: expected [1, T], got %s", path, name,
                         cli_dims_text(t.rank, t.dims, dims));
    *n = (int32_t)t.dims[1];
    *out = malloc((size_t)*n * sizeof **out);
    if (!*out)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    return clef_tensor_file_read(in, at, CLEF_I32, *out, (size_t)*n, err);
}

static clef_status read_in(cli_forward *f, clef_error *err)
{
    clef_tensor_file *in = NULL;
    int32_t n_mask = 0;
    clef_status status = clef_tensor_file_open(f->o->in, &in, err);
    if (status != CLEF_OK)
        return status;
    status = read_row(in, f->o->in, "input_ids", &f->ids, &f->n_ids, err);
    if (status == CLEF_OK)
        status = read_row(in, f->o->in, "attention_mask", &f->mask, &n_mask, err);
    if (status == CLEF_OK)
        status = read_row(in, f->o->in, "decoder_input_ids", &f->target, &f->n_target, err);
    clef_tensor_file_close(in);
    if (status == CLEF_OK && !f->ids)
        status = cli_error(err, CLEF_E_NOT_FOUND, "%s: expected a tensor input_ids [1, T]; there is none",
                           f->o->in);
    if (status == CLEF_OK && f->mask && n_mask != f->n_ids)
        status = cli_error(err, CLEF_E_SHAPE, "%s: attention_mask has %" PRId32 " tokens, input_ids %" PRId32,
                           f->o->in, n_mask, f->n_ids);
    return status;
}

static clef_status check_ids(const cli_forward *f, const int32_t *ids, int32_t n, clef_error *err)
{
    const clef_hparams *hp = clef_model_hparams(f->model);
    if (hp->n_context > 0 && n > hp->n_context)
        return cli_error(err, CLEF_E_LIMIT, "%" PRId32 " tokens, the model accepts %" PRId32, n,
                         hp->n_context);
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= hp->n_vocab)
            return cli_error(err, CLEF_E_ARG, "expected ids from 0 to %" PRId32 ", got %" PRId32,
                             hp->n_vocab - 1, ids[i]);
    return CLEF_OK;
}

/* ---- the target of an encoder-decoder -------------------------------------------------------- */

static clef_status open_device(cli_forward *f, clef_error *err)
{
    const clef_device_opts opts = {.progress = cli_progress_step, .progress_user = &f->progress};
    return f->device ? CLEF_OK : cli_devices_open(f->o->device, &f->o->split, &opts, &f->device, err);
}

/* Generates the text that an encoder-decoder answers with, after the tokens that begin it. */
static clef_status generate_target(cli_forward *f, clef_error *err)
{
    enum { DEFAULT_N = 32 };
    const int32_t most = f->o->n_predict ? f->o->n_predict : DEFAULT_N;
    const clef_hparams *hp = clef_model_hparams(f->model);
    clef_session_opts opts = {.n_context = most + 3,
                              .n_source = f->n_ids,
                              .loras = f->loras,
                              .lora = f->loras != NULL,
                              .compile = cli_compile_opts(&f->o->compile, &f->progress)};
    clef_session *session = NULL;
    int32_t id = 0;
    opts.compile.exact = 1;
    f->target = malloc(((size_t)most + 2) * sizeof *f->target);
    if (!f->target)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    clef_status status = open_device(f, err);
    if (status == CLEF_OK)
        status = clef_session_create(f->device, f->model, &opts, &session, err);
    if (status == CLEF_OK)
        status = clef_session_encode(session, f->ids, f->n_ids, err);
    if (status == CLEF_OK) {
        f->n_target = clef_session_start(session, f->target);
        status = clef_session_generate(session, f->target, f->n_target, most, NULL, err);
    }
    for (int32_t i = 0; i < most && status == CLEF_OK && id != hp->eos; i++) {
        status = clef_session_next(session, &id, err);
        if (status == CLEF_OK && id != hp->eos)
            f->target[f->n_target++] = id;
    }
    clef_session_destroy(session);
    return status;
}

/* Puts decoder_start before the text's own tokens. */
static clef_status encode_target(cli_forward *f, clef_error *err)
{
    const int32_t start = clef_model_hparams(f->model)->decoder_start;
    f->tokenizer = f->tokenizer ? f->tokenizer : clef_model_tokenizer(f->model, err);
    if (!f->tokenizer)
        return err->status;
    const clef_status status = encode(f, f->o->target, strlen(f->o->target), &f->target, &f->n_target, err);
    if (status == CLEF_OK && start >= 0) {
        memmove(f->target + 1, f->target,
                (size_t)f->n_target * sizeof *f->target); /* there is room for one more */
        f->target[0] = start;
        f->n_target++;
    }
    return status;
}

static clef_status copy_ids(const int32_t *ids, int32_t n, int32_t **out, int32_t *n_out, clef_error *err)
{
    *out = malloc(((size_t)n + 1) * sizeof **out);
    if (!*out)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    if (n)
        memcpy(*out, ids, (size_t)n * sizeof *ids);
    *n_out = n;
    return CLEF_OK;
}

static clef_status read_known(cli_forward *f, clef_error *err)
{
    const cli_forward_opts *o = f->o;
    int32_t n_mask;
    clef_status status = copy_ids(o->known_ids, o->n_known_ids, &f->ids, &f->n_ids, err);
    if (status == CLEF_OK && o->known_mask)
        status = copy_ids(o->known_mask, o->n_known_ids, &f->mask, &n_mask, err);
    if (status != CLEF_OK || !o->n_known_target)
        return status;
    return copy_ids(o->known_target, o->n_known_target, &f->target, &f->n_target, err);
}

static clef_status read_said(cli_forward *f, clef_error *err)
{
    clef_tensor_file *in = NULL;
    clef_status status = clef_tensor_file_open(f->o->said, &in, err);
    if (status == CLEF_OK)
        status = read_row(in, f->o->said, "decoder_input_ids", &f->target, &f->n_target, err);
    clef_tensor_file_close(in);
    return status;
}

/* ---- a picture ------------------------------------------------------------------------------- */

/* The numbers that a byte becomes in each colour, by a picture of that byte alone. */
static clef_status numbers_of(const clef_picture_processor *processor, uint8_t byte, float out[3],
                              clef_error *err)
{
    uint8_t rgb[3 * 4];
    const clef_picture picture = {2, 2, memset(rgb, byte, sizeof rgb)};
    clef_pixels pixels;
    const clef_status status = clef_picture_process(processor, &picture, &pixels, err);
    const size_t n = (size_t)pixels.height * (size_t)pixels.width,
                 middle = (size_t)(pixels.height / 2) * (size_t)pixels.width + (size_t)(pixels.width / 2);
    for (size_t c = 0; c < 3 && status == CLEF_OK; c++)
        out[c] = pixels.values[c * n + middle];
    clef_pixels_finish(&pixels);
    return status;
}

/* Pixels as colours again: what the model sees, after resizing and cropping. */
static clef_status see_pixels(cli_forward *f, const clef_picture_processor *processor, clef_error *err)
{
    const clef_pixels *p = &f->pixels;
    const size_t n = (size_t)p->height * (size_t)p->width;
    float black[3], white[3];
    clef_status status = numbers_of(processor, 0, black, err);
    if (status == CLEF_OK)
        status = numbers_of(processor, 255, white, err);
    if (status != CLEF_OK)
        return status;
    f->seen = (clef_picture){p->width, p->height, malloc(3 * n)};
    if (!f->seen.rgb)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    for (size_t i = 0; i < 3 * n; i++) {
        const size_t c = i % 3;
        const float span = white[c] - black[c], at = (p->values[c * n + i / 3] - black[c]) / span;
        f->seen.rgb[i] = span == 0 || at <= 0 ? 0 : at >= 1 ? 255 : (uint8_t)(255 * at + 0.5f);
    }
    return CLEF_OK;
}

static clef_status read_picture(cli_forward *f, clef_error *err)
{
    const char *why, *path = strcmp(f->o->image, "-") == 0 ? "/dev/stdin" : f->o->image;
    clef_picture_processor *processor = NULL;
    clef_picture picture = {0};
    if (!clef_model_pictures(f->model, &why))
        return cli_error(err, CLEF_E_UNSUPPORTED, "%s: --image: expected a model that reads pictures: %s",
                         clef_model_path(f->model), why);
    clef_status status = clef_picture_processor_create(clef_model_path(f->model), &processor, err);
    if (status == CLEF_OK)
        status = clef_picture_open(path, NULL, &picture, err);
    if (status == CLEF_OK)
        status = clef_picture_process(processor, &picture, &f->pixels, err);
    if (status == CLEF_OK && f->pixels.n > 1)
        status = cli_error(err, CLEF_E_UNSUPPORTED,
                           "%s: --image: expected a model that reads a picture whole, not in tiles",
                           clef_model_path(f->model));
    if (status == CLEF_OK)
        status = see_pixels(f, processor, err);
    clef_picture_finish(&picture);
    clef_picture_processor_destroy(processor);
    return status;
}

static int reads_pictures_alone(const clef_model *model)
{
    return clef_model_pictures(model, NULL) == clef_model_hparams(model);
}

static clef_build_opts picture_opts(const cli_forward *f)
{
    return (clef_build_opts){.n_sequences = 1,
                             .part = reads_pictures_alone(f->model) ? CLEF_PART_WHOLE : CLEF_PART_PICTURES,
                             .pooling = CLEF_POOL_CLS,
                             .picture_height = f->pixels.height,
                             .picture_width = f->pixels.width};
}

/* ---- opening --------------------------------------------------------------------------------- */

clef_status cli_forward_open(cli_forward *f, const cli_forward_opts *o, const char *path, clef_error *err)
{
    const int n_sources =
        (o->prompt != NULL) + (o->file != NULL) + (o->ids != NULL) + (o->in != NULL) + (o->image != NULL);
    f->o = o;
    cli_progress_init(&f->progress, o->quiet);
    if (n_sources != 1 && !o->known_ids)
        return cli_error(err, CLEF_E_ARG,
                         "expected one of -p TEXT, -f FILE, --ids and --in%s, got %d of them",
                         o->image ? ", or --image" : "", n_sources);
    clef_status status = clef_model_open(path, &f->model, err);
    if (status == CLEF_OK)
        status = cli_adapters_open(&o->loras, f->model, &f->loras, err);
    if (status == CLEF_OK && o->image)
        return read_picture(f, err);
    if (status == CLEF_OK && reads_pictures_alone(f->model))
        status =
            cli_error(err, CLEF_E_UNSUPPORTED,
                      "%s: %s reads pictures, expected a model that reads texts (attention: --image FILE)",
                      path, clef_model_hparams(f->model)->arch);
    if (status == CLEF_OK)
        status = o->known_ids ? read_known(f, err)
                 : o->ids     ? parse_ids(f, o->ids, err)
                 : o->in      ? read_in(f, err)
                              : encode_text(f, err);
    if (status == CLEF_OK && !f->target && !o->target && o->said)
        status = read_said(f, err);
    if (status != CLEF_OK)
        return status;
    clef_error none = {0};
    f->is_seq2seq = clef_model_hparams(f->model)->n_decoder_layers > 0;
    f->tokenizer = clef_model_tokenizer(f->model, &none); /* without a tokenizer ids are shown as numbers */
    if (f->n_ids < 1)
        return cli_error(err, CLEF_E_ARG, "the text has no tokens");
    if (f->target && !f->is_seq2seq)
        return cli_error(err, CLEF_E_UNSUPPORTED,
                         "there are decoder_input_ids, but %s is not an encoder-decoder", path);
    if (o->target && !f->is_seq2seq)
        return cli_error(err, CLEF_E_UNSUPPORTED, "--target needs an encoder-decoder, %s is %s", path,
                         clef_model_hparams(f->model)->arch);
    status = check_ids(f, f->ids, f->n_ids, err);
    if (status == CLEF_OK && f->is_seq2seq && !f->target)
        status = o->target ? encode_target(f, err) : generate_target(f, err);
    return status == CLEF_OK ? check_ids(f, f->target, f->n_target, err) : status;
}

/* ---- the pass -------------------------------------------------------------------------------- */

clef_status cli_forward_build(cli_forward *f, const char *const *taps, int32_t n_taps, clef_error *err)
{
    const int32_t longest = f->n_ids > f->n_target ? f->n_ids : f->n_target;
    clef_build_opts opts = {.n_context = longest,
                            .n_batch = longest,
                            .n_sequences = 1,
                            .all_logits = 1,
                            .padding_mask = f->mask != NULL,
                            .loras = f->loras};
    if (f->pixels.values)
        opts = picture_opts(f);
    opts.taps = taps;
    opts.n_taps = n_taps;
    clef_graph_destroy(f->graph);
    f->graph = NULL;
    return clef_model_build(f->model, &opts, &f->graph, err);
}

static clef_status bind_symbols(cli_forward *f, const char *symbol, int32_t value, clef_error *err)
{
    const int32_t s = clef_plan_symbol(f->plan, symbol);
    return s ? clef_plan_bind(f->plan, s, value, err) : CLEF_OK;
}

static clef_status write_ints(cli_forward *f, const char *input, const int32_t *x, int32_t n, clef_error *err)
{
    const int32_t i = clef_plan_input(f->plan, input);
    return i >= 0 && x ? clef_plan_write(f->plan, i, x, (size_t)n * sizeof *x, err) : CLEF_OK;
}

static clef_status write_pixels(cli_forward *f, clef_error *err)
{
    const size_t n = 3 * (size_t)f->pixels.height * (size_t)f->pixels.width;
    return clef_plan_write(f->plan, clef_plan_input(f->plan, "pixel_values"), f->pixels.values,
                           n * sizeof *f->pixels.values, err);
}

clef_status cli_forward_run(cli_forward *f, clef_error *err)
{
    const clef_status status = clef_graph_optimize(f->graph, NULL, err);
    return status == CLEF_OK ? cli_forward_execute(f, f->graph, err) : status;
}

clef_status cli_forward_execute(cli_forward *f, const clef_graph *graph, clef_error *err)
{
    const clef_plan_opts opts = {
        .compile = cli_compile_opts(&f->o->compile, &f->progress),
        .weights = f->loras ? clef_lora_set_weight : clef_model_weight,
        .weights_user = f->loras ? (void *)f->loras : f->model,
        .weights_name = clef_model_weights_name(f->model, f->loras),
    };
    const int32_t first_adapter = 1;
    clef_status status = open_device(f, err);
    clef_plan_destroy(f->plan);
    f->plan = NULL;
    if (status == CLEF_OK)
        status = clef_plan_create(f->device, graph, &opts, &f->plan, err);
    cli_progress_finish(&f->progress);
    if (status == CLEF_OK)
        status = bind_symbols(f, "T", f->n_ids, err);
    if (status == CLEF_OK)
        status = bind_symbols(f, "S", f->n_ids, err);
    if (status == CLEF_OK)
        status = bind_symbols(f, "U", f->n_target, err);
    if (status == CLEF_OK)
        status = write_ints(f, "input_ids", f->ids, f->n_ids, err);
    if (status == CLEF_OK)
        status = write_ints(f, "attention_mask", f->mask, f->n_ids, err);
    if (status == CLEF_OK)
        status = write_ints(f, "decoder_input_ids", f->target, f->n_target, err);
    if (status == CLEF_OK)
        status = write_ints(f, "adapter", &first_adapter, 1, err);
    if (status == CLEF_OK && f->pixels.values)
        status = write_pixels(f, err);
    return status == CLEF_OK ? clef_plan_run(f->plan, err) : status;
}

clef_status cli_forward_read(cli_forward *f, const char *name, float **out, int32_t *rank, int64_t *dims,
                             clef_error *err)
{
    const int32_t output = clef_plan_output(f->plan, name);
    *out = NULL;
    if (output < 0)
        return cli_error(err, CLEF_E_NOT_FOUND, "the graph has no output '%s'", name);
    const size_t n_bytes = clef_plan_output_bytes(f->plan, output, rank, dims);
    *out = malloc(n_bytes ? n_bytes : 1);
    if (!*out)
        return cli_error(err, CLEF_E_NOMEM, "%s: out of host memory for %zu bytes", name, n_bytes);
    return clef_plan_read(f->plan, output, *out, n_bytes, err);
}

void cli_forward_close(cli_forward *f)
{
    cli_progress_finish(&f->progress);
    clef_plan_destroy(f->plan);
    clef_graph_destroy(f->graph);
    clef_device_close(f->device);
    cli_progress_finish(&f->progress);
    clef_lora_set_destroy(f->loras);
    clef_model_close(f->model);
    free(f->ids);
    free(f->mask);
    free(f->target);
    clef_pixels_finish(&f->pixels);
    free(f->seen.rgb);
}

/* ---- tokens as text -------------------------------------------------------------------------- */

static const char *role_of(const cli_forward *f, int32_t id)
{
    static const char *const names[] = {"<bos>", "<eos>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>"};
    static const clef_token_role order[] = {CLEF_ROLE_CLS, CLEF_ROLE_SEP, CLEF_ROLE_MASK, CLEF_ROLE_PAD,
                                            CLEF_ROLE_BOS, CLEF_ROLE_EOS, CLEF_ROLE_UNK};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (clef_tokenizer_role(f->tokenizer, order[i]) == id)
            return names[order[i]];
    return NULL;
}

char *cli_forward_token(const cli_forward *f, int32_t id)
{
    char text[CLEF_MAX_PIECE + 8] = "";
    size_t n = 0, rest = 0;
    clef_stream stream = {.tok = f->tokenizer, .started = 1};
    clef_error none = {0};
    if (f->tokenizer && clef_stream_push(&stream, id, text, CLEF_MAX_PIECE, &n, &none) == CLEF_OK &&
        clef_stream_finish(&stream, text + n, sizeof text - n - 1, &rest, &none) == CLEF_OK)
        text[n + rest] = 0;
    const char *role = f->tokenizer && !*text ? role_of(f, id) : NULL;
    if (role)
        snprintf(text, sizeof text, "%s", role);
    else if (!*text)
        snprintf(text, sizeof text, "<%" PRId32 ">", id);
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

char **cli_forward_texts(const cli_forward *f, const int32_t *ids, int32_t n)
{
    char **texts = calloc((size_t)n + 1, sizeof *texts);
    for (int32_t i = 0; texts && i < n; i++)
        if (!(texts[i] = cli_forward_token(f, ids[i]))) {
            cli_forward_texts_free(texts, n);
            return NULL;
        }
    return texts;
}

void cli_forward_texts_free(char **texts, int32_t n)
{
    for (int32_t i = 0; texts && i < n; i++)
        free(texts[i]);
    free(texts);
}
