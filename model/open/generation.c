/* Reads the rules of generation_config.json, and finds out which keys clef does not apply. */
#include "model/open/generation.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/config.h"

/* What becomes of a key. */
typedef enum use {
    RULE,     /* holds for each text */
    OPTION,   /* an option of samplers or beams, or an id: read elsewhere */
    ADVICE,   /* not applied unless a flag says so */
    REFUSED,  /* not applied, and greedy or beam search's texts depend on it */
    NO_MATTER /* of transformers itself: no text depends on it */
} use;

/* The keys of transformers' GenerationConfig. What is missing, null or `off` does nothing. */
static const struct {
    const char *name;
    use use;
    const char *off;  /* another value that does nothing, as JSON */
    const char *flag; /* of `clef run` that does it */
} keys[] = {
    {"bad_words_ids", RULE, "[]", NULL},
    {"sequence_bias", RULE, "[]", NULL},
    {"suppress_tokens", RULE, "[]", NULL},
    {"begin_suppress_tokens", RULE, "[]", NULL},
    {"no_repeat_ngram_size", RULE, "0", NULL},
    {"encoder_no_repeat_ngram_size", RULE, "0", NULL},
    {"encoder_repetition_penalty", RULE, "1.0", NULL},
    {"min_length", RULE, "0", NULL},
    {"min_new_tokens", RULE, "0", NULL},
    {"forced_eos_token_id", RULE, "[]", NULL},
    {"exponential_decay_length_penalty", RULE, NULL, NULL},
    {"renormalize_logits", RULE, "false", NULL},
    {"forced_bos_token_id", OPTION, NULL, NULL},
    {"decoder_start_token_id", OPTION, NULL, NULL},
    {"bos_token_id", OPTION, NULL, NULL},
    {"eos_token_id", OPTION, NULL, NULL},
    {"pad_token_id", NO_MATTER, NULL, NULL},
    {"temperature", OPTION, NULL, NULL},
    {"top_k", OPTION, NULL, NULL},
    {"top_p", OPTION, NULL, NULL},
    {"min_p", OPTION, NULL, NULL},
    {"typical_p", OPTION, NULL, NULL},
    {"repetition_penalty", OPTION, NULL, NULL},
    {"length_penalty", OPTION, NULL, NULL},
    {"early_stopping", OPTION, NULL, NULL},
    {"num_beams", ADVICE, "1", "--beams"},
    {"num_return_sequences", ADVICE, "1", "--n-best"},
    {"max_length", ADVICE, "20", "-n"},
    {"max_new_tokens", ADVICE, NULL, "-n"},
    {"do_sample", ADVICE, "true", "--temp 0"},
    {"stop_strings", ADVICE, "[]", "--stop"},
    {"epsilon_cutoff", ADVICE, "0.0", NULL},
    {"eta_cutoff", ADVICE, "0.0", NULL},
    {"top_h", ADVICE, NULL, NULL},
    {"num_beam_groups", REFUSED, "1", NULL},
    {"diversity_penalty", ADVICE, "0.0", NULL},
    {"penalty_alpha", REFUSED, "0.0", NULL},
    {"dola_layers", REFUSED, NULL, NULL},
    {"constraints", REFUSED, NULL, NULL},
    {"force_words_ids", REFUSED, "[]", NULL},
    {"forced_decoder_ids", ADVICE, "[]", NULL},
    {"guidance_scale", REFUSED, "1.0", NULL},
    {"token_healing", REFUSED, "false", NULL},
    {"watermarking_config", REFUSED, NULL, NULL},
    {"remove_invalid_values", NO_MATTER, NULL, NULL},
    {"max_time", ADVICE, NULL, NULL},
    {"use_mtp", NO_MATTER, NULL, NULL},
    {"use_cache", NO_MATTER, NULL, NULL},
    {"cache_implementation", NO_MATTER, NULL, NULL},
    {"cache_config", NO_MATTER, NULL, NULL},
    {"max_cache_len", NO_MATTER, NULL, NULL},
    {"low_memory", NO_MATTER, NULL, NULL},
    {"output_attentions", NO_MATTER, NULL, NULL},
    {"output_hidden_states", NO_MATTER, NULL, NULL},
    {"output_scores", NO_MATTER, NULL, NULL},
    {"output_logits", NO_MATTER, NULL, NULL},
    {"return_dict_in_generate", NO_MATTER, NULL, NULL},
    {"is_assistant", NO_MATTER, NULL, NULL},
    {"num_assistant_tokens", NO_MATTER, NULL, NULL},
    {"num_assistant_tokens_schedule", NO_MATTER, NULL, NULL},
    {"assistant_confidence_threshold", NO_MATTER, NULL, NULL},
    {"assistant_early_exit", NO_MATTER, NULL, NULL},
    {"assistant_lookbehind", NO_MATTER, NULL, NULL},
    {"assistant_ensemble_weight", NO_MATTER, NULL, NULL},
    {"target_lookbehind", NO_MATTER, NULL, NULL},
    {"speculation_type", NO_MATTER, NULL, NULL},
    {"prompt_lookup_num_tokens", NO_MATTER, NULL, NULL},
    {"max_matching_ngram_size", NO_MATTER, NULL, NULL},
    {"compile_config", NO_MATTER, NULL, NULL},
    {"disable_compile", NO_MATTER, NULL, NULL},
    {"prefill_chunk_size", NO_MATTER, NULL, NULL},
    {"continuous_batching_config", NO_MATTER, NULL, NULL},
    {"_from_model_config", NO_MATTER, NULL, NULL},
    {"_commit_hash", NO_MATTER, NULL, NULL},
    {"transformers_version", NO_MATTER, NULL, NULL},
};

