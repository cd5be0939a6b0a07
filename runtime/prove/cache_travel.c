/* Takes what is cached of a device to another machine and back: clef_cache_export(), clef_cache_import(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cache.h"
#include "runtime/device/cache_folder.h"
#include "runtime/device/device_find.h"
#include "runtime/device/probe_child.h"
#include "runtime/os/os.h"
#include "runtime/prove/cache_bundle.h"
#include "runtime/prove/proof.h"
#include "runtime/tune/tune.h"

/* ---- the device -------------------------------------------------------------------------------- */

/* The device without a context: its probes would compile what an import brings. */
static clef_status find_device(const char *dir, const char *which, clef_device **out, clef_error *err)
{
    clef_found_list list = {0};
    const clef_found *f = NULL;
    *out = NULL;
    if (strlen(dir) >= sizeof(*out)->cache_dir)
        return clef__fail(err, CLEF_E_ARG, "%.100s..: expected a cache folder of fewer than %zu bytes", dir,
                          sizeof(*out)->cache_dir);
    clef_status s = clef__find_all(dir, &list, err);
    if (!s)
        s = clef__find_one(&list, which ? which : clef__os_env("CLEF_DEVICE"), &f, err);
    if (!s && !(*out = calloc(1, sizeof **out)))
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for device %s", f->info.name);
    if (!s) {
        (*out)->info = f->info;
        (*out)->cache_policy = CLEF__SAVE_NEVER;
        strcpy((*out)->cache_dir, dir);
    }
    free(list.at);
    return s;
}

clef_status clef_cache_travel_key(const char *device, char out[CLEF_CACHE_TRAVEL_KEY_BYTES], clef_error *err)
{
    clef_device *dev = NULL;
    clef__bound bound;
    unsigned char sum[CLEF_SHA256_BYTES];
    clef_sha256 hash;
    clef_status s = find_device("", device, &dev, err);
    if (!s)
        s = clef__bound_of(&dev->info, &bound, err);
    if (!s) {
        clef__sha256_init(&hash);
        clef__sha256_add(&hash, bound.value, sizeof bound.value);
        clef__sha256_finish(&hash, sum);
        for (size_t i = 0; i < CLEF_CACHE_TRAVEL_KEY_BYTES / 2; i++)
            snprintf(out + 2 * i, 3, "%02x", sum[i]);
    }
    clef_device_close(dev);
    return s;
}

/* ---- export ------------------------------------------------------------------------------------ */

typedef struct parcel {
    clef__bundle bundle;
    clef_mapping *files; /* a mapped file stays whole if others replace or remove it */
    int32_t n_files;
} parcel;

static void close_parcel(parcel *p)
{
    for (int32_t i = 0; i < p->n_files; i++)
        clef__os_unmap(&p->files[i]);
    free(p->files);
    free(p->bundle.parts);
}

/* Whether a file is a program of the device. */
static int is_program(const clef_mapping *file, const clef_device_mark *device, clef_cache_key *key)
{
    clef_device_mark of;
    return clef__cache_entry_of(file->data, file->n_bytes, &of, key) && memcmp(&of, device, sizeof of) == 0;
}

/* Adds a file of the folder, unless it is missing, damaged or of another device. */
static clef_status pack_file(parcel *p, const clef_device_mark *device, clef__part_kind kind,
                             const char *path, clef_error *err)
{
    clef_mapping *file = &p->files[p->n_files];
    clef_cache_key key;
    if (!clef__os_is_file(path) || clef__os_map(path, file, NULL))
        return CLEF_OK;
    p->n_files++;
    const int is_wanted = kind == CLEF__PART_PROGRAM
                              ? is_program(file, device, &key)
                              : file->n_bytes > 0 && file->n_bytes <= CLEF__PART_TEXT_BYTES;
    return is_wanted
               ? clef__bundle_add(&p->bundle, &(clef__bundle_part){kind, file->data, file->n_bytes}, err)
               : CLEF_OK;
}

static clef_status pack_all(parcel *p, const clef_device *dev, clef_error *err)
{
    char path[CLEF_CACHE_PATH_BYTES];
    clef__cache_files files;
    const clef_device_mark mark = clef__device_mark(&dev->info);
    clef_status s = clef__cache_scan(dev->cache_dir, &files, err);
    if (!s && !(p->files = calloc((size_t)files.n + CLEF__PART_PROGRAM, sizeof *p->files)))
        s = clef__fail(err, CLEF_E_NOMEM, "no memory for %d cached files", (int)files.n);
    for (int k = 0; k < CLEF__PART_PROGRAM && !s; k++) {
        s = clef__cache_beside(dev, clef__part_names[k], path, err);
        if (!s)
            s = pack_file(p, &mark, (clef__part_kind)k, path, err);
    }
    for (int32_t i = 0; i < files.n && !s; i++)
        if (files.at[i].kind == CLEF_CACHE_PROGRAM)
            s = pack_file(p, &mark, CLEF__PART_PROGRAM, files.at[i].path, err);
    free(files.at);
    return s;
}

