/* The fields of a device: context, queue, and the programs built so far. */
#ifndef CLEF_RUNTIME_DEVICE_H
#define CLEF_RUNTIME_DEVICE_H

#include "clef/device.h"
#include "graph/embedded.h"
#include "graph/fail.h"
#include "graph/launch.h"
#include "runtime/device/opencl.h"
#include "runtime/device/source.h"

typedef struct clef_program clef_program; /* one source with one set of -D constants, built
                                             (runtime/device/program.c) */

/** Which process writes the programs that were built here to the disk cache, and when. */
typedef enum clef__cache_policy {
    CLEF__SAVE_AT_CLOSE,      /* this process, when the device is closed, for no longer than building took */
    CLEF__SAVE_IN_FOREGROUND, /* this process, when the device is closed, for up to 20 s; no child
                                 continues in the background */
    CLEF__SAVE_CHEAP,         /* children write the programs in the background; this process only what
                                 takes no time */
    CLEF__SAVE_IN_BACKGROUND, /* this process is such a child: no user waits for it */
    CLEF__SAVE_NEVER
} clef__cache_policy;

/** A kind of data that another part of the runtime attaches to a device. Its address is the key. */
typedef struct clef__attachment {
    void (*release)(clef_device *dev, void *data);
    int32_t with_context; /* 1: released with the device's context; 0: with the device */
} clef__attachment;
enum { CLEF_MAX_ATTACHMENTS = 8 };

struct clef_device {
    clef_device_info info;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue; /* in order */
    int32_t profile;
    clef_progress progress; /* called while the device is closed; NULL: none */
    void *progress_user;
    char cache_dir[512];       /* empty: none */
    clef_program *programs;    /* a list */
    int32_t n_built, n_cached; /* number of programs that were built from source, and that were
                                  read from the disk cache */
    clef__cache_policy cache_policy;
    int32_t slow_to_serialize; /* the driver takes long to return a program's binary */
    int32_t used_clblast;
    void (*before_clblast)(clef_device *dev); /* NULL, or called once before CLBlast's next use */
    struct {
        const clef__attachment *slot;
        void *data;
    } attached[CLEF_MAX_ATTACHMENTS];
    int32_t n_attached;
    char prover[512]; /* empty: none */
    void (*notice)(void *user, const char *text);
    void *notice_user;
    struct clef_device *others; /* the next of several devices that were opened as one; NULL for the
                                   last, or for a single device */
    char *probes;               /* NULL, or the probes that crash or hang (probe_child.c) */
    int32_t probes_known;       /* bits of clef__probes: those that are in it */
    int32_t n_plans;            /* alive */
    struct clef_ranks *ranks;   /* NULL, or plans on this device run on several ranks */
    const struct clef__together *together; /* by these functions */
    int32_t offloads_experts; /* 1: the second of two devices has the experts of mixtures */
    double share;               /* share of the layers that the user asked for; 0: by measured speed
                                   and memory */
};

/** If the device was lost, opens its context again. Does nothing for other devices. CLEF_E_CL. */
clef_status clef__device_ready(clef_device *dev, clef_error *err);
/** clef_device_reopen() where up to `most` plans are left, which have no memory and no kernels yet. */
clef_status clef__device_reopen(clef_device *dev, int32_t most, clef_error *err);
/** The number of compute units, for estimates: 8 where the driver does not know it. */
int32_t     clef__device_units(const clef_caps *caps);
/** Launches a small kernel. 1: the device still computes; 0: its context has failed, or the device
 *  (runtime/device/probe.c). */
int         clef__device_works(clef_device *dev);
/** The attached data of this kind; NULL: none. */
void *clef__device_attached(const clef_device *dev, const clef__attachment *slot);
/** Attaches `data` to the device until it is released. Earlier data of this kind is forgotten. */
void clef__device_attach(clef_device *dev, const clef__attachment *slot, void *data);
/** Sets dev->cache_dir: `wanted`; NULL: $CLEF_CACHE_DIR, else the user's. */
void clef__device_take_cache(clef_device *dev, const char *wanted);
/** Saves what clef_device_measure() found (runtime/device/speed.c). */
void clef__speed_keep(const clef_device *dev, const clef_device_speed *speed);

/** "CL_OUT_OF_RESOURCES" for -5; "CLBlast…" names for CLBlast's own codes; "unknown" else. */
const char *clef__cl_name(int32_t code);

/** NVIDIA's code, in no header, after a kernel has read or written beyond a buffer. */
enum { CLEF__NVIDIA_FAULT = -9999 };
/** Fills err from a failed call: "clCreateBuffer(arena): CL_OUT_OF_HOST_MEMORY (-6)". Returns status. */
clef_status clef__cl_fail(clef_error *err, const char *call, const char *subject, int32_t code);

/** Enqueues filling n bytes of a buffer with `byte`. Returns the OpenCL code. */
int32_t clef__device_fill(const clef_device *dev, cl_mem mem, unsigned char byte, size_t n);

