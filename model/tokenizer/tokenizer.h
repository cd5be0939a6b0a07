/* The inside of a tokenizer: a chain of small parts, each behind a function pointer, so that a further normalizer, pre-tokenizer or model
 * is a further function and one line in a table of names.
 *
 *   text → repair UTF-8 → cut out raw added tokens → normalizers → cut out normalised added tokens → pre-tokenizers → model
 *        → ids
 *   ids  → each token's bytes (made once, by the decoders) → what the first token loses → repair UTF-8 → text */
#ifndef CLEF_MODEL_TOKENIZER_H
#define CLEF_MODEL_TOKENIZER_H

#include "clef/tokenizer.h"
#include "graph/fail.h"
#include "model/tokenizer/vocab_map.h"

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

/** A growing byte string; zeroed is empty. */
typedef struct clef_chars {
    char  *at;
    size_t n, capacity;
} clef_chars;

clef_status clef__chars_reserve(clef_chars *chars, size_t n_more, clef_error *err);
clef_status clef__chars_append(clef_chars *chars, const char *text, size_t n, clef_error *err);
void        clef__chars_finish(clef_chars *chars);

/** Growing ids; zeroed is empty. */
typedef struct clef_ids {
    int32_t *at;
    size_t   n, capacity;
} clef_ids;

clef_status clef__ids_push(clef_ids *ids, int32_t id, clef_error *err);

/** Memory that never moves, freed at once. */
typedef struct clef_token_block clef_token_block;
typedef struct clef_token_arena {
    clef_token_block *last;
    size_t            used;
} clef_token_arena;

/** A NUL-terminated copy (the text may hold NULs too); NULL without memory. */
char *clef__token_arena_copy(clef_token_arena *arena, const char *text, size_t n);
void  clef__token_arena_finish(clef_token_arena *arena);

/* ---- regexes --------------------------------------------------------------------------------------------------------------- */

/** A compiled pattern in the dialect of tokenizer.json (Oniguruma, Ruby syntax), run by PCRE2 with Unicode classes. */
typedef struct clef_regex clef_regex;
/** What one encoding needs to match: not shared between threads. Zeroed is ready. */
typedef struct clef_regex_run {
    void *data, *context, *stack;
    int   newer; /* the text has characters newer than PCRE2's Unicode (model/tokenizer/unicode.h) */
} clef_regex_run;

/** CLEF_E_FORMAT: no regex (the place is named); CLEF_E_UNSUPPORTED: a construct that the two engines read differently. */
clef_status clef__regex_create(const char *pattern, size_t n, clef_regex **out, clef_error *err);
void        clef__regex_destroy(clef_regex *regex);
/** The first match at or after `from` in valid UTF-8; *found 0 when there is none. CLEF_E_LIMIT, CLEF_E_NOMEM. */
clef_status clef__regex_find(const clef_regex *regex, clef_regex_run *run, const char *text, size_t n, size_t from, size_t *start,
                             size_t *end, int *found, clef_error *err);
void        clef__regex_run_finish(clef_regex_run *run);

/** What a stage looks for: a regex, a character of a class or, with both NULL, a string of n_text > 0 bytes. */
typedef struct clef_pattern {
    clef_regex *regex;
    int (*is)(uint32_t code);
    const char *text;
    size_t      n_text;
} clef_pattern;

/** As a regex's find_iter: `at` walks over the text, empty matches right after a match are left out. Zeroed is the start. */
typedef struct clef_pattern_walk {
    size_t at, last_end;
    int    any;
} clef_pattern_walk;
clef_status clef__pattern_next(const clef_pattern *pattern, clef_regex_run *run, const char *text, size_t n, clef_pattern_walk *walk,
                               size_t *start, size_t *end, int *found, clef_error *err);

/* ---- one encoding ---------------------------------------------------------------------------------------------------------- */

enum { CLEF_MAX_TOKEN_STAGES = 32 };

