/* tools/cli/terminal.h for Windows 10 and newer. The program's manifest makes UTF-8 the code page of the
 * process, so that paths and arguments are UTF-8 in the functions of the C library too. */
#define WIN32_LEAN_AND_MEAN
#include "tools/cli/terminal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <wchar.h>
#include <windows.h>
/* after windows.h */
#include <psapi.h>

static volatile LONG interrupted;
static int code_page_before;

/* ---- the console ----------------------------------------------------------------------------- */

static int is_terminal(FILE *file)
{
    DWORD mode;
    return GetConsoleMode((HANDLE)_get_osfhandle(_fileno(file)), &mode) != 0;
}

int cli_terminal_stdin(void)
{
    return is_terminal(stdin);
}

int cli_terminal_stdout(void)
{
    return is_terminal(stdout);
}

int cli_terminal_stderr(void)
{
    return is_terminal(stderr);
}

/* A console that is left with another code page shows other programs' texts wrongly. */
static void restore_console(void)
{
    if (code_page_before)
        SetConsoleOutputCP((UINT)code_page_before);
}

static void understand_escapes(DWORD which)
{
    const HANDLE console = GetStdHandle(which);
    DWORD mode;
    if (GetConsoleMode(console, &mode))
        SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

void cli_terminal_start(void)
{
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
    _setmode(_fileno(stderr), _O_BINARY);
    if (cli_terminal_stdout() || cli_terminal_stderr()) {
        code_page_before = (int)GetConsoleOutputCP();
        SetConsoleOutputCP(CP_UTF8);
        atexit(restore_console);
        understand_escapes(STD_OUTPUT_HANDLE);
        understand_escapes(STD_ERROR_HANDLE);
    }
    if (cli_terminal_stdin())
        SetConsoleCP(CP_UTF8);
}

void cli_terminal_use_utf8(void)
{
    setlocale(LC_CTYPE, ".UTF-8");
}

/* ---- interruption ---------------------------------------------------------------------------- */

/* The system calls it in a thread of its own. 0: the default, which ends the process. */
static BOOL WINAPI on_control(DWORD event)
{
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT)
        return FALSE;
    return InterlockedExchange(&interrupted, 1) == 0;
}

void cli_terminal_catch_interrupt(void)
{
    static int is_set;
    if (!is_set)
        SetConsoleCtrlHandler(on_control, TRUE);
    is_set = 1;
}

void cli_terminal_catch_term(void)
{
}

int cli_terminal_interrupted(void)
{
    return interrupted != 0;
}

void cli_terminal_forget_interrupt(void)
{
    InterlockedExchange(&interrupted, 0);
    cli_terminal_catch_interrupt();
}

/* ---- files ----------------------------------------------------------------------------------- */

static wchar_t *wide(const char *text)
{
    const int n = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *out = n > 0 ? malloc((size_t)n * sizeof *out) : NULL;
    if (out)
        MultiByteToWideChar(CP_UTF8, 0, text, -1, out, n);
    return out;
}

/* A path as the system wants it. One that is longer than MAX_PATH allows must be whole, and behind \\?\, or
 * \\?\UNC\ if it names a share. */
static wchar_t *wide_path(const char *path)
{
    enum { SAFE = MAX_PATH - 12 }; /* a folder's name may have 12 characters less */
    static const wchar_t local[] = L"\\\\?\\", share[] = L"\\\\?\\UNC\\";
    wchar_t *name = wide(path);
    const DWORD n = name ? GetFullPathNameW(name, 0, NULL, NULL) : 0;
    if (n < SAFE)
        return name;
    const size_t room = (size_t)n + sizeof share / sizeof *share;
    wchar_t *whole = malloc((size_t)n * sizeof *whole), *out = malloc(room * sizeof *out);
    const DWORD got = whole && out ? GetFullPathNameW(name, n, whole, NULL) : 0;
    const int fits = got > 0 && got < n;
    if (fits && wcsncmp(whole, local, 4) == 0)
        swprintf(out, room, L"%ls", whole);
    else if (fits && wcsncmp(whole, L"\\\\", 2) == 0)
        swprintf(out, room, L"%ls%ls", share, whole + 2);
    else if (fits)
        swprintf(out, room, L"%ls%ls", local, whole);
    free(whole);
    free(name);
    if (fits)
        return out;
    free(out);
    return NULL;
}

static DWORD attributes_of(const char *path)
{
    wchar_t *name = wide_path(path);
    const DWORD a = name ? GetFileAttributesW(name) : INVALID_FILE_ATTRIBUTES;
    free(name);
    return a;
}

int cli_terminal_is_folder(const char *path)
{
    const DWORD a = attributes_of(path);
    return a != INVALID_FILE_ATTRIBUTES && (a & FILE_ATTRIBUTE_DIRECTORY);
}

