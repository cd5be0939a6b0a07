/* What kernels share that go along a sequence with a memory (conv.cl, delta.cl, scan.cl): numbers of adjacent
 * columns, one for each work-item, or 16 if WG is 1; and elements of their inputs. */
#ifndef MEMORY_H
#define MEMORY_H

#if WG == 1
typedef float16 column;
enum { COLUMNS = 16 };
static column load(global const float *x, uint n)
{
    if (n >= 16)
        return vload16(0, x);
    float some[16];
    for (uint i = 0; i < 16; i++)
        some[i] = i < n ? x[i] : 0.0f;
    return vload16(0, some);
}
static column load_private(const float *x) { return vload16(0, x); }
static float total(column x) { return sum16(x); }
static void store(column y, global float *x, uint n)
{
    if (n >= 16) {
        vstore16(y, 0, x);
        return;
    }
    float some[16];
    vstore16(y, 0, some);
    for (uint i = 0; i < n; i++)
        x[i] = some[i];
}
#else
typedef float column;
enum { COLUMNS = 1 };
static column load(global const float *x, uint n) { return *x; }
static column load_private(const float *x) { return *x; }
static float total(column x) { return x; }
static void store(column y, global float *x, uint n) { *x = y; }
#endif

/* name(x, i, by, n): numbers i, i + by, i + 2 by ... of x, which has n more columns. */
#define LOAD_COLUMN(name, TYPE)                                             \
    static column name(global const ELEM(TYPE) *x, size_t i, uint by, uint n) \
    {                                                                       \
        float some[COLUMNS];                                                \
        for (uint j = 0; j < COLUMNS; j++)                                  \
            some[j] = j < n ? LOAD(TYPE, x, i + j * by) : 0.0f;             \
        return load_private(some);                                          \
    }

static size_t at(const view_args *v, uint b, uint t, uint h)
{
    return v->offset + b * (size_t)v->stride[0] + t * (size_t)v->stride[1] + h * (size_t)v->stride[2];
}

/* An element of a view [B, T, H], whose dims are shifted right by one. */
static float number(global const float *x, const view_args *v, uint b, uint t, uint h)
{
    return x[v->offset + b * (size_t)v->stride[1] + t * (size_t)v->stride[2] + h * (size_t)v->stride[3]];
}

#endif
