/* The layer behind a model's own that predicts further tokens (multi-token prediction, arXiv:2412.19437): its
 * input at position i is a projection of the embedding of token i + 1 and the model's hidden state of
 * position i, each with a norm of its own. It predicts token i + 2, by the model's output matrix. */
#include "model/arch/layers.h"
#include "model/open/model.h"

int clef__has_further_layer(const clef_model *model)
{
    const clef_arch *arch = clef__arch_find(model->hparams.arch, model->is_gguf);
    const int32_t layer = model->hparams.n_layers;
    char name[CLEF_WEIGHT_NAME_BYTES];
    return arch->layer && layer < CLEF_MAX_LAYERS &&
           clef__weight_name(arch, &arch->weights, CLEF_W_FURTHER_PROJECTION, model->is_gguf, layer, "weight",
                             name) &&
           clef__model_find(model, name);
}

clef_status clef__check_further_opts(const clef_model *model, const clef_build_opts *o, clef_error *err)
{
    if (o->mtp && (o->train || o->for_export || o->padding_mask || o->pooling || o->classify))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: multi-token prediction: expected a graph that generates text", model->path);
    if (o->mtp && !clef__has_further_layer(model))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: multi-token prediction: expected a layer that predicts further tokens, this "
                          "model of type %s has none that clef knows",
                          model->path, model->hparams.arch);
    return CLEF_OK;
}

/* [B, T, d], as a layer of the model reads it. */
static clef_value *input_of(clef_builder *b, clef_value *embedded)
{
    const int32_t d = b->hp->d_model;
    clef_value *hidden = clef_input(b->g, "hidden", CLEF_F32, clef_shape_3(b->B, b->T, clef_n(d)));
    clef_value *x =
        clef_concat(b->g, clef__norm(b, embedded, CLEF_W_FURTHER_EMBED_NORM),
                    clef__norm(b, hidden, CLEF_W_FURTHER_HIDDEN_NORM), &(clef_concat_opts){.axis = 2});
    return clef__linear(b, x, CLEF_W_FURTHER_PROJECTION, 2 * d, d);
}

clef_value *clef__further_layer(clef_builder *b)
{
    clef_value *x = clef__embed(b);
    b->layer = b->hp->n_layers;
    clef_scope_push(b->g, "layer%d", b->layer);
    x = clef_named(b->arch->layer(b, input_of(b, x)), "out");
    clef_scope_pop(b->g);
    x = clef__norm(b, clef__wanted_positions(b, x), CLEF_W_FURTHER_NORM);
    clef_output(b->g, "next_hidden", x);
    return clef__lm_head(b, x);
}
