#include "runtime/device/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/hash.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

enum { MAX_WAITING = 8, DEBUG_BYTES = CLEF__DEBUG_BYTES + 80, LETTER_BYTES = 1024, POLL_MS = 4 };
static const double WAIT_SECONDS = 5;

/* ---- the caller ------------------------------------------------------------------------------ */

typedef struct waiting {
    clef__child at[MAX_WAITING];
    int32_t n;
} waiting;

static void end_waiting(clef_device *dev, void *data)
{
    waiting *w = data;
    int code;
    (void)dev;
    for (int32_t i = 0; i < w->n; i++)
        if (!clef__os_ended(w->at[i].process, &code))
            clef__os_kill(w->at[i].process);
    free(w);
}
static const clef__attachment waiting_slot = {.release = end_waiting};

void clef__child_keep(clef_device *dev, const clef__child *child)
{
    waiting *w = clef__device_attached(dev, &waiting_slot);
    if (!w && (w = calloc(1, sizeof *w)) != NULL)
        clef__device_attach(dev, &waiting_slot, w);
    if (w && w->n < MAX_WAITING)
        w->at[w->n++] = *child;
    else
        clef__os_leave(child->process);
}

/* This process's CLEF_DEBUG, and what children should know. */
static void debug_of_child(const clef_device *dev, int32_t tried_group, char out[DEBUG_BYTES])
{
    const char *own = clef__os_env("CLEF_DEBUG");
    snprintf(out, DEBUG_BYTES, "CLEF_DEBUG=%s,tried_group=%d%s%s", own ? own : "", (int)tried_group,
             dev->slow_to_serialize ? ",slow_binaries=1" : "",
             clef__background_allowed(dev) ? "" : ",background=0");
}

static uint64_t hash_of(const char *debug)
{
    return clef__hash(CLEF__HASH_START, debug, strlen(debug));
}

clef_status clef__child_spawn(const clef_device *dev, const char *path, int32_t first, int32_t tried_group,
                              clef__child *out, clef_error *err)
{
    static int32_t n_started;
    char device[32], number[16], debug[DEBUG_BYTES], cache[sizeof dev->cache_dir + 16];
    const char *const environment[] = {
        "POCL_AFFINITY=0", /* with affinity, the first threads of all children would share a processor */
        cache, debug, NULL};
    *out = (clef__child){0};
    snprintf(cache, sizeof cache, "CLEF_CACHE_DIR=%s", dev->cache_dir); /* the program may have set another
                                                                           folder */
    debug_of_child(dev, tried_group, debug);
    out->environment = hash_of(debug);
    snprintf(number, sizeof number, "%d", (int)first);
    snprintf(device, sizeof device, "%d:%d", (int)dev->info.platform, (int)dev->info.index);
    snprintf(out->mailbox, sizeof out->mailbox, "%.700s.next-%d", path, (int)n_started++);
    const char *waits = dev->info.caps.is_cpu ? "--then-from" : NULL; /* a GPU's context takes its memory */
    const char *const argv[] = {dev->prover, "selftest", "--prove", path,         "--first", number,
                                "-d",        device,     waits,     out->mailbox, NULL};
    return clef__os_spawn(argv, environment, &out->process, err);
}

/* Takes a child from those that wait. Returns 0 when there is none with this environment. */
static int take_waiting(const clef_device *dev, uint64_t environment, clef__child *out)
{
    waiting *w = clef__device_attached(dev, &waiting_slot);
    int code;
    for (int32_t i = w ? w->n - 1 : -1; i >= 0; i--) {
        const clef__child c = w->at[i];
        const int has_ended = clef__os_ended(c.process, &code);
        if (!has_ended && c.environment != environment)
            continue;
        w->at[i] = w->at[--w->n];
        if (has_ended)
            continue;
        *out = c;
        return 1;
    }
    return 0;
}

clef_status clef__child_start(clef_device *dev, const char *path, int32_t first, int32_t tried_group,
                              clef__child *out, clef_error *err)
{
    char debug[DEBUG_BYTES], letter[LETTER_BYTES];
    debug_of_child(dev, tried_group, debug);
    const int n = snprintf(letter, sizeof letter, "%d %s", (int)first, path);
    if (n < 0 || (size_t)n >= sizeof letter || !take_waiting(dev, hash_of(debug), out))
        return clef__child_spawn(dev, path, first, tried_group, out, err);
    out->was_waiting = 1;
    if (!clef__os_write(out->mailbox, letter, (size_t)n, NULL))
        return CLEF_OK;
    clef__os_leave(out->process);
    return clef__child_spawn(dev, path, first, tried_group, out, err);
}

int clef__child_missed(const clef__child *child)
{
    const int missed = child->was_waiting && clef__os_is_file(child->mailbox);
    if (missed)
        clef__os_remove(child->mailbox);
    return missed;
}

/* ---- the child ------------------------------------------------------------------------------- */

int clef__child_wait(const char *mailbox, char *path, size_t room, int32_t *first)
{
    const double end = clef__os_seconds() + WAIT_SECONDS;
    char *letter = NULL, *rest = NULL;
    size_t n = 0;
    clef__os_journal_close();
    while (!clef__os_is_file(mailbox)) {
        if (clef__os_seconds() > end)
            return 0;
        clef__os_sleep(POLL_MS);
    }
    if (clef__os_read(mailbox, LETTER_BYTES, &letter, &n, NULL))
        return 0;
    clef__os_remove(mailbox);
    *first = (int32_t)strtol(letter, &rest, 10);
    const int fits = *rest == ' ' && strlen(rest + 1) < room;
    if (fits)
        strcpy(path, rest + 1);
    free(letter);
    return fits;
}
