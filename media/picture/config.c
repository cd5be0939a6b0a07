/* A model's preprocessor_config.json, as transformers 3 to 5 write it. */
#include <inttypes.h>
#include <string.h>

#include "media/picture/steps.h"

enum { MAX_SIDE = 1 << 16 };

/* ---- classes --------------------------------------------------------------------------------- */

/* The classes of transformers that clef knows, and the values of keys that a file leaves out. */
typedef struct processor_class {
    const char *name; /* without ImageProcessor, ImageProcessorFast or FeatureExtractor */
    clef__filter filter;
    int32_t size, shortest, crop; /* shortest: 1: the size is that of the shorter side */
    int32_t square;               /* 1: a bare number is both sides */
    const double *mean, *std;
    clef__size_kind kind;
    int32_t floats;
} processor_class;

static const double half[3] = {0.5, 0.5, 0.5};
static const double imagenet_mean[3] = {0.485, 0.456, 0.406}, imagenet_std[3] = {0.229, 0.224, 0.225};
static const double clip_mean[3] = {0.48145466, 0.4578275, 0.40821073},
                    clip_std[3] = {0.26862954, 0.26130258, 0.27577711};

static const processor_class classes[] = {
    {"ViT", CLEF__BILINEAR, 224, 0, 0, 1, half, half, CLEF__SIZE_EXACT, 0},
    {"DeiT", CLEF__BICUBIC, 256, 0, 224, 1, half, half, CLEF__SIZE_EXACT, 0},
    {"Bit", CLEF__BICUBIC, 224, 1, 224, 0, clip_mean, clip_std, CLEF__SIZE_EXACT, 0},
    {"CLIP", CLEF__BICUBIC, 224, 1, 224, 0, clip_mean, clip_std, CLEF__SIZE_EXACT, 0},
    {"Siglip", CLEF__BICUBIC, 224, 0, 0, 0, half, half, CLEF__SIZE_EXACT, 0},
    {"Siglip2", CLEF__BILINEAR, 224, 0, 0, 0, half, half, CLEF__SIZE_PATCHES, 0},
    {"Gemma3", CLEF__BILINEAR, 224, 0, 0, 1, half, half, CLEF__SIZE_EXACT, 0},
    {"Qwen2VL", CLEF__BICUBIC, 0, 0, 0, 0, clip_mean, clip_std, CLEF__SIZE_AREA, 0},
    {"DINOv3ViT", CLEF__BILINEAR, 224, 0, 0, 1, imagenet_mean, imagenet_std, CLEF__SIZE_EXACT, 1},
};

/* The class that a file names. Files of transformers before 4.27 have feature_extractor_type. */
static const processor_class *class_of(clef_json_fields *f)
{
    static const char *const ends[] = {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil",
                                       "FeatureExtractor"};
    const char *old = clef__json_string(f, "feature_extractor_type", ""),
               *name = clef__json_string(f, "image_processor_type", old);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const size_t n = strlen(classes[i].name);
        for (size_t e = 0; e < sizeof ends / sizeof *ends && strncmp(name, classes[i].name, n) == 0; e++)
            if (strcmp(name + n, ends[e]) == 0)
                return &classes[i];
    }
    if (f->status == CLEF_OK)
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED,
                               "%s: image_processor_type %.60s is not supported, expected one of ViT, DeiT, "
                               "Bit, CLIP, Siglip, Siglip2, DINOv3ViT, Gemma3, Qwen2VL",
                               f->file, *name ? name : "\"\"");
    return NULL;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static int32_t side(clef_json_fields *f, const char *key)
{
    return (int32_t)clef__json_need_int(f, key, 1, MAX_SIDE);
}

