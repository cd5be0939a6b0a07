/* The platform and the device: a card, which CLEF_GPU_CARD names, and what its vendor's driver reports of it.
 */
#include "lab/gpu/device/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const gpu_card cards[] = {
    {&gpu_nvidia, "sm_89", "NVIDIA GeForce RTX 4060 Laptop GPU", 24, 2370, 32, 48, (cl_ulong)8188 << 20, 8,
     9},
    {&gpu_nvidia, "sm_70", "Tesla V100-SXM2-16GB", 80, 1530, 32, 64, (cl_ulong)16160 << 20, 7, 0},
    {&gpu_nvidia, "sm_80", "NVIDIA A100-SXM4-40GB", 108, 1410, 32, 64, (cl_ulong)40326 << 20, 8, 0},
    {&gpu_nvidia, "sm_90", "NVIDIA H100 80GB HBM3", 132, 1980, 32, 64, (cl_ulong)81105 << 20, 9, 0},
    {&gpu_amd, "gfx906", "gfx906:sramecc+:xnack-", 60, 1725, 64, 0, (cl_ulong)16368 << 20, 0, 0},
    {&gpu_amd, "gfx90a", "gfx90a:sramecc+:xnack-", 104, 1700, 64, 0, (cl_ulong)65520 << 20, 0, 0},
    {&gpu_amd, "gfx942", "gfx942:sramecc+:xnack-", 304, 2100, 64, 0, (cl_ulong)196592 << 20, 0, 0},
    {&gpu_amd, "gfx1030", "gfx1030", 40, 2250, 32, 0, (cl_ulong)16368 << 20, 0, 0},
    {&gpu_amd, "gfx1100", "gfx1100", 48, 2371, 32, 0, (cl_ulong)24560 << 20, 0, 0}};

struct _cl_platform_id gpu_platform = {&gpu_dispatch};
struct _cl_device_id gpu_device = {&gpu_dispatch, &cards[0]};

/* ---- what all files use ---------------------------------------------------------------------- */

void *gpu_object(size_t n)
{
    struct object {
        OBJECT;
    } *o = calloc(1, n);
    if (o) {
        o->dispatch = &gpu_dispatch;
        atomic_store(&o->refs, 1);
    }
    return o;
}

cl_int gpu_answer(const void *from, size_t n_from, size_t n, void *out, size_t *n_out)
{
    if (out && n < n_from)
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, from, n_from);
    if (n_out)
        *n_out = n_from;
    return CL_SUCCESS;
}

cl_int gpu_answer_text(const char *text, size_t n, void *out, size_t *n_out)
{
    return gpu_answer(text ? text : "", text ? strlen(text) + 1 : 1, n, out, n_out);
}

cl_ulong gpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (cl_ulong)t.tv_sec * 1000000000u + (cl_ulong)t.tv_nsec;
}

static const gpu_card *asked_card(void)
{
    const char *target = getenv("CLEF_GPU_CARD");
    for (size_t i = 0; target && i < sizeof cards / sizeof *cards; i++)
        if (strcmp(cards[i].target, target) == 0)
            return &cards[i];
    if (target)
        fprintf(stderr,
                "CLEF_GPU_CARD: expected sm_70, sm_80, sm_89, sm_90, gfx906, gfx90a, gfx942, gfx1030 or "
                "gfx1100, got "
                "'%s'\n",
                target);
    return target ? NULL : &cards[0];
}

/* ---- platform -------------------------------------------------------------------------------- */

static cl_int CL_API_CALL platform_ids(cl_uint n, cl_platform_id *out, cl_uint *n_out)
{
    if (out && n)
        *out = &gpu_platform;
    if (n_out)
        *n_out = 1;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t n, void *out,
                                        size_t *n_out)
{
    (void)platform;
    const gpu_card *card = asked_card();
    const gpu_vendor *vendor = card ? card->vendor : &gpu_nvidia;
    switch (what) {
    case CL_PLATFORM_PROFILE:
        return gpu_answer_text("FULL_PROFILE", n, out, n_out);
    case CL_PLATFORM_NAME:
        return gpu_answer_text(vendor->platform[0], n, out, n_out);
    case CL_PLATFORM_VENDOR:
        return gpu_answer_text(vendor->platform[1], n, out, n_out);
    case CL_PLATFORM_VERSION:
        return gpu_answer_text(vendor->platform[2], n, out, n_out);
    case CL_PLATFORM_EXTENSIONS:
        return gpu_answer_text(vendor->platform[4], n, out, n_out);
    case 0x0920: /* CL_PLATFORM_ICD_SUFFIX_KHR */
        return gpu_answer_text(vendor->platform[3], n, out, n_out);
    default:
        return CL_INVALID_VALUE;
    }
}

/* ---- device ---------------------------------------------------------------------------------- */

static cl_int CL_API_CALL device_ids(cl_platform_id platform, cl_device_type type, cl_uint n,
                                     cl_device_id *out, cl_uint *n_out)
{
    (void)platform;
    gpu_device.card = asked_card();
    if (!gpu_device.card || !(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT))) {
        if (n_out)
            *n_out = 0;
        return CL_DEVICE_NOT_FOUND;
    }
    if (out && n)
        *out = &gpu_device;
    if (n_out)
        *n_out = 1;
    return CL_SUCCESS;
}

