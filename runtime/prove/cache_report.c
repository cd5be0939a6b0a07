/* The cache folder as `clef cache` shows it: its files, whether they are damaged, and what is set aside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/device/cache.h"
#include "runtime/device/cache_folder.h"
#include "runtime/os/os.h"
#include "runtime/prove/trial.h"
#include "runtime/tune/tune.h"

enum {
    MAX_TEXT_BYTES = 16 << 20,
    NAME_DIGITS = 16 /* first digits of a program's file name: its fingerprint in proofs */
};

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct line_visit {
    clef_cache_kind kind;
    char device[128];
    int32_t n;                                                         /* number of lines so far */
    void (*visit)(void *user, const char *line, struct line_visit *v); /* line: without its newline */
    void *user;
} line_visit;

/* "# NAME; DRIVER" names the device of the lines after it. */
static void read_device(const char *line, char out[128])
{
    snprintf(out, 128, "%.*s", (int)strcspn(line + 2, ";"), line + 2);
}

static void visit_lines(const clef__cache_file *f, line_visit *v)
{
    char *text = NULL;
    size_t n = 0;
    v->kind = f->kind;
    v->n = 0;
    v->device[0] = 0;
    if (clef__os_read(f->path, MAX_TEXT_BYTES, &text, &n, NULL))
        return;
    for (char *line = text, *end = text; end; line = end + 1) {
        end = strchr(line, '\n');
        if (end)
            *end = 0;
        if (strncmp(line, "# ", 2) == 0)
            read_device(line, v->device);
        if (end || *line) {
            v->visit(v->user, line, v);
            v->n++;
        }
    }
    free(text);
}

/* Returns 1 if the line sets something aside, and describes it in *out, which points to texts in `proof`. */
static int read_aside(const char *line, const line_visit *v, clef_proof *proof, clef_cache_aside *out)
{
    char state[16];
    *out = (clef_cache_aside){.op = proof->op, .variant = proof->variant, .device = v->device, .age = -1};
    if (v->kind == CLEF_CACHE_TUNING) {
        out->why = "failed its check when it was tuned";
        return sscanf(line, "%*s %15s %31s %*s %*s %*s %*s %*s %31s", state, proof->op, proof->variant) ==
                   3 &&
               strcmp(state, "failed") == 0;
    }
    if (v->kind != CLEF_CACHE_PROOFS || !clef__proof_parse(line, proof) || proof->verdict < CLEF_PROOF_WRONG)
        return 0;
    out->why = strcmp(proof->op, CLEF__GROUP_OP) == 0 ? "is smaller than the driver says"
                                                      : clef__proof_says(proof->verdict);
    out->n_hung = proof->n_hung;
    out->age = (int64_t)time(NULL) - proof->when;
    return 1;
}

/* ---- the list -------------------------------------------------------------------------------- */

typedef struct list {
    const clef_cache_report *report;
    uint64_t *steps; /* fingerprints of the fused steps that have a proof */
    int32_t n_steps, cap;
    clef_proof reported[64]; /* variants that were reported already */
    int32_t n_reported;
} list;

static void note_step(list *l, uint64_t print)
{
    if (l->n_steps == l->cap) {
        uint64_t *grown = realloc(l->steps, (size_t)(2 * l->cap + 8) * sizeof *grown);
        if (!grown)
            return; /* its program is listed like any other */
        l->steps = grown;
        l->cap = 2 * l->cap + 8;
    }
    l->steps[l->n_steps++] = print;
}

/* Returns 1 if the variant was reported already. A variant has many kernels that differ in constants, but it
 * is reported once for each device. */
static int was_reported(list *l, const clef_proof *p)
{
    for (int32_t i = 0; i < l->n_reported; i++)
        if (strcmp(l->reported[i].op, p->op) == 0 && strcmp(l->reported[i].variant, p->variant) == 0)
            return 1;
    if (l->n_reported < (int32_t)(sizeof l->reported / sizeof *l->reported))
        l->reported[l->n_reported++] = *p;
    return 0;
}

static void list_line(void *user, const char *line, line_visit *v)
{
    list *l = user;
    clef_proof p;
    clef_cache_aside aside;
    if (read_aside(line, v, &p, &aside) && l->report->aside && !was_reported(l, &p))
        l->report->aside(l->report->user, &aside);
    if (v->kind == CLEF_CACHE_PROOFS && clef__proof_parse(line, &p) && strcmp(p.op, CLEF__FUSED_OP) == 0)
        note_step(l, p.print);
}

