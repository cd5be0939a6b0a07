/* Writes a graph as an ONNX file, for Netron, ONNX Runtime and other readers of the standard. */
#ifndef CLEF_ONNX_H
#define CLEF_ONNX_H

#include <stdio.h>

#include "clef/graph.h"
#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What the inputs and outputs are. The others than CLEF_ONNX_PLAIN are for the graph of a model, built with
 *  clef_build_opts.for_export. */
typedef enum clef_onnx_form {
    CLEF_ONNX_PLAIN,   /* those of the graph; states as below */
    CLEF_ONNX_PAST,    /* as Optimum and ONNX Runtime GenAI have them: input_ids, attention_mask, position_ids
                          (decoders that use them) and token_type_ids are I64. A cache is an input
                          past_key_values.N.key (.value) F32 [B, H, past, D] and an output present.N.key
                          [B, H, past + T, D]; states of linear attention are .conv_state [B, C, K - 1] and
                          .recurrent_state [B, H, D, E]. `past` is 0 at first */
    CLEF_ONNX_NO_CACHE /* the same without past and present: all tokens at once */
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
 *  dims of their name, taken from the inputs that have them; a symbol that no input has is an input of its
 *  own, I64 [1]. A state `s` is an input `s` and an output `s.out`: feed zeros at first, then the last output.
 *  F16 and BF16 weights stay so and are cast where they are used; block formats are written as F32. Ids
 *  outside a table and cache rows outside the cache, which clef drops, are ONNX's errors.
 *
 *  CLEF_E_UNSUPPORTED: an op that ONNX cannot express (the fuse pass makes such ops: export the graph
 *  after the drop pass), a state in blocks, or a library built without protobuf-c. CLEF_E_NOT_FOUND (a weight),
 *  CLEF_E_ARG, CLEF_E_LIMIT, CLEF_E_NOMEM, CLEF_E_IO. */
CLEF_API clef_status clef_graph_write_onnx(const clef_graph *graph, FILE *to, const clef_onnx_opts *opts,
                                           clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
