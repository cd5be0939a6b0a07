/* The cache folder: what it holds, whether it is sound, and how to empty it. */
#ifndef CLEF_CACHE_H
#define CLEF_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clef_cache_kind {
    CLEF_CACHE_PROGRAM,    /* a compiled kernel program */
    CLEF_CACHE_FUSED_STEP, /* a compiled program that runs a whole decode step */
    CLEF_CACHE_PROOFS,     /* which kernels were compared with their reference, and how that ended */
    CLEF_CACHE_TUNING,     /* which kernels were measured to be the fastest on a device */
    CLEF_CACHE_SPEED,      /* what a device was measured to do */
    CLEF_CACHE_TOKENS,     /* the tokens of a text file for training */
    CLEF_CACHE_TEMPORARY,  /* a file that a process writes, or left behind */
    CLEF_CACHE_N_KINDS
} clef_cache_kind;

/** A file. The text lives until the callback returns. */
typedef struct clef_cache_entry {
    clef_cache_kind kind;
    const char     *path;
    uint64_t        n_bytes;
    int64_t         age;        /* seconds since it was written or used last */
    int32_t         is_damaged; /* 1: a checksum or a line is wrong; 0 without clef_cache_report.verify */
} clef_cache_entry;

/** A kernel that is not used on a device. The texts live until the callback returns. */
typedef struct clef_cache_aside {
    const char *op, *variant; /* variant "-": the op has one implementation */
    const char *why;          /* "gives wrong numbers" */
    const char *device;       /* its name; empty where the file does not say */
    int32_t     n_hung;       /* on how many starts it hung; CLEF_CACHE_OCCASIONS make it final */
    int64_t     age;          /* seconds since the failure was found; -1: unknown */
} clef_cache_aside;
enum { CLEF_CACHE_OCCASIONS = 3 };

typedef struct clef_cache_report {
    int32_t verify;                                            /* 1: each entry is read and checked */
    void  (*entry)(void *user, const clef_cache_entry *entry); /* NULL: not called */
    void  (*aside)(void *user, const clef_cache_aside *aside); /* NULL: not called */
    void   *user;
} clef_cache_report;

/** The folder that is used when clef_device_opts.cache_dir is NULL: $CLEF_CACHE_DIR, else
 *  $XDG_CACHE_HOME/clef, else ~/.cache/clef. 0: there is none, or it does not fit. */
CLEF_API int32_t clef_cache_dir(char *out, size_t n_bytes);

/** The size that the folder is kept to: $CLEF_CACHE_MAX, a number with K, M or G behind it or nothing; 1 GiB
 *  without it. When a device that built programs is closed, the files used longest ago are removed until the
 *  rest fits, and tokens before all others. CLEF_E_ARG: the variable is not a size. Opening a device then
 *  fails, too. */
CLEF_API clef_status clef_cache_limit(uint64_t *n_bytes, clef_error *err);

/** Calls report->entry for each file of the folder `dir`, in no order, and report->aside for what is set
 *  aside. A folder that is missing is an empty one. CLEF_OK, CLEF_E_NOMEM. */
CLEF_API clef_status clef_cache_list(const char *dir, const clef_cache_report *report, clef_error *err);

/** Removes the files of the kinds whose bits (1 << kind) are set. Processes that use them go on, and build
 *  anew what they need. CLEF_OK, CLEF_E_NOMEM. */
CLEF_API clef_status clef_cache_clear(const char *dir, uint32_t kinds, int32_t *n_removed, clef_error *err);

/** Forgets what is set aside, so that the next start tries it again. *n_forgotten: how many kernels. CLEF_OK,
 *  CLEF_E_NOMEM, CLEF_E_IO. */
CLEF_API clef_status clef_cache_clear_aside(const char *dir, int32_t *n_forgotten, clef_error *err);

/** What an export or an import did. */
typedef struct clef_cache_moved {
    char     device[128];
    int32_t  n_files;    /* in the file, programs included */
    int32_t  n_programs; /* export: in the file; import: those that the folder did not have */
    int32_t  n_proofs, n_tuned; /* import: those that the folder did not have */
    int32_t  other_units; /* import: 0, or the number of compute units where the tuning was measured; it is
                             left out, since this device has another */
    uint64_t n_bytes;    /* of the file */
} clef_cache_moved;

/** Writes what the folder `dir` has of one device into a file: its compiled programs, proofs, tuning and
 *  probes. The file is bound to device, driver, processor and the sources of the kernels. Waits for child
 *  processes that still compile for this folder. `device` is as in clef_device_open(), one device alone.
 *  CLEF_OK, CLEF_E_NOT_FOUND (there are no programs of the device), CLEF_E_IO, CLEF_E_NOMEM, and the errors
 *  of finding the device. */
CLEF_API clef_status clef_cache_export(const char *dir, const char *device, const char *path,
                                       clef_cache_moved *moved, clef_error *err);

/** Adds such a file to the folder. What is there already stays: files are not replaced, and of two verdicts
 *  or measurements that of this folder counts. The whole file is checked before anything is written. Its
 *  programs are machine code that clef will run, so a file must come from somebody who is trusted.
 *  CLEF_OK, CLEF_E_FORMAT (damaged, or another file), CLEF_E_UNSUPPORTED (of another device, driver or
 *  processor, or of other kernels), CLEF_E_IO, CLEF_E_NOMEM, and the errors of finding the device. */
CLEF_API clef_status clef_cache_import(const char *dir, const char *device, const char *path,
                                       clef_cache_moved *moved, clef_error *err);

/** A text that is equal where an import would take the other's export: hexadecimal digits. The errors of
 *  finding the device. */
enum { CLEF_CACHE_TRAVEL_KEY_BYTES = 33 };
CLEF_API clef_status clef_cache_travel_key(const char *device, char out[CLEF_CACHE_TRAVEL_KEY_BYTES],
                                           clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
