/* The objects of the OpenCL device. Each begins with the table by which a loader finds its functions.
 * Commands are executed when they are enqueued; so events have happened when there is one. */
#ifndef CLEF_LAB_PTX_OBJECTS_H
#define CLEF_LAB_PTX_OBJECTS_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <stdatomic.h>
#include <stdint.h>

#include "lab/ptx/run/ptx.h"

/* A card: what its driver reports. */
typedef struct ptx_card {
    const char *target, *name;
    cl_uint units, mhz, warps; /* warps: that a unit holds */
    cl_ulong bytes;
    cl_uint major, minor;
} ptx_card;

struct _cl_platform_id {
    cl_icd_dispatch *dispatch;
};
struct _cl_device_id {
    cl_icd_dispatch *dispatch;
    const ptx_card *card;
};

#define OBJECT                                                                                              \
    cl_icd_dispatch *dispatch;                                                                              \
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
    char *source, *binary, *log, *options; /* binary: PTX */
    size_t n_binary;
    ptx_module *module;
    cl_build_status status;
};
typedef struct kernel_arg {
    ptx_arg_kind kind;
    int is_set;
    cl_mem memory;
    size_t n; /* of local memory */
    unsigned char *bytes;
} kernel_arg;
struct _cl_kernel {
    OBJECT;
    cl_program program;
    const ptx_kernel *kernel;
    kernel_arg args[PTX_MAX_PARAMS];
};
struct _cl_event {
    OBJECT;
    cl_command_queue queue;
    cl_command_type type;
    cl_ulong times[4];
};

extern struct _cl_platform_id ptx_platform;
extern struct _cl_device_id ptx_device;
extern cl_icd_dispatch ptx_dispatch;

/* ---- what the files have for each other ------------------------------------------------------ */

void *ptx_object(size_t n); /* with one reference; NULL: no memory */
cl_int ptx_answer(const void *from, size_t n_from, size_t n, void *out, size_t *n_out);
cl_int ptx_answer_text(const char *text, size_t n, void *out, size_t *n_out);
#define PTX_ANSWER(type, value) ptx_answer(&(const type){value}, sizeof(type), n, out, n_out)
cl_ulong ptx_now(void);

/** CL_SUCCESS, or what a command gets after a fault. */
cl_int ptx_check(cl_command_queue queue);
/** Writes what a kernel did wrong to stderr and to the file CLEF_PTX_FINDINGS. */
void ptx_report_fault(cl_context context, const char *why);
/** The end of each command: its event, if one is wanted. start: ptx_now() when it began. */
cl_int ptx_finish_command(cl_command_queue queue, cl_command_type type, cl_ulong start, cl_event *event);

int ptx_is_buffer(const void *handle); /* any pointer */
void ptx_buffers_retain(cl_mem mem);
void ptx_buffers_release(cl_mem mem);

/** Compiles OpenCL C to PTX. Returns it, or NULL; *log is set to messages, which the caller frees. */
char *ptx_compile(const char *source, const char *options, char **log);

void ptx_fill_platform(cl_icd_dispatch *to); /* each file's functions */
void ptx_fill_queue(cl_icd_dispatch *to);
void ptx_fill_buffer(cl_icd_dispatch *to);
void ptx_fill_transfer(cl_icd_dispatch *to);
void ptx_fill_program(cl_icd_dispatch *to);
void ptx_fill_kernel(cl_icd_dispatch *to);

#endif
