/* Gets a model from the Hub into the cache (tools/hub/hub.h). */
#ifndef CLEF_TOOLS_PULL_PULL_H
#define CLEF_TOOLS_PULL_PULL_H

#include "tools/hub/hub.h"
#include "tools/pull/request.h"

typedef struct pull_opts {
    const char *model, *revision; /* "org/repo[:quant]", "main" */
    int32_t     quiet;
} pull_opts;

/** Gets what is missing, and prints the path of the model. Returns an exit code, after a message. */
int pull_model(const pull_opts *opts);

/** A file, as its head describes it. */
typedef struct pull_file {
    char     etag[HUB_MOST_NAME]; /* its checksum, and the name of its blob */
    uint64_t n_bytes;
    int      is_there;            /* in the cache */
} pull_file;

/** A model at work. */
typedef struct pull_job {
    hub_name    name;
    const char *endpoint, *revision;
    char        folder[HUB_MOST_PATH]; /* of the repository in the cache */
    char        commit[HUB_MOST_NAME];
    hub_files   all, wanted;           /* files of the repository; those that the model needs */
    pull_file  *files;                 /* of the first n_files of `wanted` */
    int32_t     n_files, quiet;
    uint64_t    n_got;                 /* bytes that were not in the cache before */
    pull_net   *net;
} pull_job;

/** Asks the Hub for the revision's commit and its files. A name that leads out of the folder is
 *  CLEF_E_FORMAT. */
clef_status pull_list(pull_job *job, clef_error *err);
/** Adds to `wanted` what the model needs of them: the parts of a GGUF file, or configuration, tokenizer and
 *  safetensors. CLEF_E_NOT_FOUND, CLEF_E_ARG, CLEF_E_FORMAT, and the errors of pull_fetch(). */
clef_status pull_choose(pull_job *job, clef_error *err);
/** Gets those of `wanted` that the cache lacks. CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_CANCELLED. */
clef_status pull_fetch(pull_job *job, clef_error *err);
/** Writes the path of the blob of file i of `wanted`, which pull_fetch() got. */
clef_status pull_blob_path(const pull_job *job, int32_t i, char out[HUB_MOST_PATH], clef_error *err);
/** Escapes what an address may not hold. keep: characters beyond letters and digits that stay. CLEF_E_ARG. */
clef_status pull_escape(const char *text, const char *keep, char out[HUB_MOST_PATH], clef_error *err);

#endif
