/* What all requests together hold of memory for their bodies and the values in them. */
#include <stdlib.h>

#include "tools/serve/http.h"
#include "tools/serve/os/system.h"
#include "tools/serve/turns.h"

/* Of a small request nothing is counted, so that large ones take no room from it. */
static const size_t small_bytes = (size_t)64 << 10;
/* Values may take so many times the largest body. */
enum { MOST_TIMES = 12 };
/* When so much was let go, the system gets it back. */
static const size_t trim_bytes = (size_t)16 << 20;

static size_t counted(size_t n)
{
    return n > small_bytes ? n : 0;
}

size_t serve_most_body(const serve_request *r)
{
    const serve_options *o = &r->s->o;
    const size_t sound = (size_t)25 << 20;
    return o->max_body                                           ? (size_t)o->max_body
           : r->endpoint && r->endpoint->flags & SERVE_FORM_BODY ? sound + small_bytes
                                                                 : (size_t)8 << 20;
}

int serve_hold(serve_request *r, size_t n)
{
    serve_server *s = r->s;
    const size_t most = (size_t)s->o.body_memory << 20, before = counted(r->n_held),
                 after = counted(r->n_held + n), most_values = MOST_TIMES * serve_most_body(r);
    if (n > most_values)
        return serve_fail(
            &r->error, SERVE_E_BODY, NULL,
            "the request's values take %zu MiB of memory, expected at most %zu: 12 times --max-body", n >> 20,
            most_values >> 20);
    if (after > most) /* however long it waits */
        return serve_fail(&r->error, SERVE_E_BODY, NULL,
                          "the request takes %zu KiB of memory, expected at most %d MiB: --body-memory",
                          after >> 10, (int)s->o.body_memory);
    if (atomic_fetch_add(&s->n_held, after - before) + (after - before) > most && after) {
        atomic_fetch_sub(&s->n_held, after - before);
        r->error.retry_after = 1;
        return serve_fail(&r->error, SERVE_E_BODIES, NULL,
                          "large requests hold the %d MiB that there are for bodies (--body-memory)",
                          (int)s->o.body_memory);
    }
    r->n_held += n;
    return 1;
}

static void let_go(serve_request *r, size_t n)
{
    serve_server *s = r->s;
    n = n < r->n_held ? n : r->n_held;
    const size_t less = counted(r->n_held) - counted(r->n_held - n);
    r->n_held -= n;
    if (!less)
        return;
    const size_t left = atomic_fetch_sub(&s->n_held, less) - less,
                 let = atomic_fetch_add(&s->n_let, less) + less;
    if (let < trim_bytes && left)
        return;
    atomic_store(&s->n_let, 0);
    serve_give_memory_back();
}

void serve_let_all_but(serve_request *r, size_t n)
{
    let_go(r, r->n_held > n ? r->n_held - n : 0);
}

int serve_grow_body(serve_request *r, size_t n)
{
    enum { SMALL_BODY = 4096 };
    size_t room = r->room ? 2 * (r->n_body + n) : SMALL_BODY + n;
    room = r->n_expected && room > r->n_expected ? r->n_expected : room;
    if (r->n_body + n <= r->room)
        return 1;
    room = room < r->n_body + n ? r->n_body + n : room;
    if (!serve_hold(r, room - r->room))
        return 0;
    char *grown = realloc(r->body, room + 1);
    if (!grown)
        return serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    r->body = grown;
    r->room = room;
    return 1;
}

void serve_drop_body(serve_request *r)
{
    const size_t room = r->room;
    free(r->body);
    r->body = NULL;
    r->room = 0;
    let_go(r, room);
    serve_turn_give(r);
}