enum { N_KEYS = sizeof keys / sizeof *keys };

json_t *clef__generation_of_config(const json_t *config)
{
    json_t *out = json_object();
    for (size_t i = 0; out && i < N_KEYS; i++) {
        json_t *value = json_object_get(config, keys[i].name);
        if (value && keys[i].use != NO_MATTER && json_object_set(out, keys[i].name, value))
            json_decref(out), out = NULL;
    }
    return out;
}

/* ---- what is reported ---------------------------------------------------------------------------- */

static int does_nothing(size_t i, const json_t *value)
{
    json_t *off = keys[i].off ? json_loads(keys[i].off, JSON_DECODE_ANY, NULL) : NULL;
    const int is_number = json_is_number(off) && json_is_number(value);
    const int is = json_is_null(value) || json_equal(off, value) ||
                   (is_number && json_number_value(off) == json_number_value(value)) ||
                   (json_is_array(value) && json_array_size(value) == 0);
    json_decref(off);
    return is;
}

static void tell(char to[400], const char *format, ...)
{
    const size_t n = strlen(to);
    va_list args;
    va_start(args, format);
    if (n + 2 < 400) {
        snprintf(to + n, 400 - n, "%s", n ? ", " : "");
        vsnprintf(to + strlen(to), 400 - strlen(to), format, args);
    }
    va_end(args);
}

/* Short values are reported with their keys. */
static void tell_key(char to[400], const char *name, const json_t *value, const char *flag)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    const int is_short = text && strlen(text) <= 24;
    char key[80];
    clef__config_text(name, key, sizeof key);
    tell(to, "%s%s%s%s%s%s", key, is_short ? " " : "", is_short ? text : "", flag ? " (" : "",
         flag ? flag : "", flag ? ")" : "");
    free(text);
}

static void tell_keys(clef_json_fields *f, clef__rules *out)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)f->object, name, value) {
        size_t i = 0;
        while (i < N_KEYS && strcmp(keys[i].name, name) != 0)
            i++;
        if (i == N_KEYS ? json_is_null(value) : does_nothing(i, value))
            continue;
        if (i == N_KEYS || keys[i].use == ADVICE)
            tell_key(out->ignored, name, value, i < N_KEYS ? keys[i].flag : NULL);
        else if (keys[i].use == RULE) {
            tell_key(out->applied, name, value, NULL);
            out->n++;
        } else if (keys[i].use == REFUSED && !f->status)
            f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s is not supported", f->file, name);
    }
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void fail(clef_json_fields *f, const char *key, const char *wanted, const json_t *value)
{
    if (!f->status)
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s: expected %s, got %s", f->file, key, wanted,
                               clef__json_kind(value));
}

/* Appends ids below n_vocab (0: any), which others cannot be sampled anyway. Returns 0 for what is not a list
 * of ids. */
