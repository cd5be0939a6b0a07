/* What tests of written folders share: what a folder has, removing it, and a disk that is full. */
#ifndef CLEF_TESTS_FOLDERS_H
#define CLEF_TESTS_FOLDERS_H

#include <signal.h>

#include "tests/files.h"
#ifndef _WIN32
#    include <sys/resource.h>
#endif

typedef struct folder_look {
    const char *path;
    int32_t n;
    char names[1024]; /* " a b" */
} folder_look;

static inline clef_status look_entry(void *user, const char *name, int is_folder)
{
    folder_look *l = user;
    (void)is_folder;
    l->n++;
    snprintf(l->names + strlen(l->names), sizeof l->names - strlen(l->names), " %s", name);
    return CLEF_OK;
}

/* What a folder has, in no order. */
static inline folder_look look_into(const char *path)
{
    folder_look l = {.path = path};
    clef__os_entries(path, look_entry, &l, NULL);
    return l;
}

static inline clef_status remove_one(void *user, const char *name, int is_folder);

/* Removes a folder with all that is in it. */
static inline void remove_tree(const char *path)
{
    clef__os_entries(path, remove_one, (void *)(uintptr_t)path, NULL);
    remove(path);
}

static inline clef_status remove_one(void *user, const char *name, int is_folder)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", (const char *)user, name);
    if (is_folder)
        remove_tree(path);
    else
        remove(path);
    return CLEF_OK;
}

#ifndef _WIN32 /* whose tests have no disk that is full */
/* Files can have at most n_bytes from now on; a longer write fails, as on a full disk. 0: no limit. */
static inline void limit_files(size_t n_bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = n_bytes ? (rlim_t)n_bytes : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}
#endif

static inline int remove_temp_tree(void **state)
{
    (void)state;
    remove_tree(temp_dir);
    return 0;
}

#endif
