/* Pictures that become tiles of one size, with the whole picture beside them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "media/picture/steps.h"

enum { MOST_SIDE = 4096, MOST_TILES = 1024 };

/* What a picture is resized to, and how that is cut. */
typedef struct canvas {
    int32_t height, width; /* of the resized picture, which is in the middle of the tiles */
    int32_t rows, columns; /* of tiles */
    int32_t tile_height, tile_width;
} canvas;

/* Pixels of tiles, one after the other. */
typedef struct filling {
    const clef_picture_processor *p;
    clef_pixels *out;
    int32_t n, most;
} filling;

static int32_t ceil_of(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

static clef_status too_wide(const clef_picture *in, clef_error *err)
{
    return clef__fail(err, CLEF_E_LIMIT,
                      "a picture of %" PRId32 " x %" PRId32 " pixels: expected 1 to %d tiles", in->width,
                      in->height, MOST_TILES);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Adds the pixels of a tile, of the size that the model wants. */
static clef_status add_pixels(filling *f, const clef_picture *tile, int crop, clef_error *err)
{
    clef_pixels one;
    clef_status s = clef__pixels_of(f->p, tile, crop, &one, err);
    if (s)
        return s;
    clef__normalize_pixels(f->p, &one);
    if (!f->n)
        s = clef__pixels_allocate((int64_t)one.height * f->most, one.width, f->out, err);
    else if (one.height != f->out->height || one.width != f->out->width)
        s = clef__fail(err, CLEF_E_UNSUPPORTED,
                       "tiles of %" PRId32 " x %" PRId32 " and of %" PRId32 " x %" PRId32
                       " pixels: expected one size",
                       f->out->width, f->out->height, one.width, one.height);
    if (!s) {
        const size_t n = 3 * (size_t)one.height * (size_t)one.width;
        f->out->height = one.height;
        memcpy(f->out->values + n * (size_t)f->n++, one.values, n * sizeof *one.values);
        f->out->n = f->n;
    }
    clef_pixels_finish(&one);
    return s;
}

/* Adds a tile, which LLaVA-NeXT resizes and crops once more. */
static clef_status add_tile(filling *f, const clef_picture *tile, clef_error *err)
{
    int32_t height, width;
    clef_picture again = {0};
    if (f->p->tiling != CLEF__TILES_PINNED || !f->p->resizes)
        return add_pixels(f, tile, f->p->tiling == CLEF__TILES_PINNED && f->p->crops, err);
    clef_status s = clef__resized_size(f->p, tile->height, tile->width, &height, &width, err);
    if (!s)
        s = clef__resize(tile, height, width, f->p->filter, &again, err);
    if (!s)
        s = add_pixels(f, &again, f->p->crops, err);
    clef_picture_finish(&again);
    return s;
}

/* The picture as one tile. */
static clef_status add_whole(filling *f, const clef_picture *in, int32_t height, int32_t width,
                             clef_error *err)
{
    clef_picture tile;
    clef_status s = clef__resize(in, height, width, f->p->filter, &tile, err);
    if (!s)
        s = add_tile(f, &tile, err);
    clef_picture_finish(&tile);
    return s;
}

/* Copies a tile; what is beside the picture is black. */
static void cut(const clef_picture *in, const canvas *c, int32_t row, int32_t column, clef_picture *tile)
{
    const int32_t top = (c->rows * c->tile_height - in->height) / 2 - row * c->tile_height,
                  left = (c->columns * c->tile_width - in->width) / 2 - column * c->tile_width;
    memset(tile->rgb, 0, 3 * (size_t)tile->height * (size_t)tile->width);
    for (int32_t y = 0; y < tile->height; y++) {
        const int32_t from = left < 0 ? 0 : left, end = left + in->width, v = y - top,
                      to = end < tile->width ? end : tile->width;
        if (v >= 0 && v < in->height && to > from)
            memcpy(tile->rgb + 3 * ((size_t)y * (size_t)tile->width + (size_t)from),
                   in->rgb + 3 * ((size_t)v * (size_t)in->width + (size_t)(from - left)),
                   3 * (size_t)(to - from));
    }
}

static clef_status add_tiles(filling *f, const clef_picture *in, const canvas *c, clef_error *err)
{
    clef_picture tile = {.height = c->tile_height, .width = c->tile_width};
    clef_status s = CLEF_OK;
    tile.rgb = malloc(3 * (size_t)tile.height * (size_t)tile.width);
    if (!tile.rgb)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a tile of a picture");
    for (int32_t i = 0; i < c->rows * c->columns && !s; i++) {
        cut(in, c, i / c->columns, i % c->columns, &tile);
        s = add_tile(f, &tile, err);
    }
    free(tile.rgb);
    return s;
}

/* ---- Idefics 3 and SmolVLM --------------------------------------------------------------------- */

/* The longer side becomes `longest`; the other one is even. */
static void size_by_longest(const clef_picture *in, int32_t longest, int32_t *height, int32_t *width)
{
    const double ratio = (double)in->width / in->height;
    const int is_wide = in->width >= in->height;
    int32_t other = (int32_t)(is_wide ? longest / ratio : longest * ratio);
    other += other % 2;
    other = other < 1 ? 1 : other;
    *height = is_wide ? other : longest;
    *width = is_wide ? longest : other;
    if (*height > MOST_SIDE || *width > MOST_SIDE) {
        const double now = (double)*width / *height;
        *height = *width >= *height ? (int32_t)(MOST_SIDE / now) : MOST_SIDE;
        *width = is_wide ? MOST_SIDE : (int32_t)(MOST_SIDE * now);
        *height = *height < 1 ? 1 : *height;
        *width = *width < 1 ? 1 : *width;
    }
}

/* Multiples of a tile. */
static void size_in_tiles(const clef_picture *in, int32_t tile, canvas *c)
{
    const double ratio = (double)in->width / in->height;
    if (in->width >= in->height) {
        c->columns = ceil_of(in->width, tile);
        c->rows = ceil_of((int32_t)(c->columns * tile / ratio), tile);
    } else {
        c->rows = ceil_of(in->height, tile);
        c->columns = ceil_of((int32_t)(c->rows * tile * ratio), tile);
    }
    c->height = c->rows * tile;
    c->width = c->columns * tile;
    c->tile_height = c->tile_width = tile;
}

static clef_status split_resized(const clef_picture_processor *p, const clef_picture *in, clef_pixels *out,
                                 clef_error *err)
{
    canvas c;
    clef_picture all;
    filling f = {.p = p, .out = out, .most = 1};
    if (!p->splits)
        return add_whole(&f, in, p->tile, p->tile, err);
    size_in_tiles(in, p->tile, &c);
    if (c.rows < 1 || c.columns < 1 || (int64_t)c.rows * c.columns >= MOST_TILES)
        return too_wide(in, err);
    clef_status s = clef__resize(in, c.height, c.width, p->filter, &all, err);
    const int is_cut = c.rows * c.columns > 1;
    f.most = c.rows * c.columns + is_cut;
    if (!s)
        s = add_tiles(&f, &all, &c, err);
    if (!s && is_cut)
        s = add_whole(&f, &all, p->tile, p->tile, err);
    clef_picture_finish(&all);
    out->rows = is_cut ? c.rows : 0;
    out->columns = is_cut ? c.columns : 0;
    return s;
}

static clef_status split(const clef_picture_processor *p, const clef_picture *in, clef_pixels *out,
                         clef_error *err)
{
    int32_t height, width;
    clef_picture resized;
    if (!p->resizes)
        return split_resized(p, in, out, err);
    size_by_longest(in, p->longest, &height, &width);
    clef_status s = clef__resize(in, height, width, p->filter, &resized, err);
    if (!s)
        s = split_resized(p, &resized, out, err);
    clef_picture_finish(&resized);
    return s;
}

/* ---- InternVL ---------------------------------------------------------------------------------- */

/* The grid whose ratio of sides is nearest to the picture's. Of several, that with the fewest tiles, unless
 * the picture has more than half of the pixels of another one. */
static void nearest_grid(const clef_picture_processor *p, const clef_picture *in, canvas *c)
{
    const double ratio = (double)in->width / in->height, area = (double)in->width * in->height;
    double best = INFINITY;
    for (int32_t n = p->min_tiles; n <= p->max_tiles; n++)
        for (int32_t columns = 1; columns <= n; columns++) {
            const double off = fabs(ratio - (double)columns / (n / columns));
            if (n % columns)
                continue;
            if (off < best || (off == best && area > 0.5 * p->height * p->width * n)) {
                best = off;
                c->columns = columns;
                c->rows = n / columns;
            }
        }
}

static clef_status on_canvas(const clef_picture_processor *p, const clef_picture *in, clef_pixels *out,
                             clef_error *err)
{
    canvas c = {.rows = 1, .columns = 1, .tile_height = p->height, .tile_width = p->width};
    clef_picture all;
    filling f = {.p = p, .out = out};
    nearest_grid(p, in, &c);
    c.height = c.rows * c.tile_height;
    c.width = c.columns * c.tile_width;
    const int is_cut = c.rows * c.columns > 1;
    f.most = c.rows * c.columns + is_cut;
    clef_status s = clef__resize(in, c.height, c.width, p->filter, &all, err);
    if (!s)
        s = add_tiles(&f, &all, &c, err);
    if (!s && is_cut)
        s = add_whole(&f, in, p->height, p->width, err);
    clef_picture_finish(&all);
    out->rows = is_cut ? c.rows : 0;
    out->columns = is_cut ? c.columns : 0;
    return s;
}

/* ---- LLaVA-NeXT -------------------------------------------------------------------------------- */

/* The pin that shows the most of the picture's pixels, and of several the smallest. */
static const int32_t *best_pin(const clef_picture_processor *p, const clef_picture *in)
{
    const double area = (double)in->width * in->height;
    const int32_t *best = NULL;
    double most = 0, least = INFINITY;
    for (int32_t i = 0; i < p->n_pins; i++) {
        const double height = p->pins[i][0], width = p->pins[i][1], a = width / in->width,
                     b = height / in->height, scale = a < b ? a : b,
                     shown = floor(in->width * scale) * floor(in->height * scale),
                     used = shown < area ? shown : area, wasted = height * width - used;
        if (used > most || (used == most && wasted < least)) {
            most = used;
            least = wasted;
            best = p->pins[i];
        }
    }
    return best;
}

/* As large as it fits onto the pin. */
static void size_on_pin(const clef_picture *in, const int32_t pin[2], canvas *c)
{
    const double a = (double)pin[1] / in->width, b = (double)pin[0] / in->height;
    const double height = ceil(in->height * a), width = ceil(in->width * b);
    c->height = a < b && height < pin[0] ? (int32_t)height : pin[0];
    c->width = a < b || width > pin[1] ? pin[1] : (int32_t)width;
}

static clef_status on_pin(const clef_picture_processor *p, const clef_picture *in, clef_pixels *out,
                          clef_error *err)
{
    const int32_t tile = p->crop_height, *pin = best_pin(p, in);
    canvas c = {.tile_height = tile, .tile_width = tile};
    clef_picture all;
    if (!pin)
        return too_wide(in, err);
    c.rows = pin[0] / tile;
    c.columns = pin[1] / tile;
    size_on_pin(in, pin, &c);
    filling f = {.p = p, .out = out, .most = 1 + c.rows * c.columns};
    clef_status s = add_whole(&f, in, p->kind == CLEF__SIZE_SHORTEST ? p->shortest : p->height,
                              p->kind == CLEF__SIZE_SHORTEST ? p->shortest : p->width, err);
    if (!s)
        s = clef__resize(in, c.height, c.width, p->filter, &all, err);
    if (s)
        return s;
    s = add_tiles(&f, &all, &c, err);
    clef_picture_finish(&all);
    out->rows = c.rows;
    out->columns = c.columns;
    return s;
}

clef_status clef__process_tiles(const clef_picture_processor *p, const clef_picture *picture,
                                clef_pixels *out, clef_error *err)
{
    const clef_status s = p->tiling == CLEF__TILES_SPLIT    ? split(p, picture, out, err)
                          : p->tiling == CLEF__TILES_CANVAS ? on_canvas(p, picture, out, err)
                                                            : on_pin(p, picture, out, err);
    if (s)
        clef_pixels_finish(out);
    return s;
}
