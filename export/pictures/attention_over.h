/* Attention of an encoder of pictures, drawn over the picture. For files that have CLEF_HAVE_CAIRO. */
#ifndef CLEF_EXPORT_PICTURES_ATTENTION_OVER_H
#define CLEF_EXPORT_PICTURES_ATTENTION_OVER_H

#include <cairo.h>

#include "tools/inspect/attention.h"

/** The picture in grey, for all panels; `longest`: of its sides. cairo_surface_destroy() frees it. */
cairo_surface_t *cli_over_ground(const attention_picture *p, int32_t longest);
/** Draws the ground and what the query of the picture sees, at (x, y), w x h. Returns the weight that has the
 *  brightest colour. */
float cli_over_draw(cairo_t *c, const attention_maps *a, const attention_map *m, int32_t head,
                    cairo_surface_t *ground, double x, double y, double w, double h);
/** A bar of the colours with 0 and the largest weight at its ends. */
void cli_over_legend(cairo_t *c, float most, double x, double y, double w, double h);

#endif
