/* The rules of trials: which time counts against a process that does not come back, and how long a hang is
 * remembered. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/device/child.h"
#include "runtime/os/os.h"
#include "runtime/os/os_clock.h"
#include "runtime/prove/trial.h"
#include "tests/check.h"

enum { GPU, CPU };

/* Of a quarter of a second between two readings. */
static double counts(double ran, double waited, clef__os_usage then, int is_cpu)
{
    const clef__os_usage before = {.ran = 100, .waited = 50};
    then.ran = before.ran + ran;
    then.waited = before.waited + waited;
    return clef__os_usage_counts(&before, &then, 0.25, is_cpu);
}

static void assert_near(double got, double expected)
{
    if (fabs(got - expected) > 1e-3)
        fail_msg("expected %g, got %g", expected, got);
}

TEST(test_clock)
{
    const clef__os_usage runs = {.n_ready = 1}, sleeps = {0}, stopped = {.n_stopped = 1},
                         reads = {.n_on_disk = 1};
    assert_near(counts(0.25, 0, runs, CPU), 0.25);         /* an idle machine: all of it */
    assert_near(counts(0.05, 0.2, runs, CPU), 0.05);       /* a fifth of a processor */
    assert_near(counts(0.1, 0, sleeps, CPU), 0.1);         /* it slept for the rest: processor time */
    assert_near(counts(0, 0, runs, CPU), 0);               /* ready all the time, and never ran */
    assert_near(counts(0.01, 1.5, runs, CPU), 0.25 / 151); /* a long wait is added up when it ends */
    assert_near(counts(1.0, 0, runs, CPU), 0.25);          /* four threads */
    assert_near(counts(0.2, 0.8, runs, CPU), 0.05);        /* four, a fifth of a processor each */
    assert_near(counts(0, 0, sleeps, CPU), 0.25);          /* a deadlock */
    assert_near(counts(0, 0, reads, CPU), 0);              /* a disk, swapped memory */
    assert_near(counts(0, 0, stopped, CPU), 0);            /* SIGSTOP */
    assert_near(counts(0.001, 0, sleeps, GPU), 0.25);      /* the host waits for its GPU */
    assert_near(counts(0.01, 0.09, sleeps, GPU), 0.16);    /* but for the time that it waited for a core */
    assert_near(counts(0, 0, reads, GPU), 0.25);           /* a driver that waits in the kernel */
    assert_near(counts(0, 0, stopped, GPU), 0);
    assert_near(clef__os_usage_counts(&sleeps, &sleeps, 120, CPU), 1); /* the reader itself was stopped */
    assert_near(clef__os_usage_counts(&runs, &sleeps, -1, CPU), 0);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A folder as /proc/self is, of three threads. */
TEST(test_readings)
{
    static const char *const stats[] = {"7 (a) b) R 1 2\n", "8 (pool) S 1\n", "9 (x) D 1\n"};
    char root[64], path[128];
    clef__os_usage u;
    snprintf(root, sizeof root, "trial-%d", (int)getpid());
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/task/%d", root, 7 + i);
        assert_int_equal(clef__os_make_dirs(path, NULL), CLEF_OK);
        snprintf(path, sizeof path, "%s/task/%d/schedstat", root, 7 + i);
        write_file(path, "2000000000 500000000 17\n");
        snprintf(path, sizeof path, "%s/task/%d/stat", root, 7 + i);
        write_file(path, stats[i]);
    }
    clef__os_usage_read(root, 0, &u);
    assert_near(u.ran, 6);
    assert_near(u.waited, 1.5);
    assert_int_equal(u.n_ready, 1);
    assert_int_equal(u.n_on_disk, 1);
    assert_int_equal(u.n_stopped, 0);
    clef__os_usage_read(root, 9, &u); /* without the thread that reads */
    assert_near(u.ran, 4);
    assert_int_equal(u.n_on_disk, 0);
    clef__os_usage_read("/nowhere", 0, &u); /* this process's own time */
    assert_true(u.ran > 0 && u.ran < 3600);
    snprintf(path, sizeof path, "rm -rf %s", root);
    assert_int_equal(system(path), 0);
}

static clef_verdict verdict_of(const clef_proofs *p)
{
    return clef__proofs_find(p, 5)->verdict;
}

/* Each put is another occasion, since it is by a process that read the last one from disk. */
static void hang(clef_proofs *p)
{
    const clef_proof hung = {.print = 5, .op = "softmax", .variant = "groups", .verdict = CLEF_PROOF_HUNG};
    assert_int_equal(clef__proofs_put(p, &hung, NULL), CLEF_OK);
    assert_true(clef__proof_is_bad(clef__proofs_find(p, 5)));    /* in this process */
    assert_int_equal(clef__proofs_put(p, &hung, NULL), CLEF_OK); /* once a process */
    p->at[0].is_new = 0;
}

