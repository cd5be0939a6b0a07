/* Pictures in prompts: rows, logits and texts beside what PyTorch computes of the same pixels. CLEF_SHARED
 * names the folder with the models. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/sight.h"
#include "model/open/model.h"
#include "model/sight/sight.h"
#include "model/tower/see.h"
#include "tests/check.h"
#include "tests/skip.h"

enum { MOST_PICTURES = 8, N_NEW = 16, N_TOP = 20, N_CONTEXT = 1024 };

static const char *const families[] = {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5",
                                       "llava",    "llava_next", "gemma3",   "paligemma",
                                       "idefics3", "smolvlm",    "internvl"};

static const clef_compile_opts compile = {.no_tune = 1, .no_proof = 1};

/* A family's model, and the tensors of one of its cases. */
typedef struct oracle {
    clef_model *model;
    clef_tensor_file *file;
    const char *name; /* the case: "one", "two" */
    clef_device *dev;
    clef_sight *sight;
    clef_batch *batch;
} oracle;

/* A tensor of the case in new memory; NULL, and n 0: it has none. */
static void *tensor(const oracle *o, const char *name, clef_dtype as, size_t *n)
{
    char full[64];
    clef_error err = {0};
    snprintf(full, sizeof full, "%s.%s", o->name, name);
    const int32_t i = clef_tensor_file_find(o->file, full);
    *n = 0;
    if (i < 0)
        return NULL;
    const clef_tensor_info info = clef_tensor_file_get(o->file, i);
    *n = 1;
    for (int32_t d = 0; d < info.rank; d++)
        *n *= (size_t)info.dims[d];
    void *x = malloc(*n * sizeof(float));
    assert_non_null(x);
    ok(clef_tensor_file_read(o->file, i, as, x, *n, &err), &err);
    return x;
}

/* The planes of a picture of h x w patches of `side` pixels, which the oracle has in squares of 2 x 2. */
static float *planes(const float *patches, int32_t h, int32_t w, int32_t side)
{
    enum { CHANNELS = 3, FRAMES = 2 };
    const size_t H = (size_t)(h * side), W = (size_t)(w * side);
    float *out = malloc(CHANNELS * H * W * sizeof *out);
    assert_non_null(out);
    for (int32_t i = 0; i < h * w; i++) {
        const int32_t unit = i / 4, row = unit / (w / 2) * 2 + i % 4 / 2, column = unit % (w / 2) * 2 + i % 2;
        for (int32_t k = 0; k < CHANNELS * FRAMES * side; k++, patches += side) {
            const size_t y = (size_t)(row * side + k % side), c = (size_t)(k / side / FRAMES);
            memcpy(out + (c * H + y) * W + (size_t)(column * side), patches, (size_t)side * sizeof *out);
        }
    }
    return out;
}

/* All pictures of a case as one, whose tiles have one size: their rows follow each other as they do. */
static int32_t read_squares(const oracle *o, clef_sight_pixels out[MOST_PICTURES])
{
    size_t n;
    const clef_hparams *hp = clef_model_pictures(o->model, NULL);
    float *x = tensor(o, "pixel_values", CLEF_F32, &n);
    const size_t each = 3 * (size_t)hp->image_height * (size_t)hp->image_width;
    assert_true(x && n % each == 0);
    out[0] = (clef_sight_pixels){
        .values = x, .n = (int32_t)(n / each), .height = hp->image_height, .width = hp->image_width};
    return 1;
}

/* The tokens of picture i, which follow each other. */
static int32_t count_tokens(const oracle *o, int32_t i)
{
    size_t n, k = 0;
    int32_t *ids = tensor(o, "input_ids", CLEF_I32, &n), count = 0;
    const int32_t token = o->model->sight->token;
    for (; i >= 0; i--)
        for (count = 0; k < n && (ids[k] == token || !count); k++)
            count += ids[k] == token;
    free(ids);
    return count;
}

/* LLaVA-NeXT's pictures [n, tiles, 3, side, side], with zeros for tiles that a picture lacks. Its grid is the
 * one that makes as many rows as the prompt has tokens. */
