/* Pictures of the command line and of requests, for models that read them. */
#ifndef CLEF_TOOLS_PROMPT_PICTURES_H
#define CLEF_TOOLS_PROMPT_PICTURES_H

#include "clef/clef.h"

/** What reads pictures for one model, and the pictures of one prompt. */
typedef struct cli_prompt_pictures {
    clef_picture_processor *processor;
    clef_sight             *marks;  /* without a device: expands texts */
    clef_model             *model;
    clef_pixels            *pixels; /* [n]: their memory */
    clef_sight_pixels      *views;  /* [n]: what the sight gets */
    int32_t                 n;
    int64_t                 max_pixels; /* of a picture; 0: the decoder's own limit */
} cli_prompt_pictures;

/** Opens it. CLEF_E_UNSUPPORTED for a model without pictures; statuses of clef_picture_processor_create(). */
clef_status cli_prompt_pictures_open(cli_prompt_pictures *p, clef_model *model, clef_error *err);
/** Adds a picture, of a file, or of bytes that errors call `name`. */
clef_status cli_prompt_pictures_add_file(cli_prompt_pictures *p, const char *path, clef_error *err);
clef_status cli_prompt_pictures_add(cli_prompt_pictures *p, const void *data, size_t n_bytes,
                                    const char *name, clef_error *err);
/** Keeps n pictures: the last ones, or the first ones (last 0). */
void        cli_prompt_pictures_keep(cli_prompt_pictures *p, int32_t n, int32_t last);
void        cli_prompt_pictures_close(cli_prompt_pictures *p);

/** Expands a text for the pictures and encodes it. plain: the parts that hold no special tokens. *ids is for
 *  clef_tokens_free(). */
typedef struct cli_picture_prompt {
    const char *text;
    size_t      n_bytes;
    const clef_byte_span *plain;
    size_t      n_plain;
    clef_special special; /* of the tokenizer, unless it is rendered */
    int32_t     is_rendered; /* 1: by a template, which writes the first tokens, and marks pictures */
} cli_picture_prompt;
clef_status cli_prompt_pictures_encode(const cli_prompt_pictures *pictures, const cli_picture_prompt *p,
                                       int32_t **ids, int32_t *n, clef_error *err);

/** One sequence of a batch, for prompts with pictures: what a session is for other prompts. */
typedef struct cli_teller {
    clef_device *device;
    clef_model  *model;
    clef_batch  *batch;
    clef_sight  *sight;
    int64_t      sequence; /* -1: none */
    clef_batch_token last;
} cli_teller;

/** Makes the batch and the sight; opts as for clef_batch_create(), for one sequence. */
clef_status cli_teller_open(cli_teller *t, clef_device *dev, clef_model *model, const clef_batch_opts *opts,
                            clef_error *err);
/** Begins a text after a prompt. request: all but pictures. */
clef_status cli_teller_begin(cli_teller *t, const cli_prompt_pictures *pictures, const clef_request *request,
                             clef_error *err);
/** The next token. CLEF_E_NOT_FINITE; CLEF_E_ARG if no token is allowed. */
clef_status cli_teller_next(cli_teller *t, int32_t *id, clef_error *err);
/** Ends the sequence; what it computed stays in the prefix cache. */
void        cli_teller_end(cli_teller *t);
void        cli_teller_close(cli_teller *t);

#endif
