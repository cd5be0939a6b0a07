/* PPM and PGM, of 8 bits and in binary: P6 and P5 (https://netpbm.sourceforge.net/doc/ppm.html). */
#include <inttypes.h>
#include <string.h>

#include "media/picture/decode.h"

/* A number of the header at *at, after blanks and comments; -1 where there is none. */
static int64_t number(const clef__picture_file *f, size_t *at)
{
    int64_t n = -1;
    int comment = 0;
    for (; *at < f->n_bytes; ++*at) {
        const uint8_t c = f->data[*at];
        if (n < 0 && (comment || c == '#'))
            comment = c != '\n';
        else if (c >= '0' && c <= '9')
            n = n > INT32_MAX ? n : (n < 0 ? 0 : n) * 10 + (c - '0');
        else if (n >= 0 || !strchr(" \t\r\n\v\f", c) || !c)
            break;
    }
    return n;
}

clef_status clef__picture_ppm(clef__picture_file *f, clef_picture *out, clef_error *err)
{
    const size_t channels = f->data[1] == '6' ? 3 : 1;
    size_t at = 2;
    const int64_t width = number(f, &at), height = number(f, &at), most = number(f, &at);
    if (width < 0 || height < 0 || most < 0 || at >= f->n_bytes)
        return clef__fail(err, CLEF_E_FORMAT, "%s: a PPM without width, height and largest value", f->name);
    if (most != 255)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: a PPM with values up to %" PRId64 ", expected 255",
                          f->name, most);
    clef_status status = clef__picture_allocate(f, (uint64_t)width, (uint64_t)height, out, err);
    if (status != CLEF_OK)
        return status;
    const size_t n = (size_t)width * (size_t)height, rest = f->n_bytes - ++at;
    if (rest < n * channels)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: %zu bytes of pixels, expected %zu for %" PRId64 " x %" PRId64, f->name, rest,
                          n * channels, width, height);
    for (size_t i = 0; i < 3 * n; i++)
        out->rgb[i] = f->data[at + (channels == 3 ? i : i / 3)];
    return CLEF_OK;
}
