/* The tower of a GGUF model, which llama.cpp keeps in a file of its own (general.architecture "clip"): its
 * tensors get the names of the folder that they were converted from, and its keys become that folder's
 * configuration. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/tensor_index.h"
#include "model/tower/tower.h"

/* Pairs of beginnings of names, here and in the folder; a NULL ends a list. Those of a layer stand behind its
 * number. */
typedef const char *const name_pairs[][2];
static name_pairs siglip_names = {{"v.patch_embd.", "embeddings.patch_embedding."},
                                  {"v.position_embd.", "embeddings.position_embedding."},
                                  {"v.post_ln.", "post_layernorm."},
                                  {NULL, NULL}};
static name_pairs siglip_layer = {
    {"ln1.", "layer_norm1."},         {"ln2.", "layer_norm2."},         {"attn_q.", "self_attn.q_proj."},
    {"attn_k.", "self_attn.k_proj."}, {"attn_v.", "self_attn.v_proj."}, {"attn_out.", "self_attn.out_proj."},
    {"ffn_up.", "mlp.fc1."},          {"ffn_down.", "mlp.fc2."},        {NULL, NULL}};
static name_pairs intern_names = {{"v.class_embd", "embeddings.cls_token"},
                                  {"v.patch_embd.", "embeddings.patch_embeddings.projection."},
                                  {"v.position_embd.weight", "embeddings.position_embeddings"},
                                  {NULL, NULL}};
static name_pairs intern_layer = {{"ln1.", "layernorm_before."},
                                  {"ln2.", "layernorm_after."},
                                  {"ls1.weight", "lambda_1"},
                                  {"ls2.weight", "lambda_2"},
                                  {"attn_q.", "attention.q_proj."},
                                  {"attn_k.", "attention.k_proj."},
                                  {"attn_v.", "attention.v_proj."},
                                  {"attn_out.", "attention.projection_layer."},
                                  {"ffn_up.", "mlp.fc1."},
                                  {"ffn_down.", "mlp.fc2."},
                                  {NULL, NULL}};
static name_pairs qwen_names = {
    {"v.patch_embd.", "patch_embed.proj."}, {"v.position_embd.", "pos_embed."}, {NULL, NULL}};
#define QWEN_LAYER                                                                                           \
    {"ln1.", "norm1."}, {"ln2.", "norm2."}, {"attn_qkv.", "attn.qkv."}, {"attn_q.", "attn.q."},              \
        {"attn_k.", "attn.k."}, {"attn_v.", "attn.v."},                                                      \
    {                                                                                                        \
        "attn_out.", "attn.proj."                                                                            \
    }
static name_pairs qwen2_layer = {
    QWEN_LAYER, {"ffn_up.", "mlp.fc1."}, {"ffn_down.", "mlp.fc2."}, {NULL, NULL}};
static name_pairs qwen2_5_layer = {QWEN_LAYER,
                                   {"ffn_gate.", "mlp.gate_proj."},
                                   {"ffn_up.", "mlp.up_proj."},
                                   {"ffn_down.", "mlp.down_proj."},
                                   {NULL, NULL}};
static name_pairs qwen3_layer = {
    QWEN_LAYER, {"ffn_up.", "mlp.linear_fc1."}, {"ffn_down.", "mlp.linear_fc2."}, {NULL, NULL}};
static name_pairs pixtral_names = {{"v.patch_embd.", "patch_conv."}, {"v.pre_ln.", "ln_pre."}, {NULL, NULL}};
static name_pairs pixtral_layer = {{"ln1.", "attention_norm."},
                                   {"ln2.", "ffn_norm."},
                                   {"attn_q.", "attention.q_proj."},
                                   {"attn_k.", "attention.k_proj."},
                                   {"attn_v.", "attention.v_proj."},
                                   {"attn_out.", "attention.o_proj."},
                                   {"ffn_gate.", "feed_forward.gate_proj."},
                                   {"ffn_up.", "feed_forward.up_proj."},
                                   {"ffn_down.", "feed_forward.down_proj."},
                                   {NULL, NULL}};

