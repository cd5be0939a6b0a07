/* The matrix product through CLBlast. */
#include <stdio.h>

#include "runtime/device/clblast.h"

static clef_status refuse(clef_error *err)
{
    return clef__fail(err, CLEF_E_UNSUPPORTED, "gemm clblast: %s", clef__clblast_missing());
}

#ifdef CLEF_HAVE_CLBLAST
#    include "runtime/device/clblast_loader.h"

static clef_status override_kernel(clef_device *dev, const clef_clblast_kernel *k, clef_error *err)
{
    const char *names[CLEF_MAX_CLBLAST_PARAMS];
    size_t values[CLEF_MAX_CLBLAST_PARAMS];
    for (int32_t i = 0; i < k->n; i++) {
        names[i] = k->names[i];
        values[i] = (size_t)k->values[i];
    }
    const clef__clblast *lib = clef__clblast_functions();
    if (!lib)
        return refuse(err);
    const CLBlastStatusCode code =
        lib->CLBlastOverrideParameters(dev->id, k->name, CLBlastPrecisionSingle, (size_t)k->n, names, values);
    return code == CLBlastSuccess ? CLEF_OK
                                  : clef__cl_fail(err, "CLBlastOverrideParameters", k->name, (int32_t)code);
}

clef_status clef__clblast_apply(clef_device *dev, const clef_clblast_kernel kernels[CLEF_MAX_CLBLAST_KERNELS],
                                clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int i = 0; i < CLEF_MAX_CLBLAST_KERNELS && kernels[i].name[0] && !s; i++)
        s = override_kernel(dev, &kernels[i], err);
    return s;
}

clef_status clef__clblast_gemm(clef_device *dev, const clef_gemm_call *call, cl_mem c, cl_mem a, cl_mem b,
                               cl_event *event, clef_error *err)
{
    const CLBlastTranspose ta = call->transpose_a ? CLBlastTransposeYes : CLBlastTransposeNo;
    const CLBlastTranspose tb = call->transpose_b ? CLBlastTransposeYes : CLBlastTransposeNo;
    const clef__clblast *lib = clef__clblast_functions();
    CLBlastStatusCode code;
    if (!lib)
        return refuse(err);
    void (*before)(clef_device *) = dev->before_clblast;
    dev->before_clblast = NULL;
    if (before)
        before(dev);
    dev->used_clblast = 1;
    if (call->batch == 1)
        code = lib->CLBlastSgemm(CLBlastLayoutRowMajor, ta, tb, call->m, call->n, call->k, call->alpha, a,
                                 call->a_offset, call->a_ld, b, call->b_offset, call->b_ld, call->beta, c,
                                 call->c_offset, call->c_ld, &dev->queue, event);
    else
        code = lib->CLBlastSgemmStridedBatched(
            CLBlastLayoutRowMajor, ta, tb, call->m, call->n, call->k, call->alpha, a, call->a_offset,
            call->a_ld, call->a_stride, b, call->b_offset, call->b_ld, call->b_stride, call->beta, c,
            call->c_offset, call->c_ld, call->c_stride, call->batch, &dev->queue, event);
    if (code == CLBlastSuccess)
        return CLEF_OK;
    char subject[96];
    snprintf(subject, sizeof subject, "m=%u n=%u k=%u batch=%u", (unsigned)call->m, (unsigned)call->n,
             (unsigned)call->k, (unsigned)call->batch);
    return clef__cl_fail(err, call->batch == 1 ? "CLBlastSgemm" : "CLBlastSgemmStridedBatched", subject,
                         (int32_t)code);
}

/* CLBlast's cache keeps programs alive, and through them the context. It is one cache for the whole process,
 * so other devices must rebuild their programs. */
void clef__clblast_release(clef_device *dev)
{
    const clef__clblast *clblast = dev->used_clblast ? clef__clblast_functions() : NULL;
    if (clblast)
        clblast->CLBlastClearCache();
    dev->used_clblast = 0;
}

#else

clef_status clef__clblast_gemm(clef_device *dev, const clef_gemm_call *call, cl_mem c, cl_mem a, cl_mem b,
                               cl_event *event, clef_error *err)
{
    (void)dev, (void)call, (void)c, (void)a, (void)b, (void)event;
    return refuse(err);
}

clef_status clef__clblast_apply(clef_device *dev, const clef_clblast_kernel kernels[CLEF_MAX_CLBLAST_KERNELS],
                                clef_error *err)
{
    (void)dev, (void)kernels;
    return refuse(err);
}

void clef__clblast_release(clef_device *dev)
{
    (void)dev;
}

const char *clef__clblast_missing(void)
{
    return "this clef was built without CLBlast";
}
#endif
