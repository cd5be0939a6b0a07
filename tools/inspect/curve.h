/* A curve of a text's perplexity, as SVG. */
#ifndef CLEF_TOOLS_CURVE_H
#define CLEF_TOOLS_CURVE_H

#include "tools/output.h"

typedef struct clef__curve {
    const char  *title;
    const float *nats; /* -log p of each scored token, in the text's order */
    int64_t      n;
} clef__curve;

/** Draws the perplexity of all tokens so far, and of stretches of the text. A clef__writer: `curve` is a clef__curve. */
clef_status clef__curve_svg(void *curve, FILE *to, clef_error *err);

#endif