#define SIGLIP "vision_tower.vision_model.", siglip_names, "encoder.layers", siglip_layer
#define QWEN_PROCESSOR                                                                                       \
    "{'image_processor_type': 'Qwen2VLImageProcessor', 'patch_size': ^, 'temporal_patch_size': 2, "          \
    "'merge_size': 2"
#define QWEN2_MERGER                                                                                         \
    {                                                                                                        \
        {"v.post_ln.", "visual.merger.ln_q."}, {"mm.0.", "visual.merger.mlp.0."},                            \
        {                                                                                                    \
            "mm.2.", "visual.merger.mlp.2."                                                                  \
        }                                                                                                    \
    }
#define QWEN3_MERGER                                                                                         \
    {                                                                                                        \
        {"v.post_ln.", "visual.merger.norm."}, {"mm.0.", "visual.merger.linear_fc1."},                       \
        {                                                                                                    \
            "mm.2.", "visual.merger.linear_fc2."                                                             \
        }                                                                                                    \
    }
#define PIXTRAL                                                                                              \
    "{'image_processor_type': 'PixtralImageProcessor', 'patch_size': &, 'size': {'longest_edge': #}}",       \
        "vision_tower.", pixtral_names, "transformer.layers", pixtral_layer
#define PIXTRAL_PROJECTOR                                                                                    \
    {"mm.1.", "multi_modal_projector.linear_1."}, {"mm.2.", "multi_modal_projector.linear_2."},              \
    {                                                                                                        \
        "v.token_embd.img_break", "img_break" /* the text model has it, too */                               \
    }
/* Pixels that are in the files of published models. */
#define QWEN3_PROCESSOR QWEN_PROCESSOR ", 'size': {'shortest_edge': 65536, 'longest_edge': 16777216}}"
#define QWEN3(family, arch)                                                                                  \
    {                                                                                                        \
        "qwen3vl_merger", family, family, arch, NULL, "<|image_pad|>", NULL, 2, QWEN3_PROCESSOR, "visual.",  \
            qwen_names, "blocks", qwen3_layer, QWEN3_MERGER                                                  \
    }

