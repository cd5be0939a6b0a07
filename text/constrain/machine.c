/* Frames, configs, and the steps between them. */
#include "text/constrain/machine.h"

#include <stdlib.h>
#include <string.h>

enum { N_STEPS = 1 << 15, MOST_FRAMES_OF_CONFIG = 20000, DONE_FRAME = 1 };

/* ---- tables --------------------------------------------------------------------------------- */

static uint32_t mix(uint32_t h, uint32_t x)
{
    return (h ^ x) * 0x9E3779B1u + (h >> 15);
}

static uint32_t hash_frame(const clef__frame *f)
{
    const uint32_t words[] = {
        f->parent,  f->a,
        f->b,       f->c,
        f->d,       f->e,
        f->partial, (uint32_t)f->op << 24 | (uint32_t)f->stage << 16 | (uint32_t)f->phase << 8 | f->space};
    uint32_t h = 17;
    for (int i = 0; i < 8; i++)
        h = mix(h, words[i]);
    return h ^ h >> 14;
}

static uint32_t frame_slot(const clef__machine *m, const clef__frame *f)
{
    uint32_t i = hash_frame(f) & (m->n_frame_slots - 1);
    while (m->frame_slots[i] && memcmp(&m->frames[m->frame_slots[i]], f, sizeof *f) != 0)
        i = (i + 1) & (m->n_frame_slots - 1);
    return i;
}

static int new_slots(clef__machine *m, uint32_t **slots, uint32_t *n_slots)
{
    free(*slots);
    *n_slots = *n_slots ? *n_slots * 2 : 256;
    *slots = calloc(*n_slots, sizeof **slots);
    if (!*slots)
        clef__work_fail(&m->work, CLEF_E_NOMEM, "out of host memory");
    return *slots != NULL;
}

size_t clef__machine_grown(const clef__machine *m)
{
    return m->room_frames * sizeof *m->frames + m->room_place * sizeof *m->place +
           (m->n_frame_slots + m->n_config_slots) * sizeof(uint32_t) +
           (m->room_items + m->room_configs + m->room_out + m->room_todo) * sizeof(uint32_t) +
           N_STEPS * sizeof *m->steps;
}

static int too_large(clef__machine *m)
{
    if (!m->work.status && clef__machine_grown(m) > CLEF__MAX_MEMORY)
        clef__work_fail(&m->work, CLEF_E_LIMIT, "the states of the text need more than %d MiB",
                        CLEF__MAX_MEMORY >> 20);
    return m->work.status != CLEF_OK;
}

uint32_t clef__frame_of(clef__machine *m, const clef__frame *f)
{
    if (too_large(m))
        return 0;
    if (m->n_frames * 2 >= m->n_frame_slots) {
        if (!new_slots(m, &m->frame_slots, &m->n_frame_slots))
            return 0;
        for (uint32_t i = 1; i < m->n_frames; i++)
            m->frame_slots[frame_slot(m, &m->frames[i])] = i;
    }
    const uint32_t slot = frame_slot(m, f);
    if (m->frame_slots[slot])
        return m->frame_slots[slot];
    const clef__frame own = *f; /* growing may move what f is part of */
    if (!clef__work_grow(&m->work, &m->frames, m->n_frames, &m->room_frames, sizeof *m->frames) ||
        !clef__work_grow(&m->work, &m->place, m->n_frames, &m->room_place, sizeof *m->place))
        return 0;
    m->frames[m->n_frames] = own;
    m->place[m->n_frames] = UINT32_MAX;
    m->frame_slots[slot] = m->n_frames;
    return m->n_frames++;
}

static uint32_t config_slot(const clef__machine *m, const uint32_t *items, uint32_t n)
{
    uint32_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = mix(h, items[i]);
    for (uint32_t i = (h ^ h >> 14) & (m->n_config_slots - 1);; i = (i + 1) & (m->n_config_slots - 1)) {
        const uint32_t c = m->config_slots[i];
        if (!c ||
            (m->first[c + 1] - m->first[c] == n && !memcmp(m->items + m->first[c], items, n * sizeof *items)))
            return i;
    }
}

