/* The tokenizer's front: which reader a path needs, encoding, decoding, streams. */
#include "model/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "model/utf8.h"
#include "runtime/os.h"

/* ---- opening */

clef_status clef__beside(const char *path, const char *name, char *out, size_t capacity, clef_error *err)
{
    const char *end = path + strlen(path);
    if (!clef__os_is_dir(path)) {
        while (end > path && end[-1] != '/' && end[-1] != '\\')
            end--;
    }
    const size_t n = (size_t)(end - path), n_name = strlen(name);
    const int slash = n > 0 && end[-1] != '/' && end[-1] != '\\';
    if (n >= capacity || n_name + 2 > capacity - n)
        return clef__fail(err, CLEF_E_LIMIT, "%s: a path of more than %zu bytes", path, capacity);
    memcpy(out, path, n);
    if (slash)
        out[n] = '/';
    memcpy(out + n + (size_t)slash, name, n_name + 1);
    return CLEF_OK;
}

static clef_status read_pair(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char vocab[CLEF_TOKENIZER_PATH], merges[CLEF_TOKENIZER_PATH];
    clef_status st = clef__beside(path, "vocab.json", vocab, sizeof vocab, err);
    if (st == CLEF_OK)
        st = clef__beside(path, "merges.txt", merges, sizeof merges, err);
    return st ? st : clef__tokenizer_read_vocab(tok, vocab, merges, err);
}

static clef_status read_folder(clef_tokenizer *tok, const char *path, clef_error *err)
{
    static const struct {
        const char *name;
        clef_status (*read)(clef_tokenizer *tok, const char *path, clef_error *err);
    } kinds[] = {
        {"tokenizer.json", clef__tokenizer_read_json},
        {"tokenizer.model", clef__tokenizer_read_spm},
        {"vocab.json", read_pair},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char file[CLEF_TOKENIZER_PATH];
        const clef_status st = clef__beside(path, kinds[i].name, file, sizeof file, err);
        if (st)
            return st;
        if (clef__os_is_file(file))
            return kinds[i].read(tok, file, err);
    }
    return clef__fail(err, CLEF_E_NOT_FOUND, "%s: no tokenizer.json, tokenizer.model, or vocab.json with merges.txt", path);
}

static int ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), n_end = strlen(end);
    return n >= n_end && strcmp(path + n - n_end, end) == 0;
}

static clef_status read_file(clef_tokenizer *tok, const char *path, clef_error *err)
{
    if (ends_with(path, "vocab.json") || ends_with(path, "merges.txt"))
        return read_pair(tok, path, err);
    clef_mapping file;
    const clef_status st = clef__os_map(path, &file, err);
    if (st)
        return st;
    const char *text = file.data;
    const int is_gguf = file.n_bytes >= 4 && memcmp(text, "GGUF", 4) == 0;
    const int is_json = ends_with(path, ".json") || (file.n_bytes > 0 && text[0] == '{');
    clef__os_unmap(&file);
    if (is_gguf)
        return clef__tokenizer_read_gguf(tok, path, err);
    return is_json ? clef__tokenizer_read_json(tok, path, err) : clef__tokenizer_read_spm(tok, path, err);
}

clef_status clef_tokenizer_open(const char *path, clef_tokenizer **out, clef_error *err)
{
    if (!out)
        return clef__fail(err, CLEF_E_ARG, "tokenizer: out is NULL");
    *out = NULL;
    if (!path)
        return clef__fail(err, CLEF_E_ARG, "tokenizer: path is NULL");
    clef_tokenizer *tok = clef__tokenizer_new();
    if (!tok)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a tokenizer", path);
    const clef_status st = clef__os_is_dir(path) ? read_folder(tok, path, err) : read_file(tok, path, err);
    if (st)
        clef_tokenizer_close(tok);
    else
        *out = tok;
    return st;
}

void clef_tokenizer_close(clef_tokenizer *tok)
{
    if (!tok)
        return;
    for (size_t i = 0; i < tok->n_normalizers; i++)
        clef__regex_destroy(tok->normalizers[i].pattern.regex);
    for (size_t i = 0; i < tok->n_pretokenizers; i++)
        clef__regex_destroy(tok->pretokenizers[i].pattern.regex);
    if (tok->model)
        tok->model->destroy(tok->model);
    clef__added_finish(&tok->raw);
    clef__added_finish(&tok->normal);
    clef__vocab_map_finish(&tok->by_text);
    clef__token_arena_finish(&tok->arena);
    free(tok->added);
    free(tok->tokens);
    free(tok);
}

