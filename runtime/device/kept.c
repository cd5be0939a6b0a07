#include "runtime/device/kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/driver_cache.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

static const char begins[] = "kept by the driver\n";
enum { MAX_NOTE = 1024 };

int clef__driver_keeps(const clef_device *dev)
{
    const char *given = clef__os_env("POCL_KERNEL_CACHE");
    return strcmp(dev->info.platform_name, "Portable Computing Language") == 0 &&
           !(given && strcmp(given, "0") == 0) && clef__debug_is("slow_binaries", "keep") &&
           clef__driver_cache_id() != 0;
}

int clef__kept_is_note(const void *entry, size_t n_bytes)
{
    const size_t n_begins = sizeof begins - 1;
    return n_bytes >= n_begins && n_bytes < MAX_NOTE && memcmp(entry, begins, n_begins) == 0;
}

void clef__kept_store(const clef_device *dev, const clef_cache_key *key, const clef_kept_program *program)
{
    char note[MAX_NOTE];
    const int n =
        snprintf(note, sizeof note, "%s%016llx\n%s %s %d %d %d\n%s\n", begins,
                 (unsigned long long)clef__driver_cache_id(), program->source, program->kernel,
                 (int)program->c_version, (int)program->n_bufs, (int)program->is_whole, program->options);
    if (n > 0 && n < MAX_NOTE)
        clef__cache_store(dev, key, (const unsigned char *)note, (size_t)n);
}

clef_kept clef__kept_read(const clef_device *dev, const void *entry, size_t n_bytes,
                          clef_kept_program *program)
{
    char note[MAX_NOTE];
    unsigned long long id;
    int c_version, n_bufs, is_whole;
    const size_t n_begins = sizeof begins - 1;
    if (!clef__kept_is_note(entry, n_bytes))
        return CLEF_KEPT_BINARY;
    memcpy(note, entry, n_bytes);
    note[n_bytes] = 0;
    if (sscanf(note + n_begins, "%llx %63s %63s %d %d %d %607[^\n]", &id, program->source, program->kernel,
               &c_version, &n_bufs, &is_whole, program->options) != 7)
        return CLEF_KEPT_LOST;
    program->c_version = c_version;
    program->n_bufs = n_bufs;
    program->is_whole = is_whole;
    return clef__driver_keeps(dev) && id == clef__driver_cache_id() ? CLEF_KEPT_NOTE : CLEF_KEPT_LOST;
}
