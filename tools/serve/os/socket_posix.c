/* Sockets on POSIX systems. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "tools/serve/os/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/cli/cli.h"

#ifndef POLLRDHUP
#    define POLLRDHUP 0
#endif
#ifndef MSG_NOSIGNAL
#    define MSG_NOSIGNAL 0 /* serve_signals_catch() ignores the signal */
#endif

enum { BACKLOG = 1024 };

/* A program that this one starts does not get it. */
static int close_on_exec(int fd)
{
    return fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static int make_socket(int family, int type, int protocol)
{
    const int fd = socket(family, type, protocol);
    if (fd >= 0)
        close_on_exec(fd);
    return fd;
}

/* ---- listening ------------------------------------------------------------------------------- */

static int listen_at(const struct addrinfo *at)
{
    const int one = 1, fd = make_socket(at->ai_family, at->ai_socktype, at->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int serve_sockets_start(void)
{
    return 1;
}

serve_socket serve_listen_tcp(const char *host, int32_t *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found;
    char service[16];
    snprintf(service, sizeof service, "%d", (int)*port);
    const int why = getaddrinfo(host, service, &hints, &found);
    if (why) {
        cli_fail(CLI_FAILED, "serve --host: '%.200s': %s", host, gai_strerror(why));
        return SERVE_NO_SOCKET;
    }
    int fd = -1;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
        fd = listen_at(at);
    freeaddrinfo(found);
    if (fd < 0)
        cli_fail(CLI_FAILED, "serve: cannot listen on %.200s port %d: %s", host, (int)*port, strerror(errno));
    else
        *port = serve_local_port(fd);
    return fd;
}

/* A socket file that an earlier process left behind: nobody answers there. */
static void remove_stale(const struct sockaddr_un *a)
{
    struct stat info;
    if (stat(a->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode))
        return;
    const int fd = make_socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)a, sizeof *a) != 0 && errno == ECONNREFUSED)
        unlink(a->sun_path);
    close(fd);
}

serve_socket serve_listen_unix(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path) {
        cli_fail(CLI_FAILED, "serve --unix: a path of %zu bytes, expected at most %zu", strlen(path),
                 sizeof a.sun_path - 1);
        return -1;
    }
    memcpy(a.sun_path, path, strlen(path) + 1);
    remove_stale(&a);
    const int fd = make_socket(AF_UNIX, SOCK_STREAM, 0);
    const mode_t before = umask(0077);
    const int bound = fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof a) == 0;
    umask(before);
    if (bound && listen(fd, BACKLOG) == 0)
        return fd;
    cli_fail(CLI_FAILED, "serve: cannot listen on %.200s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

void serve_socket_close(serve_socket fd)
{
    if (fd >= 0)
        close(fd);
}

/* ---- connections ----------------------------------------------------------------------------- */

int serve_socket_gone(serve_socket fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

void serve_socket_tune(serve_socket fd)
{
    const int one = 1, waiting = 512 << 10; /* Linux doubles it */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &waiting, sizeof waiting);
}

const int serve_socket_end_wakes = 1;

void serve_socket_end(serve_socket fd, const char *text, size_t n)
{
    if (text)
        (void)!send(fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd, SHUT_RDWR);
}
