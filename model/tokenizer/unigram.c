/* Unigram (Kudo 2018, arXiv:1804.10959) cuts a text into the pieces with the highest sum of scores. Viterbi's
 * algorithm finds them with a trie of all pieces. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/fail.h"
#include "model/file/utf8.h"
#include "model/tokenizer/byte_trie.h"
#include "model/tokenizer/models.h"

/* The best path that ends at one byte. */
struct clef__viterbi {
    double score;
    int32_t id;    /* of its last piece; -1: an unknown character */
    uint32_t size; /* bytes of that piece; 0: no path ends here */
};

typedef struct unigram {
    clef__token_model base;
    clef__unigram_opts opts;
    clef__byte_trie trie;
    double *scores;
    double least; /* lowest score of a piece */
    size_t longest;
    int32_t fallback_ids[256];
} unigram;

/* The ids of a path are written as soon as no other path crosses its end. So memory grows with the longest
 * stretch between two such places, not with the text. */
typedef struct walk {
    const unigram *model;
    clef__encoding *enc;
    const char *text;
    size_t n, base, at; /* the path before `base` is written; enc->viterbi[0] is the node at `base` */
    size_t reach;       /* the farthest byte where a path ends */
    int in_unknown;     /* the last piece written was unknown */
} walk;

static clef_status reserve_nodes(walk *w, size_t n)
{
    clef__encoding *enc = w->enc;
    if (n <= enc->n_viterbi)
        return CLEF_OK;
    const size_t capacity = n + n / 2 + 256;
    clef__viterbi *nodes = realloc(enc->viterbi, capacity * sizeof *nodes);
    if (!nodes)
        return clef__fail(enc->err, CLEF_E_NOMEM, "Unigram: no memory for %zu bytes of text", capacity);
    enc->viterbi = nodes;
    enc->n_viterbi = capacity;
    return CLEF_OK;
}

static clef_status push_unknown(walk *w, size_t at, size_t size)
{
    const unigram *self = w->model;
    clef_status st = CLEF_OK;
    int falls_back = self->opts.byte_fallback;
    for (size_t i = 0; i < size; i++)
        falls_back = falls_back && self->fallback_ids[(uint8_t)w->text[at + i]] >= 0;
    for (size_t i = 0; falls_back && i < size && st == CLEF_OK; i++)
        st = clef__ids_push(&w->enc->ids, self->fallback_ids[(uint8_t)w->text[at + i]], w->enc->err);
    if (falls_back || w->in_unknown)
        return st;
    w->in_unknown = 1;
    return clef__ids_push(&w->enc->ids, self->opts.unk, w->enc->err);
}

/* Writes the best path from `base` to `at`: reverses its links in place, then follows them. */
static clef_status write_path(walk *w)
{
    clef__viterbi *nodes = w->enc->viterbi;
    const size_t n = w->at - w->base;
    const double score = nodes[n].score;
    clef__viterbi after = {0};
    for (size_t i = n; i > 0;) {
        const clef__viterbi here = nodes[i];
        nodes[i] = after;
        after = here;
        i -= here.size;
        if (i == 0)
            nodes[0] = after;
    }
    clef_status st = CLEF_OK;
    for (size_t i = 0; i < n && st == CLEF_OK;) {
        const clef__viterbi piece = nodes[i];
        if (piece.id < 0)
            st = push_unknown(w, w->base + i, piece.size);
        else
            st = clef__ids_push(&w->enc->ids, piece.id, w->enc->err);
        w->in_unknown = w->in_unknown && piece.id < 0;
        i += piece.size;
    }
    nodes[0] = (clef__viterbi){.score = score};
    w->base = w->reach = w->at;
    return st;
}

static void offer_path(walk *w, size_t end, int32_t id, double score)
{
    clef__viterbi *node = &w->enc->viterbi[end - w->base];
    while (w->reach < end)
        w->enc->viterbi[++w->reach - w->base].size = 0;
    if (node->size > 0 && score <= node->score)
        return;
    node->score = score;
    node->id = id;
    node->size = (uint32_t)(end - w->at);
}

/* Rounds sums as the original library does, because rounding decides between equal paths. */
static double add_scores(const unigram *self, double score, double before)
{
    return self->opts.single ? (double)((float)score + (float)before) : score + before;
}

