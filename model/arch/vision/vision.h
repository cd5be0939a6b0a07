/* What encoders of pictures share. They read b->pixels [B, 3, height, width] and give rows: special tokens
 * first, then the patches, row by row. As in model/arch/layers.h, all accept NULL. */
#ifndef CLEF_MODEL_ARCH_VISION_H
#define CLEF_MODEL_ARCH_VISION_H

#include "model/arch/layers.h"

/** Checks the options of a graph that reads pictures, which has no tokens, caches or adapters. */
clef_status clef__check_picture_opts(const clef_model *model, const clef_build_opts *o, clef_error *err);
/** Adds the input b->pixels. From then on b has the hyperparameters and names of the encoder of pictures. */
void clef__add_pixels(clef_builder *b, const clef_build_opts *o);

/** How the table of position embeddings is stretched to another grid: torch.nn.functional.interpolate()
 *  without align_corners. */
typedef enum clef__stretch {
    CLEF__STRETCH_BICUBIC,           /* a = -3/4 */
    CLEF__STRETCH_BICUBIC_ANTIALIAS, /* a = -1/2, wider where the grid shrinks */
    CLEF__STRETCH_LINEAR_ANTIALIAS
} clef__stretch;

/** The grid of the picture's patches; what is left beside whole patches is not read. */
typedef struct clef__grid {
    int32_t rows, columns;
} clef__grid;
clef__grid clef__grid_of(const clef_builder *b);

/** The embeddings of the patches, [B, patches, d], by the role PATCHES. A patch's numbers are [3, p, p]; with
 *  hp->colours_last [p, p, 3]. */
clef_value *clef__patches(clef_builder *b);
/** Rows first .. of the table of positions, stretched to the picture's grid if its own is another one:
 *  [patches, d]. Their own grid is square. */
clef_value *clef__grid_positions(clef_builder *b, int32_t first, clef__stretch stretch);
/** The table of positions itself, [n, d]. */
clef_value *clef__position_table(clef_builder *b);
/** A stored vector or row of the role as [n, d] in F32. */
clef_value *clef__token_rows(clef_builder *b, clef_role role);
/** Puts tokens [n, d] before the rows of x [B, T, d], and sets b->T. tokens: NULL: none. */
clef_value *clef__put_before(clef_builder *b, clef_value *tokens, clef_value *x);
/** The angle of number k, of D / 2 of a head, of a patch. */
typedef double clef__patch_angle(const clef_builder *b, int32_t row, int32_t column, int32_t k);
/** Makes q and k turn by these angles: sets b->cosines and b->sines [T, 1, D], which hold them twice. The
 *  n_special rows before the patches are not turned. */
void        clef__rotate_patches(clef_builder *b, int32_t n_special, clef__patch_angle *angle);
/** x + scale attention(norm(x)), then the same of the feed-forward; the scales are in families that have
 *  them. */
clef_value *clef__vision_layer(clef_builder *b, clef_value *x);
/** All layers, and the last norm if the family's table has one. Names the result hidden_last. */
clef_value *clef__vision_layers(clef_builder *b, clef_value *x);
/** Row i of x [B, T, d], and the mean of the rows from `first` on: [B, d]. */
clef_value *clef__row(clef_builder *b, clef_value *x, int32_t i);
clef_value *clef__mean_of_rows(clef_builder *b, clef_value *x, int32_t first);
/** x W^T (+ bias) of the role, which has as many rows as the file says: x [B, n_in]. */
clef_value *clef__free_linear(clef_builder *b, clef_value *x, clef_role role, int32_t n_in);

/** Keys of a config.json that all these classes have; `missing` has the values of absent ones. */
typedef struct clef__vision_defaults {
    int32_t d_model, d_ff, n_layers, n_heads, image_size, patch_size;
    double  eps;
    const char *activation;
} clef__vision_defaults;
void clef__json_vision(clef_json_fields *f, clef_hparams *hp, const clef__vision_defaults *missing);

#endif
