/* Pictures in prompts: what a model's own tower and projector make of pixels, in place of tokens. */
#ifndef CLEF_SIGHT_H
#define CLEF_SIGHT_H

#include "clef/batch.h"
#include "clef/device.h"
#include "clef/model.h"
#include "clef/plan.h"
#include "clef/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The pixels of a picture, as the model's image processor gives them: resized and normalised. */
typedef struct clef_sight_pixels {
    const float *values;        /* [n, 3, height, width] */
    int32_t      n;             /* pictures of this size that the processor made of one: 1, or its tiles */
    int32_t      height, width;
    int32_t      rows, columns; /* of the tiles in the picture; 0: there are none */
    int32_t      source_height, source_width; /* of the picture before it was resized */
} clef_sight_pixels;

/** A model's sight: its tower and projector on a device. One thread at a time may use it. */
typedef struct clef_sight clef_sight;

/** 1 if clef reads pictures for the model; else 0, and why not, if err is not NULL (CLEF_E_UNSUPPORTED). */
CLEF_API int32_t clef_model_sees(const clef_model *model, clef_error *err);
/** Adds the tower of a GGUF model, which llama.cpp keeps in a file of its own (mmproj), of the projectors
 *  gemma3 and idefics3. The model must not be in use. CLEF_E_ARG (a folder; a second tower; that of another
 *  family), CLEF_E_FORMAT, CLEF_E_SHAPE (of a model of another width), CLEF_E_UNSUPPORTED (another
 *  projector), CLEF_E_NOT_FOUND (the vocabulary has no token for pictures), and statuses of
 *  clef_model_look(). */
CLEF_API clef_status clef_model_add_pictures(clef_model *model, const char *path, clef_error *err);
/** What that file says of how pictures become pixels, for clef_picture_processor_parse(). NULL for models
 *  without such a file. It belongs to the model. */
CLEF_API const char *clef_model_picture_config(const clef_model *model);
/** Opens it; dev and model are borrowed and must outlive it. Its plans are made for the first pictures.
 *  dev NULL: it expands texts, and sees nothing. CLEF_E_UNSUPPORTED for models without pictures,
 *  CLEF_E_FORMAT, CLEF_E_NOT_FOUND (a weight), CLEF_E_NOMEM. */
CLEF_API clef_status clef_sight_create(clef_device *dev, clef_model *model, const clef_compile_opts *opts,
                                       clef_sight **out, clef_error *err);
CLEF_API void        clef_sight_destroy(clef_sight *sight);

/** A text with the tokens of its pictures, and those of its parts that may hold no special tokens. Free with
 *  clef_sight_text_finish(). */
typedef struct clef_sight_text {
    char           *text;
    size_t          n_bytes;
    clef_byte_span *plain;
    size_t          n_plain;
    int32_t         is_whole; /* 1: it has the text's first token, which the tokenizer must not add */
} clef_sight_text;

/** What a template writes for a picture, such as "<image>". */
CLEF_API const char *clef_sight_mark(const clef_sight *sight);
/** Replaces the mark of each picture in a text by the tokens that the model's processor writes for it. Marks
 *  inside of the plain spans are text. Without any mark, and with before = 1, the pictures come before the
 *  text. CLEF_E_ARG if there are more or fewer marks than pictures; CLEF_E_SHAPE for pixels of another size,
 *  or of tiles that do not fill a grid; CLEF_E_NOMEM. */
typedef struct clef_sight_expand_opts {
    const clef_byte_span *plain;
    size_t                n_plain;
    int32_t               before;
} clef_sight_expand_opts;
CLEF_API clef_status clef_sight_expand(clef_sight *sight, const char *text, size_t n_bytes,
                                       const clef_sight_pixels *pixels, int32_t n_pixels,
                                       const clef_sight_expand_opts *opts, clef_sight_text *out,
                                       clef_error *err);
CLEF_API void        clef_sight_text_finish(clef_sight_text *text);

/** Rows for a batch's request. Free with clef_seen_finish(). */
typedef struct clef_seen {
    clef_request_picture *pictures;
    int32_t               n_pictures;
    float               **rows; /* [n_rows]: the memory of the rows */
    int32_t               n_rows;
} clef_seen;

/** Runs the tower for each picture, and finds the places of its rows in the ids of an expanded text.
 *  CLEF_E_ARG if there are more or fewer places than rows; statuses of clef_plan_create() and
 *  clef_plan_run(). */
CLEF_API clef_status clef_sight_see(clef_sight *sight, const int32_t *ids, int32_t n,
                                    const clef_sight_pixels *pixels, int32_t n_pixels, clef_seen *out,
                                    clef_error *err);
CLEF_API void        clef_seen_finish(clef_seen *seen);

#ifdef __cplusplus
}
#endif
#endif
