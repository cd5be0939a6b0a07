/* Answers as lines of JSON. */
#include "tools/prompts/answers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/json.h"

static int no_memory(void)
{
    return cli_fail(CLI_FAILED, "run: out of host memory");
}

int answers_create(answers *all, int32_t n, const clef_tokenizer *tokenizer, int32_t is_new_text)
{
    *all = (answers){.tokenizer = tokenizer,
                     .is_new_text = is_new_text,
                     .items = calloc((size_t)n + 1, sizeof *all->items)};
    if (!all->items)
        return no_memory();
    all->n = n;
    for (int32_t i = 0; i < n; i++)
        all->items[i].sequence = -1;
    return CLI_GO_ON;
}

int answer_push(answer *a, int32_t id)
{
    if (a->n == a->capacity) {
        const int32_t capacity = a->capacity ? 2 * a->capacity : 64;
        int32_t *ids = realloc(a->ids, (size_t)capacity * sizeof *ids);
        if (!ids)
            return no_memory();
        a->ids = ids;
        a->capacity = capacity;
    }
    a->ids[a->n++] = id;
    return CLI_GO_ON;
}

int answer_fail(answer *a, const char *why)
{
    const size_t n = strlen(why) + 1;
    a->error = malloc(n);
    if (!a->error)
        return no_memory();
    memcpy(a->error, why, n);
    return CLI_GO_ON;
}

/* ---- stop strings ----------------------------------------------------------------------------- */

/* Reads the tokens of the prompt, whose text the answer continues. */
static int read_prompt(answer *a)
{
    char piece[CLEF_MAX_PIECE + 16];
    clef_error err = {0};
    size_t n;
    for (int32_t i = 0; i < a->n_prompt; i++)
        if (clef_stream_push(&a->stream, a->prompt ? a->prompt[i] : a->bos, piece, sizeof piece, &n, &err) !=
            CLEF_OK)
            return cli_report(&err);
    return CLI_GO_ON;
}

int answer_set_stops(answers *all, answer *a, const cli_list *stops)
{
    clef_error err = {0};
    if (!stops->n)
        return CLI_GO_ON;
    if (clef_stop_create(stops->items, stops->n, &a->stop, &err) != CLEF_OK)
        return cli_report(&err);
    a->stream = (clef_stream){.tok = all->tokenizer};
    return all->is_new_text ? CLI_GO_ON : read_prompt(a);
}

int answer_stops(answer *a, int32_t id, int *rc)
{
    char piece[CLEF_MAX_PIECE + 16];
    const char *text;
    clef_error err = {0};
    size_t n;
    if (!a->stop || *rc != CLI_GO_ON)
        return 0;
    if (clef_stream_push(&a->stream, id, piece, sizeof piece, &n, &err) != CLEF_OK ||
        clef_stop_push(a->stop, piece, n, &text, &n, &err) != CLEF_OK) {
        *rc = cli_report(&err);
        return 0;
    }
    return clef_stop_found(a->stop) >= 0;
}

