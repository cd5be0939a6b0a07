/* Decoding: a stream of tokens, and many ids at once. */
#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/tokenizer.h"

/* Copies a token's bytes to `to`, after a separator if one is due. Drops the spaces that a text's first token
 * loses. Returns the number of bytes written. */
static size_t put_piece(const clef_tokenizer *tok, clef_stream *stream, const clef__token *token, char *to)
{
    const clef__first_token rule = tok->stages.first_token;
    const int first = !stream->started && token->first;
    const char *piece = first ? token->first : token->piece;
    size_t n = first ? token->n_first : token->n_piece, written = 0;
    if (stream->held || (stream->started && rule == CLEF_FIRST_NO_SEPARATOR))
        to[written++] = ' ';
    stream->held = (token->flags & CLEF_TOKEN_ENDS_WORD) && n > 0 && piece[n - 1] == ' ';
    n -= stream->held ? 1 : 0;
    if (!stream->started && (rule == CLEF_FIRST_DROPS_SPACE || rule == CLEF_FIRST_DROPS_SPACES)) {
        stream->started = n > 0;
        while (n > 0 && *piece == ' ') {
            piece++;
            n--;
            if (rule == CLEF_FIRST_DROPS_SPACE)
                break;
            stream->started = n > 0;
        }
    } else {
        stream->started = 1;
    }
    memcpy(to + written, piece, n);
    return written + n;
}

/* Copies a special token's own text, cut to a piece's size. */
static size_t put_special(clef_stream *stream, const clef__token *token, char *to)
{
    const size_t most = CLEF_MAX_PIECE - 1 - CLEF_CLEAN_HELD, n = token->n_text < most ? token->n_text : most;
    stream->started = 1;
    stream->held = 0;
    memcpy(to, token->text, n);
    return n;
}

/* Decodes one token into out, which has CLEF_MAX_PIECE bytes. */
static clef_status push_token(clef_stream *stream, int32_t id, char *out, size_t *n, clef_error *err)
{
    const clef_tokenizer *tok = stream->tok;
    char raw[sizeof stream->pending + 1 + CLEF_MAX_PIECE + CLEF_CLEAN_HELD];
    *n = 0;
    if (id < 0 || id >= tok->vocab.n_tokens)
        return clef__fail(err, CLEF_E_ARG, "tokenizer: id %d is outside the vocabulary of %d", id,
                          tok->vocab.n_tokens);
    const clef__token *token = &tok->vocab.tokens[id];
    const int is_special = (token->flags & (CLEF_TOKEN_SPECIAL | CLEF_TOKEN_SHOWN)) == CLEF_TOKEN_SPECIAL;
    if (!(token->flags & CLEF_TOKEN_PRESENT) || (is_special && !stream->with_special))
        return CLEF_OK;
    if (tok->stages.joins_repeats && stream->last == id + 1)
        return CLEF_OK;
    stream->last = id + 1;
    size_t n_raw = (size_t)stream->n_pending, n_left;
    memcpy(raw, stream->pending, n_raw);
    if (is_special)
        n_raw += put_special(stream, token, raw + n_raw);
    else
        n_raw += put_piece(tok, stream, token, raw + n_raw);
    *n = clef__utf8_repair(raw, n_raw, out, &n_left);
    stream->n_pending = (int32_t)n_left;
    memcpy(stream->pending, raw + n_raw - n_left, n_left);
    if (tok->cleans_spaces)
        *n = clef__clean_spaces(&stream->cleaning, out, *n, raw);
    return CLEF_OK;
}

static clef_status check_stream(const clef_stream *stream, const char *out, const size_t *n, clef_error *err)
{
    if (!stream || !stream->tok || !out || !n || stream->n_pending < 0 || stream->n_pending > 3)
        return clef__fail(err, CLEF_E_ARG,
                          "stream: expected a zeroed stream with .tok set, and pointers for the text");
    return CLEF_OK;
}

clef_status clef_stream_push(clef_stream *stream, int32_t id, char *out, size_t capacity, size_t *n,
                             clef_error *err)
{
    char text[CLEF_MAX_PIECE];
    size_t size;
    clef_status st = check_stream(stream, out, n, err);
    if (!st)
        *n = 0;
    if (st || id >= stream->tok->vocab.n_tokens) /* a row of the model beyond its tokens */
        return st;
    clef_stream after = *stream;
    st = push_token(&after, id, text, &size, err);
    if (st)
        return st;
    if (size > capacity)
        return clef__fail(err, CLEF_E_LIMIT,
                          "stream: token %d has %zu bytes, expected at most the buffer's %zu", id, size,
                          capacity);
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
    char text[3 + 2 * CLEF_CLEAN_HELD], work[sizeof text];
    clef_stream after = *stream;
    size_t size = clef__utf8_repair((const char *)after.pending, (size_t)after.n_pending, text, NULL);
    after.n_pending = 0;
    if (stream->tok->cleans_spaces)
        size = clef__clean_finish(&after.cleaning, text, size, work);
    if (size > capacity)
        return clef__fail(err, CLEF_E_LIMIT,
                          "stream: the end has %zu bytes, expected at most the buffer's %zu", size, capacity);
    memcpy(out, text, size);
    *n = size;
    *stream = after;
    return CLEF_OK;
}

clef_status clef_tokenizer_decode(const clef_tokenizer *tok, const int32_t *ids, int32_t n, char **out,
                                  size_t *n_bytes, clef_error *err)
{
    if (!tok || !out || n < 0 || (!ids && n > 0))
        return clef__fail(err, CLEF_E_ARG,
                          "tokenizer: decode got NULL, expected a tokenizer, ids and a pointer for the text");
    *out = NULL;
    if (n_bytes)
        *n_bytes = 0;
    clef_stream stream = {.tok = tok};
    clef__chars text = {0};
    clef_status st = CLEF_OK;
    size_t size = 0;
    for (int32_t i = 0; i < n && st == CLEF_OK; i++) {
        st = clef__chars_reserve(&text, CLEF_MAX_PIECE, err);
        if (st == CLEF_OK)
            st = push_token(&stream, ids[i], text.at + text.n, &size, err);
        text.n += st ? 0 : size;
    }
    if (st == CLEF_OK)
        st = clef__chars_reserve(&text, 4 + CLEF_CLEAN_HELD, err);
    if (st == CLEF_OK)
        st = clef_stream_finish(&stream, text.at + text.n, 3 + CLEF_CLEAN_HELD, &size, err);
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
