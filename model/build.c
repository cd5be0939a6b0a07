/* Builds an opened model's graph: inputs, symbols, the architecture's own code, taps. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cl/args.h"
#include "clef/gradient.h"
#include "model/arch/layers.h"
#include "model/arch/speech/samples.h"
#include "model/arch/vision/vision.h"
#include "model/open/model.h"

/* The blocks of the cache's type must divide each head. Heads of full layers and heads of v may have their
 * own sizes. */
static clef_status check_cache_type(const clef_model *model, clef_dtype type, clef_error *err)
{
    const clef_hparams *hp = &model->hparams;
    const int32_t sizes[] = {hp->head_dim, hp->full_head_dim, hp->v_head_dim};
    if (type != CLEF_F32 && type != CLEF_F16 && type != CLEF_Q8_0)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "a KV cache of %s: expected f32, f16 or q8_0",
                          clef_dtype_name(type));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] % clef_dtype_block_elems(type))
            return clef__fail(err, CLEF_E_UNSUPPORTED,
                              "%s: a KV cache of %s: expected heads of a multiple of %d elements, got %d "
                              "(clef: --kv-type f16)",
                              clef_model_path(model), clef_dtype_name(type), clef_dtype_block_elems(type),
                              sizes[i]);
    return CLEF_OK;
}

/* 1 for a graph that reads pictures. */
static int reads_pictures(const clef_model *model, const clef_build_opts *o)
{
    return o->part == CLEF_PART_PICTURES || clef__arch_find(model->hparams.arch, model->is_gguf)->pictures;
}

static void set_defaults(const clef_model *model, clef_build_opts *o)
{
    if (!o->n_context)
        o->n_context = model->hparams.n_context;
    if (!o->n_batch)
        o->n_batch = o->n_context < 512 ? o->n_context : 512;
    if (!o->n_sequences)
        o->n_sequences = 1;
    if (o->train) {
        o->all_logits = 1;
        o->padding_mask = clef__arch_find(model->hparams.arch, model->is_gguf)->kind != CLEF_DECODER;
    }
    if (o->for_export) {
        o->all_logits = o->padding_mask = 1;
        o->token_types = model->hparams.n_token_types > 1;
    }
}

static clef_status check_opts(const clef_model *model, const clef_build_opts *o, clef_error *err)
{
    const clef_hparams *hp = &model->hparams;
    const clef_arch_kind kind = clef__arch_find(hp->arch, model->is_gguf)->kind;
    const char *path = clef_model_path(model);
    if (reads_pictures(model, o) || hp->n_convs)
        return (hp->n_convs ? clef__check_sound_opts : clef__check_picture_opts)(model, o, err);
    if (o->n_context < 1 || o->n_context > hp->n_context)
        return clef__fail(err, CLEF_E_LIMIT,
                          "%s: a context of %d: expected 1 to %d, the model's positions (clef: lower -c)",
                          path, o->n_context, hp->n_context);
    if (o->sample && kind == CLEF_ENCODER)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: expected a decoder, got %s, an encoder, which does not generate text", path,
                          hp->arch);
    if (o->n_batch < 1 || o->n_batch > o->n_context)
        return clef__fail(err, CLEF_E_ARG,
                          "%d tokens a step: expected 1 to %d, the context (clef: lower -b or raise -c)",
                          o->n_batch, o->n_context);
    const int pads = o->padding_mask && !(o->classify && clef__classes_by_first(model));
    if ((o->pooling || o->token_head || o->classify) && (pads || kind == CLEF_SEQ2SEQ))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: %s of %s are not supported", path,
                          o->classify ? "classes" : "embeddings",
                          pads ? "padded texts" : "an encoder-decoder");
    if (o->part && kind != CLEF_SEQ2SEQ)
        return clef__fail(
            err, CLEF_E_UNSUPPORTED,
            "%s: a part of the graph: expected an encoder-decoder, got %s (clef: leave out --part)", path,
            hp->arch);
    if (o->loras && o->for_export)
        return clef__fail(
            err, CLEF_E_UNSUPPORTED,
            "%s: an export with adapters: expected none (clef: merge them with `clef lora merge`)", path);
    if (o->train && (o->for_export || o->sample || o->candidates || o->n_rows || o->pooling ||
                     o->token_head || o->classify || o->no_head || o->loras || o->part))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: a graph for training ends with its loss alone", path);
    if (o->n_sequences < 1)
        return clef__fail(err, CLEF_E_ARG, "%d sequences, expected at least 1", o->n_sequences);
    if (o->n_rows && (o->for_export || o->candidates || o->padding_mask || kind == CLEF_ENCODER))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: steps of rows: expected a decoder without beams or a padding mask", path);
    if (o->n_rows &&
        (o->n_rows < 1 || o->n_pages < 1 || o->n_sliding_pages < 0 || o->n_snapshots < 0 || o->n_samples < 0))
        return clef__fail(err, CLEF_E_ARG,
                          "steps of %d rows, %d samples, %d pages (%d sliding), %d snapshots: expected at "
                          "least 1 row and page",
                          o->n_rows, o->n_samples, o->n_pages, o->n_sliding_pages, o->n_snapshots);
    if (o->pictures && (!o->n_rows || !model->sight))
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: rows of pictures: expected steps of rows of a model that reads pictures",
                          path);
    const clef_status s = clef__check_further_opts(model, o, err);
    return s ? s : check_cache_type(model, o->kv_type, err);
}