/* A projector of llama.cpp, and the family that it is of. */
static const struct projector {
    const char *type, *family, *encoder; /* encoder: model_type of its vision_config */
    const char *arch;                    /* NULL, or that of the text model */
    const char *tensor;                  /* NULL, or one that only this family's files have */
    const char *token, *mark;            /* of pictures, in the vocabulary; mark NULL: the same */
    int32_t scale;         /* the side of a square of patches that becomes a row, where the file says none */
    const char *processor; /* JSON, with # for the side of a picture, @ for the longest one, ^ for a patch's,
                            * & for a square's that becomes a row */
    const char *prefix;    /* of the encoder's names */
    const char *const (*of_encoder)[2];
    const char *layers; /* what is before a layer's number */
    const char *const (*of_layer)[2];
    const char *names[6][2]; /* beginnings of names of what is behind the encoder */
} projectors[] = {
    {"gemma3",
     "gemma3",
     "siglip_vision_model",
     "gemma3",
     NULL,
     "<image_soft_token>",
     "<start_of_image>",
     4,
     "{'image_processor_type': 'Gemma3ImageProcessor', 'size': {'height': #, 'width': #}}",
     SIGLIP,
     {{"mm.input_projection.weight", "multi_modal_projector.mm_input_projection_weight"},
      {"mm.soft_emb_norm.", "multi_modal_projector.mm_soft_emb_norm."}}},
    {"idefics3",
     "idefics3",
     "idefics3_vision",
     NULL,
     NULL,
     "<image>",
     NULL,
     2,
     "{'image_processor_type': 'Idefics3ImageProcessor', 'size': {'longest_edge': @}, "
     "'max_image_size': {'longest_edge': #}}",
     SIGLIP,
     {{"mm.model.fc.", "connector.modality_projection.proj."}}},
    {"internvl",
     "internvl",
     "internvl_vision",
     NULL,
     NULL,
     "<IMG_CONTEXT>",
     NULL,
     2,
     "{'image_processor_type': 'GotOcr2ImageProcessor', 'processor_class': 'InternVLProcessor', "
     "'size': {'height': #, 'width': #}, 'crop_to_patches': true}",
     "vision_tower.",
     intern_names,
     "encoder.layer",
     intern_layer,
     {{"mm.model.mlp.0.", "multi_modal_projector.layer_norm."},
      {"mm.model.mlp.1.", "multi_modal_projector.linear_1."},
      {"mm.model.mlp.3.", "multi_modal_projector.linear_2."}}},
    {"qwen2vl_merger", "qwen2_vl", "qwen2_vl", "qwen2vl", NULL, "<|image_pad|>", NULL, 2, QWEN_PROCESSOR "}",
     "visual.", qwen_names, "blocks", qwen2_layer, QWEN2_MERGER},
    {"qwen2.5vl_merger", "qwen2_5_vl", "qwen2_5_vl", "qwen2vl", NULL, "<|image_pad|>", NULL, 2,
     QWEN_PROCESSOR "}", "visual.", qwen_names, "blocks", qwen2_5_layer, QWEN2_MERGER},
    QWEN3("qwen3_vl", "qwen3vl"),
    QWEN3("qwen3_vl", "qwen3vlmoe"),
    QWEN3("qwen3_5", "qwen35"),
    QWEN3("qwen3_5", "qwen35moe"),
    {"pixtral",
     "mistral3",
     "pixtral",
     NULL,
     "mm.patch_merger.weight",
     "[IMG]",
     NULL,
     2,
     PIXTRAL,
     {PIXTRAL_PROJECTOR,
      {"mm.input_norm.", "multi_modal_projector.norm."},
      {"mm.patch_merger.", "multi_modal_projector.patch_merger.merging_layer."}}},
    {"pixtral", "llava", "pixtral", NULL, NULL, "[IMG]", NULL, 1, PIXTRAL, {PIXTRAL_PROJECTOR}},
};

/* Files of earlier converters have these the other way round. */
static name_pairs old_layer = {{"ffn_down.", "mlp.fc1."}, {"ffn_up.", "mlp.fc2."}, {NULL, NULL}};

/* ---- names --------------------------------------------------------------------------------------- */

static const char *behind(const char *name, const char *beginning)
{
    const size_t n = strlen(beginning);
    return strncmp(name, beginning, n) == 0 ? name + n : NULL;
}

/* 1: what is called ffn_down widens the states. */
static int has_old_names(const clef_model *file)
{
    const clef_tensor_info *down =
        clef__tensor_lookup(file->by_name, (size_t)file->n_tensors, "v.blk.0.ffn_down.weight");
    const int64_t width = clef__gguf_int(&file->gguf, "clip.vision.embedding_length", 0);
    return down && down->rank == 2 && down->dims[1] == width && down->dims[0] != width;
}

/* How many layers before this one have rows for the text model's first layers. */
static int n_deep_before(const clef_gguf *g, int layer)
{
    const clef_gguf_entry *e = clef__gguf_find(g, "clip.vision.is_deepstack_layers");
    int n = 0;
    for (uint64_t i = 0; e && e->is_array && i < e->n && (int64_t)i < layer; i++)
        n += clef__gguf_item_int(e, i) != 0;
    return n;
}

/* What the name begins with in the folder; NULL: it is not in the list. *end: what follows it. */
static const char *beginning(const char *name, const char *const (*pairs)[2], const char **end)
{
    for (; (*pairs)[0]; pairs++)
        if ((*end = behind(name, (*pairs)[0])))
            return (*pairs)[1];
    return NULL;
}

