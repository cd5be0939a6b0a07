/* list_launches DIR < WISHES: writes the launches of whole steps of models, and of the layers of layers.c, as
 * a plan on a card would run them, for the model of kernels' speed (lab/speed). Lowering needs no device
 * (list_kernels.c).
 *
 * WISHES: lines
 *   card NAME TARGET UNITS
 *       a card, of a target of targets.def, whose driver reports so many compute units
 *   model NAME FILE DTYPE CONTEXT
 *       a config.json, the dtype of its matrices, and the context
 *   step NAME TOKENS DEPTH SEQUENCES
 *       a step of the model before it: TOKENS of one sequence at position DEPTH;
 *       with SEQUENCES > 1 a token of each of them, as a batch computes them
 *   no layers
 *       only the models' steps
 *
 * DIR/NUMBER.cl: a program (programs.h).
 * DIR/launches: lines CARD STEP NUMBER KERNEL OP VARIANT COUNT GX GY GZ LX LY LZ FLOPS BYTES NODE DEPTH ARGS,
 * then the buffers.
 *   STEP           MODEL/STEP, or layer/NAME/NUMBER of T
 *   COUNT          equal launches of the step, of which NODE is the first
 *   FLOPS, BYTES   the cost of the node, of which all its launches are a part
 *   ARGS           the argument block in hexadecimal digits, or -
 *   a buffer       - for none; wBYTES of a weight or a cache, vBYTES of another value, then :NAME of i32
 * Launches that pack a weight are listed once for each program: their time is not part of a step. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/model.h"
#include "graph/pass/pass.h"
#include "graph/value.h"
#include "lab/kernels/layers.h"
#include "lab/kernels/programs.h"
#include "lab/kernels/targets.h"

enum {
    MAX_CARDS = 16,
    MAX_STEPS = 32,
    MAX_LAUNCHES = 4096,
    MAX_PROGRAMS = 10000, /* a program's number has four digits */
    MAX_TEXT = 8192,
    MAX_NAME = 64,
    STEP_TOKENS = 512, /* most tokens of a step, as clef run has it */
    KEY_STEP = 64      /* the number of keys that attention is given grows in such steps */
};

typedef struct card {
    char name[MAX_NAME];
    int32_t target;
    clef_caps caps;
} card;

typedef struct step {
    char name[MAX_NAME];
    int64_t tokens, depth, sequences;
} step;

typedef struct wished_model {
    char name[MAX_NAME], file[512];
    clef_dtype dtype;
    int64_t context;
    step steps[MAX_STEPS];
    int32_t n_steps;
} wished_model;

typedef struct lister {
    const char *dir;
    FILE *to;
    card cards[MAX_CARDS];
    int32_t n_cards, no_layers;
    wished_model model; /* the one that is being read, or listed */
    offline_programs programs;
    unsigned char packs[MAX_CARDS][MAX_PROGRAMS]; /* 1: a launch at load of that program is listed */
    clef_launch launches[MAX_LAUNCHES];
    unsigned char args[MAX_LAUNCHES * CLEF_MAX_ARGS_BYTES];
    int32_t numbers[MAX_LAUNCHES];
} lister;

const char *offline_program_name = "list_launches";

/* ---- one step -------------------------------------------------------------------------------- */

/* What runs once, when a plan is made, is not part of a step (runtime/plan/plan_load.c). */
static int runs_at_load(const clef_value *n)
{
    int32_t i = 0;
    if (n->op == CLEF_OP_NONE || !clef__ops[n->op]->at_load)
        return 0;
    while (i < n->n_in && (n->in[i]->kind == CLEF_WEIGHT || runs_at_load(n->in[i])))
        i++;
    return i > 0 && i == n->n_in;
}

static void write_buffer(FILE *to, const clef_launch *a, const clef_value *v, const int64_t *symbols)
{
    if (!v) {
        fprintf(to, " -");
        return;
    }
    if (v == CLEF__SCRATCH) {
        fprintf(to, " v%" PRIu64, a->scratch_bytes);
        return;
    }
    const clef_value *base = clef__base(v);
    fprintf(to, " %c%" PRId64 "%s%s",
            base->kind == CLEF_WEIGHT || base->kind == CLEF_STATE || runs_at_load(base) ? 'w' : 'v',
            clef__bytes(v, symbols), v->dtype == CLEF_I32 ? ":" : "", v->dtype == CLEF_I32 ? base->name : "");
}

