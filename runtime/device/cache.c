/* The disk cache of program binaries. An entry is a header (magic, format, device, key, payload size, payload
 * checksum; numbers little-endian) and the driver's binary. Nothing in a file is used before its checksum was
 * verified, because drivers crash on damaged binaries. */
#include "runtime/device/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/driver_cache.h"
#include "runtime/device/source.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

enum {
    FORMAT = 3,
    AT_FORMAT = 8,
    AT_DEVICE = 12,
    AT_KEY = AT_DEVICE + CLEF_DEVICE_MARK_BYTES,
    AT_SIZE = AT_KEY + CLEF_SHA256_BYTES,
    AT_CHECKSUM = AT_SIZE + 8,
    HEADER_BYTES = AT_CHECKSUM + CLEF_SHA256_BYTES,
    MAX_BINARY_BYTES = 256 << 20,
    MAX_HEAD = 1024, /* bytes of PoCL's binaries before their code, or more */
    MAX_PATH = 768,
    NAME_BYTES = 16 /* characters of the hash in the name of a device's file */
};
static const char magic[] = "clefprog"; /* 8 bytes without its NUL */

static void write_le(unsigned char *to, uint64_t x, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        to[i] = (unsigned char)(x >> (8 * i));
}

static void fill_header(unsigned char out[HEADER_BYTES], const clef_device_mark *device,
                        const clef_cache_key *key, const void *binary, size_t n_bytes)
{
    clef_sha256 sum;
    memcpy(out, magic, AT_FORMAT);
    write_le(out + AT_FORMAT, FORMAT, AT_DEVICE - AT_FORMAT);
    memcpy(out + AT_DEVICE, device->bytes, sizeof device->bytes);
    memcpy(out + AT_KEY, key->bytes, sizeof key->bytes);
    write_le(out + AT_SIZE, n_bytes, AT_CHECKSUM - AT_SIZE);
    clef__sha256_init(&sum);
    clef__sha256_add(&sum, binary, n_bytes);
    clef__sha256_finish(&sum, out + AT_CHECKSUM);
}

/* Returns 0 when the device has no cache or the path does not fit. */
static int entry_path(const clef_device *dev, const clef_cache_key *key, char out[MAX_PATH])
{
    if (!dev->cache_dir[0])
        return 0;
    int n = snprintf(out, MAX_PATH, "%s/programs/", dev->cache_dir);
    if (n < 0 || n + 2 * (int)sizeof key->bytes + 5 > MAX_PATH)
        return 0;
    for (size_t i = 0; i < sizeof key->bytes; i++, n += 2)
        snprintf(out + n, 3, "%02x", key->bytes[i]);
    strcpy(out + n, ".bin");
    return 1;
}

/* Includes the length, so that different lists of fields never hash the same bytes. */
static void add_field(clef_sha256 *s, const void *data, size_t n_bytes)
{
    unsigned char length[8];
    write_le(length, n_bytes, 8);
    clef__sha256_add(s, length, sizeof length);
    clef__sha256_add(s, data, n_bytes);
}

static void add_device(clef_sha256 *s, const clef_device_info *info)
{
    const char *const texts[] = {info->name, info->vendor, info->version, info->driver, info->platform_name};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        add_field(s, texts[i], strlen(texts[i]));
}

clef_device_mark clef__device_mark(const clef_device_info *info)
{
    clef_device_mark mark;
    unsigned char sum[CLEF_SHA256_BYTES];
    clef_sha256 s;
    clef__sha256_init(&s);
    add_device(&s, info);
    clef__sha256_finish(&s, sum);
    memcpy(mark.bytes, sum, sizeof mark.bytes);
    return mark;
}

clef_cache_key clef__cache_key(const clef_device *dev, const char *source, size_t n_bytes,
                               const char *options)
{
    clef_cache_key key;
    clef_sha256 s;
    unsigned char format[4];
    write_le(format, FORMAT, 4);
    clef__sha256_init(&s);
    add_field(&s, format, sizeof format);
    add_device(&s, &dev->info);
    add_field(&s, options, strlen(options));
    add_field(&s, source, n_bytes);
    clef__sha256_finish(&s, key.bytes);
    return key;
}

