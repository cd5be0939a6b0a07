/* Changes of texts that keep their form: most mutations of bytes make no JSON of JSON. */
#ifndef CLEF_TESTS_FUZZ_MUTATOR_H
#define CLEF_TESTS_FUZZ_MUTATOR_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's own mutations of bytes. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n_bytes, size_t most);
/* What libFuzzer calls, in targets of texts. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t n_bytes, const uint8_t *other, size_t n_other,
                                 uint8_t *out, size_t most, unsigned seed);

/** Changes one value or key of a JSON text [n_bytes, of at most `most`], or any bytes. Returns the new size.
 *  For LLVMFuzzerCustomMutator(). */
size_t mutate_json(uint8_t *data, size_t n_bytes, size_t most, unsigned seed);
/** Gives one member of the first text the value that the second one has anywhere for a key. For
 *  LLVMFuzzerCustomCrossOver(). */
size_t cross_json(const uint8_t *data, size_t n_bytes, const uint8_t *other, size_t n_other, uint8_t *out,
                  size_t most, unsigned seed);

#endif
