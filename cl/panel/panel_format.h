/* Properties of W_TYPE, a format that has panels (cl/panel/panel.h), for kernels. The values come from
 * cl/formats.def:
 *   STEP_BLOCKS   blocks of 32 columns that a block of the format covers
 *   CODE_VECTORS  vectors of codes for 32 columns
 *   CODE_SCALES   SCALES_*: what a block has beside its codes
 *   CODE_TABLE    TABLE_*: what a nibble means
 *   SCALE_BYTES   bytes beside the codes of 16 rows, for a block of the format
 *   STORED_BYTES  bytes of a block of the format as stored
 *   OFFSET        what is subtracted from a code
 *   MOST          the largest code */
#ifndef CLEF_CL_PANEL_FORMAT_H
#define CLEF_CL_PANEL_FORMAT_H

#include "args.h"
#include "weights.h"

#define OF_FORMAT(column) JOIN(FORMAT_, W_TYPE)(column)
#define STEP_BLOCKS  (OF_FORMAT(FORMAT_ELEMS) / 32)
#define CODE_VECTORS OF_FORMAT(FORMAT_VECTORS)
#define CODE_SCALES  OF_FORMAT(FORMAT_SCALES)
#define CODE_TABLE   OF_FORMAT(FORMAT_TABLE)
#define STORED_BYTES OF_FORMAT(FORMAT_BYTES)
#define OFFSET       OF_FORMAT(FORMAT_OFFSET)
#define MOST         OF_FORMAT(FORMAT_MOST)
#define SCALE_BYTES  (16 * (STORED_BYTES - 4 * CODE_VECTORS * STEP_BLOCKS))

/* 1: there is a scale for every 16 columns, rather than for every 32. */
#define HALF_SCALES (CODE_SCALES == SCALES_Q6_K || CODE_SCALES == SCALES_E4M3)
/* 1: a scale is a half, or a half times a whole number of 8 bits. */
#define SHORT_SCALES                                                                                         \
    (CODE_SCALES != SCALES_ZERO && CODE_SCALES != SCALES_AFFINE && CODE_SCALES != SCALES_ZERO_8 &&           \
     CODE_SCALES != SCALES_E8M0)
/* 1: a weight is code scale + more, where more is a minimum. */
#define HAS_MINIMA                                                                                           \
    (CODE_SCALES == SCALES_HALF_MIN || CODE_SCALES == SCALES_K || CODE_SCALES == SCALES_ZERO ||              \
     CODE_SCALES == SCALES_AFFINE || CODE_SCALES == SCALES_ZERO_8)

#if CODE_VECTORS == 0
#  error "panel_format.h: this W_TYPE has no panels of blocks"
#endif

#endif
