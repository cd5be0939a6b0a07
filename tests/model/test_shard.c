/* Cutting the graphs of models for several ranks: each rank's graph is evaluated beside the others' in
 * double, and the outputs have to be those of the whole graph. CLEF_SHARED names a folder with a model of
 * each family; without it these are skipped. */
#define TEST_NAME "test-shard"
#include "tests/files.h"
#include "tests/skip.h"

#include <dirent.h>
#include <math.h>

#include "clef/model.h"
#include "model/open/arch.h"
#include "model/open/model.h"
#include "tests/model/hybrid.h"
#include "tests/model/side_by_side.h"

enum { MOST_RANKS = 8, TOKENS = 3, POSITIONS = 16 };
static const double TOLERANCE = 1e-9; /* sums in another order, in double */

static const clef_layout layouts[] = {{2, 1}, {3, 1}, {4, 1}, {1, 2}, {2, 2}, {1, 3}};

typedef struct outcome {
    int refused;
    double worst;
    char text[256];
} outcome;

static double difference(const clef_ref_tensor *a, const clef_ref_tensor *b)
{
    double most = 1e-6, worst = 0;
    for (int64_t i = 0; i < a->n[0] * a->n[1] * a->n[2] * a->n[3]; i++) {
        if (isnan(a->x[i]) != isnan(b->x[i]) || isinf(a->x[i]) != isinf(b->x[i]))
            return INFINITY;
        if (isfinite(a->x[i])) {
            most = fmax(most, fabs(a->x[i]));
            worst = fmax(worst, fabs(a->x[i] - b->x[i]));
        }
    }
    return worst / most;
}

/* The output of the ranks that have it, beside that of the whole graph. */
static void compare_outputs(const clef_graph *g, const clef__oracle *o, clef_graph *const *graphs, int32_t n,
                            clef_ref_tensor *const *results, outcome *out)
{
    for (int32_t i = 0; i < clef_graph_n_outputs(g); i++) {
        const char *name;
        const clef_value *want = clef_graph_output(g, i, &name);
        int32_t found = 0;
        for (int32_t r = 0; r < n; r++)
            for (int32_t k = 0; k < clef_graph_n_outputs(graphs[r]); k++) {
                const char *other;
                const clef_value *v = clef_graph_output(graphs[r], k, &other);
                if (strcmp(name, other) != 0)
                    continue;
                found++;
                const double d = difference(&o->results[want->id], &results[r][v->id]);
                if (d > out->worst) {
                    out->worst = d;
                    snprintf(out->text, sizeof out->text, "output %s on rank %d", name, (int)r);
                }
            }
        if (!found)
            fail_msg("no rank has output %s", name);
    }
}

static outcome try_layout(const clef_graph *g, const clef__oracle *o, const clef_layout *layout)
{
    clef_graph *graphs[MOST_RANKS] = {0};
    clef_ref_tensor *results[MOST_RANKS] = {0};
    const int32_t n = layout->width * layout->stages;
    outcome out = {0};
    clef_error err = {0};
    for (int32_t r = 0; r < n && !out.refused; r++) {
        out.refused = clef__shard(g, layout, r, NULL, &graphs[r], &err) != CLEF_OK;
        if (!out.refused)
            results[r] = calloc((size_t)graphs[r]->n_values + 1, sizeof *results[r]);
    }
    if (out.refused) {
        if (err.status != CLEF_E_UNSUPPORTED)
            fail_msg("%s", err.text);
        snprintf(out.text, sizeof out.text, "%.200s", err.text);
    } else {
        if (clef__ranks_eval(o, graphs, layout, results, &err))
            fail_msg("%s", err.text);
        compare_outputs(g, o, graphs, n, results, &out);
    }
    for (int32_t r = 0; r < n; r++) {
        if (results[r])
            clef__ref_free(results[r], graphs[r]->n_values);
        free(results[r]);
        clef_graph_destroy(graphs[r]);
    }
    return out;
}

/* Bytes of weights that a rank of `width` has, in parts of all. */
static double share_of(const clef_graph *g, int32_t width)
{
    clef_graph *part;
    double all = 0, mine = 0;
    const clef_layout layout = {width, 1};
    if (clef__shard(g, &layout, 0, NULL, &part, NULL))
        return 1;
    for (int32_t i = 0; i < g->n_values; i++)
        all += g->values[i]->kind == CLEF_WEIGHT ? (double)clef__bytes(g->values[i], NULL) : 0;
    for (int32_t i = 0; i < part->n_values; i++)
        mine += part->values[i]->kind == CLEF_WEIGHT ? (double)clef__bytes(part->values[i], NULL) : 0;
    clef_graph_destroy(part);
    return mine / all;
}

