/* Counters and histograms. */
#include "tools/serve/metrics.h"

#include <string.h>

#include "tools/serve/endpoints.h"

typedef struct description {
    const char *name, *help, *label, *values;
} description;

static const description counters[] = {
#define COUNTER(id, name, help) {name, help, NULL, NULL},
#include "tools/serve/metrics.def"
};
static const description labelled[] = {
#define LABELLED(id, name, help, label, values) {name, help, label, values},
#include "tools/serve/metrics.def"
};
static const description gauges_of[] = {
#define GAUGE(id, name, help) {name, help, NULL, NULL},
#include "tools/serve/metrics.def"
};
static const description histograms[] = {
#define HISTOGRAM(id, name, help, ...) {name, help, NULL, NULL},
#include "tools/serve/metrics.def"
};
/* The upper bounds of their buckets, ended by 0. */
static const double bounds_of[][SERVE_MOST_BOUNDS + 1] = {
#define HISTOGRAM(id, name, help, ...) {__VA_ARGS__},
#include "tools/serve/metrics.def"
};

/* Statuses that requests are counted by; the first is for any other. */
static const int32_t statuses[SERVE_N_STATUSES] = {0,   200, 204, 400, 401, 403, 404, 405, 408, 411,
                                                   413, 414, 415, 429, 431, 499, 500, 501, 503, 504};

void serve_count(serve_metrics *m, int counter, uint64_t n)
{
    atomic_fetch_add_explicit(&m->counters[counter], n, memory_order_relaxed);
}

void serve_count_to(serve_metrics *m, int counter, uint64_t n)
{
    uint64_t was = atomic_load_explicit(&m->counters[counter], memory_order_relaxed);
    while (was < n && !atomic_compare_exchange_weak(&m->counters[counter], &was, n))
        ;
}

void serve_count_label(serve_metrics *m, int which, int value)
{
    atomic_fetch_add_explicit(&m->labelled[which][value], 1, memory_order_relaxed);
}

void serve_count_request(serve_metrics *m, int endpoint, int32_t status)
{
    int at = 0;
    for (int i = 1; i < SERVE_N_STATUSES; i++)
        if (statuses[i] == status)
            at = i;
    atomic_fetch_add_explicit(&m->requests[endpoint][at], 1, memory_order_relaxed);
}

void serve_observe(serve_metrics *m, int histogram, double x)
{
    serve_histogram *h = &m->histograms[histogram];
    const double *bounds = bounds_of[histogram];
    int at = 0;
    while (bounds[at] > 0 && x > bounds[at])
        at++;
    atomic_fetch_add_explicit(&h->counts[at], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, x > 0 ? (uint64_t)(x * 1e6 + 0.5) : 0, memory_order_relaxed);
}

/* ---- text ------------------------------------------------------------------------------------ */

static uint64_t load(const _Atomic uint64_t *x)
{
    return atomic_load_explicit((_Atomic uint64_t *)x, memory_order_relaxed);
}

static void head(const description *d, const char *type, serve_buffer *to)
{
    serve_buffer_print(to, "# HELP %s %s.\n# TYPE %s %s\n", d->name, d->help, d->name, type);
}

void serve_label_text(const char *text, serve_buffer *to)
{
    for (; *text; text++)
        if (*text == '\n')
            serve_buffer_print(to, "\\n");
        else
            serve_buffer_print(to, "%s%c", *text == '\\' || *text == '"' ? "\\" : "", *text);
}

static void write_requests(const serve_metrics *m, serve_buffer *to)
{
    static const description d = {"clef_requests_total", "Requests by endpoint and status", NULL, NULL};
    head(&d, "counter", to);
    for (int e = 0; e < SERVE_N_ENDPOINTS + 1; e++)
        for (int i = 0; i < SERVE_N_STATUSES; i++) {
            const uint64_t n = load(&m->requests[e][i]);
            if (n)
                serve_buffer_print(to, "%s{endpoint=\"%s\",status=\"%d\"} %llu\n", d.name,
                                   e < SERVE_N_ENDPOINTS ? serve_endpoints[e].path : "other",
                                   (int)statuses[i], (unsigned long long)n);
        }
}

static void write_labelled(const serve_metrics *m, int which, serve_buffer *to)
{
    const description *d = &labelled[which];
    int value = 0;
    head(d, "counter", to);
    for (const char *at = d->values; at; value++) {
        const size_t n = strcspn(at, "|");
        serve_buffer_print(to, "%s{%s=\"%.*s\"} %llu\n", d->name, d->label, (int)n, at,
                           (unsigned long long)load(&m->labelled[which][value]));
        at = at[n] ? at + n + 1 : NULL;
    }
}

static void write_histogram(const serve_metrics *m, int which, serve_buffer *to)
{
    const description *d = &histograms[which];
    const serve_histogram *h = &m->histograms[which];
    const double *bounds = bounds_of[which];
    uint64_t total = 0;
    int n = 0;
    head(d, "histogram", to);
    for (; bounds[n] > 0; n++) {
        const int i = n;
        total += load(&h->counts[i]);
        serve_buffer_print(to, "%s_bucket{le=\"%g\"} %llu\n", d->name, bounds[i], (unsigned long long)total);
    }
    total += load(&h->counts[n]);
    serve_buffer_print(to, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.6f\n%s_count %llu\n", d->name,
                       (unsigned long long)total, d->name, (double)load(&h->sum) * 1e-6, d->name,
                       (unsigned long long)total);
}

void serve_metrics_write(const serve_metrics *m, const double gauges[SERVE_N_GAUGES], serve_buffer *to)
{
    static const description info = {"clef_build_info", "A model that is loaded; always 1", NULL, NULL};
    write_requests(m, to);
    for (int i = 0; i < SERVE_N_LABELLED; i++)
        write_labelled(m, i, to);
    for (int i = 0; i < SERVE_N_COUNTERS; i++) {
        head(&counters[i], "counter", to);
        serve_buffer_print(to, "%s %llu\n", counters[i].name, (unsigned long long)load(&m->counters[i]));
    }
    for (int i = 0; i < SERVE_N_GAUGES; i++) {
        head(&gauges_of[i], "gauge", to);
        serve_buffer_print(to, "%s %.15g\n", gauges_of[i].name, gauges[i]);
    }
    for (int i = 0; i < SERVE_N_HISTOGRAMS; i++)
        write_histogram(m, i, to);
    head(&info, "gauge", to);
}

static void list(const description *d, int n, const char *type, FILE *to)
{
    for (int i = 0; i < n; i++) {
        fprintf(to, "| `%s", d[i].name);
        if (d[i].label)
            fprintf(to, "{%s}", d[i].label);
        fprintf(to, "` | %s | %s |\n", type, d[i].help);
    }
}

void serve_metrics_list(FILE *to)
{
    fputs("| metric | type | |\n|---|---|---|\n", to);
    fputs("| `clef_requests_total{endpoint,status}` | counter | Requests by endpoint and status |\n", to);
    list(labelled, SERVE_N_LABELLED, "counter", to);
    list(counters, SERVE_N_COUNTERS, "counter", to);
    list(gauges_of, SERVE_N_GAUGES, "gauge", to);
    fputs("| `clef_build_info{version,model,device,driver}` | gauge | A model that is loaded; always 1 |\n",
          to);
    list(histograms, SERVE_N_HISTOGRAMS, "histogram", to);
}
