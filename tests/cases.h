/* Tests as data: a file of tests/fixtures is an object of lists, and a list holds one case a line, an object.
 * A test says what it does with a case; what it needs is in the case. */
#ifndef CLEF_TESTS_CASES_H
#define CLEF_TESTS_CASES_H

#include <jansson.h>

#include "clef/status.h"
#include "tests/check.h"

/** Calls check() with each case of a list of tests/fixtures/FILE (NULL: the file is the list). There has to
 *  be one at least. A member of a case that check() read from none of them fails the test: its name is
 *  probably misspelt, and what it says would go unchecked. `name` and `why` describe the case. */
void for_each_case(const char *file, const char *list, void (*check)(const json_t *c));
/** A member of the file, or all of it (NULL). It lives as long as the program. */
const json_t *case_file(const char *file, const char *member);

/** Members of a case: any (NULL where it has none), a text, and the number of its bytes; NULL, 0 or the
 *  given number where it has none. */
json_t     *case_value(const json_t *c, const char *key);
const char *case_text(const json_t *c, const char *key);
double      case_number(const json_t *c, const char *key, double otherwise);
/** check() cannot run a case on this machine: its members count as read. */
void        case_skip(const json_t *c);
/** Items of a list of texts; NULL behind the last. */
const char *case_item(const json_t *c, const char *key, size_t i);

/** Fails the test, and says of which case. */
#define fail_case(c, ...)                                                                                    \
    do {                                                                                                     \
        case_print(c);                                                                                       \
        fail_msg(__VA_ARGS__);                                                                               \
    } while (0)
void case_print(const json_t *c);
/** Fails unless the status is the one called so in the case ("OK" where it has none), and the message has the
 *  case's text `piece`. */
void check_case(const json_t *c, clef_status status, const clef_error *err);

#endif