/* {"height", "width"}, {"shortest_edge", "longest_edge"}, {"max_height", "max_width"}. */
static void read_size_object(clef_json_fields *f, clef_picture_processor *p)
{
    const int has_sides = clef__json_has(f, "shortest_edge"), has_most = clef__json_has(f, "max_height");
    p->kind = has_sides ? CLEF__SIZE_SHORTEST : has_most ? CLEF__SIZE_WITHIN : CLEF__SIZE_EXACT;
    if (has_sides) {
        p->shortest = side(f, "shortest_edge");
        p->longest = (int32_t)clef__json_int(f, "longest_edge", 1, MAX_SIDE, 0);
    } else {
        p->height = side(f, has_most ? "max_height" : "height");
        p->width = side(f, has_most ? "max_width" : "width");
    }
}

/* The key "size": an object; a number; or [height, width]. */
static void read_size(clef_json_fields *f, const processor_class *class, clef_picture_processor *p)
{
    const json_t *size = clef__json_get(f, "size");
    const int square = clef__json_bool(f, "default_to_square", class->square);
    if (json_is_object(size)) {
        clef_json_fields inner = {.object = size, .file = f->file, .within = "size", .err = f->err};
        read_size_object(&inner, p);
        f->status = f->status ? f->status : inner.status;
        return;
    }
    if (json_is_array(size) && json_array_size(size) == 2 && json_is_integer(json_array_get(size, 0)) &&
        json_is_integer(json_array_get(size, 1))) {
        const json_int_t h = json_integer_value(json_array_get(size, 0)),
                         w = json_integer_value(json_array_get(size, 1));
        p->height = h >= 1 && h <= MAX_SIDE ? (int32_t)h : 0;
        p->width = w >= 1 && w <= MAX_SIDE ? (int32_t)w : 0;
        if ((!p->height || !p->width) && f->status == CLEF_OK)
            f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: size: expected numbers from 1 to %d", f->file,
                                   MAX_SIDE);
        return;
    }
    const int32_t n = (int32_t)clef__json_int(f, "size", 1, MAX_SIDE, class->size);
    const int by_shortest = clef__json_has(f, "size") ? !square : class->shortest;
    p->kind = by_shortest ? CLEF__SIZE_SHORTEST : CLEF__SIZE_EXACT;
    p->shortest = p->height = p->width = n;
}

/* Qwen2-VL's limits are numbers of pixels, whatever the keys are called. */
static void read_area(clef_json_fields *f, clef_picture_processor *p)
{
    enum { LEAST = 56 * 56, MOST = 28 * 28 * 1280, MAX_AREA = 1 << 26, MAX_PATCH = 1024, MAX_MERGE = 16 };
    const json_t *size = clef__json_get(f, "size");
    clef_json_fields inner = {.object = size, .file = f->file, .within = "size", .err = f->err};
    const int64_t least = size ? clef__json_int(&inner, "shortest_edge", 1, MAX_AREA, LEAST) : LEAST,
                  most = size ? clef__json_int(&inner, "longest_edge", 1, MAX_AREA, MOST) : MOST;
    f->status = f->status ? f->status : inner.status;
    p->least_area = clef__json_int(f, "min_pixels", 1, MAX_AREA, least);
    p->most_area = clef__json_int(f, "max_pixels", 1, MAX_AREA, most);
    p->patch = (int32_t)(clef__json_int(f, "patch_size", 1, MAX_PATCH, 14) *
                         clef__json_int(f, "merge_size", 1, MAX_MERGE, 2));
    clef__json_int(f, "temporal_patch_size", 1, MAX_MERGE, 2); /* the tower repeats the picture */
    if (p->least_area > p->most_area && f->status == CLEF_OK)
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: min_pixels is more than max_pixels", f->file);
}

