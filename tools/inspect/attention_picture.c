/* Attention over a picture: where its patches are, which of them a row sees, and the page. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/inspect/attention.h"
#include "tools/inspect/page.h"

/* ---- the grid -------------------------------------------------------------------------------- */

static char *name_of(const attention_picture *p, int has_distillation, int32_t i)
{
    char text[48];
    const int32_t k = i - p->n_special;
    if (k >= 0)
        snprintf(text, sizeof text, "patch %" PRId32 ",%" PRId32, k / p->columns, k % p->columns);
    else if (i == 0)
        snprintf(text, sizeof text, "class token");
    else if (i == 1 && has_distillation)
        snprintf(text, sizeof text, "distillation token");
    else
        snprintf(text, sizeof text, "register %" PRId32, i - 1 - has_distillation);
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

static clef_status read_query(attention_picture *p, const char *patch, clef_error *err)
{
    int row, column, n = 0;
    p->query = p->n_special > 0 ? 0 : -1;
    if (!patch)
        return CLEF_OK;
    if (sscanf(patch, "%d,%d%n", &row, &column, &n) != 2 || patch[n] || row < 0 || row >= p->rows ||
        column < 0 || column >= p->columns)
        return cli_error(err, CLEF_E_ARG,
                         "attention: --patch: expected ROW,COLUMN from 0,0 to %" PRId32 ",%" PRId32
                         ", got '%.40s'",
                         p->rows - 1, p->columns - 1, patch);
    p->query = p->n_special + row * p->columns + column;
    return CLEF_OK;
}

clef_status cli_attention_read_picture(const cli_forward *f, const char *patch, attention_maps *a,
                                       clef_error *err)
{
    const clef_hparams *hp = clef_model_pictures(f->model, NULL);
    const int32_t side = hp->patch_size, rows = f->pixels.height / side, columns = f->pixels.width / side;
    attention_picture *p = &a->picture;
    *p = (attention_picture){.rows = rows,
                             .columns = columns,
                             .n_special = a->maps[0].n_keys - rows * columns,
                             .covered_x = (double)columns * side / f->pixels.width,
                             .covered_y = (double)rows * side / f->pixels.height,
                             .seen = &f->seen};
    const clef_status status = read_query(p, patch, err);
    if (status != CLEF_OK)
        return status;
    a->n_source = a->maps[0].n_keys;
    a->source = calloc((size_t)a->n_source, sizeof *a->source);
    for (int32_t i = 0; i < a->n_source; i++)
        if (!a->source || !(a->source[i] = name_of(p, strcmp(hp->arch, "deit") == 0, i)))
            return cli_error(err, CLEF_E_NOMEM, "attention: out of host memory");
    return CLEF_OK;
}

double cli_attention_patches_between(const attention_picture *p, int32_t a, int32_t b)
{
    a -= p->n_special;
    b -= p->n_special;
    return a < 0 || b < 0 ? -1 : hypot(a / p->columns - b / p->columns, a % p->columns - b % p->columns);
}

void cli_attention_patches(const attention_maps *a, const attention_map *m, int32_t head, float *out)
{
    const attention_picture *p = &a->picture;
    const float *w = cli_attention_head(m, head) + p->n_special;
    const int32_t n = p->rows * p->columns, all = p->query < 0 && m->n_queries > 1,
                  first = all || m->n_queries == 1 ? 0 : p->query, end = all ? m->n_queries : first + 1;
    for (int32_t i = 0; i < n; i++) {
        double sum = 0;
        for (int32_t t = first; t < end; t++)
            sum += (double)w[(size_t)t * (size_t)m->n_keys + (size_t)i];
        out[i] = (float)(sum / (end - first));
    }
}

void cli_attention_head_name(const attention_map *m, int32_t head, char *out, size_t n_out)
{
    const char *what = m->kind == ATTENTION_CROSS ? "cross" : "layer";
    if (m->kind == ATTENTION_POOL)
        snprintf(out, n_out, "pooling, head %" PRId32, head);
    else
        snprintf(out, n_out, "%s %" PRId32 ", head %" PRId32, what, m->layer, head);
}

/* ---- JSON, and the page ---------------------------------------------------------------------- */

static void write_place(const attention_maps *a, FILE *to, int32_t *n)
{
    const attention_picture *p = &a->picture;
    cli_json_member_number(to, n, "rows", p->rows);
    cli_json_member_number(to, n, "columns", p->columns);
    cli_json_member_number(to, n, "special_tokens", p->n_special);
    cli_json_member_number(to, n, "query", p->query);
}

void cli_attention_picture_json(const attention_maps *a, FILE *to, int32_t *n_members)
{
    int32_t n = 0;
    cli_json_member(to, n_members, "picture");
    fputc('{', to);
    write_place(a, to, &n);
    fputc('}', to);
}

/* Bytes as a string in base64 (RFC 4648). */
static void write_base64(FILE *to, const uint8_t *bytes, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    fputc('"', to);
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const unsigned x = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0U) |
                           (left > 2 ? (unsigned)bytes[i + 2] : 0U);
        fputc(letters[x >> 18], to);
        fputc(letters[x >> 12 & 63], to);
        fputc(left > 1 ? letters[x >> 6 & 63] : '=', to);
        fputc(left > 2 ? letters[x & 63] : '=', to);
    }
    fputc('"', to);
}

