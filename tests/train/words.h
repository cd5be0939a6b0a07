/* What the tests of datasets share: a tokenizer whose tokens are words w0, w1 .., and corpora in which every
 * word occurs once, so that an id tells its place in the text. */
#ifndef CLEF_TESTS_WORDS_H
#define CLEF_TESTS_WORDS_H

#include "tests/check.h"
#include "tests/files.h"

enum { N_WORDS = 9000, END = N_WORDS, PAD, BEGIN, STOP, HIDDEN, UNKNOWN, N_IDS };

/* Special tokens around each text: "none", or BEGIN before and STOP after it. */
static inline void write_tokenizer(const char *path, int with_template)
{
    static const char *const specials[] = {"<|endoftext|>", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"};
    const size_t room = (size_t)N_WORDS * 20 + 8192;
    char *text = malloc(room);
    assert_non_null(text);
    size_t n = (size_t)sprintf(text, "{\"version\":\"1.0\",\"added_tokens\":[");
    for (int i = 0; i < 6; i++)
        n += (size_t)sprintf(text + n,
                             "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
                             "\"rstrip\":false,\"normalized\":false,\"special\":true}",
                             i ? "," : "", END + i, specials[i]);
    n += (size_t)sprintf(
        text + n,
        "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
        "\"post_processor\":%s,\"decoder\":null,\"model\":{\"type\":\"WordLevel\","
        "\"unk_token\":\"[UNK]\",\"vocab\":{",
        with_template ? "{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",9003],\"cls\":[\"[CLS]\",9002]}"
                      : "null");
    for (int i = 0; i < N_WORDS; i++)
        n += (size_t)sprintf(text + n, "\"w%d\":%d,", i, i);
    for (int i = 0; i < 6; i++)
        n += (size_t)sprintf(text + n, "%s\"%s\":%d", i ? "," : "", specials[i], END + i);
    n += (size_t)sprintf(text + n, "}}}");
    assert_true(n < room);
    write_file(path, text, n);
    free(text);
}

/* Documents of the given lengths: document i has the words from start[i] to start[i + 1] - 1. */
typedef struct corpus {
    int n_documents, n_words;
    int start[700];
} corpus;

/* Lengths that vary from 1 to `most`. */
static inline void make_corpus(corpus *c, int n_documents, int most)
{
    *c = (corpus){.n_documents = n_documents};
    assert_true(n_documents < 700);
    for (int i = 0; i < n_documents; i++) {
        c->start[i] = c->n_words;
        c->n_words += 1 + i * 37 % most;
    }
    c->start[n_documents] = c->n_words;
    assert_true(c->n_words <= N_WORDS);
}

static inline int document_of(const corpus *c, int word)
{
    int d = 0;
    while (c->start[d + 1] <= word)
        d++;
    return d;
}

/* A text file with the separator between documents. */
static inline void write_corpus(const char *path, const corpus *c, const char *separator)
{
    char *text = malloc((size_t)c->n_words * 8 + (size_t)c->n_documents * 32 + 1);
    size_t n = 0;
    assert_non_null(text);
    for (int d = 0; d < c->n_documents; d++) {
        for (int w = c->start[d]; w < c->start[d + 1]; w++)
            n += (size_t)sprintf(text + n, "%sw%d", w > c->start[d] ? " " : "", w);
        n += (size_t)sprintf(text + n, "\n%s", d + 1 < c->n_documents ? separator : "");
    }
    write_file(path, text, n);
    free(text);
}

/* Rows of the largest size that the tests read at once. */
enum { MOST = 1 << 17 };
typedef struct space {
    int32_t input_ids[MOST], attention_mask[MOST], labels[MOST], first[MOST], positions[MOST],
        decoder_input_ids[MOST];
} space;

static inline clef_rows rows_in(space *s)
{
    memset(s, 0x55, sizeof *s);
    return (clef_rows){.input_ids = s->input_ids,
                       .attention_mask = s->attention_mask,
                       .labels = s->labels,
                       .first = s->first,
                       .positions = s->positions,
                       .decoder_input_ids = s->decoder_input_ids};
}

#endif
