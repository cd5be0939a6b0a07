/* Writes attention maps as text, JSON, npy and as a page. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/cli/terminal.h"
#include "tools/inspect/attention.h"
#include "tools/inspect/npy.h"
#include "tools/inspect/page.h"

/** The first of the requested heads. */
static int32_t first_head(const attention_maps *a)
{
    return a->head < 0 ? 0 : a->head;
}

static int32_t end_head(const attention_maps *a, const attention_map *m)
{
    return a->head < 0 ? m->n_heads : a->head + 1;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

/* A weight is exactly 0 only if a mask made it so. */
static int step_of(float w, int n)
{
    const float at = w * (float)n;
    return at >= (float)n ? n - 1 : at > 0 ? (int)at : 0;
}

static void write_cell(FILE *to, float w, int colour)
{
    static const char steps[] = " .:-=+*#%@";
    static const unsigned char blues[] = {255, 195, 159, 123, 87, 81, 75, 69, 33, 27, 21, 18};
    const int k = step_of(w, colour ? (int)sizeof blues : (int)sizeof steps - 1);
    if (isnan(w))
        fputs(colour ? "\033[48;5;196m\033[38;5;231mNN\033[0m" : "NN", to);
    else if (colour && w == 0)
        fputs("\033[48;5;250m\033[38;5;244m//\033[0m", to);
    else if (colour)
        fprintf(to, "\033[48;5;%dm  \033[0m", blues[k]);
    else
        fprintf(to, "%c%c", w == 0 ? '/' : steps[k], w == 0 ? '/' : steps[k]);
}

/* Writes the text in at most `width` columns. Characters that are not plain text become a point, which also
 * marks a cut. */
static void write_label(FILE *to, const char *text, int width)
{
    char out[64];
    int n = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s && n < width; s++)
        if ((*s & 0xc0) != 0x80)
            out[n++] = *s < 0x20 || *s > 0x7e ? '.' : (char)*s;
    fprintf(to, "%*.*s ", width, n, out);
}

/* The patches that the query of a picture sees; the largest weight counts as 1. */
static clef_status write_patches(FILE *to, const attention_maps *a, const attention_map *m, int32_t head,
                                 clef_error *err)
{
    const int colour = to == stdout && cli_terminal_stdout() && !getenv("NO_COLOR");
    const attention_picture *p = &a->picture;
    const int32_t n = p->rows * p->columns;
    float most = 0, *w = malloc((size_t)n * sizeof *w);
    if (!w)
        return cli_error(err, CLEF_E_NOMEM, "attention: out of host memory");
    cli_attention_patches(a, m, head, w);
    for (int32_t i = 0; i < n; i++)
        most = w[i] > most ? w[i] : most;
    fprintf(to, "%s head %" PRId32 ": patches that %s sees, the weight %.3g the darkest\n", m->name, head,
            m->n_queries == 1 ? "the pooling query"
            : p->query < 0    ? "the mean of all rows"
                              : a->source[p->query],
            (double)most);
    for (int32_t i = 0; i < n; i++) {
        write_cell(to, w[i] / (most > 0 ? most : 1), colour);
        if (i % p->columns == p->columns - 1)
            fputc('\n', to);
    }
    fputc('\n', to);
    free(w);
    return CLEF_OK;
}

static void write_blocks(FILE *to, const attention_maps *a, const attention_map *m, int32_t head)
{
    enum { WIDTH = 14 };
    const int colour = to == stdout && cli_terminal_stdout() && !getenv("NO_COLOR");
    const float *p = cli_attention_head(m, head);
    char **rows = cli_attention_row_texts(a, m);
    fprintf(to, "%s head %" PRId32 ": rows are queries, columns keys; // is masked, NN is NaN\n", m->name,
            head);
    for (int32_t t = 0; t < m->n_queries; t++) {
        write_label(to, rows[t], WIDTH);
        for (int32_t s = 0; s < m->n_keys; s++)
            write_cell(to, *p++, colour);
        fputc('\n', to);
    }
    fputc('\n', to);
}

static void write_number(FILE *to, double x)
{
    if (isnan(x))
        fprintf(to, " %10s", "NaN");
    else
        fprintf(to, " %10.3f", x);
}

clef_status cli_attention_text(void *user, FILE *to, clef_error *err)
{
    const attention_maps *a = user;
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < a->n && (a->layer >= 0 || a->head >= 0); i++)
        for (int32_t h = first_head(a); h < end_head(a, &a->maps[i]) && status == CLEF_OK; h++)
            if (a->picture.rows)
                status = write_patches(to, a, &a->maps[i], h, err);
            else
                write_blocks(to, a, &a->maps[i], h);
    fprintf(to, "%-28s %5s %10s %10s %10s\n", "attention", "head", "entropy", "distance", "first");
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t h = first_head(a); h < end_head(a, &a->maps[i]); h++) {
            const attention_summary *s = &a->maps[i].heads[h];
            fprintf(to, "%-28s %5" PRId32, a->maps[i].name, h);
            write_number(to, s->entropy);
            write_number(to, s->distance);
            write_number(to, s->first);
            fputc('\n', to);
        }
    return status;
}

