/* Decoding of block formats on the host, by the text that the kernels share. */
/* clang-format off */
#include "graph/blocks.h"
#include "cl/blocks.h" /* uses the former */
/* clang-format on */

#include "clef/graph.h"

typedef void decoder(block_bytes block, args_uint group, float *x);

static decoder *const decoders[CLEF_N_DTYPES] = {
    [CLEF_Q8_0] = q8_0_16,   [CLEF_Q4_0] = q4_0_16,   [CLEF_Q4_1] = q4_1_16,       [CLEF_Q5_0] = q5_0_16,
    [CLEF_Q5_1] = q5_1_16,   [CLEF_Q2_K] = q2_k_16,   [CLEF_Q3_K] = q3_k_16,       [CLEF_Q4_K] = q4_k_16,
    [CLEF_Q5_K] = q5_k_16,   [CLEF_Q6_K] = q6_k_16,   [CLEF_IQ4_NL] = iq4_nl_16,   [CLEF_IQ4_XS] = iq4_xs_16,
    [CLEF_IQ1_S] = iq1_s_16, [CLEF_IQ1_M] = iq1_m_16, [CLEF_IQ2_XXS] = iq2_xxs_16, [CLEF_IQ2_XS] = iq2_xs_16,
    [CLEF_IQ2_S] = iq2_s_16, [CLEF_TQ1_0] = tq1_0_16, [CLEF_IQ3_XXS] = iq3_xxs_16, [CLEF_IQ3_S] = iq3_s_16,
    [CLEF_TQ2_0] = tq2_0_16, [CLEF_MXFP4] = mxfp4_16,
};

void clef__block_decode(int dtype, const uint8_t *block, float *x)
{
    const uint32_t n_groups = (uint32_t)clef_dtype_block_elems((clef_dtype)dtype) / 16;
    for (uint32_t g = 0; g < n_groups; g++)
        decoders[dtype](block, g, x + 16 * (size_t)g);
}
