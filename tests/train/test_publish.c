/* Present weights in an open model (clef_model_trainer_publish()), and what a trainer refuses before it
 * trains. The models are tiny ones with random weights (../shared/oracle). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST_NAME "publish"
#include "tests/files.h"

#include "clef/clef.h"
#include "run_graph.h"
#include "runtime/device/device.h"
#include "tests/check.h"
#include "tests/folders.h"

enum { TOKENS = 16, ROWS = 2 };

static clef_device *device;

static clef_model *open_model(const char *name)
{
    char path[512];
    clef_error err = {0};
    clef_model *model;
    snprintf(path, sizeof path, "%s/oracle/%s", getenv("CLEF_SHARED"), name);
    ok(clef_model_open(path, &model, &err), &err);
    return model;
}

static clef_model_trainer *new_trainer(clef_model *model, int32_t lora_rank)
{
    clef_model_train_opts opts = {
        .optimizer = clef_train_defaults(), .n_tokens = TOKENS, .n_rows = ROWS, .lora_rank = lora_rank};
    clef_model_trainer *t;
    clef_error err = {0};
    opts.optimizer.rate = 0.05;
    opts.optimizer.compile.no_tune = 1;
    ok(clef_model_trainer_create(device, model, &opts, &t, &err), &err);
    return t;
}

static void make_step(clef_model_trainer *t)
{
    int32_t ids[ROWS * TOKENS], labels[ROWS * TOKENS];
    const clef_rows rows = {.input_ids = ids, .labels = labels};
    clef_train_result result;
    clef_error err = {0};
    for (int i = 0; i < ROWS * TOKENS; i++) {
        ids[i] = i * 7 % 61;
        labels[i] = (i + 1) * 7 % 61;
    }
    ok(clef_model_trainer_step(t, &rows, ROWS, &result, &err), &err);
    assert_true(result.is_finite);
}

/* A copy of the weight's bytes in the open model. */
static void *copy_of(clef_model *model, const char *name, size_t n_bytes)
{
    const void *data = clef_model_weight(model, name, CLEF_F32, n_bytes);
    void *copy = malloc(n_bytes);
    assert_non_null(data);
    assert_non_null(copy);
    return memcpy(copy, data, n_bytes);
}

/* Publishes twice and expects other values than the file's, the same both times, and the file's again when
 * the trainer is gone. */
static void expect_published(clef_model *model, int32_t lora_rank, const char *name, size_t n_bytes)
{
    clef_error err = {0};
    void *before = copy_of(model, name, n_bytes);
    clef_model_trainer *t = new_trainer(model, lora_rank);
    make_step(t);
    make_step(t); /* B of an adapter is 0 before the first */
    ok(clef_model_trainer_publish(t, &err), &err);
    void *once = copy_of(model, name, n_bytes);
    assert_memory_not_equal(before, once, n_bytes);
    ok(clef_model_trainer_publish(t, &err), &err);
    void *twice = copy_of(model, name, n_bytes);
    assert_memory_equal(once, twice, n_bytes);
    clef_model_trainer_destroy(t);
    void *after = copy_of(model, name, n_bytes);
    assert_memory_equal(before, after, n_bytes);
    free(before);
    free(once);
    free(twice);
    free(after);
}

static size_t bytes_of(const clef_model *model, const char *name)
{
    for (int32_t i = 0; i < clef_model_n_tensors(model); i++)
        if (strcmp(clef_model_tensor(model, i).name, name) == 0)
            return (size_t)clef_model_tensor(model, i).n_bytes;
    fail_msg("%s has no tensor %s", clef_model_path(model), name);
    return 0;
}

static void test_weights(void **state)
{
    static const char name[] = "model.layers.0.self_attn.q_proj.weight";
    clef_model *model = open_model("training/llama");
    (void)state;
    expect_published(model, 0, name, bytes_of(model, name));
    clef_model_close(model);
}

