/* A model's sight: which tower it has, running it, and keeping what it saw last. */
#include "model/tower/see.h"

#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/plan_io.h"
#include "runtime/os/sha256.h"

/* ---- families ---------------------------------------------------------------------------------- */

static const clef__sight_family families[] = {
    {"qwen2_vl", &clef__tower_qwen, NULL, "", "", "<|vision_start|>", "<|vision_end|>"},
    {"qwen2_5_vl", &clef__tower_qwen, NULL, "", "", "<|vision_start|>", "<|vision_end|>"},
    {"qwen3_vl", &clef__tower_qwen, NULL, "", "", "<|vision_start|>", "<|vision_end|>"},
    {"qwen3_5", &clef__tower_qwen, NULL, "", "", "<|vision_start|>", "<|vision_end|>"},
};

static const clef__sight_family *family_of(const clef_model *model)
{
    for (size_t i = 0; model->sight && i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, model->sight->family) == 0)
            return &families[i];
    return NULL;
}

int32_t clef_model_sees(const clef_model *model, clef_error *err)
{
    const char *outer = json_string_value(json_object_get(model->outer, "model_type"));
    if (family_of(model))
        return 1;
    clef__fail(err, CLEF_E_UNSUPPORTED, "%s: pictures of %.40s are not supported", clef_model_path(model),
               outer ? outer : model->hparams.arch);
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------------- */

/* The first prefix behind which the model has the tower's marker. */
static clef_status find_prefix(clef__tower *t, const clef__tower_form *form, clef_error *err)
{
    for (size_t i = 0; form->prefixes[i]; i++) {
        t->prefix = form->prefixes[i];
        if (clef__tower_find(t, form->marker))
            return CLEF_OK;
    }
    return clef__fail(err, CLEF_E_NOT_FOUND, "%s: has no weights of a tower for pictures: %s%s is missing",
                      clef_model_path(t->model), t->prefix, form->marker);
}

/* What a template writes for a picture: the name of the token that the family says, or of the row's own. */
static clef_status find_marks(clef_sight *s, clef_error *err)
{
    const clef__sight *sight = s->model->sight;
    const json_t *id = s->family->mark_key ? json_object_get(s->model->outer, s->family->mark_key) : NULL;
    const int32_t ids[2] = {sight->token, id ? (int32_t)json_integer_value(id) : sight->token};
    const clef_tokenizer *tok = clef_model_tokenizer(s->model, err);
    char *const names[2] = {s->token, s->mark};
    if (!tok)
        return err ? err->status : CLEF_E_NOT_FOUND;
    for (int i = 0; i < 2; i++) {
        size_t n = 0;
        const char *text = clef_tokenizer_bytes(tok, ids[i], &n);
        if (!text || !n || n >= sizeof s->token || !clef_tokenizer_is_special(tok, ids[i]))
            return clef__fail(err, CLEF_E_FORMAT,
                              "%s: its token of pictures, %d, is not special in the tokenizer",
                              clef_model_path(s->model), ids[i]);
        memcpy(names[i], text, n);
        names[i][n] = '\0';
    }
    return CLEF_OK;
}

clef_status clef_sight_create(clef_device *dev, clef_model *model, const clef_compile_opts *opts,
                              clef_sight **out, clef_error *err)
{
    *out = NULL;
    const clef__sight_family *family = family_of(model);
    if (!clef_model_sees(model, err))
        return CLEF_E_UNSUPPORTED;
    clef_sight *s = calloc(1, sizeof *s);
    if (!s)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a sight");
    *s = (clef_sight){.dev = dev, .model = model, .family = family, .compile = opts ? *opts : s->compile};
    s->tower = (clef__tower){.model = model, .config = json_object_get(model->outer, "vision_config")};
    clef_status status = find_prefix(&s->tower, family->form, err);
    if (!status)
        status = family->form->read(&s->tower, err);
    if (!status)
        status = find_marks(s, err);
    if (status)
        clef_sight_destroy(s);
    else
        *out = s;
    return status;
}

void clef_sight_destroy(clef_sight *s)
{
    if (!s)
        return;
    clef_plan_destroy(s->plan);
    for (int32_t i = 0; i < CLEF__SIGHT_KEPT; i++)
        free(s->kept[i].rows);
    free(s);
}

const char *clef_sight_mark(const clef_sight *s)
{
    return s->mark;
}

clef_status clef__sight_count(const clef_sight *s, const clef_sight_pixels *px, clef__sight_rows *out,
                              clef_error *err)
{
    *out = (clef__sight_rows){0};
    if (px->n < 1 || px->height < 1 || px->width < 1 || !px->values)
        return clef__fail(err, CLEF_E_ARG, "pixels of %d pictures of %d x %d", px->n, px->height, px->width);
    return s->family->form->count(&s->tower, px, out, err);
}

/* ---- running ----------------------------------------------------------------------------------- */

static clef_status make_plan(clef_sight *s, clef_error *err)
{
    clef_graph *g = clef_graph_create();
    if (!g)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its graph", clef_model_path(s->model));
    s->tower.g = g;
    s->family->form->build(&s->tower);
    clef_status status = clef_graph_error(g, err);
    if (!status)
        status = clef_graph_optimize(g, NULL, err);
    if (!status)
        status = clef_plan_create(s->dev, g,
                                  &(clef_plan_opts){.compile = s->compile,
                                                    .no_fused_step = 1,
                                                    .weights = clef_model_weight,
                                                    .release = clef_model_release,
                                                    .weights_user = s->model},
                                  &s->plan, err);
    clef_graph_destroy(g);
    s->tower.g = NULL;
    return status;
}

/* A plan for so many units: the next power of two, so that few are made while pictures grow. */
static clef_status plan_for(clef_sight *s, int32_t n_units, clef_error *err)
{
    if (s->plan && n_units <= s->tower.n_units)
        return CLEF_OK;
    clef_plan_destroy(s->plan);
    s->plan = NULL;
    s->tower.n_units = 1;
    while (s->tower.n_units < n_units)
        s->tower.n_units *= 2;
    return make_plan(s, err);
}

static size_t row_elems(const clef_sight *s)
{
    return (size_t)(1 + s->model->sight->n_deep) * (size_t)s->model->hparams.d_model;
}

static clef_status run(clef_sight *s, const clef__tower_call *c, clef_error *err)
{
    const int32_t output = clef_plan_output(c->plan, "rows");
    const size_t n_bytes = (size_t)c->n * row_elems(s) * sizeof *c->rows;
    clef_status status = s->family->form->feed(&s->tower, c, err);
    if (!status)
        status = clef_plan_run(c->plan, err);
    if (!status && clef_plan_output_bytes(c->plan, output, NULL, NULL) != n_bytes)
        status = clef__fail(err, CLEF_E_SHAPE, "%s: its tower gives %zu bytes for %d rows, expected %zu",
                            clef_model_path(s->model), clef_plan_output_bytes(c->plan, output, NULL, NULL),
                            c->n, n_bytes);
    return status ? status : clef_plan_read(c->plan, output, c->rows, n_bytes, err);
}

/* ---- what was seen ------------------------------------------------------------------------------ */

static void digest_of(const clef_sight_pixels *px, uint64_t out[4])
{
    const int32_t sizes[] = {px->n,       px->height,        px->width,       px->rows,
                             px->columns, px->source_height, px->source_width};
    clef_sha256 h;
    unsigned char bytes[CLEF_SHA256_BYTES];
    clef__sha256_init(&h);
    clef__sha256_add(&h, sizes, sizeof sizes);
    clef__sha256_add(&h, px->values,
                     (size_t)px->n * 3 * (size_t)px->height * (size_t)px->width * sizeof *px->values);
    clef__sha256_finish(&h, bytes);
    memcpy(out, bytes, sizeof bytes);
}

static const clef__sight_seen *find_kept(clef_sight *s, const uint64_t digest[4])
{
    for (int32_t i = 0; i < CLEF__SIGHT_KEPT; i++)
        if (s->kept[i].rows && memcmp(s->kept[i].digest, digest, sizeof s->kept[i].digest) == 0)
            return &s->kept[i];
    return NULL;
}

clef_status clef__sight_run(clef_sight *s, const clef_sight_pixels *px, const clef__sight_seen **out,
                            clef_error *err)
{
    clef__sight_seen seen = {.rows = NULL};
    clef_status status = clef__sight_count(s, px, &seen.count, err);
    if (status)
        return status;
    digest_of(px, seen.digest);
    *out = find_kept(s, seen.digest);
    if (*out)
        return CLEF_OK;
    seen.rows = malloc((size_t)seen.count.n * row_elems(s) * sizeof *seen.rows);
    if (!seen.rows)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d rows of a picture", seen.count.n);
    status = plan_for(s, seen.count.n_units, err);
    if (!status)
        status = run(s, &(clef__tower_call){px, s->plan, seen.rows, seen.count.n}, err);
    if (status) {
        free(seen.rows);
        return status;
    }
    clef__sight_seen *place = &s->kept[s->next_kept++ % CLEF__SIGHT_KEPT];
    free(place->rows);
    *place = seen;
    *out = place;
    return CLEF_OK;
}

/* ---- places in a prompt ------------------------------------------------------------------------- */

/* Adds the places of one picture's rows: runs of its token from *at on. */
static clef_status place(const clef_sight *s, const clef__sight_seen *one, const int32_t *ids, int32_t n,
                         int32_t *at, clef_seen *out, clef_error *err)
{
    const int32_t token = s->model->sight->token;
    float *rows = out->rows[out->n_rows - 1];
    for (int32_t row = 0; row < one->count.n;) {
        while (*at < n && ids[*at] != token)
            ++*at;
        if (*at == n)
            return clef__fail(err, CLEF_E_ARG, "the prompt has %d places for a picture of %d rows", row,
                              one->count.n);
        clef_request_picture *p = &out->pictures[out->n_pictures++];
        *p = (clef_request_picture){.at = *at,
                                    .height = one->count.height,
                                    .width = one->count.width,
                                    .rows = rows + (size_t)row * row_elems(s)};
        memcpy(p->digest, one->digest, sizeof p->digest);
        p->digest[0] += (uint64_t)row;
        for (; *at < n && ids[*at] == token && row < one->count.n; ++*at, row++)
            p->n++;
    }
    return CLEF_OK;
}

/* Copies rows, since the place where they are kept may be used for another picture. */
static clef_status copy_rows(const clef_sight *s, const clef__sight_seen *one, clef_seen *out,
                             clef_error *err)
{
    const size_t n_bytes = (size_t)one->count.n * row_elems(s) * sizeof(float);
    float *rows = malloc(n_bytes);
    if (!rows)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d rows of a picture", one->count.n);
    memcpy(rows, one->rows, n_bytes);
    out->rows[out->n_rows++] = rows;
    return CLEF_OK;
}

clef_status clef_sight_see(clef_sight *s, const int32_t *ids, int32_t n, const clef_sight_pixels *pixels,
                           int32_t n_pixels, clef_seen *out, clef_error *err)
{
    int32_t at = 0;
    clef_status status =
        s->dev || !n_pixels ? CLEF_OK : clef__fail(err, CLEF_E_ARG, "a sight without a device sees nothing");
    *out = (clef_seen){.pictures = calloc((size_t)n + 1, sizeof *out->pictures),
                       .rows = calloc((size_t)n_pixels + 1, sizeof *out->rows)};
    if (!status && (!out->pictures || !out->rows))
        status = clef__fail(err, CLEF_E_NOMEM, "no memory for %d pictures", n_pixels);
    for (int32_t i = 0; i < n_pixels && !status; i++) {
        const clef__sight_seen *one;
        status = clef__sight_run(s, &pixels[i], &one, err);
        if (!status)
            status = copy_rows(s, one, out, err);
        if (!status)
            status = place(s, one, ids, n, &at, out, err);
    }
    while (!status && at < n && ids[at] != s->model->sight->token)
        at++;
    if (!status && at < n)
        status =
            clef__fail(err, CLEF_E_ARG, "the prompt has %s at token %d, and no picture for it", s->token, at);
    if (status)
        clef_seen_finish(out);
    return status;
}

void clef_seen_finish(clef_seen *seen)
{
    for (int32_t i = 0; i < seen->n_rows; i++)
        free(seen->rows[i]);
    free(seen->rows);
    free(seen->pictures);
    *seen = (clef_seen){0};
}
