/* Instructions of Arm processors, as Windows reports them. Headers that do not name a feature cannot ask for
 * it. */
#include "runtime/os/os_cpu.h"

#include <windows.h>

clef__os_arm clef__os_arm_query(void)
{
    clef__os_arm arm = {0};
#if defined(__aarch64__) || defined(_M_ARM64)
    arm.is_arm = 1;
#    ifdef PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE
    arm.sdot = IsProcessorFeaturePresent(PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE) != 0;
#    endif
#    ifdef PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE
    arm.i8mm = IsProcessorFeaturePresent(PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE) != 0;
#    endif
#    ifdef PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE
    arm.bf16 = IsProcessorFeaturePresent(PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE) != 0;
#    endif
#endif
    return arm;
}