typedef struct clef_bpe_symbol clef_bpe_symbol;
typedef struct clef_bpe_merge  clef_bpe_merge;
typedef struct clef_viterbi    clef_viterbi;

/** The scratch memory of one clef_tokenizer_encode(). */
typedef struct clef_encoding {
    const clef_tokenizer *tok;
    clef_ids              ids;
    clef_chars            normal[2];                  /* the normalizers write to them in turn */
    clef_chars            pre[CLEF_MAX_TOKEN_STAGES]; /* text that pre-tokenizer i changed */
    clef_regex_run        regex;
    clef_bpe_symbol          *symbols; /* of the model, with their capacity */
    clef_bpe_merge           *queue;
    size_t                n_symbols, n_queue;
    clef_viterbi             *viterbi; /* of the Unigram model */
    size_t                n_viterbi;
    clef_error           *err;
} clef_encoding;

void clef__encoding_finish(clef_encoding *enc);

/** Piece of text on its way to the model. */
typedef struct clef_span {
    const char *text;
    size_t      n;
    int         first; /* begins where the whole text began */
} clef_span;

/* ---- the parts ------------------------------------------------------------------------------------------------------------- */

/** SentencePiece's precompiled map of strings to strings (charsmap.c). */
typedef struct clef_charsmap {
    const char *units; /* 4 bytes each */
    size_t      n_units;
    const char *texts; /* ends with a NUL */
    size_t      n_texts;
} clef_charsmap;

typedef struct clef_normalizer clef_normalizer;
struct clef_normalizer {
    /** Appends the changed text to out (empty before). */
    clef_status (*run)(const clef_normalizer *self, clef_encoding *enc, clef_span in, clef_chars *out);
    clef_pattern pattern;
    const char  *text; /* replacement or prefix */
    size_t       n_text;
    uint32_t     flags;
    clef_charsmap map;
};

typedef struct clef_pretokenizer clef_pretokenizer;
struct clef_pretokenizer {
    /** Hands each piece to clef__pretokenize(enc, index + 1, piece). */
    clef_status (*run)(const clef_pretokenizer *self, clef_encoding *enc, size_t index, clef_span in);
    clef_pattern pattern;
    uint32_t     behavior; /* clef_split_behavior, or clef_prepend_scheme */
    uint32_t     flags;
    const char  *text;
    size_t       n_text;
};

typedef struct clef_token_model clef_token_model;
struct clef_token_model {
    clef_status (*encode)(const clef_token_model *self, clef_encoding *enc, const char *text, size_t n);
    void (*destroy)(clef_token_model *self);
};

/** Turns a token's text into the bytes it stands for. */
typedef struct clef_token_decoder clef_token_decoder;
struct clef_token_decoder {
    /** first: the token begins the text. */
    clef_status (*run)(const clef_token_decoder *self, int first, const char *text, size_t n, clef_chars *out, clef_error *err);
    clef_pattern pattern; /* what is replaced, or a prefix, suffix, delimiter */
    const char  *to;
    size_t       n_to;
    int32_t      start, stop; /* how often at each end; start is a flag too */
};

/** What happens between a text's tokens and at its start, beside what the decoders did to each. */
typedef enum clef_first_token {
    CLEF_FIRST_AS_IS,
    CLEF_FIRST_DROPS_SPACE,  /* one leading space of the whole text */
    CLEF_FIRST_DROPS_SPACES, /* every leading space of the whole text */
    CLEF_FIRST_NO_SEPARATOR  /* no decoder: tokens are joined by spaces */
} clef_first_token;

/** Where an added token is looked for. */
typedef enum clef_added_where {
    CLEF_ADDED_RAW,        /* in the text as it comes */
    CLEF_ADDED_NORMALIZED, /* after the normalizers, and its own text goes through them too */
    CLEF_ADDED_AS_WRITTEN  /* after the normalizers, its own text as it is (SentencePiece's user-defined pieces) */
} clef_added_where;

