/* What Whisper's decoder may sample next: no suppressed tokens, and timestamps in pairs that do not decrease
 * (arXiv:2212.04356, section 2.3; OpenAI's decoding.py, ApplyTimestampRules). */
#include <math.h>

#include "media/speech/speech.h"

static void ban_range(float *logits, int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++)
        logits[i] = -INFINITY;
}

static void ban_list(float *logits, const clef__id_list *ids)
{
    for (int32_t i = 0; i < ids->n; i++)
        logits[ids->ids[i]] = -INFINITY;
}

/* After a timestamp: the second of a pair, or text. Times do not decrease. */
static void ban_by_times(const clef__speech_tokens *k, const int32_t *ids, int32_t n, int32_t n_vocab,
                         float *logits)
{
    const int is_time = n >= 1 && ids[n - 1] >= k->first_time,
              was_time = n < 2 || ids[n - 2] >= k->first_time;
    int32_t last = -1;
    for (int32_t i = 0; i < n; i++)
        last = ids[i] >= k->first_time ? ids[i] : last;
    if (is_time && was_time)
        ban_range(logits, k->first_time, n_vocab);
    else if (is_time)
        ban_range(logits, 0, k->end);
    if (last >= 0)
        ban_range(logits, k->first_time, is_time && !was_time ? last : last + 1);
}

/* If a timestamp, whichever, is likelier than each text token, there is one. */
static void ban_text_before_time(const clef__speech_tokens *k, int32_t n_vocab, float *logits)
{
    float most_text = -INFINITY, most_time = -INFINITY;
    double sum = 0;
    for (int32_t i = 0; i < k->first_time; i++)
        most_text = logits[i] > most_text ? logits[i] : most_text;
    for (int32_t i = k->first_time; i < n_vocab; i++)
        most_time = logits[i] > most_time ? logits[i] : most_time;
    for (int32_t i = k->first_time; i < n_vocab && most_time > -INFINITY; i++)
        sum += exp((double)logits[i] - (double)most_time);
    if (most_time > -INFINITY && (double)most_time + log(sum) > (double)most_text)
        ban_range(logits, 0, k->first_time);
}

void clef__speech_ban(const clef_transcriber *t, const clef__window *w, const int32_t *ids, int32_t n,
                      float *logits)
{
    const clef__speech_tokens *k = &t->tokens;
    const int32_t n_vocab = t->hp->n_vocab;
    ban_list(logits, &t->model->rules.suppress);
    if (n == 0)
        ban_list(logits, &t->model->rules.begin_suppress);
    if (!w->is_timed)
        return;
    logits[k->no_timestamps] = -INFINITY;
    ban_by_times(k, ids, n, n_vocab, logits);
    if (n == 0)
        ban_range(logits, 0, k->first_time);
    if (n == 0 && t->max_initial >= 0 && k->first_time + t->max_initial < n_vocab)
        ban_range(logits, k->first_time + t->max_initial + 1, n_vocab);
    ban_text_before_time(k, n_vocab, logits);
}
