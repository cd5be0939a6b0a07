/* The part that the epilogues of panel products on CPUs (panel_cpu_epilogue.h) and GPUs
 * (panel_gpu_epilogue.h) share. Needs BIAS_TYPE and ACT (an index in PANEL_ACTS). A kernel declares
 * PANEL_OUT_BUFS as its last arguments and passes PANEL_OUT on. */
#ifndef CLEF_CL_PANEL_ENDS_H
#define CLEF_CL_PANEL_ENDS_H

#if !defined(BIAS_TYPE) || !defined(ACT)
#  error "panel_epilogue.h needs BIAS_TYPE and ACT"
#endif

#include "bias.h"

#define PANEL_OUT_BUFS global const bias_elem *bias, global const float *residual
#define PANEL_OUT      bias, residual

#define ENUMERATE_ACT(name) ACT_##name,
enum { PANEL_ACTS(ENUMERATE_ACT) };
/* GATED: tiles 2 i and 2 i + 1 of w give tile i of the result. W_TILES(n): the number of tiles of w for n
 * rows of the result, padding included. */
#define GATED (ACT == 1)
#if GATED
#  define W_TILES(n) (((n) + PANEL_ROWS - 1) / PANEL_ROWS * 2)
#else
#  define W_TILES(n) (((n) + PANEL_PAD - 1) / PANEL_PAD * (PANEL_PAD / PANEL_ROWS))
#endif

#endif
