#include "runtime/plan/bounded.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "runtime/device/device.h"
#include "runtime/os/debug.h"

static const double MOST_SECONDS = 0.1, PART_OF_MAD = 0.25, PART_OF_READ = 0.25, READ_UNKNOWN = 10e9;

typedef struct rates {
    double flops, bytes; /* a second */
} rates;

/* Operations of a compute unit and clock that a product may count on: half of what the vectors of an Intel
 * unit do, a quarter of what the lanes of AMD's or NVIDIA's units do. */
static double ops_a_clock(const clef_caps *caps)
{
    return caps->nv_asm ? 64 : caps->amd_dot ? 32 : 8;
}

static rates expected_rates(const clef_device *dev)
{
    const clef_caps *caps = &dev->info.caps;
    clef_device_speed speed;
    if (!clef_device_speed_known(dev, &speed, NULL))
        return (rates){speed.mad_gflop_s * 1e9 * PART_OF_MAD, speed.read_gb_s * 1e9 * PART_OF_READ};
    const double mhz = caps->mhz > 0 ? caps->mhz : 500;
    return (rates){clef__device_units(caps) * mhz * 1e6 * ops_a_clock(caps), READ_UNKNOWN};
}

/* The expected time of the slowest node. */
static double worst_seconds(const clef_graph *g, const int64_t *symbols, rates r)
{
    double worst = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *n = g->values[i];
        if (n->op == CLEF_OP_NONE || !clef__ops[n->op]->lower)
            continue;
        const clef_cost cost = clef__cost(n, symbols);
        const double seconds = cost.flops / r.flops + cost.bytes / r.bytes;
        worst = seconds > worst ? seconds : worst;
    }
    return worst;
}

clef_status clef__bound_rows(clef_device *dev, clef_graph *g, const char *symbol, int64_t least,
                             clef_error *err)
{
    const char *text = clef__debug("launch_seconds");
    char *end = NULL;
    const double most = text ? strtod(text, &end) : MOST_SECONDS;
    int64_t symbols[CLEF_MAX_SYMBOLS];
    int32_t at = -1;
    if (text && (end == text || *end || !(most > 0)))
        return clef__fail(err, CLEF_E_ARG, "CLEF_DEBUG: launch_seconds: '%.40s', expected a number above 0",
                          text);
    for (int32_t i = 0; i < g->n_symbols; i++) {
        symbols[i] = g->symbols[i].bound;
        at = strcmp(g->symbols[i].name, symbol) == 0 ? i : at;
    }
    if (at < 0)
        return CLEF_OK;
    for (const clef_device *d = dev; d; d = d->others)
        while ((text || !d->info.caps.is_cpu) && symbols[at] > least &&
               worst_seconds(g, symbols, expected_rates(d)) > most)
            symbols[at] = (symbols[at] + 1) / 2;
    return clef_graph_set_bound(g, symbol, symbols[at], err);
}
