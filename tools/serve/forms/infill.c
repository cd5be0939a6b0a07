/* Text between a prefix and a suffix, by the tokens that code models have for it: `suffix` of
 * /v1/completions, and /infill. A GGUF file may name them; else they are known by their texts. The order and
 * the texts are those of llama.cpp (src/llama-vocab.cpp). */
#include <stdlib.h>
#include <string.h>

#include "tools/serve/forms/form.h"

enum {
    PREFIX,
    SUFFIX,
    MIDDLE,
    REPOSITORY,
    FILE_NAME,
    N_MARKS,
    MOST_NAMES = 7,
    MOST_EXTRA = 64,
    MOST_NAME = 128
};

static const char *const mark_names[N_MARKS][MOST_NAMES] = {
    [PREFIX] = {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<PRE>", "<|code_prefix|>",
                "<\xEF\xBD\x9C"
                "fim\xE2\x96\x81"
                "begin\xEF\xBD\x9C>",
                "\xE2\x96\x81<PRE>"},
    [SUFFIX] = {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<SUF>", "<|code_suffix|>",
                "<\xEF\xBD\x9C"
                "fim\xE2\x96\x81"
                "hole\xEF\xBD\x9C>",
                "\xE2\x96\x81<SUF>"},
    [MIDDLE] = {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<MID>", "<|code_middle|>",
                "<\xEF\xBD\x9C"
                "fim\xE2\x96\x81"
                "end\xEF\xBD\x9C>",
                "\xE2\x96\x81<MID>"},
    [REPOSITORY] = {"<|repo_name|>", "<|fim_repo|>", "<reponame>", "<REPO>"},
    [FILE_NAME] = {"<|file_sep|>"}};

/* The text of a prompt, of which the client wrote the spans. */
typedef struct infill {
    serve_task *t;
    const char *marks[N_MARKS]; /* NULL: the model has none */
    char named[MIDDLE + 1][MOST_NAME];
    serve_buffer text;
    clef_byte_span spans[2 * MOST_EXTRA + 4];
    size_t n_spans;
} infill;

static int add_mark(infill *w, int mark)
{
    return !w->marks[mark] || serve_buffer_add(&w->text, w->marks[mark], strlen(w->marks[mark]));
}

/* Text that makes no special token. */
static int add_text(infill *w, const char *text, size_t n)
{
    if (n)
        w->spans[w->n_spans++] = (clef_byte_span){w->text.n, w->text.n + n};
    return !n || serve_buffer_add(&w->text, text, n);
}

static int add_json(infill *w, const json_t *text)
{
    return add_text(w, text ? json_string_value(text) : "", text ? json_string_length(text) : 0);
}

static int check_text(infill *w, const json_t *text, const char *path)
{
    return !text || json_is_string(text) || serve_wrong(w->t->r, path, text, "a string");
}

/* Files beside this one: {"filename", "text"}. */
static int add_extra(infill *w)
{
    const json_t *one, *extra = w->t->p.extra;
    const int names_files = w->marks[FILE_NAME] != NULL;
    char path[128];
    size_t i;
    if (extra && !json_is_array(extra))
        return serve_wrong(w->t->r, "input_extra", extra, "a list");
    if (json_array_size(extra) > MOST_EXTRA)
        return serve_fail(&w->t->r->error, SERVE_E_INVALID_VALUE, "input_extra",
                          "input_extra: expected at most %d, got %zu", MOST_EXTRA, json_array_size(extra));
    if (json_array_size(extra) && w->marks[REPOSITORY] && names_files &&
        !(add_mark(w, REPOSITORY) && serve_buffer_add(&w->text, "repository\n", 11)))
        return 0;
    json_array_foreach(extra, i, one) {
        const json_t *text = json_object_get(one, "text"), *name = json_object_get(one, "filename");
        serve_path(path, "input_extra[%zu]", i);
        if (!json_is_string(text) || !check_text(w, name, path))
            return serve_wrong(w->t->r, path, one, "{\"filename\", \"text\"}");
        const int ok =
            names_files ? add_mark(w, FILE_NAME) && add_json(w, name) && serve_buffer_add(&w->text, "\n", 1)
                        : serve_buffer_add(&w->text, "\n\n", 2);
        if (!ok || !add_json(w, text))
            return 0;
    }
    return !json_array_size(extra) || !names_files ||
           (add_mark(w, FILE_NAME) && serve_buffer_add(&w->text, "\n", 1));
}