/* Cuts the text before the stop string, if there is one. */
static int cut_text(answers *all, answer *a)
{
    clef_error err = {0};
    const char *text;
    size_t n;
    clef_stop_reset(a->stop);
    if (clef_stop_push(a->stop, all->text, all->n_bytes, &text, &n, &err) != CLEF_OK)
        return cli_report(&err);
    if (clef_stop_found(a->stop) < 0)
        return CLI_GO_ON;
    all->n_bytes = n;
    all->text[n] = 0;
    a->finish = CLEF_FINISH_STOP; /* as where it was found by the last, incomplete character */
    return CLI_GO_ON;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Room for one more piece and NUL. */
static int make_room(answers *all)
{
    const size_t needed = all->n_bytes + CLEF_MAX_PIECE + 17;
    if (needed <= all->capacity)
        return CLI_GO_ON;
    char *text = realloc(all->text, 2 * needed);
    if (!text)
        return no_memory();
    all->text = text;
    all->capacity = 2 * needed;
    return CLI_GO_ON;
}

static int push_ids(answers *all, clef_stream *stream, const int32_t *ids, int32_t n, int32_t keep)
{
    clef_error err = {0};
    int rc = CLI_GO_ON;
    for (int32_t i = 0; i < n && rc == CLI_GO_ON; i++) {
        size_t n_piece = 0;
        rc = make_room(all);
        if (rc == CLI_GO_ON && clef_stream_push(stream, ids[i], all->text + all->n_bytes, CLEF_MAX_PIECE + 16,
                                                &n_piece, &err) != CLEF_OK)
            return cli_report(&err);
        all->n_bytes += keep ? n_piece : 0;
    }
    return rc;
}

/* The text continues the prompt: with its leading space, and its incomplete characters. */
static int make_text(answers *all, answer *a)
{
    clef_stream stream = {.tok = all->tokenizer};
    clef_error err = {0};
    size_t n = 0;
    all->n_bytes = 0;
    int rc = all->is_new_text ? CLI_GO_ON
                              : push_ids(all, &stream, a->prompt ? a->prompt : &a->bos, a->n_prompt, 0);
    if (rc == CLI_GO_ON)
        rc = push_ids(all, &stream, a->ids, a->n, 1);
    if (rc == CLI_GO_ON)
        rc = make_room(all);
    if (rc != CLI_GO_ON)
        return rc;
    if (clef_stream_finish(&stream, all->text + all->n_bytes, CLEF_MAX_PIECE, &n, &err) != CLEF_OK)
        return cli_report(&err);
    all->n_bytes += n;
    all->text[all->n_bytes] = 0;
    return a->stop ? cut_text(all, a) : CLI_GO_ON;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void write_members(const answers *all, const answer *a, int32_t *n)
{
    cli_json_member(stdout, n, "ids");
    for (int32_t i = 0; i < a->n; i++)
        printf("%s%" PRId32, i ? ", " : "[", a->ids[i]);
    fputs(a->n ? "]" : "[]", stdout);
    cli_json_member(stdout, n, "text");
    cli_json_text(stdout, all->text, all->n_bytes);
    cli_json_member_text(stdout, n, "finish",
                         a->finish == CLEF_FINISH_STOP     ? "stop"
                         : a->finish == CLEF_FINISH_FAILED ? "failed"
                                                           : "length");
    cli_json_member_number(stdout, n, "prompt_tokens", a->n_prompt);
    cli_json_member_number(stdout, n, "cached_tokens", a->n_cached);
    cli_json_member_number(stdout, n, "generated_tokens", a->n);
    cli_json_member_number(stdout, n, "preemptions", a->n_preemptions);
}

static int write_answer(answers *all, answer *a, const prompt_line *line, int32_t index)
{
    int32_t n = 0;
    const int rc = a->error ? CLI_GO_ON : make_text(all, a);
    if (rc != CLI_GO_ON)
        return rc;
    putchar('{');
    cli_json_member_number(stdout, &n, "index", index);
    if (line->id) {
        cli_json_member(stdout, &n, "id");
        fputs(line->id, stdout);
    }
    if (a->error)
        cli_json_member_text(stdout, &n, "error", a->error);
    else
        write_members(all, a, &n);
    fputs("}\n", stdout);
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return CLI_GO_ON;
    all->broken = 1; /* when its reader has gone, the run ends silently */
    return errno == EPIPE ? CLI_FAILED
                          : cli_fail(CLI_FAILED, "run: cannot write to stdout: %s", strerror(errno));
}

static void free_answer(answer *a)
{
    clef_tokens_free(a->prompt);
    free(a->ids);
    free(a->error);
    clef_stop_destroy(a->stop);
    a->prompt = a->ids = NULL;
    a->error = NULL;
    a->stop = NULL;
}

int answers_write(answers *all, const prompt_lines *lines, int32_t skip)
{
    int rc = CLI_GO_ON;
    while (rc == CLI_GO_ON && all->n_written < all->n) {
        const int32_t i = all->n_written;
        answer *a = &all->items[i];
        const int is_done = a->finish != CLEF_FINISH_NONE || a->error;
        if (!is_done && !skip)
            break;
        if (is_done)
            rc = write_answer(all, a, &lines->items[i], i);
        free_answer(a);
        all->n_written++;
    }
    return rc;
}

void answers_finish(answers *all)
{
    for (int32_t i = 0; i < all->n; i++)
        free_answer(&all->items[i]);
    free(all->items);
    free(all->text);
    *all = (answers){0};
}
