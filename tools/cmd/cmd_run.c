/* clef run: generates text with a model. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/output.h"
#include "tools/cli/terminal.h"
#include "tools/prompts/run.h"

/* Models declare contexts of 131072 and more. A cache of that size, which nobody asked for, would not fit on
 * most devices. */
enum { MAX_DEFAULT_CONTEXT = 4096, DEFAULT_MAX_SEQS = 8 };

static const run_options run_defaults = {
    .pin = CLEF_PIN_AUTO,
    .n_predict = 128,
    .n_context = -1,
    .n_batch = 512,
    .sampling = CLI_SAMPLING_DEFAULTS,
    .n_best = 1,
    .length_penalty = NOT_GIVEN,
};

/* clang-format off */
#define AT(field) .offset = offsetof(run_options, field)
static const cli_option run_option_table[] = {
    {.names = "", .type = CLI_HEADING, .help = "Prompt and length"},
    MODEL_OPTION(run_options),
    {.names = "prompt", .letter = 'p', .type = CLI_TEXT, .value = "TEXT", AT(prompt),
     .help = "the prompt; if empty, generation starts from the model's BOS"},
    {.names = "file", .letter = 'f', .type = CLI_TEXT, .value = "FILE", AT(file),
     .help = "read the prompt from a file; - is stdin. With --max-seqs, and if FILE ends in .jsonl, each "
             "line is a prompt"},
    {.names = "ids", .type = CLI_TEXT, .value = "1,2,3", AT(ids),
     .help = "the prompt as token ids; no special token is added"},
    {.names = "image", .type = CLI_LIST, .value = "FILE", AT(images),
     .help = "a picture for the prompt: PNG, JPEG, WebP or PPM; may be repeated. Where the prompt has marks "
             "for pictures, such as <image>, there, else before it"},
    {.names = "mmproj", .type = CLI_TEXT, .value = "FILE", AT(mmproj),
     .help = "the tower of a GGUF model that reads pictures, in a file of its own"},
    LORA_OPTION(offsetof(run_options, loras)),
    {.names = "no-special", .type = CLI_SWITCH, AT(no_special),
     .help = "do not add BOS or EOS to the prompt"},
    {.names = "target", .type = CLI_TEXT, .value = "TOKEN", AT(target),
     .help = "encoder-decoders: the token that the text starts with, such as a language (fra_Latn)"},
    {.names = "n-predict,predict", .letter = 'n', .type = CLI_INT, .value = "N", AT(n_predict), .lo = -1,
     .hi = INT32_MAX,
     .help = "number of tokens to generate; -1: until the model ends the text or the context is full [128]"},
    {.names = "ignore-eos", .type = CLI_SWITCH, AT(ignore_eos),
     .help = "continue after the model has ended its text"},
    {.names = "stop", .type = CLI_LIST, .value = "TEXT", AT(stops),
     .help = "end the text before TEXT, which is not printed; may be repeated"},
    {.names = "ctx-size", .letter = 'c', .type = CLI_INT, .value = "N", AT(n_context), .lo = 0,
     .hi = INT32_MAX,
     .help = "positions of the context; 0: as many as the model has [the model's, at most 4096]"},
    {.names = "batch-size", .letter = 'b', .type = CLI_INT, .value = "N", AT(n_batch), .lo = 1, .hi = 65536,
     .help = "prompt tokens per step [512]"},
    {.names = "prompt-cache", .type = CLI_TEXT, .value = "FILE", AT(prompt_cache),
     .help = "continue from FILE, which an earlier run wrote, as far as its text is the beginning of the "
             "prompt; then write prompt and generated text to FILE. The file of another model, KV "
             "type or adapter is refused"},
    {.names = "", .type = CLI_HEADING, .help = "Many prompts"},
    {.names = "max-seqs", .type = CLI_INT, .value = "N", AT(max_seqs), .lo = 1, .hi = 4096,
     .help = "each line of --file is a prompt; run up to N of them at once [8 for .jsonl]"},
    {.names = "kv-tokens", .type = CLI_INT, .value = "N", AT(kv_tokens), .lo = 1, .hi = INT32_MAX,
     .help = "positions of the KV cache that they share [what N contexts need, or what memory holds]"},
    {.names = "step-tokens", .type = CLI_INT, .value = "N", AT(step_tokens), .lo = 1, .hi = 65536,
     .help = "tokens of all prompts and texts per step [512, on a CPU 256]"},
    {.names = "repeatable", .type = CLI_SWITCH, AT(repeatable),
     .help = "a text does not depend on the prompts beside it, not even in the last bits; it may cost speed"},
    {.names = "no-prefix-cache", .type = CLI_SWITCH, AT(no_prefix_cache),
     .help = "compute every prompt from its first token"},
    {.names = "spec", .type = CLI_TEXT, .value = "ngram[:MIN,MAX]|mtp", AT(speculation.spec),
     .help = "draft tokens from the text itself: what followed its last MAX to MIN tokens before [4 to 3]; "
             "mtp: by the layer of the model that predicts further tokens. "
             "Those that would have been sampled are kept, several in one step; the texts stay the same"},
    SPECULATION_OPTIONS(run_options, speculation),
    {.names = "", .type = CLI_HEADING, .help = "Sampling"},
    SAMPLING_OPTIONS(run_options, sampling),
    CLI_CONSTRAINT_OPTIONS(offsetof(run_options, constraint)),
    {.names = "constrain-after", .type = CLI_TEXT, .value = "TEXT", AT(constrain_after),
     .help = "the constraint begins after TEXT, such as </think>"},
    {.names = "", .type = CLI_HEADING, .help = "Beam search"},
    {.names = "beams", .type = CLI_INT, .value = "N", AT(n_beams), .lo = 1, .hi = 32,
     .help = "use beam search with N beams instead of sampling; the text is printed at the end"},
    {.names = "length-penalty", .type = CLI_FLOAT, .value = "X", AT(length_penalty), .lo = -100, .hi = 100,
     .help = "beam search: a text scores log-probability / length^X; larger X favours long texts [1]"},
    {.names = "n-best", .type = CLI_INT, .value = "K", AT(n_best), .lo = 1, .hi = 32,
     .help = "beam search: print the K best texts, one per line [1]"},
    {.names = "early-stopping", .type = CLI_SWITCH, AT(early_stopping),
     .help = "beam search: stop as soon as N texts have ended"},
    {.names = "", .type = CLI_HEADING, .help = "Output"},
    {.names = "echo", .type = CLI_SWITCH, AT(echo), .help = "print the prompt before the text"},
    {.names = "print-ids", .type = CLI_SWITCH, AT(print_ids),
     .help = "print the new token ids, separated by commas, instead of text"},
    QUIET_OPTION(run_options),
    VERBOSE_OPTION(run_options),
    {.names = "", .type = CLI_HEADING, .help = "Look inside"},
    {.names = "trace", .type = CLI_TEXT, .value = "FILE", AT(trace),
     .help = "write the time of every launch as trace events for Perfetto (ui.perfetto.dev), or as a page "
             "if FILE ends in .html; slows the run slightly"},
    {.names = "profile", .type = CLI_SWITCH, AT(profile),
     .help = "after the run, print to stderr where the last prompt step and the last token spent their time"},
    {.names = "tap", .type = CLI_LIST, .value = "NAME", AT(inside.taps),
     .help = "after the run, write this value of all steps to --tap-out. NAME is a value of `clef graph` "
             "or a pattern ('layer*.out'); may be repeated"},
    {.names = "tap-out", .type = CLI_TEXT, .value = "FILE", AT(inside.tap_out),
     .help = "where tapped values go: FILE.safetensors, FILE.npy for a single value, or FOLDER/ for one "
             ".npy file each"},
    {.names = "stats", .type = CLI_SWITCH, AT(inside.stats),
     .help = "after the run, print range, mean, NaN and infinity counts of each value to stderr, up to the "
             "first NaN"},
    {.names = "", .type = CLI_HEADING, .help = "Device and kernels"},
    DEVICES_OPTION(run_options),
    KV_TYPE_OPTION(run_options),
    THREADS_OPTION(run_options),
    PIN_OPTION(run_options),
    COMPILE_OPTIONS(run_options),
    {.names = NULL},
};
/* clang-format on */

