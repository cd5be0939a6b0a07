/* WebP, by libwebp. */
#include "media/picture/decode.h"

#if !CLEF_HAVE_WEBP

clef_status clef__picture_webp(clef__picture_file *f, clef_picture *out, clef_error *err)
{
    (void)out;
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: a WebP, and this clef was built without libwebp",
                      f->name);
}

#else
#    include <string.h>
#    include <webp/decode.h>

/* The chunk EXIF of a RIFF file: pieces of a name, a length and that many bytes, of even length. */
static int orientation_of(const clef__picture_file *f)
{
    for (size_t at = 12; at + 8 <= f->n_bytes;) {
        const uint8_t *p = f->data + at;
        const size_t n = (size_t)p[4] | (size_t)p[5] << 8 | (size_t)p[6] << 16 | (size_t)p[7] << 24;
        if (n > f->n_bytes - at - 8)
            return 0;
        if (memcmp(p, "EXIF", 4) == 0) {
            const size_t skip = n > 6 && memcmp(p + 8, "Exif\0", 6) == 0 ? 6 : 0;
            return clef__exif_orientation(p + 8 + skip, n - skip);
        }
        at += 8 + n + (n & 1);
    }
    return 0;
}

clef_status clef__picture_webp(clef__picture_file *f, clef_picture *out, clef_error *err)
{
    WebPBitstreamFeatures is;
    if (WebPGetFeatures(f->data, f->n_bytes, &is) != VP8_STATUS_OK)
        return clef__fail(err, CLEF_E_FORMAT, "%s: a damaged WebP: it has no header", f->name);
    if (is.has_animation)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: an animated WebP, expected a single picture",
                          f->name);
    clef_status status = clef__picture_allocate(f, (uint64_t)is.width, (uint64_t)is.height, out, err);
    if (status != CLEF_OK)
        return status;
    const size_t stride = (size_t)out->width * 3;
    if (!WebPDecodeRGBInto(f->data, f->n_bytes, out->rgb, stride * (size_t)out->height, (int)stride))
        return clef__fail(err, CLEF_E_FORMAT, "%s: a damaged WebP: its pixels cannot be decoded", f->name);
    f->orientation = orientation_of(f);
    return CLEF_OK;
}
#endif
