/* Decodes block formats on the host, with the code that the kernels use. */
/* clang-format off */
#include "graph/blocks.h"
#include "cl/blocks.h" /* uses the former */
/* clang-format on */

#include "clef/graph.h"

typedef void decoder(block_bytes block, args_uint group, float *x);

static decoder *const decoders[CLEF_N_DTYPES] = {
#define FORMAT(number, NAME, name, ...) [CLEF_##NAME] = name##_16,
    BLOCK_FORMATS(FORMAT)
#undef FORMAT
};

void clef__block_decode(int dtype, const uint8_t *block, float *x)
{
    const uint32_t n_groups = (uint32_t)clef_dtype_block_elems((clef_dtype)dtype) / 16;
    for (uint32_t g = 0; g < n_groups; g++)
        decoders[dtype](block, g, x + 16 * (size_t)g);
}
