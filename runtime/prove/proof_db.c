/* The results of trials on a device: in memory, and on disk in the cache folder's proof/. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/device/cache.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"
#include "runtime/prove/proof.h"

#ifndef CLEF_VERSION
#    error "CMakeLists.txt defines CLEF_VERSION"
#endif

enum { MAX_FILE_BYTES = 16 << 20, LINE_BYTES = 200, WEEK = 7 * 24 * 3600 };
static const char head[] = "clef proofs 2 "; /* the line ends with the version of clef */
const char *const clef__verdict_names[] = {"right",   "untried", "wrong", "refused",
                                           "faulted", "crashed", "hung",  NULL};

/* ---- verdicts -------------------------------------------------------------------------------- */

int clef__proof_is_suspicion(const clef_proof *p)
{
    return p->verdict == CLEF_PROOF_HUNG && p->n_hung < CLEF_PROOF_OCCASIONS;
}

int clef__proof_is_settled(const clef_proof *p)
{
    return p && (p->is_new || !clef__proof_is_suspicion(p));
}

/* 1 for a kernel that was not tried because memory was short: another start tries it. */
static int is_of_now(const clef_proof *p)
{
    return p->verdict == CLEF_PROOF_UNTRIED && p->cl_code;
}

int clef__proof_is_bad(const clef_proof *p)
{
    return clef__proof_is_settled(p) && p->verdict >= CLEF_PROOF_WRONG;
}

const char *clef__proof_says(clef_verdict verdict)
{
    return verdict == CLEF_PROOF_WRONG     ? "gives wrong numbers"
           : verdict == CLEF_PROOF_HUNG    ? "does not come back"
           : verdict == CLEF_PROOF_CRASHED ? "crashes the driver"
           : verdict == CLEF_PROOF_FAULTED ? "makes all later commands fail"
                                           : "does not build or run";
}

/* ---- in memory ------------------------------------------------------------------------------- */

static clef_proof *find_proof(const clef_proofs *proofs, uint64_t print)
{
    for (int32_t i = 0; i < proofs->n; i++)
        if (proofs->at[i].print == print)
            return &proofs->at[i];
    return NULL;
}

const clef_proof *clef__proofs_find(const clef_proofs *proofs, uint64_t print)
{
    return find_proof(proofs, print);
}

const clef_proof *clef__proofs_find_bad(const clef_proofs *proofs, const char *op, const char *variant)
{
    for (int32_t i = 0; i < proofs->n; i++)
        if (clef__proof_is_bad(&proofs->at[i]) && !clef__proof_is_outgrown(proofs, &proofs->at[i]) &&
            strcmp(proofs->at[i].op, op) == 0 && strcmp(proofs->at[i].variant, variant) == 0)
            return &proofs->at[i];
    return NULL;
}

static clef_status append_proof(clef_proofs *proofs, const clef_proof *proof, clef_error *err)
{
    if (proofs->n == proofs->cap) {
        const int32_t cap = 2 * proofs->cap + 32;
        clef_proof *grown = realloc(proofs->at, (size_t)cap * sizeof *grown);
        if (!grown)
            return clef__fail(err, CLEF_E_NOMEM, "no memory for %d proofs", (int)cap);
        proofs->at = grown;
        proofs->cap = cap;
    }
    proofs->at[proofs->n++] = *proof;
    return CLEF_OK;
}

clef_status clef__proofs_put(clef_proofs *proofs, const clef_proof *proof, clef_error *err)
{
    clef_proof *known = find_proof(proofs, proof->print), now = *proof;
    if (clef__proof_is_settled(known) && !clef__proof_is_outgrown(proofs, known))
        return CLEF_OK;
    now.is_new = 1;
    now.n_hung = now.verdict == CLEF_PROOF_HUNG ? 1 + (known ? known->n_hung : 0) : 0;
    now.when = (int64_t)time(NULL);
    if (!known)
        return append_proof(proofs, &now, err);
    *known = now;
    return CLEF_OK;
}

/* Merges a verdict of another process. It replaces an earlier start's suspicion if it is more certain. */
static clef_status merge_proof(clef_proofs *proofs, const clef_proof *theirs, clef_error *err)
{
    clef_proof *known = find_proof(proofs, theirs->print);
    if (!known)
        return append_proof(proofs, theirs, err);
    if (!known->is_new && clef__proof_is_suspicion(known) &&
        (theirs->verdict != CLEF_PROOF_HUNG || theirs->n_hung > known->n_hung))
        *known = *theirs;
    if (strcmp(known->op, CLEF__GROUP_OP) == 0 && theirs->items < known->items)
        *known = *theirs; /* the smallest group that was too large */
    return CLEF_OK;
}

void clef__proofs_free(clef_proofs *proofs)
{
    if (proofs)
        free(proofs->at);
    free(proofs);
}

/* ---- on disk --------------------------------------------------------------------------------- */

int clef__proof_parse(const char *line, clef_proof *out)
{
    char verdict[16];
    *out = (clef_proof){0};
    if (sscanf(line, "%16" SCNx64 " %31s %31s %15s %lf %" SCNd32 " %" SCNd64 " %" SCNd32 " %" SCNd32,
               &out->print, out->op, out->variant, verdict, &out->worst, &out->n_hung, &out->when,
               &out->cl_code, &out->items) < 7)
        return 0;
    for (int i = 0; clef__verdict_names[i]; i++)
        if (strcmp(verdict, clef__verdict_names[i]) == 0) {
            out->verdict = (clef_verdict)i;
            return 1;
        }
    return 0;
}

