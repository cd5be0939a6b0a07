/* What a tokenizer consists of: a vocabulary, a model, the stages around it, and special tokens.
 *
 *   text -> repair UTF-8 -> split off added tokens (raw)
 *        -> normalizers  -> split off added tokens (normalised)
 *        -> pre-tokenizers -> model -> template -> ids
 *   ids  -> bytes of each token, made once by the decoders
 *        -> remove what the first token loses -> repair UTF-8 -> text */
#ifndef CLEF_MODEL_TOKENIZER_H
#define CLEF_MODEL_TOKENIZER_H

#include "clef/tokenizer.h"
#include "graph/fail.h"
#include "model/tokenizer/bytes.h"
#include "model/tokenizer/models.h"

/** How SentencePiece treats spaces before it cuts a text. */
typedef struct clef__spm_spaces {
    int32_t     add_prefix; /* a space before the text */
    int32_t     squeeze;    /* spaces at both ends are dropped, other runs become one */
    int32_t     escape;     /* spaces are written as U+2581 */
    const char *charsmap;   /* applied first; n_charsmap 0: none */
    size_t      n_charsmap;
} clef__spm_spaces;

enum { CLEF_MAX_AROUND = 8, CLEF_MAX_TEMPLATE = 40 };

/** The result of a post-processor for one text or two: special tokens and texts in order. */
enum { CLEF_TEMPLATE_A = -1, CLEF_TEMPLATE_B = -2 };
typedef struct clef__template {
    struct {
        int32_t id; /* a token, CLEF_TEMPLATE_A or CLEF_TEMPLATE_B */
        int32_t type;
    } items[CLEF_MAX_TEMPLATE];
    int32_t n;
} clef__template;

struct clef_tokenizer {
    clef__vocab        vocab;
    clef__stages       stages;
    clef__token_model *model;
    int32_t            before[CLEF_MAX_AROUND], after[CLEF_MAX_AROUND]; /* special tokens around one text */
    int32_t            n_before, n_after;
    clef__template     single, pair;                       /* with token types: of one text, of two */
    int32_t            bos, eos, unk, sep, pad, cls, mask; /* -1: none */
    int32_t            fim[3];                             /* by CLEF_ROLE_FIM_PREFIX and so on; -1: none */
    clef__spm_spaces   spaces;        /* of SentencePiece; its charsmap is in stages.normalizers[0] */
    int32_t            cleans_spaces; /* decoded text passes clef__clean_spaces() */
    int32_t            byte_fallback; /* 1: unknown characters are encoded by SentencePiece's byte pieces */
    const char        *file; /* from which it was read, of a folder the file inside; NULL: from none */
    unsigned char beside[32]; /* digest of what its folder says beside the vocabulary; 0: nothing */
};

/* ---- building one (build.c) */

/** Makes an empty tokenizer; NULL when out of memory. Free it with clef_tokenizer_close(). */
clef_tokenizer *clef__tokenizer_new(void);

typedef enum clef__text_side { CLEF_BEFORE_TEXT, CLEF_AFTER_TEXT } clef__text_side;
/** Adds one more special token on a side of each text, and makes both templates anew. */
clef_status clef__template_add(clef_tokenizer *tok, clef__text_side side, int64_t id, clef_error *err);
/** cls A sep; cls A sep B sep with types 0 and 1, as BERT has it. */
clef_status clef__template_bert(clef_tokenizer *tok, int64_t cls, int64_t sep, clef_error *err);
/** cls A sep; cls A sep sep B sep, all of type 0, as RoBERTa has it. */
clef_status clef__template_roberta(clef_tokenizer *tok, int64_t cls, int64_t sep, clef_error *err);
/** Appends to a template. CLEF_E_FORMAT: an id outside the vocabulary; CLEF_E_UNSUPPORTED: more than
 *  CLEF_MAX_TEMPLATE. */
clef_status clef__template_push(const clef_tokenizer *tok, clef__template *to, int64_t id, int32_t type,
                                clef_error *err);
/** The last step: the tokens' bytes, the tries of added tokens, the model.
 *  CLEF_E_LIMIT: a token of more than CLEF_MAX_PIECE bytes. */
clef_status clef__tokenizer_seal(clef_tokenizer *tok, clef_error *err);

/* ---- its identity (read/digest.c) */

/** SHA-256 of the files that decide which ids a text has without special tokens around it. Reads them again.
 *  CLEF_E_NOT_FOUND: it was not read from a file. CLEF_E_IO, CLEF_E_FORMAT (they changed), CLEF_E_NOMEM. */
clef_status clef__tokenizer_digest(const clef_tokenizer *tok, unsigned char out[32], clef_error *err);

/* ---- decoding (clean.c) */

/** The bytes that clef__clean_spaces() may hold back. */
enum { CLEF_CLEAN_HELD = 20 };
/** Drops spaces as transformers' clean_up_tokenization() does. `text` has room for n + CLEF_CLEAN_HELD bytes
 *  and is changed in place, `work` for as many. *state is 0 at the start of a stream. Returns the bytes that
 *  are left; some may be held back for the next call. */
size_t clef__clean_spaces(uint32_t *state, char *text, size_t n, char *work);
/** The same, with everything that was held back. */
size_t clef__clean_finish(uint32_t *state, char *text, size_t n, char *work);

/* ---- encoding (encode.c) */

void clef__encoding_finish(clef__encoding *enc);

#endif
