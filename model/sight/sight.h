/* What a folder's configuration says of the pictures that its text model takes in place of tokens. The tower
 * and the projector, which make rows of pictures, are in model/tower/. */
#ifndef CLEF_MODEL_SIGHT_H
#define CLEF_MODEL_SIGHT_H

#include "clef/model.h"
#include "model/file/json.h"

/** What the tokens of a picture see beside the tokens before them. */
typedef enum clef__sight_view {
    CLEF__SIGHT_CAUSAL, /* nothing */
    CLEF__SIGHT_PICTURE, /* all tokens of their own picture (Gemma 3) */
    CLEF__SIGHT_PROMPT   /* as every token of the prompt: all of the prompt (PaliGemma) */
} clef__sight_view;

typedef struct clef__sight {
    const char      *family;   /* model_type of the outer configuration */
    int32_t          token;    /* the id that stands for a row of a picture */
    clef__sight_view view;
    /* M-RoPE: how many pairs of a head turn by time, height and width, and whether the pairs alternate; all
     * zero: tokens of a picture have positions as tokens of a text */
    int32_t          sections[3], alternates;
    int32_t          n_deep;   /* rows that the first layers' results get added (Qwen3-VL); 0: none */
} clef__sight;

/** Reads it from config.json (outer), and from the text model's part of it (inner). *out stays NULL for
 *  models without pictures; else it is for free(). CLEF_E_FORMAT for a key that is wrong, CLEF_E_NOMEM. */
clef_status clef__sight_read(const json_t *outer, const json_t *inner, const clef_hparams *hp,
                             const char *path, clef__sight **out, clef_error *err);

#endif
