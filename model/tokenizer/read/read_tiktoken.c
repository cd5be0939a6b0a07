/* tiktoken's vocabularies: a line holds a token's bytes in base64 and its rank, which is its id and its
 * place among the merges. The file lacks regex and special tokens, which are listed here for each known
 * encoding (tiktoken_ext/openai_public.py, Qwen's and Llama 3's own tokenizers). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer/read/formats.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define O200K                                                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" CONTRACTIONS \
    "?|"                                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" CONTRACTIONS \
    "?|"                                                                                                     \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef struct special {
    const char *text; /* with %d: a run of `count`, numbered from `from` */
    int32_t id, count, from;
} special;

typedef struct encoding {
    const char *name, *regex;
    int32_t nfc;
    const char *bos, *eos;
    special specials[9];
} encoding;

static const encoding encodings[] = {
    {.name = "o200k",
     .regex = O200K,
     .eos = "<|endoftext|>",
     .specials = {{"<|endoftext|>", 199999, 1, 0}, {"<|endofprompt|>", 200018, 1, 0}}},
    {.name = "cl100k",
     .regex = CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" REST,
     .eos = "<|endoftext|>",
     .specials = {{"<|endoftext|>", 100257, 1, 0},
                  {"<|fim_prefix|>", 100258, 1, 0},
                  {"<|fim_middle|>", 100259, 1, 0},
                  {"<|fim_suffix|>", 100260, 1, 0},
                  {"<|endofprompt|>", 100276, 1, 0}}},
    {.name = "r50k",
     .regex = clef__gpt2_regex,
     .eos = "<|endoftext|>",
     .specials = {{"<|endoftext|>", 50256, 1, 0}}},
    {.name = "p50k",
     .regex = clef__gpt2_regex,
     .eos = "<|endoftext|>",
     .specials = {{"<|endoftext|>", 50256, 1, 0}}},
    {.name = "gpt2",
     .regex = clef__gpt2_regex,
     .eos = "<|endoftext|>",
     .specials = {{"<|endoftext|>", 50256, 1, 0}}},
    {.name = "qwen",
     .regex = CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" REST,
     .nfc = 1,
     .eos = "<|endoftext|>",
     .specials = {{"<|endoftext|>", 151643, 1, 0},
                  {"<|im_start|>", 151644, 1, 0},
                  {"<|im_end|>", 151645, 1, 0},
                  {"<|extra_%d|>", 151646, 205, 0}}},
    {.name = "llama3",
     .regex = CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" REST,
     .bos = "<|begin_of_text|>",
     .eos = "<|end_of_text|>",
     .specials = {{"<|begin_of_text|>", 128000, 1, 0},
                  {"<|end_of_text|>", 128001, 1, 0},
                  {"<|reserved_special_token_%d|>", 128002, 4, 0},
                  {"<|start_header_id|>", 128006, 1, 0},
                  {"<|end_header_id|>", 128007, 1, 0},
                  {"<|reserved_special_token_%d|>", 128008, 1, 4},
                  {"<|eot_id|>", 128009, 1, 0},
                  {"<|reserved_special_token_%d|>", 128010, 246, 5}}},
};

enum { N_ENCODINGS = sizeof encodings / sizeof *encodings, LLAMA3 = N_ENCODINGS - 1, LLAMA3_TOKENS = 128000 };

/* ---- lines */

typedef struct line {
    const char *text; /* base64 */
    size_t n;
    int64_t rank; /* -1: no such line */
    size_t next;
} line;

static line read_line(const char *text, size_t n, size_t at)
{
    line l = {.text = text + at, .rank = -1};
    const char *end = memchr(text + at, '\n', n - at);
    size_t n_line = (end ? (size_t)(end - text) : n) - at, i = 0;
    l.next = at + n_line + (end != NULL);
    if (n_line > 0 && l.text[n_line - 1] == '\r')
        n_line--;
    while (i < n_line && l.text[i] != ' ')
        i++;
    l.n = i;
    int64_t rank = 0;
    for (i++; i < n_line && l.text[i] >= '0' && l.text[i] <= '9' && rank < INT32_MAX / 2; i++)
        rank = rank * 10 + (l.text[i] - '0');
    if (i == n_line && l.n > 0 && l.text[n_line - 1] != ' ')
        l.rank = rank;
    return l;
}

int clef__is_tiktoken(const char *text, size_t n)
{
    char *bytes = NULL;
    size_t n_bytes;
    const line first = n > 0 ? read_line(text, n < 4096 ? n : 4096, 0) : (line){.rank = -1};
    const int is = first.rank >= 0 && clef__base64(first.text, first.n, &bytes, &n_bytes, NULL) == CLEF_OK;
    free(bytes);
    return is;
}

/* ---- the encoding */

