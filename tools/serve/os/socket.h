/* Sockets, beyond what libmicrohttpd does. Each system has one implementation (socket_posix.c,
 * socket_windows.c); address.c is for all of them. */
#ifndef CLEF_TOOLS_SERVE_OS_SOCKET_H
#define CLEF_TOOLS_SERVE_OS_SOCKET_H

#include <stddef.h>
#include <stdint.h>

struct sockaddr;

#ifdef _WIN32
typedef uintptr_t serve_socket; /* SOCKET of <winsock2.h> */
#else
typedef int serve_socket;
#endif
#define SERVE_NO_SOCKET ((serve_socket)-1)

/** Comes before all that have to do with sockets and addresses. Returns 0 if the system has none. */
int serve_sockets_start(void);
/** Listens on a host (a name or an address) and port; port 0: any. *port is what it got. SERVE_NO_SOCKET
 * after a message. */
serve_socket serve_listen_tcp(const char *host, int32_t *port);
/** Listens on a Unix socket that only its owner can use, and replaces one on which nobody listens.
 *  SERVE_NO_SOCKET after a message. */
serve_socket serve_listen_unix(const char *path);
void serve_socket_close(serve_socket s);
/** 1 for "localhost" and addresses of the loopback network, also in brackets. */
int serve_is_loopback(const char *host);
/** 1 for an IPv4 or IPv6 address, without brackets or port. */
int serve_is_address(const char *text);
/** The port that a socket listens on; 0: unknown. */
int32_t serve_local_port(serve_socket s);
/** The address of a peer as text, "unix" for a Unix socket. */
void serve_peer_text(const struct sockaddr *address, char out[64]);
/** The address that a client connected to, as text without port; "" for a Unix socket. */
void serve_local_text(serve_socket s, char out[64]);
/** 1 if the peer has closed its side. */
int serve_socket_gone(serve_socket s);
/** Lets the system send small writes at once, and hold about a MiB for a slow reader. */
void serve_socket_tune(serve_socket s);
/** Writes what the socket takes without waiting, and ends both directions. text NULL: nothing. */
void serve_socket_end(serve_socket s, const char *text, size_t n);
/** 1 if serve_socket_end() wakes a thread that waits for data of that socket. */
extern const int serve_socket_end_wakes;

#endif