/* Waits for the children that compile and prove in the background: without them a start would build anew. */
static void wait_for_others(const char *dir)
{
    char path[CLEF_CACHE_PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s/" CLEF_BUILD_LOCK, dir);
    if (n > 0 && (size_t)n < sizeof path && clef__os_is_file(path))
        clef__os_unlock(clef__os_lock_all(path));
}

static void count_parts(const clef__bundle *b, clef_cache_moved *moved)
{
    for (int32_t i = 0; i < b->n; i++)
        moved->n_programs += b->parts[i].kind == CLEF__PART_PROGRAM;
    moved->n_files = b->n;
}

clef_status clef_cache_export(const char *dir, const char *device, const char *path, clef_cache_moved *moved,
                              clef_error *err)
{
    clef_device *dev = NULL;
    parcel p = {0};
    *moved = (clef_cache_moved){0};
    clef_status s = find_device(dir, device, &dev, err);
    if (!s) {
        strcpy(moved->device, dev->info.name);
        wait_for_others(dir);
        s = clef__bound_of(&dev->info, &p.bundle.bound, err);
    }
    if (!s)
        s = pack_all(&p, dev, err);
    count_parts(&p.bundle, moved);
    if (!s && !moved->n_programs)
        s = clef__fail(err, CLEF_E_NOT_FOUND,
                       "%.200s: expected compiled kernels of %s, got none: run a model first", dir,
                       dev->info.name);
    if (!s)
        s = clef__bundle_write(&p.bundle, path, &moved->n_bytes, err);
    close_parcel(&p);
    clef_device_close(dev);
    return s;
}

/* ---- import ------------------------------------------------------------------------------------ */

static clef_status check_programs(const char *path, const clef_device *dev, const clef__bundle *b,
                                  clef_error *err)
{
    const clef_device_mark mark = clef__device_mark(&dev->info);
    clef_cache_key key;
    for (int32_t i = 0; i < b->n; i++) {
        const clef__bundle_part *part = &b->parts[i];
        const clef_mapping file = {.data = part->data, .n_bytes = part->n_bytes};
        if (part->kind == CLEF__PART_PROGRAM && !is_program(&file, &mark, &key))
            return clef__fail(err, CLEF_E_FORMAT,
                              "%.200s: expected whole programs of %s, got another as part %d", path,
                              dev->info.name, (int)i + 1);
    }
    return CLEF_OK;
}

static clef_status take_tuning(clef_device *dev, const char *text, int32_t *n_new, clef_error *err)
{
    clef_tune_db *db = NULL;
    clef_status s = clef__tune_db_open(dev, &db, err);
    const int32_t n_before = s ? 0 : db->n;
    if (!s)
        s = clef__tune_parse(db, text, err); /* what was measured here stays */
    if (!s)
        s = clef__tune_db_save(dev, db, err);
    *n_new = s ? 0 : db->n - n_before;
    return s;
}

static clef_status take_text(clef_device *dev, const clef__bundle_part *part, const clef__bound *from,
                             clef_cache_moved *moved, clef_error *err)
{
    clef_status s = CLEF_OK;
    char *text = malloc(part->n_bytes + 1);
    if (!text)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a text of %zu bytes", part->n_bytes);
    memcpy(text, part->data, part->n_bytes);
    text[part->n_bytes] = 0;
    if (part->kind == CLEF__PART_PROOF)
        s = clef__proofs_take(dev, text, &moved->n_proofs, err);
    else if (part->kind != CLEF__PART_TUNING)
        clef__probes_take(
            dev, part->kind == CLEF__PART_MEASURE ? CLEF__PROBES_OF_MEASURE : CLEF__PROBES_OF_OPEN, text);
    else if (from->n_units == dev->info.caps.n_units)
        s = take_tuning(dev, text, &moved->n_tuned, err);
    else
        moved->other_units = from->n_units;
    free(text);
    return s;
}

static clef_status take_part(clef_device *dev, const clef__bundle_part *part, const clef__bound *from,
                             clef_cache_moved *moved, clef_error *err)
{
    clef_device_mark of;
    clef_cache_key key;
    if (part->kind != CLEF__PART_PROGRAM)
        return take_text(dev, part, from, moved, err);
    clef__cache_entry_of(part->data, part->n_bytes, &of, &key);
    const int taken = clef__cache_take(dev, &key, part->data, part->n_bytes, err);
    moved->n_programs += taken > 0;
    return taken < 0 ? CLEF_E_IO : CLEF_OK;
}

/* Programs come first: what says that a kernel is right is of no use without it. */
static clef_status take_all(clef_device *dev, const clef__bundle *b, clef_cache_moved *moved, clef_error *err)
{
    clef_status s = clef__os_make_dirs(dev->cache_dir, err);
    for (int texts = 0; texts < 2; texts++)
        for (int32_t i = 0; i < b->n && !s; i++)
            if (texts == (b->parts[i].kind != CLEF__PART_PROGRAM))
                s = take_part(dev, &b->parts[i], &b->bound, moved, err);
    return s;
}

clef_status clef_cache_import(const char *dir, const char *device, const char *path, clef_cache_moved *moved,
                              clef_error *err)
{
    clef_device *dev = NULL;
    clef_mapping file = {0};
    clef__bundle b = {0};
    clef__bound own;
    *moved = (clef_cache_moved){0};
    clef_status s = clef__os_map(path, &file, err);
    if (!s)
        s = clef__bundle_read(path, &file, &b, err);
    if (!s)
        s = find_device(dir, device, &dev, err);
    if (!s)
        s = clef__bound_of(&dev->info, &own, err);
    if (!s)
        s = clef__bound_check(path, &own, &b.bound, err);
    if (!s)
        s = check_programs(path, dev, &b, err);
    if (!s)
        s = take_all(dev, &b, moved, err);
    if (!s) {
        strcpy(moved->device, dev->info.name);
        moved->n_files = b.n;
        moved->n_bytes = file.n_bytes;
        clef__cache_trim(dir);
    }
    free(b.parts);
    clef__os_unmap(&file);
    clef_device_close(dev);
    return s;
}
