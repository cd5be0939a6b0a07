/* From a picture to a model's pixels. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "media/picture/steps.h"
#include "runtime/os/os.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

static int64_t least_one(int64_t n)
{
    return n < 1 ? 1 : n;
}

/* transformers' get_size_with_aspect_ratio(), and torchvision's resize() to a shortest side. */
static void size_by_sides(const clef_picture_processor *p, int64_t height, int64_t width, int64_t size[2])
{
    const int64_t small = height < width ? height : width, large = height < width ? width : height;
    int64_t side = p->shortest;
    double raw = -1;
    if (p->longest && (double)large / (double)small * (double)side > (double)p->longest) {
        raw = (double)p->longest * (double)small / (double)large;
        side = (int64_t)nearbyint(raw);
    }
    if (p->longest && small == side) {
        size[0] = height, size[1] = width;
        return;
    }
    const double of_longer = raw >= 0 ? raw : (double)side;
    const int64_t longer =
        p->longest ? (int64_t)(of_longer * (double)large / (double)small) : side * large / small;
    size[0] = width < height ? longer : side;
    size[1] = width < height ? side : longer;
}

static int64_t whole_patches(double scale, int32_t n, int32_t patch)
{
    return least_one((int64_t)ceil(n * scale / patch)) * patch;
}

/* SigLIP 2: the largest scale at which the patches are few enough, by halving an interval. */
static void size_by_patches(const clef_picture_processor *p, int32_t height, int32_t width, int64_t size[2])
{
    const double eps = 1e-5;
    double low = eps / 10, high = 100;
    while (high - low >= eps) {
        const double scale = (low + high) / 2;
        const double n = (double)(whole_patches(scale, height, p->patch) / p->patch) *
                         (double)(whole_patches(scale, width, p->patch) / p->patch);
        *(n <= p->max_patches ? &low : &high) = scale;
    }
    size[0] = whole_patches(low, height, p->patch);
    size[1] = whole_patches(low, width, p->patch);
}

/* Pixtral: a picture that is too large becomes smaller; then both sides become whole patches. */
static void size_by_lines(const clef_picture_processor *p, int32_t height, int32_t width, int64_t size[2])
{
    const double down = (double)height / p->height, across = (double)width / p->width,
                 by = down > across ? down : across;
    size[0] = by > 1 ? (int64_t)floor(height / by) : height;
    size[1] = by > 1 ? (int64_t)floor(width / by) : width;
    for (int i = 0; i < 2; i++)
        size[i] = size[i] > 0 ? (size[i] + p->patch - 1) / p->patch * p->patch : 0;
}

/* transformers' smart_resize(). */
static clef_status size_by_area(const clef_picture_processor *p, int32_t height, int32_t width,
                                int64_t size[2], clef_error *err)
{
    enum { MOST_RATIO = 200 };
    const double h = height, w = width, unit = p->patch;
    const int32_t small = height < width ? height : width, large = height < width ? width : height;
    if ((int64_t)large > (int64_t)small * MOST_RATIO)
        return clef__fail(err, CLEF_E_LIMIT,
                          "a picture of %" PRId32 " x %" PRId32 " pixels: expected sides of a ratio up to %d",
                          width, height, MOST_RATIO);
    size[0] = (int64_t)nearbyint(h / unit) * p->patch;
    size[1] = (int64_t)nearbyint(w / unit) * p->patch;
    if (size[0] * size[1] > p->most_area) {
        const double by = sqrt(h * w / (double)p->most_area);
        size[0] = least_one((int64_t)floor(h / by / unit)) * p->patch;
        size[1] = least_one((int64_t)floor(w / by / unit)) * p->patch;
    } else if (size[0] * size[1] < p->least_area) {
        const double by = sqrt((double)p->least_area / (h * w));
        size[0] = (int64_t)ceil(h * by / unit) * p->patch;
        size[1] = (int64_t)ceil(w * by / unit) * p->patch;
    }
    return CLEF_OK;
}

