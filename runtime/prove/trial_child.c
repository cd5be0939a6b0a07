/* The child of a trial: tries the units of a case file that no other child has claimed. It notes in its
 * journal which unit it begins ("begin UNIT"), how that ends ("done UNIT VERDICT WORST CODE"), that no
 * unit is left ("end"), and before it whether it then waits for other work ("waits", device/child.h).
 *
 * A kernel that faults may make all later commands of its context fail, or of its process. The unit after it
 * is innocent, so a failure counts only in a fresh context where a small launch works. A child that cannot
 * have such a context ends; the next one notes that the device works ("works") before the failure counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/hash.h"
#include "runtime/device/cache_folder.h"
#include "runtime/device/child.h"
#include "runtime/device/probe_child.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"
#include "runtime/prove/prover.h"
#include "runtime/prove/trial.h"

enum { MAX_FILE_BYTES = 64 << 20, DEFAULT_SECONDS = 60, LARGE_BYTES = 64 << 20, CLOSE_SECONDS = 5 };

double clef__trial_seconds(int32_t n_hung)
{
    const char *text = clef__debug("proof_seconds");
    const double seconds = text ? strtod(text, NULL) : 0;
    const int32_t doublings = n_hung < 0 ? 0 : n_hung < CLEF_PROOF_OCCASIONS ? n_hung : CLEF_PROOF_OCCASIONS;
    return (seconds > 0 ? seconds : (double)DEFAULT_SECONDS) * (double)(1 << doublings);
}

/* Returns the verdict on a trial with status `s` and error `worst`, relative to the tolerance. A failure that
 * is not the kernel's fault, such as lack of memory, gives CLEF_PROOF_UNTRIED. */
static clef_verdict verdict_on(clef_status s, const clef_error *why, double worst)
{
    const int memory =
        s == CLEF_E_NOMEM || (s == CLEF_E_CL && (why->cl_code == CL_MEM_OBJECT_ALLOCATION_FAILURE ||
                                                 why->cl_code == CL_OUT_OF_HOST_MEMORY));
    if (!s)
        return worst <= 1 ? CLEF_PROOF_RIGHT : CLEF_PROOF_WRONG;
    return (s == CLEF_E_CL && !memory) || s == CLEF_E_BUILD ? CLEF_PROOF_REFUSED : CLEF_PROOF_UNTRIED;
}

/* ---- the journal ----------------------------------------------------------------------------- */

static void note_begin(int32_t number, double seconds)
{
    char begin[32], crashed[48], hung[48];
    snprintf(begin, sizeof begin, "begin %d\n", (int)number);
    snprintf(crashed, sizeof crashed, "\ndone %d %s 0\n", (int)number,
             clef__verdict_names[CLEF_PROOF_CRASHED]);
    snprintf(hung, sizeof hung, "\ndone %d %s 0\n", (int)number, clef__verdict_names[CLEF_PROOF_HUNG]);
    clef__os_journal_write(begin);
    clef__os_guard(seconds, crashed, hung);
}

static void note_end(int32_t number, const char *verdict, double worst, int32_t code)
{
    char done[64];
    clef__os_guard_end();
    snprintf(done, sizeof done, "\ndone %d %s %.3g %d\n", (int)number, verdict, worst, (int)code);
    clef__os_journal_write(done);
}

/* A failure while memory is short says nothing about the unit, which stays unknown. */
static clef_status note_verdict(int32_t number, clef_status s, const clef_error *why, clef_verdict verdict,
                                double worst, clef_error *err)
{
    const int is_in_doubt = s == CLEF_E_NOMEM || (verdict >= CLEF_PROOF_WRONG && clef__os_memory_is_short());
    note_end(number, is_in_doubt ? "killed" : clef__verdict_names[verdict], worst, s ? why->cl_code : 0);
    return is_in_doubt ? clef__fail(err, CLEF_E_NOMEM, "no memory for unit %d: %s", (int)number, why->text)
                       : CLEF_OK;
}

/* ---- a context that failed --------------------------------------------------------------------- */

static int makes_suspect(clef_status s, const clef_error *why)
{
    return s && clef_error_is_lost(why);
}

static clef_status note_works(clef_device *dev, clef_error *err)
{
    clef__os_guard(clef__trial_seconds(0), "", "");
    const int works = clef__device_works(dev);
    clef__os_guard_end();
    if (!works)
        return clef__fail(err, CLEF_E_DEVICE, "%s: not even a small kernel runs in a new process",
                          dev->info.name);
    clef__os_journal_write("works\n");
    return CLEF_OK;
}

/* 1 when the device computes in a context that no unit has used. */
static int gets_fresh_context(clef_device *dev)
{
    return clef_device_reopen(dev, NULL) == CLEF_OK && clef__device_works(dev);
}

