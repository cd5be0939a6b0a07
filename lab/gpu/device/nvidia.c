/* What NVIDIA's driver reports of a card (docs/gpus.md), and how programs are compiled for it: by clang and
 * libclc, as lab/compile/compile.sh does it; but all functions are put into the kernels that call them, as
 * NVIDIA's compiler does. */
#include "lab/gpu/device/objects.h"

#include <stdio.h>

static const char extensions[] =
    "cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics "
    "cl_khr_local_int32_extended_atomics cl_khr_fp64 cl_khr_3d_image_writes cl_khr_byte_addressable_store "
    "cl_khr_icd cl_khr_gl_sharing cl_nv_compiler_options cl_nv_device_attribute_query cl_nv_pragma_unroll "
    "cl_nv_copy_opts cl_khr_int64_base_atomics cl_khr_int64_extended_atomics cl_khr_device_uuid "
    "cl_khr_pci_bus_info";

static const gpu_number uints[] = {{CL_DEVICE_VENDOR_ID, 0x10DE},
                                   {CL_DEVICE_MEM_BASE_ADDR_ALIGN, 4096},
                                   {CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, 128},
                                   {CL_DEVICE_MAX_CONSTANT_ARGS, 9},
                                   {CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF, 0},
                                   {CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, 0},
                                   {CL_DEVICE_MAX_NUM_SUB_GROUPS, 0},
                                   {0x4002, 65536}, /* CL_DEVICE_REGISTERS_PER_BLOCK_NV */
                                   {0x4003, 32},    /* WARP_SIZE */
                                   {0x4004, 0},     /* GPU_OVERLAP */
                                   {0x4005, 0},     /* KERNEL_EXEC_TIMEOUT */
                                   {0x4006, 0},     /* INTEGRATED_MEMORY */
                                   {0x4007, 2},     /* ATTRIBUTE_ASYNC_ENGINE_COUNT */
                                   {0x4008, 1},     /* PCI_BUS_ID */
                                   {0x4009, 0},     /* PCI_SLOT_ID */
                                   {0x400A, 0},     /* PCI_DOMAIN_ID */
                                   {0}};

static const gpu_number ulongs[] = {
    {CL_DEVICE_LOCAL_MEM_SIZE, 48 << 10},
    {CL_DEVICE_SINGLE_FP_CONFIG, 0x3F | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT},
    {CL_DEVICE_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE},
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, 1024},
    {CL_DEVICE_MAX_PARAMETER_SIZE, 4352},
    {CL_DEVICE_PROFILING_TIMER_RESOLUTION, 1000},
    {0}};

static const gpu_text texts[] = {{CL_DEVICE_VENDOR, "NVIDIA Corporation"},
                                 {CL_DRIVER_VERSION, "550.54.14"},
                                 {CL_DEVICE_VERSION, "OpenCL 3.0 CUDA"},
                                 {CL_DEVICE_OPENCL_C_VERSION, "OpenCL C 1.2 "},
                                 {0, NULL}};

#define LIBRARY "/usr/lib/clc/nvptx64--nvidiacl.bc"

static int options(const gpu_card *card, char *words[], int most)
{
    static const char *const fixed[] = {
        "-target", "nvptx64--nvidiacl",        "-Xclang", "-target-cpu", "-Xclang", "sm_70",
        "-mllvm",  "-inline-threshold=1000000"};
    int n = 0;
    (void)card;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        words[n++] = gpu_word(fixed[i]);
    n = gpu_add_library(words, n, LIBRARY);
    return n <= most ? n : 0;
}

const gpu_vendor gpu_nvidia = {.platform = {"NVIDIA CUDA in software", "NVIDIA Corporation",
                                            "OpenCL 3.0 CUDA 12.4.89 (executed as PTX)", "NV", extensions},
                               .extensions = extensions,
                               .uints = uints,
                               .ulongs = ulongs,
                               .texts = texts,
                               .most_items = {1024, 1024, 64},
                               .most_group = 1024,
                               .local_bytes = 48 << 10,
                               .options = options};
