/* Requests to the Hub: redirects, tokens, and what is tried again. */
#ifndef CLEF_TOOLS_PULL_REQUEST_H
#define CLEF_TOOLS_PULL_REQUEST_H

#include "tools/cli/progress.h"
#include "tools/hub/hub.h"

typedef struct pull_net pull_net;

typedef struct pull_net_opts {
    const char   *endpoint; /* "https://huggingface.co", borrowed; the token goes to this host alone */
    const char   *token;    /* NULL: none */
    const char   *repo;     /* borrowed; errors begin with it */
    cli_progress *progress;
} pull_net_opts;

/** Free with pull_net_close(). CLEF_E_UNSUPPORTED, CLEF_E_NOMEM. */
clef_status pull_net_open(const pull_net_opts *opts, pull_net **out, clef_error *err);
void        pull_net_close(pull_net *net);
/** What the progress shows: bytes of all files that are there, and their sum. */
void pull_net_show(pull_net *net, uint64_t done, uint64_t total);

/** What the head of a file's reply says. */
typedef struct pull_head_fields {
    char    etag[HUB_MOST_NAME]; /* the checksum, without quotes; "": none */
    int64_t n_bytes;             /* -1: not told */
} pull_head_fields;
/** Asks for the head of a file, as far as it is the Hub's own: not from where it redirects to. */
clef_status pull_head(pull_net *net, const char *url, pull_head_fields *out, clef_error *err);

/** Where the bytes of a reply go. */
typedef struct pull_body {
    uint64_t at;       /* bytes that are there: only those after them are asked for */
    uint64_t most;     /* bytes, at most */
    int      is_exact; /* 1: neither fewer */
    clef_status (*take)(void *user, const void *data, size_t n, clef_error *err);
    clef_status (*restart)(void *user, clef_error *err); /* drops all bytes */
    void *user;
} pull_body;
/** Gets a file. What may succeed later is tried again, from where it was cut; after five tries without a
 *  further byte it fails. CLEF_E_IO, CLEF_E_NOT_FOUND, CLEF_E_CANCELLED after Ctrl-C, and what `take`
 *  returns. */
clef_status pull_get(pull_net *net, const char *url, pull_body *body, clef_error *err);

/** Waits; CLEF_E_CANCELLED after Ctrl-C. */
clef_status pull_pause(pull_net *net, double seconds, clef_error *err);

#endif
