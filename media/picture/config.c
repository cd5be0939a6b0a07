/* A model's preprocessor_config.json, as transformers 3 to 5 write it. */
#include <inttypes.h>
#include <string.h>

#include "media/picture/steps.h"

enum { MAX_SIDE = 1 << 16, MAX_AREA = 1 << 26, MOST_TILES = 1024 };

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
    clef__tiling tiling;
} processor_class;

static const double half[3] = {0.5, 0.5, 0.5};
static const double imagenet_mean[3] = {0.485, 0.456, 0.406}, imagenet_std[3] = {0.229, 0.224, 0.225};
static const double clip_mean[3] = {0.48145466, 0.4578275, 0.40821073},
                    clip_std[3] = {0.26862954, 0.26130258, 0.27577711};

static const processor_class classes[] = {
    {"ViT", CLEF__BILINEAR, 224, 0, 0, 1, half, half, CLEF__SIZE_EXACT, 0, CLEF__TILES_NONE},
    {"DeiT", CLEF__BICUBIC, 256, 0, 224, 1, half, half, CLEF__SIZE_EXACT, 0, CLEF__TILES_NONE},
    {"Bit", CLEF__BICUBIC, 224, 1, 224, 0, clip_mean, clip_std, CLEF__SIZE_EXACT, 0, CLEF__TILES_NONE},
    {"CLIP", CLEF__BICUBIC, 224, 1, 224, 0, clip_mean, clip_std, CLEF__SIZE_EXACT, 0, CLEF__TILES_NONE},
    {"Siglip", CLEF__BICUBIC, 224, 0, 0, 0, half, half, CLEF__SIZE_EXACT, 0, CLEF__TILES_NONE},
    {"Siglip2", CLEF__BILINEAR, 224, 0, 0, 0, half, half, CLEF__SIZE_PATCHES, 0, CLEF__TILES_NONE},
    {"Gemma3", CLEF__BILINEAR, 224, 0, 0, 1, half, half, CLEF__SIZE_EXACT, 0, CLEF__TILES_NONE},
    {"Qwen2VL", CLEF__BICUBIC, 0, 0, 0, 0, clip_mean, clip_std, CLEF__SIZE_AREA, 0, CLEF__TILES_NONE},
    {"DINOv3ViT", CLEF__BILINEAR, 224, 0, 0, 1, imagenet_mean, imagenet_std, CLEF__SIZE_EXACT, 1,
     CLEF__TILES_NONE},
    {"Llava", CLEF__BICUBIC, 224, 1, 224, 0, clip_mean, clip_std, CLEF__SIZE_EXACT, 0, CLEF__TILES_NONE},
    {"LlavaNext", CLEF__BICUBIC, 224, 1, 224, 0, clip_mean, clip_std, CLEF__SIZE_EXACT, 0,
     CLEF__TILES_PINNED},
    {"Idefics3", CLEF__LANCZOS, 0, 0, 0, 0, half, half, CLEF__SIZE_EXACT, 0, CLEF__TILES_SPLIT},
    {"SmolVLM", CLEF__LANCZOS, 0, 0, 0, 0, half, half, CLEF__SIZE_EXACT, 0, CLEF__TILES_SPLIT},
    {"GotOcr2", CLEF__BICUBIC, 384, 0, 0, 1, clip_mean, clip_std, CLEF__SIZE_EXACT, 0, CLEF__TILES_CANVAS},
    {"Pixtral", CLEF__BICUBIC, 1024, 0, 0, 1, clip_mean, clip_std, CLEF__SIZE_LINES, 0, CLEF__TILES_NONE},
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
        f->status =
            clef__fail(f->err, CLEF_E_UNSUPPORTED,
                       "%s: image_processor_type %.60s is not supported, expected one of ViT, DeiT, "
                       "Bit, CLIP, Siglip, Siglip2, DINOv3ViT, Gemma3, Qwen2VL, Llava, LlavaNext, Idefics3, "
                       "SmolVLM, GotOcr2, Pixtral",
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
    enum { LEAST = 56 * 56, MOST = 28 * 28 * 1280, MAX_PATCH = 1024, MAX_MERGE = 16 };
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

/* {"longest_edge": n}. */
static int32_t longest_edge(clef_json_fields *f, const char *key, int32_t missing)
{
    const json_t *size = clef__json_get(f, key);
    clef_json_fields inner = {.object = size, .file = f->file, .within = key, .err = f->err};
    const int32_t n = size ? side(&inner, "longest_edge") : missing;
    f->status = f->status ? f->status : inner.status;
    return n;
}

static void read_split(clef_json_fields *f, clef_picture_processor *p)
{
    p->longest = longest_edge(f, "size", 4 * 364);
    p->tile = longest_edge(f, "max_image_size", 364);
    p->splits = clef__json_bool(f, "do_image_splitting", 1);
    clef__json_bool(f, "do_pad", 1); /* of batches */
}

/* InternVL's processor cuts into tiles whatever the image processor says. */
static void read_canvas(clef_json_fields *f, const json_t *beside, clef_picture_processor *p)
{
    static const char key[] = "processor_class", own[] = "InternVLProcessor";
    const char *class = json_string_value(json_object_get(beside, key));
    const int is_own = strcmp(class ? class : clef__json_string(f, key, ""), own) == 0;
    p->min_tiles = (int32_t)clef__json_int(f, "min_patches", 1, MOST_TILES, 1);
    p->max_tiles = (int32_t)clef__json_int(f, "max_patches", 1, MOST_TILES, 12);
    if ((!clef__json_bool(f, "crop_to_patches", 0) && !is_own) || p->max_tiles == 1)
        p->tiling = CLEF__TILES_NONE;
    else if (p->kind != CLEF__SIZE_EXACT && f->status == CLEF_OK)
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED,
                               "%s: size: expected the height and width of a tile", f->file);
}

static void pins_fail(clef_json_fields *f, const clef_picture_processor *p)
{
    if (f->status == CLEF_OK)
        f->status =
            clef__fail(f->err, CLEF_E_FORMAT,
                       "%s: image_grid_pinpoints: expected up to %d heights and widths that are multiples "
                       "of %d, the tile's, and at most %d tiles and %d pixels",
                       f->file, CLEF__MOST_PINS, p->crop_height, MOST_TILES, MAX_AREA);
}

static void read_pins(clef_json_fields *f, clef_picture_processor *p)
{
    const int64_t tile = p->crop_height, of_tiles = MOST_TILES * tile * tile,
                  most = of_tiles < MAX_AREA ? of_tiles : MAX_AREA;
    static const int32_t missing[][2] = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
    const json_t *list = clef__json_get(f, "image_grid_pinpoints");
    const size_t n = list ? json_array_size(list) : sizeof missing / sizeof *missing;
    p->n_pins = n <= CLEF__MOST_PINS ? (int32_t)n : 0;
    if (!p->n_pins)
        pins_fail(f, p);
    for (size_t i = 0; i < (size_t)p->n_pins; i++) {
        for (size_t k = 0; k < 2; k++) {
            const json_int_t x =
                list ? json_integer_value(json_array_get(json_array_get(list, i), k)) : missing[i][k];
            p->pins[i][k] = x >= 1 && x <= MAX_SIDE ? (int32_t)x : 0;
            if (!p->pins[i][k] || p->pins[i][k] % p->crop_height)
                pins_fail(f, p);
        }
        if ((int64_t)p->pins[i][0] * p->pins[i][1] > most)
            pins_fail(f, p);
    }
    clef__json_bool(f, "do_pad", 1); /* of batches */
}

/* The sizes of Pixtral: a limit, and what both sides are multiples of, by processor_config.json where it
 * says. */
static void read_lines(clef_json_fields *f, const json_t *beside, clef_picture_processor *p)
{
    const json_t *patch = clef__json_get(f, "patch_size"), *of = json_object_get(beside, "patch_size"),
                 *merge = json_object_get(beside, "spatial_merge_size");
    clef_json_fields inner = {.object = patch, .file = f->file, .within = "patch_size", .err = f->err};
    const json_t *size = clef__json_get(f, "size");
    if (!size || json_object_get(size, "longest_edge"))
        p->height = p->width = longest_edge(f, "size", 1024);
    else
        read_size(f, &classes[0], p);
    p->kind = CLEF__SIZE_LINES;
    p->patch = json_is_object(patch) ? side(&inner, "height")
                                     : (int32_t)clef__json_int(f, "patch_size", 1, MAX_SIDE, 16);
    f->status = f->status ? f->status : inner.status;
    clef__json_bool(f, "do_pad", 1); /* of batches */
    if (!json_is_integer(of))
        return;
    const json_int_t a = json_integer_value(of), b = json_is_integer(merge) ? json_integer_value(merge) : 1;
    if (a < 1 || b < 1 || a > MAX_SIDE || b > 64)
        f->status = clef__fail(
            f->err, CLEF_E_FORMAT,
            "%s: processor_config.json: patch_size %d and spatial_merge_size %d: expected 1 to %d and 64",
            f->file, (int)a, (int)b, MAX_SIDE);
    else
        p->patch = (int32_t)(a * b);
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
    "_auto_class",       "feature_extractor_type", "pad_size",     "return_row_col_info",
    "video_sampling",
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

static void read_keys(clef_json_fields *f, const json_t *beside, clef_picture_processor *p)
{
    const processor_class *class = class_of(f);
    if (!class)
        return;
    p->kind = class->kind;
    p->floats = class->floats;
    p->resizes = clef__json_bool(f, "do_resize", 1);
    p->filter = (clef__filter)clef__json_int(f, "resample", 0, CLEF__N_FILTERS - 1, class->filter);
    p->tiling = class->tiling;
    if (class->kind == CLEF__SIZE_AREA) {
        read_area(f, p);
    } else if (class->kind == CLEF__SIZE_LINES) {
        read_lines(f, beside, p);
    } else if (class->tiling == CLEF__TILES_SPLIT) {
        read_split(f, p);
    } else if (class->kind == CLEF__SIZE_PATCHES) {
        p->patch = (int32_t)clef__json_int(f, "patch_size", 1, 1024, 16);
        p->max_patches = (int32_t)clef__json_int(f, "max_num_patches", 1, 1 << 20, 256);
    } else {
        read_size(f, class, p);
        read_crop(f, class, p);
    }
    if (class->tiling == CLEF__TILES_CANVAS)
        read_canvas(f, beside, p);
    if (class->tiling == CLEF__TILES_PINNED)
        read_pins(f, p);
    if (strcmp(class->name, "Llava") == 0)
        p->pads_square = clef__json_bool(f, "do_pad", 0);
    p->rescales = clef__json_bool(f, "do_rescale", 1);
    const char *wrong = p->crops                                                  ? "do_center_crop"
                        : !p->rescales                                            ? "do_rescale false"
                        : p->filter == CLEF__NEAREST || p->filter > CLEF__BICUBIC ? "resample but 1 to 3"
                                                                                  : NULL;
    if (p->floats && wrong && f->status == CLEF_OK)
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: %s of %s is not supported", f->file, wrong,
                               class->name);
    p->factor = clef__json_double(f, "rescale_factor", -1e6, 1e6, 1.0 / 255);
    p->normalizes = clef__json_bool(f, "do_normalize", 1);
    read_three(f, "image_mean", class->mean, -1e6, p->mean);
    read_three(f, "image_std", class->std, 0, p->std);
    check_unread(f);
}

clef_status clef__processor_read(const json_t *config, const json_t *beside, const char *file,
                                 clef_picture_processor *p, clef_error *err)
{
    clef_json_fields f = {.object = config, .file = file, .err = err, .seen = json_object()};
    if (!json_is_object(config))
        f.status =
            clef__fail(err, CLEF_E_FORMAT, "%s: is %s, expected an object", file, clef__json_kind(config));
    else if (!f.seen)
        f.status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", file);
    else
        read_keys(&f, beside, p);
    json_decref(f.seen);
    return f.status;
}
