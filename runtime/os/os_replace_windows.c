/* Folders that are written as a whole: beside their place, then put into it. */
#include "runtime/os/os_windows.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "runtime/os/os.h"

struct clef_os_folder {
    char *path;      /* without slashes at its end */
    char *temporary; /* the new folder, until it is in place */
    char *old;       /* the name of what it replaces */
    HANDLE lock;     /* the new folder, held while its writer lives: nobody else can remove it */
};

clef_status clef__os_sync_folder(const char *path, clef_error *err)
{
    (void)path; /* a rename that returned is in the journal of the file system (MOVEFILE_WRITE_THROUGH) */
    (void)err;
    return CLEF_OK;
}

static int is_separator(char c)
{
    return c == '/' || c == '\\';
}

/* The place where the last part of a path begins. */
static size_t name_at(const char *path)
{
    size_t n = strlen(path);
    while (n > 0 && !is_separator(path[n - 1]) && path[n - 1] != ':')
        n--;
    return n;
}

/* The folder that `path` is in, in new memory. */
static char *parent_of(const char *path)
{
    const size_t n = name_at(path);
    char *parent = malloc(n + 3);
    if (!parent)
        return NULL;
    memcpy(parent, path, n);
    strcpy(parent + n, n ? "." : "./."); /* "C:/" keeps its slash: "C:" is another folder */
    return parent;
}

static void folder_free(clef_os_folder *f)
{
    if (f->lock != INVALID_HANDLE_VALUE)
        CloseHandle(f->lock);
    free(f->path);
    free(f->temporary);
    free(f->old);
    free(f);
}

/* FOLDER/NAME in new memory. */
static char *joined(const char *folder, const char *name)
{
    const size_t n = strlen(folder) + strlen(name) + 2;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s", folder, name);
    return path;
}

static clef_status remove_entry(void *user, const char *name, int is_folder)
{
    char *path = is_folder ? NULL : joined(user, name);
    if (path)
        clef__os_remove(path);
    free(path);
    return CLEF_OK;
}

/* Removes a folder with its files. */
static void remove_folder(const char *path)
{
    wchar_t *wide = clef__windows_path(path);
    clef__os_entries(path, remove_entry, (void *)(uintptr_t)path, NULL);
    if (wide)
        RemoveDirectoryW(wide);
    free(wide);
}

/* 0: GetLastError() says why. */
static int rename_folder(const char *from, const char *to)
{
    wchar_t *a = clef__windows_path(from), *b = clef__windows_path(to);
    const int done = a && b && MoveFileExW(a, b, MOVEFILE_WRITE_THROUGH);
    const DWORD code = GetLastError();
    free(a);
    free(b);
    SetLastError(code);
    return done;
}

/* Opens a folder so that nobody else can remove it; with `access` DELETE only if nobody holds it so. */
static HANDLE hold_folder(const char *path, DWORD access)
{
    wchar_t *wide = clef__windows_path(path);
    const HANDLE held = wide ? CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL,
                                           OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL)
                             : INVALID_HANDLE_VALUE;
    free(wide);
    return held;
}

/* ---- what writers left behind that were killed --------------------------------------------------- */

/* A name and the folder that it is in. */
typedef struct leftovers {
    const char *parent, *name;
} leftovers;

/* Removes NAME.PID-K.tmp, unless a process holds it. */
static clef_status remove_leftover(void *user, const char *name, int is_folder)
{
    const leftovers *l = user;
    const size_t n = strlen(l->name);
    int end = 0;
    if (!is_folder || _strnicmp(name, l->name, n) != 0)
        return CLEF_OK;
    sscanf(name + n, ".%*u-%*u.tmp%n", &end);
    char *path = end && !name[n + (size_t)end] ? joined(l->parent, name) : NULL;
    const HANDLE held = path ? hold_folder(path, DELETE) : INVALID_HANDLE_VALUE;
    if (held != INVALID_HANDLE_VALUE) {
        CloseHandle(held);
        remove_folder(path);
    }
    free(path);
    return CLEF_OK;
}

/* Makes a folder of a name that is free, and holds it. Returns 0 and leaves GetLastError() when that fails.
 */
