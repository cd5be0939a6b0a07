/* The file between a plan and its prover: cases, each a line of numbers, a graph in the text form, and the line "end". What a prover found
 * goes to FILE.out: "begin PRINT" and "done PRINT VERDICT WORST". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/selftest.h"
#include "runtime/os.h"
#include "runtime/proof.h"

enum { MAX_FILE_BYTES = 64 << 20, MOST_T = 11, MOST_OTHER = 16, SLACK = 8 /* a proof looks for broken kernels: accuracy is the tests' */ };
static const char head[] = "clef proof 1\n";

/* What random inputs mean nothing to: their first case of the table serves. */
static const unsigned char by_case[CLEF_N_OPS] = {[CLEF_OP_sample] = 1, [CLEF_OP_cache_reorder] = 1, [CLEF_OP_gated_delta] = 1};

/* ---- writing --------------------------------------------------------------------------------------------------------------------------
 */

static double tolerance(const clef_value *n)
{
    const clef_op_def *def = clef__ops[n->op];
    double tol = (double)clef__tolerance(n);
    for (const clef_op_case *c = def->cases; c->graph && !def->tol_of; c++)
        tol = (double)c->tol > tol ? (double)c->tol : tol;
    return SLACK * tol;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One row, a few and many; S, which counts what the rows may see, has room for them. */
static void choose_runs(const clef_graph *g, clef_proof_case *c)
{
    static const int64_t lengths[] = {1, 3, MOST_T};
    int64_t room = MOST_OTHER, longest = 1;
    for (int32_t i = 0; i < g->n_symbols; i++)
        if (strcmp(g->symbols[i].name, "S") == 0)
            room = at_most(room, g->symbols[i].bound);
    c->n_runs = (int32_t)(sizeof lengths / sizeof *lengths);
    for (int32_t r = 0; r < c->n_runs; r++)
        for (int32_t i = 0; i < g->n_symbols; i++) {
            const int is_length = strcmp(g->symbols[i].name, "T") == 0;
            c->symbols[r][i] = at_most(g->symbols[i].bound, is_length ? at_most(lengths[r], room) : room);
            longest = is_length && c->symbols[r][i] > longest ? c->symbols[r][i] : longest;
        }
    c->int_hi = (int32_t)at_most(3, room - longest + 1);
}

static void write_case(FILE *to, const clef_proof_unit *u, const clef_proof_case *c)
{
    fprintf(to, "case %016" PRIx64 " %s %s %d %d %d %.9g %.9g %d", u->print, clef__ops[u->node->op]->name,
            u->variant ? u->variant->name : "-", (int)c->gemm, (int)c->int_lo, (int)c->int_hi, (double)c->spread, c->tol, (int)c->n_runs);
    for (int32_t r = 0; r < c->n_runs; r++)
        for (int32_t i = 0; i < CLEF_MAX_SYMBOLS; i++)
            fprintf(to, " %" PRId64, c->symbols[r][i]);
    fputc('\n', to);
}

static clef_status write_unit(FILE *to, const clef_proof_unit *u, clef_error *err)
{
    const clef_op_def *def = clef__ops[u->node->op];
    clef_proof_case c = {.tol = tolerance(u->node), .gemm = u->variant == &clef__matmul_clblast ? CLEF_GEMM_CLBLAST : CLEF_GEMM_OWN};
    clef_graph *g = NULL;
    clef_status s = by_case[u->node->op] ? CLEF_OK : clef__proof_graph(u->node, &g, err);
    if (s)
        return s;
    if (g) {
        choose_runs(g, &c);
        write_case(to, u, &c);
        s = clef_graph_write_text(g, to, err);
        fputc('\n', to);
    } else {
        c.int_lo = def->cases[0].int_lo;
        c.int_hi = def->cases[0].int_hi;
        c.spread = def->cases[0].spread;
        write_case(to, u, &c);
        fputs(def->cases[0].graph, to);
    }
    clef_graph_destroy(g);
    fputs("end\n", to);
    return s;
}

clef_status clef__proof_write(const char *path, const clef_proof_unit *units, int32_t n, clef_error *err)
{
    FILE *to = fopen(path, "w");
    if (!to)
        return clef__fail(err, CLEF_E_IO, "%s: cannot be written", path);
    fputs(head, to);
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < n && !s; i++)
        s = write_unit(to, &units[i], err);
    if (ferror(to) && !s)
        s = clef__fail(err, CLEF_E_IO, "%s: cannot be written", path);
    if (fclose(to) && !s)
        s = clef__fail(err, CLEF_E_IO, "%s: cannot be written", path);
    return s;
}