/* A value by its name; attention_L means the attention weights of layer L. */
static clef_value *find_tap(const clef_graph *g, const char *name)
{
    char in_layer[64];
    int layer, n = 0;
    static const char *const forms[][2] = {{"attention_%d%n", "layer%d.attention"},
                                           {"encoder_attention_%d%n", "encoder.layer%d.attention"},
                                           {"decoder_attention_%d%n", "decoder.layer%d.attention"},
                                           {"cross_attention_%d%n", "decoder.layer%d.cross_attention"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (sscanf(name, forms[i][0], &layer, &n) == 1 && !name[n]) {
            snprintf(in_layer, sizeof in_layer, forms[i][1], layer);
            return clef_graph_find(g, in_layer);
        }
    return clef_graph_find(g, name);
}

static clef_status add_taps(const clef_model *model, const clef_build_opts *o, clef_graph *g, clef_error *err)
{
    for (int32_t i = 0; i < o->n_taps; i++) {
        clef_value *v = find_tap(g, o->taps[i]);
        if (!v && o->kv_type == CLEF_Q8_0 && strncmp(o->taps[i], "attention_", strlen("attention_")) == 0)
            return clef__fail(err, CLEF_E_UNSUPPORTED,
                              "%s: %s is not computed with a KV cache of q8_0; f32 and f16 have it",
                              clef_model_path(model), o->taps[i]);
        if (!v)
            return clef__fail(err, CLEF_E_NOT_FOUND,
                              "%s: there is no value '%s' to tap; `clef graph --after build` lists them",
                              clef_model_path(model), o->taps[i]);
        if (strcmp(o->taps[i], o->no_head || reads_pictures(model, o) ? "hidden_last" : "logits") != 0)
            clef_output(g, o->taps[i], v);
    }
    return clef_graph_error(g, err);
}

/* Must be the last op, because it overwrites ids and pos with those of the next step. */
static void add_sample(clef_builder *b, clef_value *logits)
{
    clef_value *history =
        clef_state(b->g, "history", CLEF_I32, clef_shape_2(clef_n(b->max_B), clef_n(b->n_context)));
    clef_value *options = clef_input(b->g, "sampling", CLEF_I32, clef_shape_1(clef_n(SAMPLE_OPTIONS)));
    clef_output(b->g, "token", clef_sample(b->g, logits, history, b->ids, b->pos, options));
}

/* The next token of each row that samples one. */
static void add_sample_rows(clef_builder *b, clef_value *logits)
{
    if (!b->samples) /* the graph has an error already */
        return;
    const clef_dim N = b->samples->shape.dim[0];
    clef_value *recent = clef_input(b->g, "recent", CLEF_I32, clef_shape_2(N, clef_n(CLEF_RECENT)));
    clef_value *options = clef_input(b->g, "sampling", CLEF_I32, clef_shape_2(N, clef_n(SAMPLE_OPTIONS)));
    clef_output(b->g, "token", clef_sample_rows(b->g, logits, recent, options));
}

/* For beam search: the most likely next tokens of each sequence. */
static void add_candidates(clef_builder *b, clef_value *logits, int32_t k)
{
    clef_value *x = clef_reshape(b->g, logits, clef_shape_2(b->B, clef_n(b->hp->n_vocab)));
    clef_value *top = clef_topk(b->g, x, &(clef_topk_opts){k});
    clef_output(b->g, "candidates", top);
    clef_output(
        b->g, "candidate_scores",
        clef_gather_elements(b->g, clef_softmax(b->g, x, NULL, NULL, &(clef_softmax_opts){.log = 1}), top));
}

/* Which adapter each sequence uses. */
static void add_adapter_input(clef_builder *b)
{
    if (b->loras)
        b->adapter = clef_input(b->g, "adapter", CLEF_I32, clef_shape_1(b->B));
}

/* The inputs of a step of rows. The shape of `pages` holds for full and for sliding layers. */
static void add_row_inputs(clef_builder *b, const clef_build_opts *o)
{
    clef_graph *g = b->g;
    const clef_dim n = clef_n((o->n_context + CLEF_KV_PAGE - 1) / CLEF_KV_PAGE),
                   sequences = clef_n(o->n_sequences);
    b->B = clef_symbol(g, "B", o->n_rows);
    b->T = clef_n(1);
    b->S = clef_symbol(g, "S", o->n_context);
    b->cached = 1;
    b->ids = clef_input(g, "input_ids", CLEF_I32, clef_shape_2(b->B, b->T));
    b->pos = clef_input(g, "pos", CLEF_I32, clef_shape_1(b->B));
    b->runs = clef_input(g, "runs", CLEF_I32, clef_shape_2(clef_symbol(g, "M", o->n_sequences), clef_n(3)));
    b->pages[0] = clef_input(g, "pages", CLEF_I32, clef_shape_2(sequences, n));
    b->pages[1] = clef_input(g, "sliding_pages", CLEF_I32, clef_shape_2(sequences, n));
    b->n_pages[0] = o->n_pages;
    b->n_pages[1] = o->n_sliding_pages ? o->n_sliding_pages : o->n_pages;
    const int32_t most_samples = o->n_samples ? o->n_samples : o->n_rows;
    b->samples = clef_input(g, "samples", CLEF_I32, clef_shape_1(clef_symbol(g, "N", most_samples)));
    add_adapter_input(b);
    if (o->pictures)
        clef__picture_inputs(b);
}

/* A symbol; or, in training, its bound, because gradients of weights add up over all tokens. */
static clef_dim length(clef_builder *b, const clef_build_opts *o, const char *symbol, int32_t bound)
{
    return o->train ? clef_n(bound) : clef_symbol(b->g, symbol, bound);
}

/* The inputs of a decoder that is trained on documents packed into rows. */
static void add_document_inputs(clef_builder *b)
{
    const clef_shape tokens = clef_shape_2(b->B, b->T);
    b->ids = clef_input(b->g, "input_ids", CLEF_I32, tokens);
    b->positions = clef_input(b->g, "positions", CLEF_I32, tokens);
    b->first = clef_input(b->g, "first", CLEF_I32, tokens);
}

/* Declares symbols and inputs. A decoder's tokens see S cached positions; an encoder's see each other. */
static void add_inputs(clef_builder *b, const clef_build_opts *o)
{
    clef_graph *g = b->g;
    if (o->n_rows && b->cached) {
        add_row_inputs(b, o);
        return;
    }
    b->B = length(b, o, "B", o->n_sequences);
    if (!b->hp->n_mels)
        b->T = b->S = length(b, o, "T", o->n_batch);
    if (o->train && b->arch->kind == CLEF_DECODER) {
        add_document_inputs(b);
        return;
    }
    if (b->hp->n_mels) {
        b->T = b->S = clef_n(b->hp->n_source);
        b->features = clef_input(g, "input_features", CLEF_F32,
                                 clef_shape_3(b->B, clef_n(b->hp->n_mels), clef_n(2 * b->hp->n_source)));
        return;
    }
    if (b->cached)
        b->S = clef_symbol(g, "S", o->n_context);
    b->ids = clef_input(g, "input_ids", CLEF_I32, clef_shape_2(b->B, b->T));
    if (b->cached)
        b->pos = clef_input(g, "pos", CLEF_I32, clef_shape_1(b->B));
    if (b->cached && o->candidates)
        b->order = clef_input(g, "order", CLEF_I32, clef_shape_1(b->B));
    if (o->token_types)
        b->types = clef_input(g, "token_type_ids", CLEF_I32, clef_shape_2(b->B, b->T));
    if (o->padding_mask) {
        b->mask = clef_input(g, "attention_mask", CLEF_I32, clef_shape_2(b->B, b->S));
        b->mask = clef_reshape(g, b->mask, clef_shape_4(b->B, clef_n(1), clef_n(1), b->S));
    }
    add_adapter_input(b);
}

/* The source's tokens up to the encoder's output. */
static void build_encoder(clef_builder *b, const clef_build_opts *o)
{
    add_inputs(b, o);
    b->source = b->T;
    b->memory_mask = b->mask;
    clef_scope_push(b->g, "encoder");
    b->memory = b->arch->build(b);
    clef_named(b->memory, "/encoder_last");
    clef_scope_pop(b->g);
}

/* The encoder's output, to be exported: a plan has its keys and values in cross_k_L and cross_v_L. */
static void add_memory_inputs(clef_builder *b)
{
    clef_value *mask = clef_input(b->g, "encoder_attention_mask", CLEF_I32, clef_shape_2(b->B, b->source));
    b->memory_mask = clef_reshape(b->g, mask, clef_shape_4(b->B, clef_n(1), clef_n(1), b->source));
    b->memory = clef_input(b->g, "encoder_hidden_states", CLEF_F32,
                           clef_shape_3(b->B, b->source, clef_n(b->hp->d_model)));
}

static void add_labels(clef_builder *b)
{
    b->labels = clef_input(b->g, "labels", CLEF_I32, clef_shape_2(b->B, b->T));
}

/* x: the losses of all tokens, [B T]. */
static void add_loss(clef_builder *b, clef_value *x)
{
    clef_graph *g = b->g;
    clef_value *weight = clef_input(g, "loss_weight", CLEF_F32, clef_shape_1(clef_n(1)));
    clef_value *sum = clef_sum_axes(g, x, &(clef_sum_axes_opts){1});
    clef_output(g, "token_loss", x);
    clef_output(g, "loss", clef_reshape(g, clef_mul(g, sum, weight), (clef_shape){0}));
}

/* How long the source of a decoder is; what is heard always has one length. */
static clef_dim source_length(clef_builder *b, const clef_build_opts *o)
{
    if (b->hp->n_mels)
        return clef_n(b->hp->n_source);
    return clef_symbol(b->g, "U", o->n_source ? o->n_source : b->hp->n_context);
}

/* Returns the logits; NULL for a part of the graph, or a loss. */
static clef_value *build_seq2seq(clef_builder *b, const clef_build_opts *o)
{
    clef_graph *g = b->g;
    if (o->part == CLEF_PART_DECODER && o->n_rows) {
        const int32_t n_source = o->n_source ? o->n_source : b->hp->n_context;
        add_row_inputs(b, o);
        b->source_pages = clef_input(
            g, "source_pages", CLEF_I32,
            clef_shape_2(clef_n(o->n_sequences), clef_n((n_source + CLEF_KV_PAGE - 1) / CLEF_KV_PAGE)));
        b->source_end = clef_input(g, "source_end", CLEF_I32, clef_shape_1(b->B));
    } else if (o->part == CLEF_PART_DECODER) {
        b->B = clef_symbol(g, "B", o->n_sequences);
        b->T = o->for_export ? clef_symbol(g, "T", o->n_batch) : clef_n(1);
        b->S = clef_symbol(g, "S", o->n_context);
        b->source = source_length(b, o);
        b->cached = 1;
        b->ids = clef_input(g, "input_ids", CLEF_I32, clef_shape_2(b->B, b->T));
        b->pos = clef_input(g, "pos", CLEF_I32, clef_shape_1(b->B));
        if (o->candidates)
            b->order = clef_input(g, "order", CLEF_I32, clef_shape_1(b->B));
        if (o->for_export)
            add_memory_inputs(b);
        add_adapter_input(b);
    } else {
        build_encoder(b, o);
        b->mask = NULL;
    }
    if (o->part == CLEF_PART_ENCODER && o->for_export) {
        clef_output(g, "last_hidden_state", b->memory);
        return NULL;
    }
    clef__enter_decoder(b);
    if (o->part == CLEF_PART_ENCODER) {
        clef__cross_outputs(b);
        return NULL;
    }
    if (o->part == CLEF_PART_WHOLE) {
        b->T = b->S = length(b, o, "U", o->train ? o->n_batch : o->n_context);
        b->ids = clef_input(g, "decoder_input_ids", CLEF_I32, clef_shape_2(b->B, b->T));
    }
    if (o->train)
        add_labels(b);
    clef_scope_push(g, "decoder");
    clef_value *result = b->arch->decode(b);
    if (o->train)
        add_loss(b, result);
    else
        clef_output(g, "logits", result);
    clef_scope_pop(g);
    return o->train ? NULL : result;
}

/* `missing` names the first weight of a head for words. A classifier's files have none. */
static clef_status told_of_classes(const clef_model *model, clef_error *missing)
{
    const clef_build_opts classes = {.n_context = 1, .n_batch = 1, .classify = 1};
    clef_graph *g = NULL;
    if (clef_model_build(model, &classes, &g, NULL) != CLEF_OK)
        return CLEF_E_NOT_FOUND;
    clef_graph_destroy(g);
    return clef__fail(missing, CLEF_E_NOT_FOUND,
                      "%s: expected a language model, got one of classes (clef: classify, rerank)",
                      clef_model_path(model));
}

clef_status clef_model_build(const clef_model *model, const clef_build_opts *opts, clef_graph **out,
                             clef_error *err)
{
    clef_build_opts o = opts ? *opts : (clef_build_opts){0};
    *out = NULL;
    set_defaults(model, &o);
    clef_status s = check_opts(model, &o, err);
    if (!s && o.pooling) /* what is in files of its own is opened at its first use */
        s = clef__dense_open((clef_model *)(uintptr_t)model, err);
    if (!s && o.token_head)
        s = clef__token_head_open((clef_model *)(uintptr_t)model, o.token_head, err);
    if (s)
        return s;
    clef_graph *g = clef_graph_create();
    if (!g)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its graph", clef_model_path(model));
    const clef_arch *arch = clef__arch_find(model->hparams.arch, model->is_gguf);
    clef_builder b = {.g = g,
                      .model = model,
                      .is_gguf = model->is_gguf,
                      .hp = &model->hparams,
                      .arch = arch,
                      .weights = &arch->weights,
                      .no_head = o.no_head || o.pooling || o.token_head || o.classify,
                      .cached = arch->kind == CLEF_DECODER && !o.train,
                      .causal = arch->kind == CLEF_DECODER,
                      .n_context = o.n_context,
                      .all_logits = o.all_logits || o.pooling || o.token_head || o.classify,
                      .for_export = o.for_export,
                      .mtp = o.mtp,
                      .layer = -1,
                      .max_B = o.n_sequences + o.n_snapshots,
                      .loras = o.loras,
                      .dropout = o.dropout,
                      .new_lora = o.new_lora,
                      .kv_type = o.kv_type};
    if (o.train && o.dropout > 0)
        b.random = clef_input(g, "random", CLEF_I32, clef_shape_1(clef_n(4)));
    clef_value *result;
    if (arch->kind == CLEF_SEQ2SEQ && o.part != CLEF_PART_PICTURES) {
        result = build_seq2seq(&b, &o);
    } else {
        reads_pictures(model, &o) ? clef__add_pixels(&b, &o)
        : arch->samples           ? clef__add_samples(&b, &o)
                                  : add_inputs(&b, &o);
        if (o.train)
            add_labels(&b);
        result = o.mtp == CLEF_MTP_LAYER ? clef__further_layer(&b)
                 : b.arch->layer         ? clef__decoder(&b, clef__embed(&b), b.arch->layer)
                                         : b.arch->build(&b);
        if (o.train)
            add_loss(&b, result);
        else if (o.pooling)
            clef_output(g, "embedding", clef__embedded(&b, result, &o));
        else if (o.token_head)
            clef_output(g, "tokens", clef__token_vectors(&b, result, o.token_head));
        else if (o.classify)
            clef_output(g, "logits", clef__classified(&b, result));
        else
            clef_output(g, o.no_head || b.pixels ? "hidden_last" : "logits", result);
    }
    if (o.candidates)
        add_candidates(&b, result, o.candidates);
    if (o.sample)
        o.n_rows ? add_sample_rows(&b, result) : add_sample(&b, result);
    s = clef_graph_error(g, err);
    if (s == CLEF_E_NOT_FOUND && !b.no_head)
        s = told_of_classes(model, err);
    if (!s)
        s = add_taps(model, &o, g, err);
    if (s) {
        clef_graph_destroy(g);
        return s;
    }
    *out = g;
    return CLEF_OK;
}

int32_t clef_model_is_encoder(const clef_model *model)
{
    return clef__arch_find(model->hparams.arch, model->is_gguf)->kind == CLEF_ENCODER;
}

int32_t clef_model_padding(const clef_model *model)
{
    const clef_hparams *hp = &model->hparams;
    const int counts = clef_model_is_encoder(model) || strcmp(hp->arch, "m2m_100") == 0;
    return counts ? hp->position_offset - 1 : -1;
}

clef_status clef__check_padding(const clef_model *model, const int32_t *ids, int32_t n, clef_error *err)
{
    const int32_t padding = clef_model_padding(model);
    for (int32_t i = 0; padding >= 0 && i < n; i++)
        if (ids[i] == padding)
            return clef__fail(err, CLEF_E_UNSUPPORTED,
                              "token %" PRId32 " is %" PRId32 ", the padding id, which has no position in %s",
                              i, padding, model->hparams.arch);
    return CLEF_OK;
}
