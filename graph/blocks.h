/* Half floats and GGUF's block formats, element by element: what clef_dtype_decode() and _encode() are made of. */
#ifndef CLEF_GRAPH_BLOCKS_H
#define CLEF_GRAPH_BLOCKS_H

#include <stdint.h>

/** IEEE 754 binary16 and bfloat16, subnormals, infinities and NaN included; encoding rounds to nearest even. */
float    clef__f16_decode(uint16_t h);
uint16_t clef__f16_encode(float x);
float    clef__bf16_decode(uint16_t h);
uint16_t clef__bf16_encode(float x);

/** One block of 32. Q8_0: half d, 32 int8 q; x = d q. Q4_0: half d, 16 bytes; x = d (q - 8), the low nibbles are elements 0..15, the
 *  high ones 16..31. Encoding rounds as ggml's quantize_row_*_ref does. */
void clef__q8_0_decode(const uint8_t block[34], float x[32]);
void clef__q8_0_encode(const float x[32], uint8_t block[34]);
void clef__q4_0_decode(const uint8_t block[18], float x[32]);
void clef__q4_0_encode(const float x[32], uint8_t block[18]);

#endif
