/* Relative position biases in buckets (T5, arXiv:1910.10683, section 2.1; transformers'
 * T5Attention._relative_position_bucket). */
#include <math.h>
#include <stdlib.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

/* The bucket of a key `distance` positions before the query. Half of the buckets have one distance each, the
 * others ranges that grow logarithmically up to max_distance. Computed in float, as in training. */
static int32_t bucket_of(int32_t distance, int32_t n_buckets, int32_t max_distance, int bidirectional)
{
    int32_t first = 0;
    if (bidirectional) {
        n_buckets /= 2;
        first = distance > 0 ? n_buckets : 0;
        distance = distance < 0 ? -distance : distance;
    } else {
        distance = distance < 0 ? -distance : 0;
    }
    const int32_t exact = n_buckets / 2;
    if (distance < exact)
        return first + distance;
    const float part = logf((float)distance / (float)exact) / logf((float)max_distance / (float)exact);
    const int32_t i = exact + (int32_t)(part * (float)(n_buckets - exact));
    return first + (i < n_buckets ? i : n_buckets - 1);
}

/* The bucket of each distance, made at first use. */
static clef_value *buckets_by_distance(clef_builder *b, int bidirectional)
{
    const char *name = bidirectional ? "relative.buckets" : "relative.buckets_before";
    const int32_t far = b->n_context - 1, n = 2 * far + 1;
    clef_value *made = clef_graph_find(b->g, name);
    int32_t *buckets = made ? NULL : malloc((size_t)n * sizeof *buckets);
    if (made)
        return made;
    if (!buckets)
        return clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for %d distances",
                                clef_model_path(b->model), n);
    for (int32_t i = 0; i < n; i++)
        buckets[i] = bucket_of(i - far, b->hp->n_buckets, b->hp->max_distance, bidirectional);
    clef_value *x = clef_constant(b->g, name, CLEF_I32, clef_shape_1(clef_n(n)), buckets);
    free(buckets);
    return x;
}

void clef__relative_bias(clef_builder *b, clef_role role, int bidirectional)
{
    const clef_hparams *hp = b->hp;
    clef_value *table =
        clef__role_weight_shaped(b, role, "weight", clef_shape_2(clef_n(hp->n_buckets), clef_n(hp->n_heads)));
    clef_value *by_distance = clef_gather(b->g, table, buckets_by_distance(b, bidirectional), NULL);
    if (b->runs) { /* the queries are rows of different sequences: [H, B, S] is seen as [B, H, 1, S] */
        const clef_dim H = clef_n(hp->n_heads);
        clef_value *rows = clef_relative_bias(
            b->g, by_distance, b->pos, &(clef_relative_bias_opts){.queries = b->B, .keys = b->S, .each = 1});
        rows = clef_reshape(b->g, rows, clef_shape_4(H, b->B, clef_n(1), b->S));
        b->bias = clef__name_value(b, clef_permute(b->g, rows, &(clef_permute_opts){{1, 0, 2, 3}}),
                                   "position_bias");
        return;
    }
    clef_value *pos = b->pos ? clef_slice(b->g, b->pos, &(clef_slice_opts){.axis = 0, .size = clef_n(1)})
                             : NULL; /* all sequences are at the same position */
    clef_value *bias =
        clef_relative_bias(b->g, by_distance, pos, &(clef_relative_bias_opts){.queries = b->T, .keys = b->S});
    b->bias = clef__name_value(b, bias, "position_bias");
}
