/* The tuner's inside: what was measured on a device (on disk, and as the table that lowering reads), and how
 * a candidate is tried. */
#ifndef CLEF_RUNTIME_TUNE_H
#define CLEF_RUNTIME_TUNE_H

#include "clef/tune.h"
#include "graph/lower/variant.h"
#include "runtime/device/cache.h"
#include "runtime/device/clblast.h"
#include "runtime/plan/plan.h"

/* ---- the database: runtime/tune/tune_db.c, its text: runtime/tune/tune_text.c ---------------- */

typedef enum clef_tune_state {
    CLEF_TUNE_MEASURED, /* right, and timed */
    CLEF_TUNE_FAILED,   /* wrong, or it did not build or run: set aside on this device */
    CLEF_TUNE_PASSED    /* passed over: there was no time for it */
} clef_tune_state;

/** What a variant did at a key. */
typedef struct clef_tune_result {
    clef_tune_key   key;
    int32_t         row;                       /* CLEF_VARIANT_* */
    clef_tune_state state;
    int32_t         values[CLEF_MAX_TUNABLES]; /* the best it was timed with; 0: its own rule */
    int64_t         ns;                        /* of one product with clef__tune_rows() rows */
    int64_t         error_ppm;                 /* in millionths of what is allowed; or CLEF_TUNE_NO_NUMBER */
} clef_tune_result;

/** What comes later in the table, or is no variant's own rule, must be faster by this to serve: less is
 *  noise. */
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
    int32_t             n_damaged; /* lines of the file that were passed over */
} clef_tune_db;

/** The device's database, read at the first call; it belongs to the device. A missing or damaged file is an
 *  empty one. CLEF_E_NOMEM. */
clef_status clef__tune_db_open(clef_device *dev, clef_tune_db **out, clef_error *err);
void        clef__tune_db_free(clef_tune_db *db); /* takes NULL */
/** Adds a result, or takes the place of that of the same key and row. CLEF_E_NOMEM. */
clef_status clef__tune_db_put(clef_tune_db *db, const clef_tune_result *result, clef_error *err);
/** NULL: none. */
const clef_tune_result *clef__tune_db_find(const clef_tune_db *db, const clef_tune_key *key, int32_t row);
/** 1 when any variant has a result there. */
int         clef__tune_db_knows(const clef_tune_db *db, const clef_tune_key *key);
/** Writes the database, with what other processes wrote meanwhile, under the name of this device, driver and
 *  set of kernels. One that cannot be written is no error. CLEF_E_NOMEM. */
clef_status clef__tune_db_save(clef_device *dev, clef_tune_db *db, clef_error *err);
/** Where the file is; empty when the device has no cache. CLEF_E_NOMEM. */
clef_status clef__tune_db_path(const clef_device *dev, char out[CLEF_CACHE_PATH_BYTES], clef_error *err);
/** The fastest variant of each key, and which variants are set aside, in memory of its own. CLEF_E_NOMEM. */
clef_status clef__tuning_make(const clef_tune_db *db, clef_tuning *out, clef_error *err);
/** The same of the device's database. */
clef_status clef__tuning_of(clef_device *dev, clef_tuning *out, clef_error *err);

/** The text of the database, malloced and NUL-terminated; NULL: no memory. */
char *clef__tune_print(const clef_tune_db *db, const clef_device_info *device);
/** Adds what the text says and db does not; lines that are damaged, or name what this build does not know,
 *  are counted and passed over. CLEF_E_NOMEM. */
clef_status clef__tune_parse(clef_tune_db *db, const char *text, clef_error *err);
/** "q4_0 [4864, 896] x 1 row, 8-bit activations" in out. */
void clef__tune_key_text(const clef_tune_key *key, char out[CLEF_TUNE_KEY_BYTES]);

/* ---- trying a candidate: runtime/tune/tune_case.c -------------------------------------------- */

typedef struct clef_tune_case clef_tune_case;

/** How many rows a class is timed with. */
int32_t clef__tune_rows(int32_t class_of_rows);
/** 1 when a case can be built from the key. */
int clef__tune_can(const clef_tune_key *key);

typedef struct clef_tune_case_opts {
    uint64_t rotate_bytes; /* weights that a timing reads at least; it takes twice this memory */
    double   seconds;      /* of a timing */
    const clef__plan_hooks *hooks; /* of the plans */
    int32_t  brief;        /* 1: many rows are checked in whole blocks only, which compiles less */
} clef_tune_case_opts;

/** Makes the graphs, random data and the plans for a key and its other classes of rows. CLEF_E_UNSUPPORTED:
 *  clef__tune_can() says no. */
clef_status clef__tune_case_create(clef_device *dev, const clef_tune_key *key,
                                   const clef_tune_case_opts *opts, clef_tune_case **out, clef_error *err);
void        clef__tune_case_destroy(clef_tune_case *c);
/** 1 when the row can do the case at this class of rows. */
int         clef__tune_case_fits(clef_tune_case *c, int32_t row, int32_t class_of_rows);
/** The error against the op's reference in double, in millionths of what is allowed. */
clef_status clef__tune_case_check(clef_tune_case *c, int32_t row, const int32_t *values,
                                  int32_t class_of_rows, int64_t *error_ppm, clef_error *err);
/** A number that is the same for values that make the same launches. */
clef_status clef__tune_case_print(clef_tune_case *c, int32_t row, const int32_t *values,
                                  int32_t class_of_rows, uint64_t *print, clef_error *err);
/** Nanoseconds of one product, the best of several runs; it stops early where one takes longer than three
 *  times `best` (0: none yet). */
clef_status clef__tune_case_time(clef_tune_case *c, int32_t row, const int32_t *values, int32_t class_of_rows,
                                 int64_t best, int64_t *ns, clef_error *err);

/* ---- the rest -------------------------------------------------------------------------------- */

/** What is known by proof of a row of the table of variants on a device. The layer above provides it. */
typedef struct clef__trust {
    int (*has_failed)(clef_device *dev, int32_t row);
    int (*is_proven)(clef_device *dev, int32_t row); /* or nothing is proven on this device */
    const clef__plan_hooks *hooks;                   /* of the plans that candidates are timed with */
} clef__trust;

/** What clef_tune() and clef_variants_list() do. */
clef_status clef__tune(clef_device *dev, const clef_graph *graph, const clef_plan_opts *plan_opts,
                       const clef_tune_opts *opts, const clef__trust *trust, clef_error *err);
clef_status clef__variants_list(clef_device *dev, const clef__trust *trust, clef_variant_info **out,
                                int32_t *n, clef_error *err);

/** The short tune when a plan is made, of what its graph (after the choose pass) multiplies and the database
 *  does not know: 2 s at most, and only weights of at least 1 MiB, so that small models start at once.
 *  CLEF_E_CANCELLED, CLEF_E_NOMEM; nothing else stops a plan. */
clef_status clef__tune_at_load(clef_device *dev, const clef_graph *graph, const clef_plan_opts *opts,
                               const clef__trust *trust, clef_error *err);

#endif
