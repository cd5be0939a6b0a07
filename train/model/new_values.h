/* The numbers that a new model begins with. */
#ifndef CLEF_TRAIN_MODEL_NEW_VALUES_H
#define CLEF_TRAIN_MODEL_NEW_VALUES_H

#include <stddef.h>
#include <stdint.h>

/** out[i] = deviation x (number first + i of the weight), each standard normal; rounded to f32. A number
 *  depends on the seed, the weight's name and its place: Philox4x32-10 (Salmon et al., SC'11) with the seed
 *  as key, and the place / 4 and the FNV-1a hash of the name as counter; two numbers by Box and Muller's
 *  formula from each pair of words. first is a multiple of 4. Uses all processors. */
void clef__new_normal(uint64_t seed, const char *name, double deviation, uint64_t first, size_t n,
                      float *out);

#endif
