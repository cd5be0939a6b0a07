/* Names of OpenCL's and CLBlast's codes, and the report of a failed call. */
#include "runtime/device/device.h"

/* The numbers are written out, so that the list does not depend on the OpenCL version of the headers or on
 * CLBlast. Sources: the OpenCL 3.0 specification's cl.h; CLBlast 1.5.3's clblast_c.h (its codes from -63 up
 * are OpenCL's own). */
/* clang-format off */
#define CL_CODES(X) \
    X(CL_DEVICE_NOT_FOUND, -1) X(CL_DEVICE_NOT_AVAILABLE, -2) X(CL_COMPILER_NOT_AVAILABLE, -3) \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE, -4) X(CL_OUT_OF_RESOURCES, -5) X(CL_OUT_OF_HOST_MEMORY, -6) \
    X(CL_PROFILING_INFO_NOT_AVAILABLE, -7) X(CL_MEM_COPY_OVERLAP, -8) X(CL_IMAGE_FORMAT_MISMATCH, -9) \
    X(CL_IMAGE_FORMAT_NOT_SUPPORTED, -10) X(CL_BUILD_PROGRAM_FAILURE, -11) X(CL_MAP_FAILURE, -12) \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET, -13) X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14) \
    X(CL_COMPILE_PROGRAM_FAILURE, -15) X(CL_LINKER_NOT_AVAILABLE, -16) X(CL_LINK_PROGRAM_FAILURE, -17) \
    X(CL_DEVICE_PARTITION_FAILED, -18) X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE, -19) X(CL_INVALID_VALUE, -30) \
    X(CL_INVALID_DEVICE_TYPE, -31) X(CL_INVALID_PLATFORM, -32) X(CL_INVALID_DEVICE, -33) \
    X(CL_INVALID_CONTEXT, -34) X(CL_INVALID_QUEUE_PROPERTIES, -35) X(CL_INVALID_COMMAND_QUEUE, -36) \
    X(CL_INVALID_HOST_PTR, -37) X(CL_INVALID_MEM_OBJECT, -38) X(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, -39) \
    X(CL_INVALID_IMAGE_SIZE, -40) X(CL_INVALID_SAMPLER, -41) X(CL_INVALID_BINARY, -42) \
    X(CL_INVALID_BUILD_OPTIONS, -43) X(CL_INVALID_PROGRAM, -44) X(CL_INVALID_PROGRAM_EXECUTABLE, -45) \
    X(CL_INVALID_KERNEL_NAME, -46) X(CL_INVALID_KERNEL_DEFINITION, -47) X(CL_INVALID_KERNEL, -48) \
    X(CL_INVALID_ARG_INDEX, -49) X(CL_INVALID_ARG_VALUE, -50) X(CL_INVALID_ARG_SIZE, -51) \
    X(CL_INVALID_KERNEL_ARGS, -52) X(CL_INVALID_WORK_DIMENSION, -53) X(CL_INVALID_WORK_GROUP_SIZE, -54) \
    X(CL_INVALID_WORK_ITEM_SIZE, -55) X(CL_INVALID_GLOBAL_OFFSET, -56) \
    X(CL_INVALID_EVENT_WAIT_LIST, -57) X(CL_INVALID_EVENT, -58) X(CL_INVALID_OPERATION, -59) \
    X(CL_INVALID_GL_OBJECT, -60) X(CL_INVALID_BUFFER_SIZE, -61) X(CL_INVALID_MIP_LEVEL, -62) \
    X(CL_INVALID_GLOBAL_WORK_SIZE, -63) X(CL_INVALID_PROPERTY, -64) X(CL_INVALID_IMAGE_DESCRIPTOR, -65) \
    X(CL_INVALID_COMPILER_OPTIONS, -66) X(CL_INVALID_LINKER_OPTIONS, -67) \
    X(CL_INVALID_DEVICE_PARTITION_COUNT, -68) X(CL_INVALID_PIPE_SIZE, -69) \
    X(CL_INVALID_DEVICE_QUEUE, -70) X(CL_INVALID_SPEC_ID, -71) X(CL_MAX_SIZE_RESTRICTION_EXCEEDED, -72) \
    X(CL_PLATFORM_NOT_FOUND_KHR, -1001) \
    X(CLBlastNotImplemented, -1024) X(CLBlastInvalidMatrixA, -1022) \
    X(CLBlastInvalidMatrixB, -1021) X(CLBlastInvalidMatrixC, -1020) X(CLBlastInvalidVectorX, -1019) \
    X(CLBlastInvalidVectorY, -1018) X(CLBlastInvalidDimension, -1017) X(CLBlastInvalidLeadDimA, -1016) \
    X(CLBlastInvalidLeadDimB, -1015) X(CLBlastInvalidLeadDimC, -1014) X(CLBlastInvalidIncrementX, -1013) \
    X(CLBlastInvalidIncrementY, -1012) X(CLBlastInsufficientMemoryA, -1011) \
    X(CLBlastInsufficientMemoryB, -1010) X(CLBlastInsufficientMemoryC, -1009) \
    X(CLBlastInsufficientMemoryX, -1008) X(CLBlastInsufficientMemoryY, -1007) \
    X(CLBlastInsufficientMemoryTemp, -2050) X(CLBlastInvalidBatchCount, -2049) \
    X(CLBlastInvalidOverrideKernel, -2048) X(CLBlastMissingOverrideParameter, -2047) \
    X(CLBlastInvalidLocalMemUsage, -2046) X(CLBlastNoHalfPrecision, -2045) \
    X(CLBlastNoDoublePrecision, -2044) X(CLBlastInvalidVectorScalar, -2043) \
    X(CLBlastInsufficientMemoryScalar, -2042) X(CLBlastDatabaseError, -2041) \
    X(CLBlastUnknownError, -2040) X(CLBlastUnexpectedError, -2039)

const char *clef__cl_name(int32_t code)
{
    if (code == 0)
        return "CL_SUCCESS";
    if (code == CLEF__NVIDIA_FAULT)
        return "NVIDIA's illegal access";
    static const struct {
        int32_t code;
        const char *name;
    } names[] = {
#define NAME(text, value) {value, #text},
        CL_CODES(NAME)
#undef NAME
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code)
            return names[i].name;
    return "unknown";
}

clef_status clef__cl_fail(clef_error *err, const char *call, const char *subject, int32_t code)
{
    return clef__fail_cl(err, CLEF_E_CL, code, "%s(%s): %s (%d)", call, subject ? subject : "",
                         clef__cl_name(code), (int)code);
}
