/* Makes the graphs of ranks. */
#include "tools/graph/graph_ranks.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

/* Reads "1/4". */
static clef_status read_rank(const char *text, int32_t *rank, int32_t *n, clef_error *err)
{
    char *slash = NULL, *end = NULL;
    const long r = strtol(text, &slash, 10);
    const long all = slash != text && *slash == '/' ? strtol(slash + 1, &end, 10) : 0;
    if (!end || end == slash + 1 || *end || r < 0 || all < 1 || all > INT32_MAX)
        return cli_error(err, CLEF_E_ARG,
                         "--rank: expected R/N, such as 1/4 for rank 1 of ranks 0 to 3; got '%s'", text);
    if (r >= all)
        return cli_error(err, CLEF_E_ARG, "--rank %s: the last of %ld ranks is rank %ld", text, all, all - 1);
    *rank = (int32_t)r;
    *n = (int32_t)all;
    return CLEF_OK;
}

/* What is not given follows from the number of ranks. */
static clef_status find_layout(const cli_rank_choice *c, int32_t n, cli_rank_graphs *out, clef_error *err)
{
    const int64_t given = (int64_t)(c->width ? c->width : 1) * (c->stages ? c->stages : 1);
    const int is_whole = n % given == 0;
    out->width = c->width ? c->width : is_whole ? (int32_t)(n / given) : 1;
    out->stages = c->stages ? c->stages : c->width && is_whole ? (int32_t)(n / given) : 1;
    if ((int64_t)out->width * out->stages == n)
        return CLEF_OK;
    return cli_error(err, CLEF_E_ARG,
                     "--rank %s: %" PRId32 " ranks are not --tp %" PRId32 " times --pp %" PRId32, c->rank, n,
                     out->width, out->stages);
}

clef_status cli_rank_graphs_make(const cli_rank_choice *c, const clef_graph *graph, cli_rank_graphs *out,
                                 clef_error *err)
{
    int32_t first = 0, n = 0;
    clef_status s = CLEF_OK;
    *out = (cli_rank_graphs){.width = c->width ? c->width : 1, .stages = c->stages ? c->stages : 1};
    if (c->rank) {
        s = read_rank(c->rank, &first, &n, err);
        if (!s)
            s = find_layout(c, n, out, err);
    } else if (!c->width && !c->stages) {
        return CLEF_OK;
    } else if (out->width * out->stages > CLI_MAX_DRAWN_RANKS) {
        return cli_error(err, CLEF_E_ARG,
                         "--tp %" PRId32 " --pp %" PRId32 ": %" PRId32 " ranks, and at most %d are "
                         "drawn side by side: --rank R/N shows one",
                         out->width, out->stages, out->width * out->stages, CLI_MAX_DRAWN_RANKS);
    }
    const int32_t wanted = c->rank ? 1 : out->width * out->stages;
    for (int32_t i = 0; i < wanted && !s; i++) {
        s = clef_graph_of_rank(graph, out->width, out->stages, first + i, &out->of[i], err);
        out->n += !s;
    }
    return s;
}

void cli_rank_graphs_finish(cli_rank_graphs *graphs)
{
    for (int32_t i = 0; i < graphs->n; i++)
        clef_graph_destroy(graphs->of[i]);
    graphs->n = 0;
}
