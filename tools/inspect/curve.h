/* A curve of a text's perplexity, as SVG. */
#ifndef CLEF_TOOLS_CURVE_H
#define CLEF_TOOLS_CURVE_H

#include "tools/cli/output.h"

typedef struct cli_curve {
    const char  *title;
    const float *nats; /* -log p of each scored token, in the text's order */
    int64_t      n;
} cli_curve;

/** Draws the perplexity of all tokens so far, and of stretches of the text. A cli_writer: `curve` is a
 *  cli_curve. */
clef_status cli_curve_svg(void *curve, FILE *to, clef_error *err);

#endif
