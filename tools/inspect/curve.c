/* Draws the perplexity along a text. */
#include "tools/inspect/curve.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/output.h"

enum {
    WIDTH = 900,
    HEIGHT = 360,
    LEFT = 72,
    RIGHT = 16,
    TOP = 36,
    BOTTOM = 40,
    POINTS = 400,
    STRETCHES = 60,
    TICKS = 5
};

typedef struct axes {
    double lo, hi; /* of log perplexity */
    int64_t n;
} axes;

static double x_of(const axes *a, double token)
{
    return (double)LEFT + (WIDTH - LEFT - RIGHT) * token / (double)a->n;
}

static double y_of(const axes *a, double nats)
{
    return (double)TOP + (HEIGHT - TOP - BOTTOM) * (a->hi - nats) / (a->hi - a->lo);
}

/* Draws means of `step` tokens each, or the running mean at their ends. */
static void scan_means(const cli_curve *c, int64_t step, FILE *to, const axes *a, int running, double *lo,
                       double *hi)
{
    double sum = 0, part = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < c->n; i++) {
        sum += (double)c->nats[i];
        part += (double)c->nats[i];
        if ((i + 1) % step && i + 1 < c->n)
            continue;
        const double y = running ? sum / (double)(i + 1) : part / (double)(i + 1 - at);
        if (to)
            fprintf(to, "%.1f,%.1f ", x_of(a, running ? (double)(i + 1) : ((double)(at + i) + 1) / 2),
                    y_of(a, y));
        *lo = fmin(*lo, y);
        *hi = fmax(*hi, y);
        part = 0;
        at = i + 1;
    }
}

static void write_axes(FILE *to, const axes *a)
{
    for (int i = 0; i <= TICKS; i++) {
        const double nats = a->lo + (a->hi - a->lo) * i / (double)TICKS, y = y_of(a, nats),
                     x = x_of(a, (double)a->n * i / (double)TICKS);
        fprintf(to,
                "<path d=\"M%d %.1fH%d\" stroke=\"#e3e7ee\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%.3g</text>\n",
                LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, exp(nats));
        fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", x, HEIGHT - BOTTOM + 18,
                (double)a->n * i / (double)TICKS);
    }
    fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">tokens scored</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6);
}

clef_status cli_curve_svg(void *curve, FILE *to, clef_error *err)
{
    const cli_curve *c = curve;
    const int64_t step = c->n > POINTS ? c->n / POINTS : 1, stretch = c->n > STRETCHES ? c->n / STRETCHES : 1;
    axes a = {.lo = INFINITY, .hi = -INFINITY, .n = c->n};
    double sum = 0, none[2] = {0, 0};
    if (c->n < 1)
        return cli_error(err, CLEF_E_ARG, "%s: no token was scored", c->title);
    for (int64_t i = 0; i < c->n; i++)
        sum += (double)c->nats[i];
    scan_means(c, stretch, NULL, &a, 0, &a.lo, &a.hi);
    scan_means(c, step, NULL, &a, 1, &a.lo, &a.hi);
    if (!isfinite(a.lo) || !isfinite(a.hi))
        return cli_error(err, CLEF_E_LIMIT, "%s: a token's probability is not a number", c->title);
    a.hi += (a.hi - a.lo) * 0.05 + 1e-3;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" "
            "y=\"20\" font-size=\"14\">",
            WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    cli_xml_text(to, c->title);
    fprintf(to, ": perplexity %.4f over %" PRId64 " tokens</text>\n", exp(sum / (double)c->n), c->n);
    write_axes(to, &a);
    fputs("<polyline fill=\"none\" stroke=\"#b9cdec\" points=\"", to);
    scan_means(c, stretch, to, &a, 0, &none[0], &none[1]);
    fputs("\"/>\n<polyline fill=\"none\" stroke=\"#2f6fd0\" stroke-width=\"2\" points=\"", to);
    scan_means(c, step, to, &a, 1, &none[0], &none[1]);
    fprintf(to,
            "\"/>\n<text x=\"%d\" y=\"20\" text-anchor=\"end\"><tspan fill=\"#2f6fd0\">so far</tspan> <tspan "
            "fill=\"#8aa9d8\">each %" PRId64 " token%s</tspan></text>\n</svg>\n",
            WIDTH - RIGHT, stretch, stretch == 1 ? "" : "s");
    return ferror(to) ? cli_error(err, CLEF_E_IO, "cannot write: %s", strerror(errno)) : CLEF_OK;
}
