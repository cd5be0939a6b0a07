/* What an encoder's hidden states are turned into: embeddings. */
#include <math.h>

#include "graph/value.h"
#include "model/layers.h"

/* x / max(|x|, 1e-12), as torch.nn.functional.normalize: an RMS norm is sqrt(d) times it. */
static clef_value *unit_rows(clef_builder *b, clef_value *x)
{
    const float d = (float)b->hp->d_model;
    x = clef_rms_norm(b->g, x, NULL, &(clef_norm_opts){.eps = 1e-24f / d});
    return clef_affine(b->g, x, &(clef_affine_opts){.scale = 1 / sqrtf(d)});
}

clef_value *clef__pooled(clef_builder *b, clef_value *x, clef_pooling pooling, int32_t normalize)
{
    clef_graph *g = b->g;
    if (pooling == CLEF_POOL_MEAN)
        x = clef_reduce(g, clef_permute(g, x, &(clef_permute_opts){{0, 2, 1}}), &(clef_reduce_opts){CLEF_REDUCE_MEAN}); /* [B, d, 1] */
    else
        x = clef_slice(g, x, &(clef_slice_opts){.axis = 1, .start = pooling == CLEF_POOL_CLS ? 0 : -1, .size = clef_n(1)});
    x = clef_reshape(g, x, clef_shape_2(b->B, clef_n(b->hp->d_model)));
    return normalize ? unit_rows(b, x) : x;
}