/* ---- JSON, and the page ---------------------------------------------------------------------- */

static void write_texts(FILE *to, int32_t *n_members, const char *key, char **texts, int32_t n)
{
    cli_json_member(to, n_members, key);
    fputc('[', to);
    for (int32_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", to);
        cli_json_string(to, texts[i]);
    }
    fputc(']', to);
}

static void write_head(FILE *to, const attention_map *m, int32_t head, int digits)
{
    const float *p = cli_attention_head(m, head);
    const attention_summary *s = &m->heads[head];
    int32_t n = 0;
    fputc('{', to);
    cli_json_member_number(to, &n, "head", head);
    cli_json_member_number(to, &n, "entropy", s->entropy);
    cli_json_member_number(to, &n, "distance", s->distance);
    cli_json_member_number(to, &n, "first", s->first);
    cli_json_member(to, &n, "weights");
    for (int32_t t = 0; t < m->n_queries; t++) {
        fputs(t ? ", [" : "[[", to);
        for (int32_t k = 0; k < m->n_keys; k++) {
            fputs(k ? "," : "", to);
            cli_json_number(to, (double)*p++, digits);
        }
        fputc(']', to);
    }
    fputs("]}", to);
}

static clef_status write_json(const attention_maps *a, FILE *to, int digits, clef_error *err)
{
    enum { MOST = 40 * 1000 * 1000 };
    double n_weights = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < a->n; i++)
        n_weights +=
            (double)a->maps[i].n_queries * a->maps[i].n_keys * (a->head < 0 ? a->maps[i].n_heads : 1);
    if (n_weights > (double)MOST)
        return cli_error(err, CLEF_E_LIMIT,
                         "attention: %.0f weights are more than a page or JSON can hold (%d): choose a "
                         "--layer and a --head",
                         n_weights, MOST);
    fputc('{', to);
    cli_json_member_text(to, &n, "format", "clef-attention");
    cli_json_member_number(to, &n, "version", 1);
    cli_json_member_text(to, &n, "model", a->title);
    write_texts(to, &n, "tokens", a->source, a->n_source);
    if (a->picture.rows)
        cli_attention_picture_json(a, to, &n);
    if (a->n_target)
        write_texts(to, &n, "target", a->target, a->n_target);
    cli_json_member(to, &n, "maps");
    for (int32_t i = 0; i < a->n; i++) {
        const attention_map *m = &a->maps[i];
        int32_t k = 0;
        fputs(i ? ",\n {" : "[\n {", to);
        cli_json_member_text(to, &k, "name", m->name);
        cli_json_member_text(to, &k, "kind", cli_attention_kinds[m->kind]);
        cli_json_member_number(to, &k, "layer", m->layer);
        cli_json_member(to, &k, "heads");
        for (int32_t h = first_head(a); h < end_head(a, m); h++) {
            fputs(h == first_head(a) ? "[\n  " : ",\n  ", to);
            write_head(to, m, h, digits);
        }
        fputs("]}", to);
    }
    fputs("]}\n", to);
    return CLEF_OK;
}

clef_status cli_attention_json(void *user, FILE *to, clef_error *err)
{
    return write_json(user, to, 9, err);
}

static clef_status page_data(void *user, FILE *to, clef_error *err)
{
    return write_json(user, to, 4, err);
}

clef_status cli_attention_html(void *user, FILE *to, clef_error *err)
{
    const attention_maps *a = user;
    if (a->picture.rows)
        return cli_attention_picture_html(a, to, err);
    return cli_page_write(to, "attention.html", a->title, page_data, user, err);
}

/* ---- npy ------------------------------------------------------------------------------------- */

clef_status cli_attention_npy(void *user, FILE *to, clef_error *err)
{
    const attention_maps *a = user;
    const attention_map *m = &a->maps[0];
    for (int32_t i = 1; i < a->n; i++)
        if (a->maps[i].kind != m->kind || a->maps[i].n_heads != m->n_heads)
            return cli_error(err, CLEF_E_UNSUPPORTED,
                             "attention: %s and %s do not fit in one array: choose a --kind or a --layer",
                             m->name, a->maps[i].name);
    cli_npy_head(to, "f4", 4,
                 (const int64_t[]){a->n, end_head(a, m) - first_head(a), m->n_queries, m->n_keys});
    for (int32_t i = 0; i < a->n; i++)
        fwrite(cli_attention_head(&a->maps[i], first_head(a)), sizeof(float),
               (size_t)(end_head(a, m) - first_head(a)) * (size_t)m->n_queries * (size_t)m->n_keys, to);
    return ferror(to) ? cli_error(err, CLEF_E_IO, "attention: cannot write: %s", strerror(errno)) : CLEF_OK;
}
