/* Finds a model's attention weights in its graph, and reads them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/attention.h"

const char *const cli_attention_kinds[] = {"self", "encoder", "cross", "pool", NULL};

/* Parses "layer3.attention", "encoder.layer0.attention", "decoder.layer1.cross_attention" and
 * "pool.attention", whose layer is -1. Returns 0 for another name. */
static int read_name(const char *name, attention_kind *kind, int32_t *layer)
{
    const int in_encoder = strncmp(name, "encoder.", 8) == 0, in_decoder = strncmp(name, "decoder.", 8) == 0;
    char rest[32] = "";
    int n = 0;
    *kind = ATTENTION_POOL;
    *layer = -1;
    if (strcmp(name, "pool.attention") == 0)
        return 1;
    name += in_encoder || in_decoder ? 8 : 0;
    if (sscanf(name, "layer%d.%31s%n", layer, rest, &n) != 2 || name[n])
        return 0;
    *kind = in_encoder ? ATTENTION_ENCODER : ATTENTION_SELF;
    if (strcmp(rest, "cross_attention") == 0)
        *kind = ATTENTION_CROSS;
    return *kind == ATTENTION_CROSS || strcmp(rest, "attention") == 0;
}

static clef_status add_map(attention_maps *out, const char *name, attention_kind kind, int32_t layer,
                           clef_error *err)
{
    attention_map *more = realloc(out->maps, ((size_t)out->n + 1) * sizeof *more);
    char *copy = malloc(strlen(name) + 1);
    if (more)
        out->maps = more;
    if (!more || !copy) {
        free(copy);
        return cli_error(err, CLEF_E_NOMEM, "attention: out of host memory");
    }
    out->maps[out->n++] = (attention_map){.name = strcpy(copy, name), .kind = kind, .layer = layer};
    return CLEF_OK;
}

static clef_status find_maps(const clef_graph *graph, uint32_t kinds, int32_t wanted, attention_maps *out,
                             clef_error *err)
{
    attention_kind kind;
    int32_t layer;
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < clef_graph_n_values(graph) && status == CLEF_OK; i++) {
        const clef_value_info v = clef_value_describe(clef_graph_value(graph, i));
        if (v.shape.rank == 4 && read_name(v.name, &kind, &layer) && (kinds >> kind & 1) &&
            (wanted < 0 || layer == wanted))
            status = add_map(out, v.name, kind, layer, err);
    }
    if (status == CLEF_OK && out->n == 0)
        status = wanted < 0
                     ? cli_error(err, CLEF_E_NOT_FOUND, "attention: the model has none of that kind")
                     : cli_error(err, CLEF_E_NOT_FOUND, "attention: layer %d has none of that kind", wanted);
    return status;
}

/* The weighted distance of a query from its keys; in a picture, that of a patch from the patches it sees. */
static double distance_of(const attention_picture *picture, const float *p, int32_t t, int32_t n_keys)
{
    double sum = 0, total = 0;
    for (int32_t s = 0; s < n_keys; s++) {
        const double w = (double)p[s],
                     d = picture->rows ? cli_attention_patches_between(picture, t, s) : fabs((double)(t - s));
        sum += d < 0 ? 0 : w * d;
        total += d < 0 ? 0 : w;
    }
    return !picture->rows ? sum : total > 0 ? sum / total : 0;
}

static void summarize_head(attention_map *m, int32_t head, const int32_t *mask,
                           const attention_picture *picture)
{
    const float *p = cli_attention_head(m, head);
    attention_summary sum = {0};
    int32_t n = 0, n_patches = 0;
    for (int32_t t = 0; t < m->n_queries; t++, p += m->n_keys) {
        double total = 0, entropy = 0;
        for (int32_t s = 0; s < m->n_keys; s++) {
            const double w = (double)p[s];
            total += w;
            entropy -= w == 0 ? 0 : w * log(w); /* NaN stays NaN */
        }
        if (total == 0 || (mask && !mask[t]))
            continue;
        n++;
        sum.entropy += entropy;
        n_patches += t >= picture->n_special;
        sum.first += (double)p[0];
        if (m->kind != ATTENTION_CROSS && m->kind != ATTENTION_POOL && t >= picture->n_special)
            sum.distance += distance_of(picture, p, t, m->n_keys);
    }
    n += n == 0;
    n_patches += n_patches == 0;
    m->heads[head] = (attention_summary){sum.entropy / n, sum.distance / n_patches, sum.first / n};
}

