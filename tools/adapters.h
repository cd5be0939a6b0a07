/* The adapters that --lora names. */
#ifndef CLEF_TOOLS_ADAPTERS_H
#define CLEF_TOOLS_ADAPTERS_H

#include "tools/common.h"

/** The option; the command's options struct has a cli_list at `offset`. */
#define LORA_OPTION(offset_)                                                                              \
    {.names = "lora", .type = CLI_LIST, .value = "[NAME=]PATH[:SCALE]", .offset = offset_,                \
     .help = "use this LoRA adapter, a PEFT folder or a GGUF file, beside the weights; SCALE multiplies " \
             "what it adds [1]"}

/** Splits "[NAME=]PATH[:SCALE]": writes PATH to `path`, and to *scale the scale, 1 if there is none. A ':'
 *  that no number follows belongs to the path. CLEF_E_ARG when the path is empty or too long. */
clef_status cli_adapter_split(const char *text, char path[4096], float *scale, clef_error *err);

/** Opens the adapters of the list for a model and makes a set of them; NULL for an empty list. One sequence
 *  uses one adapter, so that several are CLEF_E_ARG. Free with clef_lora_set_destroy(). */
clef_status cli_adapters_open(const cli_list *list, clef_model *model, clef_lora_set **out, clef_error *err);

#endif
