/* list_kernels DIR: writes every kernel that the GPUs of lab/kernels/targets.def would be given, for
 * compilers to try (lab/offline). Lowering needs no device: it is a pure function of a node, the symbols'
 * values and capabilities, which a target has here as plain data.
 *
 * What is lowered: each case of the op table, by each variant that the target admits, as written and as the
 * passes leave it; and layers of models in their usual sizes (layers.c), by each variant and as a plan would
 * choose. The symbols are at 1 and at their bounds, layers' at 2 and 8 too. What a GPU gets only when all
 * else was set aside, kernels of one work-item, is left out. Ops that passes make for processors alone
 * (panels, as long as no GPU's plan has any) are left out. A kernel that is met with several sizes of group
 * (-D WG) is written with the largest.
 *
 * DIR/NUMBER.cl: a program, its build options in the first line behind "// options: ". DIR/list: lines
 *   NUMBER TARGET KERNEL GROUP OP VARIANT WHERE      GROUP: work-items; VARIANT: - where the op has one;
 * WHERE: layer (a plan of a layer has it) or case It fails where a variant serves no target and is no CPU's
 * either. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/cases/cases.h"
#include "graph/lower/panel/panel.h"
#include "graph/lower/variant.h"
#include "graph/pass/pass.h"
#include "lab/kernels/layers.h"
#include "lab/kernels/programs.h"
#include "lab/kernels/targets.h"

enum { MAX_KERNELS = 32768, MAX_LAUNCHES = 512, MAX_TEXT = 8192 };

/* A processor that has all that variants for processors ask for. */
static const clef_caps any_cpu = {.is_cpu = 1,
                                  .float_width = 16,
                                  .x86_vnni = 1,
                                  .x86_avxvnni = 1,
                                  .x86_avx2 = 1,
                                  .x86_amx = 1,
                                  .arm64_i8mm = 1,
                                  .arm64_sdot = 1,
                                  .arm64_bf16 = 1,
                                  .local_bytes = 2 << 20,
                                  .max_group = 4096,
                                  .max_items = {4096, 4096, 4096},
                                  .max_alloc_bytes = (uint64_t)8 << 30};

/* A kernel on a target, of the largest group so far. */
typedef struct kernel {
    int32_t target;
    clef_op op;
    clef_launch launch; /* its node is gone */
    uint32_t group;
    int32_t in_layer;
} kernel;

typedef struct lister {
    kernel kernels[MAX_KERNELS];
    int32_t n, n_before; /* n_before: those of earlier targets */
    unsigned char served[CLEF_N_VARIANTS];
    offline_programs programs;
    int32_t target, in_layer, chosen; /* chosen: as a plan would, no variant forced */
    clef_launch launches[MAX_LAUNCHES];
    unsigned char args[MAX_LAUNCHES * CLEF_MAX_ARGS_BYTES];
} lister;

/* ---- collecting ------------------------------------------------------------------------------ */

static int is_group_size(const clef_def *d)
{
    return strcmp(d->name, "WG") == 0;
}

/* The same code, whatever the size of the group. */
static int same_code(const clef_launch *a, const clef_launch *b)
{
    if (strcmp(a->source, b->source) != 0 || strcmp(a->kernel, b->kernel) != 0)
        return 0;
    for (int32_t i = 0; i < CLEF_MAX_DEFS; i++) {
        const clef_def *x = &a->defs[i], *y = &b->defs[i];
        if (!x->name || !y->name)
            return x->name == y->name;
        if (strcmp(x->name, y->name) != 0 || (x->value != y->value && !is_group_size(x)))
            return 0;
    }
    return 1;
}

static int note(lister *l, const clef_launch *launch)
{
    const uint32_t group = launch->local[0] * launch->local[1] * launch->local[2];
    kernel *k = l->kernels + l->n_before, *end = l->kernels + l->n;
    while (k < end && !same_code(&k->launch, launch))
        k++;
    if (k == end) {
        if (l->n == MAX_KERNELS)
            return offline_stop("limit", "more kernels than there is room for: MAX_KERNELS");
        l->n++;
        *k = (kernel){.target = l->target, .op = launch->node->op};
    }
    if (group > k->group) {
        k->group = group;
        k->launch = *launch;
    }
    k->in_layer |= l->in_layer && l->chosen;
    return 0;
}

static void note_variant(lister *l, const clef_variant *variant)
{
    for (int32_t i = 0; i < CLEF_N_VARIANTS; i++)
        l->served[i] |= clef__variant_row(i, NULL) == variant;
}

/* A kernel of one work-item, where a row of the table before it takes the node: a plan comes to it only when
 * all before it were set aside. */
