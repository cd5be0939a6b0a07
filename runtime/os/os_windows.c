/* runtime/os/os.h for Windows 10 and newer. */
#include "runtime/os/os_windows.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/fail.h"
#include "runtime/os/os.h"

/* ---- texts and errors ------------------------------------------------------------------------ */

wchar_t *clef__windows_wide(const char *text)
{
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *out = n > 0 ? malloc((size_t)n * sizeof *out) : NULL;
    if (out)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, out, n);
    else if (n > 0)
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    return out;
}

char *clef__windows_narrow(const wchar_t *text)
{
    const int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *out = n > 0 ? malloc((size_t)n) : NULL;
    if (out)
        WideCharToMultiByte(CP_UTF8, 0, text, -1, out, n, NULL, NULL);
    else if (n > 0)
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    return out;
}

/* A path behind \\?\ is taken as it is, so it must be whole and have no '/'. A folder's name may have 12
 * characters less than MAX_PATH (CreateDirectoryW). */
wchar_t *clef__windows_path(const char *path)
{
    enum { SAFE = MAX_PATH - 12 };
    static const wchar_t local[] = L"\\\\?\\", share[] = L"\\\\?\\UNC\\";
    wchar_t *wide = clef__windows_wide(path);
    const DWORD n = wide ? GetFullPathNameW(wide, 0, NULL, NULL) : 0;
    if (!wide || n < SAFE)
        return wide;
    const size_t room = (size_t)n + sizeof share / sizeof *share;
    wchar_t *whole = malloc((size_t)n * sizeof *whole), *out = malloc(room * sizeof *out);
    if (whole && out && GetFullPathNameW(wide, n, whole, NULL)) {
        const int is_marked = wcsncmp(whole, local, 4) == 0, is_share = wcsncmp(whole, L"\\\\", 2) == 0;
        swprintf(out, room, L"%ls%ls",
                 is_marked  ? L""
                 : is_share ? share
                            : local,
                 whole + (is_share && !is_marked ? 2 : 0));
    } else {
        free(out);
        out = NULL;
    }
    free(whole);
    free(wide);
    return out;
}

void clef__windows_reason(DWORD code, char *out, size_t room)
{
    wchar_t text[256];
    DWORD n = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0, text,
                             sizeof text / sizeof *text, NULL);
    while (n && (text[n - 1] <= L' ' || text[n - 1] == L'.'))
        n--;
    text[n] = 0;
    char *narrow = n ? clef__windows_narrow(text) : NULL;
    if (narrow)
        snprintf(out, room, "%s", narrow);
    else
        snprintf(out, room, "error %lu of the system", (unsigned long)code);
    free(narrow);
}

clef_status clef__windows_fail(clef_error *err, const char *doing, const char *path)
{
    const DWORD code = GetLastError();
    char reason[256];
    clef__windows_reason(code, reason, sizeof reason);
    return clef__fail(err,
                      code == ERROR_NOT_ENOUGH_MEMORY || code == ERROR_OUTOFMEMORY ? CLEF_E_NOMEM : CLEF_E_IO,
                      "%s: cannot %s: %s", path, doing, reason);
}

double clef__windows_seconds(FILETIME time)
{
    return 1e-7 * (double)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime);
}

/* ---- reading --------------------------------------------------------------------------------- */