/** Creates a new kernel object for a launch's source, kernel and defs; the caller releases it. The program is
 *  looked up in dev->programs, then in the disk cache, else it is built from the embedded source (or from
 *  cl_dir of $CLEF_DEBUG). CLEF_E_BUILD: the text names source, kernel and defs, and the build log follows;
 * CLEF_E_CL; CLEF_E_NOMEM. */
clef_status clef__kernel_create(clef_device *dev, const clef_launch *launch, cl_kernel *out, clef_error *err);
/** Creates a kernel of a program that is joined from several sources (clef__source_join); launch->source and
 *  ->kernel name it. CLEF_JOIN_FOUND: builds nothing, and returns CLEF_E_NOT_FOUND if the program is not
 *  built yet. */
typedef enum clef_joining { CLEF_JOIN_BUILD, CLEF_JOIN_FOUND } clef_joining;
clef_status clef__kernel_join(clef_device *dev, const clef_piece *parts, int32_t n, const clef_launch *launch,
                              clef_joining how, cl_kernel *out, clef_error *err);
/** The build options of a launch's program: the language's version, and -D for each constant.
 *  CLEF_E_LIMIT. */
clef_status clef__program_options(const clef_launch *launch, char *out, size_t n_bytes, clef_error *err);
/** keep writes this kernel's program to the disk cache now. forget removes the program from the device's
 *  list: no further kernel uses it, and it is never written. */
void clef__program_keep(clef_device *dev, cl_kernel kernel);
void clef__program_forget(clef_device *dev, cl_kernel kernel);
/** How many programs were built from source and not yet written to the disk cache; 0 without a cache. */
int32_t clef__programs_unsaved(const clef_device *dev);
/** Writes one of them. A program that cannot be written counts as written. This happens when the device is
 *  closed, because PoCL compiles each kernel once more to return a binary (some 0.2 s, in which PoCL runs no
 *  kernel). Other drivers answer at once. */
void clef__program_save(clef_device *dev);
/** Writes the programs that are not written yet, if the driver returns binaries at once, as most do. The
 *  oldest program shows whether it does, unless slow_binaries of CLEF_DEBUG says that it does not. */
void clef__programs_save_cheap(clef_device *dev);
/** For a prover that has finished its cases and is about to close its device: its programs are written in the
 *  background, while the plan that waited for it goes on. With CLEF_DEBUG=background=0 they are not written.
 */
void clef__programs_save_in_background(clef_device *dev);
/** 1 when child processes may continue in the background for this device; 0 with
 *  clef_device_opts.no_background or $CLEF_DEBUG=background=0. */
int clef__background_allowed(const clef_device *dev);
/** Seconds that it took to build the programs that are not written. */
double clef__programs_unsaved_seconds(const clef_device *dev);
/** Releases all programs of the device. */
void clef__programs_release(clef_device *dev);

/** Enqueues c = alpha a b + beta c through CLBlast. CLEF_E_CL with the name of its code; CLEF_E_UNSUPPORTED
 *  without CLBlast. */
clef_status clef__clblast_gemm(clef_device *dev, const clef_gemm_call *call, cl_mem c, cl_mem a, cl_mem b,
                               cl_event *event, clef_error *err);
/** Releases what CLBlast holds for the device; does nothing if CLBlast was not used. clef_device_close()
 *  calls it. */
void clef__clblast_release(clef_device *dev);
/** Sets dev->info.caps: tests the capabilities that drivers do not report (runtime/device/probe.c), and
 *  removes those that $CLEF_DEBUG masks ("caps=-x86_vnni:-fp16"). CLEF_E_ARG for a name that is not a
 *  capability. */
clef_status clef__device_probe(clef_device *dev, clef_error *err);
/** The instructions of this machine's processor that kernels may use: "avx2 avx512-vnni". */
void        clef__processor_text(char *out, size_t n_bytes);
/** The part of clef__device_probe() for features of GPUs (runtime/device/probe_gpu.c). */
void clef__probe_gpu(clef_device *dev);
/** The types that the unit of caps.matrix and .matrix_plain multiplies correctly, as bits of
 *  caps.matrix_types (runtime/device/probe_matrix.c). */
int32_t clef__matrix_works(clef_device *dev);
/** Runs a probe's kernel by one group of n work-items. Its buffers are `got` (read and written), then two
 *  inputs. Returns 1 when it compiles and runs. */
int clef__probe_run(clef_device *dev, const clef_launch *launch, size_t n, const void *a, size_t a_bytes,
                    const void *b, size_t b_bytes, void *got, size_t got_bytes);

/** NULL when CLBlast is there, else the reason why not: it was not compiled in, it is not installed, it lacks
 *  functions, or $CLEF_OPENCL names a loader that it would not use. */
const char *clef__clblast_missing(void);
/** NULL when the OpenCL loader is there, else the reason why not. Only with CLEF_DLOPEN_OPENCL. */
const char *clef__opencl_missing(void);

#endif
