/* The tuner: its database on disk, choosing, and that what is wrong is set aside. */
#define _XOPEN_SOURCE 700 /* setenv, mkdtemp, nftw */

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/os/os.h"
#include "runtime/tune/tune.h"
#include "tests/check.h"
#include "tests/debug.h"

static char scratch[256]; /* a folder of this run */

static const char *temp_path(const char *file)
{
    static char path[2][512];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", scratch, file);
    return path[turn];
}

static void write_file(const char *path, const void *data, size_t n)
{
    clef_error err = {0};
    if (clef__os_write(path, data, n, &err) != CLEF_OK)
        fail_msg("%s", err.text);
}

static const char product[] =
    "symbol T <= 8\ninput x f32 [T, 64]\nweight w f32 [40, 64]\ny = matmul(x, w) transpose_b=1\noutput y\n";

/* ---- the database's text --------------------------------------------------------------------- */

static const clef_tune_key key_a = {CLEF_OP_matmul, CLEF_Q4_0, 4864, 896, CLEF_ROWS_ONE, 1},
                           key_b = {CLEF_OP_panel_matmul, CLEF_Q8_0, 896, 4864, CLEF_ROWS_MANY, 1};

static void put_result(clef_tune_db *db, const clef_tune_key *key, int32_t row, clef_tune_state state,
                       int64_t ns, int32_t value)
{
    clef_error err = {0};
    const clef_tune_result r = {
        .key = *key, .row = row, .state = state, .values = {value}, .ns = ns, .error_ppm = 31250};
    assert_int_equal(clef__tune_db_put(db, &r, &err), CLEF_OK);
}

static void fill(clef_tune_db *db)
{
    put_result(db, &key_a, CLEF_VARIANT_matmul_gemv, CLEF_TUNE_MEASURED, 5000, 0);
    put_result(db, &key_a, CLEF_VARIANT_matmul_gemm, CLEF_TUNE_MEASURED, 4000, 0);
    put_result(db, &key_b, CLEF_VARIANT_panel_matmul_vnni, CLEF_TUNE_PASSED, 0, 0);
    put_result(db, &key_b, CLEF_VARIANT_panel_matmul_portable, CLEF_TUNE_MEASURED, 900000, 4);
    db->clblast.mflops_before = 4000;
    db->clblast.mflops_after = 40000;
    db->clblast.kernels[0] =
        (clef_clblast_kernel){.name = "Xgemm", .n = 2, .names = {"MWG", "SA"}, .values = {64, 0}};
}

static int same_results(const clef_tune_db *a, const clef_tune_db *b)
{
    int same = a->n == b->n;
    for (int32_t i = 0; i < a->n && same; i++) {
        const clef_tune_result *x = &a->results[i], *y = clef__tune_db_find(b, &x->key, x->row);
        same = y && x->state == y->state && x->ns == y->ns && x->error_ppm == y->error_ppm &&
               memcmp(x->values, y->values, sizeof x->values) == 0;
    }
    return same;
}

TEST(test_round_trip)
{
    const clef_device_info info = {.name = "a device", .driver = "1.0"};
    clef_tune_db db = {0}, back = {0};
    clef_error err = {0};
    fill(&db);
    char *text = clef__tune_print(&db, &info);
    assert_non_null(text);
    assert_non_null(strstr(text, "# a device; 1.0\n"));
    assert_int_equal(clef__tune_parse(&back, text, &err), CLEF_OK);
    assert_int_equal(back.n_damaged, 0);
    assert_true(same_results(&db, &back));
    assert_int_equal(back.clblast.mflops_after, 40000);
    assert_string_equal(back.clblast.kernels[0].name, "Xgemm");
    assert_string_equal(back.clblast.kernels[0].names[1], "SA");
    assert_int_equal(back.clblast.kernels[0].values[0], 64);
    free(text);
    free(db.results);
    free(back.results);
}

