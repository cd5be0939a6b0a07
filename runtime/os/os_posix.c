/* runtime/os/os.h for POSIX systems: Linux, macOS, Android. */
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE  /* MAP_ANONYMOUS and madvise: in no standard, but on every system */
#define _DARWIN_C_SOURCE /* the same names on macOS */
#define _GNU_SOURCE      /* sched_getaffinity (Linux alone), dladdr, F_OFD_SETLKW */

#include "runtime/os/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__) && defined(__x86_64__)
#    include <sys/syscall.h>
#endif

#include "graph/fail.h"

static clef_status io_fail(clef_error *err, const char *doing, const char *path)
{
    return clef__fail(err, errno == ENOMEM ? CLEF_E_NOMEM : CLEF_E_IO, "%s: cannot %s: %s", path, doing,
                      strerror(errno));
}

/* O_NONBLOCK: opening a FIFO would wait for its writer; it changes nothing for a regular file. */
static int open_for_reading(const char *path)
{
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    return fd;
}

clef_status clef__os_map(const char *path, clef_mapping *out, clef_error *err)
{
    *out = (clef_mapping){0};
    const int fd = open_for_reading(path);
    if (fd < 0)
        return io_fail(err, "open", path);

    clef_status status = CLEF_OK;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        status = io_fail(err, "stat", path);
    } else if (!S_ISREG(st.st_mode)) {
        status = clef__fail(err, CLEF_E_IO, "%s: %s, expected a regular file", path,
                            S_ISDIR(st.st_mode) ? "is a folder" : "is not a file");
    } else if ((uintmax_t)st.st_size > SIZE_MAX / 2) {
        status = clef__fail(err, CLEF_E_IO, "%s: %jd bytes do not fit the address space", path,
                            (intmax_t)st.st_size);
    } else if (st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            status = io_fail(err, "map", path);
        else
            *out = (clef_mapping){.data = data, .n_bytes = (size_t)st.st_size};
    }
    close(fd);
    return status;
}

void clef__os_unmap(clef_mapping *mapping)
{
    if (mapping->data)
        munmap((void *)mapping->data, mapping->n_bytes);
    *mapping = (clef_mapping){0};
}

clef_status clef__os_read(const char *path, size_t max_bytes, char **out, size_t *n_bytes, clef_error *err)
{
    *out = NULL;
    *n_bytes = 0;
    const int fd = open_for_reading(path);
    if (fd < 0)
        return io_fail(err, "open", path);

    clef_status status = CLEF_OK;
    char *text = NULL;
    size_t n = 0, capacity = 0;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        status = io_fail(err, "stat", path);
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        status = clef__fail(err, CLEF_E_IO, "%s: %s, expected a regular file", path,
                            S_ISDIR(st.st_mode) ? "is a folder" : "is not a file");
        goto out;
    }
    for (;;) { /* the size is only a hint: it is 0 for files under /proc, and others grow */
        if (n == capacity) {
            const size_t hint = (uintmax_t)st.st_size < max_bytes ? (size_t)st.st_size : max_bytes;
            const size_t wanted = capacity == 0                 ? hint + 1
                                  : capacity > SIZE_MAX / 2 - 1 ? SIZE_MAX - 1
                                                                : capacity * 2;
            char *grown = wanted < SIZE_MAX ? realloc(text, wanted + 1) : NULL;
            if (!grown) {
                status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", path);
                goto out;
            }
            text = grown;
            capacity = wanted;
        }
        const ssize_t got = read(fd, text + n, capacity - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            status = io_fail(err, "read", path);
            goto out;
        }
        if (got == 0)
            break;
        n += (size_t)got;
        if (n > max_bytes) {
            status = clef__fail(err, CLEF_E_LIMIT, "%s: more than %zu bytes", path, max_bytes);
            goto out;
        }
    }
    text[n] = '\0';
    *out = text;
    *n_bytes = n;
    text = NULL;
out:
    free(text);
    close(fd);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct clef_os_file {
    int fd;
    char *path, *temporary;
};

