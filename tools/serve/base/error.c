/* Errors of requests. */
#include "tools/serve/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/json.h"

const serve_error_kind serve_error_kinds[SERVE_N_ERRORS] = {
    {200, "", "", ""},
#define ERROR(id, status, type, code, when) {status, type, code, when},
#include "tools/serve/base/errors.def"
#undef ERROR
};

void serve_clean_text(char *text)
{
    for (char *at = text; *at;) {
        const int n = cli_utf8_length(at);
        if (!n)
            *at = '?';
        at += n ? n : 1;
    }
}

int serve_fail(serve_error *e, serve_error_id id, const char *param, const char *format, ...)
{
    va_list args;
    if (e->id)
        return 0;
    e->id = id;
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    serve_clean_text(e->message);
    serve_clean_text(e->param);
    return 0;
}

int serve_fail_status(serve_error *e, const clef_error *err, serve_error_id otherwise, const char *param)
{
    serve_error_id id = otherwise;
    if (err->status == CLEF_E_NOMEM || err->status == CLEF_E_IO)
        id = SERVE_E_INTERNAL;
    else if (err->status == CLEF_E_CL || err->status == CLEF_E_DEVICE || err->status == CLEF_E_BUILD)
        id = SERVE_E_UNAVAILABLE;
    else if (err->status == CLEF_E_NOT_FINITE)
        id = SERVE_E_NOT_FINITE;
    else if (err->status == CLEF_E_LIMIT && otherwise == SERVE_E_SCHEMA)
        id = SERVE_E_COMPLEX;
    return serve_fail(e, id, param, "%s", err->text[0] ? err->text : clef_status_text(err->status));
}

char *serve_error_json(const serve_error *e)
{
    const serve_error_kind *k = &serve_error_kinds[e->id];
    json_t *inner = json_pack("{s:s, s:s, s:s*, s:s}", "message", e->message, "type", k->type, "param",
                              e->param[0] ? e->param : NULL, "code", k->code);
    if (inner && !e->param[0])
        json_object_set_new(inner, "param", json_null());
    if (inner && e->id == SERVE_E_CONTEXT) {
        json_object_set_new(inner, "n_prompt_tokens", json_integer(e->n_prompt));
        json_object_set_new(inner, "n_ctx", json_integer(e->n_ctx));
        json_object_set_new(inner, "max_tokens",
                            e->max_tokens >= 0 ? json_integer(e->max_tokens) : json_null());
    }
    json_t *root = json_pack("{s:o}", "error", inner);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}
