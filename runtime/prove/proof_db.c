/* What was proven on a device: in memory, and on disk beside the tuning database, under the same name. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/prove/proof.h"
#include "runtime/tune/tune.h"

enum { MAX_FILE_BYTES = 16 << 20, LINE_BYTES = 160 };
static const char head[] = "clef proofs 1\n";
const char *const clef__verdict_names[] = {"right", "untried", "wrong", "refused", "crashed", "hung", NULL};

const clef_proof *clef__proofs_find(const clef_proofs *proofs, uint64_t print)
{
    for (int32_t i = 0; i < proofs->n; i++)
        if (proofs->at[i].print == print)
            return &proofs->at[i];
    return NULL;
}

clef_status clef__proofs_put(clef_proofs *proofs, const clef_proof *proof, clef_error *err)
{
    if (clef__proofs_find(proofs, proof->print))
        return CLEF_OK;
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

void clef__proofs_free(clef_proofs *proofs)
{
    if (proofs)
        free(proofs->at);
    free(proofs);
}

static clef_status parse_line(clef_proofs *proofs, const char *line, clef_error *err)
{
    clef_proof p = {0};
    char verdict[16];
    if (sscanf(line, "%16" SCNx64 " %31s %31s %15s %lf", &p.print, p.op, p.variant, verdict, &p.worst) != 5)
        return CLEF_OK; /* damaged: proven anew */
    for (int i = 0; clef__verdict_names[i]; i++)
        if (strcmp(verdict, clef__verdict_names[i]) == 0) {
            p.verdict = (clef_verdict)i;
            return clef__proofs_put(proofs, &p, err);
        }
    return CLEF_OK;
}

static clef_status read_file(clef_proofs *proofs, const char *path, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    clef_status s = CLEF_OK;
    if (!path[0] || !clef__os_is_file(path) ||
        clef__os_read(path, MAX_FILE_BYTES, &text, &n, NULL) != CLEF_OK)
        return CLEF_OK;
    if (strncmp(text, head, sizeof head - 1) == 0)
        for (char *line = text + sizeof head - 1, *end; *line && !s && (end = strchr(line, '\n'));
             line = end + 1) {
            *end = 0;
            s = parse_line(proofs, line, err);
        }
    free(text);
    return s;
}

clef_status clef__proofs_open(clef_device *dev, clef_proofs **out, clef_error *err)
{
    char path[CLEF_TUNE_PATH_BYTES];
    *out = dev->proofs;
    if (*out)
        return CLEF_OK;
    clef_proofs *proofs = calloc(1, sizeof *proofs);
    if (!proofs)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for what was proven");
    clef_status s = clef__tune_db_beside(dev, "proof", path, err);
    if (!s)
        s = read_file(proofs, path, err);
    if (s) {
        clef__proofs_free(proofs);
        return s;
    }
    *out = dev->proofs = proofs;
    return CLEF_OK;
}

clef_status clef__proofs_save(clef_device *dev, clef_proofs *proofs, clef_error *err)
{
    char path[CLEF_TUNE_PATH_BYTES], dir[CLEF_TUNE_PATH_BYTES];
    clef_status s = clef__tune_db_beside(dev, "proof", path, err);
    if (s || !path[0])
        return s;
    s = read_file(proofs, path, err);
    const size_t room = sizeof head + (size_t)proofs->n * LINE_BYTES;
    char *text = s ? NULL : malloc(room);
    if (!text)
        return s ? s : clef__fail(err, CLEF_E_NOMEM, "no memory for the text of %d proofs", (int)proofs->n);
    size_t at = (size_t)snprintf(text, room, "%s", head);
    for (int32_t i = 0; i < proofs->n; i++) {
        const clef_proof *p = &proofs->at[i];
        at += (size_t)snprintf(text + at, room - at, "%016" PRIx64 " %s %s %s %.3g\n", p->print, p->op,
                               p->variant, clef__verdict_names[p->verdict], p->worst);
    }
    snprintf(dir, sizeof dir, "%s/proof", dev->cache_dir);
    if (clef__os_make_dirs(dir, NULL) == CLEF_OK)
        clef__os_write(path, text, at, NULL);
    free(text);
    return CLEF_OK;
}
