/* Normal numbers by their place (train/model/new_values.h). */
#include "train/model/new_values.h"

#include <math.h>
#include <string.h>

#include "graph/hash.h"
#include "graph/philox.h"
#include "runtime/os/os.h"

static const double two_pi = 6.283185307179586;

enum { PIECE = 1 << 14 };

/* ---- normal numbers */

typedef struct drawing {
    uint64_t seed, name, first;
    double deviation;
    size_t n;
    float *out;
} drawing;

/* Four numbers. */
static void draw(const drawing *d, uint64_t place, double out[4])
{
    const clef__philox_words at = {
        {(uint32_t)place, (uint32_t)(place >> 32), (uint32_t)d->name, (uint32_t)(d->name >> 32)}};
    const clef__philox_words c = clef__philox(at, (uint32_t)d->seed, (uint32_t)(d->seed >> 32));
    for (int i = 0; i < 4; i += 2) {
        const double u = (c.word[i] + 0.5) / 4294967296.0, v = (c.word[i + 1] + 0.5) / 4294967296.0;
        const double r = d->deviation * sqrt(-2 * log(u));
        out[i] = r * cos(two_pi * v);
        out[i + 1] = r * sin(two_pi * v);
    }
}

static void draw_piece(void *user, int32_t piece)
{
    const drawing *d = user;
    const size_t begin = (size_t)piece * PIECE, end = d->n - begin < PIECE ? d->n : begin + PIECE;
    for (size_t i = begin; i < end; i += 4) {
        double x[4];
        draw(d, (d->first + i) / 4, x);
        for (size_t k = 0; k < 4 && i + k < end; k++)
            d->out[i + k] = (float)x[k];
    }
}

void clef__new_normal(uint64_t seed, const char *name, double deviation, uint64_t first, size_t n, float *out)
{
    drawing d = {.seed = seed,
                 .name = clef__hash(CLEF__HASH_START, name, strlen(name)),
                 .first = first,
                 .deviation = deviation,
                 .n = n,
                 .out = out};
    clef__os_parallel((int32_t)((n + PIECE - 1) / PIECE), draw_piece, &d);
}
