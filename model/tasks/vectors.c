/* Vectors beside each other, and in fewer bits. */
#include <math.h>
#include <string.h>

#include "clef/embed.h"

double clef_cosine(const float *a, const float *b, int32_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int32_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : 0;
}

static int has_bits(clef_vector_form form)
{
    return form == CLEF_VECTOR_BINARY || form == CLEF_VECTOR_UBINARY;
}

size_t clef_vector_bytes(clef_vector_form form, int32_t n_dims)
{
    return form == CLEF_VECTOR_F32 ? (size_t)n_dims * sizeof(float)
           : has_bits(form)        ? ((size_t)n_dims + 7) / 8
                                   : (size_t)n_dims;
}

void clef_vector_ranges(const float *rows, int32_t n, int32_t n_dims, float *ranges)
{
    memcpy(ranges, rows, (size_t)n_dims * sizeof *rows);
    memcpy(ranges + n_dims, rows, (size_t)n_dims * sizeof *rows);
    for (int32_t i = 1; i < n; i++)
        for (int32_t k = 0; k < n_dims; k++) {
            const float x = rows[(size_t)i * (size_t)n_dims + (size_t)k];
            ranges[k] = x < ranges[k] ? x : ranges[k];
            ranges[n_dims + k] = x > ranges[n_dims + k] ? x : ranges[n_dims + k];
        }
}

static unsigned char as_byte(float x, float least, float most)
{
    const float step = (most - least) / 255, n = floorf((x - least) / (step == 0 ? 1 : step));
    return (unsigned char)(n < 0 ? 0 : n > 255 ? 255 : n);
}

static void pack_row(clef_vector_form form, const float *x, int32_t n_dims, const float *ranges,
                     unsigned char *out)
{
    const size_t n = clef_vector_bytes(form, n_dims);
    const unsigned char less = form == CLEF_VECTOR_INT8 || form == CLEF_VECTOR_BINARY ? 128 : 0;
    memset(out, 0, n);
    for (int32_t k = 0; k < n_dims; k++)
        if (has_bits(form))
            out[k / 8] = (unsigned char)(out[k / 8] | (x[k] > 0) << (7 - k % 8));
        else
            out[k] = as_byte(x[k], ranges[k], ranges[n_dims + k]);
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)(out[i] - less);
}

void clef_vector_pack(clef_vector_form form, const float *rows, int32_t n, int32_t n_dims,
                      const float *ranges, void *out)
{
    const size_t bytes = clef_vector_bytes(form, n_dims);
    for (int32_t i = 0; i < n; i++) {
        const float *x = rows + (size_t)i * (size_t)n_dims;
        unsigned char *to = (unsigned char *)out + (size_t)i * bytes;
        if (form == CLEF_VECTOR_F32)
            memcpy(to, x, bytes);
        else
            pack_row(form, x, n_dims, ranges, to);
    }
}
