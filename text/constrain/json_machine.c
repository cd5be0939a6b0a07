/* JSON's values: how frames of values, arrays and objects follow a text.
 *
 * The frame of an object: b is the next property that may come (any_order: the list of those seen), c how
 * many declared members there are and e how many others, d (any_order) how many required ones; partial,
 * before the colon, is the expression of the member's value. Numbers that no limit asks for stay 0, so that
 * fewer frames differ. */
#include <string.h>

#include "text/constrain/machine.h"

enum { FIRST, NEXT, COLON, AFTER }; /* after the bracket; after a comma; after a name; after a value */

/* space: what is between two tokens so far. 0 nothing, 1 a space, 2 and 3 so many newlines less one, then
 * blanks after them up to LAST_BLANK */
enum { ONE_SPACE = 1, NEWLINE = 2, LAST_NEWLINE = 3, LAST_BLANK = 23 };

static const char *const words[] = {
    [CLEF__ALT_NULL] = "null", [CLEF__ALT_FALSE] = "false", [CLEF__ALT_TRUE] = "true"};

static void add(clef__machine *m, const clef__frame *f)
{
    clef__machine_add(m, clef__frame_of(m, f));
}

/* Reads white space. Returns 1 if `code` is some; the frame with it is added if it may be there. */
static int take_space(clef__machine *m, const clef__frame *f, uint32_t code)
{
    clef__frame next = *f;
    if (code != ' ' && code != '\n' && code != '\t' && code != '\r')
        return 0;
    if (f->space == CLEF__NO_SPACE)
        return 1;
    if (m->any_order)
        next.space = 0;
    else if (code == '\n' && (f->space == 0 || f->space == NEWLINE))
        next.space = f->space == 0 ? NEWLINE : LAST_NEWLINE;
    else if (code == ' ' && f->space == 0)
        next.space = ONE_SPACE;
    else if ((code == ' ' || code == '\t') && f->space >= NEWLINE && f->space < LAST_BLANK)
        next.space = f->space < LAST_NEWLINE ? LAST_NEWLINE + 1 : (uint8_t)(f->space + 1);
    else
        return 1;
    add(m, &next);
    return 1;
}

/* ---- values --------------------------------------------------------------------------------- */

/* The first character of a value of an expression, after which frame `parent` goes on. */
static void begin_value(clef__machine *m, uint32_t expr, uint32_t parent, uint32_t code)
{
    for (uint32_t i = m->first_form[expr]; i < m->first_form[expr + 1]; i++) {
        const clef__alt *alt = m->forms[i].alt;
        clef__frame f = {.parent = parent, .a = i};
        switch (alt->kind) {
        case CLEF__ALT_NUMBER:
            f.op = CLEF__OP_NUMBER;
            f.b = clef__dfa_step(alt->dfa, 0, code);
            if (f.b == CLEF__DEAD)
                continue;
            break;
        case CLEF__ALT_STRING:
            f.op = CLEF__OP_STRING;
            if (code != '"')
                continue;
            break;
        case CLEF__ALT_ARRAY:
        case CLEF__ALT_OBJECT:
            f.op = alt->kind == CLEF__ALT_ARRAY ? CLEF__OP_ARRAY : CLEF__OP_OBJECT;
            if (code != (alt->kind == CLEF__ALT_ARRAY ? '[' : '{'))
                continue;
            break;
        default:
            f = (clef__frame){.parent = parent, .op = CLEF__OP_WORD, .a = (uint32_t)alt->kind, .b = 1};
            if (code != (uint8_t)words[alt->kind][0])
                continue;
        }
        add(m, &f);
    }
}

static void follow_word(clef__machine *m, clef__frame *f, uint32_t code)
{
    const char *word = words[f->a];
    if (code != (uint8_t)word[f->b])
        return;
    if (!word[++f->b])
        clef__machine_pop(m, f->parent);
    else
        add(m, f);
}