/** A token that is found in the text before the model sees it. */
typedef struct clef_added_token {
    int32_t     id;
    const char *text;
    size_t      n;
    uint8_t     where; /* clef_added_where */
    uint8_t     lstrip, rstrip, single_word;
} clef_added_token;

/** A trie over added tokens: leftmost, then longest. */
typedef struct clef_added_node {
    int32_t child, next; /* -1: none */
    int32_t token;       /* index in the tokenizer's added tokens; -1: none ends here */
    uint8_t byte;
} clef_added_node;
typedef struct clef_added_trie {
    clef_added_node *nodes;
    size_t           n, capacity;
    int32_t          roots[256];
} clef_added_trie;

enum {
    CLEF_TOKEN_SPECIAL = 1,
    CLEF_TOKEN_PRESENT = 2,
    CLEF_TOKEN_OUTSIDE_MODEL = 4,
    CLEF_TOKEN_ENDS_WORD = 8, /* its piece's last space is written only when another token follows */
    CLEF_TOKEN_UNUSED = 16,   /* a SentencePiece piece that nothing becomes */
    CLEF_TOKEN_BYTE = 32      /* a SentencePiece piece for a byte that no other piece has */
};

typedef struct clef_token {
    const char *text;  /* as the vocabulary writes it */
    const char *piece; /* the bytes it stands for */
    const char *first; /* the same where it begins a text; NULL: as elsewhere */
    uint32_t    n_text, n_piece, n_first;
    uint32_t    flags;
} clef_token;

/** The parts of BertNormalizer that a file asks for, in this order. */
typedef struct clef_bert_opts {
    int32_t clean, space_cjk, strip_accents, lowercase;
} clef_bert_opts;

/** What SentencePiece does before it cuts. */
typedef struct clef_spm_spaces {
    int32_t     add_prefix; /* a space before the text */
    int32_t     squeeze;    /* runs of spaces become one, those at the ends vanish */
    int32_t     escape;     /* spaces are written as U+2581 */
    const char *charsmap;   /* applied first; n_charsmap 0: none */
    size_t      n_charsmap;
} clef_spm_spaces;

enum { CLEF_MAX_MARKS = 8, CLEF_MAX_TEMPLATE = 40 };

/** What a post-processor makes of one text or of two: tokens and texts in order. */
enum { CLEF_TEMPLATE_A = -1, CLEF_TEMPLATE_B = -2 };
typedef struct clef_template {
    struct {
        int32_t id; /* a token, CLEF_TEMPLATE_A or CLEF_TEMPLATE_B */
        int32_t type;
    } items[CLEF_MAX_TEMPLATE];
    int32_t n;
} clef_template;

struct clef_tokenizer {
    clef_token_arena  arena;
    clef_token       *tokens;
    int32_t           n_tokens;
    clef_vocab_map    by_text;
    clef_added_token *added;
    size_t            n_added, added_capacity;
    clef_added_trie   raw, normal;
    clef_normalizer   normalizers[CLEF_MAX_TOKEN_STAGES];
    clef_pretokenizer pretokenizers[CLEF_MAX_TOKEN_STAGES];
    clef_token_decoder decoders[CLEF_MAX_TOKEN_STAGES];
    size_t            n_normalizers, n_pretokenizers, n_decoders;
    clef_first_token  first_token;
    int32_t           byte_level; /* the model's symbols are bytes, written as GPT-2 does */
    clef_token_model *model;
    int32_t           before[CLEF_MAX_MARKS], after[CLEF_MAX_MARKS]; /* what CLEF_SPECIAL_ADD puts around the ids of one text */
    int32_t           n_before, n_after;
    clef_template     single, pair; /* the same with types, and for two texts */
    int32_t           joins_repeats; /* equal tokens in a row are one (CTC) */
    int32_t           bos, eos, unk, sep, pad, cls, mask; /* -1: none */
    clef_bert_opts    bert;   /* what BERT's normalizer does, for those who write it down */
    clef_spm_spaces   spaces; /* the same of SentencePiece; its charsmap is in normalizers[0] */
    int32_t           byte_fallback; /* SentencePiece's pieces of bytes are used */
};

