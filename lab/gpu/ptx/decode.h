/* A kernel while it is decoded. */
#ifndef CLEF_LAB_PTX_DECODE_H
#define CLEF_LAB_PTX_DECODE_H

#include "lab/gpu/ptx/ptx.h"

/* Registers %NAME0 .. %NAME(n - 1), or the one %NAME. */
typedef struct ptx_class {
    char name[32];
    uint32_t first, n, bytes; /* bytes: 0 of a predicate */
} ptx_class;

enum { PTX_MAX_CLASSES = 32 };

typedef struct ptx_decoder {
    gpu_scan *scan;
    gpu_module *module;
    ptx_kernel *kernel;
    int capability; /* of the target */
    ptx_class classes[PTX_MAX_CLASSES];
    int n_classes;
    gpu_label *labels, *uses;
    uint32_t n_labels, n_uses, max_labels, max_uses, max_code, max_constants, max_locals, max_module_locals;
    gpu_symbol *locals; /* of the module */
    int n_locals;
    size_t local_end;
    char depot[GPU_NAME]; /* the array of private memory */
} ptx_decoder;

/** Decodes an instruction, up to and with its semicolon. */
void ptx_decode_insn(ptx_decoder *d);
void ptx_decode_registers(ptx_decoder *d); /* behind ".reg" */
void ptx_decode_end(ptx_decoder *d);       /* branches get their targets */
void ptx_decode_label(ptx_decoder *d, const char *name);

#endif