/* Any byte changed costs its own line and no other. */
TEST(test_damage)
{
    const clef_device_info info = {.name = "d", .driver = "1"};
    clef_tune_db db = {0};
    clef_error err = {0};
    fill(&db);
    char *text = clef__tune_print(&db, &info);
    assert_non_null(text);
    const size_t n = strlen(text), first = strcspn(text, "\n") + 1,
                 body = first + strcspn(text + first, "\n") + 1;
    for (size_t at = body; at < n; at++) {
        clef_tune_db back = {0};
        const char was = text[at];
        text[at] = was == '7' ? '8' : '7';
        assert_int_equal(clef__tune_parse(&back, text, &err), CLEF_OK);
        assert_true(back.n_damaged >= 1 && back.n_damaged <= 2); /* a line's end makes two lines one */
        assert_true(back.n >= db.n - 2);
        free(back.results);
        text[at] = was;
    }
    for (size_t keep = 0; keep < n; keep += 7) { /* a file cut short */
        clef_tune_db back = {0};
        const char was = text[keep];
        text[keep] = 0;
        assert_int_equal(clef__tune_parse(&back, text, &err), CLEF_OK);
        assert_true(back.n <= db.n && back.n_damaged <= 1);
        free(back.results);
        text[keep] = was;
    }
    free(text);
    free(db.results);
}

static uint32_t fnv(const char *text)
{
    uint32_t sum = 2166136261u;
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * 16777619u;
    return sum;
}

/* Lines with a right sum that say what cannot be. */
TEST(test_lies)
{
    static const char *const lines[] = {
        "measured matmul q4_0 4864 896 one 1 nosuch 100 1",
        "measured nosuch q4_0 4864 896 one 1 gemv 100 1",
        "measured matmul q9_9 4864 896 one 1 gemv 100 1",
        "measured matmul q4_0 -1 896 one 1 gemv 100 1",
        "measured matmul q4_0 99999999999999999999 896 one 1 gemv 100 1",
        "measured matmul q4_0 4294967297 896 one 1 gemv 100 1",
        "measured matmul q4_0 4864 896 none 1 gemv 100 1",
        "measured matmul q4_0 4864 896 one 1 gemv 0 1",
        "measured matmul q4_0 4864 896 one 1 gemv 100",
        "measured panel_matmul q4_0 4864 896 one 1 vnni 100 1 groups=3",
        "measured panel_matmul q4_0 4864 896 one 1 vnni 100 1 nosuch=4",
        "measured panel_matmul q4_0 4864 896 one 1 vnni 100 1 groups",
        "guessed matmul q4_0 4864 896 one 1 gemv 100 1",
        "clblast Xgemm",
        "clblast Xgemm MWG=-1",
        "clblast AKernelWithANameOfManyBytes MWG=1",
        "clblast Xgemm AParameterWithANameOfManyBytes=1",
        "clblast Xgemm a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 n=1 o=1 p=1 q=1 r=1 s=1 t=1 u=1",
        "clblast-speed 0 1",
        "clblast-speed 1 2 3",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        clef_tune_db db = {0};
        clef_error err = {0};
        char text[400];
        snprintf(text, sizeof text, "clef-tuning 1\n%08x %s\n", (unsigned)fnv(lines[i]), lines[i]);
        assert_int_equal(clef__tune_parse(&db, text, &err), CLEF_OK);
        if (db.n_damaged != 1 || db.n != 0 || db.clblast.mflops_before)
            fail_msg("believed: %s", lines[i]);
        free(db.results);
    }
}

/* ---- choosing -------------------------------------------------------------------------------- */

typedef struct chooser {
    clef_graph *g;
    const clef_value *n;
    clef_caps caps;
    clef_lowering lo;
    int64_t symbols[CLEF_MAX_SYMBOLS];
    const clef_variant *forced[CLEF_N_OPS];
} chooser;

static void start(chooser *c, int64_t rows)
{
    clef_error err = {0};
    *c = (chooser){.caps = {.is_cpu = 1, .n_units = 2}, .symbols = {rows}};
    assert_int_equal(clef_graph_parse(product, strlen(product), "t", &c->g, &err), CLEF_OK);
    c->n = clef_graph_find(c->g, "y");
    assert_non_null(c->n);
    c->lo = (clef_lowering){.graph = c->g,
                            .caps = &c->caps,
                            .symbols = c->symbols,
                            .gemm = CLEF_GEMM_OWN,
                            .forced = c->forced,
                            .node = c->n};
}

static const char *chosen(const chooser *c)
{
    return clef__variant_of(&c->lo, c->n, NULL)->name;
}