/* ---- building one: the readers of the formats call these (tokenizer_build.c) ---------------------------------------------------- */

/** Room for ids 0 .. n-1, once, before any token. `n` is trusted: the reader has checked it against what the file holds. */
clef_status clef__tokens_reserve(clef_tokenizer *tok, int64_t n, clef_error *err);
/** Sets a token's text. CLEF_E_FORMAT: the id is outside, or is another token's already. Texts may repeat: the first one's id is found. */
clef_status clef__tokens_set(clef_tokenizer *tok, int64_t id, const char *text, size_t n, clef_error *err);
/** After the last of them: of equal texts the last one's id is found (BERT's vocabularies). */
clef_status clef__tokens_prefer_last(clef_tokenizer *tok, clef_error *err);
int32_t     clef__tokens_find(const clef_tokenizer *tok, const char *text, size_t n);
/** A token to cut out of the text; like->text is copied, and tokens_set() is done when the id has no text yet. */
clef_status clef__tokens_add(clef_tokenizer *tok, const clef_added_token *like, int special, clef_error *err);
/** One more id of those put before (or after) each text; both templates are made anew from them. */
clef_status clef__tokens_mark(clef_tokenizer *tok, int after, int64_t id, clef_error *err);
/** cls A sep; cls A sep B sep with types 0 and 1, as BERT has it. */
clef_status clef__tokens_mark_pair(clef_tokenizer *tok, int64_t cls, int64_t sep, clef_error *err);
/** cls A sep; cls A sep sep B sep, all of type 0, as RoBERTa has it. */
clef_status clef__tokens_mark_roberta(clef_tokenizer *tok, int64_t cls, int64_t sep, clef_error *err);
/** Appends to a template. CLEF_E_FORMAT: an id outside the vocabulary; CLEF_E_UNSUPPORTED: more than CLEF_MAX_TEMPLATE. */
clef_status clef__template_push(const clef_tokenizer *tok, clef_template *to, int64_t id, int32_t type, clef_error *err);
/** The last step: pieces, tries. CLEF_E_LIMIT: a token beyond CLEF_MAX_PIECE. */
clef_status clef__tokenizer_seal(clef_tokenizer *tok, clef_error *err);
/** At most 48 printable characters of a text, for messages; writes to out [64] and returns it. */
const char *clef__token_quote(const char *text, size_t n, char *out);

/* ---- normalizers (normalize.c) ------------------------------------------------------------------------------------------------- */

typedef enum clef_unicode_form { CLEF_FORM_NFC, CLEF_FORM_NFD, CLEF_FORM_NFKC, CLEF_FORM_NFKD } clef_unicode_form;
enum { CLEF_STRIP_LEFT = 1, CLEF_STRIP_RIGHT = 2 };

clef_status clef__normalizer_prepend(clef_tokenizer *tok, const char *text, size_t n, clef_error *err);
/** pattern->regex is taken over, also on failure; pattern->text is copied. */
clef_status clef__normalizer_replace(clef_tokenizer *tok, const clef_pattern *pattern, const char *text, size_t n, clef_error *err);
clef_status clef__normalizer_unicode(clef_tokenizer *tok, clef_unicode_form form, clef_error *err);
clef_status clef__normalizer_lowercase(clef_tokenizer *tok, clef_error *err);
clef_status clef__normalizer_strip(clef_tokenizer *tok, uint32_t sides, clef_error *err);
clef_status clef__normalizer_bert(clef_tokenizer *tok, const clef_bert_opts *opts, clef_error *err);
clef_status clef__normalizer_strip_accents(clef_tokenizer *tok, clef_error *err);
clef_status clef__normalizer_nmt(clef_tokenizer *tok, clef_error *err);
clef_status clef__normalizer_byte_level(clef_tokenizer *tok, clef_error *err);
/** Spaces at the ends vanish, runs of them become one. escape: 1 where U+2581 at the text's end is a space as well. */
clef_status clef__normalizer_squeeze(clef_tokenizer *tok, int32_t escape, clef_error *err);
typedef enum clef_charsmap_use { CLEF_CHARSMAP_LONGEST, CLEF_CHARSMAP_GRAPHEMES } clef_charsmap_use;
/** SentencePiece's way or Hugging Face's. The data is copied; 0 bytes do nothing. CLEF_E_FORMAT: not of that layout. */
clef_status clef__normalizer_charsmap(clef_tokenizer *tok, const char *data, size_t n, clef_charsmap_use use, clef_error *err);
/** The next free stage, for those that fill one in. */
clef_status clef__normalizer_next(clef_tokenizer *tok, clef_normalizer **out, clef_error *err);
/** Appends each byte as the character that stands for it (bytelevel.c). */
clef_status clef__byte_chars(const char *text, size_t n, clef_chars *out, clef_error *err);
/** Runs all of them; *out is borrowed from enc or is the input itself. */
clef_status clef__normalize(clef_encoding *enc, clef_span in, clef_span *out);

