/* OpenCL devices: what there is, what each can do, and opening one. */
#ifndef CLEF_DEVICE_H
#define CLEF_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a device can do, as its driver says (OpenCL 1.2 queries and extension strings). Plain data; nothing is chosen by name. */
typedef struct clef_caps {
    int32_t  is_cpu, is_gpu;
    int32_t  unified_memory;   /* host and device share memory: weights are used where they lie */
    int32_t  fp16, fp64;       /* arithmetic; half storage needs neither */
    int32_t  subgroups;        /* of work-items: by cl_khr_subgroups, cl_intel_subgroups or OpenCL 3.0; 2: with shuffles */
    int32_t  int_dot;          /* cl_khr_integer_dot_product */
    int32_t  command_buffer;   /* cl_khr_command_buffer */
    /* From here to x86_amx: tried on the device when it is opened, and its results right; 0 in a list of devices. */
    int32_t  subgroup_size;    /* work-items of a subgroup, as a kernel was told; 0: no subgroups, or wrong ones */
    int32_t  subgroup_demand;  /* 0, or the size that a kernel can demand; in a list 1: it can demand one */
    int32_t  subgroup_shuffle; /* its items can read one another */
    int32_t  nv_asm;           /* the compiler takes PTX: dp4a and shfl.sync */
    int32_t  amd_dot;          /* the compiler has sdot4 (3) or sudot4 (4) */
    int32_t  arm_dot;          /* cl_arm_integer_dot_product_accumulate_int8 */
    int32_t  matrix;           /* a unit that multiplies small matrices: 1 mma.sync in PTX, 2 AMD's WMMA, 3 Intel's; in a list 3 or 0 */
    int32_t  matrix_types;     /* what it multiplies: 1 bytes, 2 halves, 4 bf16, added */
    int32_t  matrix_plain;     /* 1: $CLEF_CAPS asks for the unit's kernels with plain C in the instruction's place, a test */
    int32_t  x86_vnni;         /* a CPU with AVX-512 VNNI whose compiler takes it as assembly */
    int32_t  x86_avxvnni;      /* the same of AVX-VNNI; looked for where x86_vnni is not there */
    int32_t  x86_avx2;         /* the same of AVX2; looked for where neither is there */
    int32_t  x86_amx;          /* the same of AMX with bf16, beside x86_vnni, where the system lets the process have its tiles */
    int32_t  short_loops;      /* loops of a kernel end after some 65,000 rounds, whatever they say; such a CPU is treated as a GPU */
    int32_t  opencl_version;   /* of the device, 10 * major + minor: 12, 30 */
    int32_t  n_units;          /* compute units */
    int32_t  max_group;        /* work-items a group, all dims together */
    int32_t  max_items[3];     /* work-items a group, per dim */
    int32_t  float_width;      /* native float vector width */
    int32_t  mhz;
    int32_t  base_align;       /* bytes: alignment of a sub-buffer's origin */
    uint64_t local_bytes;
    uint64_t max_alloc_bytes;  /* of one buffer */
    uint64_t global_bytes;
} clef_caps;

typedef struct clef_device_info {
    int32_t   platform, index; /* P:D as the user writes it */
    char      name[128], vendor[128], platform_name[128], version[128], driver[128];
    clef_caps caps;
    char      refused[160];    /* empty, or why clef cannot use the device ("OpenCL 1.1, wanted 1.2") */
} clef_device_info;

/** Lists every device of every platform, in the loader's order. *out is an array of *n (NULL and 0 when there is none: that
 *  is no error here); free it with clef_devices_free(). CLEF_OK, CLEF_E_NOMEM, CLEF_E_CL. */
CLEF_API clef_status clef_devices_list(clef_device_info **out, int32_t *n, clef_error *err);
CLEF_API void        clef_devices_free(clef_device_info *list);

typedef struct clef_device clef_device;

/** Called while something long is under way: `done` of `total` (same unit), `what` is static ("weights", "kernels", "fused step", "cache",
 *  "tuning"). Return non-zero to stop it (CLEF_E_CANCELLED, where there is a status). Called from the thread that called the library. */
typedef int (*clef_progress)(void *user, const char *what, uint64_t done, uint64_t total);

/** Whether threads of a CPU through PoCL stay on their processors: a few percent faster on an idle machine, where small models gain a
 *  third, and a quarter slower beside another busy program. CLEF_PIN_AUTO: where the machine is idle when the device is opened. */
typedef enum clef_pin { CLEF_PIN_OFF, CLEF_PIN_ON, CLEF_PIN_AUTO } clef_pin;

typedef struct clef_device_opts {
    int32_t     profile;   /* 1: the queue keeps device times (clef_plan_profile) */
    const char *cache_dir; /* of built programs; NULL: $CLEF_CACHE_DIR, else $XDG_CACHE_HOME/clef, else ~/.cache/clef; "": no cache */
    int32_t     n_threads; /* of a CPU device through PoCL; 0: as many as it likes. It sets environment variables that the driver reads
                              once: it counts in the process's first OpenCL call only, and no other thread may read the environment
                              meanwhile */
    clef_pin      pin;       /* POCL_AFFINITY=1, unless that is set or the process is kept to some processors. As n_threads: it counts in
                                the process's first OpenCL call */
    const char   *prover;    /* a program that `PROVER selftest --prove FILE` starts, as the command `clef` is: kernels that the device has
                                never run are proven by it before a plan uses them, in as many processes as there are processors, 8 at most
                                (docs/drivers.md, "Proof"). NULL: $CLEF_PROVER; without either, or without a cache folder, nothing is
                                proven. On CPUs one also builds a step as one launch, which a plan takes over when it is there */
    void        (*notice)(void *user, const char *text); /* NULL, or told in one line what no status says: a kernel was set aside */
    void         *notice_user;
    clef_progress progress;  /* NULL, or told while the device is closed ("cache"): built programs are kept for the next start then */
    void         *progress_user;
    int32_t       foreground; /* 1: as $CLEF_BACKGROUND=0: provers do not go on beside the caller to keep what they built (for those who
                                measure, and where nothing may outlive a command); clef_device_close() does it then, and making a plan waits
                                for its step as one launch */
    int32_t       several;   /* 1: `which` may name several devices, with commas between: "0:0,1:0". Plans are split over them */
    const float  *shares;    /* of several: what each gets of the layers, in any unit (60, 40); NULL: by read bandwidth, as
                                clef_device_measure() gives it (it runs when a plan is made, where nothing is known), as far as memory
                                allows */
    int32_t       n_shares;  /* as many as there are devices */
} clef_device_opts;

