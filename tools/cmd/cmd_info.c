/* clef info: shows what a model file holds. */
#include <inttypes.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/json.h"

typedef struct info_options {
    const char *model;
    int32_t json;
} info_options;

static const info_options info_defaults = {0};

static const cli_option info_option_table[] = {
    MODEL_OPTION(info_options),
    {.names = "json", .type = CLI_SWITCH, .offset = offsetof(info_options, json), .help = "print JSON"},
    {.names = NULL},
};

/* The hyperparameters as rows of names and numbers. Those that an architecture does not have are 0 and left
 * out. */
typedef struct row {
    const char *name;
    double x;
    int32_t always; /* 1: 0 is a value, too */
} row;

enum { MAX_ROWS = 24 };

static int32_t hparam_rows(const clef_hparams *h, row rows[MAX_ROWS])
{
    const row all[] = {
        {"n_layers", h->n_layers, 0},
        {"d_model", h->d_model, 0},
        {"d_ff", h->d_ff, 0},
        {"n_heads", h->n_heads, 0},
        {"n_kv_heads", h->n_kv_heads, 0},
        {"head_dim", h->head_dim, 0},
        {"n_vocab", h->n_vocab, 0},
        {"n_context", h->n_context, 0},
        {"rope_dims", h->rope.dims, 0},
        {"rope_theta", h->rope.theta, 0},
        {"rope_type", h->rope.type, 0},
        {"rope_factor", h->rope.factor, 0},
        {"rope_original_context", h->rope.original_context, 0},
        {"rope_sliding_theta", h->rope_sliding.theta, 0},
        {"sliding_window", h->sliding_window, 0},
        {"norm_eps", (double)h->norm_eps, 0},
        {"tied_embeddings", h->tied_embeddings, 1},
        {"bos", h->bos, 1},
        {"eos", h->eos, 1},
    };
    int32_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].x != 0 || all[i].always)
            rows[n++] = all[i];
    return n;
}

static uint64_t count_of(const clef_tensor_info *t)
{
    uint64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++)
        n *= (uint64_t)t->dims[i];
    return n;
}

static void print_entry(void *user, const char *key, const char *value)
{
    (void)user;
    printf("  %s = ", key);
    cli_json_string(stdout, value);
    putchar('\n');
}

static void print_json_entry(void *user, const char *key, const char *value)
{
    cli_json_member_text(stdout, user, key, value);
}

/* Token `i` that ends a text, and whether it does so by its text alone. -1: there are no more. */
static int32_t end_token(const clef_hparams *h, int32_t i, int *by_text)
{
    if (h->eos >= 0 && i == 0) {
        *by_text = 0;
        return h->eos;
    }
    i -= h->eos >= 0;
    *by_text = i >= h->n_eos_more - h->n_eos_by_text;
    return i < h->n_eos_more ? h->eos_more[i] : -1;
}

static void print_ends_text(const clef_hparams *h, const clef_tokenizer *tok)
{
    int by_text = 0;
    for (int32_t i = 0, id; (id = end_token(h, i, &by_text)) >= 0; i++) {
        size_t n = 0;
        const char *text = clef_tokenizer_bytes(tok, id, &n);
        printf("  %-22s %" PRId32 " \"%.*s\"%s\n", i ? "" : "ends a text", id, (int)n, text ? text : "",
               by_text ? " (by its text)" : "");
    }
}

static void print_ends_json(const clef_hparams *h, int32_t *members)
{
    int by_text = 0;
    cli_json_member(stdout, members, "end_tokens");
    putchar('[');
    for (int32_t i = 0, id; (id = end_token(h, i, &by_text)) >= 0; i++)
        printf("%s{\"id\": %" PRId32 ", \"by_text\": %s}", i ? ", " : "", id, by_text ? "true" : "false");
    putchar(']');
}

/* What the files say about how texts are generated: an option with its number, or NULL and a list of keys. */
typedef void tell_generation(void *user, const char *name, double x, const char *keys);

static void each_of_generation(const clef_model *model, tell_generation *tell, void *user)
{
    static const char *const options[] = {"temperature",   "top_k",          "top_p",
                                          "min_p",         "typical",        "repeat_penalty",
                                          "repeat_last_n", "length_penalty", "early_stopping"};
    double x;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (clef_model_sampling(model, options[i], &x) && x < INT32_MAX) /* else the whole text */
            tell(user, options[i], x, NULL);
    for (int32_t applied = 1; applied >= 0; applied--)
        if (clef_model_generation(model, applied)[0])
            tell(user, applied ? "applied" : "not_applied", 0, clef_model_generation(model, applied));
}

