/* Half floats and GGUF's block formats, block by block: what clef_dtype_decode() and _encode() are made of.
 */
#ifndef CLEF_GRAPH_BLOCKS_H
#define CLEF_GRAPH_BLOCKS_H

#include "clef/graph.h"

/** IEEE 754 binary16 and bfloat16, subnormals, infinities and NaN included; encoding rounds to nearest even.
 */
float    clef__f16_decode(uint16_t h);
uint16_t clef__f16_encode(float x);
float    clef__bf16_decode(uint16_t h);
uint16_t clef__bf16_encode(float x);

/** A type's number in GGUF files (enum ggml_type of ggml), and the type of a number: CLEF_N_DTYPES where clef
 *  has none. */
int32_t    clef__dtype_ggml(clef_dtype dtype);
clef_dtype clef__dtype_of_ggml(uint32_t ggml);

/** Decodes one block of `dtype` (a clef_dtype that has blocks) to its 32 or 256 elements, as ggml does, bit
 *  by bit. The layouts: cl/blocks.h. */
void clef__block_decode(int dtype, const uint8_t *block, float *x);

/** Encodes one block: the 32 or 256 elements of x. What is not finite does no harm, and means nothing. */
typedef void clef_block_encoder(const float *x, uint8_t *block);
/** The one of `dtype`, NULL if there is none. */
clef_block_encoder *clef__block_encoder(int dtype);

/* Of blocks of 32: rounded as ggml's quantize_row_*_ref does. */
clef_block_encoder clef__q8_0_encode, clef__q4_0_encode, clef__q4_1_encode, clef__q5_0_encode,
    clef__q5_1_encode;
/* The scales are searched for the least squared error. */
clef_block_encoder clef__iq4_nl_encode, clef__mxfp4_encode, clef__q4_k_encode, clef__q5_k_encode,
    clef__q6_k_encode;

#endif
