/* A launch: the result of lowering a node. It is plain data, which the runtime turns into an OpenCL call. */
#ifndef CLEF_GRAPH_LAUNCH_H
#define CLEF_GRAPH_LAUNCH_H

#include <stdint.h>

#include "graph/value.h"

enum { CLEF_MAX_BUFS = 15, CLEF_MAX_ARGS_BYTES = 256, CLEF_MAX_DEFS = 20 };

typedef enum clef_call {
    CLEF_CALL_KERNEL,      /* a kernel of cl/ */
    CLEF_CALL_CLBLAST_GEMM, /* args is a clef_gemm_call; bufs = {c, a, b} */
    CLEF_CALL_EXCHANGE      /* args is a clef_exchange_call; bufs = {out, in}; ranks exchange values */
} clef_call;

/** A -D constant of a program: name (static) and value. A program is built once for each set of constants. */
typedef struct clef_def {
    const char *name;
    int32_t     value;
} clef_def;

typedef struct clef_launch {
    clef_call         call;
    const char       *source; /* static: the stem of the file in cl/ ("softmax") */
    const char       *kernel; /* static: the function in it ("softmax_rows") */
    clef_def          defs[CLEF_MAX_DEFS]; /* ends with the first NULL name */
    int32_t           c_version; /* OpenCL C version that the program is built as, 10 * major + minor; 0
                                    means 12 */
    int32_t           registers; /* of a thread on Intel's GPUs: 256, or 0 for the driver's 128 */
    const void       *args;   /* argument block (cl/args.h), kernel argument 0; copied by clef__launch */
    uint32_t          args_bytes;
    const clef_value *bufs[CLEF_MAX_BUFS]; /* kernel arguments 1 to n_bufs: outputs, then inputs. NULL
                                              passes a null pointer, CLEF__SCRATCH the node's scratch */
    uint32_t          n_bufs;
    uint32_t          groups[3]; /* work-groups; 0 means 1 */
    uint32_t          local[3];  /* work-items in a group; 0 means 1 */
    uint64_t          part_at, part_bytes; /* of a launch that runs when a plan is made: it reads this part of
                                              its weight, and its arguments count from there. part_bytes 0:
                                              the whole weight */
    uint64_t          scratch_bytes; /* scratch memory of the node, shared by its launches; the plan uses
                                        the largest value */
    const clef_value *node;   /* filled by clef__launch */
    const struct clef_variant *variant; /* set by clef__launch: the variant that lowers the node; NULL if
                                           the op has one implementation */
} clef_launch;

extern const clef_value clef__scratch_marker;
#define CLEF__SCRATCH (&clef__scratch_marker)

/** c[m, n] = alpha * a b + beta * c, row-major, f32, for `batch` matrices. These are the arguments of
 *  CLBlastSgemmStridedBatched. */
typedef struct clef_gemm_call {
    uint32_t m, n, k, batch;
    uint32_t transpose_a, transpose_b;
    uint32_t a_offset, b_offset, c_offset; /* elements */
    uint32_t a_ld, b_ld, c_ld;
    uint32_t a_stride, b_stride, c_stride; /* elements from one batch to the next; 0 repeats */
    float    alpha, beta;
} clef_gemm_call;

/** What ranks exchange at a node of graph/collective.h. */
typedef enum clef_exchange_kind {
    CLEF_EXCHANGE_SUM,     /* out = the sum of `in` over the ranks of the stage */
    CLEF_EXCHANGE_GATHER,  /* out = their parts of an axis */
    CLEF_EXCHANGE_SEND,    /* `in` goes to the rank `peer` */
    CLEF_EXCHANGE_RECEIVE  /* out comes from it */
} clef_exchange_kind;
typedef struct clef_exchange_call {
    clef_exchange_kind kind;
    int32_t  peer;
    uint64_t n_bytes;      /* of out */
    uint64_t offset_bytes; /* SEND, RECEIVE: where the value begins in its buffer */
    uint32_t outer, size, grain; /* GATHER: out is [outer, size, inner_bytes]; parts are those of
                                    clef__part_of() */
    uint64_t inner_bytes;
} clef_exchange_call;

#endif
