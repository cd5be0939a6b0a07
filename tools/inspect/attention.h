/* Attention maps: what the files of `clef attention` share. */
#ifndef CLEF_TOOLS_ATTENTION_H
#define CLEF_TOOLS_ATTENTION_H

#include "tools/inspect/forward.h"

typedef enum attention_kind {
    ATTENTION_SELF,
    ATTENTION_ENCODER,
    ATTENTION_CROSS,
    ATTENTION_POOL, /* of a learned query to all rows: SigLIP's vector of a picture */
    ATTENTION_N_KINDS
} attention_kind;
extern const char *const cli_attention_kinds[]; /* "self", "encoder", "cross", "pool" */

/** For one head: means over the queries that see any key; NaN if a weight is. */
typedef struct attention_summary {
    double entropy;  /* of the weights, in nats */
    double distance; /* between query and key, weighted: in tokens, or in patches; 0 for cross-attention
                        and pooling */
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

/** The picture in place of a text: its rows are special tokens, then patches, row by row. */
typedef struct attention_picture {
    int32_t rows, columns, n_special; /* rows 0: there is no picture */
    int32_t query;                    /* the row that looks; -1: the mean of all rows */
    double  covered_x, covered_y;     /* the share of the picture that patches cover; the rest is at its right
                                         and below */
    const clef_picture *seen;         /* what the model sees; borrowed from the forward */
} attention_picture;

typedef struct attention_maps {
    attention_map *maps;
    int32_t        n;
    char         **source, **target; /* texts of the tokens: of the ids, and of an encoder-decoder's target */
    int32_t        n_source, n_target;
    int32_t        layer, head;      /* as requested; -1: all */
    const char    *title;
    attention_picture picture;
} attention_maps;

/** Runs the model and reads every map of the requested kinds (bit k: kind k). layer -1: all. patch: as of
 *  cli_attention_read_picture(). CLEF_E_NOT_FOUND if there is none. */
clef_status cli_attention_collect(cli_forward *f, uint32_t kinds, int32_t layer, const char *patch,
                                  attention_maps *out, clef_error *err);
void        cli_attention_finish(attention_maps *maps);

/** The grid of patches, and names of the rows: "class token", "patch 3,5". patch_size: the model's. patch:
 *  NULL, or "ROW,COLUMN" of the patch that looks; without it, the class token does, or, in a model that has
 *  none, all rows. CLEF_E_ARG, CLEF_E_NOMEM. */
clef_status cli_attention_read_picture(const cli_forward *f, const char *patch, attention_maps *a,
                                       clef_error *err);
/** The distance of two rows in patches; -1 if one of them is a special token. */
double cli_attention_patches_between(const attention_picture *p, int32_t a, int32_t b);
/** The weights [rows, columns] with which a->picture.query sees the patches, in one head. */
void cli_attention_patches(const attention_maps *a, const attention_map *m, int32_t head, float *out);
/** "layer 3, head 1" */
void cli_attention_head_name(const attention_map *m, int32_t head, char *out, size_t n_out);
/** The page of a picture. */
clef_status cli_attention_picture_html(const attention_maps *a, FILE *to, clef_error *err);
/** Members of JSON that say where the patches are. */
void cli_attention_picture_json(const attention_maps *a, FILE *to, int32_t *n_members);

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