static int add_ids(clef__id_list *to, const json_t *list, int32_t n_vocab)
{
    const size_t n = json_array_size(list);
    int32_t *more = realloc(to->ids, ((size_t)to->n + n + 2) * sizeof *more);
    if (!more)
        return -1;
    to->ids = more;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id))
            return 0;
        const json_int_t x = json_integer_value(id);
        if (x >= 0 && x < n_vocab)
            to->ids[to->n++] = (int32_t)x;
    }
    return 1;
}

static void read_ids(clef_json_fields *f, const char *key, int32_t n_vocab, clef__id_list *out)
{
    json_t *value = json_object_get(f->object, key), *list = NULL;
    if (f->status || !clef__json_has(f, key))
        return;
    list = json_is_array(value) ? json_incref(value) : json_pack("[O]", value);
    const int added = list ? add_ids(out, list, n_vocab) : -1;
    json_decref(list);
    if (added < 0)
        f->status = clef__fail(f->err, CLEF_E_NOMEM, "%s: %s: out of host memory", f->file, key);
    else if (!added)
        fail(f, key, "ids", value);
}

/* ---- sequences ------------------------------------------------------------------------------- */

static int ends_text(const clef_hparams *hp, int32_t id)
{
    int ends = id == hp->eos;
    for (int32_t i = 0; i < hp->n_eos_more; i++)
        ends |= id == hp->eos_more[i];
    return ends;
}

static int is_same(const int32_t *a, const int32_t *b)
{
    while (*a == *b && *a >= 0)
        a++, b++;
    return *a == *b;
}

/* Adds a sequence, or gives one that is there the new bias, as a dict of Python does. */
static void add_sequence(clef_json_fields *f, const char *key, const json_t *ids, double bias, int32_t first,
                         const clef_hparams *hp, clef__rules *out)
{
    clef__id_list *all = &out->sequences;
    const int32_t from = all->n;
    if (f->status)
        return;
    if (!json_is_array(ids) || !json_array_size(ids)) {
        fail(f, key, "lists of ids", ids);
        return;
    }
    const int added = add_ids(all, ids, hp->n_vocab);
    double *biases = added > 0 ? realloc(out->biases, ((size_t)out->n_sequences + 1) * sizeof *biases) : NULL;
    out->biases = biases ? biases : out->biases;
    if (added > 0 && biases && all->n - from == (int32_t)json_array_size(ids)) {
        all->ids[all->n++] = -1;
        int32_t at = 0, i = 0;
        for (; at < from && !(i >= first && is_same(all->ids + at, all->ids + from)); i++)
            while (all->ids[at++] >= 0)
                ;
        all->n = at < from ? from : all->n;
        out->biases[i] = bias;
        out->n_sequences += at == from;
    } else if (added < 0 || !biases)
        f->status = added ? clef__fail(f->err, CLEF_E_NOMEM, "%s: %s: out of host memory", f->file, key)
                          : clef__fail(f->err, CLEF_E_FORMAT, "%s: %s: expected ids, got %s", f->file, key,
                                       clef__json_kind(json_array_get(ids, 0)));
    else
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s: expected ids from 0 to %d", f->file, key,
                               hp->n_vocab - 1);
}

