/* Which instructions an Arm processor has: Linux says so to each process (getauxval(3)), macOS answers by
 * name (sysctlbyname(3)). */
#define _GNU_SOURCE
#include "runtime/os/os_cpu.h"

#if defined(__aarch64__) && defined(__linux__)
#    include <sys/auxv.h>

/* Bits of AT_HWCAP and AT_HWCAP2 (Linux, arch/arm64/include/uapi/asm/hwcap.h). Older C libraries do not name
 * all of them. */
enum { HAS_ASIMDDP = 20, HAS_I8MM = 13, HAS_BF16 = 14 };

clef__os_arm clef__os_arm_query(void)
{
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    return (clef__os_arm){.is_arm = 1,
                          .sdot = first >> HAS_ASIMDDP & 1,
                          .i8mm = second >> HAS_I8MM & 1,
                          .bf16 = second >> HAS_BF16 & 1};
}
#elif defined(__aarch64__) && defined(__APPLE__)
#    include <stddef.h>
#    include <sys/types.h>

#    include <sys/sysctl.h>

static int32_t has(const char *name)
{
    int32_t value = 0;
    size_t n = sizeof value;
    return sysctlbyname(name, &value, &n, NULL, 0) == 0 && n == sizeof value && value == 1;
}

clef__os_arm clef__os_arm_query(void)
{
    return (clef__os_arm){.is_arm = 1,
                          .sdot = has("hw.optional.arm.FEAT_DotProd"),
                          .i8mm = has("hw.optional.arm.FEAT_I8MM"),
                          .bf16 = has("hw.optional.arm.FEAT_BF16")};
}
#else
clef__os_arm clef__os_arm_query(void)
{
    return (clef__os_arm){0};
}
#endif