static int32_t read_anyres(const oracle *o, clef_sight_pixels out[MOST_PICTURES])
{
    size_t n, n_sizes;
    clef_error err = {0};
    const int32_t side = clef_model_pictures(o->model, NULL)->image_height;
    float *x = tensor(o, "pixel_values", CLEF_F32, &n);
    int32_t *sizes = tensor(o, "image_sizes", CLEF_I32, &n_sizes);
    const size_t n_pictures = n_sizes / 2, each = n / n_pictures, tile = 3 * (size_t)side * (size_t)side;
    assert_true(n_pictures <= MOST_PICTURES);
    for (size_t i = 0; i < n_pictures; i++) {
        clef__sight_rows rows = {0};
        float *values = malloc(each * sizeof *values);
        assert_non_null(values);
        memcpy(values, x + i * each, each * sizeof *values);
        clef_sight_pixels *px = &out[i];
        *px = (clef_sight_pixels){.values = values,
                                  .height = side,
                                  .width = side,
                                  .source_height = sizes[2 * i],
                                  .source_width = sizes[2 * i + 1]};
        for (int32_t grid = 0; rows.n != count_tokens(o, (int32_t)i); grid++) {
            assert_true(grid < 64);
            px->rows = 1 + grid / 8;
            px->columns = 1 + grid % 8;
            px->n = 1 + px->rows * px->columns;
            if ((size_t)px->n * tile <= each && clef__sight_count(o->sight, px, &rows, &err))
                rows.n = 0;
        }
    }
    free(sizes);
    free(x);
    return (int32_t)n_pictures;
}

/* The pixels of the case's pictures. Returns their number. */
static int32_t read_pixels(const oracle *o, clef_sight_pixels out[MOST_PICTURES])
{
    size_t n, n_grid, n_patches = 0;
    float *x = tensor(o, "pixel_values", CLEF_F32, &n), *from = x;
    int32_t *grid = tensor(o, "image_grid_thw", CLEF_I32, &n_grid);
    if (!grid) {
        free(x);
        return strcmp(o->model->sight->family, "llava_next") ? read_squares(o, out) : read_anyres(o, out);
    }
    const int32_t n_pictures = (int32_t)n_grid / 3;
    assert_true(n_pictures >= 1 && n_pictures <= MOST_PICTURES);
    for (int32_t i = 0; i < n_pictures; i++)
        n_patches += (size_t)grid[3 * i + 1] * (size_t)grid[3 * i + 2];
    const int32_t side = (int32_t)sqrt((double)(n / n_patches) / 6 + 0.5);
    for (int32_t i = 0; i < n_pictures; i++) {
        const int32_t h = grid[3 * i + 1], w = grid[3 * i + 2];
        out[i] = (clef_sight_pixels){
            .values = planes(from, h, w, side), .n = 1, .height = h * side, .width = w * side};
        from += (size_t)h * (size_t)w * (n / n_patches);
    }
    free(grid);
    free(x);
    return n_pictures;
}

/* The embeddings of all pictures, in their order. */
static void check_rows(const oracle *o, const clef_seen *seen)
{
    size_t n, row = 0;
    float *want = tensor(o, "image_features", CLEF_F32, &n);
    const size_t d = (size_t)o->model->hparams.d_model, each = d * (size_t)(1 + o->model->sight->n_deep);
    for (int32_t i = 0; i < seen->n_pictures; i++)
        for (int32_t k = 0; k < seen->pictures[i].n; k++, row++)
            for (size_t e = 0; e < d && want; e++)
                assert_float_equal(seen->pictures[i].rows[(size_t)k * each + e], want[row * d + e], 1e-4);
    assert_true(!want || row * d == n);
    free(want);
}

/* The likeliest tokens after the prompt. logits: of its last token. */
static void check_top(const oracle *o, const clef_batch_token *t, const float *logits)
{
    double sum = 0;
    for (int32_t i = 0; i < o->model->hparams.n_vocab; i++)
        sum += exp((double)logits[i] - (double)logits[t->id]);
    assert_int_equal(t->n_top, N_TOP);
    for (int32_t i = 0; i < t->n_top; i++)
        assert_float_equal(t->top[i].logprob, logits[t->top[i].id] - logits[t->id] - (float)log(sum), 1e-4);
}

/* Generates after the prompt, and returns how much of it was in the prefix cache. */
static int32_t check_text(const oracle *o, const clef_request *r)
{
    size_t n;
    clef_error err = {0};
    int64_t number;
    int32_t at = r->n, rows, cached = 0;
    const size_t V = (size_t)o->model->hparams.n_vocab;
    int32_t *greedy = tensor(o, "greedy_ids", CLEF_I32, &n);
    float *logits = tensor(o, "logits", CLEF_F32, &n);
    ok(clef_batch_add(o->batch, r, &number, &err), &err);
    while (at < r->n + N_NEW) {
        clef_batch_token t;
        ok(clef_batch_step(o->batch, &rows, &err), &err);
        while (clef_batch_take(o->batch, &t, 1)) {
            if (at == r->n)
                check_top(o, &t, logits + (size_t)(r->n - 1) * V);
            assert_int_equal(t.id, greedy[at]);
            cached = t.n_cached;
            at++;
        }
    }
    free(greedy);
    free(logits);
    return cached;
}

