/* The values behind a text that a run wrote: one pass over all that its steps read. */
#include "tools/inspect/run_inside.h"

#include "tools/inspect/npy.h"
#include "tools/inspect/taps.h"
#include "tools/inspect/values.h"

static clef_status write_taps(const clef__inside_opts *o, clef__forward *f, const char *path, clef_error *err)
{
    const clef__list plain = clef__plain_taps(&o->taps);
    clef_tensor_info *tensors = NULL;
    int32_t n = 0;
    clef_status status = clef__forward_build(f, plain.items, plain.n, err);
    if (status == CLEF_OK)
        status = clef__graph_tap_patterns(f->graph, path, &o->taps, err);
    if (status == CLEF_OK)
        status = clef__forward_run(f, err);
    if (status == CLEF_OK)
        status = clef__taps_read(f->plan, f->graph, &o->taps, NULL, &tensors, &n, err);
    if (status == CLEF_OK)
        status = clef__tensors_write(o->tap_out, tensors, n, err);
    clef__taps_free(tensors, n);
    return status;
}

int clef__run_inside(const clef__inside_opts *o, const clef__forward_opts *forward, const char *path)
{
    clef__forward f = {0};
    clef_error err = {0};
    clef_status status = clef__forward_open(&f, forward, path, &err);
    if (status == CLEF_OK && o->taps.n)
        status = write_taps(o, &f, path, &err);
    if (status == CLEF_OK && o->stats)
        status = clef__stats_forward(&f, NULL, stderr, &err);
    clef__forward_close(&f);
    return status == CLEF_OK ? CLI_OK : clef__cli_report(&err);
}
