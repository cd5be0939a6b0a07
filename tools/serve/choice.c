/* From the tokens of a run to content, reasoning, calls and log-probabilities. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/cli/terminal.h"
#include "tools/serve/keys.h"
#include "tools/serve/task.h"

static size_t count_characters(const char *text, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

static int no_memory(serve_choice *c)
{
    return serve_fail(&c->task->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

int serve_choice_begin(serve_choice *c)
{
    serve_task *t = c->task;
    const serve_model *m = t->r->m;
    clef_error err = {0};
    const serve_prompt *prompt = &t->prompts[c->prompt];
    c->stream =
        (clef_stream){.tok = m->tok, .started = (!t->is_chat || t->p.continue_final) && !m->is_seq2seq};
    c->forced = (clef_stream){.tok = m->tok};
    c->kind = prompt->starts_thinking ? CLEF_REPLY_REASONING : CLEF_REPLY_CONTENT;
    c->format = t->has_tools || m->format == CLEF_TOOLS_HARMONY ? m->format : CLEF_TOOLS_NONE;
    c->n_before = count_characters(prompt->text.p, prompt->text.n);
    c->begins = malloc(((size_t)c->run->capacity + 1) * sizeof *c->begins);
    if (!c->begins || (t->p.logprobs && !(c->logprobs = json_array())))
        return no_memory(c);
    if (clef_stop_create((const char *const *)t->stops, t->n_stops, &c->stop, &err) != CLEF_OK)
        return serve_fail_status(&t->r->error, &err, SERVE_E_INVALID_VALUE, "stop");
    if (t->is_chat && !t->is_raw) {
        const clef_reply_opts reply = {.format = t->p.parse_calls ? c->format : CLEF_TOOLS_NONE,
                                       .tools = t->tools,
                                       .tools_bytes = t->n_tools,
                                       .starts_thinking = prompt->starts_thinking,
                                       .first_call = t->n_calls};
        if (clef_reply_reader_create(&reply, &c->reader, &err) != CLEF_OK)
            return serve_fail_status(&t->r->error, &err, SERVE_E_INVALID_VALUE, "tools");
    }
    if (t->p.echo && !serve_buffer_add(&c->content, prompt->text.p ? prompt->text.p : "", prompt->text.n))
        return no_memory(c);
    return 1;
}

void serve_choice_free(serve_choice *c)
{
    clef_stop_destroy(c->stop);
    clef_reply_reader_destroy(c->reader);
    serve_buffer_free(&c->content);
    serve_buffer_free(&c->reasoning);
    json_decref(c->calls);
    json_decref(c->logprobs);
    free(c->begins);
}

/* ---- log-probabilities ----------------------------------------------------------------------- */

/* A token's bytes as text that JSON can hold. */
static json_t *token_text(const char *bytes, size_t n)
{
    char out[CLEF_MAX_PIECE * 3 + 4];
    char own[CLEF_MAX_PIECE + 1];
    size_t size = 0;
    n = n < CLEF_MAX_PIECE ? n : CLEF_MAX_PIECE;
    memcpy(own, bytes, n);
    own[n] = '\0';
    for (size_t i = 0; i < n;) {
        const int length = cli_utf8_length(own + i);
        if (length && own[i]) {
            memcpy(out + size, own + i, (size_t)length);
            size += (size_t)length;
            i += (size_t)length;
        } else {
            memcpy(out + size, "\xEF\xBF\xBD", 3); /* U+FFFD */
            size += 3;
            i++;
        }
    }
    return json_stringn(out, size);
}

/* The spaces that a token loses where a text begins with it. */
static size_t lost_spaces(const clef_tokenizer *tok, int32_t id, const char *bytes, size_t n)
{
    char *text = NULL;
    size_t n_text = 0, n_kept = 0, n_lost = 0;
    clef_error err = {0};
    if (clef_tokenizer_decode(tok, &id, 1, &text, &n_text, &err) != CLEF_OK)
        return 0;
    while (n_kept < n_text && text[n_kept] == ' ')
        n_kept++;
    while (n_kept + n_lost < n && bytes[n_kept + n_lost] == ' ')
        n_lost++;
    clef_text_free(text);
    return n_lost;
}

