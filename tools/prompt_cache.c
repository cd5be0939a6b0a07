/* clef run --prompt-cache. */
#include "tools/prompt_cache.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/common.h"

static int is_missing(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f)
        fclose(f);
    return !f && errno == ENOENT;
}

int cli_prompt_cache_check(const char *path, const clef_model *model, clef_dtype kv_type,
                           const clef_lora_set *loras, int32_t lora)
{
    clef_error err = {0};
    if (is_missing(path) || clef_session_check(model, kv_type, loras, lora, path, &err) == CLEF_OK)
        return CLI_GO_ON;
    return cli_report(&err);
}

static int32_t common(const int32_t *a, int32_t n_a, const int32_t *b, int32_t n_b)
{
    int32_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

static int32_t ids_to_keep(const clef_session *session, const clef_hparams *hparams, const cli_prompt *prompt)
{
    const int32_t n_past = clef_session_n_past(session);
    const int32_t same = common(clef_session_ids(session), n_past, prompt->ids, prompt->n - 1);
    return hparams->linear_taps && same < n_past ? 0 : same;
}

static int has_same_source(const clef_session *session, const cli_prompt *prompt)
{
    int32_t n;
    const int32_t *source = clef_session_source(session, &n);
    return n == prompt->n_source && common(source, n, prompt->source, n) == n;
}

int cli_prompt_cache_load(const char *path, clef_session *session, const clef_hparams *hparams,
                          cli_prompt *prompt)
{
    clef_error err = {0};
    prompt->n_kept = prompt->has_source = 0;
    if (is_missing(path))
        return CLI_GO_ON;
    const clef_status status = clef_session_load(session, path, &err);
    if (status == CLEF_E_LIMIT && prompt->n_source)
        return CLI_GO_ON;
    if (status != CLEF_OK)
        return cli_report(&err);
    prompt->has_source = prompt->n_source && has_same_source(session, prompt);
    if (!prompt->n_source || prompt->has_source)
        prompt->n_kept = ids_to_keep(session, hparams, prompt);
    return clef_session_keep(session, prompt->n_kept, &err) == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

int cli_prompt_cache_save(const char *path, clef_session *session)
{
    clef_error err = {0};
    return clef_session_save(session, path, &err) == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}
