/* Draws what a row of an encoder of pictures sees over the picture. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/attention.h"

#ifdef CLEF_HAVE_CAIRO
#    include "export/pictures/attention_over.h"
#    include "export/pictures/canvas.h"

/* From dark violet to light yellow; the brightness rises evenly. Dark colours cover the grey picture less. */
static uint32_t colour_of(double share)
{
    static const double stops[][4] = {{20, 11, 54, 0.55},
                                      {101, 21, 110, 0.62},
                                      {186, 54, 85, 0.7},
                                      {249, 142, 8, 0.78},
                                      {252, 255, 164, 0.85}};
    enum { N = sizeof stops / sizeof *stops - 1 };
    const double t = sqrt(fmin(fmax(share, 0), 1)) * N;
    const int i = t >= N ? N - 1 : (int)t;
    double x[4];
    for (int k = 0; k < 4; k++)
        x[k] = stops[i][k] + (stops[i + 1][k] - stops[i][k]) * (t - i);
    return (uint32_t)(255 * x[3]) << 24 | (uint32_t)(x[0] * x[3]) << 16 | (uint32_t)(x[1] * x[3]) << 8 |
           (uint32_t)(x[2] * x[3]);
}

cairo_surface_t *cli_over_ground(const attention_picture *p, int32_t longest)
{
    const clef_picture *seen = p->seen;
    const int32_t side = seen->width > seen->height ? seen->width : seen->height,
                  step = 1 + (side - 1) / longest, w = seen->width / step > 0 ? seen->width / step : 1,
                  h = seen->height / step > 0 ? seen->height / step : 1;
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, w, h);
    unsigned char *pixels = cairo_image_surface_get_data(image);
    const size_t stride = (size_t)cairo_image_surface_get_stride(image);
    cairo_surface_flush(image);
    for (int32_t y = 0; y < h && pixels; y++)
        for (int32_t x = 0; x < w; x++) {
            uint32_t sum = 0, n = 0;
            for (int32_t v = y * step; v < (y + 1) * step && v < seen->height; v++)
                for (int32_t u = x * step; u < (x + 1) * step && u < seen->width; u++, n++) {
                    const uint8_t *rgb = seen->rgb + 3 * ((size_t)v * (size_t)seen->width + (size_t)u);
                    sum += (rgb[0] * 77U + rgb[1] * 150U + rgb[2] * 29U) >> 8;
                }
            const uint32_t grey = n ? sum / n : 0, colour = grey << 16 | grey << 8 | grey;
            memcpy(pixels + (size_t)y * stride + (size_t)x * sizeof colour, &colour, sizeof colour);
        }
    cairo_surface_mark_dirty(image);
    return image;
}

/* The patches as an image; each has repeat x repeat pixels, so that edges stay sharp in SVG. */
static cairo_surface_t *patches_of(const attention_picture *p, const float *w, float most, int32_t repeat)
{
    cairo_surface_t *image =
        cairo_image_surface_create(CAIRO_FORMAT_ARGB32, p->columns * repeat, p->rows * repeat);
    unsigned char *pixels = cairo_image_surface_get_data(image);
    const size_t stride = (size_t)cairo_image_surface_get_stride(image);
    cairo_surface_flush(image);
    for (int32_t y = 0; y < p->rows * repeat && pixels; y++)
        for (int32_t x = 0; x < p->columns * repeat; x++) {
            const float weight = w[y / repeat * p->columns + x / repeat];
            const uint32_t colour =
                isnan(weight) ? 0xffd62728 : colour_of(most > 0 ? (double)(weight / most) : 0);
            memcpy(pixels + (size_t)y * stride + (size_t)x * sizeof colour, &colour, sizeof colour);
        }
    cairo_surface_mark_dirty(image);
    return image;
}

/* The patch that looks: white within black, which is seen on every ground. */
static void mark_query(cairo_t *c, const attention_picture *p, double x, double y, double w, double h)
{
    const int32_t k = p->query - p->n_special;
    const double dx = w * p->covered_x / p->columns, dy = h * p->covered_y / p->rows;
    if (p->query < 0 || k < 0)
        return;
    for (int i = 0; i < 2; i++) {
        cairo_set_source_rgb(c, i, i, i);
        cairo_set_line_width(c, i ? 1.5 : 4);
        cairo_rectangle(c, x + k % p->columns * dx, y + k / p->columns * dy, dx, dy);
        cairo_stroke(c);
    }
}

float cli_over_draw(cairo_t *c, const attention_maps *a, const attention_map *m, int32_t head,
                    cairo_surface_t *ground, double x, double y, double w, double h)
{
    enum { SHARP = 640 };
    const attention_picture *p = &a->picture;
    const int32_t n = p->rows * p->columns, side = p->rows > p->columns ? p->rows : p->columns;
    float most = 0, *weights = malloc((size_t)n * sizeof *weights);
    if (!weights)
        return 0;
    cli_attention_patches(a, m, head, weights);
    for (int32_t i = 0; i < n; i++)
        most = weights[i] > most ? weights[i] : most;
    cairo_surface_t *patches = patches_of(p, weights, most, side < SHARP ? SHARP / side : 1);
    cli_canvas_paint(c, ground, CAIRO_FILTER_GOOD, x, y, w, h);
    cli_canvas_paint(c, patches, CAIRO_FILTER_NEAREST, x, y, w * p->covered_x, h * p->covered_y);
    cairo_surface_destroy(patches);
    free(weights);
    if (m->n_queries > 1)
        mark_query(c, p, x, y, w, h);
    return most;
}

void cli_over_legend(cairo_t *c, float most, double x, double y, double w, double h)
{
    enum { STEPS = 64 };
    char text[32];
    for (int i = 0; i < STEPS; i++) {
        const uint32_t colour = colour_of((double)i * i / (STEPS * STEPS));
        const double alpha = (colour >> 24) / 255.0;
        cairo_set_source_rgb(c, (colour >> 16 & 255) / alpha / 255, (colour >> 8 & 255) / alpha / 255,
                             (colour & 255) / alpha / 255);
        cairo_rectangle(c, x + w * i / STEPS, y, w / STEPS + 0.5, h);
        cairo_fill(c);
    }
    snprintf(text, sizeof text, "%.3g", (double)most);
    cairo_set_source_rgb(c, 0.12, 0.14, 0.2);
    cairo_move_to(c, x - 12, y + h - 1);
    cairo_show_text(c, "0");
    cairo_move_to(c, x + w + 6, y + h - 1);
    cairo_show_text(c, text);
}
#endif