/* Writes the folder's name of a tensor. Returns 0 for one that is not known. */
static int folder_name(const struct projector *p, const clef_gguf *g, const char *name, int is_old,
                       char out[CLEF__TOWER_NAME])
{
    int layer = -1, at = 0, n;
    const char *end, *own;
    for (size_t i = 0; i < 6 && p->names[i][0]; i++)
        if ((end = behind(name, p->names[i][0])))
            return snprintf(out, CLEF__TOWER_NAME, "%s%s", p->names[i][1], end) < CLEF__TOWER_NAME;
    if ((own = beginning(name, p->of_encoder, &end)))
        return snprintf(out, CLEF__TOWER_NAME, "%s%s%s", p->prefix, own, end) < CLEF__TOWER_NAME;
    if (sscanf(name, "v.deepstack.%d.%n", &layer, &at) == 1 && at) {
        static name_pairs parts = {
            {"fc1.", "linear_fc1."}, {"fc2.", "linear_fc2."}, {"norm.", "norm."}, {NULL, NULL}};
        own = beginning(name + at, parts, &end);
        n = own ? snprintf(out, CLEF__TOWER_NAME, "%sdeepstack_merger_list.%d.%s%s", p->prefix,
                           n_deep_before(g, layer), own, end)
                : -1;
        return n >= 0 && n < CLEF__TOWER_NAME;
    }
    at = 0;
    if (sscanf(name, "v.blk.%d.%n", &layer, &at) != 1 || !at || layer < 0)
        return 0;
    own = is_old ? beginning(name + at, old_layer, &end) : NULL;
    own = own ? own : beginning(name + at, p->of_layer, &end);
    return own && snprintf(out, CLEF__TOWER_NAME, "%s%s.%d.%s%s", p->prefix, p->layers, layer, own, end) <
                      CLEF__TOWER_NAME;
}

/* Adds the file's tensors to the model's, under the folder's names. The lists before are the caller's. */
static clef_status add_tensors(clef_model *m, const clef_model *file, const struct projector *p,
                               clef_error *err)
{
    const size_t n = (size_t)m->n_tensors, n_more = (size_t)file->n_tensors;
    const int is_old = has_old_names(file);
    const clef_tensor_info *twice = NULL;
    clef_tensor_info *all = malloc((n + n_more) * sizeof *all);
    m->picture_names = calloc(n_more, CLEF__TOWER_NAME);
    if (!all || !m->picture_names) {
        free(all);
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", file->path);
    }
    memcpy(all, m->tensors, n * sizeof *all);
    for (size_t i = 0; i < n_more; i++) {
        char *name = m->picture_names + i * CLEF__TOWER_NAME;
        all[n + i] = file->tensors[i];
        if (!folder_name(p, &file->gguf, all[n + i].name, is_old, name)) {
            const clef_status s =
                clef__fail(err, CLEF_E_UNSUPPORTED, "%s: the tensor %.60s of a %s is not known", file->path,
                           all[n + i].name, p->type);
            free(all);
            return s;
        }
        all[n + i].name = name;
    }
    const clef_tensor_info **by_name = clef__tensor_index(all, n + n_more, &twice);
    if (!by_name || twice) {
        free(by_name);
        free(all);
        return clef__fail(err, twice ? CLEF_E_FORMAT : CLEF_E_NOMEM, "%s: the tensor %s occurs twice",
                          file->path, twice ? twice->name : "(no memory)");
    }
    m->tensors = all;
    m->by_name = by_name;
    m->n_tensors = (int32_t)(n + n_more);
    return CLEF_OK;
}

/* ---- configuration --------------------------------------------------------------------------------- */

static json_t *number_list(const clef_gguf *g, const char *key)
{
    const clef_gguf_entry *e = clef__gguf_find(g, key);
    json_t *list = json_array();
    for (uint64_t i = 0; e && e->is_array && i < e->n && i < 3; i++)
        json_array_append_new(list, json_real(clef__gguf_item_float(e, i)));
    return list;
}

