/* Sockets, signals and private files on Windows. */
#include <winsock2.h>
/* after winsock2.h */
#include <aclapi.h>
#include <psapi.h>
#include <ws2tcpip.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/cli.h"
#include "tools/serve/socket.h"

/* ---- listening ------------------------------------------------------------------------------- */

int serve_sockets_start(void)
{
    WSADATA about;
    return WSAStartup(MAKEWORD(2, 2), &about) == 0;
}

/* The system's words for an error, without a line end. */
static const char *reason_of(int code, char out[256])
{
    DWORD n = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, (DWORD)code, 0,
                             out, 256, NULL);
    while (n && ((unsigned char)out[n - 1] <= ' ' || out[n - 1] == '.'))
        n--;
    out[n] = '\0';
    if (!n)
        snprintf(out, 256, "error %d of the system", code);
    return out;
}

/* SO_REUSEADDR of Windows would let others listen on the same port. */
static SOCKET listen_at(const struct addrinfo *at)
{
    const DWORD one = 1, zero = 0;
    const SOCKET s = WSASocketW(at->ai_family, at->ai_socktype, at->ai_protocol, NULL, 0,
                                WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    if (s == INVALID_SOCKET)
        return s;
    setsockopt(s, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&one, sizeof one);
    if (at->ai_family == AF_INET6) /* IPv4 too, as on Linux */
        setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, (const char *)&zero, sizeof zero);
    if (bind(s, at->ai_addr, (int)at->ai_addrlen) == 0 && listen(s, SOMAXCONN) == 0)
        return s;
    const int why = WSAGetLastError();
    closesocket(s);
    WSASetLastError(why);
    return INVALID_SOCKET;
}

serve_socket serve_listen_tcp(const char *host, int32_t *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found;
    char service[16], reason[256];
    snprintf(service, sizeof service, "%d", (int)*port);
    const int why = getaddrinfo(host, service, &hints, &found);
    if (why) {
        cli_fail(CLI_FAILED, "serve --host: '%.200s': %s", host, reason_of(why, reason));
        return SERVE_NO_SOCKET;
    }
    SOCKET s = INVALID_SOCKET;
    for (const struct addrinfo *at = found; at && s == INVALID_SOCKET; at = at->ai_next)
        s = listen_at(at);
    const int failed = WSAGetLastError();
    freeaddrinfo(found);
    if (s == INVALID_SOCKET)
        cli_fail(CLI_FAILED, "serve: cannot listen on %.200s port %d: %s", host, (int)*port,
                 reason_of(failed, reason));
    else
        *port = serve_local_port(s);
    return s;
}

serve_socket serve_listen_unix(const char *path)
{
    cli_fail(CLI_FAILED, "serve --unix %.200s: not supported on Windows, expected --host and --port", path);
    return SERVE_NO_SOCKET;
}

void serve_socket_close(serve_socket s)
{
    if (s != INVALID_SOCKET)
        closesocket(s);
}

/* ---- connections ----------------------------------------------------------------------------- */

/* A peer that has closed its side makes the socket readable, and there is nothing to read. */
int serve_socket_gone(serve_socket s)
{
    WSAPOLLFD p = {.fd = s, .events = POLLRDNORM};
    char c;
    if (WSAPoll(&p, 1, 0) <= 0)
        return 0;
    if (p.revents & (POLLHUP | POLLERR | POLLNVAL))
        return 1;
    const int n = recv(s, &c, 1, MSG_PEEK);
    return n == 0 || (n < 0 && WSAGetLastError() != WSAEWOULDBLOCK);
}

void serve_socket_tune(serve_socket s)
{
    const DWORD one = 1, waiting = 1 << 20;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (const char *)&one, sizeof one);
    setsockopt(s, SOL_SOCKET, SO_SNDBUF, (const char *)&waiting, sizeof waiting);
}

void serve_socket_end(serve_socket s, const char *text, size_t n)
{
    WSAPOLLFD p = {.fd = s, .events = POLLWRNORM};
    if (text && WSAPoll(&p, 1, 0) > 0 && p.revents == POLLWRNORM)
        send(s, text, (int)n, 0);
    shutdown(s, SD_BOTH);
}

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
 * returns, or after some seconds, so that one does not return. A service is told when any user logs off. */
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

/* ---- the process ----------------------------------------------------------------------------- */

uint64_t serve_resident_bytes(void)
{
    PROCESS_MEMORY_COUNTERS m = {.cb = sizeof m};
    return GetProcessMemoryInfo(GetCurrentProcess(), &m, sizeof m) ? m.WorkingSetSize : 0;
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