static void read_crop(clef_json_fields *f, const processor_class *class, clef_picture_processor *p)
{
    const json_t *crop = clef__json_get(f, "crop_size");
    p->crops = clef__json_bool(f, "do_center_crop", class->crop > 0);
    if (json_is_object(crop)) {
        clef_json_fields inner = {.object = crop, .file = f->file, .within = "crop_size", .err = f->err};
        p->crop_height = side(&inner, "height");
        p->crop_width = side(&inner, "width");
        f->status = f->status ? f->status : inner.status;
        return;
    }
    p->crop_height = p->crop_width =
        (int32_t)clef__json_int(f, "crop_size", 1, MAX_SIDE, class->crop ? class->crop : 224);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Three numbers, or one for all; `least`: what they are above. */
static void read_three(clef_json_fields *f, const char *key, const double *missing, double least,
                       double out[3])
{
    const json_t *value = clef__json_get(f, key);
    const size_t n = json_array_size(value);
    memcpy(out, missing, 3 * sizeof *out);
    if (!clef__json_has(f, key) || f->status != CLEF_OK)
        return;
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, n == 1 ? 0 : i) : value;
        out[i] = json_number_value(one);
        if (!json_is_number(one) || !(out[i] > least) || out[i] > 1e6 || n > 3) {
            f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s: expected three numbers above %g", f->file,
                                   key, least);
            return;
        }
    }
}

/* Keys that change nothing here, or that only say what clef does anyway. */
static const char *const ignored[] = {
    "processor_class",   "_processor_class",       "auto_map",     "do_convert_rgb",
    "data_format",       "return_tensors",         "device",       "disable_grouping",
    "input_data_format", "image_seq_length",       "num_channels", "_valid_processor_keys",
    "_auto_class",       "feature_extractor_type", "pad_size",
};

/* Any other key that nothing has asked for changes the pixels, unless it says no. */
static void check_unread(clef_json_fields *f)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)f->object, key, value) {
        int known = json_is_null(value) || json_is_false(value) || json_object_get(f->seen, key) != NULL;
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
            known = known || strcmp(key, ignored[i]) == 0;
        if (!known && f->status == CLEF_OK)
            f->status =
                clef__fail(f->err, CLEF_E_UNSUPPORTED,
                           "%s: the key %.60s changes the pixels, and is not supported", f->file, key);
    }
}

static void read_keys(clef_json_fields *f, clef_picture_processor *p)
{
    const processor_class *class = class_of(f);
    if (!class)
        return;
    p->kind = class->kind;
    p->floats = class->floats;
    p->resizes = clef__json_bool(f, "do_resize", 1);
    p->filter = (clef__filter)clef__json_int(f, "resample", 0, CLEF__N_FILTERS - 1, class->filter);
    if (class->kind == CLEF__SIZE_AREA) {
        read_area(f, p);
    } else if (class->kind == CLEF__SIZE_PATCHES) {
        p->patch = (int32_t)clef__json_int(f, "patch_size", 1, 1024, 16);
        p->max_patches = (int32_t)clef__json_int(f, "max_num_patches", 1, 1 << 20, 256);
    } else {
        read_size(f, class, p);
        read_crop(f, class, p);
    }
    if (p->floats && p->crops && f->status == CLEF_OK)
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: do_center_crop of %s is not supported",
                               f->file, class->name);
    p->rescales = clef__json_bool(f, "do_rescale", 1);
    p->factor = clef__json_double(f, "rescale_factor", -1e6, 1e6, 1.0 / 255);
    p->normalizes = clef__json_bool(f, "do_normalize", 1);
    read_three(f, "image_mean", class->mean, -1e6, p->mean);
    read_three(f, "image_std", class->std, 0, p->std);
    check_unread(f);
}

clef_status clef__processor_read(const json_t *config, const char *file, clef_picture_processor *p,
                                 clef_error *err)
{
    clef_json_fields f = {.object = config, .file = file, .err = err, .seen = json_object()};
    if (!json_is_object(config))
        f.status =
            clef__fail(err, CLEF_E_FORMAT, "%s: is %s, expected an object", file, clef__json_kind(config));
    else if (!f.seen)
        f.status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", file);
    else
        read_keys(&f, p);
    json_decref(f.seen);
    return f.status;
}
