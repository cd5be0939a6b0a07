/* Writes JSON text (RFC 8259). */
#ifndef CLEF_TOOLS_CLI_JSON_H
#define CLEF_TOOLS_CLI_JSON_H

#include <stdint.h>
#include <stdio.h>

/** Bytes of the UTF-8 character at the beginning of a text that ends with NUL (RFC 3629: no overlong form, no
 *  surrogate, up to U+10FFFF); 0 when there is none. */
int cli_utf8_length(const char *text);
/** Writes `text` as a JSON string with its quotes. A byte that is not UTF-8 becomes U+FFFD. */
void cli_json_string(FILE *to, const char *text);
/** As cli_json_string(), for n_bytes bytes that may contain NUL; text[n_bytes] is NUL. */
void cli_json_text(FILE *to, const char *text, size_t n_bytes);
/** Writes "[1, 2, 3]". */
void cli_json_ints(FILE *to, const int32_t *x, int32_t n);
/** Writes `, "key": "text"`, without the comma if *n_members is 0, and counts the member. */
void cli_json_member_text(FILE *to, int32_t *n_members, const char *key, const char *text);
/** Writes a member with a number: 9 digits of a fraction, all digits of an integer, null for NaN and
 *  infinity. */
void cli_json_member_number(FILE *to, int32_t *n_members, const char *key, double x);
/** Writes a fraction with that many digits; null for NaN and infinity, which JSON cannot express. */
void cli_json_number(FILE *to, double x, int digits);
/** Writes only `, "key": `. */
void cli_json_member(FILE *to, int32_t *n_members, const char *key);

#endif
