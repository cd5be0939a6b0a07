#include "tools/serve/base/responses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/os/thread.h"

typedef struct stored {
    char id[48];
    uint64_t tenant;
    char *texts[SERVE_N_STORED], *ids; /* JSON: text takes less memory than values, and threads share it */
    size_t n_bytes;
} stored;

struct serve_responses {
    serve_lock lock;
    stored all[SERVE_MOST_RESPONSES]; /* a ring */
    int32_t first, n;
    size_t n_bytes;
};

serve_responses *serve_responses_create(void)
{
    serve_responses *s = calloc(1, sizeof *s);
    if (s)
        serve_lock_init(&s->lock);
    return s;
}

static stored *at(serve_responses *s, int32_t i)
{
    return &s->all[(s->first + i) % SERVE_MOST_RESPONSES];
}

static void free_texts(stored *one)
{
    for (int i = 0; i < SERVE_N_STORED; i++)
        free(one->texts[i]);
    free(one->ids);
}

static void empty(serve_responses *s, stored *one)
{
    free_texts(one);
    s->n_bytes -= one->n_bytes;
    *one = (stored){.id = ""};
}

static void drop_oldest(serve_responses *s)
{
    empty(s, at(s, 0));
    s->first = (s->first + 1) % SERVE_MOST_RESPONSES;
    s->n--;
}

void serve_responses_destroy(serve_responses *s)
{
    if (!s)
        return;
    while (s->n)
        drop_oldest(s);
    serve_lock_finish(&s->lock);
    free(s);
}

void serve_responses_store(serve_responses *s, uint64_t tenant, const char *id, char *texts[SERVE_N_STORED],
                           const json_t *ids)
{
    stored one = {.tenant = tenant, .ids = json_dumps(ids, JSON_COMPACT)};
    int has_all = one.ids != NULL;
    snprintf(one.id, sizeof one.id, "%s", id);
    for (int i = 0; i < SERVE_N_STORED; i++) {
        one.texts[i] = texts[i];
        has_all &= texts[i] != NULL;
        one.n_bytes += texts[i] ? strlen(texts[i]) : 0;
        texts[i] = NULL;
    }
    one.n_bytes += one.ids ? strlen(one.ids) : 0;
    serve_lock_take(&s->lock);
    if (has_all && one.n_bytes <= SERVE_MOST_RESPONSE_BYTES) {
        while (s->n && (s->n == SERVE_MOST_RESPONSES || s->n_bytes + one.n_bytes > SERVE_MOST_RESPONSE_BYTES))
            drop_oldest(s);
        *at(s, s->n++) = one;
        s->n_bytes += one.n_bytes;
        one = (stored){.id = ""};
    }
    serve_lock_release(&s->lock);
    free_texts(&one);
}

/* NULL: none has this id, or another key's client made it. The lock is held. */
static stored *find(serve_responses *s, uint64_t tenant, const char *id)
{
    for (int32_t i = s->n - 1; i >= 0; i--)
        if (!strcmp(at(s, i)->id, id) && at(s, i)->tenant == tenant && *id)
            return at(s, i);
    return NULL;
}

static char *copy_of(const char *text)
{
    const size_t n = text ? strlen(text) + 1 : 0;
    char *copy = n ? malloc(n) : NULL;
    if (copy)
        memcpy(copy, text, n);
    return copy;
}

char *serve_responses_find(serve_responses *s, uint64_t tenant, const char *id, serve_stored what)
{
    serve_lock_take(&s->lock);
    const stored *one = find(s, tenant, id);
    char *copy = copy_of(one ? one->texts[what] : NULL);
    serve_lock_release(&s->lock);
    return copy;
}

char *serve_responses_find_item(serve_responses *s, uint64_t tenant, const char *item, serve_stored what)
{
    char *copy = NULL, member[128];
    const int n = snprintf(member, sizeof member, "\"%s\"", item);
    if (n < 0 || (size_t)n >= sizeof member || strpbrk(item, "\"\\,")) /* "," is between any two */
        return NULL;
    serve_lock_take(&s->lock);
    for (int32_t i = s->n - 1; i >= 0 && !copy; i--)
        if (at(s, i)->tenant == tenant && at(s, i)->ids && strstr(at(s, i)->ids, member))
            copy = copy_of(at(s, i)->texts[what]);
    serve_lock_release(&s->lock);
    return copy;
}

int serve_responses_drop(serve_responses *s, uint64_t tenant, const char *id)
{
    serve_lock_take(&s->lock);
    stored *one = find(s, tenant, id);
    if (one)
        empty(s, one);
    serve_lock_release(&s->lock);
    return one != NULL;
}
