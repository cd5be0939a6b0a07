/* Instructions of this machine's processors, as the system reports them. */
#ifndef CLEF_RUNTIME_OS_CPU_H
#define CLEF_RUNTIME_OS_CPU_H

#include <stdint.h>

/** Extensions of 64-bit Arm that all processors of the machine have. */
typedef struct clef__os_arm {
    int32_t is_arm; /* a 64-bit Arm processor: it has vectors of 16 bytes. 0: the rest is 0, too */
    int32_t sdot;   /* FEAT_DotProd: sdot, products of signed bytes */
    int32_t i8mm;   /* FEAT_I8MM: usdot and usmmla, products of unsigned with signed bytes */
    int32_t bf16;   /* FEAT_BF16: bfdot and bfmmla */
} clef__os_arm;

/** What the system says, in a few system calls at most. All 0 where it says nothing. */
clef__os_arm clef__os_arm_query(void);

#endif
