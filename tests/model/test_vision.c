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
    size_t n = 1;
    for (int32_t k = 0; k < info->rank; k++)
        n *= (size_t)info->dims[k];
    float *x = malloc(n * sizeof *x);
    ok(clef_tensor_file_read(file, i, CLEF_F32, x, n, &err), &err);
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
        pictures[i] = (clef_pixels){.height = height,
                                    .width = width,
                                    .values = pixels + (size_t)i * 3 * (size_t)height * (size_t)width};
    const size_t n_out =
        (size_t)n * (size_t)clef_vision_rows(v, height, width) * (size_t)clef_vision_describe(v).width;
    assert_int_equal(n_out * sizeof(float), out.n_bytes); /* F32 */
    float *got = malloc(n_out * sizeof *got);
    ok(clef_vision_run(v, pictures, n, got, &err), &err);
    snprintf(what, sizeof what, "%s: %s", c->family, c->expected);
    compare(what, got, expected, n_out, 1e-4);
    pictures[n - 1].n = 2; /* tiles */
    assert_int_equal(clef_vision_run(v, pictures, n, got, &err), CLEF_E_UNSUPPORTED);
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

/* The ids of a row, without what follows the first end of a text (CLIP, whose texts see no later tokens). */
static int32_t own_length(const int32_t *ids, int32_t n, int is_clip)
{
    int32_t most = 0;
    for (int32_t i = 1; i < n; i++)
        most = ids[i] > ids[most] ? i : most;
    return is_clip ? most + 1 : n;
}

/* Vectors of texts, and how well they fit the pictures. */
static void check_texts(const char *family, clef_model *model, const clef_tensor_file *file)
{
    clef_tensor_info ids_info, embeds_info, logits_info, pictures_info;
    clef_error err = {0};
    clef_embedder *e;
    clef_vision *v;
    float *ids = read_tensor(file, "input_ids", &ids_info),
          *expected = read_tensor(file, "text_embeds", &embeds_info),
          *logits = read_tensor(file, "logits_per_image", &logits_info),
          *pictures = read_tensor(file, "image_embeds", &pictures_info);
    const int32_t n = (int32_t)ids_info.dims[0], length = (int32_t)ids_info.dims[1],
                  d = (int32_t)embeds_info.dims[1];
    int32_t own[4][64], n_ids[4];
    const int32_t *rows[4];
    assert_true(n <= 4 && length <= 64);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k < length; k++)
            own[i][k] = (int32_t)ids[i * length + k];
        rows[i] = own[i];
        n_ids[i] = own_length(own[i], length, strcmp(family, "clip") == 0);
    }
    ok(clef_embedder_create(device, model, &(clef_embed_opts){.normalize = CLEF_NORMALIZE_YES}, &e, &err),
       &err);
    assert_int_equal(clef_embedder_describe(e).n_dims, d);
    float *got = malloc((size_t)n * (size_t)d * sizeof *got), fits[16];
    ok(clef_embed_ids(e, rows, n_ids, n, got, &err), &err);
    compare(family, got, expected, (size_t)n * (size_t)d, 1e-4);
    ok(clef_vision_create(device, model, NULL, &v, &err), &err);
    const clef_vision_info info = clef_vision_describe(v);
    for (int32_t p = 0; p < logits_info.dims[0]; p++)
        for (int32_t t = 0; t < n; t++)
            fits[p * n + t] = (float)(clef_cosine(pictures + p * d, got + t * d, d) * (double)info.scale +
                                      (double)info.bias);
    compare(family, fits, logits, (size_t)logits_info.dims[0] * (size_t)n, 1e-4);
    clef_vision_destroy(v);
    clef_embedder_destroy(e);
    free(got), free(ids), free(expected), free(logits), free(pictures);
}

TEST(texts_are_compared_as_transformers_does)
{
    static const char *const families[] = {"clip", "siglip", "siglip2"};
    if (!has_oracle())
        skip_without("oracle/vision");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        clef_model *model;
        clef_tensor_file *file;
        if (!open_family(families[i], &model, &file))
            continue;
        check_texts(families[i], model, file);
        clef_tensor_file_close(file);
        clef_model_close(model);
    }
}

/* SigLIP 2 has patches in place of pixels, as many as its own shape says; the others are padding. */
static float *pixels_of_patches(const float *patches, int32_t rows, int32_t columns, int32_t p)
{
    float *out = malloc((size_t)rows * (size_t)columns * (size_t)p * (size_t)p * 3 * sizeof *out);
    const int32_t width = columns * p, height = rows * p;
    for (int32_t c = 0; c < 3; c++)
        for (int32_t y = 0; y < height; y++)
            for (int32_t x = 0; x < width; x++)
                out[(c * height + y) * width + x] =
                    patches[((y / p * columns + x / p) * p * p + y % p * p + x % p) * 3 + c];
    return out;
}

TEST(siglip2_reads_pictures_of_any_shape)
{
    clef_model *model;
    clef_tensor_file *file;
    clef_tensor_info in, out, shape;
    clef_error err = {0};
    clef_vision *v;
    if (!has_oracle() || !open_family("siglip2", &model, &file))
        skip_without("oracle/vision/siglip2");
    float *patches = read_tensor(file, "pixel_values", &in),
          *expected = read_tensor(file, "image_embeds", &out),
          *shapes = read_tensor(file, "spatial_shapes", &shape), got[2][256];
    ok(clef_vision_create(device, model, &(clef_vision_opts){.normalize = CLEF_NORMALIZE_YES}, &v, &err),
       &err);
    const clef_vision_info info = clef_vision_describe(v);
    assert_true(info.width <= 256 && in.dims[0] == 2);
    for (int32_t i = 0; i < 2; i++) {
        const int32_t rows = (int32_t)shapes[2 * i], columns = (int32_t)shapes[2 * i + 1];
        float *pixels =
            pixels_of_patches(patches + i * in.dims[1] * in.dims[2], rows, columns, info.patch_size);
        const clef_pixels picture = {
            .height = rows * info.patch_size, .width = columns * info.patch_size, .values = pixels};
        ok(clef_vision_run(v, &picture, 1, got[i], &err), &err);
        compare("siglip2", got[i], expected + i * info.width, (size_t)info.width, 1e-4);
        free(pixels);
    }
    free(patches), free(expected), free(shapes);
    clef_vision_destroy(v);
    clef_tensor_file_close(file);
    clef_model_close(model);
}

TESTS(set_up, tear_down)
