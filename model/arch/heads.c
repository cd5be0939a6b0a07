/* Heads other than logits of a vocabulary: embeddings, and classes. */
#include <math.h>
#include <string.h>

#include "model/arch/layers.h"
#include "model/open/model.h"

/* ---- embeddings ------------------------------------------------------------------------------ */

/* x / max(|x|, 1e-12), as torch.nn.functional.normalize: an RMS norm is sqrt(n) times it. */
static clef_value *unit_rows(clef_builder *b, clef_value *x, int32_t n)
{
    const float d = (float)n;
    x = clef_rms_norm(b->g, x, NULL, &(clef_norm_opts){.eps = 1e-24f / d});
    return clef_affine(b->g, x, &(clef_affine_opts){.scale = 1 / sqrtf(d)});
}

static clef_value *dense_weight(clef_builder *b, const clef_tensor_info *t)
{
    return clef_weight(b->g, t->name, t->dtype,
                       t->rank == 2 ? clef_shape_2(clef_n(t->dims[0]), clef_n(t->dims[1]))
                                    : clef_shape_1(clef_n(t->dims[0])));
}

/* act(x W^T + bias) */
static clef_value *dense_layer(clef_builder *b, clef_value *x, const clef__dense *d)
{
    x = clef_matmul(b->g, x, dense_weight(b, &d->weight), NULL, &(clef_matmul_opts){.transpose_b = 1});
    if (d->bias.data)
        x = clef_add(b->g, x, dense_weight(b, &d->bias));
    return d->act ? d->act(b->g, x) : x;
}

clef_value *clef__embedded(clef_builder *b, clef_value *x, const clef_build_opts *o)
{
    int32_t n = b->hp->d_model;
    const int is_own = b->arch->vector && (!b->arch->pictures || o->pooling == CLEF_POOL_CLS);
    x = is_own ? b->arch->vector(b, x) : clef__pooled(b, x, (clef_pooling)o->pooling);
    if (is_own && x)
        n = (int32_t)clef__dim_right(&x->shape, 0).n;
    for (int32_t i = 0; i < b->model->n_dense; i++) {
        x = dense_layer(b, x, &b->model->dense[i]);
        n = b->model->dense[i].n_out;
    }
    if (o->n_dims > 0 && o->n_dims < n) {
        n = o->n_dims;
        x = clef__part(b, x, 1, 0, n);
    }
    return o->normalize ? unit_rows(b, x, n) : x;
}

clef_value *clef__token_vectors(clef_builder *b, clef_value *x, clef_token_head head)
{
    const clef__dense *d = &b->model->token_heads[head - CLEF_TOKENS_SPARSE];
    x = dense_layer(b, x, d);
    return head == CLEF_TOKENS_SPARSE ? clef_relu(b->g, x) : unit_rows(b, x, d->n_out);
}

/* The rows before those of the patches of a picture. */
static int32_t special_rows(const clef_builder *b, const clef_value *x)
{
    if (!x || !b->pixels || b->pixels->shape.rank != 4)
        return 0;
    const clef_dim *dim = b->pixels->shape.dim;
    const int64_t n = x->shape.dim[1].n - dim[2].n / b->hp->patch_size * (dim[3].n / b->hp->patch_size);
    return n > 0 ? (int32_t)n : 0;
}

clef_value *clef__pooled(clef_builder *b, clef_value *x, clef_pooling pooling)
{
    clef_graph *g = b->g;
    const int32_t n_special = pooling == CLEF_POOL_MEAN ? special_rows(b, x) : 0;
    if (n_special)
        x = clef__part(b, x, 1, n_special, (int32_t)x->shape.dim[1].n - n_special);
    if (pooling == CLEF_POOL_MEAN)
        x = clef_reduce(g, clef_permute(g, x, &(clef_permute_opts){{0, 2, 1}}),
                        &(clef_reduce_opts){CLEF_REDUCE_MEAN}); /* [B, d, 1] */
    else
        x = clef_slice(
            g, x,
            &(clef_slice_opts){.axis = 1, .start = pooling == CLEF_POOL_CLS ? 0 : -1, .size = clef_n(1)});
    return clef_reshape(g, x, clef_shape_2(b->B, clef_n(b->hp->d_model)));
}

/* ---- classes --------------------------------------------------------------------------------- */

/* A family's classifier: out(norm(act(dense(x)))) of the pooled x; without a dense layer out(x). The names
 * are a folder's; in GGUF all families have the names that llama.cpp writes for rerankers. */
typedef struct class_form {
    const char *arch;                                 /* NULL: all others, which classify the last token */
    clef_value *(*act)(clef_graph *g, clef_value *x); /* NULL: what the file says */
    int dense_for_tokens; /* 1: the dense layer and the norm are also used to label tokens */
    const char *dense, *norm, *out;
} class_form;

static const class_form class_forms[] = {
    {"bert", clef_tanh, 0, "pooler.dense", NULL, "classifier"},
    {"albert", clef_tanh, 0, "pooler", NULL, "classifier"},
    {"gte", clef_tanh, 0, "pooler.dense", NULL, "classifier"},
    {"roberta", clef_tanh, 0, "/classifier.dense", NULL, "classifier.out_proj"},
    {"xlm-roberta", clef_tanh, 0, "/classifier.dense", NULL, "classifier.out_proj"},
    {"mpnet", clef_tanh, 0, "/classifier.dense", NULL, "classifier.out_proj"},
    {"electra", clef_gelu, 0, "/classifier.dense", NULL, "classifier.out_proj"},
    {"distilbert", clef_relu, 0, "/pre_classifier", NULL, "classifier"},
    {"deberta-v2", NULL, 0, "/pooler.dense", NULL, "classifier"},
    {"modernbert", NULL, 1, "/head.dense", "/head.norm", "classifier"},
    {NULL, NULL, 0, NULL, NULL, "score"},
};

