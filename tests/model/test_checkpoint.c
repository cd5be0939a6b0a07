/* Checkpoints: what is read is what was written, damage is found wherever it is, and the newest sound one of
 * a folder is used. */
#define _XOPEN_SOURCE 700
#define TEST_NAME "checkpoint"
#include "tests/folders.h"

#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clef/model.h"
#include "tests/check.h"
#include "train/model/checkpoint.h"

enum { W = 37, N_TENSORS = 4 };

static float weights[W], moments[W];
static int32_t counts[2] = {5, -7};
static clef_error err;

static clef_status fetch_moments(void *user, const char *name, const void **out, clef_error *e)
{
    (void)e;
    assert_string_equal(name, "m");
    ++*(int32_t *)user;
    *out = moments;
    return CLEF_OK;
}

static clef_status fetch_nothing(void *user, const char *name, const void **out, clef_error *e)
{
    (void)user;
    *out = NULL;
    return snprintf(e->text, sizeof e->text, "%s is away", name) > 0 ? CLEF_E_CL : CLEF_OK;
}

/* Values that depend on the step. Returns the list of tensors. */
static const clef__checkpoint_tensor *tensors_of(uint64_t step, int32_t *n_fetched)
{
    static clef__checkpoint_tensor t[N_TENSORS];
    for (int i = 0; i < W; i++) {
        weights[i] = (float)step + 0.25f * (float)i;
        moments[i] = (float)step - 0.5f * (float)i;
    }
    t[0] = (clef__checkpoint_tensor){
        .name = "a.weight", .dtype = CLEF_F32, .rank = 2, .dims = {1, W}, .data = weights};
    t[1] = (clef__checkpoint_tensor){
        .name = "m", .dtype = CLEF_F32, .rank = 1, .dims = {W}, .fetch = fetch_moments, .user = n_fetched};
    t[2] = (clef__checkpoint_tensor){.name = "n", .dtype = CLEF_I32, .rank = 1, .dims = {2}, .data = counts};
    t[3] = (clef__checkpoint_tensor){.name = "empty", .dtype = CLEF_F16, .rank = 1, .dims = {0}};
    return t;
}

static const char *folder(void)
{
    return temp_path("run");
}

static const char *file_of(uint64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "run/ckpt-%08" PRIu64 ".clef", step);
    return temp_path(name);
}

static void save(uint64_t step, int32_t keep)
{
    int32_t n_fetched = 0;
    json_t *state = json_pack("{s:f, s:s}", "best", 1.5, "note", "x");
    const clef__checkpoint_head head = {
        .model = "model-a", .options = "lr 1", .step = step, .seed = UINT64_MAX - 1, .state = state};
    ok(clef__checkpoint_save(folder(), &head, tensors_of(step, &n_fetched), N_TENSORS, keep, &err), &err);
    assert_int_equal(n_fetched, 1);
    json_decref(state);
}

static void check_contents(const clef__checkpoint *c, uint64_t step)
{
    int32_t n_fetched = 0;
    const void *data = NULL;
    const clef__checkpoint_head *head = clef__checkpoint_head_of(c);
    const clef__checkpoint_tensor *t = tensors_of(step, &n_fetched);
    assert_int_equal(head->step, step);
    assert_true(head->seed == UINT64_MAX - 1);
    assert_string_equal(head->model, "model-a");
    assert_true(json_real_value(json_object_get(head->state, "best")) == 1.5);
    assert_int_equal(clef__checkpoint_n_tensors(c), N_TENSORS);
    for (int32_t i = 0; i < N_TENSORS; i++) {
        const clef_tensor_info *info = clef__checkpoint_tensor_at(c, i);
        assert_string_equal(info->name, t[i].name);
        assert_int_equal(info->rank, t[i].rank);
        assert_memory_equal(info->dims, t[i].dims, (size_t)info->rank * sizeof *info->dims);
        assert_true((uintptr_t)info->data % 64 == 0 && clef__checkpoint_find(c, t[i].name) == info);
    }
    ok(clef__checkpoint_data(c, "a.weight", CLEF_F32, sizeof weights, &data, &err), &err);
    assert_memory_equal(data, weights, sizeof weights);
    ok(clef__checkpoint_data(c, "m", CLEF_F32, sizeof moments, &data, &err), &err);
    assert_memory_equal(data, moments, sizeof moments);
    ok(clef__checkpoint_data(c, "n", CLEF_I32, sizeof counts, &data, &err), &err);
    assert_memory_equal(data, counts, sizeof counts);
    check_error("size", clef__checkpoint_data(c, "n", CLEF_F32, sizeof counts, &data, &err), &err,
                CLEF_E_SHAPE, "tensor n has 8 bytes of i32, expected 8 of f32");
    check_error("name", clef__checkpoint_data(c, "z", CLEF_F32, 4, &data, &err), &err, CLEF_E_NOT_FOUND,
                "no tensor z");
}

