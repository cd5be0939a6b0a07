/* Weights of quantised folders (config.json has a quantization_config): GPTQ, AWQ, compressed-tensors, FP8,
 * bitsandbytes, modelopt and MLX. A module's matrix is stored in several tensors: codes, scales, zero points.
 * clef repacks them without loss into one of its block formats, "MODULE.weight", when the weight is first
 * asked for. What a format leaves out is beside it, as tensors of the model that the graph must read:
 *   MODULE.scale  F32 [1]: a factor of the whole matrix
 *   MODULE.order  I32 [1, 1, stored columns]: the input of each one; -1: none, it only fills a block */
#ifndef CLEF_MODEL_PACKED_H
#define CLEF_MODEL_PACKED_H

#include "model/file/json.h"
#include "model/file/safetensors.h"

/** What quantization_config says. */
typedef struct clef__packed_config {
    const char *method;     /* as in the file, static */
    int32_t bits, group;    /* 0: it does not say; group -1: whole rows */
    int32_t zero_shift;     /* what is added to a stored zero point (GPTQ's first format: 1) */
    int32_t block[2];       /* FP8: rows and columns that share a scale; 0: it does not say */
    int32_t has_zeros;      /* compressed-tensors: 1, 0; -1: it does not say */
    int32_t varies;         /* GPTQ: 1: bits and group are those of most modules */
} clef__packed_config;

/** Reads a quantization_config, or MLX's `quantization`; `file` is for messages. Refuses by name what clef
 *  cannot repack: CLEF_E_UNSUPPORTED, CLEF_E_FORMAT. */
clef_status clef__packed_read_config(const json_t *quantization, const char *file, clef__packed_config *out,
                                     clef_error *err);
/** The object of a config.json that says how the weights are quantised; NULL: none. */
const json_t *clef__packed_object(const json_t *config);

/** A stored tensor. */
typedef struct clef__packed_part {
    const clef_tensor_info *info; /* NULL: there is none */
    clef_st_dtype           type;
} clef__packed_part;

enum {
    CLEF__PACKED_CODES,
    CLEF__PACKED_SCALES,
    CLEF__PACKED_ZEROS,  /* or MLX's biases */
    CLEF__PACKED_GROUPS, /* the group of each column */
    CLEF__PACKED_FACTOR, /* a scale of the scales */
    CLEF__PACKED_MORE,   /* compressed-tensors: the shape; bitsandbytes: the state */
    CLEF__PACKED_TABLE,  /* bitsandbytes: the numbers that the codes of absmax mean */
    CLEF__PACKED_ABSMAX, /* bitsandbytes: their scales */
    CLEF__N_PACKED_PARTS
};

typedef struct clef__packed clef__packed;

/** How a method stores a matrix. */
typedef struct clef__packed_layout {
    const char   *method;
    const char   *codes;                       /* the end of the name of the codes: ".qweight" */
    const char   *parts[CLEF__N_PACKED_PARTS]; /* ends of the names of the other parts; NULL: none */
    const char   *ignored[4];                  /* of tensors that change nothing: scales of activations */
    clef_st_dtype type;                        /* of the codes */
    uint32_t      optional;                    /* a bit for each part that may be missing */
    /** Checks parts and their shapes, and sets the fields below. */
    clef_status (*shape)(clef__packed *p, const clef__packed_config *config, const char *file,
                         clef_error *err);
    /** Writes the codes of rows first .. first + n - 1 (n <= 16), columns in their own order. */
    void (*codes_of)(const clef__packed *p, int64_t first, int64_t n, uint8_t *out);
    float (*scale)(const clef__packed *p, int64_t row, int64_t group);
    int32_t (*zero)(const clef__packed *p, int64_t row, int64_t group); /* NULL: kinds without */
} clef__packed_layout;

typedef enum clef__packed_kind {
    CLEF__PACKED_INT,    /* (code - zero) scale */
    CLEF__PACKED_AFFINE, /* code scale + bias */
    CLEF__PACKED_E4M3,   /* value scale */
    CLEF__PACKED_NF4,    /* value scale */
    CLEF__PACKED_NVFP4,  /* value (scale factor) */
    CLEF__PACKED_MXFP4   /* value scale */
} clef__packed_kind;

struct clef__packed {
    char                       name[200]; /* "MODULE.weight" */
    const clef__packed_layout *layout;
    clef__packed_part          parts[CLEF__N_PACKED_PARTS];
    clef__packed_kind          kind;
    int64_t                    n_rows, n_columns;
    int64_t                    first_row; /* of the stored matrix; layouts count from its row 0 */
    int64_t                    group, n_groups; /* columns that share a scale; groups of a row */
    int64_t                    block_rows;      /* rows that share scales */
    int32_t                    bits, zero_shift;
    int32_t                    divides;    /* 1: the factor divides scales (compressed-tensors' NVFP4) */
    float                      factor;     /* of the matrix; 1: none */
    float                     *own_scales; /* NULL, or scales that were computed of their parts */
    /* What it becomes */
    clef_dtype                 dtype, general; /* general: a format that holds any weight of the kind */
    int32_t                   *order;    /* NULL, or the column of each stored one */
    int64_t                    n_stored; /* columns */
    void                      *memory;   /* NULL, or its bytes */
    char                       factor_name[200], order_name[200];
};

extern const clef__packed_layout *const clef__packed_layouts[]; /* ends with NULL */

/* ---- packed_blocks.c ---- */

/** Chooses dtype, order and n_stored of a weight whose shape is known. */
clef_status clef__packed_choose(clef__packed *p, const char *file, clef_error *err);
/** Takes the general format. */
clef_status clef__packed_generalize(clef__packed *p, const char *file, clef_error *err);
uint64_t    clef__packed_bytes(const clef__packed *p);
/** Writes all blocks to `to` [clef__packed_bytes()]. Returns 0 when out of memory. */
int clef__packed_write(const clef__packed *p, void *to);
/** Row `row` in f32, columns in their own order, rounded as the method defines it. Returns 0 when out of
 *  memory. */
int clef__packed_decode_row(const clef__packed *p, int64_t row, float *x);

/* ---- packed_parts.c ---- */

/** Number i of a part: of F32, F16, BF16, E4M3, U8 or an integer. */
float clef__packed_float(const clef__packed_part *part, int64_t i);
/** What an exponent of 8 bits means: 2^(byte - 127). */
float clef__packed_power(uint32_t byte);
/** The group of a column. */
int64_t clef__packed_group(const clef__packed *p, int64_t column);

#endif