clef_status clef__resized_size(const clef_picture_processor *p, int32_t height, int32_t width,
                               int32_t *new_height, int32_t *new_width, clef_error *err)
{
    static const int64_t most = 1 << 26;
    int64_t size[2] = {p->height, p->width};
    if (p->kind == CLEF__SIZE_SHORTEST)
        size_by_sides(p, height, width, size);
    if (p->kind == CLEF__SIZE_PATCHES)
        size_by_patches(p, height, width, size);
    if (p->kind == CLEF__SIZE_AREA) {
        const clef_status status = size_by_area(p, height, width, size, err);
        if (status != CLEF_OK)
            return status;
    }
    if (p->kind == CLEF__SIZE_LINES)
        size_by_lines(p, height, width, size);
    if (p->kind == CLEF__SIZE_WITHIN) {
        const double a = (double)p->height / height, b = (double)p->width / width, scale = a < b ? a : b;
        size[0] = (int64_t)(height * scale);
        size[1] = (int64_t)(width * scale);
    }
    if (size[0] < 1 || size[1] < 1 || size[0] > most || size[1] > most || size[0] * size[1] > most)
        return clef__fail(err, CLEF_E_LIMIT,
                          "a picture of %" PRId32 " x %" PRId32 " pixels would be resized to %" PRId64
                          " x %" PRId64 ", expected 1 to %" PRId64 " pixels",
                          width, height, size[1], size[0], most);
    *new_height = (int32_t)size[0];
    *new_width = (int32_t)size[1];
    return CLEF_OK;
}

/* ---- bytes to numbers ------------------------------------------------------------------------ */

/* Where row 0 of the centre is; a smaller picture is surrounded by black, and has more of it before. */
static int32_t start_of(int32_t size, int32_t wanted)
{
    return size >= wanted ? (size - wanted) / 2 : -((wanted - size + 1) / 2);
}

clef_status clef__pixels_of(const clef_picture_processor *p, const clef_picture *in, int crop,
                            clef_pixels *out, clef_error *err)
{
    const int32_t height = crop ? p->crop_height : in->height, width = crop ? p->crop_width : in->width;
    const int32_t top = crop ? start_of(in->height, height) : 0, left = crop ? start_of(in->width, width) : 0;
    const clef_status status = clef__pixels_allocate(height, width, out, err);
    if (status != CLEF_OK)
        return status;
    const size_t plane = (size_t)height * (size_t)width;
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++) {
            const int32_t v = y + top, u = x + left;
            const int inside = v >= 0 && v < in->height && u >= 0 && u < in->width;
            const uint8_t *from = inside ? in->rgb + 3 * ((size_t)v * (size_t)in->width + (size_t)u) : NULL;
            for (size_t c = 0; c < 3; c++) {
                const double byte = inside ? from[c] : 0;
                out->values[c * plane + (size_t)y * (size_t)width + (size_t)x] =
                    (float)(p->rescales ? byte * p->factor : byte);
            }
        }
    return CLEF_OK;
}

void clef__normalize_pixels(const clef_picture_processor *p, clef_pixels *pixels)
{
    const size_t plane = (size_t)pixels->height * (size_t)pixels->width;
    for (size_t c = 0; c < 3 && p->normalizes; c++)
        for (size_t i = 0; i < plane; i++) {
            float *x = pixels->values + c * plane + i;
            *x = (*x - (float)p->mean[c]) / (float)p->std[c];
        }
}

void clef_pixels_finish(clef_pixels *pixels)
{
    free(pixels->values);
    *pixels = (clef_pixels){0};
}

/* ---- all steps ------------------------------------------------------------------------------- */

/* DINOv3 rescales before it resizes, and does not round. */
static clef_status by_floats(const clef_picture_processor *p, const clef_picture *in, int32_t height,
                             int32_t width, clef_pixels *out, clef_error *err)
{
    clef_pixels all;
    clef_status status = clef__pixels_of(p, in, 0, &all, err);
    if (status == CLEF_OK)
        status = clef__resize_pixels(&all, height, width, p->filter, out, err);
    clef_pixels_finish(&all);
    return status;
}

/* A square around the picture, of the colour that the model takes for none. */
static clef_status squared(const clef_picture_processor *p, const clef_picture *in, clef_picture *out,
                           clef_error *err)
{
    static const int64_t most = 1 << 26;
    const int32_t side = in->height > in->width ? in->height : in->width;
    *out = (clef_picture){0};
    if ((int64_t)side * side > most)
        return clef__fail(err, CLEF_E_LIMIT,
                          "a picture of %" PRId32 " x %" PRId32 " pixels would become a square of %" PRId64
                          ", expected at most %" PRId64,
                          in->width, in->height, (int64_t)side * side, most);
    const size_t top = (size_t)((side - in->height) / 2), left = (size_t)((side - in->width) / 2),
                 n = (size_t)side;
    *out = (clef_picture){side, side, malloc(3 * n * n)};
    if (!out->rgb)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a picture of %d x %d pixels", side, side);
    for (size_t i = 0; i < 3 * n * n; i++)
        out->rgb[i] = (uint8_t)(int)(p->mean[i % 3] * 255);
    for (size_t y = 0; y < (size_t)in->height; y++)
        memcpy(out->rgb + 3 * ((top + y) * n + left), in->rgb + 3 * y * (size_t)in->width,
               3 * (size_t)in->width);
    return CLEF_OK;
}

