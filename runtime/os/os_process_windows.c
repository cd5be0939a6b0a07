/* Child processes on Windows. A process is named by its handle, which is closed when its end has been seen.
 */
#include "runtime/os/os_windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "runtime/os/os.h"

enum { KILLED = 0x20636c66 }; /* the exit code that clef__os_kill() gives a process; no program returns it */
static const DWORD CONTROL_C = 0xC000013A;     /* STATUS_CONTROL_C_EXIT of <ntstatus.h> */
static const DWORD NO_MEMORY = 0xC0000017;     /* STATUS_NO_MEMORY */
static const DWORD NO_COMMITMENT = 0xC000012D; /* STATUS_COMMITMENT_LIMIT */

/* ---- command lines --------------------------------------------------------------------------- */

static void put(wchar_t *out, size_t *n, wchar_t c, size_t times)
{
    while (times--)
        out[(*n)++] = c;
}

/* Appends an argument in quotes. Backslashes are plain, but double those before a quote, as
 * CommandLineToArgvW() and the C library read them. */
static void put_argument(wchar_t *out, size_t *n, const wchar_t *text)
{
    put(out, n, L'"', 1);
    for (;;) {
        size_t slashes = 0;
        while (*text == L'\\') {
            slashes++;
            text++;
        }
        const int ends = !*text;
        put(out, n, L'\\', ends ? 2 * slashes : *text == L'"' ? 2 * slashes + 1 : slashes);
        if (ends)
            break;
        put(out, n, *text++, 1);
    }
    put(out, n, L'"', 1);
    put(out, n, L' ', 1);
}

/* All arguments as one line, in new memory. */
static wchar_t *command_line(const char *const *argv)
{
    size_t room = 1, n = 0;
    for (int i = 0; argv[i]; i++)
        room += 2 * strlen(argv[i]) + 3;
    wchar_t *out = malloc(room * sizeof *out);
    for (int i = 0; out && argv[i]; i++) {
        wchar_t *wide = clef__windows_wide(argv[i]);
        if (!wide) {
            free(out);
            return NULL;
        }
        put_argument(out, &n, wide);
        free(wide);
    }
    if (out)
        out[n] = 0;
    return out;
}

/* ---- environments ---------------------------------------------------------------------------- */

/* 1 if an entry sets one of the variables of the list. Their names have no letters outside ASCII. */
static int is_set_anew(const wchar_t *entry, wchar_t *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (_wcsnicmp(entry, list[i], wcscspn(list[i], L"=") + 1) == 0)
            return 1;
    return 0;
}

static void put_entry(wchar_t *out, size_t *n, const wchar_t *entry)
{
    const size_t size = wcslen(entry) + 1;
    memcpy(out + *n, entry, size * sizeof *out);
    *n += size;
}

/* This process's environment, changed by the list: entries one after another, an empty one at the end. */
static wchar_t *environment_with(wchar_t *const *list, int n_list)
{
    wchar_t *own = GetEnvironmentStringsW(), *out = NULL;
    size_t room = 2, n = 0;
    for (const wchar_t *e = own; e && *e; e += wcslen(e) + 1)
        room += wcslen(e) + 1;
    for (int i = 0; i < n_list; i++)
        room += wcslen(list[i]) + 1;
    out = own ? malloc(room * sizeof *out) : NULL;
    for (const wchar_t *e = own; out && *e; e += wcslen(e) + 1)
        if (!is_set_anew(e, list, n_list))
            put_entry(out, &n, e);
    for (int i = 0; out && i < n_list; i++)
        put_entry(out, &n, list[i]);
    if (out)
        out[n] = out[n + 1] = 0;
    if (own)
        FreeEnvironmentStringsW(own);
    return out;
}