/* ---- pre-tokenizers (pretokenize.c) -------------------------------------------------------------------------------------------- */

/** What becomes of a match (Hugging Face's SplitDelimiterBehavior). */
typedef enum clef_split_behavior {
    CLEF_SPLIT_ISOLATED,
    CLEF_SPLIT_REMOVED,
    CLEF_SPLIT_MERGED_WITH_PREVIOUS,
    CLEF_SPLIT_MERGED_WITH_NEXT,
    CLEF_SPLIT_CONTIGUOUS
} clef_split_behavior;
typedef enum clef_prepend_scheme { CLEF_PREPEND_ALWAYS, CLEF_PREPEND_FIRST, CLEF_PREPEND_NEVER } clef_prepend_scheme;
enum { CLEF_SPLIT_INVERT = 1, CLEF_METASPACE_SPLITS = 2 };

extern const char clef__gpt2_regex[], clef__jais2_regex[];

/** pattern->regex is taken over, also on failure; pattern->text is copied. */
clef_status clef__pretokenizer_split(clef_tokenizer *tok, const clef_pattern *pattern, clef_split_behavior behavior, uint32_t flags,
                                     clef_error *err);
/** The same with a regex that must compile: the library's own. */
clef_status clef__pretokenizer_regex(clef_tokenizer *tok, const char *regex, clef_split_behavior behavior, clef_error *err);
/** After it: where the regex is one whose spaces are better counted, the stage does so. */
void        clef__pretokenizer_counts_spaces(clef_tokenizer *tok, const char *regex);
/** The same for the two regexes that group a number's digits by three; 0 for any other. *st: how that went. */
int clef__pretokenizer_thousands(clef_tokenizer *tok, const char *regex, clef_split_behavior behavior, clef_status *st, clef_error *err);
/** The next free stage, for those that fill one in. */
clef_status clef__pretokenizer_next(clef_tokenizer *tok, clef_pretokenizer **out, clef_error *err);
/** Splits at characters of a class. */
clef_status clef__pretokenizer_chars(clef_tokenizer *tok, int (*is)(uint32_t code), clef_split_behavior behavior, clef_error *err);
/** The text becomes the characters that stand for its bytes. */
clef_status clef__pretokenizer_byte_chars(clef_tokenizer *tok, clef_error *err);
/** Pieces of `length` characters. */
clef_status clef__pretokenizer_fixed(clef_tokenizer *tok, uint32_t length, clef_error *err);
/** A space before a piece that does not begin with one. */
clef_status clef__pretokenizer_prefix_space(clef_tokenizer *tok, clef_error *err);
clef_status clef__pretokenizer_metaspace(clef_tokenizer *tok, const char *replacement, size_t n, clef_prepend_scheme scheme, uint32_t flags,
                                         clef_error *err);
/** Sends a piece through pre-tokenizers index and later, then to the model. */
clef_status clef__pretokenize(clef_encoding *enc, size_t index, clef_span in);

