/* The form of a checkpoint, for its writer and its reader. */
#ifndef CLEF_TRAIN_MODEL_CHECKPOINT_FORM_H
#define CLEF_TRAIN_MODEL_CHECKPOINT_FORM_H

#include <stdint.h>

#define CLEF_CHECKPOINT_MAGIC "CLEFCKPT"
enum { CLEF_CHECKPOINT_HEAD_BYTES = 32, CLEF_CHECKPOINT_ALIGNMENT = 64 };

static inline uint64_t clef__checkpoint_aligned(uint64_t n)
{
    return (n + CLEF_CHECKPOINT_ALIGNMENT - 1) / CLEF_CHECKPOINT_ALIGNMENT * CLEF_CHECKPOINT_ALIGNMENT;
}

#endif
