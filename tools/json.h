/* Writing JSON text (RFC 8259). */
#ifndef CLEF_TOOLS_JSON_H
#define CLEF_TOOLS_JSON_H

#include <stdint.h>
#include <stdio.h>

/** Writes `text` as a JSON string, quotes included; a byte that is no UTF-8 becomes U+FFFD. */
void cli_json_string(FILE *to, const char *text);
/** Writes "[1, 2, 3]". */
void cli_json_ints(FILE *to, const int32_t *x, int32_t n);
/** Writes `, "key": "text"`, without the comma when *n_members was 0; counts it. */
void cli_json_member_text(FILE *to, int32_t *n_members, const char *key, const char *text);
/** The same with a number: 9 digits of a fraction, all of a whole number, null where it is NaN or infinite.
 */
void cli_json_member_number(FILE *to, int32_t *n_members, const char *key, double x);
/** A fraction with that many digits; null where it is NaN or infinite, which JSON has not. */
void cli_json_number(FILE *to, double x, int digits);
/** Only `, "key": `. */
void cli_json_member(FILE *to, int32_t *n_members, const char *key);

#endif
