/* The stages of a tokenizer around its model: normalizers, pre-tokenizers and decoders.
 *
 * A stage knows its own settings and the scratch memory of one encoding, but not the tokenizer. To add one,
 * write a function, its builder below, and one line in a reader's table of names. */
#ifndef CLEF_MODEL_TOKENIZER_STAGES_H
#define CLEF_MODEL_TOKENIZER_STAGES_H

#include "clef/tokenizer.h"
#include "model/tokenizer/regex.h"
#include "model/tokenizer/vocab.h"

enum { CLEF_MAX_TOKEN_STAGES = 32 };

typedef struct clef__stages clef__stages;
typedef struct clef__token_model clef__token_model;
typedef struct clef__bpe_symbol clef__bpe_symbol;
typedef struct clef__bpe_candidate clef__bpe_candidate;
typedef struct clef__viterbi clef__viterbi;

/** One encoding: the parts of the tokenizer that it uses, its ids so far, and scratch memory. */
typedef struct clef__encoding {
    const clef__vocab       *vocab;
    const clef__stages      *stages;
    const clef__token_model *model;
    clef__ids            ids;
    clef__chars          normal[2];                  /* written by the normalizers, alternately */
    clef__chars          first;                      /* what a normalizer makes of the first character */
    clef__chars          pre[CLEF_MAX_TOKEN_STAGES]; /* text that pre-tokenizer i changed */
    clef__regex_run      regex;
    clef__bpe_symbol    *symbols; /* of the BPE model, with their capacity */
    clef__bpe_candidate *queue;
    size_t               n_symbols, n_queue;
    clef__viterbi       *viterbi; /* of the Unigram model */
    size_t               n_viterbi;
    /* Where no special token is recognised: spans of the text that begins at `text`, in order. */
    const char          *text;
    const clef_byte_span     *plain;
    size_t               n_plain;
    int                  is_plain; /* 1: the part that is normalised has bytes of such a span */
    clef_error          *err;
} clef__encoding;

/** A part of the text on its way to the model. */
typedef struct clef__fragment {
    const char *text;
    size_t      n;
    size_t      first; /* its leading bytes that come from the first character of the whole text */
} clef__fragment;

/** The part of a fragment from byte `from` to byte `to`. */
static inline clef__fragment clef__fragment_part(clef__fragment in, size_t from, size_t to)
{
    const size_t end = in.first < to ? in.first : to;
    return (clef__fragment){in.text + from, to - from, end > from ? end - from : 0};
}

/** 1 when a part of enc->text has bytes of a span in enc->plain (added.c). */
int clef__is_plain(const clef__encoding *enc, const char *from, size_t n);
/** Pushes the ids of the added tokens in a fragment; each part between them goes to `rest` (added.c). */
clef_status clef__added_split(const clef__added_trie *trie, clef__encoding *enc, clef__fragment in,
                              clef_status (*rest)(clef__encoding *enc, clef__fragment part));

/* ---- the three kinds of stages */

/** SentencePiece's precompiled map of strings to strings (normalize_charsmap.c). */
typedef struct clef__charsmap {
    const char *units; /* 4 bytes each */
    size_t      n_units;
    const char *texts; /* ends with a NUL */
    size_t      n_texts;
} clef__charsmap;

typedef struct clef__normalizer clef__normalizer;
struct clef__normalizer {
    /** Appends the changed text to `out`, which is empty before. */
    clef_status (*run)(const clef__normalizer *self, clef__encoding *enc, clef__fragment in,
                       clef__chars *out);
    clef__pattern  pattern;
    const char    *text; /* replacement or prefix */
    size_t         n_text;
    uint32_t       flags;
    clef__charsmap map;
};

typedef struct clef__pretokenizer clef__pretokenizer;
struct clef__pretokenizer {
    /** Passes each piece to clef__pretokenize(enc, index + 1, piece). */
    clef_status (*run)(const clef__pretokenizer *self, clef__encoding *enc, size_t index, clef__fragment in);
    clef__pattern pattern;
    uint32_t      behavior; /* clef__split_behavior, or clef__prepend_scheme */
    uint32_t      flags;
    const char   *text;
    size_t        n_text;
};

/** Turns a token's text into the bytes it stands for. */
typedef struct clef__token_decoder clef__token_decoder;
struct clef__token_decoder {
    /** first: the token begins the text. */
    clef_status (*run)(const clef__token_decoder *self, int first, const char *text, size_t n,
                       clef__chars *out, clef_error *err);
    clef__pattern pattern; /* what is replaced, or a prefix, suffix, delimiter */
    const char   *to;
    size_t        n_to;
    int32_t       start, stop; /* how often at each end; `start` is a flag too */
};

