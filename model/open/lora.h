/* Adapters in memory: what the graph and the conversion of files read. model/lora/ opens them. */
#ifndef CLEF_MODEL_OPEN_LORA_H
#define CLEF_MODEL_OPEN_LORA_H

#include "clef/lora.h"
#include "runtime/os/sha256.h"

struct clef_lora {
    const clef_model *model;
    char *path;
    float scale;
    clef_lora_target_info *targets; /* by weight; `down` of each is a block that also holds `up` */
    int32_t n_targets;
};

/** The adapter's matrices for the model's weight of that name, NULL if there are none. */
const clef_lora_target_info *clef__lora_find(const clef_lora *lora, const char *weight);
/** Sorts the targets by weight, for clef__lora_find(). */
void clef__lora_sort(clef_lora *lora);
/** x [n_in] += row `row` of what the adapter adds to its weight [n_out, n_in]. */
void clef__lora_add_row(const clef_lora_target_info *t, int64_t row, float *x);

/** The matrices of all adapters of a set for one weight. An adapter that does not change it has zeros. */
typedef struct clef__lora_stack {
    const char *weight;
    clef_tensor_info down, up; /* F32 [n, rank, n_in] and [n, rank, n_out] */
} clef__lora_stack;

/** The stack for the model's weight of that name, NULL if no adapter changes it. */
const clef__lora_stack *clef__lora_stack_of(const clef_lora_set *set, const char *weight);

/** What tells the adapters of a set from others, as a session file has it: LORA_DIGEST_CHARS hexadecimal
 *  digits of the SHA-256 of the adapter's weights' names, ranks and matrices (in which the scale is), then a
 *  blank, its name and scale. "" for number 0. */
enum { LORA_DIGEST_CHARS = 2 * CLEF_SHA256_BYTES, LORA_IDENTITY_BYTES = LORA_DIGEST_CHARS + 80 };
/** A line for each adapter of the set, after a newline: its scale, a blank, its path. "" for NULL. */
const char *clef__lora_set_sources(const clef_lora_set *set);
const char *clef__lora_set_identity(const clef_lora_set *set, int32_t number);

#endif