static const clef_gguf_name class_names[] = {
    {CLEF_W_HEAD_DENSE, "cls"}, {CLEF_W_HEAD_NORM, "cls.norm"}, {CLEF_W_OUT, "cls.output"}, {0, NULL}};

/* By the model_type of the folder, which a GGUF file of clef's has, too; else by the architecture. */
static const class_form *form_of(const clef_model *m)
{
    const char *type = json_string_value(json_object_get(m->classifier, "model_type"));
    const clef_arch *arch = clef__arch_find(m->hparams.arch, m->is_gguf);
    const class_form *f = class_forms;
    while (f->arch && (type ? strcmp(f->arch, type) != 0 : clef__arch_find(f->arch, 0) != arch))
        f++;
    return f;
}

clef_activation clef__classifier_activation(clef_builder *b)
{
    clef_error err = {0};
    clef_hparams own = {.activation = CLEF_GELU};
    clef_json_fields f = {.object = b->model->classifier, .file = "config.json", .err = &err};
    const int is_pooler = strcmp(form_of(b->model)->arch ? form_of(b->model)->arch : "", "deberta-v2") == 0;
    if (b->model->classifier)
        clef__json_activation(&f, &own, is_pooler ? "pooler_hidden_act" : "classifier_activation", "gelu");
    if (f.status != CLEF_OK)
        clef__graph_fail(b->g, f.status, "%s/%s", clef_model_path(b->model), err.text);
    return own.activation;
}

/* 1 if the file's class ends so. */
static int is_class(const clef_model *model, const char *end)
{
    const json_t *list = json_object_get(model->classifier, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    return name && strstr(name, end) != NULL;
}

int clef__labels_tokens(const clef_model *model)
{
    return is_class(model, "ForTokenClassification");
}

/* The part of x [B, T, d] that the classifier reads: the first token (or the mean, if the file says so); for
 * decoders the last. */
static clef_value *class_token(clef_builder *b, clef_value *x, const class_form *f)
{
    const char *pooling =
        json_string_value(json_object_get(b->model->classifier, "classifier_pooling")); /* ModernBERT's */
    if (f->arch && pooling && strcmp(pooling, "mean") == 0)
        return clef__pooled(b, x, CLEF_POOL_MEAN);
    return clef__pooled(b, x, f->arch ? CLEF_POOL_CLS : CLEF_POOL_LAST);
}

int clef__classes_by_first(const clef_model *model)
{
    const char *pooling = json_string_value(json_object_get(model->classifier, "classifier_pooling"));
    const int is_encoder = clef__arch_find(model->hparams.arch, model->is_gguf)->kind == CLEF_ENCODER;
    return is_encoder && (clef__labels_tokens(model) || !pooling || strcmp(pooling, "mean") != 0);
}

/* The last layer, whose number of rows is the number of classes: [labels, d] in folders of all families. */
static clef_value *class_logits(clef_builder *b, clef_value *x)
{
    clef_value *w = clef__role_weight(b, CLEF_W_OUT, "weight"),
               *bias = clef__role_weight_optional(b, CLEF_W_OUT, "bias");
    if (w && w->shape.rank == 2)
        w = clef__role_weight_shaped(b, CLEF_W_OUT, "weight",
                                     clef_shape_2(w->shape.dim[0], clef_n(b->hp->d_model)));
    x = clef_matmul(b->g, x, w, NULL, &(clef_matmul_opts){.transpose_b = 1});
    return bias ? clef_add(b->g, x, bias) : x;
}

int clef__has_classifier(const clef_model *model)
{
    return is_class(model, "ForSequenceClassification") || is_class(model, "ForTokenClassification") ||
           is_class(model, "ForImageClassification");
}

clef_weight_names clef__class_names(const clef_model *model, const char *hf[CLEF_N_ROLES])
{
    const class_form *f = form_of(model);
    const int per_token = clef__labels_tokens(model);
    memset(hf, 0, CLEF_N_ROLES * sizeof *hf);
    if (!per_token || f->dense_for_tokens) {
        hf[CLEF_W_HEAD_DENSE] = f->dense;
        hf[CLEF_W_HEAD_NORM] = f->norm;
    }
    hf[CLEF_W_OUT] = per_token ? "classifier" : f->out;
    return (clef_weight_names){.hf = hf, .gguf = class_names};
}

clef_value *clef__classified(clef_builder *b, clef_value *x)
{
    const class_form *f = form_of(b->model);
    const int per_token = clef__labels_tokens(b->model);
    const int32_t d = b->hp->d_model;
    if (b->arch->classes)
        return b->arch->classes(b, x);
    const char *hf[CLEF_N_ROLES];
    const clef_weight_names names = clef__class_names(b->model, hf);
    const clef_weight_names *before = b->weights;
    b->weights = &names;
    if (!per_token)
        x = class_token(b, x, f);
    if (hf[CLEF_W_HEAD_DENSE]) {
        x = clef__linear(b, x, CLEF_W_HEAD_DENSE, d, d);
        x = f->act ? f->act(b->g, x) : clef__activated(b, x, clef__classifier_activation(b));
    }
    if (hf[CLEF_W_HEAD_NORM])
        x = clef__norm(b, x, CLEF_W_HEAD_NORM);
    x = class_logits(b, x);
    b->weights = before;
    return x;
}
