/* The adapters that --lora names. */
#ifndef CLEF_TOOLS_ADAPTERS_H
#define CLEF_TOOLS_ADAPTERS_H

#include "tools/cli/common.h"

/** The option; the command's options struct has a cli_list at `offset`. */
#define LORA_OPTION(offset_)                                                                              \
    {.names = "lora", .type = CLI_LIST, .value = "[NAME=]PATH[:SCALE]", .offset = offset_,                \
     .help = "use this LoRA adapter, a PEFT folder or a GGUF file, beside the weights; SCALE multiplies " \
             "what it adds [1]"}

/** The name that means no adapter. */
#define NO_ADAPTER "none"

/** What an item of --lora says. */
typedef struct cli_adapter {
    char  name[64]; /* of "NAME=", else the last name of the path without ".gguf" */
    char  path[4096];
    float scale; /* 1 if there is none */
} cli_adapter;

/** Splits "[NAME=]PATH[:SCALE]". A ':' that no number follows belongs to the path. CLEF_E_ARG when the name
 *  or the path is empty or too long, or the name is NO_ADAPTER. */
clef_status cli_adapter_split(const char *text, cli_adapter *out, clef_error *err);

/** Adapters of a model and their names; number i of the set is names[i - 1]. */
typedef struct cli_adapters {
    clef_lora_set *set; /* NULL: none */
    char (*names)[64];
    int32_t n;
} cli_adapters;

/** Opens the adapters of the list. CLEF_E_ARG also for two of one name. Free with cli_adapters_finish(). */
clef_status cli_adapters_open_all(const cli_list *list, clef_model *model, cli_adapters *out,
                                  clef_error *err);
void        cli_adapters_finish(cli_adapters *adapters);
/** The number of the adapter of that name, 0 if there is none. */
int32_t     cli_adapters_find(const cli_adapters *adapters, const char *name);
/** Writes the names, for a message: "'a', 'b'", or "none". What has no room is reported by "...". */
void        cli_adapters_text(const cli_adapters *adapters, char *out, size_t n_bytes);

/** Opens the adapter of the list for a model and makes a set of it; NULL for an empty list. One sequence
 *  uses one adapter, so that several are CLEF_E_ARG. Free with clef_lora_set_destroy(). */
clef_status cli_adapters_open(const cli_list *list, clef_model *model, clef_lora_set **out, clef_error *err);

#endif