static clef_status process(const clef_picture_processor *p, const clef_picture *picture, clef_pixels *out,
                           clef_error *err)
{
    clef_picture resized = {0};
    clef_status status = CLEF_OK;
    int32_t height = picture->height, width = picture->width;
    if (p->tiling)
        return clef__process_tiles(p, picture, out, err);
    if (p->resizes)
        status = clef__resized_size(p, picture->height, picture->width, &height, &width, err);
    if (status == CLEF_OK && p->floats)
        status = by_floats(p, picture, height, width, out, err);
    else if (status == CLEF_OK && p->resizes)
        status = clef__resize(picture, height, width, p->filter, &resized, err);
    if (status == CLEF_OK && !p->floats)
        status = clef__pixels_of(p, resized.rgb ? &resized : picture, p->crops, out, err);
    clef_picture_finish(&resized);
    if (status == CLEF_OK)
        clef__normalize_pixels(p, out);
    return status;
}

clef_status clef_picture_process(const clef_picture_processor *p, const clef_picture *picture,
                                 clef_pixels *out, clef_error *err)
{
    clef_picture square;
    *out = (clef_pixels){0};
    if (!p->pads_square || picture->height == picture->width)
        return process(p, picture, out, err);
    clef_status status = squared(p, picture, &square, err);
    if (status == CLEF_OK)
        status = process(p, &square, out, err);
    clef_picture_finish(&square);
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

enum { MAX_FILE_BYTES = 1 << 20 };

/* Loads FOLDER/file; *out is NULL where there is none. */
static clef_status load(const char *folder, const char *file, char *path, size_t n, json_t **out,
                        clef_error *err)
{
    *out = NULL;
    if (snprintf(path, n, "%s/%s", folder, file) >= (int)n)
        return clef__fail(err, CLEF_E_LIMIT, "%.200s: its path is too long", folder);
    return clef__os_is_file(path) ? clef__json_load(path, MAX_FILE_BYTES, out, err) : CLEF_OK;
}

/* Makes a processor of what was read from `path`. */
static clef_status make(const json_t *config, const json_t *beside, const char *path,
                        clef_picture_processor **out, clef_error *err)
{
    clef_picture_processor *p = calloc(1, sizeof *p);
    const clef_status s = p ? clef__processor_read(config, beside, path, p, err)
                            : clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", path);
    if (s == CLEF_OK)
        *out = p;
    else
        free(p);
    return s;
}

clef_status clef_picture_processor_create(const char *folder, clef_picture_processor **out, clef_error *err)
{
    char path[4096];
    json_t *root = NULL, *beside = NULL;
    *out = NULL;
    clef_status status = load(folder, "processor_config.json", path, sizeof path, &beside, err);
    if (status == CLEF_OK)
        status = load(folder, "preprocessor_config.json", path, sizeof path, &root, err);
    const json_t *config = root;
    if (status == CLEF_OK && !root) {
        snprintf(path, sizeof path, "%.3900s/processor_config.json", folder);
        config = json_object_get(beside, "image_processor");
    }
    if (status == CLEF_OK && !config)
        status = clef__fail(
            err, CLEF_E_NOT_FOUND,
            "%s: there is no preprocessor_config.json, which says how pictures become numbers", folder);
    if (status == CLEF_OK)
        status = make(config, beside, path, out, err);
    json_decref(root);
    json_decref(beside);
    return status;
}

clef_status clef_picture_processor_parse(const char *text, const char *name, clef_picture_processor **out,
                                         clef_error *err)
{
    json_t *config;
    *out = NULL;
    clef_status s = clef__json_parse(text, strlen(text), name, &config, err);
    if (s == CLEF_OK)
        s = make(config, NULL, name, out, err);
    json_decref(config);
    return s;
}

void clef_picture_processor_destroy(clef_picture_processor *processor)
{
    free(processor);
}
