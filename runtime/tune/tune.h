/* The tuner's internal interface: what was measured on a device (on disk, and as the table that lowering
 * reads), and how a candidate is tried. */
#ifndef CLEF_RUNTIME_TUNE_H
#define CLEF_RUNTIME_TUNE_H

#include "clef/tune.h"
#include "graph/lower/variant.h"
#include "runtime/device/cache.h"
#include "runtime/device/clblast.h"
#include "runtime/plan/plan.h"

/* ---- the database: runtime/tune/tune_db.c, its text: runtime/tune/tune_text.c ---------------- */

typedef enum clef_tune_state {
    CLEF_TUNE_MEASURED, /* right and timed */
    CLEF_TUNE_FAILED,   /* wrong, or it did not build or run: set aside on this device */
    CLEF_TUNE_PASSED    /* not measured: there was no time, or fewer than two variants are proven */
} clef_tune_state;

/** The result of a variant at a key. */
typedef struct clef_tune_result {
    clef_tune_key   key;
    int32_t         row;                       /* CLEF_VARIANT_* */
    clef_tune_state state;
    int32_t         values[CLEF_MAX_TUNABLES]; /* the values with the best time; 0: its own rule */
    int64_t         ns;                        /* of one product with the rows of the class */
    int64_t         error_ppm;                 /* in millionths of the allowed error; or
                                                  CLEF_TUNE_NO_NUMBER */
} clef_tune_result;

/** A variant that is later in the table, or a value other than a variant's own rule, is only used if it is
 *  faster by this much: a smaller gain is noise. */
enum { CLEF_TUNE_GAIN_PERCENT = 3 };
#define CLEF_TUNE_NO_NUMBER INT64_C(1000000000000000) /* an error: NaN, or no result at all */

typedef struct clef_clblast_tuning {
    clef_clblast_kernel kernels[CLEF_MAX_CLBLAST_KERNELS];
    int64_t             mflops_before, mflops_after; /* of f32 1024^3; 0: not measured */
} clef_clblast_tuning;

typedef struct clef_tune_db {
    clef_tune_result   *results;
    int32_t             n, cap;
    clef_clblast_tuning clblast;
    int32_t             n_damaged; /* lines of the file that were skipped */
} clef_tune_db;

/** The device's database, read at the first call and attached to the device. A missing or damaged file counts
 *  as empty. CLEF_E_NOMEM. */
clef_status clef__tune_db_open(clef_device *dev, clef_tune_db **out, clef_error *err);
void        clef__tune_db_free(clef_tune_db *db); /* takes NULL */
/** Adds a result, or replaces the result of the same key and row. CLEF_E_NOMEM. */
clef_status clef__tune_db_put(clef_tune_db *db, const clef_tune_result *result, clef_error *err);
/** NULL: none. */
const clef_tune_result *clef__tune_db_find(const clef_tune_db *db, const clef_tune_key *key, int32_t row);
/** 1 when any variant has a result at the key. */
int         clef__tune_db_knows(const clef_tune_db *db, const clef_tune_key *key);
/** Writes the database, merged with what other processes wrote meanwhile, under the name of this device,
 *  driver and set of kernels. Failing to write is not an error. CLEF_E_NOMEM. */
clef_status clef__tune_db_save(clef_device *dev, clef_tune_db *db, clef_error *err);
/** The path of the file; empty when the device has no cache. CLEF_E_NOMEM. */
clef_status clef__tune_db_path(const clef_device *dev, char out[CLEF_CACHE_PATH_BYTES], clef_error *err);
/** Lists the fastest variant of each key, and the variants that are set aside, in its own memory.
 *  CLEF_E_NOMEM. */
clef_status clef__tuning_make(const clef_tune_db *db, clef_tuning *out, clef_error *err);
/** clef__tuning_make() for the device's database. */
clef_status clef__tuning_of(clef_device *dev, clef_tuning *out, clef_error *err);

