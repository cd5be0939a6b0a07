/* What the kernels of attention's gradient share: the places of a query's rows, and the constants. Include it
 * after attention.h. */
#ifndef CLEF_CL_ATTENTION_GRAD_H
#define CLEF_CL_ATTENTION_GRAD_H

#if !defined(CAPS) || !defined(D) || !defined(E)
#  error "attention_grad.h needs CAPS, D and E"
#endif

/* The row of query i in the result's first part; those of key s in its second and third. */
static size_t dq_at(const attention_grad_args *g, uint b, uint hk, uint i)
{
    return out_at(&g->a, b, hk, i, D);
}
static size_t dk_at(const attention_grad_args *g, uint b, uint hk, uint s)
{
    return g->dk + (((size_t)b * g->a.n[3] + s) * (g->a.n[1] / g->a.group) + hk) * D;
}
static size_t dv_at(const attention_grad_args *g, uint b, uint hk, uint s)
{
    return g->dv + (((size_t)b * g->a.n[3] + s) * (g->a.n[1] / g->a.group) + hk) * E;
}

#endif
