#include "graph/panel.h"

#include <string.h>

#include "graph/blocks.h"

/* Bytes of quants that 32 columns of a row take: 0 for floats. */
static int64_t quant_bytes(clef_dtype dtype)
{
    return dtype == CLEF_Q8_0 ? 32 : dtype == CLEF_Q4_0 ? 16 : 0;
}

int clef__panel_has(clef_dtype dtype, int64_t k)
{
    return dtype == CLEF_F32 || dtype == CLEF_F16 || dtype == CLEF_BF16 || (quant_bytes(dtype) && k % 32 == 0);
}

static int64_t padded(int64_t n)
{
    return (n + PANEL_PAD - 1) / PANEL_PAD * PANEL_PAD;
}

int64_t clef__panel_bytes(clef_dtype dtype, int64_t n, int64_t k)
{
    const int64_t quants = quant_bytes(dtype);
    return padded(n) * (quants ? k / 32 * (quants + 2) : k * clef_dtype_block_bytes(dtype));
}

/* n bytes, at most 4. */
static void take(const double *bytes, int64_t at, int64_t n, unsigned char out[4])
{
    for (int64_t i = 0; i < n && i < 4; i++)
        out[i] = (unsigned char)(int)bytes[at + i];
}

double clef__panel_element(clef_dtype dtype, int64_t n, int64_t k, const double *bytes, int64_t row, int64_t col)
{
    const int64_t tile = row / PANEL_ROWS, r = row % PANEL_ROWS, quants = quant_bytes(dtype), size = clef_dtype_block_bytes(dtype);
    unsigned char raw[4];
    float x;
    if (!quants) {
        take(bytes, ((tile * k + col) * PANEL_ROWS + r) * size, size, raw);
        clef_dtype_decode(dtype, raw, 1, &x);
        return (double)x;
    }
    const int64_t block = tile * (k / 32) + col / 32, i = col % 32;
    float scale;
    take(bytes, padded(n) * (k / 32) * quants + (block * PANEL_ROWS + r) * 2, 2, raw);
    clef_dtype_decode(CLEF_F16, raw, 1, &scale);
    const int64_t in_group = dtype == CLEF_Q8_0 ? i : i % 16;
    take(bytes, block * quants * PANEL_ROWS + in_group / 4 * 64 + r * 4 + in_group % 4, 1, raw);
    const int q = dtype == CLEF_Q8_0 ? raw[0] - 128 : (i < 16 ? raw[0] & 15 : raw[0] >> 4) - 8;
    return (double)scale * q;
}

void clef__token_block(int64_t m, int64_t row, int64_t *start, int64_t *size)
{
    *start = row / TOKEN_BLOCK * TOKEN_BLOCK;
    *size = TOKEN_BLOCK;
    if (*start + TOKEN_BLOCK <= m)
        return;
    for (*size = 8;; *size /= 2)
        if (*start + *size <= m) {
            if (row < *start + *size)
                return;
            *start += *size;
        }
}
