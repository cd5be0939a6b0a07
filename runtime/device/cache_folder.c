#include "runtime/device/cache_folder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/fail.h"
#include "runtime/os/os.h"

enum { DAY = 24 * 3600 };
static const uint64_t DEFAULT_LIMIT = (uint64_t)1 << 30;

/* ---- the limit ------------------------------------------------------------------------------- */

/* Parses "512M". Returns 0 when the text is not a size. */
static int read_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (*text < '0' || *text > '9' || errno || (*end && (!unit || end[1])) || n > UINT64_MAX >> shift)
        return 0;
    *out = (uint64_t)n << shift;
    return 1;
}

clef_status clef__parse_size(const char *name, const char *text, uint64_t *n_bytes, clef_error *err)
{
    return !text || read_size(text, n_bytes)
               ? CLEF_OK
               : clef__fail(err, CLEF_E_ARG, "%s: expected a size such as 512M or 2G, got '%.40s'", name,
                            text);
}

clef_status clef_cache_limit(uint64_t *n_bytes, clef_error *err)
{
    *n_bytes = DEFAULT_LIMIT;
    return clef__parse_size("CLEF_CACHE_MAX", clef__os_env("CLEF_CACHE_MAX"), n_bytes, err);
}

int32_t clef_cache_dir(char *out, size_t n_bytes)
{
    const char *dir = clef__os_env("CLEF_CACHE_DIR");
    if (!dir)
        return clef__os_cache_dir(out, n_bytes);
    if (strlen(dir) >= n_bytes)
        return 0;
    strcpy(out, dir);
    return 1;
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct scan {
    clef__cache_files *files;
    clef_cache_kind kind;
    const char *suffix; /* of files of that kind; other files are temporary */
} scan;

static clef_status add_file(void *user, const clef__os_file_info *info)
{
    const scan *s = user;
    clef__cache_files *files = s->files;
    const size_t n = strlen(info->name), n_suffix = strlen(s->suffix);
    const int is_whole = n > n_suffix && strcmp(info->name + n - n_suffix, s->suffix) == 0;
    if (strlen(info->path) >= CLEF__CACHE_FILE_PATH)
        return CLEF_OK;
    if (files->n == files->cap) {
        const int32_t cap = 2 * files->cap + 64;
        clef__cache_file *grown = realloc(files->at, (size_t)cap * sizeof *grown);
        if (!grown)
            return CLEF_E_NOMEM;
        files->at = grown;
        files->cap = cap;
    }
    clef__cache_file *file = &files->at[files->n++];
    *file = (clef__cache_file){
        .kind = is_whole ? s->kind : CLEF_CACHE_TEMPORARY, .n_bytes = info->n_bytes, .used = info->when};
    strcpy(file->path, info->path);
    files->n_bytes += info->n_bytes;
    return CLEF_OK;
}

static int by_use(const void *a, const void *b)
{
    const int64_t x = ((const clef__cache_file *)a)->used, y = ((const clef__cache_file *)b)->used;
    return (x > y) - (x < y);
}

clef_status clef__cache_scan(const char *dir, clef__cache_files *out, clef_error *err)
{
    static const struct {
        const char *name, *suffix;
        clef_cache_kind kind;
    } folders[] = {{"programs", ".bin", CLEF_CACHE_PROGRAM}, {"proof", ".txt", CLEF_CACHE_PROOFS},
                   {"tuning", ".txt", CLEF_CACHE_TUNING},    {"speed", ".txt", CLEF_CACHE_SPEED},
                   {"probe", ".txt", CLEF_CACHE_SPEED}, /* found out about a device, too */
                   {"measure", ".txt", CLEF_CACHE_SPEED},    {"tokens", ".tokens", CLEF_CACHE_TOKENS}};
    char path[CLEF__CACHE_FILE_PATH];
    clef_status s = CLEF_OK;
    *out = (clef__cache_files){0};
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !s; i++) {
        const int n = snprintf(path, sizeof path, "%s/%s", dir, folders[i].name);
        if (n > 0 && (size_t)n < sizeof path)
            s = clef__os_list(path, add_file, &(scan){out, folders[i].kind, folders[i].suffix});
    }
    if (s) {
        free(out->at);
        *out = (clef__cache_files){0};
        return clef__fail(err, s, "%s: no memory for its list of files", dir);
    }
    if (out->n)
        qsort(out->at, (size_t)out->n, sizeof *out->at, by_use);
    return CLEF_OK;
}

void clef__cache_trim(const char *dir)
{
    clef__cache_files files;
    uint64_t limit;
    const int64_t now = (int64_t)time(NULL);
    if (!dir[0] || clef_cache_limit(&limit, NULL) || clef__cache_scan(dir, &files, NULL))
        return;
    for (int others = 0; others < 2; others++) {
        for (int32_t i = 0; i < files.n; i++) {
            const clef__cache_file *f = &files.at[i];
            const int is_temporary = f->kind == CLEF_CACHE_TEMPORARY;
            if (others == (f->kind == CLEF_CACHE_TOKENS) ||
                (is_temporary ? now - f->used < DAY : files.n_bytes <= limit))
                continue;
            clef__os_remove(f->path);
            files.n_bytes -= f->n_bytes;
        }
    }
    free(files.at);
}
