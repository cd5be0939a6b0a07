/* How the processors of a node are divided among ranks: on machines that hwloc makes up. */
#include <stdlib.h>
#include <string.h>

#include "ranks/mpi/cores.h"
#include "tests/check.h"

enum { BYTES = CLEF__TRANSPORT_CORE_BYTES };

/* The first n processors. */
static void first(int32_t n, unsigned char mask[BYTES])
{
    memset(mask, 0, BYTES);
    for (int32_t i = 0; i < n; i++)
        mask[i / 8] = (unsigned char)(mask[i / 8] | 1u << i % 8);
}

static uint64_t low(const unsigned char mask[BYTES])
{
    uint64_t bits = 0;
    for (int32_t i = 0; i < 8; i++)
        bits |= (uint64_t)mask[i] << 8 * i;
    for (int32_t i = 8; i < BYTES; i++)
        assert_int_equal(mask[i], 0);
    return bits;
}

/* Divides `mask` on a machine of hwloc's syntax, and compares each part. */
static void expect(const char *machine, const unsigned char mask[BYTES], int32_t parts,
                   const uint64_t *wanted)
{
    setenv("HWLOC_SYNTHETIC", machine, 1);
    for (int32_t i = 0; i < parts; i++) {
        unsigned char out[BYTES];
        assert_int_equal(clef__mpi_cores_divide(mask, i, parts, out), 1);
        assert_int_equal(low(out), wanted[i]);
    }
    unsetenv("HWLOC_SYNTHETIC");
}

static void test_numbers(void **state)
{
    (void)state;
    unsigned char mask[BYTES], out[BYTES];
    first(6, mask);
    expect("core:6 pu:1", mask, 2, (const uint64_t[]){0x07, 0x38});
    expect("core:6 pu:1", mask, 6, (const uint64_t[]){1, 2, 4, 8, 16, 32});
    mask[0] = 0xa5; /* what a job may use need not be in a row */
    expect("core:8 pu:1", mask, 4, (const uint64_t[]){0x01, 0x04, 0x20, 0x80});
    assert_int_equal(clef__mpi_cores_divide(mask, 0, 1, out), 0);
    assert_int_equal(clef__mpi_cores_divide(mask, 0, 5, out), 0);
}

static void test_places(void **state)
{
    (void)state;
#ifndef CLEF_HAVE_HWLOC
    skip();
#endif
    unsigned char mask[BYTES];
    first(8, mask);
    /* even numbers are on the first NUMA node, odd ones on the second */
    expect("pack:2 [numa] core:4 pu:1(indexes=0,2,4,6,1,3,5,7)", mask, 2, (const uint64_t[]){0x55, 0xaa});
    expect("pack:2 [numa] core:4 pu:1(indexes=0,2,4,6,1,3,5,7)", mask, 4,
           (const uint64_t[]){0x05, 0x50, 0x0a, 0xa0});
    /* two threads of a core, numbered as Linux does: i and i + 4 */
    expect("core:4 pu:2(indexes=0,4,1,5,2,6,3,7)", mask, 4, (const uint64_t[]){0x11, 0x22, 0x44, 0x88});
    expect("core:4 pu:2(indexes=0,4,1,5,2,6,3,7)", mask, 2, (const uint64_t[]){0x33, 0xcc});
}

/* Every processor belongs to one part, and no part is empty. */
static void test_whole(void **state)
{
    (void)state;
    static const char *const machines[] = {"pack:2 [numa] core:5 pu:2", "pack:3 core:3 pu:1", "core:7 pu:4"};
    static const int32_t sizes[] = {20, 9, 28};
    for (int32_t m = 0; m < 3; m++) {
        unsigned char mask[BYTES], out[BYTES];
        first(sizes[m], mask);
        mask[0] = 0xb7;
        setenv("HWLOC_SYNTHETIC", machines[m], 1);
        for (int32_t parts = 2; parts <= sizes[m] - 2; parts++) {
            uint64_t all = 0;
            for (int32_t i = 0; i < parts; i++) {
                assert_int_equal(clef__mpi_cores_divide(mask, i, parts, out), 1);
                assert_true(low(out) != 0);
                assert_int_equal(all & low(out), 0);
                all |= low(out);
            }
            assert_int_equal(all, low(mask));
        }
    }
    unsetenv("HWLOC_SYNTHETIC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_places),
                                       cmocka_unit_test(test_whole)};
    return cmocka_run_group_tests_name("cores", tests, NULL, NULL);
}
