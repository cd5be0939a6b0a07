/* What the tests use of POSIX, for Windows, where every test's sources begin with this file. */
#ifndef CLEF_TESTS_POSIX_WINDOWS_H
#define CLEF_TESTS_POSIX_WINDOWS_H

#include <direct.h>
#include <io.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static inline int setenv(const char *name, const char *value, int overwrite)
{
    return !overwrite && getenv(name) ? 0 : _putenv_s(name, value);
}

static inline int unsetenv(const char *name)
{
    return _putenv_s(name, "");
}

/* The last six letters of the path are X. */
static inline char *mkdtemp(char *path)
{
    return _mktemp(path) && _mkdir(path) == 0 ? path : NULL;
}

#define mkdir(path, mode) _mkdir(path)

/* remove() also removes folders in POSIX. */
static inline int posix_remove(const char *path)
{
    struct _stat64 st;
    return _stat64(path, &st) == 0 && (st.st_mode & _S_IFDIR) ? _rmdir(path) : remove(path);
}
#define remove posix_remove

/* Files hold the same bytes as elsewhere. */
static inline FILE *posix_fopen(const char *path, const char *mode)
{
    char binary[8];
    snprintf(binary, sizeof binary, "%s%s", mode, strchr(mode, 'b') ? "" : "b");
    return fopen(path, binary);
}
#define fopen posix_fopen

/* A stream into memory: a file that is read back when it is closed. One at a time. */
static struct {
    FILE *file;
    char **text;
    size_t *n;
} posix_stream;

static inline FILE *open_memstream(char **text, size_t *n)
{
    posix_stream.file = tmpfile();
    posix_stream.text = text;
    posix_stream.n = n;
    return posix_stream.file;
}

static inline int posix_fclose(FILE *file)
{
    if (file && file == posix_stream.file) {
        const long n = ftell(file);
        char *text = calloc(1, (size_t)n + 1);
        rewind(file);
        *posix_stream.n = text ? fread(text, 1, (size_t)n, file) : 0;
        *posix_stream.text = text;
        posix_stream.file = NULL;
    }
    return fclose(file);
}
#define fclose posix_fclose

#endif
