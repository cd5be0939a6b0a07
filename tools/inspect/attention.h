/* Attention maps: what the files of `clef attention` share. */
#ifndef CLEF_TOOLS_ATTENTION_H
#define CLEF_TOOLS_ATTENTION_H

#include "tools/inspect/forward.h"

typedef enum attention_kind {
    ATTENTION_SELF,
    ATTENTION_ENCODER,
    ATTENTION_CROSS,
    ATTENTION_N_KINDS
} attention_kind;
extern const char *const cli_attention_kinds[]; /* "self", "encoder", "cross" */

/** For one head: means over the queries that see any key; NaN if a weight is. */
typedef struct attention_summary {
    double entropy;  /* of the weights, in nats */
    double distance; /* between query and key, weighted; 0 for cross-attention */
    double first;    /* weight of the first key */
} attention_summary;

/** Weights [H, T, S] of one layer; a row is a query. */
typedef struct attention_map {
    char           *name; /* the value's name in the graph */
    attention_kind  kind;
    int32_t         layer, n_heads, n_queries, n_keys;
    float          *weights;
    attention_summary *heads;
} attention_map;

typedef struct attention_maps {
    attention_map *maps;
    int32_t        n;
    char         **source, **target; /* texts of the tokens: of the ids, and of an encoder-decoder's target */
    int32_t        n_source, n_target;
    int32_t        layer, head;      /* as requested; -1: all */
    const char    *title;
} attention_maps;

/** Runs the model and reads every map of the requested kinds (bit k: kind k). layer -1: all. CLEF_E_NOT_FOUND
 *  if there is none. */
clef_status cli_attention_collect(cli_forward *f, uint32_t kinds, int32_t layer, attention_maps *out,
                                  clef_error *err);
void        cli_attention_finish(attention_maps *maps);

/** Texts of the tokens of a map's rows and columns. */
char **cli_attention_row_texts(const attention_maps *a, const attention_map *m);
char **cli_attention_column_texts(const attention_maps *a, const attention_map *m);
static inline const float *cli_attention_head(const attention_map *m, int32_t head)
{
    return m->weights + (size_t)head * (size_t)m->n_queries * (size_t)m->n_keys;
}

/* The forms of the result; `a` is an attention_maps. */
clef_status cli_attention_text(void *a, FILE *to, clef_error *err); /* summaries; the heads as blocks where a
                                                                       layer is asked for */
clef_status cli_attention_json(void *a, FILE *to, clef_error *err);
clef_status cli_attention_npy(void *a, FILE *to, clef_error *err);  /* [layers, heads, queries, keys] of one
                                                                       kind */
clef_status cli_attention_svg(void *a, FILE *to, clef_error *err);
clef_status cli_attention_png(void *a, FILE *to, clef_error *err);
clef_status cli_attention_html(void *a, FILE *to, clef_error *err);

#endif