/* Parses "1,2,3"; spaces also separate ids. */
static int parse_ids(run *r, const char *text)
{
    int32_t capacity = 0;
    for (const char *s = text; *s;) {
        char *end;
        const long long id = strtoll(s, &end, 10);
        if (end == s || id < 0 || id >= r->hparams->n_vocab)
            return cli_fail(CLI_USAGE, "--ids: expected numbers from 0 to %" PRId32 ", got '%.20s'",
                            r->hparams->n_vocab - 1, s);
        if (r->n_ids == capacity) {
            int32_t *more =
                capacity < INT32_MAX / 8 ? realloc(r->ids, sizeof *more * (size_t)(2 * capacity + 64)) : NULL;
            if (!more)
                return cli_fail(CLI_FAILED, "--ids: out of host memory");
            r->ids = more;
            capacity = 2 * capacity + 64;
        }
        r->ids[r->n_ids++] = (int32_t)id;
        s = end + strspn(end, ", \n\t");
    }
    return r->n_ids ? CLI_GO_ON : cli_fail(CLI_USAGE, "--ids: expected at least one id, none was given");
}

/* An empty prompt stands for BOS, unless the tokenizer adds it. */
static int use_bos(run *r)
{
    const int32_t of_tokenizer = r->tokenizer ? clef_tokenizer_bos(r->tokenizer) : -1;
    const int32_t bos = of_tokenizer >= 0 ? of_tokenizer : r->hparams->bos;
    if (bos < 0 || bos >= r->hparams->n_vocab)
        return cli_fail(CLI_FAILED, "run: the prompt is empty, and %s has no BOS token to begin with",
                        clef_model_path(r->model));
    r->ids = malloc(sizeof *r->ids);
    if (!r->ids)
        return cli_fail(CLI_FAILED, "run: out of host memory");
    r->ids[0] = bos;
    r->n_ids = 1;
    return CLI_GO_ON;
}