/* Numbers that all vendors report, by the type of their answer. */
static const gpu_number uints[] = {{CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, 3},
                                   {CL_DEVICE_ADDRESS_BITS, 64},
                                   {CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE, 128},
                                   {CL_DEVICE_GLOBAL_MEM_CACHE_TYPE, CL_READ_WRITE_CACHE},
                                   {CL_DEVICE_LOCAL_MEM_TYPE, CL_LOCAL},
                                   {CL_DEVICE_AVAILABLE, 1},
                                   {CL_DEVICE_COMPILER_AVAILABLE, 1},
                                   {CL_DEVICE_LINKER_AVAILABLE, 1},
                                   {CL_DEVICE_ENDIAN_LITTLE, 1},
                                   {CL_DEVICE_ERROR_CORRECTION_SUPPORT, 0},
                                   {CL_DEVICE_HOST_UNIFIED_MEMORY, 0},
                                   {CL_DEVICE_IMAGE_SUPPORT, 0},
                                   {CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, 1},
                                   {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 1},
                                   {CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE, 1},
                                   {CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE, 1},
                                   {CL_DEVICE_REFERENCE_COUNT, 1},
                                   {CL_DEVICE_PARTITION_MAX_SUB_DEVICES, 0},
                                   {0}};

/* size_t has as many bytes. */
static const gpu_number ulongs[] = {
    {CL_DEVICE_TYPE, CL_DEVICE_TYPE_GPU},    {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, 64 << 10},
    {CL_DEVICE_DOUBLE_FP_CONFIG, 0x3F},      {CL_DEVICE_EXECUTION_CAPABILITIES, CL_EXEC_KERNEL},
    {CL_DEVICE_PRINTF_BUFFER_SIZE, 1 << 20}, {0}};

static const gpu_text texts[] = {
    {CL_DEVICE_PROFILE, "FULL_PROFILE"}, {CL_DEVICE_BUILT_IN_KERNELS, ""}, {0, NULL}};

static cl_int card_info(const gpu_card *card, cl_device_info what, size_t n, void *out, size_t *n_out)
{
    const gpu_vendor *vendor = card->vendor;
    switch (what) {
    case CL_DEVICE_NAME:
        return gpu_answer_text(card->name, n, out, n_out);
    case CL_DEVICE_PLATFORM:
        return GPU_ANSWER(cl_platform_id, &gpu_platform);
    case CL_DEVICE_PARENT_DEVICE:
        return GPU_ANSWER(cl_device_id, NULL);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return GPU_ANSWER(cl_uint, card->units);
    case CL_DEVICE_MAX_CLOCK_FREQUENCY:
        return GPU_ANSWER(cl_uint, card->mhz);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return GPU_ANSWER(cl_ulong, card->bytes);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return GPU_ANSWER(cl_ulong, card->bytes / 4);
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE:
        return GPU_ANSWER(cl_ulong, (cl_ulong)card->units << 15);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return gpu_answer(vendor->most_items, sizeof vendor->most_items, n, out, n_out);
    case CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        return GPU_ANSWER(size_t, card->lanes);
    case CL_DEVICE_EXTENSIONS:
        return gpu_answer_text(vendor->extensions, n, out, n_out);
    case 0x4000: /* CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV */
        return card->major ? GPU_ANSWER(cl_uint, card->major) : CL_INVALID_VALUE;
    case 0x4001:
        return card->major ? GPU_ANSWER(cl_uint, card->minor) : CL_INVALID_VALUE;
    default:
        return CL_INVALID_VALUE;
    }
}

static const gpu_number *find_number(const gpu_number *list, cl_device_info what)
{
    for (; list->what; list++)
        if (list->what == what)
            return list;
    return NULL;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t n, void *out,
                                      size_t *n_out)
{
    const gpu_card *card = device->card ? device->card : &cards[0];
    const gpu_text *const of_texts[] = {texts, card->vendor->texts};
    const gpu_number *number = find_number(uints, what);
    number = number ? number : find_number(card->vendor->uints, what);
    if (number)
        return GPU_ANSWER(cl_uint, (cl_uint)number->value);
    number = find_number(ulongs, what);
    number = number ? number : find_number(card->vendor->ulongs, what);
    if (number)
        return GPU_ANSWER(cl_ulong, number->value);
    for (int k = 0; k < 2; k++)
        for (const gpu_text *text = of_texts[k]; text->value; text++)
            if (text->what == what)
                return gpu_answer_text(text->value, n, out, n_out);
    return card_info(card, what, n, out, n_out);
}

static cl_int CL_API_CALL device_count(cl_device_id device)
{
    (void)device;
    return CL_SUCCESS;
}

void gpu_fill_platform(cl_icd_dispatch *to)
{
    to->clGetPlatformIDs = platform_ids;
    to->clGetPlatformInfo = platform_info;
    to->clGetDeviceIDs = device_ids;
    to->clGetDeviceInfo = device_info;
    to->clRetainDevice = to->clReleaseDevice = device_count;
}
