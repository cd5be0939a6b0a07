/* A model's sight: which tower it has, running it, and keeping what it saw last. */
#include "model/tower/see.h"

#include <stdlib.h>
#include <string.h>

#include "clef/ranks.h"
#include "graph/fail.h"
#include "model/plan_io.h"
#include "model/tower/connector.h"
#include "runtime/os/sha256.h"

/* ---- families ---------------------------------------------------------------------------------- */

#define QWEN(model_type)                                                                                     \
    {                                                                                                        \
        .name = model_type, .form = &clef__tower_qwen, .open = "<|vision_start|>", .close = "<|vision_end|>" \
    }
static const clef__sight_family families[] = {
    QWEN("qwen2_vl"),
    QWEN("qwen2_5_vl"),
    QWEN("qwen3_vl"),
    QWEN("qwen3_vl_moe"),
    QWEN("qwen3_5"),
    QWEN("qwen3_5_moe"),
    {.name = "llava", .encoder = "pixtral", .form = &clef__tower_pixtral, .layout = CLEF__SIGHT_LINES},
    {.name = "llava", .form = &clef__tower_llava, .close = "\n"},
    {.name = "llava_next", .form = &clef__tower_llava_next, .close = "\n"},
    {.name = "gemma3",
     .form = &clef__tower_gemma,
     .mark_key = "boi_token_index",
     .mark = 255999,
     .before = "\n\n%s",
     .after = "<end_of_image>\n\n"},
    {.name = "paligemma", .form = &clef__tower_paligemma, .last = "<bos>"},
    {.name = "idefics3", .form = &clef__tower_idefics, .layout = CLEF__SIGHT_TILES},
    {.name = "smolvlm", .form = &clef__tower_idefics, .layout = CLEF__SIGHT_TILES},
    {.name = "internvl", .form = &clef__tower_internvl, .before = "<img>", .after = "</img>", .close = "\n"},
    {.name = "mistral3", .form = &clef__tower_mistral, .layout = CLEF__SIGHT_LINES},
};

static const clef__sight_family *family_of(const clef_model *model)
{
    const clef_hparams *encoder = clef_model_pictures(model, NULL);
    for (size_t i = 0; model->sight && i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, model->sight->family) == 0 &&
            (!families[i].encoder || (encoder && strcmp(families[i].encoder, encoder->arch) == 0)))
            return &families[i];
    return NULL;
}

int32_t clef_model_sees(const clef_model *model, clef_error *err)
{
    const char *outer = json_string_value(json_object_get(model->outer, "model_type"));
    if (family_of(model))
        return 1;
    if (model->is_gguf)
        clef__fail(err, CLEF_E_UNSUPPORTED,
                   "%s: reads no pictures without the file of its tower (clef: --mmproj FILE)",
                   clef_model_path(model));
    else
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
    const int32_t own = s->family->mark_key ? s->family->mark : sight->token;
    const int32_t ids[2] = {sight->token, json_is_integer(id) ? (int32_t)json_integer_value(id) : own};
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
    s->tower = (clef__tower){
        .model = model, .form = family->form, .config = json_object_get(model->outer, "vision_config")};
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
    s->tower.g = NULL;
    clef_status status = s->family->form->build(&s->tower, err);
    clef_graph *g = s->tower.g;
    if (!status)
        status = clef_graph_optimize(g, NULL, err);
    if (!status)
        status = clef_plan_create(s->dev, g,
                                  &(clef_plan_opts){.compile = s->compile,
                                                    .no_fused_step = 1,
                                                    .weights = clef_model_weight,
                                                    .release = clef_model_release,
                                                    .weights_user = s->model,
                                                    .weights_name = clef_model_weights_name(s->model, NULL)},
                                  &s->plan, err);
    clef_graph_destroy(g);
    s->tower.g = NULL;
    return status;
}

/* A plan for so many units of these pixels: the next power of two, so that few are made while pictures grow.
 */
static clef_status plan_for(clef_sight *s, const clef_sight_pixels *px, int32_t n_units, clef_error *err)
{
    clef__tower *t = &s->tower;
    const int32_t most = t->form->most_units;
    n_units = most && n_units > most ? most : n_units;
    const int is_size = !most || (t->height == px->height && t->width == px->width);
    if (s->plan && n_units <= t->n_units && is_size)
        return CLEF_OK;
    clef_plan_destroy(s->plan);
    s->plan = NULL;
    t->height = px->height;
    t->width = px->width;
    t->n_units = 1;
    while (t->n_units < n_units)
        t->n_units *= 2;
    return make_plan(s, err);
}

static size_t row_elems(const clef_sight *s)
{
    return (size_t)(1 + s->model->sight->n_deep) * (size_t)s->model->hparams.d_model;
}

/* Reads an output of n_bytes. */
static clef_status read_output(const clef_sight *s, int32_t i, float *out, size_t n_bytes, clef_error *err)
{
    const size_t got = clef_plan_output_bytes(s->plan, i, NULL, NULL);
    return got == n_bytes ? clef_plan_read(s->plan, i, out, n_bytes, err)
                          : clef__fail(err, CLEF_E_SHAPE, "%s: its tower gives %zu bytes, expected %zu",
                                       clef_model_path(s->model), got, n_bytes);
}

/* Runs all units of a picture; each has as many rows as the others. */
static clef_status run_units(clef_sight *s, const clef_sight_pixels *px, int32_t n_units, int32_t each,
                             float *out, clef_error *err)
{
    clef_status status = CLEF_OK;
    const size_t elems = (size_t)each * row_elems(s);
    for (int32_t i = 0; i < n_units && !status; i += s->tower.n_units) {
        const int32_t rest = n_units - i, n = rest < s->tower.n_units ? rest : s->tower.n_units;
        status = s->family->form->feed(&s->tower, &(clef__tower_call){px, s->plan, i, n}, err);
        if (!status)
            status = clef_plan_run(s->plan, err);
        if (!status)
            status = read_output(s, 0, out + (size_t)i * elems, (size_t)n * elems * sizeof *out, err);
    }
    return status;
}

/* Runs a picture whose rows are arranged anew: `each` rows of a unit. */
static clef_status run_arranged(clef_sight *s, const clef_sight_pixels *px, int32_t each, float *rows,
                                clef_error *err)
{
    const size_t d = row_elems(s);
    float *room = malloc(((size_t)px->n * (size_t)each + 1) * d * sizeof *room);
    if (!room)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %d tiles of a picture", px->n);
    clef_status status = run_units(s, px, px->n, each, room + d, err);
    if (!status)
        status = read_output(s, 1, room, d * sizeof *room, err);
    if (!status)
        s->family->form->arrange(&s->tower, px, room + d, room, rows);
    free(room);
    return status;
}

static clef_status run(clef_sight *s, const clef_sight_pixels *px, const clef__sight_rows *count, float *rows,
                       clef_error *err)
{
    clef__sight_rows plain = *count;
    clef_status status = plan_for(s, px, count->n_units, err);
    if (!status && s->family->form->arrange)
        status = clef__encoder_count(&s->tower, px, &plain, err);
    const int32_t each = plain.n / count->n_units;
    if (status)
        return status;
    return s->family->form->arrange ? run_arranged(s, px, each, rows, err)
                                    : run_units(s, px, count->n_units, each, rows, err);
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
    status = run(s, px, &seen.count, seen.rows, err);
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
