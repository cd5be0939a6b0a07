/* How far a model's predictions are from those of another, of which a file has the logits of the same text.
 * The file is that of llama.cpp's perplexity (--kl-divergence-base). */
#ifndef CLEF_TOOLS_DIVERGENCE_H
#define CLEF_TOOLS_DIVERGENCE_H

#include <stdio.h>

#include "clef/clef.h"

/** State of a comparison, or of writing the file; cli_divergence_close() accepts it in any state. */
typedef struct cli_divergence {
    const char *path;
    FILE       *file;
    int32_t     is_written; /* 1: the file is written; 0: it is read, and compared with */
    int32_t     n_context, n_vocab, n_windows;
    int64_t     n, room; /* tokens compared so far; of all windows */
    float      *kl;      /* [room]: the divergence at each token */
    float      *change;  /* [room]: of the token's probability */
    double      base_nats; /* the sum of -log p by the base */
    int64_t     n_same;    /* tokens where both hold the same one for likeliest */
    uint16_t   *codes;
} cli_divergence;

/** Begins the file: ids [n_windows, n_context] are those that the model reads. CLEF_E_IO, CLEF_E_NOMEM. */
clef_status cli_divergence_create(cli_divergence *d, const char *path, int32_t n_context, int32_t n_vocab,
                                  int32_t n_windows, const int32_t *ids, clef_error *err);
/** Opens the file, and reads the size of its windows and the number of them. CLEF_E_IO, CLEF_E_FORMAT. */
clef_status cli_divergence_open(cli_divergence *d, const char *path, clef_error *err);
/** Checks that the file is of these ids. CLEF_E_FORMAT, CLEF_E_NOMEM. */
clef_status cli_divergence_check(cli_divergence *d, int32_t n_vocab, int32_t n_windows, const int32_t *ids,
                                 clef_error *err);
/** Writes the logits [n_vocab] of a token, or compares them; `target` is the one that follows. CLEF_E_IO,
 *  CLEF_E_FORMAT, CLEF_E_NOT_FINITE. */
clef_status cli_divergence_token(cli_divergence *d, const float *logits, int32_t target, clef_error *err);
/** Ends the file. CLEF_E_IO. */
clef_status cli_divergence_finish(cli_divergence *d, clef_error *err);
void        cli_divergence_close(cli_divergence *d);

/** Prints what was found, as lines or as members of a JSON object after *n others; nats: -log p of a token by
 *  the model. It sorts the divergences. */
void cli_divergence_print(cli_divergence *d, double nats);
void cli_divergence_json(cli_divergence *d, double nats, int32_t *n, FILE *to);

#endif
