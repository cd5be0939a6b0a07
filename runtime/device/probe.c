/* Tests capabilities that no driver reports: each runs on the device, and counts only if its result is right.
 * Also masks capabilities, for tests. */
#include <stdlib.h>
#include <string.h>

#include "cl/args.h"
#include "graph/lower/panel/panel.h"
#include "runtime/device/cache_folder.h"
#include "runtime/device/device.h"
#include "runtime/device/probe_child.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"
#include "runtime/os/os_cpu.h"

/* What CPUID says about this processor; a CPU device is this processor. */
#if defined(__x86_64__) && defined(__GNUC__)
#    include <cpuid.h>

/* The bits of XCR0 that say which registers the system saves (Intel SDM vol. 1, 13.3): 1 and 2 those of AVX,
 * 5 to 7 those of AVX-512. */
enum { SAVES_AVX = 0x06, SAVES_AVX512 = 0xe6 };

/* 1 if the system saves these registers. Not __builtin_cpu_supports(): it needs a library of the compiler,
 * which not every linker finds. */
static int system_saves(unsigned registers)
{
    unsigned a, b, c = 0, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) /* OSXSAVE */
        return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & registers) == registers;
}

/* CPUID leaf 7, subleaf 0 (Intel SDM vol. 2A): AVX-512 F and BW, EBX bits 16 and 30; VNNI, ECX bit 11. */
static int host_has_vnni(void)
{
    unsigned a, b = 0, c = 0, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 16 & 1) && (b >> 30 & 1) && (c >> 11 & 1) &&
           system_saves(SAVES_AVX512);
}

/* CPUID leaf 7, subleaf 0, EBX bit 5. */
static int host_has_avx2(void)
{
    unsigned a, b = 0, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 5 & 1) && system_saves(SAVES_AVX);
}

/* CPUID leaf 7, subleaf 1, EAX bit 4 (Intel SDM vol. 2A). AVX2 implies that the system saves the
 * registers. */
static int host_has_avxvnni(void)
{
    unsigned a = 0, b, c, d;
    return host_has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
/* CPUID leaf 7: bf16 tiles, subleaf 0, EDX bits 22 and 24; AVX-512 with bf16, subleaf 1, EAX bit 5 (Intel SDM
 * vol. 2A). */
static int host_has_amx(void)
{
    unsigned a = 0, b, c, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1))
        return 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1) && clef__os_allow_tiles();
}

static int host_is_amd(void)
{
    static const char vendor[] = "AuthenticAMD"; /* CPUID leaf 0: EBX, EDX, ECX */
    unsigned a, words[3] = {0};
    return __get_cpuid(0, &a, &words[0], &words[2], &words[1]) && memcmp(words, vendor, sizeof words) == 0;
}
#else
static int host_is_amd(void)
{
    return 0;
}

static int host_has_amx(void)
{
    return 0;
}

static int host_has_vnni(void)
{
    return 0;
}

static int host_has_avx2(void)
{
    return 0;
}

static int host_has_avxvnni(void)
{
    return 0;
}
#endif

void clef__processor_text(char *out, size_t n_bytes)
{
    const clef__os_arm arm = clef__os_arm_query();
    const struct {
        const char *name;
        int has;
    } all[] = {{"avx2", host_has_avx2()},
               {"avx512-vnni", host_has_vnni()},
               {"avx-vnni", host_has_avxvnni()},
               {"amx", host_has_amx()},
               {"amd", host_is_amd()},
               {"arm", arm.is_arm},
               {"sdot", arm.sdot},
               {"i8mm", arm.i8mm},
               {"bf16", arm.bf16}};
    int n = snprintf(out, n_bytes, "%s", "");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].has && n >= 0 && (size_t)n < n_bytes)
            n += snprintf(out + n, n_bytes - (size_t)n, "%s%s", n ? " " : "", all[i].name);
}

enum { LANES = 16, ARM_FLOATS = 4 /* of a vector of 16 bytes */ };