static clef_status find_encoding(const char *path, size_t n_tokens, const encoding **out, clef_error *err)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char known[128] = "";
    for (size_t i = 0; i < N_ENCODINGS; i++) {
        *out = &encodings[i];
        if (strncmp(name, encodings[i].name, strlen(encodings[i].name)) == 0)
            return CLEF_OK;
        strcat(known, i ? ", " : "");
        strcat(known, encodings[i].name);
    }
    *out = &encodings[LLAMA3];
    if (n_tokens == LLAMA3_TOKENS) /* Meta calls the file tokenizer.model */
        return CLEF_OK;
    return clef__fail(err, CLEF_E_UNSUPPORTED,
                      "%s: a tiktoken file of %zu tokens, expected a name that begins with one of %s", path,
                      n_tokens, known);
}

static clef_status add_specials(clef_tokenizer *tok, const encoding *e, clef_error *err)
{
    clef_status st = CLEF_OK;
    for (const special *s = e->specials; s->text && st == CLEF_OK; s++)
        for (int32_t i = 0; i < s->count && st == CLEF_OK; i++) {
            char text[64];
            const char *number = strstr(s->text, "%d");
            const int n = number ? snprintf(text, sizeof text, "%.*s%d%s", (int)(number - s->text), s->text,
                                            (int)(s->from + i), number + 2)
                                 : snprintf(text, sizeof text, "%s", s->text);
            st = clef__vocab_add(&tok->vocab,
                                 &(clef__added_token){.id = s->id + i, .text = text, .n = (size_t)n}, 1, err);
        }
    return st;
}

static clef_status read_tokens(clef_tokenizer *tok, const char *text, size_t n, clef_error *err)
{
    clef_status st = CLEF_OK;
    line l;
    for (size_t at = 0; at < n && st == CLEF_OK; at = l.next) {
        char *bytes = NULL;
        size_t n_bytes = 0;
        l = read_line(text, n, at);
        if (l.n == 0)
            continue;
        st = clef__base64(l.text, l.n, &bytes, &n_bytes, err);
        if (st == CLEF_OK)
            st = clef__vocab_set(&tok->vocab, l.rank, bytes, n_bytes, err);
        if (st == CLEF_OK && n_bytes > 0)
            st = clef__bpe_score(tok->model, (int32_t)l.rank, -(double)l.rank, err);
        free(bytes);
    }
    return st;
}

/* Counts the tokens and finds the greatest id. */
static clef_status measure_lines(const char *text, size_t n, const char *name, size_t *n_tokens,
                                 int64_t *most, clef_error *err)
{
    size_t n_line = 0;
    line l;
    *n_tokens = 0;
    *most = -1;
    for (size_t at = 0; at < n; at = l.next) {
        l = read_line(text, n, at);
        n_line++;
        if (l.n == 0 && l.rank < 0 && l.next - at <= 2)
            continue;
        if (l.rank < 0 || l.rank >= 1 << 24)
            return clef__fail(err, CLEF_E_FORMAT, "%s: line %zu: expected \"base64 rank\"", name, n_line);
        ++*n_tokens;
        *most = l.rank > *most ? l.rank : *most;
    }
    if (*most > 2 * (int64_t)*n_tokens + 65536)
        return clef__fail(err, CLEF_E_FORMAT, "%s: a rank of %lld among %zu tokens", name, (long long)*most,
                          *n_tokens);
    return CLEF_OK;
}

clef_status clef__tokenizer_parse_tiktoken(clef_tokenizer *tok, const char *text, size_t n, const char *name,
                                           clef_error *err)
{
    const encoding *e = NULL;
    size_t n_tokens;
    int64_t most;
    clef_status st = measure_lines(text, n, name, &n_tokens, &most, err);
    if (st == CLEF_OK)
        st = find_encoding(name, n_tokens, &e, err);
    if (st)
        return st;
    for (const special *s = e->specials; s->text; s++)
        most = s->id + s->count - 1 > most ? s->id + s->count - 1 : most;
    st = clef__vocab_reserve(&tok->vocab, most + 1, err);
    if (st == CLEF_OK)
        st = clef__bpe_create_scored(&tok->vocab, &(clef__bpe_opts){.bytes = 1, .unk = -1}, &tok->model, err);
    if (st == CLEF_OK)
        st = read_tokens(tok, text, n, err);
    if (st == CLEF_OK)
        st = add_specials(tok, e, err);
    if (st == CLEF_OK && e->nfc)
        st = clef__normalizer_unicode(&tok->stages, CLEF_FORM_NFC, err);
    if (st == CLEF_OK)
        st = clef__pretokenizer_regex(&tok->stages, e->regex, CLEF_SPLIT_ISOLATED, err);
    if (st == CLEF_OK)
        st = clef__tokenizer_seal(tok, err);
    tok->bos = e->bos ? clef__vocab_find(&tok->vocab, e->bos, strlen(e->bos)) : -1;
    tok->eos = clef__vocab_find(&tok->vocab, e->eos, strlen(e->eos));
    return st || tok->bos < 0 ? st : clef__template_add(tok, CLEF_BEFORE_TEXT, tok->bos, err);
}
