/* How ranks choose between a step as a whole and in two halves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/plan/halves.h"

static struct clef_device device;
static clef_plan first = {.dev = &device}, second;

static clef__halves made(void)
{
    clef__halves h = clef__halves_of(&first);
    h.second = &second;
    return h;
}

/* Runs a step of n rows that takes so long either way. Returns 1 if it ran in halves. */
static int run_step(clef__halves *h, int32_t n, double whole, double halves)
{
    const int32_t half = clef__halves_choose(h, n);
    clef__halves_measured(h, half ? halves : whole);
    return half > 0;
}

static void few_rows_stay_whole(void **state)
{
    (void)state;
    clef__halves h = made(), none = clef__halves_of(&first);
    assert_int_equal(clef__halves_choose(&h, 63), 0);
    assert_int_equal(clef__halves_choose(&h, 65), 33);
    assert_int_equal(clef__halves_choose(&none, 512), 0);
}

static void the_faster_way_stays(void **state)
{
    (void)state;
    for (int is_faster = 0; is_faster < 2; is_faster++) {
        clef__halves h = made();
        int n_halves = 0;
        for (int i = 0; i < 6; i++)
            n_halves += run_step(&h, 512, is_faster ? 1.0 : 0.9, is_faster ? 0.9 : 1.0);
        assert_int_equal(n_halves, 3);
        assert_true(h.is_decided);
        for (int i = 0; i < 6; i++)
            assert_int_equal(run_step(&h, 512, 1, 1), is_faster);
    }
}

/* The first run of each way also builds kernels. */
static void first_runs_do_not_count(void **state)
{
    (void)state;
    clef__halves h = made();
    run_step(&h, 512, 9, 9);
    run_step(&h, 512, 9, 9);
    for (int i = 0; i < 4; i++)
        run_step(&h, 512, 1.0, 0.5);
    assert_int_equal(run_step(&h, 512, 1, 1), 1);
    clef__halves other = made();
    run_step(&other, 512, 9, 0.1);
    for (int i = 0; i < 5; i++)
        run_step(&other, 512, 0.5, 1.0);
    assert_int_equal(run_step(&other, 512, 1, 1), 0);
}

/* Prompts of 600 tokens: steps of 512 and of 88 rows, of which the short ones must not be compared with the
 * long ones. */
static void only_equal_steps_are_compared(void **state)
{
    (void)state;
    for (int is_shifted = 0; is_shifted < 2; is_shifted++) {
        clef__halves h = made();
        if (is_shifted)
            run_step(&h, 88, 0.1, 0.2);
        for (int i = 0; i < 6; i++) {
            run_step(&h, 512, 0.5, 0.6);
            run_step(&h, 88, 0.1, 0.2);
        }
        assert_true(h.is_decided);
        assert_int_equal(run_step(&h, 512, 1, 1), 0);
    }
}

/* A prompt of two steps, of which the second one takes longer: each way gets both. */
static void late_steps_are_shared(void **state)
{
    (void)state;
    clef__halves h = made();
    for (int i = 0; i < 3; i++) {
        run_step(&h, 512, 1.0, 1.1);
        run_step(&h, 512, 1.5, 1.6);
    }
    assert_true(h.is_decided);
    assert_int_equal(run_step(&h, 512, 1, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_rows_stay_whole),     cmocka_unit_test(the_faster_way_stays),
        cmocka_unit_test(first_runs_do_not_count), cmocka_unit_test(only_equal_steps_are_compared),
        cmocka_unit_test(late_steps_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
