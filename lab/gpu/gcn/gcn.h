/* A kernel of AMD's instructions, as clang -S writes them for gfx9 and later: the instruction set guides of
 * Vega, CDNA2, RDNA2 and RDNA3 (gpuopen.com/amd-isa-documentation) and LLVM's "User Guide for AMDGPU
 * Backend". A wave has one place in the code and a mask, EXEC, of the lanes that take part. A vector register
 * is lanes of 4 bytes in the wave's file; scalar registers are words of the wave. */
#ifndef CLEF_LAB_GPU_GCN_H
#define CLEF_LAB_GPU_GCN_H

#include "lab/gpu/run/group.h"

typedef struct gcn_wave gcn_wave;
typedef struct gcn_insn gcn_insn;
typedef void gcn_do(gcn_wave *w, const gcn_insn *i);

/* Numbers of scalar registers. */
enum {
    GCN_VCC = 106,
    GCN_M0 = 124,
    GCN_NULL, /* reads 0 */
    GCN_EXEC,
    GCN_SCALARS = GCN_EXEC + 2,
    GCN_ACCUMULATORS = 256, /* while a kernel is decoded: the first number of a0 among vector registers */
    GCN_SPARE = 512,        /* the same: a register more than the kernel has */
    GCN_LANES = 64          /* at most */
};

typedef enum gcn_kind { GCN_ABSENT, GCN_VECTOR, GCN_SCALAR, GCN_CONSTANT } gcn_kind;

/* How a part of a word is read or written (SDWA). */
typedef enum gcn_part {
    GCN_WORD,
    GCN_BYTE_0,
    GCN_BYTE_1,
    GCN_BYTE_2,
    GCN_BYTE_3,
    GCN_HALF_0,
    GCN_HALF_1
} gcn_part;

typedef struct gcn_operand {
    uint64_t value; /* of a constant */
    uint16_t at;    /* the register's number */
    uint8_t kind, n, part;
    uint8_t neg, abs, extend; /* extend: the part is signed */
} gcn_operand;

/* From which lane another's first operand comes (DPP): see gcn_lane_from(). */
typedef enum gcn_move {
    GCN_STAYS,
    GCN_QUAD,
    GCN_ROW_SHL,
    GCN_ROW_SHR,
    GCN_ROW_ROR,
    GCN_ROW_MIRROR,
    GCN_ROW_HALF_MIRROR,
    GCN_ROW_SHARE,
    GCN_ROW_XMASK,
    GCN_WAVE_SHL,
    GCN_WAVE_SHR,
    GCN_BCAST_15,
    GCN_BCAST_31,
    GCN_DPP8
} gcn_move;

typedef enum gcn_flow { GCN_PLAIN, GCN_BRANCH, GCN_END, GCN_BARRIER } gcn_flow;
typedef enum gcn_space { GCN_GLOBAL, GCN_LOCAL, GCN_PRIVATE } gcn_space;

enum { GCN_SOURCES = 4, GCN_RESULTS = 2 };

struct gcn_insn {
    gpu_line line;
    gcn_do *act;
    gcn_operand d[GCN_RESULTS], s[GCN_SOURCES];
    uint8_t n_d, n_s, flow;
    uint8_t clamp, scale;                      /* scale: the result's factor: 1 two, 2 four, 3 a half */
    uint8_t op_sel, op_sel_hi, neg_lo, neg_hi; /* a bit for each operand */
    uint8_t move, move_by, row_mask, bank_mask, bound_zero, fetches_inactive;
    uint32_t move_lanes;      /* of quad_perm and dpp8 */
    uint8_t part, keeps_rest; /* of the result */
    uint8_t halves;           /* a bit for each source that has 16 bits */
    uint8_t special;          /* some of the above are not their defaults */
    uint8_t space, bytes, words, is_signed, high, stride,
        two; /* of an access; high: the upper half of a register */
    int32_t offset, offset1;
    uint32_t target; /* of a branch */
};

typedef struct gcn_kernel {
    gpu_kernel base;
    gcn_insn *code;
    uint32_t n_code, n_vectors; /* vector registers */
    uint32_t accumulators;      /* the number of a0 */
    uint32_t packet_at;         /* of the dispatch packet, in the memory of parameters */
    int version;                /* of gfxVERSION: 900, 0x90a, 1030, 1100 */
    uint8_t buffer, packet, queue, arguments, id, scratch_init, private_size; /* user SGPRs that there are */
    uint8_t user_scalars, group_x, group_y, group_z;
    uint8_t item_ids; /* 0 x; 1 x and y; 2 x, y and z */
} gcn_kernel;

struct gcn_wave {
    gpu_warp base;
    uint32_t lanes; /* 32 or 64 */
    uint32_t scc, index_mode;
    uint64_t all, exec; /* all: that there are; exec: what on[] has */
    int full;           /* exec is every lane of the wave: nothing keeps its value */
    uint32_t s[GCN_SCALARS];
    uint32_t on[GCN_LANES]; /* ~0 where EXEC has the lane, else 0 */
    uint32_t in[GCN_SOURCES][2][GCN_LANES], out[GCN_RESULTS][2][GCN_LANES];
    uint32_t moved_on[GCN_LANES];
};

/* What an instruction is called, what does it, and its operands, a letter each, results before the colon:
 * w 32 bits, f float, h 16 bits, p two halves, q 64 bits, m a bit for each lane, n any number of registers.
 */
typedef struct gcn_row {
    const char *name, *operands;
    gcn_do *act;
    gcn_flow flow;
} gcn_row;
extern const gcn_row gcn_vector_rows[], gcn_scalar_rows[], gcn_together_rows[], gcn_flow_rows[];

/* ---- operands (operand.c) -------------------------------------------------------------------- */

/** Lanes of word `word` of source k, with its modifiers. */
const uint32_t *gcn_read(gcn_wave *w, const gcn_insn *i, int k, int word);
/** Where word `word` of result k goes, all lanes. gcn_written() has to follow. */
uint32_t *gcn_result(gcn_wave *w, const gcn_insn *i, int k, int word);
void gcn_written(gcn_wave *w, const gcn_insn *i);
uint32_t *gcn_lanes_of(gcn_wave *w, uint32_t reg);
void gcn_check_register(gcn_wave *w, uint32_t reg);

uint64_t gcn_scalar(const gcn_wave *w, const gcn_operand *o); /* one word or two */
void gcn_set_scalar(gcn_wave *w, const gcn_operand *o, uint64_t value);
uint64_t gcn_exec(const gcn_wave *w);
void gcn_set_exec(gcn_wave *w, uint64_t mask);
/** The lane from which `lane` gets its first operand; -1: from none. */
int gcn_lane_from(const gcn_insn *i, int lane, int lanes);

/* ---- decoding -------------------------------------------------------------------------------- */

typedef struct gcn_decoder {
    gpu_scan *scan;
    gpu_module *module;
    gcn_kernel *kernel;
    int version;
    gpu_label *labels, *uses;
    uint32_t n_labels, n_uses, max_labels, max_uses, max_code;
    int in_code;
    gpu_array *array; /* whose data the next lines have */
} gcn_decoder;

void gcn_decode(gpu_scan *scan, gpu_module *module, const char *target);
void gcn_decode_insn(gcn_decoder *d, const char *end);
/** Fills an access from its name. Returns 0 where it is not known. */
int gcn_decode_access(gcn_insn *i, const char *name, const char **operands);
uint64_t gcn_symbol(gcn_decoder *d, const char *name);

gcn_do gcn_load, gcn_store, gcn_swap, gcn_scalar_load;

#endif
