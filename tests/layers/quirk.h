/* What quirk_layer.c is asked for: the list in CLEF_QUIRK, and the file CLEF_QUIRK_MET. */
#ifndef CLEF_TESTS_LAYERS_QUIRK_H
#define CLEF_TESTS_LAYERS_QUIRK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 128 };

/* The value of a quirk, "" for one without; NULL: the quirk is not asked for. */
static inline const char *find_quirk(const char *name, char value[VALUE_BYTES])
{
    const size_t n = strlen(name);
    for (const char *at = getenv("CLEF_QUIRK"); at && *at;
         at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
        if (strncmp(at, name, n) == 0 && strchr(",=", at[n])) { /* its end too: strchr finds the last 0 */
            const char *from = at + n + (at[n] == '=');
            snprintf(value, VALUE_BYTES, "%.*s", (int)strcspn(from, ","), from);
            return value;
        }
    return NULL;
}

static inline int has_quirk(const char *name, const char *wanted)
{
    char value[VALUE_BYTES];
    const char *is = find_quirk(name, value);
    return is && (!wanted || strcmp(is, wanted) == 0);
}

/* Notes, once in a process, that a quirk changed something. */
static inline void meet(const char *name)
{
    static char met[512];
    char line[VALUE_BYTES];
    const char *path = getenv("CLEF_QUIRK_MET");
    snprintf(line, sizeof line, "%s\n", name);
    if (!path || strstr(met, line) || strlen(met) + strlen(line) >= sizeof met)
        return;
    strcat(met, line);
    FILE *to = fopen(path, "a");
    if (to) {
        fputs(line, to);
        fclose(to);
    }
}

/* The number of a quirk; 0: the quirk is not asked for. */
static inline size_t number_of(const char *name)
{
    char value[VALUE_BYTES];
    const char *is = find_quirk(name, value);
    return is ? (size_t)strtoull(is, NULL, 10) : 0;
}

/* A misspelt quirk would test nothing. */
static inline void check_names(void)
{
    static const char *const names[] = {
        "group",        "kernel_group", "resources",   "local",        "align",     "alloc",
        "alloc_silent", "memory",       "memory_late", "address_bits", "extension", "no_fill",
        "denormals",    "fast_math",    "compiler",    "binaries",     "times",
        "sticky",       "null_arg",     "host_ptr",     "units",
        "mhz",          "reset",        "dot",         "flush"};
    for (const char *at = getenv("CLEF_QUIRK"); at && *at;) {
        const size_t n = strcspn(at, ",");
        size_t i = 0;
        while (i < sizeof names / sizeof *names &&
               (strlen(names[i]) != strcspn(at, ",=") || strncmp(names[i], at, strlen(names[i])) != 0))
            i++;
        if (i == sizeof names / sizeof *names) {
            fprintf(stderr, "CLEF_QUIRK: unknown '%.*s'\n", (int)n, at);
            exit(3);
        }
        at += n + (at[n] == ',');
    }
}

#endif
