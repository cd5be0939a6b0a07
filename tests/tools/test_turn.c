/* CLEF_TEST_TURN: the turns 1/n to n/n of a list together run all of it. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"

enum { MOST = 20 };

/* Adds to runs[] how often turn i of n runs each entry; returns how many it runs. */
static int take_turn(int i, int n, int count, int *runs)
{
    char text[32];
    int n_run = 0;
    snprintf(text, sizeof text, "%d/%d", i, n);
    setenv("CLEF_TEST_TURN", text, 1);
    for (int k = 0; k < count; k++) {
        const int is = is_in_turn(k, count);
        n_run += is;
        runs[k] += is;
    }
    return n_run;
}

TEST(turns_cover_a_list)
{
    for (int n = 1; n <= 8; n++)
        for (int count = 1; count <= MOST; count++) {
            int runs[MOST] = {0};
            for (int i = 1; i <= n; i++) {
                const int n_run = take_turn(i, n, count, runs);
                assert_in_range(n_run, count < n ? 1 : count / n, count < n ? 1 : (count + n - 1) / n);
            }
            for (int k = 0; k < count; k++)
                assert_in_range(runs[k], 1, count < n ? n : 1);
        }
}

TEST(without_turns_all_run)
{
    unsetenv("CLEF_TEST_TURN");
    for (int k = 0; k < MOST; k++)
        assert_true(is_in_turn(k, MOST));
}

TESTS(NULL, NULL)
