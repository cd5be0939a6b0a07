/* What the attention kernels of GPUs share whose keys are cut into parts: the number of parts, the memory for
 * their records, and the launches. */
#ifndef CLEF_GRAPH_ATTENTION_GPU_PARTS_H
#define CLEF_GRAPH_ATTENTION_GPU_PARTS_H

#include "graph/lower/attention/attention.h"

/** The device's compute units, at least 1. */
uint32_t clef__units(const clef_caps *caps);

/** Launches a kernel for tiles of `rows` queries, and the one that joins the parts if there are several.
 *  *launch has the source, the kernel, its constants and its local size. The keys are cut so that there are
 *  `wanted` groups. */
clef_status clef__attention_parts_launch(clef_lowering *lo, const clef_attention_call *call,
                                         clef_launch *launch, uint32_t rows, uint32_t wanted,
                                         clef_error *err);

#endif