static int is_last_resort(const clef_lowering *lo, const clef_launch *launch)
{
    const clef_variant *row;
    clef_op op = CLEF_OP_NONE;
    if (!launch->variant || launch->local[0] * launch->local[1] * launch->local[2] > 1)
        return 0;
    for (int32_t i = 0; (row = clef__variant_row(i, &op)) && row != launch->variant; i++)
        if (op == lo->node->op && clef__variant_fits(lo, lo->node, row))
            return 1;
    return 0;
}

/* All nodes at the symbols' present values. */
static int lower_nodes(lister *l, const clef_graph *g, const int64_t *symbols,
                       const clef_variant *const *forced)
{
    clef_lowering lo = {.graph = g,
                        .caps = &offline_targets[l->target].caps,
                        .symbols = symbols,
                        .gemm = CLEF_GEMM_OWN,
                        .forced = forced,
                        .launches = l->launches,
                        .cap = MAX_LAUNCHES,
                        .args = l->args};
    int failed = 0;
    for (int32_t i = 0; i < g->n_values && !failed; i++) {
        const clef_value *n = g->values[i];
        clef_error err = {0};
        if (n->op == CLEF_OP_NONE || !clef__ops[n->op]->lower)
            continue;
        lo.node = n;
        lo.n = 0;
        const clef_status s = clef__ops[n->op]->lower(&lo, n, &err);
        if (s)
            failed = offline_stop(offline_targets[l->target].name, err.text);
        for (int32_t k = 0; k < lo.n && !s && !failed; k++)
            if (l->launches[k].call == CLEF_CALL_KERNEL) {
                failed = !is_last_resort(&lo, &l->launches[k]) && note(l, &l->launches[k]);
                note_variant(l, l->launches[k].variant);
            }
    }
    return failed;
}

static int lower_graph(lister *l, const clef_graph *g, const clef_variant *const *forced)
{
    static const int64_t of_cases[] = {1, INT64_MAX};
    const int64_t *at = l->in_layer ? layer_tokens : of_cases;
    const size_t n = l->in_layer ? N_LAYER_TOKENS : sizeof of_cases / sizeof *of_cases;
    int64_t symbols[CLEF_MAX_SYMBOLS];
    int failed = 0;
    for (size_t i = 0; i < n && !failed; i++) {
        for (int32_t k = 0; k < g->n_symbols; k++)
            symbols[k] = g->symbols[k].bound < at[i] ? g->symbols[k].bound : at[i];
        failed = lower_nodes(l, g, symbols, forced);
    }
    return failed;
}

/* As the passes leave it, and as a plan on a device of these capabilities would: NULL after a message. */
static clef_graph *passed(const clef_caps *caps, const clef_graph *g)
{
    clef_error err = {0};
    clef_graph *copy = clef_graph_clone(g);
    if (!copy || clef_graph_optimize(copy, NULL, &err) ||
        clef__pass_choose(copy, caps, CLEF_GEMM_OWN, 0, &err)) {
        offline_stop("passes", err.text);
        clef_graph_destroy(copy);
        return NULL;
    }
    return copy;
}

static int list_text(lister *l, const char *text, const char *name, const clef_variant *const *forced)
{
    clef_graph *g = NULL, *copy = NULL;
    clef_error err = {0};
    if (clef_graph_parse(text, strlen(text), name, &g, &err))
        return offline_stop(name, err.text);
    copy = passed(&offline_targets[l->target].caps, g);
    const int failed = !copy || (!l->in_layer && lower_graph(l, g, forced)) || lower_graph(l, copy, forced);
    clef_graph_destroy(copy);
    clef_graph_destroy(g);
    return failed;
}

/* The op's cases by one of its variants, and all layers by it. */
static int list_variant(lister *l, clef_op op, const clef_variant *variant)
{
    static char text[MAX_TEXT];
    const clef_variant *forced[CLEF_N_OPS] = {0};
    clef_op_case *cases = NULL;
    clef_error err = {0};
    int failed = 0;
    forced[op] = variant;
    l->in_layer = 0;
    if (clef__cases_load(clef__ops[op], &cases, &err))
        return offline_stop(clef__ops[op]->name, err.text);
    for (const clef_op_case *c = cases; c->graph && !failed; c++)
        failed = list_text(l, c->graph, clef__ops[op]->name, forced);
    clef__cases_free(cases);
    l->in_layer = 1;
    for (int i = 0; variant && !failed && layer_text(i, text, sizeof text); i++)
        failed = list_text(l, text, layer_text(i, text, sizeof text), forced);
    return failed;
}

