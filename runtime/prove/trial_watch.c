/* The caller's side of trials: starts children on a case file and reads their journals. If a child dies, it
 * is restarted for the units that are left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/child.h"
#include "runtime/os/os.h"
#include "runtime/prove/trial.h"

enum {
    MAX_CHILDREN = 8,
    MAX_KILLED = 8,   /* how often children that were killed or ran out of memory are restarted */
    END_SECONDS = 10, /* that a child takes to end after a verdict after which it ends */
    JOURNAL_BYTES = 64 << 20
};

typedef struct child {
    clef__child process;
    char journal[CLEF__TRIAL_PATH];
    int32_t first; /* the unit that it starts with */
    int32_t runs;
    int32_t at;         /* the unit it works on; -1: none */
    int32_t faulted;    /* the last unit that made its context fail; -1: none */
    int32_t n_done;     /* units that it has finished */
    int32_t n_at_start; /* n_done when it was last started */
    int32_t n_steps;
    int32_t had_no_memory; /* its last unit ended for lack of memory */
    int32_t is_ending;     /* its last unit ended by something after which the child ends, too */
    double ending_since;
    int32_t waits;     /* its journal says that it waits for more */
    int32_t has_ended; /* its journal says that no unit is left */
} child;

struct clef__trials {
    clef_device *dev;
    char cases[CLEF__TRIAL_PATH];
    clef__trial_result *results;
    child children[MAX_CHILDREN];
    int32_t n_units, n_children, n_killed;
    int has_one_child; /* the child removes the case file, and is not started again */
    int was_interrupted;
};

/* ---- children -------------------------------------------------------------------------------- */

/* With a limit on groups, which children read from the disk when they open their device, a new one. */
static clef_status start_child(clef__trials *t, child *c, clef_error *err)
{
    clef_proofs *known = NULL;
    const int has_known = clef__proofs_open(t->dev, &known, NULL) == CLEF_OK;
    const int32_t group = has_known ? known->tried_group : 0;
    const clef_status s = has_known && clef__proofs_max_group(known) == 0
                              ? clef__child_start(t->dev, t->cases, c->first, group, &c->process, err)
                              : clef__child_spawn(t->dev, t->cases, c->first, group, &c->process, err);
    c->runs = !s;
    c->at = -1;
    c->had_no_memory = c->is_ending = 0;
    c->ending_since = 0;
    c->n_at_start = c->n_done;
    c->waits = 0;
    return s;
}

/* ---- journals -------------------------------------------------------------------------------- */

/* Parses the verdict of "done UNIT VERDICT WORST CODE". "killed" is not a verdict. */
static int read_verdict(const char *word, clef_verdict *out)
{
    for (int v = 0; clef__verdict_names[v]; v++)
        if (strcmp(word, clef__verdict_names[v]) == 0) {
            *out = (clef_verdict)v;
            return 1;
        }
    return 0;
}

static void read_line(child *c, const char *line, clef__trial_result *results, int32_t n_units)
{
    char word[8], verdict[16];
    int unit = -1, code = 0; /* crashes and hangs have no code */
    clef_verdict how;
    double worst = 0;
    const int fields = sscanf(line, "%7s %d %15s %lf %d", word, &unit, verdict, &worst, &code);
    c->waits |= fields == 1 && strcmp(word, "waits") == 0;
    c->has_ended |= fields == 1 && strcmp(word, "end") == 0;
    if (fields == 1 && strcmp(word, "works") == 0 && c->faulted >= 0)
        results[c->faulted].is_known = 1; /* the device works for the next child: the unit was at fault */
    c->n_steps += (int32_t)strspn(line, ".");
    if (fields < 2 || unit < 0 || unit >= n_units)
        return;
    c->at = fields == 2 ? unit : -1;
    c->n_done += fields >= 4;
    const int is_new = fields >= 4 && c->n_done > c->n_at_start; /* not of the child before this one */
    c->had_no_memory = is_new && strcmp(verdict, "killed") == 0;
    c->is_ending = is_new && (c->had_no_memory || (read_verdict(verdict, &how) && how >= CLEF_PROOF_FAULTED));
    clef__trial_result *r = &results[unit];
    if (fields >= 4 && !r->is_known && read_verdict(verdict, &r->verdict)) {
        r->is_known = r->verdict != CLEF_PROOF_FAULTED;
        c->faulted = r->is_known ? c->faulted : unit;
        r->worst = worst;
        r->cl_code = code;
    }
}

