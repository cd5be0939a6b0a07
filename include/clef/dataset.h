/* The data of a training: text files become tokens, tokens become rows, and rows come in an order that only
 * the seed decides.
 *
 *   clef_dataset_open(tokenizer, &opts, &ds, &err);
 *   for step from 0 on:
 *       clef_dataset_read(ds, CLEF_TRAINING, step * n_rows, n_rows, &rows, &err);
 *
 * The rows of a training are numbered from 0 on, without an end: n_rows of clef_dataset_info make an epoch,
 * the next n_rows another, in another order. A row depends on the files, the options and its number alone,
 * and not on what was read before. So a resumed run reads what the undisturbed one would have read, and a
 * step may be read in parts. */
#ifndef CLEF_DATASET_H
#define CLEF_DATASET_H

#include <stdint.h>

#include "clef/device.h"
#include "clef/status.h"
#include "clef/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What the model learns to predict. */
typedef enum clef_objective {
    CLEF_NEXT_TOKEN,    /* the token that follows (decoders) */
    CLEF_MASKED_TOKENS, /* tokens that were hidden (encoders; Devlin et al., arXiv:1810.04805, section 3.1) */
    CLEF_TEXT_PAIRS     /* a target text from a source text (encoder-decoders) */
} clef_objective;

/** How a text file is cut into documents. Files whose names end with ".jsonl" have one object a line instead:
 *  {"text": ..} is a document, {"source": .., "target": ..} a pair; other keys are passed over. Pairs come
 *  from such files alone. Texts are UTF-8; a byte-order mark at the start of a file is dropped. Documents of
 *  white space alone are left out. */
typedef enum clef_document_rule {
    CLEF_DOCUMENTS_MARKED, /* documents are separated by lines that hold opts.separator alone; the line end
                              before such a line does not belong to the document. Without such a line, the
                              file is one document */
    CLEF_DOCUMENTS_BLANK_LINES, /* they are separated by one or more lines of white space alone, likewise */
    CLEF_DOCUMENTS_LINES,       /* each line is one */
    CLEF_DOCUMENTS_FILES        /* each file is one */
} clef_document_rule;

/** How documents become rows of CLEF_NEXT_TOKEN. */
typedef enum clef_packing {
    CLEF_PACK_STREAM, /* the documents, in an order drawn from the seed, are one stream of tokens, which is
                         cut every T tokens. Each epoch cuts it at other places. Less than a row of it is
                         padding */
    CLEF_PACK_WHOLE /* documents of at most T tokens are never cut: they are put into rows that have room for
                       them, the longest first, each where it leaves the least room. Longer ones are cut after
                       every T tokens */
} clef_packing;

typedef struct clef_dataset_opts {
    const char *const *files; /* required; every content may occur once in all files */
    int32_t n_files;
    const char *const *validation_files; /* the whole of them is for validation, and nothing of the others */
    int32_t n_validation_files;
    double validation; /* the part of the tokens that is for validation, below 1; 0: 0.05; less than 0: none.
                          It does not apply beside validation_files. See clef_split */
    clef_objective objective;
    clef_document_rule documents;
    const char *separator; /* NULL: "<|endoftext|>" */
    clef_packing packing;
    int32_t n_tokens;        /* T, the length of a row; required, 2 or more */
    int32_t n_target;        /* U, the length of a target's row; 0: T */
    const char *end_of_text; /* the text of the token that ends each document (CLEF_NEXT_TOKEN) if the
                                tokenizer itself adds none; NULL: its EOS; "": none */
    int32_t decoder_start;   /* the id that decoder inputs begin with (CLEF_TEXT_PAIRS): the model's
                                decoder_start_token_id */
    double mask_rate;        /* the part of the tokens that is hidden (CLEF_MASKED_TOKENS); 0: 0.15 */
    uint64_t seed;
    const char *cache_dir;  /* as in clef_device_opts */
    clef_progress progress; /* NULL, or called with "tokens", in bytes of text */
    void *progress_user;
    /** NULL, or called with a line (without newline) that the user should see: the cache cannot be
     *  written. */
    void (*note)(void *user, const char *text);
    void *note_user;
} clef_dataset_opts;

typedef struct clef_dataset clef_dataset;

