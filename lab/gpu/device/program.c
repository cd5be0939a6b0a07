/* Programs. A binary is the assembly; NVIDIA's are PTX, too. */
#include "lab/gpu/device/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cl_program make_program(cl_context context, char *source, char *binary, size_t n_binary, cl_int *code)
{
    cl_program program = source || binary ? gpu_object(sizeof *program) : NULL;
    if (program) {
        program->context = context;
        program->source = source;
        program->binary = binary;
        program->n_binary = n_binary;
        program->status = CL_BUILD_NONE;
        context->dispatch->clRetainContext(context);
    } else {
        free(source);
        free(binary);
    }
    if (code)
        *code = program ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return program;
}

static cl_program CL_API_CALL from_source(cl_context context, cl_uint n, const char **texts,
                                          const size_t *sizes, cl_int *code)
{
    size_t n_all = 0;
    char *all = NULL;
    for (cl_uint i = 0; i < n; i++) {
        const size_t n_text = sizes && sizes[i] ? sizes[i] : strlen(texts[i]);
        char *more = realloc(all, n_all + n_text + 1);
        if (!more) {
            free(all);
            return make_program(context, NULL, NULL, 0, code);
        }
        all = more;
        memcpy(all + n_all, texts[i], n_text);
        n_all += n_text;
        all[n_all] = 0;
    }
    return make_program(context, all, NULL, 0, code);
}

static cl_program CL_API_CALL from_binary(cl_context context, cl_uint n, const cl_device_id *devices,
                                          const size_t *sizes, const unsigned char **binaries, cl_int *codes,
                                          cl_int *code)
{
    (void)devices;
    const int is_right = n == 1 && sizes[0] && binaries[0];
    char *binary = is_right ? malloc(sizes[0]) : NULL;
    if (binary)
        memcpy(binary, binaries[0], sizes[0]);
    if (codes)
        *codes = is_right ? CL_SUCCESS : CL_INVALID_VALUE;
    if (is_right)
        return make_program(context, NULL, binary, sizes[0], code);
    if (code)
        *code = CL_INVALID_VALUE;
    return NULL;
}

static cl_int CL_API_CALL retain_program(cl_program program)
{
    atomic_fetch_add(&program->refs, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_program(cl_program program)
{
    if (atomic_fetch_sub(&program->refs, 1) > 1)
        return CL_SUCCESS;
    gpu_module_destroy(program->module);
    program->context->dispatch->clReleaseContext(program->context);
    free(program->source);
    free(program->binary);
    free(program->log);
    free(program->options);
    free(program);
    return CL_SUCCESS;
}

/* ---- building -------------------------------------------------------------------------------- */

static void set_log(cl_program program, const char *text)
{
    free(program->log);
    program->log = strdup(text);
}

/* Assembly to instructions, which the card has to have. */
static int decode(cl_program program)
{
    char why[GPU_MESSAGE], text[GPU_MESSAGE + 16];
    gpu_module_destroy(program->module);
    program->module = gpu_module_create(program->binary, program->n_binary, gpu_device.card->target, why);
    if (program->module)
        return 1;
    snprintf(text, sizeof text, "error: %s\n", why);
    set_log(program, text);
    return 0;
}

static int compile(cl_program program)
{
    char *log = NULL;
    program->binary = gpu_compile(program->source, program->options ? program->options : "", &log);
    set_log(program, log ? log : "");
    free(log);
    program->n_binary = program->binary ? strlen(program->binary) : 0;
    return program->binary != NULL;
}

static cl_int CL_API_CALL build(cl_program program, cl_uint n, const cl_device_id *devices,
                                const char *options, void(CL_CALLBACK *done)(cl_program, void *), void *user)
{
    (void)n, (void)devices;
    free(program->options);
    program->options = options ? strdup(options) : NULL;
    const int is_built = (program->binary || compile(program)) && decode(program);
    program->status = is_built ? CL_BUILD_SUCCESS : CL_BUILD_ERROR;
    if (done)
        done(program, user);
    return is_built ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

/* ---- queries --------------------------------------------------------------------------------- */

static cl_int CL_API_CALL build_info(cl_program program, cl_device_id device, cl_program_build_info what,
                                     size_t n, void *out, size_t *n_out)
{
    (void)device;
    switch (what) {
    case CL_PROGRAM_BUILD_STATUS:
        return GPU_ANSWER(cl_build_status, program->status);
    case CL_PROGRAM_BUILD_OPTIONS:
        return gpu_answer_text(program->options, n, out, n_out);
    case CL_PROGRAM_BUILD_LOG:
        return gpu_answer_text(program->log, n, out, n_out);
    case CL_PROGRAM_BINARY_TYPE:
        return GPU_ANSWER(cl_program_binary_type,
                          program->module ? CL_PROGRAM_BINARY_TYPE_EXECUTABLE : CL_PROGRAM_BINARY_TYPE_NONE);
    default:
        return CL_INVALID_VALUE;
    }
}

static int count_kernels(const struct _cl_program *program)
{
    int n = 0;
    while (program->module && gpu_module_at(program->module, n))
        n++;
    return n;
}

static cl_int kernel_names(const struct _cl_program *program, size_t n, void *out, size_t *n_out)
{
    char names[8192] = "";
    for (int i = 0; i < count_kernels(program); i++) {
        const char *name = gpu_kernel_name(gpu_module_at(program->module, i));
        if (strlen(names) + strlen(name) + 2 < sizeof names)
            strcat(strcat(names, i ? ";" : ""), name);
    }
    return gpu_answer_text(names, n, out, n_out);
}

static cl_int CL_API_CALL program_info(cl_program program, cl_program_info what, size_t n, void *out,
                                       size_t *n_out)
{
    switch (what) {
    case CL_PROGRAM_REFERENCE_COUNT:
        return GPU_ANSWER(cl_uint, (cl_uint)program->refs);
    case CL_PROGRAM_CONTEXT:
        return GPU_ANSWER(cl_context, program->context);
    case CL_PROGRAM_NUM_DEVICES:
        return GPU_ANSWER(cl_uint, 1);
    case CL_PROGRAM_DEVICES:
        return GPU_ANSWER(cl_device_id, &gpu_device);
    case CL_PROGRAM_SOURCE:
        return gpu_answer_text(program->source, n, out, n_out);
    case CL_PROGRAM_BINARY_SIZES:
        return GPU_ANSWER(size_t, program->n_binary);
    case CL_PROGRAM_BINARIES:
        if (out && *(unsigned char **)out)
            memcpy(*(unsigned char **)out, program->binary, program->n_binary);
        if (n_out)
            *n_out = sizeof(unsigned char *);
        return CL_SUCCESS;
    case CL_PROGRAM_NUM_KERNELS:
        return GPU_ANSWER(size_t, (size_t)count_kernels(program));
    case CL_PROGRAM_KERNEL_NAMES:
        return kernel_names(program, n, out, n_out);
    default:
        return CL_INVALID_VALUE;
    }
}

void gpu_fill_program(cl_icd_dispatch *to)
{
    to->clCreateProgramWithSource = from_source;
    to->clCreateProgramWithBinary = from_binary;
    to->clRetainProgram = retain_program;
    to->clReleaseProgram = release_program;
    to->clBuildProgram = build;
    to->clGetProgramBuildInfo = build_info;
    to->clGetProgramInfo = program_info;
}
