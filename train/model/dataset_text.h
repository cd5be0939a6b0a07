/* Documents of a text file, or texts and pairs of texts of a .jsonl file. */
#ifndef CLEF_MODEL_DATASET_TEXT_H
#define CLEF_MODEL_DATASET_TEXT_H

#include <jansson.h>

#include "clef/dataset.h"
#include "runtime/os/os.h"

typedef struct clef__text_reader {
    const char        *path;
    const char        *text; /* the file's, without its byte-order mark */
    size_t             n_bytes, at;
    int64_t            line; /* lines of .jsonl that were read */
    int32_t            is_jsonl, is_pairs;
    clef_document_rule rule;
    const char        *separator;
    size_t             n_separator;
    json_t            *record;
    int64_t            n_empty;   /* documents of white space alone that were passed over */
    const char        *parts[2];  /* the present document, or the source and the target of the present pair */
    size_t             n_part[2];
} clef__text_reader;

/** Begins to read a mapped file, which is borrowed like the path. Reads all of it once to check that it is
 *  UTF-8 without NULs. CLEF_E_ARG: pairs of another file than .jsonl; CLEF_E_FORMAT. */
clef_status clef__text_begin(clef__text_reader *r, const char *path, const clef_mapping *file,
                             const clef_dataset_opts *opts, clef_error *err);
/** Sets parts to the next document that is not white space. *found is 0 after the last. CLEF_E_FORMAT: a line
 *  of .jsonl. CLEF_E_NOMEM. */
clef_status clef__text_next(clef__text_reader *r, int *found, clef_error *err);
void        clef__text_finish(clef__text_reader *r); /* accepts a zeroed one */

int clef__is_jsonl(const char *path);

#endif