/* An adapter is merged into the file's weights, not into what was published before. */
static void test_adapter(void **state)
{
    static const char name[] = "model.layers.0.self_attn.q_proj.weight";
    clef_model *model = open_model("training/llama");
    (void)state;
    expect_published(model, 2, name, bytes_of(model, name));
    clef_model_close(model);
}

/* The graph reads the matrices of all experts as one weight. */
static void test_experts(void **state)
{
    clef_model *model = open_model("models/mixtral");
    (void)state;
    const size_t one = bytes_of(model, "model.layers.0.block_sparse_moe.experts.0.w1.weight");
    const size_t n = (size_t)clef_model_hparams(model)->n_experts;
    expect_published(model, 0, "model.layers.0.block_sparse_moe.experts.*.w1.weight", n * one);
    clef_model_close(model);
}

/* Trained for a step on what the model has, and published. */
static clef_model_trainer *train_once(clef_model *model, int32_t lora_rank)
{
    clef_error err = {0};
    clef_model_trainer *t = new_trainer(model, lora_rank);
    make_step(t);
    make_step(t);
    ok(clef_model_trainer_publish(t, &err), &err);
    return t;
}

/* The last of two trainers counts, in whatever order they are destroyed, and it keeps what it began with. */
static void expect_two(int32_t first_rank, int32_t second_rank, int first_goes_first)
{
    static const char name[] = "model.layers.0.self_attn.q_proj.weight", rest[] = "model.embed_tokens.weight";
    clef_error err = {0};
    clef_model *model = open_model("training/llama");
    const size_t n = bytes_of(model, name), n_rest = bytes_of(model, rest);
    void *file = copy_of(model, name, n);
    clef_model_trainer *first = train_once(model, first_rank);
    void *one = copy_of(model, name, n), *rest_of_one = copy_of(model, rest, n_rest);
    clef_model_trainer *second = train_once(model, second_rank);
    void *two = copy_of(model, name, n), *rest_of_two = copy_of(model, rest, n_rest);
    assert_memory_not_equal(one, two, n);
    assert_int_equal(memcmp(rest_of_one, rest_of_two, n_rest) == 0, second_rank > 0);
    if (first_goes_first) {
        clef_model_trainer_destroy(first);
        assert_memory_equal(two, clef_model_weight(model, name, CLEF_F32, n), n);
        assert_memory_equal(rest_of_two, clef_model_weight(model, rest, CLEF_F32, n_rest), n_rest);
        ok(clef_model_trainer_publish(second, &err), &err); /* what it began with is still there */
        assert_memory_equal(two, clef_model_weight(model, name, CLEF_F32, n), n);
    } else {
        make_step(first);
        ok(clef_model_trainer_publish(first, &err), &err);
        ok(clef_model_trainer_publish(second, &err), &err);
        assert_memory_equal(two, clef_model_weight(model, name, CLEF_F32, n), n);
    }
    clef_model_trainer_destroy(second);
    assert_memory_equal(file, clef_model_weight(model, name, CLEF_F32, n), n);
    if (!first_goes_first)
        clef_model_trainer_destroy(first);
    assert_memory_equal(file, clef_model_weight(model, name, CLEF_F32, n), n);
    clef_model_close(model);
    free(file);
    free(one);
    free(two);
    free(rest_of_one);
    free(rest_of_two);
}

static void test_two_trainers(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        expect_two(0, 0, k);
        expect_two(0, 2, k);
        expect_two(2, 0, k);
        expect_two(2, 2, k);
    }
}

/* ---- what is refused before a training ------------------------------------------------------------ */

static void expect_refused(clef_model *model, clef_model_train_opts opts, const char *text)
{
    clef_model_trainer *t;
    clef_error err = {0};
    assert_int_equal(CLEF_E_ARG, clef_model_trainer_create(device, model, &opts, &t, &err));
    assert_null(t);
    if (!strstr(err.text, text))
        fail_msg("expected '%s' in: %s", text, err.text);
}

