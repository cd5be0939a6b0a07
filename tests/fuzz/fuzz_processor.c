/* Fuzzes what says how a picture becomes numbers, and the steps themselves: the first two bytes are the
 * picture's sides, the rest is a preprocessor_config.json. */
#include <stdlib.h>
#include <string.h>

#include "media/picture/steps.h"
#include "tests/fuzz/mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static volatile float sink;

/* Whether the steps would make so many pixels that a run takes long. */
static int is_large(const clef_picture_processor *p, const clef_picture *picture)
{
    enum { MOST = 1 << 15 };
    int32_t height = picture->height, width = picture->width;
    clef_error err;
    if (p->resizes && clef__resized_size(p, height, width, &height, &width, &err) != CLEF_OK)
        return 0;
    int64_t most = (int64_t)height * width;
    for (int32_t i = 0; i < p->n_pins && p->tiling == CLEF__TILES_PINNED; i++)
        most += (int64_t)p->pins[i][0] * p->pins[i][1];
    if (p->tiling == CLEF__TILES_CANVAS)
        most *= p->max_tiles;
    if (p->tiling == CLEF__TILES_SPLIT)
        most += (int64_t)p->longest * p->longest;
    return most > MOST || (p->crops && (int64_t)p->crop_height * p->crop_width > MOST);
}

static void process(const clef_picture_processor *p, int32_t width, int32_t height)
{
    clef_picture picture = {width, height, malloc((size_t)width * (size_t)height * 3)};
    clef_pixels pixels;
    clef_error err;
    for (size_t i = 0; picture.rgb && i < (size_t)width * (size_t)height * 3; i++)
        picture.rgb[i] = (uint8_t)(i * 37);
    if (picture.rgb && !is_large(p, &picture) &&
        clef_picture_process(p, &picture, &pixels, &err) == CLEF_OK) {
        const size_t n_tiles = (size_t)(pixels.n > 1 ? pixels.n : 1);
        for (size_t i = 0; i < 3 * n_tiles * (size_t)pixels.height * (size_t)pixels.width; i++)
            sink += pixels.values[i];
        clef_pixels_finish(&pixels);
    }
    clef_picture_finish(&picture);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    json_t *root = NULL;
    clef_error err;
    clef_picture_processor p;
    memset(&p, 0, sizeof p);
    if (n_bytes < 2 || clef__json_parse((const char *)data + 2, n_bytes - 2, "fuzz", &root, &err) != CLEF_OK)
        return 0;
    if (clef__processor_read(root, data[0] & 1 ? root : NULL, "fuzz", &p, &err) == CLEF_OK)
        process(&p, 1 + data[0], 1 + data[1]);
    json_decref(root);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most, unsigned seed)
{
    return n_bytes < 2 || seed % 32 == 0 ? LLVMFuzzerMutate(data, n_bytes, most)
                                         : 2 + mutate_json(data + 2, n_bytes - 2, most - 2, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t n_bytes, const uint8_t *other, size_t n_other,
                                 uint8_t *out, size_t most, unsigned seed)
{
    if (n_bytes < 2 || n_other < 2 || most < 2)
        return 0;
    memcpy(out, data, 2);
    return 2 + cross_json(data + 2, n_bytes - 2, other + 2, n_other - 2, out + 2, most - 2, seed);
}
