/* Probes compile and run kernels on a driver that may crash or hang in them, when a device is opened. So a
 * child process runs them first. Meanwhile a second child, the reserve, has a CPU's driver load its compiler,
 * and then waits for work. Another one builds the kernels that measure a device, before it is measured.
 * What it found is kept on disk: a probe that ended the child, or did not come back, is passed over, and what
 * it tests counts as missing. A probe that ran is not run again either: its result is kept.
 *
 * The file: a line that names the format; "begin KEY NAME" for each probe, and "crashed KEY NAME" or "hung
 * KEY NAME WHEN" for how it ended, if it did not end well; "got HASH BYTES" for what it wrote, in hexadecimal
 * digits, where HASH stands for the probe and all of its inputs; "end" after the last probe. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/hash.h"
#include "runtime/device/cache.h"
#include "runtime/device/child.h"
#include "runtime/device/probe_child.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

enum { MAX_CHILDREN = 64, MAX_FILE_BYTES = 1 << 20, NOTE_BYTES = 64, POLL_MS = 3, WEEK = 7 * 24 * 3600 };
static const double SECONDS = 60; /* of its own time, for a probe */
static const char end_line[] = "\nend\n";
const char clef__probe_head[] = "clef probes 2\n";
static const char waits_line[] = "waits\n";     /* after it, from a child that waits for other work */
static const char measure_line[] = "measure\n"; /* the second line of the file of such a child */
static const char reserve_line[] = "reserve\n"; /* the second line of the reserve's file */

/* In a child: what earlier children found. NULL in any other process. */
static const char *found_before;
static int is_reserve; /* this process is */

/* ---- the file -------------------------------------------------------------------------------- */

/* "KEY NAME" of a probe. */
static void name_probe(const clef_launch *launch, char out[NOTE_BYTES / 2 + 8])
{
    uint64_t key = clef__hash(CLEF__HASH_START, launch->source, strlen(launch->source) + 1);
    key = clef__hash(key, &launch->c_version, sizeof launch->c_version);
    for (int32_t i = 0; i < CLEF_MAX_DEFS && launch->defs[i].name; i++) {
        key = clef__hash(key, launch->defs[i].name, strlen(launch->defs[i].name) + 1);
        key = clef__hash(key, &launch->defs[i].value, sizeof launch->defs[i].value);
    }
    snprintf(out, NOTE_BYTES / 2 + 8, "%016" PRIx64 " %.20s", key, launch->kernel);
}

/* The next line that begins with `word`, from `at` on; NULL: none. */
static const char *find_line(const char *at, const char *word)
{
    const size_t n = strlen(word);
    while (at && *at && strncmp(at, word, n) != 0) {
        at = strchr(at, '\n');
        at += at != NULL;
    }
    return at && *at ? at : NULL;
}

/* Removes the line that begins with `word`, and all after it. */
static void cut_at(char *text, const char *word)
{
    const char *line = find_line(text, word);
    if (line)
        text[line - text] = 0;
}

/* By the key alone: the kernels of a program have one, and the name of the first. */
static int has_failed(const char *text, const char *probe)
{
    char crashed[NOTE_BYTES], hung[NOTE_BYTES];
    snprintf(crashed, sizeof crashed, "crashed %.17s", probe);
    snprintf(hung, sizeof hung, "hung %.17s", probe);
    return find_line(text, crashed) || find_line(text, hung);
}

static int count_failed(const char *text)
{
    static const char *const words[] = {"crashed ", "hung "};
    int n = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *at = find_line(text, words[i]); at; at = find_line(at + 1, words[i]))
            n++;
    return n;
}

/* A hang may be the machine's fault, so it is forgotten after a week. */
static int is_forgotten(const char *text)
{
    const int64_t now = (int64_t)time(NULL);
    for (const char *at = find_line(text, "hung "); at; at = find_line(at + 1, "hung ")) {
        long long when = 0;
        if (sscanf(at, "hung %*s %*s %lld", &when) != 1 || now - when > WEEK || when > now)
            return 1;
    }
    return 0;
}

/* NULL: there is no such file, or it is not whole. The caller frees it. */
static char *read_file(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    if (!clef__os_is_file(path) || clef__os_read(path, MAX_FILE_BYTES, &text, &n, NULL))
        return NULL;
    if (strncmp(text, clef__probe_head, strlen(clef__probe_head)) == 0 && strlen(text) == n)
        return text;
    free(text);
    return NULL;
}

/* ---- the child ------------------------------------------------------------------------------- */

