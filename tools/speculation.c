/* The flags of speculation. */
#include "tools/speculation.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MIN = 3, DEFAULT_MAX = 4, MOST = 32 };

/* "ngram" or "ngram:MIN,MAX". Returns 0 if it is neither. */
static int parse_ngram(const char *text, clef_batch_opts *out)
{
    char *end;
    long min = DEFAULT_MIN, max = DEFAULT_MAX;
    if (strncmp(text, "ngram", 5) != 0 || (text[5] && text[5] != ':'))
        return 0;
    if (text[5]) {
        min = max = strtol(text + 6, &end, 10);
        if (end == text + 6 || (*end && *end != ','))
            return 0;
        const char *second = end + 1;
        if (*end) {
            max = strtol(second, &end, 10);
            if (end == second || *end)
                return 0;
        }
    }
    if (min < 1 || max < min || max > MOST)
        return 0;
    out->ngram_min = (int32_t)min;
    out->ngram_max = (int32_t)max;
    return 1;
}

int cli_speculation_parse(const cli_speculation *flags, const char *command, int by_draft,
                          clef_batch_opts *out)
{
    const int is_draft = by_draft && flags->spec && strcmp(flags->spec, "draft") == 0,
              is_mtp = flags->spec && strcmp(flags->spec, "mtp") == 0;
    out->mtp = is_mtp;
    out->spec_max_sequences = flags->max_seqs;
    out->draft_tokens = flags->draft_tokens;
    if (is_draft && !flags->draft)
        return cli_fail(CLI_USAGE, "%s: --spec draft needs --draft MODEL", command);
    if (flags->draft_tokens && !flags->draft && !is_mtp)
        return cli_fail(CLI_USAGE, "%s: --draft-tokens needs --draft or --spec mtp", command);
    if (flags->max_seqs && !flags->spec && !flags->draft)
        return cli_fail(CLI_USAGE, "%s: --spec-max-seqs needs --spec or --draft", command);
    if (!flags->spec || is_draft)
        return CLI_GO_ON;
    if (!is_mtp && !parse_ngram(flags->spec, out))
        return cli_fail(
            CLI_USAGE,
            "%s: --spec: expected mtp, ngram or ngram:MIN,MAX with 1 <= MIN <= MAX <= %d%s, got '%.40s'",
            command, MOST, by_draft ? ", or draft" : "", flags->spec);
    if (flags->draft)
        return cli_fail(CLI_USAGE, "%s: expected --spec %s or --draft, not both", command,
                        is_mtp ? "mtp" : "ngram");
    return CLI_GO_ON;
}