static int encode_prompt(run *r)
{
    clef_error err = {0};
    char *text = NULL;
    int32_t *ids = NULL;
    size_t n_bytes = 0;
    int rc = CLI_GO_ON;
    if (r->o->file)
        rc = cli_read_file(r->o->file, &text, &n_bytes);
    if (rc != CLI_GO_ON)
        return rc;
    const char *prompt = text ? text : r->o->prompt;
    if (!text)
        n_bytes = strlen(prompt);
    const clef_special special = r->o->no_special ? CLEF_SPECIAL_NONE : CLEF_SPECIAL_ADD;
    int32_t n = 0;
    if (clef_tokenizer_encode(r->tokenizer, prompt, n_bytes, special, &ids, &n, &err) != CLEF_OK)
        rc = cli_report(&err);
    else if (n == 0)
        rc = use_bos(r);
    else if ((r->ids = malloc(sizeof *ids * (size_t)n)) == NULL)
        rc = cli_fail(CLI_FAILED, "run: out of host memory");
    else
        memcpy(r->ids, ids, sizeof *ids * (size_t)n), r->n_ids = n;
    clef_tokens_free(ids);
    free(text);
    return rc;
}

/* The id that --target names, with which a new text begins. */
static int find_target(run *r)
{
    r->is_seq2seq = r->hparams->n_decoder_layers > 0;
    r->target = -1;
    if (!r->o->target)
        return CLI_GO_ON;
    if (!r->is_seq2seq)
        return cli_fail(CLI_USAGE, "run: --target needs an encoder-decoder, %s is %s",
                        clef_model_path(r->model), r->hparams->arch);
    if (r->tokenizer)
        r->target = clef_tokenizer_find(r->tokenizer, r->o->target);
    if (r->target < 0 || r->target >= r->hparams->n_vocab)
        return cli_fail(CLI_FAILED, "run: --target: %s has no token '%.80s'", clef_model_path(r->model),
                        r->o->target);
    return CLI_GO_ON;
}

