/* Reads the speed of a connection, and computes what collectives take over it. The ways are those of
 * ranks/mpi/. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/scaling.h"

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct unit {
    const char *name;
    double factor;
} unit;
static const unit rates[] = {{"Gbit", 1.25e8}, {"Mbit", 1.25e5}, {"GB", 1e9}, {"MB", 1e6}, {NULL, 0}};
static const unit times[] = {{"us", 1e-6}, {"ms", 1e-3}, {"ns", 1e-9}, {NULL, 0}};

/* A number with one of the units; moves *at behind it. Returns 0 where there is none. */
static int read_quantity(const char **at, const unit *units, double *out)
{
    char *end;
    const double x = strtod(*at, &end);
    if (end == *at || !(x >= 0) || !isfinite(x))
        return 0;
    for (; units->name; units++) {
        const size_t n = strlen(units->name);
        if (strncmp(end, units->name, n) == 0 && !isalpha((unsigned char)end[n])) {
            *out = x * units->factor;
            *at = end + n;
            return 1;
        }
    }
    return 0;
}

static int skip_comma(const char **at)
{
    const int is_there = **at == ',';
    *at += is_there;
    return is_there;
}

static int read_text(const char *text, cli_link *out)
{
    const char *at = text;
    if (!read_quantity(&at, rates, &out->bytes_per_second) || !skip_comma(&at) ||
        !read_quantity(&at, times, &out->latency))
        return 0;
    out->message = out->latency / 10;
    if (skip_comma(&at) && !read_quantity(&at, times, &out->message))
        return 0;
    return *at == 0 && out->bytes_per_second > 0 && out->latency > 0;
}

/* A line of the table that `clef bench --network` prints: bytes; then least and median microseconds of
 * all_reduce over each wire, of all_gather, broadcast and send. The medians are taken. */
static int read_row(const char *line, cli_link *out)
{
    double x[13];
    const char *at = line;
    for (int i = 0; i < 13; i++) {
        char *end;
        x[i] = strtod(at, &end);
        if (end == at || !(x[i] >= 0))
            return 0;
        at = end;
    }
    const int32_t n = out->n_rows;
    if (n == CLI_LINK_ROWS || !(x[0] > (n ? out->rows[n - 1].bytes : 0)) || !(x[12] > 0))
        return 0;
    out->rows[n].bytes = x[0];
    for (int i = 0; i < 3; i++)
        out->rows[n].all_reduce[i] = x[2 + 2 * i] * 1e-6;
    out->rows[n].all_gather = x[8] * 1e-6;
    out->rows[n].send = x[12] * 1e-6;
    out->n_rows++;
    return 1;
}

/* The latency is that of the smallest message; the rate that of the largest, without the latency. */
static clef_status read_table(FILE *f, const char *path, cli_link *out, clef_error *err)
{
    char line[512];
    *out = (cli_link){.n_ranks = 2};
    while (fgets(line, sizeof line, f)) {
        sscanf(line, "# %" SCNd32 " ranks", &out->n_ranks);
        if (!isdigit((unsigned char)line[strspn(line, " ")]))
            continue;
        if (!read_row(line, out))
            return cli_error(err, CLEF_E_FORMAT,
                             "%s: expected the table of clef bench --network, by rising bytes, got: %.60s",
                             path, line);
    }
    if (out->n_rows < 2)
        return cli_error(err, CLEF_E_FORMAT,
                         "%s: expected the table of clef bench --network with two sizes or more", path);
    const int32_t last = out->n_rows - 1;
    const double least = out->rows[0].send, most = out->rows[last].send;
    const double further =
        out->n_ranks > 2 ? (out->rows[0].all_reduce[0] - least) / (out->n_ranks - 2) : least / 10;
    out->latency = least;
    out->message = further > 0 ? further : 0;
    out->bytes_per_second = out->rows[last].bytes / (most > least ? most - least : most);
    return CLEF_OK;
}

clef_status cli_link_read(const char *flag, const char *text, cli_link *out, clef_error *err)
{
    if (read_text(text, out))
        return CLEF_OK;
    FILE *f = fopen(text, "r");
    if (!f)
        return cli_error(
            err, CLEF_E_ARG,
            "%s: expected a rate and a latency such as 25Gbit,20us, or a file of clef bench --network; "
            "got '%s'",
            flag, text);
    const clef_status s = read_table(f, text, out, err);
    fclose(f);
    return s;
}

/* ---- costs ----------------------------------------------------------------------------------- */

