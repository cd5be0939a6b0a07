/* The tokenizer's front: which reader a path needs, encoding, decoding, streams. */
#include "model/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "model/file/utf8.h"
#include "model/tokenizer/unicode.h"
#include "runtime/os/os.h"

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

static const struct {
    const char *name;
    clef_status (*read)(clef_tokenizer *tok, const char *path, clef_error *err);
} file_kinds[] = {
    {"tokenizer.json", clef__tokenizer_read_json}, {"tokenizer.model", clef__tokenizer_read_spm},
    {"spiece.model", clef__tokenizer_read_spm},    {"vocab.json", read_pair},
    {"vocab.txt", clef__tokenizer_read_txt},       {"qwen.tiktoken", clef__tokenizer_read_spm},
};

enum { N_FILE_KINDS = sizeof file_kinds / sizeof *file_kinds };

/* The first kind whose file the folder has; N_FILE_KINDS when it has none. */
static clef_status find_file(const char *folder, char *file, size_t capacity, size_t *kind, clef_error *err)
{
    for (*kind = 0; *kind < N_FILE_KINDS; ++*kind) {
        const clef_status st = clef__beside(folder, file_kinds[*kind].name, file, capacity, err);
        if (st || clef__os_is_file(file))
            return st;
    }
    return CLEF_OK;
}

const char *clef__tokenizer_file(const char *folder)
{
    char file[CLEF_TOKENIZER_PATH];
    size_t kind;
    return find_file(folder, file, sizeof file, &kind, NULL) == CLEF_OK && kind < N_FILE_KINDS
               ? file_kinds[kind].name
               : NULL;
}

/* What is wrong inside of a file is said without its name; other messages begin with `path` or a file below
 * it. */
static clef_status name_file(const char *path, const char *file, clef_status status, clef_error *err)
{
    if (!status || !err || strncmp(err->text, path, strlen(path)) == 0)
        return status;
    const clef_error why = *err;
    return clef__fail(err, status, "%s: %.600s", file, why.text);
}

static clef_status read_folder(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char file[CLEF_TOKENIZER_PATH];
    size_t kind;
    const clef_status st = find_file(path, file, sizeof file, &kind, err);
    if (st)
        return st;
    if (kind < N_FILE_KINDS)
        return name_file(path, file, file_kinds[kind].read(tok, file, err), err);
    return clef__fail(
        err, CLEF_E_NOT_FOUND,
        "%s: no tokenizer.json, tokenizer.model, spiece.model, vocab.txt, or vocab.json with merges.txt",
        path);
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
    if (ends_with(path, ".txt"))
        return clef__tokenizer_read_txt(tok, path, err);
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
    if (!st) {
        *out = tok;
        return CLEF_OK;
    }
    clef_tokenizer_close(tok);
    return name_file(path, path, st, err);
}

