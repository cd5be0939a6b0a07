/* Changes the rate of a sound by a windowed sinc, one filter for each place of an output sample between two
 * input samples. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "media/sound/decode.h"

enum { CROSSINGS = 24 };

static const double rolloff = 0.945, beta = 12, pi = 3.14159265358979323846;

/* The modified Bessel function of order 0. */
static double bessel(double x)
{
    double sum = 1, term = 1;
    for (int k = 1; k < 60; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

/* Output sample i is at i * down / up input samples. */
typedef struct filters {
    int64_t up, down;
    int32_t reach; /* input samples to each side */
    int64_t n;     /* of filters: one for each of the first output samples, `up` at most */
    float *taps;   /* [n, 2 reach]: output samples i and i + up have the same filter */
} filters;

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void fill(const filters *f, double cutoff)
{
    const double width = CROSSINGS / cutoff, most = bessel(beta);
    for (int64_t i = 0; i < f->n; i++) {
        const int64_t p = i * f->down % f->up; /* its place is p / up after a sample */
        float *taps = f->taps + i * 2 * f->reach;
        double sum = 0;
        for (int32_t k = 0; k < 2 * f->reach; k++) {
            const double x = k - f->reach + 1 - (double)p / (double)f->up, y = x / width;
            const double sinc = x == 0 ? 1 : sin(pi * x * cutoff) / (pi * x * cutoff);
            const double w = fabs(y) < 1 ? bessel(beta * sqrt(1 - y * y)) / most : 0;
            taps[k] = (float)(sinc * w);
            sum += sinc * w;
        }
        for (int32_t k = 0; k < 2 * f->reach; k++) /* silence and constants stay as they are */
            taps[k] = (float)((double)taps[k] / sum);
    }
}

static void apply(const filters *f, const float *x, int64_t n, float *out, int64_t n_out)
{
    for (int64_t i = 0; i < n_out; i++) {
        const int64_t at = i * f->down / f->up - f->reach + 1;
        const float *taps = f->taps + i % f->up * 2 * f->reach;
        const int64_t from = at < 0 ? -at : 0, to = at + 2 * f->reach > n ? n - at : 2 * f->reach;
        double sum = 0;
        for (int64_t k = from; k < to; k++)
            sum += (double)taps[k] * (double)x[at + k];
        out[i] = (float)sum;
    }
}

clef_status clef__resample(clef_sound *sound, int32_t rate, clef_error *err)
{
    const int64_t divisor = greatest_divisor(sound->rate, rate), n = (int64_t)sound->n;
    filters f = {.up = rate / divisor, .down = sound->rate / divisor};
    if (f.up == f.down)
        return CLEF_OK;
    const double cutoff = rolloff * (f.up < f.down ? (double)f.up / (double)f.down : 1);
    const int64_t n_out = (n * f.up + f.down - 1) / f.down;
    f.reach = (int32_t)ceil(CROSSINGS / cutoff);
    f.n = n_out < f.up ? n_out : f.up;
    f.taps = malloc(((size_t)f.n + 1) * 2 * (size_t)f.reach * sizeof *f.taps);
    float *out = malloc(((size_t)n_out + 1) * sizeof *out);
    if (!f.taps || !out) {
        free(f.taps);
        free(out);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId64 " samples at %" PRId32 " Hz", n_out,
                          rate);
    }
    fill(&f, cutoff);
    apply(&f, sound->samples, n, out, n_out);
    free(f.taps);
    free(sound->samples);
    sound->samples = out;
    sound->n = (size_t)n_out;
    sound->rate = rate;
    return CLEF_OK;
}