/* PoCL reads a program's code from a file of its own cache when a binary is asked for. If another process is
 * just replacing that file, PoCL writes a length of 0 and no code, and aborts when such a binary is loaded.
 */
static int has_its_code(const unsigned char *binary, size_t n_bytes)
{
    static const char kind[] = "poclbin", file[] = "/program.bc"; /* the length follows the file's name */
    const size_t n_name = sizeof file - 1;
    if (n_bytes < sizeof kind || memcmp(binary, kind, sizeof kind) != 0)
        return 1;
    for (size_t i = sizeof kind; i + n_name + 4 <= n_bytes && i < MAX_HEAD; i++)
        if (memcmp(binary + i, file, n_name) == 0) {
            const unsigned char *length = binary + i + n_name;
            return length[0] || length[1] || length[2] || length[3];
        }
    return 1;
}

int clef__cache_lock(const clef_device *dev, const clef_cache_key *key)
{
    char path[MAX_PATH];
    uint64_t place;
    const int n = snprintf(path, sizeof path, "%s/" CLEF_BUILD_LOCK, dev->cache_dir);
    memcpy(&place, key->bytes, sizeof place);
    if (!dev->cache_dir[0] || n < 0 || n >= MAX_PATH || clef__os_make_dirs(dev->cache_dir, NULL))
        return -1;
    return clef__os_lock(path, place);
}

int clef__cache_load(const clef_device *dev, const clef_cache_key *key, unsigned char **binary,
                     size_t *n_bytes)
{
    char path[MAX_PATH], *file = NULL;
    size_t n = 0;
    unsigned char header[HEADER_BYTES];
    const clef_device_mark device = clef__device_mark(&dev->info);
    if (!entry_path(dev, key, path) || !clef__os_is_file(path))
        return 0;
    if (clef__os_read(path, MAX_BINARY_BYTES + (size_t)HEADER_BYTES, &file, &n, NULL) != CLEF_OK)
        return 0;
    if (n > HEADER_BYTES) {
        fill_header(header, &device, key, file + HEADER_BYTES, n - HEADER_BYTES);
        if (memcmp(file, header, HEADER_BYTES) == 0 &&
            has_its_code((unsigned char *)file + HEADER_BYTES, n - HEADER_BYTES)) {
            clef__os_touch(path);
            memmove(file, file + HEADER_BYTES, n - HEADER_BYTES);
            *binary = (unsigned char *)file;
            *n_bytes = n - HEADER_BYTES;
            return 1;
        }
    }
    free(file);
    clef__os_remove(path);
    return 0;
}

void clef__cache_store(const clef_device *dev, const clef_cache_key *key, const unsigned char *binary,
                       size_t n_bytes)
{
    char path[MAX_PATH], dir[MAX_PATH];
    if (n_bytes == 0 || n_bytes > MAX_BINARY_BYTES || !has_its_code(binary, n_bytes) ||
        !entry_path(dev, key, path))
        return;
    snprintf(dir, sizeof dir, "%s/programs", dev->cache_dir);
    unsigned char *file = malloc(HEADER_BYTES + n_bytes);
    if (!file)
        return;
    const clef_device_mark device = clef__device_mark(&dev->info);
    fill_header(file, &device, key, binary, n_bytes);
    memcpy(file + HEADER_BYTES, binary, n_bytes);
    if (clef__os_make_dirs(dir, NULL) == CLEF_OK)
        clef__os_write(path, file, HEADER_BYTES + n_bytes, NULL);
    free(file);
}

int clef__cache_has(const clef_device *dev, const clef_cache_key *key)
{
    char path[MAX_PATH];
    return entry_path(dev, key, path) && clef__os_is_file(path);
}

void clef__cache_drop(const clef_device *dev, const clef_cache_key *key)
{
    char path[MAX_PATH];
    if (entry_path(dev, key, path))
        clef__os_remove(path);
}

/* ---- what else is kept of a device ----------------------------------------------------------- */

