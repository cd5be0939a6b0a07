/* What the server needs from the system beyond libmicrohttpd: sockets, signals, private files, random
 * bytes. Each system has one implementation (socket_posix.c). */
#ifndef CLEF_TOOLS_SERVE_SOCKET_H
#define CLEF_TOOLS_SERVE_SOCKET_H

#include <stddef.h>
#include <stdint.h>

struct sockaddr;

/** Listens on a host (a name or an address) and port; port 0: any. *port is what it got. Returns the socket,
 * or -1 after a message. */
int serve_listen_tcp(const char *host, int32_t *port);
/** Listens on a Unix socket that only its owner can use, and replaces one on which nobody listens. -1 after a
 *  message. */
int serve_listen_unix(const char *path);
void serve_socket_close(int fd);
/** 1 for "localhost" and addresses of the loopback network, also in brackets. */
int serve_is_loopback(const char *host);
/** The address of a peer as text, "unix" for a Unix socket. */
void serve_peer_text(const struct sockaddr *address, char out[64]);
/** The address that a connection came to, as text without port; "" for a Unix socket. */
void serve_local_text(int fd, char out[64]);
/** 1 if the peer has closed its side. */
int serve_socket_gone(int fd);
/** Small writes are sent at once, and about a MiB waits for a slow reader. */
void serve_socket_tune(int fd);
/** Writes what the socket takes without waiting, and ends both directions. text NULL: nothing. */
void serve_socket_end(int fd, const char *text, size_t n);

/** 1 if only its owner can read the file. 0 sets errno, or clears it where others can. */
int serve_file_is_private(const char *path);

/** From now on signals are noted, and end nothing: SIGTERM and SIGINT as 'e', SIGHUP as 'r'. SIGPIPE is
 *  ignored. Returns 0 if that fails. */
int serve_signals_catch(void);
/** The next signal; 0 when `seconds` have passed. */
int serve_signal_wait(double seconds);

/** Fills memory with bytes that nobody can foresee, from the system. Returns 0 if it has none. */
int serve_random_bytes(void *out, size_t n);
/** Bytes of memory that the process has now; 0: unknown. */
uint64_t serve_resident_bytes(void);
/** Seconds since 1970. */
double serve_time(void);
void serve_sleep(double seconds);

#endif
