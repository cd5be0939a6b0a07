/* DeBERTa 2 and 3 (arXiv:2006.03654, 2111.09543): BERT's blocks, whose scores have two parts more, by the
 * distance of query and key: the query with the key's position, and the key with the query's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

/* Bits of hp->disentangled; the last two are about the table of distances. */
enum { BY_KEY_PLACE = 1, BY_QUERY_PLACE = 2, OWN_PROJECTIONS = 4, NORMED = 8, MOST_CONTEXT = 4096 };

static const clef_arch_alias names[] = {{"deberta-v2", "deberta-v2", -1, -1}, {NULL, NULL, 0, 0}};

static const clef_gguf_name gguf_names[] = {{CLEF_W_RELATIVE, "attn_rel_b"},
                                            {CLEF_W_ATTN_POST_NORM, "blk.%d.attn_output_norm"},
                                            {CLEF_W_FFN_POST_NORM, "blk.%d.layer_output_norm"},
                                            {0, NULL}};

static const char *const weights[CLEF_N_ROLES] = {
    [CLEF_W_EMBED] = "embeddings.word_embeddings",
    [CLEF_W_EMBED_NORM] = "embeddings.LayerNorm",
    [CLEF_W_EMBED_TYPES] = "embeddings.token_type_embeddings",
    [CLEF_W_EMBED_PROJECTION] = "embeddings.embed_proj",
    [CLEF_W_POSITIONS] = "embeddings.position_embeddings",
    [CLEF_W_RELATIVE] = "encoder.rel_embeddings",
    [CLEF_W_RELATIVE_NORM] = "encoder.LayerNorm",
    [CLEF_W_RELATIVE_K] = "encoder.layer.%d.attention.self.pos_key_proj",
    [CLEF_W_RELATIVE_Q] = "encoder.layer.%d.attention.self.pos_query_proj",
    [CLEF_W_ATTN_Q] = "encoder.layer.%d.attention.self.query_proj",
    [CLEF_W_ATTN_K] = "encoder.layer.%d.attention.self.key_proj",
    [CLEF_W_ATTN_V] = "encoder.layer.%d.attention.self.value_proj",
    [CLEF_W_ATTN_OUT] = "encoder.layer.%d.attention.output.dense",
    [CLEF_W_ATTN_POST_NORM] = "encoder.layer.%d.attention.output.LayerNorm",
    [CLEF_W_FFN_UP] = "encoder.layer.%d.intermediate.dense",
    [CLEF_W_FFN_DOWN] = "encoder.layer.%d.output.dense",
    [CLEF_W_FFN_POST_NORM] = "encoder.layer.%d.output.LayerNorm",
    [CLEF_W_HEAD_DENSE] = "/cls.predictions.transform.dense",
    [CLEF_W_HEAD_NORM] = "/cls.predictions.transform.LayerNorm",
    [CLEF_W_OUT] = "cls.predictions",
};

/* ---- distances ---------------------------------------------------------------------------------- */

/* Rows of the table for distances to one side. */
static int32_t span_of(const clef_hparams *hp)
{
    return hp->n_buckets > 0 ? hp->n_buckets : hp->max_distance;
}

/* The bucket of query minus key: itself when small, else logarithmic. Computed in float, as in training. */
static int32_t bucket_of(const clef_hparams *hp, int32_t distance)
{
    const int32_t mid = hp->n_buckets / 2, far = distance < 0 ? -distance : distance;
    if (hp->n_buckets == 0 || far <= mid)
        return distance;
    const float all = logf((float)((double)(hp->max_distance - 1) / mid));
    const int32_t i = (int32_t)ceilf(logf((float)far / (float)mid) / all * (float)(mid - 1)) + mid;
    return distance < 0 ? -i : i;
}

/* The row of the table for each pair of places, [T, T]. turned: 1: of keys with queries. */
static clef_value *rows_of_pairs(clef_builder *b, int turned)
{
    const char *name = turned ? "relative.of_keys" : "relative.of_queries";
    const int32_t n = b->n_context, span = span_of(b->hp);
    clef_value *all = clef_graph_find(b->g, name);
    if (!all && n > MOST_CONTEXT)
        return clef__graph_fail(b->g, CLEF_E_UNSUPPORTED, "%s: %s has a context of %d, expected at most %d",
                                clef_model_path(b->model), b->hp->arch, n, MOST_CONTEXT);
    int32_t *rows = all ? NULL : malloc((size_t)n * (size_t)n * sizeof *rows);
    if (!all && !rows)
        return clef__graph_fail(b->g, CLEF_E_NOMEM, "%s: no memory for %d distances",
                                clef_model_path(b->model), n);
    for (int32_t i = 0; rows && i < n * n; i++) {
        const int32_t by = bucket_of(b->hp, i / n - i % n), row = (turned ? -by : by) + span;
        rows[i] = row < 0 ? 0 : row < 2 * span ? row : 2 * span - 1;
    }
    if (!all)
        all = clef_constant(b->g, name, CLEF_I32, clef_shape_2(clef_n(n), clef_n(n)), rows);
    free(rows);
    all = clef_slice(b->g, all, &(clef_slice_opts){.axis = 0, .size = b->T});
    all = clef_slice(b->g, all, &(clef_slice_opts){.axis = 1, .size = b->T});
    return clef_reshape(b->g, clef_copy(b->g, all), clef_shape_4(clef_n(1), clef_n(1), b->T, b->T));
}

