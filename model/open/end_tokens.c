/* Tokens that end a text by their own text, as in llama.cpp (src/llama-vocab.cpp): many files name one end
 * token alone, and their models end a turn with another. */
#include "model/open/end_tokens.h"

#include <string.h>

#include "model/tokenizer/read/end_texts.h"

static const char *const end_texts[] = {CLEF_END_TEXTS};
/* GGUF's keys of the tokens between files, and the texts that are looked for without the key. */
static const struct {
    const char *key, *texts[5];
} between_files[] = {
    {"tokenizer.ggml.fim_pad_token_id", {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"tokenizer.ggml.fim_rep_token_id",
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"tokenizer.ggml.fim_sep_token_id", {"<|file_sep|>"}},
};
enum { N_END_TEXTS = sizeof end_texts / sizeof *end_texts };

/* The ids found for each text, -1: none. */
typedef struct found {
    int32_t ids[N_END_TEXTS];
    int32_t plamo;
} found;

static void init_found(found *f)
{
    for (size_t i = 0; i < N_END_TEXTS; i++)
        f->ids[i] = -1;
    f->plamo = -1;
}

static int32_t *id_of(found *f, const char *text)
{
    for (size_t i = 0; i < N_END_TEXTS; i++)
        if (strcmp(end_texts[i], text) == 0)
            return &f->ids[i];
    return NULL;
}

/* Where a text ends one message of several, it does not end all: gpt-oss and Solar have other tokens for
 * that. </s> is ordinary text in the vocabularies of Gemma 4 (known by <|tool_response>) and PLaMo. */
static void drop_exceptions(found *f, const clef_hparams *hp)
{
    int plamo = f->plamo >= 0 && f->plamo == hp->eos;
    for (int32_t i = 0; i < hp->n_eos_more; i++)
        plamo |= f->plamo >= 0 && f->plamo == hp->eos_more[i];
    const int has_call = *id_of(f, "<|call|>") >= 0 || *id_of(f, "<|calls|>") >= 0;
    if (has_call && (*id_of(f, "<|return|>") >= 0 || *id_of(f, "<|flush|>") >= 0))
        *id_of(f, "<|end|>") = -1;
    if (*id_of(f, "<|tool_response>") >= 0 || plamo)
        *id_of(f, "</s>") = -1;
}

int clef__add_end(clef_hparams *hp, int64_t id)
{
    const int32_t most = (int32_t)(sizeof hp->eos_more / sizeof *hp->eos_more);
    int known = id < 0 || id > INT32_MAX || id == hp->eos || hp->n_eos_more == most;
    for (int32_t k = 0; k < hp->n_eos_more; k++)
        known |= id == hp->eos_more[k];
    if (!known)
        hp->eos_more[hp->n_eos_more++] = (int32_t)id;
    return !known;
}

static void add_found(found *f, clef_hparams *hp)
{
    drop_exceptions(f, hp);
    for (size_t i = 0; i < N_END_TEXTS; i++)
        hp->n_eos_by_text += clef__add_end(hp, f->ids[i]);
}

void clef__end_tokens_of_gguf(const clef_gguf *gguf, clef_hparams *hp)
{
    const clef_gguf_entry *tokens = clef__gguf_find(gguf, "tokenizer.ggml.tokens");
    found f;
    init_found(&f);
    if (!tokens || !tokens->is_array || tokens->type != CLEF_GGUF_STRING || tokens->n > INT32_MAX)
        return;
    for (uint64_t id = 0; id < tokens->n; id++) {
        const clef_gguf_string text = tokens->strings[id];
        if (text.n_bytes < 4 || !strchr("<[_", text.text[0]))
            continue;
        for (size_t i = 0; i < N_END_TEXTS; i++)
            if (text.n_bytes == strlen(end_texts[i]) && memcmp(text.text, end_texts[i], text.n_bytes) == 0)
                f.ids[i] = (int32_t)id;
        if (text.n_bytes == 13 && memcmp(text.text, "<|plamo:eos|>", 13) == 0)
            f.plamo = (int32_t)id;
    }
    for (size_t i = 0; i < sizeof between_files / sizeof *between_files; i++) {
        const int64_t id = clef__gguf_int(gguf, between_files[i].key, -1);
        hp->n_eos_by_text += clef__add_end(hp, id < (int64_t)tokens->n ? id : -1);
        for (size_t k = 0; k < 5 && between_files[i].texts[k] && id >= 0; k++)
            *id_of(&f, between_files[i].texts[k]) = -1;
    }
    add_found(&f, hp);
}

void clef__end_tokens_of_tokenizer(const clef_tokenizer *tok, clef_hparams *hp)
{
    found f;
    init_found(&f);
    for (size_t i = 0; i < N_END_TEXTS; i++) {
        const int32_t id = clef_tokenizer_find(tok, end_texts[i]);
        f.ids[i] = id >= 0 && clef_tokenizer_is_special(tok, id) ? id : -1;
    }
    f.plamo = clef_tokenizer_find(tok, "<|plamo:eos|>");
    add_found(&f, hp);
}
