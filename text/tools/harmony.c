/* gpt-oss's format: a sequence of messages, each with a head that names its channel and recipient,
 *   <|channel|>analysis<|message|>TEXT<|end|><|start|>assistant<|channel|>commentary to=functions.f
 * <|constrain|>json
 *   <|message|>{..}<|call|>
 * (OpenAI, "Harmony response format"). The text begins behind the prompt's "<|start|>assistant". */
#include <string.h>

#include "graph/fail.h"
#include "text/tools/reply.h"

static const char message_tag[] = "<|message|>", channel_tag[] = "<|channel|>", functions[] = "functions.";

/* Whether a head begins in the text: 1, 0, or 2 when that is open. */
static int head_begins(const clef_reply_reader *r)
{
    static const char *const begins[] = {"<|channel|>", "<|start|>", "to=", "<|message|>"};
    const clef__slice text = {r->text.at, r->text.n};
    const size_t from = clef__json_blank(text.at, text.n, r->at);
    if (from == text.n)
        return 2;
    int best = 0;
    for (size_t i = 0; i < sizeof begins / sizeof *begins && best != 1; i++) {
        const int is = clef__begins(text, from, begins[i]);
        best = is == 1 ? 1 : is == 2 ? 2 : best;
    }
    return best;
}

static int word(clef__slice head, const char *before, clef__slice *out)
{
    size_t searched = 0, at;
    if (!clef__find(head, before, &searched, &at))
        return 0;
    const size_t from = at + strlen(before);
    size_t to = from;
    while (to < head.n && !memchr(" \t\r\n<", head.at[to], 5))
        to++;
    *out = (clef__slice){head.at + from, to - from};
    return 1;
}

/* What the head says about the message behind it. */
static clef_status begin_message(clef_reply_reader *r, clef__slice head, clef_error *err)
{
    clef__slice channel = {0}, to = {0};
    const size_t n_functions = sizeof functions - 1;
    const int has_recipient = word(head, "to=", &to) && to.n;
    r->reading = CLEF__IN_CONTENT;
    if (has_recipient) {
        const size_t skip =
            to.n > n_functions && memcmp(to.at, functions, n_functions) == 0 ? n_functions : 0;
        r->reading = CLEF__IN_CALL;
        r->name.n = 0;
        clef__text_add(&r->name, to.at + skip, to.n - skip);
    } else if (word(head, channel_tag, &channel) && channel.n == 8 &&
               memcmp(channel.at, "analysis", 8) == 0) {
        r->reading = CLEF__IN_REASONING;
    }
    r->drops_space = 1;
    r->space.n = 0;
    if (r->reading == CLEF__IN_REASONING ? r->gave_reasoning
                                         : r->gave_content) /* apart from the one before */
        clef__text_add(&r->space, "\n", 1);
    return r->name.failed || r->space.failed
               ? clef__fail(err, CLEF_E_NOMEM, "no memory for the text of a message")
               : CLEF_OK;
}

static clef_status read_head(clef_reply_reader *r, int *is_stuck, clef_error *err)
{
    static const char *const tags[] = {message_tag};
    size_t at;
    const int begins = head_begins(r);
    if (begins == 2 && !r->at_end) {
        *is_stuck = 1;
        return CLEF_OK;
    }
    if (begins == 0) { /* text without a head */
        r->reading = CLEF__IN_CONTENT;
        r->scanned = r->at;
        return CLEF_OK;
    }
    if (clef__reply_find(r, tags, 1, &at) < 0) {
        *is_stuck = 1;
        if (r->at_end && clef__json_blank(r->text.at, r->text.n, r->at) < r->text.n)
            return clef__reply_give(r, CLEF_REPLY_CONTENT, r->text.n, err);
        return CLEF_OK;
    }
    const clef_status s = begin_message(r, (clef__slice){r->text.at + r->at, at - r->at}, err);
    r->at = r->scanned = at + sizeof message_tag - 1;
    return s;
}

static clef_status add_call(clef_reply_reader *r, size_t to, clef_error *err)
{
    const size_t from = clef__json_blank(r->text.at, r->text.n, r->at);
    size_t end = to;
    int is_call = 0;
    while (end > from && memchr(" \t\r\n", r->text.at[end - 1], 4))
        end--;
    clef_status s = CLEF_OK;
    if (end > from)
        s = clef__call_from_arguments((clef__slice){r->name.at, r->name.n}, (clef__slice){0},
                                      (clef__slice){r->text.at + from, end - from}, &r->calls, &is_call, err);
    if (s)
        return s;
    if (!is_call)
        return clef__reply_give(r, CLEF_REPLY_CONTENT, to, err);
    r->at = to;
    return clef__reply_give_calls(r, err);
}

/* The text of a message, to the tag that ends it: or to a new head, where that tag is missing. */
static clef_status read_body(clef_reply_reader *r, int *is_stuck, clef_error *err)
{
    static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", channel_tag};
    enum { N_ENDS = sizeof ends / sizeof *ends, N_CLOSING = 3 };
    size_t at;
    const int found = clef__reply_find(r, ends, N_ENDS, &at);
    const size_t to = found < 0 ? r->scanned : at;
    clef_status s = CLEF_OK;
    *is_stuck = found < 0;
    if (r->reading != CLEF__IN_CALL)
        s = clef__reply_give(r, r->reading == CLEF__IN_REASONING ? CLEF_REPLY_REASONING : CLEF_REPLY_CONTENT,
                             to, err);
    else if (found >= 0 || r->at_end)
        s = add_call(r, to, err);
    if (s || found < 0)
        return s;
    r->at = r->scanned = at + (found < N_CLOSING ? strlen(ends[found]) : 0);
    r->space.n = 0;
    r->reading = CLEF__IN_HEAD;
    return CLEF_OK;
}

clef_status clef__harmony_step(clef_reply_reader *r, int *is_stuck, clef_error *err)
{
    return r->reading == CLEF__IN_HEAD ? read_head(r, is_stuck, err) : read_body(r, is_stuck, err);
}