/* Runs DOT4 of cl/panel/panel.h in assembly on known bytes. Returns 1 when it compiles, runs and is right. */
static int dot_works(clef_device *dev, clef_dot dot)
{
    const clef_launch launch = {.source = "probe",
                                .kernel = "probe_dot4",
                                .defs = {{"DOT", (int32_t)dot}, {"WHOLE_BODY", dev->info.caps.whole_body}}};
    const uint32_t taken =
        dot == CLEF_DOT_AVX2 || dot == CLEF_DOT_SDOT ? 0x7f7f7f7fu : ~0u; /* the bits of w that it uses */
    int32_t w[LANES], x = (int32_t)0x81fe037f, got[LANES] = {0};          /* -127, -2, 3, 127 */
    for (uint32_t i = 0; i < LANES; i++)
        w[i] = (int32_t)((0xff80017fu + i * 0x01010101u) & taken);
    int works = clef__probe_run(dev, &launch, 1, w, sizeof w, &x, sizeof x, got, sizeof got);
    for (uint32_t i = 0; i < LANES; i++) {
        int32_t want = 1;
        for (int k = 0; k < 4; k++)
            want += (int32_t)((uint32_t)w[i] >> 8 * k & 255u) * (int8_t)((uint32_t)x >> 8 * k & 255u);
        works &= got[i] == want;
    }
    return works;
}

/* Multiplies rows of 8 bytes by usmmla of cl/instruction/arm.h: sums[4 q + 2 i + j] is row 2 q + i of w
 * times token j of x. */
static int i8mm_works(clef_device *dev)
{
    enum { COLUMNS = 8 };
    const clef_launch launch = {
        .source = "probe",
        .kernel = "probe_usmmla",
        .defs = {{"DOT", (int32_t)CLEF_DOT_I8MM}, {"WHOLE_BODY", dev->info.caps.whole_body}}};
    uint8_t w[LANES / 2 * COLUMNS];
    int8_t x[2 * COLUMNS];
    int32_t got[LANES] = {0};
    for (int i = 0; i < (int)sizeof w; i++)
        w[i] = (uint8_t)(255 - i * 3);
    for (int i = 0; i < (int)sizeof x; i++)
        x[i] = (int8_t)(i * 17 - 127);
    int works = clef__probe_run(dev, &launch, 1, w, sizeof w, x, sizeof x, got, sizeof got);
    for (int i = 0; i < LANES; i++) {
        int32_t want = 1;
        for (int k = 0; k < COLUMNS; k++)
            want += w[i / 2 * COLUMNS + k] * x[i % 2 * COLUMNS + k];
        works &= got[i] == want;
    }
    return works;
}

/* Multiplies pairs of bf16 by bfdot of cl/instruction/arm.h: small integers, whose sums are exact. */
static int bfdot_works(clef_device *dev)
{
    const clef_launch launch = {.source = "probe_bfdot",
                                .kernel = "probe_bfdot",
                                .defs = {{"WHOLE_BODY", dev->info.caps.whole_body}}};
    float w[2 * LANES], got[LANES] = {0};
    const float x[4] = {3, -5, 7, 0.5f}; /* of which the kernel takes the second pair */
    for (int i = 0; i < 2 * LANES; i++)
        w[i] = (float)(i * 7 % 31 - 15);
    int works = clef__probe_run(dev, &launch, 1, w, sizeof w, x, sizeof x, got, sizeof got);
    for (int i = 0; i < LANES; i++)
        works &= got[i] == 1 + w[2 * i] * x[2] + w[2 * i + 1] * x[3];
    return works;
}

/* Multiplies bf16 tiles of cl/instruction/amx.h, of small integers whose sums are exact. */
static int amx_works(clef_device *dev)
{
    enum { ROWS = 16, COLUMNS = 32 };
    const clef_launch launch = {
        .source = "probe_amx", .kernel = "probe_amx", .defs = {{"WHOLE_BODY", dev->info.caps.whole_body}}};
    float x[ROWS * COLUMNS], w[ROWS * COLUMNS], got[ROWS * ROWS] = {0}; /* w: row n of 32 */
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)(i * 7 % 31 - 15);
        w[i] = (float)(i * 5 % 29 - 14) / 4;
    }
    int works = clef__probe_run(dev, &launch, 1, x, sizeof x, w, sizeof w, got, sizeof got);
    for (int t = 0; t < ROWS; t++)
        for (int n = 0; n < ROWS; n++) {
            float want = 0;
            for (int k = 0; k < COLUMNS; k++)
                want += x[t * COLUMNS + k] * w[n * COLUMNS + k];
            works &= got[t * ROWS + n] == want;
        }
    return works;
}

/* Runs `kernel` of cl/probe/probe.cl, whose result is `factor` times w. */
static int text_works(clef_device *dev, const char *kernel, int32_t test, int32_t factor)
{
    const clef_launch launch = {.source = "probe", .kernel = kernel, .defs = {{"TEST", test}}};
    const int32_t x[4] = {3, -5, 7, 11};
    int32_t w[LANES], got[LANES] = {0};
    for (int i = 0; i < LANES; i++)
        w[i] = i - 8;
    int works = clef__probe_run(dev, &launch, 1, w, sizeof w, x, sizeof x, got, sizeof got);
    for (int i = 0; i < LANES; i++)
        works &= got[i] == factor * w[i];
    return works;
}