/* ---- added tokens (added.c) ---------------------------------------------------------------------------------------------------- */

/** Enters added token `token` under `text`, which may differ from its own (normalised). */
clef_status clef__added_enter(clef_added_trie *trie, const char *text, size_t n, int32_t token, clef_error *err);
void        clef__added_finish(clef_added_trie *trie);
/** Pushes the ids of the tokens found; each piece between them goes to `rest`. */
clef_status clef__added_split(const clef_added_trie *trie, clef_encoding *enc, clef_span in,
                              clef_status (*rest)(clef_encoding *enc, clef_span piece));

/* ---- models (bpe.c, bpe_build.c) ----------------------------------------------------------------------------------------------- */

typedef struct clef_bpe clef_bpe;
typedef struct clef_bpe_opts {
    int32_t byte_fallback, fuse_unk, ignore_merges;
    int32_t unk; /* -1: unknown symbols vanish */
    int32_t bytes; /* by scores: symbols are bytes, and a word that is a token is not cut (tiktoken) */
    const char *prefix, *suffix; /* by ranks: of every symbol but a word's first, and of its last; NULL or "": none. Copied */
} clef_bpe_opts;

/** BPE by ranks, as tok->model; n_merges is room to take. After it come clef__bpe_merge() calls in the order of the ranks. */
clef_status clef__bpe_create(clef_tokenizer *tok, const clef_bpe_opts *opts, size_t n_merges, clef_bpe **out, clef_error *err);
/** The next merge. CLEF_E_FORMAT names a part that is not in the vocabulary. A pair seen before takes the later rank. */
clef_status clef__bpe_merge(clef_bpe *bpe, const clef_tokenizer *tok, const char *left, size_t n_left, const char *right, size_t n_right,
                            clef_error *err);
/** "left right", as merges.txt and the older tokenizer.json write it. */
clef_status clef__bpe_merge_line(clef_bpe *bpe, const clef_tokenizer *tok, const char *line, size_t n, clef_error *err);
/** After the vocabulary and before any encoding: byte symbols and whole words. */
clef_status clef__bpe_seal(clef_bpe *bpe, const clef_tokenizer *tok, clef_error *err);

/** Whether a model is a BPE. */
int clef__is_bpe(const clef_token_model *model);
/** By scores: the score of a token, 0 for one that symbols do not merge into. */
double clef__bpe_score_of(const clef_token_model *model, int32_t id);

/** SentencePiece's BPE: a pair whose joined text is a piece merges, best score first. */
clef_status clef__bpe_create_scored(clef_tokenizer *tok, const clef_bpe_opts *opts, clef_bpe **out, clef_error *err);
/** Makes token `id` one that symbols may merge into. CLEF_E_FORMAT: a score that is no number. */
clef_status clef__bpe_score(clef_bpe *bpe, const clef_tokenizer *tok, int32_t id, double score, clef_error *err);

/* ---- WordPiece and WordLevel (wordpiece.c), after the whole vocabulary ------------------------------------------------------------ */

typedef struct clef_wordpiece_opts {
    const char *prefix; /* of pieces inside a word */
    size_t      n_prefix;
    size_t      max_chars; /* a longer word is unknown */
    int32_t     unk;
} clef_wordpiece_opts;
clef_status clef__wordpiece_create(clef_tokenizer *tok, const clef_wordpiece_opts *opts, clef_error *err);
/** unk -1: unknown words vanish. */
clef_status clef__wordlevel_create(clef_tokenizer *tok, int32_t unk, clef_error *err);

/* ---- Unigram (unigram.c) ------------------------------------------------------------------------------------------------------- */

