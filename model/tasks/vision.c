/* Runs pictures through an encoder of pictures. A plan is made for a size; another size makes another one. */
#include "clef/vision.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/ranks.h"
#include "graph/fail.h"
#include "model/arch/layers.h"
#include "model/open/model.h"

enum { LABEL_BYTES = 96, BATCH = 8 };

struct clef_vision {
    clef_device *dev;
    clef_model *model;
    clef_vision_opts opts;
    clef_vision_info info;
    char (*labels)[LABEL_BYTES]; /* NULL, or [width] */
    clef_plan *plan;             /* NULL before the first picture */
    int32_t height, width, rows; /* of its pictures; what each of them becomes */
};

static clef_build_opts build_opts(const clef_vision *v, int32_t height, int32_t width)
{
    const clef_arch *arch = clef__arch_find(v->model->hparams.arch, v->model->is_gguf);
    return (clef_build_opts){
        .part = arch->pictures ? CLEF_PART_WHOLE : CLEF_PART_PICTURES,
        .n_sequences = v->opts.n_batch,
        .picture_height = height,
        .picture_width = width,
        .classify = v->opts.kind == CLEF_VISION_CLASSES,
        .no_head = v->opts.kind == CLEF_VISION_HIDDEN,
        .pooling = v->opts.kind != CLEF_VISION_VECTOR ? CLEF_POOL_NONE
                   : v->opts.mean                     ? CLEF_POOL_MEAN
                                                      : CLEF_POOL_CLS,
        .normalize = v->opts.normalize == CLEF_NORMALIZE_YES,
    };
}

/* ---- what the files say ---------------------------------------------------------------------- */

/* One number of a tensor; `missing` where there is none. */
static float stored_number(const clef_model *m, const char *name, float missing)
{
    const clef_tensor_info *t = clef__model_find(m, name);
    float x = missing;
    if (t && t->data && clef_dtype_block_elems(t->dtype) == 1 && t->n_bytes > 0)
        clef_dtype_decode(t->dtype, t->data, 1, &x);
    return x;
}

static void read_comparison(clef_vision *v)
{
    const clef_model *m = v->model;
    v->info.has_texts = m->vision != NULL && clef__model_find(m, "logit_scale") != NULL;
    if (!v->info.has_texts)
        return;
    v->info.scale = expf(stored_number(m, "logit_scale", 0));
    v->info.sigmoid = clef__model_find(m, "logit_bias") != NULL;
    v->info.bias = stored_number(m, "logit_bias", 0);
}

static clef_status read_labels(clef_vision *v, clef_error *err)
{
    const json_t *map = json_object_get(v->model->classifier, "id2label");
    v->labels = calloc((size_t)v->info.width, sizeof *v->labels);
    if (!v->labels)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " labels", v->info.width);
    for (int32_t i = 0; i < v->info.width; i++) {
        char key[16];
        snprintf(key, sizeof key, "%" PRId32, i);
        const char *label = json_string_value(json_object_get(map, key));
        if (label)
            clef__config_text(label, v->labels[i], LABEL_BYTES);
        else
            snprintf(v->labels[i], LABEL_BYTES, "LABEL_%" PRId32, i);
    }
    return CLEF_OK;
}

/* problem_type of a classifier; the classes exclude each other where the file says nothing. */
static clef_status read_kind(clef_vision *v, clef_error *err)
{
    const char *type = json_string_value(json_object_get(v->model->classifier, "problem_type"));
    if (!clef__has_classifier(v->model))
        return clef__fail(err, CLEF_E_NOT_FOUND,
                          "%s: it has no classes: by its architectures it is no "
                          "...ForImageClassification%s",
                          clef_model_path(v->model),
                          v->info.has_texts ? " (clef: name some with --classes)" : "");
    v->info.classes = CLEF_CLASS_SOFTMAX;
    if (type && strcmp(type, "multi_label_classification") == 0)
        v->info.classes = CLEF_CLASS_SIGMOID;
    else if (type && strcmp(type, "regression") == 0)
        v->info.classes = CLEF_CLASS_REGRESSION;
    else if (type && strcmp(type, "single_label_classification") != 0)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "config.json: problem_type %.40s is not supported", type);
    return CLEF_OK;
}

static clef_status read_width(clef_vision *v, clef_error *err)
{
    clef_graph *graph;
    const clef_build_opts opts = build_opts(v, 0, 0);
    const clef_status status = clef_model_build(v->model, &opts, &graph, err);
    if (status != CLEF_OK)
        return status;
    const clef_value_info info = clef_value_describe(clef_graph_output(graph, 0, NULL));
    v->info.width = (int32_t)info.shape.dim[info.shape.rank - 1].n;
    clef_graph_destroy(graph);
    return CLEF_OK;
}

static clef_status set_up(clef_vision *v, clef_error *err)
{
    const char *why;
    const clef_hparams *hp = clef_model_pictures(v->model, &why);
    if (!hp)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: expected a model that reads pictures: %s",
                          clef_model_path(v->model), why);
    v->info.image_height = hp->image_height;
    v->info.image_width = hp->image_width;
    v->info.patch_size = hp->patch_size;
    read_comparison(v);
    const int classes = v->opts.kind == CLEF_VISION_CLASSES;
    clef_status status = classes ? read_kind(v, err) : CLEF_OK;
    if (status == CLEF_OK)
        status = read_width(v, err);
    return status == CLEF_OK && classes ? read_labels(v, err) : status;
}

