/* Reads hyperparameters from Hugging Face's config.json, and has the checks for hyperparameters of all
 * sources. */
#include "model/open/config.h"

#include <inttypes.h>
#include <string.h>

#include "model/open/arch.h"

/* ---- checks ---------------------------------------------------------------------------------- */

clef_status clef__config_check(const clef_hparams *hp, const char *file, clef_error *err)
{
    if (hp->n_heads % hp->n_kv_heads != 0)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: %" PRId32 " attention heads over %" PRId32
                          " key-value heads, expected a multiple",
                          file, hp->n_heads, hp->n_kv_heads);
    if ((int64_t)hp->n_heads * hp->head_dim > CLEF_MAX_WIDTH)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: %" PRId32 " heads of %" PRId32 " dims, expected at most %d dims together",
                          file, hp->n_heads, hp->head_dim, CLEF_MAX_WIDTH);
    if (hp->n_experts_used > hp->n_experts)
        return clef__fail(err, CLEF_E_FORMAT, "%s: %" PRId32 " experts a token of %" PRId32 " experts", file,
                          hp->n_experts_used, hp->n_experts);
    const clef_rope_params *const ropes[] = {&hp->rope, &hp->rope_sliding};
    for (int i = 0; i < 2; i++) {
        const clef_rope_params *r = ropes[i];
        if (r->dims < 0 || r->dims % 2 != 0 ||
            r->dims > (hp->full_head_dim > hp->head_dim ? hp->full_head_dim : hp->head_dim))
            return clef__fail(err, CLEF_E_FORMAT,
                              "%s: rotates %" PRId32 " dims of a head of %" PRId32
                              ", expected an even number within it",
                              file, r->dims, hp->head_dim);
        if (r->type == CLEF_ROPE_LLAMA3 && !(r->high_freq_factor > r->low_freq_factor))
            return clef__fail(err, CLEF_E_FORMAT,
                              "%s: rope high_freq_factor %g is not above low_freq_factor %g", file,
                              r->high_freq_factor, r->low_freq_factor);
        if (r->type == CLEF_ROPE_YARN && !(r->beta_fast > r->beta_slow))
            return clef__fail(err, CLEF_E_FORMAT, "%s: rope beta_fast %g is not above beta_slow %g", file,
                              r->beta_fast, r->beta_slow);
    }
    return CLEF_OK;
}

void clef__config_text(const char *text, char *out, size_t capacity)
{
    size_t n = strlen(text);
    if (n >= capacity) {
        n = capacity - 1;
        while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) /* text[n] is the first byte that is cut
                                                                    off */
            n--;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = text[i];
    out[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)out[i] < 0x20 || out[i] == 0x7F)
            out[i] = '?';
}

int clef__layer_slides(const clef_hparams *hp, int32_t layer)
{
    return layer >= 0 && layer < CLEF_MAX_LAYERS && (hp->sliding_layers[layer / 32] >> (layer % 32) & 1);
}

void clef__slide_layers(clef_hparams *hp, int32_t first, int32_t step)
{
    for (int32_t i = first; i < hp->n_layers && i < CLEF_MAX_LAYERS; i += step)
        hp->sliding_layers[i / 32] |= 1u << (i % 32);
}

void clef__slide_but(clef_hparams *hp, int32_t first, int32_t step)
{
    for (int32_t i = 0; i < hp->n_layers && i < CLEF_MAX_LAYERS; i++)
        if (i % step != (first < 0 ? step + first : first))
            hp->sliding_layers[i / 32] |= 1u << (i % 32);
}

/* ---- token ids ------------------------------------------------------------------------------- */

static int has_failed(const clef_json_fields *f)
{
    return f->status != CLEF_OK;
}

/* A token id; -1 when it is null, absent or negative. */
static int32_t token_id(clef_json_fields *f, const char *key, int32_t missing)
{
    const int64_t id = clef__json_int(f, key, INT32_MIN, INT32_MAX, missing);
    return id < 0 ? -1 : (int32_t)id;
}

