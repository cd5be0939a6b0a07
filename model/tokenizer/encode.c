/* Encoding: the ids of one text, then the template of one or two texts with their special tokens. */
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/unicode.h"

void clef__encoding_finish(clef__encoding *enc)
{
    free(enc->ids.at);
    clef__chars_finish(&enc->normal[0]);
    clef__chars_finish(&enc->normal[1]);
    clef__chars_finish(&enc->first);
    for (size_t i = 0; i < CLEF_MAX_TOKEN_STAGES; i++)
        clef__chars_finish(&enc->pre[i]);
    clef__regex_run_finish(&enc->regex);
    free(enc->symbols);
    free(enc->queue);
    free(enc->viterbi);
}

static clef_status encode_normal(clef__encoding *enc, clef__fragment piece)
{
    return clef__pretokenize(enc, 0, piece);
}

static clef_status encode_raw(clef__encoding *enc, clef__fragment piece)
{
    clef__fragment text;
    enc->is_plain = clef__is_plain(enc, piece.text, piece.n);
    const clef_status st = clef__normalize(enc, piece, &text);
    return st ? st : clef__added_split(&enc->vocab->normal, enc, text, encode_normal);
}

/* Encodes one text, without special tokens around it. */
static clef_status encode_text(const clef_tokenizer *tok, const char *text, size_t n_bytes,
                               const clef_byte_span *plain, size_t n_plain, clef__ids *out, clef_error *err)
{
    clef__encoding enc = {.vocab = &tok->vocab, .stages = &tok->stages, .model = tok->model, .err = err};
    clef__fragment in = {text, n_bytes, 0};
    char *repaired = NULL;
    clef_status st = CLEF_OK;
    if (n_bytes > (size_t)INT32_MAX / 4)
        return clef__fail(err, CLEF_E_LIMIT, "tokenizer: the text has %zu bytes, expected at most %d",
                          n_bytes, INT32_MAX / 4);
    if (!clef__utf8_valid(text, n_bytes)) {
        repaired = malloc(3 * n_bytes);
        if (!repaired)
            return clef__fail(err, CLEF_E_NOMEM, "tokenizer: no memory for %zu bytes of text", 3 * n_bytes);
        in.n = clef__utf8_repair(text, n_bytes, repaired, NULL);
        in.text = repaired;
    }
    in.first = in.n ? clef__utf8_size(in.text[0]) : 0;
    enc.text = in.text;
    enc.plain = plain;
    enc.n_plain = n_plain;
    enc.regex.newer = clef__unicode_has_newer(in.text, in.n);
    st = clef__added_split(&tok->vocab.raw, &enc, in, encode_raw);
    if (st == CLEF_OK) {
        *out = enc.ids;
        enc.ids = (clef__ids){0};
    }
    free(repaired);
    clef__encoding_finish(&enc);
    return st;
}

/* Shortens the lengths of two texts so that both together have at most `most` tokens: first the longer one,
 * then both equally. */
static void cut_longest(size_t most, size_t *a, size_t *b)
{
    size_t least = *a < *b ? *a : *b, other = *a < *b ? *b : *a;
    const int swapped = *a > *b;
    if (*a + *b <= most)
        return;
    if (least > most / 2) {
        least = most / 2;
        other = least + most % 2;
    } else {
        other = most - least;
    }
    *a = swapped ? other : least;
    *b = swapped ? least : other;
}

static clef_status truncate_texts(const clef__template *form, const clef_encode_opts *opts, size_t n[2],
                                  clef_error *err)
{
    size_t n_special = 0, most = (size_t)(opts->max_tokens > 0 ? opts->max_tokens : INT32_MAX);
    for (int32_t i = 0; opts->special == CLEF_SPECIAL_ADD && i < form->n; i++)
        n_special += form->items[i].id >= 0;
    if (n_special > most)
        return clef__fail(err, CLEF_E_ARG,
                          "tokenizer: max_tokens is %d, expected at least the %zu special tokens",
                          opts->max_tokens, n_special);
    most -= n_special;
    if (n[0] + n[1] <= most)
        return CLEF_OK;
    if (opts->truncate == CLEF_TRUNCATE_LONGEST) {
        cut_longest(most, &n[0], &n[1]);
        return CLEF_OK;
    }
    const int which = opts->truncate == CLEF_TRUNCATE_SECOND, other = !which;
    if (n[other] > most)
        return clef__fail(
            err, CLEF_E_LIMIT,
            "tokenizer: text %d has %zu tokens, expected at most %zu because it must not be cut", other + 1,
            n[other], most);
    n[which] = most - n[other];
    return CLEF_OK;
}