/* Qwen's names of these keys, and which layers see whole pictures, or have rows for the text model. */
static void add_of_qwen(const clef_gguf *g, json_t *c)
{
    const int64_t n = clef__gguf_int(g, "clip.vision.block_count", 0),
                  pattern = clef__gguf_int(g, "clip.vision.n_wa_pattern", 0);
    json_t *whole = json_array(), *deep = json_array();
    for (int64_t i = 0; i < n && i < CLEF_MAX_LAYERS; i++) {
        if (pattern > 0 && i % pattern == pattern - 1)
            json_array_append_new(whole, json_integer(i));
        if (n_deep_before(g, (int)i + 1) > n_deep_before(g, (int)i))
            json_array_append_new(deep, json_integer(i));
    }
    json_object_del(c, "hidden_act"); /* that of the class */
    json_object_set_new(c, "depth", json_integer(n));
    json_object_set_new(c, "num_heads",
                        json_integer(clef__gguf_int(g, "clip.vision.attention.head_count", 0)));
    json_object_set_new(c, "spatial_merge_size",
                        json_integer(clef__gguf_int(g, "clip.vision.spatial_merge_size", 2)));
    json_object_set_new(c, "fullatt_block_indexes", whole);
    json_object_set_new(c, "deepstack_visual_indexes", deep);
}

static json_t *vision_config(const clef_gguf *g, const struct projector *p)
{
    static const char *const keys[][2] = {{"clip.vision.embedding_length", "hidden_size"},
                                          {"clip.vision.feed_forward_length", "intermediate_size"},
                                          {"clip.vision.block_count", "num_hidden_layers"},
                                          {"clip.vision.attention.head_count", "num_attention_heads"},
                                          {"clip.vision.image_size", "image_size"},
                                          {"clip.vision.patch_size", "patch_size"}};
    json_t *c = json_pack("{s:s, s:f, s:s}", "model_type", p->encoder, "layer_norm_eps",
                          clef__gguf_float(g, "clip.vision.attention.layer_norm_epsilon", 1e-6), "hidden_act",
                          "gelu_pytorch_tanh");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(c, keys[i][1], json_integer(clef__gguf_int(g, keys[i][0], 0)));
    if (p->of_encoder == qwen_names)
        add_of_qwen(g, c);
    if (p->of_encoder == intern_names)
        json_object_set_new(c, "hidden_act", json_string("gelu"));
    if (p->of_encoder == pixtral_names)
        json_object_set_new(c, "hidden_act",
                            json_string(clef__gguf_int(g, "clip.use_silu", 0) ? "silu" : "gelu"));
    return c;
}

/* The side of a square of patches that becomes a row, in Pixtral's files. */
static int64_t square_of(const clef_gguf *g, const struct projector *p)
{
    return clef__gguf_int(g, "clip.vision.spatial_merge_size", p->scale);
}

/* The configuration of the folder. */
static json_t *outer_config(const clef_gguf *g, const struct projector *p, const clef_tokenizer *tok)
{
    const int64_t scale = clef__gguf_int(g, "clip.vision.projector.scale_factor", p->scale),
                  patches = clef__gguf_int(g, "clip.vision.image_size", 0) /
                            (clef__gguf_int(g, "clip.vision.patch_size", 1) > 0
                                 ? clef__gguf_int(g, "clip.vision.patch_size", 1)
                                 : 1);
    const int64_t side = scale > 0 && patches > 0 && patches < 1 << 16 ? patches / scale : 0;
    json_t *c =
        json_pack("{s:s, s:o, s:i, s:I, s:I}", "model_type", p->family, "vision_config", vision_config(g, p),
                  "image_token_id", clef_tokenizer_find(tok, p->token), "scale_factor", (json_int_t)scale,
                  "mm_tokens_per_image", (json_int_t)(side * side));
    json_object_set_new(c, "spatial_merge_size", json_integer(square_of(g, p)));
    json_object_set_new(c, "vision_feature_layer", json_integer(-1)); /* of Pixtral and InternVL */
    if (scale > 0)
        json_object_set_new(c, "downsample_ratio", json_real(1.0 / (double)scale));
    if (p->mark)
        json_object_set_new(c, "boi_token_index", json_integer(clef_tokenizer_find(tok, p->mark)));
    return c;
}