static double seconds_allowed(void)
{
    const char *text = clef__debug("proof_seconds");
    const double seconds = text ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : SECONDS;
}

clef_status clef__probe_as_child(const char *which, const char *path, const char *text, clef_device **out,
                                 int *waits, clef_error *err)
{
    const int measures = strstr(text, measure_line) != NULL;
    clef_status s = CLEF_OK;
    is_reserve = strstr(text, reserve_line) != NULL;
    if (is_reserve)
        clef__os_remove(path);
    else {
        found_before = text;
        s = clef__os_journal_open(path, err);
    }
    clef__os_guard(seconds_allowed(), "", ""); /* the caller waits for this process, also between probes */
    if (!s)
        s = clef_device_open(which, &(clef_device_opts){.prover = ""}, out, err);
    if (!s && measures)
        clef__measure_build(*out);
    if (s)
        return s;
    clef__os_journal_write(end_line);
    *waits = !measures && (*out)->info.caps.is_cpu;
    if (*waits) {
        clef__os_guard_end();
        clef__os_journal_write(waits_line);
        clef__programs_release(*out); /* the caller has their results */
        found_before = NULL;
    } else
        (*out)->cache_policy = CLEF__SAVE_CHEAP;
    return CLEF_OK;
}

int clef__probe_begin(const clef_device *dev, const clef_launch *launch)
{
    char probe[NOTE_BYTES / 2 + 8], begin[NOTE_BYTES], crashed[NOTE_BYTES], hung[NOTE_BYTES];
    name_probe(launch, probe);
    if (has_failed(found_before ? found_before : dev->probes, probe))
        return 0;
    if (!found_before)
        return 1;
    snprintf(begin, sizeof begin, "begin %s\n", probe);
    snprintf(crashed, sizeof crashed, "crashed %s\n", probe);
    snprintf(hung, sizeof hung, "hung %s %lld\n", probe, (long long)time(NULL));
    clef__os_journal_write(begin);
    clef__os_guard_is_cpu(dev->info.caps.is_cpu);
    clef__os_guard(seconds_allowed(), crashed, hung);
    return 1;
}

void clef__probe_end(void)
{
    if (found_before)
        clef__os_guard(seconds_allowed(), "", "");
}

/* ---- a probe --------------------------------------------------------------------------------- */

static int run_probe(clef_device *dev, const clef_launch *launch, size_t n, const void *a, size_t a_bytes,
                     const void *b, size_t b_bytes, void *got, size_t got_bytes)
{
    cl_kernel kernel = NULL;
    cl_int code;
    if (clef__kernel_create(dev, launch, &kernel, NULL))
        return 0;
    cl_mem in = clCreateBuffer(dev->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, a_bytes,
                               (void *)(uintptr_t)a, &code);
    cl_mem by = clCreateBuffer(dev->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, b_bytes,
                               (void *)(uintptr_t)b, &code);
    cl_mem out =
        clCreateBuffer(dev->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, got_bytes, got, &code);
    const int ran = in && by && out && !clSetKernelArg(kernel, 0, sizeof out, &out) &&
                    !clSetKernelArg(kernel, 1, sizeof in, &in) &&
                    !clSetKernelArg(kernel, 2, sizeof by, &by) &&
                    !clEnqueueNDRangeKernel(dev->queue, kernel, 1, NULL, &n, &n, 0, NULL, NULL) &&
                    !clEnqueueReadBuffer(dev->queue, out, CL_TRUE, 0, got_bytes, got, 0, NULL, NULL);
    if (in)
        clReleaseMemObject(in);
    if (by)
        clReleaseMemObject(by);
    if (out)
        clReleaseMemObject(out);
    clReleaseKernel(kernel);
    return ran;
}

/* The probe with all that it reads, as a word of the file. */
static void name_result(const clef_launch *launch, size_t n, const void *const data[3], const size_t bytes[3],
                        char out[NOTE_BYTES])
{
    char probe[NOTE_BYTES / 2 + 8];
    name_probe(launch, probe);
    uint64_t hash = clef__hash(CLEF__HASH_START, probe, strlen(probe));
    hash = clef__hash(hash, launch->kernel, strlen(launch->kernel));
    hash = clef__hash(hash, &n, sizeof n);
    for (int i = 0; i < 3; i++) {
        hash = clef__hash(hash, &bytes[i], sizeof bytes[i]);
        hash = clef__hash(hash, data[i], bytes[i]);
    }
    snprintf(out, NOTE_BYTES, "got %016" PRIx64 " ", hash);
}

