/* UTF-8: reads it character by character, repairs it, and knows the classes of characters that tokenizers
 * need. */
#ifndef CLEF_MODEL_UTF8_H
#define CLEF_MODEL_UTF8_H

#include <stddef.h>
#include <stdint.h>

typedef enum clef__utf8 {
    CLEF_UTF8_OK,  /* a complete character */
    CLEF_UTF8_BAD, /* invalid, whatever comes next */
    CLEF_UTF8_CUT  /* the text ends inside a character that is valid so far */
} clef__utf8;

/** Reads the character at the start of text[0 .. n-1], n >= 1. *n_bytes is its size, 1 to 4; for BAD and CUT
 *  it is the size of the maximal subpart that one U+FFFD replaces (Unicode 15, table 3-7 and section 3.9).
 *  *code is only set for OK. */
clef__utf8 clef__utf8_read(const char *text, size_t n, uint32_t *code, size_t *n_bytes);

/** Size of the character whose first byte is `first`, in valid UTF-8. */
size_t clef__utf8_size(char first);
/** Writes a code point to out (4 bytes at most) and returns its size. */
size_t clef__utf8_write(uint32_t code, char *out);

/** Copies text, with each invalid part replaced by U+FFFD. Returns the number of bytes written, at most 3 n.
 *  A CUT end is not copied, and *n_left is its size; if n_left is NULL it is replaced too. out NULL: only
 *  counts. */
size_t clef__utf8_repair(const char *text, size_t n, char *out, size_t *n_left);
int    clef__utf8_valid(const char *text, size_t n);

/** Unicode's White_Space. */
int clef__is_space(uint32_t code);

#endif