/* The context of an encoder-decoder is the target's; the source has its own. */
static int check_source(run *r)
{
    const run_options *o = r->o;
    const int32_t own = r->hparams->n_context, most = own < MAX_DEFAULT_CONTEXT ? own : MAX_DEFAULT_CONTEXT;
    const int32_t wanted =
        o->n_predict >= 0 && o->n_predict < most - START_TOKENS ? o->n_predict + START_TOKENS : most;
    r->n_context = o->n_context > 0 ? o->n_context : o->n_context == 0 ? own : wanted;
    if (r->n_ids > own)
        return cli_fail(CLI_FAILED, "run: the source has %" PRId32 " tokens, the model accepts %" PRId32,
                        r->n_ids, own);
    return CLI_GO_ON;
}

/* The context that nobody asked for. In one longer than the original, longrope and dynamic have other
 * frequencies, which a short text does not need. */
static int32_t default_context(const run *r)
{
    const clef_hparams *hp = r->hparams;
    const int32_t most = hp->n_context > MAX_DEFAULT_CONTEXT ? MAX_DEFAULT_CONTEXT : hp->n_context,
                  original = hp->rope.original_context;
    const int fits = r->o->n_predict >= 0 && (int64_t)r->n_ids + r->o->n_predict <= original;
    const int changes = hp->rope.type == CLEF_ROPE_LONGROPE || hp->rope.type == CLEF_ROPE_DYNAMIC;
    return changes && fits && original < most ? original : most;
}

static int open_pictures(run *r)
{
    clef_error err = {0};
    if (cli_prompt_pictures_open(&r->pictures, r->model, &err) != CLEF_OK)
        return cli_report(&err);
    for (int32_t i = 0; i < r->o->images.n; i++)
        if (cli_prompt_pictures_add_file(&r->pictures, r->o->images.items[i], &err) != CLEF_OK)
            return cli_report(&err);
    return CLI_GO_ON;
}

/* Opens the model, encodes the prompt, and checks that it fits: everything that can fail before a device does
 * any work. */
static int run_prepare(run *r, const char *path)
{
    const run_options *o = r->o;
    clef_error err = {0};
    if ((o->stops.n && clef_stop_create(o->stops.items, o->stops.n, &r->stop, &err) != CLEF_OK) ||
        clef_model_open(path, &r->model, &err) != CLEF_OK ||
        (o->mmproj && clef_model_add_pictures(r->model, o->mmproj, &err) != CLEF_OK))
        return cli_report(&err);
    if (o->verbose)
        cli_say_unread(r->model);
    if (!o->quiet)
        cli_say_left_out(r->model);
    r->hparams = clef_model_hparams(r->model);
    if (cli_adapters_open(&o->loras, r->model, &r->loras, &err) != CLEF_OK)
        return cli_report(&err);
    if (!o->ids || !o->print_ids) {
        r->tokenizer = clef_model_tokenizer(r->model, &err);
        if (!r->tokenizer)
            return cli_report(&err);
    }
    int rc = cli_sampler_make(&o->sampling, "run", r->model, &r->sampling);
    if (rc == CLI_GO_ON)
        rc = o->images.n ? open_pictures(r) : o->ids ? parse_ids(r, o->ids) : encode_prompt(r);
    if (rc == CLI_GO_ON)
        rc = cli_guide_open(&o->constraint, "run", r->model, &r->guide);
    if (rc == CLI_GO_ON && r->guide.constraint && !r->tokenizer)
        rc = cli_fail(CLI_USAGE,
                      "run: a constraint needs a tokenizer, which --ids with --print-ids leaves out");
    if (rc == CLI_GO_ON)
        rc = find_target(r);
    if (rc == CLI_GO_ON && o->prompt_cache)
        rc = cli_prompt_cache_check(o->prompt_cache, r->model,
                                    cli_kv_type(r->model, o->kv_type, o->compile.exact), r->loras,
                                    r->loras != NULL);
    if (rc != CLI_GO_ON)
        return rc;
    if (r->is_seq2seq)
        return check_source(r);
    r->n_context = o->n_context > 0   ? o->n_context
                   : o->n_context < 0 ? default_context(r)
                                      : r->hparams->n_context;
    if (r->n_context <= 0)
        r->n_context = MAX_DEFAULT_CONTEXT;
    if (r->n_ids > r->n_context)
        return cli_fail(CLI_FAILED,
                        "run: the prompt has %" PRId32 " tokens, the context holds %" PRId32
                        "; -c sets it (the model's own: %" PRId32 ")",
                        r->n_ids, r->n_context, r->hparams->n_context);
    return CLI_GO_ON;
}

