/* Folders that are written as a whole: beside their place, then put into it. */
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE  /* syscall */
#define _GNU_SOURCE      /* renameat2's number and flag */
#define _DARWIN_C_SOURCE /* flock and renamex_np on macOS */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#    include <sys/syscall.h>
#endif

#include "graph/fail.h"
#include "runtime/os/os.h"

struct clef_os_folder {
    char *path;      /* without links and slashes at its end */
    char *temporary; /* the new folder, until it is in place */
    char *old;       /* the name of what it replaces, where the two cannot change places in one step */
    int lock;        /* the new folder, locked while its writer lives */
};

static clef_status io_fail(clef_error *err, const char *doing, const char *path)
{
    return clef__fail(err, errno == ENOMEM ? CLEF_E_NOMEM : CLEF_E_IO, "%s: cannot %s: %s", path, doing,
                      strerror(errno));
}

clef_status clef__os_entries(const char *folder,
                             clef_status (*visit)(void *user, const char *name, int is_folder), void *user,
                             clef_error *err)
{
    clef_status s = CLEF_OK;
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == ENOENT ? CLEF_OK : io_fail(err, "open", folder);
    for (const struct dirent *e; !s && (e = readdir(dir)) != NULL;) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        const int is_folder =
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
        s = visit(user, e->d_name, is_folder);
    }
    closedir(dir);
    return s;
}

clef_status clef__os_sync_folder(const char *path, clef_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return io_fail(err, "open", path);
    /* Some file systems cannot flush a folder, and need not. */
    const int failed = fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP;
    const clef_status status = failed ? io_fail(err, "flush", path) : CLEF_OK;
    close(fd);
    return status;
}

/* The folder that `path` is in, in new memory. */
static char *parent_of(const char *path)
{
    char *parent = strdup(path), *slash = parent ? strrchr(parent, '/') : NULL;
    if (slash)
        slash[slash == parent] = 0;
    else if (parent) {
        free(parent);
        parent = strdup(".");
    }
    return parent;
}

static void folder_free(clef_os_folder *f)
{
    if (f->lock >= 0)
        close(f->lock);
    free(f->path);
    free(f->temporary);
    free(f->old);
    free(f);
}

/* A path whose last part can be renamed. */
static char *plain_path(const char *path)
{
    char *plain = realpath(path, NULL);
    if (plain)
        return plain;
    plain = strdup(path);
    for (size_t n = plain ? strlen(plain) : 0; n > 1 && plain[n - 1] == '/'; n--)
        plain[n - 1] = 0;
    return plain;
}

/* Removes a folder with its files. */
static clef_status remove_entry(void *user, const char *name, int is_folder)
{
    if (!is_folder)
        unlinkat(*(int *)user, name, 0);
    return CLEF_OK;
}

static void remove_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        clef__os_entries(path, remove_entry, &fd, NULL);
        close(fd);
    }
    rmdir(path);
}

/* ---- what writers left behind that were killed --------------------------------------------------- */

/* Locks a new folder for its writer. 0: it cannot be opened, or is there no more: one without a lock is a
 * leftover for others. Where the system has no such locks, nothing is removed either. */
static int lock_folder(clef_os_folder *f)
{
    struct stat opened, there;
    f->lock = open(f->temporary, O_RDONLY | O_CLOEXEC);
    if (f->lock < 0)
        return 0;
    while (flock(f->lock, LOCK_EX) != 0 && errno == EINTR)
        ;
    if (fstat(f->lock, &opened) == 0 && stat(f->temporary, &there) == 0 && opened.st_ino == there.st_ino)
        return 1;
    close(f->lock);
    f->lock = -1;
    errno = ENOENT;
    return 0;
}

/* Makes a folder of a name that is free, and locks it. Returns 0 and sets errno when that fails. */
static int make_temporary(clef_os_folder *f, size_t room)
{
    static atomic_uint counter;
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        const unsigned k = atomic_fetch_add(&counter, 1u);
        snprintf(f->temporary, room, "%s.%ld-%u.tmp", f->path, (long)getpid(), k);
        snprintf(f->old, room, "%s.%ld-%u.old", f->path, (long)getpid(), k);
        if (mkdir(f->temporary, 0777) != 0) {
            if (errno != EEXIST)
                return 0;
            continue;
        }
        if (lock_folder(f))
            return 1;
        const int code = errno;
        rmdir(f->temporary);
        errno = code;
        if (code != ENOENT)
            return 0;
    }
    return 0;
}

/* A name and the folder that it is in. */
typedef struct leftovers {
    const char *parent, *name;
} leftovers;

