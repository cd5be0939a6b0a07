/* Where panel_gpu_gemm.cl has a step's columns of w and of x in local memory, with tokens in 8 bits or f32.
 *   -D FOURS  1: in a column, the words of a work-item's rows are adjacent, four at a time, and so are those
 *             of its four tokens: a load reads four. Columns of x are four words further apart than they are
 *             long, so that neighbours are in different banks. 0: the rows of a tile are adjacent, and the
 *             tokens. So stores find no bank conflicts, and compilers need fewer registers.
 *
 *   w_place(c, i, row)              column c of row `row` of tile i
 *   x_place(c, token)               column c of a token of the group
 *   LOAD_W(type, to, from, c, row)  to[i] = column c of row `row` of tile i, for all tiles; type: uint, float
 *   LOAD_X(type, to, from, c, t)    to[j] = column c of token 16 j + t, for all tokens of a work-item
 *   LOAD_FOUR(type, to, from, c, i, row)  with FOURS: to[n] = column c of row `row` of tile i + n, for n < 4
 *   EACH_OWN_TILE(i, item)  a loop over the tiles of which a work-item loads a part, PANEL_ROWS * 4 items for
 *                           each tile; with FOURS these are neighbours
 * `from` is aligned to 16 bytes. */
#ifndef CLEF_CL_PANEL_GPU_GEMM_PLACES_H
#define CLEF_CL_PANEL_GPU_GEMM_PLACES_H

#include "inline.h"

#if !defined(FOURS) || (FOURS && (TILES % 4 || TOKENS != 4))
#  error "panel_gpu_gemm_places.h needs FOURS; FOURS 1 needs TILES, a multiple of 4, and TOKENS 4"
#endif

#if FOURS
enum {
    X_APART = X_ROWS + 4, /* words from one column of x to the next */
    OWN_TILES = TILES * PANEL_ROWS * 4 / WG
};

#  define EACH_OWN_TILE(i, item)                                                          \
      _Pragma("unroll") for (uint i = (item) / (PANEL_ROWS * 4) * OWN_TILES,              \
                                  end_ = i + OWN_TILES; i < end_; i++)

INLINED uint w_place(uint c, uint i, uint row)
{
    return ((c * (TILES / 4) + i / 4) * PANEL_ROWS + row) * 4 + i % 4;
}

INLINED uint x_place(uint c, uint token) { return c * X_APART + token % 16 * 4 + token / 16; }

#  define LOAD_AS_ONE(type, to, from)                           \
      {                                                         \
          const type##4 four_ = *(local const type##4 *)(from); \
          (to)[0] = four_.x;                                    \
          (to)[1] = four_.y;                                    \
          (to)[2] = four_.z;                                    \
          (to)[3] = four_.w;                                    \
      }
#  define LOAD_FOUR(type, to, from, c, i, row) LOAD_AS_ONE(type, to, (from) + w_place(c, i, row))
#  define LOAD_W(type, to, from, c, row)                             \
      _Pragma("unroll") for (uint i_ = 0; i_ < TILES; i_ += 4)       \
          LOAD_FOUR(type, (to) + i_, from, c, i_, row)
#  define LOAD_X(type, to, from, c, t) LOAD_AS_ONE(type, to, (from) + x_place(c, t))
#else
enum { X_APART = X_ROWS };

#  define EACH_OWN_TILE(i, item) \
      for (uint i = (item) / (PANEL_ROWS * 4); i < TILES; i += WG / (PANEL_ROWS * 4))

INLINED uint w_place(uint c, uint i, uint row) { return c * W_ROWS + i * PANEL_ROWS + row; }
INLINED uint x_place(uint c, uint token) { return c * X_APART + token; }

#  define LOAD_W(type, to, from, c, row)                       \
      _Pragma("unroll") for (uint i_ = 0; i_ < TILES; i_++)    \
          (to)[i_] = (from)[w_place(c, i_, row)];
#  define LOAD_X(type, to, from, c, t)                         \
      _Pragma("unroll") for (uint j_ = 0; j_ < TOKENS; j_++)   \
          (to)[j_] = (from)[x_place(c, j_ * 16 + (t))];
#endif

#endif
