/* Towers that are encoders of pictures of their own (model/arch/vision/), and what is behind them: a
 * connector makes rows for the text model of the encoder's states. */
#ifndef CLEF_MODEL_CONNECTOR_H
#define CLEF_MODEL_CONNECTOR_H

#include "model/tower/tower.h"

/** The patches of a picture. */
typedef struct clef__patches_of {
    int32_t rows, columns;
} clef__patches_of;

typedef struct clef__connector {
    /** The rows of a picture, or of a tile, of so many patches; 0: they or the configuration do not fit. */
    int32_t (*n_rows)(const clef__tower *t, clef__patches_of p);
    const char *needs; /* what does not fit then */
    /** The encoder's states x [B, n, d] as rows [B, rows, d']. */
    clef_value *(*project)(clef__tower *t, clef__patches_of p, clef_value *x);
    int32_t has_layer; /* 1: the configuration's vision_feature_layer says which states; else the last ones */
    int32_t layer;     /* has_layer: its default */
    int32_t last_is_normed; /* has_layer: -1 are the last states after the last norm, not before it */
    int32_t drops_class; /* 1: the first state goes, unless vision_feature_select_strategy is "full" */
} clef__connector;

/** What clef__tower_form needs, for any connector. */
clef_status clef__encoder_read(clef__tower *t, clef_error *err);
clef_status clef__encoder_count(const clef__tower *t, const clef_sight_pixels *px, clef__sight_rows *out,
                                clef_error *err);
clef_status clef__encoder_build(clef__tower *t, clef_error *err);
clef_status clef__encoder_feed(const clef__tower *t, const clef__tower_call *c, clef_error *err);

/** The patches of t's encoder in a picture of this size. */
clef__patches_of clef__encoder_patches(const clef__tower *t, int32_t height, int32_t width);
/** 1 where the states of all patches count, and that of a class token, too. */
int32_t clef__encoder_is_full(const clef__tower *t);

#endif