void cli_terminal_list(const char *path, void (*tell)(void *user, const char *name), void *user)
{
    DIR *folder = opendir(path); /* MinGW's, with names in the process's code page */
    for (const struct dirent *e; folder && (e = readdir(folder)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            tell(user, e->d_name);
    if (folder)
        closedir(folder);
}

int cli_terminal_make_folder(const char *path)
{
    wchar_t *name = wide_path(path);
    const int made = name && CreateDirectoryW(name, NULL);
    const DWORD code = GetLastError();
    free(name);
    if (made || cli_terminal_is_folder(path))
        return 1;
    errno = code == ERROR_PATH_NOT_FOUND ? ENOENT : code == ERROR_ALREADY_EXISTS ? EEXIST : EACCES;
    return 0;
}

/* Files in a user's profile are private by the rights that they inherit. */
int cli_terminal_make_private(const char *path)
{
    char folder[1024];
    for (const char *at = path; *at; at++) {
        const size_t n = (size_t)(at - path);
        if ((*at != '/' && *at != '\\') || n == 0 || path[n - 1] == ':')
            continue;
        if (n >= sizeof folder)
            return 0;
        memcpy(folder, path, n);
        folder[n] = '\0';
        if (!cli_terminal_make_folder(folder))
            return 0;
    }
    FILE *file = fopen(path, "ab");
    return file && fclose(file) == 0;
}

int cli_terminal_can_replace(const char *path)
{
    const DWORD a = attributes_of(path);
    if (a == INVALID_FILE_ATTRIBUTES)
        return GetLastError() == ERROR_FILE_NOT_FOUND || GetLastError() == ERROR_PATH_NOT_FOUND;
    return !(a & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT | FILE_ATTRIBUTE_DEVICE));
}

FILE *cli_terminal_create(const char *path)
{
    wchar_t *name = wide_path(path);
    const int file =
        name ? _wopen(name, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY, _S_IREAD | _S_IWRITE) : -1;
    free(name);
    return file >= 0 ? _fdopen(file, "wb") : NULL;
}

int cli_terminal_rename(const char *from, const char *to)
{
    wchar_t *a = wide_path(from), *b = wide_path(to);
    const int done = a && b && MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING);
    const DWORD code = GetLastError();
    free(a);
    free(b);
    errno = code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND ? ENOENT : EACCES;
    return done;
}

char *cli_terminal_link_target(const char *path)
{
    const DWORD a = attributes_of(path);
    if (a == INVALID_FILE_ATTRIBUTES || !(a & FILE_ATTRIBUTE_REPARSE_POINT))
        return NULL;
    wchar_t *name = wide_path(path), target[4096];
    char *out = NULL;
    const HANDLE file = name ? CreateFileW(name, 0, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING,
                                           FILE_FLAG_BACKUP_SEMANTICS, NULL)
                             : INVALID_HANDLE_VALUE;
    const DWORD room = sizeof target / sizeof *target,
                n = file != INVALID_HANDLE_VALUE
                        ? GetFinalPathNameByHandleW(file, target, room, FILE_NAME_NORMALIZED)
                        : 0;
    if (n > 0 && n < room) {
        const int size = WideCharToMultiByte(CP_UTF8, 0, target, -1, NULL, 0, NULL, NULL);
        out = size > 0 ? malloc((size_t)size) : NULL;
        if (out)
            WideCharToMultiByte(CP_UTF8, 0, target, -1, out, size, NULL, NULL);
    }
    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    free(name);
    return out;
}

/* ---- the process ----------------------------------------------------------------------------- */

double cli_terminal_seconds(void)
{
    LARGE_INTEGER now, frequency;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&now);
    return (double)now.QuadPart / (double)frequency.QuadPart;
}

uint64_t cli_terminal_peak_rss(void)
{
    PROCESS_MEMORY_COUNTERS m = {.cb = sizeof m};
    return GetProcessMemoryInfo(GetCurrentProcess(), &m, sizeof m) ? m.PeakWorkingSetSize : 0;
}

uint64_t cli_terminal_entropy(void)
{
    LARGE_INTEGER ticks;
    FILETIME now;
    QueryPerformanceCounter(&ticks);
    GetSystemTimeAsFileTime(&now);
    return ((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime) * 1000000007u ^ (uint64_t)ticks.QuadPart ^
           (uint64_t)GetCurrentProcessId() << 40;
}

void cli_terminal_offer_prover(void)
{
    char path[4096];
    const DWORD n = GetModuleFileNameA(NULL, path, sizeof path);
    if (n > 0 && n < sizeof path && !getenv("CLEF_PROVER"))
        _putenv_s("CLEF_PROVER", path);
}
