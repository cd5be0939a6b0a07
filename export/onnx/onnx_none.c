/* clef_graph_write_onnx() of a library without protobuf-c; export/onnx/ has the other. */
#ifndef CLEF_HAVE_ONNX
#    include "clef/onnx.h"
#    include "graph/fail.h"

clef_status clef_graph_write_onnx(const clef_graph *graph, FILE *to, const clef_onnx_opts *opts,
                                  clef_error *err)
{
    (void)graph;
    (void)to;
    (void)opts;
    return clef__fail(
        err, CLEF_E_UNSUPPORTED,
        "ONNX: this clef was built without protobuf-c (Debian: libprotobuf-c-dev, protobuf-c-compiler)");
}
#else
typedef int clef__onnx_is_elsewhere;
#endif
