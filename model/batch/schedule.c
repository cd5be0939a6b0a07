/* Who runs in a step: waiting sequences start where there is room; those that generate come first, then parts
 * of prompts, the oldest first. A full pool sets the newest sequence back. */
#include "graph/fail.h"
#include "model/batch/disk.h"

/* ---- starting ---------------------------------------------------------------------------------- */

static int32_t free_slot(const clef_batch *b)
{
    for (int32_t i = 0; i < b->opts.max_sequences; i++)
        if (!b->slots[i])
            return i;
    return NO_SLOT;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* The longest prefix of s that a running sequence's prompt has, too, and has not computed yet. */
static int32_t is_being_computed(const clef_batch *b, const batch_sequence *s)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < b->opts.max_sequences; i++) {
        const batch_sequence *o = b->slots[i];
        const int fits = o && o->key.adapter == s->key.adapter && o->key.salt == s->key.salt;
        const int32_t *own = clef__batch_keys(s), *others = fits ? clef__batch_keys(o) : NULL;
        int32_t n = 0;
        while (fits && n < o->n_tokens && n < s->n_tokens - 1 && others[n] == own[n])
            n++;
        if (fits && n > o->n_past)
            longest = n > longest ? n : longest;
    }
    return longest;
}

/* Whether s should wait until a running sequence has computed what both need: at least a page. */
static int should_share(const clef_batch *b, const batch_sequence *s, int32_t n_cached)
{
    return !b->no_prefix_cache && is_being_computed(b, s) >= n_cached + KV_BLOCK;
}

/* Begins the chain of s with what the prefix cache has, and copies the last page, if only a part of it is
 * equal. */
static clef_status begin_chain(clef_batch *b, batch_sequence *s, int32_t n_cached, int32_t mark, int *began,
                               clef_error *err)
{
    clef__page_copy copy;
    *began = clef__pages_begin(b->pages, s->key, clef__batch_keys(s), n_cached, &s->chain, &copy);
    clef_status status = *began ? clef__batch_copy(b, &copy, err) : CLEF_OK;
    if (!status && *began && mark >= 0)
        status = clef__batch_copy_memory(b, s->slot, b->opts.max_sequences + mark, err);
    return status;
}

static void note_start(clef_batch *b, batch_sequence *s, int32_t n_cached)
{
    s->n_past = n_cached;
    b->rows.tables_changed = 1;
    if (s->n_cached >= 0)
        return;
    s->n_cached = n_cached;
    b->stats.n_prompt += s->n_prompt;
    b->stats.n_cached += n_cached;
}

/* The longest prefix in the pool that a step may begin after. */
static int32_t find_prefix(const clef_batch *b, const batch_sequence *s, int32_t limit, int32_t *mark)
{
    int32_t n = limit;
    if (b->no_prefix_cache)
        return 0;
    for (;;) {
        const int32_t found = clef__pages_find(b->pages, s->key, clef__batch_keys(s), n, mark);
        n = clef__batch_uncut(b, s, found);
        if (n == found)
            return n;
    }
}

clef_status clef__batch_start(clef_batch *b, batch_sequence *s, clef__start *what, clef_error *err)
{
    int32_t mark = -1;
    int began = 0;
    const int32_t slot = free_slot(b), limit = s->n_tokens - 1;
    *what = CLEF__NO_ROOM;
    if (slot == NO_SLOT)
        return CLEF_OK;
    int32_t n_cached = find_prefix(b, s, limit, &mark);
    clef_status status = clef__disk_load(b, s, n_cached, err);
    if (status)
        return status;
    if (b->disk)
        n_cached = find_prefix(b, s, limit, &mark);
    const int32_t needed = clef__pages_needed(b->pages, s->key, clef__batch_keys(s), n_cached, s->n_tokens);
    if (should_share(b, s, n_cached)) {
        *what = CLEF__WAITS_FOR_PREFIX;
        return CLEF_OK;
    }
    if (needed > clef__pages_available(b->pages) - b->stats.n_running)
        return CLEF_OK;
    s->slot = slot;
    b->slots[slot] = s;
    b->stats.n_running++;
    b->stats.n_waiting--;
    status = begin_chain(b, s, n_cached, mark, &began, err);
    if (!status && !began && b->stats.n_running == 1) { /* nobody will give up the page that a copy needs */
        n_cached = 0;
        status = begin_chain(b, s, 0, -1, &began, err);
    }
    if (!status && began && s->n_source)
        status = clef__batch_encode(b, s, err);
    if (status || !began) {
        clef__batch_preempt(b, s);
        return status;
    }
    *what = CLEF__STARTED;
    note_start(b, s, n_cached);
    return CLEF_OK;
}

