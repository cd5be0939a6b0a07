/* Layers of models in their usual sizes, as graphs in the text form: what the kernels of a target are when
 * they matter. The cases of the op table are small, and of every form. */
#ifndef CLEF_LAB_KERNELS_LAYERS_H
#define CLEF_LAB_KERNELS_LAYERS_H

#include <stddef.h>
#include <stdint.h>

enum { N_LAYER_TOKENS = 4 };

/** The numbers of tokens at which layers are lowered: a kernel that is launched there is hot. INT64_MAX: the
 *  bound of the symbol. */
extern const int64_t layer_tokens[N_LAYER_TOKENS];

/** Writes the text of layer i into out[n_bytes]; NULL behind the last, else its name. A text that does not
 *  fit is cut, and does not parse. */
const char *layer_text(int i, char *out, size_t n_bytes);

#endif
