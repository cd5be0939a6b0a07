/* Compares a fused step that was just built with the launches that it replaces, both from the same state.
 * Either the child that built the step or the plan calls this. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/prove/trial.h"

/* A compiler may contract other products and sums in one of the two, so an 8-bit code may round
 * differently. */
static const float TOLERANCE = 1e-2f;

typedef struct step {
    unsigned char **outputs;
    size_t *n_bytes;
} step;

static void step_finish(step *s, int32_t n)
{
    for (int32_t i = 0; i < n && s->outputs; i++)
        free(s->outputs[i]);
    free(s->outputs);
    free(s->n_bytes);
}

static clef_status fill_buffer(const clef_plan *plan, cl_mem mem, clef_error *err)
{
    size_t n = 0;
    cl_int code = clGetMemObjectInfo(mem, CL_MEM_SIZE, sizeof n, &n, NULL);
    if (!code)
        code = clef__device_fill(plan->dev, mem, 0xff, n);
    return code ? clef__cl_fail(err, "filling a buffer", "the fused step's check", code) : CLEF_OK;
}

/* Overwrites results and intermediate values of earlier runs. Otherwise a substep that writes nothing, or
 * reads too early, could look right. */
static clef_status spoil_values(const clef_plan *plan, clef_error *err)
{
    clef_status s = plan->scratch ? fill_buffer(plan, plan->scratch, err) : CLEF_OK;
    for (int32_t i = 0; i < plan->graph->n_values && !s; i++)
        if (plan->memory.places[i].bytes && plan->mem[i])
            s = fill_buffer(plan, plan->mem[i], err);
    return s;
}

/* Runs the current list, as a fused step or as launches, and reads the outputs. */
static clef_status run_step(clef_plan *plan, const clef_fused_trial *trial, int is_fused, step *out,
                            clef_error *err)
{
    const int32_t n = plan->graph->n_outputs;
    out->outputs = calloc((size_t)n + 1, sizeof *out->outputs);
    out->n_bytes = calloc((size_t)n + 1, sizeof *out->n_bytes);
    if (!out->outputs || !out->n_bytes)
        return clef__fail(err, CLEF_E_NOMEM, "fused step: no memory for its check");
    clef_status s = trial->begin(trial->user, err);
    if (!s)
        s = spoil_values(plan, err);
    for (int32_t i = 0; i < trial->repeats && !s && !is_fused; i++)
        s = clef__plan_enqueue(plan, err);
    if (is_fused && !s && !clef__fused_run(plan, &s, err))
        s = clef__fail(err, CLEF_E_UNSUPPORTED, "fused step: no launches can be joined");
    for (int32_t i = 0; i < n && !s; i++) {
        out->n_bytes[i] = clef_plan_output_bytes(plan, i, NULL, NULL);
        out->outputs[i] = malloc(out->n_bytes[i] + 1);
        s = out->outputs[i] ? clef_plan_read(plan, i, out->outputs[i], out->n_bytes[i], err)
                            : clef__fail(err, CLEF_E_NOMEM, "fused step: no memory for its check");
    }
    return s;
}

/* Compares relative to the largest finite value of a. A NaN or infinity must be in both. */
static int are_near(const float *a, const float *b, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(a[i]) > most && isfinite(a[i]) ? fabsf(a[i]) : most;
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(fabsf(a[i] - b[i]) <= TOLERANCE * most) &&
            !(isnan(a[i]) && isnan(b[i])))
            return 0;
    return 1;
}

static int are_alike(const clef_plan *plan, const step *a, const step *b)
{
    for (int32_t i = 0; i < plan->graph->n_outputs; i++) {
        const int floats = plan->graph->outputs[i].value->dtype == CLEF_F32;
        const void *x = a->outputs[i], *y = b->outputs[i];
        if (floats ? !are_near(x, y, a->n_bytes[i] / sizeof(float)) : memcmp(x, y, a->n_bytes[i]) != 0)
            return 0;
    }
    return 1;
}

clef_status clef__fused_check(clef_plan *plan, const clef_fused_trial *trial, clef_error *err)
{
    step plain = {0}, is_fused = {0};
    clef_status s = run_step(plan, trial, 0, &plain, err);
    if (!s)
        s = run_step(plan, trial, 1, &is_fused, err);
    if (!s && !are_alike(plan, &plain, &is_fused))
        s = clef__fail(err, CLEF_E_CL, "fused step: the result differs from that of its launches");
    step_finish(&plain, plan->graph->n_outputs);
    step_finish(&is_fused, plan->graph->n_outputs);
    return s;
}