typedef struct clef_unigram clef_unigram;
typedef struct clef_unigram_opts {
    int32_t byte_fallback;
    int32_t single; /* sums are floats, as in SentencePiece; else doubles, as in Hugging Face's tokenizers: ties fall otherwise */
    int32_t unk;    /* of the vocabulary; a run of unknown characters is one */
} clef_unigram_opts;
/** tok->model, for a vocabulary whose room is reserved. */
clef_status clef__unigram_create(clef_tokenizer *tok, const clef_unigram_opts *opts, clef_unigram **out, clef_error *err);
/** Token `id`, which has its text, is a piece; of equal texts the last one counts. CLEF_E_FORMAT: a score that is no finite number. */
clef_status clef__unigram_piece(clef_unigram *self, const clef_tokenizer *tok, int32_t id, double score, clef_error *err);
/** The score of token `id`, 0 for one that is no piece. */
double clef__unigram_score_of(const clef_token_model *model, int32_t id);
/** After the last piece. */
void clef__unigram_seal(clef_unigram *self, const clef_tokenizer *tok);

/* ---- SentencePiece's vocabulary, in whichever file it is (spm.c) ------------------------------------------------------------------ */

/** As sentencepiece_model.proto numbers them, and GGUF after it. */
typedef enum clef_piece_type {
    CLEF_PIECE_NORMAL = 1,
    CLEF_PIECE_UNKNOWN,
    CLEF_PIECE_CONTROL,
    CLEF_PIECE_USER_DEFINED,
    CLEF_PIECE_UNUSED,
    CLEF_PIECE_BYTE
} clef_piece_type;

/** SentencePiece's model: one of the two. */
typedef struct clef_spm_model {
    clef_bpe     *bpe;
    clef_unigram *unigram;
} clef_spm_model;
typedef struct clef_spm_opts {
    int32_t unigram; /* else BPE */
    int32_t byte_fallback, unk;
} clef_spm_opts;
clef_status clef__spm_create(clef_tokenizer *tok, const clef_spm_opts *opts, clef_spm_model *out, clef_error *err);
/** Sets a piece's text and enters it in the model as its type says. */
clef_status clef__spm_piece(clef_tokenizer *tok, const clef_spm_model *model, int32_t id, const char *text, size_t n, int64_t type,
                            double score, clef_error *err);
/** After the last piece and clef__tokenizer_seal(). */
clef_status clef__spm_seal(const clef_spm_model *model, const clef_tokenizer *tok, clef_error *err);

clef_status clef__spm_stages(clef_tokenizer *tok, const clef_spm_spaces *opts, clef_error *err);

/* ---- GPT-2's writing of bytes (bytelevel.c) -------------------------------------------------------------------------------------- */

/** The character that stands for a byte. */
uint32_t clef__byte_char(uint8_t byte);
/** The byte that a character stands for, -1 for none. */
int32_t clef__char_byte(uint32_t code);

/** The bytes of base64 text; the caller frees *out. CLEF_E_FORMAT, CLEF_E_NOMEM. */
clef_status clef__base64(const char *text, size_t n, char **out, size_t *n_out, clef_error *err);

/* ---- decoders (token_decode.c) ----------------------------------------------------------------------------------------------- */

clef_status clef__decoder_byte_level(clef_tokenizer *tok, clef_error *err);
clef_status clef__decoder_byte_fallback(clef_tokenizer *tok, clef_error *err);
/** pattern->regex is taken over, also on failure; pattern->text is copied. */
clef_status clef__decoder_replace(clef_tokenizer *tok, const clef_pattern *pattern, const char *to, size_t n_to, clef_error *err);
/** Spaces for `mark`; with drops_first, nothing for those in a text's first token. */
clef_status clef__decoder_metaspace(clef_tokenizer *tok, const char *mark, size_t n, int drops_first, clef_error *err);
/** A space before each token but the first and those with the prefix, which loses it. cleanup: none before punctuation and n't. */
clef_status clef__decoder_wordpiece(clef_tokenizer *tok, const char *prefix, size_t n, int cleanup, clef_error *err);
/** A space for the suffix, but not for that of the last token. */
clef_status clef__decoder_bpe(clef_tokenizer *tok, const char *suffix, size_t n, clef_error *err);
clef_status clef__decoder_ctc(clef_tokenizer *tok, const char *pad, const char *delimiter, int cleanup, clef_error *err);
/** Up to start and stop times `content` off the ends of each token. */
clef_status clef__decoder_strip(clef_tokenizer *tok, const char *content, size_t n, int32_t start, int32_t stop, clef_error *err);
/** The byte of "<0x41>", -1 for another text. */
int32_t clef__fallback_byte(const char *text, size_t n);
/** Runs all decoders over one token's text into out[0]. */
clef_status clef__decode_token(const clef_tokenizer *tok, int first, const char *text, size_t n, clef_chars out[2], clef_error *err);

