/* Reads MP3 by libmpg123. */
#include "media/sound/decode.h"

#if CLEF_HAVE_MPG123

#    include <mpg123.h>

enum { BLOCK = 8192 };

static clef_status fail_damaged(const clef__sound_file *f, mpg123_handle *h, clef_error *err)
{
    return clef__fail(err, CLEF_E_FORMAT, "%s: damaged MP3 after %zu samples: %.200s", f->name, f->out->n,
                      mpg123_strerror(h));
}

static clef_status read_form(clef__sound_file *f, mpg123_handle *h, clef_error *err)
{
    long rate;
    int channels, encoding;
    if (mpg123_getformat(h, &rate, &channels, &encoding) != MPG123_OK)
        return fail_damaged(f, h, err);
    if (encoding != MPG123_ENC_FLOAT_32)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: libmpg123 does not give samples in f32", f->name);
    return clef__sound_form(f, rate, channels, err);
}

static clef_status read_all(clef__sound_file *f, mpg123_handle *h, clef_error *err)
{
    float block[BLOCK];
    clef_status s = CLEF_OK;
    int got = MPG123_OK;
    if (mpg123_open_feed(h) != MPG123_OK || mpg123_feed(h, f->data, f->n_bytes) != MPG123_OK)
        return fail_damaged(f, h, err);
    while (!s && (got == MPG123_OK || got == MPG123_NEW_FORMAT)) {
        size_t n_bytes = 0;
        got = mpg123_read(h, (unsigned char *)block, sizeof block, &n_bytes);
        if (got == MPG123_NEW_FORMAT)
            s = read_form(f, h, err);
        const size_t frame = sizeof *block * (size_t)(f->out->file_channels ? f->out->file_channels : 1);
        if (!s && n_bytes)
            s = f->out->file_channels ? clef__sound_add(f, block, n_bytes / frame, err)
                                      : fail_damaged(f, h, err);
    }
    /* The whole file was fed: more is never to come. */
    return s || got == MPG123_NEED_MORE || got == MPG123_DONE ? s : fail_damaged(f, h, err);
}

clef_status clef__sound_mp3(clef__sound_file *f, clef_error *err)
{
    int code = MPG123_OK;
#    if MPG123_API_VERSION < 46
    mpg123_init();
#    endif
    mpg123_handle *h = mpg123_new(NULL, &code);
    if (!h)
        return clef__fail(err, CLEF_E_NOMEM, "%s: libmpg123: %s", f->name, mpg123_plain_strerror(code));
    mpg123_param(h, MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_SKIP_ID3V2, 0);
    const clef_status s = read_all(f, h, err);
    mpg123_delete(h);
    return s;
}

#else

clef_status clef__sound_mp3(clef__sound_file *f, clef_error *err)
{
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: this clef was built without libmpg123, which reads MP3",
                      f->name);
}

#endif
