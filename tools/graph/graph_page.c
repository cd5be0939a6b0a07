/* Writes the data of tools/pages/graph.html. */
#include "tools/graph/graph_page.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/cli/json.h"
#include "tools/inspect/page.h"

typedef struct page_data {
    const clef_graph *graph;
    const cli_graph_profile *profile;
    const clef_graph *before; /* NULL: the page shows one graph */
    clef_graph_difference *difference;
} page_data;

static void write_three(FILE *to, int32_t *n, const char *key, const uint32_t x[3])
{
    cli_json_member(to, n, key);
    fprintf(to, "[%" PRIu32 ", %" PRIu32 ", %" PRIu32 "]", x[0], x[1], x[2]);
}

static void write_launches(FILE *to, const cli_graph_profile *p)
{
    fputs(",\n \"launches\": [", to);
    for (int32_t i = 0; i < p->n; i++) {
        const clef_launch_info *l = &p->launches[i];
        int32_t n = 0;
        fputs(i ? ",\n  {" : "\n  {", to);
        cli_json_member_text(to, &n, "node", l->node);
        cli_json_member_text(to, &n, "kernel", l->kernel);
        cli_json_member_text(to, &n, "source", l->source ? l->source : "CLBlast");
        cli_json_member_text(to, &n, "variant", l->variant ? l->variant : "");
        cli_json_member_number(to, &n, "us", p->times[i].us);
        write_three(to, &n, "groups", l->groups);
        write_three(to, &n, "local", l->local);
        fputc('}', to);
    }
    fputs("],\n \"device\": ", to);
    cli_json_string(to, clef_device_describe(p->device)->name);
}

/* The lines of clef_graph_write_diff() as one string. */
static clef_status write_difference(const page_data *d, FILE *to, clef_error *err)
{
    FILE *lines = tmpfile();
    char *text = NULL;
    clef_status status = lines ? clef_graph_write_diff(d->before, d->graph, lines, d->difference, err)
                               : cli_error(err, CLEF_E_IO, "page: no temporary file");
    const long n = status ? -1 : ftell(lines);
    if (n >= 0 && (text = malloc((size_t)n + 1)) != NULL) {
        rewind(lines);
        if (fread(text, 1, (size_t)n, lines) != (size_t)n)
            status = cli_error(err, CLEF_E_IO, "page: cannot read the temporary file");
        text[n] = 0;
        fputs(",\n \"difference\": ", to);
        cli_json_string(to, text);
    } else if (!status)
        status = cli_error(err, CLEF_E_NOMEM, "page: no memory for the differences");
    free(text);
    if (lines)
        fclose(lines);
    return status;
}

static clef_status write_before(const page_data *d, FILE *to, clef_error *err)
{
    fputs(",\n \"before\": ", to);
    const clef_status status = clef_graph_write_json(d->before, to, err);
    return status ? status : write_difference(d, to, err);
}

static clef_status write_data(void *user, FILE *to, clef_error *err)
{
    const page_data *d = user;
    int32_t n = 0;
    fputs("{\"graph\": ", to);
    clef_status status = clef_graph_write_json(d->graph, to, err);
    fputs(",\n \"formulas\": {", to);
    for (int32_t i = 0; clef_op_name(i); i++)
        cli_json_member_text(to, &n, clef_op_name(i), clef_op_formula(i));
    fputc('}', to);
    if (d->profile)
        write_launches(to, d->profile);
    if (!status && d->before)
        status = write_before(d, to, err);
    fputs("}\n", to);
    return status;
}

clef_status cli_graph_page(const clef_graph *graph, const cli_graph_profile *profile, const char *title,
                           FILE *to, clef_error *err)
{
    page_data d = {.graph = profile ? clef_plan_graph(profile->plan) : graph, .profile = profile};
    return cli_page_write(to, "graph.html", title, write_data, &d, err);
}

clef_status cli_graph_diff_page(const clef_graph *a, const clef_graph *b, clef_graph_difference *difference,
                                const char *title, FILE *to, clef_error *err)
{
    page_data d = {.graph = b, .before = a, .difference = difference};
    return cli_page_write(to, "graph.html", title, write_data, &d, err);
}
