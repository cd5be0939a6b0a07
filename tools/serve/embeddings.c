/* /v1/embeddings. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/serve/lane.h"
#include "tools/serve/rows.h"
#include "tools/serve/task.h"

/* The last two: what a number and a weight of a reply take, counted as the values of a body are. */
enum { MOST_INPUTS = 2048, MOST_NUMBERS = 1 << 22, NUMBER_BYTES = 48, WEIGHT_BYTES = 160 };

/* Ollama's /api/embed. */
static int is_ollama(const serve_rows *w)
{
    return (w->r->endpoint->flags & SERVE_OLLAMA) != 0;
}

/* Its older form: one vector, as the model gives it. */
static int is_old_ollama(const serve_rows *w)
{
    return !strcmp(w->r->endpoint->path, "/api/embeddings");
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static int read_text(serve_rows *w, int32_t i, const json_t *text, const char *path)
{
    clef_error err = {0};
    int32_t *ids = NULL, n = 0;
    const size_t n_text = json_string_length(text), n_prompt = w->prompt ? strlen(w->prompt) : 0;
    char *whole = malloc(n_prompt + n_text + 1);
    if (!whole)
        return serve_rows_no_memory(w->r);
    if (n_prompt)
        memcpy(whole, w->prompt, n_prompt);
    memcpy(whole + n_prompt, json_string_value(text), n_text);
    const clef_status status =
        clef_tokenizer_encode(w->r->m->tok, whole, n_prompt + n_text, CLEF_SPECIAL_ADD, &ids, &n, &err);
    free(whole);
    if (status != CLEF_OK)
        return serve_fail_status(&w->r->error, &err, SERVE_E_INVALID_VALUE, path);
    if (is_ollama(w) && w->p.truncate && n > w->max_tokens) {
        if (clef_tokenizer_is_special(w->r->m->tok, ids[n - 1])) /* a text that is cut ends as others do */
            ids[w->max_tokens - 1] = ids[n - 1];
        n = w->max_tokens;
    }
    w->ids[i] = malloc(((size_t)n + 1) * sizeof *ids);
    if (w->ids[i] && n)
        memcpy(w->ids[i], ids, (size_t)n * sizeof *ids);
    w->n_ids[i] = n;
    clef_tokens_free(ids);
    return w->ids[i] ? 1 : serve_rows_no_memory(w->r);
}

static int read_ids(serve_rows *w, int32_t i, const json_t *list, const char *path)
{
    serve_prompt ids = {.n = 0};
    const int ok = serve_read_mixed(w->r, list, path, &ids);
    w->ids[i] = ids.ids;
    w->n_ids[i] = ids.n;
    return ok && (ids.n || serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, path, "%s: it is empty", path));
}

/* {"prompt_string": TEXT}, or {"content": [{"type": "text", "text": TEXT}, ..]}, as llama-server has them. */
static int read_object(serve_rows *w, int32_t i, const json_t *object, const char *path)
{
    const json_t *whole = json_object_get(object, "prompt_string"),
                 *parts = json_object_get(object, "content"), *part;
    serve_buffer all = {0};
    size_t k;
    if (json_is_string(whole) && !serve_has_media(object))
        return read_text(w, i, whole, path);
    if (whole || !json_array_size(parts))
        return serve_rows_bad(w->r, path, object,
                              "a string, ids, {\"prompt_string\"} or {\"content\": [..]}");
    json_array_foreach(parts, k, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(text)) {
            serve_buffer_free(&all);
            return serve_rows_bad(w->r, path, part, "parts of type text: this model reads nothing else");
        }
        serve_buffer_add(&all, json_string_value(text), json_string_length(text));
    }
    json_t *joined = json_stringn(all.p ? all.p : "", all.n);
    const int ok = all.failed || !joined ? serve_rows_no_memory(w->r) : read_text(w, i, joined, path);
    json_decref(joined);
    serve_buffer_free(&all);
    return ok;
}

static int read_one(serve_rows *w, int32_t i, const json_t *one, const char *path)
{
    return json_is_string(one)   ? read_text(w, i, one, path)
           : json_is_array(one)  ? read_ids(w, i, one, path)
           : json_is_object(one) ? read_object(w, i, one, path)
                                 : serve_rows_bad(w->r, path, one, "a string or ids");
}

