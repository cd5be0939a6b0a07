/* Gets files into the cache. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/pull/pull.h"
#include "tools/pull/store.h"

clef_status pull_blob_path(const pull_job *job, int32_t i, char out[HUB_MOST_PATH], clef_error *err)
{
    return hub_path(out, err, "%s/blobs/%s", job->folder, job->files[i].etag);
}

static clef_status url_of(const pull_job *job, int32_t i, char out[HUB_MOST_PATH], clef_error *err)
{
    char escaped[HUB_MOST_PATH];
    const clef_status status = pull_escape(job->wanted.names[i], "-_.~/", escaped, err);
    return status ? status
                  : hub_path(out, err, "%s/%s/resolve/%s/%s", job->endpoint, job->name.repo, job->commit,
                             escaped);
}

static int is_there(const pull_job *job, int32_t i)
{
    char path[HUB_MOST_PATH];
    clef_error err;
    return !pull_blob_path(job, i, path, &err) && pull_store_size(path) == (int64_t)job->files[i].n_bytes;
}

/* Asks for a file's checksum and size, and looks whether it is there. */
static clef_status look(pull_job *job, int32_t i, clef_error *err)
{
    enum { MOST_BITS = 46 };
    const char *repo = job->name.repo, *name = job->wanted.names[i];
    char url[HUB_MOST_PATH];
    pull_head_fields head;
    clef_status status = url_of(job, i, url, err);
    if (!status)
        status = pull_head(job->net, url, &head, err);
    if (status)
        return status;
    if (!pull_digest_is_name(head.etag))
        return cli_error(err, CLEF_E_FORMAT, "%s: %s: expected a checksum as ETag, got '%.100s'", repo, name,
                         head.etag);
    if (head.n_bytes < 0 || head.n_bytes >> MOST_BITS)
        return cli_error(err, CLEF_E_FORMAT, "%s: %s: expected its size from %s, got %" PRId64, repo, name,
                         job->endpoint, head.n_bytes);
    strcpy(job->files[i].etag, head.etag);
    job->files[i].n_bytes = (uint64_t)head.n_bytes;
    job->files[i].is_there = is_there(job, i);
    return CLEF_OK;
}

/* Looks at the files that were not looked at. *missing: bytes that the cache lacks. */
static clef_status look_all(pull_job *job, uint64_t *missing, clef_error *err)
{
    char part[HUB_MOST_PATH];
    uint64_t on_disk = 0;
    pull_file *files = realloc(job->files, (size_t)job->wanted.n * sizeof *files);
    *missing = 0;
    if (!files)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    job->files = files;
    for (int32_t i = job->n_files; i < job->wanted.n; i++) {
        clef_status status = look(job, i, err);
        if (!status)
            status = hub_path(part, err, "%s/blobs/%s.incomplete", job->folder, files[i].etag);
        if (status)
            return status;
        const int64_t there = pull_store_size(part);
        *missing += files[i].is_there ? 0 : files[i].n_bytes;
        on_disk += files[i].is_there || there < 0 ? 0 : (uint64_t)there;
    }
    const uint64_t space = pull_store_space(job->folder),
                   needed = *missing > on_disk ? *missing - on_disk : 0;
    char wanted[24], got[24];
    if (needed > space)
        return cli_error(err, CLEF_E_IO, "%s: expected %s on the disk of %s, got %s", job->name.repo,
                         cli_bytes_text(needed, wanted), job->folder, cli_bytes_text(space, got));
    return CLEF_OK;
}

/* Waits until no other program gets the same file. */
static clef_status take_lock(pull_job *job, int32_t i, int *lock, clef_error *err)
{
    char path[HUB_MOST_PATH];
    const char *folder = cli_title_of(job->folder);
    const int n_cache = (int)(folder - job->folder);
    clef_status status =
        hub_path(path, err, "%.*s.locks/%s/%s.lock", n_cache, job->folder, folder, job->files[i].etag);
    *lock = -1;
    for (int32_t said = job->quiet; !status && *lock < 0; said = 1) {
        status = pull_store_lock(path, lock, err);
        if (!status && *lock < 0 && !said)
            fprintf(stderr, "clef: %s: another program gets it: waiting\n", job->wanted.names[i]);
        if (!status && *lock < 0)
            status = pull_pause(job->net, 0.1, err);
    }
    return status;
}

/* Gets the rest of a file. *again: the checksum differs, and bytes of an earlier pull may be why. */
static clef_status get_rest(pull_job *job, int32_t i, int *again, clef_error *err)
{
    const pull_file *file = &job->files[i];
    char url[HUB_MOST_PATH], blob[HUB_MOST_PATH];
    pull_part part = {.file = -1};
    pull_body body = {.most = file->n_bytes,
                      .is_exact = 1,
                      .take = pull_part_take,
                      .restart = pull_part_restart,
                      .user = &part};
    clef_status status = url_of(job, i, url, err);
    if (!status)
        status = pull_blob_path(job, i, blob, err);
    if (!status)
        status = pull_part_open(&part, blob, job->wanted.names[i], file->etag, file->n_bytes, &body.at, err);
    const int had_some = body.at > 0;
    if (!status && body.at < file->n_bytes)
        status = pull_get(job->net, url, &body, err);
    if (!status)
        status = pull_part_end(&part, err);
    pull_part_close(&part);
    *again = status == CLEF_E_FORMAT && had_some;
    return status;
}

static clef_status get_file(pull_job *job, int32_t i, clef_error *err)
{
    int lock, again = 0;
    clef_status status = take_lock(job, i, &lock, err);
    if (!status && !is_there(job, i)) {
        status = get_rest(job, i, &again, err);
        if (again)
            status = get_rest(job, i, &again, err);
        job->n_got += status ? 0 : job->files[i].n_bytes;
    }
    pull_store_unlock(lock);
    return status;
}

clef_status pull_fetch(pull_job *job, clef_error *err)
{
    uint64_t total = 0, done = 0;
    clef_status status = look_all(job, &total, err);
    for (; !status && job->n_files < job->wanted.n; job->n_files++) {
        const pull_file *file = &job->files[job->n_files];
        if (file->is_there)
            continue;
        pull_net_show(job->net, done, total);
        status = get_file(job, job->n_files, err);
        if (status)
            break;
        done += file->n_bytes;
    }
    pull_net_show(job->net, 0, 0);
    return status;
}