/** The text of the database, malloced and NUL-terminated; NULL when out of memory. */
char *clef__tune_print(const clef_tune_db *db, const clef_device_info *device);
/** Adds the results in the text that db does not have. Lines that are damaged, or that name something
 *  unknown, are counted and skipped. CLEF_E_NOMEM. */
clef_status clef__tune_parse(clef_tune_db *db, const char *text, clef_error *err);
/** Writes "q4_0 [4864, 896] x 1 row, 8-bit activations" to `out`. */
void clef__tune_key_text(const clef_tune_key *key, char out[CLEF_TUNE_KEY_BYTES]);

/* ---- trying a candidate: runtime/tune/tune_case.c -------------------------------------------- */

typedef struct clef_tune_case clef_tune_case;

/** 1 when a case can be built from the key. */
int clef__tune_can(const clef_tune_key *key);

typedef struct clef_tune_case_opts {
    uint64_t rotate_bytes; /* bytes of weights that a timing reads at least; the case uses twice this
                              memory */
    double   seconds;      /* seconds of a timing */
    const clef__plan_hooks *hooks; /* hooks of the plans */
    int32_t  brief;        /* 1: many rows are only checked in whole blocks, which compiles less */
} clef_tune_case_opts;

/** Makes the graphs, random data and plans for a key and its other classes of rows. CLEF_E_UNSUPPORTED:
 *  clef__tune_can() returns 0. */
clef_status clef__tune_case_create(clef_device *dev, const clef_tune_key *key,
                                   const clef_tune_case_opts *opts, clef_tune_case **out, clef_error *err);
void        clef__tune_case_destroy(clef_tune_case *c);
/** 1 when the row's variant can run the case at this class of rows. */
int         clef__tune_case_fits(clef_tune_case *c, int32_t row, int32_t class_of_rows);
/** Measures the error against the op's reference in double, in millionths of the allowed error. */
clef_status clef__tune_case_check(clef_tune_case *c, int32_t row, const int32_t *values,
                                  int32_t class_of_rows, int64_t *error_ppm, clef_error *err);
/** A number that is equal for values that make the same launches. */
clef_status clef__tune_case_print(clef_tune_case *c, int32_t row, const int32_t *values,
                                  int32_t class_of_rows, uint64_t *print, clef_error *err);
/** Nanoseconds of one product, the best of several runs. Stops early when a run takes longer than three times
 *  `best` (0: none yet). */
clef_status clef__tune_case_time(clef_tune_case *c, int32_t row, const int32_t *values, int32_t class_of_rows,
                                 int64_t best, int64_t *ns, clef_error *err);

/* ---- the tuner's interface to other layers -------------------------------------------------- */

/** What proofs have shown about a row of the table of variants on a device. The layer above provides it. */
typedef struct clef__trust {
    int (*has_failed)(clef_device *dev, int32_t row);
    int (*is_proven)(clef_device *dev, int32_t row); /* 1 also when nothing is proven on this device */
    const clef__plan_hooks *hooks;                   /* hooks of the plans that candidates are timed with */
} clef__trust;

/** clef_tune() and clef_variants_list() call these. */
clef_status clef__tune(clef_device *dev, const clef_graph *graph, const clef_plan_opts *plan_opts,
                       const clef_tune_opts *opts, const clef__trust *trust, clef_error *err);
clef_status clef__variants_list(clef_device *dev, const clef__trust *trust, clef_variant_info **out,
                                int32_t *n, clef_error *err);

/** The short tuning when a plan is made: measures products of its graph (after the choose pass) that the
 *  database does not know. It takes 2 s at most, and only weights of at least 1 MiB, so that small models
 *  start at once. CLEF_E_CANCELLED, CLEF_E_NOMEM; no other failure stops a plan. */
clef_status clef__tune_at_load(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                               const clef__trust *trust, clef_error *err);

#endif
