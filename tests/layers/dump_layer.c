/* An OpenCL loader layer (CL/cl_layer.h) that writes each program's source into $CLEF_DUMP_DIR/NUMBER.cl as it is built, its build options
 * in the first line behind "// options:". For tools/offline, which compiles them for devices that are not here. */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cl_icd_dispatch *next;
static cl_icd_dispatch ours;
static int n_programs;

static cl_int CL_API_CALL build_program(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                                        void(CL_CALLBACK *done)(cl_program, void *), void *user)
{
    const char *dir = getenv("CLEF_DUMP_DIR");
    size_t n_bytes = 0;
    char path[1024], *source = NULL;
    if (dir && next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &n_bytes) == CL_SUCCESS && n_bytes > 1)
        source = malloc(n_bytes);
    if (source && next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, n_bytes, source, NULL) == CL_SUCCESS) {
        snprintf(path, sizeof path, "%s/%04d.cl", dir, n_programs++);
        FILE *to = fopen(path, "w");
        if (to) {
            fprintf(to, "// options: %s\n%s", options ? options : "", source);
            fclose(to);
        }
    }
    free(source);
    return next->clBuildProgram(program, n, devices, options, done, user);
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t n, void *out, size_t *n_out)
{
    static const char name[] = "clef dump layer";
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *from = what == CL_LAYER_NAME ? (const void *)name : &version;
    const size_t n_from = what == CL_LAYER_NAME ? sizeof name : sizeof version;
    if ((what != CL_LAYER_NAME && what != CL_LAYER_API_VERSION) || (out && n < n_from))
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, from, n_from);
    if (n_out)
        *n_out = n_from;
    return CL_SUCCESS;
}

EXPORTED CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint n, const cl_icd_dispatch *target, cl_uint *n_out, const cl_icd_dispatch **out)
{
    const cl_uint n_ours = sizeof ours / sizeof(void *);
    if (!target || !n_out || !out)
        return CL_INVALID_VALUE;
    memcpy(&ours, target, (n < n_ours ? n : n_ours) * sizeof(void *));
    next = target;
    ours.clBuildProgram = build_program;
    *n_out = n_ours;
    *out = &ours;
    return CL_SUCCESS;
}
