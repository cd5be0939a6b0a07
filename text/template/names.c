/* Names that a template sets before it reads them. In Jinja such a name is the template's own from the start:
 * a loop or a macro that reads it before it is set finds nothing, even if the caller gave a value of that
 * name. (jinja2.idtracking: a name of the outermost scope is looked up outside only if it is read there
 * first, or is set under a condition.) */
#include <string.h>

#include "text/template/engine.h"

/* Notes a name when it occurs for the first time. */
static void note(clef__tpl *t, clef__scope *seen, clef__str *name, int is_own)
{
    for (int32_t i = 0; i < seen->n; i++)
        if (seen->names[i].name->n == name->n && memcmp(seen->names[i].name->p, name->p, name->n) == 0)
            return;
    clef__scope_set(t, seen, name, clef__bool(is_own));
    if (is_own)
        clef__scope_set(t, t->scope, name, (clef__value){.kind = CLEF__UNDEFINED, .s = name});
}

/* The names that an expression reads. */
static void note_reads(clef__tpl *t, clef__scope *seen, const clef__node *n)
{
    if (!n || !clef__tpl_step(t, 1))
        return;
    if (n->kind == CLEF__N_NAME)
        note(t, seen, n->name, 0);
    const clef__node *const parts[] = {n->a, n->b, n->c, n->d};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        note_reads(t, seen, parts[i]);
    for (int32_t i = 0; i < n->n + n->n_named; i++)
        note_reads(t, seen, n->list[i]);
}

/* The names of a target. The namespace of `ns.x` is read. */
static void note_target(clef__tpl *t, clef__scope *seen, const clef__node *n, int is_certain)
{
    if (n->kind == CLEF__N_NAME)
        note(t, seen, n->name, is_certain);
    else if (n->kind == CLEF__N_ATTR)
        note_reads(t, seen, n->a);
    else
        for (int32_t i = 0; i < n->n; i++)
            note_target(t, seen, n->list[i], is_certain);
}

static void note_block(clef__tpl *t, clef__scope *seen, const clef__node *first, int is_certain)
{
    for (const clef__node *n = first; n && clef__tpl_step(t, 1); n = n->next)
        switch (n->kind) {
        case CLEF__N_OUTPUT:
        case CLEF__N_CALL_BLOCK:
        case CLEF__N_FILTER_BLOCK:
            note_reads(t, seen, n->a);
            break;
        case CLEF__N_FOR:
            note_reads(t, seen, n->b);
            break;
        case CLEF__N_IF:
            for (int32_t i = 0; i + 1 < n->n; i += 2) {
                note_reads(t, seen, n->list[i]);
                note_block(t, seen, n->list[i + 1], 0);
            }
            note_block(t, seen, n->a, 0);
            break;
        case CLEF__N_SET:
            note_reads(t, seen, n->b);
            note_target(t, seen, n->a, is_certain);
            break;
        case CLEF__N_SET_BLOCK:
            note_target(t, seen, n->a, is_certain);
            break;
        case CLEF__N_MACRO:
            note(t, seen, n->name, is_certain);
            break;
        case CLEF__N_WITH:
            for (int32_t i = 1; i < n->n; i += 2)
                note_reads(t, seen, n->list[i]);
            break;
        default:
            break;
        }
}

void clef__own_names(clef__tpl *t, const clef__node *body)
{
    clef__scope *seen = clef__scope_new(t, NULL);
    if (seen)
        note_block(t, seen, body, 1);
}
