/* A file of logits: the text "_logits_"; int32 n_context, n_vocab, n_windows; int32 ids [n_windows,
 * n_context]; then for each token of a window's second half but the last: float scale, least; uint16 codes
 * [n_vocab], and one more if that is odd. log p of a token is scale code + least; what is less than e^-16 of
 * the likeliest is cut (llama.cpp, tools/perplexity). */
#include "tools/inspect/divergence.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/json.h"

static const char magic[] = "_logits_";
enum { N_MAGIC = sizeof magic - 1, HEAD = 4, MOST_CODE = 65535, CUT = 16 };

static size_t codes_of(const cli_divergence *d)
{
    return HEAD + ((size_t)d->n_vocab + 1) / 2 * 2;
}

static clef_status make_room(cli_divergence *d, clef_error *err)
{
    const int64_t each = d->n_context - 1 - d->n_context / 2;
    if (each < 1)
        return cli_error(err, CLEF_E_ARG, "windows of %" PRId32 " tokens score none, expected 3 or more",
                         d->n_context);
    d->room = d->n_windows * each;
    d->codes = calloc(codes_of(d), sizeof *d->codes);
    d->kl = d->is_written ? NULL : malloc(((size_t)d->room + 1) * sizeof *d->kl);
    d->change = d->is_written ? NULL : malloc(((size_t)d->room + 1) * sizeof *d->change);
    return d->codes && (d->is_written || (d->kl && d->change))
               ? CLEF_OK
               : cli_error(err, CLEF_E_NOMEM, "out of host memory");
}

static clef_status cannot_write(const cli_divergence *d, clef_error *err)
{
    return cli_error(err, CLEF_E_IO, "%s: cannot write: %s", d->path, strerror(errno));
}

clef_status cli_divergence_create(cli_divergence *d, const char *path, int32_t n_context, int32_t n_vocab,
                                  int32_t n_windows, const int32_t *ids, clef_error *err)
{
    const int32_t numbers[] = {n_context, n_vocab, n_windows};
    *d = (cli_divergence){.path = path,
                          .is_written = 1,
                          .n_context = n_context,
                          .n_vocab = n_vocab,
                          .n_windows = n_windows,
                          .file = fopen(path, "wb")};
    if (!d->file)
        return cannot_write(d, err);
    fwrite(magic, 1, N_MAGIC, d->file);
    fwrite(numbers, sizeof *numbers, 3, d->file);
    fwrite(ids, sizeof *ids, (size_t)n_windows * (size_t)n_context, d->file);
    return ferror(d->file) ? cannot_write(d, err) : make_room(d, err);
}

clef_status cli_divergence_open(cli_divergence *d, const char *path, clef_error *err)
{
    char begin[N_MAGIC];
    int32_t numbers[3] = {0};
    *d = (cli_divergence){.path = path, .file = fopen(path, "rb")};
    if (!d->file)
        return cli_error(err, CLEF_E_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fread(begin, 1, N_MAGIC, d->file) != N_MAGIC || memcmp(begin, magic, N_MAGIC) != 0)
        return cli_error(err, CLEF_E_FORMAT, "%s: expected a file that --save-logits has written", path);
    if (fread(numbers, sizeof *numbers, 3, d->file) != 3 || numbers[0] < 2 || numbers[0] > 1 << 24 ||
        numbers[1] < 1 || numbers[1] > 1 << 24 || numbers[2] < 1 || numbers[2] > INT32_MAX / numbers[0])
        return cli_error(err, CLEF_E_FORMAT,
                         "%s: windows of %" PRId32 " tokens, %" PRId32 " tokens in the vocabulary, %" PRId32
                         " windows: expected other numbers",
                         path, numbers[0], numbers[1], numbers[2]);
    d->n_context = numbers[0];
    d->n_vocab = numbers[1];
    d->n_windows = numbers[2];
    return CLEF_OK;
}

