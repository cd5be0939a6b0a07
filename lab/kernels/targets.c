#include "lab/kernels/targets.h"

const offline_target offline_targets[N_OFFLINE_TARGETS] = {
#define TARGET(target_name, ...)                                                                             \
    {.name = #target_name,                                                                                   \
     .caps = {.is_gpu = 1,                                                                                   \
              .n_units = 64,                                                                                 \
              .float_width = 1,                                                                              \
              .mhz = 1500,                                                                                   \
              .base_align = 512,                                                                             \
              .max_alloc_bytes = (uint64_t)8 << 30,                                                          \
              .global_bytes = (uint64_t)16 << 30,                                                            \
              __VA_ARGS__}},
#define NOT_COMPILED(op, variant)
#include "lab/kernels/targets.def"
#undef NOT_COMPILED
#undef TARGET
};

const clef_variant *const offline_not_compiled[] = {
#define TARGET(...)
#define NOT_COMPILED(op, variant) &clef__##op##_##variant,
#include "lab/kernels/targets.def"
#undef NOT_COMPILED
#undef TARGET
    NULL};
