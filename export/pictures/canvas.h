/* A picture by cairo, as SVG or PNG. For files that have CLEF_HAVE_CAIRO. */
#ifndef CLEF_EXPORT_PICTURES_CANVAS_H
#define CLEF_EXPORT_PICTURES_CANVAS_H

#include <cairo.h>

#include "tools/cli/common.h"

typedef struct cli_canvas {
    const char *command;       /* in messages */
    double      width, height; /* in pixels */
    int         is_png;
    void      (*draw)(cairo_t *c, const void *user);
    const void *user;
} cli_canvas;

/** Draws the picture and writes it to `to`. CLEF_E_IO, with what cairo says. */
clef_status cli_canvas_write(const cli_canvas *canvas, FILE *to, clef_error *err);

/** Paints an image over the rectangle at (x, y), w x h. */
void cli_canvas_paint(cairo_t *c, cairo_surface_t *image, cairo_filter_t filter, double x, double y, double w,
                      double h);

#endif