static int make_folder(void **state)
{
    (void)state;
    return clef__os_make_dirs(folder(), NULL) ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    remove_tree(folder());
    return 0;
}

static void round_trip(void **state)
{
    (void)state;
    clef__checkpoint *c = NULL;
    save(7, 0);
    ok(clef__checkpoint_open(file_of(7), &c, &err), &err);
    check_contents(c, 7);
    ok(clef__checkpoint_check(c, "model-a", "lr 1", &err), &err);
    check_error("model", clef__checkpoint_check(c, "model-b", NULL, &err), &err, CLEF_E_ARG, "another model");
    check_error("options", clef__checkpoint_check(c, NULL, "lr 2", &err), &err, CLEF_E_ARG,
                "other options: lr 1, expected lr 2");
    check_error("missing", clef__checkpoint_check(c, NULL, "rows 8", &err), &err, CLEF_E_ARG,
                "other options: lr 1, expected none");
    check_error("new", clef__checkpoint_check(c, NULL, "lr 1 rows 8", &err), &err, CLEF_E_ARG,
                "other options: none, expected rows 8");
    clef__checkpoint_close(c);
    clef__checkpoint_close(NULL);
    assert_string_equal(look_into(folder()).names, " ckpt-00000007.clef");
}

/* Cut at each length, and with each byte changed in turn: no damage is read as a checkpoint. */
static void damage(void **state)
{
    (void)state;
    char *bytes = NULL;
    size_t n = 0;
    clef__checkpoint *c = NULL;
    save(3, 0);
    ok(clef__os_read(file_of(3), 1 << 20, &bytes, &n, &err), &err);
    assert_true(n > 600);
    for (size_t cut = 0; cut < n; cut++) {
        write_file(temp_path("cut"), bytes, cut);
        check_error("cut", clef__checkpoint_open(temp_path("cut"), &c, &err), &err, CLEF_E_FORMAT, "/cut: ");
        assert_null(c);
    }
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 4;
        write_file(temp_path("changed"), bytes, n);
        const clef_status s = clef__checkpoint_open(temp_path("changed"), &c, &err);
        check_error("changed", s, &err, i >= 8 && i < 12 ? CLEF_E_UNSUPPORTED : CLEF_E_FORMAT, "/changed: ");
        bytes[i] ^= 4;
    }
    bytes[8] = 2;
    write_file(temp_path("changed"), bytes, n);
    check_error("version", clef__checkpoint_open(temp_path("changed"), &c, &err), &err, CLEF_E_UNSUPPORTED,
                "version 2, expected 1");
    check_error("missing", clef__checkpoint_open(temp_path("none"), &c, &err), &err, CLEF_E_IO, "/none");
    remove(temp_path("cut"));
    remove(temp_path("changed"));
    free(bytes);
}

static char noted[2048];

static void note(void *user, const char *text)
{
    ++*(int32_t *)user;
    snprintf(noted, sizeof noted, "%s", text);
}

static void cut_file(const char *path, size_t n)
{
    char *bytes = NULL;
    size_t had = 0;
    ok(clef__os_read(path, 1 << 20, &bytes, &had, &err), &err);
    write_file(path, bytes, had - n);
    free(bytes);
}

static void newest(void **state)
{
    (void)state;
    clef__checkpoint *c = NULL;
    int32_t n = 0;
    check_error("none", clef__checkpoint_newest(folder(), NULL, NULL, note, &n, &c, &err), &err,
                CLEF_E_NOT_FOUND, "no checkpoint");
    save(100, 3);
    save(200, 3);
    save(1000, 3);
    write_text(temp_path("run/ckpt-x.clef"), "not one");
    ok(clef__checkpoint_newest(folder(), "model-a", "lr 1", note, &n, &c, &err), &err);
    check_contents(c, 1000);
    clef__checkpoint_close(c);
    assert_int_equal(n, 0);

    cut_file(file_of(1000), 1);
    ok(clef__checkpoint_newest(folder(), "model-a", NULL, note, &n, &c, &err), &err);
    check_contents(c, 200);
    clef__checkpoint_close(c);
    assert_int_equal(n, 1);
    assert_non_null(strstr(noted, "ckpt-00001000.clef: the checkpoint is damaged"));
    assert_non_null(strstr(noted, "trying "));

    check_error("model", clef__checkpoint_newest(folder(), "model-b", NULL, note, &n, &c, &err), &err,
                CLEF_E_ARG, "another model");
    assert_null(c);
    cut_file(file_of(200), 40);
    cut_file(file_of(100), 300);
    check_error("all", clef__checkpoint_newest(folder(), NULL, NULL, NULL, NULL, &c, &err), &err,
                CLEF_E_FORMAT, "ckpt-00001000.clef");
}

