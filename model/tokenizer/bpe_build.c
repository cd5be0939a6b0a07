/* Builds a BPE model: its merges by rank or its pieces by score, then the tables that encoding needs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clef/tokenizer.h"
#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/bytes.h"

static void destroy_bpe(clef__token_model *model)
{
    clef__bpe *bpe = (clef__bpe *)model;
    clef__vocab_map_finish(&bpe->pieces);
    clef__text_arena_finish(&bpe->texts);
    clef__word_cuts_finish(&bpe->cuts);
    free(bpe->pairs);
    free(bpe->ranks);
    free(bpe);
}

/* Looks up the one-byte symbols, and the fallback tokens <0x00> to <0xFF>. */
static void seal_bytes(clef__bpe *bpe)
{
    static const char digits[] = "0123456789ABCDEF";
    for (int i = 0; i < 256; i++) {
        char text[8] = {(char)i};
        const size_t n = bpe->opts.byte_level ? clef__utf8_write(clef__byte_char((uint8_t)i), text) : 1;
        if (bpe->opts.byte_level || i < 0x80)
            bpe->byte_ids[i] = clef__vocab_find(bpe->base.vocab, text, n);
        const char fallback[6] = {'<', '0', 'x', digits[i / 16], digits[i % 16], '>'};
        bpe->fallback_ids[i] = clef__vocab_find(bpe->base.vocab, fallback, sizeof fallback);
    }
}

static clef_status learn_cuts(clef__bpe *bpe, clef_error *err)
{
    const clef__vocab *vocab = bpe->base.vocab;
    const clef_status st = clef__word_cuts_start(&bpe->cuts, err);
    for (int32_t id = 0; id < vocab->n_tokens && st == CLEF_OK; id++)
        if (vocab->tokens[id].flags & CLEF_TOKEN_PRESENT)
            clef__word_cuts_learn(&bpe->cuts, vocab->tokens[id].text, vocab->tokens[id].n_text);
    return st;
}

/* Adds a token under the bytes that its characters stand for. One with other characters is never found. */
static clef_status put_bytes(clef__bpe *bpe, const clef__token *token, int32_t id, clef_error *err)
{
    char bytes[CLEF_MAX_PIECE];
    size_t n = 0;
    for (size_t i = 0, size; i < token->n_text; i += size) {
        uint32_t code;
        const int whole = clef__utf8_read(token->text + i, token->n_text - i, &code, &size) == CLEF_UTF8_OK;
        const int32_t byte = whole ? clef__char_byte(code) : -1;
        if (byte < 0 || n == sizeof bytes)
            return CLEF_OK;
        bytes[n++] = (char)byte;
    }
    const int is_piece = n == token->n_piece && memcmp(bytes, token->piece, n) == 0;
    const char *kept = is_piece ? token->piece : clef__text_arena_copy(&bpe->texts, bytes, n);
    return kept ? clef__vocab_map_put(&bpe->pieces, kept, n, id, err)
                : clef__fail(err, CLEF_E_NOMEM, "BPE: no memory for the bytes of token %d", (int)id);
}

static clef_status seal_bpe(clef__token_model *model, clef_error *err)
{
    clef__bpe *bpe = (clef__bpe *)model;
    const clef__vocab *vocab = model->vocab;
    clef_status st = CLEF_OK;
    seal_bytes(bpe);
    if (!bpe->opts.byte_level && !bpe->opts.bytes && !bpe->n_prefix && !bpe->n_suffix && !bpe->merges_bytes)
        st = learn_cuts(bpe, err);
    if (st || !bpe->opts.ignore_merges)
        return st;
    for (int32_t id = 0; id < vocab->n_tokens && st == CLEF_OK; id++) {
        const clef__token *token = &vocab->tokens[id];
        if (!(token->flags & CLEF_TOKEN_PRESENT) || (token->flags & CLEF_TOKEN_OUTSIDE_MODEL))
            continue;
        if (bpe->opts.byte_level) /* words reach the model as bytes */
            st = put_bytes(bpe, token, id, err);
        else
            st = clef__vocab_map_put(&bpe->pieces, token->text, token->n_text, id, err);
    }
    return st;
}