/* What makes the texts of programs compile faster (program_text.h). The texts of all later programs depend on
 * it. A device with further built-in functions in OpenCL C 1.2 needs the compiler's own declarations. */
static void probe_texts(clef_device *dev, clef_caps *caps)
{
    const int has_more = caps->fp16 || caps->int_dot || caps->arm_dot;
    caps->own_builtins = caps->own_builtins && !has_more;
    caps->own_builtins = caps->own_builtins && text_works(dev, "probe_builtins", 1, 5);
    caps->whole_body = caps->whole_body && caps->is_cpu && caps->own_builtins &&
                       text_works(dev, "probe_whole", 2, 3 - 5 - 7 + 11);
}

enum { ROUNDS = 200000 };
static const clef_launch loop = {.source = "probe", .kernel = "probe_loop"};

/* Runs a loop of n rounds in one work-item. Returns 1 when it ran, and sets *right to 1 where it made all of
 * them. */
static int run_loop(clef_device *dev, cl_uint n, int *right)
{
    const size_t one = 1;
    cl_uint got[2] = {0}, want = 1;
    cl_kernel kernel = NULL;
    cl_int code;
    int ran = 0;
    if (clef__kernel_create(dev, &loop, &kernel, NULL))
        return 0;
    cl_mem out = clCreateBuffer(dev->context, CL_MEM_WRITE_ONLY, sizeof got, NULL, &code);
    if (out && !clSetKernelArg(kernel, 0, sizeof out, &out) && !clSetKernelArg(kernel, 1, sizeof n, &n) &&
        !clEnqueueNDRangeKernel(dev->queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL) &&
        !clEnqueueReadBuffer(dev->queue, out, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL))
        ran = 1;
    if (out)
        clReleaseMemObject(out);
    clReleaseKernel(kernel);
    for (cl_uint i = 0; i < n; i++)
        want = (want ^ i) * 1664525u + 1013904223u;
    *right = got[0] == n && got[1] == want;
    return ran;
}

int clef__device_works(clef_device *dev)
{
    int right = 0;
    return run_loop(dev, 8, &right) && right;
}

/* 1 when a long loop ends early, as on llvmpipe, which ends all loops of a work-item after 65,536 rounds in
 * total. */
static int probe_loops(clef_device *dev)
{
    int right = 0;
    if (!clef__probe_begin(dev, &loop))
        return 0;
    const int ran = run_loop(dev, ROUNDS, &right);
    clef__probe_end();
    return ran && !right;
}

typedef struct cap_name {
    const char *name;
    size_t offset;
} cap_name;

/* "-cpu" treats a CPU as a GPU: work-groups, local memory. "-float_width" treats its vectors as short. */
static const cap_name maskable[] = {
    {"cpu", offsetof(clef_caps, is_cpu)},
    {"unified_memory", offsetof(clef_caps, unified_memory)},
    {"fp16", offsetof(clef_caps, fp16)},
    {"fp64", offsetof(clef_caps, fp64)},
    {"subgroups", offsetof(clef_caps, subgroups)},
    {"int_dot", offsetof(clef_caps, int_dot)},
    {"nv_asm", offsetof(clef_caps, nv_asm)},
    {"amd_dot", offsetof(clef_caps, amd_dot)},
    {"arm_dot", offsetof(clef_caps, arm_dot)},
    {"subgroup_shuffle", offsetof(clef_caps, subgroup_shuffle)},
    {"matrix", offsetof(clef_caps, matrix)},
    {"x86_vnni", offsetof(clef_caps, x86_vnni)},
    {"x86_avxvnni", offsetof(clef_caps, x86_avxvnni)},
    {"x86_avx2", offsetof(clef_caps, x86_avx2)},
    {"x86_amx", offsetof(clef_caps, x86_amx)},
    {"arm64_i8mm", offsetof(clef_caps, arm64_i8mm)},
    {"arm64_sdot", offsetof(clef_caps, arm64_sdot)},
    {"arm64_bf16", offsetof(clef_caps, arm64_bf16)},
    {"x86_amd", offsetof(clef_caps, x86_amd)},
    {"float_width", offsetof(clef_caps, float_width)},
    {"own_builtins", offsetof(clef_caps, own_builtins)},
    {"whole_body", offsetof(clef_caps, whole_body)},
};

