/* Writes a picture that cairo draws. */
#include "tools/cli/common.h"

#ifdef CLEF_HAVE_CAIRO
#    include "export/pictures/canvas.h"

#    include <cairo-svg.h>
#    include <math.h>

static cairo_status_t write_part(void *to, const unsigned char *data, unsigned int n)
{
    return fwrite(data, 1, n, to) == n ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

clef_status cli_canvas_write(const cli_canvas *canvas, FILE *to, clef_error *err)
{
    const double w = canvas->width, h = canvas->height;
    cairo_surface_t *surface =
        canvas->is_png ? cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(w), (int)ceil(h))
                       : cairo_svg_surface_create_for_stream(write_part, to, w, h);
    cairo_t *c = cairo_create(surface);
    canvas->draw(c, canvas->user);
    cairo_status_t status = cairo_status(c);
    cairo_destroy(c);
    if (status == CAIRO_STATUS_SUCCESS && canvas->is_png)
        status = cairo_surface_write_to_png_stream(surface, write_part, to);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    return status == CAIRO_STATUS_SUCCESS
               ? CLEF_OK
               : cli_error(err, CLEF_E_IO, "%s: cairo: %s", canvas->command, cairo_status_to_string(status));
}

void cli_canvas_paint(cairo_t *c, cairo_surface_t *image, cairo_filter_t filter, double x, double y, double w,
                      double h)
{
    cairo_save(c);
    cairo_translate(c, x, y);
    cairo_scale(c, w / cairo_image_surface_get_width(image), h / cairo_image_surface_get_height(image));
    cairo_set_source_surface(c, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(c), filter);
    cairo_paint(c);
    cairo_restore(c);
}
#endif
