/* Generations of a machine: what no text needs any more is dropped, and what is in use is carried over.
 *
 * A machine does not know which of its configs are in use: they are numbers in places of texts. So those of
 * the generation before are kept, and each is carried over when it is asked for. Older ones are gone. */
#include <stdlib.h>
#include <string.h>

#include "text/constrain/machine.h"

/* A generation ends when it has grown to so much. What is in use of it is small. */
enum { ENOUGH = 24 << 20 };

void clef__past_finish(clef__past *p)
{
    free(p->frames);
    free(p->items);
    free(p->first);
    free(p->moved);
    *p = (clef__past){.n_frames = 0};
}

size_t clef__machine_bytes(const clef__machine *m)
{
    return clef__machine_grown(m) + m->past.n_bytes + m->room_stack * sizeof *m->stack;
}

int clef__machine_tidy(clef__machine *m)
{
    if (!m->work.status && clef__machine_grown(m) < ENOUGH)
        return 0;
    clef__past_finish(&m->past);
    uint32_t *moved = calloc((size_t)m->n_frames + 1, sizeof *moved);
    if (moved && m->n_frames) {
        m->past = (clef__past){.frames = m->frames,
                               .items = m->items,
                               .first = m->first,
                               .moved = moved,
                               .n_frames = m->n_frames,
                               .n_configs = m->n_configs,
                               .n_bytes = m->room_frames * sizeof *m->frames +
                                          (m->room_items + m->room_configs + m->n_frames) * sizeof *m->items};
        m->frames = NULL;
        m->items = m->first = NULL;
    } else {
        free(moved);
    }
    m->generation++;
    m->work.status = CLEF_OK;
    clef__machine_restart(m);
    return 1;
}

static void push(clef__machine *m, uint32_t *n, uint32_t frame)
{
    if (clef__work_grow(&m->work, &m->stack, *n, &m->room_stack, sizeof *m->stack))
        m->stack[(*n)++] = frame;
}

/* What a frame refers to: the frame below, and of an object whose members come in any order, the list of
 * those seen. */
static uint32_t carry_frame(clef__machine *m, uint32_t frame)
{
    const clef__past *p = &m->past;
    uint32_t n = 0;
    p->moved[1] = 1; /* the end of the text */
    push(m, &n, frame);
    while (n && !m->work.status) {
        const uint32_t id = m->stack[n - 1];
        clef__frame f = p->frames[id];
        const int has_list = m->any_order && f.op == CLEF__OP_OBJECT && f.b;
        if (f.parent && !p->moved[f.parent])
            push(m, &n, f.parent);
        else if (has_list && !p->moved[f.b])
            push(m, &n, f.b);
        else {
            f.parent = f.parent ? p->moved[f.parent] : 0;
            f.b = has_list ? p->moved[f.b] : f.b;
            p->moved[id] = clef__frame_of(m, &f);
            n--;
        }
    }
    return m->work.status ? 0 : p->moved[frame];
}

uint32_t clef__machine_carry(clef__machine *m, uint32_t generation, uint32_t config)
{
    const clef__past *p = &m->past;
    if (generation != m->generation - 1 || config >= p->n_configs)
        return CLEF__NO_CONFIG;
    for (uint32_t i = p->first[config]; i < p->first[config + 1] && !m->work.status; i++)
        clef__machine_add(m, carry_frame(m, p->items[i]));
    return clef__machine_take(m);
}