/* ---- reading, in the prover ------------------------------------------------------------------------------------------------------------
 */

typedef struct entry {
    clef_proof_case c;
    uint64_t print;
    char op[32], variant[32], forced[80];
} entry;

static int read_head(const char *line, entry *e)
{
    int gemm = 0, at = 0, n_runs = 0, lo = 0, hi = 0;
    double spread = 0;
    if (sscanf(line, "case %16" SCNx64 " %31s %31s %d %d %d %lf %lf %d%n", &e->print, e->op, e->variant, &gemm, &lo, &hi, &spread,
               &e->c.tol, &n_runs, &at) != 9 ||
        n_runs < 0 || n_runs > CLEF_PROOF_MAX_RUNS || gemm < 0 || gemm > CLEF_GEMM_CLBLAST)
        return 0;
    e->c.gemm = (clef_gemm)gemm;
    e->c.int_lo = lo;
    e->c.int_hi = hi;
    e->c.spread = (float)spread;
    e->c.n_runs = n_runs;
    for (int32_t i = 0; i < n_runs * CLEF_MAX_SYMBOLS; i++) {
        char *end;
        e->c.symbols[i / CLEF_MAX_SYMBOLS][i % CLEF_MAX_SYMBOLS] = strtoll(line + at, &end, 10);
        if (end == line + at)
            return 0;
        at = (int)(end - line);
    }
    if (strcmp(e->variant, "-") != 0)
        snprintf(e->forced, sizeof e->forced, "%s=%s", e->op, e->variant);
    e->c.variants = e->forced;
    return 1;
}

/* What failed for want of memory says nothing of the kernel. */
static clef_verdict verdict_of(clef_status s, const clef_error *why, double worst)
{
    const int memory = s == CLEF_E_CL && (why->cl_code == CL_MEM_OBJECT_ALLOCATION_FAILURE || why->cl_code == CL_OUT_OF_HOST_MEMORY);
    if (!s)
        return worst <= 1 ? CLEF_PROOF_RIGHT : CLEF_PROOF_WRONG;
    return (s == CLEF_E_CL && !memory) || s == CLEF_E_BUILD ? CLEF_PROOF_REFUSED : CLEF_PROOF_UNTRIED;
}

static clef_status prove(clef_device *dev, entry *e, const char *text, size_t n, FILE *out, clef_error *err)
{
    clef_graph *g = NULL;
    clef_error why = {0};
    double worst = 0;
    fprintf(out, "begin %016" PRIx64 "\n", e->print);
    fflush(out);
    clef_status s = clef_graph_parse(text, n, e->op, &g, &why);
    e->c.graph = g;
    if (!s)
        s = clef__proof_run(dev, &e->c, &worst, &why);
    clef_graph_destroy(g);
    if (s == CLEF_E_NOMEM)
        return clef__fail(err, s, "%s", why.text);
    fprintf(out, "done %016" PRIx64 " %s %.3g\n", e->print, clef__verdict_names[verdict_of(s, &why, worst)], worst);
    fflush(out);
    return CLEF_OK;
}

clef_status clef_prove(clef_device *dev, const char *path, int32_t first, clef_error *err)
{
    char *text = NULL, out_path[1024];
    size_t n = 0;
    clef_status s = clef__os_read(path, MAX_FILE_BYTES, &text, &n, err);
    if (s)
        return s;
    snprintf(out_path, sizeof out_path, "%s.out", path);
    FILE *out = fopen(out_path, "a");
    if (!out)
        s = clef__fail(err, CLEF_E_IO, "%s: cannot be written", out_path);
    const char *at = strncmp(text, head, sizeof head - 1) == 0 ? text + sizeof head - 1 : NULL;
    if (!s && !at)
        s = clef__fail(err, CLEF_E_FORMAT, "%s: wanted the cases of a proof", path);
    for (int32_t i = 0; !s && *at; i++) {
        entry e = {0};
        const char *graph = strchr(at, '\n'), *end = graph ? strstr(graph, "\nend\n") : NULL;
        if (!end || !read_head(at, &e)) {
            s = clef__fail(err, CLEF_E_FORMAT, "%s: case %d does not read as one", path, (int)i);
            break;
        }
        if (i >= first)
            s = prove(dev, &e, graph + 1, (size_t)(end - graph), out, err);
        at = end + 5;
    }
    if (out)
        fclose(out);
    free(text);
    return s;
}