/* Reads everything that the child has written, from the start. */
static void read_journal(child *c, clef__trial_result *results, int32_t n_units)
{
    char *text = NULL;
    size_t n = 0;
    if (!clef__os_is_file(c->journal) || clef__os_read(c->journal, JOURNAL_BYTES, &text, &n, NULL))
        return;
    c->at = c->faulted = -1;
    c->n_done = c->n_steps = 0;
    for (char *line = text, *end = text; end; line = end + 1) {
        end = strchr(line, '\n');
        if (end)
            *end = 0;
        read_line(c, end || *line == '.' ? line : "", results, n_units);
    }
    free(text);
}

clef__trial_result clef__trial_read_journal(const char *journal, int32_t unit)
{
    child c = {.at = -1, .faulted = -1};
    clef__trial_result none = {0}, *results = calloc((size_t)unit + 1, sizeof *results);
    snprintf(c.journal, sizeof c.journal, "%s", journal);
    if (!results)
        return none;
    read_journal(&c, results, unit + 1);
    none = results[unit];
    free(results);
    return none;
}

/* Handles the unit that was running when its child ended without a note. If the child was killed, the unit
 * stays unknown. */
static void note_end(clef__trials *t, child *c, int was_killed)
{
    FILE *journal = fopen(c->journal, "ab"); /* so that the unit no longer counts as running */
    if (journal) {
        fprintf(journal, "\ndone %d %s 0\n", (int)c->at,
                was_killed ? "killed" : clef__verdict_names[CLEF_PROOF_CRASHED]);
        fclose(journal);
    }
    if (!was_killed)
        t->results[c->at] = (clef__trial_result){.verdict = CLEF_PROOF_CRASHED, .is_known = 1};
    c->n_done++;
    c->at = -1;
}

/* ---- watching -------------------------------------------------------------------------------- */

/* Gives the journal another file: a child that cannot end keeps the lock of the one that it has. */
static void renew_journal(const child *c)
{
    char *text = NULL;
    size_t n = 0;
    if (!clef__os_read(c->journal, JOURNAL_BYTES, &text, &n, NULL))
        (void)clef__os_write(c->journal, text, n, NULL);
    free(text);
}

/* 1 for a child that should have ended: a driver may keep it in the kernel. */
static int is_stuck(child *c)
{
    const double now = clef__os_seconds();
    if (!c->is_ending)
        c->ending_since = 0;
    else if (c->ending_since == 0)
        c->ending_since = now;
    return c->ending_since > 0 && now - c->ending_since > END_SECONDS;
}

/* Reads a child's journal, and restarts the child if it died. A child that finished no unit since its start
 * is not restarted: its device does not open. */
static clef_status watch_child(clef__trials *t, child *c, clef_error *err)
{
    int code = 0;
    const int is_over = clef__os_ended(c->process.process, &code);
    if (is_over && clef__child_missed(&c->process))
        return start_child(t, c, err);
    read_journal(c, t->results, t->n_units);
    const int is_left_behind = !is_over && !c->has_ended && is_stuck(c);
    if (!c->has_ended && !is_over && !is_left_behind)
        return CLEF_OK;
    if (is_left_behind) {
        clef__os_kill(c->process.process);
        renew_journal(c);
    }
    c->runs = 0;
    /* Wine gives exit code 0 for a process that a signal ended. It was within a unit then, if its journal is
     * still there. */
    const int is_in_unit = c->at >= 0 && clef__os_is_file(c->journal);
    c->has_ended |= is_over && code == 0 && !is_in_unit;
    if (c->has_ended) {
        if (!is_over && c->waits)
            clef__child_keep(t->dev, &c->process);
        else if (!is_over)
            clef__os_leave(c->process.process);
        return CLEF_OK;
    }
    const int was_killed = clef__os_was_killed(code);
    t->was_interrupted |= clef__os_was_interrupted(code);
    t->n_killed += was_killed || c->had_no_memory;
    if (t->was_interrupted)
        return CLEF_OK;
    if (c->at >= 0)
        note_end(t, c, was_killed);
    const int did_work = c->n_done > c->n_at_start || c->process.was_waiting;
    const int is_worth_it = did_work && t->n_killed <= MAX_KILLED && !t->has_one_child;
    return is_worth_it ? start_child(t, c, err) : CLEF_OK;
}

