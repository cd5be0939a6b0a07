/* EuroBERT (arXiv:2503.05500): a Llama whose tokens see each other. */
#include "model/arch/layers.h"

static const clef_arch_alias names[] = {{"eurobert", "eurobert", 128000, 128001}, {NULL, NULL, 0, 0}};

static clef_value *build(clef_builder *b)
{
    clef_value *x = clef__layers(b, clef__embed(b), b->hp->n_layers, clef__llama_layer);
    x = clef_named(clef__norm(b, x, CLEF_W_OUT_NORM), "/hidden_last");
    return b->no_head ? x : clef__lm_head(b, x);
}

static void read_json(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama_with(f, hp, 10000, 1e-5, 0);
}

const clef_arch clef__arch_eurobert = {
    .names = names,
    .kind = CLEF_ENCODER,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .read_json = read_json,
    .build = build,
};