/* 1 when a buffer cannot be used that is larger than those of a case. */
static int device_memory_is_short(clef_device *dev)
{
    const uint64_t most = dev->info.caps.max_alloc_bytes;
    const size_t n = most < LARGE_BYTES ? (size_t)most : LARGE_BYTES;
    cl_int code;
    cl_mem mem = clCreateBuffer(dev->context, CL_MEM_READ_WRITE, n, NULL, &code);
    const int works = mem && !clef__device_fill(dev, mem, 0, n) && clef__device_works(dev);
    (void)clFinish(dev->queue); /* the next unit is to have this memory */
    if (mem)
        clReleaseMemObject(mem);
    return !works;
}

/* ---- units ----------------------------------------------------------------------------------- */

static clef_status run_entry(clef_device *dev, const clef_proof_entry *e, double *worst, clef_error *why)
{
    clef_graph *g = NULL;
    clef_proof_case c = e->c;
    clef_status s = clef_graph_parse(e->text, e->n, e->op, &g, why);
    c.graph = g;
    if (!s)
        s = clef__proof_run(dev, &c, worst, why);
    clef_graph_destroy(g);
    return s;
}

/* What this process works with, file after file. */
typedef struct worker {
    clef_device *dev; /* NULL: not open yet */
    int waits;        /* for the next file: nothing went wrong, and nothing is left to be written */
    int tried_cases;
} worker;

static clef_status try_case(worker *w, const char *unit, int32_t number, clef_error *err)
{
    clef_device *dev = w->dev;
    clef_proof_entry e;
    clef_error why = {0};
    double worst = 0;
    if (!clef__trial_read_case(unit, &e))
        return clef__fail(err, CLEF_E_FORMAT, "case %d is malformed", (int)number);
    note_begin(number, clef__trial_seconds(e.n_hung));
    clef_status s = run_entry(dev, &e, &worst, &why);
    w->waits &= !s && worst <= 1;
    if (makes_suspect(s, &why) && gets_fresh_context(dev))
        s = run_entry(dev, &e, &worst, &why);
    if (makes_suspect(s, &why) && !clef__device_works(dev)) {
        note_end(number, clef__os_memory_is_short() ? "killed" : clef__verdict_names[CLEF_PROOF_FAULTED],
                 worst, why.cl_code);
        return clef__fail_cl(err, CLEF_E_CL, why.cl_code, "case %d: %s", (int)number, why.text);
    }
    if (makes_suspect(s, &why) && device_memory_is_short(dev)) /* NVIDIA has one code for both */
        why.cl_code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    clef__programs_save_cheap(dev); /* otherwise the waiting plan would build them again */
    return note_verdict(number, s, &why, verdict_on(s, &why, worst), worst, err);
}

/* Claims a unit by creating a file. Returns 1 in the first child that does so. */
static int claim_unit(const char *path, int32_t number)
{
    char name[CLEF__TRIAL_PATH];
    snprintf(name, sizeof name, "%s.%d", path, (int)number);
    return clef__os_create(name);
}

static clef_status try_cases(worker *w, const char *path, const char **units, int32_t n, int32_t first,
                             clef_error *err)
{
    clef_status s = CLEF_OK;
    w->tried_cases = 1;
    w->waits = w->dev->info.caps.is_cpu;
    for (int32_t i = 0; i < n && !s; i++) {
        const int32_t number = (int32_t)(((int64_t)first + i) % n);
        if (claim_unit(path, number))
            s = try_case(w, units[number], number, err);
    }
    w->waits &= !s && !clef__programs_unsaved(w->dev);
    if (!s)
        clef__os_journal_write(w->waits ? "waits\nend\n" : "end\n");
    return s;
}

/* ---- the fused step -------------------------------------------------------------------------- */

/* Stores the proof of a right fused step, and removes the journal. Any other result stays in the journal for
 * the process that tells the user, because this child's caller may have ended. */
static void keep_step(clef_device *dev, const clef__fused_unit *u)
{
    const clef_proof proof = {.print = clef__fused_print(&u->key), .op = CLEF__FUSED_OP, .variant = "-"};
    clef_proofs *known = NULL;
    if (clef__proofs_open(dev, &known, NULL) || clef__proofs_put(known, &proof, NULL))
        return;
    (void)clef__proofs_save(dev, known, NULL);
    clef__os_remove(u->journal);
}

/* Tries a fused step. The caller does not wait for this child, or waits for nothing else. No other child
 * works on the file. */
