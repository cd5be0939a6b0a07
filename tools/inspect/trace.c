/* Trace events. */
#include "tools/inspect/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/cli/output.h"
#include "tools/cli/terminal.h"
#include "tools/inspect/page.h"

enum { HOST = 1, DEVICE = 2, STEPS = 1, ENQUEUE = 2, QUEUE = 1 };

/* Writes the members that every event has; the caller closes the event. */
static void begin_event(cli_trace *t, const char *phase, int pid, int tid, const char *name, double ts)
{
    int32_t n = 0;
    fputs(t->n_events++ ? ",\n{" : "\n{", t->events);
    cli_json_member_text(t->events, &n, "ph", phase);
    cli_json_member_text(t->events, &n, "name", name);
    fprintf(t->events, ", \"pid\": %d, \"tid\": %d, \"ts\": %.3f", pid, tid, ts);
}

static void name_track(cli_trace *t, const char *what, int pid, int tid, const char *name)
{
    begin_event(t, "M", pid, tid, what, 0);
    fputs(", \"args\": {\"name\": ", t->events);
    cli_json_string(t->events, name);
    fputs("}}", t->events);
}

clef_status cli_trace_begin(cli_trace *t, const char *path, const char *model, const char *device,
                            clef_error *err)
{
    if (!path)
        return CLEF_OK;
    const clef_status status = cli_output_check(path, err);
    if (status != CLEF_OK)
        return status;
    t->path = path;
    t->title = cli_title_of(model);
    t->zero = cli_terminal_seconds();
    t->events = tmpfile();
    if (!t->events)
        return cli_error(err, CLEF_E_IO, "--trace: no temporary file: %s", strerror(errno));
    name_track(t, "process_name", HOST, 0, "host");
    name_track(t, "thread_name", HOST, STEPS, "steps");
    name_track(t, "thread_name", HOST, ENQUEUE, "enqueue");
    name_track(t, "process_name", DEVICE, 0, device);
    name_track(t, "thread_name", DEVICE, QUEUE, "queue");
    return CLEF_OK;
}

/* Adds something that the host did from `start` to `end` (cli_terminal_seconds()). */
static void add_span(cli_trace *t, const char *name, double start, double end)
{
    if (!t->events)
        return;
    begin_event(t, "X", HOST, STEPS, name, (start - t->zero) * 1e6);
    fprintf(t->events, ", \"dur\": %.3f}", (end - start) * 1e6);
}

/* offset: from the device's clock to the trace's. */
static void write_launch(cli_trace *t, const clef_launch_time *l, double offset, double enqueue_us)
{
    const double us = l->us > 0 ? l->us : 1e-3;
    begin_event(t, "X", HOST, ENQUEUE, l->kernel, l->queued_us + offset);
    fprintf(t->events, ", \"dur\": %.3f, \"args\": {\"node\": ", enqueue_us);
    cli_json_string(t->events, l->node);
    fputs("}}", t->events);
    begin_event(t, "s", HOST, ENQUEUE, "launch", l->queued_us + offset);
    fprintf(t->events, ", \"cat\": \"launch\", \"id\": %" PRId64 "}", ++t->n_flows);
    begin_event(t, "f", DEVICE, QUEUE, "launch", l->start_us + offset);
    fprintf(t->events, ", \"cat\": \"launch\", \"bp\": \"e\", \"id\": %" PRId64 "}", t->n_flows);
    begin_event(t, "X", DEVICE, QUEUE, l->op, l->start_us + offset);
    fprintf(t->events, ", \"dur\": %.3f, \"args\": {\"node\": ", l->us);
    cli_json_string(t->events, l->node);
    fputs(", \"kernel\": ", t->events);
    cli_json_string(t->events, l->kernel);
    fprintf(t->events, ", \"GB/s\": %.3f, \"Gop/s\": %.3f}}", l->bytes / us * 1e-3, l->flops / us * 1e-3);
}

clef_status cli_trace_step(cli_trace *t, clef_session *session, const char *name, double start,
                           clef_error *err)
{
    if (!t->events)
        return CLEF_OK;
    clef_error why = {0};
    const int32_t capacity = clef_session_describe(session).n_launches;
    clef_launch_time *times = calloc((size_t)capacity + 1, sizeof *times);
    if (!times)
        return cli_error(err, CLEF_E_NOMEM, "--trace: out of host memory");
    const int32_t all = clef_session_profile(session, times, capacity, &why),
                  n = all < capacity ? all : capacity;
    const double end = cli_terminal_seconds();
    if (start < 0)
        start = end - (n ? times[n - 1].start_us + times[n - 1].us - times[0].queued_us : 0) * 1e-6;
    const double offset = n ? (start - t->zero) * 1e6 - times[0].queued_us : 0;
    add_span(t, name, start, end);
    for (int32_t i = 0; i < n; i++) {
        const double next = i + 1 < n ? times[i + 1].queued_us - times[i].queued_us : 1;
        write_launch(t, &times[i], offset, next > 0 ? next : 0);
        t->device_us += times[i].us;
    }
    t->wall_us += (end - start) * 1e6;
    free(times);
    if (why.status)
        *err = why;
    return why.status;
}

static clef_status write_json(void *user, FILE *to, clef_error *err)
{
    const cli_trace *t = user;
    int c;
    rewind(t->events);
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", to);
    while ((c = fgetc(t->events)) != EOF)
        fputc(c, to);
    fprintf(to, "],\n\"otherData\": {\"device_us\": %.3f, \"wall_us\": %.3f}}\n", t->device_us, t->wall_us);
    return ferror(t->events) || ferror(to) ? cli_error(err, CLEF_E_IO, "cannot write: %s", strerror(errno))
                                           : CLEF_OK;
}

/* FILE.html: a page that shows the events by itself. */
static clef_status write_file(void *user, FILE *to, clef_error *err)
{
    const cli_trace *t = user;
    const char *dot = strrchr(t->path, '.');
    return dot && strcmp(dot, ".html") == 0
               ? cli_page_write(to, "trace.html", t->title, write_json, user, err)
               : write_json(user, to, err);
}

clef_status cli_trace_end(cli_trace *t, clef_error *err)
{
    if (!t->events)
        return CLEF_OK;
    const clef_status status = ferror(t->events)
                                   ? cli_error(err, CLEF_E_IO, "--trace: the temporary file is full")
                                   : cli_output(t->path, write_file, t, err);
    fclose(t->events);
    *t = (cli_trace){0};
    return status;
}
