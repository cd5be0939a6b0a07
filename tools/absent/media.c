#include "clef/picture.h"
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
