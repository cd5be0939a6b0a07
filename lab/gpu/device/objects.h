/* The objects of the OpenCL device. Each begins with the table by which a loader finds its functions.
 * Commands are executed when they are enqueued; so events have happened when there is one. */
#ifndef CLEF_LAB_GPU_OBJECTS_H
#define CLEF_LAB_GPU_OBJECTS_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <stdatomic.h>
#include <stdint.h>

#include "lab/gpu/run/launch.h"

typedef struct gpu_card gpu_card;
typedef struct gpu_number {
    cl_device_info what;
    cl_ulong value;
} gpu_number;
typedef struct gpu_text {
    cl_device_info what;
    const char *value;
} gpu_text;

/* What a vendor's driver reports of all its cards. Lists end with zeros. */
typedef struct gpu_vendor {
    const char *platform[5]; /* name, vendor, version, suffix, extensions */
    const char *extensions;
    const gpu_number *uints, *ulongs;
    const gpu_text *texts;
    size_t most_items[3], most_group, local_bytes;
    /* The compiler's options: words that the caller frees. Returns how many; 0: more than `most`. */
    int (*options)(const gpu_card *card, char *words[], int most);
} gpu_vendor;
extern const gpu_vendor gpu_nvidia, gpu_amd;

/* A card: what its driver reports. */
struct gpu_card {
    const gpu_vendor *vendor;
    const char *target, *name;
    cl_uint units, mhz, lanes, warps; /* warps: that a unit holds, if the device says so */
    cl_ulong bytes;
    cl_uint major, minor; /* of NVIDIA's */
};

struct _cl_platform_id {
    cl_icd_dispatch *dispatch;
};
struct _cl_device_id {
    cl_icd_dispatch *dispatch;
    const gpu_card *card;
};

#define OBJECT                                                                                               \
    cl_icd_dispatch *dispatch;                                                                               \
    atomic_int refs

struct _cl_context {
    OBJECT;
    atomic_int lost; /* after a fault */
};
struct _cl_command_queue {
    OBJECT;
    cl_context context;
    cl_command_queue_properties properties;
};
struct _cl_mem {
    OBJECT;
    cl_context context;
    cl_mem parent, next; /* next: of the list of all buffers */
    unsigned char *memory;
    void *host_ptr;
    size_t n, origin;
    cl_mem_flags flags;
    int is_own; /* the memory */
    atomic_int maps;
};
struct _cl_program {
    OBJECT;
    cl_context context;
    char *source, *binary, *log, *options; /* binary: assembly */
    size_t n_binary;
    gpu_module *module;
    cl_build_status status;
};
typedef struct kernel_arg {
    gpu_arg_kind kind;
    int is_set;
    cl_mem memory;
    size_t n; /* of local memory */
    unsigned char *bytes;
} kernel_arg;
struct _cl_kernel {
    OBJECT;
    cl_program program;
    const gpu_kernel *kernel;
    kernel_arg args[GPU_MAX_PARAMS];
};
struct _cl_event {
    OBJECT;
    cl_command_queue queue;
    cl_command_type type;
    cl_ulong times[4];
};

extern struct _cl_platform_id gpu_platform;
extern struct _cl_device_id gpu_device;
extern cl_icd_dispatch gpu_dispatch;

/* ---- what the files have for each other ------------------------------------------------------ */

void *gpu_object(size_t n); /* with one reference; NULL: no memory */
cl_int gpu_answer(const void *from, size_t n_from, size_t n, void *out, size_t *n_out);
cl_int gpu_answer_text(const char *text, size_t n, void *out, size_t *n_out);
#define GPU_ANSWER(type, value) gpu_answer(&(const type){value}, sizeof(type), n, out, n_out)
cl_ulong gpu_now(void);

/** CL_SUCCESS, or what a command gets after a fault. */
cl_int gpu_check(cl_command_queue queue);
/** Writes what a kernel did wrong to stderr and to the file CLEF_GPU_FINDINGS. */
void gpu_report_fault(cl_context context, const char *why);
/** The end of each command: its event, if one is wanted. start: gpu_now() when it began. */
cl_int gpu_finish_command(cl_command_queue queue, cl_command_type type, cl_ulong start, cl_event *event);

int gpu_is_buffer(const void *handle); /* any pointer */
void gpu_buffers_retain(cl_mem mem);
void gpu_buffers_release(cl_mem mem);

/* Words of a command. gpu_add_library returns n and the words it took. */
char *gpu_word(const char *text);
int gpu_add_library(char *words[], int n, const char *path);
/** Compiles OpenCL C to the card's assembly. Returns it, or NULL; *log is set to messages, which the caller
 * frees. */
char *gpu_compile(const char *source, const char *options, char **log);

void gpu_fill_platform(cl_icd_dispatch *to); /* each file's functions */
void gpu_fill_queue(cl_icd_dispatch *to);
void gpu_fill_buffer(cl_icd_dispatch *to);
void gpu_fill_transfer(cl_icd_dispatch *to);
void gpu_fill_program(cl_icd_dispatch *to);
void gpu_fill_kernel(cl_icd_dispatch *to);

#endif
