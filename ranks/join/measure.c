/* clef_ranks_measure(): exchanges among all ranks. */
#include <stdlib.h>

#include "graph/fail.h"
#include "ranks/join/network.h"
#include "ranks/join/ranks.h"

static clef_ranks_time time_of(clef__network_time t)
{
    return (clef_ranks_time){t.least, t.median};
}

static clef_ranks_times times_of(const clef__network_row *row)
{
    clef_ranks_times out = {.n_bytes = row->n_bytes,
                            .all_gather = time_of(row->all_gather),
                            .broadcast = time_of(row->broadcast),
                            .send = time_of(row->send)};
    for (int32_t wire = 0; wire < 3; wire++)
        out.all_reduce[wire] = time_of(row->all_reduce[wire]);
    return out;
}

clef_status clef_ranks_measure(clef_ranks *r, const uint64_t *sizes, int32_t n, clef_ranks_times *out,
                               clef_error *err)
{
    const int32_t size = r->transport->size;
    if (size < 2)
        return clef__fail(err, CLEF_E_ARG, "the network: expected two ranks or more, got one");
    int32_t *ranks = malloc((size_t)size * sizeof *ranks);
    size_t *bytes = malloc(((size_t)n + 1) * sizeof *bytes);
    clef__network_row *rows = malloc(((size_t)n + 1) * sizeof *rows);
    clef_status s =
        ranks && bytes && rows ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "the network: no memory");
    for (int32_t i = 0; !s && i < size; i++)
        ranks[i] = i;
    for (int32_t i = 0; !s && i < n; i++)
        bytes[i] = (size_t)sizes[i];
    if (!s)
        s = clef__network_measure(r->transport, r->all, ranks, size, bytes, n, rows, err);
    for (int32_t i = 0; !s && i < n; i++)
        out[i] = times_of(&rows[i]);
    free(rows);
    free(bytes);
    free(ranks);
    return s;
}
