/* Resizing with antialiasing, as Pillow 13 does it: along the rows and along the columns. */
#ifndef CLEF_MEDIA_PICTURE_RESIZE_H
#define CLEF_MEDIA_PICTURE_RESIZE_H

#include "clef/picture.h"
#include "graph/fail.h"

/** Filters, by Pillow's numbers (PIL.Image.Resampling). */
typedef enum clef__filter {
    CLEF__NEAREST,
    CLEF__LANCZOS,
    CLEF__BILINEAR,
    CLEF__BICUBIC,
    CLEF__BOX,
    CLEF__HAMMING,
    CLEF__N_FILTERS
} clef__filter;

/** A new picture of that size, of bytes: each pass rounds to bytes, by weights of 22 bits. in and *out are
 *  different pictures. CLEF_E_NOMEM. */
clef_status clef__resize(const clef_picture *in, int32_t height, int32_t width, clef__filter filter,
                         clef_picture *out, clef_error *err);
/** As clef__resize(), for floats, which are not rounded: PyTorch's interpolate() with antialias. */
clef_status clef__resize_pixels(const clef_pixels *in, int32_t height, int32_t width, clef__filter filter,
                                clef_pixels *out, clef_error *err);
/** Allocates out->values. CLEF_E_LIMIT, CLEF_E_NOMEM. */
clef_status clef__pixels_allocate(int64_t height, int64_t width, clef_pixels *out, clef_error *err);

#endif