static void which_stay(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= 5; step++)
        save(10 * step, 0);
    assert_int_equal(look_into(folder()).n, 2);
    assert_true(clef__os_is_file(file_of(40)) && clef__os_is_file(file_of(50)));
    save(50, 1);
    assert_int_equal(look_into(folder()).n, 1);
    save(60, 3);
    save(55, 3); /* training went back: what was later is no longer its future */
    assert_true(clef__os_is_file(file_of(50)) && clef__os_is_file(file_of(55)));
    assert_false(clef__os_is_file(file_of(60)));
}

/* Whatever fails, the checkpoints that were there are still sound, and nothing else is there. */
static void failures(void **state)
{
    (void)state;
    clef__checkpoint *c = NULL;
    int32_t n_fetched = 0;
    const clef__checkpoint_head head = {.model = "model-a", .step = 9};
    save(8, 0);
    for (size_t n = 1; n < 700; n += 50) {
        limit_files(n);
        const clef_status s =
            clef__checkpoint_save(folder(), &head, tensors_of(9, &n_fetched), N_TENSORS, 0, &err);
        limit_files(0);
        check_error("full disk", s, &err, CLEF_E_IO, "ckpt-00000009.clef: cannot write");
        assert_string_equal(look_into(folder()).names, " ckpt-00000008.clef");
    }
    ok(clef__checkpoint_newest(folder(), NULL, NULL, NULL, NULL, &c, &err), &err);
    check_contents(c, 8);
    clef__checkpoint_close(c);
}

/* A writer that is killed at any moment leaves sound checkpoints, the newest among them. */
static void kills(void **state)
{
    (void)state;
    enum { KILLS = 12, MOST_MS = 5000 };
    for (int32_t i = 0; i < KILLS; i++) {
        clef__checkpoint *c = NULL;
        int32_t n = 0, waited = 0;
        save(1, 0);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            for (uint64_t step = 2;; step++)
                save(step, 0);
        while (clef__os_is_file(file_of(1)) && waited++ < MOST_MS) /* until step 3 */
            clef__os_sleep(1);
        clef__os_sleep(i);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        ok(clef__checkpoint_newest(folder(), "model-a", "lr 1", note, &n, &c, &err), &err);
        assert_int_equal(n, 0);
        assert_true(clef__checkpoint_head_of(c)->step > 1);
        check_contents(c, clef__checkpoint_head_of(c)->step);
        clef__checkpoint_close(c);
        remove_tree(folder());
        ok(clef__os_make_dirs(folder(), &err), &err);
    }
}

static void wrong_calls(void **state)
{
    (void)state;
    int32_t n_fetched = 0;
    const clef__checkpoint_head head = {.model = "model-a", .step = 9};
    clef__checkpoint_tensor t[N_TENSORS];
    memcpy(t, tensors_of(9, &n_fetched), sizeof t);
    t[1].fetch = fetch_nothing;
    assert_int_equal(clef__checkpoint_save(folder(), &head, t, N_TENSORS, 0, &err), CLEF_E_CL);
    assert_string_equal(err.text, "m is away");
    t[1].fetch = NULL;
    check_error("no data", clef__checkpoint_save(folder(), &head, t, N_TENSORS, 0, &err), &err, CLEF_E_ARG,
                "tensor m has no data");
    t[1].data = moments;
    t[2].dtype = CLEF_Q8_0;
    check_error("dtype", clef__checkpoint_save(folder(), &head, t, N_TENSORS, 0, &err), &err, CLEF_E_ARG,
                "tensor n is q8_0");
    t[2].dtype = CLEF_I32;
    t[2].name = "m\n";
    check_error("name", clef__checkpoint_save(folder(), &head, t, N_TENSORS, 0, &err), &err, CLEF_E_ARG,
                "no name");
    check_error("folder", clef__checkpoint_save(temp_path("none"), &head, t, 1, 0, &err), &err, CLEF_E_IO,
                "/none/ckpt-00000009.clef");
    assert_int_equal(look_into(folder()).n, 0);
}

/* What earlier versions wrote is read (docs/stability.md). */
static void earlier_forms(void **state)
{
    (void)state;
    clef__checkpoint *c = NULL;
    ok(clef__checkpoint_open(CLEF_SOURCE_DIR "/tests/fixtures/own/checkpoint-1.clef", &c, &err), &err);
    check_contents(c, 7);
    ok(clef__checkpoint_check(c, "model-a", "lr 1", &err), &err);
    clef__checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(earlier_forms),
        cmocka_unit_test_setup_teardown(round_trip, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damage, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(newest, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(which_stay, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(failures, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(kills, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(wrong_calls, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, make_temp_dir, remove_temp_tree);
}
