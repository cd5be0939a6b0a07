/* Stored tensors that nothing reads, and parts that are left out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "graph/value.h"
#include "model/open/arch.h"
#include "model/open/joined.h"
#include "model/open/model.h"

/* Beginnings of names, with or without a prefix of the family: parts for pictures, sound and several tokens
 * at once. */
static const char *const other_models[] = {
    "mtp.",         "vision_tower.",          "vision_model.", "connector.",
    "visual.",      "multi_modal_projector.", "audio_tower.",  "embed_vision.",
    "embed_audio.", "vision_embed_tokens.",   "patch_merger.", NULL};

/* Heads. */
static const char *const heads[] = {
    "lm_head.",
    "visual_projection.", /* of a text model beside an encoder of pictures */
    "text_projection.",
    "logit_scale",
    "logit_bias",
    "cls_classifier.",
    "distillation_classifier.",
    "post_layernorm.", /* CLIP's, of its vector alone */
    "cls.",
    "classifier",
    "classification_head.",
    "score.",
    "pooler.",
    "head.",
    "decoder.weight",
    "decoder.bias",
    "predictions.",
    "generator_",
    "discriminator_predictions.",
    "vocab_",
    "qa_outputs.",
    "embed_out.",
    "final_logits_bias",
    "pre_classifier.",
    "sop_classifier",
    "lm_predictions.",
    "mask_predictions.",
    "v_head.",
    "sequence_summary.",
    "projection.",
    "summary.",
    "seq_relationship.",
    "qa_output.",
    "quantizer.", /* training of wav2vec 2.0 */
    "project_hid.",
    "project_q.",
    NULL,
};

/* Ends of names: what PyTorch's modules compute and some versions store. */
static const char *const buffers[] = {
    ".inv_freq",
    "embeddings.mask_token", /* training of encoders of pictures */
    "masked_spec_embed",     /* training of wav2vec 2.0 */
    ".mlp.act_fn.alpha_p",   /* Apertus: read as numbers */
    ".mlp.act_fn.alpha_n",
    ".mlp.act_fn.beta",
    ".mlp.act_fn.eps",
    ".self_attn.slope_rate", /* MiniMax: of its linear attention */
    ".self_attn.query_decay",
    ".self_attn.key_decay",
    ".self_attn.diagonal_decay",
    ".masked_bias",
    ".attn.bias",
    ".attention.bias",
    "position_ids",
    "token_type_ids",
    ".embed_positions.weights",
    ".rotary_emb.cos_cached",
    ".rotary_emb.sin_cached",
    "._float_tensor",
    ".version",
    ".EncDecAttention.relative_attention_bias.weight",
};

/* The same in a GGUF file; longer names are those of one tensor. rope_... are constants of the graph. T5's
 * cross-attention has no positions, but the first converters wrote them. */
static const char *const other_gguf[] = {"rope_freqs.weight",
                                         "rope_factors_long.weight",
                                         "rope_factors_short.weight",
                                         "output.",
                                         "output_bias",
                                         "head.",
                                         "cls.",
                                         "dense_",
                                         "v.",
                                         "a.",
                                         "mm.",
                                         "dec.blk.0.cross_attn_rel_b.weight"};

static int begins_with(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) == 0;
}

static int is_among(const clef_arch *arch, const char *const *starts, const char *name)
{
    const char *const prefixes[] = {"", arch->hf_prefix, "model.", "transformer.", "language_model."};
    for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++)
        for (size_t i = 0; begins_with(name, prefixes[p]) && starts[i]; i++)
            if (begins_with(name + strlen(prefixes[p]), starts[i]))
                return 1;
    return 0;
}

static int is_other(const clef_arch *arch, const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (n >= strlen(buffers[i]) && strcmp(name + n - strlen(buffers[i]), buffers[i]) == 0)
            return 1;
    return is_among(arch, heads, name) || is_among(arch, other_models, name);
}