static clef_status try_step(clef_device *dev, const char *path, char *unit, clef_error *err)
{
    clef__os_remove(path);
    if (clef__background_allowed(dev))
        clef__os_go_to_background();
    dev->cache_policy = CLEF__SAVE_NEVER; /* other processes store the other programs */
    clef__fused_unit u;
    clef_status s = clef__fused_read_unit(dev, unit, &u, err);
    if (!s)
        s = clef__os_journal_open(u.journal, err);
    if (s || clef__cache_has(dev, &u.key) || clef__trial_read_journal(u.journal, 0).is_known)
        return s; /* another child has tried it meanwhile */
    clef_error why = {0};
    clef__os_journal_clear();
    note_begin(0, u.kinds.n * clef__trial_seconds(u.n_hung)); /* to build it; its cases have less */
    s = clef__fused_try_unit(dev, &u, &why);
    const int differs = s == CLEF_E_CL && !why.cl_code;
    const clef_verdict verdict = differs ? CLEF_PROOF_WRONG : verdict_on(s, &why, 0);
    s = note_verdict(0, s, &why, verdict, 0, err);
    clef__os_journal_write("end\n");
    if (verdict == CLEF_PROOF_RIGHT)
        keep_step(dev, &u);
    return s;
}

/* ---- entry ----------------------------------------------------------------------------------- */

static clef_status try_units(worker *w, const char *path, const char *text, int32_t first, clef_error *err)
{
    char journal[CLEF__TRIAL_PATH];
    const int32_t n = clef__trial_units(text, NULL, 0);
    const char **units = n > 0 ? malloc((size_t)n * sizeof *units) : NULL;
    if (n < 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: expected units to try", path);
    if (n && !units)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d units", (int)n);
    clef__trial_units(text, units, n);
    snprintf(journal, sizeof journal, "%s.%d.out", path, (int)first);
    clef_status s = CLEF_OK;
    if (n && clef__fused_is_unit(units[0]))
        s = try_step(w->dev, path, (char *)(uintptr_t)units[0], err);
    else {
        const int is_second = clef__os_is_file(journal); /* after one that ended within a unit */
        s = clef__os_journal_open(journal, err);
        if (!s && is_second)
            s = note_works(w->dev, err);
        if (!s)
            s = try_cases(w, path, units, n, first, err);
    }
    free(units);
    return s;
}

/* While it lives this process holds a place of its own in the cache's lock, so that clef_cache_export() can
 * wait for it. */
static void show_that_it_works(const char *path)
{
    char dir[CLEF_CACHE_PATH_BYTES], lock[CLEF_CACHE_PATH_BYTES + sizeof CLEF_BUILD_LOCK];
    const struct {
        int64_t process;
        double seconds;
    } self = {clef__os_pid(), clef__os_seconds()};
    uint64_t place = clef__hash(CLEF__HASH_START, &self, sizeof self);
    place = clef__hash(place, path, strlen(path));
    if (clef_cache_dir(dir, sizeof dir) && clef__os_is_dir(dir)) {
        snprintf(lock, sizeof lock, "%s/" CLEF_BUILD_LOCK, dir);
        (void)clef__os_lock(lock, place);
    }
}

static clef_status open_device(worker *w, const char *which, clef_error *err)
{
    clef_proofs *known = NULL; /* opening them puts the device's limits in force */
    const int is_open = w->dev != NULL;
    clef_status s = CLEF_OK;
    if (!is_open) { /* a device that does not open ends only this process */
        clef__os_guard(clef__trial_seconds(0), "", "");
        s = clef_device_open(which, NULL, &w->dev, err);
        clef__os_guard_end();
    }
    if (s)
        return s;
    clef__os_guard_is_cpu(w->dev->info.caps.is_cpu);
    s = clef__proofs_open(w->dev, &known, err);
    return s || !is_open ? s : clef__proofs_read_again(w->dev, known, err);
}

static clef_status do_work(worker *w, const char *which, const char *path, int32_t first, clef_error *err)
{
    char *text = NULL;
    size_t n = 0;
    w->waits = 0;
    clef_status s = clef__os_read(path, MAX_FILE_BYTES, &text, &n, err);
    if (s)
        return s;
    if (strncmp(text, clef__probe_head, strlen(clef__probe_head)) == 0)
        s = clef__probe_as_child(which, path, text, &w->dev, &w->waits, err);
    else {
        s = open_device(w, which, err);
        if (!s)
            s = try_units(w, path, text, first, err);
    }
    free(text);
    return s;
}

clef_status clef_prove(const char *device, const char *path, int32_t first, const char *mailbox,
                       clef_error *err)
{
    char at[CLEF__TRIAL_PATH - 32];
    worker w = {0};
    clef_status s;
    snprintf(at, sizeof at, "%s", path);
    show_that_it_works(path);
    do
        s = do_work(&w, device, at, first, err);
    while (w.waits && mailbox && clef__child_wait(mailbox, at, sizeof at, &first));
    if (s) { /* the driver may not come back from closing a lost context */
        clef__os_journal_close();
        if (w.dev)
            w.dev->cache_policy = CLEF__SAVE_NEVER;
        clef__os_guard(CLOSE_SECONDS, "", "");
    } else if (w.tried_cases)
        clef__programs_save_in_background(w.dev);
    clef_device_close(w.dev);
    return s;
}