TEST(test_suspicion)
{
    clef_proofs *p = calloc(1, sizeof *p);
    const clef_proof right = {.print = 5, .op = "softmax", .variant = "groups"};
    assert_non_null(p);
    for (int n = 1; n < CLEF_PROOF_OCCASIONS; n++) {
        hang(p);
        assert_int_equal(clef__proofs_find(p, 5)->n_hung, n);
        assert_true(clef__proof_is_suspicion(clef__proofs_find(p, 5)));
        assert_false(clef__proof_is_settled(clef__proofs_find(p, 5))); /* tried again */
        assert_null(clef__proofs_find_bad(p, "softmax", "groups"));
    }
    clef_proofs *other = calloc(1, sizeof *other); /* the next time it comes back */
    assert_non_null(other);
    hang(other);
    assert_int_equal(clef__proofs_put(other, &right, NULL), CLEF_OK);
    assert_int_equal(verdict_of(other), CLEF_PROOF_RIGHT);
    clef__proofs_free(other);
    hang(p); /* the third occasion */
    assert_true(clef__proof_is_settled(clef__proofs_find(p, 5)));
    assert_non_null(clef__proofs_find_bad(p, "softmax", "groups"));
    assert_int_equal(clef__proofs_put(p, &right, NULL), CLEF_OK);
    assert_int_equal(verdict_of(p), CLEF_PROOF_HUNG);
    clef__proofs_free(p);
    assert_near(clef__trial_seconds(1) / clef__trial_seconds(0), 2);
    assert_near(clef__trial_seconds(2) / clef__trial_seconds(0), 4);
}

/* A group that was refused limits all kernels; what lacked resources in larger groups is tried again. */
TEST(test_groups)
{
    clef_proofs *p = calloc(1, sizeof *p);
    clef_proof large = {.print = 7,
                        .op = "gather",
                        .variant = "-",
                        .verdict = CLEF_PROOF_REFUSED,
                        .items = 256},
               parsed;
    assert_non_null(p);
    large.cl_code = -54; /* CL_INVALID_WORK_GROUP_SIZE */
    assert_true(clef__proof_limits_groups(&large));
    large.cl_code = -5; /* CL_OUT_OF_RESOURCES */
    assert_false(clef__proof_limits_groups(&large));
    assert_true(clef__proof_may_limit_groups(&large));
    assert_int_equal(clef__proofs_put(p, &large, NULL), CLEF_OK);
    assert_int_equal(clef__proofs_max_group(p), 0);
    assert_false(clef__proof_is_outgrown(p, clef__proofs_find(p, 7)));
    assert_non_null(clef__proofs_find_bad(p, "gather", "-"));
    assert_true(clef__proofs_try_group(p, &large)); /* for a while */
    assert_false(clef__proofs_try_group(p, &large));
    assert_int_equal(clef__proofs_max_group(p), 128);
    assert_true(clef__proof_is_outgrown(p, clef__proofs_find(p, 7)));
    p->tried_group = 0;
    assert_int_equal(clef__proofs_max_group(p), 0);
    assert_non_null(clef__proofs_find_bad(p, "gather", "-"));
    assert_int_equal(clef__proofs_note_group(p, &large, NULL), CLEF_OK);
    assert_int_equal(clef__proofs_max_group(p), 128);
    assert_false(clef__proofs_try_group(p, &large));
    assert_true(clef__proof_is_outgrown(p, clef__proofs_find(p, 7)));
    assert_null(clef__proofs_find_bad(p, "gather", "-"));
    assert_int_equal(clef__proofs_put(p, &(clef_proof){.print = 7, .op = "gather", .variant = "-"}, NULL),
                     CLEF_OK);
    assert_int_equal(clef__proofs_find(p, 7)->verdict, CLEF_PROOF_RIGHT);
    large.items = 1; /* there is no smaller group */
    assert_false(clef__proof_may_limit_groups(&large));
    clef__proofs_free(p);
    assert_true(clef__proof_parse("7 gather - refused 0 0 1000 -5 256", &parsed));
    assert_int_equal(parsed.cl_code, -5);
    assert_int_equal(parsed.items, 256);
    assert_true(clef__proof_parse("7 gather - refused 0 0 1000", &parsed)); /* of an earlier version */
    assert_int_equal(parsed.items, 0);
    assert_false(clef__proof_parse("7 gather - refused 0 0", &parsed));
}

