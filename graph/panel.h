/* The panel layouts on the host: sizes, and reading them for the references. The orders are described in cl/panel.h. */
#ifndef CLEF_GRAPH_PANEL_H
#define CLEF_GRAPH_PANEL_H

#include "graph/op.h"

/** A pack node of n weights lowers to n x PACK_MAX_PIECES launches at most; each reads a part of one weight, in its order. */
enum { PACK_MAX_PIECES = 16 };

/** 1 when weights of this dtype have a panel layout for rows of k columns. */
int     clef__panel_has(clef_dtype dtype, int64_t k);
/** Bytes of n rows of k columns, packed. */
int64_t clef__panel_bytes(clef_dtype dtype, int64_t n, int64_t k);
/** Element (row, col) of packed bytes (as the references have them: a double for each I8). */
double  clef__panel_element(clef_dtype dtype, int64_t n, int64_t k, const double *bytes, int64_t row, int64_t col);

/** The block that row `row` of m lies in, as cl/quantize.cl cuts them: its first row and how many it has. */
void    clef__token_block(int64_t m, int64_t row, int64_t *start, int64_t *size);

#endif
