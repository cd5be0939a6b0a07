/* Pictures: reading PNG, JPEG, WebP and PPM, and making of them what a model reads. */
#ifndef CLEF_PICTURE_H
#define CLEF_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rows from the top; three bytes a pixel, red, green and blue, without gaps between rows. Free with
 *  clef_picture_finish(), which accepts a zeroed picture, too. */
typedef struct clef_picture {
    int32_t  width, height;
    uint8_t *rgb; /* [height, width, 3] */
} clef_picture;

typedef struct clef_picture_opts {
    int64_t max_pixels; /* a larger picture is refused before it is decoded; 0: 100,000,000 */
    int64_t max_bytes;  /* clef_picture_open(): of a file; 0: 256 MiB */
} clef_picture_opts;

/** Decodes a file's bytes. Its first bytes decide what it is: PNG, JPEG, WebP, or a PPM or PGM of 8 bits
 *  (P5, P6). Grey and palettes become RGB, 16 bits become 8, transparency is left out, and the picture is
 *  turned as its Exif orientation says: all as Pillow does, which clips grey of 16 bits, though. name: what
 *  errors call it; opts: NULL for all 0.
 *  CLEF_E_FORMAT (damaged, or cut short), CLEF_E_UNSUPPORTED (another format; an animation; a format that
 *  this build has no library for), CLEF_E_LIMIT (more than max_pixels; *out has the size without pixels, 0
 *  where a side is beyond 31 bits), CLEF_E_NOMEM. */
CLEF_API clef_status clef_picture_read(const void *data, size_t n_bytes, const char *name,
                                       const clef_picture_opts *opts, clef_picture *out, clef_error *err);
/** Reads and decodes a file. CLEF_E_IO, and statuses of clef_picture_read(). */
CLEF_API clef_status clef_picture_open(const char *path, const clef_picture_opts *opts, clef_picture *out,
                                       clef_error *err);
CLEF_API void        clef_picture_finish(clef_picture *picture);

/** What a model reads: numbers in planes, one for each of red, green and blue. Some models read a picture as
 *  tiles, with the whole picture before them (LLaVA-NeXT) or behind them. Free with clef_pixels_finish(),
 *  which accepts a zeroed one, too. */
typedef struct clef_pixels {
    int32_t height, width;
    float  *values; /* [n, 3, height, width] */
    int32_t n;      /* 0 counts as 1 */
    int32_t rows, columns; /* of the tiles in the picture; 0: there are none */
} clef_pixels;
CLEF_API void clef_pixels_finish(clef_pixels *pixels);

/** The steps from a picture to a model's pixels, as the model's preprocessor_config.json lists them:
 *  resizing, cropping from the centre, rescaling, normalising. The arithmetic is that of transformers' image
 *  processors: Pillow's resizing of bytes (DINOv3: of floats), then float32. */
typedef struct clef_picture_processor clef_picture_processor;

/** Reads FOLDER/preprocessor_config.json (else FOLDER/processor_config.json's image_processor). A key that
 *  would change the pixels and that clef does not know is refused by its name. Free with
 *  clef_picture_processor_destroy(), which accepts NULL. CLEF_E_NOT_FOUND (no such file), CLEF_E_IO,
 *  CLEF_E_FORMAT, CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
CLEF_API clef_status clef_picture_processor_create(const char *folder, clef_picture_processor **out,
                                                   clef_error *err);
/** Reads the text of a preprocessor_config.json, which errors call `name`. As above. */
CLEF_API clef_status clef_picture_processor_parse(const char *text, const char *name,
                                                  clef_picture_processor **out, clef_error *err);
CLEF_API void        clef_picture_processor_destroy(clef_picture_processor *processor);
/** Makes pixels of a picture. CLEF_E_LIMIT (they would be too many), CLEF_E_NOMEM. */
CLEF_API clef_status clef_picture_process(const clef_picture_processor *processor,
                                          const clef_picture *picture, clef_pixels *out, clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
