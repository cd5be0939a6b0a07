/* GPT-2's two files: vocab.json (token to id, bytes written as characters) and merges.txt (a merge a line,
 * best first). */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/foreign.h"
#include "model/tokenizer/read/json_parts.h"
#include "runtime/os/os.h"

/* Neither file says which tokens are special, so the texts of GPT-2 and RoBERTa are looked up. */
static clef_status add_specials(clef_tokenizer *tok, clef_error *err)
{
    static const char *const names[] = {"<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"};
    const int32_t start = clef__vocab_find(&tok->vocab, "<s>", 3),
                  end = clef__vocab_find(&tok->vocab, "</s>", 4);
    const int is_roberta =
        start >= 0 && end >= 0; /* where <|endoftext|>, if it exists, is an ordinary token */
    clef_status st = CLEF_OK;
    for (size_t i = (size_t)is_roberta; i < sizeof names / sizeof *names && st == CLEF_OK; i++) {
        const size_t n = strlen(names[i]);
        const clef__added_token added = {
            .id = clef__vocab_find(&tok->vocab, names[i], n), .text = names[i], .n = n, .lstrip = i == 5};
        if (added.id >= 0)
            st = clef__vocab_add(&tok->vocab, &added, 1, err);
    }
    if (st == CLEF_OK && is_roberta) {
        tok->bos = start;
        tok->eos = end;
        return clef__template_roberta(tok, start, end, err);
    }
    tok->bos = tok->eos = clef__vocab_find(&tok->vocab, "<|endoftext|>", 13);
    return st;
}

static clef_status read_merges(clef__token_model *model, const char *text, size_t n, clef_error *err)
{
    clef_status st = CLEF_OK;
    for (size_t at = 0; at < n && st == CLEF_OK;) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t next = end ? (size_t)(end - text) + 1 : n;
        size_t n_line = (end ? next - 1 : n) - at;
        if (n_line > 0 && text[at + n_line - 1] == '\r')
            n_line--;
        if (n_line > 0 && !(n_line >= 8 && memcmp(text + at, "#version", 8) == 0))
            st = clef__bpe_merge_line(model, text + at, n_line, err);
        at = next;
    }
    return st;
}

static size_t count_lines(const char *text, size_t n)
{
    size_t n_lines = 1;
    for (size_t i = 0; i < n; i++)
        n_lines += text[i] == '\n';
    return n_lines;
}

clef_status clef__tokenizer_read_vocab(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char vocab_path[CLEF_TOKENIZER_PATH], merges_path[CLEF_TOKENIZER_PATH];
    json_t *vocab = NULL;
    char *merges = NULL;
    size_t n_merges = 0;
    clef__token_config config;
    clef_status st = clef__beside(path, "vocab.json", vocab_path, sizeof vocab_path, err);
    if (st == CLEF_OK)
        st = clef__beside(path, "merges.txt", merges_path, sizeof merges_path, err);
    if (st == CLEF_OK)
        st = clef__json_load(vocab_path, CLEF_TOKENIZER_FILE_BYTES, &vocab, err);
    if (st == CLEF_OK)
        st = clef__os_read(merges_path, CLEF_TOKENIZER_FILE_BYTES, &merges, &n_merges, err);
    if (st == CLEF_OK)
        st = clef__foreign_text(merges, n_merges, merges_path, "merges", err);
    if (st == CLEF_OK)
        st = clef__json_vocab(tok, vocab, NULL, vocab_path, err);
    const clef__bpe_opts opts = {.byte_level = 1, .unk = -1};
    if (st == CLEF_OK)
        st = clef__bpe_create(&tok->vocab, &opts, count_lines(merges, n_merges), &tok->model, err);
    if (st == CLEF_OK)
        st = read_merges(tok->model, merges, n_merges, err);
    if (st == CLEF_OK)
        st = add_specials(tok, err);
    if (st == CLEF_OK)
        st = clef__pretokenizer_regex(&tok->stages, clef__gpt2_regex, CLEF_SPLIT_ISOLATED, err);
    if (st == CLEF_OK)
        st = clef__decoder_byte_level(&tok->stages, err);
    if (st == CLEF_OK)
        st = clef__tokenizer_seal(tok, err);
    if (st == CLEF_OK)
        st = clef__tokenizer_read_config(tok, vocab_path, &config, err);
    json_decref(vocab);
    free(merges);
    return st;
}
