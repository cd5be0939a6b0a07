/* Which library reads a sound, and the limits that all of them keep. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "media/sound/decode.h"
#include "runtime/os/os.h"

static const double most_seconds = 4 * 3600;
static const int64_t most_bytes = INT64_C(4) << 30;

clef_status clef__sound_form(clef__sound_file *f, int64_t rate, int64_t channels, clef_error *err)
{
    clef_sound *out = f->out;
    if (rate < CLEF__LEAST_RATE || rate > CLEF__MOST_RATE || channels < 1 || channels > CLEF__MOST_CHANNELS)
        return clef__fail(err, CLEF_E_LIMIT,
                          "%s: %" PRId64 " channels at %" PRId64
                          " Hz: expected 1 to %d channels, %d to %d Hz",
                          f->name, channels, rate, CLEF__MOST_CHANNELS, CLEF__LEAST_RATE, CLEF__MOST_RATE);
    if (out->file_rate && (out->file_rate != rate || out->file_channels != channels))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: after %zu samples it changes from %" PRId32 " channels at %" PRId32
                          " Hz to %" PRId64 " at %" PRId64,
                          f->name, out->n, out->file_channels, out->file_rate, channels, rate);
    out->file_rate = out->rate = (int32_t)rate;
    out->file_channels = (int32_t)channels;
    return CLEF_OK;
}

static clef_status grow(clef__sound_file *f, size_t n, clef_error *err)
{
    const size_t wanted = f->out->n + n;
    if ((double)wanted > f->max_seconds * f->out->rate)
        return clef__fail(err, CLEF_E_LIMIT, "%s: a sound of more than %g seconds, expected at most that",
                          f->name, f->max_seconds);
    if (f->max_samples && wanted > f->max_samples)
        return clef__fail(err, CLEF_E_LIMIT, "%s: a sound of more than %zu samples, expected at most that",
                          f->name, f->max_samples);
    if (wanted <= f->capacity)
        return CLEF_OK;
    size_t capacity = wanted + wanted / 2;
    if (f->max_samples && capacity > f->max_samples)
        capacity = f->max_samples;
    float *more = realloc(f->out->samples, capacity * sizeof *more);
    if (!more)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %zu samples", f->name, capacity);
    f->out->samples = more;
    f->capacity = capacity;
    return CLEF_OK;
}

clef_status clef__sound_add(clef__sound_file *f, const float *frames, size_t n, clef_error *err)
{
    const size_t channels = (size_t)f->out->file_channels;
    const clef_status s = grow(f, n, err);
    for (size_t i = 0; i < n && !s; i++) {
        double sum = 0;
        for (size_t c = 0; c < channels; c++)
            sum += (double)frames[i * channels + c];
        if (!isfinite(sum))
            return clef__fail(err, CLEF_E_FORMAT, "%s: sample %zu is not finite", f->name, f->out->n);
        f->out->samples[f->out->n++] = (float)(sum / (double)channels);
    }
    return s;
}

/* ---- formats --------------------------------------------------------------------------------------- */

static uint32_t u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* libsndfile reads what there is of a WAV. Its samples must be as many as it says, unless it was written to a
 * pipe, when the length is 0 or all ones. */
static clef_status check_wav(const clef__sound_file *f, clef_error *err)
{
    size_t at = 12;
    while (at + 8 <= f->n_bytes) {
        const uint64_t said = u32(f->data + at + 4), left = f->n_bytes - at - 8;
        const int is_data = memcmp(f->data + at, "data", 4) == 0, is_open = said >= INT32_MAX || said == 0;
        if (is_data && said > left && !is_open)
            return clef__fail(err, CLEF_E_FORMAT,
                              "%s: cut short: it says that it has %" PRIu64 " bytes of samples, got %" PRIu64,
                              f->name, said, left);
        if (is_data || said > left)
            break;
        at += 8 + (size_t)said + (size_t)(said & 1);
    }
    return CLEF_OK;
}

static int starts(const clef__sound_file *f, const char *with)
{
    const size_t n = strlen(with);
    return f->n_bytes >= n && memcmp(f->data, with, n) == 0;
}

/* An MP3 has an ID3 tag, or begins with a frame: eleven bits, then a version, layer and rate that exist. */
static int is_mp3(const clef__sound_file *f)
{
    const unsigned char *p = f->data;
    if (starts(f, "ID3"))
        return 1;
    return f->n_bytes >= 4 && p[0] == 0xff && (p[1] & 0xe0) == 0xe0 && (p[1] & 0x18) != 0x08 &&
           (p[1] & 0x06) != 0 && (p[2] & 0xf0) != 0xf0 && (p[2] & 0x0c) != 0x0c;
}

static clef_status decode(clef__sound_file *f, clef_error *err)
{
    static const char *const known[] = {"RIFF", "RF64", "fLaC", "OggS", "FORM", ".snd", "caff", "riff"};
    if (is_mp3(f))
        return clef__sound_mp3(f, err);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!starts(f, known[i]))
            continue;
        const clef_status s = i == 0 ? check_wav(f, err) : CLEF_OK;
        return s ? s : clef__sound_sndfile(f, err);
    }
    return clef__fail(err, CLEF_E_FORMAT,
                      "%s: %zu bytes that are not a sound, expected WAV, FLAC, Ogg, AIFF, AU, CAF or MP3",
                      f->name, f->n_bytes);
}

clef_status clef_sound_read(const void *data, size_t n_bytes, const char *name, const clef_sound_opts *opts,
                            clef_sound *out, clef_error *err)
{
    const clef_sound_opts o = opts ? *opts : (clef_sound_opts){0};
    clef__sound_file f = {.data = data,
                          .n_bytes = n_bytes,
                          .name = name ? name : "sound",
                          .max_seconds = o.max_seconds > 0 ? o.max_seconds : most_seconds,
                          .max_samples = o.max_samples > 0 ? (size_t)o.max_samples : 0,
                          .out = out};
    *out = (clef_sound){0};
    if (o.rate && (o.rate < CLEF__LEAST_RATE || o.rate > CLEF__MOST_RATE))
        return clef__fail(err, CLEF_E_ARG, "%" PRId32 " Hz, expected %d to %d", o.rate, CLEF__LEAST_RATE,
                          CLEF__MOST_RATE);
    clef_status s = decode(&f, err);
    if (!s && !out->n)
        s = clef__fail(err, CLEF_E_FORMAT, "%s: a sound of 0 samples", f.name);
    if (!s && o.rate)
        s = clef__resample(out, o.rate, err);
    if (s)
        clef_sound_finish(out);
    return s;
}

void clef_sound_finish(clef_sound *sound)
{
    free(sound->samples);
    *sound = (clef_sound){0};
}

clef_status clef_sound_open(const char *path, const clef_sound_opts *opts, clef_sound *out, clef_error *err)
{
    const int64_t max = opts && opts->max_bytes ? opts->max_bytes : most_bytes;
    char *data = NULL;
    size_t n = 0;
    *out = (clef_sound){0};
    if (max < 0)
        return clef__fail(err, CLEF_E_ARG, "max_bytes %" PRId64 ", expected at least 0", max);
    clef_status status = clef__os_read(path, (size_t)max, &data, &n, err);
    if (!status)
        status = clef_sound_read(data, n, path, opts, out, err);
    free(data);
    return status;
}
