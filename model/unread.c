/* Tensors of a GGUF file that the graph does not read. Such a weight belongs to something that clef does not
 * have, so the result would be wrong without a word. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/open/model.h"
#include "model/unread.h"

/* Names, or beginnings that end with '.', of tensors that are read elsewhere or change nothing. */
static const char *const elsewhere[] = {
    "rope_freqs.weight",
    "rope_factors_long.weight",
    "rope_factors_short.weight", /* constants of the graph */
    "cls.",                      /* of classifiers */
    "v.",
    "a.",
    "mm.",                               /* of pictures and sound: other models */
    "dec.blk.0.cross_attn_rel_b.weight", /* in files of T5, whose cross-attention has no positions */
};
static const char *const of_head[] = {"output.", "output_bias", "head."};

static int is_listed(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(list[i]);
        if (list[i][length - 1] == '.' ? strncmp(name, list[i], length) == 0 : strcmp(name, list[i]) == 0)
            return 1;
    }
    return 0;
}

/* 1 for a layer behind the model's own, which predicts further tokens; and for the table of rotations that
 * the first files had. */
static int is_beyond(const char *name, int32_t n_layers)
{
    int layer = -1, n = 0;
    return sscanf(name, "blk.%d.%n", &layer, &n) == 1 && n > 0 &&
           (layer >= n_layers || strncmp(name + n, "attn_rot_embd.", strlen("attn_rot_embd.")) == 0);
}

/* 1 if this part of an encoder-decoder has the tensor. The encoder's part computes the decoder's keys and
 * values of the source. */
static int is_in_part(const char *name, clef_part part)
{
    const int encoder = strncmp(name, "enc.", 4) == 0,
              decoder = strncmp(name, "dec.", 4) == 0 && !strstr(name, ".cross_attn_");
    return part == CLEF_PART_WHOLE || (part == CLEF_PART_ENCODER ? encoder : decoder);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the graph's weights, sorted. */
static const char **weights_of(const clef_graph *g, size_t *n)
{
    const int32_t n_values = clef_graph_n_values(g);
    const char **names = malloc(((size_t)n_values + 1) * sizeof *names);
    *n = 0;
    for (int32_t i = 0; names && i < n_values; i++) {
        const clef_value_info v = clef_value_describe(clef_graph_value(g, i));
        if (v.kind == CLEF_WEIGHT)
            names[(*n)++] = v.name;
    }
    if (names)
        qsort(names, *n, sizeof *names, by_text);
    return names;
}

clef_status clef__check_all_read(const clef_model *model, const clef_graph *g, const clef_build_opts *opts,
                                 clef_error *err)
{
    const int has_head = !opts->no_head && !opts->pooling && !opts->classify;
    size_t n;
    if (!model->is_gguf)
        return CLEF_OK;
    const char **names = weights_of(g, &n);
    clef_status status =
        names ? CLEF_OK
              : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the names of its weights", model->path);
    for (int32_t i = 0; status == CLEF_OK && i < model->n_tensors; i++) {
        const char *name = model->tensors[i].name;
        if (bsearch(&name, names, n, sizeof *names, by_text) ||
            is_listed(name, elsewhere, sizeof elsewhere / sizeof *elsewhere) ||
            (!has_head && is_listed(name, of_head, sizeof of_head / sizeof *of_head)) ||
            is_beyond(name, model->hparams.n_layers) || !is_in_part(name, opts->part))
            continue;
        status = clef__fail(err, CLEF_E_UNSUPPORTED, "%s: tensor %s: clef has no %s with this weight",
                            model->path, name, model->hparams.arch);
    }
    free(names);
    return status;
}
