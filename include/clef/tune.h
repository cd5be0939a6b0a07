/* Tuning: measuring, on this device, which variant of an op serves best, and keeping the answer on disk. */
#ifndef CLEF_TUNE_H
#define CLEF_TUNE_H

#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clef_tune_opts {
    double        seconds;  /* no new candidate after so long; 0: no limit */
    int32_t       again;    /* 1: measure also what the database knows */
    clef_progress progress; /* "tuning", in candidates; NULL: none */
    void         *progress_user;
} clef_tune_opts;

/** Measures every variant of what a graph multiplies with its weights, and its attention, at one row, a few and many. Each is first held
 *  against the op's reference in double on random data of the graph's own dtypes and columns; one that is wrong, or does not build, is set
 *  aside on this device. Timing goes through copies of the weight of twice the last cache together, but of 256 MiB at most: where the
 *  cache is larger, the rates are those of the cache. What was found goes to `tuning` in the cache folder, and plans made from then on
 *  use it.
 *
 *  graph      NULL: common shapes (docs/ARCHITECTURE.md, "Variants"). As for clef_plan_create(), optimised or not. Weights' data are not
 *             asked for.
 *  plan_opts  NULL, or gemm, exact and as_stored, as plans will have them.
 *  CLEF_OK, CLEF_E_NOMEM, CLEF_E_CANCELLED, CLEF_E_CL. */
CLEF_API clef_status clef_tune(clef_device *dev, const clef_graph *graph, const clef_plan_opts *plan_opts, const clef_tune_opts *opts,
                               clef_error *err);

typedef struct clef_clblast_report {
    double  gflops_before, gflops_after; /* f32, 1024 x 1024 x 1024: as CLBlast comes, and with what is used from now on */
    int32_t n_tried, n_wrong;
    char    params[320];                 /* "Xgemm GEMMK=0 .."; empty: nothing was better */
} clef_clblast_report;

/** Tries parameters for CLBlast's GEMM kernels through CLBlastOverrideParameters(): each is held against a product in double, on sizes that
 *  are padded and one that is not, before it is timed. The best is kept, in the database too; where none is right and faster, CLBlast is
 *  left as it comes. Compiles for 5 to 10 s a candidate on PoCL. CLEF_E_UNSUPPORTED (built without CLBlast), else as above. */
CLEF_API clef_status clef_tune_clblast(clef_device *dev, const clef_tune_opts *opts, clef_clblast_report *out, clef_error *err);

typedef enum clef_variant_state {
    CLEF_VARIANT_CHOSEN,    /* serves the key: the fastest of those measured */
    CLEF_VARIANT_SLOWER,
    CLEF_VARIANT_FAILED,    /* set aside: its check failed */
    CLEF_VARIANT_UNTIMED,   /* there was no time to measure it */
    CLEF_VARIANT_UNFIT,     /* the device cannot run it */
    CLEF_VARIANT_BY_ORDER   /* nothing was measured: the stated order decides, and this is admitted */
} clef_variant_state;

enum { CLEF_TUNE_KEY_BYTES = 96 };

/** A variant at a key; key is empty for what holds at every key. us: of one product; best_us: of the variant that serves. */
typedef struct clef_variant_info {
    const char        *op, *variant;
    clef_variant_state state;
    char               key[CLEF_TUNE_KEY_BYTES];
    char               values[64]; /* "span=4": the tunables it was fastest with */
    double             us, best_us;
    double             error;      /* of its check, in parts of what is allowed */
    char               why[192];   /* one line: why it serves or why it does not */
} clef_variant_info;

/** What each variant is to a device: those of the database, key by key, and those that no key has. *out is an array of *n, to be freed with
 *  clef_variants_free(). CLEF_OK, CLEF_E_NOMEM. */
CLEF_API clef_status clef_variants_list(clef_device *dev, clef_variant_info **out, int32_t *n, clef_error *err);
CLEF_API void        clef_variants_free(clef_variant_info *list);

#ifdef __cplusplus
}
#endif
#endif