static void file_free(clef_os_file *file)
{
    free(file->path);
    free(file->temporary);
    free(file);
}

clef_status clef__os_file_begin(const char *path, clef_os_file **out, clef_error *err)
{
    static atomic_uint counter;
    enum { SUFFIX = 48, TRIES = 100 };

    *out = NULL;
    const size_t n = strlen(path);
    clef_os_file *file = calloc(1, sizeof *file);
    if (!file)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", path);
    file->path = malloc(n + 1);
    file->temporary = malloc(n + SUFFIX);
    if (!file->path || !file->temporary) {
        file_free(file);
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", path);
    }
    memcpy(file->path, path, n + 1);

    /* Not mkstemp: that gives mode 0600 whatever the umask says. */
    file->fd = -1;
    for (int i = 0; i < TRIES && file->fd < 0; i++) {
        snprintf(file->temporary, n + SUFFIX, "%s.%ld-%u.tmp", path, (long)getpid(),
                 atomic_fetch_add(&counter, 1u));
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd < 0 && errno != EEXIST && errno != EINTR)
            break;
    }
    if (file->fd < 0) {
        const clef_status status = io_fail(err, "write", path);
        file_free(file);
        return status;
    }
    *out = file;
    return CLEF_OK;
}

clef_status clef__os_file_write(clef_os_file *file, const void *data, size_t n_bytes, clef_error *err)
{
    const char *at = data;
    while (n_bytes > 0) {
        const ssize_t done = write(file->fd, at, n_bytes < (1u << 30) ? n_bytes : (1u << 30));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return io_fail(err, "write", file->path);
        at += done;
        n_bytes -= (size_t)done;
    }
    return CLEF_OK;
}

