/* For attention_gpu_decode.cl: what an item keeps of its pairs of a query and a key, and the sums of a
 * group's streams, which are added up at the end. Include it after attention_gpu_parts.h, with STREAMS, EACH,
 * MINE and the rest of that kernel's constants. */
#ifndef CLEF_CL_ATTENTION_GPU_STREAMS_H
#define CLEF_CL_ATTENTION_GPU_STREAMS_H

/* An item's pair of a query and a key of the chunk, one of MINE. Pairs beyond the last repeat its query. */
typedef struct own_pair {
    size_t mask_row; /* of its query */
    int begin, end;  /* keys that its query sees */
    float most, sum; /* of its key of each chunk: the largest logit of its stream, the sum of its weights */
} own_pair;

INLINED bool is_idle(const place *p) { return WG % LANES != 0 && p->first >= STREAMS; }

INLINED void store_piece(local float *to, unit_floats x)
{
#if UNIT == 8
    vstore8(x, 0, to);
#else
    vstore4(x, 0, to);
#endif
}

/* Leaves the maxima of the streams, and the sums of the weights of each pair. */
INLINED void leave_pairs(local float *maxima, local float *pair_sums, const own_pair *own, uint item)
{
#pragma unroll
    for (uint m = 0; m < MINE; m++) {
        const uint pair = item + m * WG, c = pair % KEYS;
        if (pair < PAIRS) {
            pair_sums[pair] = own[m].sum;
            if (c < STREAMS)
                maxima[c * ROWS + pair / KEYS] = own[m].most;
        }
    }
}

/* Leaves what merges the streams: of each query its largest logit, of each of its streams the factor of the
 * stream's sums and the sum of its weights, scaled. */
INLINED void scale_streams(local float *tops, local float *keeps, local float *weights,
                           local const float *maxima, local const float *pair_sums, const attention_args *a,
                           const place *p, global const sink_elem *sinks)
{
    for (uint i = p->item; i < STREAMS * ROWS; i += WG) {
        const uint r = i % ROWS, query = min(p->tile * ROWS + r, p->queries - 1);
        const float first = p->part + 1 == a->splits ? first_logit(a, sinks, p->hk, query) : -INFINITY;
        float high = first, total = 0;
        for (uint c = 0; c < STREAMS; c++)
            high = fmax(high, maxima[c * ROWS + r]);
        const float base = base_of(high), scale = weight_of(maxima[i], base);
        for (uint j = 0; j < EACH; j++)
            total += pair_sums[r * KEYS + j * STREAMS + i / ROWS];
        keeps[i] = scale;
        weights[i] = total * scale + (i < ROWS ? weight_of(first, base) : 0.0f);
        if (i < ROWS)
            tops[i] = high;
    }
}

INLINED void add_weights(local float *totals, local const float *weights, uint item)
{
    if (item < ROWS) {
        float total = 0;
        for (uint c = 0; c < STREAMS; c++)
            total += weights[c * ROWS + item];
        totals[item] = total;
    }
}

/* Leaves the item's sums of query r, to the scale that all streams share. */
INLINED void leave_sums(local float *sums, const unit_floats *acc, local const float *keeps, const place *p,
                        uint r)
{
#pragma unroll
    for (uint i = 0; i < ROWS; i++) /* an array that is indexed by r would be in memory */
        if (i == r && !is_idle(p))
            store_piece(sums + p->first * E + p->slot * UNIT, acc[i] * keeps[p->first * ROWS + i]);
}

/* Adds up the streams' sums of query r, and writes the result, or, if the keys are cut, a record for the
 * merge. */
INLINED void write_row(global float *out, global float *parts, local const float *sums,
                       local const float *tops, local const float *totals, const attention_args *a,
                       const place *p, uint r)
{
    const uint query = p->tile * ROWS + r;
    if (query >= p->queries)
        return;
    const float total = totals[r], scale = a->splits > 1 ? 1.0f : total != 0 ? 1.0f / total : 0.0f;
    global float *row = out + out_at(a, p->b, p->hk, query, E);
    if (a->splits > 1) {
        row = parts + (out_at(a, p->b, p->hk, query, 1) * a->splits + p->part) * RECORD;
        if (p->item == 0) {
            row[0] = tops[r];
            row[1] = total;
        }
        row += 4;
    }
    for (uint e = p->item; e < E; e += WG) {
        float x = 0;
        for (uint c = 0; c < STREAMS; c++)
            x += sums[c * E + e];
        row[e] = x * scale;
    }
}

#endif
