/* The options of a sampler: their ranges, their defaults, and the form in which the device reads them. */
#include <math.h>
#include <string.h>

#include "graph/fail.h"
#include "model/session/sampler.h"
#include "model/session/sampler_opts.h"

/* ---- ranges ---------------------------------------------------------------------------------- */

static clef_status check_order(const clef_sampler_opts *o, clef_error *err)
{
    uint32_t seen = 0;
    for (int32_t i = 0; i < CLEF_N_SAMPLERS && o->samplers[i]; i++) {
        if (o->samplers[i] >= CLEF_N_SAMPLERS)
            return clef__fail(err, CLEF_E_ARG, "samplers: %d is none, expected 1 to %d", o->samplers[i],
                              CLEF_N_SAMPLERS - 1);
        if (seen >> o->samplers[i] & 1)
            return clef__fail(err, CLEF_E_ARG, "samplers: %s is there twice",
                              clef_sampler_name((clef_sampler_kind)o->samplers[i]));
        seen |= 1u << o->samplers[i];
    }
    return CLEF_OK;
}

static clef_status check_numbers(const clef_sampler_opts *o, clef_error *err)
{
    const struct {
        const char *name;
        float value, lo, hi; /* hi < 0: any finite number from lo on */
        const char *expected;
    } all[] = {
        {"temperature", o->temperature, 0, -1, "0 or more"},
        {"top-p", o->top_p, 0, 1, "0 to 1"},
        {"min-p", o->min_p, 0, 1, "0 to 1"},
        {"repeat-penalty", o->repeat_penalty, 0, -1, "more than 0"},
        {"presence-penalty", o->presence_penalty, -100, 100, "-100 to 100"},
        {"frequency-penalty", o->frequency_penalty, -100, 100, "-100 to 100"},
        {"dry-multiplier", o->dry_multiplier, 0, -1, "0 (off) or more"},
        {"dry-base", o->dry_base != 0 ? o->dry_base : 1, 1, -1, "1 or more"},
        {"xtc-probability", o->xtc_probability, 0, 1, "0 to 1"},
        {"xtc-threshold", o->xtc_threshold, 0, 1, "0 to 1"},
        {"typical", o->typical, 0, 1, "0 to 1"},
        {"top-n-sigma", o->top_n_sigma, 0, -1, "0 (off) or more"},
        {"mirostat-tau", o->mirostat_tau, 0, -1, "more than 0"},
        {"mirostat-eta", o->mirostat_eta, 0, -1, "more than 0"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const float x = all[i].value;
        if (!(x >= all[i].lo) || isinf(x) || (all[i].hi >= 0 && x > all[i].hi))
            return clef__fail(err, CLEF_E_ARG, "%s %g, expected %s", all[i].name, (double)x, all[i].expected);
    }
    return CLEF_OK;
}

static clef_status check_lists(const clef_sampler_opts *o, int32_t n_vocab, clef_error *err)
{
    if (o->n_biases < 0 || o->n_dry_breakers < 0)
        return clef__fail(err, CLEF_E_ARG,
                          "%d logit biases and %d numbers of DRY breakers, expected 0 or more", o->n_biases,
                          o->n_dry_breakers);
    for (int32_t i = 0; i < o->n_biases; i++) {
        const clef_logit_bias b = o->biases[i];
        if (b.id < 0 || b.id >= n_vocab)
            return clef__fail(err, CLEF_E_ARG, "logit-bias of token %d, the vocabulary has 0 to %d", b.id,
                              n_vocab - 1);
        if (isnan(b.bias) || (isinf(b.bias) && b.bias > 0))
            return clef__fail(err, CLEF_E_ARG, "logit-bias %g of token %d, expected a number or -inf",
                              (double)b.bias, b.id);
    }
    for (int32_t i = 0; i < o->n_dry_breakers; i++) {
        const int32_t id = o->dry_breakers[i];
        if (id < -1 || id >= n_vocab || (id < 0 && (i == 0 || o->dry_breakers[i - 1] < 0)))
            return clef__fail(err, CLEF_E_ARG,
                              "dry-breakers: number %d is %d, expected ids below %d, -1 after each breaker",
                              i, id, n_vocab);
    }
    return o->n_dry_breakers == 0 || o->dry_breakers[o->n_dry_breakers - 1] < 0
               ? CLEF_OK
               : clef__fail(err, CLEF_E_ARG, "dry-breakers: expected -1 after the last");
}

clef_status clef__sampler_check(const clef_sampler_opts *o, int32_t n_vocab, clef_error *err)
{
    clef_status s = check_numbers(o, err);
    if (s)
        return s;
    if (o->top_k < 0)
        return clef__fail(err, CLEF_E_ARG, "top-k %d, expected 0 (off) or more", o->top_k);
    if (o->repeat_last_n < 0)
        return clef__fail(err, CLEF_E_ARG, "repeat-last-n %d, expected 0 or more", o->repeat_last_n);
    if (o->dry_allowed_length < 0)
        return clef__fail(err, CLEF_E_ARG, "dry-allowed-length %d, expected 1 or more",
                          o->dry_allowed_length);
    if (o->dry_last_n < -1)
        return clef__fail(err, CLEF_E_ARG, "dry-last-n %d, expected -1 (the whole text) or more",
                          o->dry_last_n);
    if (o->mirostat != 0 && o->mirostat != 2)
        return clef__fail(err, CLEF_E_ARG, "mirostat %d, expected 0 (off) or 2", o->mirostat);
    s = check_order(o, err);
    return s || n_vocab < 1 ? s : check_lists(o, n_vocab, err);
}

/* ---- defaults -------------------------------------------------------------------------------- */

static int counts_with_mirostat(int kind)
{
    return kind == CLEF_SAMPLER_PENALTIES || kind == CLEF_SAMPLER_DRY || kind == CLEF_SAMPLER_TEMPERATURE;
}

void clef__sampler_defaults(clef_sampler_opts *o)
{
    uint8_t order[CLEF_N_SAMPLERS] = {0};
    int32_t n = 0;
    for (int32_t i = 1; i < CLEF_N_SAMPLERS && !o->samplers[0]; i++)
        order[i - 1] = (uint8_t)i;
    if (o->samplers[0])
        memcpy(order, o->samplers, sizeof order);
    memset(o->samplers, 0, sizeof o->samplers);
    if (o->repeat_penalty == 0)
        o->repeat_penalty = 1;
    if (!o->repeat_last_n)
        o->repeat_last_n = 64;
    for (int32_t i = 0; i < CLEF_N_SAMPLERS && order[i]; i++)
        if (clef__chain_has(o, (clef_sampler_kind)order[i]) &&
            (!o->mirostat || counts_with_mirostat(order[i])))
            o->samplers[n++] = order[i];
    if (o->dry_base == 0)
        o->dry_base = 1.75f;
    if (!o->dry_allowed_length)
        o->dry_allowed_length = 2;
    if (!o->dry_last_n)
        o->dry_last_n = -1;
    if (o->xtc_threshold == 0)
        o->xtc_threshold = 0.1f;
    if (o->mirostat_tau == 0)
        o->mirostat_tau = 5;
    if (o->mirostat_eta == 0)
        o->mirostat_eta = 0.1f;
}

/* ---- the device ------------------------------------------------------------------------------ */

/* The place of a sampler in the order of those that are on, from 1; 0: it is off. */
static int place_of(const clef_sampler_opts *o, clef_sampler_kind kind)
{
    for (int i = 0; i < CLEF_N_SAMPLERS && o->samplers[i]; i++)
        if (o->samplers[i] == kind)
            return i + 1;
    return 0;
}

static int is_in_order(int a, int b)
{
    return !a || !b || a < b;
}

/* Whether top-p and min-p are on the same side of the temperature. */
static int sees_one_temperature(int heat, int top_p, int min_p)
{
    return !heat || (is_in_order(heat, top_p) && is_in_order(heat, min_p)) ||
           (is_in_order(top_p, heat) && is_in_order(min_p, heat));
}

/* Whether the op `sample` does just what the chain does; o after clef__sampler_defaults(). */
static int fits_device(const clef_sampler_opts *o)
{
    const int penalties = place_of(o, CLEF_SAMPLER_PENALTIES), top_k = place_of(o, CLEF_SAMPLER_TOP_K),
              top_p = place_of(o, CLEF_SAMPLER_TOP_P), min_p = place_of(o, CLEF_SAMPLER_MIN_P),
              heat = place_of(o, CLEF_SAMPLER_TEMPERATURE);
    if (o->n_biases || o->mirostat || penalties > 1 || place_of(o, CLEF_SAMPLER_DRY) ||
        place_of(o, CLEF_SAMPLER_XTC) || place_of(o, CLEF_SAMPLER_TYPICAL) ||
        (penalties && (o->presence_penalty != 0 || o->frequency_penalty != 0)))
        return 0;
    if (o->temperature == 0 && heat) /* every sampler that is left keeps the best */
        return 1;
    return !place_of(o, CLEF_SAMPLER_TOP_N_SIGMA) && is_in_order(top_k, top_p) && is_in_order(top_p, min_p) &&
           sees_one_temperature(heat, top_p, min_p);
}

/* The limit is far from the ends of float, so that it does not matter how a device handles denormals or
 * infinities. */
static float scale_of(float temperature)
{
    const double scale = 1.4426950408889634 / (double)temperature;
    return (float)fmin(fmax(scale, 1e-30), 1e30);
}

/* Tokens farther than this below the largest logit are never sampled: min-p's limit plus 1e-4, because
 * weights are rounded. If top-p needs the sum of all weights, there is no limit. */
static uint32_t reach_of(float min_p, int has_top_p)
{
    const double most = (double)SAMPLE_REACH;
    return (uint32_t)(min_p > 0 && !has_top_p ? fmin((1e-4 - log2((double)min_p)) * 0x1p24, most) : most);
}

static void write_draw(const clef_sampler_opts *o, sample_options *out)
{
    const int top_p = place_of(o, CLEF_SAMPLER_TOP_P), min_p = place_of(o, CLEF_SAMPLER_MIN_P),
              heat = place_of(o, CLEF_SAMPLER_TEMPERATURE);
    const uint64_t least = (uint64_t)((double)(min_p ? o->min_p : 0) * 0x1p40);
    out->mode = SAMPLE_DRAW;
    out->top_k = place_of(o, CLEF_SAMPLER_TOP_K) ? o->top_k : 0;
    if (top_p)
        out->top_p = (uint32_t)fmax((double)o->top_p * 0x1p32, 1);
    out->scale = scale_of(heat ? o->temperature : 1);
    if (heat && (top_p || min_p) && heat > top_p && heat > min_p) { /* these see the temperature 1 */
        out->draw_scale = out->scale;
        out->scale = scale_of(1);
    }
    out->min_weight_lo = (uint32_t)least;
    out->min_weight_hi = (uint32_t)(least >> 32);
    out->reach = reach_of(min_p ? o->min_p : 0, top_p != 0);
    out->seed_lo = (uint32_t)o->seed;
    out->seed_hi = (uint32_t)(o->seed >> 32);
}

void clef__sampler_write(const clef_sampler_opts *o, int32_t first, sample_options *out)
{
    *out = (sample_options){.mode = SAMPLE_OFF, .first = first};
    if (!fits_device(o))
        return;
    out->mode = SAMPLE_GREEDY;
    if (place_of(o, CLEF_SAMPLER_PENALTIES)) {
        out->last_n = o->repeat_last_n;
        out->penalty = o->repeat_penalty;
        out->inverse_penalty = 1.0f / o->repeat_penalty;
    }
    if (o->temperature != 0 || !place_of(o, CLEF_SAMPLER_TEMPERATURE))
        write_draw(o, out);
}

clef_status clef__sampler_options(const clef_sampler_opts *opts, int32_t first, sample_options *out,
                                  clef_error *err)
{
    clef_sampler_opts o = opts ? *opts : (clef_sampler_opts){0};
    const clef_status s = clef__sampler_check(&o, 0, err);
    *out = (sample_options){.mode = SAMPLE_GREEDY, .first = first};
    if (s)
        return s;
    clef__sampler_defaults(&o);
    clef__sampler_write(&o, first, out);
    return CLEF_OK;
}

int32_t clef_sampler_on_device(const clef_sampler_opts *opts)
{
    sample_options o;
    return !clef__sampler_options(opts, 0, &o, NULL) && o.mode != SAMPLE_OFF;
}