/* Measures the device before the model is loaded, which may leave too little memory. */
static int begin_profile(run *r)
{
    clef_error err = {0};
    r->profile_options.compile.exact = r->o->compile.exact;
    r->profile = (bench){.o = &r->profile_options, .device = r->device, .model = r->model, .to = tmpfile()};
    if (!r->profile.to)
        return cli_fail(CLI_FAILED, "run: --profile: no temporary file: %s", strerror(errno));
    if (clef_device_measure(r->device, &r->profile.speed, &err) != CLEF_OK)
        return cli_report(&err);
    cli_profile_limits(&r->profile);
    return CLI_GO_ON;
}

static int end_profile(run *r)
{
    const int rc = r->n_new > 1 ? cli_profile_step(&r->profile, "the last token's step", 0) : CLI_GO_ON;
    rewind(r->profile.to);
    for (int c; (c = fgetc(r->profile.to)) != EOF;)
        fputc(c, stderr);
    return rc;
}

/* A prompt with pictures is encoded by what sees them. */
static int encode_seen(run *r)
{
    clef_error err = {0};
    char *text = NULL;
    size_t n_bytes = r->o->prompt ? strlen(r->o->prompt) : 0;
    int32_t *ids = NULL;
    int rc = r->o->file ? cli_read_file(r->o->file, &text, &n_bytes) : CLI_GO_ON;
    if (rc != CLI_GO_ON)
        return rc;
    const cli_picture_prompt prompt = {.text = text ? text : r->o->prompt,
                                       .n_bytes = n_bytes,
                                       .special = r->o->no_special ? CLEF_SPECIAL_NONE : CLEF_SPECIAL_ADD};
    if (cli_prompt_pictures_encode(&r->pictures, &prompt, &ids, &r->n_ids, &err) != CLEF_OK)
        rc = cli_report(&err);
    else if ((r->ids = malloc(((size_t)r->n_ids + 1) * sizeof *ids)) == NULL)
        rc = cli_fail(CLI_FAILED, "run: out of host memory");
    else
        memcpy(r->ids, ids, (size_t)r->n_ids * sizeof *ids);
    clef_tokens_free(ids);
    free(text);
    return rc;
}

static int open_teller(run *r)
{
    clef_error err = {0};
    const clef_batch_opts opts = {.n_context = r->n_context,
                                  .kv_type = cli_kv_type(r->model, r->o->kv_type, r->o->compile.exact),
                                  .loras = r->loras,
                                  .compile = cli_compile_opts(&r->o->compile, &r->progress)};
    if (cli_teller_open(&r->teller, r->device, r->model, &opts, &err) != CLEF_OK)
        return cli_report(&err);
    return encode_seen(r);
}

