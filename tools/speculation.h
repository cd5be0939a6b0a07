/* The flags of speculation, for the commands that have them. */
#ifndef CLEF_TOOLS_SPECULATION_H
#define CLEF_TOOLS_SPECULATION_H

#include "clef/batch.h"
#include "tools/cli/common.h"

typedef struct cli_speculation {
    const char *spec, *draft;           /* NULL: not given */
    int32_t     max_seqs, draft_tokens; /* 0: not given */
} cli_speculation;

/* clang-format off */
#define SPECULATION_OPTIONS(options, field)                                                             \
    {.names = "draft", .type = CLI_TEXT, .value = "MODEL", .offset = offsetof(options, field.draft),    \
     .help = "a smaller model with the same vocabulary drafts tokens; the texts stay the same"},      \
    {.names = "draft-tokens", .type = CLI_INT, .value = "N", .lo = 1, .hi = 8,                          \
     .offset = offsetof(options, field.draft_tokens),                                                   \
     .help = "with --draft or --spec mtp: the most tokens that are drafted at once [4]"},             \
    {.names = "spec-max-seqs", .type = CLI_INT, .value = "N", .lo = 1, .hi = 4096,                      \
     .offset = offsetof(options, field.max_seqs),                                                       \
     .help = "draft nothing while more than N sequences run [4]"}
/* clang-format on */

/** Sets the options of a batch, but for the draft's model. `by_draft`: --spec may also be "draft", which
 *  needs --draft. CLI_GO_ON, or CLI_USAGE after a message. */
int cli_speculation_parse(const cli_speculation *flags, const char *command, int by_draft,
                          clef_batch_opts *out);

#endif
