/* Sounds and spectrograms: rates and channels, files that lie, and log-mel beside transformers'. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/model.h"
#include "clef/sound.h"
#include "media/speech/speech.h"
#include "runtime/os/os.h"
#include "tests/skip.h"

#define FOLDER CLEF_SOURCE_DIR "/tests/fixtures/speech/"

/* Whether this build has no library for the file. */
static int is_absent(const clef_error *err)
{
    return err->status == CLEF_E_UNSUPPORTED && strstr(err->text, "built without");
}

static float *read_tensor(clef_tensor_file *file, const char *name, size_t *n)
{
    clef_error err = {0};
    const int32_t i = clef_tensor_file_find(file, name);
    const clef_tensor_info t = clef_tensor_file_get(file, i);
    *n = (size_t)t.dims[0];
    for (int32_t d = 1; d < t.rank; d++)
        *n *= (size_t)t.dims[d];
    float *out = malloc(*n * sizeof *out);
    assert_non_null(out);
    ok(clef_tensor_file_read(file, i, CLEF_F32, out, *n, &err), &err);
    return out;
}

TEST(log_mel_is_that_of_transformers)
{
    static const int32_t bins[] = {80, 128};
    clef_tensor_file *file;
    clef_error err = {0};
    size_t n, n_wanted, n_frames;
    ok(clef_tensor_file_open(FOLDER "mel.safetensors", &file, &err), &err);
    float *samples = read_tensor(file, "samples", &n);
    for (size_t k = 0; k < 2; k++) {
        char name[16];
        float *got;
        snprintf(name, sizeof name, "mel%d", bins[k]);
        float *wanted = read_tensor(file, name, &n_wanted);
        ok(clef_log_mel(samples, n, bins[k], &got, &n_frames, &err), &err);
        assert_int_equal(n_frames, n / CLEF_SPEECH_HOP);
        assert_int_equal(n_frames * (size_t)bins[k], n_wanted);
        for (size_t i = 0; i < n_wanted; i++)
            if (!(fabsf(got[i] - wanted[i]) <= 1e-4F))
                fail_msg("%s[%zu]: expected %.7g, got %.7g", name, i, (double)wanted[i], (double)got[i]);
        clef_features_free(got);
        free(wanted);
    }
    clef_tensor_file_close(file);
    free(samples);
}

TEST(spectrograms_of_nothing_are_refused)
{
    float x[201] = {0}, *mel;
    size_t n_frames;
    clef_error err = {0};
    assert_int_equal(clef_log_mel(x, 200, 80, &mel, &n_frames, &err), CLEF_E_ARG);
    assert_int_equal(clef_log_mel(x, 201, 0, &mel, &n_frames, &err), CLEF_E_ARG);
    x[7] = NAN;
    assert_int_equal(clef_log_mel(x, 201, 80, &mel, &n_frames, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "sample 7"));
    x[7] = 0;
    ok(clef_log_mel(x, 201, 80, &mel, &n_frames, &err), &err);
    assert_int_equal(n_frames, 1);
    for (int i = 0; i < 80; i++) /* the floor of silence */
        assert_true(fabsf(mel[i] + 1.5F) < 1e-6F);
    clef_features_free(mel);
}

/* A sine of 1 kHz at 44.1 kHz in one of two channels becomes half as loud at 16 kHz. */
static void check_sine(const char *name, double tolerance)
{
    clef_sound sound;
    clef_error err = {0};
    double worst = 0, re = 0, im = 0;
    if (clef_sound_open(name, &(clef_sound_opts){.rate = 16000}, &sound, &err) != CLEF_OK) {
        if (!is_absent(&err))
            fail_msg("%s", err.text);
        return;
    }
    assert_int_equal(sound.rate, 16000);
    assert_int_equal(sound.file_rate, 44100);
    assert_int_equal(sound.file_channels, 2);
    if (sound.n < 8000 || sound.n > 9000)
        fail_msg("%s: expected about 8000 samples, got %zu", name, sound.n);
    for (size_t i = 2000; i < 6000; i++) {
        re += (double)sound.samples[i] * cos((double)i * 2 * 3.14159265358979 / 16) / 2000;
        im += (double)sound.samples[i] * sin((double)i * 2 * 3.14159265358979 / 16) / 2000;
    }
    for (size_t i = 2000; i < 6000; i++) {
        const double x =
            re * cos((double)i * 2 * 3.14159265358979 / 16) + im * sin((double)i * 2 * 3.14159265358979 / 16);
        worst = fabs((double)sound.samples[i] - x) > worst ? fabs((double)sound.samples[i] - x) : worst;
    }
    if (fabs(sqrt(re * re + im * im) - 0.2) > tolerance || worst > tolerance)
        fail_msg("%s: expected a sine of 0.2, got %.6f and up to %.6f beside it", name,
                 sqrt(re * re + im * im), worst);
    clef_sound_finish(&sound);
}

TEST(rates_and_channels_are_changed)
{
    check_sine(FOLDER "sine.flac", 1e-4);
    check_sine(FOLDER "sine.mp3", 0.01);
}