clef_status clef__trials_poll(clef__trials *t, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < t->n_children && !s && !t->was_interrupted; i++)
        if (t->children[i].runs)
            s = watch_child(t, &t->children[i], err);
    return s;
}

int clef__trials_are_over(const clef__trials *t)
{
    int32_t i = 0;
    while (i < t->n_children && !t->children[i].runs)
        i++;
    return i == t->n_children || t->was_interrupted;
}

int clef__trials_were_interrupted(const clef__trials *t)
{
    return t->was_interrupted;
}

const clef__trial_result *clef__trials_result(const clef__trials *t, int32_t unit)
{
    return &t->results[unit];
}

int32_t clef__trials_n_steps(const clef__trials *t)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_children; i++)
        n += t->children[i].n_steps;
    return n;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void name_child(const clef__trials *t, const char *journal, int32_t i, child *c)
{
    const int first = (int)((int64_t)i * t->n_units / t->n_children);
    c->first = first;
    if (journal) {
        snprintf(c->journal, sizeof c->journal, "%s", journal);
        return;
    }
    snprintf(c->journal, sizeof c->journal, "%.*s.%d.out", CLEF__TRIAL_PATH - 32, t->cases, first);
    clef__os_remove(c->journal);
}

clef_status clef__trials_start(clef_device *dev, const char *cases, const char *journal, int32_t n_units,
                               int32_t n_children, clef__trials **out, clef_error *err)
{
    clef__trials *t = calloc(1, sizeof *t);
    *out = t;
    if (t)
        t->results = calloc((size_t)n_units + 1, sizeof *t->results);
    if (!t || !t->results) {
        clef__trials_leave(t);
        *out = NULL;
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d trials", (int)n_units);
    }
    t->dev = dev;
    t->n_units = n_units;
    t->has_one_child = journal != NULL;
    t->n_children = n_children < MAX_CHILDREN ? n_children : MAX_CHILDREN;
    t->n_children = t->n_children < n_units ? t->n_children : n_units;
    snprintf(t->cases, sizeof t->cases, "%s", cases);
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < t->n_children && !s; i++) {
        name_child(t, journal, i, &t->children[i]);
        s = start_child(t, &t->children[i], err);
    }
    if (s) {
        clef__trials_destroy(t);
        *out = NULL;
    }
    return s;
}

void clef__trials_destroy(clef__trials *t)
{
    char name[CLEF__TRIAL_PATH + 16];
    for (int32_t i = 0; t && i < t->n_children; i++) {
        if (t->children[i].runs) {
            clef__os_kill(t->children[i].process.process);
            (void)clef__child_missed(&t->children[i].process);
        }
        clef__os_remove(t->children[i].journal);
        t->children[i].runs = 0;
    }
    for (int32_t i = 0; t && i < t->n_units; i++) {
        snprintf(name, sizeof name, "%s.%d", t->cases, (int)i);
        clef__os_remove(name);
    }
    if (t)
        clef__os_remove(t->cases);
    clef__trials_leave(t);
}

void clef__trials_leave(clef__trials *t)
{
    for (int32_t i = 0; t && i < t->n_children; i++)
        if (t->children[i].runs)
            clef__os_leave(t->children[i].process.process);
    if (t)
        free(t->results);
    free(t);
}
