/* `clef graph --profile`. */
#include "tools/graph/graph_profile.h"

#include <stdlib.h>

clef_status cli_graph_profile_run(cli_graph_profile *p, const char *device, int32_t no_proof,
                                  clef_model *model, const clef_graph *graph, clef_error *err)
{
    const clef_plan_opts opts = {
        .compile.no_proof = no_proof, .weights = model ? clef_model_weight : NULL, .weights_user = model};
    clef_status status = clef_device_open(device, &(clef_device_opts){.profile = 1}, &p->device, err);
    if (status == CLEF_OK)
        status = clef_plan_create(p->device, graph, &opts, &p->plan, err);
    for (int i = 0; i < 2 && status == CLEF_OK; i++)
        status = clef_plan_run(p->plan, err);
    if (status != CLEF_OK)
        return status;
    const int32_t n = clef_plan_describe(p->plan).n_launches;
    p->launches = calloc((size_t)n + 1, sizeof *p->launches);
    p->times = calloc((size_t)n + 1, sizeof *p->times);
    if (!p->launches || !p->times)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    clef_error why = {0};
    clef_plan_launches(p->plan, p->launches, n);
    p->n = clef_plan_profile(p->plan, p->times, n, &why);
    p->n = p->n < n ? p->n : n;
    if (why.status && err)
        *err = why;
    return why.status;
}

void cli_graph_profile_finish(cli_graph_profile *p)
{
    clef_plan_destroy(p->plan);
    clef_device_close(p->device);
    free(p->launches);
    free(p->times);
    *p = (cli_graph_profile){0};
}
