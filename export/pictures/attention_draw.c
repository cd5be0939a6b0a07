/* Draws attention maps by cairo. */
#include <math.h>
#include <string.h>

#include "tools/inspect/attention.h"

#ifdef CLEF_HAVE_CAIRO
#    include "export/pictures/attention_over.h"
#    include "export/pictures/canvas.h"

enum {
    MARGIN = 16,
    TITLE = 18,
    FONT = 11,
    LABELS = 96,
    GRID_CELLS = 160,
    GRID_MOST = 480,
    ONE_CELL = 18,
    ONE_MOST = 1200,
    OVER_ONE = 640
};
static const double quarter_turn = 1.57079632679489662;

/** The places of the heads: one large head with labels, or a row of heads for each layer. */
typedef struct picture {
    const attention_maps *a;
    int32_t first, heads; /* of each layer */
    int is_one, is_png;
    double panel_w, panel_h, width, height;
    cairo_surface_t *ground; /* NULL, or what is under the weights */
} picture;

/* Panels of a picture's own proportions. */
static void plan_over(picture *p)
{
    const clef_picture *seen = p->a->picture.seen;
    const double longest = seen->width > seen->height ? seen->width : seen->height,
                 side = p->is_one ? OVER_ONE : GRID_CELLS;
    p->panel_w = fmax(side * seen->width / longest, (double)LABELS);
    p->panel_h = (double)TITLE + fmax(side * seen->height / longest, 1) + (p->is_one ? (double)TITLE : 0);
    p->ground = cli_over_ground(&p->a->picture, 2 * (int32_t)side);
}

static void plan_picture(picture *p, const attention_maps *a)
{
    const attention_map *m = &a->maps[0];
    p->a = a;
    p->first = a->head < 0 ? 0 : a->head;
    p->heads = a->head < 0 ? m->n_heads : 1;
    p->is_one = a->n == 1 && p->heads == 1;
    if (a->picture.rows) {
        plan_over(p);
    } else if (p->is_one) {
        const int32_t most = m->n_keys > m->n_queries ? m->n_keys : m->n_queries;
        const double cell = fmin(ONE_CELL, (double)ONE_MOST / most);
        p->panel_w = (double)LABELS + cell * m->n_keys;
        p->panel_h = TITLE + LABELS + cell * m->n_queries;
    } else {
        p->panel_w = GRID_CELLS;
        p->panel_h = TITLE + GRID_CELLS;
    }
    p->width = (double)MARGIN + p->heads * (p->panel_w + (double)MARGIN);
    p->height = (double)MARGIN + a->n * (p->panel_h + (double)MARGIN);
}

/* White to blue. A weight that a mask made exactly 0 is grey, NaN red. */
static uint32_t colour_of(float w)
{
    if (w == 0)
        return 0xdedede;
    if (isnan(w))
        return 0xd62728;
    const double t = sqrt(fmin(fmax((double)w, 0), 1));
    return (uint32_t)(255 - 235 * t) << 16 | (uint32_t)(255 - 184 * t) << 8 | (uint32_t)(255 - 89 * t);
}

/* The largest weight that falls on pixel (x, y) of an image of w x h; NaN if any of them is. */
static float pixel_of(const attention_map *m, const float *p, int32_t x, int32_t y, int32_t w, int32_t h)
{
    float most = 0;
    for (int64_t t = (int64_t)y * m->n_queries / h; t < (int64_t)(y + 1) * m->n_queries / h; t++)
        for (int64_t s = (int64_t)x * m->n_keys / w; s < (int64_t)(x + 1) * m->n_keys / w; s++) {
            const float weight = p[t * m->n_keys + s];
            most = isnan(weight) || weight > most ? weight : most;
            if (isnan(most))
                return most;
        }
    return most;
}

/* The map as an image. A cell is `repeat` pixels wide and high. If a side would have more than `most` pixels,
 * each pixel covers several cells. */
static cairo_surface_t *image_of(const attention_map *m, int32_t head, int32_t most, int32_t repeat)
{
    const int32_t w = m->n_keys < most ? m->n_keys : most, h = m->n_queries < most ? m->n_queries : most;
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, w * repeat, h * repeat);
    unsigned char *pixels = cairo_image_surface_get_data(image);
    const size_t stride = (size_t)cairo_image_surface_get_stride(image);
    cairo_surface_flush(image);
    for (int32_t y = 0; y < h && pixels; y++) {
        unsigned char *row = pixels + (size_t)y * (size_t)repeat * stride;
        for (int32_t x = 0; x < w; x++) {
            const uint32_t colour = colour_of(pixel_of(m, cli_attention_head(m, head), x, y, w, h));
            for (int32_t k = 0; k < repeat; k++)
                memcpy(row + ((size_t)x * (size_t)repeat + (size_t)k) * sizeof colour, &colour,
                       sizeof colour);
        }
        for (int32_t k = 1; k < repeat; k++)
            memcpy(row + (size_t)k * stride, row, (size_t)w * (size_t)repeat * 4);
    }
    cairo_surface_mark_dirty(image);
    return image;
}

/* An image takes less space than a path for each cell. cairo 1.16 drops the filter when it writes SVG, so
 * cells are repeated there to keep their edges sharp. */
