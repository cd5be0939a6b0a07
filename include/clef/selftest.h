/* The self-test: compares every op, with every variant that a device allows, with the op's reference in
 * double. */
#ifndef CLEF_SELFTEST_H
#define CLEF_SELFTEST_H

#include "clef/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clef_selftest_state {
    CLEF_SELFTEST_PASSED,
    CLEF_SELFTEST_FAILED, /* wrong numbers, or it does not build or run; see `why` */
    CLEF_SELFTEST_UNFIT   /* the device cannot run the variant; see `why` */
} clef_selftest_state;

/** The result of a variant of an op. The texts live until the callback returns. */
typedef struct clef_selftest_row {
    const char         *op, *variant; /* variant is empty if the op has one implementation */
    clef_selftest_state state;
    int32_t             used;   /* 1: this device uses it for at least one of the cases, by default order or
                                   by measurement */
    int32_t             cases, failed;
    double              worst;  /* the largest error; 1 is the largest that the op allows */
    const char         *why;    /* reason of the first failure, else empty */
} clef_selftest_row;

typedef struct clef_selftest_opts {
    int32_t     all; /* 1: also variants that would not be used */
    const char *op;  /* NULL: every op; else "OP[,OP]", those that are tested */
    void      (*row)(void *user, const clef_selftest_row *row); /* NULL, or called for each result */
    void       *user;
    clef_progress progress; /* "selftest", in cases; NULL: none */
    void         *progress_user;
    int32_t     apart; /* 1: each of several ops in a process of its own, so that one whose kernel ends the
                          process or loses the device does not spoil the next. The device's prover has to be
                          the clef command */
} clef_selftest_opts;

/** Runs the cases of all ops in this process, unless `apart` is set. Takes minutes where compiling is slow,
 *  because each case needs a program or more.
 *
 *  n_failed  number of failed rows whose variant would be used.
 *
 *  CLEF_OK, also with failed rows; CLEF_E_NOT_FOUND (no such op), CLEF_E_NOMEM, CLEF_E_CANCELLED. */
CLEF_API clef_status clef_selftest(clef_device *dev, const clef_selftest_opts *opts, int32_t *n_failed,
                                   clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
