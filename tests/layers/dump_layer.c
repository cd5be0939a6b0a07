/* An OpenCL loader layer (CL/cl_layer.h) that writes each program's source into $CLEF_DUMP_DIR/NUMBER.cl as it is built, its build options
 * in the first line behind "// options:". For tools/offline, which compiles them for devices that are not here. */
#include "tests/layers/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char *const layer_name = "clef dump layer";

static void take_over(void)
{
    ours.clBuildProgram = build_program;
}
