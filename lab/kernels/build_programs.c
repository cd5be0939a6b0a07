/* build_programs FILE...: builds OpenCL programs on the first device, as list_kernels writes them: the
 * options are in the first line, behind "// options: ". For lab/offline --mesa.
 *
 * The first line is "device NAME". Then a line for each kernel, once it is built:
 *   kernel FILE KERNEL PRIVATE LOCAL GROUP      bytes a work-item and a group, and the largest group
 * and for a program that cannot be built:
 *   failed FILE CODE
 * with its log after it on stderr, where lines "begins FILE" also separate what the driver itself prints. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20, MOST_KERNELS = 16 };
static const char mark[] = "// options: ";

static cl_device_id device;
static cl_context context;

static int open_device(void)
{
    cl_platform_id platform;
    char name[256] = "";
    cl_int code;
    if (clGetPlatformIDs(1, &platform, NULL) ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) ||
        clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL))
        return 0;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    printf("device %s\n", name);
    return code == CL_SUCCESS;
}

/* Returns the text of a file, and its options; NULL: it cannot be read. */
static char *read_program(const char *path, char options[8192])
{
    static char text[MOST_BYTES];
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    if (strncmp(text, mark, sizeof mark - 1) != 0)
        return NULL;
    const char *from = text + sizeof mark - 1;
    snprintf(options, 8192, "%.*s", (int)strcspn(from, "\n"), from);
    return text;
}

static void print_kernel(const char *path, cl_kernel kernel)
{
    char name[128] = "";
    size_t group = 0;
    cl_ulong private = 0, local = 0;
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof group, &group, NULL);
    clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_PRIVATE_MEM_SIZE, sizeof private, &private, NULL);
    clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
    printf("kernel %s %s %llu %llu %zu\n", path, name, (unsigned long long)private, (unsigned long long)local,
           group);
}

static void failed(const char *path, cl_program program, cl_int code)
{
    static char log[65536];
    printf("failed %s %d\n", path, code);
    if (program && !clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL))
        fprintf(stderr, "%s\n", log);
}

static void build(const char *path)
{
    char options[8192];
    const char *text = read_program(path, options);
    cl_kernel kernels[MOST_KERNELS];
    cl_uint n = 0;
    cl_int code = CL_INVALID_VALUE;
    cl_program program = text ? clCreateProgramWithSource(context, 1, &text, NULL, &code) : NULL;
    if (program)
        code = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (program && !code)
        code = clCreateKernelsInProgram(program, MOST_KERNELS, kernels, &n);
    if (code)
        failed(path, program, code);
    for (cl_uint i = 0; !code && i < n; i++) {
        print_kernel(path, kernels[i]);
        clReleaseKernel(kernels[i]);
    }
    if (program)
        clReleaseProgram(program);
}

int main(int n, char **args)
{
    if (!open_device()) {
        fprintf(stderr, "build_programs: expected an OpenCL device, found none\n");
        return 1;
    }
    for (int i = 1; i < n; i++) {
        fprintf(stderr, "begins %s\n", args[i]);
        build(args[i]);
        fflush(stdout);
    }
    return 0;
}
