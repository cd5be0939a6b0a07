/* OpenCL devices: what there is, what each can do, and opening one. */
#ifndef CLEF_DEVICE_H
#define CLEF_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Values of clef_caps.subgroups, .amd_dot and .matrix, and bits of .matrix_types. */
typedef enum clef_subgroup_support {
    CLEF_SUBGROUP_SUPPORT_NONE,
    CLEF_SUBGROUP_SUPPORT_PLAIN,  /* cl_khr_subgroups, or OpenCL 3.0 */
    CLEF_SUBGROUP_SUPPORT_SHUFFLE /* cl_khr_subgroup_shuffle or cl_intel_subgroups */
} clef_subgroup_support;
typedef enum clef_amd_dot {
    CLEF_AMD_DOT_NONE = 0,
    CLEF_AMD_DOT_SDOT4 = 3,
    CLEF_AMD_DOT_SUDOT4 = 4
} clef_amd_dot;
typedef enum clef_matrix {
    CLEF_MATRIX_NONE,
    CLEF_MATRIX_MMA,  /* mma.sync in PTX */
    CLEF_MATRIX_WMMA, /* AMD's WMMA */
    CLEF_MATRIX_DPAS, /* Intel's cl_intel_subgroup_matrix_multiply_accumulate */
    CLEF_MATRIX_MFMA, /* AMD's MFMA */
    CLEF_N_MATRICES
} clef_matrix;
enum { CLEF_MATRIX_BYTES = 1, CLEF_MATRIX_HALVES = 2, CLEF_MATRIX_BF16 = 4 };

/** What a device can do, from OpenCL 1.2 queries and extension strings. Kernels are chosen by these fields,
 *  never by a device's name. */
typedef struct clef_caps {
    int32_t is_cpu, is_gpu;
    int32_t unified_memory;          /* host and device share memory, so that weights are used in place */
    int32_t fp16, fp64;              /* arithmetic in these types; storing halves needs neither */
    clef_subgroup_support subgroups; /* from extensions */
    int32_t int_dot;                 /* cl_khr_integer_dot_product, as instructions of the device */
    /* The fields from here to arm64_bf16 are tested on the device when it is opened: a probe's results were
     * right. In a list of devices they are 0. */
    int32_t subgroup_size;    /* work-items of a subgroup, as reported to a kernel; 0: no subgroups, or
                                 wrong ones */
    int32_t subgroup_demand;  /* 0, or the size that a kernel can require; in a list 1: it can require one */
    int32_t subgroup_shuffle; /* work-items of a subgroup can read each other's values */
    int32_t nv_asm;           /* the compiler accepts PTX: dp4a and shfl.sync */
    int32_t nv_bulk_copies;   /* with nv_asm: the compute units copy to local memory in bulk, beside their
                                 work-items (cp.async.bulk) */
    clef_amd_dot amd_dot;     /* which of the two built-ins the compiler has */
    int32_t arm_dot;          /* cl_arm_integer_dot_product_accumulate_int8 */
    clef_matrix matrix;       /* the unit that multiplies small matrices; in a list only CLEF_MATRIX_DPAS
                                 is known */
    int32_t matrix_types;     /* bits CLEF_MATRIX_BYTES ..: what it multiplies */
    int32_t matrix_plain;     /* 1: for tests, caps of $CLEF_DEBUG asks for the unit's kernels with plain C
                                 instead of the instruction */
    int32_t x86_vnni;         /* a CPU with AVX-512 VNNI, and a compiler that accepts it as inline
                                 assembly */
    int32_t x86_avxvnni;      /* AVX-VNNI, likewise; tested only without x86_vnni */
    int32_t x86_avx2;         /* AVX2, likewise; tested only without x86_vnni and x86_avxvnni */
    int32_t x86_amx;          /* AMX with bf16, likewise, if the system lets the process use tiles; may be
                                 set together with x86_vnni */
    int32_t arm64_i8mm;       /* an Arm CPU with usdot and usmmla, likewise */
    int32_t arm64_sdot;       /* an Arm CPU with sdot, likewise; tested only without arm64_i8mm */
    int32_t arm64_bf16;       /* an Arm CPU with bfdot, likewise */
    int32_t x86_amd;          /* a CPU by AMD: its own prefetcher does better than a kernel's hints */
    int32_t own_builtins;     /* a CPU whose compiler lets a program declare the built-in functions itself */
    int32_t whole_body;       /* a CPU whose compiler keeps a function in one piece when it is asked to. With
                                 both, kernels compile faster; no result depends on them */
    int32_t short_loops;      /* the driver ends loops of a kernel after some 65,000 rounds; such a CPU is
                                 treated as a GPU */
    int32_t opencl_version;   /* of the device, 10 * major + minor: 12, 30 */
    int32_t n_units;          /* compute units */
    int32_t max_group;        /* work-items a group, all dims together */
    int32_t max_items[3];     /* work-items a group, per dim */
    int32_t float_width;      /* native float vector width */
    int32_t mhz;
    int32_t base_align; /* bytes: alignment of a sub-buffer's origin */
    int32_t nv_warps;         /* with nv_asm: warps that a compute unit holds at a time, as reported to a
                                 kernel */
    uint64_t local_bytes;
    uint64_t max_alloc_bytes; /* of one buffer */
    uint64_t global_bytes;
} clef_caps;