static int order(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts, and leaves each only once. Returns how many are left. */
static uint32_t sort_once(uint32_t *items, uint32_t n)
{
    uint32_t n_kept = 1;
    qsort(items, n, sizeof *items, order);
    for (uint32_t i = 1; i < n; i++)
        if (items[i] != items[n_kept - 1])
            items[n_kept++] = items[i];
    return n_kept;
}

/* The config of the set that was made, which is then empty. */
uint32_t clef__machine_take(clef__machine *m)
{
    uint32_t n = m->n_out;
    m->n_out = m->base = 0;
    if (!n || too_large(m))
        return CLEF__NO_CONFIG;
    if (n > 1)
        n = sort_once(m->out, n);
    if (m->n_configs * 2 >= m->n_config_slots) {
        if (!new_slots(m, &m->config_slots, &m->n_config_slots))
            return CLEF__NO_CONFIG;
        for (uint32_t c = 1; c < m->n_configs; c++)
            m->config_slots[config_slot(m, m->items + m->first[c], m->first[c + 1] - m->first[c])] = c;
    }
    const uint32_t slot = config_slot(m, m->out, n);
    if (m->config_slots[slot])
        return m->config_slots[slot];
    if (m->n_configs >= CLEF__MOST_CONFIGS)
        clef__work_fail(&m->work, CLEF_E_LIMIT, "the texts have more than %d states", CLEF__MOST_CONFIGS);
    if (!clef__work_grow(&m->work, &m->first, m->n_configs + 1, &m->room_configs, sizeof *m->first))
        return CLEF__NO_CONFIG;
    for (uint32_t i = 0; i < n; i++) {
        if (!clef__work_grow(&m->work, &m->items, m->n_items, &m->room_items, sizeof *m->items))
            return CLEF__NO_CONFIG;
        m->items[m->n_items++] = m->out[i];
    }
    m->first[m->n_configs + 1] = m->n_items;
    m->config_slots[slot] = m->n_configs;
    return m->n_configs++;
}

/* A frame is looked up at the place where it was last added; a set within a set may have moved that, so that
 * it is added again: clef__machine_take() drops what comes twice. */
void clef__machine_add(clef__machine *m, uint32_t frame)
{
    if (m->place[frame] >= m->base && m->place[frame] < m->n_out && m->out[m->place[frame]] == frame)
        return;
    if (m->n_out >= MOST_FRAMES_OF_CONFIG)
        clef__work_fail(&m->work, CLEF_E_LIMIT, "the text can be read in more than %d ways",
                        MOST_FRAMES_OF_CONFIG);
    if (frame && clef__work_grow(&m->work, &m->out, m->n_out, &m->room_out, sizeof *m->out)) {
        m->place[frame] = m->n_out;
        m->out[m->n_out++] = frame;
    }
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void push_todo(clef__machine *m, uint32_t node, uint32_t parent)
{
    if (m->seen_stamp[node] == m->stamp && m->seen_parent[node] == parent)
        return; /* by another way */
    m->seen_stamp[node] = m->stamp;
    m->seen_parent[node] = parent;
    if (m->n_todo >= 2 * MOST_FRAMES_OF_CONFIG)
        clef__work_fail(&m->work, CLEF_E_LIMIT, "the text can be read in more than %d ways",
                        MOST_FRAMES_OF_CONFIG);
    if (!clef__work_grow(&m->work, &m->todo, m->n_todo + 1, &m->room_todo, sizeof *m->todo))
        return;
    m->todo[m->n_todo++] = node;
    m->todo[m->n_todo++] = parent;
}

/* What goes on at `node` after a call: the caller itself if the node is its end, so that a rule that ends
 * with a call of itself does not grow the stack. */
static uint32_t return_to(clef__machine *m, uint32_t node, uint32_t parent)
{
    return m->nodes[node].kind == CLEF__G_END
               ? parent
               : clef__frame_of(m, &(clef__frame){.op = CLEF__OP_RETURN, .a = node, .parent = parent});
}

static void end_rule(clef__machine *m, uint32_t parent)
{
    if (!parent)
        clef__machine_add(m, DONE_FRAME);
    else if (m->frames[parent].op == CLEF__OP_RETURN)
        push_todo(m, m->frames[parent].a, m->frames[parent].parent);
    else
        clef__machine_add(m, parent);
}

static void enter_node(clef__machine *m, uint32_t number, uint32_t parent)
{
    const clef__gnode *node = &m->nodes[number];
    clef__frame f = {.a = number, .parent = parent};
    switch (node->kind) {
    case CLEF__G_END:
        end_rule(m, parent);
        break;
    case CLEF__G_EITHER:
        push_todo(m, node->other, parent);
        push_todo(m, node->to, parent);
        break;
    case CLEF__G_CALL:
        push_todo(m, node->other, return_to(m, node->to, parent));
        break;
    case CLEF__G_SET:
    case CLEF__G_TOKEN:
    case CLEF__G_SPECIAL:
        f.op = CLEF__OP_SET;
        clef__machine_add(m, clef__frame_of(m, &f));
        break;
    case CLEF__G_TEXT:
        f.op = CLEF__OP_TEXT;
        clef__machine_add(m, clef__frame_of(m, &f));
        if (node->dfa->ends[0])
            push_todo(m, node->to, parent);
        break;
    case CLEF__G_VALUE:
        f = (clef__frame){
            .op = CLEF__OP_VALUE, .space = CLEF__NO_SPACE, .parent = return_to(m, node->to, parent)};
        f.a = m->bases[node->schema] + node->expr;
        clef__machine_add(m, clef__frame_of(m, &f));
        break;
    }
}

static void run_todo(clef__machine *m)
{
    while (m->n_todo && !m->work.status) {
        m->n_todo -= 2;
        enter_node(m, m->todo[m->n_todo], m->todo[m->n_todo + 1]);
    }
    m->n_todo = 0;
    m->stamp++;
}

static void enter(clef__machine *m, uint32_t node, uint32_t parent)
{
    push_todo(m, node, parent);
    run_todo(m);
}

void clef__machine_pop(clef__machine *m, uint32_t parent)
{
    end_rule(m, parent);
    run_todo(m);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Follows what `make` adds, in its place. */
static void follow_added(clef__machine *m, uint32_t begin, uint32_t old_base, uint32_t code)
{
    const uint32_t end = m->n_out;
    m->base = end;
    for (uint32_t i = begin; i < end && !m->work.status; i++)
        clef__machine_follow(m, m->out[i], code);
    const uint32_t n = m->n_out;
    m->base = old_base;
    m->n_out = begin;
    for (uint32_t i = end; i < n; i++)
        clef__machine_add(m, m->out[i]);
}

void clef__machine_pop_follow(clef__machine *m, uint32_t parent, uint32_t code)
{
    const uint32_t begin = m->n_out, old_base = m->base;
    m->base = begin;
    clef__machine_pop(m, parent);
    follow_added(m, begin, old_base, code);
}

static int set_has(const clef__set *set, uint32_t lo, uint32_t hi)
{
    for (uint32_t i = 0; i < set->n && set->at[i].lo <= hi; i++)
        if (set->at[i].hi >= lo)
            return 1;
    return 0;
}

static void follow_text(clef__machine *m, const clef__frame *f, uint32_t code)
{
    const clef__gnode *node = &m->nodes[f->a];
    const uint32_t to = clef__dfa_step(node->dfa, f->b, code);
    if (node->dfa->ends[f->b] &&
        f->stage) { /* before its first character, the node after it was entered, too */
        const uint32_t begin = m->n_out, old_base = m->base;
        m->base = begin;
        enter(m, node->to, f->parent);
        follow_added(m, begin, old_base, code);
    }
    if (to == CLEF__DEAD)
        return;
    clef__frame next = *f;
    next.b = to;
    next.stage = 1;
    clef__machine_add(m, clef__frame_of(m, &next));
}

/* Adds the frames that follow frame `id` by a code point. */
void clef__machine_follow(clef__machine *m, uint32_t id, uint32_t code)
{
    const clef__frame f = m->frames[id];
    if (f.op == CLEF__OP_SET) {
        const clef__gnode *node = &m->nodes[f.a];
        if (node->kind == CLEF__G_SET && set_has(&node->set, code, code))
            enter(m, node->to, f.parent);
    } else if (f.op == CLEF__OP_TEXT) {
        follow_text(m, &f, code);
    } else if (f.op != CLEF__OP_DONE && f.op != CLEF__OP_RETURN) {
        clef__json_follow(m, f, code);
    }
}

uint32_t clef__machine_begin(clef__machine *m)
{
    enter(m, m->start, 0);
    return clef__machine_take(m);
}

uint32_t clef__machine_step(clef__machine *m, uint32_t config, uint32_t code)
{
    clef__step *step = &m->steps[(mix(mix(3, config), code) >> 7) & (N_STEPS - 1)];
    if (step->config == config && step->code == code)
        return step->to;
    if (config == CLEF__NO_CONFIG)
        return CLEF__NO_CONFIG;
    for (uint32_t i = m->first[config]; i < m->first[config + 1] && !m->work.status; i++)
        clef__machine_follow(m, m->items[i], code);
    const uint32_t to = clef__machine_take(m);
    if (!m->work.status)
        *step = (clef__step){config, code, to};
    return to;
}

int clef__gnode_takes(const clef__gnode *node, int32_t id, int is_special)
{
    if (node->kind == CLEF__G_SPECIAL)
        return is_special && id + 1 != node->except[0] && id + 1 != node->except[1];
    return node->kind == CLEF__G_TOKEN && (node->token == id) == !node->negated;
}

/* ---- what may end ---------------------------------------------------------------------------- */

/* Adds what comes after a frame that may end here: after a text of which some was read, or a number. */
static void add_after(clef__machine *m, clef__frame f)
{
    if (f.op == CLEF__OP_TEXT && f.stage && m->nodes[f.a].dfa->ends[f.b])
        enter(m, m->nodes[f.a].to, f.parent);
    else if (f.op == CLEF__OP_NUMBER && m->forms[f.a].alt->dfa->ends[f.b])
        clef__machine_pop(m, f.parent);
}

const uint32_t *clef__machine_after(clef__machine *m, uint32_t config, uint32_t *n)
{
    for (uint32_t i = m->first[config]; config && i < m->first[config + 1] && !m->work.status; i++)
        add_after(m, m->frames[m->items[i]]);
    for (uint32_t i = 0; i < m->n_out && !m->work.status; i++)
        add_after(m, m->frames[m->out[i]]); /* may end, too */
    *n = m->n_out;
    m->n_out = m->base = 0;
    return m->out;
}

static void follow_token(clef__machine *m, clef__frame f, int32_t id, int is_special)
{
    if (f.op == CLEF__OP_SET && clef__gnode_takes(&m->nodes[f.a], id, is_special))
        enter(m, m->nodes[f.a].to, f.parent);
}

uint32_t clef__machine_token(clef__machine *m, uint32_t config, int32_t id, int is_special)
{
    uint32_t n;
    clef__machine_after(m, config, &n);
    m->n_out = m->base = n; /* these stay below the set that is made */
    for (uint32_t i = m->first[config]; i < m->first[config + 1] && !m->work.status; i++)
        follow_token(m, m->frames[m->items[i]], id, is_special);
    for (uint32_t i = 0; i < n && !m->work.status; i++)
        follow_token(m, m->frames[m->out[i]], id, is_special);
    const uint32_t end = m->n_out;
    m->n_out = m->base = 0;
    for (uint32_t i = n; i < end; i++)
        clef__machine_add(m, m->out[i]);
    return clef__machine_take(m);
}

int clef__machine_ends(clef__machine *m, uint32_t config)
{
    uint32_t n;
    int ends = 0;
    for (uint32_t i = m->first[config]; config && i < m->first[config + 1] && !ends; i++)
        ends = m->frames[m->items[i]].op == CLEF__OP_DONE;
    if (ends)
        return 1;
    const uint32_t *after = clef__machine_after(m, config, &n);
    for (uint32_t i = 0; i < n && !ends; i++)
        ends = m->frames[after[i]].op == CLEF__OP_DONE;
    return ends;
}

static int can_read(clef__machine *m, const clef__frame *f, uint32_t lo, uint32_t hi)
{
    const clef__gnode *node = &m->nodes[f->op == CLEF__OP_SET || f->op == CLEF__OP_TEXT ? f->a : 0];
    if (f->op == CLEF__OP_SET)
        return node->kind == CLEF__G_SET && set_has(&node->set, lo, hi);
    if (f->op == CLEF__OP_TEXT)
        return clef__dfa_can(node->dfa, f->b, lo, hi);
    return f->op >= CLEF__OP_VALUE && clef__json_can(m, f, lo, hi);
}

int clef__machine_can(clef__machine *m, uint32_t config, uint32_t lo, uint32_t hi)
{
    uint32_t n;
    int can = 0;
    for (uint32_t i = m->first[config]; config && i < m->first[config + 1] && !can; i++)
        can = can_read(m, &m->frames[m->items[i]], lo, hi);
    if (can)
        return 1;
    const uint32_t *after = clef__machine_after(m, config, &n);
    for (uint32_t i = 0; i < n && !can; i++)
        can = can_read(m, &m->frames[after[i]], lo, hi);
    return can;
}

static int is_loop(const clef__dfa *a, uint32_t state)
{
    const clef__edge *e = &a->edges[a->first[state]];
    return a->first[state + 1] - a->first[state] == 2 && e[0].lo == 0 && e[0].hi == 0xD7FF &&
           e[0].to == state && e[1].lo == 0xE000 && e[1].hi == CLEF__LAST_CODE && e[1].to == state;
}

int clef__machine_is_free(const clef__machine *m, uint32_t config, uint32_t *room)
{
    for (uint32_t i = m->first[config]; config && i < m->first[config + 1]; i++) {
        const clef__frame *f = &m->frames[m->items[i]];
        const clef__alt *alt =
            f->op == CLEF__OP_STRING || f->op == CLEF__OP_OTHER ? m->forms[f->a].alt : NULL;
        if (!alt || f->phase)
            continue;
        if (!is_loop(f->op == CLEF__OP_STRING ? alt->dfa : alt->regions[f->c].names, f->b))
            continue;
        *room = f->op == CLEF__OP_STRING && alt->max < UINT32_MAX ? alt->max - f->c : UINT32_MAX;
        return 1;
    }
    return 0;
}

/* ---- making one ------------------------------------------------------------------------------ */

static clef_status make_forms(clef__machine *m, clef__schema *const *schemas, uint32_t n_schemas)
{
    uint32_t n_forms = 0, n_exprs = 0;
    for (uint32_t i = 0; i < n_schemas; i++) {
        n_exprs += schemas[i]->n_exprs;
        for (uint32_t e = 0; e < schemas[i]->n_exprs; e++)
            n_forms += schemas[i]->exprs[e].alts.n;
    }
    m->forms = malloc((n_forms + 1) * sizeof *m->forms);
    m->first_form = malloc((n_exprs + 1) * sizeof *m->first_form);
    m->bases = malloc((n_schemas + 1) * sizeof *m->bases);
    if (!m->forms || !m->first_form || !m->bases)
        return CLEF_E_NOMEM;
    n_forms = n_exprs = 0;
    for (uint32_t i = 0; i < n_schemas; i++) {
        m->bases[i] = n_exprs;
        for (uint32_t e = 0; e < schemas[i]->n_exprs; e++) {
            const clef__alts *alts = &schemas[i]->exprs[e].alts;
            m->first_form[n_exprs++] = n_forms;
            for (uint32_t k = 0; k < alts->n; k++)
                m->forms[n_forms++] = (clef__form){&alts->at[k], m->bases[i]};
        }
    }
    m->first_form[n_exprs] = n_forms;
    return CLEF_OK;
}

clef_status clef__machine_init(clef__machine *m, const clef__gnode *nodes, uint32_t n_nodes, uint32_t start,
                               clef__schema *const *schemas, uint32_t n_schemas, int any_order,
                               clef_error *err)
{
    *m = (clef__machine){.nodes = nodes, .n_nodes = n_nodes, .start = start, .any_order = any_order};
    m->work = (clef__work){.name = "constraint", .err = err};
    m->steps = calloc(N_STEPS, sizeof *m->steps);
    m->stamp = 1;
    m->seen_stamp = calloc((size_t)n_nodes + 1, sizeof *m->seen_stamp);
    m->seen_parent = calloc((size_t)n_nodes + 1, sizeof *m->seen_parent);
    if (!m->steps || !m->seen_stamp || !m->seen_parent || make_forms(m, schemas, n_schemas))
        return clef__fail(err, CLEF_E_NOMEM, "constraint: out of host memory");
    return clef__machine_restart(m);
}

/* Frame 0 and config 0 are none; frame 1 is the end of the text. */
clef_status clef__machine_restart(clef__machine *m)
{
    void *const tables[] = {m->frames, m->place, m->frame_slots, m->items, m->first, m->config_slots};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        free(tables[i]);
    m->frames = NULL;
    m->place = m->frame_slots = m->items = m->first = m->config_slots = NULL;
    m->n_frames = m->room_frames = m->room_place = m->n_frame_slots = 0;
    m->n_items = m->room_items = m->n_configs = m->room_configs = m->n_config_slots = 0;
    m->n_out = m->base = m->n_todo = 0;
    m->stamp++;
    memset(m->steps, 0, N_STEPS * sizeof *m->steps);
    if (clef__work_grow(&m->work, &m->frames, 0, &m->room_frames, sizeof *m->frames) &&
        clef__work_grow(&m->work, &m->place, 0, &m->room_place, sizeof *m->place) &&
        clef__work_grow(&m->work, &m->first, 1, &m->room_configs, sizeof *m->first)) {
        m->frames[0] = (clef__frame){.parent = UINT32_MAX};
        m->place[0] = UINT32_MAX;
        m->first[0] = m->first[1] = 0;
        m->n_frames = m->n_configs = 1;
        clef__frame_of(m, &(clef__frame){.op = CLEF__OP_DONE});
    }
    return m->work.status;
}

void clef__machine_finish(clef__machine *m)
{
    free(m->forms);
    free(m->first_form);
    free(m->bases);
    free(m->frames);
    free(m->place);
    free(m->frame_slots);
    free(m->items);
    free(m->first);
    free(m->config_slots);
    free(m->steps);
    free(m->out);
    free(m->todo);
    free(m->seen_stamp);
    free(m->seen_parent);
    free(m->stack);
    clef__past_finish(&m->past);
    *m = (clef__machine){.n_nodes = 0};
}