TEST(test_choice)
{
    clef_tune_db db = {0};
    clef_tuning tuning;
    clef_error err = {0};
    chooser c;
    start(&c, 1);
    assert_string_equal(chosen(&c), "gemv"); /* the stated order */
    const clef_tune_key key = clef__tune_key(&c.lo, c.n);
    put_result(&db, &key, CLEF_VARIANT_matmul_gemv, CLEF_TUNE_MEASURED, 1000, 0);
    put_result(&db, &key, CLEF_VARIANT_matmul_gemm, CLEF_TUNE_MEASURED, 990, 0);
    assert_int_equal(clef__tuning_make(&db, &tuning, &err), CLEF_OK);
    c.lo.tuning = &tuning;
    assert_string_equal(chosen(&c), "gemv"); /* 1 % is noise */
    clef__tuning_finish(&tuning);

    put_result(&db, &key, CLEF_VARIANT_matmul_gemm, CLEF_TUNE_MEASURED, 700, 0);
    assert_int_equal(clef__tuning_make(&db, &tuning, &err), CLEF_OK);
    assert_string_equal(chosen(&c), "gemm");
    c.symbols[0] = 4; /* another key */
    assert_string_equal(chosen(&c), "gemv");
    c.symbols[0] = 1;
    c.forced[CLEF_OP_matmul] = &clef__matmul_gemv;
    assert_string_equal(chosen(&c), "gemv");
    c.symbols[0] = 8; /* the forced one does not fit */
    assert_string_equal(chosen(&c), "gemm");
    clef__tuning_finish(&tuning);

    c.forced[CLEF_OP_matmul] = NULL;
    c.symbols[0] = 4;
    put_result(&db, &key, CLEF_VARIANT_matmul_gemv, CLEF_TUNE_FAILED, 0, 0);
    assert_int_equal(clef__tuning_make(&db, &tuning, &err), CLEF_OK);
    assert_string_equal(chosen(&c), "gemm"); /* set aside at one key, set aside at all */
    clef__tuning_finish(&tuning);
    free(db.results);
    clef_graph_destroy(c.g);
}

TEST(test_unknown_variant)
{
    const clef_variant *forced[CLEF_N_OPS];
    clef_error err = {0};
    /* what is wrong, and a name that the message lists */
    static const char *const wrong[][2] = {{"matmul=nosuch", " gemv"},
                                           {"nosuch=gemv", " matmul"},
                                           {"matmul", " gemv"},
                                           {"=", " matmul"},
                                           {"matmul=gemm,attention", " gpu_query"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(clef__variants_force(wrong[i][0], forced, &err), CLEF_E_ARG);
        assert_non_null(strstr(err.text, wrong[i][1]));
    }
    assert_int_equal(clef__variants_force("matmul=gemm,attention=gpu_query", forced, &err), CLEF_OK);
    assert_ptr_equal(forced[CLEF_OP_matmul], &clef__matmul_gemm);
    assert_ptr_equal(forced[CLEF_OP_attention], &clef__attention_gpu_query);
    assert_int_equal(clef__variants_force(NULL, forced, &err), CLEF_OK);
    assert_null(forced[CLEF_OP_matmul]);
}

/* ---- on a device ----------------------------------------------------------------------------- */

static clef_device *open_with_cache(const char *folder)
{
    clef_device *dev = NULL;
    clef_error err = {0};
    const clef_status s = clef_device_open(getenv("CLEF_TEST_DEVICE"),
                                           &(clef_device_opts){.cache_dir = temp_path(folder)}, &dev, &err);
    if (s == CLEF_E_DEVICE) {
        print_message("%s\n", err.text);
        skip();
    }
    if (s)
        fail_msg("%s", err.text);
    return dev;
}

static float weight[40 * 64], input[8 * 64];

static const void *weight_source(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    (void)user, (void)name, (void)dtype;
    return n_bytes == sizeof weight ? weight : NULL;
}

/* The product of one row is right, whatever serves. */
static void expect_right(clef_device *dev)
{
    clef_error err = {0};
    clef_graph *g = NULL;
    clef_plan *plan = NULL;
    float out[40];
    for (int i = 0; i < 40 * 64; i++)
        weight[i] = (float)(i % 17) - 8;
    for (int i = 0; i < 64; i++)
        input[i] = (float)(i % 5) - 2;
    assert_int_equal(clef_graph_parse(product, strlen(product), "t", &g, &err), CLEF_OK);
    if (clef_plan_create(
            dev, g,
            &(clef_plan_opts){.compile.gemm = CLEF_GEMM_OWN, .as_stored = 1, .weights = weight_source}, &plan,
            &err) ||
        clef_plan_bind(plan, 1, 1, &err) || clef_plan_write(plan, 0, input, 64 * sizeof *input, &err) ||
        clef_plan_run(plan, &err) || clef_plan_read(plan, 0, out, sizeof out, &err))
        fail_msg("%s", err.text);
    for (int r = 0; r < 40; r++) {
        double sum = 0;
        for (int k = 0; k < 64; k++)
            sum += (double)weight[r * 64 + k] * (double)input[k];
        assert_true(fabs((double)out[r] - sum) < 1e-3);
    }
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
}

/* The kernels in a folder of their own, with `find` made `put` in one of them. */
static void write_kernels(const char *folder, const char *file, const char *find, const char *instead)
{
    clef_error err = {0};
    char path[800];
    assert_int_equal(clef__os_make_dirs(folder, &err), CLEF_OK);
    for (const clef_embedded *e = clef__embedded_cl; e->name; e++) {
        const char *text = (const char *)e->text;
        snprintf(path, sizeof path, "%s/%.*s", folder, (int)strcspn(e->name, "/"), e->name);
        if (strchr(e->name, '/'))
            assert_int_equal(clef__os_make_dirs(path, &err), CLEF_OK);
        snprintf(path, sizeof path, "%s/%s", folder, e->name);
        if (strcmp(e->name, file) != 0) {
            write_file(path, text, e->n_bytes);
            continue;
        }
        char *changed = malloc(2 * e->n_bytes + 1);
        assert_non_null(changed);
        size_t n = 0;
        int found = 0;
        for (const char *p = text; *p;) {
            const int here = strncmp(p, find, strlen(find)) == 0;
            n += (size_t)sprintf(changed + n, "%.*s", here ? (int)strlen(instead) : 1, here ? instead : p);
            p += here ? strlen(find) : 1;
            found |= here;
        }
        assert_true(found);
        write_file(path, changed, n);
        free(changed);
    }
}

static const clef_variant_info *find_info(const clef_variant_info *list, int32_t n, const char *variant,
                                          clef_variant_state state)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(list[i].op, "matmul") == 0 && strcmp(list[i].variant, variant) == 0 &&
            list[i].state == state)
            return &list[i];
    return NULL;
}

