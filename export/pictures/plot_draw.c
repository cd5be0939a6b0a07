/* Draws loss curves by cairo, and pages around them. */
#include <math.h>
#include <string.h>

#include "train/command/plot.h"

/* The name of a run: of OUT.train/log.jsonl OUT's. */
static void name_of(const plot_log *log, char out[128])
{
    static const char ending[] = ".train/log.jsonl";
    char path[512];
    snprintf(path, sizeof path, "%s", log->path);
    const size_t n = strlen(path), m = sizeof ending - 1;
    if (n > m && strcmp(path + n - m, ending) == 0)
        path[n - m] = 0;
    snprintf(out, 128, "%.120s", cli_title_of(path));
}

#ifdef CLEF_HAVE_CAIRO
#    include "export/pictures/canvas.h"

enum {
    WIDTH = 960,
    HEIGHT = 560,
    LEFT = 70,
    RIGHT = 20,
    TOP = 56,
    SPLIT = 400,
    BELOW = 440,
    BOTTOM = 520,
    FONT = 12,
    MOST_TICKS = 100,
    MOST_REACH = 500 /* steps before and after a point of the smooth line */
};

typedef struct colour {
    double r, g, b;
} colour;

/* Of the logs, in turn. */
static const colour colours[] = {
    {0.18, 0.44, 0.82}, {0.84, 0.40, 0.10}, {0.20, 0.60, 0.30}, {0.60, 0.30, 0.70}, {0.50, 0.50, 0.20}};

/* A rectangle of the picture, and the numbers at its ends. */
typedef struct panel {
    double top, bottom, x_most, y_least, y_most;
} panel;

static double x_of(const panel *p, double x)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * x / p->x_most;
}

static double y_of(const panel *p, double y)
{
    return p->bottom - (p->bottom - p->top) * (fmin(fmax(y, p->y_least), p->y_most) - p->y_least) /
                           (p->y_most - p->y_least);
}

