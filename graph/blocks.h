/* Conversion of half floats and of GGUF's block formats. clef_dtype_decode() and clef_dtype_encode() use
 * it. */
#ifndef CLEF_GRAPH_BLOCKS_H
#define CLEF_GRAPH_BLOCKS_H

#include "clef/graph.h"

/** Convert IEEE 754 binary16 and bfloat16, including subnormals, infinities and NaN. Encoding rounds to
 *  nearest even. */
float    clef__f16_decode(uint16_t h);
uint16_t clef__f16_encode(float x);
float    clef__bf16_decode(uint16_t h);
uint16_t clef__bf16_encode(float x);

/** A dtype's number in GGUF files (enum ggml_type of ggml), and the reverse. The reverse is CLEF_N_DTYPES for
 *  a number that clef does not support. */
int32_t    clef__dtype_ggml(clef_dtype dtype);
clef_dtype clef__dtype_of_ggml(uint32_t ggml);

/** Decodes one block of `dtype` (a block format) to its 32 or 256 elements, bit by bit as ggml does.
 *  cl/blocks.h describes the layouts. */
void clef__block_decode(int dtype, const uint8_t *block, float *x);

/** Encodes one block: the 32 or 256 elements of x. Elements that are not finite are allowed; their codes are
 *  unspecified. */
typedef void clef_block_encoder(const float *x, uint8_t *block);
/** The encoder of `dtype`, NULL if there is none. */
clef_block_encoder *clef__block_encoder(int dtype);

/* These formats have blocks of 32 and round as ggml's quantize_row_*_ref does. */
clef_block_encoder clef__q8_0_encode, clef__q4_0_encode, clef__q4_1_encode, clef__q5_0_encode,
    clef__q5_1_encode, clef__q1_0_encode, clef__q2_0_encode;
/* These encoders search for the scales with the least squared error. */
clef_block_encoder clef__mxfp4_encode, clef__nvfp4_encode;

/** Encodes one block with the least sum of squared errors, each times a weight; importance: of each element,
 *  NULL: all are equal. */
typedef void clef_weighted_encoder(const float *x, const float *importance, uint8_t *block);
/** That of `dtype`, NULL if there is none. */
clef_weighted_encoder *clef__weighted_encoder(int dtype);
clef_weighted_encoder  clef__q2_k_encode_weighted, clef__q3_k_encode_weighted, clef__q4_k_encode_weighted,
    clef__q5_k_encode_weighted, clef__q6_k_encode_weighted, clef__iq4_nl_encode_weighted,
    clef__iq4_xs_encode_weighted, clef__iq3_s_encode_weighted;
/** Writes d as a half, and returns the value that a reader gets. */
float clef__put_half(uint8_t *to, float d);
/** The weights of n elements: their importance, by_size times sqrt(2 mean of squares + x^2), as llama.cpp
 *  (ggml-quants.c) has them. Groups that count nothing count equally, as all do where importance is NULL. */
void clef__set_weights(const float *x, const float *importance, int n, int group, int by_size, float *w);

#endif
