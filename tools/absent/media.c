#include "clef/picture.h"
#include "clef/sound.h"
#include "clef/speech.h"
#include "tools/absent/absent.h"

clef_status clef_picture_read(const void *data, size_t n_bytes, const char *name,
                              const clef_picture_opts *opts, clef_picture *out, clef_error *err)
{
    (void)data, (void)n_bytes, (void)name, (void)opts;
    *out = (clef_picture){0};
    return CLI_ABSENT(err, "pictures", "CLEF_MEDIA");
}

clef_status clef_picture_open(const char *path, const clef_picture_opts *opts, clef_picture *out,
                              clef_error *err)
{
    return clef_picture_read(NULL, 0, path, opts, out, err);
}

void clef_picture_finish(clef_picture *picture)
{
    *picture = (clef_picture){0};
}

void clef_pixels_finish(clef_pixels *pixels)
{
    *pixels = (clef_pixels){0};
}

clef_status clef_picture_processor_create(const char *folder, clef_picture_processor **out, clef_error *err)
{
    (void)folder;
    *out = NULL;
    return CLI_ABSENT(err, "pictures", "CLEF_MEDIA");
}

clef_status clef_picture_processor_parse(const char *text, const char *name, clef_picture_processor **out,
                                         clef_error *err)
{
    (void)text, (void)name;
    *out = NULL;
    return CLI_ABSENT(err, "pictures", "CLEF_MEDIA");
}

void clef_picture_processor_destroy(clef_picture_processor *processor)
{
    (void)processor;
}

clef_status clef_picture_process(const clef_picture_processor *processor, const clef_picture *picture,
                                 clef_pixels *out, clef_error *err)
{
    (void)processor, (void)picture;
    *out = (clef_pixels){0};
    return CLI_ABSENT(err, "pictures", "CLEF_MEDIA");
}

clef_status clef_sound_read(const void *data, size_t n_bytes, const char *name, const clef_sound_opts *opts,
                            clef_sound *out, clef_error *err)
{
    (void)data, (void)n_bytes, (void)name, (void)opts;
    *out = (clef_sound){0};
    return CLI_ABSENT(err, "sounds", "CLEF_MEDIA");
}

clef_status clef_sound_open(const char *path, const clef_sound_opts *opts, clef_sound *out, clef_error *err)
{
    return clef_sound_read(NULL, 0, path, opts, out, err);
}

void clef_sound_finish(clef_sound *sound)
{
    *sound = (clef_sound){0};
}

clef_status clef_transcriber_create(clef_device *dev, clef_model *model, const clef_transcriber_opts *opts,
                                    clef_transcriber **out, clef_error *err)
{
    (void)dev, (void)model, (void)opts;
    *out = NULL;
    return CLI_ABSENT(err, "speech", "CLEF_MEDIA");
}

void clef_transcriber_destroy(clef_transcriber *transcriber)
{
    (void)transcriber;
}

int32_t clef_transcriber_is_multilingual(const clef_transcriber *transcriber)
{
    (void)transcriber;
    return 0;
}

int32_t clef_transcriber_knows(const clef_transcriber *transcriber, const char *language)
{
    (void)transcriber, (void)language;
    return 0;
}

const clef_plan *clef_transcriber_plan(const clef_transcriber *transcriber, int32_t i)
{
    (void)transcriber, (void)i;
    return NULL;
}

const char *clef_language_name(const char *code)
{
    (void)code;
    return NULL;
}

clef_status clef_transcribe(clef_transcriber *transcriber, const float *samples, size_t n,
                            const clef_transcribe_opts *opts, clef_transcript *out, clef_error *err)
{
    (void)transcriber, (void)samples, (void)n, (void)opts;
    *out = (clef_transcript){0};
    return CLI_ABSENT(err, "speech", "CLEF_MEDIA");
}

void clef_transcript_finish(clef_transcript *transcript)
{
    *transcript = (clef_transcript){0};
}