int32_t clef_tokenizer_n_tokens(const clef_tokenizer *tok)
{
    return tok ? tok->n_tokens : 0;
}

int32_t clef_tokenizer_bos(const clef_tokenizer *tok)
{
    return tok ? tok->bos : -1;
}

int32_t clef_tokenizer_eos(const clef_tokenizer *tok)
{
    return tok ? tok->eos : -1;
}

/* ---- encoding */

void clef__encoding_finish(clef_encoding *enc)
{
    free(enc->ids.at);
    clef__chars_finish(&enc->normal[0]);
    clef__chars_finish(&enc->normal[1]);
    for (size_t i = 0; i < CLEF_MAX_TOKEN_STAGES; i++)
        clef__chars_finish(&enc->pre[i]);
    clef__regex_run_finish(&enc->regex);
    free(enc->symbols);
    free(enc->queue);
}

static clef_status encode_normal(clef_encoding *enc, clef_span piece)
{
    return clef__pretokenize(enc, 0, piece);
}

static clef_status encode_raw(clef_encoding *enc, clef_span piece)
{
    clef_span text;
    const clef_status st = clef__normalize(enc, piece, &text);
    return st ? st : clef__added_split(&enc->tok->normal, enc, text, encode_normal);
}

static clef_status push_marks(clef_encoding *enc, const int32_t *marks, int32_t n, clef_special special)
{
    clef_status st = CLEF_OK;
    for (int32_t i = 0; special == CLEF_SPECIAL_ADD && i < n && st == CLEF_OK; i++)
        st = clef__ids_push(&enc->ids, marks[i], enc->err);
    return st;
}

clef_status clef_tokenizer_encode(const clef_tokenizer *tok, const char *text, size_t n_bytes, clef_special special, int32_t **out,
                                  int32_t *n, clef_error *err)
{
    if (!tok || !out || !n || (!text && n_bytes > 0))
        return clef__fail(err, CLEF_E_ARG, "tokenizer: encode needs a tokenizer, a text and places for the ids");
    *out = NULL;
    *n = 0;
    if (n_bytes > (size_t)INT32_MAX / 4)
        return clef__fail(err, CLEF_E_LIMIT, "tokenizer: a text of %zu bytes, at most %d are taken at once", n_bytes, INT32_MAX / 4);
    clef_encoding enc = {.tok = tok, .err = err};
    clef_span in = {text, n_bytes, 1};
    char *repaired = NULL;
    clef_status st = CLEF_OK;
    if (!clef__utf8_valid(text, n_bytes)) {
        repaired = malloc(3 * n_bytes);
        if (!repaired) {
            st = clef__fail(err, CLEF_E_NOMEM, "tokenizer: no memory for %zu bytes of text", 3 * n_bytes);
            goto out;
        }
        in.n = clef__utf8_repair(text, n_bytes, repaired, NULL);
        in.text = repaired;
    }
    st = push_marks(&enc, tok->before, tok->n_before, special);
    if (st == CLEF_OK)
        st = clef__added_split(&tok->raw, &enc, in, encode_raw);
    if (st == CLEF_OK)
        st = push_marks(&enc, tok->after, tok->n_after, special);
    if (st == CLEF_OK && enc.ids.n > 0) {
        *n = (int32_t)enc.ids.n;
        *out = enc.ids.at;
        enc.ids.at = NULL;
    }
out:
    free(repaired);
    clef__encoding_finish(&enc);
    return st;
}

void clef_tokens_free(int32_t *ids)
{
    free(ids);
}

/* ---- decoding */

/* Copies a piece to `to` less what the text's first token loses; returns its size. */
static size_t put_piece(const clef_tokenizer *tok, clef_stream *stream, const clef_token *token, char *to)
{
    const clef_first_token rule = tok->first_token;
    const char *piece = token->piece;
    size_t n = token->n_piece, written = 0;
    if (stream->started && rule == CLEF_FIRST_NO_SEPARATOR)
        to[written++] = ' ';
    if (stream->started || rule == CLEF_FIRST_AS_IS || rule == CLEF_FIRST_NO_SEPARATOR || rule == CLEF_FIRST_DROPS_ALL_SPACE) {
        for (size_t i = 0; i < n; i++)
            if (stream->started || rule != CLEF_FIRST_DROPS_ALL_SPACE || piece[i] != ' ')
                to[written++] = piece[i];
        stream->started = 1;
        return written;
    }
    stream->started = n > 0;
    while (n > 0 && *piece == ' ') {
        piece++;
        n--;
        if (rule == CLEF_FIRST_DROPS_SPACE)
            break;
        stream->started = n > 0;
    }
    memcpy(to, piece, n);
    return n;
}

