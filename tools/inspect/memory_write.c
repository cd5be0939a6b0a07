/* Writes a memory plan as text, JSON, a picture and a page. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/inspect/memory_plan.h"
#include "tools/inspect/page.h"

/* What the process allocates for the part: on the device (without weights that are used in the mapped file),
 * and for staging. */
static uint64_t memory_of_device(const memory_part *part)
{
    const clef_plan_stats *s = &part->stats;
    return s->weight_bytes + s->state_bytes + s->arena_bytes + s->scratch_bytes + s->io_bytes +
           s->fused_bytes;
}

/** A line of the table, with a name for users and one for JSON. */
typedef struct memory_row {
    const char *name, *key;
    uint64_t n_bytes;
} memory_row;

enum { N_ROWS = 7 };

static void rows_of(const memory_part *p, memory_row rows[N_ROWS])
{
    const clef_plan_stats *s = &p->stats;
    const memory_row all[N_ROWS] = {{"weights", "weight_bytes", s->weight_bytes},
                                    {"KV cache and states", "state_bytes", s->state_bytes},
                                    {"arena", "arena_bytes", s->arena_bytes},
                                    {"scratch", "scratch_bytes", s->scratch_bytes},
                                    {"inputs", "io_bytes", s->io_bytes},
                                    {"a step as one launch", "fused_bytes", s->fused_bytes},
                                    {"staging (host)", "staging_bytes", s->staging_bytes}};
    memcpy(rows, all, sizeof all);
}

static uint64_t total_of(const memory_plan *m)
{
    uint64_t total = 0;
    for (int32_t i = 0; i < m->n_parts; i++)
        total += memory_of_device(&m->parts[i]) + m->parts[i].stats.staging_bytes;
    return total;
}

static const char *value_name(const memory_part *p, int32_t i)
{
    const clef_value *v = clef_graph_value(clef_plan_graph(p->plan), i);
    return v ? clef_value_describe(v).name : "";
}

static void write_row(FILE *to, const char *name, uint64_t n_bytes, const char *more)
{
    char text[24];
    fprintf(to, "  %-22s %12s %16" PRIu64 "%s%s\n", name, cli_bytes_text(n_bytes, text), n_bytes,
            *more ? "  " : "", more);
}

static void write_part(FILE *to, const memory_part *p)
{
    char more[400], a[24], b[24];
    memory_row rows[N_ROWS];
    rows_of(p, rows);
    fprintf(to, "%s\n", p->name);
    for (int i = 0; i < N_ROWS; i++) {
        *more = 0;
        if (strcmp(rows[i].key, "weight_bytes") == 0 && p->stats.packed_bytes)
            snprintf(more, sizeof more, "of it %s in panels", cli_bytes_text(p->stats.packed_bytes, a));
        if (strcmp(rows[i].key, "arena_bytes") == 0)
            snprintf(more, sizeof more, "%s without sharing; at most %s live at once, at %s",
                     cli_bytes_text(p->stats.unshared_bytes, a), cli_bytes_text(p->live_peak, b),
                     value_name(p, p->peak_at));
        write_row(to, rows[i].name, rows[i].n_bytes, more);
    }
    if (p->stats.mapped_bytes)
        write_row(to, "mapped, not copied", p->stats.mapped_bytes,
                  "weights that are used where the file lies");
}

static void write_pool(FILE *to, const memory_plan *m)
{
    char page[24], all[24];
    fprintf(to, "pool of %" PRId32 " sequences\n", m->n_sequences);
    fprintf(to, "  %-22s %12" PRId64 "  (limit: %s)\n", "positions", m->pool.kv_tokens, m->limit);
    fprintf(to, "  %-22s %12" PRId32 "  of %s, %s in all\n", "pages", m->pool.n_pages,
            cli_bytes_text(m->pool.page_bytes, page),
            cli_bytes_text(m->pool.page_bytes * (uint64_t)m->pool.n_pages, all));
}

static void write_pool_json(FILE *to, const memory_plan *m)
{
    int32_t n = 0;
    fputc('{', to);
    cli_json_member_number(to, &n, "sequences", m->n_sequences);
    cli_json_member_number(to, &n, "positions", (double)m->pool.kv_tokens);
    cli_json_member_number(to, &n, "pages", m->pool.n_pages);
    cli_json_member_number(to, &n, "page_bytes", (double)m->pool.page_bytes);
    cli_json_member_number(to, &n, "bytes", (double)m->pool.page_bytes * m->pool.n_pages);
    cli_json_member_text(to, &n, "limit", m->limit);
    fputc('}', to);
}

clef_status cli_memory_text(void *user, FILE *to, clef_error *err)
{
    const memory_plan *m = user;
    char text[24];
    (void)err;
    fprintf(to, "%s on %s, context %" PRId32 "%s%s\n", m->title, clef_device_describe(m->device)->name,
            m->n_context, m->kv_type ? ", cache " : "", m->kv_type ? m->kv_type : "");
    for (int32_t i = 0; i < m->n_parts; i++)
        write_part(to, &m->parts[i]);
    if (m->n_sequences)
        write_pool(to, m);
    fprintf(to, "%-24s %12s %16" PRIu64 "\n", "total", cli_bytes_text(total_of(m), text), total_of(m));
    return CLEF_OK;
}