/** Reads files and turns their texts into tokens.
 *
 *  tok   borrowed for this call.
 *  opts  borrowed for this call.
 *  out   free with clef_dataset_close(), which accepts NULL.
 *
 *  Tokens of files of 64 KiB or more are kept in the folder tokens/ of the cache, under a hash of the text,
 *  the tokenizer and the rule for documents, and mapped from there; so the next call is quick. Damaged files
 *  are made anew. Where the cache cannot be written, they stay in memory. Documents of more than 4 MiB are
 *  given to the tokenizer in parts of about that size, cut at line ends. All processors work on it.
 *
 *  CLEF_OK; CLEF_E_ARG: an option, or a file occurs twice; CLEF_E_IO; CLEF_E_FORMAT: a file is empty or is
 *  not UTF-8 (the byte's offset and line), or a line of .jsonl is wrong (the line), or there is nothing to
 *  train on; CLEF_E_NOT_FOUND: the tokenizer lacks the mask token or opts->end_of_text; CLEF_E_LIMIT: rows
 *  have no room for the special tokens; CLEF_E_CANCELLED; CLEF_E_NOMEM. */
CLEF_API clef_status clef_dataset_open(const clef_tokenizer *tok, const clef_dataset_opts *opts,
                                       clef_dataset **out, clef_error *err);
CLEF_API void clef_dataset_close(clef_dataset *ds);

/** The two parts of the data. They never share a token. Without files of its own, the validation consists of
 *  whole documents, drawn without regard to the seed, of opts.validation of the tokens at most. If no
 *  document is that short, it is the end of the longest one (of pairs: nothing). */
typedef enum clef_split { CLEF_TRAINING, CLEF_VALIDATION } clef_split;

typedef struct clef_dataset_counts {
    int64_t n_documents; /* or pairs; a document that is cut in two counts in both splits */
    int64_t n_tokens;    /* in the rows of an epoch, special tokens included, padding not */
    int64_t n_rows;      /* of an epoch */
} clef_dataset_counts;

typedef struct clef_dataset_info {
    clef_dataset_counts splits[2]; /* by clef_split */
    int64_t n_empty;               /* documents of white space alone, which were left out */
    int64_t n_cut;                 /* pairs that lost their ends, because they are longer than rows */
    int32_t n_cached;              /* files whose tokens were in the cache */
    int32_t from_cut;              /* 1: the validation is the end of a document */
    char fingerprint[65]; /* in hex, a hash of all that decides what is read: the texts, the tokenizer, the
                             options. A run that is resumed can compare it */
} clef_dataset_info;
CLEF_API clef_dataset_info clef_dataset_describe(const clef_dataset *ds);

/** The number of steps in which `epochs` epochs are read, with n_rows rows a step, rounded up; at least 1. */
CLEF_API int64_t clef_dataset_n_steps(const clef_dataset *ds, double epochs, int32_t n_rows);

/** Rows, in arrays of the caller, which have the names of a training graph's inputs (clef_build_opts.train).
 *  NULL arrays are not written.
 *
 *  With CLEF_NEXT_TOKEN each token predicts the next one of its document. Documents begin and end as the
 *  tokenizer's own post-processor has it; where it ends them with nothing, opts.end_of_text does. A token has
 *  a label even if the next token is in another row. In an epoch, each token of the training is in input_ids
 *  once, and is a label once unless its document (or its split) begins with it.
 *
 *  With CLEF_MASKED_TOKENS a row is one piece of one document, with the tokenizer's special tokens around it.
 *  Of its other tokens, mask_rate are drawn, one at least. Of these 80 % become the mask token, 10 % any
 *  token of the vocabulary, 10 % stay; all have their own id as their label.
 *
 *  With CLEF_TEXT_PAIRS a row is one pair. input_ids is the source and labels is the target, each with the
 *  special tokens of one text; decoder_input_ids is decoder_start and then the target without its last
 *  token. */
typedef struct clef_rows {
    int32_t *input_ids;      /* [n, T]; padding is the tokenizer's padding token, else its EOS, else 0 */
    int32_t *attention_mask; /* [n, T]: 0 for padding, else 1 */
    int32_t *labels;         /* [n, T], of pairs [n, U]: ids, -1 for tokens that do not count */
    int32_t *first;     /* [n, T]: the first position of the row that belongs to the same document; of padding
                           its own position */
    int32_t *positions; /* [n, T]: the token's position minus first */
    int32_t *decoder_input_ids; /* [n, U], of pairs alone */
    int64_t n_labels;           /* set: labels that count */
    int64_t n_tokens;           /* set: tokens that are not padding, sources and targets */
} clef_rows;

/** Reads rows `begin` to begin + n - 1 of a split. Training rows have no end. Validation rows have a fixed
 *  order, without regard to the seed, and each is there once: those beyond the last are padding. Allocates
 *  nothing. May be called by several threads at once. CLEF_OK, CLEF_E_ARG (begin or n is negative). */
CLEF_API clef_status clef_dataset_read(const clef_dataset *ds, clef_split split, int64_t begin, int32_t n,
                                       clef_rows *rows, clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
