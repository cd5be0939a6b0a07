/* Lets the model answer: feeds what is new, shows the answer as it comes, and adds it to the messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/chat/talk.h"
#include "tools/cli/common.h"
#include "tools/cli/terminal.h"

/* ECMA-48 SGR: faint, and normal again */
static const char dim[] = "\x1b[2m", plain[] = "\x1b[0m";

/* An answer that is read while it comes. */
typedef struct answer {
    talk *t;
    clef_stop *stop;
    clef_reply_reader *reader;
    json_t *calls; /* OpenAI's tool_calls */
    char *content, *reasoning;
    size_t n_content, n_reasoning;
    int32_t is_dim;                  /* reasoning is being shown */
    clef_thought thought;            /* the tags of its reasoning, and its limit */
    int32_t is_reasoning, n_thought; /* the last part is; tokens of it */
    const char *ended;               /* why it ended before the model ended it; NULL: it did not */
    int rc;
} answer;

/* ---- showing -------------------------------------------------------------------------------- */

static void show(answer *a, const char *text, size_t n, int reasoning)
{
    const talk *t = a->t;
    const int shown = t->interactive ? !reasoning || t->o.thinking == CHAT_SHOW : !reasoning;
    if (!shown || !n)
        return;
    if (t->interactive && reasoning != a->is_dim)
        fputs(reasoning ? dim : plain, stdout);
    if (t->interactive && !reasoning && a->is_dim)
        fputs("\n", stdout);
    a->is_dim = reasoning;
    if (fwrite(text, 1, n, stdout) != n || fflush(stdout) != 0)
        a->rc = CLI_FAILED;
}

static clef_status append(char **text, size_t *n, const char *more, size_t n_more)
{
    char *grown = realloc(*text, *n + n_more + 1);
    if (!grown)
        return CLEF_E_NOMEM;
    memcpy(grown + *n, more, n_more);
    *n += n_more;
    grown[*n] = '\0';
    *text = grown;
    return CLEF_OK;
}

static clef_status add_call(answer *a, const clef_tool_call *call)
{
    json_t *one = json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", call->id, "type", "function", "function",
                            "name", call->name, "arguments", call->arguments);
    if (!one || json_array_append_new(a->calls, one) != 0)
        return CLEF_E_NOMEM;
    if (a->t->interactive)
        printf("%s%s%s(%s)\n", a->is_dim ? plain : "", a->n_content ? "\n" : "", call->name, call->arguments);
    a->is_dim = 0;
    return CLEF_OK;
}

static clef_status take_part(void *user, const clef_reply_part *part)
{
    answer *a = user;
    if (part->kind == CLEF_REPLY_CALL)
        return add_call(a, &part->call);
    const int reasoning = part->kind == CLEF_REPLY_REASONING;
    a->is_reasoning = reasoning;
    show(a, part->text, part->n_bytes, reasoning);
    return reasoning ? append(&a->reasoning, &a->n_reasoning, part->text, part->n_bytes)
                     : append(&a->content, &a->n_content, part->text, part->n_bytes);
}

/* Gives text to the stop strings, and what they let through to the reader. */
static int take_text(answer *a, const char *text, size_t n)
{
    clef_error err = {0};
    const char *given = text;
    if (clef_stop_push(a->stop, text, n, &given, &n, &err) != CLEF_OK ||
        clef_reply_read(a->reader, given, n, take_part, a, &err) != CLEF_OK)
        return err.status ? cli_report(&err) : cli_fail(CLI_FAILED, "chat: out of host memory");
    return a->rc;
}