/* Reads the result of a probe that ran before. Returns 0 when there is none, or it is damaged. */
static int read_result(const char *text, const char *name, unsigned char *got, size_t n_bytes)
{
    const char *line = find_line(text, name), *digits = line ? line + strlen(name) : "";
    if (strspn(digits, "0123456789abcdef") != 2 * n_bytes || digits[2 * n_bytes] != '\n')
        return 0;
    for (size_t i = 0; i < n_bytes; i++) {
        const char two[3] = {digits[2 * i], digits[2 * i + 1], 0};
        got[i] = (unsigned char)strtoul(two, NULL, 16);
    }
    return 1;
}

static void note_result(const char *name, const unsigned char *got, size_t n_bytes)
{
    char *line = malloc(strlen(name) + 2 * n_bytes + 2);
    if (!line)
        return; /* it runs again at the next start */
    int at = sprintf(line, "%s", name);
    for (size_t i = 0; i < n_bytes; i++)
        at += sprintf(line + at, "%02x", got[i]);
    strcpy(line + at, "\n");
    clef__os_journal_write(line);
    free(line);
}

int clef__probe_run(clef_device *dev, const clef_launch *launch, size_t n, const void *a, size_t a_bytes,
                    const void *b, size_t b_bytes, void *got, size_t got_bytes)
{
    char name[NOTE_BYTES];
    name_result(launch, n, (const void *const[]){a, b, got}, (const size_t[]){a_bytes, b_bytes, got_bytes},
                name);
    if (read_result(found_before ? found_before : dev->probes, name, got, got_bytes))
        return 1;
    if (!clef__probe_begin(dev, launch))
        return 0;
    const int ran = run_probe(dev, launch, n, a, a_bytes, b, b_bytes, got, got_bytes);
    clef__probe_end();
    if (ran && found_before)
        note_result(name, got, got_bytes);
    return ran;
}

/* ---- the caller ------------------------------------------------------------------------------ */

/* Runs a child to its end, or until it waits for other work. */
static clef_status run_child(clef_device *dev, const char *path, int *code)
{
    clef__child child;
    const clef_status s = clef__child_spawn(dev, path, 0, 0, &child, NULL);
    *code = 0;
    while (!s && !clef__os_ended(child.process, code)) {
        char *text = read_file(path);
        const int waits = find_line(text, waits_line) != NULL;
        free(text);
        if (waits) {
            clef__child_keep(dev, &child);
            break;
        }
        clef__os_sleep(POLL_MS);
    }
    return s;
}

/* Tells the user which kernels ended children, and what follows from it (`then`). */
static void tell_failed(const clef_device *dev, const char *text, const char *then)
{
    static const struct {
        const char *word, *says;
    } ends[] = {{"crashed ", "crashes the driver"}, {"hung ", "does not come back"}};
    char reported[32] = "";
    for (size_t i = 0; i < sizeof ends / sizeof *ends && dev->notice; i++)
        for (const char *at = find_line(text, ends[i].word); at; at = find_line(at + 1, ends[i].word)) {
            char name[32], line[400];
            if (sscanf(at, "%*s %*s %31s", name) != 1 || strcmp(name, reported) == 0)
                continue; /* one line for a kernel that is tried with several constants */
            strcpy(reported, name);
            snprintf(line, sizeof line, "%s %s on %s%s", name, ends[i].says, dev->info.name, then);
            dev->notice(dev->notice_user, line);
        }
}

static void start_reserve(clef_device *dev, const char *probe_path)
{
    char path[CLEF_CACHE_PATH_BYTES + 16], text[64];
    clef__child child;
    snprintf(path, sizeof path, "%s.reserve", probe_path);
    snprintf(text, sizeof text, "%s%s", clef__probe_head, reserve_line);
    if (!clef__os_write(path, text, strlen(text), NULL) && !clef__child_spawn(dev, path, 0, 0, &child, NULL))
        clef__child_keep(dev, &child);
}

/* Starts children until one comes to the end, each without the probes that ended those before it. Returns
 * what they found; NULL: no child reached the end, and this process runs the probes by itself. */