static int same_launch(const lister *l, int32_t i, int32_t k)
{
    const clef_launch *a = &l->launches[i], *b = &l->launches[k];
    if (l->numbers[i] != l->numbers[k] || strcmp(a->kernel, b->kernel) != 0 || a->node->op != b->node->op ||
        memcmp(a->groups, b->groups, sizeof a->groups) != 0 ||
        memcmp(a->local, b->local, sizeof a->local) != 0 || a->n_bufs != b->n_bufs ||
        memcmp(a->args, b->args, a->args_bytes) != 0)
        return 0;
    for (uint32_t n = 0; n < a->n_bufs; n++)
        if (!a->bufs[n] != !b->bufs[n])
            return 0;
    return 1;
}

static void write_launch(const lister *l, const char *card_name, const char *step_name, int32_t i,
                         int32_t n_all, int32_t count, const int64_t *symbols, int64_t depth)
{
    const clef_launch *a = &l->launches[i];
    const clef_value *n = a->node;
    const clef_cost cost = clef__launched_cost(n, l->launches, n_all, symbols);
    fprintf(l->to, "%s %s %04d %s %s %s %d %u %u %u %u %u %u %.0f %.0f %s %" PRId64, card_name, step_name,
            (int)l->numbers[i], a->kernel, clef__ops[n->op]->name, a->variant ? a->variant->name : "-",
            (int)count, a->groups[0], a->groups[1], a->groups[2], a->local[0], a->local[1], a->local[2],
            cost.flops, cost.bytes, n->name, depth);
    fprintf(l->to, a->args_bytes ? " " : " -");
    for (uint32_t k = 0; k < a->args_bytes; k++)
        fprintf(l->to, "%02x", ((const unsigned char *)a->args)[k]);
    for (uint32_t k = 0; k < a->n_bufs; k++)
        write_buffer(l->to, a, a->bufs[k], symbols);
    fprintf(l->to, "\n");
}

/* All launches of the graph at the symbols' values, into l->launches; the number, or -1 after a message. */
static int32_t lower(lister *l, const card *c, const clef_graph *g, const int64_t *symbols, int with_load)
{
    clef_lowering lo = {.graph = g,
                        .caps = &c->caps,
                        .symbols = symbols,
                        .gemm = CLEF_GEMM_OWN,
                        .launches = l->launches,
                        .cap = MAX_LAUNCHES,
                        .args = l->args};
    clef_error err = {0};
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *n = g->values[i];
        if (n->op == CLEF_OP_NONE || !clef__ops[n->op]->lower || (!with_load && runs_at_load(n)))
            continue;
        lo.node = n;
        if (clef__ops[n->op]->lower(&lo, n, &err))
            return offline_stop(c->name, err.text), -1;
    }
    for (int32_t i = 0; i < lo.n; i++) {
        l->numbers[i] = l->launches[i].call == CLEF_CALL_KERNEL
                            ? offline_program(&l->programs, l->dir, &l->launches[i])
                            : -1;
        if (l->numbers[i] < 0 || l->numbers[i] >= MAX_PROGRAMS)
            return offline_stop(l->launches[i].node->name,
                                "its launch has no program, or one too many: MAX_PROGRAMS"),
                   -1;
    }
    return lo.n;
}

/* Of a launch at load: whether one of its program on the card has been listed. From now on one has. */
static int is_listed(lister *l, const card *c, int32_t i)
{
    unsigned char *listed = &l->packs[c - l->cards][l->numbers[i]];
    return runs_at_load(l->launches[i].node) && (*listed || !++*listed);
}

