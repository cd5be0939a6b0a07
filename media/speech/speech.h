/* A transcriber: what its files share. */
#ifndef CLEF_MEDIA_SPEECH_H
#define CLEF_MEDIA_SPEECH_H

#include "clef/speech.h"
#include "model/session/session.h"

/** What a token of a time counts: two frames of 10 ms. */
#define CLEF__SECONDS_OF_TIME 0.02
enum { CLEF__MOST_LANGUAGES = 128, CLEF__MOST_HEADS = 256, CLEF__MOST_TAPS = 64 };

/** Whisper's special tokens; -1: none. */
typedef struct clef__speech_tokens {
    int32_t start, transcribe, translate, no_timestamps, previous, no_speech, end;
    int32_t first_time; /* <|0.00|>, the first of the timestamps, which are the vocabulary's last tokens */
    int32_t languages[CLEF__MOST_LANGUAGES], n_languages;
    char    codes[CLEF__MOST_LANGUAGES][8];
} clef__speech_tokens;

typedef struct clef__alignment_head {
    int32_t layer, head;
} clef__alignment_head;

struct clef_transcriber {
    clef_model           *model;
    const clef_hparams   *hp;
    const clef_tokenizer *tok;
    clef_transcriber_opts opts;
    clef_session         *session;
    clef__speech_tokens   tokens;
    int32_t               max_length, max_initial; /* of generation_config.json; -1: none */
    clef__alignment_head  heads[CLEF__MOST_HEADS]; /* sorted by layer */
    int32_t               n_heads;
    int32_t               median_width;
    char                  tap_names[CLEF__MOST_TAPS][40]; /* with words: the attention of the heads' layers */
    const char           *taps[CLEF__MOST_TAPS];
    float                *logits; /* [n_vocab] */
    struct clef__ctc     *ctc;    /* NULL, or all of a model without a decoder: there is no session then */
};

/** A window: its prompt, and what was written down. */
typedef struct clef__window {
    int32_t *prompt, n_prompt; /* [n_context] */
    int32_t  n_start;          /* the last of the prompt: start, language, task .. */
    int32_t *ids, n;           /* [n_context]: without the end */
    int32_t  is_timed;         /* timestamps are wanted */
    int32_t  n_frames;         /* of sound in it */
    float    temperature, avg_logprob, compression_ratio, no_speech_prob;
} clef__window;

/** Fills t->tokens, t->heads and the limits. CLEF_E_FORMAT, CLEF_E_UNSUPPORTED. */
clef_status clef__speech_tokens_read(clef_transcriber *t, clef_error *err);
/** The token of a language by code or name; -1: the model does not have it. */
int32_t     clef__speech_language(const clef_transcriber *t, const char *name);

/** Bans tokens after `ids` [n], the window's text so far: the rules of Whisper's decoder. */
void clef__speech_ban(const clef_transcriber *t, const clef__window *w, const int32_t *ids, int32_t n,
                      float *logits);

/** Writes the window down, at the first temperature whose text passes the checks. *skip: it is silence. The
 *  session has heard it. */
clef_status clef__window_decode(clef_transcriber *t, const clef_transcribe_opts *o, clef__window *w,
                                int32_t *skip, clef_error *err);
/** Feeds the window's start, and reads how likely silence is; *language: NULL, or set to the likeliest
 *  language's token. */
clef_status clef__window_begin(clef_transcriber *t, clef__window *w, int32_t *language, clef_error *err);

/** How many times shorter zlib makes the ids [n]; 0: not known. */
float clef__compression_ratio(const int32_t *ids, int32_t n, int32_t n_vocab);

/** The time in seconds from the window's start at which each of the window's ids is said, by dynamic time
 *  warping over the attention to the source: times [w->n + 1]. */
clef_status clef__speech_align(clef_transcriber *t, const clef__window *w, double *times, clef_error *err);

/** Divides the window's text into segments, which are appended to `out`. seek: its first frame; times: NULL,
 *  or of clef__speech_align(). *n_frames: how far the next window is behind. */
clef_status clef__window_segments(const clef_transcriber *t, const clef__window *w, int32_t seek,
                                  const double *times, clef_transcript *out, int32_t *n_frames,
                                  clef_error *err);
/** The text of ids without special tokens; the caller frees *out. */
clef_status clef__speech_text(const clef_transcriber *t, const int32_t *ids, int32_t n, char **out,
                              clef_error *err);
/** Divides a segment's ids into words; times [n + 1] of the ids. */
clef_status clef__segment_words(const clef_transcriber *t, const char *language, const double *times,
                                double offset, clef_segment *segment, clef_error *err);
void clef__segment_finish(clef_segment *segment);

/** Models without a decoder (wav2vec 2.0): fills t->ctc, by t->model, t->hp and t->opts. CLEF_E_NOT_FOUND,
 *  CLEF_E_FORMAT, CLEF_E_UNSUPPORTED. */
clef_status clef__ctc_create(clef_transcriber *t, clef_device *dev, clef_error *err);
void        clef__ctc_destroy(struct clef__ctc *ctc);
const clef_plan *clef__ctc_plan(const struct clef__ctc *ctc);
/** The logits [n_frames, n_vocab] of a sound, until the next call. */
clef_status clef__ctc_run(clef_transcriber *t, const float *samples, int32_t n, const float **logits,
                          int32_t *n_frames, clef_error *err);
/** Fills the segments of `out`. */
clef_status clef__ctc_transcribe(clef_transcriber *t, const clef_transcribe_opts *o, const float *samples,
                                 size_t n, clef_transcript *out, clef_error *err);

#endif