static int read_input(serve_rows *w)
{
    json_t *input = w->p.input ? w->p.input : w->p.content;
    const int is_one = serve_is_one_prompt(input);
    const size_t n = is_one ? 1 : json_array_size(input);
    if (!is_one && !json_is_array(input))
        return serve_rows_bad(w->r, "input", input, "a string, ids, or a list of either");
    if (n < 1 || n > MOST_INPUTS)
        return serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, "input", "input: expected 1 to %d, got %zu",
                          MOST_INPUTS, n);
    if (!serve_rows_room(w, n))
        return 0;
    for (int32_t i = 0; i < w->n; i++) {
        char path[128] = "input";
        const json_t *one = is_one ? input : json_array_get(input, (size_t)i);
        if (!is_one)
            serve_path(path, "input[%d]", (int)i);
        if (!read_one(w, i, one, path) || !serve_rows_check(w, i, path))
            return 0;
    }
    if (w->kind == SERVE_MULTI && w->n_tokens * w->n_dims > MOST_NUMBERS)
        return serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, "input",
                          "input: expected at most %d tokens in all, got %d", MOST_NUMBERS / w->n_dims,
                          (int)w->n_tokens);
    return 1;
}

static int check_one(serve_rows *w)
{
    return !is_old_ollama(w) || w->n == 1 || serve_rows_bad(w->r, "prompt", w->p.input, "one text");
}

static int check_form(serve_rows *w)
{
    const char *form = w->p.encoding_format;
    const serve_model *m = w->r->m;
    if (form && strcmp(form, "float") != 0 && strcmp(form, "base64") != 0)
        return serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, "encoding_format",
                          "encoding_format: expected float or base64, got '%.20s'", form);
    const char *kind = w->p.kind ? w->p.kind : "dense";
    w->kind = !strcmp(kind, "sparse") ? SERVE_SPARSE : !strcmp(kind, "multi") ? SERVE_MULTI : SERVE_DENSE;
    if (!w->kind && strcmp(kind, "dense") != 0)
        return serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, "kind",
                          "kind: expected dense, sparse or multi, got '%.20s'", kind);
    if (w->kind && w->p.dimensions >= 0)
        return serve_fail(&w->r->error, SERVE_E_UNSUPPORTED, "dimensions",
                          "dimensions: expected none beside the kind %s", kind);
    if (w->p.model && serve_model_find(m, &w->r->s->o, w->p.model) < 0)
        return serve_fail(&w->r->error, SERVE_E_MODEL, "model",
                          "model: '%.100s' is not here; this server has '%s'", w->p.model, m->id);
    if (w->p.dimensions >= 0 && w->p.dimensions != w->n_dims && !m->can_cut)
        return serve_fail(&w->r->error, SERVE_E_UNSUPPORTED, "dimensions",
                          "dimensions: this model was not trained for fewer than its %d dimensions",
                          (int)w->n_dims);
    if (w->p.dimensions > w->n_dims)
        return serve_fail(&w->r->error, SERVE_E_INVALID_VALUE, "dimensions",
                          "dimensions: expected 1 to %d, got %d", (int)w->n_dims, (int)w->p.dimensions);
    return 1;
}

/* ---- the reply ------------------------------------------------------------------------------- */

static json_t *base64(const float *x, int32_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t n_bytes = 4 * (size_t)n;
    unsigned char *bytes = malloc(n_bytes + 3);
    char *out = malloc(4 * (n_bytes / 3 + 1) + 1);
    size_t size = 0;
    for (int32_t i = 0; bytes && i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], 4);
        for (int k = 0; k < 4; k++)
            bytes[4 * i + k] = (unsigned char)(u >> 8 * k);
    }
    for (size_t i = 0; bytes && out && i < n_bytes; i += 3) {
        const size_t left = n_bytes - i;
        const uint32_t v = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                           (left > 2 ? bytes[i + 2] : 0);
        out[size++] = letters[v >> 18];
        out[size++] = letters[v >> 12 & 63];
        out[size++] = left > 1 ? letters[v >> 6 & 63] : '=';
        out[size++] = left > 2 ? letters[v & 63] : '=';
    }
    json_t *text = bytes && out ? json_stringn(out, size) : NULL;
    free(bytes);
    free(out);
    return text;
}

static json_t *numbers(const serve_rows *w, const float *x, int32_t n)
{
    if (w->p.encoding_format && !strcmp(w->p.encoding_format, "base64"))
        return base64(x, n);
    json_t *list = serve_hold(w->r, (size_t)n * NUMBER_BYTES) ? json_array() : NULL;
    for (int32_t i = 0; list && i < n; i++)
        json_array_append_new(list, json_real((double)x[i]));
    return list;
}