static void draw_cells(cairo_t *c, const picture *p, const attention_map *m, int32_t head, double x, double y,
                       double w, double h)
{
    const int32_t most = p->is_one   ? ONE_MOST
                         : p->is_png ? GRID_CELLS
                                     : GRID_MOST,
                  side = m->n_keys > m->n_queries ? m->n_keys : m->n_queries;
    cairo_surface_t *image = image_of(m, head, most, p->is_png || 2 * side > most ? 1 : most / side);
    cli_canvas_paint(c, image, CAIRO_FILTER_NEAREST, x, y, w, h);
    cairo_surface_destroy(image);
    cairo_set_source_rgb(c, 0.6, 0.6, 0.65);
    cairo_set_line_width(c, 0.7);
    cairo_rectangle(c, x, y, w, h);
    cairo_stroke(c);
}

static void draw_text(cairo_t *c, const char *text, double x, double y, double angle, int right)
{
    cairo_text_extents_t e;
    cairo_save(c);
    cairo_set_source_rgb(c, 0.12, 0.14, 0.2);
    cairo_text_extents(c, text, &e);
    cairo_move_to(c, x, y);
    cairo_rotate(c, angle);
    cairo_rel_move_to(c, right ? -e.x_advance : 0, (double)FONT * 0.35);
    cairo_show_text(c, text);
    cairo_restore(c);
}

/* A token's text without line ends, cut with a sign if it does not fit. */
static void token_label(const char *text, char out[64])
{
    enum { MOST = 14 };
    int n_chars = 0;
    size_t n = 0;
    for (const char *s = text; *s && n < 50; s++) {
        n_chars += ((unsigned char)*s & 0xc0) != 0x80;
        if (n_chars > MOST) {
            memcpy(out + n, "\xe2\x80\xa6", 3);
            n += 3;
            break;
        }
        out[n++] = (unsigned char)*s < 0x20 ? ' ' : *s;
    }
    out[n] = 0;
}

static void draw_one(cairo_t *c, const picture *p, const attention_map *m, double x, double y)
{
    char label[64];
    const double cell = (p->panel_w - (double)LABELS) / m->n_keys, left = x + (double)LABELS,
                 top = y + (double)TITLE + (double)LABELS;
    char **rows = cli_attention_row_texts(p->a, m), **columns = cli_attention_column_texts(p->a, m);
    draw_cells(c, p, m, p->first, left, top, cell * m->n_keys, cell * m->n_queries);
    if (cell < 7)
        return; /* labels would overlap */
    for (int32_t t = 0; t < m->n_queries; t++) {
        token_label(rows[t], label);
        draw_text(c, label, left - 4, top + (t + 0.5) * cell, 0, 1);
    }
    for (int32_t s = 0; s < m->n_keys; s++) {
        token_label(columns[s], label);
        draw_text(c, label, left + (s + 0.5) * cell, top - 4, -quarter_turn, 0);
    }
}

static void draw_over(cairo_t *c, const picture *p, const attention_map *m, int32_t head, double x, double y)
{
    const double h = p->panel_h - TITLE - (p->is_one ? (double)TITLE : 0),
                 w = h * p->a->picture.seen->width / p->a->picture.seen->height;
    const float most = cli_over_draw(c, p->a, m, head, p->ground, x, y + (double)TITLE, w, h);
    if (p->is_one)
        cli_over_legend(c, most, x + 12, y + (double)TITLE + h + 6, 160, FONT);
}

static void draw_panel(cairo_t *c, const picture *p, const attention_map *m, int32_t head, double x, double y)
{
    char title[160];
    cli_attention_head_name(m, head, title, sizeof title);
    draw_text(c, title, x, y + (double)FONT / 2.0, 0, 0);
    if (p->ground)
        draw_over(c, p, m, head, x, y);
    else if (p->is_one)
        draw_one(c, p, m, x, y);
    else
        draw_cells(c, p, m, head, x, y + (double)TITLE, GRID_CELLS, GRID_CELLS);
}

static void draw_picture(cairo_t *c, const void *user)
{
    const picture *p = user;
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_paint(c);
    cairo_select_font_face(c, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, FONT);
    for (int32_t i = 0; i < p->a->n; i++) {
        const attention_map *m = &p->a->maps[i];
        for (int32_t h = 0; h < p->heads && p->first + h < m->n_heads; h++)
            draw_panel(c, p, m, p->first + h, (double)MARGIN + h * (p->panel_w + (double)MARGIN),
                       (double)MARGIN + i * (p->panel_h + (double)MARGIN));
    }
}

static clef_status draw_to(const attention_maps *a, FILE *to, int is_png, clef_error *err)
{
    enum { MOST = 16000 };
    picture p = {.is_png = is_png};
    clef_status status = CLEF_OK;
    plan_picture(&p, a);
    if (is_png && (p.width > (double)MOST || p.height > (double)MOST))
        status = cli_error(
            err, CLEF_E_LIMIT,
            "attention: a picture of %.0f x %.0f, expected at most %d in width and height: choose a --layer",
            p.width, p.height, MOST);
    const cli_canvas canvas = {.command = "attention",
                               .width = p.width,
                               .height = p.height,
                               .is_png = is_png,
                               .draw = draw_picture,
                               .user = &p};
    if (status == CLEF_OK)
        status = cli_canvas_write(&canvas, to, err);
    if (p.ground)
        cairo_surface_destroy(p.ground);
    return status;
}
#else
static clef_status draw_to(const attention_maps *a, FILE *to, int is_png, clef_error *err)
{
    (void)a, (void)to;
    return cli_error(err, CLEF_E_UNSUPPORTED,
                     "attention: %s: this clef was built without cairo (Debian: libcairo2-dev)",
                     is_png ? "png" : "svg");
}
#endif

clef_status cli_attention_svg(void *user, FILE *to, clef_error *err)
{
    return draw_to(user, to, 0, err);
}

clef_status cli_attention_png(void *user, FILE *to, clef_error *err)
{
    return draw_to(user, to, 1, err);
}
