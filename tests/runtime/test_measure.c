/* clef_device_measure, and the costs that a plan reports. */
#include <math.h>

#include "runtime/os/os.h"
#include "tests/check.h"

static clef_device *open_device(int32_t profile)
{
    clef_device *dev;
    clef_error err = {0};
    const clef_status status =
        clef_device_open(NULL, &(clef_device_opts){.profile = profile, .cache_dir = ""}, &dev, &err);
    if (status == CLEF_E_DEVICE) {
        print_message("%s\n", err.text);
        skip();
    }
    if (status != CLEF_OK)
        fail_msg("%s", err.text);
    return dev;
}

TEST(test_measure)
{
    clef_device *dev = open_device(0);
    clef_device_speed speed;
    clef_error err = {0};
    if (clef_device_measure(dev, &speed, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    const double figures[] = {speed.read_gb_s, speed.copy_gb_s, speed.mad_gflop_s, speed.launch_us,
                              speed.round_trip_us};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        assert_true(isfinite(figures[i]) && figures[i] > 0);
    assert_true(clef_device_describe(dev)->caps.is_cpu ? isfinite(speed.dot_gop_s) && speed.dot_gop_s > 0
                                                       : speed.dot_gop_s == 0);
    assert_true(clef_device_describe(dev)->caps.x86_amx ? isfinite(speed.tile_gop_s) && speed.tile_gop_s > 0
                                                        : speed.tile_gop_s == 0);
    assert_true(speed.buffer_bytes > 0);
    assert_true(speed.buffer_bytes <= clef_device_describe(dev)->caps.max_alloc_bytes);
    clef_device_close(dev);
}

/* The launches' costs of a profiled run add up to what the plan says of itself, and to the formula: 2 M N
 * K. */
TEST(test_costs)
{
    enum { M = 8, K = 64, N = 32, CAPACITY = 64 };
    clef_device *dev = open_device(1);
    clef_error err = {0};
    static float x[M * K], weights[K * N];
    clef_launch_time times[CAPACITY];
    clef_graph *g = clef_graph_create();
    const clef_dim t = clef_symbol(g, "T", M);
    clef_value *a = clef_input(g, "a", CLEF_F32, clef_shape_2(t, clef_n(K)));
    clef_value *b = clef_constant(g, "b", CLEF_F32, clef_shape_2(clef_n(K), clef_n(N)), weights);
    clef_output(g, "y", clef_matmul(g, a, b, NULL, NULL));
    clef_plan *plan;
    if (clef_plan_create(dev, g, NULL, &plan, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    for (int64_t rows = 1; rows <= M; rows *= 8) {
        assert_int_equal(clef_plan_bind(plan, clef_plan_symbol(plan, "T"), rows, &err), CLEF_OK);
        assert_int_equal(
            clef_plan_write(plan, clef_plan_input(plan, "a"), x, (size_t)rows * K * sizeof *x, &err),
            CLEF_OK);
        assert_int_equal(clef_plan_run(plan, &err), CLEF_OK);
        const int32_t n = clef_plan_profile(plan, times, CAPACITY, &err);
        const clef_plan_stats stats = clef_plan_describe(plan);
        double flops = 0, bytes = 0;
        assert_true(n > 0);
        for (int32_t i = 0; i < n; i++) {
            assert_non_null(times[i].op);
            flops += times[i].flops;
            bytes += times[i].bytes;
        }
        assert_true(fabs(flops - stats.run_flops) <= 1e-9 * flops);
        assert_true(fabs(bytes - stats.run_bytes) <= 1e-9 * bytes);
        assert_true(flops >= 2.0 * (double)(rows * N * K));
        assert_true(bytes >= 4.0 * (double)(rows * K + N * K + rows * N));
    }
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
    clef_device_close(dev);
}

TEST(test_pages)
{
    const size_t n = ((size_t)4 << 20) + 1;
    unsigned char *pages = clef__os_alloc_large(n);
    assert_non_null(pages);
    assert_int_equal(pages[0], 0);
    assert_int_equal(pages[n - 1], 0);
    pages[n - 1] = 1;
    clef__os_free_large(pages, n);
    clef__os_free_large(NULL, n);
    clef__os_set_env("CLEF_TEST_ENV", "here");
    assert_string_equal(clef__os_env("CLEF_TEST_ENV"), "here");
}

TESTS(NULL, NULL)
