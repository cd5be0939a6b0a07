/* The sizes of the kernels that multiply in tiles on units for small matrices. A group multiplies TILES tiles
 * of w, of PANEL_ROWS rows each, by 16 TOKENS rows of x. Each of its units has UNIT_ROWS rows for UNIT_TOKENS
 * tokens, which are ROW_PARTS x TOKEN_PARTS fragments of sums. PARTS units have the same rows and tokens, and
 * each a part of the columns. Work-items of a group: WG.
 *   -D TILES, TOKENS, UNIT_ROWS, UNIT_TOKENS, PARTS, and those of matrix.h and panel_gpu_epilogue.h */
#include "matrix.h"
#if !defined(TILES) || !defined(TOKENS) || !defined(UNIT_ROWS) || !defined(UNIT_TOKENS) || !defined(PARTS)
#  error "panel_gpu_mma_tiles.h needs TILES, TOKENS, UNIT_ROWS, UNIT_TOKENS and PARTS"
#endif
#define PART_UNITS ((TILES * 16 / UNIT_ROWS) * (TOKENS * 16 / UNIT_TOKENS))
#define WG         (MATRIX_LANES * PART_UNITS * PARTS)
#include "args.h"
#include "group.h"
#include "weights.h"
#include "panel_gpu_epilogue.h"

enum {
    W_ROWS = TILES * PANEL_ROWS,
    X_ROWS = TOKENS * 16,
    ROW_PARTS = UNIT_ROWS / MATRIX_ROWS,
    TOKEN_PARTS = UNIT_TOKENS / MATRIX_TOKENS
};
