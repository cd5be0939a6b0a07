/* Exif's orientation: where it is written, and turning a picture by it. */
#include <stdlib.h>
#include <string.h>

#include "media/picture/decode.h"

static uint32_t word(const uint8_t *p, int n, int big)
{
    uint32_t value = 0;
    for (int i = 0; i < n; i++)
        value = value << 8 | p[big ? i : n - 1 - i];
    return value;
}

/* Exif 2.32, 4.6: the first directory has entries of 12 bytes: tag, type, count, value. */
int clef__exif_orientation(const uint8_t *tiff, size_t n_bytes)
{
    enum { ORIENTATION = 0x112, SHORT = 3 };
    if (n_bytes < 8 || (memcmp(tiff, "II*\0", 4) != 0 && memcmp(tiff, "MM\0*", 4) != 0))
        return 0;
    const int big = tiff[0] == 'M';
    const size_t at = word(tiff + 4, 4, big);
    if (at > n_bytes - 2)
        return 0;
    const size_t n = word(tiff + at, 2, big);
    for (size_t i = 0; i < n && at + 2 + 12 * (i + 1) <= n_bytes; i++) {
        const uint8_t *entry = tiff + at + 2 + 12 * i;
        if (word(entry, 2, big) == ORIENTATION && word(entry + 2, 2, big) == SHORT) {
            const uint32_t value = word(entry + 8, 2, big);
            return value >= 1 && value <= 8 ? (int)value : 0;
        }
    }
    return 0;
}

/* Bits of each orientation: 1 mirrors columns, 2 mirrors rows, 4 swaps rows and columns before that. */
static const uint8_t changes[9] = {0, 0, 1, 3, 2, 4, 5, 7, 6};

clef_status clef__picture_turn(clef_picture *p, int orientation, clef_error *err)
{
    const int change = changes[orientation], swap = change & 4;
    if (!change)
        return CLEF_OK;
    const int32_t width = swap ? p->height : p->width, height = swap ? p->width : p->height;
    uint8_t *rgb = malloc((size_t)width * (size_t)height * 3);
    if (!rgb)
        return clef__fail(err, CLEF_E_NOMEM, "no memory to turn a picture of %d x %d", p->width, p->height);
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++) {
            const int32_t u = change & 1 ? width - 1 - x : x, v = change & 2 ? height - 1 - y : y;
            const size_t from =
                swap ? (size_t)u * (size_t)p->width + (size_t)v : (size_t)v * (size_t)p->width + (size_t)u;
            memcpy(rgb + ((size_t)y * (size_t)width + (size_t)x) * 3, p->rgb + 3 * from, 3);
        }
    free(p->rgb);
    *p = (clef_picture){width, height, rgb};
    return CLEF_OK;
}