TEST(test_journal)
{
    static const char text[] =
        "begin 0\n\ndone 0 right 0.5\nbegin 1\n...\ndone 1 killed 0\nbegin 2\n\ndone 2 hung 0\nbegin 3\n\n"
        "done 3 refused 0 -54\nbegin 4\n..";
    char path[64];
    snprintf(path, sizeof path, "journal-%d", (int)getpid());
    write_file(path, text);
    assert_int_equal(clef__trial_read_journal(path, 0).is_known, 1);
    assert_near(clef__trial_read_journal(path, 0).worst, 0.5);
    assert_int_equal(clef__trial_read_journal(path, 1).is_known, 0);
    assert_int_equal(clef__trial_read_journal(path, 2).verdict, CLEF_PROOF_HUNG);
    assert_int_equal(clef__trial_read_journal(path, 3).verdict, CLEF_PROOF_REFUSED);
    assert_int_equal(clef__trial_read_journal(path, 3).cl_code, -54);
    assert_int_equal(clef__trial_read_journal(path, 4).is_known, 0);
    clef__os_remove(path);
    assert_int_equal(clef__trial_read_journal(path, 0).is_known, 0);
}

/* A fault counts once a later child of the same journal has shown that the device works. */
TEST(test_faults)
{
    static const char fault[] = "begin 0\n\ndone 0 right 0.5 0\nbegin 1\n\ndone 1 faulted 0 -5\n";
    char path[64], text[200];
    snprintf(path, sizeof path, "faults-%d", (int)getpid());
    write_file(path, fault);
    assert_int_equal(clef__trial_read_journal(path, 1).is_known, 0);
    snprintf(text, sizeof text, "works\n%s", fault); /* an earlier child's word says nothing */
    write_file(path, text);
    assert_int_equal(clef__trial_read_journal(path, 1).is_known, 0);
    snprintf(text, sizeof text, "%sworks\n", fault);
    write_file(path, text);
    assert_int_equal(clef__trial_read_journal(path, 0).verdict, CLEF_PROOF_RIGHT);
    assert_int_equal(clef__trial_read_journal(path, 1).is_known, 1);
    assert_int_equal(clef__trial_read_journal(path, 1).verdict, CLEF_PROOF_FAULTED);
    assert_int_equal(clef__trial_read_journal(path, 1).cl_code, -5);
    clef__os_remove(path);
}

/* A child's program that does nothing, and does not end. */
static clef_device *device_with_sleepers(const char *folder)
{
    clef_device *dev = calloc(1, sizeof *dev);
    assert_non_null(dev);
    assert_int_equal(clef__os_make_dirs(folder, NULL), CLEF_OK);
    snprintf(dev->cache_dir, sizeof dev->cache_dir, "%s", folder);
    snprintf(dev->prover, sizeof dev->prover, "%s/sleeper", folder);
    write_file(dev->prover, "#!/bin/sh\nexec sleep 600\n");
    assert_int_equal(chmod(dev->prover, 0755), 0);
    dev->info.caps.is_cpu = 1;
    return dev;
}

/* A child that waits gets the next file in its mailbox, and only with the same environment. */
TEST(test_waiting)
{
    char folder[64], cases[96], path[96], command[96];
    clef__child first, second;
    int32_t unit = 0;
    int code;
    snprintf(folder, sizeof folder, "waiting-%d", (int)getpid());
    snprintf(cases, sizeof cases, "%s/cases", folder);
    clef_device *dev = device_with_sleepers(folder);
    assert_int_equal(clef__child_start(dev, cases, 0, 0, &first, NULL), CLEF_OK);
    assert_false(first.was_waiting);
    clef__child_keep(dev, &first);
    assert_int_equal(clef__child_start(dev, cases, 0, 64, &second, NULL), CLEF_OK); /* other limits */
    assert_true(second.process != first.process);
    clef__os_kill(second.process);
    assert_int_equal(clef__child_start(dev, cases, 7, 0, &second, NULL), CLEF_OK);
    assert_true(second.process == first.process && second.was_waiting);
    assert_true(clef__child_wait(second.mailbox, path, sizeof path, &unit)); /* as the child does it */
    assert_string_equal(path, cases);
    assert_int_equal(unit, 7);
    assert_false(clef__child_missed(&second));
    clef__child_keep(dev, &second);
    assert_int_equal(clef__child_start(dev, cases, 7, 0, &second, NULL), CLEF_OK);
    clef__os_kill(second.process); /* before it looked */
    assert_true(clef__child_missed(&second));
    assert_false(clef__child_missed(&second));
    clef__child_keep(dev, &second);
    assert_int_equal(clef__child_start(dev, cases, 0, 0, &first, NULL), CLEF_OK); /* none is left */
    assert_false(first.was_waiting);
    clef__child_keep(dev, &first);
    clef_device_close(dev);
    assert_true(clef__os_ended(first.process, &code));
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

TESTS(NULL, NULL)
