/* What is decided by a request's head alone: whether it is answered at all. */
#ifndef CLEF_TOOLS_SERVE_RULES_H
#define CLEF_TOOLS_SERVE_RULES_H

#include "tools/serve/http.h"

/** The headers that matter, borrowed from libmicrohttpd. */
typedef struct serve_head {
    const char *host, *origin, *authorization, *api_key, *content_type, *length, *encoding, *request_id;
    const char *forwarded_for; /* the last one there is: the proxy next to the server wrote it */
    int32_t n_headers;
    size_t n_bytes;
    serve_socket socket;
    int long_uri, is_full, is_proxy, is_http11;
    const char *wrong; /* NULL, or what of the head is not HTTP */
    /* the result */
    uint64_t n_body; /* as the head says; 0: it does not */
    int is_options, origin_allowed;
    const char *allow; /* NULL, or the methods there are */
} serve_head;

/** Takes a header line. What of it is not HTTP is noted in `wrong`. */
void serve_head_add(serve_head *head, const char *name, const char *value);
/** Sets the request's endpoint, id and tenant, or its error. */
void serve_rules_check(serve_request *r, serve_head *head, const char *url, const char *method);

/** Decodes %XX; 0 where the result has a NUL or is too long. */
int serve_decode_percent(const char *text, char *out, size_t room);

#endif
