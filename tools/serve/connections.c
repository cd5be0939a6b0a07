/* The open connections. */
#include "tools/serve/connections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/serve/base/error.h"
#include "tools/serve/os/socket.h"
#include "tools/serve/os/system.h"
#include "tools/serve/os/thread.h"
#include "tools/serve/turns.h"

/* A body may come at this rate, in bytes a second, and no slower. */
static const double body_rate = 65536;
static const double look_seconds = 0.1, moment = 1;
enum { A_FEW = 8 };

struct serve_connections {
    serve_server *s;
    serve_lock lock;
    serve_thread thread;
    int started, ends;
    serve_connection *first;
    int32_t n;
};

/* ---- what is late ---------------------------------------------------------------------------- */

/* A large body that waits for its turn, or was read a moment ago. */
static int is_going_on(const serve_connection *c)
{
    return c->phase == SERVE_PHASE_BODY &&
           (c->waits || (c->n_body > SERVE_LARGE_BODY && cli_terminal_seconds() - c->since < moment));
}

static int is_reading(const serve_connection *c)
{
    return !c->ended && c->phase != SERVE_PHASE_ANSWERING && !is_going_on(c);
}

static int is_late(const serve_options *o, const serve_connection *c, double now)
{
    const double header = (double)o->header_timeout, age = now - c->since;
    switch (c->phase) {
    case SERVE_PHASE_IDLE:
        return age > (double)(c->is_first ? o->header_timeout : o->idle_timeout);
    case SERVE_PHASE_HEADERS:
        return now - c->begun > header;
    case SERVE_PHASE_BODY:
        return !c->waits && now - c->begun > header + (double)c->n_body / body_rate;
    case SERVE_PHASE_ANSWERING:
        break;
    }
    return c->reader_left > 0 && now - c->reader_left > (double)o->write_timeout;
}

static void end(const serve_server *s, serve_connection *c)
{
    char text[768] = "";
    if ((c->phase == SERVE_PHASE_HEADERS || c->phase == SERVE_PHASE_BODY || c->is_first) && !s->o.tls_cert &&
        c->phase != SERVE_PHASE_ANSWERING) {
        serve_error e = {.id = SERVE_OK};
        serve_fail(&e, SERVE_E_DEADLINE, NULL, "the request was not complete after %.0f s",
                   cli_terminal_seconds() - c->begun);
        char *body = serve_error_json(&e);
        if (body)
            snprintf(
                text, sizeof text,
                "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                "x-should-retry: false\r\nConnection: close\r\n\r\n%s",
                strlen(body), body);
        free(body);
    }
    c->ended = 1;
    if (c->phase == SERVE_PHASE_ANSWERING)
        c->slow = 1;
    serve_socket_end(c->socket, text[0] ? text : NULL, strlen(text));
}

static void watch(void *user)
{
    serve_connections *all = user;
    serve_lock_take(&all->lock);
    while (!all->ends) {
        const double now = cli_terminal_seconds();
        for (serve_connection *c = all->first; c; c = c->next)
            if (!c->ended && is_late(&all->s->o, c, now))
                end(all->s, c);
        serve_lock_release(&all->lock);
        serve_sleep(look_seconds);
        serve_lock_take(&all->lock);
    }
    serve_lock_release(&all->lock);
}

/* ---- the list -------------------------------------------------------------------------------- */

serve_connections *serve_connections_create(serve_server *s)
{
    serve_connections *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->s = s;
    serve_lock_init(&all->lock);
    all->started = serve_thread_start(&all->thread, watch, all);
    if (all->started)
        return all;
    serve_connections_destroy(all);
    return NULL;
}

void serve_connections_destroy(serve_connections *all)
{
    if (!all)
        return;
    serve_lock_take(&all->lock);
    all->ends = 1;
    serve_lock_release(&all->lock);
    if (all->started)
        serve_thread_join(all->thread);
    while (all->first)
        serve_connections_remove(all, all->first);
    serve_lock_finish(&all->lock);
    free(all);
}

/* Of those that have no complete request: an idle one first, then the one that has taken longest. A few that
 * have just begun are spared. peer NULL: of all. */
