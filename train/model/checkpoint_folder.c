/* The checkpoints of a folder: the newest sound one, and which of them stay. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clef/train_files.h"
#include "graph/fail.h"
#include "train/model/checkpoint.h"
#include "train/model/checkpoint_form.h"

/* The step in a name like ckpt-00000200.clef. Returns 0 for other names. */
static int checkpoint_step(const char *name, uint64_t *step)
{
    enum { MOST_DIGITS = 18 };
    static const char begin[] = "ckpt-", end[] = ".clef";
    if (strncmp(name, begin, sizeof begin - 1) != 0)
        return 0;
    name += sizeof begin - 1;
    const size_t n = strspn(name, "0123456789");
    *step = strtoull(name, NULL, 10);
    return n > 0 && n <= MOST_DIGITS && strcmp(name + n, end) == 0;
}

/* ---- the list */

typedef struct file {
    uint64_t step;
    char *path;
} file;

typedef struct list {
    file *files;
    size_t n;
} list;

static void finish(list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->files[i].path);
    free(l->files);
}

static clef_status add_file(void *user, const clef__os_file_info *info)
{
    list *l = user;
    uint64_t step;
    if (!checkpoint_step(info->name, &step))
        return CLEF_OK;
    file *grown = realloc(l->files, (l->n + 1) * sizeof *grown);
    if (grown)
        l->files = grown;
    char *path = grown ? malloc(strlen(info->path) + 1) : NULL;
    if (!path)
        return CLEF_E_NOMEM;
    strcpy(path, info->path);
    l->files[l->n++] = (file){step, path};
    return CLEF_OK;
}

static int later_first(const void *a, const void *b)
{
    const uint64_t x = ((const file *)a)->step, y = ((const file *)b)->step;
    return (x < y) - (x > y);
}

/* The checkpoints of a folder, the latest step first. */
static clef_status list_files(const char *folder, list *out, clef_error *err)
{
    *out = (list){0};
    if (clef__os_list(folder, add_file, out)) {
        finish(out);
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its files", folder);
    }
    if (out->n > 0)
        qsort(out->files, out->n, sizeof *out->files, later_first);
    return CLEF_OK;
}

int32_t clef_train_has_checkpoint(const char *folder)
{
    list l;
    if (list_files(folder, &l, NULL))
        return 0;
    finish(&l);
    return l.n > 0;
}

/* ---- the newest */

static void pass_over(const clef_error *why, const char *next, void (*note)(void *user, const char *text),
                      void *user)
{
    char text[sizeof why->text + 256];
    snprintf(text, sizeof text, "%s; %s%.200s", why->text, next ? "trying " : "there is no other",
             next ? next : "");
    if (note)
        note(user, text);
}

clef_status clef__checkpoint_newest(const char *folder, const char *model, const char *options,
                                    void (*note)(void *user, const char *text), void *note_user,
                                    clef__checkpoint **out, clef_error *err)
{
    list l;
    clef_error first = {0};
    *out = NULL;
    clef_status status = list_files(folder, &l, err);
    if (status)
        return status;
    for (size_t i = 0; i < l.n && !*out; i++) {
        clef_error why = {0};
        status = clef__checkpoint_open(l.files[i].path, out, &why);
        if (i == 0 || status != CLEF_E_FORMAT)
            first = why;
        if (status && status != CLEF_E_FORMAT)
            break;
        if (status)
            pass_over(&why, i + 1 < l.n ? l.files[i + 1].path : NULL, note, note_user);
    }
    finish(&l);
    if (!*out && l.n == 0)
        return clef__fail(err, CLEF_E_NOT_FOUND, "%s: has no checkpoint (ckpt-STEP.clef)", folder);
    if (!*out) {
        if (err)
            *err = first;
        return status;
    }
    status = clef__checkpoint_check(*out, model, options, err);
    if (status) {
        clef__checkpoint_close(*out);
        *out = NULL;
    }
    return status;
}

/* ---- which stay */

/* Removes what writers left behind that were killed: ckpt-N.clef.PID-K.tmp. */
static clef_status remove_leftover(void *user, const clef__os_file_info *info)
{
    enum { HOUR = 3600 };
    const int64_t now = *(const int64_t *)user;
    const size_t n = strlen(info->name);
    if (n > 4 && strncmp(info->name, "ckpt-", 5) == 0 && strstr(info->name, ".clef.") &&
        strcmp(info->name + n - 4, ".tmp") == 0 && now - info->when > HOUR)
        clef__os_remove(info->path);
    return CLEF_OK;
}

static void remove_old(const char *folder, uint64_t step, int32_t keep)
{
    list l;
    int32_t n_before = 0;
    int64_t now = (int64_t)time(NULL);
    if (list_files(folder, &l, NULL))
        return;
    for (size_t i = 0; i < l.n; i++)
        if (l.files[i].step > step || (l.files[i].step < step && ++n_before >= keep))
            clef__os_remove(l.files[i].path);
    finish(&l);
    clef__os_list(folder, remove_leftover, &now);
}

clef_status clef__checkpoint_save(const char *folder, const clef__checkpoint_head *head,
                                  const clef__checkpoint_tensor *tensors, int32_t n, int32_t keep,
                                  clef_error *err)
{
    char path[CLEF_CHECKPOINT_PATH_BYTES];
    if (!folder || !head ||
        snprintf(path, sizeof path, "%s/ckpt-%08" PRIu64 ".clef", folder, head->step) >= (int)sizeof path)
        return clef__fail(err, CLEF_E_ARG, "a checkpoint: expected a folder and a head");
    const clef_status status = clef__checkpoint_write(path, head, tensors, n, err);
    if (!status)
        remove_old(folder, head->step, keep > 0 ? keep : CLEF_CHECKPOINTS_KEPT);
    return status;
}