static void check_model(const char *family, const clef_model *model, clef_build_opts build, int fused)
{
    clef_graph *g;
    clef_error err = {0};
    build.n_context = build.n_batch = POSITIONS;
    if (clef_model_build(model, &build, &g, &err) || clef_graph_optimize(g, fused ? NULL : "drop", &err))
        fail_msg("%s: %s", family, err.text);
    clef__oracle o = {.int_lo = 0, .int_hi = 3, .spread = 0.3f};
    if (clef__oracle_init(&o, g, &err))
        fail_msg("%s", err.text);
    for (int32_t i = 0; i < g->n_symbols; i++)
        o.symbols[i] = g->symbols[i].name[0] == 'B' ? 1 : g->symbols[i].name[0] == 'T' ? TOKENS : POSITIONS;
    for (int32_t i = 0; i < g->n_symbols; i++)
        if (o.symbols[i] > g->symbols[i].bound)
            o.symbols[i] = g->symbols[i].bound;
    if (clef__oracle_draw(&o, &err) || clef__oracle_eval(&o, &err))
        fail_msg("%s: %s", family, err.text);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const outcome out = try_layout(g, &o, &layouts[i]);
        printf("%s%s%s%s, %d x %d: %s%s\n", family, build.sample ? ", sample" : "",
               build.n_rows ? ", rows" : "", fused ? "" : ", not fused", (int)layouts[i].width,
               (int)layouts[i].stages,
               out.refused             ? "refused: "
               : out.worst > TOLERANCE ? "WRONG "
                                       : "equal",
               out.refused || out.worst > TOLERANCE ? out.text : "");
        if (out.worst > TOLERANCE)
            fail_msg("%s, %d x %d: %s: off by %g", family, (int)layouts[i].width, (int)layouts[i].stages,
                     out.text, out.worst);
    }
    printf("%s: %.0f %% of the weights on a rank of 2\n", family, 100 * share_of(g, 2));
    clef__oracle_finish(&o);
    clef_graph_destroy(g);
}

/* 1: the model's files have a classifier, and no head for words. */
static int has_classes_alone(const clef_model *model)
{
    clef_graph *g;
    const clef_status s = clef_model_build(model, NULL, &g, NULL);
    clef_graph_destroy(g);
    return s == CLEF_E_NOT_FOUND;
}

static void check_family(const char *folder, const char *family)
{
    char path[4400];
    clef_model *model;
    clef_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, family);
    const clef_status opened = clef_model_open(path, &model, &err);
    if (opened == CLEF_E_UNSUPPORTED && strstr(folder, "models2")) { /* of `models` clef opens all */
        printf("%s: not opened: %s\n", family, err.text);
        return;
    }
    if (opened)
        fail_msg("%s: %s", family, err.text);
    const clef_hparams *hp = &model->hparams;
    const int is_encoder = clef__arch_find(hp->arch, model->is_gguf)->kind == CLEF_ENCODER;
    clef_build_opts build = {.part = hp->n_decoder_layers ? CLEF_PART_DECODER : CLEF_PART_WHOLE,
                             .classify = has_classes_alone(model)};
    check_model(family, model, build, 1);
    check_model(family, model, build, 0);
    if (!is_encoder && !build.classify) {
        check_model(family, model, (clef_build_opts){.part = build.part, .sample = 1}, 1);
        build.n_rows = 6;
        build.n_sequences = 2;
        build.n_pages = 4;
        build.n_sliding_pages = 4;
        check_model(family, model, build, 1);
    }
    if (hp->n_decoder_layers)
        check_model(family, model, (clef_build_opts){.part = CLEF_PART_ENCODER}, 1);
    clef_model_close(model);
}

static void check_folder(const char *shared, const char *name)
{
    char folder[4096];
    const char *only = getenv("CLEF_TEST_FAMILY");
    snprintf(folder, sizeof folder, "%s/oracle/%s", shared, name);
    DIR *d = opendir(folder);
    if (!d) {
        skip_without("models");
        return;
    }
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && (!only || strcmp(only, e->d_name) == 0))
            check_family(folder, e->d_name);
    closedir(d);
}

TEST(families)
{
    const char *shared = getenv("CLEF_SHARED");
    check_folder(shared ? shared : "", "models");
    check_folder(shared ? shared : "", "models2");
}

TEST(further_layer)
{
    const clef_build_opts rows = {.n_rows = 6, .n_sequences = 2, .n_pages = 4};
    clef_model *model;
    clef_error err = {0};
    write_hybrid(temp_path("model"), 11, 0);
    ok(clef_model_open(temp_path("model"), &model, &err), &err);
    for (clef_mtp mtp = CLEF_MTP_TARGET; mtp <= CLEF_MTP_LAYER; mtp++) {
        clef_build_opts build = rows;
        build.mtp = mtp;
        check_model(mtp == CLEF_MTP_LAYER ? "further layer" : "its model", model, build, 1);
    }
    clef_model_close(model);
    remove_hybrid(temp_path("model"));
}

TESTS(NULL, NULL)
