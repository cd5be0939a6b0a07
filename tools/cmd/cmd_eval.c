/* clef eval: computes output tensors from input tensors, through a model or a graph in the text form. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/npy.h"
#include "tools/inspect/row_numbers.h"
#include "tools/inspect/taps.h"
#include "tools/inspect/values.h"

typedef struct eval_options {
    const char *model, *in, *out, *after, *device;
    cli_split split;
    cli_list taps;
    int32_t kv_type, stats, quiet;
    clef_compile_opts compile;
} eval_options;

static const eval_options eval_defaults = {.device = NULL};

/* clang-format off */
#define AT(field) .offset = offsetof(eval_options, field)
static const cli_option eval_option_table[] = {
    MODEL_OPTION(eval_options),
    {.names = "in", .letter = 'i', .type = CLI_TEXT, .value = "FILE", AT(in),
     .help = "a .safetensors file with the inputs"},
    {.names = "out", .letter = 'o', .type = CLI_TEXT, .value = "FILE", AT(out),
     .help = "where outputs go: FILE.safetensors, FILE.npy for a single value, or FOLDER/ for one .npy "
             "file each"},
    {.names = "tap", .letter = 't', .type = CLI_LIST, .value = "NAME", AT(taps),
     .help = "also write this value: hidden_last, attention_0, a value of `clef graph`, or a pattern "
             "('layer*.out'); may be repeated"},
    {.names = "stats", .type = CLI_SWITCH, AT(stats),
     .help = "print range, mean, NaN and infinity counts of each value, up to the first NaN; without "
             "--after, before ops are fused"},
    {.names = "after", .type = CLI_TEXT, .value = "PASS", AT(after), .choice = clef_pass_name,
     .help = "run the passes up to this one; build: none"},
    DEVICES_OPTION(eval_options),
    COMPILE_OPTIONS(eval_options),
    KV_TYPE_OPTION(eval_options),
    QUIET_OPTION(eval_options),
    {.names = NULL},
};
/* clang-format on */

/** A tensor of IN, with its bytes as the graph needs them. */
typedef struct feed {
    char *name; /* a copy, because the graph is optimised before it is used */
    void *data;
    size_t n_bytes;
} feed;

enum { MAX_FEEDS = 256 };

/** State of an evaluation; eval_finish() accepts it in any state. */
typedef struct eval {
    const eval_options *o;
    const char *path;
    clef_tensor_file *in;
    clef_model *model;     /* NULL for a text graph */
    int32_t is_classifier; /* 1: its logits are those of classes */
    clef_graph *graph;
    clef_device *device;
    clef_plan *plan;
    feed feeds[MAX_FEEDS];
    int32_t n_feeds;
    feed *weights; /* of a text graph: weights that IN has in another dtype */
    int32_t n_weights;
    int64_t symbols[CLEF_MAX_SYMBOLS];   /* values of symbols i + 1; 0: no input sets it */
    char *symbol_from[CLEF_MAX_SYMBOLS]; /* the input that set it */
    row_uses rows;
    int32_t n_outputs; /* outputs that the user asked for; those of `rows` come after them */
    clef_tensor_info *results;
    int32_t n_results;
} eval;