static const DWORD SHARE_ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/* Opens a regular file. *n_bytes is its size. */
static clef_status open_for_reading(const char *path, HANDLE *out, uint64_t *n_bytes, clef_error *err)
{
    wchar_t *wide = clef__windows_path(path);
    LARGE_INTEGER size;
    *out = INVALID_HANDLE_VALUE;
    if (wide && clef__os_is_dir(path)) {
        free(wide);
        return clef__fail(err, CLEF_E_IO, "%s: is a folder, expected a regular file", path);
    }
    if (wide)
        *out = CreateFileW(wide, GENERIC_READ, SHARE_ALL, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    free(wide);
    if (*out == INVALID_HANDLE_VALUE)
        return clef__windows_fail(err, "open", path);
    if (GetFileType(*out) == FILE_TYPE_DISK && GetFileSizeEx(*out, &size)) {
        *n_bytes = (uint64_t)size.QuadPart;
        return CLEF_OK;
    }
    CloseHandle(*out);
    return clef__fail(err, CLEF_E_IO, "%s: is not a file, expected a regular file", path);
}

clef_status clef__os_map(const char *path, clef_mapping *out, clef_error *err)
{
    HANDLE file;
    uint64_t n_bytes = 0;
    *out = (clef_mapping){0};
    clef_status status = open_for_reading(path, &file, &n_bytes, err);
    if (status)
        return status;
    if (n_bytes > SIZE_MAX / 2)
        status = clef__fail(err, CLEF_E_IO, "%s: %llu bytes do not fit the address space", path,
                            (unsigned long long)n_bytes);
    else if (n_bytes > 0) {
        HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
        const void *data = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0) : NULL;
        if (data)
            *out = (clef_mapping){.data = data, .n_bytes = (size_t)n_bytes};
        else
            status = clef__windows_fail(err, "map", path);
        if (mapping)
            CloseHandle(mapping); /* the view holds it */
    }
    CloseHandle(file);
    return status;
}

void clef__os_unmap(clef_mapping *mapping)
{
    if (mapping->data)
        UnmapViewOfFile(mapping->data);
    *mapping = (clef_mapping){0};
}

