/* Which decoder reads a picture, and the limits that all of them keep. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "media/picture/decode.h"
#include "runtime/os/os.h"

static const int64_t most_pixels = 100000000, most_bytes = INT64_C(256) << 20;

typedef clef_status (*decoder)(clef__picture_file *f, clef_picture *out, clef_error *err);

/* Formats by their first bytes. `and_then` is expected at offset 8; without a decoder they are refused. */
static const struct {
    const char *begin, *and_then, *name;
    size_t n;
    decoder decode;
} formats[] = {
    {"\x89PNG\r\n\x1a\n", NULL, "PNG", 8, clef__picture_png},
    {"\xff\xd8", NULL, "JPEG", 2, clef__picture_jpeg},
    {"RIFF", "WEBP", "WebP", 4, clef__picture_webp},
    {"P6", NULL, "PPM", 2, clef__picture_ppm},
    {"P5", NULL, "PGM", 2, clef__picture_ppm},
    {"GIF8", NULL, "GIF", 4, NULL},
    {"BM", NULL, "BMP", 2, NULL},
    {"II*\0", NULL, "TIFF", 4, NULL},
    {"MM\0*", NULL, "TIFF", 4, NULL},
    {"\0\0\0", "avif", "AVIF", 3, NULL},
    {"\0\0\0", "heic", "HEIC", 3, NULL},
    {"<svg", NULL, "SVG", 4, NULL},
    {"%PDF", NULL, "PDF", 4, NULL},
};

clef_status clef__picture_allocate(const clef__picture_file *f, uint64_t width, uint64_t height,
                                   clef_picture *out, clef_error *err)
{
    if (!width || !height)
        return clef__fail(err, CLEF_E_FORMAT, "%s: a picture of %" PRIu64 " x %" PRIu64 " pixels", f->name,
                          width, height);
    if (width <= INT32_MAX && height <= INT32_MAX) {
        out->width = (int32_t)width;
        out->height = (int32_t)height;
    }
    if (!out->width || width * height > (uint64_t)f->max_pixels)
        return clef__fail(err, CLEF_E_LIMIT,
                          "%s: %" PRIu64 " x %" PRIu64 " pixels, expected at most %" PRId64 " in all",
                          f->name, width, height, f->max_pixels);
    out->rgb = malloc((size_t)(width * height * 3));
    return out->rgb ? CLEF_OK
                    : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for %" PRIu64 " x %" PRIu64 " pixels",
                                 f->name, width, height);
}

static int starts(const clef__picture_file *f, size_t at, const char *with, size_t n)
{
    return f->n_bytes >= at + n && memcmp(f->data + at, with, n) == 0;
}

static clef_status decode(clef__picture_file *f, clef_picture *out, clef_error *err)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!starts(f, 0, formats[i].begin, formats[i].n) ||
            (formats[i].and_then && !starts(f, 8, formats[i].and_then, 4)))
            continue;
        if (formats[i].decode)
            return formats[i].decode(f, out, err);
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: its format is %s, expected PNG, JPEG, WebP or PPM",
                          f->name, formats[i].name);
    }
    return clef__fail(err, CLEF_E_FORMAT,
                      "%s: %zu bytes that are not a picture, expected PNG, JPEG, WebP or PPM", f->name,
                      f->n_bytes);
}

clef_status clef_picture_read(const void *data, size_t n_bytes, const char *name,
                              const clef_picture_opts *opts, clef_picture *out, clef_error *err)
{
    clef__picture_file f = {.data = data,
                            .n_bytes = n_bytes,
                            .name = name ? name : "picture",
                            .max_pixels = opts && opts->max_pixels ? opts->max_pixels : most_pixels};
    *out = (clef_picture){0};
    if (f.max_pixels < 0)
        return clef__fail(err, CLEF_E_ARG, "max_pixels %" PRId64 ", expected at least 0", f.max_pixels);
    clef_status status = decode(&f, out, err);
    if (status == CLEF_OK)
        status = clef__picture_turn(out, f.orientation, err);
    const clef_picture size = {.width = out->width, .height = out->height};
    if (status != CLEF_OK)
        clef_picture_finish(out);
    if (status == CLEF_E_LIMIT)
        *out = size;
    return status;
}

void clef_picture_finish(clef_picture *picture)
{
    free(picture->rgb);
    *picture = (clef_picture){0};
}

clef_status clef_picture_open(const char *path, const clef_picture_opts *opts, clef_picture *out,
                              clef_error *err)
{
    const int64_t max = opts && opts->max_bytes ? opts->max_bytes : most_bytes;
    char *data = NULL;
    size_t n = 0;
    *out = (clef_picture){0};
    if (max < 0)
        return clef__fail(err, CLEF_E_ARG, "max_bytes %" PRId64 ", expected at least 0", max);
    clef_status status = clef__os_read(path, (size_t)max, &data, &n, err);
    if (status == CLEF_OK)
        status = clef_picture_read(data, n, path, opts, out, err);
    free(data);
    return status;
}
