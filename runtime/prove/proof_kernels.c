/* Fingerprints of kernels: the keys under which proofs are stored. */
#include <string.h>

#include "graph/hash.h"
#include "runtime/prove/proof.h"

static uint64_t mix_text(uint64_t print, const char *text)
{
    return clef__hash(print, text, strlen(text) + 1);
}

/* Returns a hash of op, variant, the tolerance that the op's results have, and the dtypes that the kernels
 * read. */
static uint64_t print_of_node(const clef_value *n, const clef_variant *variant)
{
    const clef_dtype none = CLEF_N_DTYPES;
    uint64_t print = mix_text(CLEF__HASH_START, clef__ops[n->op]->name);
    const float tolerance = clef__tolerance(n);
    print = mix_text(print, variant ? variant->name : "-");
    print = clef__hash(print, &tolerance, sizeof tolerance);
    for (int32_t i = 0; i < n->n_in; i++)
        print = clef__hash(print, n->in[i] ? &n->in[i]->dtype : &none, sizeof none);
    return print;
}

static uint64_t mix_launch(uint64_t print, const clef_caps *caps, const clef_launch *l)
{
    print = clef__hash(print, &caps->own_builtins, sizeof caps->own_builtins);
    print = clef__hash(print, &caps->whole_body, sizeof caps->whole_body);
    print = mix_text(print, l->source ? l->source : "clblast");
    print = mix_text(print, l->kernel ? l->kernel : "gemm");
    print = clef__hash(print, &l->c_version, sizeof l->c_version);
    print = clef__hash(print, &l->registers, sizeof l->registers);
    print = clef__hash(print, l->local, sizeof l->local);
    for (int32_t i = 0; i < CLEF_MAX_DEFS && l->defs[i].name; i++) {
        print = mix_text(print, l->defs[i].name);
        print = clef__hash(print, &l->defs[i].value, sizeof l->defs[i].value);
    }
    return print;
}

static int has_print(const clef_proof_kernels *k, uint64_t print)
{
    int32_t i = 0;
    while (i < k->n && k->prints[i] != print)
        i++;
    return i < k->n;
}

typedef struct lowered {
    clef_launch launches[CLEF_PROOF_MAX_KERNELS];
    unsigned char args[CLEF_PROOF_MAX_KERNELS * CLEF_MAX_ARGS_BYTES];
    int32_t n;
} lowered;

/* Lowers the node. out->n is 0 if the node cannot be lowered. */
static void lower_node(const clef_lowering *lo, const clef_value *n, lowered *out)
{
    clef_lowering own = *lo;
    own.graph = n->graph;
    own.node = n;
    own.launches = out->launches;
    own.args = out->args;
    own.cap = CLEF_PROOF_MAX_KERNELS;
    own.n = 0;
    out->n = clef__ops[n->op]->lower(&own, n, NULL) ? 0 : own.n;
}

static int32_t items_of(const clef_launch *l)
{
    return l->call == CLEF_CALL_KERNEL ? (int32_t)(l->local[0] * l->local[1] * l->local[2]) : 1;
}

void clef__proof_kernels(const clef_lowering *lo, const clef_value *n, clef_proof_kernels *out)
{
    lowered l;
    *out = (clef_proof_kernels){0};
    lower_node(lo, n, &l);
    out->variant = l.n ? l.launches[0].variant : NULL;
    const uint64_t node = print_of_node(n, out->variant);
    for (int32_t i = 0; i < l.n; i++) {
        const uint64_t print = mix_launch(node, lo->caps, &l.launches[i]);
        const int32_t items = items_of(&l.launches[i]);
        out->items = items > out->items ? items : out->items;
        if (!has_print(out, print))
            out->prints[out->n++] = print;
    }
}

void clef__proof_build(clef_device *dev, const clef_lowering *lo, const clef_value *n)
{
    lowered l;
    cl_kernel kernel;
    lower_node(lo, n, &l);
    for (int32_t i = 0; i < l.n; i++)
        if (l.launches[i].call == CLEF_CALL_KERNEL &&
            !clef__kernel_create(dev, &l.launches[i], &kernel, NULL))
            clReleaseKernel(kernel);
}

int clef__proof_same_kernels(const clef_proof_kernels *a, const clef_proof_kernels *b)
{
    int32_t i = 0;
    while (i < a->n && has_print(b, a->prints[i]))
        i++;
    return a->n == b->n && i == a->n;
}