static int take_end(answer *a, clef_stream *stream)
{
    char last[CLEF_MAX_PIECE];
    clef_error err = {0};
    const char *given;
    size_t n = 0;
    if (clef_stream_finish(stream, last, sizeof last, &n, &err) != CLEF_OK)
        return cli_report(&err);
    const int rc = n ? take_text(a, last, n) : CLI_GO_ON;
    if (rc != CLI_GO_ON)
        return rc;
    if (clef_stop_finish(a->stop, &given, &n, &err) != CLEF_OK ||
        clef_reply_read(a->reader, given, n, take_part, a, &err) != CLEF_OK ||
        clef_reply_end(a->reader, take_part, a, &err) != CLEF_OK)
        return err.status ? cli_report(&err) : cli_fail(CLI_FAILED, "chat: out of host memory");
    return a->rc;
}

/* ---- the prompt ----------------------------------------------------------------------------- */

/* Its ids: text from messages gives no special token. */
static int encode(talk *t, const clef_rendered *text, int32_t **ids, int32_t *n)
{
    clef_error err = {0};
    size_t n_spans = 0;
    clef_byte_span *spans = malloc(((size_t)text->n_parts + 1) * sizeof *spans);
    if (!spans)
        return cli_fail(CLI_FAILED, "chat: out of host memory");
    for (int32_t i = 0; i < text->n_parts; i++)
        if (text->parts[i].from_message)
            spans[n_spans++] = (clef_byte_span){text->parts[i].begin, text->parts[i].end};
    const cli_picture_prompt prompt = {
        .text = text->text, .n_bytes = text->n_bytes, .plain = spans, .n_plain = n_spans, .is_rendered = 1};
    const clef_status s = t->n_images ? cli_prompt_pictures_encode(&t->pictures, &prompt, ids, n, &err)
                                      : clef_tokenizer_encode_plain(t->tok, text->text, text->n_bytes, spans,
                                                                    n_spans, ids, n, &err);
    free(spans);
    return s || cli_begin_with_bos(t->path, t->tok, ids, n, &err) ? cli_report(&err) : CLI_GO_ON;
}

/* Removes the oldest turn: the first message of the user and all up to the next one. */
static int drop_turn(talk *t)
{
    size_t first = 0, n = json_array_size(t->messages), next;
    const char *role;
    while (first < n &&
           (role = json_string_value(json_object_get(json_array_get(t->messages, first), "role"))) &&
           strcmp(role, "user") != 0)
        first++;
    for (next = first + 1; next < n; next++) {
        role = json_string_value(json_object_get(json_array_get(t->messages, next), "role"));
        if (role && !strcmp(role, "user"))
            break;
    }
    if (next >= n)
        return 0;
    for (size_t i = first; i < next; i++)
        json_array_remove(t->messages, first);
    talk_forget(t, 1);
    fprintf(stderr, "clef: the context of %d is full: the oldest %zu messages are dropped\n", t->n_context,
            next - first);
    return 1;
}

/* Renders and encodes; drops turns where that is wanted. *thinks: the prompt begins the reasoning. */
static int make_prompt(talk *t, int32_t **ids, int32_t *n, int32_t *thinks)
{
    for (;;) {
        clef_rendered text = {0};
        clef_error err = {0};
        if (talk_render(t, &text, &err) != CLEF_OK)
            return cli_report(&err);
        size_t end = text.n_bytes;
        while (end > 0 && (text.text[end - 1] == '\n' || text.text[end - 1] == ' '))
            end--;
        *thinks = end >= 7 && !memcmp(text.text + end - 7, "<think>", 7);
        const int rc = encode(t, &text, ids, n);
        clef_rendered_finish(&text);
        if (rc != CLI_GO_ON)
            return rc;
        if (*n > 0 && *n < t->n_context)
            return CLI_GO_ON;
        const int32_t n_ids = *n;
        clef_tokens_free(*ids);
        *ids = NULL;
        if (n_ids == 0)
            return cli_fail(CLI_FAILED, "chat: the template gives no text");
        if (!t->o.drop_oldest || !drop_turn(t))
            return cli_fail(CLI_FAILED, "chat: the conversation has %d tokens, and the context holds %d. %s",
                            n_ids, t->n_context,
                            t->interactive
                                ? "/undo removes your last message, /reset all; --drop-oldest and -c "
                                  "are flags of the command"
                                : "-c sets it; --drop-oldest drops the oldest turns");
    }
}

