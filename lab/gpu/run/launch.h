/* A kernel of a GPU's code, decoded for being executed, and launches of it. The code is text: PTX, which is
 * NVIDIA's assembly language (ptx/), or the assembly of AMD's instructions (gcn/). What is known of both is
 * what clang writes for the kernels of cl/. A kernel with anything else is refused with a message that names
 * the instruction. */
#ifndef CLEF_LAB_GPU_LAUNCH_H
#define CLEF_LAB_GPU_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

enum { GPU_MAX_PARAMS = 64, GPU_NAME = 96, GPU_MESSAGE = 512 };

typedef struct gpu_module gpu_module;
typedef struct gpu_kernel gpu_kernel;

/** Decodes all kernels of a text, which is copied, for a target: sm_NUMBER or gfxNUMBER. NULL: `why` says
 *  what is not known or what the target lacks, and in which line. */
gpu_module *gpu_module_create(const char *text, size_t n, const char *target, char why[GPU_MESSAGE]);
void gpu_module_destroy(gpu_module *module);

const gpu_kernel *gpu_module_kernel(const gpu_module *module, const char *name); /* NULL: there is none */
const gpu_kernel *gpu_module_at(const gpu_module *module, int i);                /* NULL behind the last */

const char *gpu_kernel_name(const gpu_kernel *kernel);
int gpu_kernel_params(const gpu_kernel *kernel);
size_t gpu_param_bytes(const gpu_kernel *kernel, int i);
size_t gpu_kernel_local_bytes(const gpu_kernel *kernel); /* of its arrays */
size_t gpu_kernel_private_bytes(const gpu_kernel *kernel);
uint32_t gpu_kernel_lanes(const gpu_kernel *kernel); /* work-items of a warp */

/* A parameter's value: bytes; memory, whose address the kernel gets (NULL: a null pointer); or local
 * memory. */
typedef enum gpu_arg_kind { GPU_BYTES, GPU_MEMORY, GPU_LOCAL } gpu_arg_kind;
typedef struct gpu_arg {
    gpu_arg_kind kind;
    const void *bytes;
    unsigned char *memory;
    size_t n; /* of memory or local memory */
} gpu_arg;

typedef struct gpu_launch {
    const gpu_kernel *kernel;
    const gpu_arg *args; /* one for each parameter */
    uint32_t groups[3], items[3];
    uint32_t resident_warps; /* what PTX's %nwarpid says */
    uint64_t seed;           /* the order of groups and warps */
    int workers;             /* threads */
    int finds_races;         /* in global memory, too; by one thread */
} gpu_launch;

typedef struct gpu_count {
    uint64_t items, warps; /* instructions of work-items, and of warps */
} gpu_count;

/** Executes a launch. Returns 0; 1 after a fault, which `why` describes: the kernel, work-item, line of
 *  the code and instruction. `count` is added to. */
int gpu_run_launch(const gpu_launch *launch, gpu_count *count, char why[GPU_MESSAGE]);

#endif