static void follow_number(clef__machine *m, clef__frame *f, uint32_t code)
{
    const clef__dfa *dfa = m->forms[f->a].alt->dfa;
    const uint32_t to = clef__dfa_step(dfa, f->b, code);
    if (to != CLEF__DEAD) {
        f->b = to;
        add(m, f);
    } else if (dfa->ends[f->b]) { /* no character goes on with a number and also comes after one */
        clef__machine_pop_follow(m, f->parent, code);
    }
}

static void follow_string(clef__machine *m, clef__frame *f, uint32_t source)
{
    const clef__alt *alt = m->forms[f->a].alt;
    uint32_t code = 0;
    switch (clef__json_text(m, f, source, &code)) {
    case CLEF__TEXT_END:
        if (alt->dfa->ends[f->b] && f->c >= alt->min)
            clef__machine_pop(m, f->parent);
        break;
    case CLEF__TEXT_MORE:
        add(m, f);
        break;
    case CLEF__TEXT_CHAR:
        if (clef__json_append(m, f, code))
            add(m, f);
        break;
    case CLEF__TEXT_NO:
        break;
    }
}

/* ---- arrays --------------------------------------------------------------------------------- */

static void follow_array(clef__machine *m, clef__frame *f, uint32_t code)
{
    const clef__form *form = &m->forms[f->a];
    const clef__alt *alt = form->alt;
    if (take_space(m, f, code))
        return;
    f->space = 0;
    if (code == ']' && f->stage != NEXT) {
        if (f->b >= alt->min)
            clef__machine_pop(m, f->parent);
        return;
    }
    if (f->stage == AFTER) {
        f->stage = NEXT;
        if (code == ',' && (alt->max == UINT32_MAX || f->b < alt->max))
            add(m, f);
        return;
    }
    if (alt->max != UINT32_MAX && f->b >= alt->max)
        return;
    const uint32_t expr = form->base + (f->b < alt->n_prefix ? alt->prefix[f->b] : alt->rest);
    /* without a limit above, more items than the prefix and `min` have need no count */
    const uint32_t enough = alt->n_prefix > alt->min ? alt->n_prefix : alt->min;
    f->b += alt->max != UINT32_MAX || f->b < enough;
    f->stage = AFTER;
    begin_value(m, expr, clef__frame_of(m, f), code);
}

/* ---- objects -------------------------------------------------------------------------------- */

static int counts_members(const clef__machine *m, const clef__alt *alt)
{
    return m->any_order || alt->min || alt->max != UINT32_MAX;
}

static int may_close(const clef__machine *m, const clef__frame *f)
{
    const clef__alt *alt = m->forms[f->a].alt;
    const int complete = m->any_order ? f->d == alt->n_required : !alt->required_from[f->b];
    return complete && f->c + (f->e > 0) >= alt->min;
}

/* Names that are not declared come after all that are. */
static int may_have_others(const clef__machine *m, const clef__frame *f)
{
    const clef__alt *alt = m->forms[f->a].alt;
    const uint32_t required = m->any_order ? alt->n_required - f->d : alt->required_from[f->b];
    if (!m->any_order && (required || f->c + 1 < alt->min))
        return 0;
    return alt->max == UINT32_MAX || f->c + f->e + 1 + required <= alt->max;
}

static int has_more(const clef__machine *m, const clef__frame *f)
{
    const clef__alt *alt = m->forms[f->a].alt;
    if (alt->n_regions && may_have_others(m, f))
        return 1;
    for (uint32_t i = m->any_order ? 0 : f->b; i < alt->n_props; i++)
        if (clef__json_may_have(m, f, i))
            return 1;
    return 0;
}

/* After the quote that begins a name. */
static void begin_name(clef__machine *m, clef__frame *f)
{
    const clef__alt *alt = m->forms[f->a].alt;
    f->stage = NEXT;
    f->space = 0;
    const uint32_t parent = clef__frame_of(m, f);
    for (uint32_t i = 0; i < alt->n_props; i++)
        if (clef__json_may_have(m, f, i)) {
            add(m, &(clef__frame){.op = CLEF__OP_NAME, .a = f->a, .c = alt->n_props, .parent = parent});
            break;
        }
    for (uint32_t r = 0; r < alt->n_regions && may_have_others(m, f); r++)
        add(m, &(clef__frame){.op = CLEF__OP_OTHER, .a = f->a, .c = r, .parent = parent});
}