static int32_t check_case(oracle *o, const char *name)
{
    size_t n;
    clef_error err = {0};
    clef_seen seen = {0};
    clef_sight_pixels pixels[MOST_PICTURES];
    o->name = name;
    int32_t *ids = tensor(o, "input_ids", CLEF_I32, &n);
    if (!ids) { /* PaliGemma has no texts without pictures */
        assert_string_equal(name, "text");
        return 0;
    }
    const int32_t n_pixels = strcmp(name, "text") == 0 ? 0 : read_pixels(o, pixels);
    ok(clef_sight_see(o->sight, ids, (int32_t)n, pixels, n_pixels, &seen, &err), &err);
    check_rows(o, &seen);
    const int32_t cached = check_text(o, &(clef_request){.ids = ids,
                                                         .n = (int32_t)n,
                                                         .n_max = N_NEW,
                                                         .ignore_eos = 1,
                                                         .logprobs = 1,
                                                         .n_top = N_TOP,
                                                         .pictures = seen.pictures,
                                                         .n_pictures = seen.n_pictures});
    clef_seen_finish(&seen);
    for (int32_t i = 0; i < n_pixels; i++)
        free((float *)(uintptr_t)pixels[i].values);
    free(ids);
    return cached;
}

static int open_oracle(oracle *o, const char *family)
{
    const char *shared = getenv("CLEF_SHARED");
    char path[1024];
    clef_error err = {0};
    *o = (oracle){.name = family};
    snprintf(path, sizeof path, "%s/oracle/vision/%s/expected.safetensors", shared ? shared : "", family);
    if (!shared || clef_tensor_file_open(path, &o->file, &err) != CLEF_OK)
        return 0;
    *strrchr(path, '/') = '\0';
    const clef_batch_opts opts = {.n_context = N_CONTEXT, .compile = compile};
    ok(clef_model_open(path, &o->model, &err), &err);
    ok(clef_device_open(NULL, NULL, &o->dev, &err), &err);
    ok(clef_sight_create(o->dev, o->model, &compile, &o->sight, &err), &err);
    ok(clef_batch_create(o->dev, o->model, &opts, &o->batch, &err), &err);
    return 1;
}

static void close_oracle(oracle *o)
{
    clef_batch_destroy(o->batch);
    clef_sight_destroy(o->sight);
    clef_device_close(o->dev);
    clef_model_close(o->model);
    clef_tensor_file_close(o->file);
}

/* Text before any picture, which the plan is not made for yet; pictures; and the first again, from the prefix
 * cache. Models with a memory have nothing of so short a prompt there. */
TEST(texts_after_pictures_are_those_of_pytorch)
{
    const int n = (int)(sizeof families / sizeof *families);
    int n_seen = 0;
    for (int i = 0; i < n; i++) {
        oracle o;
        if (!is_in_turn(i, n) || !open_oracle(&o, families[i]))
            continue;
        check_case(&o, "text");
        check_case(&o, "one");
        check_case(&o, "two");
        const int32_t cached = check_case(&o, "one");
        assert_true(cached > 16 || o.model->hparams.linear_taps ||
                    o.model->sight->view == CLEF__SIGHT_PROMPT);
        close_oracle(&o);
        n_seen++;
    }
    if (!n_seen)
        skip_without("oracle/vision");
}

