/* What a model's processor writes into a text for its pictures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/tower/see.h"

/* A text that grows; text NULL after no memory. */
typedef struct growing {
    char *text;
    size_t n, room;
} growing;

static int add(growing *g, const char *text, size_t n)
{
    if (g->n + n + 1 > g->room) {
        const size_t room = 2 * (g->n + n + 1);
        char *more = realloc(g->text, room);
        if (!more)
            return 0;
        g->text = more;
        g->room = room;
    }
    if (n)
        memcpy(g->text + g->n, text, n);
    g->n += n;
    g->text[g->n] = '\0';
    return 1;
}

static int add_text(growing *g, const char *text)
{
    return !text || add(g, text, strlen(text));
}

/* The part of a family's text in which %s stands for the mark. */
static int add_frame(growing *g, const clef_sight *s, const char *frame)
{
    const char *mark = frame ? strstr(frame, "%s") : NULL;
    if (!mark)
        return add_text(g, frame);
    return add(g, frame, (size_t)(mark - frame)) && add_text(g, s->mark) && add_text(g, mark + 2);
}

static int add_run(growing *g, const clef_sight *s, int32_t n)
{
    int ok = 1;
    for (int32_t i = 0; i < n && ok; i++)
        ok = add_text(g, s->token);
    return ok;
}

/* Idefics 3: each tile behind its place; a line ends behind the last one of a row. */
static int add_tiles(growing *g, const clef_sight *s, const clef__sight_rows *rows)
{
    static const char border[] = "<fake_token_around_image>";
    const int32_t each = rows->n / rows->n_units;
    char place[64];
    int ok = 1;
    for (int32_t i = 0; i < rows->n_units - 1 && ok; i++) {
        const int32_t row = i / rows->width, column = i % rows->width;
        snprintf(place, sizeof place, "<row_%d_col_%d>", row + 1, column + 1);
        ok = add_text(g, border) && add_text(g, place) && add_run(g, s, each) &&
             (column + 1 < rows->width || add_text(g, "\n"));
    }
    return ok && (rows->n_units == 1 || add_text(g, "\n")) && add_text(g, border) &&
           add_text(g, "<global-img>") && add_run(g, s, each) && add_text(g, border);
}

/* Pixtral. */
static int add_lines(growing *g, const clef_sight *s, const clef__sight_rows *rows)
{
    int ok = 1;
    for (int32_t i = 0; i < rows->height && ok; i++)
        ok = add_run(g, s, rows->width) && add_text(g, i + 1 < rows->height ? "[IMG_BREAK]" : "[IMG_END]");
    return ok;
}

static int add_picture(growing *g, const clef_sight *s, const clef__sight_rows *rows)
{
    const clef__sight_layout layout = s->family->layout;
    return add_frame(g, s, s->family->before) &&
           (layout == CLEF__SIGHT_TILES   ? add_tiles(g, s, rows)
            : layout == CLEF__SIGHT_LINES ? add_lines(g, s, rows)
                                          : add_run(g, s, rows->n)) &&
           add_frame(g, s, s->family->after);
}

/* Marks outside of the plain spans. */
static int32_t count_marks(const clef_sight *s, const char *text, size_t n, const clef_sight_expand_opts *o)
{
    const size_t size = strlen(s->mark);
    int32_t found = 0;
    size_t span = 0;
    for (size_t i = 0; i + size <= n;) {
        while (span < o->n_plain && o->plain[span].end <= i)
            span++;
        if (span < o->n_plain && i >= o->plain[span].begin)
            i = o->plain[span].end;
        else if ((span == o->n_plain || i + size <= o->plain[span].begin) &&
                 memcmp(text + i, s->mark, size) == 0)
            found++, i += size;
        else
            i++;
    }
    return found;
}

/* Pictures that nothing in the text marks. */
static int add_before(growing *g, const clef_sight *s, const clef__sight_rows *rows, int32_t n)
{
    int ok = 1;
    for (int32_t i = 0; i < n && ok; i++)
        ok = add_text(g, s->family->open) && add_picture(g, s, &rows[i]) && add_text(g, s->family->close);
    return ok && add_text(g, s->family->last);
}