/* Fills in the template: its special tokens, and the first n[0] and n[1] ids of the two texts. */
static clef_status fill_template(const clef__template *form, clef_special special, const clef__ids text[2],
                                 const size_t n[2], clef_encoded *out, clef_error *err)
{
    size_t total = 0;
    for (int32_t i = 0; i < form->n; i++)
        total +=
            form->items[i].id >= 0 ? special == CLEF_SPECIAL_ADD : n[form->items[i].id == CLEF_TEMPLATE_B];
    if (total > (size_t)INT32_MAX)
        return clef__fail(err, CLEF_E_LIMIT, "tokenizer: %zu tokens, expected at most %d", total, INT32_MAX);
    if (total == 0)
        return CLEF_OK;
    out->ids = malloc(total * sizeof *out->ids);
    out->types = malloc(total * sizeof *out->types);
    if (!out->ids || !out->types)
        return clef__fail(err, CLEF_E_NOMEM, "tokenizer: no memory for %zu tokens", total);
    for (int32_t i = 0; i < form->n; i++) {
        const int32_t id = form->items[i].id, type = form->items[i].type;
        const int32_t which = id == CLEF_TEMPLATE_B;
        const size_t count = id >= 0 ? special == CLEF_SPECIAL_ADD : n[which];
        for (size_t k = 0; k < count; k++) {
            out->ids[out->n] = id >= 0 ? id : text[which].at[k];
            out->types[out->n++] = type;
        }
    }
    return CLEF_OK;
}

clef_status clef_tokenizer_encode_pair(const clef_tokenizer *tok, const char *a, size_t n_a, const char *b,
                                       size_t n_b, const clef_encode_opts *opts, clef_encoded *out,
                                       clef_error *err)
{
    const clef_encode_opts defaults = {0};
    if (out)
        *out = (clef_encoded){0};
    if (!tok || !out || (!a && n_a > 0) || (!b && n_b > 0))
        return clef__fail(
            err, CLEF_E_ARG,
            "tokenizer: encode got NULL, expected a tokenizer, a text and pointers for the ids");
    if (!opts)
        opts = &defaults;
    const clef__template *form = b ? &tok->pair : &tok->single;
    clef__ids text[2] = {{0}};
    clef_status st = encode_text(tok, a, n_a, NULL, 0, &text[0], err);
    if (st == CLEF_OK && b)
        st = encode_text(tok, b, n_b, NULL, 0, &text[1], err);
    size_t n[2] = {text[0].n, text[1].n};
    if (st == CLEF_OK)
        st = truncate_texts(form, opts, n, err);
    if (st == CLEF_OK)
        st = fill_template(form, opts->special, text, n, out, err);
    out->n_cut = (int32_t)(text[0].n - n[0] + text[1].n - n[1]);
    free(text[0].at);
    free(text[1].at);
    if (st)
        clef_encoded_finish(out);
    return st;
}

void clef_encoded_finish(clef_encoded *enc)
{
    if (!enc)
        return;
    free(enc->ids);
    free(enc->types);
    *enc = (clef_encoded){0};
}

clef_status clef_tokenizer_encode(const clef_tokenizer *tok, const char *text, size_t n_bytes,
                                  clef_special special, int32_t **out, int32_t *n, clef_error *err)
{
    clef_encoded enc;
    if (!tok || !out || !n || (!text && n_bytes > 0))
        return clef__fail(
            err, CLEF_E_ARG,
            "tokenizer: encode got NULL, expected a tokenizer, a text and pointers for the ids");
    *out = NULL;
    *n = 0;
    const clef_status st = clef_tokenizer_encode_pair(tok, text, n_bytes, NULL, 0,
                                                      &(clef_encode_opts){.special = special}, &enc, err);
    if (st)
        return st;
    *out = enc.ids;
    *n = enc.n;
    enc.ids = NULL;
    clef_encoded_finish(&enc);
    return CLEF_OK;
}

clef_status clef_tokenizer_encode_plain(const clef_tokenizer *tok, const char *text, size_t n_bytes,
                                        const clef_byte_span *plain, size_t n_plain, int32_t **out,
                                        int32_t *n, clef_error *err)
{
    clef__ids ids = {0};
    if (!tok || !out || !n || (!text && n_bytes > 0) || (!plain && n_plain > 0))
        return clef__fail(
            err, CLEF_E_ARG,
            "tokenizer: encode got NULL, expected a tokenizer, a text, spans and pointers for the ids");
    *out = NULL;
    *n = 0;
    if (!clef__utf8_valid(text, n_bytes))
        return clef__fail(err, CLEF_E_FORMAT, "tokenizer: the text is not UTF-8");
    for (size_t i = 0; i < n_plain; i++)
        if (plain[i].begin > plain[i].end || plain[i].end > n_bytes ||
            (i && plain[i].begin < plain[i - 1].end))
            return clef__fail(err, CLEF_E_ARG,
                              "tokenizer: span %zu is not in order, or outside the %zu bytes of text", i,
                              n_bytes);
    const clef_status st = encode_text(tok, text, n_bytes, plain, n_plain, &ids, err);
    if (st == CLEF_OK) {
        *out = ids.at;
        *n = (int32_t)ids.n;
    }
    return st;
}

void clef_tokens_free(int32_t *ids)
{
    free(ids);
}