static char *probe_by_children(clef_device *dev, const char *path, clef__probes which)
{
    char *text = NULL, head[64];
    int n_failed = 0, code = 0;
    snprintf(head, sizeof head, "%s%s", clef__probe_head,
             which == CLEF__PROBES_OF_MEASURE ? measure_line : "");
    if (clef__os_write(path, head, strlen(head), NULL))
        return NULL;
    if (which == CLEF__PROBES_OF_OPEN && dev->info.caps.is_cpu && dev->info.caps.n_units > 1)
        start_reserve(dev, path);
    for (int i = 0; i < MAX_CHILDREN; i++) {
        const clef_status s = run_child(dev, path, &code);
        free(text);
        text = s ? NULL : read_file(path);
        cut_at(text, waits_line);
        if (text && strstr(text, end_line))
            break;
        const int n = text ? count_failed(text) : 0;
        if (n <= n_failed || clef__os_was_interrupted(code) || i == MAX_CHILDREN - 1) {
            free(text);
            text = NULL;
            break;
        }
        n_failed = n;
    }
    clef__os_remove(path);
    return text;
}

static int is_wanted(const clef_device *dev)
{
    const char *proof = clef__os_env("CLEF_PROOF");
    return !found_before && dev->prover[0] && !(proof && strcmp(proof, "0") == 0);
}

static const char *folder_of(clef__probes which)
{
    return which == CLEF__PROBES_OF_MEASURE ? "measure" : "probe";
}

static int is_whole(const char *text)
{
    return text && strstr(text, end_line) && !is_forgotten(text);
}

/* What is known from the disk; NULL: nothing. The caller frees it. */
static char *read_known(const char *path)
{
    char *text = read_file(path);
    if (is_whole(text))
        return text;
    free(text);
    return NULL;
}

int clef__probes_take(const clef_device *dev, clef__probes which, const char *text)
{
    char path[CLEF_CACHE_PATH_BYTES], folder[CLEF_CACHE_PATH_BYTES];
    if (clef__cache_beside(dev, folder_of(which), path, NULL) || !path[0] || !is_whole(text) ||
        strncmp(text, clef__probe_head, strlen(clef__probe_head)) != 0)
        return 0;
    char *known = read_known(path);
    snprintf(folder, sizeof folder, "%s/%s", dev->cache_dir, folder_of(which));
    const int is_new =
        !known && !clef__os_make_dirs(folder, NULL) && !clef__os_write(path, text, strlen(text), NULL);
    free(known);
    return is_new;
}

/* In the reserve: what the other child finds. NULL: it did not. */
static char *await_known(clef_device *dev, const char *path)
{
    const double end = clef__os_seconds() + seconds_allowed();
    char *text;
    (void)clef__device_works(dev); /* the first kernel makes the driver load its compiler */
    while (!(text = read_known(path)) && clef__os_seconds() < end)
        clef__os_sleep(POLL_MS);
    return text;
}

/* What is known from the disk, or from children. The caller frees it. */
static char *find_out(clef_device *dev, clef__probes which)
{
    const char *const name = folder_of(which);
    char path[CLEF_CACHE_PATH_BYTES], folder[CLEF_CACHE_PATH_BYTES], part[CLEF_CACHE_PATH_BYTES];
    if (clef__cache_beside(dev, name, path, NULL) || !path[0])
        return NULL;
    char *text = read_known(path);
    if (!text && is_reserve)
        text = await_known(dev, path);
    if (text || is_reserve)
        return text;
    snprintf(folder, sizeof folder, "%s/%s", dev->cache_dir, name);
    const int n = snprintf(part, sizeof part, "%s/%" PRIx64 ".part", folder, clef__os_unique());
    if (!is_wanted(dev) || n < 0 || (size_t)n >= sizeof part || clef__os_make_dirs(folder, NULL))
        return NULL;
    text = probe_by_children(dev, part, which);
    if (text) {
        clef__os_write(path, text, strlen(text), NULL);
        tell_failed(dev, text, which == CLEF__PROBES_OF_MEASURE ? "" : ": what it tests is not used");
    }
    return text;
}

void clef__probes_load(clef_device *dev, clef__probes which)
{
    if (found_before || dev->probes_known & (1 << which))
        return;
    dev->probes_known |= 1 << which;
    char *more = find_out(dev, which), *before = dev->probes;
    const size_t n = (before ? strlen(before) : 0) + (more ? strlen(more) : 0) + 1;
    char *all = more && before ? malloc(n) : NULL;
    if (all)
        snprintf(all, n, "%s%s", before, more);
    if (!more || !before)
        dev->probes = more ? more : before;
    else if (all) /* else what is known stays: those of the other kind are run here */
        dev->probes = all;
    if (more && before)
        free(more);
    if (all)
        free(before);
}
