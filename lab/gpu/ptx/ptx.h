/* A kernel of PTX (docs.nvidia.com/cuda/parallel-thread-execution). Registers are in a warp's file: 32 lanes
 * of 4 or 8 bytes each, of which narrower ones use the low bits; a predicate is a word with a bit for each
 * lane. Constants have lanes too, so that no instruction asks what kind its operands are. */
#ifndef CLEF_LAB_GPU_PTX_H
#define CLEF_LAB_GPU_PTX_H

#include "lab/gpu/run/kernel.h"

enum { PTX_LANES = 32 };

typedef struct ptx_warp ptx_warp;
typedef struct ptx_insn ptx_insn;
typedef void ptx_do(ptx_warp *w, const ptx_insn *i);

typedef enum ptx_flow {
    PTX_PLAIN,
    PTX_BRANCH,
    PTX_RETURN,
    PTX_BARRIER,
    PTX_TOGETHER /* all lanes of a warp at once: mma, shfl */
} ptx_flow;

typedef enum ptx_space { PTX_GLOBAL, PTX_SHARED, PTX_PRIVATE, PTX_PARAM, PTX_GENERIC } ptx_space;

enum { PTX_MAX_OPERANDS = 14 };

struct ptx_insn {
    gpu_line line;
    ptx_do *act;
    uint32_t at[PTX_MAX_OPERANDS]; /* places in the file: results, then what they are made from */
    uint32_t guard;                /* place of a predicate; 0: none */
    uint32_t target;               /* of a branch */
    int64_t offset;                /* of an address */
    uint8_t flow, guard_not;
    uint8_t space, bytes, n, is_signed, wide; /* of an access; wide: registers of 8 bytes */
};

/* A constant in the file. */
typedef struct ptx_constant {
    uint64_t value;
    uint32_t at, wide;
} ptx_constant;

typedef struct ptx_kernel {
    gpu_kernel base;
    ptx_insn *code;
    uint32_t n_code;
    ptx_constant *constants;
    uint32_t n_constants;
} ptx_kernel;

/* Special registers at the start of each file. The first word is not used: place 0 means none. */
enum {
    PTX_AT_TID = 64,
    PTX_AT_NTID = PTX_AT_TID + 3 * 128,
    PTX_AT_CTAID = PTX_AT_NTID + 3 * 128,
    PTX_AT_NCTAID = PTX_AT_CTAID + 3 * 128,
    PTX_AT_LANE = PTX_AT_NCTAID + 3 * 128,
    PTX_AT_NWARP = PTX_AT_LANE + 128,
    PTX_AT_FIRST = PTX_AT_NWARP + 128
};

/* What an instruction is called, what does it, and its operands, a letter each: w a register of 4 bytes
 * or less, q of 8, p a predicate. */
typedef struct ptx_row {
    const char *name, *operands;
    ptx_do *act;
    ptx_flow flow;
} ptx_row;

extern const ptx_row ptx_alu_rows[], ptx_warp_rows[];

ptx_do ptx_load, ptx_store, ptx_exchange;

void ptx_decode(gpu_scan *scan, gpu_module *module, const char *target);

#endif