static wchar_t *changed_environment(const char *const *changes)
{
    wchar_t *list[CLEF_OS_MAX_SET], *out = NULL;
    int n = 0, ok = 1;
    for (; ok && changes[n] && n < CLEF_OS_MAX_SET; n += ok)
        ok = (list[n] = clef__windows_wide(changes[n])) != NULL;
    if (ok)
        out = environment_with(list, n);
    while (n > 0)
        free(list[--n]);
    return out;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Says that a child inherits this handle and no other: files and sockets that the program has open would else
 * stay open until the child ends. NULL: GetLastError() says why. Free with free_list(). */
static LPPROC_THREAD_ATTRIBUTE_LIST list_of(HANDLE *handle)
{
    SIZE_T size = 0;
    InitializeProcThreadAttributeList(NULL, 1, 0, &size);
    LPPROC_THREAD_ATTRIBUTE_LIST list = malloc(size);
    if (!list)
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    else if (!InitializeProcThreadAttributeList(list, 1, 0, &size)) {
        free(list);
        list = NULL;
    } else if (!UpdateProcThreadAttribute(list, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handle, sizeof *handle,
                                          NULL, NULL)) {
        const DWORD why = GetLastError();
        DeleteProcThreadAttributeList(list);
        free(list);
        list = NULL;
        SetLastError(why);
    }
    return list;
}

static void free_list(LPPROC_THREAD_ATTRIBUTE_LIST list)
{
    if (list)
        DeleteProcThreadAttributeList(list);
    free(list);
}

clef_status clef__os_spawn(const char *const *argv, const char *const *environment, int64_t *process,
                           clef_error *err)
{
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    PROCESS_INFORMATION made = {0};
    wchar_t *program = clef__windows_wide(argv[0]), *line = command_line(argv),
            *variables = changed_environment(environment);
    HANDLE null = CreateFileW(L"NUL", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                              &inherited, OPEN_EXISTING, 0, NULL);
    STARTUPINFOEXW start = {.StartupInfo = {.cb = sizeof start,
                                            .dwFlags = STARTF_USESTDHANDLES,
                                            .hStdInput = null,
                                            .hStdOutput = null,
                                            .hStdError = null},
                            .lpAttributeList = null != INVALID_HANDLE_VALUE ? list_of(&null) : NULL};
    clef_status status = CLEF_OK;
    *process = 0;
    if (!program || !line || !variables)
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its environment", argv[0]);
    else if (!start.lpAttributeList ||
             !CreateProcessW(program, line, NULL, NULL, TRUE,
                             CREATE_UNICODE_ENVIRONMENT | CREATE_NO_WINDOW | EXTENDED_STARTUPINFO_PRESENT,
                             variables, NULL, &start.StartupInfo, &made))
        status = clef__windows_fail(err, "start it", argv[0]);
    else {
        CloseHandle(made.hThread);
        *process = (int64_t)(intptr_t)made.hProcess;
    }
    free_list(start.lpAttributeList);
    if (null != INVALID_HANDLE_VALUE)
        CloseHandle(null);
    free(program);
    free(line);
    free(variables);
    return status;
}

static HANDLE handle_of(int64_t process)
{
    return (HANDLE)(intptr_t)process;
}

/* A fault ends a process with a code of the system, whose highest bit is set: as an int it is negative. */
int clef__os_ended(int64_t process, int *code)
{
    DWORD was = 0;
    const HANDLE handle = handle_of(process);
    const DWORD waited = WaitForSingleObject(handle, 0);
    if (waited == WAIT_TIMEOUT)
        return 0;
    *code = waited == WAIT_OBJECT_0 && GetExitCodeProcess(handle, &was) ? (int)was : -1;
    CloseHandle(handle);
    return 1;
}

void clef__os_leave(int64_t process)
{
    if (process)
        CloseHandle(handle_of(process));
}

int clef__os_was_interrupted(int code)
{
    enum { EXIT_INTERRUPTED = 130 }; /* the convention of shells, and of the command clef */
    return code == EXIT_INTERRUPTED || (DWORD)code == CONTROL_C;
}

/* The Task Manager and taskkill end a process with code 1. So does a driver that calls exit(1), which is a
 * fault of its own; the two cannot be told apart, and the fault is the more likely one. */
int clef__os_was_killed(int code)
{
    return code == KILLED || code == CLEF_OS_EXIT_NO_MEMORY || (DWORD)code == NO_MEMORY ||
           (DWORD)code == NO_COMMITMENT;
}

void clef__os_go_to_background(void)
{
    FreeConsole();
    SetPriorityClass(GetCurrentProcess(), IDLE_PRIORITY_CLASS);
}

void clef__os_kill(int64_t process)
{
    TerminateProcess(handle_of(process), KILLED);
    WaitForSingleObject(handle_of(process), INFINITE);
    CloseHandle(handle_of(process));
}

void clef__os_sleep(int32_t ms)
{
    Sleep(ms > 0 ? (DWORD)ms : 0);
}

int64_t clef__os_pid(void)
{
    return (int64_t)GetCurrentProcessId();
}
