/* A kernel of PTX, decoded for being executed, and launches of it. PTX is NVIDIA's assembly language
 * (docs.nvidia.com/cuda/parallel-thread-execution); what is known of it here is what clang writes for the
 * kernels of cl/. A kernel with anything else is refused with a message that names the instruction. */
#ifndef CLEF_LAB_PTX_H
#define CLEF_LAB_PTX_H

#include <stddef.h>
#include <stdint.h>

enum { PTX_LANES = 32, PTX_MAX_PARAMS = 64, PTX_NAME = 96, PTX_MESSAGE = 512 };
/* An address of device memory is (slot << PTX_SLOT_BITS) + offset. Slot 0 is nothing, so that null
 * pointers are found; then come the parameters, then the module's constants. */
enum { PTX_SLOT_BITS = 40, PTX_MAX_SLOTS = 256, PTX_PRIVATE_SLOT = 254, PTX_LOCAL_SLOT = 255 };
#define PTX_OFFSET (((uint64_t)1 << PTX_SLOT_BITS) - 1)

typedef struct ptx_module ptx_module;
typedef struct ptx_kernel ptx_kernel;

/** Decodes all kernels of a text, which is copied. NULL: `why` says what is not known, and in which
 *  line. */
ptx_module *ptx_module_create(const char *text, size_t n, char why[PTX_MESSAGE]);
void ptx_module_destroy(ptx_module *module);

const ptx_kernel *ptx_module_kernel(const ptx_module *module, const char *name); /* NULL: there is none */
const ptx_kernel *ptx_module_at(const ptx_module *module, int i);                /* NULL behind the last */

/** The compute capability that its instructions need, 70 at least, and one that needs it. */
int ptx_module_least(const ptx_module *module, const char **name);

const char *ptx_kernel_name(const ptx_kernel *kernel);
int ptx_kernel_params(const ptx_kernel *kernel);
size_t ptx_param_bytes(const ptx_kernel *kernel, int i);
size_t ptx_kernel_local_bytes(const ptx_kernel *kernel); /* of its arrays */
size_t ptx_kernel_private_bytes(const ptx_kernel *kernel);

/* A parameter's value: bytes; memory, whose address the kernel gets (NULL: a null pointer); or local
 * memory. */
typedef enum ptx_arg_kind { PTX_BYTES, PTX_MEMORY, PTX_LOCAL } ptx_arg_kind;
typedef struct ptx_arg {
    ptx_arg_kind kind;
    const void *bytes;
    unsigned char *memory;
    size_t n; /* of memory or local memory */
} ptx_arg;

typedef struct ptx_launch {
    const ptx_kernel *kernel;
    const ptx_arg *args; /* one for each parameter */
    uint32_t groups[3], items[3];
    uint32_t resident_warps; /* what %nwarpid says */
    uint64_t seed;           /* the order of groups and warps */
    int workers;             /* threads */
    int finds_races;         /* in global memory, too; by one thread */
} ptx_launch;

typedef struct ptx_count {
    uint64_t items, warps; /* instructions of work-items, and of warps */
} ptx_count;

/** Executes a launch. Returns 0; 1 after a fault, which `why` describes: the kernel, work-item, line of
 *  the  PTX and instruction. `count` is added to. */
int ptx_run_launch(const ptx_launch *launch, ptx_count *count, char why[PTX_MESSAGE]);

#endif
