/* Runs the tests of a program, or those of long lists that are due. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_TESTS = 64 };
static struct CMUnitTest tests[MOST_TESTS];
static int lines[MOST_TESTS];
static size_t n_tests;

void add_test(const char *name, CMUnitTestFunction test, int line)
{
    size_t i = n_tests++;
    assert_true(n_tests <= MOST_TESTS);
    for (; i > 0 && lines[i - 1] > line; i--) { /* systems call constructors in either order */
        tests[i] = tests[i - 1];
        lines[i] = lines[i - 1];
    }
    tests[i] = (struct CMUnitTest){.name = name, .test_func = test};
    lines[i] = line;
}

int run_all_tests(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    if (n_tests == 0)
        return 1; /* no constructor ran: nothing was tested */
    return _cmocka_run_group_tests("tests", tests, n_tests, setup, teardown);
}

int is_in_turn(int number, int count)
{
    const char *text = getenv("CLEF_TEST_TURN");
    int i = 1, n = 1, end = 0;
    if (text && (sscanf(text, "%d/%d%n", &i, &n, &end) != 2 || text[end] || i < 1 || i > n)) {
        fprintf(stderr, "CLEF_TEST_TURN: expected i/n with i from 1 to n, got '%s'\n", text);
        exit(1);
    }
    const int period = n < count ? n : count;
    return period > 0 && number % n == (i - 1) % period;
}
