/* Sounds: reading WAV, FLAC, Ogg, AIFF, MP3 and others as samples of one channel. */
#ifndef CLEF_SOUND_H
#define CLEF_SOUND_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Samples of one channel, about -1 to 1. Free with clef_sound_finish(), which accepts a zeroed sound. */
typedef struct clef_sound {
    float  *samples;
    size_t  n;
    int32_t rate;                       /* of the samples, per second */
    int32_t file_rate, file_channels;   /* of the file */
} clef_sound;

typedef struct clef_sound_opts {
    int32_t rate;        /* of the samples; 0: the file's */
    double  max_seconds; /* a longer sound is refused; 0: 4 hours */
    int64_t max_samples; /* of the file, at its own rate; more are refused; 0: no limit of their number */
    int64_t max_bytes;   /* clef_sound_open(): of a file; 0: 4 GiB */
} clef_sound_opts;

/** Decodes a file's bytes. Its first bytes decide what it is. Channels become their mean. Another rate is
 *  made by a windowed sinc: Kaiser's window, 24 zero crossings, up to 0.945 of the lower rate's half.
 *
 *  name: what errors call it; opts: NULL for all 0.
 *
 *  CLEF_E_FORMAT (damaged; shorter than it says; without samples; a sample that is not finite),
 *  CLEF_E_UNSUPPORTED (another format; one that this build has no library for), CLEF_E_LIMIT,
 *  CLEF_E_NOMEM. */
CLEF_API clef_status clef_sound_read(const void *data, size_t n_bytes, const char *name,
                                     const clef_sound_opts *opts, clef_sound *out, clef_error *err);
/** Reads and decodes a file. CLEF_E_IO, and statuses of clef_sound_read(). */
CLEF_API clef_status clef_sound_open(const char *path, const clef_sound_opts *opts, clef_sound *out,
                                     clef_error *err);
CLEF_API void        clef_sound_finish(clef_sound *sound);

#ifdef __cplusplus
}
#endif
#endif