clef_status cli_divergence_check(cli_divergence *d, int32_t n_vocab, int32_t n_windows, const int32_t *ids,
                                 clef_error *err)
{
    const size_t n = (size_t)d->n_windows * (size_t)d->n_context;
    if (d->n_vocab != n_vocab)
        return cli_error(err, CLEF_E_FORMAT,
                         "%s: is of a vocabulary of %" PRId32 " tokens, the model's has %" PRId32, d->path,
                         d->n_vocab, n_vocab);
    if (d->n_windows > n_windows)
        return cli_error(err, CLEF_E_FORMAT,
                         "%s: is of %" PRId32 " windows of %" PRId32 " tokens, the text has %" PRId32,
                         d->path, d->n_windows, d->n_context, n_windows);
    int32_t *own = malloc(n * sizeof *own);
    if (!own)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    const size_t n_read = fread(own, sizeof *own, n, d->file);
    size_t same = 0;
    while (same < n_read && own[same] == ids[same])
        same++;
    free(own);
    if (n_read < n)
        return cli_error(err, CLEF_E_FORMAT, "%s: ends within its ids", d->path);
    if (same < n)
        return cli_error(err, CLEF_E_FORMAT, "%s: is of another text or tokenizer: token %zu is not the same",
                         d->path, same);
    return make_room(d, err);
}

/* ---- a token ---------------------------------------------------------------------------------- */

/* log of the sum of e^x; *most: the largest x. */
static double log_sum(const float *x, int32_t n, float *most, int32_t *at_most)
{
    double sum = 0;
    *most = x[0];
    *at_most = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > *most) {
            *most = x[i];
            *at_most = i;
        }
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)*most);
    return log(sum) + (double)*most;
}

static clef_status write_token(cli_divergence *d, const float *logits, clef_error *err)
{
    float most, least = logits[0];
    int32_t at_most;
    const double all = log_sum(logits, d->n_vocab, &most, &at_most);
    for (int32_t i = 1; i < d->n_vocab; i++)
        least = logits[i] < least ? logits[i] : least;
    least = least > most - CUT ? least : most - CUT;
    const float head[] = {(most - least) / MOST_CODE, (float)((double)least - all)};
    const float inverse = head[0] > 0 ? 1 / head[0] : 0;
    memcpy(d->codes, head, sizeof head);
    for (int32_t i = 0; i < d->n_vocab; i++) {
        const float code = rintf(inverse * (logits[i] - least));
        d->codes[HEAD + i] = (uint16_t)(code < 0 ? 0 : code > MOST_CODE ? MOST_CODE : code);
    }
    return fwrite(d->codes, sizeof *d->codes, codes_of(d), d->file) == codes_of(d) ? CLEF_OK
                                                                                   : cannot_write(d, err);
}

static clef_status compare_token(cli_divergence *d, const float *logits, int32_t target, clef_error *err)
{
    float most, head[2], best = -INFINITY;
    int32_t at_most, at_best = 0;
    double kl = 0;
    if (d->n == d->room || fread(d->codes, sizeof *d->codes, codes_of(d), d->file) != codes_of(d))
        return cli_error(err, CLEF_E_FORMAT, "%s: ends after %" PRId64 " tokens", d->path, d->n);
    memcpy(head, d->codes, sizeof head);
    if (!isfinite(head[0]) || !isfinite(head[1]) || head[0] < 0)
        return cli_error(err, CLEF_E_FORMAT, "%s: token %" PRId64 ": a scale of %g and a least of %g",
                         d->path, d->n, (double)head[0], (double)head[1]);
    const double all = log_sum(logits, d->n_vocab, &most, &at_most);
    for (int32_t i = 0; i < d->n_vocab; i++) {
        const float base = head[0] * (float)d->codes[HEAD + i] + head[1];
        if (base > best) {
            best = base;
            at_best = i;
        }
        if (base > -CUT)
            kl += exp((double)base) * ((double)base - (double)logits[i] + all);
    }
    const double nats_base = -(double)(head[0] * (float)d->codes[HEAD + target] + head[1]);
    if (!isfinite(kl))
        return cli_error(err, CLEF_E_NOT_FINITE, "the divergence at token %" PRId64 " is %g", d->n, kl);
    d->base_nats += nats_base;
    d->n_same += at_best == at_most;
    d->change[d->n] = (float)(exp((double)logits[target] - all) - exp(-nats_base));
    d->kl[d->n++] = (float)kl;
    return CLEF_OK;
}

clef_status cli_divergence_token(cli_divergence *d, const float *logits, int32_t target, clef_error *err)
{
    return d->is_written ? write_token(d, logits, err) : compare_token(d, logits, target, err);
}

