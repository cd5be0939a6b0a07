/* What the attention kernels of GPUs share whose keys are cut into parts: the number of parts, the memory for
 * their records, and the launches. */
#ifndef CLEF_GRAPH_ATTENTION_GPU_PARTS_H
#define CLEF_GRAPH_ATTENTION_GPU_PARTS_H

#include "graph/lower/attention/attention.h"
#include "graph/lower/choose.h"

/** A group of so many work-items for tiles of `rows` of the `queries` of a head of k, and chunks of `keys`.
 *  Compare candidates on one processor: keys are cut until there are groups for all. */
clef__candidate clef__attention_candidate(uint32_t items, uint64_t local_bytes, uint32_t queries,
                                          uint32_t rows, uint32_t keys);
/** Launches a kernel for tiles of `rows` queries, and the one that joins the parts if there are several.
 *  *launch has the source, the kernel, its constants and its local size. The keys are cut so that there are
 *  `wanted` groups. */
clef_status clef__attention_parts_launch(clef_lowering *lo, const clef_attention_call *call,
                                         clef_launch *launch, uint32_t rows, uint32_t wanted,
                                         clef_error *err);

#endif
