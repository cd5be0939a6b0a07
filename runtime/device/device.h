/* The inside of a device: context, queue, and the programs built so far. */
#ifndef CLEF_RUNTIME_DEVICE_H
#define CLEF_RUNTIME_DEVICE_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "clef/device.h"
#include "graph/embedded.h"
#include "graph/fail.h"
#include "graph/launch.h"

typedef struct clef_program clef_program; /* runtime/device/program.c: one source with one set of -D
                                             constants, built */

/** Who writes the programs that were built here to the disk cache, and when. */
typedef enum clef__cache_policy {
    CLEF__SAVE_AT_CLOSE,      /* this process, when the device is closed, for no longer than building took */
    CLEF__SAVE_IN_FOREGROUND, /* the same for up to 20 s; no child goes on in the background */
    CLEF__SAVE_CHEAP,         /* children write the same in the background; here only what takes no time */
    CLEF__SAVE_IN_BACKGROUND, /* this process is such a child: nobody waits for it */
    CLEF__SAVE_NEVER
} clef__cache_policy;

/** A kind of data that another part of the runtime keeps with a device, which knows nothing of it. Its
 *  address is the key. */
typedef struct clef__attachment {
    void  (*release)(clef_device *dev, void *data);
    int32_t with_context; /* 1: released with the device's context; 0: with the device */
} clef__attachment;
enum { CLEF_MAX_ATTACHMENTS = 8 };

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
    clef__cache_policy cache_policy;
    int32_t           slow_to_serialize; /* the driver takes long to hand out a program's binary */
    int32_t           used_clblast;
    void            (*before_clblast)(clef_device *dev); /* NULL, or called once before CLBlast's next use */
    struct {
        const clef__attachment *slot;
        void                   *data;
    }                 attached[CLEF_MAX_ATTACHMENTS];
    int32_t           n_attached;
    char              prover[512];    /* empty: none */
    void            (*notice)(void *user, const char *text);
    void             *notice_user;
    struct clef_device *others;       /* the next of several that were opened as one; NULL: the last, or the
                                         only one */
    int32_t           n_plans;        /* alive */
    double            share;          /* of the layers, as asked for; 0: by measured speed and memory */
};

/** Opens the context of a device that was lost and has not come back so far. For other devices it does
 *  nothing. CLEF_E_CL. */
clef_status clef__device_ready(clef_device *dev, clef_error *err);
/** The data of this kind; NULL: none. */
void *clef__device_attached(const clef_device *dev, const clef__attachment *slot);
/** Keeps `data` with the device until it is released; what was there before is forgotten. */
void  clef__device_attach(clef_device *dev, const clef__attachment *slot, void *data);
/** Keeps what clef_device_measure() found (runtime/device/speed.c). */
void clef__speed_keep(const clef_device *dev, const clef_device_speed *speed);

/** "CL_OUT_OF_RESOURCES" for -5; "CLBlast…" names for CLBlast's own codes; "unknown" else. */
const char *clef__cl_name(int32_t code);

/** Fills err from a failed call: "clCreateBuffer(arena): CL_OUT_OF_HOST_MEMORY (-6)". Returns status. */
clef_status clef__cl_fail(clef_error *err, const char *call, const char *subject, int32_t code);

/** Creates a new kernel object (the caller releases it) for a launch's source, kernel and defs: the program
 *  is looked up in dev->programs, else in the disk cache, else built from the embedded source (or from
 *  $CLEF_CL_DIR). CLEF_E_BUILD: the text names source, kernel and defs, and the build log follows; CLEF_E_CL;
 *  CLEF_E_NOMEM. */
clef_status clef__kernel_create(clef_device *dev, const clef_launch *launch, cl_kernel *out, clef_error *err);
/** A source, whole, with its build options: what is compiled alone and then linked with others. */
typedef struct clef_unit {
    const char *text;
    size_t      n_bytes;
    const char *options;
} clef_unit;
/** Creates a kernel of a program that is linked from several sources; launch->source and ->kernel name it.
 *  CLEF_LINK_FOUND: builds nothing, and returns CLEF_E_NOT_FOUND where the program is not built yet. */