/* Marks the ops of all layers as a plan would have them. */
static int ops_of_layers(const clef_caps *caps, unsigned char has[CLEF_N_OPS])
{
    static char text[MAX_TEXT];
    const char *name;
    int failed = 0;
    memset(has, 0, CLEF_N_OPS);
    for (int i = 0; (name = layer_text(i, text, sizeof text)) && !failed; i++) {
        clef_graph *g = NULL, *copy = NULL;
        clef_error err = {0};
        if (clef_graph_parse(text, strlen(text), name, &g, &err))
            return offline_stop(name, err.text);
        copy = passed(caps, g);
        failed = !copy;
        for (int32_t k = 0; copy && k < copy->n_values; k++)
            if (copy->values[k]->op != CLEF_OP_NONE)
                has[copy->values[k]->op] = 1;
        clef_graph_destroy(copy);
        clef_graph_destroy(g);
    }
    return failed;
}

static int list_target(lister *l)
{
    static char text[MAX_TEXT];
    const clef_caps *caps = &offline_targets[l->target].caps;
    const clef_variant *variant;
    unsigned char has_rows[CLEF_N_OPS] = {0}, here[CLEF_N_OPS], on_cpu[CLEF_N_OPS];
    clef_op op = CLEF_OP_NONE;
    l->chosen = 0;
    int failed = ops_of_layers(caps, here) || ops_of_layers(&any_cpu, on_cpu);
    for (int32_t i = 0; (variant = clef__variant_row(i, &op)) && !failed; i++) {
        has_rows[op] = 1;
        if (variant ==
            &clef__panel_matmul_portable) /* items alone, for processors; targets have groups before it */
            continue;
        if (clef__variant_runs_on(caps, variant) && (here[op] || !on_cpu[op]))
            failed = list_variant(l, op, variant);
    }
    for (int32_t i = 0; i < CLEF_N_OPS && !failed; i++)
        if (!has_rows[i] && (here[i] || !on_cpu[i]))
            failed = list_variant(l, (clef_op)i, NULL);
    l->in_layer = l->chosen = 1;
    for (int i = 0; !failed && layer_text(i, text, sizeof text); i++)
        failed = list_text(l, text, layer_text(i, text, sizeof text), NULL);
    return failed;
}

/* ---- variants that nothing here compiles ----------------------------------------------------- */

static int is_left_out(const clef_variant *variant)
{
    int i = 0;
    while (offline_not_compiled[i] && offline_not_compiled[i] != variant)
        i++;
    return offline_not_compiled[i] != NULL || variant == &clef__matmul_clblast;
}

static int check_served(const lister *l)
{
    unsigned char on_cpu[CLEF_N_OPS];
    clef_op op = CLEF_OP_NONE;
    int failed = ops_of_layers(&any_cpu, on_cpu);
    for (int32_t i = 0; i < CLEF_N_VARIANTS; i++) {
        const clef_variant *v = clef__variant_row(i, &op);
        char name[96];
        snprintf(name, sizeof name, "%s %s", clef__ops[op]->name, v->name);
        if (l->served[i] || is_left_out(v) || (on_cpu[op] && clef__variant_runs_on(&any_cpu, v)))
            continue;
        failed |= offline_stop(name, "no target of lab/kernels/targets.def admits it, and it is no CPU's");
    }
    return failed;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int write_list(lister *l, const char *dir)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/list", dir);
    FILE *to = fopen(path, "w");
    int failed = to ? 0 : offline_stop(path, "cannot be written");
    for (int32_t i = 0; i < l->n && !failed; i++) {
        const kernel *k = &l->kernels[i];
        const int32_t number = offline_program(&l->programs, dir, &k->launch);
        failed = number < 0;
        fprintf(to, "%04d %s %s %u %s %s %s\n", (int)number, offline_targets[k->target].name,
                k->launch.kernel, (unsigned)k->group, clef__ops[k->op]->name,
                k->launch.variant ? k->launch.variant->name : "-", k->in_layer ? "layer" : "case");
    }
    if (to && fclose(to))
        failed = offline_stop(path, "cannot be written");
    return failed;
}

const char *offline_program_name = "list_kernels";

int main(int argc, char **argv)
{
    if (argc != 2)
        return offline_stop("usage", "list_kernels DIR");
    lister *l = calloc(1, sizeof *l);
    int failed = l ? 0 : offline_stop("memory", "none");
    for (int32_t i = 0; i < N_OFFLINE_TARGETS && !failed; i++) {
        l->target = i;
        l->n_before = l->n;
        failed = list_target(l);
    }
    failed = failed || check_served(l) || write_list(l, argv[1]);
    if (l)
        offline_programs_finish(&l->programs);
    free(l);
    return failed;
}
