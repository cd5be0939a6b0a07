/* Sockets on Windows. */
#include <winsock2.h>
/* after winsock2.h */
#include <ws2tcpip.h>

#include <stdio.h>

#include "tools/cli/cli.h"
#include "tools/serve/os/socket.h"

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

const int serve_socket_end_wakes = 0; /* WSAPoll() reports what the peer does */

void serve_socket_end(serve_socket s, const char *text, size_t n)
{
    WSAPOLLFD p = {.fd = s, .events = POLLWRNORM};
    if (text && WSAPoll(&p, 1, 0) > 0 && p.revents == POLLWRNORM)
        send(s, text, (int)n, 0);
    shutdown(s, SD_BOTH);
}
