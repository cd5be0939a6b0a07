/* JPEG, by libjpeg or libjpeg-turbo. */
#include "media/picture/decode.h"

#if !CLEF_HAVE_JPEG

clef_status clef__picture_jpeg(clef__picture_file *f, clef_picture *out, clef_error *err)
{
    (void)out;
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: a JPEG, and this clef was built without libjpeg",
                      f->name);
}

#else
#    include <stdio.h>
/* Its header needs stdio.h before it. */
#    include <jerror.h>
#    include <jpeglib.h>
#    include <setjmp.h>
#    include <stdlib.h>
#    include <string.h>

/* A progressive file may have any number of scans over all pixels, each of a few bytes. */
enum { MOST_SCANS = 200 };

typedef struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    clef__picture_file *f;
    clef_error *err;
    clef_status status;
    uint8_t *row; /* of CMYK */
} reader;

static void on_error(j_common_ptr info)
{
    reader *r = info->client_data;
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    r->status = clef__fail(r->err, CLEF_E_FORMAT, "%s: a damaged JPEG: %s", r->f->name, text);
    longjmp(r->back, 1);
}

/* A negative level is a warning: libjpeg goes on with pixels that it made up. */
static void on_message(j_common_ptr info, int level)
{
    const int code = info->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR)
        on_error(info);
}

static void on_progress(j_common_ptr info)
{
    reader *r = info->client_data;
    if (r->jpeg.input_scan_number > MOST_SCANS) {
        r->status =
            clef__fail(r->err, CLEF_E_LIMIT, "%s: a JPEG of more than %d scans", r->f->name, MOST_SCANS);
        longjmp(r->back, 1);
    }
}

static void read_orientation(reader *r)
{
    static const uint8_t exif[6] = "Exif\0";
    for (jpeg_saved_marker_ptr m = r->jpeg.marker_list; m; m = m->next)
        if (m->data_length > 6 && memcmp(m->data, exif, 6) == 0) {
            r->f->orientation = clef__exif_orientation(m->data + 6, m->data_length - 6);
            return;
        }
}

/* The inks are inverted, as Adobe writes them. Pillow takes them so whether or not the file says that Adobe
 * wrote it. */
static void from_cmyk(const reader *r, uint8_t *to)
{
    enum { inverted = 255 };
    for (size_t x = 0; x < r->jpeg.output_width; x++) {
        const int key = 255 - (r->row[4 * x + 3] ^ inverted);
        for (size_t c = 0; c < 3; c++) {
            const int product = (r->row[4 * x + c] ^ inverted) * key + 128;
            const int value = key - ((product + (product >> 8)) >> 8);
            to[3 * x + c] = (uint8_t)(value < 0 ? 0 : value);
        }
    }
}

static void read_pixels(reader *r, clef_picture *out)
{
    const size_t stride = (size_t)out->width * 3;
    const int cmyk = r->jpeg.out_color_space == JCS_CMYK;
    if (cmyk && !(r->row = malloc((size_t)out->width * 4))) {
        r->status = clef__fail(r->err, CLEF_E_NOMEM, "%s: no memory to decode it", r->f->name);
        return;
    }
    while (r->jpeg.output_scanline < r->jpeg.output_height) {
        uint8_t *to = out->rgb + stride * r->jpeg.output_scanline;
        JSAMPROW row = cmyk ? r->row : to;
        if (jpeg_read_scanlines(&r->jpeg, &row, 1) == 1 && cmyk)
            from_cmyk(r, to);
    }
}

static void decode(reader *r, clef_picture *out)
{
    jpeg_create_decompress(&r->jpeg);
    r->jpeg.progress = &r->progress;
    r->jpeg.mem->max_memory_to_use = 1L << 30;
    jpeg_mem_src(&r->jpeg, r->f->data, (unsigned long)r->f->n_bytes);
    jpeg_save_markers(&r->jpeg, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&r->jpeg, TRUE);
    read_orientation(r);
    r->status = clef__picture_allocate(r->f, r->jpeg.image_width, r->jpeg.image_height, out, r->err);
    if (r->status != CLEF_OK)
        return;
    const J_COLOR_SPACE space = r->jpeg.jpeg_color_space;
    r->jpeg.out_color_space = space == JCS_CMYK || space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&r->jpeg);
    read_pixels(r, out);
    if (r->status == CLEF_OK)
        jpeg_finish_decompress(&r->jpeg);
}

clef_status clef__picture_jpeg(clef__picture_file *f, clef_picture *out, clef_error *err)
{
    reader *r = calloc(1, sizeof *r);
    if (!r)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to decode it", f->name);
    r->f = f;
    r->err = err;
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->errors.error_exit = on_error;
    r->errors.emit_message = on_message;
    r->progress.progress_monitor = on_progress;
    r->jpeg.client_data = r;
    if (!setjmp(r->back)) /* the variables of this function do not change after it */
        decode(r, out);
    jpeg_destroy_decompress(&r->jpeg);
    const clef_status status = r->status;
    free(r->row);
    free(r);
    return status;
}
#endif