/* A token as text, or its bytes: an entry of OpenAI's logprobs. */
static json_t *token_entry(const serve_model *m, int32_t id, double logprob, int is_first)
{
    size_t n = 0;
    const char *bytes = clef_tokenizer_bytes(m->tok, id, &n);
    const size_t n_lost = is_first ? lost_spaces(m->tok, id, bytes, n) : 0;
    bytes = bytes ? bytes + n_lost : "";
    n -= n_lost;
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    if (!isfinite(logprob) || logprob < -9999)
        logprob = -9999; /* OpenAI's number for nearly nothing: JSON has no infinity */
    return json_pack("{s:i, s:o, s:f, s:o}", "id", (int)id, "token", token_text(bytes, n), "logprob", logprob,
                     "bytes", list);
}

static int tell_logprob(serve_choice *c, int32_t i)
{
    const serve_task *t = c->task;
    const serve_model *m = t->r->m;
    const serve_token *token = &c->run->tokens[i];
    const int is_first = c->begins[i].is_first;
    json_t *entry = token_entry(m, token->id, (double)token->logprob, is_first), *tops = json_array();
    for (int32_t k = 0; tops && k < t->p.n_top; k++) {
        const clef_token_logprob *top = &c->run->tops[(size_t)i * (size_t)t->p.n_top + (size_t)k];
        if (top->id < 0)
            break;
        json_array_append_new(tops, token_entry(m, top->id, (double)top->logprob, is_first));
    }
    if (!entry || !tops)
        return no_memory(c);
    json_object_set_new(entry, "top_logprobs", tops);
    if (!t->is_chat)
        json_object_set_new(entry, "offset", json_integer((json_int_t)c->begins[i].character));
    return json_array_append_new(c->logprobs, entry) == 0 ? 1 : no_memory(c);
}

