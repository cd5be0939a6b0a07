/* Reads the speed of a connection, and computes what collectives take over it. The ways are those of
 * runtime/mpi/. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/scaling/scaling.h"

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
 * all_reduce over each wire, of all_gather, broadcast and send. */
typedef struct table_row {
    double bytes, reduce, send;
} table_row;

static int read_row(const char *line, table_row *out)
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
    *out = (table_row){x[0], x[2] * 1e-6, x[12] * 1e-6};
    return x[0] > 0 && x[12] > 0;
}

/* The latency is that of the smallest message; the rate that of the largest, without the latency. */
static clef_status read_table(FILE *f, const char *path, cli_link *out, clef_error *err)
{
    char line[512];
    table_row first = {0}, last = {0}, row;
    int ranks = 2;
    while (fgets(line, sizeof line, f)) {
        sscanf(line, "# %d ranks", &ranks);
        if (!isdigit((unsigned char)line[strspn(line, " ")]))
            continue;
        if (!read_row(line, &row))
            return cli_error(err, CLEF_E_FORMAT, "%s: expected the table of clef bench --network, got: %.60s",
                             path, line);
        if (first.bytes == 0 || row.bytes < first.bytes)
            first = row;
        if (row.bytes > last.bytes)
            last = row;
    }
    if (!(last.bytes > first.bytes))
        return cli_error(err, CLEF_E_FORMAT,
                         "%s: expected the table of clef bench --network with two sizes or more", path);
    const double further = ranks > 2 ? (first.reduce - first.send) / (ranks - 2) : first.send / 10;
    *out = (cli_link){.latency = first.send,
                      .message = further > 0 ? further : 0,
                      .bytes_per_second =
                          last.bytes / (last.send > first.send ? last.send - first.send : last.send)};
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
    *sent_bytes = direct <= scattered ? (width - 1) * wire : (width - 1) * (wire + n_bytes) / width;
    return direct <= scattered ? direct : scattered;
}

double cli_all_gather_cost(const cli_scaling_machine *m, int32_t first, int32_t width, double n_bytes,
                           double *sent_bytes)
{
    *sent_bytes = (width - 1) * n_bytes / width;
    return round_cost(m, first, width, n_bytes / width);
}

double cli_message_cost(const cli_scaling_machine *m, int32_t first, int32_t width, int32_t distance,
                        double n_bytes)
{
    const int32_t per_node = m->n_ranks / m->n_nodes;
    if (node_of(m, first) == node_of(m, first + distance))
        return m->within.latency + n_bytes / m->within.bytes_per_second;
    return m->between.latency + (width < per_node ? width : per_node) * n_bytes / m->between.bytes_per_second;
}