/* Of the text model's part: how its positions are divided. */
static json_t *text_config(const clef_model *m)
{
    char key[128];
    snprintf(key, sizeof key, "%.64s.rope.dimension_sections", m->hparams.arch);
    const clef_gguf_entry *e = clef__gguf_find(&m->gguf, key);
    json_t *list = json_array();
    for (uint64_t i = 0; e && e->is_array && i < e->n && i < 3; i++)
        json_array_append_new(list, json_integer(clef__gguf_item_int(e, i)));
    if (json_array_size(list) == 3)
        return json_pack("{s:{s:o}}", "rope_scaling", "mrope_section", list);
    json_decref(list);
    return NULL;
}

/* preprocessor_config.json, as text. */
static char *processor_config(const clef_gguf *g, const struct projector *p)
{
    char text[512];
    size_t n = 0;
    const int64_t side = clef__gguf_int(g, "clip.vision.image_size", 0),
                  patch = clef__gguf_int(g, "clip.vision.patch_size", 0), merged = square_of(g, p);
    const struct {
        char mark;
        int64_t value;
    } numbers[] = {
        {'#', side},
        {'@', clef__gguf_int(g, "clip.vision.preproc_image_size", side)},
        {'^', patch},
        {'&', patch > 0 && patch < 1 << 16 && merged > 0 && merged < 1 << 16 ? patch * merged : 0}};
    for (const char *c = p->processor; *c; c++) {
        size_t i = 0;
        while (i < sizeof numbers / sizeof *numbers && numbers[i].mark != *c)
            i++;
        if (i < sizeof numbers / sizeof *numbers)
            n += (size_t)snprintf(text + n, sizeof text - n, "%d", (int)numbers[i].value);
        else
            text[n++] = *c == '\'' ? '"' : *c;
    }
    text[n] = '\0';
    json_t *config = json_loads(text, 0, NULL);
    json_object_set_new(config, "image_mean", number_list(g, "clip.vision.image_mean"));
    json_object_set_new(config, "image_std", number_list(g, "clip.vision.image_std"));
    char *out = json_dumps(config, 0);
    json_decref(config);
    return out;
}

/* ---- opening --------------------------------------------------------------------------------------- */

static clef_status check(const clef_model *m, const clef_model *file, const struct projector **out,
                         clef_error *err)
{
    char type[64];
    const int64_t width = clef__gguf_int(&file->gguf, "clip.vision.projection_dim", 0);
    const size_t n = sizeof projectors / sizeof *projectors;
    size_t i = 0;
    if (strcmp(file->hparams.arch, "clip") != 0)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: expected a tower for pictures, of architecture clip, got %s", file->path,
                          file->hparams.arch);
    if (!clef__gguf_text(&file->gguf, "clip.projector_type", type, sizeof type))
        clef__gguf_text(&file->gguf, "clip.vision.projector_type", type, sizeof type);
    for (; i < n; i++)
        if (strcmp(type, projectors[i].type) == 0) {
            *out = &projectors[i];
            if ((!projectors[i].arch || strcmp(m->hparams.arch, projectors[i].arch) == 0) &&
                (!projectors[i].tensor ||
                 clef__tensor_lookup(file->by_name, (size_t)file->n_tensors, projectors[i].tensor)))
                break;
        }
    if (!*out)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: the projector %.40s: expected gemma3, idefics3, internvl, pixtral, or "
                          "Qwen's mergers",
                          file->path, type);
    const int is_gated = (*out)->of_layer == qwen2_5_layer, has_either = (*out)->of_layer == pixtral_layer;
    const int silu = clef__gguf_int(&file->gguf, "clip.use_silu", is_gated) != 0,
              gelu = clef__gguf_int(&file->gguf, "clip.use_gelu", !is_gated && !has_either) != 0;
    if (has_either ? silu == gelu : silu != is_gated || (!is_gated && !gelu))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: clip.use_silu is %d, clip.use_gelu %d: expected %s",
                          file->path, silu, gelu,
                          has_either ? "one of them"
                          : is_gated ? "SiLU"
                                     : "GELU");
    if (i == n)
        return clef__fail(err, CLEF_E_ARG, "%s: a tower of %s, the text model %s is %s", file->path, type,
                          m->path, m->hparams.arch);
    if (width != m->hparams.d_model)
        return clef__fail(err, CLEF_E_SHAPE, "%s: makes rows of %lld numbers, the text model %s has %d",
                          file->path, (long long)width, m->path, m->hparams.d_model);
    return CLEF_OK;
}

