/* Pictures of prompts, and generating after them. */
#include "tools/prompt_pictures.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"

/* ---- pictures ---------------------------------------------------------------------------------- */

clef_status cli_prompt_pictures_open(cli_prompt_pictures *p, clef_model *model, clef_error *err)
{
    *p = (cli_prompt_pictures){.model = model};
    const clef_status s = clef_sight_create(NULL, model, NULL, &p->marks, err);
    const char *config = clef_model_picture_config(model), *path = clef_model_path(model);
    return s        ? s
           : config ? clef_picture_processor_parse(config, path, &p->processor, err)
                    : clef_picture_processor_create(path, &p->processor, err);
}

static clef_status add(cli_prompt_pictures *p, clef_picture *picture, clef_error *err)
{
    const size_t n = (size_t)p->n + 1;
    clef_pixels *pixels = realloc(p->pixels, n * sizeof *pixels);
    if (pixels)
        p->pixels = pixels;
    clef_sight_pixels *views = realloc(p->views, n * sizeof *views);
    if (views)
        p->views = views;
    clef_status s = pixels && views ? CLEF_OK : cli_error(err, CLEF_E_NOMEM, "no memory for %zu pictures", n);
    if (s == CLEF_OK)
        s = clef_picture_process(p->processor, picture, &p->pixels[p->n], err);
    if (s == CLEF_OK) {
        const clef_pixels *px = &p->pixels[p->n];
        p->views[p->n++] = (clef_sight_pixels){.values = px->values,
                                               .n = px->n,
                                               .rows = px->rows,
                                               .columns = px->columns,
                                               .height = px->height,
                                               .width = px->width,
                                               .source_height = picture->height,
                                               .source_width = picture->width};
    }
    clef_picture_finish(picture);
    return s;
}

clef_status cli_prompt_pictures_add_file(cli_prompt_pictures *p, const char *path, clef_error *err)
{
    clef_picture picture;
    const clef_picture_opts opts = {.max_pixels = p->max_pixels};
    const clef_status s = clef_picture_open(path, &opts, &picture, err);
    return s == CLEF_OK ? add(p, &picture, err) : s;
}

clef_status cli_prompt_pictures_add(cli_prompt_pictures *p, const void *data, size_t n_bytes,
                                    const char *name, clef_error *err)
{
    clef_picture picture;
    const clef_picture_opts opts = {.max_pixels = p->max_pixels};
    const clef_status s = clef_picture_read(data, n_bytes, name, &opts, &picture, err);
    return s == CLEF_OK ? add(p, &picture, err) : s;
}

clef_status cli_prompt_pictures_encode(const cli_prompt_pictures *pictures, const cli_picture_prompt *p,
                                       int32_t **ids, int32_t *n, clef_error *err)
{
    const clef_tokenizer *tok = clef_model_tokenizer(pictures->model, err);
    const clef_sight_expand_opts expand = {
        .plain = p->plain, .n_plain = p->n_plain, .before = !p->is_rendered};
    clef_sight_text text;
    if (!tok)
        return err->status;
    clef_status s = clef_sight_expand(pictures->marks, p->text, p->n_bytes, pictures->views, pictures->n,
                                      &expand, &text, err);
    if (s != CLEF_OK)
        return s;
    s = p->is_rendered
            ? clef_tokenizer_encode_plain(tok, text.text, text.n_bytes, text.plain, text.n_plain, ids, n, err)
            : clef_tokenizer_encode(tok, text.text, text.n_bytes,
                                    text.is_whole ? CLEF_SPECIAL_NONE : p->special, ids, n, err);
    clef_sight_text_finish(&text);
    return s;
}

void cli_prompt_pictures_keep(cli_prompt_pictures *p, int32_t n, int32_t last)
{
    const int32_t first = last && p->n > n ? p->n - n : 0;
    for (int32_t i = 0; i < p->n; i++)
        if (i < first || i >= first + n)
            clef_pixels_finish(&p->pixels[i]);
    p->n = p->n < n ? p->n : n;
    if (first && n) {
        memmove(p->pixels, p->pixels + first, (size_t)n * sizeof *p->pixels);
        memmove(p->views, p->views + first, (size_t)n * sizeof *p->views);
    }
}

void cli_prompt_pictures_close(cli_prompt_pictures *p)
{
    cli_prompt_pictures_keep(p, 0, 0);
    free(p->pixels);
    free(p->views);
    clef_picture_processor_destroy(p->processor);
    clef_sight_destroy(p->marks);
    *p = (cli_prompt_pictures){.n = 0};
}

/* ---- generating -------------------------------------------------------------------------------- */

clef_status cli_teller_open(cli_teller *t, clef_device *dev, clef_model *model, const clef_batch_opts *opts,
                            clef_error *err)
{
    clef_batch_opts one = *opts;
    one.max_sequences = 1;
    *t = (cli_teller){.device = dev, .model = model, .sequence = -1};
    const clef_status s = clef_sight_create(dev, model, &opts->compile, &t->sight, err);
    return s == CLEF_OK ? clef_batch_create(dev, model, &one, &t->batch, err) : s;
}

clef_status cli_teller_begin(cli_teller *t, const cli_prompt_pictures *pictures, const clef_request *request,
                             clef_error *err)
{
    clef_seen seen;
    clef_request r = *request;
    cli_teller_end(t);
    clef_status s = clef_sight_see(t->sight, r.ids, r.n, pictures->views, pictures->n, &seen, err);
    if (s != CLEF_OK)
        return s;
    r.pictures = seen.pictures;
    r.n_pictures = seen.n_pictures;
    s = clef_batch_add(t->batch, &r, &t->sequence, err);
    clef_seen_finish(&seen);
    return s;
}

clef_status cli_teller_next(cli_teller *t, int32_t *id, clef_error *err)
{
    int32_t rows = 1;
    while (clef_batch_take(t->batch, &t->last, 1) == 0) {
        const clef_status s = clef_batch_step(t->batch, &rows, err);
        if (s != CLEF_OK)
            return s;
        if (!rows)
            return cli_error(err, CLEF_E_LIMIT, "the text has ended");
    }
    *id = t->last.id;
    if (t->last.finish == CLEF_FINISH_NOT_FINITE)
        return cli_error(err, CLEF_E_NOT_FINITE, "a logit is not a finite number after %d tokens",
                         t->last.n_prompt + t->last.n_generated - 1);
    if (t->last.finish == CLEF_FINISH_FAILED)
        return cli_error(err, CLEF_E_ARG, "no token of the vocabulary is allowed");
    if (t->last.finish)
        t->sequence = -1;
    return CLEF_OK;
}

void cli_teller_end(cli_teller *t)
{
    clef_error none = {0};
    if (t->sequence >= 0)
        clef_batch_cancel(t->batch, t->sequence, &none);
    t->sequence = -1;
}

void cli_teller_close(cli_teller *t)
{
    clef_batch_destroy(t->batch);
    clef_sight_destroy(t->sight);
    *t = (cli_teller){.sequence = -1};
}
