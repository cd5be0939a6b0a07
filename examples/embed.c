#include <clef/clef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static clef_error err;

static void must(clef_status status)
{
    if (status != CLEF_OK)
        fprintf(stderr, "%s\n", err.text), exit(1);
}

/* Says how near each TEXT is to the first one. usage: embed MODEL TEXT TEXT... */
int main(int argc, char **argv)
{
    if (argc < 4)
        return fprintf(stderr, "usage: embed MODEL TEXT TEXT...\n"), 2;
    const int32_t n = argc - 2;
    clef_device *dev;
    clef_model *model;
    clef_embedder *embedder;
    must(clef_device_open(NULL, NULL, &dev, &err));
    must(clef_model_open(argv[1], &model, &err));
    must(clef_embedder_create(dev, model, NULL, &embedder, &err));
    const int32_t d = clef_embedder_describe(embedder).n_dims;
    clef_span *texts = malloc((size_t)n * sizeof *texts);
    float *rows = malloc((size_t)n * (size_t)d * sizeof *rows);
    if (!texts || !rows)
        return 1;
    for (int32_t i = 0; i < n; i++)
        texts[i] = (clef_span){argv[2 + i], strlen(argv[2 + i])};
    must(clef_embed_texts(embedder, texts, n, 0, rows, NULL, &err));
    for (int32_t i = 1; i < n; i++)
        printf("%.6f  %s\n", clef_cosine(rows, rows + (size_t)i * (size_t)d, d), argv[2 + i]);
    free(rows);
    free(texts);
    clef_embedder_destroy(embedder);
    clef_model_close(model);
    clef_device_close(dev);
    return 0;
}