typedef struct clef_device_info {
    int32_t platform, index; /* the numbers of "P:D" */
    char name[128], vendor[128], platform_name[128], version[128], driver[128];
    clef_caps caps;
    char refused[160]; /* empty, or why clef cannot use the device ("OpenCL 1.1, expected 1.2") */
    char chosen[80];   /* empty, or why clef uses it where none is named */
} clef_device_info;

/** Lists the devices of all platforms, in the loader's order. *out is an array of *n; free it with
 *  clef_devices_free(). With no device, the result is NULL and 0, which is not an error. CLEF_OK,
 *  CLEF_E_NOMEM, CLEF_E_CL. */
CLEF_API clef_status clef_devices_list(clef_device_info **out, int32_t *n, clef_error *err);
CLEF_API void clef_devices_free(clef_device_info *list);

typedef struct clef_device clef_device;

/** Called during long work: `done` of `total` in the same unit. `what` is a static string: "weights",
 *  "kernels", "fused step", "cache", "tuning" .. A result other than 0 stops the work (CLEF_E_CANCELLED,
 *  where there is a status). Called from the thread that called the library. */
typedef int (*clef_progress)(void *user, const char *what, uint64_t done, uint64_t total);

/** Whether PoCL's threads are pinned to processors. On an idle machine pinning gains a few percent, for small
 *  models a third; beside another busy program it costs a quarter. CLEF_PIN_AUTO pins if the machine is idle
 *  when the device is opened. */
typedef enum clef_pin { CLEF_PIN_OFF, CLEF_PIN_ON, CLEF_PIN_AUTO } clef_pin;

typedef struct clef_device_opts {
    int32_t profile;       /* 1: the queue measures device times (clef_plan_profile) */
    const char *cache_dir; /* folder for built programs; "": no cache. NULL: $CLEF_CACHE_DIR, else
                              $XDG_CACHE_HOME/clef, else ~/.cache/clef */
    int32_t n_threads;     /* threads of a CPU device through PoCL; 0: the driver's choice. This sets
                              environment variables that the driver reads once. So it only has an effect
                              before the process's first OpenCL call, and no other thread may read the
                              environment meanwhile */
    clef_pin pin;          /* sets POCL_AFFINITY=1, unless the variable is set or the process is limited to
                              some processors. Like n_threads, it only has an effect before the first
                              OpenCL call */
    const char *prover;    /* path of the clef command, or of a program that accepts `PROVER selftest
                              --prove FILE`. Plans start it to check kernels that the device never ran
                              before: one process per processor, 8 at most. On CPUs such a process also
                              builds a plan's fused step. NULL: $CLEF_PROVER. Without a prover or a cache
                              folder, no kernel is checked */
    void (*notice)(void *user, const char *text); /* NULL, or called with one line about events that
                                                     have no status: for example, that a kernel was
                                                     set aside */
    void *notice_user;
    clef_progress progress; /* NULL, or called while the device is closed and stores built programs
                               ("cache") */
    void *progress_user;
    int32_t no_background; /* 1: no background work: compiled programs are written when the device is
                           closed, and creating a plan waits for its fused step. Use it for benchmarks.
                           $CLEF_DEBUG=background=0 does the same */
    int32_t several;       /* 1: `which` may name several devices, separated by commas: "0:0,1:0". Plans
                              are split over them */
    const float *shares;   /* of several devices: each one's share of the layers, in any unit (60, 40).
                              NULL: by read bandwidth, as clef_device_measure() gives it, within memory. If
                              a device was not measured yet, making a plan measures it */
    int32_t n_shares;      /* number of shares: one per device */
    const char *experts_on; /* NULL, or a second device, named like `which`. In plans of mixtures it has the
                               experts of all layers, and `which` everything else. What a layer's experts
                               read and return crosses through the host. `which` names one device then */
} clef_device_opts;

