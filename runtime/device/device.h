/* The inside of a device: context, queue, and the programs built so far. */
#ifndef CLEF_RUNTIME_DEVICE_H
#define CLEF_RUNTIME_DEVICE_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "clef/device.h"
#include "graph/fail.h"
#include "graph/launch.h"

typedef struct clef_program clef_program; /* runtime/device/program.c: one source with one set of -D constants, built */

struct clef_device {
    clef_device_info  info;
    cl_platform_id    platform;
    cl_device_id      id;
    cl_context        context;
    cl_command_queue  queue;   /* in order */
    int32_t           profile;
    clef_progress     progress;      /* while it is closed; NULL: none */
    void             *progress_user;
    char              cache_dir[512]; /* empty: none */
    clef_program     *programs;       /* a list */
    int32_t           n_built, n_cached; /* programs built from source, taken from the disk cache */
    int32_t           dear_binaries;     /* the driver takes long to hand out a binary */
    int32_t           foreground;        /* clef_device_opts.no_background */
    int32_t           saves_nothing;     /* no program is written any more */
    int32_t           saves_behind;      /* nobody waits for this process: it writes what it built at leisure */
    int32_t           saved_behind;      /* provers do that with what this device's plans launch */
    int32_t           used_clblast;
    int32_t           clblast_ready;  /* what the tuner found for it was applied */
    struct clef_tune_db *tuning;      /* runtime/tune/tune.h; NULL: not read yet */
    struct clef_replay *replay;       /* runtime/plan/replay.h; NULL: not tried yet */
    struct clef_proofs *proofs;       /* runtime/prove/proof.h; NULL: not read yet */
    struct clef_fused_job *fused_jobs; /* runtime/plan/fused.h: fused steps that are built beside this process */
    char              prover[512];    /* empty: none */
    void            (*notice)(void *user, const char *text);
    void             *notice_user;
    struct clef_device *others;       /* the next of several that were opened as one; NULL: the last, or the only one */
    int32_t           n_plans;        /* alive */
    double            share;          /* of the layers, as asked for; 0: by measured speed and memory */
};

/** Opens the context of a device that was lost and did not come back so far; nothing else to do for others. CLEF_E_CL. */
clef_status clef__device_ready(clef_device *dev, clef_error *err);
/** Keeps what clef_device_measure() found (runtime/device/speed.c). */
void clef__speed_keep(const clef_device *dev, const clef_device_speed *speed);

/** "CL_OUT_OF_RESOURCES" for -5; "CLBlast…" names for CLBlast's own codes; "unknown" else. */
const char *clef__cl_name(int32_t code);

/** Fills err from a failed call: "clCreateBuffer(arena): CL_OUT_OF_HOST_MEMORY (-6)". Returns status. */
clef_status clef__cl_fail(clef_error *err, const char *call, const char *subject, int32_t code);

/** Gives a new kernel object (the caller releases it) for a launch's source, kernel and defs: the program is looked up in dev->programs,
 *  else in the disk cache, else built from the embedded source (or from $CLEF_CL_DIR).
 *  CLEF_E_BUILD: the text names source, kernel and defs, and the build log follows; CLEF_E_CL; CLEF_E_NOMEM. */
clef_status clef__kernel_create(clef_device *dev, const clef_launch *launch, cl_kernel *out, clef_error *err);
/** A source, whole, with its build options: what is compiled alone and then linked with others. */
typedef struct clef_unit {
    const char *text;
    size_t      n_bytes;
    const char *options;
} clef_unit;
/** The same for a kernel of a program that is linked of several sources; launch->source and ->kernel name it. CLEF_LINK_FOUND: of one that
 *  is there, else CLEF_E_NOT_FOUND. */
typedef enum clef_link { CLEF_LINK_BUILD, CLEF_LINK_FOUND } clef_link;
clef_status clef__kernel_link(clef_device *dev, const clef_unit *units, int32_t n, const clef_launch *launch, clef_link how, cl_kernel *out,
                              clef_error *err);
/** The build options of a launch's program: the language's version, and -D for each constant. CLEF_E_LIMIT. */
clef_status clef__program_options(const clef_launch *launch, char *out, size_t n_bytes, clef_error *err);
/** Writes the program of this kernel to the disk cache now; forgets it: nobody gets another kernel of it, and it is not written. */
void clef__program_keep(clef_device *dev, cl_kernel kernel);
void clef__program_forget(clef_device *dev, cl_kernel kernel);
/** How many programs were built from source and not yet written to the disk cache; 0 without a cache. */
int32_t clef__programs_unsaved(const clef_device *dev);
/** Writes one of them; one that cannot be written counts as written. It is done when the device is closed: a binary of PoCL's holds the
 *  work-group functions of the enqueues so far, and asking for it compiles one more (some 0.2 s a kernel, during which PoCL runs no
 *  kernel; other drivers answer at once). */
void clef__program_save(clef_device *dev);
/** Writes what is not yet written as long as the driver hands binaries out at once, as most do: finds out by the oldest, unless the
 *  environment says that it does not. */
#define CLEF_DEAR "CLEF_DEAR_BINARIES"
void clef__programs_save_cheap(clef_device *dev);
/** For a prover whose cases are done, before its device is closed: what it built is written behind the user's back, when the plan that
 *  waited goes on; with CLEF_BACKGROUND=0 it is not written. */
void clef__programs_save_behind(clef_device *dev);
/** 1 unless the device is for the foreground or $CLEF_BACKGROUND is 0: then all is written before a device is closed, and nothing goes on
 *  behind. */
int  clef__programs_go_behind(const clef_device *dev);
/** Seconds that it took to build what is not written. */
double clef__programs_unsaved_seconds(const clef_device *dev);
/** Releases all programs of the device. */
void clef__programs_release(clef_device *dev);

/** The embedded kernel sources (made by the build from cl/): the text of cl/NAME ("copy.cl", "group.h"), NULL if none. */
typedef struct clef_embedded {
    const char          *name;
    const unsigned char *text; /* NUL-terminated */
    size_t               n_bytes;
} clef_embedded;
extern const clef_embedded clef__embedded_cl[]; /* ends with a NULL name */

/** Enqueues c = alpha a b + beta c through CLBlast. CLEF_E_CL with its code's name; CLEF_E_UNSUPPORTED when built without it. */
clef_status clef__clblast_gemm(clef_device *dev, const clef_gemm_call *call, cl_mem c, cl_mem a, cl_mem b, cl_event *event,
                               clef_error *err);
/** Releases what CLBlast keeps for the device; does nothing when it was not used. clef_device_close() calls it. */
void clef__clblast_release(clef_device *dev);
/** Finds out by trying what no driver says (runtime/device/probe.c), and takes away what $CLEF_CAPS masks ("-x86_vnni,-fp16"): sets
 *  dev->info.caps. CLEF_E_ARG for a name that is no capability. */
clef_status clef__device_probe(clef_device *dev, clef_error *err);
/** Its part for what GPUs have (runtime/device/probe_gpu.c). */
void clef__probe_gpu(clef_device *dev);
/** What the unit that caps.matrix and .matrix_plain say multiplies rightly, as bits of caps.matrix_types (runtime/device/probe_matrix.c). */
int32_t clef__matrix_works(clef_device *dev);
/** Runs a probe's kernel by one group of n items: out (read and written: got), then two inputs. 1 when it compiles and runs. */
int clef__probe_run(clef_device *dev, const clef_launch *launch, size_t n, const void *a, size_t a_bytes, const void *b, size_t b_bytes,
                    void *got, size_t got_bytes);

/** 1 when CLBlast was compiled in. */
int clef__clblast_present(void);

#endif