static void read_eos(clef_json_fields *f, clef_hparams *hp)
{
    const json_t *eos = json_object_get(f->object, "eos_token_id");
    const size_t n = json_array_size(eos); /* 0 if it is not an array */
    if (has_failed(f) || !clef__json_has(f, "eos_token_id"))
        return;
    hp->n_eos_more = 0;
    if (!json_is_array(eos)) {
        hp->eos = token_id(f, "eos_token_id", -1);
        return;
    }
    hp->eos = -1;
    if (n > 1 + sizeof hp->eos_more / sizeof *hp->eos_more) {
        f->status =
            clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: eos_token_id lists %zu ids, expected at most %zu",
                       f->file, n, 1 + sizeof hp->eos_more / sizeof *hp->eos_more);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(eos, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX) {
            f->status =
                clef__fail(f->err, CLEF_E_FORMAT, "%s: eos_token_id[%zu] is not a token id", f->file, i);
            return;
        }
        if (i == 0)
            hp->eos = (int32_t)json_integer_value(id);
        else
            hp->eos_more[hp->n_eos_more++] = (int32_t)json_integer_value(id);
    }
}

static void read_marks(clef_json_fields *f, clef_hparams *hp)
{
    hp->bos = token_id(f, "bos_token_id", hp->bos);
    read_eos(f, hp);
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* GPTQ, AWQ, bitsandbytes: the weights are packed in ways that the dtypes do not show. */
static void refuse_quantized(clef_json_fields *f, const clef_arch *arch)
{
    const json_t *quantization = json_object_get(f->object, "quantization_config");
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    const int is_known = arch->packed && method && strcmp(method, arch->packed) == 0;
    if (!has_failed(f) && clef__json_has(f, "quantization_config") && !is_known)
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED, "%s: quantization_config (%.40s) is not supported",
                               f->file, method ? method : "no quant_method");
}

clef_status clef__config_from_json(const json_t *config, const json_t *generation, const char *file,
                                   clef_hparams *hp, clef_error *err)
{
    clef_json_fields f = {.object = config, .file = file, .err = err};
    if (!json_is_object(config))
        return clef__fail(err, CLEF_E_FORMAT, "%s: is %s, expected an object", file, clef__json_kind(config));
    clef__config_text(clef__json_string(&f, "model_type", ""), hp->arch, sizeof hp->arch);
    if (has_failed(&f))
        return f.status;
    const clef_arch *arch = clef__arch_find(hp->arch, 0);
    if (!arch)
        return clef__arch_unknown(hp->arch, file, err);
    if (!arch->read_json)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: model_type %s is only supported as a GGUF file", file,
                          hp->arch);

    const clef_arch_alias *name = clef__arch_alias(arch, hp->arch, 0);
    hp->bos = json_object_get(config, "bos_token_id") ? -1 : name->bos;
    hp->eos = json_object_get(config, "eos_token_id") ? -1 : name->eos;
    hp->forced_bos = token_id(&f, "forced_bos_token_id", -1);
    hp->n_vocab = (int32_t)clef__json_need_int(&f, "vocab_size", 1, CLEF_MAX_VOCAB);
    arch->read_json(&f, hp);
    read_marks(&f, hp);
    refuse_quantized(&f, arch);
    if (has_failed(&f))
        return f.status;
    if (json_is_object(generation)) {
        clef_json_fields g = {.object = generation, .file = "generation_config.json", .err = err};
        read_marks(&g, hp);
        hp->forced_bos = token_id(&g, "forced_bos_token_id", -1); /* if this file exists, transformers does
                                                                     not read the key from the other */
        hp->decoder_start = token_id(&g, "decoder_start_token_id", hp->decoder_start);
        if (has_failed(&g))
            return g.status;
    }
    return clef__config_check(hp, file, err);
}