static int run_open(run *r)
{
    const run_options *o = r->o;
    clef_error err = {0};
    const clef_device_opts device = {.notice = cli_say_notice,
                                     .profile = o->trace || o->profile,
                                     .n_threads = o->n_threads,
                                     .pin = (clef_pin)o->pin,
                                     .progress = cli_progress_step,
                                     .progress_user = &r->progress};
    if (cli_devices_open(o->device, &o->split, &device, &r->device, &err) != CLEF_OK)
        return cli_report(&err);
    const int one = o->trace || o->profile
                        ? cli_one_device(r->device, "run", o->trace ? "--trace" : "--profile")
                        : CLI_GO_ON;
    if (one != CLI_GO_ON)
        return one;
    if (cli_trace_begin(&r->trace, o->trace, clef_model_path(r->model), clef_device_describe(r->device)->name,
                        &err) != CLEF_OK)
        return cli_report(&err);
    if (!o->quiet)
        cli_say_device(r->device);
    if (!o->quiet)
        cli_sampler_tell(&r->sampling, o->n_beams);
    const clef_session_opts session = {
        .n_context = r->n_context,
        .n_batch = o->n_batch < r->n_context ? o->n_batch : r->n_context,
        .compile = cli_compile_opts(&o->compile, &r->progress),
        .kv_type = cli_kv_type(r->model, o->kv_type, o->compile.exact),
        .n_source = r->n_ids,
        .n_prompt = r->n_ids,
        .n_beams = o->n_beams,
        .loras = r->loras,
        .lora = r->loras != NULL,
    };
    if (o->images.n)
        return open_teller(r);
    const int rc = o->profile ? begin_profile(r) : CLI_GO_ON;
    if (rc != CLI_GO_ON)
        return rc;
    if (clef_session_create(r->device, r->model, &session, &r->session, &err) != CLEF_OK)
        return cli_report(&err);
    r->profile.session = r->session;
    const clef_guide guide = {r->guide.constraint, r->guide.trie, o->constrain_after};
    if (guide.constraint && clef_session_guide(r->session, &guide, &err) != CLEF_OK)
        return cli_report(&err);
    return CLI_GO_ON;
}

/* The last token was computed by a step, but fed to none. */
static int look_inside(const run *r, const char *path)
{
    const int32_t n = r->n_kept - (r->n_kept > r->n_start);
    const cli_forward_opts forward = {
        .known_ids = r->is_seq2seq ? r->ids : r->kept,
        .n_known_ids = r->is_seq2seq ? r->n_ids : n,
        .known_target = r->is_seq2seq ? r->kept : NULL,
        .n_known_target = r->is_seq2seq ? n : 0,
        .device = r->o->device,
        .split = r->o->split,
        .compile = r->o->compile,
        .quiet = r->o->quiet,
        .loras = r->o->loras,
    };
    return cli_run_inside(&r->o->inside, &forward, path);
}

static int run_finish(run *r, const char *path, int rc)
{
    clef_error err = {0};
    cli_progress_finish(&r->progress);
    if (cli_trace_end(&r->trace, &err) != CLEF_OK)
        rc = cli_report(&err);
    if (r->profile.to)
        fclose(r->profile.to);
    clef_stop_destroy(r->stop);
    clef_session_destroy(r->session);
    cli_teller_close(&r->teller);
    cli_prompt_pictures_close(&r->pictures);
    cli_guide_finish(&r->guide);
    clef_device_close(r->device);
    cli_progress_finish(&r->progress);
    clef_lora_set_destroy(r->loras);
    clef_model_close(r->model);
    cli_sampler_finish(&r->sampling);
    if ((rc == CLI_OK || r->not_finite) && r->kept) {
        const int looked = look_inside(r, path);
        rc = rc == CLI_OK ? looked : rc;
    }
    free(r->ids);
    free(r->kept);
    return rc;
}

/* ---- many prompts ---------------------------------------------------------------------------- */

static int takes_lines(const run_options *o)
{
    return o->max_seqs || (o->file && prompt_lines_is_jsonl(o->file));
}

/* CLI_USAGE names a flag that is of one prompt, or of many, and does not fit. */
static int check_lines(const run_options *o)
{
    const struct {
        int32_t given;
        const char *name;
    } of_one[] = {{o->echo, "--echo"},
                  {o->print_ids, "--print-ids"},
                  {o->n_beams, "--beams"},
                  {o->prompt_cache != NULL, "--prompt-cache"},
                  {o->trace != NULL, "--trace"},
                  {o->profile, "--profile"},
                  {o->inside.taps.n, "--tap"},
                  {o->inside.stats, "--stats"},
                  {o->n_batch != run_defaults.n_batch, "--batch-size (it is --step-tokens here)"}},
      of_many[] = {{o->kv_tokens, "--kv-tokens"},
                   {o->step_tokens, "--step-tokens"},
                   {o->repeatable, "--repeatable"},
                   {o->no_prefix_cache, "--no-prefix-cache"},
                   {o->speculation.spec != NULL, "--spec"},
                   {o->speculation.draft != NULL, "--draft"},
                   {o->speculation.draft_tokens, "--draft-tokens"},
                   {o->speculation.max_seqs, "--spec-max-seqs"}};
    if (takes_lines(o) && !o->file)
        return cli_fail(CLI_USAGE, "run: --max-seqs needs --file, a prompt a line");
    for (size_t i = 0; takes_lines(o) && i < sizeof of_one / sizeof *of_one; i++)
        if (of_one[i].given)
            return cli_fail(CLI_USAGE, "run: a file of many prompts excludes %s", of_one[i].name);
    for (size_t i = 0; !takes_lines(o) && i < sizeof of_many / sizeof *of_many; i++)
        if (of_many[i].given)
            return cli_fail(CLI_USAGE, "run: %s needs --max-seqs and --file", of_many[i].name);
    return CLI_GO_ON;
}

