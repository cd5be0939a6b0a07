/* The platform and the device: what NVIDIA's driver reports of a card (docs/gpus.md). CLEF_PTX_CARD
 * names it. */
#include "lab/ptx/device/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const ptx_card cards[] = {
    {"sm_89", "NVIDIA GeForce RTX 4060 Laptop GPU", 24, 2370, 48, (cl_ulong)8188 << 20, 8, 9},
    {"sm_70", "Tesla V100-SXM2-16GB", 80, 1530, 64, (cl_ulong)16160 << 20, 7, 0},
    {"sm_80", "NVIDIA A100-SXM4-40GB", 108, 1410, 64, (cl_ulong)40326 << 20, 8, 0},
    {"sm_90", "NVIDIA H100 80GB HBM3", 132, 1980, 64, (cl_ulong)81105 << 20, 9, 0}};

static const char extensions[] =
    "cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics "
    "cl_khr_local_int32_extended_atomics cl_khr_fp64 cl_khr_3d_image_writes cl_khr_byte_addressable_store "
    "cl_khr_icd cl_khr_gl_sharing cl_nv_compiler_options cl_nv_device_attribute_query cl_nv_pragma_unroll "
    "cl_nv_copy_opts cl_khr_int64_base_atomics cl_khr_int64_extended_atomics cl_khr_device_uuid "
    "cl_khr_pci_bus_info";

struct _cl_platform_id ptx_platform = {&ptx_dispatch};
struct _cl_device_id ptx_device = {&ptx_dispatch, &cards[0]};

/* ---- what all files use ---------------------------------------------------------------------- */

void *ptx_object(size_t n)
{
    struct object {
        OBJECT;
    } *o = calloc(1, n);
    if (o) {
        o->dispatch = &ptx_dispatch;
        atomic_store(&o->refs, 1);
    }
    return o;
}

cl_int ptx_answer(const void *from, size_t n_from, size_t n, void *out, size_t *n_out)
{
    if (out && n < n_from)
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, from, n_from);
    if (n_out)
        *n_out = n_from;
    return CL_SUCCESS;
}

cl_int ptx_answer_text(const char *text, size_t n, void *out, size_t *n_out)
{
    return ptx_answer(text ? text : "", text ? strlen(text) + 1 : 1, n, out, n_out);
}

cl_ulong ptx_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (cl_ulong)t.tv_sec * 1000000000u + (cl_ulong)t.tv_nsec;
}

/* ---- platform -------------------------------------------------------------------------------- */

static cl_int CL_API_CALL platform_ids(cl_uint n, cl_platform_id *out, cl_uint *n_out)
{
    if (out && n)
        *out = &ptx_platform;
    if (n_out)
        *n_out = 1;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t n, void *out,
                                        size_t *n_out)
{
    (void)platform;
    switch (what) {
    case CL_PLATFORM_PROFILE:
        return ptx_answer_text("FULL_PROFILE", n, out, n_out);
    case CL_PLATFORM_VERSION:
        return ptx_answer_text("OpenCL 3.0 CUDA 12.4.89 (executed as PTX)", n, out, n_out);
    case CL_PLATFORM_NAME:
        return ptx_answer_text("NVIDIA CUDA in software", n, out, n_out);
    case CL_PLATFORM_VENDOR:
        return ptx_answer_text("NVIDIA Corporation", n, out, n_out);
    case CL_PLATFORM_EXTENSIONS:
        return ptx_answer_text(extensions, n, out, n_out);
    case 0x0920: /* CL_PLATFORM_ICD_SUFFIX_KHR */
        return ptx_answer_text("NV", n, out, n_out);
    default:
        return CL_INVALID_VALUE;
    }
}

/* ---- device ---------------------------------------------------------------------------------- */

static const ptx_card *asked_card(void)
{
    const char *target = getenv("CLEF_PTX_CARD");
    for (size_t i = 0; target && i < sizeof cards / sizeof *cards; i++)
        if (strcmp(cards[i].target, target) == 0)
            return &cards[i];
    if (target)
        fprintf(stderr, "CLEF_PTX_CARD: expected sm_70, sm_80, sm_89 or sm_90, got '%s'\n", target);
    return target ? NULL : &cards[0];
}

static cl_int CL_API_CALL device_ids(cl_platform_id platform, cl_device_type type, cl_uint n,
                                     cl_device_id *out, cl_uint *n_out)
{
    (void)platform;
    ptx_device.card = asked_card();
    if (!ptx_device.card || !(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT))) {
        if (n_out)
            *n_out = 0;
        return CL_DEVICE_NOT_FOUND;
    }
    if (out && n)
        *out = &ptx_device;
    if (n_out)
        *n_out = 1;
    return CL_SUCCESS;
}

