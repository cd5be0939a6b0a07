/* The decoders of clef_picture_read(). */
#ifndef CLEF_MEDIA_PICTURE_DECODE_H
#define CLEF_MEDIA_PICTURE_DECODE_H

#include "clef/picture.h"
#include "graph/fail.h"

/** A file that is being decoded. */
typedef struct clef__picture_file {
    const uint8_t *data;
    size_t         n_bytes;
    const char    *name;       /* for errors */
    int64_t        max_pixels;
    int            orientation; /* set by decoders: Exif's, 1 to 8; 0 where the file has none */
} clef__picture_file;

/** Each fills `out`, whose rgb is then to be freed even after an error. */
clef_status clef__picture_png(clef__picture_file *f, clef_picture *out, clef_error *err);
clef_status clef__picture_jpeg(clef__picture_file *f, clef_picture *out, clef_error *err);
clef_status clef__picture_webp(clef__picture_file *f, clef_picture *out, clef_error *err);
clef_status clef__picture_ppm(clef__picture_file *f, clef_picture *out, clef_error *err);

/** Checks a size against the limit and allocates out->rgb. */
clef_status clef__picture_allocate(const clef__picture_file *f, uint64_t width, uint64_t height,
                                   clef_picture *out, clef_error *err);
/** The orientation in an Exif block, which begins with its TIFF header; 0 where there is none. */
int         clef__exif_orientation(const uint8_t *tiff, size_t n_bytes);
/** Turns and mirrors a picture so that orientation 1 is left. CLEF_E_NOMEM. */
clef_status clef__picture_turn(clef_picture *picture, int orientation, clef_error *err);

#endif
