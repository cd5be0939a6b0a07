/* The paths of the server, and what answers them. */
#ifndef CLEF_TOOLS_SERVE_ENDPOINTS_H
#define CLEF_TOOLS_SERVE_ENDPOINTS_H

#include <stdint.h>

struct serve_request;

enum {
    SERVE_NO_KEY = 1,
    SERVE_PREFIX = 2,
    SERVE_NO_LOG = 4,
    SERVE_ANTHROPIC = 8,
    SERVE_DELETE = 16,
    SERVE_OLLAMA = 32,
    SERVE_OF_MODEL = 64,
    SERVE_FORM_BODY = 128,
    SERVE_PUBLIC = 256,
    SERVE_POST = 512
};

typedef struct serve_endpoint {
    const char *name, *method, *path;
    uint32_t flags;
    const char *help;
    /** Fills the reply, or the request's error. Runs in the connection's thread. */
    void (*answer)(struct serve_request *r);
} serve_endpoint;

extern const serve_endpoint serve_endpoints[];
enum {
    SERVE_N_ENDPOINTS = 0
#define ENDPOINT(name, method, path, flags, help) +1
#include "tools/serve/endpoints.def"
#undef ENDPOINT
};

/** The request's error as Anthropic has it, which the caller frees; NULL when out of memory. */
char *serve_messages_error(const struct serve_request *r);
/** The same for Ollama. */
char *serve_ollama_error(const struct serve_request *r);
/** A time as RFC 3339 has it. */
struct json_t *serve_time_text(int64_t seconds);
/** The models as Ollama lists them, for the others' lists. */
struct serve_models;
struct json_t *serve_ollama_list(struct serve_models *ms, int only_loaded);

#define ENDPOINT(name, method, path, flags, help) void serve_answer_##name(struct serve_request *r);
#include "tools/serve/endpoints.def"
#undef ENDPOINT

#endif
