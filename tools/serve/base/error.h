/* Errors of requests: what a client is sent. */
#ifndef CLEF_TOOLS_SERVE_BASE_ERROR_H
#define CLEF_TOOLS_SERVE_BASE_ERROR_H

#include <jansson.h>
#include <stdint.h>

#include "clef/status.h"
#include "tools/cli/cli.h"

typedef enum serve_error_id {
    SERVE_OK,
#define ERROR(id, status, type, code, when) SERVE_E_##id,
#include "tools/serve/base/errors.def"
#undef ERROR
    SERVE_N_ERRORS
} serve_error_id;

typedef struct serve_error_kind {
    int32_t status;
    const char *type, *code, *when;
} serve_error_kind;
extern const serve_error_kind serve_error_kinds[SERVE_N_ERRORS];

typedef struct serve_error {
    serve_error_id id; /* SERVE_OK: none */
    char message[1024], param[256];
    int32_t n_prompt, n_ctx, max_tokens; /* of SERVE_E_CONTEXT */
    int32_t retry_after;                 /* seconds; 0: none */
} serve_error;

/** Fills an error unless it has one, and returns 0. param NULL: none. */
CLI_PRINTF(4, 5)
int serve_fail(serve_error *e, serve_error_id id, const char *param, const char *format, ...);
/** Fills it from an error of the library. `otherwise` is what stands for a fault of the client. */
int serve_fail_status(serve_error *e, const clef_error *err, serve_error_id otherwise, const char *param);
/** {"error": {..}}, which the caller frees; NULL when out of memory. */
char *serve_error_json(const serve_error *e);
/** The message as valid UTF-8: bytes that are none become '?'. */
void serve_clean_text(char *text);

#endif