/* Removes NAME.PID-K.tmp, unless a process has it locked. */
static clef_status remove_leftover(void *user, const char *name, int is_folder)
{
    const leftovers *l = user;
    const size_t n = strlen(l->name);
    int end = 0;
    if (!is_folder || strncmp(name, l->name, n) != 0)
        return CLEF_OK;
    sscanf(name + n, ".%*u-%*u.tmp%n", &end);
    char *path = end && !name[n + (size_t)end] ? malloc(strlen(l->parent) + strlen(name) + 2) : NULL;
    if (!path)
        return CLEF_OK;
    sprintf(path, "%s/%s", l->parent, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        remove_folder(path);
    if (fd >= 0)
        close(fd);
    free(path);
    return CLEF_OK;
}

static void remove_leftovers(const char *path, const char *parent)
{
    const char *slash = strrchr(path, '/');
    leftovers l = {.parent = parent, .name = slash ? slash + 1 : path};
    clef__os_entries(parent, remove_leftover, &l, NULL);
}

clef_status clef__os_folder_begin(const char *path, clef_os_folder **out, clef_error *err)
{
    enum { SUFFIX = 48 };
    *out = NULL;
    clef_os_folder *f = calloc(1, sizeof *f);
    if (f) {
        f->lock = -1;
        f->path = plain_path(path);
    }
    const size_t n = f && f->path ? strlen(f->path) : 0;
    char *parent = n ? parent_of(f->path) : NULL;
    if (parent) {
        f->temporary = malloc(n + SUFFIX);
        f->old = malloc(n + SUFFIX);
    }
    if (!parent || !f->temporary || !f->old) {
        free(parent);
        if (f)
            folder_free(f);
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", path);
    }
    clef_status status = clef__os_make_dirs(parent, err);
    if (!status)
        remove_leftovers(f->path, parent);
    if (!status && !make_temporary(f, n + SUFFIX))
        status = io_fail(err, "write", path);
    free(parent);
    if (status)
        folder_free(f);
    else
        *out = f;
    return status;
}

const char *clef__os_folder_path(const clef_os_folder *folder)
{
    return folder->temporary;
}

clef_status clef__os_folder_keep(clef_os_folder *f, const char *name, clef_error *err)
{
    const size_t n = strlen(name) + 2;
    char *from = malloc(strlen(f->path) + n), *to = malloc(strlen(f->temporary) + n);
    clef_status status = CLEF_OK;
    if (from && to) {
        snprintf(from, strlen(f->path) + n, "%s/%s", f->path, name);
        snprintf(to, strlen(f->temporary) + n, "%s/%s", f->temporary, name);
    }
    if (!from || !to)
        status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its name", name);
    else if (link(from, to) != 0)
        status = io_fail(err, "keep it in the new folder", from);
    free(from);
    free(to);
    return status;
}

/* Both names change places in one step. Returns 0 where the system cannot. */
static int exchange(const char *a, const char *b)
{
#if defined(__linux__) && !defined(__ANDROID__) && defined(SYS_renameat2) /* Android filters system calls */
    enum { EXCHANGE = 2 }; /* RENAME_EXCHANGE of <linux/fs.h> */
    return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, EXCHANGE) == 0;
#elif defined(__APPLE__)
    return renamex_np(a, b, RENAME_SWAP) == 0;
#else
    (void)a;
    (void)b;
    return 0;
#endif
}

static clef_status put_into_place(clef_os_folder *f, clef_error *err)
{
    if (rename(f->temporary, f->path) == 0) /* there was nothing, or an empty folder */
        return CLEF_OK;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return io_fail(err, "put the new folder into its place", f->path);
    if (exchange(f->temporary, f->path)) {
        remove_folder(f->temporary); /* the one that was there */
        return CLEF_OK;
    }
    if (rename(f->path, f->old) != 0)
        return io_fail(err, "rename", f->path);
    if (rename(f->temporary, f->path) != 0) {
        const clef_status status = io_fail(err, "put the new folder into its place", f->path);
        if (rename(f->old, f->path) == 0)
            return status;
        return clef__fail(err, CLEF_E_IO, "%s: cannot be written; what was there is now %s", f->path, f->old);
    }
    remove_folder(f->old);
    return CLEF_OK;
}

clef_status clef__os_folder_commit(clef_os_folder *f, clef_error *err)
{
    char *parent = parent_of(f->path);
    clef_status status = parent ? clef__os_sync_folder(f->temporary, err)
                                : clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", f->path);
    if (!status)
        status = put_into_place(f, err);
    if (status)
        remove_folder(f->temporary);
    else
        status = clef__os_sync_folder(parent, err);
    free(parent);
    folder_free(f);
    return status;
}

void clef__os_folder_abort(clef_os_folder *f)
{
    if (!f)
        return;
    remove_folder(f->temporary);
    folder_free(f);
}
