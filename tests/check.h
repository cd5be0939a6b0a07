/* For tests that call the library: a status that is not CLEF_OK fails the test with its message. */
#ifndef CLEF_TESTS_CHECK_H
#define CLEF_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "clef/clef.h"

static inline void ok(clef_status s, const clef_error *err)
{
    if (s)
        fail_msg("%s: %s", clef_status_name(s), err->text);
}

#endif