/* In order of arrival. One that waits for a prefix lets later ones pass; one that waits for room does not, or
 * long prompts would wait as long as short ones come. */
static clef_status start_waiting(clef_batch *b, clef_error *err)
{
    clef_status status = CLEF_OK;
    clef__start what = CLEF__STARTED;
    for (int32_t i = 0; i < b->n_all && !status && what != CLEF__NO_ROOM; i++)
        if (b->all[i]->slot == NO_SLOT && !b->all[i]->is_paused)
            status = clef__batch_start(b, b->all[i], &what, err);
    return status;
}

void clef__batch_preempt(clef_batch *b, batch_sequence *s)
{
    if (s->mirror && s->mirror->slot != NO_SLOT)
        clef__batch_preempt(b->draft, s->mirror);
    clef__pages_end(b->pages, &s->chain);
    b->slots[s->slot] = NULL;
    b->rows.tables_changed = 1;
    s->slot = NO_SLOT;
    s->n_past = s->n_behind = s->n_rows = s->n_hidden = 0;
    b->stats.n_running--;
    b->stats.n_waiting++;
}

/* ---- rows -------------------------------------------------------------------------------------- */

static batch_sequence *newest(const clef_batch *b)
{
    batch_sequence *s = NULL;
    for (int32_t i = 0; i < b->opts.max_sequences; i++)
        if (b->slots[i] && (!s || b->slots[i]->number > s->number))
            s = b->slots[i];
    return s;
}

/* Gets pages for the rows of s, and preempts newer sequences for them. Returns 0 when s itself was
 * preempted. */
static int get_pages(clef_batch *b, batch_sequence *s)
{
    const int32_t before = s->chain.n;
    const int32_t first = clef__batch_first_row(s);
    clef__pages_slide(b->pages, &s->chain, first);
    while (!clef__pages_grow(b->pages, &s->chain, first + s->n_rows)) {
        batch_sequence *victim = newest(b);
        victim->n_preemptions++;
        b->stats.n_preemptions++;
        clef__batch_preempt(b, victim);
        if (victim == s)
            return 0;
    }
    b->rows.tables_changed |= s->chain.n != before || b->has_sliding;
    return 1;
}

/* The rows that s would get, alone. Recurrent states are kept at multiples of SNAPSHOT_STEP. */
static int32_t wanted_rows(const clef_batch *b, const batch_sequence *s, int32_t room)
{
    int32_t n = least(s->n_tokens - s->n_past, room);
    if (b->is_recurrent && !b->no_prefix_cache)
        n = least(n, SNAPSHOT_STEP - s->n_past % SNAPSHOT_STEP);
    return clef__batch_uncut(b, s, s->n_past + n) - s->n_past;
}

/* The rows of one that generates, all at once: tokens that the memory of recurrent layers lacks, the last
 * token, and what is drafted after it. Where there is no room, it waits for the next step. */
static int32_t generating_rows(batch_sequence *s, int32_t room)
{
    const int32_t n = s->n_behind + 1;
    if (n + s->n_drafts > room)
        s->n_drafts = 0;
    return n <= room ? n + s->n_drafts : 0;
}

/* Shares out the step's rows: first those of sequences that generate, with what is drafted after them, then
 * prompts. */
static int32_t choose_rows(clef_batch *b)
{
    int32_t room = b->opts.step_tokens;
    for (int32_t i = 0; i < b->n_all; i++) {
        batch_sequence *s = b->all[i];
        s->n_rows = clef__batch_generates(s) ? generating_rows(s, room) : 0;
        room -= s->n_rows;
    }
    for (int32_t i = 0; i < b->n_all && room > 0; i++) {
        batch_sequence *s = b->all[i];
        if (s->slot == NO_SLOT || s->n_rows || clef__batch_generates(s))
            continue;
        s->n_rows = wanted_rows(b, s, room);
        room -= s->n_rows;
    }
    return b->opts.step_tokens - room;
}

clef_status clef__batch_schedule(clef_batch *b, int32_t *n, clef_error *err)
{
    *n = 0;
    clef_status status = start_waiting(b, err);
    if (!status)
        status = clef__batch_draft_tokens(b, err);
    if (status)
        return status;
    choose_rows(b);
    for (int32_t i = 0; i < b->n_all; i++) /* the oldest first */
        if (b->all[i]->n_rows && get_pages(b, b->all[i]))
            *n += b->all[i]->n_rows;
    return CLEF_OK;
}
