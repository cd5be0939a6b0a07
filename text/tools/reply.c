/* Reads a message in pieces. Text is given as soon as no tag can begin in it. A block that may be calls is
 * kept until it is one, or is text after all. */
#include "text/tools/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"

static clef_status no_memory(clef_error *err)
{
    return clef__fail(err, CLEF_E_NOMEM, "no memory for the text of a message");
}

/* ---- giving ----------------------------------------------------------------------------------- */

static clef_status give_text(clef_reply_reader *r, clef_reply_kind kind, const char *text, size_t n)
{
    const clef_reply_part part = {.kind = kind, .text = text, .n_bytes = n};
    return n ? r->part(r->user, &part) : CLEF_OK;
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

clef_status clef__reply_give(clef_reply_reader *r, clef_reply_kind kind, size_t to, clef_error *err)
{
    const char *text = r->text.at;
    size_t from = r->at, end = to;
    clef_status s = CLEF_OK;
    r->at = to;
    while (r->drops_space && from < to && is_blank(text[from]))
        from++;
    if (from == to)
        return CLEF_OK;
    r->drops_space = 0;
    while (end > from && is_blank(text[end - 1]))
        end--;
    if (end > from) {
        int32_t *gave = kind == CLEF_REPLY_CONTENT ? &r->gave_content : &r->gave_reasoning;
        *gave = 1;
        s = give_text(r, kind, r->space.at, r->space.n);
        r->space.n = 0;
        if (!s)
            s = give_text(r, kind, text + from, end - from);
    }
    clef__text_add(&r->space, text + end, to - end);
    return s ? s : r->space.failed ? no_memory(err) : CLEF_OK;
}

clef_status clef__reply_give_calls(clef_reply_reader *r, clef_error *err)
{
    (void)err;
    clef_status s = CLEF_OK;
    for (; r->n_given < r->calls.n && !s; r->n_given++) {
        const clef__call *call = &r->calls.at[r->n_given];
        char id[16];
        snprintf(id, sizeof id, "call%05d", (int)((r->opts.first_call + r->n_given) % 100000));
        const clef_reply_part part = {
            .kind = CLEF_REPLY_CALL,
            .index = r->n_given,
            .call = {.id = call->id ? call->id : id, .name = call->name, .arguments = call->arguments}};
        s = r->part(r->user, &part);
    }
    return s;
}

/* ---- tags ------------------------------------------------------------------------------------- */

int clef__reply_find(clef_reply_reader *r, const char *const *tags, int32_t n, size_t *at)
{
    const clef__slice text = {r->text.at, r->text.n};
    for (; r->scanned < text.n; r->scanned++)
        for (int32_t i = 0; i < n; i++) {
            if (!tags[i] || text.at[r->scanned] != tags[i][0])
                continue;
            const int begins = clef__begins(text, r->scanned, tags[i]);
            if (begins == 1) {
                *at = r->scanned;
                return i;
            }
            if (begins == 2 && !r->at_end)
                return -1;
        }
    return -1;
}

static clef_status read_reasoning(clef_reply_reader *r, int *is_stuck, clef_error *err)
{
    size_t at;
    const int found = clef__reply_find(r, &r->tags->think_end, 1, &at);
    *is_stuck = found < 0;
    const clef_status s = clef__reply_give(r, CLEF_REPLY_REASONING, found < 0 ? r->scanned : at, err);
    if (s || found < 0)
        return s;
    r->at = r->scanned = at + strlen(r->tags->think_end);
    r->space.n = 0;
    r->drops_space = 1;
    r->reading = CLEF__IN_CONTENT;
    return CLEF_OK;
}

static void begin_block(clef_reply_reader *r, size_t at, size_t skip)
{
    r->reading = CLEF__IN_CALL;
    r->at = at;
    r->block_at = at + skip;
    r->block = (clef__block){.tools = {r->tools, r->tools ? strlen(r->tools) : 0}, .calls = &r->calls};
}

/* A call without a tag may begin where a message does, or after another call. Returns 1
 * when one does. */
static int begins_bare(clef_reply_reader *r, size_t *begin)
{
    if (!r->tags->is_bare || r->is_plain || r->gave_content)
        return 0;
    size_t at = r->at;
    while (at < r->text.n && (is_blank(r->text.at[at]) || (r->calls.n && r->text.at[at] == ';')))
        at++;
    if (r->calls.n) /* what separates calls is nobody's text */
        r->at = r->scanned = at;
    if (at == r->text.n || r->text.at[at] != '{')
        return 0;
    *begin = at;
    return 1;
}

/* The tags that count now: reasoning, calls, frames. Returns their number. */
static int32_t tags_now(const clef_reply_reader *r,
                        const char *out[2 + CLEF__MAX_CALL_TAGS + CLEF__MAX_FRAMES])
{
    const clef__tags *t = r->tags;
    int32_t n = 0;
    out[n++] = t->think && (t->thinks_anywhere || !r->gave_content) ? t->think : NULL;
    for (int32_t i = 0; i < CLEF__MAX_CALL_TAGS; i++)
        out[n++] = t->call[i];
    for (int32_t i = 0; i < CLEF__MAX_FRAMES && t->frame[i]; i++)
        out[n++] = t->frame[i];
    return n;
}

static clef_status read_content(clef_reply_reader *r, int *is_stuck, clef_error *err)
{
    const char *tags[2 + CLEF__MAX_CALL_TAGS + CLEF__MAX_FRAMES];
    size_t at = 0;
    if (begins_bare(r, &at)) {
        const clef_status s = clef__reply_give(r, CLEF_REPLY_CONTENT, at, err); /* white space */
        begin_block(r, at, 0);
        return s;
    }
    const int found = clef__reply_find(r, tags, tags_now(r, tags), &at);
    *is_stuck = found < 0;
    const clef_status s = clef__reply_give(r, CLEF_REPLY_CONTENT, found < 0 ? r->scanned : at, err);
    if (s || found < 0)
        return s;
    r->scanned = at + strlen(tags[found]);
    if (found == 0 && r->gave_content && !r->tags->thinks_anywhere)
        return CLEF_OK; /* after content, which was before it, this tag is text */
    if (found == 0) {
        r->reading = CLEF__IN_REASONING;
        r->at = r->scanned;
        r->drops_space = 1;
        r->space.n = 0;
    } else if (found <= CLEF__MAX_CALL_TAGS) {
        begin_block(r, at, r->tags->tag_belongs == found ? 0 : strlen(tags[found]));
    } else {
        r->at = r->scanned;
    }
    return CLEF_OK;
}

/* What follows a tag is a call, or text that begins with the tag. */
static clef_status read_call(clef_reply_reader *r, int *is_stuck, clef_error *err)
{
    r->block.text = (clef__slice){r->text.at + r->block_at, r->text.n - r->block_at};
    r->block.at_end = r->at_end;
    clef_status s = r->tags->read(&r->block, err);
    *is_stuck = !s && r->block.found == CLEF__MORE;
    if (s || *is_stuck)
        return s;
    r->reading = CLEF__IN_CONTENT;
    if (r->block.found == CLEF__TEXT) {
        r->is_plain = 1;
        r->scanned = r->block_at > r->at ? r->block_at : r->at + 1;
        return CLEF_OK;
    }
    r->at = r->scanned = r->block_at + r->block.n_used;
    r->space.n = 0;
    if (r->block.content) {
        r->gave_content = 1;
        s = give_text(r, CLEF_REPLY_CONTENT, r->block.content, strlen(r->block.content));
        free(r->block.content);
        r->block.content = NULL;
    }
    return s ? s : clef__reply_give_calls(r, err);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static clef_status read_on(clef_reply_reader *r, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int is_stuck = 0; !is_stuck && !s;)
        s = r->opts.format == CLEF_TOOLS_HARMONY ? clef__harmony_step(r, &is_stuck, err)
            : r->reading == CLEF__IN_REASONING   ? read_reasoning(r, &is_stuck, err)
            : r->reading == CLEF__IN_CALL        ? read_call(r, &is_stuck, err)
                                                 : read_content(r, &is_stuck, err);
    return s;
}

/* Removes what was given from the text, when that is half of it, so that each byte is moved rarely. */
static void forget_given(clef_reply_reader *r)
{
    if (2 * r->at < r->text.n || r->at == 0)
        return;
    memmove(r->text.at, r->text.at + r->at, r->text.n - r->at);
    r->text.n -= r->at;
    r->scanned -= r->at;
    r->block_at = r->reading == CLEF__IN_CALL ? r->block_at - r->at : 0;
    r->at = 0;
}

clef_status clef_reply_read(clef_reply_reader *r, const char *text, size_t n_bytes, clef_reply_fn part,
                            void *user, clef_error *err)
{
    r->part = part;
    r->user = user;
    clef__text_add(&r->text, text, n_bytes);
    if (r->text.failed)
        return no_memory(err);
    const clef_status s = read_on(r, err);
    forget_given(r);
    return s;
}

clef_status clef_reply_end(clef_reply_reader *r, clef_reply_fn part, void *user, clef_error *err)
{
    r->part = part;
    r->user = user;
    r->at_end = 1;
    clef__text_add(&r->text, "", 0);
    clef_status s = r->text.failed ? no_memory(err) : read_on(r, err);
    if (!s && !r->calls.n && r->reading == CLEF__IN_CONTENT) /* white space at the end */
        s = give_text(r, CLEF_REPLY_CONTENT, r->space.at, r->space.n);
    r->space.n = 0;
    return s;
}

/* ---- making a reader -------------------------------------------------------------------------- */

static clef_status copy_tools(clef_reply_reader *r, clef_error *err)
{
    const char *text = r->opts.tools;
    const size_t n = r->opts.tools_bytes, from = clef__json_blank(text, n, 0),
                 to = from < n && text[from] == '[' ? clef__json_end(text, n, from) : 0;
    if (!to || clef__json_blank(text, n, to) != n)
        return clef__fail(err, CLEF_E_FORMAT, "tools: expected a JSON array of tools");
    r->tools = malloc(to - from + 1);
    if (!r->tools)
        return no_memory(err);
    memcpy(r->tools, text + from, to - from);
    r->tools[to - from] = '\0';
    return CLEF_OK;
}

clef_status clef_reply_reader_create(const clef_reply_opts *opts, clef_reply_reader **out, clef_error *err)
{
    *out = NULL;
    if ((unsigned)opts->format >= CLEF_N_TOOL_FORMATS)
        return clef__fail(err, CLEF_E_ARG, "tool format %d: expected 0 to %d", (int)opts->format,
                          CLEF_N_TOOL_FORMATS - 1);
    clef_reply_reader *r = calloc(1, sizeof *r);
    if (!r)
        return no_memory(err);
    r->opts = *opts;
    r->tags = clef__tool_tags(opts->format);
    r->reading = opts->format == CLEF_TOOLS_HARMONY        ? CLEF__IN_HEAD
                 : opts->starts_thinking && r->tags->think ? CLEF__IN_REASONING
                                                           : CLEF__IN_CONTENT;
    r->drops_space = r->reading == CLEF__IN_REASONING;
    const clef_status s = opts->tools ? copy_tools(r, err) : CLEF_OK;
    if (s) {
        clef_reply_reader_destroy(r);
        return s;
    }
    *out = r;
    return CLEF_OK;
}

void clef_reply_reader_destroy(clef_reply_reader *r)
{
    if (!r)
        return;
    clef__calls_cut(&r->calls, 0);
    clef__text_free(&r->text);
    clef__text_free(&r->space);
    clef__text_free(&r->name);
    free(r->tools);
    free(r);
}