/* Tells the tokens that begin within the text that was let through; at the end all that are left. */
static int tell_logprobs(serve_choice *c, int at_end)
{
    for (; c->n_reported < c->n_seen; c->n_reported++) {
        const int is_forced = c->n_reported < c->n_forced;
        if (!is_forced && !at_end && c->begins[c->n_reported].byte >= c->n_let)
            return 1;
        if (!is_forced && at_end && c->stopped && c->begins[c->n_reported].byte >= c->n_let)
            return 1; /* of the stop string, and after it */
        c->n_used++;
        if (c->logprobs && !tell_logprob(c, c->n_reported))
            return 0;
    }
    return 1;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Ids are those that OpenAI has, unless the model gave one. */
static const char *call_id(const clef_tool_call *call, char out[32])
{
    size_t n = strlen(call->id);
    const int is_made = n == 9 && !strncmp(call->id, "call", 4) && strspn(call->id + 4, "0123456789") == 5;
    if (!is_made)
        return call->id;
    memcpy(out, "call_", 5);
    serve_random_letters(out + 5, 24);
    return out;
}

static clef_status add_call(serve_choice *c, const clef_reply_part *part)
{
    char id[32];
    if (!c->calls)
        c->calls = json_array();
    json_t *one = json_pack("{s:i, s:s, s:s, s:{s:s, s:s}}", "index", (int)json_array_size(c->calls), "id",
                            call_id(&part->call, id), "type", "function", "function", "name", part->call.name,
                            "arguments", part->call.arguments);
    return one && c->calls && json_array_append_new(c->calls, one) == 0 ? CLEF_OK : CLEF_E_NOMEM;
}

/* The last n bytes that stop strings let through became `content`: notes whose they are. */
static void note_said(serve_choice *c, size_t n)
{
    const size_t begin = n < c->n_let ? c->n_let - n : 0;
    size_t end = c->n_text;
    if (!n || !c->logprobs)
        return;
    for (int32_t i = c->n_seen - 1; i >= 0 && (end > begin || c->begins[i].byte >= begin); i--) {
        c->begins[i].is_said |= c->begins[i].byte < c->n_let;
        end = c->begins[i].byte;
    }
}

static clef_status take_part(void *user, const clef_reply_part *part)
{
    serve_choice *c = user;
    c->kind = part->kind;
    if (part->kind == CLEF_REPLY_CALL)
        return add_call(c, part);
    serve_buffer *to = part->kind == CLEF_REPLY_REASONING ? &c->reasoning : &c->content;
    return serve_buffer_add(to, part->text, part->n_bytes) ? CLEF_OK : CLEF_E_NOMEM;
}

/* Text that no stop string holds back. */
static int take_text(serve_choice *c, const char *text, size_t n)
{
    clef_error err = {0};
    c->n_let += n;
    const size_t n_before = c->content.n;
    if (c->reader ? clef_reply_read(c->reader, text, n, take_part, c, &err) != CLEF_OK
                  : !serve_buffer_add(&c->content, text, n))
        return no_memory(c);
    note_said(c, c->content.n - n_before);
    return 1;
}

static int take_piece(serve_choice *c, const char *text, size_t n)
{
    clef_error err = {0};
    const char *let = NULL;
    size_t n_let = 0;
    c->n_text += n;
    c->n_characters += count_characters(text, n);
    if (clef_stop_push(c->stop, text, n, &let, &n_let, &err) != CLEF_OK)
        return no_memory(c);
    return n_let ? take_text(c, let, n_let) : 1;
}

/* Special tokens are not text, but for those with which a chat's model marks its reasoning and calls. */
static int is_text(const serve_choice *c, int32_t id)
{
    const serve_task *t = c->task;
    const clef_tokenizer *tok = t->r->m->tok;
    size_t n = 0;
    if (!t->p.skip_special || !clef_tokenizer_is_special(tok, id))
        return 1;
    const char *name = clef_tokenizer_bytes(tok, id, &n);
    return t->is_chat && name && clef_tool_format_has_tag(c->format, name, n);
}

/* A token of the prompt, of which the text has what the client wrote: it only tells where the next one
 * begins. */
static int pass_forced(serve_choice *c, int32_t id)
{
    char text[CLEF_MAX_PIECE + 16];
    size_t n = 0;
    clef_error err = {0};
    if (clef_stream_push(&c->forced, id, text, sizeof text, &n, &err) != CLEF_OK)
        return serve_fail_status(&c->task->r->error, &err, SERVE_E_INTERNAL, NULL);
    c->n_passed += count_characters(text, n);
    c->n_passed = c->n_passed < c->n_before ? c->n_passed : c->n_before;
    return 1;
}

static int take_token(serve_choice *c, int32_t id)
{
    char text[CLEF_MAX_PIECE + 16];
    size_t n = 0;
    clef_error err = {0};
    const int is_forced = c->n_seen < c->n_forced;
    c->begins[c->n_seen].byte = c->n_text;
    c->begins[c->n_seen].is_said = 0;
    c->begins[c->n_seen].is_first = !is_forced && !c->stream.started;
    c->begins[c->n_seen++].character = is_forced ? c->n_passed : c->n_before + c->n_characters;
    if (is_forced)
        return pass_forced(c, id) && tell_logprobs(c, 0);
    c->stream.with_special = is_text(c, id);
    if (clef_stream_push(&c->stream, id, text, sizeof text, &n, &err) != CLEF_OK)
        return serve_fail_status(&c->task->r->error, &err, SERVE_E_INTERNAL, NULL);
    if (!take_piece(c, text, n))
        return 0;
    if (c->kind == CLEF_REPLY_REASONING)
        c->n_reasoning++;
    if (clef_stop_found(c->stop) >= 0)
        c->stopped = 1;
    return tell_logprobs(c, 0);
}

static int take_end(serve_choice *c)
{
    char last[CLEF_MAX_PIECE];
    clef_error err = {0};
    const char *let = NULL;
    size_t n = 0;
    if (clef_stream_finish(&c->stream, last, sizeof last, &n, &err) != CLEF_OK ||
        (n && !take_piece(c, last, n)) || clef_stop_finish(c->stop, &let, &n, &err) != CLEF_OK ||
        (n && !take_text(c, let, n)))
        return no_memory(c);
    const size_t n_before = c->content.n;
    if (c->reader && clef_reply_end(c->reader, take_part, c, &err) != CLEF_OK)
        return no_memory(c);
    note_said(c, c->content.n - n_before);
    return tell_logprobs(c, 1);
}

/* The first id of a prompt whose other ids are the run's: it has a text, and no log-probability. */
static int take_first_id(serve_choice *c)
{
    const serve_task *t = c->task;
    const int32_t id = t->prompts[c->prompt].ids[0];
    json_t *entry = token_entry(t->r->m, id, 0, 0);
    if (!entry || json_object_set_new(entry, "logprob", json_null()) != 0 ||
        json_object_set_new(entry, "offset", json_integer(0)) != 0 ||
        json_array_append_new(c->logprobs, entry) != 0)
        return no_memory(c);
    return pass_forced(c, id);
}

static int failed_guide(serve_choice *c)
{
    return serve_fail(
        &c->task->r->error, SERVE_E_COMPLEX, NULL,
        "the constraint, and the rules of the model's generation_config.json, allow no token of this "
        "vocabulary, or the constraint grew beyond its limits, after %d tokens",
        (int)c->n_seen);
}

static int failed_numbers(serve_choice *c)
{
    return serve_fail(&c->task->r->error, SERVE_E_NOT_FINITE, NULL,
                      "the logits are not finite after %d tokens: one is NaN or inf, or all are -inf; clef "
                      "compare --stats finds the first value that is not finite",
                      (int)c->n_seen);
}

/* A line that is indented less than `n_indent`, after the first one, does not belong to the text, nor does
 * what follows it. */
static void cut_at_indent(serve_choice *c)
{
    const char *text = c->content.p, *next = text;
    for (; text && next; c->line = next ? (size_t)(next - text) + 1 : c->line) {
        size_t n = c->line;
        while (n < c->content.n && (text[n] == ' ' || text[n] == '\t'))
            n++;
        if (c->line && n < c->content.n && n - c->line < (size_t)c->task->p.n_indent) {
            c->content.n = n;
            c->is_cut = 1;
            return;
        }
        next = memchr(text + c->line, '\n', c->content.n - c->line);
    }
}

/* What llama-server has for editors: the text ends by its indentation, or since it takes too long. */
static void check_limits(serve_choice *c, double first)
{
    const serve_params *p = &c->task->p;
    if (p->n_indent > 0)
        cut_at_indent(c);
    if (p->most_ms > 0 && first > 0 && c->content.n && memchr(c->content.p, '\n', c->content.n) &&
        (cli_terminal_seconds() - first) * 1e3 > p->most_ms)
        c->is_cut = 1;
}

int serve_choice_take(serve_choice *c)
{
    serve_task *t = c->task;
    serve_run *run = c->run;
    if (c->finish)
        return 1;
    serve_lock_take(&t->group.lock);
    const int32_t n = run->n_tokens;
    const serve_run_state state = run->state;
    const clef_finish finish = run->finish;
    const serve_error error = run->error;
    const double first = run->first;
    serve_lock_release(&t->group.lock);
    if (error.id) {
        t->r->error = error;
        return 0;
    }
    if (c->has_first && (n > 0 || state == SERVE_RUN_DONE)) {
        c->has_first = 0;
        if (!take_first_id(c))
            return 0;
    }
    for (; c->n_seen < n && !c->stopped && !c->is_cut; check_limits(c, first))
        if (!take_token(c, run->tokens[c->n_seen].id))
            return 0;
    const int is_over = c->stopped || c->is_cut;
    if (!is_over && state != SERVE_RUN_DONE)
        return 1;
    if (finish == CLEF_FINISH_FAILED && !is_over)
        return failed_guide(c);
    if (finish == CLEF_FINISH_NOT_FINITE && !is_over)
        return failed_numbers(c);
    atomic_store(&run->cancelled, 1); /* a stop string: the engine lets go of it */
    if (c->is_cut ? !tell_logprobs(c, 1) : !take_end(c))
        return 0;
    const int ended = c->stopped || (finish == CLEF_FINISH_STOP && !c->is_cut && t->p.max_tokens);
    c->finish = !ended ? "length" : json_array_size(c->calls) ? "tool_calls" : "stop";
    return 1;
}
