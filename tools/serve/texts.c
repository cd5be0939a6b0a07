/* Prompts of /v1/completions, and texts as tokens and back. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/serve/lane.h"
#include "tools/serve/task.h"

/* The last two: what a token of a reply takes, counted as the values of a body are. */
enum { MOST_PROMPTS = 64, ID_BYTES = 48, PIECE_BYTES = 688 };

static int bad(serve_request *r, const char *path, const json_t *value, const char *wanted)
{
    return serve_fail(&r->error, SERVE_E_INVALID_VALUE, path, "%s: expected %s, got %s", path, wanted,
                      serve_kind_of(value));
}

static int no_memory(serve_request *r)
{
    return serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}

/* ---- ids ------------------------------------------------------------------------------------- */

int serve_read_id(serve_request *r, const json_t *value, const char *path, int32_t *out)
{
    const int32_t n_vocab = r->m->hparams->n_vocab;
    int64_t id;
    if (!serve_integer(value, &id))
        return bad(r, path, value, "a token id");
    if (id < 0 || id >= n_vocab)
        return serve_fail(&r->error, SERVE_E_INVALID_VALUE, path, "%s: expected an id from 0 to %d, got %lld",
                          path, (int)n_vocab - 1, (long long)id);
    *out = (int32_t)id;
    return 1;
}

/* A list of ids; 0 and an error that names the path of the first that is none. The caller frees *out. */
static int read_ids(serve_request *r, const json_t *list, const char *path, int32_t **out, int32_t *n)
{
    const size_t size = json_array_size(list);
    json_t *one;
    size_t i;
    *n = 0;
    *out = malloc((size + 1) * sizeof **out);
    if (!*out)
        return no_memory(r);
    json_array_foreach(list, i, one) {
        char at[128];
        if (!serve_read_id(r, one, serve_path(at, "%s[%zu]", path, i), &(*out)[(*n)++]))
            return 0;
    }
    return 1;
}

/* An empty prompt stands for BOS. */
static int add_bos(serve_request *r, serve_prompt *to, const char *path)
{
    const serve_model *m = r->m;
    const int32_t of_tokenizer = clef_tokenizer_bos(m->tok),
                  bos = of_tokenizer >= 0 ? of_tokenizer : m->hparams->bos;
    if (bos < 0 || bos >= m->hparams->n_vocab)
        return serve_fail(&r->error, SERVE_E_INVALID_VALUE, path,
                          "%s: it is empty, and the model has no BOS token", path);
    to->ids = malloc(sizeof *to->ids);
    if (!to->ids)
        return no_memory(r);
    to->own = 1;
    to->ids[0] = bos;
    to->n = 1;
    return 1;
}

static int prompt_of_text(serve_request *r, const json_t *text, const char *path, serve_prompt *to)
{
    clef_error err = {0};
    const char *p = json_string_value(text);
    const size_t n = json_string_length(text);
    if (!serve_buffer_add(&to->text, p, n))
        return no_memory(r);
    if (clef_tokenizer_encode(r->m->tok, p, n, CLEF_SPECIAL_ADD, &to->ids, &to->n, &err) != CLEF_OK)
        return serve_fail_status(&r->error, &err, SERVE_E_INVALID_VALUE, path);
    return to->n ? 1 : add_bos(r, to, path);
}

/* Adds the ids of an item of a list: an id, or a text, with BOS where it is the first. */
static int add_item(serve_request *r, const json_t *item, const char *path, serve_prompt *to)
{
    clef_error err = {0};
    int32_t *ids = NULL, n = 1, id = 0;
    if (json_is_string(item) &&
        clef_tokenizer_encode(r->m->tok, json_string_value(item), json_string_length(item),
                              to->n ? CLEF_SPECIAL_NONE : CLEF_SPECIAL_ADD, &ids, &n, &err) != CLEF_OK)
        return serve_fail_status(&r->error, &err, SERVE_E_INVALID_VALUE, path);
    if (!json_is_string(item) && !serve_read_id(r, item, path, &id))
        return 0;
    int32_t *all = realloc(to->ids, ((size_t)to->n + (size_t)n + 1) * sizeof *all);
    if (all) {
        memcpy(all + to->n, ids ? ids : &id, (size_t)n * sizeof *all);
        to->ids = all;
        to->n += n;
    }
    clef_tokens_free(ids);
    return all ? 1 : no_memory(r);
}

