/* Addresses of the network as text. The calls are the same on all systems; only their headers differ. */
#ifdef _WIN32
#    include <winsock2.h>
/* after winsock2.h */
#    include <ws2tcpip.h>
#else
#    include <arpa/inet.h>
#    include <netinet/in.h>
#    include <sys/socket.h>
#endif

#include <ctype.h>
#include <string.h>

#include "tools/serve/os/socket.h"

/* The address of a socket of this process. Returns 0 if it has none. */
static int own_address(serve_socket s, struct sockaddr_storage *out)
{
    socklen_t n = sizeof *out;
    return getsockname(s, (struct sockaddr *)out, &n) == 0;
}

static int is_localhost(const char *host)
{
    const char *name = "localhost";
    while (*name && tolower((unsigned char)*host) == *name)
        host++, name++;
    return !*name && !*host;
}

int serve_is_loopback(const char *host)
{
    char own[64];
    size_t n = strlen(host);
    if (n > 2 && host[0] == '[' && host[n - 1] == ']')
        host++, n -= 2;
    if (n == 0 || n >= sizeof own)
        return 0;
    memcpy(own, host, n);
    own[n] = '\0';
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, own, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, own, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return is_localhost(own);
}

int serve_is_address(const char *text)
{
    struct in_addr v4;
    struct in6_addr v6;
    return inet_pton(AF_INET, text, &v4) == 1 || inet_pton(AF_INET6, text, &v6) == 1;
}

int32_t serve_local_port(serve_socket s)
{
    struct sockaddr_storage a;
    if (!own_address(s, &a))
        return 0;
    return a.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&a)->sin6_port)
                                   : ntohs(((struct sockaddr_in *)&a)->sin_port);
}

/* An IPv4 address that arrived over IPv6 is written as the former. "" for other kinds of sockets. */
static void text_of(const struct sockaddr *a, char out[64])
{
    out[0] = '\0';
    if (a && a->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr, out, 64);
    else if (a && a->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(v6))
            inet_ntop(AF_INET, v6->s6_addr + 12, out, 64);
        else
            inet_ntop(AF_INET6, v6, out, 64);
    }
}

void serve_peer_text(const struct sockaddr *address, char out[64])
{
    text_of(address, out);
    if (!out[0])
        memcpy(out, "unix", sizeof "unix");
}

void serve_local_text(serve_socket s, char out[64])
{
    struct sockaddr_storage a;
    out[0] = '\0';
    if (own_address(s, &a))
        text_of((struct sockaddr *)&a, out);
}