static void tune_product(clef_device *dev)
{
    clef_error err = {0};
    clef_graph *g = NULL;
    assert_int_equal(clef_graph_parse(product, strlen(product), "t", &g, &err), CLEF_OK);
    if (clef_tune(dev, g, &(clef_plan_opts){.compile.gemm = CLEF_GEMM_OWN, .as_stored = 1}, NULL, &err))
        fail_msg("%s", err.text);
    clef_graph_destroy(g);
}

/* gemv doubles its results, or does not build: it is set aside, the reason is in the list, gemm serves,
 * and the next start knows. */
static void check_broken(const char *name, const char *find, const char *instead, int is_number)
{
    clef_error err = {0};
    char kernels[600], cache[64];
    snprintf(kernels, sizeof kernels, "%s", temp_path(name));
    snprintf(cache, sizeof cache, "%s_cache", name);
    write_kernels(kernels, "gemv.cl", find, instead);
    set_debug("cl_dir", kernels);
    for (int start_number = 0; start_number < 2; start_number++) {
        clef_device *dev = open_with_cache(cache);
        clef_variant_info *list = NULL;
        int32_t n = 0;
        if (!start_number)
            tune_product(dev);
        assert_int_equal(clef_variants_list(dev, &list, &n, &err), CLEF_OK);
        const clef_variant_info *gemv = find_info(list, n, "gemv", CLEF_VARIANT_FAILED);
        assert_non_null(gemv);
        assert_non_null(strstr(gemv->why, "failed its check"));
        assert_int_equal(strstr(gemv->why, "error") != NULL, is_number);
        assert_non_null(find_info(list, n, "gemm", CLEF_VARIANT_CHOSEN));
        clef_variants_free(list);
        expect_right(dev);
        clef_device_close(dev);
    }
    set_debug("cl_dir", NULL);
}

TEST(test_wrong_kernel)
{
    check_broken("wrong", "p.alpha *", "2 * p.alpha *", 1);
}

