/* Speech: spectrograms of sounds as Whisper hears them, and texts of what is said in them.
 *
 * A build without the room media/ (cmake -DCLEF_MEDIA=OFF) has none of these functions. */
#ifndef CLEF_SPEECH_H
#define CLEF_SPEECH_H

#include <stddef.h>
#include <stdint.h>

#include "clef/generate.h"
#include "clef/model.h"
#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whisper's sounds: samples a second, samples from frame to frame, frames and samples of a window. */
enum {
    CLEF_SPEECH_RATE = 16000,
    CLEF_SPEECH_HOP = 160,
    CLEF_SPEECH_FRAMES = 3000,
    CLEF_SPEECH_SAMPLES = CLEF_SPEECH_FRAMES * CLEF_SPEECH_HOP
};

/** The log-mel spectrogram of mono samples at 16 kHz, as WhisperFeatureExtractor of transformers makes it:
 *  frames of 400 samples under Hann's window, Slaney's mel scale up to 8 kHz, log10, the floor 8 below the
 *  largest number, then (x + 4) / 4.
 *
 *  samples  [n] within -1 .. 1; a number that is not finite is CLEF_E_ARG.
 *  n_mels   80 or 128 (1 to 256).
 *  out      F32 [n_mels, n_frames] with n_frames = n / 160, to be freed by clef_features_free().
 *
 *  n must be at least 201, for the first frame reaches 200 samples back and mirrors them: CLEF_E_ARG.
 *  CLEF_E_NOMEM. */
CLEF_API clef_status clef_log_mel(const float *samples, size_t n, int32_t n_mels, float **out,
                                  size_t *n_frames, clef_error *err);
CLEF_API void        clef_features_free(float *features);

/* ---- what is said ---------------------------------------------------------------------------- */

typedef struct clef_transcriber clef_transcriber;

typedef struct clef_transcriber_opts {
    int32_t           n_beams; /* 0: one token after another is sampled; else beams, at temperature 0 */
    int32_t           words;   /* 1: clef_transcribe() can give the times of words; steps then cost more */
    clef_dtype        kv_type; /* of the KV cache, as in clef_build_opts */
    clef_compile_opts compile;
} clef_transcriber_opts;

/** Makes a transcriber of a Whisper model, or of wav2vec 2.0 or HuBERT with CTC. These have no decoder: they
 *  take no language, translation, prompt or beams, and ignore the options of Whisper's checks. dev and model
 *  are borrowed and must outlive it. CLEF_E_UNSUPPORTED for another model, CLEF_E_FORMAT where
 *  generation_config.json lacks or misstates something, else as clef_session_create(). */
CLEF_API clef_status clef_transcriber_create(clef_device *dev, clef_model *model,
                                             const clef_transcriber_opts *opts, clef_transcriber **out,
                                             clef_error *err);
CLEF_API void        clef_transcriber_destroy(clef_transcriber *transcriber);
/** 1 for a model of several languages; others know English alone, and do not translate. */
CLEF_API int32_t clef_transcriber_is_multilingual(const clef_transcriber *transcriber);
/** 1 if the model knows a language, by its code or name. A model of English alone knows that. */
CLEF_API int32_t clef_transcriber_knows(const clef_transcriber *transcriber, const char *language);
/** As clef_session_plan(): of the decoder (i = 0) and of the encoder (1). */
CLEF_API const clef_plan *clef_transcriber_plan(const clef_transcriber *transcriber, int32_t i);
/** The numbers of a frame of the spectrograms that the model hears. */
CLEF_API int32_t clef_transcriber_n_mels(const clef_transcriber *transcriber);
/** The name of a language by its code ("de": "german"); NULL: not one of Whisper's. */
CLEF_API const char *clef_language_name(const char *code);

typedef struct clef_word {
    char  *text;       /* with the space before it */
    double start, end; /* seconds */
} clef_word;

/** A part of the text, with what its window of 30 seconds was like. */
typedef struct clef_segment {
    double     start, end;  /* seconds */
    char      *text;
    int32_t   *ids, n_ids;  /* with timestamps */
    clef_word *words;
    int32_t    n_words;
    int32_t    seek;        /* the frame at which the window begins: 100 of them are a second */
    float      temperature, avg_logprob, compression_ratio, no_speech_prob;
} clef_segment;

typedef struct clef_transcript {
    char          language[8]; /* its code */
    double        duration;    /* of the sound, in seconds */
    char         *text;
    clef_segment *segments;
    int32_t       n_segments;
} clef_transcript;

typedef struct clef_transcribe_opts {
    const char *language;     /* a code, or a name ("german"); NULL: detected in the first window */
    int32_t     translate;    /* 1: to English */
    const char *prompt;       /* NULL, or a text that might have come before */
    int32_t     condition;    /* 1: each window sees the text before it */
    int32_t     timestamps;   /* 1: segments are those between the model's timestamps; 0: only of sounds
                                 above 30 seconds, else one segment */
    int32_t     words;        /* 1: with the times of words; needs clef_transcriber_opts.words. Implies
                                 timestamps */
    /* Temperatures to try: the next one where a window's text fails a check below. NULL: 0, 0.2 .. 1 */
    const float *temperatures;
    int32_t     n_temperatures;
    float       most_compression; /* a text that compresses better is a loop; 0: 2.4; below 0: no check */
    float       least_logprob;    /* mean log-probability of its tokens; 0: -1; above 0: no check */
    /* A window that is silence with more than this probability, and whose text fails the check of
     * least_logprob, is skipped; 0: 0.6; below 0: no check */
    float       most_no_speech;
    int32_t     n_max;            /* most tokens of a window; 0: the model's limit */
    uint64_t    seed;
    /* NULL, or called with each segment; another status than CLEF_OK ends the call, which returns it */
    clef_status (*segment)(void *user, const clef_segment *segment, clef_error *err);
    void       *segment_user;
    clef_progress progress;       /* NULL, or called with "transcribe", frames done, all frames */
    void       *progress_user;
} clef_transcribe_opts;

/** Writes down what is said in mono samples at 16 kHz: the sequential algorithm of the paper
 *  (arXiv:2212.04356, section 3.8), as transformers' generate() has it. Windows of 30 seconds follow each
 *  other by the model's timestamps.
 *
 *  opts  NULL: all zero.
 *  out   to be finished by clef_transcript_finish().
 *
 *  A sound shorter than a frame has no text: 160 samples, of wav2vec 2.0 400. CLEF_E_ARG: a sample that is
 *  not finite; a
 *  language, task or temperature that the model does not have. CLEF_E_CANCELLED, CLEF_E_NOT_FINITE,
 *  CLEF_E_NOMEM, CLEF_E_CL. */
CLEF_API clef_status clef_transcribe(clef_transcriber *transcriber, const float *samples, size_t n,
                                     const clef_transcribe_opts *opts, clef_transcript *out, clef_error *err);
/** Accepts zeroed structs. */
CLEF_API void clef_transcript_finish(clef_transcript *transcript);

#ifdef __cplusplus
}
#endif
#endif
