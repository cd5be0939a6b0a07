/* Opens what a training needs: the model (a new one is made first), the data and the trainer. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/ranks.h"
#include "train/command/train.h"

enum { PATH_BYTES = 4096 };

static void say(void *user, const char *text)
{
    (void)user;
    cli_terminal_clear_line();
    fprintf(stderr, "clef: %s\n", text);
}

/* ---- folders ----------------------------------------------------------------------------------- */

static int is_file(const char *path)
{
    FILE *f = cli_terminal_is_folder(path) ? NULL : fopen(path, "rb");
    if (f)
        fclose(f);
    return f != NULL;
}

static int exists(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && is_file(path);
}

/* Names the folder beside OUT that holds checkpoints, the log and, of a new model, its begin. */
static int name_work(train_run *r)
{
    const char *out = r->o->out;
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/')
        n--;
    r->work = malloc(n + sizeof ".train");
    if (!r->work)
        return cli_fail(CLI_FAILED, "train: out of memory");
    memcpy(r->work, out, n);
    strcpy(r->work + n, ".train");
    return CLI_GO_ON;
}

static int make_work(const train_run *r)
{
    const train_options *o = r->o;
    if (o->resume && !cli_terminal_is_folder(r->work))
        return cli_fail(CLI_FAILED, "%s: there is no training to resume", r->work);
    if (!cli_terminal_make_folder(r->work))
        return cli_fail(CLI_FAILED, "%s: cannot make the folder: %s", r->work, strerror(errno));
    if (!o->resume && (exists(r->work, "log.jsonl") || clef_train_has_checkpoint(r->work)))
        return cli_fail(
            CLI_FAILED,
            "%s: holds an earlier training: --resume goes on with it; else remove it or choose another -o",
            r->work);
    return CLI_GO_ON;
}

/* What is known of OUT before the model is open. */
static int check_out(const train_run *r, const char *model)
{
    const char *out = r->o->out, *dot = strrchr(out, '.');
    const int is_gguf = dot && strcmp(dot, ".gguf") == 0;
    clef_error err = {0};
    if (is_gguf && r->o->lora_rank)
        return cli_fail(CLI_USAGE, "train: an adapter is a folder: expected -o FOLDER, got %s", out);
    if (model && is_file(model) && !is_gguf && !r->o->lora_rank)
        return cli_fail(CLI_USAGE,
                        "train: %s is a file, so the trained model is one too: expected -o FILE.gguf, got %s",
                        model, out);
    if (!is_gguf && clef_train_check_folder(out, &err) != CLEF_OK)
        return cli_report(&err);
    return CLI_GO_ON;
}

/* What would only fail at the end. */
static int check_save(const train_run *r)
{
    const clef_save_opts save = {.dtype = (clef_dtype)r->o->dtype};
    clef_error err = {0};
    if (!r->o->out || r->rank || clef_model_trainer_check_save(r->trainer, r->o->out, &save, &err) == CLEF_OK)
        return CLI_GO_ON;
    return cli_report(&err);
}

/* ---- a new model -------------------------------------------------------------------------------- */

