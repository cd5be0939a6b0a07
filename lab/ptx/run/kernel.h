/* What a decoded kernel consists of. Registers are in a warp's file: 32 lanes of 4 or 8 bytes each, of
 * which narrower ones use the low bits; a predicate is a word with a bit for each lane. Constants have
 * lanes too, so that no instruction asks what kind its operands are. */
#ifndef CLEF_LAB_PTX_KERNEL_H
#define CLEF_LAB_PTX_KERNEL_H

#include "lab/ptx/run/ptx.h"

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
    ptx_do *act;
    uint32_t at[PTX_MAX_OPERANDS]; /* places in the file: results, then what they are made from */
    uint32_t guard;                /* place of a predicate; 0: none */
    uint32_t target;               /* of a branch */
    int64_t offset;                /* of an address */
    uint8_t flow, guard_not;
    uint8_t space, bytes, n, is_signed, wide; /* of an access; wide: registers of 8 bytes */
    uint32_t line;                            /* of the text */
    const char *text;
    int n_text;
};

typedef struct ptx_symbol {
    char name[PTX_NAME];
    uint64_t value; /* place in local memory, in the parameters, or an address */
    size_t bytes;
} ptx_symbol;

/* A constant in the file. */
typedef struct ptx_constant {
    uint64_t value;
    uint32_t at, wide;
} ptx_constant;

struct ptx_kernel {
    char name[PTX_NAME];
    ptx_symbol params[PTX_MAX_PARAMS];
    int n_params;
    size_t param_bytes;
    ptx_insn *code;
    uint32_t n_code;
    ptx_constant *constants;
    uint32_t n_constants;
    uint32_t file_bytes;
    ptx_symbol *locals; /* of the module: those that the kernel names */
    int n_locals;
    size_t local_bytes, private_bytes;
    uint32_t granule, global_granule; /* bytes of its narrowest access to local, to global memory; <= 4 */
    const ptx_module *module;
};

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

/* A constant array of the module, in a slot behind the parameters'. */
typedef struct ptx_array {
    ptx_symbol symbol;
    unsigned char *data;
} ptx_array;

struct ptx_module {
    char *text;
    ptx_kernel *kernels;
    int n_kernels;
    ptx_array *arrays;
    int n_arrays;
    ptx_symbol *locals;
    int n_locals;
    int least; /* compute capability, and the instruction that needs it */
    const char *least_name;
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

#endif
