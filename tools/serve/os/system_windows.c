/* Private files, signals, memory and time on Windows. */
#define WIN32_LEAN_AND_MEAN
#include "tools/serve/os/system.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <windows.h>
/* after windows.h */
#include <aclapi.h>
#include <psapi.h>

/* ---- private files --------------------------------------------------------------------------- */

static int is_well_known(PSID who)
{
    static const WELL_KNOWN_SID_TYPE trusted[] = {WinLocalSystemSid, WinBuiltinAdministratorsSid,
                                                  WinCreatorOwnerSid, WinCreatorOwnerRightsSid};
    for (size_t i = 0; i < sizeof trusted / sizeof *trusted; i++)
        if (IsWellKnownSid(who, trusted[i]))
            return 1;
    return 0;
}

/* A file that an administrator makes may belong to all of them, and its entry names the user. */
static int is_own(PSID who)
{
    union {
        TOKEN_USER user;
        char room[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
    } own;
    HANDLE token;
    DWORD n;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return 0;
    const int known = GetTokenInformation(token, TokenUser, &own, sizeof own, &n);
    CloseHandle(token);
    return known && EqualSid(who, own.user.User.Sid);
}

/* 1 if an entry lets somebody read who is neither the owner nor this user, nor administers the system.
 * Entries of kinds that files do not have count as such. */
static int lets_others_read(const ACE_HEADER *entry, PSID owner)
{
    const ACCESS_ALLOWED_ACE *allowed = (const ACCESS_ALLOWED_ACE *)(const void *)entry;
    if (entry->AceFlags & INHERIT_ONLY_ACE || entry->AceType == ACCESS_DENIED_ACE_TYPE)
        return 0;
    if (entry->AceType != ACCESS_ALLOWED_ACE_TYPE)
        return 1;
    PSID who = (PSID)(uintptr_t)&allowed->SidStart;
    return (allowed->Mask & (FILE_READ_DATA | GENERIC_READ | GENERIC_ALL)) && !EqualSid(who, owner) &&
           !is_own(who) && !is_well_known(who);
}

/* A file without a list may be read by everybody. */
static int only_owner_reads(PSID owner, PACL list)
{
    if (!owner || !list)
        return 0;
    for (DWORD i = 0; i < list->AceCount; i++) {
        void *entry;
        if (!GetAce(list, i, &entry) || lets_others_read(entry, owner))
            return 0;
    }
    return 1;
}

const char *serve_private_advice(void)
{
    return "icacls FILE /inheritance:r /grant:r %USERNAME%:R";
}

int serve_file_is_private(const char *path)
{
    wchar_t wide[4096];
    PSID owner = NULL;
    PACL list = NULL;
    PSECURITY_DESCRIPTOR all = NULL;
    errno = EINVAL;
    if (!MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, sizeof wide / sizeof *wide))
        return 0;
    const DWORD attributes = GetFileAttributesW(wide);
    errno = ENOENT;
    if (attributes == INVALID_FILE_ATTRIBUTES)
        return 0;
    errno = EACCES;
    if (GetNamedSecurityInfoW(wide, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                              &owner, NULL, &list, NULL, &all) != ERROR_SUCCESS)
        return 0;
    errno = 0;
    const int is_private = attributes & FILE_ATTRIBUTE_DIRECTORY || only_owner_reads(owner, list);
    LocalFree(all);
    return is_private;
}

/* ---- signals --------------------------------------------------------------------------------- */

static HANDLE ends; /* counts those that nobody waited for yet */

/* The system calls it in a thread of its own. It ends the process when the handler of a closed console
 * returns, or after some seconds, so that one does not return. A service hears when any user logs off. */
static BOOL WINAPI on_control(DWORD event)
{
    if (event == CTRL_LOGOFF_EVENT)
        return TRUE;
    ReleaseSemaphore(ends, 1, NULL);
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT)
        Sleep(INFINITE);
    return TRUE;
}

int serve_signals_catch(void)
{
    enum { MOST = 1000 };
    if (!ends)
        ends = CreateSemaphoreW(NULL, 0, MOST, NULL);
    return ends && SetConsoleCtrlHandler(on_control, TRUE);
}

int serve_signal_wait(double seconds)
{
    return WaitForSingleObject(ends, (DWORD)(seconds * 1e3)) == WAIT_OBJECT_0 ? 'e' : 0;
}

/* ---- folders --------------------------------------------------------------------------------- */

int serve_folder_list(const char *path, void (*look)(void *user, const char *name), void *user)
{
    char pattern[4096];
    WIN32_FIND_DATAA entry; /* names in UTF-8, as the manifest says */
    if (snprintf(pattern, sizeof pattern, "%s/*", path) >= (int)sizeof pattern)
        return 0;
    const HANDLE search = FindFirstFileA(pattern, &entry);
    if (search == INVALID_HANDLE_VALUE)
        return 0;
    do
        if (entry.cFileName[0] != '.')
            look(user, entry.cFileName);
    while (FindNextFileA(search, &entry));
    FindClose(search);
    return 1;
}

/* ---- the process ----------------------------------------------------------------------------- */

uint64_t serve_resident_bytes(void)
{
    PROCESS_MEMORY_COUNTERS m = {.cb = sizeof m};
    return GetProcessMemoryInfo(GetCurrentProcess(), &m, sizeof m) ? m.WorkingSetSize : 0;
}

void serve_memory_begin(void)
{
}

void serve_give_memory_back(void)
{
}

double serve_time(void)
{
    FILETIME now; /* in 100 ns since 1601 */
    GetSystemTimePreciseAsFileTime(&now);
    return 1e-7 * (double)((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime) - 11644473600.0;
}

void serve_utc(int64_t seconds, struct tm *out)
{
    const __time64_t t = seconds;
    _gmtime64_s(out, &t);
}

void serve_sleep(double seconds)
{
    Sleep((DWORD)(seconds * 1e3));
}
