/* Where templates come from: the model's files, and the built-in ones. */
#ifndef CLEF_TEXT_TEMPLATE_SOURCE_H
#define CLEF_TEXT_TEMPLATE_SOURCE_H

#include "text/template/engine.h"

/** Sets bos_token, eos_token, unk_token, pad_token, .. to what the model's tokenizer_config.json or GGUF
 *  file says. A file that is missing sets nothing. */
void clef__define_special_tokens(clef__tpl *t, const char *model);

#endif