/* ---- formats --------------------------------------------------------------------------------------------------------------- */

/** Which of the files that hold a tokenizer the folder has, by order of trust; NULL: none. */
const char *clef__tokenizer_file(const char *folder);
clef_status clef__tokenizer_read_json(clef_tokenizer *tok, const char *path, clef_error *err);
clef_status clef__tokenizer_read_vocab(clef_tokenizer *tok, const char *vocab_path, const char *merges_path, clef_error *err);
clef_status clef__tokenizer_read_spm(clef_tokenizer *tok, const char *path, clef_error *err);
clef_status clef__tokenizer_read_gguf(clef_tokenizer *tok, const char *path, clef_error *err);
/** The same over a tokenizer.json in memory; `name` is for messages (fuzzing, tests). */
clef_status clef__tokenizer_parse_json(clef_tokenizer *tok, const char *text, size_t n, const char *name, clef_error *err);
struct clef_gguf;
clef_status clef__tokenizer_parse_gguf(clef_tokenizer *tok, const struct clef_gguf *gguf, const char *name, clef_error *err);
clef_status clef__tokenizer_parse_spm(clef_tokenizer *tok, const void *data, size_t n, const char *name, clef_error *err);
/** tiktoken's lines, "base64 rank" each; the encoding (regex, special tokens) is told by the file's name, or by what Llama 3 has. */
int         clef__is_tiktoken(const char *text, size_t n);
clef_status clef__tokenizer_parse_tiktoken(clef_tokenizer *tok, const char *text, size_t n, const char *name, clef_error *err);
/** BERT's vocab.txt, a token a line, with tokenizer_config.json beside it. */
clef_status clef__tokenizer_read_txt(clef_tokenizer *tok, const char *path, clef_error *err);
/** BERT's stages and marks, for a vocabulary that is there (its words inside a word with "##"): vocab.txt and GGUF. lowercase -1: as
 *  the vocabulary shows; strip_accents -1: as lowercase. */
typedef struct clef_bert_stages {
    int32_t lowercase, strip_accents, space_cjk;
} clef_bert_stages;
clef_status clef__bert_stages(clef_tokenizer *tok, const clef_bert_stages *opts, const char *name, clef_error *err);

/** Whether BOS and EOS are added: 1, 0, or -1 where the files say nothing. */
typedef struct clef_token_marks {
    int32_t add_bos, add_eos;
    int32_t lowercase, strip_accents, space_cjk; /* BERT's; -1 too where nothing is said */
} clef_token_marks;
/** Reads tokenizer_config.json, special_tokens_map.json and config.json beside `path`, as far as they are there, and sets tok->bos and
 *  tok->eos where they name them. */
clef_status clef__tokenizer_read_marks(clef_tokenizer *tok, const char *path, clef_token_marks *marks, clef_error *err);
/** Sets the roles that nothing has set yet by the texts that nearly all models use. */
void clef__tokens_guess_roles(clef_tokenizer *tok);
/** `name` in the folder of `path`, into out; CLEF_E_LIMIT when it does not fit. */
clef_status clef__beside(const char *path, const char *name, char *out, size_t capacity, clef_error *err);
enum { CLEF_TOKENIZER_PATH = 4096, CLEF_TOKENIZER_FILE_BYTES = 256 << 20 };

/** An empty tokenizer, NULL without memory; clef_tokenizer_close() frees it. */
clef_tokenizer *clef__tokenizer_new(void);

#endif
