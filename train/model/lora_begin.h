/* The matrices that a new adapter begins with. */
#ifndef CLEF_MODEL_LORA_BEGIN_H
#define CLEF_MODEL_LORA_BEGIN_H

#include <stddef.h>
#include <stdint.h>

/* The ends of the names of an adapter's matrices in a training graph, after the weight's name. */
#define CLEF__LORA_A ".lora_A"
#define CLEF__LORA_B ".lora_B"

/** Where `end` begins in a name that ends with it and is longer; NULL for other names. */
const char *clef__ends_with(const char *name, const char *end);
/** 1 for names with these ends. */
int    clef__is_lora(const char *name);
/** A clef_build_lora.wants; targets: NULL for all weights, or parts of names, with commas between them. */
int    clef__lora_wants(void *targets, const char *weight);
/** n numbers, to be freed: of B 0; of A [rank, n_in] uniform within +-1 / sqrt(n_in), as PEFT begins. NULL
 *  when out of memory. */
float *clef__lora_begin(uint64_t seed, const char *name, size_t n, int32_t rank);

#endif