static void end_name(clef__machine *m, const clef__frame *name)
{
    const clef__form *form = &m->forms[name->a];
    const clef__alt *alt = form->alt;
    clef__frame f = m->frames[name->parent];
    const int counts = counts_members(m, alt);
    f.stage = COLON;
    if (name->op == CLEF__OP_OTHER) {
        if (!alt->regions[name->c].names->ends[name->b])
            return;
        f.partial = form->base + alt->regions[name->c].expr;
        f.b = m->any_order ? f.b : alt->n_props;
        f.e += counts && (alt->max != UINT32_MAX || f.e == 0);
    } else {
        const uint32_t i = name->b < name->c ? alt->by_name[name->b] : 0;
        if (name->b == name->c || alt->props[i].name.n != name->d ||
            !clef__json_may_have(m, &m->frames[name->parent], i))
            return;
        f.partial = form->base + alt->props[i].expr;
        f.c += (uint32_t)counts;
        f.d += m->any_order && alt->props[i].required;
        f.b = m->any_order ? clef__frame_of(m, &(clef__frame){.op = CLEF__OP_SEEN, .a = i, .parent = f.b})
                           : i + 1;
    }
    add(m, &f);
}

static void follow_name(clef__machine *m, clef__frame *f, uint32_t source)
{
    uint32_t code = 0;
    const clef__text_step step = clef__json_text(m, f, source, &code);
    if (step == CLEF__TEXT_END)
        end_name(m, f);
    else if (step == CLEF__TEXT_MORE || (step == CLEF__TEXT_CHAR && clef__json_append(m, f, code)))
        add(m, f);
}

static void follow_object(clef__machine *m, clef__frame *f, uint32_t code)
{
    if (take_space(m, f, code))
        return;
    f->space = 0;
    if (code == '}' && (f->stage == FIRST || f->stage == AFTER)) {
        if (may_close(m, f))
            clef__machine_pop(m, f->parent);
    } else if (f->stage == AFTER) {
        f->stage = NEXT;
        if (code == ',' && has_more(m, f))
            add(m, f);
    } else if (f->stage == COLON) {
        if (code != ':')
            return;
        clef__frame value = {.op = CLEF__OP_VALUE, .a = f->partial};
        f->stage = AFTER;
        f->partial = 0;
        value.parent = clef__frame_of(m, f);
        add(m, &value);
    } else if (code == '"') {
        begin_name(m, f);
    }
}

/* ---- all ------------------------------------------------------------------------------------ */

void clef__json_follow(clef__machine *m, clef__frame f, uint32_t code)
{
    switch ((clef__op)f.op) {
    case CLEF__OP_VALUE:
        if (!take_space(m, &f, code))
            begin_value(m, f.a, f.parent, code);
        break;
    case CLEF__OP_WORD:
        follow_word(m, &f, code);
        break;
    case CLEF__OP_NUMBER:
        follow_number(m, &f, code);
        break;
    case CLEF__OP_STRING:
        follow_string(m, &f, code);
        break;
    case CLEF__OP_ARRAY:
        follow_array(m, &f, code);
        break;
    case CLEF__OP_OBJECT:
        follow_object(m, &f, code);
        break;
    case CLEF__OP_NAME:
    case CLEF__OP_OTHER:
        follow_name(m, &f, code);
        break;
    default:
        break;
    }
}

/* Asked of characters beyond ASCII, of which only a part is known: they are in strings alone. */
int clef__json_can(clef__machine *m, const clef__frame *f, uint32_t lo, uint32_t hi)
{
    if (f->op == CLEF__OP_STRING || f->op == CLEF__OP_NAME || f->op == CLEF__OP_OTHER)
        return f->phase == 0 && clef__json_allows(m, f, lo, hi);
    return 0;
}
