/* Fuzzes the readers of sounds: decodes a file, changes its rate and reads each sample of what was made. */
#include <stdint.h>
#include <stdlib.h>

#include "clef/sound.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* libsndfile 1.2 forgets what libvorbis has, where the first page of an Ogg file is all there is. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:vorbis_info_init\n";
}

static volatile double sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    clef_sound sound;
    clef_error err;
    if (clef_sound_read(data, n_bytes, "fuzz", &(clef_sound_opts){.rate = 16000, .max_samples = 20000},
                        &sound, &err))
        return 0;
    for (size_t i = 0; i < sound.n; i++)
        sink += (double)sound.samples[i];
    clef_sound_finish(&sound);
    return 0;
}
