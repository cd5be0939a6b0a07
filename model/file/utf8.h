/* UTF-8: reading it one character at a time, repairing it, and the few character classes that tokenizers ask about. */
#ifndef CLEF_MODEL_UTF8_H
#define CLEF_MODEL_UTF8_H

#include <stddef.h>
#include <stdint.h>

typedef enum clef_utf8 {
    CLEF_UTF8_OK,  /* a whole character */
    CLEF_UTF8_BAD, /* bytes that no continuation can make a character */
    CLEF_UTF8_CUT  /* the text ends inside a character that is right so far */
} clef_utf8;

/** Reads the character at text[0 .. n-1], n >= 1. *n_bytes (1 to 4) is what it takes; for BAD and CUT it is the maximal subpart that one
 *  U+FFFD replaces (Unicode 15, table 3-7 and section 3.9). *code is set only for OK. */
clef_utf8 clef__utf8_read(const char *text, size_t n, uint32_t *code, size_t *n_bytes);

/** Bytes of the character whose first byte is `first`, in text known to be UTF-8. */
size_t clef__utf8_size(char first);
/** Writes a code point to out (4 bytes at most) and returns its size. */
size_t clef__utf8_write(uint32_t code, char *out);

/** Copies text with each bad part replaced by U+FFFD and returns the bytes written: at most 3 n. A CUT end is left alone and *n_left is
 *  its size; with n_left NULL it is replaced too. out NULL: only counts. */
size_t clef__utf8_repair(const char *text, size_t n, char *out, size_t *n_left);
int    clef__utf8_valid(const char *text, size_t n);

/** Unicode's White_Space. */
int clef__is_space(uint32_t code);

#endif
