/* Rotary positions: the frequencies of each kind of scaling (transformers' modeling_rope_utils.py), and RoPE
 * with the frequencies of a layer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/arch/layers.h"
#include "model/open/model.h"
#include "model/sight/sight.h"

enum { MAX_FREQS = 512 };

static const double two_pi = 6.28318530717958647692;

/* Llama 3: wavelengths over original / low_freq_factor are stretched by factor, those under original /
 * high_freq_factor kept, and those between are blended. */
static double llama3(const clef_rope_params *r, double freq)
{
    const double turns = r->original_context * freq / two_pi; /* rotations within the original context */
    double keep = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    keep = keep > 1 ? 1 : keep > 0 ? keep : 0; /* both factors may be equal */
    return keep * freq + (1 - keep) * freq / r->factor;
}

/* The dim that rotates `turns` times within the original context (YaRN, arXiv:2309.00071, section 3.2). */
static double yarn_dim(const clef_rope_params *r, double turns)
{
    return r->dims * log(r->original_context / (turns * two_pi)) / (2 * log(r->theta));
}

/* YaRN: dims that rotate often keep their frequency, slow ones are stretched by factor, with a ramp
 * between. */
static double yarn(const clef_rope_params *r, int32_t i, double freq)
{
    double low = yarn_dim(r, r->beta_fast), high = yarn_dim(r, r->beta_slow);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > r->dims - 1 ? r->dims - 1 : high;
    if (low == high)
        high += 0.001;
    double ramp = (i - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return freq * (1 - ramp) + freq / r->factor * ramp;
}

void clef__rope_freqs(const clef_rope_params *r, int32_t n_context, const float *factors, float *out)
{
    double theta = r->theta;
    if (r->type == CLEF_ROPE_DYNAMIC && n_context > r->original_context &&
        r->dims > 2) /* NTK-aware: the base grows with the context */
        theta *=
            pow(r->factor * n_context / r->original_context - (r->factor - 1), r->dims / (r->dims - 2.0));
    for (int32_t i = 0; i < r->dims / 2; i++) {
        double freq = pow(theta, -2.0 * i / r->dims);
        if (r->type == CLEF_ROPE_LINEAR)
            freq /= r->factor;
        else if (r->type == CLEF_ROPE_PROPORTIONAL)
            freq = i < r->n_rotated_pairs ? freq / r->factor : 0;
        else if (r->type == CLEF_ROPE_LLAMA3)
            freq = llama3(r, freq);
        else if (r->type == CLEF_ROPE_YARN)
            freq = yarn(r, i, freq);
        if (factors)
            freq /= (double)factors[i];
        out[i] = (float)freq;
    }
}

static double mscale(double factor, double by)
{
    return factor <= 1 ? 1 : 0.1 * by * log(factor) + 1;
}

float clef__rope_attention_factor(const clef_rope_params *r)
{
    if (r->attention_factor > 0)
        return (float)r->attention_factor;
    if (r->type == CLEF_ROPE_YARN)
        return (float)(r->mscale > 0 && r->mscale_all_dim > 0
                           ? mscale(r->factor, r->mscale) / mscale(r->factor, r->mscale_all_dim)
                           : mscale(r->factor, 1));
    if (r->type == CLEF_ROPE_LONGROPE && r->factor > 1 && r->original_context > 1)
        return (float)sqrt(1 + log(r->factor) / log(r->original_context));
    return 1;
}

/* ---- a layer's RoPE --------------------------------------------------------------------------- */

/* longrope's divisors for this context: the file's list for short contexts or for long ones. */
static const float *longrope_factors(clef_builder *b, const clef_rope_params *r, float out[MAX_FREQS])
{
    const int is_long = b->n_context > r->original_context, n = r->dims / 2;
    if (b->is_gguf) {
        const clef_tensor_info *t =
            clef__model_find(b->model, is_long ? "rope_factors_long.weight" : "rope_factors_short.weight");
        if (t && t->dtype == CLEF_F32 && t->n_bytes == (uint64_t)n * sizeof *out)
            return t->data;
    } else {
        const char *name;
        const json_t *scaling = clef__rope_object(b->model->config, &name);
        const json_t *list = json_object_get(scaling, is_long ? "long_factor" : "short_factor");
        int32_t i = 0;
        while (json_array_size(list) == (size_t)n && i < n &&
               json_number_value(json_array_get(list, (size_t)i)) > 0) {
            out[i] = (float)json_number_value(json_array_get(list, (size_t)i));
            i++;
        }
        if (i == n)
            return out;
    }
    clef__graph_fail(b->g, CLEF_E_SHAPE, "%s: longrope needs %d positive numbers in %s",
                     clef_model_path(b->model), n, is_long ? "its long factors" : "its short factors");
    return NULL;
}

/* The frequencies as a constant, made at first use. sliding: for layers with the window. */
static clef_value *frequencies_of(clef_builder *b, const clef_rope_params *r, int sliding)
{
    float freqs[MAX_FREQS], listed[MAX_FREQS];
    const float *factors = NULL;
    if (b->freqs[sliding])
        return b->freqs[sliding];
    const int32_t n = r->dims / 2;
    /* they contain the same scaling as these types */
    const int has_divisors = !sliding && r->type != CLEF_ROPE_LLAMA3 && r->type != CLEF_ROPE_PROPORTIONAL;
    const clef_tensor_info *t = has_divisors ? clef__model_find(b->model, "rope_freqs.weight") : NULL;
    if (n < 1 || n > MAX_FREQS || (t && (t->dtype != CLEF_F32 || t->n_bytes != (uint64_t)n * sizeof *freqs)))
        return clef__graph_fail(
            b->g, CLEF_E_SHAPE,
            "%s: %d rotated dims: expected 2 to %d, and rope_freqs.weight to be f32 [dims / 2]",
            clef_model_path(b->model), 2 * n, 2 * MAX_FREQS);
    if (t)
        factors = t->data;
    else if (r->type == CLEF_ROPE_LONGROPE && !(factors = longrope_factors(b, r, listed)))
        return NULL;
    clef__rope_freqs(r, b->n_context, factors, freqs);
    return b->freqs[sliding] = clef_constant(b->g, sliding ? "rope.freqs_sliding" : "rope.freqs", CLEF_F32,
                                             clef_shape_1(clef_n(n)), freqs);
}

/* Heads that are stored in pairs by GGUF, in halves: a rotation by frequencies of 0 changes the order alone.
 */
static clef_value *in_halves(clef_builder *b, clef_value *x, const clef_rope_params *r)
{
    static const float zeros[MAX_FREQS];
    if (r->dims / 2 > MAX_FREQS)
        return clef__graph_fail(b->g, CLEF_E_SHAPE, "%s: %d rotated dims: expected at most %d",
                                clef_model_path(b->model), r->dims, 2 * MAX_FREQS);
    if (!b->no_freqs)
        b->no_freqs = clef_constant(b->g, "rope.none", CLEF_F32, clef_shape_1(clef_n(r->dims / 2)), zeros);
    return clef_rope(b->g, x, b->no_freqs, NULL, &(clef_rope_opts){.pairing = r->pairing});
}

/* What multiplies the rotated dims for this context. */
static float factor_of(const clef_builder *b, const clef_rope_params *r)
{
    const double own = b->n_context > r->original_context ? r->long_factor : r->short_factor;
    return own > 0 ? (float)own : clef__rope_attention_factor(r);
}

/* The axis by which pair i turns: time, height or width (Qwen2-VL, arXiv:2409.12191, section 2.1). */
static int32_t axis_of(const clef__sight *s, int32_t i)
{
    const int32_t axis = i % 3;
    if (s->alternates)
        return axis && i < 3 * s->sections[axis] ? axis : 0;
    return i < s->sections[0] ? 0 : i < s->sections[0] + s->sections[1] ? 1 : 2;
}

/* The frequencies of the pairs that turn by an axis; the others stay, by a frequency of 0. */
static clef_value *axis_freqs(clef_builder *b, const clef_rope_params *r, int32_t axis)
{
    static const char *const names[] = {"rope.freqs_time", "rope.freqs_height", "rope.freqs_width"};
    float freqs[MAX_FREQS];
    clef_value *known = clef_graph_find(b->g, names[axis]);
    const int32_t n = r->dims / 2;
    if (known || n > MAX_FREQS)
        return known;
    clef__rope_freqs(r, b->n_context, NULL, freqs);
    for (int32_t i = 0; i < n; i++)
        freqs[i] = axis_of(b->model->sight, i) == axis ? freqs[i] : 0;
    return clef_constant(b->g, names[axis], CLEF_F32, clef_shape_1(clef_n(n)), freqs);
}

/* RoPE by three positions: one after the other, each turns its own pairs. */
static clef_value *turned_by_axes(clef_builder *b, clef_value *x, const clef_rope_params *r)
{
    for (int32_t axis = 0; axis < 3; axis++)
        x = clef_rope(b->g, x, axis_freqs(b, r, axis), b->turns[axis],
                      &(clef_rope_opts){.pairing = r->pairing, .scale = axis ? 0 : factor_of(b, r)});
    return x;
}

int clef__layer_lacks_rope(const clef_builder *b)
{
    return b->layer >= 0 && (b->hp->no_rope_layers[b->layer / 32] >> (b->layer % 32) & 1);
}

/* x cos + (-second half, first half) sin: x [B, T, heads, D], by the angles of its rows. */
static clef_value *turned(clef_builder *b, clef_value *x)
{
    const int32_t half = b->hp->head_dim / 2;
    clef_value *second = clef_affine(b->g, clef__part(b, x, 3, half, half), &(clef_affine_opts){.scale = -1});
    clef_value *other =
        clef_concat(b->g, second, clef__part(b, x, 3, 0, half), &(clef_concat_opts){.axis = 3});
    return clef_add(b->g, clef_mul(b->g, x, b->cosines), clef_mul(b->g, other, b->sines));
}

clef_value *clef__layer_rope(clef_builder *b, clef_value *x, const char *name)
{
    const clef_hparams *hp = b->hp;
    const int sliding = clef__layer_slides(hp, b->layer) && hp->rope_sliding.dims > 0;
    const clef_rope_params *r = sliding ? &hp->rope_sliding : &hp->rope;
    const int is_without = clef__layer_lacks_rope(b);
    if (b->cosines && r->pairing == CLEF_ROPE_INTERLEAVED_TO_HALVES)
        x = in_halves(b, x, r);
    if (b->cosines)
        return clef__name_value(b, turned(b, x), name);
    if (r->dims == 0 || (is_without && r->pairing != CLEF_ROPE_INTERLEAVED_TO_HALVES))
        return x;
    if (b->turns[0] && !is_without)
        return clef__name_value(b, turned_by_axes(b, x, r), name);
    if (is_without)
        x = in_halves(b, x, r);
    else
        x = clef_rope(b->g, x, frequencies_of(b, r, sliding), b->pos,
                      &(clef_rope_opts){.pairing = r->pairing, .scale = factor_of(b, r)});
    return clef__name_value(b, x, name);
}