int serve_read_mixed(serve_request *r, const json_t *list, const char *path, serve_prompt *to)
{
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) {
        char at[128];
        if (!add_item(r, item, serve_path(at, "%s[%zu]", path, i), to))
            return 0;
    }
    return 1;
}

static int has_text(const json_t *list)
{
    size_t i = 0;
    while (i < json_array_size(list) && !json_is_string(json_array_get(list, i)))
        i++;
    return i < json_array_size(list);
}

static int prompt_of_ids(serve_request *r, const json_t *list, const char *path, serve_prompt *to)
{
    char *text = NULL;
    size_t n = 0;
    to->own = 1;
    if (has_text(list) ? !serve_read_mixed(r, list, path, to) : !read_ids(r, list, path, &to->ids, &to->n))
        return 0;
    if (to->n == 0)
        return serve_fail(&r->error, SERVE_E_INVALID_VALUE, path, "%s: it is empty", path);
    if (clef_tokenizer_decode(r->m->tok, to->ids, to->n, &text, &n, NULL) != CLEF_OK)
        return no_memory(r);
    const int ok = serve_buffer_add(&to->text, text, n);
    clef_text_free(text);
    return ok || no_memory(r);
}

int serve_is_one_prompt(const json_t *value)
{
    size_t i = 0;
    while (i < json_array_size(value) && !json_is_number(json_array_get(value, i)))
        i++;
    return json_is_string(value) || json_is_object(value) || i < json_array_size(value);
}

int serve_has_media(const json_t *object)
{
    const json_t *data = json_object_get(object, "multimodal_data");
    return data && !json_is_null(data) && (!json_is_array(data) || json_array_size(data));
}

/* {"prompt_string": TEXT}, where llama-server has pictures beside it. */
static int prompt_of_object(serve_request *r, const json_t *object, const char *path, serve_prompt *to)
{
    const json_t *text = json_object_get(object, "prompt_string");
    if (serve_has_media(object))
        return serve_fail(&r->error, SERVE_E_UNSUPPORTED, path,
                          "%s.multimodal_data: not supported: pictures are parts of messages", path);
    return json_is_string(text) ? prompt_of_text(r, text, path, to)
                                : bad(r, path, object, "a string, ids, or {\"prompt_string\"}");
}

static int read_prompt(serve_request *r, const json_t *one, const char *path, serve_prompt *to)
{
    return json_is_string(one)   ? prompt_of_text(r, one, path, to)
           : json_is_array(one)  ? prompt_of_ids(r, one, path, to)
           : json_is_object(one) ? prompt_of_object(r, one, path, to)
                                 : bad(r, path, one, "a string or ids");
}

int serve_task_prompt_texts(serve_task *t)
{
    serve_request *r = t->r;
    json_t *prompt = t->p.prompt;
    const int is_one = serve_is_one_prompt(prompt);
    const size_t n = is_one ? 1 : json_array_size(prompt);
    if (!is_one && !json_is_array(prompt))
        return bad(r, "prompt", prompt, "a string, ids, or a list of either");
    if (n < 1 || n > MOST_PROMPTS)
        return serve_fail(&r->error, SERVE_E_INVALID_VALUE, "prompt",
                          "prompt: expected 1 to %d prompts, got %zu", MOST_PROMPTS, n);
    t->prompts = calloc(n, sizeof *t->prompts);
    if (!t->prompts)
        return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        char path[128] = "prompt";
        const json_t *one = is_one ? prompt : json_array_get(prompt, i);
        if (!is_one)
            serve_path(path, "prompt[%zu]", i);
        t->n_prompts++;
        if (!read_prompt(r, one, path, &t->prompts[i]))
            return 0;
    }
    return 1;
}