void clef_tokenizer_close(clef_tokenizer *tok)
{
    if (!tok)
        return;
    for (size_t i = 0; i < tok->n_normalizers; i++)
        clef__regex_destroy(tok->normalizers[i].pattern.regex);
    for (size_t i = 0; i < tok->n_pretokenizers; i++)
        clef__regex_destroy(tok->pretokenizers[i].pattern.regex);
    for (size_t i = 0; i < tok->n_decoders; i++)
        clef__regex_destroy(tok->decoders[i].pattern.regex);
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

int32_t clef_tokenizer_role(const clef_tokenizer *tok, clef_token_role role)
{
    if (!tok || (unsigned)role > CLEF_ROLE_MASK)
        return -1;
    const int32_t ids[] = {tok->bos, tok->eos, tok->unk, tok->sep, tok->pad, tok->cls, tok->mask};
    return ids[role];
}

int32_t clef_tokenizer_find(const clef_tokenizer *tok, const char *text)
{
    return tok && text ? clef__tokens_find(tok, text, strlen(text)) : -1;
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
    free(enc->viterbi);
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

/* One text's ids, without marks. */
static clef_status encode_text(const clef_tokenizer *tok, const char *text, size_t n_bytes, clef_ids *out,
                               clef_error *err)
{
    clef_encoding enc = {.tok = tok, .err = err};
    clef_span in = {text, n_bytes, 1};
    char *repaired = NULL;
    clef_status st = CLEF_OK;
    if (n_bytes > (size_t)INT32_MAX / 4)
        return clef__fail(err, CLEF_E_LIMIT, "tokenizer: a text of %zu bytes, at most %d are taken at once",
                          n_bytes, INT32_MAX / 4);
    if (!clef__utf8_valid(text, n_bytes)) {
        repaired = malloc(3 * n_bytes);
        if (!repaired)
            return clef__fail(err, CLEF_E_NOMEM, "tokenizer: no memory for %zu bytes of text", 3 * n_bytes);
        in.n = clef__utf8_repair(text, n_bytes, repaired, NULL);
        in.text = repaired;
    }
    enc.regex.newer = clef__unicode_has_newer(in.text, in.n);
    st = clef__added_split(&tok->raw, &enc, in, encode_raw);
    if (st == CLEF_OK) {
        *out = enc.ids;
        enc.ids = (clef_ids){0};
    }
    free(repaired);
    clef__encoding_finish(&enc);
    return st;
}

/* What remains of the lengths of two texts when both together may have `most` tokens: the longer loses first,
 * then both are equal. */
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

static clef_status truncate(const clef_template *form, const clef_encode_opts *opts, size_t n[2],
                            clef_error *err)
{
    size_t marks = 0, most = (size_t)(opts->max_tokens > 0 ? opts->max_tokens : INT32_MAX);
    for (int32_t i = 0; opts->special == CLEF_SPECIAL_ADD && i < form->n; i++)
        marks += form->items[i].id >= 0;
    if (marks > most)
        return clef__fail(err, CLEF_E_ARG, "tokenizer: max_tokens is %d, the special tokens alone are %zu",
                          opts->max_tokens, marks);
    most -= marks;
    if (n[0] + n[1] <= most)
        return CLEF_OK;
    if (opts->truncate == CLEF_TRUNCATE_LONGEST) {
        cut_longest(most, &n[0], &n[1]);
        return CLEF_OK;
    }
    const int which = opts->truncate == CLEF_TRUNCATE_SECOND, other = !which;
    if (n[other] > most)
        return clef__fail(err, CLEF_E_LIMIT,
                          "tokenizer: text %d has %zu tokens and is not to be cut, at most %zu fit",
                          other + 1, n[other], most);
    n[which] = most - n[other];
    return CLEF_OK;
}

/* Puts the texts' first n[0] and n[1] ids where the template has them. */
static clef_status assemble(const clef_template *form, clef_special special, const clef_ids text[2],
                            const size_t n[2], clef_encoded *out, clef_error *err)
{
    size_t total = 0;
    for (int32_t i = 0; i < form->n; i++)
        total +=
            form->items[i].id >= 0 ? special == CLEF_SPECIAL_ADD : n[form->items[i].id == CLEF_TEMPLATE_B];
    if (total > (size_t)INT32_MAX)
        return clef__fail(err, CLEF_E_LIMIT, "tokenizer: %zu tokens", total);
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
        return clef__fail(err, CLEF_E_ARG,
                          "tokenizer: encode needs a tokenizer, a text and places for the ids");
    if (!opts)
        opts = &defaults;
    const clef_template *form = b ? &tok->pair : &tok->single;
    clef_ids text[2] = {{0}};
    clef_status st = encode_text(tok, a, n_a, &text[0], err);
    if (st == CLEF_OK && b)
        st = encode_text(tok, b, n_b, &text[1], err);
    size_t n[2] = {text[0].n, text[1].n};
    if (st == CLEF_OK)
        st = truncate(form, opts, n, err);
    if (st == CLEF_OK)
        st = assemble(form, opts->special, text, n, out, err);
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
        return clef__fail(err, CLEF_E_ARG,
                          "tokenizer: encode needs a tokenizer, a text and places for the ids");
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

void clef_tokens_free(int32_t *ids)
{
    free(ids);
}

/* ---- decoding */

/* Copies a piece to `to` less what the text's first token loses; returns its size. */
static size_t put_piece(const clef_tokenizer *tok, clef_stream *stream, const clef_token *token, char *to)
{
    const clef_first_token rule = tok->first_token;
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

/* One token into out, which has CLEF_MAX_PIECE bytes. */
static clef_status push_token(clef_stream *stream, int32_t id, char *out, size_t *n, clef_error *err)
{
    const clef_tokenizer *tok = stream->tok;
    char raw[sizeof stream->pending + 1 + CLEF_MAX_PIECE];
    *n = 0;
    if (id < 0 || id >= tok->n_tokens)
        return clef__fail(err, CLEF_E_ARG, "tokenizer: id %d is outside the vocabulary of %d", id,
                          tok->n_tokens);
    const clef_token *token = &tok->tokens[id];
    if (!(token->flags & CLEF_TOKEN_PRESENT) || (token->flags & CLEF_TOKEN_SPECIAL))
        return CLEF_OK;
    if (tok->joins_repeats && stream->last == id + 1)
        return CLEF_OK;
    stream->last = id + 1;
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
        return clef__fail(err, CLEF_E_ARG,
                          "stream: expected one that was zeroed with .tok set, and places for the text");
    return CLEF_OK;
}

clef_status clef_stream_push(clef_stream *stream, int32_t id, char *out, size_t capacity, size_t *n,
                             clef_error *err)
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
        return clef__fail(err, CLEF_E_LIMIT, "stream: token %d gives %zu bytes, the place has %zu", id, size,
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
    if (stream->n_pending == 0)
        return CLEF_OK;
    if (capacity < 3)
        return clef__fail(err, CLEF_E_LIMIT, "stream: the end gives 3 bytes, the place has %zu", capacity);
    *n = clef__utf8_repair((const char *)stream->pending, (size_t)stream->n_pending, out, NULL);
    stream->n_pending = 0;
    return CLEF_OK;
}

clef_status clef_tokenizer_decode(const clef_tokenizer *tok, const int32_t *ids, int32_t n, char **out,
                                  size_t *n_bytes, clef_error *err)
{
    if (!tok || !out || n < 0 || (!ids && n > 0))
        return clef__fail(err, CLEF_E_ARG,
                          "tokenizer: decode needs a tokenizer, ids and a place for the text");
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