static clef_status read_map(cli_forward *f, attention_map *m, clef_error *err)
{
    int32_t rank = 0;
    int64_t dims[CLEF_MAX_DIMS] = {0};
    clef_status status = cli_forward_read(f, m->name, &m->weights, &rank, dims, err);
    if (status != CLEF_OK)
        return status;
    m->n_heads = (int32_t)dims[1];
    m->n_queries = (int32_t)dims[2];
    m->n_keys = (int32_t)dims[3];
    m->heads = calloc((size_t)m->n_heads, sizeof *m->heads);
    if (!m->heads)
        return cli_error(err, CLEF_E_NOMEM, "attention: out of host memory");
    return CLEF_OK;
}

static void summarize(const cli_forward *f, attention_maps *a)
{
    for (int32_t i = 0; i < a->n; i++) {
        attention_map *m = &a->maps[i];
        const int on_source = m->kind == ATTENTION_ENCODER || (m->kind == ATTENTION_SELF && !f->is_seq2seq);
        for (int32_t h = 0; h < m->n_heads; h++)
            summarize_head(m, h, on_source ? f->mask : NULL, &a->picture);
    }
}

static clef_status read_texts(const cli_forward *f, attention_maps *out, clef_error *err)
{
    out->n_source = f->n_ids;
    out->n_target = f->n_target;
    out->source = cli_forward_texts(f, f->ids, f->n_ids);
    out->target = cli_forward_texts(f, f->target, f->n_target);
    return out->source && out->target ? CLEF_OK
                                      : cli_error(err, CLEF_E_NOMEM, "attention: out of host memory");
}

clef_status cli_attention_collect(cli_forward *f, uint32_t kinds, int32_t layer, const char *patch,
                                  attention_maps *out, clef_error *err)
{
    const char **taps = NULL;
    out->layer = layer;
    clef_status status = cli_forward_build(f, NULL, 0, err);
    if (status == CLEF_OK)
        status = find_maps(f->graph, kinds, layer, out, err);
    if (status == CLEF_OK && !(taps = malloc((size_t)out->n * sizeof *taps)))
        status = cli_error(err, CLEF_E_NOMEM, "attention: out of host memory");
    for (int32_t i = 0; i < out->n && status == CLEF_OK; i++)
        taps[i] = out->maps[i].name;
    if (status == CLEF_OK)
        status = cli_forward_build(f, taps, out->n, err);
    if (status == CLEF_OK)
        status = cli_forward_run(f, err);
    for (int32_t i = 0; i < out->n && status == CLEF_OK; i++)
        status = read_map(f, &out->maps[i], err);
    free((void *)taps);
    if (status == CLEF_OK)
        status = f->pixels.values ? cli_attention_read_picture(f, patch, out, err) : read_texts(f, out, err);
    if (status == CLEF_OK)
        summarize(f, out);
    return status;
}

void cli_attention_finish(attention_maps *a)
{
    for (int32_t i = 0; i < a->n; i++) {
        free(a->maps[i].name);
        free(a->maps[i].weights);
        free(a->maps[i].heads);
    }
    free(a->maps);
    cli_forward_texts_free(a->source, a->n_source);
    cli_forward_texts_free(a->target, a->n_target);
    *a = (attention_maps){0};
}

char **cli_attention_row_texts(const attention_maps *a, const attention_map *m)
{
    return m->kind == ATTENTION_ENCODER || !a->n_target ? a->source : a->target;
}

char **cli_attention_column_texts(const attention_maps *a, const attention_map *m)
{
    return m->kind == ATTENTION_SELF && a->n_target ? a->target : a->source;
}
