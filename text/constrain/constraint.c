/* Makes constraints of their sources, and reads texts byte by byte. */
#include "text/constrain/constraint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/constrain/nfa.h"

/* ---- sources -------------------------------------------------------------------------------- */

static const char *const kind_names[] = {[CLEF_CONSTRAIN_GBNF] = "grammar",
                                         [CLEF_CONSTRAIN_SCHEMA] = "json schema",
                                         [CLEF_CONSTRAIN_REGEX] = "regex",
                                         [CLEF_CONSTRAIN_CHOICES] = "choices"};

static void use_text(clef_constraint *c, const clef__dfa *dfa)
{
    if (!c->work.status && !dfa->n_states)
        clef__work_fail(&c->work, CLEF_E_ARG, "no text satisfies it");
    c->start = clef__graph_add(&c->graph, (clef__gnode){.kind = CLEF__G_TEXT, .dfa = dfa});
}

static void read_choices(clef_constraint *c, const char *source, size_t n)
{
    json_error_t problem;
    json_t *list = json_loadb(source, n, 0, &problem);
    const size_t n_texts = json_array_size(list);
    clef__utf8_text *texts = clef__work_alloc(&c->work, n_texts * sizeof *texts);
    if (!json_is_array(list) || !n_texts)
        clef__work_fail(&c->work, CLEF_E_FORMAT, "expected a JSON array of strings, at least one");
    for (size_t i = 0; i < n_texts && texts && !c->work.status; i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_string(item))
            clef__work_fail(&c->work, CLEF_E_FORMAT, "item %zu is not a string", i + 1);
        else
            texts[i] = (clef__utf8_text){json_string_value(item), json_string_length(item)};
    }
    if (!c->work.status)
        use_text(c, clef__dfa_texts(&c->dfas, texts, (uint32_t)n_texts));
    json_decref(list);
}

static int32_t find_token(void *user, const char *text, size_t n)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    return n < sizeof name ? clef_tokenizer_find(user, name) : -1;
}

static void read_source(clef_constraint *c, clef_constraint_kind kind, const char *source, size_t n,
                        const clef_constraint_opts *opts)
{
    clef__token_names names = {find_token, (void *)opts->tok};
    uint32_t root = 0;
    if (n > CLEF__MAX_SOURCE)
        clef__work_fail(&c->work, CLEF_E_LIMIT, "%zu bytes, expected 1 MiB at most", n);
    switch (kind) {
    case CLEF_CONSTRAIN_GBNF:
        clef__gbnf_read(&c->graph, source, n, opts->tok ? &names : NULL, &c->start);
        break;
    case CLEF_CONSTRAIN_SCHEMA:
        c->n_schemas = 1;
        clef__schema_read(&c->schema, source, n, &root);
        c->start = clef__graph_add(&c->graph, (clef__gnode){.kind = CLEF__G_VALUE, .expr = root});
        break;
    case CLEF_CONSTRAIN_REGEX:
        if (!c->work.status)
            use_text(c, clef__pattern_dfa(&c->dfas, source, n, 1));
        break;
    case CLEF_CONSTRAIN_CHOICES:
        read_choices(c, source, n);
        break;
    default:
        clef__work_fail(&c->work, CLEF_E_ARG, "no such kind of constraint");
    }
}

clef_constraint *clef__constraint_new(const char *name, const clef_constraint_opts *opts, clef_error *own)
{
    clef_constraint *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    static const clef__constraint_ops ops = {clef_constraint_begin, clef_constraint_read,
                                             clef_constraint_mask, clef_constraint_accept,
                                             clef__constraint_keep};
    c->ops = &ops;
    c->work = (clef__work){.name = name, .err = own};
    c->work.arena = clef__arena_create();
    c->dfas.work = c->graph.work = c->schema.work = &c->work;
    c->schema.dfas = &c->dfas;
    c->schema.path = c->schema.keyword = "";
    c->work.path = &c->schema.path;
    c->work.keyword = &c->schema.keyword;
    c->schema.opts = (clef__schema_opts){opts->strict, opts->any_order};
    if (!c->work.arena)
        clef__work_fail(&c->work, CLEF_E_NOMEM, "out of host memory");
    clef__graph_begin(&c->graph);
    return c;
}