static int is_step(const list *l, const char *path)
{
    const char *name = strrchr(path, '/');
    char digits[NAME_DIGITS + 1];
    snprintf(digits, sizeof digits, "%s", name ? name + 1 : "");
    const uint64_t print = strtoull(digits, NULL, 16);
    int32_t i = 0;
    while (i < l->n_steps && l->steps[i] != print)
        i++;
    return i < l->n_steps;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* The first line names the format, and "#" begins a comment. */
static void check_line(void *user, const char *line, line_visit *v)
{
    clef_proof p;
    int32_t *is_damaged = user;
    if (v->n && *line != '#')
        *is_damaged |= !clef__proof_parse(line, &p);
}

static int is_tuning_damaged(const char *path)
{
    clef_tune_db *db = calloc(1, sizeof *db);
    char *text = NULL;
    size_t n = 0;
    int is_damaged = 1;
    if (db && !clef__os_read(path, MAX_TEXT_BYTES, &text, &n, NULL))
        is_damaged = clef__tune_parse(db, text, NULL) || db->n_damaged;
    free(text);
    clef__tune_db_free(db);
    return is_damaged;
}

static int is_seal_broken(const char *path)
{
    clef_mapping file;
    if (clef__os_map(path, &file, NULL))
        return 1;
    const int is_sealed = clef__sha256_is_sealed(file.data, file.n_bytes);
    clef__os_unmap(&file);
    return !is_sealed;
}

static int is_file_damaged(const clef__cache_file *f)
{
    int32_t is_damaged = 0;
    line_visit lines = {.visit = check_line, .user = &is_damaged};
    if (f->kind == CLEF_CACHE_PROGRAM)
        return !clef__cache_is_whole(f->path);
    if (f->kind == CLEF_CACHE_TUNING)
        return is_tuning_damaged(f->path);
    if (f->kind == CLEF_CACHE_TOKENS)
        return is_seal_broken(f->path);
    if (f->kind == CLEF_CACHE_PROOFS)
        visit_lines(f, &lines);
    return is_damaged || (f->kind == CLEF_CACHE_PROOFS && !lines.n);
}

/* Reads proofs and tunings first, because the proofs say which programs are fused steps. */
clef_status clef_cache_list(const char *dir, const clef_cache_report *report, clef_error *err)
{
    clef__cache_files files;
    list l = {.report = report};
    const clef_status s = clef__cache_scan(dir, &files, err);
    line_visit lines = {.visit = list_line, .user = &l};
    for (int32_t i = 0; i < files.n; i++) {
        l.n_reported = 0;
        if (files.at[i].kind == CLEF_CACHE_PROOFS || files.at[i].kind == CLEF_CACHE_TUNING)
            visit_lines(&files.at[i], &lines);
    }
    for (int32_t i = 0; i < files.n && report->entry; i++) {
        const clef__cache_file *f = &files.at[i];
        const int is_fused = f->kind == CLEF_CACHE_PROGRAM && is_step(&l, f->path);
        const clef_cache_entry entry = {.kind = is_fused ? CLEF_CACHE_FUSED_STEP : f->kind,
                                        .path = f->path,
                                        .n_bytes = f->n_bytes,
                                        .age = (int64_t)time(NULL) - f->used,
                                        .is_damaged = report->verify && is_file_damaged(f)};
        report->entry(report->user, &entry);
    }
    free(files.at);
    free(l.steps);
    return s;
}

/* ---- clearing -------------------------------------------------------------------------------- */

typedef struct clearing {
    uint32_t kinds;
    int32_t n;
} clearing;

static void clear_entry(void *user, const clef_cache_entry *entry)
{
    clearing *c = user;
    if (!(c->kinds >> entry->kind & 1))
        return;
    clef__os_remove(entry->path);
    c->n++;
}

clef_status clef_cache_clear(const char *dir, uint32_t kinds, int32_t *n_removed, clef_error *err)
{
    clearing c = {.kinds = kinds};
    const clef_status s = clef_cache_list(dir, &(clef_cache_report){.entry = clear_entry, .user = &c}, err);
    char lock[CLEF_CACHE_PATH_BYTES];
    const int n = snprintf(lock, sizeof lock, "%s/" CLEF_BUILD_LOCK, dir);
    if (!s && (kinds >> CLEF_CACHE_PROGRAM & 1) && n > 0 && (size_t)n < sizeof lock)
        clef__os_remove(lock);
    *n_removed = c.n;
    return s;
}

typedef struct filter {
    char *text;
    size_t n, room;
    int32_t n_dropped;
} filter;

static void keep_line(void *user, const char *line, line_visit *v)
{
    filter *f = user;
    clef_proof p;
    clef_cache_aside aside;
    if (read_aside(line, v, &p, &aside))
        f->n_dropped++;
    else
        f->n += (size_t)snprintf(f->text + f->n, f->room - f->n, "%s\n", line);
}

static clef_status forget_in_file(const clef__cache_file *file, int32_t *n_forgotten, clef_error *err)
{
    filter f = {.room = (size_t)file->n_bytes + MAX_TEXT_BYTES / 16};
    line_visit lines = {.visit = keep_line, .user = &f};
    f.text = malloc(f.room);
    if (!f.text)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", file->path);
    visit_lines(file, &lines);
    const clef_status s = f.n_dropped ? clef__os_write(file->path, f.text, f.n, err) : CLEF_OK;
    *n_forgotten += s ? 0 : f.n_dropped;
    free(f.text);
    return s;
}

/* A fused step's journal may have a result that no process has read yet, so it is removed too. */
clef_status clef_cache_clear_aside(const char *dir, int32_t *n_forgotten, clef_error *err)
{
    clef__cache_files files;
    *n_forgotten = 0;
    clef_status s = clef__cache_scan(dir, &files, err);
    for (int32_t i = 0; i < files.n && !s; i++) {
        const clef__cache_file *f = &files.at[i];
        if (f->kind == CLEF_CACHE_PROOFS || f->kind == CLEF_CACHE_TUNING)
            s = forget_in_file(f, n_forgotten, err);
        else if (f->kind == CLEF_CACHE_SPEED &&
                 (strstr(f->path, "/probe/") || strstr(f->path, "/measure/"))) /* probes run again */
            clef__os_remove(f->path);
        else if (f->kind == CLEF_CACHE_TEMPORARY && strstr(f->path, "/proof/step-") &&
                 clef__trial_read_journal(f->path, 0).is_known) {
            clef__os_remove(f->path);
            ++*n_forgotten;
        }
    }
    free(files.at);
    return s;
}
