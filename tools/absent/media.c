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
