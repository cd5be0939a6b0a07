/* The block formats that have panels (cl/panel/panel.h), of W_TYPE:
 *   STEP_BLOCKS  blocks of 32 columns that a block of the format covers
 *   CODE_VECTORS of codes for 32 columns
 *   SCALE_BYTES  behind the codes, for a block of the format
 *   STORED_BYTES of a block of the format as stored
 *   OFFSET       by which codes are too large
 *   MOST         the largest code */
#ifndef CLEF_CL_PANEL_FORMAT_H
#define CLEF_CL_PANEL_FORMAT_H

#include "args.h"

/* A scale for each 16 columns. */
#define HALF_SCALES (W_TYPE == DTYPE_Q6_K)
/* x = code scale + more: more is a minimum. */
#define HAS_MINIMA (W_TYPE == DTYPE_Q4_1 || W_TYPE == DTYPE_Q5_1 || W_TYPE == DTYPE_Q4_K || W_TYPE == DTYPE_Q5_K)

#if W_TYPE == DTYPE_Q8_0
enum { STEP_BLOCKS = 1, CODE_VECTORS = 8, SCALE_BYTES = 32, STORED_BYTES = 34, OFFSET = 128, MOST = 255 };
#elif W_TYPE == DTYPE_Q4_0
enum { STEP_BLOCKS = 1, CODE_VECTORS = 4, SCALE_BYTES = 32, STORED_BYTES = 18, OFFSET = 8, MOST = 15 };
#elif W_TYPE == DTYPE_Q4_1
enum { STEP_BLOCKS = 1, CODE_VECTORS = 4, SCALE_BYTES = 64, STORED_BYTES = 20, OFFSET = 0, MOST = 15 };
#elif W_TYPE == DTYPE_Q5_0
enum { STEP_BLOCKS = 1, CODE_VECTORS = 5, SCALE_BYTES = 32, STORED_BYTES = 22, OFFSET = 16, MOST = 31 };
#elif W_TYPE == DTYPE_Q5_1
enum { STEP_BLOCKS = 1, CODE_VECTORS = 5, SCALE_BYTES = 64, STORED_BYTES = 24, OFFSET = 0, MOST = 31 };
#elif W_TYPE == DTYPE_Q4_K
enum { STEP_BLOCKS = 8, CODE_VECTORS = 4, SCALE_BYTES = 256, STORED_BYTES = 144, OFFSET = 0, MOST = 15 };
#elif W_TYPE == DTYPE_Q5_K
enum { STEP_BLOCKS = 8, CODE_VECTORS = 5, SCALE_BYTES = 256, STORED_BYTES = 176, OFFSET = 0, MOST = 31 };
#elif W_TYPE == DTYPE_Q6_K
enum { STEP_BLOCKS = 8, CODE_VECTORS = 6, SCALE_BYTES = 288, STORED_BYTES = 210, OFFSET = 32, MOST = 63 };
#elif W_TYPE == DTYPE_IQ4_NL
enum { STEP_BLOCKS = 1, CODE_VECTORS = 4, SCALE_BYTES = 32, STORED_BYTES = 18, OFFSET = 127, MOST = 240 };
#elif W_TYPE == DTYPE_IQ4_XS
enum { STEP_BLOCKS = 8, CODE_VECTORS = 4, SCALE_BYTES = 128, STORED_BYTES = 136, OFFSET = 127, MOST = 240 };
#elif W_TYPE == DTYPE_MXFP4
enum { STEP_BLOCKS = 1, CODE_VECTORS = 4, SCALE_BYTES = 16, STORED_BYTES = 17, OFFSET = 12, MOST = 24 };
#else
#  error "panel_format.h: this W_TYPE has no panels of blocks"
#endif

#endif
