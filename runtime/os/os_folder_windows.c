/* Lists the entries of a folder and when they were used. */
#include "runtime/os/os_windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "runtime/os/os.h"

/* Begins a search for all entries. INVALID_HANDLE_VALUE: GetLastError() says why. */
static HANDLE find_first(const char *folder, WIN32_FIND_DATAW *out)
{
    const size_t n = strlen(folder) + 3;
    char *pattern = malloc(n);
    if (pattern)
        snprintf(pattern, n, "%s/*", folder);
    wchar_t *wide = pattern ? clef__windows_path(pattern) : NULL;
    const HANDLE search = wide ? FindFirstFileW(wide, out) : INVALID_HANDLE_VALUE;
    const DWORD code = GetLastError();
    free(pattern);
    free(wide);
    SetLastError(code);
    return search;
}

clef_status clef__os_list(const char *folder,
                          clef_status (*visit)(void *user, const clef__os_file_info *file), void *user)
{
    WIN32_FIND_DATAW e;
    clef_status s = CLEF_OK;
    const HANDLE search = find_first(folder, &e);
    if (search == INVALID_HANDLE_VALUE)
        return CLEF_OK;
    do {
        char *name = e.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? NULL : clef__windows_narrow(e.cFileName);
        const size_t n = name ? strlen(folder) + strlen(name) + 2 : 0;
        char *path = name ? malloc(n) : NULL;
        if (path) {
            snprintf(path, n, "%s/%s", folder, name);
            s = visit(user,
                      &(clef__os_file_info){path, name, (uint64_t)e.nFileSizeHigh << 32 | e.nFileSizeLow,
                                            (int64_t)clef__windows_seconds(e.ftLastWriteTime) - 11644473600});
        }
        free(path);
        free(name);
    } while (!s && FindNextFileW(search, &e));
    FindClose(search);
    return s;
}

clef_status clef__os_entries(const char *folder,
                             clef_status (*visit)(void *user, const char *name, int is_folder), void *user,
                             clef_error *err)
{
    WIN32_FIND_DATAW e;
    clef_status s = CLEF_OK;
    const HANDLE search = find_first(folder, &e);
    if (search == INVALID_HANDLE_VALUE)
        return GetLastError() == ERROR_PATH_NOT_FOUND || GetLastError() == ERROR_FILE_NOT_FOUND
                   ? CLEF_OK
                   : clef__windows_fail(err, "open", folder);
    do {
        const int is_link = (e.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0,
                  is_folder = (e.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) && !is_link;
        if (wcscmp(e.cFileName, L".") == 0 || wcscmp(e.cFileName, L"..") == 0)
            continue;
        char *name = clef__windows_narrow(e.cFileName);
        s = name ? visit(user, name, is_folder)
                 : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a name in it", folder);
        free(name);
    } while (!s && FindNextFileW(search, &e));
    FindClose(search);
    return s;
}

void clef__os_touch(const char *path)
{
    wchar_t *wide = clef__windows_path(path);
    HANDLE file = wide ? CreateFileW(wide, FILE_WRITE_ATTRIBUTES,
                                     FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                     OPEN_EXISTING, 0, NULL)
                       : INVALID_HANDLE_VALUE;
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    if (file != INVALID_HANDLE_VALUE) {
        SetFileTime(file, NULL, &now, &now);
        CloseHandle(file);
    }
    free(wide);
}
