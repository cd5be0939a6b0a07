#include "tools/picture.h"

#include <stdlib.h>
#include <string.h>

/* The pixels of one file. */
static clef_status read_pixels(const clef_picture_processor *processor, const char *path, clef_pixels *out,
                               clef_error *err)
{
    clef_picture picture;
    clef_status status = clef_picture_open(strcmp(path, "-") == 0 ? "/dev/stdin" : path, NULL, &picture, err);
    if (status == CLEF_OK)
        status = clef_picture_process(processor, &picture, out, err);
    clef_picture_finish(&picture);
    return status;
}

static clef_status read_files(cli_pictures *p, const cli_list *files, clef_error *err)
{
    clef_picture_processor *processor;
    clef_status status = clef_picture_processor_create(clef_model_path(p->model), &processor, err);
    if (status != CLEF_OK)
        return status;
    p->pixels = calloc((size_t)files->n, sizeof *p->pixels);
    if (!p->pixels)
        status = cli_error(err, CLEF_E_NOMEM, "out of host memory");
    for (; p->n < files->n && status == CLEF_OK; p->n += status == CLEF_OK)
        status = read_pixels(processor, files->items[p->n], &p->pixels[p->n], err);
    clef_picture_processor_destroy(processor);
    return status;
}

int cli_pictures_open(cli_pictures *p, const cli_picture_opts *o, const char *model, const cli_list *files)
{
    clef_error err = {0};
    const int rc = cli_model_open(model, &o->place, &p->progress, &p->model, &p->device);
    if (rc != CLI_GO_ON)
        return rc;
    clef_vision_opts opts = o->vision;
    opts.compile = cli_compile_opts(&o->compile, &p->progress);
    if (clef_vision_create(p->device, p->model, &opts, &p->vision, &err) != CLEF_OK ||
        read_files(p, files, &err) != CLEF_OK)
        return cli_report(&err);
    p->info = clef_vision_describe(p->vision);
    return CLI_GO_ON;
}

int cli_pictures_run(cli_pictures *p, float **out)
{
    clef_error err = {0};
    *out = malloc(((size_t)p->n * (size_t)p->info.width + 1) * sizeof **out);
    if (!*out)
        return cli_fail(CLI_FAILED, "out of host memory");
    const clef_status status = clef_vision_run(p->vision, p->pixels, p->n, *out, &err);
    cli_progress_finish(&p->progress);
    return status == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

void cli_pictures_finish(cli_pictures *p)
{
    cli_progress_finish(&p->progress);
    for (int32_t i = 0; p->pixels && i < p->n; i++)
        clef_pixels_finish(&p->pixels[i]);
    free(p->pixels);
    clef_vision_destroy(p->vision);
    clef_device_close(p->device);
    clef_model_close(p->model);
}