/* The tokens in the cache. */
static int32_t n_past(const talk *t)
{
    return t->session ? clef_session_n_past(t->session)
                      : t->teller.last.n_prompt + t->teller.last.n_generated;
}

static clef_status next_token(talk *t, int32_t *id, clef_error *err)
{
    const clef_status s =
        t->session ? clef_session_next(t->session, id, err) : cli_teller_next(&t->teller, id, err);
    if (s == CLEF_OK && !t->session)
        t->stats.n_cached = t->teller.last.n_cached;
    return s;
}

/* Keeps what the session holds of these ids; the last one is always fed, since it gives the first logits. */
static int keep_prefix(talk *t, const int32_t *ids, int32_t n, int32_t *n_kept)
{
    const int32_t *held = clef_session_ids(t->session), n_held = clef_session_n_past(t->session);
    clef_error err = {0};
    int32_t k = 0;
    while (k < n_held && k < n - 1 && held[k] == ids[k])
        k++;
    *n_kept = k;
    return clef_session_keep(t->session, k, &err) == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

/* ---- generating ----------------------------------------------------------------------------- */

static int is_end(const talk *t, int32_t id)
{
    for (int32_t i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id)
            return 1;
    return 0;
}

/* Writes what ends the reasoning, and lets the session go on from there. The last token, if there is one, is
 * not in its cache yet. */
static int end_thought(answer *a, const int32_t *last)
{
    talk *t = a->t;
    clef_error err = {0};
    const char *ending = a->thought.ending ? a->thought.ending : a->thought.close;
    int32_t *ids = NULL, *all, n = 0;
    clef_sampler_opts sampling = t->sampling.opts;
    clef_guide guide = {t->guide.constraint, t->guide.trie, NULL};
    sampling.seed += t->n_answers;
    a->thought.most = -1;
    clef_status s = clef_tokenizer_encode(t->tok, ending, strlen(ending), CLEF_SPECIAL_NONE, &ids, &n, &err);
    all = malloc(((size_t)n + 1) * sizeof *all);
    if (!s && all) {
        all[0] = last ? *last : 0;
        memcpy(all + (last != NULL), ids, (size_t)n * sizeof *ids);
        n += last != NULL;
    }
    if (!s && guide.constraint)
        s = clef_session_guide(t->session, &guide, &err);
    if (!s && all)
        s = clef_session_generate(t->session, all, n, 0, &sampling, &err);
    clef_tokens_free(ids);
    free(all);
    return s      ? cli_report(&err)
           : !all ? cli_fail(CLI_FAILED, "chat: out of host memory")
                  : take_text(a, ending, strlen(ending));
}

/* 1 if the session's reasoning has as many tokens as it may have. At the end of the context it ends anyway.
 */
static int is_thought_over(const answer *a)
{
    const talk *t = a->t;
    const char *ending = a->thought.ending ? a->thought.ending : a->thought.close;
    return t->session && ending && n_past(t) + (int32_t)strlen(ending) + 1 < t->n_context &&
           a->thought.most >= 0 && a->is_reasoning && a->n_thought >= a->thought.most;
}

static int generate(answer *a)
{
    talk *t = a->t;
    clef_stream stream = {.tok = t->tok, .with_special = 1};
    clef_error err = {0};
    int rc = CLI_GO_ON;
    int32_t id = 0;
    const double begin = cli_terminal_seconds();
    double first = begin;
    while (rc == CLI_GO_ON && clef_stop_found(a->stop) < 0) {
        char text[CLEF_MAX_PIECE + 16];
        size_t n = 0;
        if (t->stats.n_new == t->o.n_predict || (t->stats.n_new && n_past(t) >= t->n_context)) {
            a->ended = t->stats.n_new == t->o.n_predict ? "-n ended the answer"
                                                        : "the context is full; /undo or /reset makes room";
            break;
        }
        if (is_thought_over(a) && (rc = end_thought(a, t->stats.n_new ? &id : NULL)) != CLI_GO_ON)
            return rc;
        if (next_token(t, &id, &err) != CLEF_OK)
            return cli_report(&err);
        if (t->stats.n_new++ == 0) {
            first = cli_terminal_seconds();
            cli_progress_finish(&t->progress);
        }
        if (is_end(t, id))
            break;
        if (clef_stream_push(&stream, id, text, sizeof text, &n, &err) != CLEF_OK)
            return cli_report(&err);
        rc = take_text(a, text, n);
        a->n_thought += a->is_reasoning;
        if (cli_terminal_interrupted()) {
            a->ended = "interrupted";
            break;
        }
    }
    t->stats.prompt_seconds = first - begin;
    t->stats.new_seconds = cli_terminal_seconds() - first;
    return rc == CLI_GO_ON ? take_end(a, &stream) : rc;
}

/* Adds the answer to the messages. */
static int keep_answer(answer *a)
{
    const int rc = talk_add(a->t, "assistant", a->content ? a->content : "");
    if (rc != CLI_GO_ON)
        return rc;
    json_t *message = json_array_get(a->t->messages, json_array_size(a->t->messages) - 1);
    if (a->reasoning)
        json_object_set_new(message, "reasoning_content", json_string(a->reasoning));
    if (a->reasoning && !(a->content && json_array_size(a->calls)))
        json_object_set_new(message, "thinking", json_string(a->reasoning)); /* gpt-oss's name for it */
    if (json_array_size(a->calls))
        json_object_set(message, "tool_calls", a->calls);
    return CLI_GO_ON;
}

/* Begins an answer to messages with pictures. */
static int begin_telling(answer *a, const int32_t *ids, int32_t n, const clef_sampler_opts *sampling,
                         const clef_guide *guide)
{
    talk *t = a->t;
    clef_error err = {0};
    const clef_request request = {.ids = ids,
                                  .n = n,
                                  .n_max = t->o.n_predict > 0 ? t->o.n_predict : 0,
                                  .ignore_eos = 1, /* they are looked for here */
                                  .sampling = *sampling,
                                  .lora = t->loras != NULL,
                                  .thought = a->thought.most >= 0 ? &a->thought : NULL,
                                  .guide = guide};
    t->stats = (chat_stats){.n_prompt = n};
    return cli_teller_begin(&t->teller, &t->pictures, &request, &err) == CLEF_OK ? CLI_GO_ON
                                                                                 : cli_report(&err);
}

static int begin(answer *a, int32_t thinks, const int32_t *ids, int32_t n)
{
    talk *t = a->t;
    clef_error err = {0};
    size_t n_source;
    const clef_reply_opts reply = {.format = t->format,
                                   .tools = t->tools,
                                   .tools_bytes = t->tools_bytes,
                                   .starts_thinking = thinks,
                                   .first_call = t->n_calls};
    const char *source = clef_template_source(t->tpl, &n_source);
    /* the constraint of calls that may come has text before them, in which the model may reason */
    const int is_auto = t->tools && !cli_constraint_given(&t->o.constraint) &&
                        (!t->o.tool_choice || !strcmp(t->o.tool_choice, "auto"));
    const int may_think = thinks || (t->o.thinking != CHAT_OFF && strstr(source, "</think>"));
    const clef_guide guide = {t->guide.constraint, t->guide.trie, may_think && !is_auto ? "</think>" : NULL};
    clef_sampler_opts sampling = t->sampling.opts;
    int32_t n_kept = 0;
    a->thought = clef_tool_format_thought(t->format);
    a->thought.begun = a->is_reasoning = thinks;
    a->thought.most = t->o.thinking_budget;
    sampling.seed += t->n_answers; /* so that /again is another answer */
    if (clef_stop_create(t->o.stops.items, t->o.stops.n, &a->stop, &err) != CLEF_OK ||
        clef_reply_reader_create(&reply, &a->reader, &err) != CLEF_OK)
        return cli_report(&err);
    if (!t->session)
        return begin_telling(a, ids, n, &sampling, guide.constraint ? &guide : NULL);
    if (clef_session_guide(t->session, t->guide.constraint ? &guide : NULL, &err) != CLEF_OK)
        return cli_report(&err);
    const int rc = keep_prefix(t, ids, n, &n_kept);
    if (rc != CLI_GO_ON)
        return rc;
    t->stats = (chat_stats){.n_prompt = n, .n_cached = n_kept};
    if (clef_session_generate(t->session, ids + n_kept, n - n_kept, t->o.n_predict > 0 ? t->o.n_predict : 0,
                              &sampling, &err) != CLEF_OK)
        return cli_report(&err);
    return CLI_GO_ON;
}

static void finish(answer *a)
{
    clef_stop_destroy(a->stop);
    clef_reply_reader_destroy(a->reader);
    json_decref(a->calls);
    free(a->content);
    free(a->reasoning);
}

static int answer_once(answer *a)
{
    talk *t = a->t;
    int32_t *ids = NULL, n = 0, thinks = 0;
    a->rc = CLI_GO_ON;
    t->stats.n_new = 0;
    a->calls = json_array();
    cli_terminal_forget_interrupt();
    int rc = make_prompt(t, &ids, &n, &thinks);
    if (rc == CLI_GO_ON)
        rc = begin(a, thinks, ids, n);
    if (rc == CLI_GO_ON)
        rc = generate(a);
    cli_progress_finish(&t->progress);
    clef_tokens_free(ids);
    if (t->interactive && t->stats.n_new)
        printf("%s\n", a->is_dim ? plain : "");
    if (rc == CLI_GO_ON)
        rc = keep_answer(a);
    if (rc == CLI_GO_ON && !t->o.quiet)
        fprintf(stderr, "%sclef: prompt %d, cached %d, generated %d tokens%s%s%s\n",
                t->interactive ? dim : "\n", t->stats.n_prompt, t->stats.n_cached, t->stats.n_new,
                a->ended ? "; " : "", a->ended ? a->ended : "", t->interactive ? plain : "");
    return rc;
}

/* Asks for the result of each call. Returns 1 if all were given. */
static int ask_results(talk *t, const json_t *calls)
{
    const json_t *call;
    size_t i;
    json_array_foreach(calls, i, call) {
        const char *name = json_string_value(json_object_get(json_object_get(call, "function"), "name"));
        char prompt[96], *text = NULL;
        snprintf(prompt, sizeof prompt, "result of %.60s> ", name ? name : "?");
        if (chat_input_read(t->input, prompt, &text) != CHAT_LINE)
            return 0;
        json_t *message = json_pack("{s:s, s:s, s:s, s:s}", "role", "tool", "tool_call_id",
                                    json_string_value(json_object_get(call, "id")), "name", name ? name : "",
                                    "content", text);
        free(text);
        if (!message || json_array_append_new(t->messages, message) != 0)
            return 0;
    }
    return 1;
}

int talk_answer(talk *t)
{
    for (;;) {
        answer a = {.t = t};
        int rc = answer_once(&a);
        const size_t n_calls = json_array_size(a.calls);
        const int interrupted = a.ended != NULL;
        t->n_calls += (int32_t)n_calls;
        if (rc == CLI_GO_ON && n_calls && !t->interactive) {
            char *text = json_dumps(a.calls, JSON_COMPACT);
            printf("%s%s\n", a.n_content ? "\n" : "", text ? text : "");
            free(text);
        }
        const int more =
            rc == CLI_GO_ON && n_calls && t->interactive && !interrupted && ask_results(t, a.calls);
        finish(&a);
        if (!more)
            return rc;
    }
}
