/* The rules of generation_config.json (generation/logits_process.py of transformers), in its order. */
#include "model/session/rules.h"

#include <math.h>
#include <string.h>

static void ban(clef__sampler_token *t)
{
    t->z = -(double)INFINITY;
}

static void ban_all(const clef__id_list *ids, clef__sampler_token *tokens)
{
    for (int32_t i = 0; i < ids->n; i++)
        ban(&tokens[ids->ids[i]]);
}

static void ban_ends(const clef_hparams *hp, clef__sampler_token *tokens)
{
    if (hp->eos >= 0 && hp->eos < hp->n_vocab)
        ban(&tokens[hp->eos]);
    for (int32_t i = 0; i < hp->n_eos_more; i++)
        if (hp->eos_more[i] >= 0 && hp->eos_more[i] < hp->n_vocab)
            ban(&tokens[hp->eos_more[i]]);
}

/* The number of the text's first new token as transformers counts: of the two tokens that a target may start
 * with, the second one is new. */
static int32_t first_new(const clef__rules_place *p)
{
    return p->hp->n_decoder_layers && p->n_fed == 2 ? 1 : p->n_fed;
}

/* Adds each sequence's bias to its last id where the others end the text. */
static void bias_sequences(const clef__rules *r, const int32_t *text, int32_t n, clef__sampler_token *tokens)
{
    const int32_t *ids = r->sequences.ids;
    for (int32_t i = 0; i < r->n_sequences; i++) {
        int32_t length = 0;
        while (ids[length] >= 0)
            length++;
        const size_t before = (size_t)length - 1;
        if (length - 1 <= n && (!before || !memcmp(text + n - before, ids, before * sizeof *ids)))
            tokens[ids[before]].z += r->biases[i];
        ids += length + 1;
    }
}

/* A token of the source becomes likelier by a penalty above 1, once: it has no id in the meantime. */
static void favour(double penalty, const int32_t *source, int32_t n, clef__sampler_token *tokens)
{
    for (int32_t i = 0; i < n; i++) {
        clef__sampler_token *t = &tokens[source[i]];
        if (t->id >= 0)
            t->z = t->z < 0 ? t->z / penalty : t->z * penalty;
        t->id = -1;
    }
    for (int32_t i = 0; i < n; i++)
        tokens[source[i]].id = source[i];
}

/* Bans what would complete an n-gram of `in` again: its first n - 1 tokens end the text. */
static void ban_grams(int32_t size, const int32_t *in, int32_t n_in, const int32_t *text, int32_t n,
                      clef__sampler_token *tokens)
{
    const size_t before = (size_t)size - 1;
    if (n < size - 1)
        return;
    for (int32_t i = 0; i + size <= n_in; i++)
        if (!before ||
            (in[i] == text[n - size + 1] && !memcmp(in + i, text + n - before, before * sizeof *in)))
            ban(&tokens[in[i + size - 1]]);
}

/* Leaves the ids alone, each as likely. */
static void force(const int32_t *ids, int32_t n, clef__sampler_token *tokens, int32_t n_vocab)
{
    for (int32_t i = 0; i < n_vocab; i++)
        ban(&tokens[i]);
    for (int32_t i = 0; i < n; i++)
        tokens[ids[i]].z = 0;
}

void clef__rules_apply(const clef__rules_place *p, const int32_t *text, int32_t n,
                       clef__sampler_token *tokens, int32_t n_vocab)
{
    const clef__rules *r = p->rules;
    const int32_t *source = p->hp->n_decoder_layers ? p->source : text; /* of a decoder: the prompt */
    const int32_t n_source = p->hp->n_decoder_layers ? p->n_source : n < p->n_fed ? n : p->n_fed;
    const int32_t is_one = n == 1 && r->forced_bos >= 0, was_one = p->n_fed == 1 && r->forced_bos >= 0;
    bias_sequences(r, text, n, tokens);
    if (r->source_penalty != 1)
        favour(r->source_penalty, source, n_source, tokens);
    if (r->no_repeat)
        ban_grams(r->no_repeat, text, n, text, n, tokens);
    if (r->no_repeat_source)
        ban_grams(r->no_repeat_source, source, n_source, text, n, tokens);
    if (n < r->min_length || n - first_new(p) < r->min_new)
        ban_ends(p->hp, tokens);
    if (is_one)
        force(&r->forced_bos, 1, tokens, n_vocab);
    if (r->forced_eos.n && n == p->n_most - 1)
        force(r->forced_eos.ids, r->forced_eos.n, tokens, n_vocab);
    ban_all(&r->suppress, tokens);
    if (n == p->n_fed + was_one)
        ban_all(&r->begin_suppress, tokens);
}

void clef__rules_decay(const clef__rules_place *p, int32_t n, clef__sampler_token *tokens, int32_t n_tokens)
{
    const clef_hparams *hp = p->hp;
    const int32_t late = n - p->rules->decay_start - first_new(p);
    if (p->rules->decay == 1 || late <= 0)
        return;
    for (int32_t i = 0; i < n_tokens; i++) {
        int ends = tokens[i].id == hp->eos;
        for (int32_t k = 0; k < hp->n_eos_more; k++)
            ends |= tokens[i].id == hp->eos_more[k];
        if (ends && isfinite(tokens[i].z))
            tokens[i].z += fabs(tokens[i].z) * (pow(p->rules->decay, late) - 1);
    }
}