/* The folder of the tokenizer that --tokenizer names; train:SIZE makes one in OUT.train. */
static int find_tokenizer(train_run *r, char path[PATH_BYTES])
{
    const train_options *o = r->o;
    static const char train[] = "train:";
    clef_error err = {0};
    if (!o->tokenizer)
        return cli_fail(CLI_USAGE,
                        "train: --new needs --tokenizer: a folder, a tokenizer.json, or train:SIZE");
    snprintf(path, PATH_BYTES, "%s", o->tokenizer);
    if (strncmp(o->tokenizer, train, sizeof train - 1) != 0)
        return CLI_GO_ON;
    char *end;
    const long size = strtol(o->tokenizer + sizeof train - 1, &end, 10);
    if (*end || size < 257 || size > 1 << 20)
        return cli_fail(CLI_USAGE, "train: --tokenizer %s: expected train:SIZE with a size of 257 to %d",
                        o->tokenizer, 1 << 20);
    snprintf(path, PATH_BYTES, "%s/tokenizer", r->work);
    const clef_tokenizer_train_opts opts = {.n_vocab = (int32_t)size,
                                            .files = o->data.items,
                                            .n_files = o->data.n,
                                            .progress = cli_progress_step,
                                            .progress_user = &r->progress};
    return clef_tokenizer_train(&opts, path, &err) == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

/* Reads the configuration in a file or a folder. CLI_GO_ON, or an exit code after a message. */
static int read_config(const char *path, json_t **out)
{
    char file[PATH_BYTES];
    json_error_t why;
    snprintf(file, sizeof file, cli_terminal_is_folder(path) ? "%s/config.json" : "%s", path);
    *out = json_load_file(file, 0, &why);
    if (!*out && why.line < 1)
        return cli_fail(CLI_FAILED, "--new: %s", why.text);
    if (!*out)
        return cli_fail(CLI_FAILED, "%s: expected a config.json: line %d: %s", file, why.line, why.text);
    if (json_is_object(*out))
        return CLI_GO_ON;
    json_decref(*out);
    *out = NULL;
    return cli_fail(CLI_FAILED, "%s: expected a config.json, an object", file);
}

/* Compares --new with the model in `path` that a resumed training began with. That one's configuration was
 * completed, so it may have more. */
static int check_began_with(const train_run *r, json_t *given, const char *path)
{
    static const char *const set[] = {"architectures", "dtype", "torch_dtype"};
    json_t *began, *value;
    const char *key, *other = NULL;
    const int code = read_config(path, &began);
    if (code != CLI_GO_ON)
        return code;
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        json_object_del(given, set[i]);
    json_object_foreach(given, key, value)
        if (!other && !json_equal(value, json_object_get(began, key)))
            other = key;
    json_decref(began);
    return other ? cli_fail(CLI_FAILED, "%s: %s is not that of %s, the model that the training began with",
                            r->o->new_config, other, path)
                 : CLI_GO_ON;
}

/* The folder of the new model. */
static int name_new(const train_run *r, char path[PATH_BYTES])
{
    return snprintf(path, PATH_BYTES, "%s/start", r->work) < PATH_BYTES
               ? CLI_GO_ON
               : cli_fail(CLI_FAILED, "%.80s...: the path is too long", r->work);
}

/* Makes the new model, unless a resumed training has made it, in the folder `path`. */
static int make_new(train_run *r, const char *path)
{
    char tokenizer[PATH_BYTES];
    clef_error err = {0};
    const int is_made = r->o->resume && exists(path, "config.json");
    json_t *config;
    int code = read_config(r->o->new_config, &config);
    if (code == CLI_GO_ON && is_made)
        code = check_began_with(r, config, path);
    json_decref(config);
    if (code == CLI_GO_ON && !is_made)
        code = find_tokenizer(r, tokenizer);
    if (code != CLI_GO_ON || is_made)
        return code;
    return clef_model_create_new(r->o->new_config, tokenizer, path, r->o->seed.value, &err) == CLEF_OK
               ? CLI_GO_ON
               : cli_report(&err);
}

/* ---- data and trainer ---------------------------------------------------------------------------- */

/* What the model can learn. */
static clef_objective objective_of(const train_run *r)
{
    return clef_model_hparams(r->model)->n_decoder_layers ? CLEF_TEXT_PAIRS
           : clef_model_is_encoder(r->model)              ? CLEF_MASKED_TOKENS
                                                          : CLEF_NEXT_TOKEN;
}

/* --objective and --prompt are for some kinds of models. */
static int check_model(const train_run *r)
{
    static const char *const kinds[] = {"a decoder, which learns the next token",
                                        "an encoder, which learns masked tokens",
                                        "an encoder-decoder, which learns targets from sources"};
    const clef_objective right = objective_of(r);
    const char *path = clef_model_path(r->model);
    if (r->o->objective && r->o->objective - 1 != (int32_t)right)
        return cli_fail(CLI_FAILED, "%s: --objective %s: it is %s", path,
                        train_objective_names[r->o->objective], kinds[right]);
    if (r->o->prompt && right != CLEF_NEXT_TOKEN)
        return cli_fail(CLI_FAILED, "%s: --prompt: expected a decoder, it is %s", path, kinds[right]);
    return CLI_GO_ON;
}

/* clef_dataset_opts.validation, in which 0 means the default. */
static double validation_of(const train_options *o)
{
    return o->validation == TRAIN_VALIDATION_DEFAULT ? 0 : o->validation > 0 ? (double)o->validation : -1;
}

static int open_data(train_run *r)
{
    const train_options *o = r->o;
    clef_error err = {0};
    const clef_tokenizer *tok = clef_model_tokenizer(r->model, &err);
    const clef_dataset_opts opts = {.files = o->data.items,
                                    .n_files = o->data.n,
                                    .validation_files = o->validation_files.items,
                                    .n_validation_files = o->validation_files.n,
                                    .validation = validation_of(o),
                                    .objective = objective_of(r),
                                    .documents = (clef_document_rule)o->documents,
                                    .separator = o->separator,
                                    .packing = (clef_packing)o->packing,
                                    .n_tokens = clef_model_trainer_n_tokens(r->trainer),
                                    .decoder_start = clef_model_hparams(r->model)->decoder_start,
                                    .mask_rate = (double)o->mask_rate,
                                    .seed = o->seed.value,
                                    .progress = cli_progress_step,
                                    .progress_user = &r->progress,
                                    .note = r->rank ? NULL : say};
    if (!tok || clef_dataset_open(tok, &opts, &r->data, &err) != CLEF_OK)
        return cli_report(&err);
    r->n_steps = o->n_steps ? o->n_steps : clef_dataset_n_steps(r->data, (double)o->epochs, r->step_rows);
    clef_model_trainer_set_data(r->trainer, clef_dataset_describe(r->data).fingerprint);
    return CLI_GO_ON;
}

static clef_train_opts optimizer_opts(const train_run *r)
{
    const train_options *o = r->o;
    const int64_t tenth = r->n_steps / 10;
    return (clef_train_opts){.compile = cli_compile_opts(&o->compile, (cli_progress *)&r->progress),
                             .optimizer = (clef_optimizer)o->optimizer,
                             .rate = (double)o->rate,
                             .beta1 = (double)o->beta1,
                             .beta2 = (double)o->beta2,
                             .eps = (double)o->eps,
                             .decay = (double)o->decay,
                             .clip = (double)o->clip,
                             .schedule = (clef_schedule)o->schedule,
                             .n_warmup = o->n_warmup >= 0 ? o->n_warmup
                                         : tenth < 100    ? tenth
                                                          : 100,
                             .n_steps = r->n_steps,
                             .final_rate = (double)o->final_rate,
                             .compute = (clef_dtype)o->compute,
                             .loss_scale = (double)o->loss_scale,
                             .recompute = o->recompute,
                             .ranks = r->ranks};
}

static int open_trainer(train_run *r)
{
    const train_options *o = r->o;
    clef_error err = {0};
    const clef_model_train_opts opts = {.optimizer = optimizer_opts(r),
                                        .n_tokens = o->n_tokens,
                                        .n_rows = o->n_rows,
                                        .n_parts = o->n_parts,
                                        .dropout = o->dropout,
                                        .seed = o->seed.value,
                                        .lora_rank = o->lora_rank,
                                        .lora_alpha = o->lora_alpha,
                                        .lora_targets = o->lora_targets};
    if (clef_model_trainer_create(r->device, r->model, &opts, &r->trainer, &err) != CLEF_OK)
        return cli_report(&err);
    r->step_rows = clef_model_trainer_n_rows(r->trainer);
    return CLI_GO_ON;
}

/* The schedule needs the number of steps, which needs the data, which needs the trainer's sizes. */
static void set_schedule(train_run *r)
{
    const clef_train_opts opts = optimizer_opts(r);
    clef_trainer_set_opts(clef_model_trainer_graph(r->trainer), &opts);
}

static int make_rows(train_run *r)
{
    const size_t n = (size_t)r->step_rows * (size_t)clef_model_trainer_n_tokens(r->trainer);
    int32_t *all = malloc(6 * n * sizeof *all);
    if (!all)
        return cli_fail(CLI_FAILED, "train: no memory for the rows of a step");
    r->rows = (clef_rows){.input_ids = all,
                          .attention_mask = all + n,
                          .labels = all + 2 * n,
                          .first = all + 3 * n,
                          .positions = all + 4 * n,
                          .decoder_input_ids = objective_of(r) == CLEF_TEXT_PAIRS ? all + 5 * n : NULL};
    return CLI_GO_ON;
}

static int resume(train_run *r)
{
    clef_error err = {0};
    if (!r->o->resume)
        return CLI_GO_ON;
    const clef_status s = clef_model_trainer_resume(r->trainer, r->work, r->rank ? NULL : say, NULL, &err);
    if (s && s != CLEF_E_NOT_FOUND)
        return cli_report(&err);
    if (s && !r->o->quiet)
        fprintf(stderr, "clef: %s: has no checkpoint yet; the training begins at its first step\n", r->work);
    r->first_step = clef_trainer_step(clef_model_trainer_graph(r->trainer));
    return CLI_GO_ON;
}

/* Makes what is to be there before the model is opened: rank 0 does, for all. */
static int make_files(train_run *r, const char *model, const char *new_path)
{
    const train_options *o = r->o;
    int code = o->out ? check_out(r, model) : CLI_GO_ON;
    if (code == CLI_GO_ON && r->work && (!o->dry_run || o->new_config))
        code = make_work(r);
    return code == CLI_GO_ON && o->new_config ? make_new(r, new_path) : code;
}

static int open_all(train_run *r, const char *path)
{
    const cli_place place = {.device = r->o->device, .quiet = r->o->quiet};
    int code = cli_model_open(path, &place, &r->progress, &r->model, &r->device);
    if (code == CLI_GO_ON)
        code = cli_one_device(r->device, "train", "training");
    if (code == CLI_GO_ON)
        code = check_model(r);
    if (code == CLI_GO_ON)
        code = open_trainer(r);
    if (code == CLI_GO_ON)
        code = check_save(r);
    if (code == CLI_GO_ON)
        code = open_data(r);
    if (code == CLI_GO_ON)
        set_schedule(r);
    if (code == CLI_GO_ON)
        code = make_rows(r);
    return code == CLI_GO_ON ? resume(r) : code;
}

/* Ranks that have other data, another model or another checkpoint would train something else. */
static int compare_ranks(train_run *r)
{
    char text[1024];
    if (!r->ranks)
        return CLI_GO_ON;
    const char *model = clef_model_weights_name(r->model, NULL);
    snprintf(text, sizeof text, "data %s, model %.*s, after step %" PRId64,
             clef_dataset_describe(r->data).fingerprint, (int)(model ? strcspn(model, "\n") : 0),
             model ? model : "", r->first_step);
    return cli_ranks_compare(text);
}

int train_open(train_run *r, const train_options *o, const char *model)
{
    char path[PATH_BYTES];
    r->o = o;
    r->start = cli_terminal_seconds();
    cli_progress_init(&r->progress, o->quiet);
    cli_terminal_catch_interrupt();
    cli_terminal_catch_term();
    int code =
        o->new_config && !o->out
            ? cli_fail(CLI_USAGE,
                       "train: --new needs -o, also with --dry-run: the new model is made in OUT.train")
            : CLI_GO_ON;
    if (code == CLI_GO_ON && o->out)
        code = name_work(r);
    if (code == CLI_GO_ON && o->new_config)
        code = name_new(r, path);
    if (code == CLI_GO_ON && !r->rank)
        code = make_files(r, model, path);
    code = cli_ranks_agree(code);
    if (code == CLI_GO_ON) {
        code = cli_ranks_agree(open_all(r, model ? model : path));
        if (code == CLI_GO_ON)
            code = compare_ranks(r);
    }
    cli_progress_finish(&r->progress);
    if (code != CLI_GO_ON && r->work && !o->resume && !r->rank)
        remove(r->work); /* if nothing is in it */
    return code;
}

void train_close(train_run *r)
{
    cli_progress_finish(&r->progress);
    if (r->log)
        fclose(r->log);
    free(r->rows.input_ids);
    free(r->work);
    clef_model_trainer_destroy(r->trainer);
    clef_dataset_close(r->data);
    clef_device_close(r->device);
    clef_model_close(r->model);
}