/** Opens a device: context and in-order queue.
 *
 *  which  NULL or "auto": the best one: a GPU before an accelerator before a CPU, then by units x clock. "P:D": by numbers;
 *         "D" alone is device D counted over all platforms. Else a substring of the name or of the platform's name, any case;
 *         it must fit one device only; a refused one counts only where no other fits. With opts->several, as many of these as you like,
 *         with commas between, of different platforms too; the same one twice is allowed. What is returned stands for all of them, and
 *         the first is what describes it.
 *  opts   NULL, or zero fields for defaults.
 *  out    the device, NULL on failure. Free with clef_device_close(), after its plans.
 *
 *  CLEF_OK; CLEF_E_ARG: a list without opts->several, or shares that are not one for each device, or not positive; CLEF_E_LIMIT: more
 *  devices than clef splits over (16); CLEF_E_DEVICE: none there, none fits (the text lists what there is), or the one named is refused;
 *  CLEF_E_CL. */
CLEF_API clef_status clef_device_open(const char *which, const clef_device_opts *opts, clef_device **out, clef_error *err);
/** Takes NULL. Writes what was built to the disk cache: at once for most drivers; PoCL compiles every kernel once more for it, so that it
 *  may take as long again as building took (20 s at most). Where provers built the same they write it, after their end has been waited for
 *  by nobody, on processors that are idle. opts.progress can stop it; what is not written then is built or written another time. */
CLEF_API void        clef_device_close(clef_device *dev);
/** 1 when a call failed because the device was lost or had no room for the moment: CLEF_E_CL with CL_OUT_OF_RESOURCES (-5),
 *  CL_DEVICE_NOT_AVAILABLE (-2), CL_INVALID_COMMAND_QUEUE (-36), CL_INVALID_CONTEXT (-34) or
 *  CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST (-14). */
CLEF_API int32_t     clef_error_is_lost(const clef_error *err);
/** How many plans are alive on a device and those opened with it: one for each stage, and one more for each plan over several. */
CLEF_API int32_t     clef_device_n_plans(const clef_device *dev);
/** Gives up the context of a device, and of those opened with it, and makes a new one. No plan may be left (CLEF_E_ARG). Programs come from
 *  the disk cache, and opts->notice is told. clef_session_* do it by themselves (clef/generate.h). CLEF_E_CL: the device does not come
 *  back. */
CLEF_API clef_status clef_device_reopen(clef_device *dev, clef_error *err);
/** Device i of those that were opened as one; i 0 of any device is itself; NULL beyond. Borrowed: close the first alone. */
CLEF_API clef_device *clef_device_part(clef_device *dev, int32_t i);
/** Borrowed; lives as long as the device. */
CLEF_API const clef_device_info *clef_device_describe(const clef_device *dev);

/** What a device was measured to do. Bytes are decimal (1 GB = 1e9 bytes); a multiply-add is two operations. */
typedef struct clef_device_speed {
    double   read_gb_s;     /* memory read, far past the caches */
    double   copy_gb_s;     /* memory copied: bytes read plus bytes written */
    double   mad_gflop_s;   /* f32 multiply-adds on registers */
    double   dot_gop_s;     /* products of bytes added in 32 bits, on registers: what coded weights multiply with on CPUs; 0 on others */
    double   tile_gop_s;    /* products of bf16 added in f32, in tiles of x86 AMX; 0 without */
    double   launch_us;     /* one of many small launches in a row */
    double   round_trip_us; /* one launch, and reading four bytes of its result */
    uint64_t buffer_bytes;  /* what was read: twice the last cache and at least 512 MiB, where the device has the room */
} clef_device_speed;

/** Measures a device with kernels of its own: the best of several rounds each. Takes a few seconds and buffer_bytes of
 *  device memory, which is given back; nothing else should run meanwhile. The sums read are checked.
 *  CLEF_OK, CLEF_E_NOMEM, CLEF_E_BUILD, CLEF_E_CL (also where the device read something else than was written). */
CLEF_API clef_status clef_device_measure(clef_device *dev, clef_device_speed *out, clef_error *err);
/** Why the device's command buffers (cl_khr_command_buffer) are used or not, in one line; tries them where that was not done yet. Lives as
 *  long as the device. */
CLEF_API const char *clef_device_command_buffers(clef_device *dev);

/** What clef_device_measure() gave the last time on this device with this driver: it keeps that in the cache folder, if there is one.
 *  CLEF_E_NOT_FOUND: it was not measured yet. */
CLEF_API clef_status clef_device_speed_known(const clef_device *dev, clef_device_speed *out, clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