static clef_status read_configs(clef_model *m, const struct projector *p, clef_error *err)
{
    const clef_gguf *g = &m->pictures->gguf;
    const clef_tokenizer *tok = clef_model_tokenizer(m, err);
    if (!tok)
        return err ? err->status : CLEF_E_NOT_FOUND;
    const char *missing = clef_tokenizer_find(tok, p->token) < 0             ? p->token
                          : p->mark && clef_tokenizer_find(tok, p->mark) < 0 ? p->mark
                                                                             : NULL;
    if (missing)
        return clef__fail(err, CLEF_E_NOT_FOUND, "%s: its vocabulary lacks %s, which stands for pictures",
                          m->path, missing);
    m->outer = outer_config(g, p, tok);
    m->picture_config = processor_config(g, p);
    if (!m->outer || !m->picture_config)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to read it", m->pictures->path);
    clef_status s = clef__read_vision_config(m, m->outer, m->pictures->path, err);
    if (!s && m->vision && p->of_layer == pixtral_layer) { /* the converter interleaves each head's halves */
        m->vision->rope.pairing = CLEF_ROPE_INTERLEAVED_TO_HALVES;
        m->vision->rope.dims = m->vision->head_dim;
    }
    if (!s)
        s = add_tensors(m, m->pictures, p, err);
    if (!s)
        s = clef__find_tower(m, err);
    json_t *inner = text_config(m);
    if (!s)
        s = clef__sight_read(m->outer, inner, &m->hparams, m->path, &m->sight, err);
    json_decref(inner);
    return s;
}

/* A model's tensors before it has those of a tower. */
typedef struct own_tensors {
    clef_tensor_info *all;
    const clef_tensor_info **by_name;
    int32_t n;
} own_tensors;

/* The model as it was, after a call that failed. */
static void take_away(clef_model *m, own_tensors own)
{
    if (m->tensors != own.all) {
        free(m->tensors);
        free(m->by_name);
    }
    m->tensors = own.all;
    m->by_name = own.by_name;
    m->n_tensors = own.n;
    clef__vision_finish(m);
    m->vision = NULL;
    m->vision_error = NULL;
    m->tower_prefix = NULL;
    json_decref(m->outer);
    m->outer = NULL;
    free(m->sight);
    m->sight = NULL;
    free(m->picture_names);
    free(m->picture_config);
    m->picture_names = m->picture_config = NULL;
    clef_model_close(m->pictures);
    m->pictures = NULL;
}

clef_status clef_model_add_pictures(clef_model *m, const char *path, clef_error *err)
{
    const struct projector *p = NULL;
    const own_tensors own = {m->tensors, m->by_name, m->n_tensors};
    if (!m->is_gguf || m->pictures)
        return clef__fail(err, CLEF_E_ARG, "%s: expected a GGUF model, without a tower: a folder has its own",
                          m->path);
    clef_status s = clef_model_look(path, &m->pictures, NULL, err);
    if (!s && !m->pictures->is_gguf)
        s = clef__fail(err, CLEF_E_FORMAT, "%s: expected a GGUF file with a tower for pictures", path);
    if (!s)
        s = check(m, m->pictures, &p, err);
    if (!s)
        s = read_configs(m, p, err);
    if (s) {
        take_away(m, own);
    } else {
        m->tensors_before = own.all;
        free(own.by_name);
    }
    return s;
}

const char *clef_model_picture_config(const clef_model *model)
{
    return model->picture_config;
}
