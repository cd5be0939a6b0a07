/* Element types: their names and sizes, and conversion from and to f32. */
#include <math.h>
#include <string.h>

#include "cl/args.h"
#include "clef/graph.h"
#include "graph/blocks.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "clef needs a little-endian machine: it reads the weights of model files in place"
#endif

/* The public enum is written out, because clef/graph.h is installed without the table. It must follow the
 * table. */
#define FORMAT(number, NAME, ...)                                                                            \
    _Static_assert((int)CLEF_##NAME == number && DTYPE_##NAME == number,                                     \
                   "clef_dtype and cl/formats.def differ");
ALL_FORMATS(FORMAT)
#undef FORMAT

static const struct {
    const char *name;
    int32_t elems, bytes, ggml;
} dtypes[] = {
#define FORMAT(number, NAME, name, elems, bytes, ggml, ...) {#name, elems, bytes, ggml},
    ALL_FORMATS(FORMAT)
#undef FORMAT
};
_Static_assert(sizeof dtypes / sizeof *dtypes == CLEF_N_DTYPES, "clef_dtype and cl/formats.def differ");

static int known(clef_dtype dtype)
{
    return (uint32_t)dtype < CLEF_N_DTYPES;
}

const char *clef_dtype_name(clef_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].name : "?";
}

int32_t clef_dtype_block_elems(clef_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].elems : 1;
}

int32_t clef_dtype_block_bytes(clef_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].bytes : 1;
}

int32_t clef__dtype_ggml(clef_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].ggml : -1;
}

clef_dtype clef__dtype_of_ggml(uint32_t ggml)
{
    int32_t i = 0;
    while (i < CLEF_N_DTYPES && (dtypes[i].ggml < 0 || (uint32_t)dtypes[i].ggml != ggml))
        i++;
    return (clef_dtype)i;
}

/* File data need not be aligned, so 16- and 32-bit elements go through memcpy. */
static uint16_t get_16(const uint8_t *src, size_t i)
{
    uint16_t u;
    memcpy(&u, src + 2 * i, sizeof u);
    return u;
}

static void put_16(uint8_t *dst, size_t i, uint16_t u)
{
    memcpy(dst + 2 * i, &u, sizeof u);
}

static int32_t to_int(float x, int32_t lo, int32_t hi)
{
    const double r = nearbyint((double)x);
    return r >= hi ? hi : r <= lo ? lo : r == r ? (int32_t)r : 0;
}

void clef_dtype_decode(clef_dtype dtype, const void *src, size_t n, float *dst)
{
    const uint8_t *from = src;
    const size_t elems = (size_t)clef_dtype_block_elems(dtype), bytes = (size_t)clef_dtype_block_bytes(dtype);
    if (dtype == CLEF_F32) {
        memcpy(dst, src, n * sizeof *dst);
        return;
    }
    for (size_t i = 0; i < n / elems; i++) {
        int32_t word = 0;
        switch (dtype) {
        case CLEF_F16:
            dst[i] = clef__f16_decode(get_16(from, i));
            break;
        case CLEF_BF16:
            dst[i] = clef__bf16_decode(get_16(from, i));
            break;
        case CLEF_I32:
            memcpy(&word, from + 4 * i, sizeof word);
            dst[i] = (float)word;
            break;
        case CLEF_I8:
            dst[i] = (float)(int8_t)from[i];
            break;
        default:
            if (elems == 1)
                return;
            clef__block_decode((int)dtype, from + bytes * i, dst + elems * i);
        }
    }
}

int clef_dtype_encodes(clef_dtype dtype)
{
    return known(dtype) && (dtypes[dtype].elems == 1 || clef__block_encoder((int)dtype) != NULL);
}

void clef_dtype_encode(clef_dtype dtype, const float *src, size_t n, void *dst)
{
    clef_block_encoder *encode = clef__block_encoder((int)dtype);
    uint8_t *to = dst;
    const size_t elems = (size_t)clef_dtype_block_elems(dtype), bytes = (size_t)clef_dtype_block_bytes(dtype);
    if (dtype == CLEF_F32) {
        memcpy(dst, src, n * sizeof *src);
        return;
    }
    for (size_t i = 0; i < n / elems; i++) {
        int32_t word;
        switch (dtype) {
        case CLEF_F16:
            put_16(to, i, clef__f16_encode(src[i]));
            break;
        case CLEF_BF16:
            put_16(to, i, clef__bf16_encode(src[i]));
            break;
        case CLEF_I32:
            word = to_int(src[i], INT32_MIN, INT32_MAX);
            memcpy(to + 4 * i, &word, sizeof word);
            break;
        case CLEF_I8:
            to[i] = (uint8_t)(int8_t)to_int(src[i], INT8_MIN, INT8_MAX);
            break;
        default:
            if (!encode)
                return;
            encode(src + elems * i, to + bytes * i);
        }
    }
}
