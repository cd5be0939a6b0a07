/* Reads hyperparameters from Hugging Face's config.json, and has the checks for hyperparameters of all
 * sources. */
#include "model/open/config.h"

#include <inttypes.h>
#include <string.h>

#include "model/open/arch.h"
#include "model/packed/packed.h"

/* ---- checks ---------------------------------------------------------------------------------- */

clef_status clef__config_check(const clef_hparams *hp, const char *file, clef_error *err)
{
    if (hp->n_kv_heads < 1 || hp->n_heads % hp->n_kv_heads != 0)
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
        if (r->type == CLEF_ROPE_LLAMA3 && !(r->high_freq_factor >= r->low_freq_factor))
            return clef__fail(err, CLEF_E_FORMAT, "%s: rope high_freq_factor %g is below low_freq_factor %g",
                              file, r->high_freq_factor, r->low_freq_factor);
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

void clef__rope_in_windows(clef_hparams *hp)
{
    memset(hp->no_rope_layers, 0, sizeof hp->no_rope_layers);
    for (int32_t i = 0; hp->sliding_window > 0 && i < hp->n_layers; i++)
        if (!clef__layer_slides(hp, i))
            hp->no_rope_layers[i / 32] |= 1u << (i % 32);
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
    const json_t *eos = clef__json_get(f, "eos_token_id");
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

/* Refuses weights that are packed in ways that neither model/packed/ nor the family's joins can read. */
static void check_quantised(clef_json_fields *f, const clef_arch *arch)
{
    const json_t *object = clef__packed_object(f->object);
    const char *method = json_string_value(json_object_get(object, "quant_method"));
    clef__packed_config config;
    clef__json_get(f, "quantization_config"); /* they count as read */
    clef__json_get(f, "quantization");
    clef__json_get(f, "compression_config");
    if (!has_failed(f) && object && !(arch->packed && method && strcmp(method, arch->packed) == 0))
        f->status = clef__packed_read_config(object, f->file, &config, f->err);
}

/* Names under which transformers' classes know a key, too (attribute_map). */
static const struct {
    const char *model_types, *other, *key; /* the types are separated by spaces */
} other_names[] = {
    {"gpt2 gptj gpt_bigcode codegen", "hidden_size", "n_embd"},
    {"gpt2 gptj gpt_bigcode codegen", "num_attention_heads", "n_head"},
    {"gpt2 gptj gpt_bigcode codegen", "num_hidden_layers", "n_layer"},
    {"gpt2 gptj gpt_bigcode codegen", "max_position_embeddings", "n_positions"},
    {"gpt_neo", "num_attention_heads", "num_heads"},
    {"gpt_neo xglm", "num_hidden_layers", "num_layers"},
    {"xglm", "num_attention_heads", "attention_heads"},
    {"xglm", "hidden_size", "d_model"},
    {"bloom", "num_attention_heads", "n_head"},
    {"bloom", "num_hidden_layers", "n_layer"},
    {"bloom falcon", "n_embed", "hidden_size"},
    {"falcon", "n_layer", "num_hidden_layers"},
    {"falcon", "n_head", "num_attention_heads"},
    {"marian bart mbart m2m_100 pegasus blenderbot blenderbot-small", "hidden_size", "d_model"},
    {"marian bart mbart m2m_100 pegasus blenderbot blenderbot-small", "num_attention_heads",
     "encoder_attention_heads"},
    {"marian bart mbart m2m_100 pegasus blenderbot blenderbot-small", "num_hidden_layers", "encoder_layers"},
    {"whisper", "hidden_size", "d_model"},
    {"whisper", "num_attention_heads", "encoder_attention_heads"},
    {"whisper", "num_key_value_heads", "encoder_attention_heads"},
    {"whisper", "num_hidden_layers", "encoder_layers"},
    {"t5 mt5 umt5", "hidden_size", "d_model"},
    {"t5 mt5 umt5", "num_attention_heads", "num_heads"},
    {"t5 mt5 umt5", "num_hidden_layers", "num_layers"},
    {"t5 mt5 umt5", "head_dim", "d_kv"},
    {"distilbert", "hidden_size", "dim"},
    {"distilbert", "num_attention_heads", "n_heads"},
    {"distilbert", "num_hidden_layers", "n_layers"},
    {"mixtral gpt_oss", "num_experts", "num_local_experts"},
    {"qwen3_moe qwen3_vl_moe_text", "num_local_experts", "num_experts"},
    {"deepseek_v2", "num_experts", "n_routed_experts"},
    {"deepseek_v3 glm4_moe glm4_moe_lite dots1 solar_open", "num_local_experts", "n_routed_experts"},
    {"hy_v3 hunyuan_v1_moe", "num_local_experts", "num_experts"},
    {"minimax_m2", "num_experts", "num_local_experts"},
    {"hunyuan_v1_moe", "num_experts_per_tok", "moe_topk"},
    {"ernie4_5_moe", "num_experts_per_tok", "moe_k"},
    {"ernie4_5_moe", "num_experts", "moe_num_experts"},
    {"glm4_moe_lite", "head_dim", "qk_rope_head_dim"},
    {"olmoe", "num_local_experts", "num_experts"},
};

static int is_among(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0))
            return 1;
    return 0;
}