static int32_t *find_cap(clef_caps *caps, const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof maskable / sizeof *maskable; i++)
        if (strlen(maskable[i].name) == n && memcmp(maskable[i].name, name, n) == 0)
            return (int32_t *)(void *)((char *)caps + maskable[i].offset);
    return NULL;
}

/* "+mma": use the kernels of that unit, with plain C in place of the instruction (cl/instruction/matrix.h).
 * CLEF_MATRIX_NONE: not such a name. */
static clef_matrix find_plain(const char *name, size_t n)
{
    static const char *const names[] = {[CLEF_MATRIX_MMA] = "mma",
                                        [CLEF_MATRIX_WMMA] = "wmma",
                                        [CLEF_MATRIX_DPAS] = "dpas",
                                        [CLEF_MATRIX_MFMA] = "mfma"};
    for (clef_matrix i = CLEF_MATRIX_MMA; i < CLEF_N_MATRICES; i++)
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0)
            return i;
    return CLEF_MATRIX_NONE;
}

static clef_status mask_caps(clef_caps *caps, clef_error *err)
{
    const char *at = clef__debug("caps");
    while (at && *at) {
        const size_t n = strcspn(at, ",");
        int32_t *cap = *at == '-' ? find_cap(caps, at + 1, n - 1) : NULL;
        const clef_matrix plain = *at == '+' ? find_plain(at + 1, n - 1) : CLEF_MATRIX_NONE;
        if (!cap && !plain)
            return clef__fail(
                err, CLEF_E_ARG,
                "CLEF_DEBUG: caps: '%.*s', expected -NAME[:-NAME...] of cpu unified_memory fp16 fp64 "
                "subgroups subgroup_shuffle int_dot nv_asm "
                "amd_dot arm_dot matrix x86_vnni x86_avxvnni x86_avx2 x86_amx arm64_i8mm "
                "arm64_sdot arm64_bf16 x86_amd float_width own_builtins "
                "whole_body, or +mma, +wmma, +dpas",
                (int)n, at);
        if (cap)
            *cap = 0;
        if (plain) {
            caps->matrix = (clef_matrix)plain;
            caps->matrix_plain = 1;
        }
        at += n + (at[n] == ',');
    }
    return CLEF_OK;
}

/* max_alloc=16M: acts as if the driver allowed no larger buffers. */
static clef_status limit_buffers(clef_caps *caps, clef_error *err)
{
    uint64_t bytes = caps->max_alloc_bytes;
    const clef_status s = clef__parse_size("CLEF_DEBUG: max_alloc", clef__debug("max_alloc"), &bytes, err);
    if (!s && !bytes)
        return clef__fail(err, CLEF_E_ARG, "CLEF_DEBUG: max_alloc: expected a size of 1 or more, got 0");
    if (!s && bytes < caps->max_alloc_bytes)
        caps->max_alloc_bytes = bytes;
    return s;
}

enum { MOST_ALIGN = 64 << 10 };

/* Raises base_align to what clCreateSubBuffer() takes, if that is more than the driver says. Of a driver that
 * refuses every origin, what it said stays, and the first plan fails with its code. */
static void probe_alignment(clef_device *dev, clef_caps *caps)
{
    cl_int code = CL_MISALIGNED_SUB_BUFFER_OFFSET;
    for (int32_t align = caps->base_align; align <= MOST_ALIGN && code == CL_MISALIGNED_SUB_BUFFER_OFFSET;
         align *= 2) {
        const cl_buffer_region second = {.origin = (size_t)align, .size = 1};
        cl_mem whole = clCreateBuffer(dev->context, CL_MEM_READ_WRITE, 2 * (size_t)align, NULL, &code);
        cl_mem part =
            whole ? clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &second, &code)
                  : NULL;
        if (part) {
            clReleaseMemObject(part);
            caps->base_align = align;
        }
        if (whole)
            clReleaseMemObject(whole);
    }
}

enum { HOST_BYTES = 16 << 10, FILE_ALIGN = 32 }; /* weights in a file are aligned to FILE_ALIGN */

static void CL_CALLBACK free_host_memory(cl_mem mem, void *memory)
{
    (void)mem;
    clef__os_free_large(memory, HOST_BYTES + FILE_ALIGN);
}

/* Returns 1 when a buffer in the host's memory is that memory. A driver that copies it would hold each weight
 * twice. The memory is aligned as weights in a file are; some drivers use whole pages alone in place. The
 * read is for drivers that copy at first use. Intel's runtime still copies into the memory after
 * clReleaseMemObject has returned; so the driver says when the memory is free. */
