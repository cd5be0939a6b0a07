/* Positions that are added to embeddings (learned, sinusoidal) or to scores (ALiBi). */
#include <math.h>
#include <stdlib.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

/* I32 [B, T] */
static clef_value *token_positions(clef_builder *b)
{
    return b->positions ? b->positions : clef_positions(b->g, b->pos, &(clef_positions_opts){.length = b->T});
}

static clef_value *learned_positions(clef_builder *b)
{
    const clef_hparams *hp = b->hp;
    const int32_t width = hp->d_embed ? hp->d_embed : hp->d_model;
    const clef_shape shape =
        clef_shape_2(clef_n((int64_t)hp->n_context + hp->position_offset), clef_n(width));
    clef_value *table = clef__role_weight_shaped(b, CLEF_W_POSITIONS, "weight", shape);
    if (!b->pos && !b->positions) /* all positions from 0 on: the first rows of the table */
        return clef_slice(b->g, table,
                          &(clef_slice_opts){.axis = 0, .start = hp->position_offset, .size = b->T});
    if (hp->position_offset)
        table = clef_slice(
            b->g, table,
            &(clef_slice_opts){.axis = 0, .start = hp->position_offset, .size = clef_n(hp->n_context)});
    return clef_gather(b->g, table, token_positions(b), NULL);
}

clef_value *clef__learned_positions(clef_builder *b)
{
    return clef__name_value(b, learned_positions(b), "embed.positions");
}

/* The table [n_context, d], made once for both stacks. */
static clef_value *sinusoid_table(clef_builder *b, int32_t offset)
{
    const int32_t n = b->n_context, d = b->hp->d_model, half = d / 2;
    if (d % 2 || half < 2)
        return clef__graph_fail(b->g, CLEF_E_UNSUPPORTED,
                                "%s: sinusoidal positions: expected an even d_model from 4 on, got %d",
                                clef_model_path(b->model), d);
    float *table = malloc((size_t)n * (size_t)d * sizeof *table);
    if (!table)
        return clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for %d positions",
                                clef_model_path(b->model), n);
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < half; i++) {
            const double rate = offset ? exp(-log(10000) * i / (half - 1)) : pow(10000, -2.0 * i / d);
            table[(size_t)t * (size_t)d + (size_t)i] = (float)sin((t + offset) * rate);
            table[(size_t)t * (size_t)d + (size_t)(half + i)] = (float)cos((t + offset) * rate);
        }
    clef_value *x =
        clef_constant(b->g, "positions.table", CLEF_F32, clef_shape_2(clef_n(n), clef_n(d)), table);
    free(table);
    return x;
}

clef_value *clef__sinusoidal_positions(clef_builder *b, int32_t offset)
{
    if (!b->sinusoids)
        b->sinusoids = sinusoid_table(b, offset);
    clef_value *x = b->pos || b->positions
                        ? clef_gather(b->g, b->sinusoids, token_positions(b), NULL)
                        : clef_slice(b->g, b->sinusoids, &(clef_slice_opts){.axis = 0, .size = b->T});
    return clef__name_value(b, x, "embed.positions");
}

/* The factors of all positions [n_context, 1]. */
static clef_value *query_factors(clef_builder *b)
{
    const clef_hparams *hp = b->hp;
    const int32_t n = b->n_context;
    float *table = malloc((size_t)n * sizeof *table);
    if (!table)
        return clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for %d positions",
                                clef_model_path(b->model), n);
    for (int32_t i = 0; i < n; i++)
        table[i] = (float)(1 + hp->attention_beta * log(1 + floor(((double)i + hp->attention_beta_first) /
                                                                  hp->attention_beta_length)));
    clef_value *x = clef_constant(b->g, "query.factors", CLEF_F32, clef_shape_2(clef_n(n), clef_n(1)), table);
    free(table);
    return x;
}

clef_value *clef__scaled_queries(clef_builder *b, clef_value *q)
{
    if (!q || b->hp->attention_beta == 0 || (b->hp->beta_without_rope && !clef__layer_lacks_rope(b)))
        return q;
    if (!b->query_scales)
        b->query_scales = query_factors(b);
    const int is_placed = b->pos || b->positions;
    const clef_shape shape = clef_shape_4(is_placed ? b->B : clef_n(1), b->T, clef_n(1), clef_n(1));
    clef_value *factors =
        is_placed ? clef_gather(b->g, b->query_scales, token_positions(b), NULL)
                  : clef_slice(b->g, b->query_scales, &(clef_slice_opts){.axis = 0, .size = b->T});
    return clef__name_value(b, clef_mul(b->g, q, clef_reshape(b->g, factors, shape)), "attn.q_scaled");
}

/* Slopes of n heads: 2^(-8 i / n) for a power of two. Else those of the next smaller power, then every second
 * of the next larger. */
static void alibi_slopes(int32_t n, float *out)
{
    int32_t whole = 1;
    while (2 * whole <= n)
        whole *= 2;
    for (int32_t i = 0; i < n; i++)
        out[i] = (float)(i < whole ? pow(2, -8.0 * (i + 1) / whole)
                                   : pow(2, -4.0 * (2 * (i - whole) + 1) / whole));
}

void clef__alibi(clef_builder *b)
{
    const int32_t H = b->hp->n_heads, n = b->n_context;
    float *numbers = malloc(((size_t)H + (size_t)n) * sizeof *numbers);
    if (!numbers) {
        clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for %d positions", clef_model_path(b->model), n);
        return;
    }
    alibi_slopes(H, numbers);
    for (int32_t i = 0; i < n; i++)
        numbers[H + i] = (float)i;
    clef_value *slopes =
        clef_constant(b->g, "alibi.slopes", CLEF_F32, clef_shape_3(clef_n(H), clef_n(1), clef_n(1)), numbers);
    clef_value *places =
        clef_constant(b->g, "alibi.positions", CLEF_F32, clef_shape_1(clef_n(n)), numbers + H);
    free(numbers);
    clef_value *bias =
        clef_mul(b->g, slopes, clef_slice(b->g, places, &(clef_slice_opts){.axis = 0, .size = b->S}));
    b->bias = clef__name_value(b, bias, "position_bias");
}