/** What the text's first token loses, and the separator of tokens, after the decoders changed each token. */
typedef enum clef__first_token {
    CLEF_FIRST_AS_IS,
    CLEF_FIRST_DROPS_SPACE,  /* one leading space of the whole text */
    CLEF_FIRST_DROPS_SPACES, /* every leading space of the whole text */
    CLEF_FIRST_NO_SEPARATOR  /* no decoder: tokens are joined by spaces */
} clef__first_token;

/** The parts of BertNormalizer that a file asks for, in this order. */
typedef struct clef__bert_opts {
    int32_t clean, space_cjk, strip_accents, lowercase;
} clef__bert_opts;

struct clef__stages {
    clef__text_arena   texts;
    clef__normalizer   normalizers[CLEF_MAX_TOKEN_STAGES];
    clef__pretokenizer pretokenizers[CLEF_MAX_TOKEN_STAGES];
    clef__token_decoder decoders[CLEF_MAX_TOKEN_STAGES];
    size_t             n_normalizers, n_pretokenizers, n_decoders;
    clef__first_token  first_token;
    int32_t            uses_first;    /* a pre-tokenizer asks whether a piece begins the text */
    int32_t            joins_repeats; /* equal tokens in a row are written once (CTC) */
    clef__bert_opts    bert;          /* of clef__normalizer_bert(), as recorded in a GGUF file */
};

void clef__stages_finish(clef__stages *stages);

/* ---- running them (stages.c) */

/** Runs all normalizers; *out is borrowed from `enc` or is the input itself. */
clef_status clef__normalize(clef__encoding *enc, clef__fragment in, clef__fragment *out);
/** Sends a piece through pre-tokenizers `index` and later, then to the model. */
clef_status clef__pretokenize(clef__encoding *enc, size_t index, clef__fragment in);
/** Runs all decoders over one token's text; the result is in work[0]. */
clef_status clef__decode_token(const clef__stages *stages, int first, const char *text, size_t n,
                               clef__chars work[2], clef_error *err);

/** Adds a stage like `like`, whose strings are copied. Ownership of like->pattern.regex moves to the stage,
 *  also on failure. */
clef_status clef__normalizer_append(clef__stages *stages, const clef__normalizer *like, clef_error *err);
clef_status clef__pretokenizer_append(clef__stages *stages, const clef__pretokenizer *like, clef_error *err);
clef_status clef__decoder_append(clef__stages *stages, const clef__token_decoder *like, clef_error *err);

/* ---- normalizers (normalize.c, normalize_chars.c, normalize_charsmap.c) */

typedef enum clef__unicode_form {
    CLEF_FORM_NFC, CLEF_FORM_NFD, CLEF_FORM_NFKC, CLEF_FORM_NFKD
} clef__unicode_form;
enum { CLEF_STRIP_LEFT = 1, CLEF_STRIP_RIGHT = 2 };

clef_status clef__normalizer_prepend(clef__stages *stages, const char *text, size_t n, clef_error *err);
/** Ownership of pattern->regex moves here, also on failure; pattern->text is copied. */
clef_status clef__normalizer_replace(clef__stages *stages, const clef__pattern *pattern, const char *text,
                                     size_t n, clef_error *err);
clef_status clef__normalizer_unicode(clef__stages *stages, clef__unicode_form form, clef_error *err);
clef_status clef__normalizer_lowercase(clef__stages *stages, clef_error *err);
clef_status clef__normalizer_strip(clef__stages *stages, uint32_t sides, clef_error *err);
clef_status clef__normalizer_bert(clef__stages *stages, const clef__bert_opts *opts, clef_error *err);
clef_status clef__normalizer_strip_accents(clef__stages *stages, clef_error *err);
clef_status clef__normalizer_nmt(clef__stages *stages, clef_error *err);
clef_status clef__normalizer_byte_level(clef__stages *stages, clef_error *err);
/** Drops spaces at both ends and replaces a run of spaces by one. escape: 1: U+2581 at the end counts as a
 *  space. */
clef_status clef__normalizer_squeeze(clef__stages *stages, int32_t escape, clef_error *err);
/** How a charsmap is applied: to the longest key at each place (SentencePiece), or to each grapheme (Hugging
 *  Face). */
