/* Encoders of pictures beside transformers: pixels as ../shared/oracle/vision has them, and what transformers
 * makes of them. */
#include "clef/vision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "tests/skip.h"

static clef_device *device;

static int set_up(void **state)
{
    clef_error err = {0};
    (void)state;
    return clef_device_open(NULL, NULL, &device, &err) ? 1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    clef_device_close(device);
    return 0;
}

static char root[400];

static float *read_tensor(const clef_tensor_file *file, const char *name, clef_tensor_info *info)
{
    clef_error err = {0};
    const int32_t i = clef_tensor_file_find(file, name);
    if (i < 0)
        fail_msg("no tensor %s", name);
    *info = clef_tensor_file_get(file, i);
    float *x = malloc((size_t)info->n_bytes);
    ok(clef_tensor_file_read(file, i, CLEF_F32, x, (size_t)info->n_bytes / sizeof *x, &err), &err);
    return x;
}

static void compare(const char *what, const float *got, const float *expected, size_t n, double tolerance)
{
    double most = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)expected[i]));
        worst = fmax(worst, fabs((double)got[i] - (double)expected[i]));
    }
    if (!(worst <= tolerance * fmax(most, 1)))
        fail_msg("%s: off by %g, where the largest number is %g", what, worst, most);
}

/* What a model gives for the pixels of a tensor. */
typedef struct vision_case {
    const char *family, *pixels;
    clef_vision_kind kind;
    clef_normalize normalize;
    const char *expected;
} vision_case;

static const vision_case cases[] = {
    {"vit", "pixel_values", CLEF_VISION_CLASSES, 0, "logits"},
    {"vit", "pixel_values", CLEF_VISION_HIDDEN, 0, "last_hidden_state"},
    {"vit", "pixel_values_rect", CLEF_VISION_HIDDEN, 0, "last_hidden_state_rect"},
    {"deit", "pixel_values", CLEF_VISION_CLASSES, 0, "logits"},
    {"deit", "pixel_values", CLEF_VISION_HIDDEN, 0, "last_hidden_state"},
    {"deit", "pixel_values_rect", CLEF_VISION_HIDDEN, 0, "last_hidden_state_rect"},
    {"dinov2", "pixel_values", CLEF_VISION_HIDDEN, 0, "last_hidden_state"},
    {"dinov2", "pixel_values", CLEF_VISION_VECTOR, 0, "pooler_output"},
    {"dinov2", "pixel_values_rect", CLEF_VISION_HIDDEN, 0, "last_hidden_state_rect"},
    {"dinov2_with_registers", "pixel_values", CLEF_VISION_HIDDEN, 0, "last_hidden_state"},
    {"dinov2_with_registers", "pixel_values", CLEF_VISION_VECTOR, 0, "pooler_output"},
    {"dinov2_with_registers", "pixel_values_rect", CLEF_VISION_HIDDEN, 0, "last_hidden_state_rect"},
    {"dinov3_vit", "pixel_values", CLEF_VISION_HIDDEN, 0, "last_hidden_state"},
    {"dinov3_vit", "pixel_values", CLEF_VISION_VECTOR, 0, "pooler_output"},
    {"dinov3_vit", "pixel_values_rect", CLEF_VISION_HIDDEN, 0, "last_hidden_state_rect"},
    {"clip", "pixel_values", CLEF_VISION_HIDDEN, 0, "vision_last"},
    {"clip", "pixel_values", CLEF_VISION_VECTOR, CLEF_NORMALIZE_YES, "image_embeds"},
    {"siglip", "pixel_values", CLEF_VISION_HIDDEN, 0, "vision_last"},
    {"siglip", "pixel_values", CLEF_VISION_VECTOR, 0, "vision_pooler"},
    {"siglip", "pixel_values", CLEF_VISION_VECTOR, CLEF_NORMALIZE_YES, "image_embeds"},
};

static void check_case(const vision_case *c, clef_model *model, const clef_tensor_file *file)
{
    clef_tensor_info in, out;
    clef_error err = {0};
    clef_vision *v;
    char what[200];
    float *pixels = read_tensor(file, c->pixels, &in), *expected = read_tensor(file, c->expected, &out);
    ok(clef_vision_create(device, model, &(clef_vision_opts){.kind = c->kind, .normalize = c->normalize}, &v,
                          &err),
       &err);
    const int32_t n = (int32_t)in.dims[0], height = (int32_t)in.dims[2], width = (int32_t)in.dims[3];
    clef_pixels pictures[4];
    for (int32_t i = 0; i < n; i++)
        pictures[i] = (clef_pixels){height, width, pixels + (size_t)i * 3 * (size_t)height * (size_t)width};
    const size_t n_out =
        (size_t)n * (size_t)clef_vision_rows(v, height, width) * (size_t)clef_vision_describe(v).width;
    assert_int_equal(n_out * sizeof(float), out.n_bytes);
    float *got = malloc(n_out * sizeof *got);
    ok(clef_vision_run(v, pictures, n, got, &err), &err);
    snprintf(what, sizeof what, "%s: %s", c->family, c->expected);
    compare(what, got, expected, n_out, 1e-4);
    free(got);
    free(pixels);
    free(expected);
    clef_vision_destroy(v);
}

/* The folder and the expected values of a family; 0 where another seed's folder does not have it. */
static int open_family(const char *family, clef_model **model, clef_tensor_file **file)
{
    char path[500];
    clef_error err = {0};
    snprintf(path, sizeof path, "%s/%s", root, family);
    if (!clef__os_is_dir(path))
        return 0;
    ok(clef_model_open(path, model, &err), &err);
    snprintf(path, sizeof path, "%s/%s/expected.safetensors", root, family);
    ok(clef_tensor_file_open(path, file, &err), &err);
    return 1;
}

static int has_oracle(void)
{
    const char *shared = getenv("CLEF_SHARED"), *other = getenv("CLEF_VISION_ORACLE");
    snprintf(root, sizeof root, "%s/oracle/vision", shared ? shared : "");
    if (other)
        snprintf(root, sizeof root, "%s", other);
    return clef__os_is_dir(root);
}

TEST(encoders_give_what_transformers_gives)
{
    if (!has_oracle())
        skip_without("oracle/vision");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clef_model *model;
        clef_tensor_file *file;
        if (!open_family(cases[i].family, &model, &file))
            continue;
        check_case(&cases[i], model, file);
        clef_tensor_file_close(file);
        clef_model_close(model);
    }
}

TESTS(set_up, tear_down)
