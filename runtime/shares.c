/* How much of a model each of several devices gets. */
#include "runtime/chain.h"

/* What of a device's memory weights and caches may take; activations and the system want the rest. */
static const double MOST_OF_MEMORY = 0.9;

/* Layers [begin, end) in bytes. */
static double bytes_between(const clef_cut *cut, int32_t begin, int32_t end)
{
    double n = 0;
    for (int32_t l = begin; l < end; l++)
        n += cut->bytes[l];
    return n;
}

/* The most layers from `begin` on that fit into a device. */
static int32_t layers_that_fit(const clef_cut *cut, const clef_device *dev, int32_t begin)
{
    const double room = (double)dev->info.caps.global_bytes * MOST_OF_MEMORY;
    int32_t end = begin;
    while (end < cut->n_layers && (room <= 0 || bytes_between(cut, begin, end + 1) <= room))
        end++;
    return end - begin;
}

/* Time goes by bytes read, so layers go by bandwidth; a device that is full gives what it cannot hold to the ones behind it, and what these
 * cannot hold goes back to the front. The plan says so where it does not fit at all. */
static clef_status measured_shares(clef_device *first, const clef_cut *cut, double *shares, clef_error *err)
{
    clef_status s = CLEF_OK;
    int32_t n = 0;
    double all = 0;
    for (clef_device *d = first; d && !s; d = d->others, n++) {
        clef_device_speed speed;
        if (clef_device_speed_known(d, &speed, NULL))
            s = clef_device_measure(d, &speed, err);
        shares[n] = speed.read_gb_s > 0 ? speed.read_gb_s : 1;
        all += shares[n];
    }
    if (s || cut->n_layers < 1)
        return s;
    double over = 0;
    for (int32_t pass = 0; pass < 2; pass++) { /* forwards, then once more with what was left over */
        int32_t i = 0;
        double at = 0;
        for (const clef_device *d = first; d; d = d->others, i++) {
            const double wanted = (pass ? shares[i] : shares[i] / all * cut->n_layers) + over;
            const double most = layers_that_fit(cut, d, (int32_t)at);
            shares[i] = wanted < most ? wanted : most;
            over = wanted - shares[i];
            at += shares[i];
        }
    }
    for (int32_t i = 0; i < n; i++)
        shares[i] = shares[i] > 0 ? shares[i] : 1e-3; /* a device of the list gets a layer at least */
    return CLEF_OK;
}

clef_status clef__shares(clef_device *first, const clef_cut *cut, double *shares, clef_error *err)
{
    int32_t n = 0;
    for (const clef_device *d = first; d; d = d->others)
        shares[n++] = d->share;
    return first->share > 0 ? CLEF_OK : measured_shares(first, cut, shares, err);
}
