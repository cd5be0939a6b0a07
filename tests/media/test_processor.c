/* From pictures to a model's pixels: resizing beside Pillow, preprocessor_config.json, and the answers of
 * transformers' image processors for the pictures of ../shared/oracle/vision. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "media/picture/steps.h"
#include "runtime/os/os.h"
#include "tests/skip.h"

#define FOLDER CLEF_SOURCE_DIR "/tests/fixtures/pictures/"

/* ---- resizing -------------------------------------------------------------------------------- */

static void check_resized(const clef_picture *from, const char *line)
{
    int filter, height, width, at;
    clef_picture got;
    clef_error err = {0};
    if (line[0] == '#' || sscanf(line, "%d %d %d %n", &filter, &height, &width, &at) != 3)
        return;
    ok(clef__resize(from, height, width, (clef__filter)filter, &got, &err), &err);
    assert_int_equal(strlen(line + at), 6 * height * width + 1);
    for (int i = 0; i < 3 * height * width; i++) {
        unsigned expected;
        sscanf(line + at + 2 * i, "%2x", &expected);
        if (got.rgb[i] != expected)
            fail_msg("filter %d to %d x %d: byte %d: expected %u, got %d", filter, height, width, i, expected,
                     got.rgb[i]);
    }
    clef_picture_finish(&got);
}

TEST(resizing_is_pillows_to_the_last_bit)
{
    clef_picture from;
    clef_error err = {0};
    char line[8192];
    int n = 0;
    ok(clef_picture_open(FOLDER "harsh.ppm", NULL, &from, &err), &err);
    FILE *file = fopen(FOLDER "resized.txt", "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); n++)
        check_resized(&from, line);
    fclose(file);
    assert_int_equal(n, 32);
    clef_picture_finish(&from);
}

/* ---- the file -------------------------------------------------------------------------------- */

static clef_status read_text(const char *text, clef_picture_processor *p, clef_error *err)
{
    json_t *root;
    ok(clef__json_parse(text, strlen(text), "file", &root, err), err);
    *p = (clef_picture_processor){0};
    const clef_status status = clef__processor_read(root, NULL, "file", p, err);
    json_decref(root);
    return status;
}

/* Each file gives this size for a picture of 40 x 100, and this centre. */
TEST(sizes_are_read_in_every_form)
{
    static const struct {
        const char *text;
        int32_t height, width, crop;
    } cases[] = {
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"size\": {\"height\": 30, \"width\": 20}}", 30,
         20, 0},
        {"{\"image_processor_type\": \"ViTImageProcessorFast\", \"size\": 32}", 32, 32, 0},
        {"{\"feature_extractor_type\": \"ViTFeatureExtractor\", \"size\": [16, 24]}", 16, 24, 0},
        {"{\"image_processor_type\": \"ViTImageProcessor\"}", 224, 224, 0},
        {"{\"feature_extractor_type\": \"CLIPFeatureExtractor\", \"size\": 32, \"crop_size\": 30}", 32, 80,
         30},
        {"{\"image_processor_type\": \"CLIPImageProcessor\"}", 224, 560, 224},
        {"{\"image_processor_type\": \"BitImageProcessor\", \"size\": {\"shortest_edge\": 33}, "
         "\"do_center_crop\": false}",
         33, 82, 0},
        {"{\"image_processor_type\": \"CLIPImageProcessor\", \"size\": {\"shortest_edge\": 32, "
         "\"longest_edge\": 50}}",
         20, 50, 224},
        {"{\"image_processor_type\": \"SiglipImageProcessor\", \"size\": {\"max_height\": 64, \"max_width\": "
         "50}}",
         20, 50, 0},
        {"{\"image_processor_type\": \"Siglip2ImageProcessor\", \"patch_size\": 8, \"max_num_patches\": 20}",
         24, 48, 0},
        {"{\"image_processor_type\": \"DeiTImageProcessor\"}", 256, 256, 224},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clef_picture_processor p;
        clef_error err = {0};
        int32_t height, width;
        ok(read_text(cases[i].text, &p, &err), &err);
        ok(clef__resized_size(&p, 40, 100, &height, &width, &err), &err);
        if (height != cases[i].height || width != cases[i].width ||
            (p.crops ? p.crop_width : 0) != cases[i].crop)
            fail_msg("%s: expected %d x %d, crop %d; got %d x %d, crop %d", cases[i].text, cases[i].height,
                     cases[i].width, cases[i].crop, height, width, p.crops ? p.crop_width : 0);
    }
}

