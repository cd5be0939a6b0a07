/* Reads the values behind a generated text, in one run over all tokens that its steps read. */
#include "tools/inspect/run_inside.h"

#include "tools/inspect/npy.h"
#include "tools/inspect/taps.h"
#include "tools/inspect/values.h"

static clef_status write_taps(const cli_inside_opts *o, cli_forward *f, const char *path, clef_error *err)
{
    const cli_list plain = cli_plain_taps(&o->taps);
    clef_tensor_info *tensors = NULL;
    int32_t n = 0;
    clef_status status = cli_forward_build(f, plain.items, plain.n, err);
    if (status == CLEF_OK)
        status = cli_graph_tap_patterns(f->graph, path, &o->taps, err);
    if (status == CLEF_OK)
        status = cli_forward_run(f, err);
    if (status == CLEF_OK)
        status = cli_taps_read(f->plan, f->graph, &o->taps, NULL, clef_graph_n_outputs(f->graph), &tensors,
                               &n, err);
    if (status == CLEF_OK)
        status = cli_tensors_write(o->tap_out, tensors, n, err);
    cli_taps_free(tensors, n);
    return status;
}

int cli_run_inside(const cli_inside_opts *o, const cli_forward_opts *forward, const char *path)
{
    cli_forward f = {0};
    clef_error err = {0};
    clef_status status = cli_forward_open(&f, forward, path, &err);
    if (status == CLEF_OK && o->taps.n)
        status = write_taps(o, &f, path, &err);
    if (status == CLEF_OK && o->stats)
        status = cli_stats_forward(&f, NULL, stderr, &err);
    cli_forward_close(&f);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}