static int replace(growing *g, const clef_sight *s, const char *text, size_t n, const clef__sight_rows *rows,
                   int32_t n_marks, const clef_sight_expand_opts *o, clef_sight_text *out)
{
    const size_t size = strlen(s->mark);
    size_t span = 0;
    int ok = 1;
    for (size_t i = 0; i < n && ok;) {
        const clef_byte_span *next = span < o->n_plain ? &o->plain[span] : NULL;
        if (next && i == next->begin) {
            out->plain[span++] = (clef_byte_span){g->n, g->n + (next->end - next->begin)};
            ok = add(g, text + i, next->end - i);
            i = next->end;
        } else if (i + size <= (next ? next->begin : n) && memcmp(text + i, s->mark, size) == 0) {
            ok = add_picture(g, s, rows++) && (--n_marks || add_text(g, s->family->last));
            i += size;
        } else {
            ok = add(g, text + i++, 1);
        }
    }
    out->n_plain = span;
    return ok;
}

static clef_status expand(const clef_sight *s, const char *text, size_t n, const clef__sight_rows *rows,
                          int32_t n_rows, const clef_sight_expand_opts *o, clef_sight_text *out,
                          clef_error *err)
{
    growing g = {.text = NULL};
    const int32_t marks = count_marks(s, text, n, o);
    const int is_before = o->before && !marks;
    if (!is_before && marks != n_rows)
        return clef__fail(err, CLEF_E_ARG, "the text has %s %d times for %d pictures", s->mark, marks,
                          n_rows);
    out->plain = malloc((o->n_plain + 1) * sizeof *out->plain);
    const int ok = out->plain && add(&g, "", 0) && (!is_before || add_before(&g, s, rows, n_rows)) &&
                   replace(&g, s, text, n, rows, marks, o, out) &&
                   (!n_rows || !s->family->last || add_text(&g, "\n"));
    out->is_whole = n_rows && s->family->last;
    out->text = g.text;
    out->n_bytes = g.n;
    return ok ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for a text with %d pictures", n_rows);
}

/* The rows of a picture, whose tiles are those of its grid and the whole of it, where the text has the grid.
 */
static clef_status count(clef_sight *s, const clef_sight_pixels *px, clef__sight_rows *rows, clef_error *err)
{
    const clef_status status = clef__sight_count(s, px, rows, err);
    if (status || s->family->layout != CLEF__SIGHT_TILES || px->n == 1)
        return status;
    return px->rows > 0 && px->columns > 0 && (int64_t)px->rows * px->columns + 1 == px->n
               ? CLEF_OK
               : clef__fail(err, CLEF_E_SHAPE,
                            "%d pictures as %d x %d tiles: expected the tiles and the whole one", px->n,
                            px->columns, px->rows);
}

clef_status clef_sight_expand(clef_sight *s, const char *text, size_t n_bytes,
                              const clef_sight_pixels *pixels, int32_t n_pixels,
                              const clef_sight_expand_opts *opts, clef_sight_text *out, clef_error *err)
{
    const clef_sight_expand_opts o = opts ? *opts : (clef_sight_expand_opts){0};
    clef__sight_rows *rows = calloc((size_t)n_pixels + 1, sizeof *rows);
    *out = (clef_sight_text){0};
    clef_status status =
        rows ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for %d pictures", n_pixels);
    for (int32_t i = 0; i < n_pixels && !status; i++)
        status = count(s, &pixels[i], &rows[i], err);
    if (!status)
        status = expand(s, text, n_bytes, rows, n_pixels, &o, out, err);
    if (status)
        clef_sight_text_finish(out);
    free(rows);
    return status;
}

void clef_sight_text_finish(clef_sight_text *text)
{
    free(text->text);
    free(text->plain);
    *text = (clef_sight_text){0};
}