static clef_status make_slots(clef__bpe *bpe, size_t n_merges, clef_error *err)
{
    if (n_merges > (size_t)INT32_MAX / 4)
        return clef__fail(err, CLEF_E_LIMIT, "BPE: %zu merges, expected at most %d", n_merges, INT32_MAX / 4);
    bpe->n_slots = 64;
    while (bpe->n_slots < n_merges * 2)
        bpe->n_slots *= 2;
    bpe->pairs = malloc(bpe->n_slots * sizeof *bpe->pairs);
    if (!bpe->pairs)
        return clef__fail(err, CLEF_E_NOMEM, "BPE: no memory for %zu merges", n_merges);
    for (size_t i = 0; i < bpe->n_slots; i++)
        bpe->pairs[i].id = -1;
    return CLEF_OK;
}

static clef__bpe *new_bpe(const clef__vocab *vocab, const clef__bpe_opts *opts, clef__token_model **out)
{
    clef__bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe)
        return NULL;
    bpe->base = (clef__token_model){.seal = seal_bpe, .destroy = destroy_bpe, .vocab = vocab};
    bpe->opts = *opts;
    bpe->opts.prefix = bpe->opts.suffix = NULL;
    for (int i = 0; i < 256; i++)
        bpe->byte_ids[i] = bpe->fallback_ids[i] = -1;
    *out = &bpe->base;
    return bpe;
}

clef_status clef__bpe_create(const clef__vocab *vocab, const clef__bpe_opts *opts, size_t n_merges,
                             clef__token_model **out, clef_error *err)
{
    clef__bpe *bpe = new_bpe(vocab, opts, out);
    if (!bpe)
        return clef__fail(err, CLEF_E_NOMEM, "BPE: no memory");
    bpe->base.encode = clef__bpe_encode_by_rank;
    bpe->base.kind = opts->byte_fallback ? CLEF_TOKENIZER_SENTENCEPIECE : CLEF_TOKENIZER_BPE;
    bpe->pair = clef__bpe_pair_by_rank;
    bpe->n_prefix = opts->prefix ? strlen(opts->prefix) : 0;
    bpe->n_suffix = opts->suffix ? strlen(opts->suffix) : 0;
    if (bpe->n_prefix > CLEF_BPE_AFFIX || bpe->n_suffix > CLEF_BPE_AFFIX)
        return clef__fail(err, CLEF_E_LIMIT, "BPE: a prefix or suffix of more than %d bytes", CLEF_BPE_AFFIX);
    if (bpe->n_prefix)
        memcpy(bpe->prefix, opts->prefix, bpe->n_prefix);
    if (bpe->n_suffix)
        memcpy(bpe->suffix, opts->suffix, bpe->n_suffix);
    return make_slots(bpe, n_merges, err);
}

static clef_status not_there(const clef__bpe *bpe, const char *what, const char *text, size_t n,
                             clef_error *err)
{
    char quote[64];
    return clef__fail(err, CLEF_E_FORMAT, "BPE: merge %u: %s \"%s\" is not in the vocabulary", bpe->next_rank,
                      what, clef__quote_text(text, n, quote));
}