/* {"ID": WEIGHT, ..}, or a list of vectors. */
static json_t *of_tokens(const serve_rows *w, const serve_token_rows *rows)
{
    const size_t n_weights = rows->vectors ? 0 : (size_t)rows->n;
    json_t *all = !serve_hold(w->r, n_weights * WEIGHT_BYTES) ? NULL
                  : rows->vectors                             ? json_array()
                                                              : json_object();
    for (int32_t i = 0; all && i < rows->n; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", rows->weights ? (int)rows->weights[i].id : 0);
        if (rows->vectors)
            json_array_append_new(all,
                                  numbers(w, rows->vectors + (size_t)i * (size_t)rows->n_dims, rows->n_dims));
        else
            json_object_set_new(all, id, json_real((double)rows->weights[i].weight));
    }
    return all;
}

/* Fewer dimensions: the first ones, brought to length 1 again. */
static json_t *vector(const serve_rows *w, float *x)
{
    const int32_t n = w->p.dimensions > 0 ? w->p.dimensions : w->n_dims;
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (int32_t i = 0; i < n && (n < w->n_dims || (is_ollama(w) && !is_old_ollama(w))) && sum > 0; i++)
        x[i] = (float)((double)x[i] / sqrt(sum));
    return numbers(w, x, n);
}

static void reply(serve_rows *w)
{
    const serve_model *m = w->r->m;
    json_t *data = json_array(), **rows = calloc((size_t)w->n, sizeof *rows);
    for (int32_t k = 0; rows && k < w->n; k++)
        rows[w->order[k]] =
            w->kind ? of_tokens(w, &w->run.tokens[k]) : vector(w, w->run.out + (size_t)k * (size_t)w->n_dims);
    for (int32_t i = 0; rows && i < w->n; i++)
        json_array_append_new(data, is_ollama(w) ? rows[i]
                                    : w->is_native
                                        ? json_pack("{s:i, s:[o]}", "index", (int)i, "embedding", rows[i])
                                        : json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)i,
                                                    "embedding", rows[i]));
    free(rows);
    if (w->r->error.id) {
        json_decref(data);
        return;
    }
    if (is_old_ollama(w)) {
        serve_rows_reply(w, json_pack("{s:O}", "embedding", json_array_get(data, 0)));
        json_decref(data);
        return;
    }
    if (w->is_native || is_ollama(w)) {
        const double ns = (cli_terminal_seconds() - w->r->began) * 1e9;
        serve_rows_reply(w, w->is_native
                                ? data
                                : json_pack("{s:s, s:o, s:I, s:I, s:I}", "model", m->id, "embeddings", data,
                                            "total_duration", (json_int_t)ns, "load_duration", (json_int_t)0,
                                            "prompt_eval_count", (json_int_t)w->n_tokens));
        return;
    }
    serve_rows_reply(w, json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list", "data", data, "model",
                                  m->id, "usage", "prompt_tokens", (json_int_t)w->n_tokens, "total_tokens",
                                  (json_int_t)w->n_tokens));
}

/* From the body to the ids. */
static void prepare(void *user)
{
    serve_rows *w = user;
    serve_request *r = w->r;
    w->is_ready =
        serve_params_read(r, is_ollama(w) ? SERVE_FORM_EMBED | SERVE_FORM_OLLAMA_EMBED : SERVE_FORM_EMBED,
                          &w->p) &&
        (w->n_dims ||
         serve_fail(&r->error, SERVE_E_UNSUPPORTED, "model", "this model gives no embeddings; %s",
                    r->m->is_ranker ? "it is for /v1/rerank" : "it generates text")) &&
        check_form(w) && read_input(w) && check_one(w);
    if (w->is_ready) {
        w->is_native = w->p.content || !strcmp(r->endpoint->path, "/embedding");
        json_object_del(w->p.root, "input");
        json_object_del(w->p.root, "content");
        json_object_del(w->p.root, "prompt");
        w->p.input = w->p.content = NULL;
        serve_let_all_but(r, 0);
        w->is_ready = serve_hold(r, (size_t)w->n_tokens * sizeof(int32_t));
    }
}

void serve_answer_embeddings(serve_request *r)
{
    const serve_engine_stats s = serve_engine_describe(r->engine);
    serve_rows *w = serve_rows_new(r);
    if (!w)
        return;
    w->n_dims = s.n_dims;
    w->prompt = s.prompt;
    w->max_tokens = s.max_tokens < r->m->hparams->n_context || r->m->hparams->n_context <= 0
                        ? s.max_tokens
                        : r->m->hparams->n_context;
    if (serve_prepare(r, prepare, w) && w->is_ready && serve_rows_compute(w, w->n_dims))
        reply(w);
    serve_rows_free(w);
}