static int make_temporary(clef_os_folder *f, size_t room)
{
    static atomic_uint counter;
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        const unsigned k = atomic_fetch_add(&counter, 1u), process = (unsigned)GetCurrentProcessId();
        snprintf(f->temporary, room, "%s.%u-%u.tmp", f->path, process, k);
        snprintf(f->old, room, "%s.%u-%u.old", f->path, process, k);
        wchar_t *wide = clef__windows_path(f->temporary);
        const int made = wide && CreateDirectoryW(wide, NULL);
        const DWORD code = GetLastError();
        free(wide);
        SetLastError(code);
        if (made)
            f->lock = hold_folder(f->temporary, FILE_LIST_DIRECTORY);
        if (made && f->lock != INVALID_HANDLE_VALUE)
            return 1;
        if (!made && code != ERROR_ALREADY_EXISTS)
            return 0;
    }
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

clef_status clef__os_folder_begin(const char *path, clef_os_folder **out, clef_error *err)
{
    enum { SUFFIX = 48 };
    *out = NULL;
    size_t n = strlen(path);
    while (n > 1 && is_separator(path[n - 1]))
        n--;
    clef_os_folder *f = calloc(1, sizeof *f);
    if (f) {
        f->lock = INVALID_HANDLE_VALUE;
        f->path = malloc(n + 1);
        f->temporary = malloc(n + SUFFIX);
        f->old = malloc(n + SUFFIX);
    }
    if (!f || !f->path || !f->temporary || !f->old) {
        if (f)
            folder_free(f);
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", path);
    }
    memcpy(f->path, path, n);
    f->path[n] = 0;
    char *parent = parent_of(f->path);
    clef_status status = parent ? clef__os_make_dirs(parent, err)
                                : clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", path);
    if (!status) {
        leftovers l = {.parent = parent, .name = f->path + name_at(f->path)};
        clef__os_entries(parent, remove_leftover, &l, NULL);
    }
    free(parent);
    if (!status && !make_temporary(f, n + SUFFIX))
        status = clef__windows_fail(err, "write", path);
    if (status)
        folder_free(f);
    else
        *out = f;
    return status;
}

const char *clef__os_folder_path(const clef_os_folder *folder)
{
    return folder->temporary;
}

/* By a further name for the same file, or where the file system has none, by a copy. */
clef_status clef__os_folder_keep(clef_os_folder *f, const char *name, clef_error *err)
{
    char *from = joined(f->path, name), *to = joined(f->temporary, name);
    wchar_t *a = from ? clef__windows_path(from) : NULL, *b = to ? clef__windows_path(to) : NULL;
    clef_status status = CLEF_OK;
    if (!a || !b)
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its name", name);
    else if (!CreateHardLinkW(b, a, NULL) && !CopyFileW(a, b, TRUE))
        status = clef__windows_fail(err, "keep it in the new folder", from);
    free(a);
    free(b);
    free(from);
    free(to);
    return status;
}

static clef_status put_into_place(clef_os_folder *f, clef_error *err)
{
    CloseHandle(f->lock);
    f->lock = INVALID_HANDLE_VALUE;
    if (rename_folder(f->temporary, f->path)) /* there was nothing */
        return CLEF_OK;
    const DWORD why = GetLastError();
    const int is_there = clef__os_is_dir(f->path);
    SetLastError(why);
    if (!is_there)
        return clef__windows_fail(err, "put the new folder into its place", f->path);
    if (!rename_folder(f->path, f->old))
        return clef__windows_fail(err, "rename", f->path);
    if (!rename_folder(f->temporary, f->path)) {
        const clef_status status = clef__windows_fail(err, "put the new folder into its place", f->path);
        if (rename_folder(f->old, f->path))
            return status;
        return clef__fail(err, CLEF_E_IO, "%s: cannot be written; what was there is now %s", f->path, f->old);
    }
    remove_folder(f->old);
    return CLEF_OK;
}

clef_status clef__os_folder_commit(clef_os_folder *f, clef_error *err)
{
    const clef_status status = put_into_place(f, err);
    if (status)
        remove_folder(f->temporary);
    folder_free(f);
    return status;
}

void clef__os_folder_abort(clef_os_folder *f)
{
    if (!f)
        return;
    if (f->lock != INVALID_HANDLE_VALUE)
        CloseHandle(f->lock);
    f->lock = INVALID_HANDLE_VALUE;
    remove_folder(f->temporary);
    folder_free(f);
}