/** Opens a device: a context and an in-order queue.
 *
 *  which  NULL or "auto": the best device: a GPU before an accelerator before a CPU, then one with memory of
 *         its own, then the one with the most. "P:D": device D of platform P. "D": device D counted over all
 *         platforms. Else a part
 *         of the name of the device or of its platform, in any case; it must match exactly one device. A
 *         refused device only counts if no other matches. With opts->several, a list of these with commas
 *         between; the devices may belong to different platforms, and one may be named twice. The result
 *         then stands for all of them, and the first one describes it.
 *  opts   NULL, or zero fields for defaults.
 *  out    the device, NULL on failure. Free with clef_device_close(), after its plans.
 *
 *  CLEF_OK; CLEF_E_ARG: a list without opts->several, or shares that are not positive or not one per device;
 *  CLEF_E_LIMIT: more than 16 devices; CLEF_E_DEVICE: no device, none that matches (the text lists all), or
 *  the named one is refused; CLEF_E_CL. */
CLEF_API clef_status clef_device_open(const char *which, const clef_device_opts *opts, clef_device **out,
                                      clef_error *err);
/** Closes a device; accepts NULL. Writes built programs to the disk cache. Most drivers do that at once. PoCL
 *  compiles each kernel again for it, which can take as long as building did (20 s at most). If child
 *  processes already built these programs, they store them in the background at idle priority. opts.progress
 *  can stop the writing; the programs are then built or written another time. */
CLEF_API void clef_device_close(clef_device *dev);
/** 1 when a call failed because the device was lost or temporarily had no resources: CLEF_E_CL with
 *  CL_OUT_OF_RESOURCES (-5), CL_DEVICE_NOT_AVAILABLE (-2), CL_INVALID_COMMAND_QUEUE (-36),
 *  CL_INVALID_CONTEXT (-34), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST (-14) or NVIDIA's -9999. */
CLEF_API int32_t clef_error_is_lost(const clef_error *err);
/** Number of existing plans on a device and on those opened with it: one for each stage, and one more for
 *  each plan over several devices. */
CLEF_API int32_t clef_device_n_plans(const clef_device *dev);
/** Replaces the OpenCL context of a device, and of those opened with it, by a new one. No plan may exist on
 *  them (CLEF_E_ARG). Programs are read from the disk cache again, and opts->notice is called.
 *  clef_session_* do this by themselves (clef/generate.h). CLEF_E_CL: the device does not come back. */
CLEF_API clef_status clef_device_reopen(clef_device *dev, clef_error *err);
/** Device i of several that were opened as one; device 0 of a single device is itself; NULL beyond the last.
 *  Borrowed: close only the device that clef_device_open() returned. */
CLEF_API clef_device *clef_device_part(clef_device *dev, int32_t i);
/** Borrowed; lives as long as the device. */
CLEF_API const clef_device_info *clef_device_describe(const clef_device *dev);

/** Measured speed of a device. Bytes are decimal (1 GB = 1e9 bytes); a multiply-add counts as two
 *  operations. */
typedef struct clef_device_speed {
    double read_gb_s;      /* reading memory, from a buffer much larger than the caches */
    double copy_gb_s;      /* copying memory: bytes read plus bytes written */
    double mad_gflop_s;    /* f32 multiply-adds in registers */
    double dot_gop_s;      /* products of bytes with 32-bit sums, in registers, as quantised weights use
                              them; CPUs only, else 0 */
    double tile_gop_s;     /* products of bf16 with f32 sums, in AMX tiles; 0 without AMX */
    double launch_us;      /* time per launch in a row of small launches */
    double round_trip_us;  /* one launch and a read of four bytes of its result */
    uint64_t buffer_bytes; /* size of the buffer that was read: twice the last-level cache, at least 512 MiB
                              if the device has room */
} clef_device_speed;

/** Measures a device with kernels of its own: the best of several rounds each, in a few seconds. Allocates
 *  buffer_bytes of device memory and frees them; nothing else should run meanwhile. Results are checked.
 *  CLEF_OK, CLEF_E_NOMEM, CLEF_E_BUILD, CLEF_E_CL (also if the device read other values than were
 *  written). */
CLEF_API clef_status clef_device_measure(clef_device *dev, clef_device_speed *out, clef_error *err);

/** The last result of clef_device_measure() for this device and driver, from the cache folder.
 *  CLEF_E_NOT_FOUND: not measured yet. */
CLEF_API clef_status clef_device_speed_known(const clef_device *dev, clef_device_speed *out, clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