TEST(what_is_not_known_is_refused_by_name)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"[]", "is an array, expected an object"},
        {"{}", "image_processor_type \"\" is not supported"},
        {"{\"image_processor_type\": \"DonutImageProcessor\"}",
         "image_processor_type DonutImageProcessor is not"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"do_pad\": true}",
         "the key do_pad changes the pixels"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"size\": 0}", "size"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"size\": {\"width\": 3}}", "size.height"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"size\": [3, -1]}", "size: expected numbers"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"resample\": 6}", "resample"},
        {"{\"image_processor_type\": \"DINOv3ViTImageProcessor\", \"resample\": 0}",
         "resample but 1 to 3 of"},
        {"{\"image_processor_type\": \"DINOv3ViTImageProcessor\", \"do_rescale\": false}",
         "do_rescale false"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"image_std\": [1, 0, 1]}",
         "image_std: expected three"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"image_mean\": [1, 2]}",
         "image_mean: expected three"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"image_mean\": \"a\"}",
         "image_mean: expected three"},
        {"{\"image_processor_type\": \"LlavaNextImageProcessor\", \"crop_size\": 1, "
         "\"image_grid_pinpoints\": "
         "[[65536, 65536]]}",
         "at most 1024 tiles"},
        {"{\"image_processor_type\": \"LlavaNextImageProcessor\", \"crop_size\": {\"height\": 0}}", "height"},
        {"{\"image_processor_type\": \"GotOcr2ImageProcessor\", \"crop_to_patches\": true, "
         "\"size\": {\"shortest_edge\": 8}}",
         "size: expected the height and width"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clef_picture_processor p;
        clef_error err = {0};
        if (read_text(cases[i].text, &p, &err) == CLEF_OK || !strstr(err.text, cases[i].words))
            fail_msg("%s: expected '%s', got '%s'", cases[i].text, cases[i].words, err.text);
    }
}

/* Files that are read, and what they would make of a picture that is 1 wide and `height` high. */
TEST(pictures_that_would_become_too_large_are_refused)
{
    static const struct {
        const char *text;
        int32_t height;
        clef_status status;
        const char *words;
    } cases[] = {
        {"{\"image_processor_type\": \"LlavaImageProcessor\", \"do_pad\": true}", 60000, CLEF_E_LIMIT,
         "a picture of 1 x 60000 pixels would become a square"},
        {"{\"image_processor_type\": \"SmolVLMImageProcessor\", \"do_image_splitting\": false, "
         "\"max_image_size\": {\"longest_edge\": 65536}, \"video_sampling\": {\"fps\": 1}}",
         9, CLEF_E_LIMIT, "resized to 65536 x 65536"},
        {"{\"image_processor_type\": \"SmolVLMImageProcessor\", \"do_resize\": false, "
         "\"max_image_size\": {\"longest_edge\": 1}}",
         2000, CLEF_E_LIMIT, "1 to 1024 tiles"},
        {"{\"image_processor_type\": \"LlavaNextImageProcessor\", \"do_resize\": false, "
         "\"do_center_crop\": false, \"size\": {\"shortest_edge\": 2}, \"crop_size\": 64, "
         "\"image_grid_pinpoints\": [[64, 64]]}",
         9, CLEF_E_UNSUPPORTED, "tiles of 2 x 2 and of 64 x 64 pixels"},
    };
    uint8_t *rgb = calloc(60000, 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const clef_picture in = {1, cases[i].height, rgb};
        clef_picture_processor p;
        clef_pixels out;
        clef_error err = {0};
        ok(read_text(cases[i].text, &p, &err), &err);
        const clef_status status = clef_picture_process(&p, &in, &out, &err);
        if (status != cases[i].status || !strstr(err.text, cases[i].words))
            fail_msg("%s: expected '%s', got '%s'", cases[i].text, cases[i].words, err.text);
    }
    free(rgb);
}

/* A picture of 2 x 3 in the centre of 5 x 4: transformers puts the odd row and column before it. */
TEST(a_small_picture_is_surrounded_by_black)
{
    uint8_t rgb[18];
    memset(rgb, 255, sizeof rgb);
    const clef_picture in = {3, 2, rgb};
    const clef_picture_processor p = {.crops = 1, .crop_height = 5, .crop_width = 4};
    clef_pixels out;
    clef_error err = {0};
    ok(clef_picture_process(&p, &in, &out, &err), &err);
    for (int y = 0; y < 5; y++)
        for (int x = 0; x < 4; x++)
            assert_int_equal((int)out.values[4 * y + x], y >= 2 && y < 4 && x >= 1 ? 255 : 0);
    clef_pixels_finish(&out);
}

