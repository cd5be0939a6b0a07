/* A plan's graph and options as bytes, for the other ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/plan/ranked.h"

/* What the ranks' plans have in common. Texts and the graph follow, each with its NUL. */
typedef struct head {
    int32_t gemm, exact, strict, no_tune, no_proof, as_stored, batch_invariant, expected_length,
        no_fused_step;
    uint64_t variants, weights_name, graph; /* bytes with the NUL; 0: NULL */
} head;

static uint64_t bytes_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* The graph in its text form, for free(). */
static char *text_of(const clef_graph *graph, size_t *n_bytes, clef_error *err)
{
    FILE *file = tmpfile();
    clef_status s = file ? clef_graph_write_text(graph, file, err)
                         : clef__fail(err, CLEF_E_IO, "no temporary file for the graph that other ranks get");
    const long size = s ? -1 : ftell(file);
    char *text = size >= 0 ? malloc((size_t)size + 1) : NULL;
    if (text) {
        rewind(file);
        *n_bytes = fread(text, 1, (size_t)size, file);
        text[*n_bytes] = 0;
    }
    if (text && *n_bytes != (size_t)size) {
        s = clef__fail(err, CLEF_E_IO, "the graph that other ranks get cannot be read back");
        free(text);
        text = NULL;
    }
    if (!text && !s)
        clef__fail(err, CLEF_E_NOMEM, "no memory for the graph that other ranks get");
    if (file)
        fclose(file);
    return text;
}

static char *append(char *at, const char *text)
{
    const uint64_t n = bytes_of(text);
    if (n)
        memcpy(at, text, (size_t)n);
    return at + n;
}

char *clef__ranked_pack(const clef_graph *graph, const clef_plan_opts *o, size_t *n_bytes, clef_error *err)
{
    size_t n_text = 0;
    char *text = text_of(graph, &n_text, err);
    if (!text)
        return NULL;
    const head h = {.gemm = (int32_t)o->compile.gemm,
                    .exact = o->compile.exact,
                    .strict = o->compile.strict,
                    .no_tune = o->compile.no_tune,
                    .no_proof = o->compile.no_proof,
                    .as_stored = o->as_stored,
                    .batch_invariant = o->batch_invariant,
                    .expected_length = o->expected_length,
                    .no_fused_step = o->no_fused_step,
                    .variants = bytes_of(o->variants),
                    .weights_name = bytes_of(o->weights_name),
                    .graph = n_text + 1};
    *n_bytes = sizeof h + (size_t)(h.variants + h.weights_name + h.graph);
    char *all = malloc(*n_bytes);
    if (all) {
        memcpy(all, &h, sizeof h);
        append(append(append(all + sizeof h, o->variants), o->weights_name), text);
    } else {
        clef__fail(err, CLEF_E_NOMEM, "no memory for the graph that other ranks get");
    }
    free(text);
    return all;
}

clef_status clef__ranked_unpack(const void *data, size_t n_bytes, clef_graph **graph, clef_plan_opts *opts,
                                clef_error *err)
{
    const char *at = (const char *)data + sizeof(head);
    head h;
    if (n_bytes < sizeof h)
        return clef__fail(err, CLEF_E_FORMAT, "a plan of %zu bytes from rank 0", n_bytes);
    memcpy(&h, data, sizeof h);
    *opts = (clef_plan_opts){.compile = {.gemm = (clef_gemm)h.gemm,
                                         .exact = h.exact,
                                         .strict = h.strict,
                                         .no_tune = h.no_tune,
                                         .no_proof = h.no_proof},
                             .as_stored = h.as_stored,
                             .batch_invariant = h.batch_invariant,
                             .expected_length = h.expected_length,
                             .no_fused_step = h.no_fused_step,
                             .variants = h.variants ? at : NULL,
                             .weights_name = h.weights_name ? at + h.variants : NULL};
    return clef_graph_parse(at + h.variants + h.weights_name, (size_t)h.graph - 1, "the graph of rank 0",
                            graph, err);
}
