/* PNG, by libpng. */
#include "media/picture/decode.h"

#if !CLEF_HAVE_PNG

clef_status clef__picture_png(clef__picture_file *f, clef_picture *out, clef_error *err)
{
    (void)out;
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: a PNG, and this clef was built without libpng", f->name);
}

#else
#    include <png.h>
#    include <setjmp.h>
#    include <stdlib.h>
#    include <string.h>

typedef struct reader {
    clef__picture_file *f;
    size_t at;
    clef_error *err;
    clef_status status;
    png_structp png;
    png_infop info;
    png_bytep *rows;
} reader;

static void give(png_structp png, png_bytep to, size_t n)
{
    reader *r = png_get_io_ptr(png);
    if (n > r->f->n_bytes - r->at)
        png_error(png, "it ends too early");
    memcpy(to, r->f->data + r->at, n);
    r->at += n;
}

static void on_error(png_structp png, png_const_charp text)
{
    reader *r = png_get_error_ptr(png);
    r->status = clef__fail(r->err, CLEF_E_FORMAT, "%s: a damaged PNG: %s", r->f->name, text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

/* All kinds of pixels become three bytes; transparency is left out. */
static void set_form(reader *r)
{
    png_set_expand(r->png);
    png_set_strip_16(r->png);
    png_set_strip_alpha(r->png);
    png_set_gray_to_rgb(r->png);
    png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
}

static void read_orientation(reader *r)
{
#    ifdef PNG_eXIf_SUPPORTED
    png_uint_32 n;
    png_bytep exif;
    if (png_get_eXIf_1(r->png, r->info, &n, &exif) && exif)
        r->f->orientation = clef__exif_orientation(exif, n);
#    else
    (void)r;
#    endif
}

static void read_pixels(reader *r, clef_picture *out)
{
    r->status = clef__picture_allocate(r->f, png_get_image_width(r->png, r->info),
                                       png_get_image_height(r->png, r->info), out, r->err);
    if (r->status != CLEF_OK)
        png_longjmp(r->png, 1);
    set_form(r);
    const size_t stride = (size_t)out->width * 3;
    if (png_get_rowbytes(r->png, r->info) != stride)
        png_error(r->png, "its rows have another length than its header says");
    r->rows = malloc((size_t)out->height * sizeof *r->rows);
    if (!r->rows)
        png_error(r->png, "no memory for its rows");
    for (int32_t y = 0; y < out->height; y++)
        r->rows[y] = out->rgb + stride * (size_t)y;
    png_read_image(r->png, r->rows);
    png_read_end(r->png, r->info);
    read_orientation(r);
}

/* Errors jump back into this function, which changes nothing of its own. */
static void decode(reader *r, clef_picture *out)
{
    if (setjmp(png_jmpbuf(r->png)))
        return;
    png_set_read_fn(r->png, r, give);
    png_set_user_limits(r->png, INT32_MAX, INT32_MAX); /* clef__picture_allocate() has the limit */
    png_set_chunk_malloc_max(r->png, (png_alloc_size_t)16 << 20);
    png_set_chunk_cache_max(r->png, 2); /* texts, which nobody reads: 1 of them, since 0 means any number */
    png_read_info(r->png, r->info);
    read_pixels(r, out);
}

clef_status clef__picture_png(clef__picture_file *f, clef_picture *out, clef_error *err)
{
    reader r = {.f = f, .err = err};
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (r.info)
        decode(&r, out);
    else
        r.status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory to decode it", f->name);
    free(r.rows);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return r.status;
}
#endif
