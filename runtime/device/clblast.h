/* CLBlast, an optional library of matrix products: products, and the parameters of its kernels. */
#ifndef CLEF_RUNTIME_CLBLAST_H
#define CLEF_RUNTIME_CLBLAST_H

#include "runtime/device/device.h"

enum { CLEF_MAX_CLBLAST_PARAMS = 20, CLEF_MAX_CLBLAST_KERNELS = 6 };
/** Parameters of one of CLBlast's kernels, in the form of CLBlastOverrideParameters(). */
typedef struct clef_clblast_kernel {
    char    name[24]; /* "Xgemm"; empty: none */
    int32_t n;
    char    names[CLEF_MAX_CLBLAST_PARAMS][24];
    int32_t values[CLEF_MAX_CLBLAST_PARAMS];
} clef_clblast_kernel;

/** Makes CLBlast use these parameters on the device. The list ends with the first kernel without a name;
 *  kernels that it does not name keep theirs. CLEF_E_CL, CLEF_E_UNSUPPORTED without CLBlast. */
clef_status clef__clblast_apply(clef_device *dev, const clef_clblast_kernel kernels[CLEF_MAX_CLBLAST_KERNELS],
                                clef_error *err);

#endif