static char *copy_text(const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

static size_t count_of(const clef_tensor_info *t)
{
    size_t n = 1; /* the file's reader has checked the product against the file's size */
    for (int32_t i = 0; i < t->rank; i++)
        n *= (size_t)t->dims[i];
    return n;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Matches the dims of a file's tensor with the graph's shape: numbers must be equal, symbols get their
 * values. */
static clef_status match_shape(eval *e, const char *kind, const clef_value_info *v,
                               const clef_tensor_info *got, clef_error *err)
{
    const char *name = v->name;
    const clef_shape *want = &v->shape;
    char dims[96];
    cli_dims_text(got->rank, got->dims, dims);
    if (got->rank != want->rank)
        return cli_error(err, CLEF_E_SHAPE, "%s: %s %s: expected %" PRId32 " dims, got %s", e->o->in, kind,
                         name, want->rank, dims);
    for (int32_t i = 0; i < want->rank; i++) {
        const clef_dim d = want->dim[i];
        const int64_t x = got->dims[i];
        if (!d.symbol) {
            if (x != d.n)
                return cli_error(err, CLEF_E_SHAPE,
                                 "%s: %s %s: expected %" PRId64 " in dim %" PRId32 ", got %s", e->o->in, kind,
                                 name, d.n, i, dims);
            continue;
        }
        int64_t bound = 0, *value = &e->symbols[d.symbol - 1];
        const char *symbol = clef_graph_symbol(e->graph, d.symbol, &bound);
        if (d.n <= 0 || x % d.n != 0 || x / d.n < 1 || x / d.n > bound)
            return cli_error(err, CLEF_E_SHAPE,
                             "%s: %s %s: expected %" PRId64 " times %s (1 to %" PRId64 ") in dim %" PRId32
                             ", got %s",
                             e->o->in, kind, name, d.n, symbol, bound, i, dims);
        if (*value && *value != x / d.n)
            return cli_error(err, CLEF_E_SHAPE,
                             "%s: input %s makes %s %" PRId64 ", input %s makes it %" PRId64, e->o->in, name,
                             symbol, x / d.n, e->symbol_from[d.symbol - 1], *value);
        if (!*value && !(e->symbol_from[d.symbol - 1] = copy_text(name)))
            return cli_error(err, CLEF_E_NOMEM, "out of host memory");
        *value = x / d.n;
    }
    return CLEF_OK;
}

/* Reads tensor `index` of IN as `dtype`, into its own memory. */
static clef_status load_tensor(eval *e, int32_t index, clef_dtype dtype, void **out, size_t *n_bytes,
                               clef_error *err)
{
    const clef_tensor_info t = clef_tensor_file_get(e->in, index);
    const size_t n = count_of(&t), n_elems = (size_t)clef_dtype_block_elems(dtype),
                 elem_bytes = (size_t)clef_dtype_block_bytes(dtype);
    const int is_int = dtype == CLEF_I32 || dtype == CLEF_I8;
    void *raw = NULL;
    clef_status status = CLEF_OK;
    *out = NULL;
    if (n % n_elems || n / n_elems > SIZE_MAX / 8 / elem_bytes || n > SIZE_MAX / 8)
        return cli_error(err, CLEF_E_SHAPE, "%s: %s: %zu elements are not whole blocks of %s", e->o->in,
                         t.name, n, clef_dtype_name(dtype));
    if (!is_int && !clef_dtype_encodes(dtype))
        return cli_error(err, CLEF_E_UNSUPPORTED, "%s: %s: clef does not write %s", e->o->in, t.name,
                         clef_dtype_name(dtype));
    *n_bytes = n / n_elems * elem_bytes;
    raw = malloc(n ? 4 * n : 1);
    *out = malloc(*n_bytes ? *n_bytes : 1);
    if (!raw || !*out) {
        status = cli_error(err, CLEF_E_NOMEM, "%s: %s: out of host memory", e->o->in, t.name);
        goto out;
    }
    status = clef_tensor_file_read(e->in, index, is_int ? CLEF_I32 : CLEF_F32, raw, n, err);
    if (status != CLEF_OK)
        goto out;
    if (dtype == CLEF_F32 || dtype == CLEF_I32) {
        memcpy(*out, raw, *n_bytes);
    } else if (dtype != CLEF_I8) {
        clef_dtype_encode(dtype, raw, n, *out);
    } else {
        const int32_t *x = raw;
        int8_t *to = *out;
        for (size_t i = 0; i < n; i++) {
            if (x[i] < INT8_MIN || x[i] > INT8_MAX) {
                status =
                    cli_error(err, CLEF_E_LIMIT, "%s: %s: expected i8, got %" PRId32, e->o->in, t.name, x[i]);
                goto out;
            }
            to[i] = (int8_t)x[i];
        }
    }
out:
    free(raw);
    if (status != CLEF_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

/* Reads an input from IN. */
static clef_status add_feed(eval *e, const clef_value_info *v, int32_t index, clef_error *err)
{
    const clef_tensor_info t = clef_tensor_file_get(e->in, index);
    clef_status status = match_shape(e, "input", v, &t, err);
    if (status != CLEF_OK)
        return status;
    if (e->n_feeds == MAX_FEEDS)
        return cli_error(err, CLEF_E_LIMIT, "%s: more than %d inputs", e->path, MAX_FEEDS);
    feed *f = &e->feeds[e->n_feeds];
    status = load_tensor(e, index, v->dtype, &f->data, &f->n_bytes, err);
    if (status != CLEF_OK)
        return status;
    e->n_feeds++;
    f->name = copy_text(v->name);
    return f->name ? CLEF_OK : cli_error(err, CLEF_E_NOMEM, "out of host memory");
}

/* Reads each input of the graph from IN. If IN does not have it, `pos` is zeros; any other missing input is
 * an error. */
static clef_status collect_feeds(eval *e, clef_error *err)
{
    for (int32_t i = 0; i < clef_graph_n_values(e->graph); i++) {
        const clef_value_info v = clef_value_describe(clef_graph_value(e->graph, i));
        const int32_t index = clef_tensor_file_find(e->in, v.name);
        clef_status status = CLEF_OK;
        if (v.kind == CLEF_STATE && index >= 0 && !e->model)
            status =
                cli_error(err, CLEF_E_UNSUPPORTED,
                          "%s: %s is a state, which starts as zeros and cannot be set", e->o->in, v.name);
        if (v.kind == CLEF_INPUT && index >= 0)
            status = add_feed(e, &v, index, err);
        else if (v.kind == CLEF_INPUT && !(e->model && strcmp(v.name, "pos") == 0))
            status =
                cli_error(err, CLEF_E_NOT_FOUND, "%s: expected a tensor %s, an input of %s; there is none",
                          e->o->in, v.name, e->path);
        if (status != CLEF_OK)
            return status;
    }
    return CLEF_OK;
}

/* ---- what to evaluate ------------------------------------------------------------------------ */

/* The input that the model reads first: a text's ids, or a spectrogram. */
static const char *source_of(const eval *e)
{
    return clef_model_hparams(e->model)->n_mels ? "input_features" : "input_ids";
}

static clef_status check_model_inputs(const eval *e, clef_error *err)
{
    const int is_seq2seq = clef_model_hparams(e->model)->n_decoder_layers > 0;
    for (int32_t i = 0; i < clef_tensor_file_count(e->in); i++) {
        const char *name = clef_tensor_file_get(e->in, i).name;
        if (strcmp(name, "decoder_input_ids") == 0 && !is_seq2seq)
            return cli_error(
                err, CLEF_E_UNSUPPORTED,
                "%s: has decoder_input_ids, but %s (%s) is not an encoder-decoder: expected input_ids",
                e->o->in, e->path, clef_model_hparams(e->model)->arch);
        if (strcmp(name, source_of(e)) != 0 && strcmp(name, "attention_mask") != 0 &&
            strcmp(name, "decoder_input_ids") != 0 && strcmp(name, "token_type_ids") != 0 &&
            strcmp(name, "hidden") != 0)
            return cli_error(
                err, CLEF_E_ARG,
                "%s: expected %s, attention_mask, token_type_ids, decoder_input_ids and hidden, got %s",
                e->o->in, source_of(e), name);
    }
    return CLEF_OK;
}

/* Builds the model's graph for exactly the B sequences of T tokens in IN. */
static clef_status build_model(eval *e, clef_error *err)
{
    clef_status status = clef_model_open(e->path, &e->model, err);
    if (status == CLEF_OK)
        status = check_model_inputs(e, err);
    if (status != CLEF_OK)
        return status;
    const char *name = clef_model_hparams(e->model)->n_mels ? "decoder_input_ids" : "input_ids";
    const int32_t index = clef_tensor_file_find(e->in, name);
    const clef_tensor_info ids = clef_tensor_file_get(e->in, index < 0 ? 0 : index);
    char dims[96];
    if (index < 0)
        return cli_error(err, CLEF_E_NOT_FOUND, "%s: expected a tensor %s [B, T]; there is none", e->o->in,
                         name);
    if (ids.rank != 2 || ids.dims[0] < 1 || ids.dims[1] < 1 || ids.dims[0] > INT32_MAX ||
        ids.dims[1] > INT32_MAX)
        return cli_error(err, CLEF_E_SHAPE, "%s: %s: expected [B, T], got %s", e->o->in, name,
                         cli_dims_text(ids.rank, ids.dims, dims));
    const cli_list plain = cli_plain_taps(&e->o->taps);
    clef_build_opts opts = {
        .n_context = (int32_t)ids.dims[1],
        .n_batch = (int32_t)ids.dims[1],
        .n_sequences = (int32_t)ids.dims[0],
        .all_logits = 1,
        .kv_type = cli_kv_type(e->model, e->o->kv_type, e->o->compile.exact),
        .padding_mask = clef_tensor_file_find(e->in, "attention_mask") >= 0,
        .token_types = clef_tensor_file_find(e->in, "token_type_ids") >= 0,
        .mtp = clef_tensor_file_find(e->in, "hidden") >= 0 ? CLEF_MTP_LAYER : CLEF_MTP_NONE,
        .taps = plain.items,
        .n_taps = plain.n,
    };
    status = clef_model_build(e->model, &opts, &e->graph, err);
    if (status == CLEF_E_NOT_FOUND)
        e->is_classifier = cli_is_classifier(e->model);
    if (status == CLEF_E_NOT_FOUND && (clef_model_is_encoder(e->model) || e->is_classifier)) {
        opts.no_head = 1; /* an embedder has no head */
        status = clef_model_build(e->model, &opts, &e->graph, err);
    }
    if (status == CLEF_OK)
        status = cli_graph_tap_patterns(e->graph, e->path, &e->o->taps, err);
    return status == CLEF_OK ? collect_feeds(e, err) : status;
}

/* Compares each weight in IN with the graph's, and converts it if its dtype differs. */
static clef_status collect_weights(eval *e, clef_error *err)
{
    const int32_t n = clef_graph_n_values(e->graph);
    e->weights = calloc((size_t)n + 1, sizeof *e->weights);
    if (!e->weights)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    for (int32_t i = 0; i < n; i++) {
        const clef_value_info v = clef_value_describe(clef_graph_value(e->graph, i));
        const int32_t index = v.kind == CLEF_WEIGHT ? clef_tensor_file_find(e->in, v.name) : -1;
        if (index < 0)
            continue; /* the plan reports a missing weight, if it is needed */
        const clef_tensor_info t = clef_tensor_file_get(e->in, index);
        clef_status status = match_shape(e, "weight", &v, &t, err);
        if (status == CLEF_OK && t.dtype != v.dtype) {
            feed *f = &e->weights[e->n_weights];
            status = load_tensor(e, index, v.dtype, &f->data, &f->n_bytes, err);
            e->n_weights += status == CLEF_OK;
            if (status == CLEF_OK && !(f->name = copy_text(v.name)))
                status = cli_error(err, CLEF_E_NOMEM, "out of host memory");
        }
        if (status != CLEF_OK)
            return status;
    }
    return CLEF_OK;
}

static clef_status build_text_graph(eval *e, clef_error *err)
{
    const cli_list plain = cli_plain_taps(&e->o->taps);
    clef_status status = cli_graph_file_open(e->path, &e->graph, err);
    if (status == CLEF_OK)
        status = cli_graph_tap(e->graph, e->path, &plain, err);
    if (status == CLEF_OK)
        status = cli_graph_tap_patterns(e->graph, e->path, &e->o->taps, err);
    if (status == CLEF_OK)
        status = collect_weights(e, err);
    return status == CLEF_OK ? collect_feeds(e, err) : status;
}

static const int32_t *feed_of(const eval *e, const char *name, size_t *n)
{
    for (int32_t i = 0; i < e->n_feeds; i++)
        if (strcmp(e->feeds[i].name, name) == 0) {
            *n = e->feeds[i].n_bytes / sizeof(int32_t);
            return e->feeds[i].data;
        }
    return NULL;
}

/* Padding is at the end of a sequence, behind the mask. */
static clef_status check_padding(const eval *e, clef_error *err)
{
    static const char *const names[][2] = {{"input_ids", "attention_mask"}, {"decoder_input_ids", ""}};
    const int32_t padding = e->model ? clef_model_padding(e->model) : -1;
    for (int k = 0; padding >= 0 && k < 2; k++) {
        size_t n = 0, n_mask = 0;
        const int32_t *ids = feed_of(e, names[k][0], &n), *mask = feed_of(e, names[k][1], &n_mask);
        const int32_t index = clef_tensor_file_find(e->in, names[k][0]);
        const size_t T = index < 0 ? 1 : (size_t)clef_tensor_file_get(e->in, index).dims[1];
        int is_before = 0; /* 1: a token follows in the sequence */
        for (size_t i = ids ? n : 0; i-- > 0;) {
            is_before = (i + 1) % T ? is_before : 0;
            is_before |= !mask || mask[i];
            if (ids[i] == padding && is_before)
                return cli_error(err, CLEF_E_UNSUPPORTED,
                                 "%s: %s has the padding id %" PRId32 " within a sequence: it has no "
                                 "position in %s",
                                 e->o->in, names[k][0], padding, clef_model_hparams(e->model)->arch);
        }
    }
    return CLEF_OK;
}

/* Ids and positions in IN that are out of range are errors before the run; those that the graph computes are
 * found after it. */
static clef_status check_row_numbers(eval *e, clef_error *err)
{
    e->n_outputs = clef_graph_n_outputs(e->graph);
    clef_status status = check_padding(e, err);
    if (status == CLEF_OK)
        status = cli_row_uses_list(e->path, e->graph, &e->rows, err);
    for (int32_t i = 0; i < e->n_feeds && status == CLEF_OK; i++) {
        const feed *f = &e->feeds[i];
        clef_tensor_info t = clef_tensor_file_get(e->in, clef_tensor_file_find(e->in, f->name));
        t.data = f->data;
        t.n_bytes = f->n_bytes;
        status = cli_row_numbers_check(&e->rows, e->symbols, &t, err);
    }
    return status;
}

/* A clef_weight_source for text graphs, after collect_weights() has compared the shapes. */
static const void *weight_of_file(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    const eval *e = user;
    for (int32_t i = 0; i < e->n_weights; i++)
        if (strcmp(e->weights[i].name, name) == 0)
            return e->weights[i].n_bytes == n_bytes ? e->weights[i].data : NULL;
    const int32_t index = clef_tensor_file_find(e->in, name);
    if (index < 0)
        return NULL;
    const clef_tensor_info t = clef_tensor_file_get(e->in, index);
    return t.dtype == dtype && t.n_bytes == n_bytes ? t.data : NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

static clef_status bind_and_write(eval *e, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0; status == CLEF_OK && i < CLEF_MAX_SYMBOLS; i++) {
        const char *name = clef_graph_symbol(e->graph, i + 1, NULL);
        const int32_t symbol = name ? clef_plan_symbol(e->plan, name) : 0;
        if (symbol && e->symbols[i])
            status = clef_plan_bind(e->plan, symbol, e->symbols[i], err);
    }
    for (int32_t i = 0; status == CLEF_OK && i < e->n_feeds; i++) {
        const int32_t input = clef_plan_input(e->plan, e->feeds[i].name);
        if (input >= 0) /* a pass may have removed an unused input */
            status = clef_plan_write(e->plan, input, e->feeds[i].data, e->feeds[i].n_bytes, err);
    }
    const int32_t pos = e->model ? clef_plan_input(e->plan, "pos") : -1;
    if (status == CLEF_OK && pos >= 0) {
        const size_t n_bytes = clef_plan_input_bytes(e->plan, pos, NULL, NULL);
        void *zeros = calloc(n_bytes ? n_bytes : 1, 1);
        status = zeros ? clef_plan_write(e->plan, pos, zeros, n_bytes, err)
                       : cli_error(err, CLEF_E_NOMEM, "out of host memory");
        free(zeros);
    }
    return status;
}

/* The logits of each sequence without its padding, [n_classes], or [T, n_classes] of a model that labels
 * tokens. */
static clef_status classify_rows(eval *e, clef_classifier *c, float *out, size_t row, clef_error *err)
{
    size_t n_ids = 0, n_mask = 0, n_types = 0;
    const int32_t *ids = feed_of(e, "input_ids", &n_ids), *mask = feed_of(e, "attention_mask", &n_mask),
                  *types = feed_of(e, "token_type_ids", &n_types);
    const clef_tensor_info in = clef_tensor_file_get(e->in, clef_tensor_file_find(e->in, "input_ids"));
    const clef_classifier_info info = clef_classifier_describe(c);
    clef_status status = CLEF_OK;
    for (int64_t b = 0; status == CLEF_OK && b < in.dims[0]; b++) {
        const int64_t at = b * in.dims[1];
        const float *logits;
        int32_t n = (int32_t)in.dims[1];
        while (mask && n > 1 && !mask[at + n - 1])
            n--;
        status = clef_classify(c, ids + at, types ? types + at : NULL, n, &logits, err);
        if (status == CLEF_OK)
            memcpy(out + (size_t)b * row, logits,
                   (size_t)(info.per_token ? n : 1) * (size_t)info.n_classes * sizeof *out);
    }
    return status;
}

/* Adds the logits of classes to the results. */
static clef_status add_classes(eval *e, clef_error *err)
{
    clef_classifier *c = NULL;
    const clef_classifier_opts opts = {.head = CLEF_HEAD_CLASSES, .compile = e->o->compile};
    clef_status status = clef_classifier_create(e->device, e->model, &opts, &c, err);
    if (status != CLEF_OK)
        return status;
    const clef_classifier_info info = clef_classifier_describe(c);
    const clef_tensor_info in = clef_tensor_file_get(e->in, clef_tensor_file_find(e->in, "input_ids"));
    const size_t row = (size_t)info.n_classes * (size_t)(info.per_token ? in.dims[1] : 1);
    float *out = calloc((size_t)in.dims[0] * row, sizeof *out);
    clef_tensor_info *more = realloc(e->results, ((size_t)e->n_results + 1) * sizeof *more);
    e->results = more ? more : e->results;
    status =
        out && more ? classify_rows(e, c, out, row, err) : cli_error(err, CLEF_E_NOMEM, "out of host memory");
    clef_classifier_destroy(c);
    if (status != CLEF_OK) {
        free(out);
        return status;
    }
    e->results[e->n_results++] =
        (clef_tensor_info){.name = "logits",
                           .dtype = CLEF_F32,
                           .rank = info.per_token ? 3 : 2,
                           .dims = {in.dims[0], info.per_token ? in.dims[1] : info.n_classes, info.n_classes},
                           .n_bytes = (size_t)in.dims[0] * row * sizeof *out,
                           .data = out};
    return CLEF_OK;
}

/* For a model reads only the logits and the tapped values; argmax is for generation. FILE.npy holds one
 * value: the tapped one. */
static clef_status read_outputs(eval *e, clef_error *err)
{
    const cli_list *taps = &e->o->taps;
    const int taps_alone = taps->n && cli_is_npy(e->o->out);
    return cli_taps_read(e->plan, e->graph, e->model || taps_alone ? taps : NULL,
                         taps_alone ? NULL : "logits", e->n_outputs, &e->results, &e->n_results, err);
}

/* A cli_values_run: the graph is e->graph or a copy of it, optimised or with more outputs. */
static clef_status run_graph(void *user, const clef_graph *graph, clef_plan **plan, clef_error *err)
{
    eval *e = user;
    const clef_plan_opts opts = {
        .batch_invariant = 1,
        .compile = e->o->compile,
        .weights = e->model ? clef_model_weight : weight_of_file,
        .weights_user = e->model ? (void *)e->model : (void *)e,
        .weights_name = e->model ? clef_model_weights_name(e->model, NULL) : NULL,
    };
    clef_plan_destroy(e->plan);
    e->plan = NULL;
    clef_status status = clef_plan_create(e->device, graph, &opts, &e->plan, err);
    if (status == CLEF_OK)
        status = bind_and_write(e, err);
    if (status == CLEF_OK)
        status = clef_plan_run(e->plan, err);
    if (status == CLEF_OK)
        status = cli_row_outputs_check(&e->rows, e->symbols, e->plan, err);
    *plan = e->plan;
    return status;
}

static clef_status optimize_graph(const eval *e, clef_graph *graph, const char *after, clef_error *err)
{
    return e->o->after && strcmp(e->o->after, "build") == 0 ? CLEF_OK
                                                            : clef_graph_optimize(graph, after, err);
}

static clef_status print_stats(eval *e, clef_error *err)
{
    clef_graph *graph = clef_graph_clone(e->graph);
    clef_status status = graph ? optimize_graph(e, graph, e->o->after ? e->o->after : "drop", err)
                               : cli_error(err, CLEF_E_NOMEM, "--stats: out of host memory");
    if (status == CLEF_OK)
        status = cli_stats_walk(graph, run_graph, e, stdout, err);
    clef_graph_destroy(graph);
    return status;
}

static clef_status evaluate_graph(eval *e, clef_error *err)
{
    const eval_options *o = e->o;
    clef_plan *plan;
    clef_status status = clef_tensor_file_open(o->in, &e->in, err);
    if (status == CLEF_OK)
        status = cli_is_graph_file(e->path) ? build_text_graph(e, err) : build_model(e, err);
    if (status == CLEF_OK)
        status = check_row_numbers(e, err);
    if (status == CLEF_OK)
        status = cli_devices_open(o->device, &o->split, &(clef_device_opts){.notice = cli_say_notice},
                                  &e->device, err);
    if (status == CLEF_OK && !o->quiet)
        cli_say_device(e->device);
    if (status == CLEF_OK && o->stats)
        status = print_stats(e, err);
    if (status != CLEF_OK || !o->out)
        return status;
    status = optimize_graph(e, e->graph, o->after, err);
    if (status == CLEF_OK)
        status = run_graph(e, e->graph, &plan, err);
    if (status == CLEF_OK)
        status = read_outputs(e, err);
    if (status == CLEF_OK && e->is_classifier)
        status = add_classes(e, err);
    return status == CLEF_OK ? cli_tensors_write(o->out, e->results, e->n_results, err) : status;
}

static void eval_finish(eval *e)
{
    for (int32_t i = 0; i < e->n_feeds; i++) {
        free(e->feeds[i].name);
        free(e->feeds[i].data);
    }
    for (int32_t i = 0; i < e->n_weights; i++) {
        free(e->weights[i].name);
        free(e->weights[i].data);
    }
    free(e->weights);
    for (int32_t i = 0; i < CLEF_MAX_SYMBOLS; i++)
        free(e->symbol_from[i]);
    cli_row_uses_free(&e->rows);
    cli_taps_free(e->results, e->n_results);
    clef_plan_destroy(e->plan);
    clef_device_close(e->device);
    clef_graph_destroy(e->graph);
    clef_model_close(e->model);
    clef_tensor_file_close(e->in);
}

static int eval_run(const void *options, int32_t n_args, char **args)
{
    const eval_options *o = options;
    clef_error err = {0};
    if (!o->in || (!o->out && (!o->stats || o->taps.n)))
        return cli_fail(CLI_USAGE, "eval: expected --%s",
                        !o->in      ? "in FILE"
                        : o->taps.n ? "out FILE for --tap"
                                    : "out FILE, or --stats");
    const char *path = cli_model_path("eval", n_args, args, o->model);
    if (!path)
        return n_args > 0 && o->model ? CLI_USAGE : CLI_FAILED;
    eval e = {.o = o, .path = path};
    const clef_status status = evaluate_graph(&e, &err);
    eval_finish(&e);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

const cli_command cli_command_eval = {
    .name = "eval",
    .usage = "[MODEL] --in IN.safetensors --out OUT [--tap NAME]... [--stats]",
    .summary = "Run a model or graph on tensors from a file",
    .notes =
        "For a model, IN holds input_ids [B, T] and optionally attention_mask [B, T] (1: token, 0: padding), "
        "as int32 or int64. OUT gets logits [B, T, V] and the tapped values, as f32.\n\nMODEL may also be a "
        "graph in text form (graph.clef, docs/graph-format.md). Its inputs and weights come from IN by name, "
        "and their shapes set the graph's symbols. OUT gets the graph's outputs.\n",
    .options = eval_option_table,
    .max_args = 1,
    .defaults = &eval_defaults,
    .options_bytes = sizeof eval_defaults,
    .run = eval_run,
};
