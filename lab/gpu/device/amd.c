/* What ROCm's driver reports of a card, and how programs are compiled for it: by clang and ROCm's device
 * libraries, as lab/compile/compile.sh does it. CLEF_GPU_ROCM: the folder of those libraries. */
#include "lab/gpu/device/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char extensions[] =
    "cl_khr_fp64 cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics "
    "cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_int64_base_atomics "
    "cl_khr_int64_extended_atomics cl_khr_3d_image_writes cl_khr_byte_addressable_store cl_khr_fp16 "
    "cl_khr_gl_sharing cl_amd_device_attribute_query cl_amd_media_ops cl_amd_media_ops2 "
    "cl_khr_image2d_from_buffer cl_khr_subgroups cl_khr_depth_images cl_amd_copy_buffer_p2p "
    "cl_amd_assembly_program";

static const gpu_number uints[] = {{CL_DEVICE_VENDOR_ID, 0x1002},
                                   {CL_DEVICE_MEM_BASE_ADDR_ALIGN, 1024},
                                   {CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, 64},
                                   {CL_DEVICE_MAX_CONSTANT_ARGS, 8},
                                   {CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF, 1},
                                   {CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, 1},
                                   {0}};

static const gpu_number ulongs[] = {{CL_DEVICE_LOCAL_MEM_SIZE, 64 << 10},
                                    {CL_DEVICE_SINGLE_FP_CONFIG, 0x3F | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT},
                                    {CL_DEVICE_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE},
                                    {CL_DEVICE_MAX_WORK_GROUP_SIZE, 256},
                                    {CL_DEVICE_MAX_PARAMETER_SIZE, 1024},
                                    {CL_DEVICE_PROFILING_TIMER_RESOLUTION, 1},
                                    {0}};

static const gpu_text texts[] = {{CL_DEVICE_VENDOR, "Advanced Micro Devices, Inc."},
                                 {CL_DRIVER_VERSION, "3590.0 (HSA1.1,LC)"},
                                 {CL_DEVICE_VERSION, "OpenCL 2.0 "},
                                 {CL_DEVICE_OPENCL_C_VERSION, "OpenCL C 2.0 "},
                                 {0, NULL}};

/* The libraries, of which one says the target and one the lanes of a wave. */
static int options(const gpu_card *card, char *words[], int most)
{
    static const char *const parts[] = {"opencl",
                                        "ocml",
                                        "ockl",
                                        "oclc_correctly_rounded_sqrt_on",
                                        "oclc_daz_opt_off",
                                        "oclc_finite_only_off",
                                        "oclc_unsafe_math_off",
                                        "oclc_abi_version_400"};
    const char *folder = getenv("CLEF_GPU_ROCM");
    char text[1024];
    int n = 0;
    folder = folder ? folder : "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode";
    words[n++] = gpu_word("-target");
    words[n++] = gpu_word("amdgcn-amd-amdhsa");
    snprintf(text, sizeof text, "-mcpu=%s", card->target);
    words[n++] = gpu_word(text);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(text, sizeof text, "%s/%s.bc", folder, parts[i]);
        n = gpu_add_library(words, n, text);
    }
    snprintf(text, sizeof text, "%s/oclc_wavefrontsize64_%s.bc", folder, card->lanes == 64 ? "on" : "off");
    n = gpu_add_library(words, n, text);
    snprintf(text, sizeof text, "%s/oclc_isa_version_%s.bc", folder, card->target + strlen("gfx"));
    n = gpu_add_library(words, n, text);
    return n <= most ? n : 0;
}

const gpu_vendor gpu_amd = {.platform = {"AMD Accelerated Parallel Processing in software",
                                         "Advanced Micro Devices, Inc.",
                                         "OpenCL 2.1 AMD-APP (3590.0) (executed as machine code)", "AMD",
                                         "cl_khr_icd cl_amd_event_callback"},
                            .extensions = extensions,
                            .uints = uints,
                            .ulongs = ulongs,
                            .texts = texts,
                            .most_items = {1024, 1024, 1024},
                            .most_group = 256,
                            .local_bytes = 64 << 10,
                            .options = options};