/* Hangs are forgotten after a week, and by another version of clef: they may have been caused by the driver,
 * clef or the machine as they were then. */
static int is_forgotten(const clef_proof *p, int is_of_this_version)
{
    return p->verdict == CLEF_PROOF_HUNG &&
           (!is_of_this_version || (int64_t)time(NULL) - p->when > WEEK || p->when > (int64_t)time(NULL));
}

static clef_status parse_file(clef_proofs *proofs, char *text, clef_error *err)
{
    const size_t n_head = sizeof head - 1;
    int is_of_this_version = 0;
    clef_status s = CLEF_OK;
    char *line = text;
    if (strncmp(text, head, n_head) != 0)
        return CLEF_OK;
    for (char *end; (end = strchr(line, '\n')) && !s; line = end + 1) {
        clef_proof p;
        *end = 0;
        if (line == text)
            is_of_this_version = strcmp(line + n_head, CLEF_VERSION) == 0;
        else if (clef__proof_parse(line, &p) && !is_forgotten(&p, is_of_this_version))
            s = merge_proof(proofs, &p, err); /* a damaged line is skipped, and its kernel is proven again */
    }
    return s;
}

static clef_status read_file(clef_proofs *proofs, const char *path, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    if (!path[0] || !clef__os_is_file(path) ||
        clef__os_read(path, MAX_FILE_BYTES, &text, &n, NULL) != CLEF_OK)
        return CLEF_OK;
    const clef_status s = parse_file(proofs, text, err);
    clef__os_touch(path);
    free(text);
    return s;
}

static void release_proofs(clef_device *dev, void *proofs)
{
    (void)dev;
    clef__proofs_free(proofs);
}
static const clef__attachment proofs_slot = {.release = release_proofs};

clef_status clef__proofs_open(clef_device *dev, clef_proofs **out, clef_error *err)
{
    char path[CLEF_CACHE_PATH_BYTES];
    *out = clef__device_attached(dev, &proofs_slot);
    if (*out)
        return CLEF_OK;
    clef_proofs *proofs = calloc(1, sizeof *proofs);
    if (!proofs)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the proofs");
    clef_status s = clef__cache_beside(dev, "proof", path, err);
    if (!s)
        s = read_file(proofs, path, err);
    if (s) {
        clef__proofs_free(proofs);
        return s;
    }
    const char *tried = clef__debug("tried_group");
    proofs->driver_group = dev->info.caps.max_group;
    proofs->tried_group = tried ? (int32_t)strtol(tried, NULL, 10) : 0;
    clef__device_attach(dev, &proofs_slot, *out = proofs);
    clef__proofs_limit_groups(dev, proofs);
    return CLEF_OK;
}

clef_status clef__proofs_read_again(clef_device *dev, clef_proofs *proofs, clef_error *err)
{
    char path[CLEF_CACHE_PATH_BYTES];
    const clef_status s = clef__cache_beside(dev, "proof", path, err);
    return s ? s : read_file(proofs, path, err);
}

clef_status clef__proofs_save(clef_device *dev, clef_proofs *proofs, clef_error *err)
{
    char path[CLEF_CACHE_PATH_BYTES], dir[CLEF_CACHE_PATH_BYTES];
    clef_status s = clef__cache_beside(dev, "proof", path, err);
    if (s || !path[0])
        return s;
    s = read_file(proofs, path, err);
    const size_t room = LINE_BYTES + (size_t)proofs->n * LINE_BYTES;
    char *text = s ? NULL : malloc(room);
    if (!text)
        return s ? s : clef__fail(err, CLEF_E_NOMEM, "no memory for the text of %d proofs", (int)proofs->n);
    size_t at = (size_t)snprintf(text, room, "%s%s\n# %.100s\n", head, CLEF_VERSION, dev->info.name);
    for (int32_t i = 0; i < proofs->n; i++) {
        const clef_proof *p = &proofs->at[i];
        if (is_of_now(p))
            continue;
        at += (size_t)snprintf(text + at, room - at, "%016" PRIx64 " %s %s %s %.3g %" PRId32 " %" PRId64,
                               p->print, p->op, p->variant, clef__verdict_names[p->verdict], p->worst,
                               p->n_hung, p->when);
        if (p->verdict == CLEF_PROOF_REFUSED ||
            p->verdict == CLEF_PROOF_FAULTED) /* the others end here, as the files of earlier versions */
            at += (size_t)snprintf(text + at, room - at, " %" PRId32 " %" PRId32, p->cl_code, p->items);
        at += (size_t)snprintf(text + at, room - at, "\n");
    }
    snprintf(dir, sizeof dir, "%s/proof", dev->cache_dir);
    if (clef__os_make_dirs(dir, NULL) == CLEF_OK)
        clef__os_write(path, text, at, NULL);
    free(text);
    return CLEF_OK;
}

clef_status clef__proofs_take(clef_device *dev, char *text, int32_t *n_new, clef_error *err)
{
    clef_proofs theirs = {0}, *known = NULL;
    clef_status s = clef__proofs_open(dev, &known, err);
    const int32_t n_before = s ? 0 : known->n;
    if (!s)
        s = parse_file(&theirs, text, err);
    for (int32_t i = 0; i < theirs.n && !s; i++)
        if (!clef__proof_is_suspicion(&theirs.at[i])) /* which may have been the other machine's fault */
            s = merge_proof(known, &theirs.at[i], err);
    free(theirs.at);
    if (!s)
        s = clef__proofs_save(dev, known, err);
    *n_new = s ? 0 : known->n - n_before;
    return s;
}