clef_status clef__constraint_seal(clef_constraint *c, clef_constraint **out, clef_constraint_problem *problem,
                                  clef_error *err)
{
    clef_error *own = c->work.err;
    clef__schema *const schemas[] = {&c->schema};
    clef_status s = c->work.status;
    if (!s)
        s = clef__machine_init(&c->machine, c->graph.nodes, c->graph.n, c->start, schemas, c->n_schemas,
                               c->schema.opts.any_order, own);
    if (s && problem) {
        snprintf(problem->path, sizeof problem->path, "%s", c->schema.path);
        snprintf(problem->keyword, sizeof problem->keyword, "%s", c->schema.keyword);
    }
    if (s && err)
        *err = *own;
    if (s)
        clef_constraint_destroy(c);
    else
        c->work.err = c->machine.work.err = NULL;
    *out = s ? NULL : c;
    return s;
}

clef_status clef_constraint_create(clef_constraint_kind kind, const char *source, size_t n,
                                   const clef_constraint_opts *opts, clef_constraint **out,
                                   clef_constraint_problem *problem, clef_error *err)
{
    static const clef_constraint_opts none = {0};
    clef_error own = {0};
    opts = opts ? opts : &none;
    *out = NULL;
    clef_constraint *c =
        clef__constraint_new((unsigned)kind < 4 ? kind_names[kind] : "constraint", opts, &own);
    if (!c)
        return clef__fail(err, CLEF_E_NOMEM, "constraint: out of host memory");
    read_source(c, kind, source, n, opts);
    return clef__constraint_seal(c, out, problem, err);
}

void clef_constraint_destroy(clef_constraint *c)
{
    if (!c)
        return;
    clef__machine_finish(&c->machine);
    clef__schema_finish(&c->schema);
    free(c->graph.nodes);
    free(c->masks);
    free(c->mask_of);
    clef__arena_destroy(c->work.arena);
    free(c);
}

size_t clef_constraint_bytes(const clef_constraint *c)
{
    const size_t mask_words = c->masks_of ? (size_t)clef_token_trie_mask_words(c->masks_of) : 0;
    return sizeof *c + c->work.n_bytes + clef__machine_bytes(&c->machine) +
           c->graph.room * sizeof *c->graph.nodes +
           (c->n_mask_of + c->room_masks * mask_words) * sizeof(uint32_t);
}

/* ---- texts ---------------------------------------------------------------------------------- */

static clef_status status_of(clef_constraint *c, clef_error *err)
{
    clef__machine *m = &c->machine;
    if (!m->work.status)
        return CLEF_OK;
    return clef__fail(err, m->work.status,
                      "constraint: the text can be read in too many ways, or its states need "
                      "more than %d MiB",
                      CLEF__MAX_MEMORY >> 20);
}

/* Outside, a place has the number of its generation in the upper bits of config and size. */
enum { CONFIG_BITS = 22, GENERATION_BITS = 32 - CONFIG_BITS, SIZE_BITS = 2 };

static uint32_t generation_of(const clef_constraint_state *state)
{
    return state->config >> CONFIG_BITS | (uint32_t)state->size >> SIZE_BITS << GENERATION_BITS;
}

/* The place in the present generation; its config is 0 where it is gone. */
static clef_constraint_state carried(clef__machine *m, const clef_constraint_state *state)
{
    const uint32_t generation = generation_of(state);
    clef_constraint_state own = *state;
    own.config &= CLEF__MOST_CONFIGS - 1;
    own.size &= (1 << SIZE_BITS) - 1;
    if (own.config && (generation != m->generation || own.config >= m->n_configs))
        own.config =
            generation == m->generation ? CLEF__NO_CONFIG : clef__machine_carry(m, generation, own.config);
    return own;
}

static void tidy(clef_constraint *c)
{
    if (!clef__machine_tidy(&c->machine))
        return;
    c->n_masks = 0; /* they are found by the numbers of configs */
    if (c->mask_of)
        memset(c->mask_of, 0, c->n_mask_of * sizeof *c->mask_of);
}

clef_status clef__constraint_enter(clef_constraint *c, const clef_constraint_state *state,
                                   clef_constraint_state *own, clef_error *err)
{
    clef__machine *m = &c->machine;
    const int had_config = (state->config & (CLEF__MOST_CONFIGS - 1)) != CLEF__NO_CONFIG;
    tidy(c);
    *own = carried(m, state);
    if (had_config && !own->config && !m->work.status)
        return clef__fail(err, CLEF_E_LIMIT,
                          "constraint: the states of this text are gone: others have needed their memory");
    return status_of(c, err);
}

void clef__constraint_leave(const clef_constraint *c, const clef_constraint_state *own,
                            clef_constraint_state *state)
{
    const uint32_t generation = c->machine.generation;
    *state = *own;
    state->config |= generation << CONFIG_BITS;
    state->size |= (int32_t)(generation >> GENERATION_BITS << SIZE_BITS);
}