static void print_rule(void *user, const char *name, double x, const char *keys)
{
    int *n = user;
    if ((*n)++ == 0)
        puts("\ngeneration");
    if (keys)
        printf("  %-22s %s\n", name, keys);
    else
        printf("  %-22s %.7g\n", name, x);
}

static void print_json_rule(void *user, const char *name, double x, const char *keys)
{
    if (keys)
        cli_json_member_text(stdout, user, name, keys);
    else
        cli_json_member_number(stdout, user, name, x);
}

/* The metadata and the tensors. */
static void print_contents(const clef_model *model)
{
    const int32_t n = clef_model_n_tensors(model);
    uint64_t n_params = 0, n_bytes = 0;
    char dims[96], size[24];
    puts("\nmetadata");
    clef_model_metadata(model, print_entry, NULL);
    puts("\ntensors");
    for (int32_t i = 0; i < n; i++) {
        const clef_tensor_info t = clef_model_tensor(model, i);
        n_params += count_of(&t);
        n_bytes += t.n_bytes;
        printf("  %-40s %-5s %-20s %s\n", t.name, clef_dtype_name(t.dtype),
               cli_dims_text(t.rank, t.dims, dims), cli_bytes_text(t.n_bytes, size));
    }
    printf("\n%" PRId32 " tensors, %" PRIu64 " parameters, %s\n", n, n_params, cli_bytes_text(n_bytes, size));
}

static void print_text(clef_model *model)
{
    const clef_tokenizer *tok = clef_model_tokenizer(model, NULL); /* it names the end tokens, too */
    const clef_hparams *h = clef_model_hparams(model);
    row rows[MAX_ROWS];
    const int32_t n_rows = hparam_rows(h, rows);
    int n_rules = 0;
    const clef_hparams *tower = clef_model_pictures(model, NULL);
    printf("%s\n  arch %s, name %s\n", clef_model_path(model), h->arch, h->name);
    if (tower && tower != h)
        printf("  pictures %s, %d layers of %d, patches of %d\n", tower->arch, tower->n_layers,
               tower->d_model, tower->patch_size);
    printf("\nhyperparameters\n");
    for (int32_t i = 0; i < n_rows; i++)
        printf("  %-22s %.7g\n", rows[i].name, rows[i].x);
    print_ends_text(h, tok);
    each_of_generation(model, print_rule, &n_rules);
    print_contents(model);
}

static void print_json(clef_model *model)
{
    clef_model_tokenizer(model, NULL); /* it names the end tokens, too */
    const clef_hparams *h = clef_model_hparams(model);
    row rows[MAX_ROWS];
    const int32_t n_rows = hparam_rows(h, rows), n = clef_model_n_tensors(model);
    uint64_t n_params = 0, n_bytes = 0;
    int32_t members = 0, inner = 0;
    putchar('{');
    cli_json_member_text(stdout, &members, "path", clef_model_path(model));
    cli_json_member_text(stdout, &members, "arch", h->arch);
    cli_json_member_text(stdout, &members, "name", h->name);
    cli_json_member(stdout, &members, "hyperparameters");
    putchar('{');
    for (int32_t i = 0; i < n_rows; i++)
        cli_json_member_number(stdout, &inner, rows[i].name, rows[i].x);
    putchar('}');
    print_ends_json(h, &members);
    inner = 0;
    cli_json_member(stdout, &members, "generation");
    putchar('{');
    each_of_generation(model, print_json_rule, &inner);
    putchar('}');
    puts(",");
    cli_json_string(stdout, "metadata");
    fputs(": {", stdout);
    inner = 0;
    clef_model_metadata(model, print_json_entry, &inner);
    puts("},\n\"tensors\": [");
    for (int32_t i = 0; i < n; i++) {
        const clef_tensor_info t = clef_model_tensor(model, i);
        n_params += count_of(&t);
        n_bytes += t.n_bytes;
        inner = 0;
        fputs(" {", stdout);
        cli_json_member_text(stdout, &inner, "name", t.name);
        cli_json_member_text(stdout, &inner, "dtype", clef_dtype_name(t.dtype));
        cli_json_member(stdout, &inner, "shape");
        putchar('[');
        for (int32_t k = 0; k < t.rank; k++)
            printf("%s%" PRId64, k ? ", " : "", t.dims[k]);
        putchar(']');
        cli_json_member_number(stdout, &inner, "bytes", (double)t.n_bytes);
        puts(i + 1 < n ? "}," : "}");
    }
    printf("],\n\"n_parameters\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n", n_params, n_bytes);
}