/* Requests that name places or sizes that do not fit. */
TEST(wrong_pictures_are_refused)
{
    oracle o;
    if (!open_oracle(&o, "qwen2_vl"))
        skip_without("oracle/vision/qwen2_vl");
    static const float row[64];
    const int32_t ids[] = {1, 261, 261, 2}, token = o.model->sight->token;
    int64_t number;
    clef_error err = {0};
    clef_seen seen;
    assert_int_equal(token, ids[1]);
    const clef_request_picture wrong[] = {
        {.at = 1, .n = 4, .height = 2, .width = 2, .rows = row}, /* beyond the prompt */
        {.at = -1, .n = 1, .height = 1, .width = 1, .rows = row},
        {.at = 1, .n = 1, .height = 1, .width = 2, .rows = row}, /* not its grid */
        {.at = 1, .n = 0, .height = 0, .width = 0, .rows = row},
        {.at = 1, .n = 1, .height = 1, .width = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const clef_request r = {.ids = ids, .n = 4, .n_max = 1, .pictures = &wrong[i], .n_pictures = 1};
        assert_int_equal(clef_batch_add(o.batch, &r, &number, &err), CLEF_E_ARG);
    }
    assert_int_equal(clef_sight_see(o.sight, ids, 4, NULL, 0, &seen, &err), CLEF_E_ARG);
    float *values = calloc(3 * 56 * 56, sizeof *values);
    clef_sight_pixels px = {
        .values = values, .n = 1, .height = 56, .width = 56}; /* four rows, for two places */
    assert_int_equal(clef_sight_see(o.sight, ids, 4, &px, 1, &seen, &err), CLEF_E_ARG);
    px.width = 55;
    assert_int_equal(clef_sight_see(o.sight, ids, 4, &px, 1, &seen, &err), CLEF_E_SHAPE);
    free(values);
    close_oracle(&o);
}

/* What a text becomes before it is encoded: marks in a message are text. */
TEST(marks_become_the_tokens_of_their_pictures)
{
    oracle o;
    if (!open_oracle(&o, "qwen2_vl"))
        skip_without("oracle/vision/qwen2_vl");
    static const char text[] = "a<|image_pad|>b<|image_pad|>";
    clef_error err = {0};
    clef_sight_text out;
    float *values = calloc(3 * 56 * 28, sizeof *values);
    const clef_sight_pixels px = {.values = values, .n = 1, .height = 28, .width = 56}; /* two rows */
    const clef_byte_span plain = {14, 29 - 1};
    const clef_sight_expand_opts opts = {.plain = &plain, .n_plain = 1};
    ok(clef_sight_expand(o.sight, text, sizeof text - 1, &px, 1, &opts, &out, &err), &err);
    assert_string_equal(out.text, "a<|image_pad|><|image_pad|>b<|image_pad|>");
    assert_int_equal(out.plain[0].begin, 27);
    assert_int_equal(out.plain[0].end, out.n_bytes);
    clef_sight_text_finish(&out);
    assert_int_equal(clef_sight_expand(o.sight, text, sizeof text - 1, &px, 1, NULL, &out, &err), CLEF_E_ARG);
    ok(clef_sight_expand(o.sight, "c", 1, &px, 1, &(clef_sight_expand_opts){.before = 1}, &out, &err), &err);
    assert_string_equal(out.text, "<|vision_start|><|image_pad|><|image_pad|><|vision_end|>c");
    clef_sight_text_finish(&out);
    free(values);
    close_oracle(&o);
}

/* Pixels of tiles, in a grid that has more or fewer of them. */
TEST(tiles_that_do_not_fill_a_grid_are_refused)
{
    static const char *const tiled[] = {"idefics3", "llava_next"};
    static const int32_t grids[][2] = {{0, 0}, {2, 1}, {-1, -1}, {65536, 65536}};
    int n_seen = 0;
    for (size_t i = 0; i < 2; i++) {
        oracle o;
        if (!open_oracle(&o, tiled[i]))
            continue;
        const char *mark = clef_sight_mark(o.sight);
        const int32_t side = clef_model_pictures(o.model, NULL)->image_height;
        float *values = calloc(2 * 3 * (size_t)side * (size_t)side, sizeof *values);
        for (size_t k = 0; k < sizeof grids / sizeof *grids; k++) {
            const clef_sight_pixels px = {values, 2, side, side, grids[k][0], grids[k][1], side, side};
            clef_sight_text out;
            clef_error err = {0};
            assert_int_equal(clef_sight_expand(o.sight, mark, strlen(mark), &px, 1, NULL, &out, &err),
                             CLEF_E_SHAPE);
        }
        free(values);
        close_oracle(&o);
        n_seen++;
    }
    if (!n_seen)
        skip_without("oracle/vision");
}

/* LLaVA-NeXT's states, of which "full" leaves that of the class token. */
TEST(states_that_are_not_known_are_refused)
{
    oracle o;
    clef_error err = {0};
    if (!open_oracle(&o, "llava_next"))
        skip_without("oracle/vision/llava_next");
    const int32_t side = clef_model_pictures(o.model, NULL)->image_height;
    float *values = calloc(2 * 3 * (size_t)side * (size_t)side, sizeof *values);
    const clef_sight_pixels px = {values, 2, side, side, 1, 1, side, side};
    clef__sight_rows rows;
    clef_sight *other;
    ok(clef__sight_count(o.sight, &px, &rows, &err), &err);
    json_object_set_new(o.model->outer, "vision_feature_select_strategy", json_string("full"));
    assert_int_equal(clef__sight_count(o.sight, &px, &rows, &err), CLEF_E_SHAPE);
    json_object_set_new(o.model->outer, "vision_feature_select_strategy", json_string("first"));
    assert_int_equal(clef_sight_create(o.dev, o.model, &compile, &other, &err), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "expected default or full, got first"));
    free(values);
    close_oracle(&o);
}

TESTS(NULL, NULL)
