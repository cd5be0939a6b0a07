/* The steps from a picture to a model's pixels, each alone. */
#ifndef CLEF_MEDIA_PICTURE_STEPS_H
#define CLEF_MEDIA_PICTURE_STEPS_H

#include "media/picture/resize.h"
#include "model/file/json.h"

/** How the size of a resized picture follows. */
typedef enum clef__size_kind {
    CLEF__SIZE_EXACT,    /* height and width */
    CLEF__SIZE_SHORTEST, /* `shortest` for the shorter side; `longest` (0: any) is the longer one's limit */
    CLEF__SIZE_WITHIN,   /* as large as fits into height x width */
    CLEF__SIZE_PATCHES,  /* as many whole patches as fit into max_patches */
    CLEF__SIZE_AREA,     /* multiples of `patch`, from least_area to most_area pixels (Qwen2-VL) */
    CLEF__SIZE_LINES     /* no larger than height x width, then up to multiples of `patch` (Pixtral) */
} clef__size_kind;

/** How a picture becomes tiles. */
typedef enum clef__tiling {
    CLEF__TILES_NONE,
    CLEF__TILES_SPLIT,  /* multiples of `tile`, after the longer side became `longest` (Idefics 3) */
    CLEF__TILES_CANVAS, /* min_tiles to max_tiles of height x width, as the picture's sides (InternVL) */
    CLEF__TILES_PINNED  /* one of `pins`, cut into tiles of crop_height (LLaVA-NeXT) */
} clef__tiling;

enum { CLEF__MOST_PINS = 64 };

struct clef_picture_processor {
    int32_t resizes, floats; /* floats: 1: rescales first, and resizes what it gets (DINOv3) */
    clef__size_kind kind;
    int32_t height, width, shortest, longest;
    clef__filter filter;
    int32_t crops, crop_height, crop_width;
    int32_t rescales, normalizes;
    double  factor, mean[3], std[3];
    int32_t patch, max_patches;
    int64_t least_area, most_area;
    int32_t pads_square; /* first of all, with the colour of the mean */
    clef__tiling tiling;
    int32_t tile, splits; /* splits: 0: the whole picture alone */
    int32_t min_tiles, max_tiles;
    int32_t n_pins, pins[CLEF__MOST_PINS][2]; /* heights and widths */
};

/** Reads what a preprocessor_config.json says. beside: NULL, or processor_config.json. Statuses of
 *  clef_picture_processor_create(). */
clef_status clef__processor_read(const json_t *config, const json_t *beside, const char *file,
                                 clef_picture_processor *p, clef_error *err);
/** The size to which a picture of height x width is resized. CLEF_E_LIMIT. */
clef_status clef__resized_size(const clef_picture_processor *p, int32_t height, int32_t width,
                               int32_t *new_height, int32_t *new_width, clef_error *err);
/** Pixels of a picture: each byte times `factor`, if p rescales. `crop`: 1: the centre that p wants. */
clef_status clef__pixels_of(const clef_picture_processor *p, const clef_picture *in, int crop,
                            clef_pixels *out, clef_error *err);
/** (x - mean) / std of each plane, if p normalises. */
void        clef__normalize_pixels(const clef_picture_processor *p, clef_pixels *pixels);

/** As clef_picture_process(), for p->tiling. */
clef_status clef__process_tiles(const clef_picture_processor *p, const clef_picture *picture,
                                clef_pixels *out, clef_error *err);

#endif
