/* Makes random graphs of views, products, elementwise ops and a state that is written. */
#include "random_graph.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "graph/cases/oracle.h"

static uint64_t random_state;

static double uniform(void) /* (0, 1) */
{
    return clef__random_uniform(&random_state);
}

static int below(int n)
{
    return (int)(uniform() * n);
}

/* A value that may still be read, of the younger ones rather. */
static int pick(const random_graph *g)
{
    for (;;) {
        const int i = below(2) ? below(g->n) : g->n - 1 - below(g->n < 3 ? g->n : 3);
        if (g->shows[i] < 0 || g->shows[i] == g->version)
            return i;
    }
}

static void add_random_node(random_graph *g)
{
    static const char *const forms[] = {"affine(v%d) scale=1",
                                        "affine(v%d) scale=0.5 shift=1",
                                        "copy(v%d)",
                                        "silu(v%d)",
                                        "softmax(v%d)",
                                        "softmax(v%d) causal=1 scale=2",
                                        "softmax(v%d)",
                                        "matmul(v%d, v%d) transpose_b=1 alpha=0.5",
                                        "matmul(v%d, v%d)",
                                        "matmul(v%d, v%d)",
                                        "mul(v%d, v%d)",
                                        "add(v%d, v%d)",
                                        "add(v%d, b)",
                                        "cache_write(v%d, v%d)",
                                        "permute(v%d) axes=[0, 1, 2, 3]",
                                        "permute(v%d) axes=[0, 1, 3, 2]",
                                        "permute(v%d) axes=[0, 1, 3, 2]",
                                        "slice(v%d) size=1",
                                        "reshape(v%d) : f32 [1, 2, 4, 4]"};
    const int f = below((int)(sizeof forms / sizeof *forms)), writes = strncmp(forms[f], "cache", 5) == 0;
    const int is_view = strncmp(forms[f], "permute", 7) == 0 || strncmp(forms[f], "slice", 5) == 0;
    int a = pick(g), b = pick(g);
    if (writes) { /* the state, or the last write of it */
        a = g->last_write;
        if (g->shows[b] >= 0)
            return;
        g->last_write = g->n;
    }
    g->n_bytes += (size_t)snprintf(g->text + g->n_bytes, sizeof g->text - g->n_bytes, "v%d = ", g->n);
    g->n_bytes += (size_t)snprintf(g->text + g->n_bytes, sizeof g->text - g->n_bytes, forms[f], a, b);
    g->text[g->n_bytes++] = '\n';
    g->version += writes;
    g->shows[g->n++] = writes                                            ? g->version
                       : is_view || strncmp(forms[f], "reshape", 7) == 0 ? g->shows[a]
                                                                         : -1;
}

void make_random_graph(int seed, random_graph *g)
{
    *g = (random_graph){.n = 2, .shows = {-1, 0}, .last_write = 1};
    random_state = 977 * (uint64_t)seed + 5;
    g->n_bytes = (size_t)snprintf(g->text, sizeof g->text,
                                  "weight b f32 [4]\ninput v0 f32 [1, 2, 4, 4]\nstate v1 f32 [1, 2, 4, 4]\n");
    while (g->n < RANDOM_NODES)
        add_random_node(g);
    snprintf(g->text + g->n_bytes, sizeof g->text - g->n_bytes, "output v%d\n", g->n - 1);
}