clef_status cli_divergence_finish(cli_divergence *d, clef_error *err)
{
    FILE *file = d->file;
    if (!d->is_written)
        return CLEF_OK;
    d->file = NULL;
    const int failed = ferror(file);
    if (fclose(file) == 0 && !failed)
        return CLEF_OK;
    remove(d->path);
    return cannot_write(d, err);
}

void cli_divergence_close(cli_divergence *d)
{
    if (d->file)
        fclose(d->file);
    if (d->file && d->is_written) /* it was not finished */
        remove(d->path);
    free(d->kl);
    free(d->change);
    free(d->codes);
    *d = (cli_divergence){0};
}

/* ---- the result ------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Of sorted numbers; between two of them along the line. */
static double quantile(const float *sorted, int64_t n, double q)
{
    const double at = q * (double)(n - 1);
    const int64_t i = (int64_t)at;
    return i + 1 < n ? (double)sorted[i] + (at - (double)i) * ((double)sorted[i + 1] - (double)sorted[i])
                     : (double)sorted[n - 1];
}

typedef struct moments {
    double mean, error, root; /* error: of the mean; root: of the mean of squares */
} moments;

static moments moments_of(const float *x, int64_t n)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    const double mean = sum / (double)n, variance = squares / (double)n - mean * mean;
    return (moments){mean, n > 1 && variance > 0 ? sqrt(variance / (double)(n - 1)) : 0,
                     sqrt(squares / (double)n)};
}

static const struct {
    const char *name, *key;
    double q;
} quantiles[] = {{"maximum", "kl_maximum", 1}, {"99.9 %", "kl_99.9", 0.999}, {"99 %", "kl_99", 0.99},
                 {"95 %", "kl_95", 0.95},      {"90 %", "kl_90", 0.9},       {"median", "kl_median", 0.5},
                 {"10 %", "kl_10", 0.1},       {"5 %", "kl_5", 0.05},        {"1 %", "kl_1", 0.01},
                 {"minimum", "kl_minimum", 0}};
enum { N_QUANTILES = sizeof quantiles / sizeof *quantiles };

void cli_divergence_print(cli_divergence *d, double nats)
{
    const double base = d->base_nats / (double)d->n, same = (double)d->n_same / (double)d->n;
    const moments kl = moments_of(d->kl, d->n), p = moments_of(d->change, d->n);
    qsort(d->kl, (size_t)d->n, sizeof *d->kl, by_value);
    printf("KL divergence %.6f ± %.6f from %s\n", kl.mean, kl.error, d->path);
    for (int i = 0; i < N_QUANTILES; i++)
        printf("  %-8s %.6f\n", quantiles[i].name, quantile(d->kl, d->n, quantiles[i].q));
    printf("perplexity of the base %.4f, ratio %.6f\n", exp(base), exp(nats - base));
    printf("same likeliest token %.3f ± %.3f %%\n", 100 * same,
           d->n > 1 ? 100 * sqrt(same * (1 - same) / (double)(d->n - 1)) : 0);
    printf("change of p: mean %.3f ± %.3f %%, "
           "root of the mean square %.3f %%\n",
           100 * p.mean, 100 * p.error, 100 * p.root);
}

void cli_divergence_json(cli_divergence *d, double nats, int32_t *n, FILE *to)
{
    const double base = d->base_nats / (double)d->n;
    const moments kl = moments_of(d->kl, d->n), p = moments_of(d->change, d->n);
    qsort(d->kl, (size_t)d->n, sizeof *d->kl, by_value);
    cli_json_member_number(to, n, "kl", kl.mean);
    cli_json_member_number(to, n, "kl_error", kl.error);
    for (int i = 0; i < N_QUANTILES; i++)
        cli_json_member_number(to, n, quantiles[i].key, quantile(d->kl, d->n, quantiles[i].q));
    cli_json_member_number(to, n, "base_value", exp(base));
    cli_json_member_number(to, n, "ratio", exp(nats - base));
    cli_json_member_number(to, n, "same_top", (double)d->n_same / (double)d->n);
    cli_json_member_number(to, n, "p_change", p.mean);
    cli_json_member_number(to, n, "p_change_root", p.root);
}
