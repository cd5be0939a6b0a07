/* A reply as a list of blocks, of which each has one kind. */
#include <string.h>

#include "tools/serve/forms/form.h"

/* What a block has of its text. */
static json_t *text_so_far(const serve_task *t)
{
    const serve_choice *c = &t->choices[0];
    const serve_block *b = &t->block;
    const serve_buffer *from = b->kind == CLEF_REPLY_REASONING ? &c->reasoning : &c->content;
    if (b->kind == CLEF_REPLY_CALL)
        return json_incref(json_object_get(json_object_get(b->call, "function"), "arguments"));
    return json_stringn(from->p ? from->p + b->begin : "", from->n - b->begin);
}

static int end_block(serve_task *t, const serve_block_events *on)
{
    if (!t->has_block)
        return 1;
    t->has_block = 0;
    return !on->end || on->end(t, &t->block, text_so_far(t));
}

/* Goes on with the last block, or begins one. */
static int begin_block(serve_task *t, const serve_block_events *on, clef_reply_kind kind, size_t begin,
                       const json_t *call)
{
    if (t->has_block && t->block.kind == kind && !call)
        return 1;
    if (!end_block(t, on))
        return 0;
    t->block = (serve_block){.kind = kind, .index = t->n_blocks++, .begin = begin, .call = call};
    t->has_block = 1;
    return !on->begin || on->begin(t, &t->block);
}

static int take_text(serve_task *t, const serve_block_events *on, clef_reply_kind kind,
                     const serve_buffer *from, size_t *n_sent)
{
    const size_t begin = *n_sent;
    if (from->n == begin)
        return 1;
    *n_sent = from->n;
    return begin_block(t, on, kind, begin, NULL) &&
           (!on->more || on->more(t, &t->block, json_stringn(from->p + begin, from->n - begin)));
}

int serve_blocks_take(serve_task *t, const serve_block_events *on)
{
    serve_choice *c = &t->choices[0];
    if (!take_text(t, on, CLEF_REPLY_REASONING, &c->reasoning, &c->n_sent_reasoning) ||
        !take_text(t, on, CLEF_REPLY_CONTENT, &c->content, &c->n_sent_content))
        return 0;
    for (; c->n_sent_calls < json_array_size(c->calls); c->n_sent_calls++)
        if (!begin_block(t, on, CLEF_REPLY_CALL, 0, json_array_get(c->calls, c->n_sent_calls)) ||
            (on->more && !on->more(t, &t->block, text_so_far(t))))
            return 0;
    return !c->finish || end_block(t, on);
}