static int list_step(lister *l, const card *c, const clef_graph *g, const int64_t *symbols, const char *name,
                     int64_t depth, int with_load)
{
    const int32_t n = lower(l, c, g, symbols, with_load);
    static unsigned char done[MAX_LAUNCHES];
    memset(done, 0, sizeof done);
    for (int32_t i = 0; i < n; i++) {
        int32_t count = 0;
        if (done[i] || is_listed(l, c, i))
            continue;
        for (int32_t k = i; k < n; k++)
            if (!done[k] && same_launch(l, i, k)) {
                done[k] = 1;
                count++;
            }
        write_launch(l, c->name, name, i, n, count, symbols, depth);
    }
    return n < 0;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* The passes that a plan runs; it destroys g. NULL after a message. */
static clef_graph *passed(const card *c, clef_graph *g)
{
    clef_error err = {0};
    if (clef_graph_error(g, &err) || clef_graph_optimize(g, NULL, &err) ||
        clef__pass_split(g, c->caps.max_alloc_bytes, &err) ||
        clef__pass_choose(g, &c->caps, CLEF_GEMM_OWN, 0, &err)) {
        offline_stop(c->name, err.text);
        clef_graph_destroy(g);
        return NULL;
    }
    return g;
}

/* T tokens, S keys, and sequences; what else there is has one for each sequence. */
static void bind(const clef_graph *g, const step *s, int64_t symbols[CLEF_MAX_SYMBOLS])
{
    const int64_t keys = (s->depth + s->tokens + KEY_STEP - 1) / KEY_STEP * KEY_STEP;
    for (int32_t i = 0; i < g->n_symbols; i++) {
        const char *name = g->symbols[i].name;
        const int64_t wanted = strcmp(name, "T") == 0   ? s->tokens
                               : strcmp(name, "S") == 0 ? keys
                                                        : s->sequences;
        symbols[i] = wanted < g->symbols[i].bound ? wanted : g->symbols[i].bound;
    }
}

static clef_build_opts build_of(const wished_model *m, const step *s)
{
    clef_build_opts o = {.n_context = (int32_t)m->context,
                         .n_batch = STEP_TOKENS,
                         .n_sequences = (int32_t)s->sequences,
                         .kv_type = m->dtype == CLEF_F32 ? CLEF_F32 : CLEF_F16,
                         .sample = 1};
    if (s->sequences > 1) {
        o.n_rows = STEP_TOKENS;
        o.n_pages = (int32_t)(s->sequences * (s->depth / CLEF_KV_PAGE + 2));
        o.n_sliding_pages = o.n_pages;
    }
    return o;
}

static int list_model(lister *l)
{
    const wished_model *m = &l->model;
    clef_model *model = NULL;
    clef_error err = {0};
    int failed = 0;
    if (!m->n_steps)
        return 0;
    if (clef_model_open_shape(m->file, m->dtype, &model, &err))
        return offline_stop(m->file, err.text);
    for (int32_t i = 0; i < m->n_steps && !failed; i++) {
        const clef_build_opts build = build_of(m, &m->steps[i]);
        char name[2 * MAX_NAME + 2];
        snprintf(name, sizeof name, "%s/%s", m->name, m->steps[i].name);
        for (int32_t k = 0; k < l->n_cards && !failed; k++) {
            int64_t symbols[CLEF_MAX_SYMBOLS];
            clef_graph *g = NULL;
            if (clef_model_build(model, &build, &g, &err)) {
                failed = offline_stop(m->file, err.text);
                break;
            }
            g = passed(&l->cards[k], g);
            if (g)
                bind(g, &m->steps[i], symbols);
            failed = !g || list_step(l, &l->cards[k], g, symbols, name, m->steps[i].depth, 0);
            clef_graph_destroy(g);
        }
    }
    clef_model_close(model);
    return failed;
}

/* A layer at each number of tokens at which list_kernels calls kernels hot. */
static int list_layer(lister *l, int number, const char *text, const char *name)
{
    const int64_t *at = layer_tokens;
    int failed = 0;
    for (int32_t k = 0; k < l->n_cards && !failed; k++) {
        clef_graph *g = NULL;
        clef_error err = {0};
        if (clef_graph_parse(text, strlen(text), name, &g, &err))
            return offline_stop(name, err.text);
        g = passed(&l->cards[k], g);
        failed = !g;
        for (size_t i = 0; i < N_LAYER_TOKENS && !failed; i++) {
            int64_t symbols[CLEF_MAX_SYMBOLS], tokens = 1, keys = 1;
            char step_name[2 * MAX_NAME];
            for (int32_t s = 0; s < g->n_symbols; s++)
                symbols[s] = at[i] < g->symbols[s].bound && strcmp(g->symbols[s].name, "S") != 0
                                 ? at[i]
                                 : g->symbols[s].bound;
            for (int32_t s = 0; s < g->n_symbols; s++) {
                tokens = strcmp(g->symbols[s].name, "T") == 0 ? symbols[s] : tokens;
                keys = strcmp(g->symbols[s].name, "S") == 0 ? symbols[s] : keys;
            }
            snprintf(step_name, sizeof step_name, "layer/%s-%d/%s", name, number,
                     i == 0   ? "1"
                     : i == 1 ? "2"
                              : "bound");
            failed = list_step(l, &l->cards[k], g, symbols, step_name, keys > tokens ? keys - tokens : 0, 1);
        }
        clef_graph_destroy(g);
    }
    return failed;
}

static int list_layers(lister *l)
{
    static char text[MAX_TEXT];
    const char *name;
    int failed = 0;
    for (int i = 0; (name = layer_text(i, text, sizeof text)) && !failed; i++)
        failed = list_layer(l, i, text, name);
    return failed;
}

/* ---- wishes ---------------------------------------------------------------------------------- */

static int read_card(lister *l, const char *line)
{
    card *c = &l->cards[l->n_cards];
    char target[MAX_NAME];
    int32_t units;
    if (l->n_cards == MAX_CARDS)
        return offline_stop(line, "more cards than there is room for: MAX_CARDS");
    if (sscanf(line, "card %63s %63s %" SCNd32, c->name, target, &units) != 3 || units < 1)
        return offline_stop(line, "expected 'card NAME TARGET UNITS'");
    while (c->target < N_OFFLINE_TARGETS && strcmp(offline_targets[c->target].name, target) != 0)
        c->target++;
    if (c->target == N_OFFLINE_TARGETS)
        return offline_stop(target, "no target of lab/kernels/targets.def");
    c->caps = offline_targets[c->target].caps;
    c->caps.n_units = units;
    l->n_cards++;
    return 0;
}

static int read_model(lister *l, const char *line)
{
    wished_model *m = &l->model;
    char dtype[MAX_NAME];
    *m = (wished_model){0};
    if (sscanf(line, "model %63s %511s %63s %" SCNd64, m->name, m->file, dtype, &m->context) != 4 ||
        m->context < 1 || m->context > INT32_MAX)
        return offline_stop(line, "expected 'model NAME FILE DTYPE CONTEXT'");
    int32_t d = 0;
    while (d < CLEF_N_DTYPES && strcmp(clef_dtype_name((clef_dtype)d), dtype) != 0)
        d++;
    if (d == CLEF_N_DTYPES)
        return offline_stop(dtype, "no dtype");
    m->dtype = (clef_dtype)d;
    return 0;
}

static int read_step(lister *l, const char *line)
{
    wished_model *m = &l->model;
    step *s = &m->steps[m->n_steps];
    if (m->n_steps == MAX_STEPS)
        return offline_stop(line, "more steps than there is room for: MAX_STEPS");
    if (sscanf(line, "step %63s %" SCNd64 " %" SCNd64 " %" SCNd64, s->name, &s->tokens, &s->depth,
               &s->sequences) != 4 ||
        s->tokens < 1 || s->tokens > STEP_TOKENS || s->depth < 0 || s->sequences < 1 ||
        (s->sequences > 1 && s->tokens > 1) || s->depth + s->tokens > m->context)
        return offline_stop(line, "expected 'step NAME TOKENS DEPTH SEQUENCES' within the model's context");
    m->n_steps++;
    return 0;
}

static int read_wishes(lister *l)
{
    char line[1024];
    int failed = 0;
    while (!failed && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "card ", 5) == 0)
            failed = read_card(l, line);
        else if (strncmp(line, "model ", 6) == 0)
            failed = list_model(l) || read_model(l, line);
        else if (strcmp(line, "no layers") == 0)
            l->no_layers = 1;
        else
            failed = read_step(l, line);
    }
    return failed || list_model(l) || (!l->no_layers && list_layers(l));
}

int main(int argc, char **argv)
{
    char path[1024];
    if (argc != 2)
        return offline_stop("usage", "list_launches DIR < WISHES");
    lister *l = calloc(1, sizeof *l);
    if (!l)
        return offline_stop("memory", "none");
    l->dir = argv[1];
    snprintf(path, sizeof path, "%s/launches", l->dir);
    l->to = fopen(path, "w");
    int failed = !l->to ? offline_stop(path, "cannot be written") : read_wishes(l);
    if (l->to && fclose(l->to))
        failed = offline_stop(path, "cannot be written");
    offline_programs_finish(&l->programs);
    free(l);
    return failed;
}