clef_status clef_vision_create(clef_device *dev, clef_model *model, const clef_vision_opts *opts,
                               clef_vision **out, clef_error *err)
{
    *out = NULL;
    clef_vision *v = calloc(1, sizeof *v);
    if (!v)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for an encoder of pictures");
    v->dev = dev;
    v->model = model;
    v->opts = opts ? *opts : (clef_vision_opts){0};
    v->opts.n_batch = v->opts.n_batch > 0 ? v->opts.n_batch : BATCH;
    const clef_status status = set_up(v, err);
    if (status == CLEF_OK)
        *out = v;
    else
        clef_vision_destroy(v);
    return status;
}

void clef_vision_destroy(clef_vision *v)
{
    if (!v)
        return;
    clef_plan_destroy(v->plan);
    free(v->labels);
    free(v);
}

clef_vision_info clef_vision_describe(const clef_vision *v)
{
    return v->info;
}

const char *clef_vision_label(const clef_vision *v, int32_t i)
{
    return v->labels && i >= 0 && i < v->info.width ? v->labels[i] : NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

/* The rows of the graph's output for one picture. */
static int32_t rows_of(const clef_graph *graph)
{
    const clef_value_info info = clef_value_describe(clef_graph_output(graph, 0, NULL));
    return info.shape.rank == 3 ? (int32_t)info.shape.dim[1].n : 1;
}

int32_t clef_vision_rows(const clef_vision *v, int32_t height, int32_t width)
{
    clef_graph *graph;
    const clef_build_opts opts = build_opts(v, height, width);
    if (clef_model_build(v->model, &opts, &graph, NULL) != CLEF_OK)
        return 0;
    const int32_t rows = rows_of(graph);
    clef_graph_destroy(graph);
    return rows;
}

static clef_status plan_for(clef_vision *v, int32_t height, int32_t width, clef_error *err)
{
    if (v->plan && v->height == height && v->width == width)
        return CLEF_OK;
    clef_plan_destroy(v->plan);
    v->plan = NULL;
    clef_graph *graph;
    const clef_build_opts opts = build_opts(v, height, width);
    clef_status status = clef_model_build(v->model, &opts, &graph, err);
    if (status != CLEF_OK)
        return status;
    const clef_plan_opts plan = {.compile = v->opts.compile,
                                 .batch_invariant = 1,
                                 .weights = clef_model_weight,
                                 .release = clef_model_release,
                                 .weights_user = v->model,
                                 .weights_name = clef_model_weights_name(v->model, NULL)};
    v->rows = rows_of(graph);
    status = clef_graph_optimize(graph, NULL, err);
    if (status == CLEF_OK)
        status = clef_plan_create(v->dev, graph, &plan, &v->plan, err);
    clef_graph_destroy(graph);
    v->height = height;
    v->width = width;
    return status;
}

/* Runs n pictures of one size: out [n, rows, width]. */
static clef_status run_batch(clef_vision *v, const clef_pixels *pictures, int32_t n, float *out,
                             clef_error *err)
{
    const size_t each = 3 * (size_t)v->height * (size_t)v->width * sizeof(float),
                 n_out = (size_t)n * (size_t)v->rows * (size_t)v->info.width;
    float *all = malloc(each * (size_t)n);
    if (!all)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " pictures", n);
    for (int32_t i = 0; i < n; i++)
        memcpy((char *)all + each * (size_t)i, pictures[i].values, each);
    clef_status status = clef_plan_bind(v->plan, 1, n, err);
    if (status == CLEF_OK)
        status = clef_plan_write(v->plan, 0, all, each * (size_t)n, err);
    free(all);
    if (status == CLEF_OK)
        status = clef_plan_run(v->plan, err);
    if (status == CLEF_OK)
        status = clef_plan_read(v->plan, 0, out, n_out * sizeof *out, err);
    for (size_t i = 0; i < n_out && status == CLEF_OK; i++)
        if (!isfinite(out[i]))
            status = clef__fail(err, CLEF_E_NOT_FINITE, "picture %zu gives a number that is not finite",
                                i / ((size_t)v->rows * (size_t)v->info.width));
    return status;
}

clef_status clef_vision_run(clef_vision *v, const clef_pixels *pictures, int32_t n, float *out,
                            clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0, m; i < n && status == CLEF_OK; i += m) {
        for (m = 1; i + m < n && m < v->opts.n_batch && pictures[i + m].height == pictures[i].height &&
                    pictures[i + m].width == pictures[i].width && pictures[i + m].n <= 1;)
            m++;
        status = pictures[i].n > 1 ? clef__fail(err, CLEF_E_UNSUPPORTED,
                                                "a picture of %" PRId32 " tiles: expected one", pictures[i].n)
                                   : plan_for(v, pictures[i].height, pictures[i].width, err);
        if (status == CLEF_OK)
            status = run_batch(v, pictures + i, m, out, err);
        out += (size_t)m * (size_t)v->rows * (size_t)v->info.width;
        if (status == CLEF_OK && v->opts.compile.progress && i + m < n &&
            v->opts.compile.progress(v->opts.compile.progress_user, "pictures", (uint64_t)(i + m),
                                     (uint64_t)n))
            status = clef__fail(err, CLEF_E_CANCELLED,
                                "interrupted after %" PRId32 " of %" PRId32 " pictures", i + m, n);
    }
    return status;
}