static void add_text(clef_sha256 *s, const char *text, size_t n)
{
    const uint64_t length = n; /* so that different lists of fields never hash the same bytes */
    clef__sha256_add(s, &length, sizeof length);
    clef__sha256_add(s, text, n);
}

clef_status clef__cache_add_kernels(clef_sha256 *s, clef_error *err)
{
    for (const clef_embedded *e = clef__embedded_cl; e->name; e++) {
        const char *slash = strrchr(e->name, '/'), *text;
        unsigned char sum[CLEF_SHA256_BYTES];
        char *owned;
        size_t n;
        const clef_status status = clef__source_find(slash ? slash + 1 : e->name, &text, &n, &owned, err);
        if (status == CLEF_E_NOMEM)
            return status;
        if (status != CLEF_OK)
            continue; /* missing in cl_dir: whatever needs it reports that */
        clef__source_text_sum(text, n, sum);
        clef__sha256_add(s, sum, sizeof sum);
        free(owned);
    }
    return CLEF_OK;
}

clef_status clef__cache_beside(const clef_device *dev, const char *folder, char out[CLEF_CACHE_PATH_BYTES],
                               clef_error *err)
{
    const char *const mask = clef__debug("caps"); /* a device with fewer capabilities counts as
                                                           another device */
    const char *const mode = clef__os_env(CLEF_POCL_SPECIALIZES); /* PoCL makes other code with it */
    const char *const texts[] = {dev->info.name,   dev->info.vendor,        dev->info.version,
                                 dev->info.driver, dev->info.platform_name, mask ? mask : "",
                                 mode ? mode : ""};
    unsigned char key[CLEF_SHA256_BYTES];
    clef_sha256 s;
    out[0] = 0;
    if (!dev->cache_dir[0])
        return CLEF_OK;
    clef__sha256_init(&s);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        add_text(&s, texts[i], strlen(texts[i]));
    const clef_status status = clef__cache_add_kernels(&s, err);
    if (status)
        return status;
    clef__sha256_finish(&s, key);
    int n = snprintf(out, CLEF_CACHE_PATH_BYTES, "%s/%s/", dev->cache_dir, folder);
    for (int i = 0; i < NAME_BYTES; i++)
        n += snprintf(out + n, CLEF_CACHE_PATH_BYTES - (size_t)n, "%02x", key[i]);
    snprintf(out + n, CLEF_CACHE_PATH_BYTES - (size_t)n, ".txt");
    return CLEF_OK;
}

int clef__cache_entry_of(const void *file, size_t n, clef_device_mark *device, clef_cache_key *key)
{
    unsigned char header[HEADER_BYTES];
    const unsigned char *bytes = file, *binary = bytes + HEADER_BYTES;
    if (n <= HEADER_BYTES || n - HEADER_BYTES > MAX_BINARY_BYTES)
        return 0;
    memcpy(device->bytes, bytes + AT_DEVICE, sizeof device->bytes);
    memcpy(key->bytes, bytes + AT_KEY, sizeof key->bytes);
    fill_header(header, device, key, binary, n - HEADER_BYTES);
    return memcmp(bytes, header, HEADER_BYTES) == 0 && has_its_code(binary, n - HEADER_BYTES);
}

int clef__cache_is_whole(const char *path)
{
    clef_mapping file;
    clef_device_mark device;
    clef_cache_key key;
    if (clef__os_map(path, &file, NULL))
        return 0;
    const int is_whole = clef__cache_entry_of(file.data, file.n_bytes, &device, &key);
    clef__os_unmap(&file);
    return is_whole;
}

int clef__cache_take(const clef_device *dev, const clef_cache_key *key, const void *file, size_t n_bytes,
                     clef_error *err)
{
    char path[MAX_PATH], dir[MAX_PATH];
    if (!entry_path(dev, key, path) || (clef__os_is_file(path) && clef__cache_is_whole(path)))
        return 0;
    snprintf(dir, sizeof dir, "%s/programs", dev->cache_dir);
    return clef__os_make_dirs(dir, err) || clef__os_write(path, file, n_bytes, err) ? -1 : 1;
}