static serve_connection *least_wanted(const serve_connections *all, const char *peer)
{
    serve_connection *found = NULL;
    int32_t n = 0;
    for (serve_connection *c = all->first; c; c = c->next) {
        if (!is_reading(c) || (peer && strcmp(c->peer, peer) != 0))
            continue;
        n++;
        const int idle = c->phase == SERVE_PHASE_IDLE && !c->is_first,
                  idle_found = found && found->phase == SERVE_PHASE_IDLE && !found->is_first;
        if (!found || idle > idle_found || (idle == idle_found && c->since < found->since))
            found = c;
    }
    const int is_new = found && (found->phase != SERVE_PHASE_IDLE || found->is_first) &&
                       cli_terminal_seconds() - found->since < moment;
    return is_new && n <= A_FEW ? NULL : found;
}

static int32_t count_of(const serve_connections *all, const char *peer)
{
    int32_t n = 0;
    for (const serve_connection *c = all->first; c; c = c->next)
        n += !c->ended && (!peer || !strcmp(c->peer, peer));
    return n;
}

static int is_proxy(const serve_options *o, const char *peer)
{
    for (int32_t i = 0; i < o->proxies.n; i++)
        if (!strcmp(o->proxies.items[i], peer))
            return 1;
    return 0;
}

/* 1 if the peer has more connections than it may have, with n_new that are not in the list yet. */
static int peer_has_too_many(const serve_connections *all, const serve_connection *c, int32_t n_new)
{
    return !c->is_proxy && count_of(all, c->peer) + n_new > all->s->o.max_per_address;
}

serve_connection *serve_connections_add(serve_connections *all, serve_socket socket, const char *peer)
{
    serve_connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->socket = socket;
    c->is_first = 1;
    c->since = c->begun = cli_terminal_seconds();
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    c->is_proxy = is_proxy(&all->s->o, peer);
    serve_socket_tune(socket);
    serve_lock_take(&all->lock);
    const char *of = peer_has_too_many(all, c, 1)                       ? peer
                     : count_of(all, NULL) >= all->s->o.max_connections ? NULL
                                                                        : "";
    serve_connection *victim = of && !of[0] ? NULL : least_wanted(all, of);
    if (victim)
        end(all->s, victim);
    c->next = all->first;
    c->at = &all->first;
    if (c->next)
        c->next->at = &c->next;
    all->first = c;
    all->n++;
    serve_lock_release(&all->lock);
    return c;
}

void serve_connections_remove(serve_connections *all, serve_connection *c)
{
    serve_lock_take(&all->lock);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    all->n--;
    serve_lock_release(&all->lock);
    free(c);
}

void serve_connection_enter(serve_connections *all, serve_connection *c, serve_phase phase)
{
    serve_lock_take(&all->lock);
    const double now = cli_terminal_seconds();
    if (phase == SERVE_PHASE_HEADERS && !c->is_first)
        c->begun = now;
    if (phase != SERVE_PHASE_IDLE)
        c->is_first = 0;
    c->n_body = phase == SERVE_PHASE_BODY ? c->n_body : 0;
    c->phase = phase;
    c->since = now;
    c->reader_left = 0;
    serve_lock_release(&all->lock);
}

void serve_connection_body(serve_connections *all, serve_connection *c, size_t n)
{
    serve_lock_take(&all->lock);
    c->n_body += n;
    serve_lock_release(&all->lock);
}

void serve_connection_waits(serve_connections *all, serve_connection *c, int waits)
{
    serve_lock_take(&all->lock);
    const double now = cli_terminal_seconds();
    if (!waits)
        c->begun += now - c->since;
    c->since = now;
    c->waits = waits;
    serve_lock_release(&all->lock);
}

void serve_connection_writes(serve_connections *all, serve_connection *c, int writes)
{
    serve_lock_take(&all->lock);
    c->reader_left = writes ? cli_terminal_seconds() : 0;
    serve_lock_release(&all->lock);
}

int serve_connections_full(serve_connections *all, const serve_connection *c)
{
    serve_lock_take(&all->lock);
    const int full = peer_has_too_many(all, c, 0) || count_of(all, NULL) > all->s->o.max_connections;
    serve_lock_release(&all->lock);
    return full;
}

int32_t serve_connections_count(serve_connections *all, int32_t *n_answering)
{
    serve_lock_take(&all->lock);
    const int32_t n = all->n;
    *n_answering = 0;
    for (const serve_connection *c = all->first; c; c = c->next)
        *n_answering += c->phase == SERVE_PHASE_ANSWERING;
    serve_lock_release(&all->lock);
    return n;
}

void serve_connections_end(serve_connections *all)
{
    serve_lock_take(&all->lock);
    for (serve_connection *c = all->first; c; c = c->next)
        if (!c->ended) {
            c->ended = 1;
            serve_socket_end(c->socket, NULL, 0);
        }
    serve_lock_release(&all->lock);
}