/* CLI_USAGE names a flag that does not go with --image. */
static int check_images(const run_options *o)
{
    const struct {
        int32_t given;
        const char *name;
    } others[] = {{o->ids != NULL, "--ids"},
                  {o->n_beams, "--beams"},
                  {o->prompt_cache != NULL, "--prompt-cache"},
                  {o->trace != NULL, "--trace"},
                  {o->profile, "--profile"},
                  {o->inside.taps.n, "--tap"},
                  {o->inside.stats, "--stats"},
                  {takes_lines(o), "a file of many prompts"}};
    for (size_t i = 0; o->images.n && i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return cli_fail(CLI_USAGE, "run: --image excludes %s", others[i].name);
    return CLI_GO_ON;
}

static int run_lines(const run_options *o, const char *path)
{
    run_file_opts file = {
        .model = path,
        .file = o->file,
        .draft = o->speculation.draft,
        .target = o->target,
        .place = {.device = o->device, .split = o->split, .n_threads = o->n_threads, .quiet = o->quiet},
        .verbose = o->verbose,
        .pin = (clef_pin)o->pin,
        .batch = {.n_context = o->n_context,
                  .max_sequences = o->max_seqs ? o->max_seqs : DEFAULT_MAX_SEQS,
                  .step_tokens = o->step_tokens,
                  .kv_tokens = o->kv_tokens,
                  .no_prefix_cache = o->no_prefix_cache,
                  .repeatable = o->repeatable,
                  .compile = o->compile},
        .kv_type = o->kv_type,
        .loras = o->loras,
        .defaults = {.n_predict = o->n_predict, .stops = o->stops},
        .sampling = &o->sampling,
        .constraint = &o->constraint,
        .constrain_after = o->constrain_after,
        .own_seeds = !o->sampling.seed.given,
        .ignore_eos = o->ignore_eos,
        .no_special = o->no_special,
    };
    const int rc = cli_speculation_parse(&o->speculation, "run", 0, &file.batch);
    return rc == CLI_GO_ON ? cli_run_file(&file) : rc;
}

static int run_run(const void *options, int32_t n_args, char **args)
{
    const run_options *o = options;
    run r = {.o = o, .start = cli_terminal_seconds()};
    if ((o->prompt != NULL) + (o->file != NULL) + (o->ids != NULL) != 1)
        return cli_fail(CLI_USAGE, "run: expected one prompt: -p TEXT, -f FILE or --ids 1,2,3");
    if (o->profile && o->n_beams)
        return cli_fail(CLI_USAGE, "run: --profile excludes --beams; --trace works with both");
    if (!o->inside.taps.n != !o->inside.tap_out)
        return cli_fail(CLI_USAGE, "run: expected --tap NAME and --tap-out FILE together");
    if (o->prompt_cache && o->n_beams)
        return cli_fail(CLI_USAGE, "run: --prompt-cache excludes --beams");
    if (cli_constraint_given(&o->constraint) && (o->n_beams || o->ignore_eos))
        return cli_fail(CLI_USAGE, "run: a constraint excludes %s", o->n_beams ? "--beams" : "--ignore-eos");
    if (o->constrain_after && !cli_constraint_given(&o->constraint))
        return cli_fail(CLI_USAGE, "run: --constrain-after needs a constraint, such as --json-schema");
    if (o->stops.n && (o->n_beams || o->print_ids))
        return cli_fail(CLI_USAGE, "run: --stop excludes %s", o->n_beams ? "--beams" : "--print-ids");
    if (o->n_best > (o->n_beams ? o->n_beams : 1))
        return cli_fail(CLI_USAGE, "run: --n-best %" PRId32 " of --beams %" PRId32, o->n_best, o->n_beams);
    int fits = check_lines(o);
    if (fits == CLI_GO_ON)
        fits = check_images(o);
    if (fits != CLI_GO_ON)
        return fits;
    clef_error err = {0};
    if (cli_output_check(o->trace, &err) != CLEF_OK || cli_output_check(o->inside.tap_out, &err) != CLEF_OK ||
        cli_output_check(o->prompt_cache, &err) != CLEF_OK)
        return cli_report(&err);
    const char *path = cli_model_path("run", n_args, args, o->model);
    if (!path)
        return n_args > 0 && o->model ? CLI_USAGE : CLI_FAILED;
    if (takes_lines(o))
        return run_lines(o, path);
    cli_terminal_catch_interrupt();
    cli_progress_init(&r.progress, o->quiet);
    int rc = run_prepare(&r, path);
    if (rc == CLI_GO_ON)
        rc = run_open(&r);
    if (rc == CLI_GO_ON) {
        rc = cli_run_text(&r);
        if (rc == CLI_GO_ON || rc == CLI_INTERRUPTED) {
            const int end = cli_run_end(&r);
            cli_progress_finish(&r.progress);
            if (!o->quiet)
                cli_run_statistics(&r);
            if (rc == CLI_GO_ON)
                rc = end;
            if (rc == CLI_GO_ON && o->profile)
                rc = end_profile(&r);
            const int saved = o->prompt_cache ? cli_prompt_cache_save(o->prompt_cache, r.session) : CLI_GO_ON;
            if (rc == CLI_GO_ON)
                rc = saved == CLI_GO_ON ? CLI_OK : saved;
        }
    }
    return run_finish(&r, path, rc);
}

const cli_command cli_command_run = {
    .name = "run",
    .usage = "[MODEL] -p PROMPT [FLAGS]",
    .summary = "Generate text with a model",
    .notes =
        "MODEL is a GGUF file or a Hugging Face folder; without it, clef runs its bundled demo model. The "
        "text goes to stdout while it is generated; progress and statistics go to stderr. Ctrl-C stops the "
        "generation.\n\nAn encoder-decoder reads the prompt as its source text. --beams N uses beam search, "
        "as transformers does, instead of sampling.\n\nWith --max-seqs, "
        "--file is a list of prompts, which run together; each answer is a line of JSON, in the order of the "
        "file. A line is a prompt or, in a .jsonl file or one that begins with {, an object with \"prompt\" "
        "and, as wanted, \"id\", \"n\", \"seed\", \"temperature\", \"top_k\", \"top_p\", \"min_p\", "
        "\"repeat_penalty\", \"presence_penalty\", \"frequency_penalty\", \"typical\", \"top_n_sigma\", "
        "\"xtc_probability\", \"stop\" (a text or a list of texts), \"salt\" (prompts with different salts "
        "share no cached prefix) and \"lora\" (an "
        "adapter that --lora names, or null, \"\" or \"none\" for the model alone; a line without it uses "
        "the "
        "adapter if there is just one, and else none). --spec and --draft make draft tokens, which a step "
        "checks together: worth it where a text "
        "repeats itself or a small model writes alike. They are left out while that costs more than it "
        "gives.\n\n  clef run model.gguf -p \"Once upon a time\" -n "
        "100\n  clef run ./t5-folder -p \"translate English to German: I am here.\" --beams 4\n  clef run "
        "model.gguf --file prompts.jsonl --max-seqs 8\n",
    .options = run_option_table,
    .first = "model prompt file image lora n-predict stop ctx-size max-seqs temp top-k top-p min-p "
             "seed json-schema device threads quiet",
    .max_args = 1,
    .defaults = &run_defaults,
    .options_bytes = sizeof run_defaults,
    .run = run_run,
};
