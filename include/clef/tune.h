/* Tuning: measures which kernels are fastest on this device, and keeps the results on disk. */
#ifndef CLEF_TUNE_H
#define CLEF_TUNE_H

#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clef_tune_opts {
    double        seconds;  /* no new candidate is started after this time; 0: no limit */
    int32_t       again;    /* 1: measure again what the database knows */
    clef_progress progress; /* "tuning", in candidates; NULL: none */
    void         *progress_user;
} clef_tune_opts;

/** Measures all variants of the graph's products with weights and of its attention, at one row, a few rows
 *  and many. Each variant is first compared with the op's reference in double, on random data of the graph's
 *  own dtypes and widths. A variant that is wrong or does not build is set aside on this device. Timing uses
 *  copies of the weight, together twice the size of the last-level cache but 256 MiB at most; with a larger
 *  cache, the rates are those of the cache. Results go to the file `tuning` in the cache folder, and later
 *  plans use them.
 *
 *  graph      NULL: common shapes of language models. As for clef_plan_create(), optimised or not; its
 *             weights' data are not read.
 *  plan_opts  NULL, or compile.gemm, compile.exact and as_stored, as the plans will have them.
 *
 *  CLEF_OK, CLEF_E_NOMEM, CLEF_E_CANCELLED, CLEF_E_CL. */
CLEF_API clef_status clef_tune(clef_device *dev, const clef_graph *graph, const clef_plan_opts *plan_opts,
                               const clef_tune_opts *opts, clef_error *err);

typedef struct clef_clblast_report {
    double  gflops_before, gflops_after; /* f32, 1024 x 1024 x 1024: with CLBlast's own parameters, and with
                                            those used from now on */
    int32_t n_tried, n_wrong;
    char    params[320];                 /* "Xgemm GEMMK=0 .."; empty: no set was better */
} clef_clblast_report;

/** Tries parameters of CLBlast's GEMM kernels with CLBlastOverrideParameters(). Each set is first compared
 *  with a product in double, at sizes that need padding and one that does not, then timed. The best set is
 *  used and kept in the database; if none is both right and faster, CLBlast keeps its own. On PoCL each set
 *  takes 5 to 10 s to compile. CLEF_E_UNSUPPORTED (no CLBlast), else as clef_tune(). */
CLEF_API clef_status clef_tune_clblast(clef_device *dev, const clef_tune_opts *opts, clef_clblast_report *out,
                                       clef_error *err);

typedef enum clef_variant_state {
    CLEF_VARIANT_CHOSEN,    /* used at this key: the fastest that was measured */
    CLEF_VARIANT_SLOWER,
    CLEF_VARIANT_FAILED,    /* set aside, because its check failed */
    CLEF_VARIANT_UNTIMED,   /* not measured, for lack of time */
    CLEF_VARIANT_UNFIT,     /* the device cannot run it */
    CLEF_VARIANT_BY_ORDER   /* nothing was measured; the default order decides, and allows this one */
} clef_variant_state;

enum { CLEF_TUNE_KEY_BYTES = 96 };

/** A variant at a key of the database; the key is empty for what holds at every key. us: time of one
 *  product; best_us: the same with the variant that is used. */
typedef struct clef_variant_info {
    const char        *op, *variant;
    clef_variant_state state;
    char               key[CLEF_TUNE_KEY_BYTES];
    char               values[64]; /* "span=4": the tunable values with which it was fastest */
    double             us, best_us;
    double             error;      /* of its check; 1 is the largest allowed */
    char               why[192];   /* one line: why it is used or not */
} clef_variant_info;

/** Lists each variant with its state on a device: those of the database, key by key, then those without a
 *  key. *out is an array of *n; free it with clef_variants_free(). CLEF_OK, CLEF_E_NOMEM. */
CLEF_API clef_status clef_variants_list(clef_device *dev, clef_variant_info **out, int32_t *n,
                                        clef_error *err);
CLEF_API void        clef_variants_free(clef_variant_info *list);

#ifdef __cplusplus
}
#endif
#endif
