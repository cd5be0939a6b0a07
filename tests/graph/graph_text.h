/* What tests of graphs share: graphs from text and back, and a layer that has most of what a graph can. */
#ifndef CLEF_TESTS_GRAPH_TEXT_H
#define CLEF_TESTS_GRAPH_TEXT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

static inline char *text_of(const clef_graph *g,
                            clef_status (*write)(const clef_graph *, FILE *, clef_error *))
{
    char *text = NULL;
    size_t n;
    clef_error err;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    assert_int_equal(write(g, to, &err), CLEF_OK);
    fclose(to);
    return text;
}

static inline clef_graph *parse(const char *text)
{
    clef_graph *g = NULL;
    clef_error err = {0};
    if (clef_graph_parse(text, strlen(text), "test", &g, &err))
        fail_msg("%s", err.text);
    return g;
}

static inline void optimize(clef_graph *g)
{
    clef_error err = {0};
    if (clef_graph_optimize(g, NULL, &err))
        fail_msg("%s", err.text);
    if (clef_graph_optimize(g, "verify", &err)) /* what the passes leave is valid */
        fail_msg("%s", err.text);
}

static inline int count_op(const clef_graph *g, const char *op)
{
    int n = 0;
    for (int32_t i = 0; i < clef_graph_n_values(g); i++) {
        const clef_value_info info = clef_value_describe(clef_graph_value(g, i));
        n += info.op && strcmp(info.op, op) == 0;
    }
    return n;
}

/* One layer of attention as architectures write it, with every kind of leaf and attribute. */
static const char layer_text[] =
    "clef-graph 1\n"
    "symbol B <= 2\n"
    "symbol T <= 8\n"
    "symbol S <= 16\n"
    "input x f32 [B, T, 32]\n"
    "input pos i32 [B]\n"
    "weight \"w q\" f16 [32, 32]\n"
    "weight w.bias f32 [32]\n"
    "state layer0.k f32 [2, 4, 16, 8]\n"
    "const freqs f32 [4] = 1, 0.5, 0.25, 0.125\n"
    "layer0.q0 = matmul(x, \"w q\") transpose_b=1 : f32 [B, T, 32]\n"
    "layer0.q = add(layer0.q0, w.bias) : f32 [B, T, 32]\n"
    "layer0.qh = reshape(layer0.q) : f32 [B, T, 4, 8]\n"
    "layer0.qr = rope(layer0.qh, freqs, pos) pairing=interleaved : f32 [B, T, 4, 8]\n"
    "layer0.qp = permute(layer0.qr) axes=[0, 2, 1, 3] : f32 [B, 4, T, 8]\n"
    "layer0.kw = cache_write(layer0.k, layer0.qp, pos) : f32 [2, 4, 16, 8]\n"
    "layer0.kb = slice(layer0.kw) size=B : f32 [B, 4, 16, 8]\n"
    "layer0.ks = slice(layer0.kb) axis=2 size=S : f32 [B, 4, S, 8]\n"
    "layer0.s = matmul(layer0.qp, layer0.ks) transpose_b=1 alpha=0.353553385 : f32 [B, 4, T, S]\n"
    "layer0.attention = softmax(layer0.s, _, pos) causal=1 window=7 : f32 [B, 4, T, S]\n"
    "layer0.o = matmul(layer0.attention, layer0.ks) : f32 [B, 4, T, 8]\n"
    "layer0.op = permute(layer0.o) axes=[0, 2, 1, 3] : f32 [B, T, 4, 8]\n"
    "layer0.oc = copy(layer0.op) : f32 [B, T, 4, 8]\n"
    "y = reshape(layer0.oc) : f32 [B, T, 32]\n"
    "output logits = y\n";

#endif
