/* Processor time of a process's threads, as Linux keeps it under /proc. */
#define _GNU_SOURCE
#include "runtime/os/os_clock.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double processor_time(void)
{
    struct timespec time = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int read_text(const char *folder, const char *thread, const char *name, char *out, int n_bytes)
{
    char path[320];
    const int n = snprintf(path, sizeof path, "%s/task/%s/%s", folder, thread, name);
    FILE *file = n > 0 && (size_t)n < sizeof path ? fopen(path, "r") : NULL;
    const int found = file && fgets(out, n_bytes, file);
    if (file)
        fclose(file);
    return found;
}

/* The state is the letter after the last ")" of the line, because the program's name before it may contain
 * anything. */
static void add_state(const char *stat, clef__os_usage *out)
{
    const char *name_end = strrchr(stat, ')');
    const char state = name_end && name_end[1] ? name_end[2] : 0;
    out->n_ready += state == 'R';
    out->n_on_disk += state == 'D';
    out->n_stopped += state == 'T' || state == 't';
}

static int add_thread(const char *folder, const char *thread, clef__os_usage *out)
{
    char text[512];
    unsigned long long ran, waited; /* nanoseconds */
    if (!read_text(folder, thread, "schedstat", text, sizeof text) ||
        sscanf(text, "%llu %llu", &ran, &waited) != 2)
        return 0;
    out->ran += 1e-9 * (double)ran;
    out->waited += 1e-9 * (double)waited;
    if (read_text(folder, thread, "stat", text, sizeof text))
        add_state(text, out);
    return 1;
}

void clef__os_usage_read(const char *folder, int64_t but, clef__os_usage *out)
{
    char path[300];
    int32_t n = 0;
    *out = (clef__os_usage){0};
    snprintf(path, sizeof path, "%s/task", folder);
    DIR *threads = opendir(path);
    for (const struct dirent *entry; threads && (entry = readdir(threads)) != NULL;)
        if (entry->d_name[0] != '.' && strtoll(entry->d_name, NULL, 10) != but)
            n += add_thread(folder, entry->d_name, out);
    if (threads)
        closedir(threads);
    if (!n)
        out->ran = processor_time();
}