clef_status clef__os_read(const char *path, size_t max_bytes, char **out, size_t *n_bytes, clef_error *err)
{
    enum { PIECE = 1 << 30 };
    HANDLE file;
    uint64_t size = 0;
    *out = NULL;
    *n_bytes = 0;
    clef_status status = open_for_reading(path, &file, &size, err);
    if (status)
        return status;
    char *text = size <= max_bytes ? malloc((size_t)size + 1) : NULL;
    size_t n = 0;
    if (size > max_bytes)
        status = clef__fail(err, CLEF_E_LIMIT, "%s: more than %zu bytes", path, max_bytes);
    else if (!text)
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", path);
    for (DWORD got = 1; !status && n < size && got; n += got) {
        const uint64_t left = size - n;
        if (!ReadFile(file, text + n, left < PIECE ? (DWORD)left : PIECE, &got, NULL))
            status = clef__windows_fail(err, "read", path);
    }
    CloseHandle(file);
    if (status) {
        free(text);
        return status;
    }
    text[n] = '\0';
    *out = text;
    *n_bytes = n;
    return CLEF_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct clef_os_file {
    HANDLE handle;
    char *path;
    wchar_t *to, *temporary;
};

static void file_free(clef_os_file *file)
{
    free(file->path);
    free(file->to);
    free(file->temporary);
    free(file);
}

/* Makes a new file beside `path`. 0: GetLastError() says why. */
static int open_temporary(clef_os_file *file)
{
    static atomic_uint counter;
    enum { SUFFIX = 48, TRIES = 100 };
    const size_t n = strlen(file->path) + SUFFIX;
    char *name = malloc(n);
    for (int i = 0; name && i < TRIES && file->handle == INVALID_HANDLE_VALUE; i++) {
        snprintf(name, n, "%s.%lu-%u.tmp", file->path, (unsigned long)GetCurrentProcessId(),
                 atomic_fetch_add(&counter, 1u));
        free(file->temporary);
        file->temporary = clef__windows_path(name);
        if (!file->temporary)
            break;
        file->handle =
            CreateFileW(file->temporary, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
        if (file->handle == INVALID_HANDLE_VALUE && GetLastError() != ERROR_FILE_EXISTS)
            break;
    }
    const DWORD code = GetLastError();
    free(name);
    SetLastError(code);
    return file->handle != INVALID_HANDLE_VALUE;
}

clef_status clef__os_file_begin(const char *path, clef_os_file **out, clef_error *err)
{
    *out = NULL;
    const size_t n = strlen(path) + 1;
    clef_os_file *file = calloc(1, sizeof *file);
    char *copy = malloc(n);
    if (!file || !copy) {
        free(file);
        free(copy);
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", path);
    }
    memcpy(copy, path, n);
    file->handle = INVALID_HANDLE_VALUE;
    file->path = copy;
    file->to = clef__windows_path(path);
    if (!file->to || !open_temporary(file)) {
        const clef_status status = clef__windows_fail(err, "write", path);
        file_free(file);
        return status;
    }
    *out = file;
    return CLEF_OK;
}

clef_status clef__os_file_write(clef_os_file *file, const void *data, size_t n_bytes, clef_error *err)
{
    enum { PIECE = 1 << 30 };
    const char *at = data;
    DWORD done = 0;
    for (; n_bytes > 0; at += done, n_bytes -= done)
        if (!WriteFile(file->handle, at, n_bytes < PIECE ? (DWORD)n_bytes : PIECE, &done, NULL))
            return clef__windows_fail(err, "write", file->path);
    return CLEF_OK;
}

/* A virus scanner, or a process that reads the old file, may keep others from replacing it for a moment. */
static int replace_file(const wchar_t *from, const wchar_t *to)
{
    enum { TRIES = 6, FIRST_MS = 10 }; /* 10, 20, 40 ...: a third of a second in all */
    for (int i = 0;; i++) {
        if (MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
            return 1;
        const DWORD code = GetLastError();
        if (i + 1 == TRIES || (code != ERROR_ACCESS_DENIED && code != ERROR_SHARING_VIOLATION))
            return 0;
        Sleep(FIRST_MS << i);
    }
}

clef_status clef__os_file_commit(clef_os_file *file, clef_error *err)
{
    clef_status status = CLEF_OK;
    if (!FlushFileBuffers(file->handle))
        status = clef__windows_fail(err, "flush", file->path);
    if (!CloseHandle(file->handle) && !status)
        status = clef__windows_fail(err, "close", file->path);
    if (!status && !replace_file(file->temporary, file->to))
        status = clef__windows_fail(err, "rename over", file->path);
    if (status)
        DeleteFileW(file->temporary);
    file_free(file);
    return status;
}

void clef__os_file_abort(clef_os_file *file)
{
    if (!file)
        return;
    CloseHandle(file->handle);
    DeleteFileW(file->temporary);
    file_free(file);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static DWORD attributes_of(const char *path)
{
    wchar_t *wide = clef__windows_path(path);
    const DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    return attributes;
}

int clef__os_is_dir(const char *path)
{
    const DWORD a = attributes_of(path);
    return a != INVALID_FILE_ATTRIBUTES && (a & FILE_ATTRIBUTE_DIRECTORY);
}

int clef__os_is_file(const char *path)
{
    const DWORD a = attributes_of(path);
    return a != INVALID_FILE_ATTRIBUTES && !(a & FILE_ATTRIBUTE_DIRECTORY);
}

static int make_folder(const char *path)
{
    wchar_t *wide = clef__windows_path(path);
    const int made = wide && CreateDirectoryW(wide, NULL);
    const DWORD code = GetLastError();
    free(wide);
    SetLastError(code);
    return made;
}

clef_status clef__os_make_dirs(const char *path, clef_error *err)
{
    const size_t n = strlen(path);
    char *prefix = malloc(n + 1);
    if (!prefix)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its name", path);
    memcpy(prefix, path, n + 1);
    clef_status status = CLEF_OK;
    for (size_t i = 1; i <= n && !status; i++) {
        if (prefix[i] != '/' && prefix[i] != '\\' && prefix[i] != '\0')
            continue;
        prefix[i] = '\0';
        if (!clef__os_is_dir(prefix) && !make_folder(prefix)) {
            const DWORD code = GetLastError();
            const int is_last = i == n; /* parents may be a drive or a share, which nobody can make */
            SetLastError(code);
            if (is_last && !clef__os_is_dir(prefix))
                status = clef__windows_fail(err, "make the folder", prefix);
        }
        prefix[i] = path[i];
    }
    free(prefix);
    return status;
}

int clef__os_create(const char *path)
{
    wchar_t *wide = clef__windows_path(path);
    const HANDLE file =
        wide ? CreateFileW(wide, GENERIC_WRITE, SHARE_ALL, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL)
             : INVALID_HANDLE_VALUE;
    free(wide);
    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    return file != INVALID_HANDLE_VALUE;
}

void clef__os_remove(const char *path)
{
    wchar_t *wide = clef__windows_path(path);
    if (wide)
        DeleteFileW(wide);
    free(wide);
}

int clef__os_cache_dir(char *out, size_t capacity)
{
    const char *local = clef__os_env("LOCALAPPDATA");
    const int n = local ? snprintf(out, capacity, "%s\\clef\\cache", local) : -1;
    return n > 0 && (size_t)n < capacity;
}

int clef__os_library_dir(char *out, size_t capacity)
{
    static const char here;
    wchar_t path[4096];
    HMODULE module;
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            (const wchar_t *)(const void *)&here, &module))
        return 0;
    const DWORD n = GetModuleFileNameW(module, path, sizeof path / sizeof *path);
    wchar_t *slash = n > 0 && n < sizeof path / sizeof *path ? wcsrchr(path, L'\\') : NULL;
    if (!slash)
        return 0;
    *slash = 0;
    char *narrow = clef__windows_narrow(path);
    const int fits = narrow && strlen(narrow) < capacity;
    if (fits)
        snprintf(out, capacity, "%s", narrow);
    free(narrow);
    return fits;
}

/* A plain name is looked for in the system's own folder alone: a file of that name in the current folder is
 * not the system's. */
void *clef__os_library(const char *name, clef_error *err)
{
    const int is_path = strpbrk(name, "/\\") != NULL;
    wchar_t *wide = clef__windows_wide(name);
    void *library = wide ? LoadLibraryExW(wide, NULL, is_path ? 0 : LOAD_LIBRARY_SEARCH_SYSTEM32) : NULL;
    if (!library)
        clef__fail(err, CLEF_E_IO, "%s: cannot be loaded: error %lu", name, (unsigned long)GetLastError());
    free(wide);
    return library;
}

void *clef__os_symbol(void *library, const char *name)
{
    void *found;
    const FARPROC symbol = GetProcAddress(library, name);
    memcpy(&found, &symbol, sizeof found);
    return found;
}

/* ---- the process ----------------------------------------------------------------------------- */

int64_t clef__os_local_time(void)
{
    SYSTEMTIME local;
    FILETIME time;
    GetLocalTime(&local);
    SystemTimeToFileTime(&local, &time);
    return (int64_t)clef__windows_seconds(time) - 11644473600; /* a FILETIME begins in 1601 */
}

double clef__os_seconds(void)
{
    LARGE_INTEGER now, frequency;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&now);
    return (double)now.QuadPart / (double)frequency.QuadPart;
}

int clef__os_allow_tiles(void)
{
    typedef BOOL(WINAPI * enable_type)(DWORD64 features);
    enum { TILE_DATA = 18 }; /* XSTATE_AMX_TILE_DATA of <winnt.h> */
    enable_type enable;
    void *found = clef__os_symbol(GetModuleHandleW(L"kernel32.dll"), "EnableProcessOptionalXStateFeatures");
    memcpy(&enable, &found, sizeof enable);
    return enable && enable(1ull << TILE_DATA); /* since Windows 11 */
}

/* The values that were ever asked for. They stay, because callers keep the pointers. */
typedef struct variable {
    struct variable *next;
    char *name, *value;
} variable;

/* The entry of this name and value: an old one, or one that takes over `value`. NULL: out of memory. */
static const variable *keep_variable(const char *name, char *value)
{
    static SRWLOCK lock = SRWLOCK_INIT;
    static variable *all;
    AcquireSRWLockExclusive(&lock);
    variable *v = all;
    while (v && (strcmp(v->name, name) != 0 || strcmp(v->value, value) != 0))
        v = v->next;
    if (v)
        free(value);
    else if ((v = malloc(sizeof *v)) != NULL && (v->name = _strdup(name)) != NULL) {
        v->value = value;
        v->next = all;
        all = v;
    } else {
        free(v);
        free(value);
        v = NULL;
    }
    ReleaseSRWLockExclusive(&lock);
    return v;
}

/* Not getenv(): it gives UTF-8 in programs alone whose manifest says so, which is clef.exe, but not every
 * program that uses the library. */
const char *clef__os_env(const char *name)
{
    wchar_t *wide_name = clef__windows_wide(name), *wide = NULL;
    DWORD n = wide_name ? GetEnvironmentVariableW(wide_name, NULL, 0) : 0;
    if (n > 1) /* the NUL counts */
        wide = malloc(n * sizeof *wide);
    const DWORD got = wide ? GetEnvironmentVariableW(wide_name, wide, n) : 0;
    char *value = got > 0 && got < n ? clef__windows_narrow(wide) : NULL;
    free(wide);
    free(wide_name);
    const variable *v = value ? keep_variable(name, value) : NULL;
    return v ? v->value : NULL;
}

void clef__os_set_env(const char *name, const char *value)
{
    wchar_t *a = clef__windows_wide(name), *b = clef__windows_wide(value);
    if (a && b)
        _wputenv_s(a, b);
    free(a);
    free(b);
}

int clef__os_has_all_cpus(void)
{
    DWORD_PTR own, all;
    return GetProcessAffinityMask(GetCurrentProcess(), &own, &all) && own == all;
}

void clef__os_use_cpus(const unsigned char *mask, size_t n_bytes)
{
    (void)mask, (void)n_bytes; /* no launcher of ranks is supported on Windows */
}

int clef__os_is_idle(void)
{
    return 0; /* nothing says how many threads are ready to run */
}

/* ---- large memory ---------------------------------------------------------------------------- */

static const size_t HUGE_PAGE = (size_t)2 << 20;

/* An aligned place is found by reserving too much. Another thread may take it before it is reserved again. */
void *clef__os_alloc_large(size_t n_bytes)
{
    enum { TRIES = 8 };
    if (!n_bytes || n_bytes > SIZE_MAX - 2 * HUGE_PAGE)
        return NULL;
    void *memory = NULL;
    for (int i = 0; i < TRIES && !memory; i++) {
        char *space = VirtualAlloc(NULL, n_bytes + HUGE_PAGE, MEM_RESERVE, PAGE_NOACCESS);
        if (!space)
            return NULL;
        char *aligned = space + (HUGE_PAGE - (uintptr_t)space % HUGE_PAGE) % HUGE_PAGE;
        VirtualFree(space, 0, MEM_RELEASE);
        memory = VirtualAlloc(aligned, n_bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    }
    return memory;
}

void clef__os_free_large(void *memory, size_t n_bytes)
{
    (void)n_bytes;
    if (memory)
        VirtualFree(memory, 0, MEM_RELEASE);
}

void clef__os_prefer_large(void *memory, size_t n_bytes)
{
    (void)memory; /* large pages need a privilege that users do not have */
    (void)n_bytes;
}

void clef__os_read_ahead(const void *data, size_t n_bytes)
{
    WIN32_MEMORY_RANGE_ENTRY range = {(void *)(uintptr_t)data, n_bytes};
    PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
}

/* Unlocking pages that are not locked removes them from the working set (VirtualUnlock). */
void clef__os_forget(const void *data, size_t n_bytes)
{
    const uintptr_t page = 4096, from = ((uintptr_t)data + page - 1) / page * page,
                    to = ((uintptr_t)data + n_bytes) / page * page;
    if (to > from)
        VirtualUnlock((void *)from, to - from);
}

/* ---- locks ----------------------------------------------------------------------------------- */

static int lock_range(const char *path, uint64_t at, uint64_t length)
{
    wchar_t *wide = clef__windows_path(path);
    OVERLAPPED where = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
    HANDLE file = wide ? CreateFileW(wide, GENERIC_READ | GENERIC_WRITE, SHARE_ALL, NULL, OPEN_ALWAYS,
                                     FILE_ATTRIBUTE_NORMAL, NULL)
                       : INVALID_HANDLE_VALUE;
    free(wide);
    if (file == INVALID_HANDLE_VALUE)
        return -1;
    if (LockFileEx(file, LOCKFILE_EXCLUSIVE_LOCK, 0, (DWORD)length, (DWORD)(length >> 32), &where))
        return (int)(intptr_t)file; /* handles have 32 significant bits */
    CloseHandle(file);
    return -1;
}

int clef__os_lock(const char *path, uint64_t place)
{
    return lock_range(path, place >> 2, 1);
}

int clef__os_lock_all(const char *path)
{
    return lock_range(path, 0, (uint64_t)1 << 62);
}

void clef__os_unlock(int lock)
{
    if (lock >= 0)
        CloseHandle((HANDLE)(intptr_t)lock); /* ends its locks */
}