static int has_sinusoids(const clef_model *m)
{
    static const char *const names[] = {"marian", "pegasus", "roformer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(m->hparams.arch, names[i]) == 0)
            return 1;
    return 0;
}

/* 1 for the factor of inputs that are rounded to four bits, beside a matrix in NVFP4: clef does not round
 * them. */
static int is_input_factor(const clef_model *m, const char *name)
{
    char stored[CLEF_WEIGHT_NAME_BYTES];
    const char *dot = strrchr(name, '.');
    if (!dot || strcmp(dot, ".input_scale") != 0)
        return 0;
    snprintf(stored, sizeof stored, "%.*s.weight", (int)(dot - name), name);
    const clef_tensor_info *t = clef__model_find(m, stored);
    return t && t->dtype == CLEF_NVFP4;
}

/* The same for GGUF; also layers behind the model's own, which predict further tokens, and the rotations that
 * the first files had. */
static int is_other_gguf(const clef_model *m, const char *name)
{
    int layer = -1, n = 0;
    for (size_t i = 0; i < sizeof other_gguf / sizeof *other_gguf; i++)
        if (begins_with(name, other_gguf[i]))
            return 1;
    if (has_sinusoids(m) && strstr(name, "position_embd.weight"))
        return 1;
    if (sscanf(name, "blk.%d.%n", &layer, &n) != 1 || n == 0)
        return 0;
    const int shares =
        m->hparams.n_kv_shared_layers > 0 && layer >= m->hparams.n_layers - m->hparams.n_kv_shared_layers;
    return layer >= m->hparams.n_layers || begins_with(name + n, "attn_rot_embd.") ||
           (shares && (begins_with(name + n, "attn_k") || begins_with(name + n, "attn_v")));
}

/* ---- parts that are left out ----------------------------------------------------------------- */

/* 1 for a layer behind the model's own, in folders whose configuration says that there are such. */
static int is_further_layer(const clef_model *m, const char *name)
{
    const char *at = strstr(name, "layers.");
    const long layer = at ? strtol(at + strlen("layers."), NULL, 10) : -1;
    const json_int_t n = json_integer_value(json_object_get(m->config, "num_nextn_predict_layers"));
    return layer >= m->hparams.n_layers && layer < m->hparams.n_layers + n;
}

static int is_of_other_model(const clef_model *m, const char *name)
{
    int layer = -1;
    if (!m->is_gguf)
        return clef__is_left_out(m, name) || is_further_layer(m, name) ||
               is_among(clef__arch_find(m->hparams.arch, 0), other_models, name);
    return begins_with(name, "v.") || begins_with(name, "a.") || begins_with(name, "mm.") ||
           (sscanf(name, "blk.%d.", &layer) == 1 && layer >= m->hparams.n_layers);
}

/* The length of the part's name within that of its tensor. */
static size_t part_length(const char *name)
{
    const size_t first = strcspn(name, "."), more = name[first] ? strcspn(name + first + 1, ".") : 0;
    const char *layer = strstr(name, "layers.");
    if (layer)
        return (size_t)(layer - name) + strlen("layers.") + strcspn(layer + strlen("layers."), ".");
    return begins_with(name, "model.") || begins_with(name, "blk.") ? first + 1 + more : first;
}

void clef_model_left_out(const clef_model *m, void (*entry)(void *user, const char *part), void *user)
{
    char part[CLEF_WEIGHT_NAME_BYTES], last[CLEF_WEIGHT_NAME_BYTES] = "";
    for (int32_t i = 0; i < m->n_tensors; i++) {
        const char *name = m->tensors[i].name;
        const size_t n = part_length(name);
        if (!is_of_other_model(m, name) || n >= sizeof part || (strlen(last) == n && begins_with(name, last)))
            continue;
        memcpy(part, name, n);
        part[n] = 0;
        entry(user, part);
        memcpy(last, part, n + 1);
    }
}

/* ---- what the graph reads -------------------------------------------------------------------- */

typedef struct reads {
    const clef_model *model;
    unsigned char *is_read; /* of each stored tensor */
} reads;

static void mark(void *user, const clef_tensor_info *t)
{
    const reads *r = user;
    if (t >= r->model->tensors && t < r->model->tensors + r->model->n_tensors)
        r->is_read[t - r->model->tensors] = 1;
}

static void mark_graph(reads *r, const clef_graph *g)
{
    for (int32_t i = 0; i < clef_graph_n_values(g); i++) {
        const clef_value_info v = clef_value_describe(clef_graph_value(g, i));
        const clef_tensor_info *t = v.kind == CLEF_WEIGHT ? clef__model_find(r->model, v.name) : NULL;
        if (!t)
            continue;
        mark(r, t);
        clef__joined_parts(r->model, t, mark, r);
    }
}

/* Marian's files store the table of sinusoids, which the graph computes. */
static int are_sinusoids(const clef_tensor_info *t)
{
    const char *at = strstr(t->name, ".embed_positions.weight");
    const int64_t d = t->dims[1], half = d / 2;
    float x = 0;
    if (!at || t->rank != 2 || half < 1 || clef_dtype_block_elems(t->dtype) != 1)
        return 0;
    for (int64_t i = 0; i < t->dims[0] * d; i++) {
        const double turn = (double)(i / d) * pow(10000, -2.0 * (double)(i % d % half) / (double)d);
        clef_dtype_decode(t->dtype, (const char *)t->data + i * clef_dtype_block_bytes(t->dtype), 1, &x);
        if (fabs((double)x - (i % d < half ? sin(turn) : cos(turn))) > 1e-2)
            return 0;
    }
    return 1;
}

/* A second name of the embedding, as encoder-decoders have. */
static int is_second_embedding(const clef_model *m, const clef_arch *arch, const clef_tensor_info *t)
{
    char name[CLEF_WEIGHT_NAME_BYTES];
    const char *at = strstr(t->name, "embed_tokens.weight");
    clef__weight_name(arch, &arch->weights, CLEF_W_EMBED, 0, -1, "weight", name);
    const clef_tensor_info *embed = clef__model_find(m, name);
    return at && embed && clef__tensors_equal(t, embed);
}

/* Layers that read the keys and values of earlier ones may have their own stored. */
static int is_shared_layer(const clef_model *m, const char *name)
{
    const char *at = strstr(name, "layers.");
    const long layer = at ? strtol(at + strlen("layers."), NULL, 10) : -1;
    return m->hparams.n_kv_shared_layers > 0 &&
           layer >= m->hparams.n_layers - m->hparams.n_kv_shared_layers && layer < m->hparams.n_layers &&
           (strstr(name, "k_proj") || strstr(name, "v_proj") || strstr(name, "k_norm") ||
            strstr(name, "v_norm"));
}

static int is_known(const clef_model *m, const clef_arch *arch, const clef_tensor_info *t)
{
    if (m->is_gguf)
        return is_other_gguf(m, t->name) || is_input_factor(m, t->name);
    return is_of_other_model(m, t->name) || is_other(arch, t->name) || is_second_embedding(m, arch, t) ||
           is_shared_layer(m, t->name) || (has_sinusoids(m) && are_sinusoids(t));
}

clef_status clef__check_unread_tensors(const clef_model *m, clef_error *err)
{
    const clef_arch *arch = clef__arch_find(m->hparams.arch, m->is_gguf);
    clef_graph *g = NULL;
    clef_error ignored = {0};
    clef_status status = CLEF_OK;
    reads r = {m, calloc((size_t)m->n_tensors + 1, 1)};
    if (!r.is_read)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to check its tensors", m->path);
    if (clef_model_build(m, &(clef_build_opts){.n_context = 1, .no_head = 1}, &g, &ignored) != CLEF_OK)
        goto out;
    mark_graph(&r, g);
    for (int32_t i = 0; i < m->n_tensors && status == CLEF_OK; i++) {
        const clef_tensor_info *t = &m->tensors[i];
        if (!r.is_read[i] && t->n_bytes > 0 && !is_known(m, arch, t)) /* 0: DINOv3 without registers */
            status =
                clef__fail(err, CLEF_E_UNSUPPORTED,
                           "%s: tensor %s is stored, but a model of type %s with %s does not read it",
                           m->path, t->name, m->hparams.arch, m->is_gguf ? "these keys" : "this config.json");
    }
out:
    clef_graph_destroy(g);
    free(r.is_read);
    return status;
}