static int host_memory_is_used(clef_device *dev)
{
    char *memory = clef__os_alloc_large(HOST_BYTES + FILE_ALIGN), *host = memory + FILE_ALIGN, is = 0;
    static const char after = 1;
    cl_int code;
    if (!memory)
        return 0;
    cl_mem mem =
        clCreateBuffer(dev->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, HOST_BYTES, host, &code);
    if (!mem || clSetMemObjectDestructorCallback(mem, free_host_memory, memory)) {
        if (mem)
            clReleaseMemObject(mem);
        free_host_memory(NULL, memory);
        return 0;
    }
    if (!clEnqueueReadBuffer(dev->queue, mem, CL_TRUE, HOST_BYTES - 1, 1, &is, 0, NULL, NULL))
        (void)clEnqueueWriteBuffer(dev->queue, mem, CL_TRUE, HOST_BYTES - 1, 1, &after, 0, NULL, NULL);
    const int used = host[HOST_BYTES - 1] == after;
    clReleaseMemObject(mem);
    return used;
}

/* It stops at the widest that works, because each test builds a program. */
clef_status clef__device_probe(clef_device *dev, clef_error *err)
{
    clef_caps *caps = &dev->info.caps;
    caps->x86_vnni = caps->is_cpu && host_has_vnni();
    caps->x86_avxvnni = caps->is_cpu && host_has_avxvnni();
    caps->x86_avx2 = caps->is_cpu && host_has_avx2();
    caps->x86_amx = caps->is_cpu && host_has_amx();
    caps->x86_amd = caps->is_cpu && host_is_amd();
    const clef__os_arm arm = clef__os_arm_query();
    caps->arm64_i8mm = caps->is_cpu && arm.i8mm;
    caps->arm64_sdot = caps->is_cpu && arm.sdot;
    caps->arm64_bf16 = caps->is_cpu && arm.bf16;
    caps->own_builtins = caps->whole_body =
        caps->is_cpu; /* -cpu leaves own_builtins, which GPU kernels use */
    caps->nv_asm = caps->amd_dot = !caps->is_cpu;
    if (!caps->is_cpu && !caps->matrix) /* CLEF_AMD_DOT_*: the compiler knows which one */
        caps->matrix = CLEF_MATRIX_MMA;
    caps->subgroup_shuffle = caps->subgroups == CLEF_SUBGROUP_SUPPORT_SHUFFLE;
    clef_status s = limit_buffers(caps, err);
    if (!s)
        s = mask_caps(caps, err); /* before the tests, because masked capabilities are not tested */
    if (s)
        return s;
    probe_alignment(dev, caps);
    caps->unified_memory = caps->unified_memory && (caps->is_cpu || host_memory_is_used(dev));
    probe_texts(dev, caps);
    if (caps->is_cpu &&
        caps->float_width <=
            1) /* a CPU that runs kernels like a GPU; tested only there, because the test builds a program */
        caps->short_loops = probe_loops(dev);
    if (caps->short_loops) /* in groups the work-items share the rounds */
        caps->is_cpu = caps->own_builtins = caps->whole_body = caps->x86_vnni = caps->x86_avxvnni =
            caps->x86_avx2 = caps->x86_amx = caps->arm64_i8mm = caps->arm64_sdot = caps->arm64_bf16 = 0;
    if (caps->is_cpu && arm.is_arm &&
        caps->float_width == 1) /* PoCL says 1 where LLVM does not know the core */
        caps->float_width = ARM_FLOATS;
    caps->x86_vnni = caps->x86_vnni && dot_works(dev, CLEF_DOT_VNNI);
    caps->x86_avxvnni = !caps->x86_vnni && caps->x86_avxvnni && dot_works(dev, CLEF_DOT_AVXVNNI);
    caps->x86_avx2 = !caps->x86_vnni && !caps->x86_avxvnni && caps->x86_avx2 && dot_works(dev, CLEF_DOT_AVX2);
    caps->x86_amx = caps->x86_amx && caps->x86_vnni && amx_works(dev);
    caps->arm64_i8mm = caps->arm64_i8mm && dot_works(dev, CLEF_DOT_I8MM) && i8mm_works(dev);
    caps->arm64_sdot = !caps->arm64_i8mm && caps->arm64_sdot && dot_works(dev, CLEF_DOT_SDOT);
    caps->arm64_bf16 = caps->arm64_bf16 && bfdot_works(dev);
    clef__probe_gpu(dev);
    return CLEF_OK;
}