static void test_options(void **state)
{
    clef_model *model = open_model("training/llama");
    clef_model_train_opts opts = {.optimizer = clef_train_defaults(), .n_tokens = TOKENS, .n_rows = ROWS};
    (void)state;
    opts.n_tokens = clef_model_hparams(model)->n_context + 1;
    expect_refused(model, opts, "the model's context");
    opts.n_tokens = TOKENS;
    opts.n_rows = opts.n_parts = 1 << 16;
    expect_refused(model, opts, "rows a step");
    clef_model_close(model);
}

/* The plans of a trainer have to fit together: here the first one does, and half of the moments. */
static void test_memory(void **state)
{
    enum { MANY_ROWS = 64 };
    clef_model *model = open_model("training/llama");
    const clef_model_train_opts opts = {
        .optimizer = clef_train_defaults(), .n_tokens = TOKENS, .n_rows = MANY_ROWS};
    clef_device *small = test_device();
    clef_model_trainer *t;
    clef_error err = {0};
    (void)state;
    ok(clef_model_trainer_create(small, model, &opts, &t, &err), &err);
    const clef_train_stats all = clef_trainer_describe(clef_model_trainer_graph(t));
    const clef_plan_stats first = clef_plan_describe(clef_trainer_plan(clef_model_trainer_graph(t)));
    assert_true(first.arena_bytes > 2 * all.moment_bytes); /* so that the moments alone would fit */
    clef_model_trainer_destroy(t);
    small->info.caps.global_bytes = first.weight_bytes + first.state_bytes + first.arena_bytes +
                                    first.io_bytes + first.scratch_bytes + all.moment_bytes / 2;
    assert_int_equal(CLEF_E_LIMIT, clef_model_trainer_create(small, model, &opts, &t, &err));
    assert_non_null(strstr(err.text, "of device memory are needed"));
    assert_null(strstr(err.text, "KV cache"));
    clef_model_close(model);
    clef_device_close(small);
}

static void test_outputs(void **state)
{
    clef_error err = {0};
    clef_model *model = open_model("training/llama");
    clef_model_trainer *t = new_trainer(model, 0), *adapter = new_trainer(model, 2);
    const clef_save_opts wrong = {.dtype = CLEF_I8};
    const char *file = temp_path("there"), *gguf = temp_path("there.gguf"), *none = temp_path("none");
    (void)state;
    write_text(file, "text");
    write_text(gguf, "text");
    assert_int_equal(CLEF_E_IO, clef_model_trainer_check_save(t, gguf, NULL, &err));
    assert_int_equal(CLEF_E_IO, clef_model_trainer_check_save(t, file, NULL, &err));
    assert_int_equal(CLEF_E_IO, clef_model_trainer_check_save(adapter, file, NULL, &err));
    assert_int_equal(CLEF_E_ARG, clef_model_trainer_check_save(t, "", NULL, &err));
    assert_int_equal(CLEF_E_ARG, clef_model_trainer_check_save(t, none, &wrong, &err));
    ok(clef_model_trainer_check_save(t, none, NULL, &err), &err);
    ok(clef_model_trainer_check_save(adapter, none, NULL, &err), &err);
    ok(clef_model_trainer_check_save(t, temp_path("none.gguf"), NULL, &err), &err);
    assert_false(clef__os_is_dir(none));
    clef_model_trainer_destroy(t);
    clef_model_trainer_destroy(adapter);
    clef_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),      cmocka_unit_test(test_adapter), cmocka_unit_test(test_experts),
        cmocka_unit_test(test_options),      cmocka_unit_test(test_memory),  cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_two_trainers),
    };
    char path[512];
    snprintf(path, sizeof path, "%s/oracle/training/llama/config.json",
             getenv("CLEF_SHARED") ? getenv("CLEF_SHARED") : "");
    FILE *f = fopen(path, "r");
    if (!f) {
        puts("skipped: there are no models here");
        return 77;
    }
    fclose(f);
    device = test_device();
    const int code = cmocka_run_group_tests(tests, make_temp_dir, remove_temp_tree);
    clef_device_close(device);
    return code;
}