/* Gives keys of other names their own names, in `config`, a copy. Two values of one key must be equal. */
static void rename_keys(clef_json_fields *f, json_t *config, const char *model_type)
{
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names && !has_failed(f); i++) {
        const char *other = other_names[i].other, *key = other_names[i].key;
        json_t *value = json_object_get(config, other), *own = json_object_get(config, key);
        if (!value || !is_among(other_names[i].model_types, model_type))
            continue;
        if (own && !json_equal(own, value))
            f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s and %s differ, but are the same for %s",
                                   f->file, other, key, model_type);
        json_object_set(config, key, value);
        json_object_del(config, other);
    }
}

/* Layers with a window need one, and a decoder's tokens see no later ones. */
static void check_attention(clef_json_fields *f, const clef_arch *arch, const clef_hparams *hp)
{
    clef_hparams own = *hp;
    if (!json_object_get(f->seen, "layer_types"))
        clef__json_layer_types(f, &own, NULL); /* not of this architecture, but transformers checks it, too */
    for (int32_t i = 0; i < hp->n_layers && !has_failed(f) && hp->sliding_window == 0; i++)
        if (clef__layer_slides(&own, i))
            f->status = clef__fail(f->err, CLEF_E_FORMAT,
                                   "%s: layer_types has sliding_attention in layer %" PRId32
                                   ", but there is no sliding_window",
                                   f->file, i);
    if (arch->kind != CLEF_ENCODER)
        clef__json_refuse_flag(f, "is_causal", 1, 1);
}

/* Reads the keys of `config`, which is changed, and checks those that were not read. */
static void read_keys(clef_json_fields *f, json_t *config, const clef_arch *arch, clef_hparams *hp)
{
    rename_keys(f, config, hp->arch);
    const clef_arch_alias *name = clef__arch_alias(arch, hp->arch, 0);
    hp->bos = json_object_get(config, "bos_token_id") ? -1 : name->bos;
    hp->eos = json_object_get(config, "eos_token_id") ? -1 : name->eos;
    hp->forced_bos = token_id(f, "forced_bos_token_id", -1);
    if (!arch->pictures)
        hp->n_vocab = (int32_t)clef__json_need_int(f, "vocab_size", 1, CLEF_MAX_VOCAB);
    arch->read_json(f, hp);
    read_marks(f, hp);
    check_quantised(f, arch);
    check_attention(f, arch, hp);
    clef__rope_raise_context(hp);
    clef__json_check_unread(f);
}

/* Reads a config.json. entry: NULL, or called with each key that is neither read nor known. */
static clef_status read_config(const json_t *config, const char *file, clef_hparams *hp,
                               void (*entry)(void *user, const char *key), void *user, clef_error *err)
{
    clef_json_fields f = {.object = config, .file = file, .err = err};
    clef__config_text(clef__json_string(&f, "model_type", ""), hp->arch, sizeof hp->arch);
    if (has_failed(&f))
        return f.status;
    const clef_arch *arch = clef__arch_find(hp->arch, 0);
    const char *nested =
        json_string_value(json_object_get(json_object_get(config, "text_config"), "model_type"));
    if (!arch && json_is_object(json_object_get(config, "text_config")))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: architecture %.40s is not supported: its text model (%.40s) is nested in "
                          "text_config, which is not read",
                          file, hp->arch, nested ? nested : "without model_type");
    if (!arch)
        return clef__arch_unknown(hp->arch, 0, file, err);
    if (!arch->read_json)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: model_type %s is only supported as a GGUF file", file,
                          hp->arch);
    json_t *own = json_copy((json_t *)(uintptr_t)config), *value;
    const char *key;
    f.object = own;
    f.seen = json_object();
    if (own && f.seen)
        read_keys(&f, own, arch, hp);
    else
        f.status = clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", file);
    json_object_foreach(own, key, value) {
        if (entry && !has_failed(&f) && clef__json_is_unread(&f, key))
            entry(user, key);
    }
    json_decref(own);
    json_decref(f.seen);
    return f.status;
}

void clef__config_unread(const json_t *config, const char *file, void (*entry)(void *user, const char *key),
                         void *user)
{
    clef_hparams hp = {0};
    if (json_is_object(config))
        read_config(config, file, &hp, entry, user, NULL);
}

clef_status clef__config_from_json(const json_t *config, const json_t *generation, const char *file,
                                   clef_hparams *hp, clef_error *err)
{
    if (!json_is_object(config))
        return clef__fail(err, CLEF_E_FORMAT, "%s: is %s, expected an object", file, clef__json_kind(config));
    const clef_status status = read_config(config, file, hp, NULL, NULL, err);
    if (status != CLEF_OK)
        return status;
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