void clef__constraint_keep(clef_constraint *c, clef_constraint_state *state)
{
    clef__machine *m = &c->machine;
    if (generation_of(state) == m->generation || m->work.status)
        return;
    const clef_constraint_state own = carried(m, state);
    if (own.config && !m->work.status)
        clef__constraint_leave(c, &own, state);
}

clef_status clef_constraint_begin(clef_constraint *c, clef_constraint_state *state, clef_error *err)
{
    tidy(c);
    const clef_constraint_state own = {.config = clef__machine_begin(&c->machine)};
    clef__constraint_leave(c, &own, state);
    return status_of(c, err);
}

/* The range of code points that a character can be, of which the first bytes are known (Unicode 15, table
 * 3-7). Returns 0 where there is none. */
static int rest_range(uint32_t code, int32_t left, uint32_t *lo, uint32_t *hi)
{
    *lo = code << 6 * left;
    *hi = *lo | ((1u << 6 * left) - 1);
    return *lo <= CLEF__LAST_CODE;
}

static int begin_character(clef__machine *m, clef_constraint_state *state, uint8_t byte)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    uint32_t lo, hi;
    state->left = state->size = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
    if (byte < 0xC2 || byte > 0xF4)
        return 0;
    state->code = byte & (0x3Fu >> state->left);
    rest_range(state->code, state->left, &lo, &hi);
    lo = lo > least[state->left] ? lo : least[state->left];
    return clef__machine_can(m, state->config, lo, hi > CLEF__LAST_CODE ? CLEF__LAST_CODE : hi);
}

int clef__constraint_byte(clef__machine *m, clef_constraint_state *state, uint8_t byte)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    uint32_t lo, hi;
    if (!state->left && byte >= 0x80)
        return begin_character(m, state, byte);
    if (!state->left) {
        state->config = clef__machine_step(m, state->config, byte);
        return state->config != CLEF__NO_CONFIG;
    }
    if ((byte & 0xC0) != 0x80)
        return 0;
    const int32_t n_more = state->left - 1;
    const uint32_t code = state->code << 6 | (byte & 0x3F);
    rest_range(code, n_more, &lo, &hi);
    /* an overlong form, a surrogate, or beyond the last: its size tells how many bytes there were */
    const int32_t size = state->size;
    if (hi < least[size] || (lo >= 0xD800 && hi <= 0xDFFF) || lo > CLEF__LAST_CODE)
        return 0;
    state->code = code;
    state->left = n_more;
    if (n_more)
        return clef__machine_can(m, state->config, lo > least[size] ? lo : least[size],
                                 hi > CLEF__LAST_CODE ? CLEF__LAST_CODE : hi);
    state->code = 0;
    state->size = 0;
    state->config = clef__machine_step(m, state->config, code);
    return state->config != CLEF__NO_CONFIG;
}

clef_status clef__constraint_read(clef_constraint *c, clef_constraint_state *own, const char *bytes, size_t n,
                                  size_t *n_read, clef_error *err)
{
    for (*n_read = 0; *n_read < n; ++*n_read) {
        clef_constraint_state next = *own;
        if (!clef__constraint_byte(&c->machine, &next, (uint8_t)bytes[*n_read]))
            break;
        *own = next;
    }
    return status_of(c, err);
}

clef_status clef_constraint_read(clef_constraint *c, clef_constraint_state *state, const char *bytes,
                                 size_t n, size_t *n_read, clef_error *err)
{
    enum { AT_ONCE = 4096 }; /* then the machine may have to be tidied */
    clef_status s = CLEF_OK;
    size_t n_more = 0;
    for (*n_read = 0; *n_read < n && !s; *n_read += n_more) {
        clef_constraint_state own;
        const size_t piece = n - *n_read < AT_ONCE ? n - *n_read : AT_ONCE;
        n_more = 0;
        s = clef__constraint_enter(c, state, &own, err);
        if (!s)
            s = clef__constraint_read(c, &own, bytes + *n_read, piece, &n_more, err);
        if (!s)
            clef__constraint_leave(c, &own, state);
        if (n_more < piece) {
            *n_read += n_more;
            return s;
        }
    }
    return s;
}

int clef__constraint_may_end(clef_constraint *c, const clef_constraint_state *own)
{
    return !own->left && clef__machine_ends(&c->machine, own->config);
}

int clef_constraint_may_end(clef_constraint *c, const clef_constraint_state *state)
{
    clef_constraint_state own;
    return !state->left && !clef__constraint_enter(c, state, &own, NULL) && clef__constraint_may_end(c, &own);
}
