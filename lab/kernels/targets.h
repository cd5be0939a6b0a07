/* The GPUs of lab/kernels/targets.def as capabilities, which is all that lowering reads of a device. */
#ifndef CLEF_LAB_KERNELS_TARGETS_H
#define CLEF_LAB_KERNELS_TARGETS_H

#include "graph/lower/variant.h"
#include "runtime/device/device.h"

typedef struct offline_target {
    const char *name; /* what compilers call it: "gfx1030" */
    clef_caps   caps; /* with 64 units; a card has its own number */
} offline_target;

enum {
#define TARGET(name, ...)        OFFLINE_TARGET_##name,
#define NOT_COMPILED(op, variant)
#include "lab/kernels/targets.def"
#undef NOT_COMPILED
#undef TARGET
    N_OFFLINE_TARGETS
};

extern const offline_target      offline_targets[N_OFFLINE_TARGETS];
/** Variants that no compiler here can compile; ends with NULL. */
extern const clef_variant *const offline_not_compiled[];

#endif
