/* Writes a graph as an ONNX file, for Netron, ONNX Runtime and other readers of the standard. */
#ifndef CLEF_ONNX_H
#define CLEF_ONNX_H

#include <stdio.h>

#include "clef/graph.h"
#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which inputs and outputs the file has. */
typedef enum clef_onnx_form {
    /* Those of the graph. A state `s` is an input `s` and an output `s.out`: feed zeros at first, then the
     * last output. A symbol that no input has is an input of its own, I64 [1]. */
    CLEF_ONNX_PLAIN,
    /* Those of Optimum and ONNX Runtime GenAI, for a graph that clef_model_build() made with for_export.
     * I64: input_ids [B, T], attention_mask [B, past + T], token_type_ids [B, T], and position_ids [B, T] of
     * decoders that read it. F32, for layer N: inputs past_key_values.N.key and .value [B, H, past, D],
     * outputs present.N.key and .value [B, H, past + T, D]; for linear attention .conv_state [B, C, K - 1]
     * and .recurrent_state [B, H, D, E]. At first `past` is 0 and these states are zeros. */
    CLEF_ONNX_PAST,
    /* The same without past and present: all tokens in one step. */
    CLEF_ONNX_NO_CACHE
} clef_onnx_form;

typedef struct clef_onnx_opts {
    clef_onnx_form     form;
    clef_weight_source weights;      /* source of the weights; NULL is CLEF_E_ARG if the graph has any */
    void              *weights_user;
    FILE              *data;         /* NULL: weights are inside the model file (2 GiB at most,
                                        CLEF_E_LIMIT); else they are written to this file */
    const char        *data_name;    /* with data: path of that file as the model file names it, relative to
                                        its own folder */
} clef_onnx_opts;

/** Writes the graph as an ONNX model of opset 18 that uses only the standard's own ops
 *  (https://github.com/onnx/onnx/blob/main/docs/Operators.md).
 *
 *  Values keep their names; an op's helper values are called `name//1`, `name//2` .. Symbols are dynamic
 *  dims. F16 and BF16 weights stay so and are cast where they are used; block formats are written as F32. Ids
 *  outside a table and cache rows outside the cache, which clef drops, are ONNX's errors.
 *
 *  CLEF_E_UNSUPPORTED: an op that ONNX cannot express (the fuse pass makes such ops: export the graph after
 *  the drop pass), a state in blocks, a graph that does not fit opts->form, or a library built without
 *  protobuf-c. CLEF_E_NOT_FOUND (a weight), CLEF_E_ARG, CLEF_E_LIMIT, CLEF_E_NOMEM, CLEF_E_IO. */
CLEF_API clef_status clef_graph_write_onnx(const clef_graph *graph, FILE *to, const clef_onnx_opts *opts,
                                           clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
