/* The readers of sounds. They give the samples of all channels to clef__sound_add(), block by block. */
#ifndef CLEF_MEDIA_DECODE_SOUND_H
#define CLEF_MEDIA_DECODE_SOUND_H

#include "clef/sound.h"
#include "graph/fail.h"

enum { CLEF__MOST_CHANNELS = 64, CLEF__LEAST_RATE = 1000, CLEF__MOST_RATE = 768000 };

typedef struct clef__sound_file {
    const unsigned char *data;
    size_t n_bytes;
    const char *name;
    double max_seconds;
    size_t max_samples; /* 0: no limit */
    clef_sound *out;
    size_t capacity; /* of out->samples */
} clef__sound_file;

/** Notes the rate and the number of channels; CLEF_E_LIMIT, CLEF_E_UNSUPPORTED if they are beyond bounds or
 *  change. */
clef_status clef__sound_form(clef__sound_file *f, int64_t rate, int64_t channels, clef_error *err);
/** Appends the mean of the channels of n frames [n, channels]. CLEF_E_LIMIT, CLEF_E_NOMEM, CLEF_E_FORMAT. */
clef_status clef__sound_add(clef__sound_file *f, const float *frames, size_t n, clef_error *err);

clef_status clef__sound_sndfile(clef__sound_file *f, clef_error *err);
clef_status clef__sound_mp3(clef__sound_file *f, clef_error *err);

/** Changes the rate of the samples. CLEF_E_NOMEM, CLEF_E_LIMIT. */
clef_status clef__resample(clef_sound *sound, int32_t rate, clef_error *err);

#endif
