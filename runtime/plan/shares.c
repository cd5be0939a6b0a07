/* Divides a model's layers between several devices. */
#include "runtime/plan/pipeline.h"

/* The part of a device's memory that weights and caches may take. Activations and the system need the
 * rest. */
static const double MOST_OF_MEMORY = 0.9;

/* The most layers from `begin` on that fit into so many bytes (0: no limit). */
static int32_t layers_that_fit(const clef_cut *cut, double room, int32_t begin)
{
    double n_bytes = 0;
    int32_t end = begin;
    while (end < cut->n_layers && (room <= 0 || n_bytes + cut->bytes[end] <= room))
        n_bytes += cut->bytes[end++];
    return end - begin;
}

void clef__shares_by_speed(const clef_cut *cut, const double *speeds, const double *rooms, int32_t n,
                           double *shares)
{
    double all = 0, over = 0;
    for (int32_t i = 0; i < n; i++)
        all += speeds[i];
    for (int32_t pass = 0; pass < 2;
         pass++) { /* in the second pass the first devices get what the last ones cannot hold */
        double at = 0;
        for (int32_t i = 0; i < n; i++) {
            const double wanted = (pass ? shares[i] : speeds[i] / all * cut->n_layers) + over;
            const double most = layers_that_fit(cut, rooms[i], (int32_t)at);
            shares[i] = wanted < most ? wanted : most;
            over = wanted - shares[i];
            at += shares[i];
        }
    }
    for (int32_t i = 0; i < n; i++)
        shares[i] = shares[i] > 0 ? shares[i] : 1e-3; /* every device gets at least one layer */
}

clef_status clef__shares(clef_device *first, const clef_cut *cut, double *shares, clef_error *err)
{
    double speeds[CLEF_MAX_STAGES], rooms[CLEF_MAX_STAGES];
    clef_status s = CLEF_OK;
    int32_t n = 0;
    for (clef_device *d = first; d && !s; d = d->others, n++) {
        clef_device_speed speed = {0};
        shares[n] = d->share;
        if (first->share > 0)
            continue;
        if (clef_device_speed_known(d, &speed, NULL))
            s = clef_device_measure(d, &speed, err);
        speeds[n] = speed.read_gb_s > 0 ? speed.read_gb_s : 1;
        rooms[n] = (double)d->info.caps.global_bytes * MOST_OF_MEMORY;
    }
    if (!s && !(first->share > 0))
        clef__shares_by_speed(cut, speeds, rooms, n, shares);
    return s;
}
