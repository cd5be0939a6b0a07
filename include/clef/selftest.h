/* The self-test: every op and every variant that a device admits, held against the ops' references in double. */
#ifndef CLEF_SELFTEST_H
#define CLEF_SELFTEST_H

#include "clef/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clef_selftest_state {
    CLEF_SELFTEST_PASSED,
    CLEF_SELFTEST_FAILED, /* a wrong number, or it does not build or run: `why` */
    CLEF_SELFTEST_UNFIT   /* the device cannot run the variant: `why` */
} clef_selftest_state;

/** What an op's variant did. The texts live until the callback returns. */
typedef struct clef_selftest_row {
    const char         *op, *variant; /* variant empty: the op has one implementation */
    clef_selftest_state state;
    int32_t             used;   /* 1: the stated order, or what was measured, takes it on this device for one of the cases at least */
    int32_t             cases, failed;
    double              worst;  /* the largest error, in parts of what the op allows */
    const char         *why;    /* of the first failure; empty else */
} clef_selftest_row;

typedef struct clef_selftest_opts {
    int32_t     all; /* 1: variants too that would not be used */
    const char *op;  /* NULL: every op; else the one of this name */
    void      (*row)(void *user, const clef_selftest_row *row); /* NULL: nobody is told */
    void       *user;
    clef_progress progress; /* "selftest", in cases; NULL: none */
    void         *progress_user;
} clef_selftest_opts;

/** Runs the cases of the op table in this process. Takes minutes where kernels are compiled slowly: each case is a program or more.
 *
 *  n_failed  how many rows failed that would be used.
 *  CLEF_OK, also where rows failed; CLEF_E_NOT_FOUND (no such op), CLEF_E_NOMEM, CLEF_E_CANCELLED. */
CLEF_API clef_status clef_selftest(clef_device *dev, const clef_selftest_opts *opts, int32_t *n_failed, clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