typedef enum clef_link { CLEF_LINK_BUILD, CLEF_LINK_FOUND } clef_link;
clef_status clef__kernel_link(clef_device *dev, const clef_unit *units, int32_t n, const clef_launch *launch,
                              clef_link how, cl_kernel *out, clef_error *err);
/** The build options of a launch's program: the language's version, and -D for each constant.
 *  CLEF_E_LIMIT. */
clef_status clef__program_options(const clef_launch *launch, char *out, size_t n_bytes, clef_error *err);
/** keep writes this kernel's program to the disk cache now. forget takes the program off the device's list:
 *  no further kernel is made of it, and it is never written. */
void clef__program_keep(clef_device *dev, cl_kernel kernel);
void clef__program_forget(clef_device *dev, cl_kernel kernel);
/** How many programs were built from source and not yet written to the disk cache; 0 without a cache. */
int32_t clef__programs_unsaved(const clef_device *dev);
/** Writes one of them. One that cannot be written counts as written. This is done when the device is closed,
 *  since asking PoCL for a binary compiles each kernel once more (some 0.2 s, during which PoCL runs no
 *  kernel). Other drivers answer at once. */
void clef__program_save(clef_device *dev);
/** Writes the programs that are not written yet, if the driver hands out binaries at once, as most do. The
 *  oldest program shows whether it does, unless the environment variable says that it does not. */
#define CLEF_DEAR "CLEF_DEAR_BINARIES"
void clef__programs_save_cheap(clef_device *dev);
/** For a prover that has done its cases and is about to close its device: its programs are written in the
 *  background, while the plan that waited for it goes on. With CLEF_BACKGROUND=0 they are not written. */
void clef__programs_save_in_background(clef_device *dev);
/** 1 when child processes may go on in the background for this device; 0 when it is for the foreground
 *  (clef_device_opts.no_background, $CLEF_BACKGROUND=0). */
int  clef__background_allowed(const clef_device *dev);
/** Seconds that it took to build what is not written. */
double clef__programs_unsaved_seconds(const clef_device *dev);
/** Releases all programs of the device. */
void clef__programs_release(clef_device *dev);

/** Enqueues c = alpha a b + beta c through CLBlast. CLEF_E_CL with its code's name; CLEF_E_UNSUPPORTED when
 *  built without it. */
clef_status clef__clblast_gemm(clef_device *dev, const clef_gemm_call *call, cl_mem c, cl_mem a, cl_mem b,
                               cl_event *event, clef_error *err);
/** Releases what CLBlast keeps for the device; does nothing when it was not used. clef_device_close() calls
 *  it. */
void clef__clblast_release(clef_device *dev);
/** Finds out by trying what no driver says (runtime/device/probe.c), and takes away what $CLEF_CAPS masks
 *  ("-x86_vnni,-fp16"): sets dev->info.caps. CLEF_E_ARG for a name that is no capability. */
clef_status clef__device_probe(clef_device *dev, clef_error *err);
/** Its part for what GPUs have (runtime/device/probe_gpu.c). */
void clef__probe_gpu(clef_device *dev);
/** What the unit that caps.matrix and .matrix_plain say multiplies correctly, as bits of caps.matrix_types
 *  (runtime/device/probe_matrix.c). */
int32_t clef__matrix_works(clef_device *dev);
/** Runs a probe's kernel by one group of n items: out (read and written: got), then two inputs. 1 when it
 *  compiles and runs. */
int clef__probe_run(clef_device *dev, const clef_launch *launch, size_t n, const void *a, size_t a_bytes,
                    const void *b, size_t b_bytes, void *got, size_t got_bytes);

/** 1 when CLBlast was compiled in. */
int clef__clblast_present(void);

#endif