TEST(test_kernel_that_does_not_build)
{
    check_broken("unbuilt", "p.alpha *", "p.nosuch *", 0);
}

/* A damaged line is measured again and the file written whole; what is whole is not measured again. */
TEST(test_file)
{
    clef_error err = {0};
    clef_device *dev = open_with_cache("file");
    tune_product(dev);
    size_t n = 0;
    char path[CLEF_CACHE_PATH_BYTES], *text = NULL;
    assert_int_equal(clef__tune_db_path(dev, path, &err), CLEF_OK);
    clef_device_close(dev);
    assert_int_equal(clef__os_read(path, 1 << 20, &text, &n, &err), CLEF_OK);
    char *line = strstr(text, " measured matmul f32 40 64 one");
    assert_non_null(line);
    line[1] = 'M';
    write_file(path, text, n);
    free(text);

    dev = open_with_cache("file");
    clef_tune_db *db = NULL;
    assert_int_equal(clef__tune_db_open(dev, &db, &err), CLEF_OK);
    assert_int_equal(db->n_damaged, 1);
    const int32_t before = db->n;
    assert_true(before >= 3); /* gemv and gemm at the other keys */
    assert_int_equal(clef__tune_db_save(dev, db, &err), CLEF_OK);
    clef_device_close(dev);

    dev = open_with_cache("file");
    assert_int_equal(clef__tune_db_open(dev, &db, &err), CLEF_OK);
    assert_int_equal(db->n_damaged, 0);
    assert_int_equal(db->n, before);
    clef_device_close(dev);
}

static int stop_at_tuning(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    *(int *)user += strcmp(what, "tuning") == 0;
    return strcmp(what, "tuning") == 0;
}

static int count_tuning(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    *(int *)user += strcmp(what, "tuning") == 0;
    return 0;
}

static const void *zeros(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    static float x[512 * 1024];
    (void)user, (void)name, (void)dtype;
    return n_bytes <= sizeof x ? x : NULL;
}

static clef_status plan_of(clef_device *dev, const char *text, clef_plan_opts opts, clef_error *err)
{
    clef_graph *g = NULL;
    clef_plan *plan = NULL;
    assert_int_equal(clef_graph_parse(text, strlen(text), "t", &g, err), CLEF_OK);
    opts.weights = zeros;
    const clef_status s = clef_plan_create(dev, g, &opts, &plan, err);
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
    return s;
}

/* The short tune: once for a weight of some size, never for a small one, never where it is not wanted; it can
 * be stopped. */
TEST(test_at_load)
{
    static const char large[] =
        "input x f32 [1, 512]\nweight w f32 [1024, 512]\ny = matmul(x, w) transpose_b=1\noutput y\n";
    clef_error err = {0};
    int calls = 0;
    clef_device *dev = open_with_cache("load");
    clef_plan_opts opts = {.compile.progress = count_tuning, .compile.progress_user = &calls};
    assert_int_equal(plan_of(dev, product, opts, &err), CLEF_OK);
    assert_int_equal(calls, 0);
    opts.compile.no_tune = 1;
    assert_int_equal(plan_of(dev, large, opts, &err), CLEF_OK);
    assert_int_equal(calls, 0);
    opts.compile.no_tune = 0;
    setenv("CLEF_TUNE", "0", 1);
    assert_int_equal(plan_of(dev, large, opts, &err), CLEF_OK);
    assert_int_equal(calls, 0);
    unsetenv("CLEF_TUNE");
    opts.compile.progress = stop_at_tuning;
    assert_int_equal(plan_of(dev, large, opts, &err), CLEF_E_CANCELLED);
    assert_int_equal(calls, 1);
    opts.compile.progress = count_tuning;
    assert_int_equal(plan_of(dev, large, opts, &err), CLEF_OK);
    assert_true(calls > 1);
    const int after = calls;
    clef_device_close(dev);
    dev = open_with_cache("load"); /* the next start */
    assert_int_equal(plan_of(dev, large, opts, &err), CLEF_OK);
    assert_int_equal(calls, after);
    clef_device_close(dev);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info, (void)type, (void)at;
    return remove(path);
}

static int make_scratch(void **state)
{
    const char *tmp = getenv("TMPDIR");
    (void)state;
    snprintf(scratch, sizeof scratch, "%.200s/clef-tune-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
    (void)state;
    return nftw(scratch, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

TESTS(make_scratch, remove_scratch)