/* The table's rows as heads [1, H, 2 span, D], by the projection of queries or keys, or by their own. */
static clef_value *places(clef_builder *b, clef_role shared, clef_role own)
{
    const clef_hparams *hp = b->hp;
    const clef_dim n = clef_n(2 * span_of(hp));
    clef_value *x =
        clef__role_weight_shaped(b, CLEF_W_RELATIVE, "weight", clef_shape_2(n, clef_n(hp->d_model)));
    if (hp->disentangled & NORMED)
        x = clef__norm(b, clef__in_floats(b->g, x), CLEF_W_RELATIVE_NORM);
    x = clef__linear(b, x, hp->disentangled & OWN_PROJECTIONS ? own : shared, hp->d_model, hp->d_model);
    x = clef_reshape(b->g, x, clef_shape_4(clef_n(1), n, clef_n(hp->n_heads), clef_n(hp->head_dim)));
    return clef_permute(b->g, x, &(clef_permute_opts){{0, 2, 1, 3}});
}

/* x [B, H, T, D] with the place of each other token: [B, H, T, T]. */
static clef_value *with_places(clef_builder *b, clef_value *x, clef_value *table, int turned, float scale)
{
    x = clef_matmul(b->g, x, table, NULL, &(clef_matmul_opts){.transpose_b = 1, .alpha = scale});
    return clef_gather_elements(b->g, x, rows_of_pairs(b, turned));
}

/* ---- layers ------------------------------------------------------------------------------------- */

static clef_value *heads(clef_builder *b, clef_value *x, clef_role role)
{
    return clef_permute(b->g, clef__heads(b, x, role, CLEF_N_ROLES, b->hp->n_heads),
                        &(clef_permute_opts){{0, 2, 1, 3}});
}

static clef_value *attention(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    const int parts = hp->disentangled & (BY_KEY_PLACE | BY_QUERY_PLACE);
    const float scale = 1 / sqrtf((float)hp->head_dim * (float)(1 + (parts & 1) + (parts >> 1)));
    clef_value *q = heads(b, x, CLEF_W_ATTN_Q), *k = heads(b, x, CLEF_W_ATTN_K),
               *v = heads(b, x, CLEF_W_ATTN_V);
    clef_value *y = clef_matmul(g, q, k, NULL, &(clef_matmul_opts){.transpose_b = 1, .alpha = scale});
    if (parts & BY_KEY_PLACE)
        y = clef_add(g, y, with_places(b, q, places(b, CLEF_W_ATTN_K, CLEF_W_RELATIVE_K), 0, scale));
    if (parts & BY_QUERY_PLACE)
        y = clef_add(g, y,
                     clef_permute(g, with_places(b, k, places(b, CLEF_W_ATTN_Q, CLEF_W_RELATIVE_Q), 1, scale),
                                  &(clef_permute_opts){{0, 1, 3, 2}}));
    y = clef__name_value(b, y, "attn.scores");
    y = clef__name_value(b, clef_softmax(g, y, b->mask, NULL, NULL), "attention");
    y = clef_permute(g, clef_matmul(g, y, v, NULL, NULL), &(clef_permute_opts){{0, 2, 1, 3}});
    y = clef_reshape(g, y, clef_shape_3(b->B, b->T, clef_n(hp->d_model)));
    return clef__linear(b, clef__name_value(b, y, "attn.heads"), CLEF_W_ATTN_OUT, hp->d_model, hp->d_model);
}

static clef_value *layer(clef_builder *b, clef_value *x)
{
    return clef__post_norm_layer(b, x, attention, clef__feed_forward);
}

static clef_value *embeddings(clef_builder *b)
{
    clef_graph *g = b->g;
    const clef_hparams *hp = b->hp;
    const int32_t width = hp->d_embed ? hp->d_embed : hp->d_model;
    clef_value *x = clef__embed(b);
    if (clef__has_weight(b, CLEF_W_POSITIONS, "weight"))
        x = clef_add(g, x, clef__learned_positions(b));
    if (hp->n_token_types > 0) {
        clef_value *types = clef__role_weight_shaped(b, CLEF_W_EMBED_TYPES, "weight",
                                                     clef_shape_2(clef_n(hp->n_token_types), clef_n(width)));
        x = clef_add(g, x,
                     b->types ? clef_gather(g, types, b->types, NULL)
                              : clef_slice(g, types, &(clef_slice_opts){.axis = 0, .size = clef_n(1)}));
    }
    if (width != hp->d_model)
        x = clef__linear(b, x, CLEF_W_EMBED_PROJECTION, width, hp->d_model);
    return clef__norm(b, x, CLEF_W_EMBED_NORM);
}

