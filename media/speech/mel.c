/* Log-mel spectrograms as Whisper's feature extractor makes them (transformers,
 * models/whisper/feature_extraction_whisper.py and audio_utils.py). Sums are in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clef/speech.h"
#include "graph/fail.h"
#include "media/speech/fourier.h"

enum { N = CLEF__FOURIER_N, BINS = N / 2 + 1, HALF = N / 2, MOST_MELS = 256 };

static const double pi = 3.14159265358979323846;

/* Slaney's scale: linear below 1 kHz, logarithmic above. */
static const double linear_step = 200.0 / 3, log_from_hertz = 1000, log_from_mel = 15;

static double log_step(void)
{
    return log(6.4) / 27;
}

static double mel_of(double hertz)
{
    return hertz < log_from_hertz ? hertz / linear_step
                                  : log_from_mel + log(hertz / log_from_hertz) / log_step();
}

static double hertz_of(double mel)
{
    return mel < log_from_mel ? mel * linear_step : log_from_hertz * exp(log_step() * (mel - log_from_mel));
}

/* A triangle over the bins first .. first + n - 1, with an area of 1. */
typedef struct filter {
    int32_t first, n;
    double weights[BINS];
} filter;

static void make_filter(int32_t i, int32_t n_mels, filter *out)
{
    const double top = mel_of(CLEF_SPEECH_RATE / 2.0), step = top / (n_mels + 1);
    const double low = hertz_of(step * i), peak = hertz_of(step * (i + 1)), high = hertz_of(step * (i + 2));
    *out = (filter){0};
    for (int32_t k = 0; k < BINS; k++) {
        const double hertz = (double)k * CLEF_SPEECH_RATE / N;
        const double up = (hertz - low) / (peak - low), down = (high - hertz) / (high - peak);
        const double w = up < down ? up : down;
        if (w <= 0)
            continue;
        if (!out->n)
            out->first = k;
        out->n = k - out->first + 1;
        out->weights[k - out->first] = w * 2 / (high - low);
    }
}

/* Sample i of the sound, which is mirrored at its ends. */
static double mirrored(const float *x, size_t n, int64_t i)
{
    if (i < 0)
        i = -i;
    if (i >= (int64_t)n)
        i = 2 * ((int64_t)n - 1) - i;
    return (double)x[i];
}

/* What all frames share. */
typedef struct mel {
    const float *samples;
    size_t n, n_frames;
    int32_t n_mels;
    double window[N];
    filter *filters; /* [n_mels] */
    clef__fourier fourier;
    float *out; /* [n_mels, n_frames] */
} mel;

static void take_frame(const mel *m, size_t t, double frame[N])
{
    const int64_t first = (int64_t)t * CLEF_SPEECH_HOP - HALF;
    for (int32_t i = 0; i < N; i++)
        frame[i] = t < m->n_frames ? m->window[i] * mirrored(m->samples, m->n, first + i) : 0;
}

static void write_frame(const mel *m, size_t t, const double power[BINS])
{
    for (int32_t i = 0; i < m->n_mels && t < m->n_frames; i++) {
        const filter *f = &m->filters[i];
        double sum = 0;
        for (int32_t k = 0; k < f->n; k++)
            sum += f->weights[k] * power[f->first + k];
        m->out[(size_t)i * m->n_frames + t] = (float)log10(sum > 1e-10 ? sum : 1e-10);
    }
}

static void raise_floor(const mel *m)
{
    const size_t n = (size_t)m->n_mels * m->n_frames;
    float most = m->out[0];
    for (size_t i = 1; i < n; i++)
        most = m->out[i] > most ? m->out[i] : most;
    for (size_t i = 0; i < n; i++)
        m->out[i] = ((m->out[i] > most - 8 ? m->out[i] : most - 8) + 4) / 4;
}

static void compute(mel *m)
{
    double frames[2][N], power[2][BINS];
    for (int32_t i = 0; i < N; i++)
        m->window[i] = 0.5 - 0.5 * cos(2 * pi * i / N);
    for (int32_t i = 0; i < m->n_mels; i++)
        make_filter(i, m->n_mels, &m->filters[i]);
    clef__fourier_init(&m->fourier);
    for (size_t t = 0; t < m->n_frames; t += 2) {
        take_frame(m, t, frames[0]);
        take_frame(m, t + 1, frames[1]);
        clef__fourier_powers(&m->fourier, frames[0], frames[1], power[0], power[1]);
        write_frame(m, t, power[0]);
        write_frame(m, t + 1, power[1]);
    }
    raise_floor(m);
}

clef_status clef_log_mel(const float *samples, size_t n, int32_t n_mels, float **out, size_t *n_frames,
                         clef_error *err)
{
    mel m = {.samples = samples, .n = n, .n_frames = n / CLEF_SPEECH_HOP, .n_mels = n_mels};
    *out = NULL;
    if (n_mels < 1 || n_mels > MOST_MELS)
        return clef__fail(err, CLEF_E_ARG, "%d mel bins, expected 1 to %d", n_mels, MOST_MELS);
    if (n <= HALF)
        return clef__fail(err, CLEF_E_ARG, "a sound of %zu samples, expected at least %d", n, HALF + 1);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(samples[i]))
            return clef__fail(err, CLEF_E_ARG, "sample %zu of the sound is not finite", i);
    m.filters = malloc((size_t)n_mels * sizeof *m.filters);
    m.out = malloc((size_t)n_mels * m.n_frames * sizeof *m.out);
    if (!m.filters || !m.out) {
        free(m.filters);
        free(m.out);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a spectrogram of %zu frames", m.n_frames);
    }
    compute(&m);
    free(m.filters);
    *out = m.out;
    *n_frames = m.n_frames;
    return CLEF_OK;
}

void clef_features_free(float *features)
{
    free(features);
}