/* Numbers, by the type of their answer. */
static const struct {
    cl_device_info what;
    cl_uint value;
} uints[] = {{CL_DEVICE_VENDOR_ID, 0x10DE},
             {CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, 3},
             {CL_DEVICE_ADDRESS_BITS, 64},
             {CL_DEVICE_MEM_BASE_ADDR_ALIGN, 4096},
             {CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE, 128},
             {CL_DEVICE_GLOBAL_MEM_CACHE_TYPE, CL_READ_WRITE_CACHE},
             {CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, 128},
             {CL_DEVICE_LOCAL_MEM_TYPE, CL_LOCAL},
             {CL_DEVICE_MAX_CONSTANT_ARGS, 9},
             {CL_DEVICE_AVAILABLE, 1},
             {CL_DEVICE_COMPILER_AVAILABLE, 1},
             {CL_DEVICE_LINKER_AVAILABLE, 1},
             {CL_DEVICE_ENDIAN_LITTLE, 1},
             {CL_DEVICE_ERROR_CORRECTION_SUPPORT, 0},
             {CL_DEVICE_HOST_UNIFIED_MEMORY, 0},
             {CL_DEVICE_IMAGE_SUPPORT, 0},
             {CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, 1},
             {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 1},
             {CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF, 0},
             {CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, 0},
             {CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE, 1},
             {CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE, 1},
             {CL_DEVICE_REFERENCE_COUNT, 1},
             {CL_DEVICE_PARTITION_MAX_SUB_DEVICES, 0},
             {CL_DEVICE_MAX_NUM_SUB_GROUPS, 0},
             {0x4002, 65536}, /* CL_DEVICE_REGISTERS_PER_BLOCK_NV */
             {0x4003, 32},    /* WARP_SIZE */
             {0x4004, 0},     /* GPU_OVERLAP */
             {0x4005, 0},     /* KERNEL_EXEC_TIMEOUT */
             {0x4006, 0},     /* INTEGRATED_MEMORY */
             {0x4007, 2},     /* ATTRIBUTE_ASYNC_ENGINE_COUNT */
             {0x4008, 1},     /* PCI_BUS_ID */
             {0x4009, 0},     /* PCI_SLOT_ID */
             {0x400A, 0}};    /* PCI_DOMAIN_ID */

static const struct {
    cl_device_info what;
    cl_ulong value;
} ulongs[] = {
    {CL_DEVICE_TYPE, CL_DEVICE_TYPE_GPU},
    {CL_DEVICE_LOCAL_MEM_SIZE, 48 << 10},
    {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, 64 << 10},
    {CL_DEVICE_SINGLE_FP_CONFIG, 0x3F | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT},
    {CL_DEVICE_DOUBLE_FP_CONFIG, 0x3F},
    {CL_DEVICE_EXECUTION_CAPABILITIES, CL_EXEC_KERNEL},
    {CL_DEVICE_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE},
    /* size_t has as many bytes */
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, 1024},
    {CL_DEVICE_MAX_PARAMETER_SIZE, 4352},
    {CL_DEVICE_PROFILING_TIMER_RESOLUTION, 1000},
    {CL_DEVICE_PRINTF_BUFFER_SIZE, 1 << 20},
    {CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, 32}};

static const struct {
    cl_device_info what;
    const char *value;
} texts[] = {{CL_DEVICE_VENDOR, "NVIDIA Corporation"},
             {CL_DRIVER_VERSION, "550.54.14"},
             {CL_DEVICE_PROFILE, "FULL_PROFILE"},
             {CL_DEVICE_VERSION, "OpenCL 3.0 CUDA"},
             {CL_DEVICE_OPENCL_C_VERSION, "OpenCL C 1.2 "},
             {CL_DEVICE_BUILT_IN_KERNELS, ""},
             {CL_DEVICE_EXTENSIONS, extensions}};

static cl_int card_info(const ptx_card *card, cl_device_info what, size_t n, void *out, size_t *n_out)
{
    static const size_t items[] = {1024, 1024, 64};
    switch (what) {
    case CL_DEVICE_NAME:
        return ptx_answer_text(card->name, n, out, n_out);
    case CL_DEVICE_PLATFORM:
        return PTX_ANSWER(cl_platform_id, &ptx_platform);
    case CL_DEVICE_PARENT_DEVICE:
        return PTX_ANSWER(cl_device_id, NULL);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return PTX_ANSWER(cl_uint, card->units);
    case CL_DEVICE_MAX_CLOCK_FREQUENCY:
        return PTX_ANSWER(cl_uint, card->mhz);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return PTX_ANSWER(cl_ulong, card->bytes);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return PTX_ANSWER(cl_ulong, card->bytes / 4);
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE:
        return PTX_ANSWER(cl_ulong, (cl_ulong)card->units << 15);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return ptx_answer(items, sizeof items, n, out, n_out);
    case 0x4000: /* CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV */
        return PTX_ANSWER(cl_uint, card->major);
    case 0x4001:
        return PTX_ANSWER(cl_uint, card->minor);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t n, void *out,
                                      size_t *n_out)
{
    for (size_t i = 0; i < sizeof uints / sizeof *uints; i++)
        if (uints[i].what == what)
            return ptx_answer(&uints[i].value, sizeof uints[i].value, n, out, n_out);
    for (size_t i = 0; i < sizeof ulongs / sizeof *ulongs; i++)
        if (ulongs[i].what == what)
            return ptx_answer(&ulongs[i].value, sizeof ulongs[i].value, n, out, n_out);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].what == what)
            return ptx_answer_text(texts[i].value, n, out, n_out);
    return card_info(device->card ? device->card : &cards[0], what, n, out, n_out);
}

static cl_int CL_API_CALL device_count(cl_device_id device)
{
    (void)device;
    return CL_SUCCESS;
}

void ptx_fill_platform(cl_icd_dispatch *to)
{
    to->clGetPlatformIDs = platform_ids;
    to->clGetPlatformInfo = platform_info;
    to->clGetDeviceIDs = device_ids;
    to->clGetDeviceInfo = device_info;
    to->clRetainDevice = to->clReleaseDevice = device_count;
}
