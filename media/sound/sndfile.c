/* Reads what libsndfile reads: WAV, FLAC, Ogg Vorbis and Opus, AIFF, AU .. */
#include "media/sound/decode.h"

#if CLEF_HAVE_SNDFILE

#    include <inttypes.h>
#    include <sndfile.h>
#    include <stdlib.h>
#    include <string.h>

enum { BLOCK = 4096 };

/* A file in memory. */
typedef struct view {
    const unsigned char *data;
    sf_count_t n, at;
} view;

static sf_count_t view_length(void *user)
{
    return ((view *)user)->n;
}

static sf_count_t view_seek(sf_count_t offset, int whence, void *user)
{
    view *v = user;
    const sf_count_t from = whence == SEEK_CUR ? v->at : whence == SEEK_END ? v->n : 0;
    if (offset < -from || offset > v->n - from)
        return -1;
    return v->at = from + offset;
}

static sf_count_t view_read(void *to, sf_count_t n, void *user)
{
    view *v = user;
    const sf_count_t left = v->n - v->at, m = n < left ? n : left;
    if (m <= 0)
        return 0;
    memcpy(to, v->data + v->at, (size_t)m);
    v->at += m;
    return m;
}

static sf_count_t view_write(const void *from, sf_count_t n, void *user)
{
    (void)from, (void)n, (void)user;
    return 0;
}

static sf_count_t view_tell(void *user)
{
    return ((view *)user)->at;
}

static clef_status read_blocks(clef__sound_file *f, SNDFILE *file, const SF_INFO *info, clef_error *err)
{
    float *block = malloc((size_t)BLOCK * (size_t)info->channels * sizeof *block);
    clef_status s = block ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a block", f->name);
    sf_count_t n = BLOCK;
    while (!s && n == BLOCK) {
        n = sf_readf_float(file, block, BLOCK);
        s = n > 0 ? clef__sound_add(f, block, (size_t)n, err) : CLEF_OK;
    }
    free(block);
    if (!s && sf_error(file))
        return clef__fail(err, CLEF_E_FORMAT, "%s: damaged after %zu samples: %.200s", f->name, f->out->n,
                          sf_strerror(file));
    if (!s && info->frames < SF_COUNT_MAX && info->frames > (sf_count_t)f->out->n)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: cut short: it says that it has %" PRId64 " samples, got %zu", f->name,
                          (int64_t)info->frames, f->out->n);
    return s;
}

clef_status clef__sound_sndfile(clef__sound_file *f, clef_error *err)
{
    SF_VIRTUAL_IO io = {view_length, view_seek, view_read, view_write, view_tell};
    SF_INFO info = {0};
    view v = {f->data, (sf_count_t)f->n_bytes, 0};
    SNDFILE *file = sf_open_virtual(&io, SFM_READ, &info, &v);
    if (!file)
        return clef__fail(err, CLEF_E_FORMAT, "%s: %zu bytes that libsndfile does not read: %.200s", f->name,
                          f->n_bytes, sf_strerror(NULL));
    clef_status s = clef__sound_form(f, info.samplerate, info.channels, err);
    if (!s)
        s = read_blocks(f, file, &info, err);
    sf_close(file);
    return s;
}

#else

clef_status clef__sound_sndfile(clef__sound_file *f, clef_error *err)
{
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: this clef was built without libsndfile, which reads it",
                      f->name);
}

#endif
