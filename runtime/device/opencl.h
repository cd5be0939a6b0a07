/* The header of OpenCL by its name on this system, and nothing newer than OpenCL 1.2: newer entry points are
 * asked for at run time. */
#ifndef CLEF_RUNTIME_OPENCL_H
#define CLEF_RUNTIME_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#ifdef __APPLE__
#    define CL_SILENCE_DEPRECATION /* Apple marks all of OpenCL as deprecated */
#    include <OpenCL/opencl.h>
#else
#    include <CL/cl.h>
#endif

#endif