/* ---- files that hold a vocabulary alone */

static int is_vocabulary(const char *path)
{
    uint64_t n_tensors = 0;
    return clef_gguf_metadata(path, NULL, NULL, &n_tensors, NULL) == CLEF_OK && n_tensors == 0;
}

static void print_vocabulary_text(const char *path, const clef_tokenizer *tok, const clef_error *err)
{
    printf("%s\n  a vocabulary without tensors\n\ntokenizer\n", path);
    if (tok)
        printf("  %-22s %" PRId32 "\n  %-22s %" PRId32 "\n  %-22s %" PRId32 "\n", "n_tokens",
               clef_tokenizer_n_tokens(tok), "bos", clef_tokenizer_bos(tok), "eos", clef_tokenizer_eos(tok));
    else
        printf("  not supported: %s\n", err->text);
    puts("\nmetadata");
    clef_gguf_metadata(path, print_entry, NULL, NULL, NULL);
}

static void print_vocabulary_json(const char *path, const clef_tokenizer *tok, const clef_error *err)
{
    int32_t members = 0, inner = 0;
    putchar('{');
    cli_json_member_text(stdout, &members, "path", path);
    if (tok) {
        cli_json_member_number(stdout, &members, "n_tokens", clef_tokenizer_n_tokens(tok));
        cli_json_member_number(stdout, &members, "bos", clef_tokenizer_bos(tok));
        cli_json_member_number(stdout, &members, "eos", clef_tokenizer_eos(tok));
    } else {
        cli_json_member_text(stdout, &members, "tokenizer_error", err->text);
    }
    cli_json_member(stdout, &members, "metadata");
    putchar('{');
    clef_gguf_metadata(path, print_json_entry, &inner, NULL, NULL);
    puts("},\n\"tensors\": []}");
}

static int describe_vocabulary(const char *path, int32_t as_json)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    clef_tokenizer_open(path, &tok, &err);
    (as_json ? print_vocabulary_json : print_vocabulary_text)(path, tok, &err);
    clef_tokenizer_close(tok);
    return CLI_OK;
}

/* ---- models that clef does not run */

/* Shows what can be listed. err: why clef_model_open() failed. */
static int describe_other(const char *path, int32_t as_json, const clef_error *err)
{
    clef_model *model = NULL;
    char near[512];
    if (as_json || clef_model_look(path, &model, near, NULL) != CLEF_OK)
        return cli_report(err);
    printf("%s\n  arch %s\n", clef_model_path(model), clef_model_hparams(model)->arch);
    print_contents(model);
    clef_model_close(model);
    const int rc = cli_report(err);
    if (near[0])
        cli_say_notice(NULL, near);
    return rc;
}

static int info_run(const void *options, int32_t n_args, char **args)
{
    const info_options *o = options;
    clef_error err = {0};
    clef_model *model = NULL;
    const char *path = cli_model_path("info", n_args, args, o->model);
    if (!path)
        return n_args > 0 && o->model ? CLI_USAGE : CLI_FAILED;
    if (is_vocabulary(path))
        return describe_vocabulary(path, o->json);
    if (clef_model_open(path, &model, &err) != CLEF_OK)
        return describe_other(path, o->json, &err);
    if (o->json)
        print_json(model);
    else
        print_text(model);
    cli_say_unread(model);
    cli_say_left_out(model);
    clef_model_close(model);
    return CLI_OK;
}

const cli_command cli_command_info = {
    .name = "info",
    .usage = "[MODEL] [--json]",
    .summary = "Show the metadata, tensors and sizes of a model file",
    .options = info_option_table,
    .max_args = 1,
    .defaults = &info_defaults,
    .options_bytes = sizeof info_defaults,
    .run = info_run,
};
