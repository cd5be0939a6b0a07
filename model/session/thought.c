#include "model/session/thought.h"

#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"

size_t clef__tag_match(const char *tag, size_t n_matched, char byte)
{
    for (size_t n = n_matched + 1; n > 0; n--) /* the longest begin that the text ends with */
        if (tag[n - 1] == byte && !memcmp(tag, tag + n_matched - (n - 1), n - 1))
            return n;
    return 0;
}

/* A tag is often one token of its own, to which no blank is added. */
static clef_status encode(clef__thought *t, const char *text, clef_error *err)
{
    const int32_t own = clef_tokenizer_find(t->tok, text);
    int32_t *ids = NULL, n = 0;
    const clef_status s =
        own >= 0 ? CLEF_OK
                 : clef_tokenizer_encode(t->tok, text, strlen(text), CLEF_SPECIAL_NONE, &ids, &n, err);
    t->n_ending = own >= 0 ? 1 : n;
    t->ending = s ? NULL : malloc((size_t)t->n_ending * sizeof *t->ending + 1);
    if (t->ending && t->n_ending)
        memcpy(t->ending, own >= 0 ? &own : ids, (size_t)t->n_ending * sizeof *t->ending);
    clef_tokens_free(ids);
    return s || t->ending ? s : clef__fail(err, CLEF_E_NOMEM, "thought: out of host memory");
}

static char *copy(const char *text)
{
    const size_t n = strlen(text) + 1;
    char *out = malloc(n);
    return out ? memcpy(out, text, n) : NULL;
}

clef_status clef__thought_begin(clef__thought *t, const clef_thought *limits, const clef_tokenizer *tok,
                                clef_error *err)
{
    *t = (clef__thought){.tok = tok};
    if (!limits)
        return CLEF_OK;
    if (!limits->open || !*limits->open || !limits->close || !*limits->close || limits->most < 0)
        return clef__fail(err, CLEF_E_ARG, "thought: expected two tags, and 0 or more tokens, got %d",
                          limits->most);
    t->open = copy(limits->open);
    t->close = copy(limits->close);
    t->anywhere = limits->anywhere;
    t->most = limits->most;
    t->stage = limits->begun ? CLEF__THOUGHT_INSIDE : CLEF__THOUGHT_AHEAD;
    const clef_status s = t->open && t->close
                              ? encode(t, limits->ending ? limits->ending : limits->close, err)
                              : clef__fail(err, CLEF_E_NOMEM, "thought: out of host memory");
    if (s)
        clef__thought_finish(t);
    return s;
}

void clef__thought_finish(clef__thought *t)
{
    free(t->open);
    free(t->close);
    free(t->ending);
    *t = (clef__thought){.stage = CLEF__THOUGHT_OVER};
}

int32_t clef__thought_next(const clef__thought *t)
{
    const int is_full = t->stage == CLEF__THOUGHT_INSIDE && t->n_tokens >= t->most && !t->n_matched;
    return t->n_ending && (is_full || t->stage == CLEF__THOUGHT_ENDS) ? t->ending[t->n_ended] : -1;
}

static int is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Before the tag that opens it. Where that can only be first, other text says that there is none. */
static void look_for_open(clef__thought *t, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && t->stage == CLEF__THOUGHT_AHEAD; i++) {
        t->n_matched = clef__tag_match(t->open, t->n_matched, bytes[i]);
        if (!t->open[t->n_matched])
            t->stage = CLEF__THOUGHT_INSIDE;
        else if (!t->n_matched && !t->anywhere && !is_blank(bytes[i]))
            t->stage = CLEF__THOUGHT_OVER;
    }
    t->n_matched = t->stage == CLEF__THOUGHT_AHEAD ? t->n_matched : 0;
}

static void look_for_close(clef__thought *t, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && t->stage == CLEF__THOUGHT_INSIDE; i++) {
        t->n_matched = clef__tag_match(t->close, t->n_matched, bytes[i]);
        if (!t->close[t->n_matched])
            t->stage = CLEF__THOUGHT_OVER;
    }
    t->n_tokens++;
}

void clef__thought_take(clef__thought *t, int32_t id)
{
    size_t n = 0;
    if (t->stage == CLEF__THOUGHT_OVER)
        return;
    if (clef__thought_next(t) >= 0) {
        t->stage = ++t->n_ended == t->n_ending ? CLEF__THOUGHT_OVER : CLEF__THOUGHT_ENDS;
        return;
    }
    const char *bytes = clef_tokenizer_bytes(t->tok, id, &n);
    if (t->stage == CLEF__THOUGHT_AHEAD)
        look_for_open(t, bytes ? bytes : "", bytes ? n : 0);
    else
        look_for_close(t, bytes ? bytes : "", bytes ? n : 0);
}
