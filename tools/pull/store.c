#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* flock */
#define _DARWIN_C_SOURCE
#include "tools/pull/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/cli/terminal.h"

static clef_status cannot(const char *what, const char *path, clef_error *err)
{
    return cli_error(err, CLEF_E_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* Makes the folders of a file's path that are missing. */
static clef_status make_folders(const char *path, clef_error *err)
{
    char folder[HUB_MOST_PATH];
    for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
        const size_t n = (size_t)(slash - path);
        memcpy(folder, path, n);
        folder[n] = '\0';
        if (!cli_terminal_make_folder(folder))
            return cannot("make the folder", folder, err);
    }
    return CLEF_OK;
}

clef_status pull_store_begin(const char *folder, clef_error *err)
{
    char blobs[HUB_MOST_PATH];
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    const clef_status status = hub_path(blobs, err, "%s/blobs/", folder);
    return status ? status : make_folders(blobs, err);
}

int64_t pull_store_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

uint64_t pull_store_space(const char *folder)
{
    struct statvfs st;
    return statvfs(folder, &st) == 0 ? (uint64_t)st.f_bavail * (uint64_t)st.f_frsize : UINT64_MAX;
}

/* ---- locks ----------------------------------------------------------------------------------- */

clef_status pull_store_lock(const char *path, int *out, clef_error *err)
{
    struct stat own, named;
    const clef_status status = make_folders(path, err);
    *out = -1;
    if (status)
        return status;
    const int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (lock < 0)
        return cannot("open", path, err);
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        const int code = errno;
        close(lock);
        errno = code;
        return code == EWOULDBLOCK || code == EINTR ? CLEF_OK : cannot("lock", path, err);
    }
    /* Who had it may have removed the file; then the lock is worth nothing. */
    if (fstat(lock, &own) == 0 && stat(path, &named) == 0 && own.st_ino == named.st_ino &&
        own.st_dev == named.st_dev)
        *out = lock;
    else
        close(lock);
    return CLEF_OK;
}

void pull_store_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Takes the bytes that are there into the checksum. */
static clef_status read_part(pull_part *p, uint64_t *at, clef_error *err)
{
    static char buffer[1 << 18];
    *at = 0;
    for (;;) {
        const ssize_t n = read(p->file, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR && !cli_terminal_interrupted())
            continue;
        if (n < 0)
            return cannot("read", p->part, err);
        if (n == 0)
            break;
        pull_digest_add(&p->digest, buffer, (size_t)n);
        *at += (uint64_t)n;
        if (cli_terminal_interrupted())
            return cli_error(err, CLEF_E_CANCELLED, "interrupted; the next pull goes on from here");
    }
    return *at > p->n_bytes ? pull_part_restart(p, err) : CLEF_OK;
}

clef_status pull_part_open(pull_part *p, const char *path, const char *title, const char *etag,
                           uint64_t n_bytes, uint64_t *at, clef_error *err)
{
    *p = (pull_part){.file = -1, .n_bytes = n_bytes, .title = title};
    *at = 0;
    clef_status status = hub_path(p->path, err, "%s", path);
    if (!status)
        status = hub_path(p->part, err, "%s.incomplete", path);
    if (status)
        return status;
    p->file = open(p->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (p->file < 0)
        return cannot("write", p->part, err);
    if (!pull_digest_begin(&p->digest, etag, n_bytes))
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    status = read_part(p, at, err);
    if (!status && *at > n_bytes)
        *at = 0;
    return status;
}

clef_status pull_part_take(void *user, const void *data, size_t n, clef_error *err)
{
    pull_part *p = user;
    for (size_t done = 0; done < n;) {
        const ssize_t written = write(p->file, (const char *)data + done, n - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return cannot("write", p->part, err);
        pull_digest_add(&p->digest, (const char *)data + done, (size_t)written);
        done += (size_t)written;
    }
    return CLEF_OK;
}

clef_status pull_part_restart(void *user, clef_error *err)
{
    pull_part *p = user;
    if (lseek(p->file, 0, SEEK_SET) != 0 || ftruncate(p->file, 0) != 0)
        return cannot("empty", p->part, err);
    if (!pull_digest_begin(&p->digest, p->digest.wanted, p->n_bytes))
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    return CLEF_OK;
}

clef_status pull_part_end(pull_part *p, clef_error *err)
{
    if (!pull_digest_end(&p->digest)) {
        unlink(p->part);
        return cli_error(err, CLEF_E_FORMAT, "%s: expected the checksum %s, got another: damaged on its way",
                         p->title, p->digest.wanted);
    }
    if (fsync(p->file) != 0)
        return cannot("write", p->part, err);
    if (rename(p->part, p->path) != 0)
        return cannot("write", p->path, err);
    return CLEF_OK;
}

void pull_part_close(pull_part *p)
{
    if (p->file >= 0)
        close(p->file);
    p->file = -1;
    pull_digest_end(&p->digest);
}

/* ---- links and refs -------------------------------------------------------------------------- */

/* A name in the same folder that nobody else has. */
static clef_status temporary_of(const char *path, char out[HUB_MOST_PATH], clef_error *err)
{
    return hub_path(out, err, "%s.%08" PRIx32 ".tmp", path, (uint32_t)cli_terminal_entropy());
}

clef_status pull_store_link(const char *path, const char *target, clef_error *err)
{
    char is[HUB_MOST_PATH], temporary[HUB_MOST_PATH];
    const ssize_t n = readlink(path, is, sizeof is - 1);
    is[n > 0 ? n : 0] = '\0';
    if (strcmp(is, target) == 0)
        return CLEF_OK;
    clef_status status = make_folders(path, err);
    if (!status)
        status = temporary_of(path, temporary, err);
    if (status)
        return status;
    if (symlink(target, temporary) == 0 && rename(temporary, path) == 0)
        return CLEF_OK;
    status = cannot("make a link", path, err);
    unlink(temporary);
    return status;
}

clef_status pull_store_text(const char *path, const char *text, clef_error *err)
{
    char temporary[HUB_MOST_PATH];
    clef_status status = make_folders(path, err);
    if (!status)
        status = temporary_of(path, temporary, err);
    if (status)
        return status;
    FILE *file = cli_terminal_create(temporary);
    const int is_written = file && fputs(text, file) >= 0;
    const int is_closed = file && fclose(file) == 0;
    if (is_written && is_closed && cli_terminal_rename(temporary, path))
        return CLEF_OK;
    status = cannot("write", path, err);
    remove(temporary);
    return status;
}