/* ---- transformers ---------------------------------------------------------------------------- */

/* Patch n of a row-major grid, which has its pixels first and then their colours (Siglip 2). */
static float patch_value(const clef_pixels *p, int32_t patch, int64_t n, int64_t i)
{
    const int64_t columns = p->width / patch, c = i % 3, x = i / 3 % patch, y = i / 3 / patch;
    return p->values[(c * p->height + n / columns * patch + y) * p->width + n % columns * patch + x];
}

/* The largest and the mean difference, in grey levels: a level is 1 / (255 std). */
static void compare(const clef_picture_processor *p, const clef_pixels *got, const clef_tensor_info *t,
                    const float *expected, double *worst, double *mean)
{
    const int is_patches = t->rank == 3;
    const int64_t n = (int64_t)got->height * got->width * 3, last = t->dims[t->rank - 1];
    *worst = *mean = 0;
    if (!is_patches) {
        assert_int_equal(t->dims[2], got->height);
        assert_int_equal(t->dims[3], got->width);
    }
    for (int64_t i = 0; i < n; i++) {
        const double std = p->std[is_patches ? i % 3 : i / (n / 3)];
        const float x = is_patches ? patch_value(got, p->patch, i / last, i % last) : got->values[i];
        const double d = fabs((double)(x - expected[i])) * std;
        *worst = d > *worst ? d : *worst;
        *mean += d / (double)n;
    }
}

static void check_picture(const char *root, const char *family, const clef_picture_processor *p,
                          const clef_tensor_file *file, int32_t i)
{
    const clef_tensor_info t = clef_tensor_file_get(file, i);
    static const char *const starts[] = {"pixel_values.", "pixel_values_tv."};
    const size_t n = strlen(starts[p->floats]);
    char path[600];
    clef_picture picture;
    clef_pixels got;
    clef_error err = {0};
    double worst, mean;
    if (strncmp(t.name, starts[p->floats], n) != 0)
        return;
    snprintf(path, sizeof path, "%s/pictures/%s", root, t.name + n);
    const clef_status opened = clef_picture_open(path, NULL, &picture, &err);
    if (opened == CLEF_E_UNSUPPORTED && strstr(err.text, "built without")) /* a library, as for Windows */
        return;
    ok(opened, &err);
    ok(clef_picture_process(p, &picture, &got, &err), &err);
    float *expected = malloc((size_t)t.n_bytes);
    ok(clef_tensor_file_read(file, i, CLEF_F32, expected, (size_t)t.n_bytes / sizeof *expected, &err), &err);
    compare(p, &got, &t, expected, &worst, &mean);
    if (worst > 1.0 / 255 + 1e-6 || mean > 1e-3)
        fail_msg("%s, %s: off by %g at worst, %g on average", family, t.name, worst, mean);
    free(expected);
    clef_picture_finish(&picture);
    clef_pixels_finish(&got);
}

TEST(pixels_are_those_of_transformers)
{
    static const char *const families[] = {"vit",        "deit", "dinov2", "dinov2_with_registers",
                                           "dinov3_vit", "clip", "siglip", "siglip2",
                                           "paligemma"};
    const char *shared = getenv("CLEF_SHARED"), *other = getenv("CLEF_VISION_ORACLE");
    char root[400], path[500];
    snprintf(root, sizeof root, "%s/oracle/vision", shared ? shared : "");
    if (other)
        snprintf(root, sizeof root, "%s", other);
    if (!clef__os_is_dir(root))
        skip_without("oracle/vision");
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        clef_tensor_file *file;
        clef_picture_processor *p;
        clef_error err = {0};
        snprintf(path, sizeof path, "%s/%s", root, families[f]);
        if (!clef__os_is_dir(path)) /* another seed's folder may have some of them */
            continue;
        ok(clef_picture_processor_create(path, &p, &err), &err);
        snprintf(path, sizeof path, "%s/%s/expected.safetensors", root, families[f]);
        ok(clef_tensor_file_open(path, &file, &err), &err);
        for (int32_t i = 0; i < clef_tensor_file_count(file); i++)
            check_picture(root, families[f], p, file, i);
        clef_tensor_file_close(file);
        clef_picture_processor_destroy(p);
    }
}

TESTS(NULL, NULL)
