/* Measured speed of a device, saved on disk under a name made from the device and this build's kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cache.h"
#include "runtime/os/os.h"

enum { MAX_FILE_BYTES = 4096 };
static const char head[] = "clef speed 2\n";

/* Returns 1 when the file is complete; a damaged one is ignored. */
static int read_speed(const char *path, clef_device_speed *out)
{
    clef_device_speed x = {0};
    unsigned long long bytes = 0;
    char *text = NULL;
    size_t n = 0;
    int got = 0;
    if (!path[0] || !clef__os_is_file(path) || clef__os_read(path, MAX_FILE_BYTES, &text, &n, NULL))
        return 0;
    if (strncmp(text, head, sizeof head - 1) == 0)
        got = sscanf(text + sizeof head - 1, "%lf %lf %lf %lf %lf %lf %lf %llu", &x.read_gb_s, &x.copy_gb_s,
                     &x.mad_gflop_s, &x.dot_gop_s, &x.tile_gop_s, &x.launch_us, &x.round_trip_us, &bytes);
    free(text);
    x.buffer_bytes = bytes;
    if (got != 8 || !(x.read_gb_s > 0) || !(x.mad_gflop_s > 0))
        return 0;
    *out = x;
    return 1;
}

/* If it cannot be saved, it is measured again another time. */
void clef__speed_keep(const clef_device *dev, const clef_device_speed *x)
{
    char path[CLEF_CACHE_PATH_BYTES], text[512], folder[CLEF_CACHE_PATH_BYTES];
    const int n = snprintf(text, sizeof text, "%s%.6g %.6g %.6g %.6g %.6g %.6g %.6g %llu\n", head,
                           x->read_gb_s, x->copy_gb_s, x->mad_gflop_s, x->dot_gop_s, x->tile_gop_s,
                           x->launch_us, x->round_trip_us, (unsigned long long)x->buffer_bytes);
    snprintf(folder, sizeof folder, "%s/speed", dev->cache_dir);
    if (!clef__cache_beside(dev, "speed", path, NULL) && path[0] && n > 0 &&
        !clef__os_make_dirs(folder, NULL))
        clef__os_write(path, text, (size_t)n, NULL);
}

clef_status clef_device_speed_known(const clef_device *dev, clef_device_speed *out, clef_error *err)
{
    char path[CLEF_CACHE_PATH_BYTES];
    *out = (clef_device_speed){0};
    const clef_status s = clef__cache_beside(dev, "speed", path, err);
    if (!s && !read_speed(path, out))
        return clef__fail(err, CLEF_E_NOT_FOUND, "%s was not measured yet", dev->info.name);
    return s;
}
