/* What a decoded kernel consists of, whatever its instructions are. ptx/ and gcn/ add their own members
 * behind these. */
#ifndef CLEF_LAB_GPU_KERNEL_H
#define CLEF_LAB_GPU_KERNEL_H

#include "lab/gpu/run/launch.h"
#include "lab/gpu/run/scan.h"

/* An address of device memory is (slot << GPU_SLOT_BITS) + offset. Slot 0 is nothing, so that null
 * pointers are found; then come the parameters, then the module's constants. */
enum {
    GPU_SLOT_BITS = 40,
    GPU_MAX_SLOTS = 256,
    GPU_PARAM_SLOT = 253, /* the parameters themselves */
    GPU_PRIVATE_SLOT,
    GPU_LOCAL_SLOT
};
#define GPU_OFFSET (((uint64_t)1 << GPU_SLOT_BITS) - 1)

typedef struct gpu_warp gpu_warp;

/* Each instruction begins with its place in the text. */
typedef struct gpu_line {
    const char *text;
    int n_text;
    uint32_t line;
} gpu_line;

typedef struct gpu_symbol {
    char name[GPU_NAME];
    uint64_t value; /* place in local memory, in the parameters, or an address */
    size_t bytes;
} gpu_symbol;

/* A set of instructions. */
typedef struct gpu_isa {
    size_t warp_bytes;
    void (*decode)(gpu_scan *scan, gpu_module *module, const char *target);
    void (*free_kernel)(gpu_kernel *kernel);
    void (*fill)(gpu_warp *warp);               /* once; registers that nobody wrote have all bits set */
    void (*start)(gpu_warp *warp);              /* for each group; warp->first is set */
    int (*turn)(gpu_warp *warp, uint32_t most); /* executes instructions. Returns a gpu_state */
    /* What the memory of parameters has beside them; NULL: nothing. */
    void (*add_params)(const gpu_launch *launch, unsigned char *params);
} gpu_isa;
extern const gpu_isa ptx_isa, gcn_isa;

struct gpu_kernel {
    char name[GPU_NAME];
    const gpu_isa *isa;
    const gpu_module *module;
    gpu_symbol params[GPU_MAX_PARAMS];
    int n_params;
    size_t param_bytes;
    const void *code;
    size_t insn_bytes;
    uint32_t lanes;      /* work-items of a warp */
    uint32_t file_bytes; /* of a warp's registers */
    gpu_symbol *locals;  /* arrays in local memory, where the code names them */
    int n_locals;
    size_t local_bytes, private_bytes;
    uint32_t granule, global_granule; /* bytes of its narrowest access to local, to global memory; <= 4 */
    int in_step; /* the work-items of a warp: they are one user of memory when races are looked for */
};

/* A constant array of the module, in a slot behind the parameters'. */
typedef struct gpu_array {
    gpu_symbol symbol;
    unsigned char *data;
} gpu_array;

struct gpu_module {
    char *text;
    gpu_kernel **kernels;
    int n_kernels;
    gpu_array *arrays;
    int n_arrays;
};

/** A new kernel of `bytes`, which the module owns. */
gpu_kernel *gpu_add_kernel(gpu_module *module, gpu_scan *scan, const gpu_isa *isa, size_t bytes);
/** A new array of constants, without data. */
gpu_array *gpu_add_array(gpu_module *module, gpu_scan *scan);

/** Makes room for one more element of `bytes`. */
void *gpu_room(gpu_scan *scan, void *of, uint32_t n, uint32_t *most, size_t bytes);

static inline const gpu_line *gpu_line_at(const gpu_kernel *k, uint32_t pc)
{
    return (const gpu_line *)(const void *)((const char *)k->code + pc * k->insn_bytes);
}

#endif
