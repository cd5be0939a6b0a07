/* The keys of a quantised file (ggml's docs/gguf.md): another GGUF file's, or made of a folder's config. */
#include <stdio.h>
#include <string.h>

#include "model/config.h"
#include "model/quantize.h"

enum { QUANTIZATION_VERSION = 2 };

/* Keys that are said anew, or that hold no longer. */
static int is_dropped(const clef_gguf_string *key)
{
    static const char *const dropped[] = {"general.file_type", "general.quantization_version", "general.alignment"};
    if (key->n_bytes > 6 && memcmp(key->text, "split.", 6) == 0)
        return 1;
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        if (strlen(dropped[i]) == key->n_bytes && memcmp(dropped[i], key->text, key->n_bytes) == 0)
            return 1;
    return 0;
}

/* ---- keys of the architecture ------------------------------------------------------------------------------------------------------ */

typedef struct arch_keys {
    clef_gguf_writer *w;
    const char *arch;
    char key[96];
} arch_keys;

static const char *key_of(arch_keys *k, const char *name)
{
    snprintf(k->key, sizeof k->key, "%s.%s", k->arch, name);
    return k->key;
}

static void put_int(arch_keys *k, const char *name, int32_t x)
{
    clef__gguf_put_u32(k->w, key_of(k, name), (uint32_t)x);
}

static void put_float(arch_keys *k, const char *name, double x)
{
    clef__gguf_put_f32(k->w, key_of(k, name), (float)x);
}

static void put_rope(arch_keys *k, const clef_hparams *hp)
{
    put_int(k, "rope.dimension_count", hp->rope.dims);
    put_float(k, "rope.freq_base", hp->rope.theta);
    if (hp->rope.type == CLEF_ROPE_LINEAR) {
        clef__gguf_put_text(k->w, key_of(k, "rope.scaling.type"), "linear");
        put_float(k, "rope.scaling.factor", hp->rope.factor);
    }
}

static void put_hparams(clef_gguf_writer *w, const clef_hparams *hp)
{
    arch_keys k = {.w = w, .arch = clef__quantize_arch(hp)};
    const int is_gpt2 = strcmp(k.arch, "gpt2") == 0;
    put_int(&k, "context_length", hp->n_context);
    put_int(&k, "embedding_length", hp->d_model);
    put_int(&k, "block_count", hp->n_layers);
    put_int(&k, "feed_forward_length", hp->d_ff);
    put_int(&k, "attention.head_count", hp->n_heads);
    put_float(&k, is_gpt2 ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", (double)hp->norm_eps);
    if (is_gpt2)
        return;
    put_int(&k, "attention.head_count_kv", hp->n_kv_heads);
    put_int(&k, "attention.key_length", hp->head_dim);
    put_int(&k, "attention.value_length", hp->head_dim);
    put_int(&k, "vocab_size", hp->n_vocab);
    if (hp->sliding_window > 0)
        put_int(&k, "attention.sliding_window", hp->sliding_window);
    put_rope(&k, hp);
}

static void put_marks(clef_gguf_writer *w, const clef_hparams *hp)
{
    if (hp->bos >= 0)
        clef__gguf_put_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)hp->bos);
    if (hp->eos >= 0)
        clef__gguf_put_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)hp->eos);
    if (hp->n_eos_more > 0)
        clef__gguf_put_u32(w, "tokenizer.ggml.eot_token_id", (uint32_t)hp->eos_more[0]);
    if (hp->n_eos_more > 1)
        clef__gguf_put_u32(w, "tokenizer.ggml.eom_token_id", (uint32_t)hp->eos_more[1]);
}

static clef_status put_folder_keys(const clef_model *m, clef_gguf_writer *w, clef_error *err)
{
    const clef_hparams *hp = &m->hparams;
    for (int32_t i = 0; i < hp->n_layers && hp->sliding_window > 0; i++)
        if (!clef__layer_slides(hp, i))
            return clef__fail(err, CLEF_E_UNSUPPORTED,
                              "%s: a sliding window in some layers alone cannot be said in GGUF, wanted one for all layers",
                              clef_model_path(m));
    clef__gguf_put_text(w, "general.architecture", clef__quantize_arch(hp));
    if (hp->name[0])
        clef__gguf_put_text(w, "general.name", hp->name);
    put_hparams(w, hp);
    put_marks(w, hp);
    return clef__quantize_tokenizer(m, w, err);
}

clef_status clef__quantize_keys(const clef_model *model, const clef_quantize_type_def *type, clef_gguf_writer *w, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (uint64_t i = 0; i < model->gguf.n_entries; i++)
        if (!is_dropped(&model->gguf.entries[i].key))
            clef__gguf_put_entry(w, &model->gguf.entries[i]);
    if (!model->is_gguf)
        status = put_folder_keys(model, w, err);
    clef__gguf_put_u32(w, "general.file_type", type->file_type);
    clef__gguf_put_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    return status;
}