/* Column of a table: a sum over each wire, then the others. */
enum { ALL_GATHER = 3, SEND };

static double measured(const cli_link *l, int32_t row, int32_t column)
{
    return column < ALL_GATHER    ? l->rows[row].all_reduce[column]
           : column == ALL_GATHER ? l->rows[row].all_gather
                                  : l->rows[row].send;
}

/* Seconds from the table: a line between the two nearest sizes, or through the last two. */
static double look_up(const cli_link *l, int32_t column, double n_bytes)
{
    int32_t i = 1;
    while (i < l->n_rows - 1 && n_bytes > l->rows[i].bytes)
        i++;
    const double x0 = l->rows[i - 1].bytes, x1 = l->rows[i].bytes, y0 = measured(l, i - 1, column),
                 y1 = measured(l, i, column);
    return n_bytes <= x0 ? y0 : y0 + (y1 > y0 ? y1 - y0 : 0) * (n_bytes - x0) / (x1 - x0);
}

static int32_t node_of(const cli_scaling_machine *m, int32_t rank)
{
    return rank / (m->n_ranks / m->n_nodes);
}

/* Seconds until each of the ranks has sent n_bytes to each of the others. The ranks of a node share its
 * connection to the other nodes. */
static double round_cost(const cli_scaling_machine *m, int32_t first, int32_t width, double n_bytes)
{
    const int32_t per_node = m->n_ranks / m->n_nodes;
    const int is_within = node_of(m, first) == node_of(m, first + width - 1);
    const int32_t here = is_within          ? width
                         : width < per_node ? width - 1
                                            : per_node; /* on one node, at most */
    const int32_t there = is_within ? 0 : width - per_node > 0 ? width - per_node : 1;
    const double near = m->within.latency + (here > 2 ? here - 2 : 0) * m->within.message +
                        (here - 1) * n_bytes / m->within.bytes_per_second;
    if (is_within)
        return near;
    const double far = m->between.latency + (there - 1) * m->between.message +
                       (double)here * there * n_bytes / m->between.bytes_per_second;
    return here > 1 && near > far ? near : far;
}

/* The table that holds for the `width` ranks from `first` on: of as many ranks, on one node or each on a node
 * of its own. NULL: none does. */
static const cli_link *table_for(const cli_scaling_machine *m, int32_t first, int32_t width)
{
    const int is_within = node_of(m, first) == node_of(m, first + width - 1);
    const cli_link *l = is_within ? &m->within : m->n_ranks == m->n_nodes ? &m->between : NULL;
    return l && l->n_rows && l->n_ranks == width ? l : NULL;
}

static double wire_bytes(const cli_scaling_machine *m, double n_bytes)
{
    return m->wire == 1 ? n_bytes / 2 : m->wire == 2 ? n_bytes * 36 / 128 : n_bytes;
}

/* Either each rank sends all to all others, or each adds up a part and sends the sums, which are never
 * rounded. */
double cli_all_reduce_cost(const cli_scaling_machine *m, int32_t first, int32_t width, double n_bytes,
                           double *sent_bytes)
{
    const double wire = wire_bytes(m, n_bytes);
    const double direct = round_cost(m, first, width, wire),
                 scattered =
                     round_cost(m, first, width, wire / width) + round_cost(m, first, width, n_bytes / width);
    const cli_link *table = table_for(m, first, width);
    *sent_bytes = direct <= scattered ? (width - 1) * wire : (width - 1) * (wire + n_bytes) / width;
    if (table)
        return look_up(table, m->wire, n_bytes);
    return direct <= scattered ? direct : scattered;
}

double cli_all_gather_cost(const cli_scaling_machine *m, int32_t first, int32_t width, double n_bytes,
                           double *sent_bytes)
{
    const cli_link *table = table_for(m, first, width);
    *sent_bytes = (width - 1) * n_bytes / width;
    return table ? look_up(table, ALL_GATHER, n_bytes / width) : round_cost(m, first, width, n_bytes / width);
}

double cli_message_cost(const cli_scaling_machine *m, int32_t first, int32_t width, int32_t distance,
                        double n_bytes)
{
    const int32_t per_node = m->n_ranks / m->n_nodes;
    const int is_within = node_of(m, first) == node_of(m, first + distance);
    const cli_link *l = is_within ? &m->within : &m->between;
    const int32_t sharing = is_within ? 1 : width < per_node ? width : per_node;
    return l->n_rows ? look_up(l, SEND, sharing * n_bytes)
                     : l->latency + sharing * n_bytes / l->bytes_per_second;
}
