/* What tests share: how they are declared and run, which part of a long list is due, and a status that fails
 * a test with its message. */
#ifndef CLEF_TESTS_CHECK_H
#define CLEF_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "clef/clef.h"

/** A test: TEST(name) { .. }. What the group's setup has put into *state is there as `state`. */
#define TEST(name)                                                                                           \
    static void name(void **state);                                                                          \
    static void __attribute__((constructor)) add_##name(void)                                                \
    {                                                                                                        \
        add_test(#name, name, __LINE__);                                                                     \
    }                                                                                                        \
    static void name(void **state __attribute__((unused)))
/** The program: runs its tests in the order of their lines, between setup() and teardown(). Either may be
 *  NULL. */
#define TESTS(setup, teardown)                                                                               \
    int main(void)                                                                                           \
    {                                                                                                        \
        return run_all_tests(setup, teardown);                                                               \
    }
void add_test(const char *name, CMUnitTestFunction test, int line);
int  run_all_tests(CMFixtureFunction setup, CMFixtureFunction teardown);

/** Whether entry `number` (from 0) of a long list of `count` runs now. Always, unless CLEF_TEST_TURN=i/n is
 *  set (i from 1 to n): then every nth, so that the turns 1/n to n/n together run all of the list, each
 *  entry once. Of a list of fewer than n entries a turn runs one. Another value ends the program. */
int is_in_turn(int number, int count);

static inline void ok(clef_status s, const clef_error *err)
{
    if (s)
        fail_msg("%s: %s", clef_status_name(s), err->text);
}

#endif
