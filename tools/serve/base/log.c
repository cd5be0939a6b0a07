/* The server's log. */
#include "tools/serve/base/log.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/cli/json.h"
#include "tools/serve/os/system.h"

/* Text that cannot move a terminal's cursor, nor begin a line: control characters become \xHH. */
static void escape(const char *text, char *out, size_t room)
{
    size_t n = 0;
    for (const char *at = text ? text : ""; *at && n + 5 < room;) {
        const int length = cli_utf8_length(at);
        const unsigned char c = (unsigned char)*at;
        const int is_c1 = length == 2 && c == 0xC2 && (unsigned char)at[1] < 0xA0;
        if (length && c >= ' ' && c != 0x7F && c != '\\' && !is_c1) {
            memcpy(out + n, at, (size_t)length);
            n += (size_t)length;
            at += length;
        } else {
            n += (size_t)snprintf(out + n, room - n, "\\x%02X", c);
            at++;
        }
    }
    out[n] = '\0';
}

static void time_text(char out[40])
{
    const double now = serve_time(), whole = floor(now);
    struct tm t = {0};
    serve_utc((int64_t)whole, &t);
    const size_t n = strftime(out, 40, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(out + n, 40 - n, ".%03dZ", (int)((now - whole) * 1e3));
}

static void write_line(const char *text)
{
    fputs(text, stderr); /* one call: lines of several threads do not mix */
    fflush(stderr);
}

static void write_text(const serve_log_line *l, const char *when)
{
    char line[4096], path[300], reason[600], prompt[1200], tokens[96] = "";
    escape(l->path, path, sizeof path);
    escape(l->reason, reason, sizeof reason);
    escape(l->prompt, prompt, sizeof prompt);
    if (l->n_prompt >= 0)
        snprintf(tokens, sizeof tokens, " prompt %d, cached %d, generated %d", (int)l->n_prompt,
                 (int)l->n_cached, (int)l->n_generated);
    snprintf(line, sizeof line, "%s %s %s %s %s %d %.1f ms%s%s%s%s%s\n", when, l->id, l->peer, l->method,
             path, (int)l->status, l->seconds * 1e3, tokens, l->reason ? " " : "", reason,
             l->prompt ? " prompt: " : "", prompt);
    write_line(line);
}

static void write_json(const serve_log_line *l, const char *when)
{
    char path[300], reason[600];
    escape(l->path, path, sizeof path);
    escape(l->reason, reason, sizeof reason);
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:f}", "time", when, "id", l->id, "peer", l->peer, "method",
                  l->method, "path", path, "status", (int)l->status, "ms", round(l->seconds * 1e6) / 1e3);
    if (o && l->n_prompt >= 0) {
        json_object_set_new(o, "prompt_tokens", json_integer(l->n_prompt));
        json_object_set_new(o, "cached_tokens", json_integer(l->n_cached));
        json_object_set_new(o, "completion_tokens", json_integer(l->n_generated));
    }
    if (o && l->reason)
        json_object_set_new(o, "reason", json_string(reason));
    if (o && l->prompt)
        json_object_set_new(o, "prompt", json_string(l->prompt));
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    char *line = text ? malloc(strlen(text) + 2) : NULL;
    if (line) {
        sprintf(line, "%s\n", text);
        write_line(line);
    }
    free(line);
    free(text);
    json_decref(o);
}

void serve_log_request(const serve_log *log, const serve_log_line *l)
{
    char when[40];
    if (log->quiet)
        return;
    time_text(when);
    if (log->form == SERVE_LOG_JSON)
        write_json(l, when);
    else
        write_text(l, when);
}

void serve_log_say(const serve_log *log, const char *format, ...)
{
    char text[1024], line[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (log->form == SERVE_LOG_JSON) {
        char when[40];
        time_text(when);
        json_t *o = json_pack("{s:s, s:s}", "time", when, "message", text);
        char *dump = o ? json_dumps(o, JSON_COMPACT) : NULL;
        snprintf(line, sizeof line, "%s\n", dump ? dump : "{}");
        free(dump);
        json_decref(o);
    } else
        snprintf(line, sizeof line, "clef: %s\n", text);
    write_line(line);
}