static void write_tensors(FILE *to, const memory_part *p)
{
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const clef_plan_tensor *t = &p->tensors[i];
        int32_t n = 0;
        fputs(i ? ",\n   {" : "[\n   {", to);
        cli_json_member_text(to, &n, "name", t->name);
        cli_json_member_number(to, &n, "offset", (double)t->offset);
        cli_json_member_number(to, &n, "bytes", (double)t->bytes);
        cli_json_member_number(to, &n, "first", t->first);
        cli_json_member_number(to, &n, "last", t->last < p->n_values ? t->last : p->n_values - 1);
        if (t->in_place_of)
            cli_json_member_text(to, &n, "in_place_of", t->in_place_of);
        fputc('}', to);
    }
    fputs(p->n_tensors ? "]" : "[]", to);
}

clef_status cli_memory_json(void *user, FILE *to, clef_error *err)
{
    const memory_plan *m = user;
    int32_t n = 0;
    (void)err;
    fputc('{', to);
    cli_json_member_text(to, &n, "format", "clef-plan");
    cli_json_member_number(to, &n, "version", 1);
    cli_json_member_text(to, &n, "model", m->title);
    cli_json_member_text(to, &n, "device", clef_device_describe(m->device)->name);
    cli_json_member_number(to, &n, "context", m->n_context);
    cli_json_member_number(to, &n, "total_bytes", (double)total_of(m));
    if (m->n_sequences) {
        cli_json_member(to, &n, "pool");
        write_pool_json(to, m);
    }
    cli_json_member(to, &n, "parts");
    for (int32_t i = 0; i < m->n_parts; i++) {
        const memory_part *p = &m->parts[i];
        memory_row rows[N_ROWS];
        int32_t k = 0;
        rows_of(p, rows);
        fputs(i ? ",\n {" : "[\n {", to);
        cli_json_member_text(to, &k, "name", p->name);
        cli_json_member_number(to, &k, "device_bytes", (double)memory_of_device(p));
        for (int r = 0; r < N_ROWS; r++)
            cli_json_member_number(to, &k, rows[r].key, (double)rows[r].n_bytes);
        cli_json_member_number(to, &k, "packed_bytes", (double)p->stats.packed_bytes);
        cli_json_member_number(to, &k, "mapped_bytes", (double)p->stats.mapped_bytes);
        cli_json_member_number(to, &k, "unshared_bytes", (double)p->stats.unshared_bytes);
        cli_json_member_number(to, &k, "live_peak_bytes", (double)p->live_peak);
        cli_json_member_text(to, &k, "peak_at", value_name(p, p->peak_at));
        cli_json_member_number(to, &k, "values", p->n_values);
        cli_json_member(to, &k, "arena");
        write_tensors(to, p);
        fputc('}', to);
    }
    fputs("]}\n", to);
    return CLEF_OK;
}

clef_status cli_memory_html(void *user, FILE *to, clef_error *err)
{
    return cli_page_write(to, "plan.html", ((const memory_plan *)user)->title, cli_memory_json, user, err);
}

/* ---- the picture: values along x, offsets along y -------------------------------------------- */

enum { WIDTH = 900, PART_HEIGHT = 320, TITLE = 40, LEFT = 16 };

static void draw_part(FILE *to, const memory_part *p, int32_t y)
{
    int32_t from = p->n_values; /* values before it run at load */
    for (int32_t i = 0; i < p->n_tensors; i++)
        from = p->tensors[i].first < from ? p->tensors[i].first : from;
    const double sx = ((double)WIDTH - 2.0 * (double)LEFT) / (p->n_values > from ? p->n_values - from : 1);
    const double sy = p->stats.arena_bytes ? (PART_HEIGHT - TITLE - 16.0) / (double)p->stats.arena_bytes : 0;
    char a[24], b[24], c[24];
    fprintf(to, "<text x=\"%d\" y=\"%d\" font-size=\"13\">", LEFT, y + 24);
    cli_xml_text(to, p->name);
    fprintf(to, ": arena %s, %s live at once at most, %s without sharing</text>\n",
            cli_bytes_text(p->stats.arena_bytes, a), cli_bytes_text(p->live_peak, b),
            cli_bytes_text(p->stats.unshared_bytes, c));
    fprintf(to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f5f7fa\" stroke=\"#d5dae3\"/>\n",
            LEFT, y + TITLE, WIDTH - 2 * LEFT, PART_HEIGHT - TITLE - 16);
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const clef_plan_tensor *t = &p->tensors[i];
        const int32_t last = t->last < p->n_values ? t->last : p->n_values - 1;
        fprintf(to,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"hsl(%d 55%% 72%%)\" "
                "stroke=\"#fff\" "
                "stroke-width=\"0.4\"><title>",
                (double)LEFT + (t->first - from) * sx, y + TITLE + (double)t->offset * sy,
                (last - t->first + 1) * sx, (double)t->bytes * sy, i * 47 % 360);
        cli_xml_text(to, t->name);
        fprintf(to, ", %s</title></rect>\n", cli_bytes_text(t->bytes, a));
    }
}

clef_status cli_memory_svg(void *user, FILE *to, clef_error *err)
{
    const memory_plan *m = user;
    const int32_t height = TITLE + m->n_parts * PART_HEIGHT;
    char text[24];
    fprintf(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"sans-serif\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"26\" font-size=\"15\">",
        WIDTH, height, WIDTH, height, LEFT);
    cli_xml_text(to, m->title);
    fprintf(to, ", context %" PRId32 ": %s in all</text>\n", m->n_context, cli_bytes_text(total_of(m), text));
    for (int32_t i = 0; i < m->n_parts; i++)
        draw_part(to, &m->parts[i], TITLE + i * PART_HEIGHT);
    fputs("</svg>\n", to);
    return ferror(to) ? cli_error(err, CLEF_E_IO, "cannot write: %s", strerror(errno)) : CLEF_OK;
}
