/* What every OpenCL loader layer of the tests is made of (CL/cl_layer.h). A file that includes this defines
 * layer_name, and take_over(), which puts its own functions into `ours`; they call on through `next`. For
 * one file a library: it defines the entry points. */
#ifndef CLEF_TESTS_LAYER_H
#define CLEF_TESTS_LAYER_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_layer.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

static const char *const layer_name;
static const cl_icd_dispatch *next; /* the driver, or the layer below */
static cl_icd_dispatch ours;
static void take_over(void);

EXPORTED CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t n, void *out,
                                                        size_t *n_out) {
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *from = what == CL_LAYER_NAME ? (const void *)layer_name : &version;
    const size_t n_from = what == CL_LAYER_NAME ? strlen(layer_name) + 1 : sizeof version;
    if ((what != CL_LAYER_NAME && what != CL_LAYER_API_VERSION) || (out && n < n_from))
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, from, n_from);
    if (n_out)
        *n_out = n_from;
    return CL_SUCCESS;
}

EXPORTED CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint n, const cl_icd_dispatch *target, cl_uint *n_out,
                                                     const cl_icd_dispatch **out) {
    const cl_uint n_ours = sizeof ours / sizeof(void *);
    if (!target || !n_out || !out)
        return CL_INVALID_VALUE;
    memcpy(&ours, target, (n < n_ours ? n : n_ours) * sizeof(void *));
    next = target;
    take_over();
    *n_out = n_ours;
    *out = &ours;
    return CL_SUCCESS;
}

#endif