/* ---- /tokenize ------------------------------------------------------------------------------- */

static int is_utf8(const char *bytes, size_t n)
{
    char own[CLEF_MAX_PIECE + 8];
    if (n >= sizeof own)
        return 0;
    memcpy(own, bytes, n);
    own[n] = '\0';
    for (size_t i = 0; i < n;) {
        const int length = cli_utf8_length(own + i);
        if (!length)
            return 0;
        i += (size_t)length;
    }
    return 1;
}

static json_t *piece_of(const serve_model *m, int32_t id)
{
    size_t n = 0;
    const char *bytes = clef_tokenizer_bytes(m->tok, id, &n);
    if (!bytes || is_utf8(bytes, n))
        return json_stringn(bytes ? bytes : "", n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    return list;
}

static int tokenize(serve_request *r, const serve_params *p)
{
    const serve_model *m = r->m;
    clef_error err = {0};
    int32_t *ids = NULL, n = 0;
    if (!json_is_string(p->content))
        return bad(r, "content", p->content, "a string");
    const char *text = json_string_value(p->content);
    const size_t n_text = json_string_length(p->content);
    const clef_byte_span all = {0, n_text};
    const clef_status s =
        p->parse_special
            ? clef_tokenizer_encode(m->tok, text, n_text,
                                    p->add_special ? CLEF_SPECIAL_ADD : CLEF_SPECIAL_NONE, &ids, &n, &err)
            : clef_tokenizer_encode_plain(m->tok, text, n_text, &all, 1, &ids, &n, &err);
    if (s)
        return serve_fail_status(&r->error, &err, SERVE_E_INVALID_VALUE, "content");
    const int fits = serve_hold(r, (size_t)n * (p->with_pieces ? PIECE_BYTES : ID_BYTES));
    json_t *tokens = fits ? json_array() : NULL;
    for (int32_t i = 0; tokens && i < n; i++)
        json_array_append_new(
            tokens, p->with_pieces ? json_pack("{s:i, s:o}", "id", (int)ids[i], "piece", piece_of(m, ids[i]))
                                   : json_integer(ids[i]));
    clef_tokens_free(ids);
    if (fits)
        serve_reply_json(r, json_pack("{s:o}", "tokens", tokens));
    return fits;
}

static void read_and_tokenize(void *user)
{
    serve_request *r = user;
    serve_params p;
    if (serve_params_read(r, SERVE_FORM_TOKENS, &p))
        tokenize(r, &p);
    serve_params_finish(&p);
}

void serve_answer_tokenize(serve_request *r)
{
    serve_prepare(r, read_and_tokenize, r);
}

/* ---- /detokenize ----------------------------------------------------------------------------- */

static int detokenize(serve_request *r, const serve_params *p)
{
    clef_error err = {0};
    int32_t *ids = NULL, n = 0;
    char *text = NULL;
    size_t n_text = 0;
    int ok = json_is_array(p->tokens) ? read_ids(r, p->tokens, "tokens", &ids, &n)
                                      : bad(r, "tokens", p->tokens, "a list of ids");
    if (ok && clef_tokenizer_decode(r->m->tok, ids, n, &text, &n_text, &err) != CLEF_OK)
        ok = serve_fail_status(&r->error, &err, SERVE_E_INVALID_VALUE, "tokens");
    if (ok)
        serve_reply_json(r, json_pack("{s:o}", "content", json_stringn(text ? text : "", n_text)));
    clef_text_free(text);
    free(ids);
    return ok;
}

static void read_and_detokenize(void *user)
{
    serve_request *r = user;
    serve_params p;
    if (serve_params_read(r, SERVE_FORM_BACK, &p))
        detokenize(r, &p);
    serve_params_finish(&p);
}

void serve_answer_detokenize(serve_request *r)
{
    serve_prepare(r, read_and_detokenize, r);
}