/* Weights of a head as base64 of 16 bits each, the low byte first: the weight times 65534, 65535 for NaN. As
 * numbers they would make pages of 50 MB. */
static clef_status write_weights(FILE *to, const attention_map *m, int32_t head, clef_error *err)
{
    const size_t n = (size_t)m->n_queries * (size_t)m->n_keys;
    const float *w = cli_attention_head(m, head);
    uint8_t *bytes = malloc(2 * n);
    if (!bytes)
        return cli_error(err, CLEF_E_NOMEM, "attention: out of host memory");
    for (size_t i = 0; i < n; i++) {
        const unsigned x = isnan(w[i]) ? 65535U : (unsigned)lrint(65534.0 * fmin(fmax((double)w[i], 0), 1));
        bytes[2 * i] = (uint8_t)(x & 255);
        bytes[2 * i + 1] = (uint8_t)(x >> 8);
    }
    write_base64(to, bytes, 2 * n);
    free(bytes);
    return CLEF_OK;
}

static clef_status write_head(FILE *to, const attention_map *m, int32_t head, clef_error *err)
{
    int32_t n = 0;
    fputs("{", to);
    cli_json_member_number(to, &n, "head", head);
    cli_json_member_number(to, &n, "entropy", m->heads[head].entropy);
    cli_json_member_number(to, &n, "distance", m->heads[head].distance);
    cli_json_member_number(to, &n, "first", m->heads[head].first);
    cli_json_member_number(to, &n, "queries", m->n_queries);
    cli_json_member(to, &n, "weights");
    const clef_status status = write_weights(to, m, head, err);
    fputs("}", to);
    return status;
}

static clef_status page_data(void *user, FILE *to, clef_error *err)
{
    const attention_maps *a = user;
    const clef_picture *seen = a->picture.seen;
    clef_status status = CLEF_OK;
    int32_t n = 0;
    fputc('{', to);
    cli_json_member_text(to, &n, "model", a->title);
    write_place(a, to, &n);
    cli_json_member_number(to, &n, "covered_x", a->picture.covered_x);
    cli_json_member_number(to, &n, "covered_y", a->picture.covered_y);
    cli_json_member_number(to, &n, "width", seen->width);
    cli_json_member_number(to, &n, "height", seen->height);
    cli_json_member(to, &n, "rgb");
    write_base64(to, seen->rgb, 3 * (size_t)seen->width * (size_t)seen->height);
    cli_json_member(to, &n, "tokens");
    for (int32_t i = 0; i < a->n_source; i++) {
        fputs(i ? ", " : "[", to);
        cli_json_string(to, a->source[i]);
    }
    fputs("]", to);
    cli_json_member(to, &n, "maps");
    for (int32_t i = 0; i < a->n && status == CLEF_OK; i++) {
        const attention_map *m = &a->maps[i];
        int32_t k = 0;
        fputs(i ? ",\n {" : "[\n {", to);
        cli_json_member_number(to, &k, "layer", m->layer);
        cli_json_member(to, &k, "heads");
        for (int32_t h = 0; h < m->n_heads && status == CLEF_OK; h++)
            if (a->head < 0 || h == a->head) {
                fputs(h && a->head < 0 ? ",\n  " : "[\n  ", to);
                status = write_head(to, m, h, err);
            }
        fputs("]}", to);
    }
    fputs("]}\n", to);
    return status;
}

clef_status cli_attention_picture_html(const attention_maps *a, FILE *to, clef_error *err)
{
    return cli_page_write(to, "attention_picture.html", a->title, page_data, (void *)(uintptr_t)a, err);
}