/* SentencePiece (since 0.2.2) subtracts the sum so far once a float can no longer hold it precisely. */
static double rebase_scores(walk *w, double before)
{
    const float most = 100000.0f;
    if (!w->model->opts.single || fabs(before) <= (double)most)
        return before;
    for (size_t i = w->at; i <= w->reach; i++) {
        clef__viterbi *node = &w->enc->viterbi[i - w->base];
        node->score = (double)((float)node->score - (float)before);
    }
    return 0;
}

/* Tries all pieces that begin at w->at. */
static void extend_paths(walk *w)
{
    const unigram *self = w->model;
    const double before = rebase_scores(w, w->enc->viterbi[w->at - w->base].score);
    const size_t n_char = clef__utf8_size(w->text[w->at]);
    int has_char = 0;
    uint32_t node = 0;
    for (size_t i = w->at; i < w->n; i++) {
        node = clef__byte_trie_step(&self->trie, node, (uint8_t)w->text[i]);
        if (!node)
            break;
        const int32_t id = self->trie.ids[node];
        if (id < 0)
            continue;
        const size_t size = i + 1 - w->at;
        const int is_unknown = id == self->opts.unk && !self->opts.byte_fallback;
        offer_path(w, i + 1, is_unknown ? -1 : id, add_scores(self, self->scores[id], before));
        has_char |= size == n_char;
    }
    if (!has_char)
        offer_path(w, w->at + n_char, -1, add_scores(self, add_scores(self, self->least, -10), before));
}

static clef_status encode_unigram(const clef__token_model *model, clef__encoding *enc, const char *text,
                                  size_t n)
{
    walk w = {.model = (const unigram *)model, .enc = enc, .text = text, .n = n};
    clef_status st = reserve_nodes(&w, w.model->longest + 8);
    if (st)
        return st;
    enc->viterbi[0] = (clef__viterbi){0};
    while (w.at < n && st == CLEF_OK) {
        if (w.at == w.reach && w.at > w.base)
            st = write_path(&w);
        if (st == CLEF_OK)
            st = reserve_nodes(&w, w.at - w.base + w.model->longest + 8);
        if (st)
            return st;
        extend_paths(&w);
        w.at += clef__utf8_size(text[w.at]);
    }
    return st || n == 0 ? st : write_path(&w);
}

/* ---- building */

static void destroy_unigram(clef__token_model *model)
{
    unigram *self = (unigram *)model;
    clef__byte_trie_finish(&self->trie);
    free(self->scores);
    free(self);
}

static clef_status seal_unigram(clef__token_model *model, clef_error *err)
{
    unigram *self = (unigram *)model;
    (void)err;
    for (int i = 0; i < 256; i++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        self->fallback_ids[i] = clef__vocab_find(model->vocab, text, 6);
    }
    if (!isfinite(self->least) || self->least == (double)FLT_MAX)
        self->least = 0;
    return CLEF_OK;
}

clef_status clef__unigram_create(const clef__vocab *vocab, const clef__unigram_opts *opts,
                                 clef__token_model **out, clef_error *err)
{
    unigram *self = calloc(1, sizeof *self);
    if (!self)
        return clef__fail(err, CLEF_E_NOMEM, "Unigram: no memory");
    self->base = (clef__token_model){.encode = encode_unigram,
                                     .seal = seal_unigram,
                                     .destroy = destroy_unigram,
                                     .vocab = vocab,
                                     .kind = CLEF_TOKENIZER_UNIGRAM};
    self->opts = *opts;
    self->least = opts->single ? (double)FLT_MAX : INFINITY;
    *out = &self->base;
    self->scores = calloc((size_t)vocab->n_tokens, sizeof *self->scores);
    return self->scores ? CLEF_OK
                        : clef__fail(err, CLEF_E_NOMEM, "Unigram: no memory for %d scores", vocab->n_tokens);
}

clef_status clef__unigram_piece(clef__token_model *model, int32_t id, double score, clef_error *err)
{
    unigram *self = (unigram *)model;
    const clef__token *token = &model->vocab->tokens[id];
    if (!isfinite(score))
        return clef__fail(err, CLEF_E_FORMAT, "Unigram: the score of token %d is not finite", id);
    self->scores[id] = score;
    self->least = score < self->least ? score : self->least;
    if (token->n_text == 0)
        return CLEF_OK;
    self->longest = token->n_text > self->longest ? token->n_text : self->longest;
    return clef__byte_trie_put(&self->trie, token->text, token->n_text, id, err);
}

double clef__unigram_score_of(const clef__token_model *model, int32_t id)
{
    return ((const unigram *)model)->scores[id];
}
