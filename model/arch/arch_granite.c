/* Granite (IBM 2024) scales embeddings, scores, the blocks' results, and logits. */
#include "model/arch/layers.h"

static const clef_arch_alias granite_names[] = {{"granite", "granite", 1, 2}, {NULL, NULL, 0, 0}};

static void granite_read_json(clef_json_fields *f, clef_hparams *hp)
{
    const double least = 1e-9, most = 1e9;
    clef__json_llama(f, hp, 10000);
    hp->embed_scale = (float)clef__json_double(f, "embedding_multiplier", least, most, 1);
    hp->residual_scale = (float)clef__json_double(f, "residual_multiplier", least, most, 1);
    hp->attention_scale = (float)clef__json_double(f, "attention_multiplier", least, most, 1);
    hp->logit_scale = (float)(1 / clef__json_double(f, "logits_scaling", least, most, 1));
}

static void granite_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    if (!clef__key_int(k, "rope.scaling.finetuned", 0, 1, 1)) /* Granite's switch for RoPE */
        hp->rope.dims = 0;
    if (hp->logit_scale > 0) /* Granite's divides */
        hp->logit_scale = 1 / hp->logit_scale;
}

const clef_arch clef__arch_granite = {
    .names = granite_names,
    .weights = {.hf = clef__llama_weights},
    .hf_prefix = "model.",
    .gguf_pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES,
    .read_json = granite_read_json,
    .read_gguf = granite_read_gguf,
    .layer = clef__llama_layer,
};