typedef enum clef__charsmap_use { CLEF_CHARSMAP_LONGEST, CLEF_CHARSMAP_GRAPHEMES } clef__charsmap_use;
/** The data is copied; 0 bytes add no stage. CLEF_E_FORMAT: the layout is wrong. */
clef_status clef__normalizer_charsmap(clef__stages *stages, const char *data, size_t n,
                                      clef__charsmap_use use, clef_error *err);

/* ---- pre-tokenizers (pretokenize.c, pretokenize_digits.c) */

/** What becomes of a match (Hugging Face's SplitDelimiterBehavior). */
typedef enum clef__split_behavior {
    CLEF_SPLIT_ISOLATED,
    CLEF_SPLIT_REMOVED,
    CLEF_SPLIT_MERGED_WITH_PREVIOUS,
    CLEF_SPLIT_MERGED_WITH_NEXT,
    CLEF_SPLIT_CONTIGUOUS
} clef__split_behavior;
typedef enum clef__prepend_scheme {
    CLEF_PREPEND_ALWAYS, CLEF_PREPEND_FIRST, CLEF_PREPEND_NEVER
} clef__prepend_scheme;
enum { CLEF_SPLIT_INVERT = 1, CLEF_METASPACE_SPLITS = 2 };

extern const char clef__gpt2_regex[], clef__jais2_regex[];

/** Ownership of pattern->regex moves here, also on failure; pattern->text is copied. */
clef_status clef__pretokenizer_split(clef__stages *stages, const clef__pattern *pattern,
                                     clef__split_behavior behavior, uint32_t flags, clef_error *err);
/** Splits at a regex. A known regex that takes quadratic time is replaced by a linear function. */
clef_status clef__pretokenizer_regex(clef__stages *stages, const char *regex, clef__split_behavior behavior,
                                     clef_error *err);
/** Adds a linear stage for the two regexes that group a number's digits by three. Returns 0 and adds nothing
 *  for any other regex; *st is the status of adding. */
int clef__pretokenizer_thousands(clef__stages *stages, const char *regex, clef__split_behavior behavior,
                                 clef_status *st, clef_error *err);
/** Splits at characters of a class. */
clef_status clef__pretokenizer_chars(clef__stages *stages, int (*is)(uint32_t code),
                                     clef__split_behavior behavior, clef_error *err);
/** Replaces each byte of the text by GPT-2's character for it. */
clef_status clef__pretokenizer_byte_chars(clef__stages *stages, clef_error *err);
/** Cuts the text into pieces of `length` characters. */
clef_status clef__pretokenizer_fixed(clef__stages *stages, uint32_t length, clef_error *err);
/** Puts a space before a piece that does not begin with one. */
clef_status clef__pretokenizer_prefix_space(clef__stages *stages, clef_error *err);
clef_status clef__pretokenizer_metaspace(clef__stages *stages, const char *replacement, size_t n,
                                         clef__prepend_scheme scheme, uint32_t flags, clef_error *err);

/* ---- decoders (decode.c) */

clef_status clef__decoder_byte_level(clef__stages *stages, clef_error *err);
clef_status clef__decoder_byte_fallback(clef__stages *stages, clef_error *err);
/** pattern->regex is taken over, also on failure; pattern->text is copied. */
clef_status clef__decoder_replace(clef__stages *stages, const clef__pattern *pattern, const char *to,
                                  size_t n_to, clef_error *err);
/** Writes `mark` as a space; with drops_first, as nothing in a text's first token. */
clef_status clef__decoder_metaspace(clef__stages *stages, const char *mark, size_t n, int drops_first,
                                    clef_error *err);
/** Puts a space before each token except the first and those with the prefix, which lose it. cleanup: no
 *  space before punctuation and n't. */
clef_status clef__decoder_wordpiece(clef__stages *stages, const char *prefix, size_t n, int cleanup,
                                    clef_error *err);
/** Writes the suffix as a space, except that of the last token. Flags the tokens of `vocab` that have it. */
clef_status clef__decoder_bpe(clef__stages *stages, clef__vocab *vocab, const char *suffix, size_t n,
                              clef_error *err);
clef_status clef__decoder_ctc(clef__stages *stages, const char *pad, const char *delimiter, int cleanup,
                              clef_error *err);
/** Takes `content` off both ends of each token, at most `start` and `stop` times. */
clef_status clef__decoder_strip(clef__stages *stages, const char *content, size_t n, int32_t start,
                                int32_t stop, clef_error *err);

#endif
