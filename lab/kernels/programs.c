#include "lab/kernels/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/device/source.h"

enum { MAX_OPTIONS = 512 };

struct offline_program {
    const char *source;
    char options[MAX_OPTIONS];
};

int offline_stop(const char *what, const char *text)
{
    fprintf(stderr, "%s: %s: %s\n", offline_program_name, what, text);
    return 1;
}

static int has_room(offline_programs *p)
{
    if (p->n < p->cap)
        return 1;
    const int32_t cap = p->cap ? 2 * p->cap : 1024;
    struct offline_program *more = realloc(p->known, (size_t)cap * sizeof *more);
    if (!more)
        return 0;
    p->known = more;
    p->cap = cap;
    return 1;
}

int32_t offline_program(offline_programs *p, const char *dir, const clef_launch *launch)
{
    char path[1024], options[MAX_OPTIONS], *source = NULL;
    size_t n = 0;
    int32_t i = 0;
    clef_error err = {0};
    if (clef__program_options(launch, options, sizeof options, &err))
        return offline_stop(launch->kernel, err.text), -1;
    while (i < p->n &&
           (strcmp(p->known[i].source, launch->source) != 0 || strcmp(p->known[i].options, options) != 0))
        i++;
    if (i < p->n)
        return i;
    if (!has_room(p))
        return offline_stop("memory", "none"), -1;
    if (clef__source_assemble(launch->source, &source, &n, &err))
        return offline_stop(launch->source, err.text), -1;
    snprintf(path, sizeof path, "%s/%04d.cl", dir, (int)i);
    FILE *to = fopen(path, "w");
    const int wrong = !to || fprintf(to, "// options: %s\n%s", options, source) < 0;
    free(source);
    if ((to && fclose(to)) || wrong)
        return offline_stop(path, "cannot be written"), -1;
    p->known[i].source = launch->source;
    strcpy(p->known[i].options, options);
    p->n++;
    return i;
}

void offline_programs_finish(offline_programs *p)
{
    free(p->known);
    *p = (offline_programs){0};
}