static void read_sequences(clef_json_fields *f, const clef_hparams *hp, clef__rules *out)
{
    const json_t *bad = json_object_get(f->object, "bad_words_ids"),
                 *biased = json_object_get(f->object, "sequence_bias");
    const json_t *one;
    size_t i;
    if (bad && !json_is_null(bad) && !json_is_array(bad))
        fail(f, "bad_words_ids", "a list of lists of ids", bad);
    if (biased && !json_is_null(biased) && !json_is_array(biased))
        fail(f, "sequence_bias", "a list of [[ID, ..], X]", biased);
    json_array_foreach(biased, i, one) {
        const json_t *x = json_array_get(one, 1);
        if (json_array_size(one) != 2 || !json_is_number(x))
            fail(f, "sequence_bias", "a list of [[ID, ..], X]", one);
        else
            add_sequence(f, "sequence_bias", json_array_get(one, 0), json_number_value(x), 0, hp, out);
    }
    const int32_t n_biased = out->n_sequences;
    json_array_foreach(bad, i, one) {
        const json_t *first = json_array_get(one, 0);
        const int ends = json_array_size(one) == 1 && json_is_integer(first) &&
                         json_integer_value(first) <= INT32_MAX &&
                         ends_text(hp, (int32_t)json_integer_value(first));
        if (!ends) /* an end of the text is not banned by this key */
            add_sequence(f, "bad_words_ids", one, -(double)INFINITY, n_biased, hp, out);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void read_decay(clef_json_fields *f, clef__rules *out)
{
    static const char key[] = "exponential_decay_length_penalty";
    const json_t *pair = json_object_get(f->object, key), *start = json_array_get(pair, 0),
                 *factor = json_array_get(pair, 1);
    if (f->status || !clef__json_has(f, key))
        return;
    if (json_array_size(pair) != 2 || !json_is_integer(start) || !json_is_number(factor) ||
        json_integer_value(start) < -INT32_MAX || json_integer_value(start) > INT32_MAX) {
        fail(f, key, "[START, FACTOR]", pair);
        return;
    }
    out->decay_start = (int32_t)json_integer_value(start);
    out->decay = json_number_value(factor);
}

/* A token that is forced and suppressed leaves none; transformers refuses that, too. */
static void check_forced(clef_json_fields *f, const char *key, const clef__id_list *forced,
                         const clef__id_list *suppress)
{
    int32_t n = 0;
    for (int32_t i = 0; i < forced->n; i++)
        for (int32_t k = 0; k < suppress->n; k++)
            if (forced->ids[i] == suppress->ids[k]) {
                n++;
                break;
            }
    if (!f->status && n && n == forced->n)
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s %d is in suppress_tokens, too", f->file, key,
                               forced->ids[0]);
}

clef_status clef__rules_read(const json_t *generation, const clef_hparams *hp, clef__rules *out,
                             clef_error *err)
{
    clef_json_fields f = {.object = generation, .file = "generation_config.json", .err = err};
    *out = (clef__rules){.source_penalty = 1, .decay = 1, .forced_bos = -1};
    if (!json_is_object(generation))
        return CLEF_OK;
    out->min_new = (int32_t)clef__json_int(&f, "min_new_tokens", 0, INT32_MAX, 0);
    out->min_length = (int32_t)clef__json_int(&f, "min_length", 0, INT32_MAX, 0);
    if (clef__json_has(&f, "min_new_tokens")) /* it takes the other's place */
        out->min_length = 0;
    out->no_repeat = (int32_t)clef__json_int(&f, "no_repeat_ngram_size", 0, INT32_MAX, 0);
    out->no_repeat_source = (int32_t)clef__json_int(&f, "encoder_no_repeat_ngram_size", 0, INT32_MAX, 0);
    out->source_penalty = clef__json_double(&f, "encoder_repetition_penalty", 1e-6, 1e6, 1);
    out->renormalize = clef__json_bool(&f, "renormalize_logits", 0);
    read_decay(&f, out);
    read_ids(&f, "forced_eos_token_id", hp->n_vocab, &out->forced_eos);
    read_ids(&f, "suppress_tokens", hp->n_vocab, &out->suppress);
    read_ids(&f, "begin_suppress_tokens", hp->n_vocab, &out->begin_suppress);
    read_sequences(&f, hp, out);
    clef__id_list bos = {.n = 0};
    read_ids(&f, "forced_bos_token_id", hp->n_vocab, &bos);
    check_forced(&f, "forced_bos_token_id", &bos, &out->suppress);
    check_forced(&f, "forced_eos_token_id", &out->forced_eos, &out->suppress);
    free(bos.ids);
    if (!hp->n_decoder_layers && hp->forced_bos >= 0 && hp->forced_bos < hp->n_vocab) {
        out->forced_bos = hp->forced_bos;
        tell(out->applied, "forced_bos_token_id %d", hp->forced_bos);
        out->n++;
    }
    tell_keys(&f, out);
    if (f.status)
        clef__rules_finish(out);
    return f.status;
}

void clef__rules_finish(clef__rules *r)
{
    free(r->forced_eos.ids);
    free(r->suppress.ids);
    free(r->begin_suppress.ids);
    free(r->sequences.ids);
    free(r->biases);
    *r = (clef__rules){.n = 0};
}