static clef_value *build(clef_builder *b)
{
    if (b->loras)
        return clef__graph_fail(b->g, CLEF_E_UNSUPPORTED,
                                "%s: adapters of %s are not supported: they would change the positions, too",
                                clef_model_path(b->model), b->hp->arch);
    clef_value *x = clef_named(clef__layers(b, embeddings(b), b->hp->n_layers, layer), "/hidden_last");
    return b->no_head ? x : clef__masked_lm_head(b, x);
}

/* ---- configuration ------------------------------------------------------------------------------ */

/* pos_att_type: a list, or a text with bars. */
static void read_parts(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *list = clef__json_get(f, "pos_att_type");
    const char *text = json_is_array(list) ? NULL : clef__json_string(f, "pos_att_type", "");
    static const char *const names_of_parts[] = {"c2p", "p2c"};
    size_t found = 0;
    for (int i = 0; i < 2; i++) {
        int has = text && strstr(text, names_of_parts[i]);
        for (size_t k = 0; k < json_array_size(list); k++) {
            const char *item = json_string_value(json_array_get(list, k));
            has |= item && strcmp(item, names_of_parts[i]) == 0;
        }
        hp->disentangled |= has ? 1 << i : 0;
        found += (size_t)has;
    }
    if (json_array_size(list) > found)
        clef__json_refuse(f, "pos_att_type: expected c2p, p2c or both");
}

static void read_distances(clef_json_fields *f, clef_hparams *hp)
{
    const char *norm = clef__json_string(f, "norm_rel_ebd", "none");
    const int64_t most = clef__json_int(f, "max_relative_positions", INT32_MIN, CLEF_MAX_CONTEXT, -1),
                  n = clef__json_int(f, "position_buckets", INT32_MIN, CLEF_MAX_WIDTH, -1);
    const int is_shared = clef__json_bool(f, "share_att_key", 0);
    hp->max_distance = most < 1 ? hp->n_context : (int32_t)most;
    hp->n_buckets = n > 0 ? (int32_t)n : 0;
    read_parts(f, hp);
    hp->disentangled |= (is_shared ? 0 : OWN_PROJECTIONS) | (norm && strstr(norm, "layer_norm") ? NORMED : 0);
    if (hp->n_buckets == 1 || (hp->n_buckets > 0 && hp->max_distance - 1 <= hp->n_buckets / 2))
        clef__json_refuse(f, "position_buckets: expected at least 2, and half of it below the distances");
    if (!clef__json_bool(f, "relative_attention", 0))
        clef__json_refuse(f, "relative_attention false is not supported");
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_sizes(f, hp);
    hp->norm_eps = (float)clef__json_double(f, "layer_norm_eps", 0, 1, 1e-7);
    hp->tied_embeddings = clef__json_bool(f, "tie_word_embeddings", 1);
    hp->n_token_types = (int32_t)clef__json_int(f, "type_vocab_size", 0, CLEF_MAX_WIDTH, 0);
    hp->d_embed = (int32_t)clef__json_int(f, "embedding_size", 1, CLEF_MAX_WIDTH, hp->d_model);
    clef__json_activation(f, hp, "hidden_act", "gelu");
    read_distances(f, hp);
    const int32_t pooled = (int32_t)clef__json_int(f, "pooler_hidden_size", 1, CLEF_MAX_WIDTH, hp->d_model),
                  head = (int32_t)clef__json_int(f, "attention_head_size", 1, CLEF_MAX_WIDTH, hp->head_dim);
    if (pooled != hp->d_model || head != hp->head_dim)
        clef__json_refuse(f, "pooler_hidden_size and attention_head_size: expected those of hidden_size");
    if (clef__json_int(f, "conv_kernel_size", INT32_MIN, CLEF_MAX_WIDTH, 0) > 0)
        clef__json_refuse(f, "conv_kernel_size above 0 is not supported");
    clef__json_refuse_flag(f, "legacy", 1, 1);
    hp->position_offset = 0;
}

static void read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    const clef_tensor_info *embedding = clef__gguf_tensor(k->gguf, "token_embd.weight");
    hp->tied_embeddings = 1;
    hp->rope.dims = 0;
    if (embedding && embedding->dims[1] != hp->d_model)
        hp->d_embed = (int32_t)embedding->dims[1];
}

const clef_arch clef__arch_deberta = {
    .names = names,
    .kind = CLEF_ENCODER,
    .weights = {.hf = weights, .gguf = gguf_names},
    .hf_prefix = "deberta.",
    .layer_norms = 1,
    .gguf_activation = CLEF_GELU,
    .read_json = read_json,
    .read_gguf = read_gguf,
    .build = build,
};
