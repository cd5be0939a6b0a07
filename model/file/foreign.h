/* What a file is that is not what its name says. */
#ifndef CLEF_MODEL_FOREIGN_H
#define CLEF_MODEL_FOREIGN_H

#include <stddef.h>

#include "clef/status.h"

/** CLEF_OK where the first bytes say nothing. Else CLEF_E_FORMAT, with a message that says what the file is
 *  and what to do: a Git LFS pointer, a page of HTML, weights of PyTorch, Keras or GGML, an archive, JSON, a
 *  .safetensors or GGUF file.
 *
 *  name  of the file, in the message;  expected  what it should be: "a GGUF file". */
clef_status clef__foreign(const void *data, size_t n_bytes, const char *name, const char *expected,
                          clef_error *err);
/** The same for texts, JSON among them: CLEF_OK for all but Git LFS pointers and pages of HTML. */
clef_status clef__foreign_text(const void *data, size_t n_bytes, const char *name, const char *expected,
                               clef_error *err);

#endif