/* One token into out, which has CLEF_MAX_PIECE bytes. */
static clef_status push_token(clef_stream *stream, int32_t id, char *out, size_t *n, clef_error *err)
{
    const clef_tokenizer *tok = stream->tok;
    char raw[sizeof stream->pending + 1 + CLEF_MAX_PIECE];
    *n = 0;
    if (id < 0 || id >= tok->n_tokens)
        return clef__fail(err, CLEF_E_ARG, "tokenizer: id %d is outside the vocabulary of %d", id, tok->n_tokens);
    const clef_token *token = &tok->tokens[id];
    if (!(token->flags & CLEF_TOKEN_PRESENT) || (token->flags & CLEF_TOKEN_SPECIAL))
        return CLEF_OK;
    size_t n_raw = (size_t)stream->n_pending, n_left;
    memcpy(raw, stream->pending, n_raw);
    n_raw += put_piece(tok, stream, token, raw + n_raw);
    *n = clef__utf8_repair(raw, n_raw, out, &n_left);
    stream->n_pending = (int32_t)n_left;
    memcpy(stream->pending, raw + n_raw - n_left, n_left);
    return CLEF_OK;
}

static clef_status check_stream(const clef_stream *stream, const char *out, const size_t *n, clef_error *err)
{
    if (!stream || !stream->tok || !out || !n || stream->n_pending < 0 || stream->n_pending > 3)
        return clef__fail(err, CLEF_E_ARG, "stream: wanted one that was zeroed with .tok set, and places for the text");
    return CLEF_OK;
}

clef_status clef_stream_push(clef_stream *stream, int32_t id, char *out, size_t capacity, size_t *n, clef_error *err)
{
    char text[CLEF_MAX_PIECE];
    size_t size;
    clef_status st = check_stream(stream, out, n, err);
    if (st)
        return st;
    *n = 0;
    clef_stream after = *stream;
    st = push_token(&after, id, text, &size, err);
    if (st)
        return st;
    if (size > capacity)
        return clef__fail(err, CLEF_E_LIMIT, "stream: token %d gives %zu bytes, the place has %zu", id, size, capacity);
    memcpy(out, text, size);
    *n = size;
    *stream = after;
    return CLEF_OK;
}

clef_status clef_stream_finish(clef_stream *stream, char *out, size_t capacity, size_t *n, clef_error *err)
{
    const clef_status st = check_stream(stream, out, n, err);
    if (st)
        return st;
    *n = 0;
    if (stream->n_pending == 0)
        return CLEF_OK;
    if (capacity < 3)
        return clef__fail(err, CLEF_E_LIMIT, "stream: the end gives 3 bytes, the place has %zu", capacity);
    *n = clef__utf8_repair((const char *)stream->pending, (size_t)stream->n_pending, out, NULL);
    stream->n_pending = 0;
    return CLEF_OK;
}

clef_status clef_tokenizer_decode(const clef_tokenizer *tok, const int32_t *ids, int32_t n, char **out, size_t *n_bytes, clef_error *err)
{
    if (!tok || !out || n < 0 || (!ids && n > 0))
        return clef__fail(err, CLEF_E_ARG, "tokenizer: decode needs a tokenizer, ids and a place for the text");
    *out = NULL;
    if (n_bytes)
        *n_bytes = 0;
    clef_stream stream = {.tok = tok};
    clef_chars text = {0};
    clef_status st = CLEF_OK;
    size_t size = 0;
    for (int32_t i = 0; i < n && st == CLEF_OK; i++) {
        st = clef__chars_reserve(&text, CLEF_MAX_PIECE, err);
        if (st == CLEF_OK)
            st = push_token(&stream, ids[i], text.at + text.n, &size, err);
        text.n += st ? 0 : size;
    }
    if (st == CLEF_OK)
        st = clef__chars_reserve(&text, 4, err);
    if (st == CLEF_OK)
        st = clef_stream_finish(&stream, text.at + text.n, 3, &size, err);
    if (st) {
        clef__chars_finish(&text);
        return st;
    }
    text.n += size;
    text.at[text.n] = 0;
    *out = text.at;
    if (n_bytes)
        *n_bytes = text.n;
    return CLEF_OK;
}

void clef_text_free(char *text)
{
    free(text);
}
