/* Rows of pictures in a text model's steps: their inputs, and where they come in. */
#include "model/arch/layers.h"
#include "model/open/model.h"
#include "model/sight/sight.h"

void clef__picture_inputs(clef_builder *b)
{
    static const char *const turns[] = {"turn_time", "turn_height", "turn_width"};
    const clef__sight *s = b->model->sight;
    const clef_dim one = clef_n(1);
    b->is_token = clef_input(b->g, "is_token", CLEF_F32, clef_shape_3(b->B, one, one));
    b->pictures = clef_input(b->g, "pictures", CLEF_F32,
                             clef_shape_3(b->B, clef_n(1 + s->n_deep), clef_n(b->hp->d_model)));
    for (int i = 0; i < 3 && s->sections[0]; i++)
        b->turns[i] = clef_input(b->g, turns[i], CLEF_I32, clef_shape_1(b->B));
    if (s->view != CLEF__SIGHT_CAUSAL)
        b->sees = clef_input(b->g, "sees", CLEF_I32, clef_shape_1(b->B));
    if (b->sees && b->hp->sliding_window)
        b->sees_from = clef_input(b->g, "sees_from", CLEF_I32, clef_shape_2(b->B, one));
}

/* Part i of the rows of pictures: [B, 1, d]. */
static clef_value *picture_part(clef_builder *b, int32_t i)
{
    return clef_slice(b->g, b->pictures, &(clef_slice_opts){.axis = 1, .start = i, .size = clef_n(1)});
}

clef_value *clef__with_pictures(clef_builder *b, clef_value *x)
{
    if (!b->pictures)
        return x;
    x = clef_add(b->g, clef_mul(b->g, x, b->is_token), picture_part(b, 0));
    return clef__name_value(b, x, "embed.pictures");
}

clef_value *clef__with_deep(clef_builder *b, clef_value *x)
{
    const int has = b->pictures && b->layer + 1 < b->pictures->shape.dim[1].n;
    return has ? clef_add(b->g, x, picture_part(b, b->layer + 1)) : x;
}
