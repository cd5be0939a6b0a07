/* EXAONE 4 (arXiv:2507.11407): norms of the blocks' results and of each head's q and k; RoPE in the layers
 * with a window alone. */
#include "model/arch/layers.h"

static const clef_arch_alias exaone4_names[] = {{"exaone4", "exaone4", 0, 2}, {NULL, NULL, 0, 0}};

void clef__json_exaone4(clef_json_fields *f, clef_hparams *hp)
{
    clef__json_llama_with(f, hp, 10000, 1e-5, 0);
    clef__json_window(f, hp, 4096);
    if (!clef__json_layer_types(f, hp, NULL)) {
        if (hp->sliding_window == 0)
            clef__json_refuse(f, "no layer_types and no sliding_window: expected one of them");
        clef__slide_but(hp, -1, (int32_t)clef__json_int(f, "sliding_window_pattern", 1, CLEF_MAX_LAYERS, 4));
    }
    clef__rope_in_windows(hp);
}

void clef__exaone4_read_gguf(clef_gguf_keys *k, clef_hparams *hp)
{
    if (hp->sliding_window > 0)
        clef__key_windows(k, hp, -1, 4);
    clef__rope_in_windows(hp);
}

const clef_arch clef__arch_exaone4 = {
    .names = exaone4_names,
    .weights = {.hf = clef__olmo2_weights},
    .hf_prefix = "model.",
    .read_json = clef__json_exaone4,
    .read_gguf = clef__exaone4_read_gguf,
    .layer = clef__llama_layer,
};
