/* Recovers a session whose device was lost: makes the context anew, and feeds again what the cache held. */
#include <string.h>

#include "graph/fail.h"
#include "model/session/session.h"

/* Repeats the pending step of the generation: the prompt's last tokens, or the token that was returned
 * last. */
static clef_status restart_generation(clef_session *s, const generation *gen, int32_t n_past, clef_error *err)
{
    const sample_options off = {.mode = SAMPLE_OFF};
    const int32_t fed = gen->n_given ? n_past : n_past - 1; /* before that step */
    clef_status status = fed ? clef__session_prompt(s, s->seen, fed, &off, err) : CLEF_OK;
    if (!status)
        status = clef__session_prompt(s, s->seen + fed, 1, &gen->sample, err);
    s->n_past = n_past;
    s->gen = *gen;
    s->gen.n_ahead = 0;
    if (!status)
        status = clef__session_start_read(s, err);
    s->gen.active = !status;
    return status;
}

static clef_status bring_back(clef_session *s, const generation *gen, clef_error *err)
{
    const sample_options off = {.mode = SAMPLE_OFF};
    const int32_t n_past = s->n_past, n_source = s->encoder.n;
    clef_plan_destroy(s->plan);
    clef_plan_destroy(s->encoder.plan);
    s->plan = s->encoder.plan = NULL;
    s->sample = (sample_options){0};
    s->gen = (generation){0};
    clef_status status = clef_device_reopen(s->dev, err);
    if (!status)
        status = clef__session_open(s, err);
    if (!status && n_source)
        status = clef__session_encode(s, s->encoder.source, n_source, err);
    s->n_past = s->state_is_ahead = 0;
    if (!status && gen && gen->n_ahead)
        return restart_generation(s, gen, n_past, err);
    if (!status && n_past)
        status = clef__session_prompt(s, s->seen, n_past, &off, err);
    s->n_past = n_past;
    return status;
}

int32_t clef__plans_of(const clef_plan *plan)
{
    int32_t n = 0;
    while (plan && clef_plan_stage(plan, n))
        n++;
    return n + (n > 1);
}

clef_status clef__session_recover(clef_session *s, const generation *gen, const clef_error *why,
                                  clef_error *err)
{
    clef_error again = {0};
    const int alone =
        clef_device_n_plans(s->dev) == clef__plans_of(s->plan) + clef__plans_of(s->encoder.plan);
    if (!clef_error_is_lost(why) || !s->plan || !alone) {
        if (err)
            *err = *why;
        return why->status;
    }
    if (!bring_back(s, gen, &again))
        return CLEF_OK;
    s->n_past = s->state_is_ahead = 0; /* the cache is gone */
    return clef__fail_cl(err, why->status, why->cl_code, "%.400s; the device did not come back: %.500s",
                         why->text, again.text);
}