clef_status clef__os_file_commit(clef_os_file *file, clef_error *err)
{
    clef_status status = CLEF_OK;
    if (fsync(file->fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        status = io_fail(err, "flush", file->path);
    if (close(file->fd) != 0 && status == CLEF_OK)
        status = io_fail(err, "close", file->path);
    if (status == CLEF_OK && rename(file->temporary, file->path) != 0)
        status = io_fail(err, "rename over", file->path);
    if (status != CLEF_OK)
        unlink(file->temporary);
    file_free(file);
    return status;
}

void clef__os_file_abort(clef_os_file *file)
{
    if (!file)
        return;
    close(file->fd);
    unlink(file->temporary);
    file_free(file);
}

/* ---- paths ----------------------------------------------------------------------------------- */

int clef__os_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int clef__os_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

clef_status clef__os_make_dirs(const char *path, clef_error *err)
{
    const size_t n = strlen(path);
    char *prefix = malloc(n + 1);
    if (!prefix)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its name", path);
    memcpy(prefix, path, n + 1);

    clef_status status = CLEF_OK;
    for (size_t i = 1; i <= n && status == CLEF_OK; i++) {
        if (prefix[i] != '/' && prefix[i] != '\0')
            continue;
        prefix[i] = '\0';
        const int code = mkdir(prefix, 0777) == 0 ? 0 : errno;
        if (code != 0 && !clef__os_is_dir(prefix))
            status = clef__fail(err, CLEF_E_IO, "%s: cannot make the folder: %s", prefix, strerror(code));
        prefix[i] = path[i];
    }
    free(prefix);
    return status;
}

int clef__os_create(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* The path of the parent folder, in place; 0 when there is none. */
static int to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (!strcmp(path, "/") || !strcmp(path, "."))
        return 0;
    if (!slash)
        strcpy(path, ".");
    else
        slash[slash == path] = 0;
    return 1;
}

int clef__os_takes_files(const char *folder, uint64_t n_bytes, const char **why)
{
    char at[PATH_MAX];
    struct stat is;
    struct statvfs disk;
    int code = strlen(folder) < sizeof at ? 0 : ENAMETOOLONG;
    if (!code)
        strcpy(at, folder);
    while (!code && access(at, W_OK | X_OK))
        code = errno == ENOENT && to_parent(at) ? 0 : errno;
    if (!code && (stat(at, &is) || statvfs(at, &disk)))
        code = errno;
    else if (!code && !S_ISDIR(is.st_mode))
        code = ENOTDIR;
    else if (!code && (uint64_t)disk.f_bavail * disk.f_frsize < n_bytes)
        code = ENOSPC;
    *why = code ? strerror(code) : NULL;
    return !code;
}

int clef__os_private_temp(char *out, size_t capacity)
{
    const char *temp = clef__os_env("TMPDIR");
    struct stat is;
    const int n = snprintf(out, capacity, "%s/clef-%ld", temp ? temp : "/tmp", (long)getuid());
    if (n < 0 || (size_t)n >= capacity)
        return 0;
    mkdir(out, 0700);
    return !lstat(out, &is) && S_ISDIR(is.st_mode) && is.st_uid == getuid() && !(is.st_mode & 022);
}

void clef__os_remove(const char *path)
{
    unlink(path);
}

int clef__os_cache_dir(char *out, size_t capacity)
{
    /* XDG Base Directory Specification: a relative path must be ignored. */
    const char *xdg = clef__os_env("XDG_CACHE_HOME"), *home = clef__os_env("HOME");
    int n = -1;
    if (xdg && xdg[0] == '/')
        n = snprintf(out, capacity, "%s/clef", xdg);
    else if (home)
        n = snprintf(out, capacity, "%s/.cache/clef", home);
    return n > 0 && (size_t)n < capacity;
}

/* For the program itself the loader only knows the name that it was called by, which may not be a path. */
int clef__os_library_dir(char *out, size_t capacity)
{
    static const char here;
    char link[4096];
    Dl_info info;
    const char *path = dladdr(&here, &info) ? info.dli_fname : NULL;
    if (path && !strchr(path, '/')) {
        const ssize_t n = readlink("/proc/self/exe", link, sizeof link - 1);
        link[n > 0 ? n : 0] = 0;
        path = link;
    }
    char *whole = path ? realpath(path, NULL) : NULL, *slash = whole ? strrchr(whole, '/') : NULL;
    const int fits = slash && (size_t)(slash - whole) < capacity;
    if (fits)
        snprintf(out, capacity, "%.*s", (int)(slash - whole), whole);
    free(whole);
    return fits;
}

void *clef__os_library(const char *name, clef_error *err)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const char *why = library ? NULL : dlerror(); /* most systems name the file in it */
    if (why)
        clef__fail(err, CLEF_E_IO, "%s%s%s", strstr(why, name) ? "" : name, strstr(why, name) ? "" : ": ",
                   why);
    return library;
}

void *clef__os_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

/* ---- the process ----------------------------------------------------------------------------- */

int64_t clef__os_local_time(void)
{
    const time_t now = time(NULL);
    struct tm local;
    return localtime_r(&now, &local) ? (int64_t)timegm(&local) : (int64_t)now;
}

double clef__os_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int clef__os_allow_tiles(void)
{
#if defined(__linux__) && defined(__x86_64__) && defined(SYS_arch_prctl)
    enum {
        REQUEST = 0x1023,
        ALLOWED = 0x1022,
        TILE_DATA = 18
    }; /* <asm/prctl.h>, arch/x86/include/asm/fpu/types.h */
    unsigned long features = 0;
    if (syscall(SYS_arch_prctl, REQUEST, TILE_DATA) || syscall(SYS_arch_prctl, ALLOWED, &features))
        return 0;
    return features >> TILE_DATA & 1;
#else
    return 0;
#endif
}

const char *clef__os_env(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

void clef__os_set_env(const char *name, const char *value)
{
    setenv(name, value, 1);
}

int clef__os_has_all_cpus(void)
{
#ifdef __linux__
    cpu_set_t mine;
    const long n = sysconf(_SC_NPROCESSORS_CONF);
    if (n < 1 || n > CPU_SETSIZE || sched_getaffinity(0, sizeof mine, &mine) != 0)
        return 0;
    return CPU_COUNT(&mine) == (int)n;
#else
    return 0;
#endif
}

void clef__os_use_cpus(const unsigned char *mask, size_t n_bytes)
{
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < 8 * n_bytes && i < CPU_SETSIZE; i++)
        if (mask[i / 8] >> i % 8 & 1)
            CPU_SET(i, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
#else
    (void)mask, (void)n_bytes;
#endif
}

#ifdef __linux__
/* Tasks of the machine that run or are ready to, this one included; 0: unknown. */
static int running_tasks(void)
{
    int running = 0;
    FILE *file =
        fopen("/proc/loadavg", "r"); /* proc(5): load of 1, 5 and 15 minutes, running/all tasks, last pid */
    const int n = file ? fscanf(file, "%*f %*f %*f %d/", &running) : 0;
    if (file)
        fclose(file);
    return n == 1 ? running : 0;
}
#endif

int clef__os_is_idle(void)
{
#ifdef __linux__
    enum { LOOKS = 3, MS_BETWEEN = 1 };
    for (int i = 0; i < LOOKS; i++) {
        if (running_tasks() != 1)
            return 0;
        clef__os_sleep(MS_BETWEEN);
    }
    return 1;
#else
    return 0;
#endif
}

/* ---- large memory ---------------------------------------------------------------------------- */

static const size_t HUGE_PAGE = (size_t)2 << 20;

static size_t large_bytes(size_t n_bytes)
{
    return n_bytes > SIZE_MAX - 2 * HUGE_PAGE ? 0 : (n_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

void *clef__os_alloc_large(size_t n_bytes)
{
    void *memory;
    const size_t size = large_bytes(n_bytes);
    if (!size)
        return NULL;
    char *space = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return NULL;
    const size_t head = (HUGE_PAGE - (uintptr_t)space % HUGE_PAGE) % HUGE_PAGE;
    memory = space + head;
    if (head)
        munmap(space, head);
    if (HUGE_PAGE - head)
        munmap(space + head + size, HUGE_PAGE - head);
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, size, MADV_HUGEPAGE);
#endif
    return memory;
}

void clef__os_free_large(void *memory, size_t n_bytes)
{
    if (memory)
        munmap(memory, large_bytes(n_bytes));
}

void clef__os_prefer_large(void *memory, size_t n_bytes)
{
#ifdef MADV_HUGEPAGE
    const size_t head = (HUGE_PAGE - (uintptr_t)memory % HUGE_PAGE) % HUGE_PAGE;
    if (n_bytes >= head + HUGE_PAGE)
        (void)madvise((char *)memory + head, (n_bytes - head) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#else
    (void)memory;
    (void)n_bytes;
#endif
}

void clef__os_read_ahead(const void *data, size_t n_bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data / page * page;
    (void)posix_madvise((void *)from, (uintptr_t)data + n_bytes - from, POSIX_MADV_WILLNEED);
}

void clef__os_forget(const void *data, size_t n_bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                    from = ((uintptr_t)data + page - 1) / page * page,
                    to = ((uintptr_t)data + n_bytes) / page * page;
    if (to > from)
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Locks of the open file, where the system has them: they also hold between threads, and closing another
 * descriptor of the same file does not release them, as it does those of the process.
 * Length 0: to the end of any file. */
static int lock_range(const char *path, off_t start, off_t length)
{
#ifdef F_OFD_SETLKW
    const int wait = F_OFD_SETLKW;
#else
    const int wait = F_SETLKW;
#endif
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    while (fcntl(fd, wait, &lock)) {
        if (errno == EINTR)
            continue;
        close(fd);
        return -1;
    }
    return fd;
}

int clef__os_lock(const char *path, uint64_t place)
{
    return lock_range(path, (off_t)(place >> 2), 1);
}

int clef__os_lock_all(const char *path)
{
    return lock_range(path, 0, 0);
}

void clef__os_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}
