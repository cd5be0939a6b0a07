/* What a model predicted at each position: what the files of `clef logits` share. */
#ifndef CLEF_TOOLS_LOGITS_H
#define CLEF_TOOLS_LOGITS_H

#include "tools/inspect/forward.h"

enum { LOGITS_MAX_TOP = 100 };

typedef struct logits_guess {
    int32_t id;
    float   p;
} logits_guess;

/** A position of the text: its token, the token's probability, and the model's predictions. */
typedef struct logits_place {
    int32_t       id;
    int32_t       rank;  /* rank of the token among all, from 1; 0: nothing was predicted (the first token
                            of a decoder) */
    double        nats;  /* -log p of the token */
    logits_guess *top;   /* n_top, the likeliest first */
} logits_place;

typedef struct logits_result {
    const cli_forward *f;
    const char   *title;
    logits_place *places;
    int32_t       n, n_top;
    int32_t       n_scored;
    double        nats;     /* mean over the n_scored positions */
    int32_t       is_masked_lm; /* 1: an encoder, whose logits of a position are about its own token */
} logits_result;

/* The forms of the result; `r` is a logits_result. */
clef_status cli_logits_text(void *r, FILE *to, clef_error *err);
clef_status cli_logits_json(void *r, FILE *to, clef_error *err);
clef_status cli_logits_html(void *r, FILE *to, clef_error *err);
clef_status cli_logits_svg(void *r, FILE *to, clef_error *err);

#endif