clef_status clef__bpe_merge(clef__token_model *model, const char *left, size_t n_left, const char *right,
                            size_t n_right, clef_error *err)
{
    clef__bpe *bpe = (clef__bpe *)model;
    const clef__vocab *vocab = model->vocab;
    char joined[CLEF_MAX_PIECE * 4];
    const int32_t l = clef__vocab_find(vocab, left, n_left), r = clef__vocab_find(vocab, right, n_right);
    if (l < 0)
        return not_there(bpe, "left part", left, n_left, err);
    if (r < 0)
        return not_there(bpe, "right part", right, n_right, err);
    const size_t skip = n_right >= bpe->n_prefix ? bpe->n_prefix : 0; /* "a" and "##b" become "ab" */
    if (n_left + n_right > sizeof joined)
        return not_there(bpe, "the long result of", left, n_left, err);
    memcpy(joined, left, n_left);
    memcpy(joined + n_left, right + skip, n_right - skip);
    const int32_t id = clef__vocab_find(vocab, joined, n_left + n_right - skip);
    if (id < 0)
        return not_there(bpe, "result", joined, n_left + n_right - skip, err);
    bpe->merges_bytes |= l == bpe->opts.unk || r == bpe->opts.unk || clef__fallback_byte(left, n_left) >= 0 ||
                         clef__fallback_byte(right, n_right) >= 0;
    clef__bpe_slot *slot = clef__bpe_find_slot(bpe, (uint64_t)(uint32_t)l << 32 | (uint32_t)r);
    if (slot->id < 0 && ++bpe->n_pairs >= bpe->n_slots)
        return clef__fail(err, CLEF_E_LIMIT, "BPE: more merges than expected");
    *slot = (clef__bpe_slot){
        .key = (uint64_t)(uint32_t)l << 32 | (uint32_t)r, .rank = bpe->next_rank++, .id = id};
    return CLEF_OK;
}

clef_status clef__bpe_merge_line(clef__token_model *model, const char *line, size_t n, clef_error *err)
{
    const char *space = memchr(line, ' ', n);
    const size_t n_left = space ? (size_t)(space - line) : n;
    if (!space || memchr(space + 1, ' ', n - n_left - 1)) {
        char quote[64];
        return clef__fail(err, CLEF_E_FORMAT, "BPE: merge %u \"%s\" is not two tokens with one space between",
                          ((const clef__bpe *)model)->next_rank, clef__quote_text(line, n, quote));
    }
    return clef__bpe_merge(model, line, n_left, space + 1, n - n_left - 1, err);
}

clef_status clef__bpe_create_scored(const clef__vocab *vocab, const clef__bpe_opts *opts,
                                    clef__token_model **out, clef_error *err)
{
    clef__bpe *bpe = new_bpe(vocab, opts, out);
    if (!bpe)
        return clef__fail(err, CLEF_E_NOMEM, "BPE: no memory");
    bpe->base.encode = clef__bpe_encode_by_score;
    bpe->base.kind = opts->bytes ? CLEF_TOKENIZER_BPE : CLEF_TOKENIZER_SENTENCEPIECE;
    bpe->pair = clef__bpe_pair_by_score;
    bpe->ranks = calloc((size_t)vocab->n_tokens, sizeof *bpe->ranks);
    return bpe->ranks ? CLEF_OK
                      : clef__fail(err, CLEF_E_NOMEM, "BPE: no memory for %d scores", vocab->n_tokens);
}

clef_status clef__bpe_score(clef__token_model *model, int32_t id, double score, clef_error *err)
{
    clef__bpe *bpe = (clef__bpe *)model;
    const float narrow = (float)score + 0.0f; /* -0 and 0 are the same score */
    uint32_t bits;
    if (!isfinite(score))
        return clef__fail(err, CLEF_E_FORMAT, "BPE: the score of token %d is not finite", id);
    memcpy(&bits, &narrow, sizeof bits);
    /* Maps the float to an integer of the same order and inverts it: the best score gets the lowest rank. */
    bpe->ranks[id] = ~(bits & 0x80000000u ? ~bits : bits | 0x80000000u);
    const clef__token *token = &model->vocab->tokens[id];
    if (clef__vocab_map_get(&bpe->pieces, token->text, token->n_text) >= 0)
        return CLEF_OK;
    return clef__vocab_map_put(&bpe->pieces, token->text, token->n_text, id, err);
}

double clef__bpe_score_of(const clef__token_model *model, int32_t id)
{
    const clef__bpe *bpe = (const clef__bpe *)model;
    const uint32_t ordered = ~bpe->ranks[id], bits = ordered & 0x80000000u ? ordered & 0x7FFFFFFFu : ~ordered;
    float score;
    memcpy(&score, &bits, sizeof score);
    return bpe->ranks[id] ? (double)score : 0;
}

int clef__is_bpe(const clef__token_model *model)
{
    return model->destroy == destroy_bpe;
}
