/* Resizing with antialiasing. Each number of the result is a weighted sum of the numbers around its place in
 * the source. The filter is as wide as the picture shrinks, so that all of them count. */
#include "media/picture/resize.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- filters --------------------------------------------------------------------------------- */

static double nearest(double x)
{
    (void)x;
    return 1;
}

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1 : 0;
}

static double bilinear(double x)
{
    return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

static double sinc(double x)
{
    const double t = x * 3.14159265358979323846;
    return x == 0 ? 1 : sin(t) / t;
}

static double hamming(double x)
{
    return fabs(x) >= 1 ? 0 : sinc(x) * (0.54F + 0.46F * cos(x * 3.14159265358979323846));
}

/* Keys (1981) with a = -1/2. */
static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double lanczos(double x)
{
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static const struct {
    double (*weight)(double x);
    double reach; /* of the filter, in pixels */
} filters[CLEF__N_FILTERS] = {
    [CLEF__NEAREST] = {nearest, 0}, [CLEF__LANCZOS] = {lanczos, 3}, [CLEF__BILINEAR] = {bilinear, 1},
    [CLEF__BICUBIC] = {bicubic, 2}, [CLEF__BOX] = {box, 0.5},       [CLEF__HAMMING] = {hamming, 1},
};

/* ---- weights --------------------------------------------------------------------------------- */

enum { BITS = 22 }; /* of the weights of bytes: 32 less those of a byte and two for sums above 1 */

/* What each of n_out numbers is made of: `n` numbers from `first` on, by its row of weights. */
typedef struct taps {
    int32_t n_in, n_out, most; /* most: the length of a row */
    struct span {
        int32_t first, n;
    } * spans;
    double *weights;  /* [n_out, most] */
    int32_t *rounded; /* the same in BITS */
} taps;

static void finish_taps(taps *t)
{
    free(t->spans);
    free(t->weights);
    free(t->rounded);
}

static void fill_row(taps *t, int32_t i, clef__filter filter, double centre, double stretch)
{
    const double reach = filters[filter].reach * stretch;
    int32_t first = (int32_t)(centre - reach + 0.5), end = (int32_t)(centre + reach + 0.5);
    if (filter == CLEF__NEAREST)
        end = (first = (int32_t)centre) + 1;
    first = first < 0 ? 0 : first < t->n_in ? first : t->n_in - 1;
    end = end > t->n_in ? t->n_in : end;
    double sum = 0, *w = t->weights + (size_t)i * (size_t)t->most;
    t->spans[i] = (struct span){first, end - first};
    for (int32_t k = 0; k < end - first; k++)
        sum += w[k] = filters[filter].weight((k + first - centre + 0.5) / stretch);
    for (int32_t k = 0; k < end - first; k++) {
        w[k] = sum != 0 ? w[k] / sum : w[k];
        t->rounded[(size_t)i * (size_t)t->most + (size_t)k] =
            (int32_t)(w[k] * (1 << BITS) + (w[k] < 0 ? -0.5 : 0.5));
    }
}

static clef_status make_taps(taps *t, int32_t n_in, int32_t n_out, clef__filter filter, clef_error *err)
{
    const double scale = (double)n_in / n_out, stretch = scale < 1 ? 1 : scale;
    *t = (taps){.n_in = n_in, .n_out = n_out, .most = (int32_t)ceil(filters[filter].reach * stretch) * 2 + 1};
    const size_t n = (size_t)n_out * (size_t)t->most;
    t->spans = malloc((size_t)n_out * sizeof *t->spans);
    t->weights = calloc(n, sizeof *t->weights);
    t->rounded = calloc(n, sizeof *t->rounded);
    if (!t->spans || !t->weights || !t->rounded) {
        finish_taps(t);
        return clef__fail(err, CLEF_E_NOMEM, "no memory to resize a picture from %" PRId32 " to %" PRId32,
                          n_in, n_out);
    }
    double walked = 0.5 * scale; /* Pillow's nearest pixels are found by adding, with what that rounds */
    for (int32_t i = 0; i < n_out; i++, walked += scale)
        fill_row(t, i, filter, filter == CLEF__NEAREST ? walked : (i + 0.5) * scale, stretch);
    return CLEF_OK;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static uint8_t to_byte(int32_t sum)
{
    const int32_t x = sum >> BITS;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* Along rows of pixels of three bytes. */
static void rows_of_bytes(const taps *t, const uint8_t *in, size_t n_rows, uint8_t *out)
{
    for (size_t y = 0; y < n_rows; y++, in += 3 * (size_t)t->n_in)
        for (int32_t x = 0; x < t->n_out; x++, out += 3) {
            const int32_t *w = t->rounded + (size_t)x * (size_t)t->most;
            const uint8_t *from = in + 3 * (size_t)t->spans[x].first;
            int32_t sum[3] = {1 << (BITS - 1), 1 << (BITS - 1), 1 << (BITS - 1)};
            for (int32_t k = 0; k < t->spans[x].n; k++)
                for (int c = 0; c < 3; c++)
                    sum[c] += from[3 * k + c] * w[k];
            for (int c = 0; c < 3; c++)
                out[c] = to_byte(sum[c]);
        }
}

/* Along columns; a row has n bytes. `sums` has room for a row. */
static void columns_of_bytes(const taps *t, const uint8_t *in, size_t n, int32_t *sums, uint8_t *out)
{
    for (int32_t y = 0; y < t->n_out; y++, out += n) {
        for (size_t i = 0; i < n; i++)
            sums[i] = 1 << (BITS - 1);
        for (int32_t k = 0; k < t->spans[y].n; k++) {
            const int32_t w = t->rounded[(size_t)y * (size_t)t->most + (size_t)k];
            const uint8_t *row = in + n * (size_t)(t->spans[y].first + k);
            for (size_t i = 0; i < n; i++)
                sums[i] += row[i] * w;
        }
        for (size_t i = 0; i < n; i++)
            out[i] = to_byte(sums[i]);
    }
}

/* One pass over n_lines lines of floats. step: from a number of a line to the next; line: from a line to the
 * next. */
static void pass_of_floats(const taps *t, const float *in, size_t in_step, size_t in_line, size_t n_lines,
                           float *out, size_t out_step, size_t out_line)
{
    for (size_t l = 0; l < n_lines; l++)
        for (int32_t i = 0; i < t->n_out; i++) {
            const double *w = t->weights + (size_t)i * (size_t)t->most;
            const float *from = in + l * in_line + (size_t)t->spans[i].first * in_step;
            double sum = 0;
            for (int32_t k = 0; k < t->spans[i].n; k++)
                sum += w[k] * (double)from[(size_t)k * in_step];
            out[l * out_line + (size_t)i * out_step] = (float)sum;
        }
}

/* ---- pictures -------------------------------------------------------------------------------- */

static clef_status no_memory(int64_t height, int64_t width, clef_error *err)
{
    return clef__fail(err, CLEF_E_NOMEM, "no memory for a picture of %" PRId64 " x %" PRId64 " pixels", width,
                      height);
}

static clef_status allocate(int32_t height, int32_t width, clef_picture *out, clef_error *err)
{
    *out = (clef_picture){width, height, malloc((size_t)height * (size_t)width * 3)};
    return out->rgb ? CLEF_OK : no_memory(height, width, err);
}

static clef_status along_rows(const clef_picture *in, int32_t width, clef__filter filter, clef_picture *out,
                              clef_error *err)
{
    taps t;
    clef_status status = allocate(in->height, width, out, err);
    if (status == CLEF_OK)
        status = make_taps(&t, in->width, width, filter, err);
    if (status != CLEF_OK)
        return status;
    rows_of_bytes(&t, in->rgb, (size_t)in->height, out->rgb);
    finish_taps(&t);
    return CLEF_OK;
}

static clef_status along_columns(const clef_picture *in, int32_t height, clef__filter filter,
                                 clef_picture *out, clef_error *err)
{
    taps t;
    const size_t n = (size_t)in->width * 3;
    clef_status status = allocate(height, in->width, out, err);
    if (status == CLEF_OK)
        status = make_taps(&t, in->height, height, filter, err);
    if (status != CLEF_OK)
        return status;
    int32_t *sums = malloc(n * sizeof *sums);
    if (sums)
        columns_of_bytes(&t, in->rgb, n, sums, out->rgb);
    else
        status = no_memory(height, in->width, err);
    free(sums);
    finish_taps(&t);
    return status;
}

/* One of the passes; a side that keeps its length is copied. */
static clef_status one_pass(const clef_picture *in, int along_row, int32_t height, int32_t width,
                            clef__filter filter, clef_picture *out, clef_error *err)
{
    if (along_row && width != in->width)
        return along_rows(in, width, filter, out, err);
    if (!along_row && height != in->height)
        return along_columns(in, height, filter, out, err);
    const clef_status status = allocate(in->height, in->width, out, err);
    if (status == CLEF_OK)
        memcpy(out->rgb, in->rgb, (size_t)in->height * (size_t)in->width * 3);
    return status;
}

/* From Pillow 13 on, pictures that lose far more rows than columns lose these first. */
static int columns_first(const clef_picture *in, int32_t height, int32_t width)
{
    const int64_t rows = (int64_t)in->height - height, columns = (int64_t)in->width - width;
    return rows > 0 && rows > 2 * columns;
}

clef_status clef__resize(const clef_picture *in, int32_t height, int32_t width, clef__filter filter,
                         clef_picture *out, clef_error *err)
{
    static const int64_t most = 1 << 26;
    const int rows_first = !columns_first(in, height, width);
    clef_picture between = {0};
    *out = (clef_picture){0};
    if ((int64_t)height * width > most)
        return clef__fail(err, CLEF_E_LIMIT,
                          "a picture would be resized to %" PRId32 " x %" PRId32 ", expected at most %" PRId64
                          " pixels",
                          width, height, most);
    clef_status status = one_pass(in, rows_first, height, width, filter, &between, err);
    if (status == CLEF_OK)
        status = one_pass(&between, !rows_first, height, width, filter, out, err);
    clef_picture_finish(&between);
    if (status != CLEF_OK)
        clef_picture_finish(out);
    return status;
}

clef_status clef__pixels_allocate(int64_t height, int64_t width, clef_pixels *out, clef_error *err)
{
    static const int64_t most = 1 << 26;
    *out = (clef_pixels){0};
    if (height < 1 || width < 1 || height > most || width > most || height * width > most)
        return clef__fail(err, CLEF_E_LIMIT,
                          "a model's picture of %" PRId64 " x %" PRId64 " pixels, expected 1 to %" PRId64,
                          width, height, most);
    *out = (clef_pixels){.height = (int32_t)height,
                         .width = (int32_t)width,
                         .values = malloc((size_t)(height * width) * 3 * sizeof *out->values),
                         .n = 1};
    return out->values ? CLEF_OK : no_memory(height, width, err);
}

clef_status clef__resize_pixels(const clef_pixels *in, int32_t height, int32_t width, clef__filter filter,
                                clef_pixels *out, clef_error *err)
{
    taps columns = {0}, rows = {0};
    clef_pixels between = {0};
    const size_t h = (size_t)in->height, w = (size_t)in->width, n = (size_t)width;
    clef_status status = clef__pixels_allocate(height, width, out, err);
    if (status == CLEF_OK)
        status = clef__pixels_allocate(in->height, width, &between, err);
    if (status == CLEF_OK)
        status = make_taps(&rows, in->width, width, filter, err);
    if (status == CLEF_OK)
        status = make_taps(&columns, in->height, height, filter, err);
    if (status == CLEF_OK)
        pass_of_floats(&rows, in->values, 1, w, 3 * h, between.values, 1, n);
    for (size_t c = 0; c < 3 && status == CLEF_OK; c++)
        pass_of_floats(&columns, between.values + c * h * n, n, 1, n, out->values + c * (size_t)height * n, n,
                       1);
    finish_taps(&rows);
    finish_taps(&columns);
    clef_pixels_finish(&between);
    if (status != CLEF_OK)
        clef_pixels_finish(out);
    return status;
}
