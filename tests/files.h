/* What the tests of files share: a folder for temporary files, files written in a small language, errors
 * checked.
 *
 * In the language, blanks separate pieces, and a piece is
 *   1:N 2:N 4:N 8:N   an integer of that many bytes, little-endian (N may be negative)
 *   f:X               a float of 4 bytes
 *   s:TEXT            8 bytes of length, then the text
 *   t:TEXT            the text alone
 *   z:N  p:N          N zero bytes; zero bytes up to a multiple of N */
#ifndef CLEF_TESTS_FILES_H
#define CLEF_TESTS_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clef/status.h"
#include "runtime/os/os.h"
#include "tests/check.h"

static char temp_dir[256];

static inline const char *temp_path(const char *file)
{
    static char path[4][600];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", temp_dir, file);
    return path[turn];
}

static inline void write_file(const char *path, const void *data, size_t n)
{
    clef_error err = {0};
    if (clef__os_write(path, data, n, &err) != CLEF_OK)
        fail_msg("%s", err.text);
}

static inline void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

typedef struct blob {
    unsigned char p[8192];
    size_t        n;
} blob;

static inline void put(blob *b, const void *p, size_t n)
{
    assert_true(n <= sizeof b->p - b->n);
    if (n > 0)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void put_int(blob *b, uint64_t x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(b, &(unsigned char){(unsigned char)(x >> (8 * i))}, 1);
}

/* Appends what `spec` says (see the head of this file). */
static inline void assemble(blob *b, const char *spec)
{
    static const unsigned char zeros[4096];
    while (*spec) {
        const size_t n = strcspn(spec, " ");
        const char *text = spec + 2;
        if (n >= 2 && spec[1] == ':') {
            const unsigned long long x = strtoull(text, NULL, 0);
            const float f = strtof(text, NULL);
            if (strchr("1248", spec[0]))
                put_int(b, x, (size_t)(spec[0] - '0'));
            else if (spec[0] == 'f')
                put(b, &f, sizeof f);
            else if (spec[0] == 'z')
                put(b, zeros, (size_t)x);
            else if (spec[0] == 'p')
                put(b, zeros, (size_t)((x - b->n % x) % x));
            else if (spec[0] == 's')
                put_int(b, n - 2, 8);
            if (strchr("st", spec[0]))
                put(b, text, n - 2);
        }
        spec += n + (spec[n] == ' ');
    }
}

/* The status and a piece of the message, which also has to name the subject (the file). */
static inline void check_error(const char *row, clef_status status, const clef_error *err, clef_status wanted,
                               const char *piece) {
    if (status != wanted || (wanted != CLEF_OK && (err->status != wanted || !strstr(err->text, piece))))
        fail_msg("%s\n  gives %s: %s\n  expected %s with \"%s\"", row, clef_status_name(status), err->text,
                 clef_status_name(wanted), piece);
}

/* The bytes alone in memory of exactly their size, so that a sanitizer sees the first byte read beyond
 * them. */
static inline void *exact(const void *data, size_t n)
{
    void *copy = malloc(n + (n == 0));
    assert_non_null(copy);
    memcpy(copy, data, n);
    return copy;
}

/* Group set-up and tear-down: a fresh folder; the tests remove their files. TEST_NAME keeps programs that
 * run side by side apart. */
static inline int make_temp_dir(void **state)
{
    (void)state;
    const char *tmp = clef__os_env("TMPDIR");
    clef_error err = {0};
    snprintf(temp_dir, sizeof temp_dir, "%.180s/clef-" TEST_NAME "-%llx-%llx", tmp ? tmp : "/tmp",
             (unsigned long long)time(NULL),
             (unsigned long long)(uintptr_t)&err / 16 % 0xFFFFFF);
    return clef__os_make_dirs(temp_dir, &err) == CLEF_OK ? 0 : -1;
}

static inline int remove_temp_dir(void **state)
{
    (void)state;
    return remove(temp_dir);
}

#endif