/* A step of 1, 2 or 5 times a power of ten that divides `range` into about n. */
static double round_step(double range, int n)
{
    const double raw = range / n, power = pow(10, floor(log10(raw))), part = raw / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

static void text_at(cairo_t *c, const char *text, double x, double y, double align)
{
    cairo_text_extents_t size;
    cairo_text_extents(c, text, &size);
    cairo_move_to(c, x - align * size.x_advance, y);
    cairo_show_text(c, text);
}

static void draw_axes(cairo_t *c, const panel *p, int n_ticks, const char *name, int with_steps)
{
    char text[32];
    const double y_step = round_step(p->y_most - p->y_least, n_ticks), x_step = round_step(p->x_most, 8),
                 y_first = ceil(p->y_least / y_step);
    cairo_set_line_width(c, 1);
    for (int i = 0; i < MOST_TICKS; i++) { /* a bound, since adding to a large number may not change it */
        const double y = (y_first + i) * y_step;
        if (!(y <= p->y_most + 1e-9 * y_step))
            break;
        cairo_set_source_rgb(c, 0.89, 0.91, 0.94);
        cairo_move_to(c, LEFT, y_of(p, y));
        cairo_line_to(c, WIDTH - RIGHT, y_of(p, y));
        cairo_stroke(c);
        cairo_set_source_rgb(c, 0.25, 0.28, 0.33);
        snprintf(text, sizeof text, "%.3g", fabs(y) < y_step / 1e6 ? 0 : y);
        text_at(c, text, LEFT - 8, y_of(p, y) + 4, 1);
    }
    for (int i = 0; i < MOST_TICKS && with_steps && i * x_step <= p->x_most + 1e-9 * x_step; i++) {
        const double x = i * x_step;
        snprintf(text, sizeof text, "%.0f", x);
        text_at(c, text, x_of(p, x), p->bottom + 18, 0.5);
    }
    text_at(c, name, LEFT, p->top - 8, 0);
}

/* The mean of the values up to `reach` places before and after place i: of fewer on both sides near the
 * begin, where losses fall fast, and of fewer after it near the end. */
static double mean_around(const plot_series *s, int64_t i, int64_t reach)
{
    reach = reach < i ? reach : i;
    const int64_t last = i + reach < s->n - 1 ? i + reach : s->n - 1;
    double sum = 0;
    for (int64_t k = i - reach; k <= last; k++)
        sum += s->value[k];
    return sum / (double)(last - i + reach + 1);
}

static void draw_line(cairo_t *c, const panel *p, const plot_series *s, int64_t reach)
{
    cairo_new_path(c);
    for (int64_t i = 0; i < s->n; i++)
        cairo_line_to(c, x_of(p, s->step[i]), y_of(p, mean_around(s, i, reach)));
    cairo_stroke(c);
}

static void draw_log(cairo_t *c, const panel *losses, const panel *rates, const plot_log *log,
                     const colour *k)
{
    cairo_set_line_width(c, 0.7);
    cairo_set_source_rgba(c, k->r, k->g, k->b, 0.3);
    draw_line(c, losses, &log->loss, 0);
    cairo_set_line_width(c, 1.8);
    cairo_set_source_rgb(c, k->r, k->g, k->b);
    draw_line(c, losses, &log->loss, log->loss.n / 50 < MOST_REACH ? log->loss.n / 50 : MOST_REACH);
    draw_line(c, rates, &log->rate, 0);
    cairo_set_source_rgb(c, 0.75 * k->r, 0.75 * k->g, 0.75 * k->b);
    cairo_set_line_width(c, 1.2);
    draw_line(c, losses, &log->evaluation, 0);
    for (int64_t i = 0; i < log->evaluation.n; i++) {
        cairo_new_path(c);
        cairo_arc(c, x_of(losses, log->evaluation.step[i]), y_of(losses, log->evaluation.value[i]), 3.5, 0,
                  6.283185307179586);
        cairo_fill(c);
    }
}

/* The last losses beside the log's name. */
static void draw_title(cairo_t *c, const plot_log *log, int32_t i, const colour *k)
{
    char text[512], name[128], validation[64] = "";
    name_of(log, name);
    if (log->evaluation.n)
        snprintf(validation, sizeof validation, ", validation %.3f (points)",
                 log->evaluation.value[log->evaluation.n - 1]);
    snprintf(text, sizeof text, "%s: loss %.3f%s", name, log->loss.value[log->loss.n - 1], validation);
    cairo_set_source_rgb(c, k->r, k->g, k->b);
    text_at(c, text, WIDTH - RIGHT, 20 + 15 * i, 1);
}

static void widen(const plot_series *s, double *least, double *most)
{
    for (int64_t i = 0; i < s->n; i++) {
        *least = fmin(*least, s->value[i]);
        *most = fmax(*most, s->value[i]);
    }
}

static void draw_all(cairo_t *c, const void *user)
{
    const plot_logs *all = user;
    panel losses = {.top = TOP, .bottom = SPLIT, .x_most = 1, .y_least = INFINITY, .y_most = -INFINITY},
          rates = {.top = BELOW, .bottom = BOTTOM, .x_most = 1, .y_most = 1e-12};
    for (int32_t i = 0; i < all->n; i++) {
        const plot_log *log = &all->logs[i];
        widen(&log->loss, &losses.y_least, &losses.y_most);
        widen(&log->evaluation, &losses.y_least, &losses.y_most);
        widen(&log->rate, &rates.y_least, &rates.y_most);
        losses.x_most = fmax(losses.x_most, log->loss.step[log->loss.n - 1]);
    }
    const double room = (losses.y_most - losses.y_least) * 0.05 + 1e-6;
    losses.y_least -= room;
    losses.y_most += room;
    rates.x_most = losses.x_most;
    rates.y_most *= 1.1;
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_paint(c);
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, FONT);
    draw_axes(c, &losses, 8, "loss, in nats a token", 0);
    draw_axes(c, &rates, 2, "learning rate", 1);
    text_at(c, "step", (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6, 0.5);
    for (int32_t i = 0; i < all->n; i++) {
        const colour *k = &colours[(size_t)i % (sizeof colours / sizeof *colours)];
        draw_log(c, &losses, &rates, &all->logs[i], k);
        draw_title(c, &all->logs[i], i, k);
    }
}

static clef_status draw_to(const plot_logs *logs, FILE *to, int is_png, clef_error *err)
{
    const cli_canvas canvas = {.command = "train plot",
                               .width = WIDTH,
                               .height = HEIGHT,
                               .is_png = is_png,
                               .draw = draw_all,
                               .user = logs};
    return cli_canvas_write(&canvas, to, err);
}
#else
static clef_status draw_to(const plot_logs *logs, FILE *to, int is_png, clef_error *err)
{
    (void)logs, (void)to;
    return cli_error(err, CLEF_E_UNSUPPORTED,
                     "train plot: %s: this clef was built without cairo (Debian: libcairo2-dev)",
                     is_png ? "png" : "svg");
}
#endif

clef_status plot_svg(void *logs, FILE *to, clef_error *err)
{
    return draw_to(logs, to, 0, err);
}

clef_status plot_png(void *logs, FILE *to, clef_error *err)
{
    return draw_to(logs, to, 1, err);
}

static void write_samples(const plot_log *log, FILE *to)
{
    for (int64_t i = log->n_samples - 1; i >= 0; i--) {
        fprintf(to, "<h3>after step %.0f</h3>\n<pre>", log->samples[i].step);
        cli_xml_text(to, log->samples[i].text);
        fputs("</pre>\n", to);
    }
}

clef_status plot_html(void *user, FILE *to, clef_error *err)
{
    const plot_logs *logs = user;
    char name[128];
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", to);
    name_of(&logs->logs[0], name);
    cli_xml_text(to, name);
    fputs("</title>\n<style>body{font:14px sans-serif;max-width:1000px;margin:2em auto;color:#222}"
          "pre{background:#f5f7fa;padding:.8em;white-space:pre-wrap}svg{max-width:100%;height:auto}</style></"
          "head><body>\n",
          to);
    const clef_status s = draw_to(logs, to, 0, err);
    for (int32_t i = 0; i < logs->n && !s; i++) {
        const plot_log *log = &logs->logs[i];
        fputs("<h2>", to);
        cli_xml_text(to, log->path);
        fprintf(to, "</h2>\n<p>%.0f parameters, %.0f steps, %.0f tokens/s at the end</p>\n", log->parameters,
                log->loss.step[log->loss.n - 1], log->speed.n ? log->speed.value[log->speed.n - 1] : 0);
        write_samples(log, to);
    }
    fputs("</body></html>\n", to);
    return s ? s : ferror(to) ? cli_error(err, CLEF_E_IO, "train plot: cannot write") : CLEF_OK;
}