TEST(samples_of_16_bits_are_read_as_they_are)
{
    clef_sound sound;
    clef_error err = {0};
    clef_tensor_file *file;
    size_t n;
    if (clef_sound_open(FOLDER "short.wav", &(clef_sound_opts){.rate = 16000}, &sound, &err) != CLEF_OK) {
        if (!is_absent(&err))
            fail_msg("%s", err.text);
        return;
    }
    ok(clef_tensor_file_open(FOLDER "mel.safetensors", &file, &err), &err);
    float *wanted = read_tensor(file, "samples", &n);
    assert_int_equal(sound.n, n);
    assert_memory_equal(sound.samples, wanted, n * sizeof *wanted);
    free(wanted);
    clef_tensor_file_close(file);
    clef_sound_finish(&sound);
}

static clef_status read_bytes(const char *data, size_t n, clef_error *err)
{
    clef_sound sound;
    const clef_status s = clef_sound_read(data, n, "x", NULL, &sound, err);
    clef_sound_finish(&sound);
    return s;
}

static void put_length(char *data, size_t at, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        data[at + (size_t)i] = (char)(x >> 8 * i);
}

TEST(files_that_lie_are_refused)
{
    char *data;
    size_t n;
    clef_error err = {0};
    assert_int_equal(read_bytes("R", 1, &err), CLEF_E_FORMAT);
    assert_non_null(strstr(err.text, "1 bytes"));
    assert_int_equal(read_bytes("", 0, &err), CLEF_E_FORMAT);
    ok(clef__os_read(FOLDER "short.wav", 1 << 20, &data, &n, &err), &err);
    put_length(data, 40, 100000000); /* of the samples */
    const clef_status cut = read_bytes(data, n, &err);
    if (cut == CLEF_E_FORMAT)
        assert_non_null(strstr(err.text, "100000000"));
    assert_true(cut == CLEF_E_FORMAT || is_absent(&err));
    put_length(data, 40, UINT32_MAX); /* written to a pipe */
    const clef_status open = read_bytes(data, n, &err);
    assert_true(open == CLEF_OK || is_absent(&err));
    put_length(data, 40, 0);
    const clef_status none = read_bytes(data, 44, &err);
    if (none == CLEF_E_FORMAT)
        assert_non_null(strstr(err.text, "0 samples"));
    assert_true(none == CLEF_E_FORMAT || is_absent(&err));
    free(data);
}

TEST(long_sounds_are_refused)
{
    clef_sound sound;
    clef_error err = {0};
    const clef_status s =
        clef_sound_open(FOLDER "short.wav", &(clef_sound_opts){.max_seconds = 0.1}, &sound, &err);
    assert_true(s == CLEF_E_LIMIT || is_absent(&err));
    clef_sound_finish(&sound);
    assert_int_equal(clef_sound_open(FOLDER "none.wav", NULL, &sound, &err), CLEF_E_IO);
}

/* ---- frames of letters ----------------------------------------------------------------------------- */

/* The logits of samples as they are: the oracle's were normalised before. */
static void check_letters(clef_device *dev, const char *family, const char *sound)
{
    char path[1024], name[64];
    clef_error err = {0};
    clef_tensor_file *file;
    clef_model *model;
    clef_transcriber *t;
    const float *logits;
    int32_t n_frames;
    size_t n, n_wanted;
    snprintf(path, sizeof path, "%s/oracle/vision/%s", getenv("CLEF_SHARED"), family);
    ok(clef_model_open(path, &model, &err), &err);
    strcat(path, "/expected.safetensors");
    ok(clef_tensor_file_open(path, &file, &err), &err);
    snprintf(name, sizeof name, "input_values.%s", sound);
    float *samples = read_tensor(file, name, &n);
    snprintf(name, sizeof name, "logits.%s", sound);
    float *wanted = read_tensor(file, name, &n_wanted);
    ok(clef_transcriber_create(dev, model, &(clef_transcriber_opts){.compile = {.no_tune = 1, .no_proof = 1}},
                               &t, &err),
       &err);
    ok(clef__ctc_run(t, samples, (int32_t)n, &logits, &n_frames, &err), &err);
    assert_int_equal((size_t)n_frames * (size_t)clef_model_hparams(model)->n_vocab, n_wanted);
    for (size_t i = 0; i < n_wanted; i++)
        if (!(fabsf(logits[i] - wanted[i]) <= 1e-4F))
            fail_msg("%s, %s: logit %zu: expected %.7g, got %.7g", family, sound, i, (double)wanted[i],
                     (double)logits[i]);
    free(samples);
    free(wanted);
    clef_transcriber_destroy(t);
    clef_model_close(model);
    clef_tensor_file_close(file);
}

TEST(letters_of_frames_are_those_of_pytorch)
{
    clef_error err = {0};
    clef_device *dev;
    char path[1024];
    snprintf(path, sizeof path, "%s/oracle/vision/wav2vec2/config.json", getenv("CLEF_SHARED"));
    if (!clef__os_is_file(path))
        skip_without("oracle/vision/wav2vec2");
    ok(clef_device_open(NULL, NULL, &dev, &err), &err);
    check_letters(dev, "wav2vec2", "bursts");
    check_letters(dev, "wav2vec2-large", "bursts");
    clef_device_close(dev);
}

TESTS(NULL, NULL)
