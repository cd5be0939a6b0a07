/* Arm's instructions that multiply bytes or bf16 on vectors of 16 bytes (Arm Architecture Reference Manual
 * for A-profile, "SDOT", "USDOT", "USMMLA", "BFDOT"). PoCL targets a processor without them, and LLVM's
 * assembler refuses them by name there, so they are written as numbers: an instruction's word with the
 * registers of %0 (the sum), %1 and %2.
 *   ARM_DOT(word, acc, w, x)   one instruction. Adds to the int4 acc the products of the int4 w with x
 *   ARM_DOT16(word, acc, w, x) four instructions, one for each quarter of the int16 acc and w, with one x */
#ifndef CLEF_CL_ARM_H
#define CLEF_CL_ARM_H

/* Adds to each lane of the sum the four products of its bytes of w with the four bytes of lane 0 of x. Adding
 * ARM_LANE(i) to the word selects lane i instead. sdot multiplies signed bytes, usdot unsigned bytes of w
 * with signed bytes of x. */
#define ARM_SDOT  0x4f80e000
#define ARM_USDOT 0x4f80f000
/* The sum is a 2 x 2 matrix: adds the product of w (2 rows of 8 unsigned bytes) and x transposed (2 rows of 8
 * signed bytes). */
#define ARM_USMMLA 0x4e80ac00
/* Adds to each lane of the sum, a float, the two products of its bf16 values of w with those of lane 0 of
 * x. */
#define ARM_BFDOT 0x4f40f000
#define ARM_LANE(i) (((i) & 1) << 21 | ((i) & 2) << 10)

/* Symbols that turn a register's name, as the compiler inserts it, into its number; defined once a
 * program. */
#define ARM_NUMBERS                                                                          \
    ".ifndef .Lclef_v0\n\t"                                                                  \
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29," \
    "30,31\n\t"                                                                              \
    ".equ .Lclef_v\\n,\\n\n\t.endr\n\t.endif\n\t"

#define ARM_DOT(word, acc, w, x)                                                          \
    __asm__(ARM_NUMBERS ".inst %3 | .Lclef_%0 | .Lclef_%1 << 5 | .Lclef_%2 << 16"         \
            : "+w"(acc)                                                                   \
            : "w"(w), "w"(x), "i"(word))

#define ARM_DOT16(word, acc, w, x)                             \
    do {                                                       \
        int4 a0_ = (acc).s0123, a1_ = (acc).s4567;             \
        int4 a2_ = (acc).s89ab, a3_ = (acc).scdef;             \
        ARM_DOT(word, a0_, (w).s0123, x);                      \
        ARM_DOT(word, a1_, (w).s4567, x);                      \
        ARM_DOT(word, a2_, (w).s89ab, x);                      \
        ARM_DOT(word, a3_, (w).scdef, x);                      \
        acc = (int16)(a0_, a1_, a2_, a3_);                     \
    } while (0)

#endif