/* The text of a special token that the model's file names; NULL: it names none, or one that cannot be
 * written as text. */
static const char *name_by_role(const clef_tokenizer *tok, clef_token_role role, char out[MOST_NAME])
{
    size_t n = 0;
    const int32_t id = clef_tokenizer_role(tok, role);
    const char *name = clef_tokenizer_bytes(tok, id, &n);
    if (!clef_tokenizer_is_special(tok, id) || n >= MOST_NAME)
        return NULL;
    memcpy(out, name, n);
    out[n] = '\0';
    return clef_tokenizer_find(tok, out) == id ? out : NULL;
}

static int find_marks(infill *w)
{
    const clef_tokenizer *tok = w->t->r->m->tok;
    for (int m = PREFIX; m <= MIDDLE; m++)
        w->marks[m] = name_by_role(tok, (clef_token_role)(CLEF_ROLE_FIM_PREFIX + m), w->named[m]);
    for (int m = 0; m < N_MARKS; m++)
        for (int i = 0; i < MOST_NAMES && mark_names[m][i] && !w->marks[m]; i++)
            if (clef_tokenizer_find(tok, mark_names[m][i]) >= 0)
                w->marks[m] = mark_names[m][i];
    if (w->marks[PREFIX] && w->marks[SUFFIX] && w->marks[MIDDLE])
        return 1;
    const int is_infill = ((int)w->t->p.form & SERVE_FORM_INFILL) != 0;
    return serve_fail(
        &w->t->r->error, is_infill ? SERVE_E_NOT_HERE : SERVE_E_UNSUPPORTED, "suffix",
        "%s not supported by this model: its vocabulary has no tokens for a prefix, a suffix and "
        "what is between them",
        is_infill ? "Infill is" : "suffix:");
}

/* The ids, after BOS where the model's texts begin with it. */
static int encode(infill *w)
{
    serve_prompt *to = &w->t->prompts[0];
    const clef_tokenizer *tok = w->t->r->m->tok;
    const int32_t bos = clef_tokenizer_leading_bos(tok);
    clef_error err = {0};
    if (clef_tokenizer_encode_plain(tok, w->text.p, w->text.n, w->spans, w->n_spans, &to->ids, &to->n,
                                    &err) ||
        (bos >= 0 && clef_tokens_begin_with(bos, &to->ids, &to->n, &err)))
        return serve_fail_status(&w->t->r->error, &err, SERVE_E_INVALID_VALUE, "prompt");
    return 1;
}

int serve_task_prompt_infill(serve_task *t)
{
    infill w = {.t = t};
    const serve_params *p = &t->p;
    const json_t *before = p->input_prefix ? p->input_prefix : p->prompt,
                 *after = p->input_prefix ? p->prompt : NULL;
    t->prompts = calloc(1, sizeof *t->prompts);
    t->n_prompts = t->prompts != NULL;
    int ok = t->prompts && find_marks(&w) && check_text(&w, before, "prompt") &&
             check_text(&w, after, "prompt") && check_text(&w, p->suffix, "suffix") && add_extra(&w) &&
             add_mark(&w, PREFIX) && add_json(&w, before) && add_mark(&w, SUFFIX) &&
             add_json(&w, p->suffix) && add_mark(&w, MIDDLE) && add_json(&w, after) && encode(&w);
    if (ok)
        t->prompts[0].text = w.text; /* for the log */
    else
        serve_buffer_free(&w.text);
    return ok || serve_fail(&t->r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
}
