/* The interpreter of PTX: what instructions compute, and that faults of kernels are found. Each fault
 * has a healthy twin, which passes. */
#define TARGET "sm_90"
#include "lab/tests/gpu_test.h"

/* A kernel of two buffers. Registers %r, %rs, %rd, %f, %h, %p; %rd1 and %rd2 are the buffers, %rd3 and
 * %rd4 the work-item's word in them, %r1 its number in the group. */
static void kernel_text(const char *target, const char *body, char text[TEXT])
{
    (void)target;
    snprintf(
        text, TEXT,
        ".version 7.5\n.target sm_70\n.address_size 64\n.const .align 4 .b8 table[8] = {1, 0, 0, 0, 7};\n"
        ".visible .entry kern(.param .u64 p0, .param .u64 p1, .param .align 4 .b8 p2[8])\n{\n"
        ".reg .pred %%p<9>; .reg .b16 %%rs<9>; .reg .b16 %%h<9>; .reg .b32 %%r<40>; .reg .f32 %%f<9>;\n"
        ".reg .b64 %%rd<20>;\n.shared .align 4 .b8 words[512];\n.shared .align 16 .b8 quads[64];\n"
        "ld.param.u64 %%rd1, [p0]; ld.param.u64 %%rd2, [p1]; mov.u32 %%r1, %%tid.x;\n"
        "mul.wide.u32 %%rd9, %%r1, 4; add.s64 %%rd3, %%rd1, %%rd9; add.s64 %%rd4, %%rd2, %%rd9;\n"
        "mov.u64 %%rd5, words; add.s64 %%rd5, %%rd5, %%rd9;\n%s\nret;\n}\n",
        body);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Each instruction on a in %r2, %rs2, %f2 and b in %r3, %rs3, %f3; the result is in %r4. */
static const value values[] = {
    {"add.s32 %r4, %r2, %r3;", 0x7FFFFFFF, 1, 0x80000000},
    {"sub.s32 %r4, %r2, 5;", 3, 0, 0xFFFFFFFE},
    {"mul.hi.u32 %r4, %r2, %r3;", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE},
    {"mad.lo.s32 %r4, %r2, %r3, 7;", 6, 0xFFFFFFFF, 1},
    {"div.u32 %r4, %r2, %r3;", 7, 0, 0xFFFFFFFF},
    {"div.s32 %r4, %r2, %r3;", 0xFFFFFFF9, 2, 0xFFFFFFFD},
    {"rem.u32 %r4, %r2, %r3;", 17, 5, 2},
    {"shl.b32 %r4, %r2, %r3;", 1, 32, 0},
    {"shr.u32 %r4, %r2, %r3;", 0x80000000, 31, 1},
    {"shr.s32 %r4, %r2, %r3;", 0x80000000, 40, 0xFFFFFFFF},
    {"bfe.u32 %r4, %r2, 8, 4;", 0xABCD, 0, 0xB},
    {"bfe.u32 %r4, %r2, 0, 32;", 0xABCD1234, 0, 0xABCD1234},
    {"bfe.s32 %r4, %r2, 4, 4;", 0x180, 0, 0xFFFFFFF8},
    {"bfe.s32 %r4, %r2, 24, 16;", 0x7F000000, 0, 0x7F},
    {"bfe.s32 %r4, %r2, 0, 32;", 0x80000001, 0, 0x80000001},
    {"clz.b32 %r4, %r2;", 0, 0, 32},
    {"prmt.b32 %r4, %r2, %r3, 0x7531;", 0x33221100, 0x77665544, 0x77553311},
    {"prmt.b32 %r4, %r2, %r3, 0x00C8;", 0x80, 0x80, 0x8080FFFF},
    {"dp4a.s32.s32 %r4, %r2, %r3, -1;", 0x80FF017F, 0x81FE037F, 16129 + 3 + 2 + 128 * 127 - 1},
    {"min.s32 %r4, %r2, %r3;", 0xFFFFFFFF, 1, 0xFFFFFFFF},
    {"min.u32 %r4, %r2, %r3;", 0xFFFFFFFF, 1, 1},
    {"cvt.s32.s8 %r4, %r2;", 0x1FF, 0, 0xFFFFFFFF},
    {"add.s16 %rs4, %rs2, %rs3; cvt.u32.u16 %r4, %rs4;", 0xFFFF, 2, 1},
    {"shr.s16 %rs4, %rs2, 4; cvt.u32.u16 %r4, %rs4;", 0x8000, 0, 0xF800},
    {"mul.wide.s32 %rd10, %r2, %r3; cvt.u32.u64 %r4, %rd10;", 0xFFFFFFFF, 3, 0xFFFFFFFD},
    {"mul.wide.u32 %rd10, %r2, %r3; shr.u64 %rd10, %rd10, 32; cvt.u32.u64 %r4, %rd10;", 0xFFFFFFFF, 3, 2},
    {"cvt.s64.s32 %rd10, %r2; shr.u64 %rd10, %rd10, 32; cvt.u32.u64 %r4, %rd10;", 0x80000000, 0, 0xFFFFFFFF},
    {"mov.b32 {%rs4, %rs5}, %r2; mov.b32 %r4, {%rs5, %rs4};", 0x12345678, 0, 0x56781234},
    {"mov.b64 %rd10, {%r2, %r3}; mov.b64 {%r5, %r4}, %rd10;", 1, 2, 2},
    {"setp.lt.s32 %p1, %r2, %r3; selp.b32 %r4, 1, 2, %p1;", 0xFFFFFFFF, 0, 1},
    {"setp.lt.u32 %p1, %r2, %r3; selp.b32 %r4, 1, 2, %p1;", 0xFFFFFFFF, 0, 2},
    {"setp.neu.f32 %p1, %f2, %f3; selp.b32 %r4, 1, 2, %p1;", NAN_BITS, 0, 1},
    {"setp.geu.f32 %p1, %f2, %f3; selp.b32 %r4, 1, 2, %p1;", NAN_BITS, 0, 1},
    {"setp.ge.f32 %p1, %f2, %f3; selp.b32 %r4, 1, 2, %p1;", NAN_BITS, 0, 2},
    {"setp.num.f32 %p1, %f2, %f3; not.pred %p2, %p1; selp.b32 %r4, 1, 2, %p2;", NAN_BITS, 0, 1},
    {"mov.u32 %r4, 3; setp.eq.s32 %p1, %r2, %r3; @%p1 mov.u32 %r4, 4;", 1, 1, 4},
    {"mov.u32 %r4, 3; setp.eq.s32 %p1, %r2, %r3; @!%p1 mov.u32 %r4, 4;", 1, 1, 3},
    {"fma.rn.f32 %f4, %f2, %f3, 0fBF801000; mov.b32 %r4, %f4;", 0x3F800800, 0x3F800800, 0x33800000},
    {"add.rn.f32 %f4, %f2, %f3; mov.b32 %r4, %f4;", 0x3F800000, 0x3F800000, 0x40000000},
    {"div.rn.f32 %f4, %f2, %f3; mov.b32 %r4, %f4;", 0x3F800000, 0, 0x7F800000},
    {"max.f32 %f4, %f2, %f3; mov.b32 %r4, %f4;", NAN_BITS, 0x40000000, 0x40000000},
    {"max.f32 %f4, %f2, %f3; mov.b32 %r4, %f4;", 0x40000000, NAN_BITS, 0x40000000},
    {"neg.f32 %f4, %f2; mov.b32 %r4, %f4;", 0, 0, 0x80000000},
    {"cvt.rni.f32.f32 %f4, %f2; mov.b32 %r4, %f4;", 0x40200000, 0, 0x40000000}, /* 2.5 */
    {"cvt.rzi.s32.f32 %r4, %f2;", 0xC0200000, 0, 0xFFFFFFFE},                   /* -2.5 */
    {"cvt.rzi.s32.f32 %r4, %f2;", 0x7F000000, 0, 0x7FFFFFFF},
    {"cvt.rzi.s32.f32 %r4, %f2;", NAN_BITS, 0, 0},
    {"cvt.rn.f32.u32 %f4, %r2; mov.b32 %r4, %f4;", 0xFFFFFFFF, 0, 0x4F800000},
    {"cvt.rn.f16.f32 %h4, %f2; mov.b16 %rs4, %h4; cvt.u32.u16 %r4, %rs4;", 0x3F801000, 0,
     0x3C00}, /* half way */
    {"mov.b16 %h4, %rs2; cvt.f32.f16 %f4, %h4; mov.b32 %r4, %f4;", 0x0001, 0, 0x33800000},
    {"cvt.rn.bf16x2.f32 %r4, %f2, %f3;", 0x3F818000, 0x40490FDB, 0x3F824049},
    {"ld.const.u8 %r4, [table+4];", 0, 0, 7},
    {"ld.param.u32 %r4, [p2+4];", 0, 0, 9},
    {"mov.u32 %r4, %nwarpid;", 0, 0, 48},
};

static void instructions_compute_what_the_isa_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        static job j;
        char body[1024];
        snprintf(
            body, sizeof body,
            "ld.global.u32 %%r2, [%%rd2]; ld.global.u32 %%r3, [%%rd2+4]; mov.b32 %%f2, %%r2; mov.b32 %%f3, "
            "%%r3; cvt.u16.u32 %%rs2, %%r2; cvt.u16.u32 %%rs3, %%r3; %s st.global.u32 [%%rd3], %%r4;",
            values[i].text);
        j = (job){.body = body, .in = {values[i].a, values[i].b}, .items = 33};
        check_value(&j, &values[i], 33);
    }
}

/* Lanes branch in four directions and meet again. */
static void lanes_that_part_meet_again(void **state)
{
    (void)state;
    static job j = {.body = "mov.u32 %r4, 0; mov.u32 %r5, 0;\n"
                            "LOOP: and.b32 %r6, %r1, 3; setp.ge.u32 %p1, %r5, %r6; @%p1 bra DONE;\n"
                            "add.s32 %r4, %r4, %r1; add.s32 %r5, %r5, 1; bra.uni LOOP;\n"
                            "DONE: shfl.sync.bfly.b32 %r7, %r4, 1, 0x1f, 0xffffffff;\n"
                            "st.global.u32 [%rd3], %r7;"};
    assert_int_equal(run(&j), 0);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(j.out[i], (i ^ 1) * ((i ^ 1) & 3));
}

/* The second of each four lanes. */
static void lanes_read_one_of_their_four(void **state)
{
    (void)state;
    static job j = {.body = "shfl.sync.idx.b32 %r7, %r1, 1, 0x1c1f, 0xffffffff;\n"
                            "st.global.u32 [%rd3], %r7;"};
    assert_int_equal(run(&j), 0);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(j.out[i], i / 4 * 4 + 1);
}

/* ---- products of matrices --------------------------------------------------------------------- */

#define LOAD_FRAGMENTS                                                                                       \
    "mul.wide.u32 %rd10, %r1, 40; add.s64 %rd11, %rd2, %rd10;\n"                                             \
    "ld.global.u32 %r10, [%rd11]; ld.global.u32 %r11, [%rd11+4]; ld.global.u32 %r12, [%rd11+8];\n"           \
    "ld.global.u32 %r13, [%rd11+12]; ld.global.u32 %r14, [%rd11+16]; ld.global.u32 %r15, [%rd11+20];\n"      \
    "ld.global.u32 %r16, [%rd11+24]; ld.global.u32 %r17, [%rd11+28]; ld.global.u32 %r18, [%rd11+32];\n"      \
    "ld.global.u32 %r19, [%rd11+36];\n"
#define STORE_SUMS                                                                                           \
    "mul.wide.u32 %rd10, %r1, 16; add.s64 %rd11, %rd1, %rd10;\n"                                             \
    "st.global.u32 [%rd11], %r16; st.global.u32 [%rd11+4], %r17; st.global.u32 [%rd11+8], %r18;\n"           \
    "st.global.u32 [%rd11+12], %r19;"

/* A of 16 x 32 bytes and B of 32 x 8, as their fragments say: element (row, k) of A is in lane 4 (row %
 * 8) + k % 16 / 4, in register row / 8 + 2 (k / 16), in byte k % 4; of B in lane 4 column + k % 16 / 4,
 * register k / 16. */
static void a_product_of_bytes_is_right(void **state)
{
    (void)state;
    static job j = {.items = 32,
                    .body =
                        LOAD_FRAGMENTS "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r16, %r17, %r18, "
                                       "%r19}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%r16, %r17, %r18, "
                                       "%r19};\n" STORE_SUMS};
    int a[16][32], b[32][8];
    memset(j.in, 0, sizeof j.in);
    for (int k = 0; k < 32; k++) {
        const int lane = k % 16 / 4, byte = 8 * (k % 4);
        for (int row = 0; row < 16; row++) {
            a[row][k] = (row * 37 + k * 11) % 255 - 127;
            j.in[(4 * (row % 8) + lane) * 10 + row / 8 + 2 * (k / 16)] |= (uint32_t)(a[row][k] & 255) << byte;
        }
        for (int column = 0; column < 8; column++) {
            b[k][column] = (column * 29 + k * 17) % 255 - 127;
            j.in[(4 * column + lane) * 10 + 4 + k / 16] |= (uint32_t)(b[k][column] & 255) << byte;
        }
    }
    for (uint32_t i = 0; i < 128; i++)
        j.in[i / 4 * 10 + 6 + i % 4] = 1000 + i;
    assert_int_equal(run(&j), 0);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            const int at = (4 * (row % 8) + column / 2) * 4 + column % 2 + 2 * (row / 8);
            int want = 1000 + at;
            for (int k = 0; k < 32; k++)
                want += a[row][k] * b[k][column];
            assert_int_equal((int)j.out[at], want);
        }
}

/* The same for 16 x 16 halves: lane 4 (row % 8) + k % 8 / 2, register row / 8 + 2 (k / 8). */
static void a_product_of_halves_is_right(void **state)
{
    (void)state;
    static job j = {
        .items = 32,
        .body = LOAD_FRAGMENTS
        "mov.b32 %f1, %r16; mov.b32 %f2, %r17; mov.b32 %f3, %r18; mov.b32 %f4, %r19;\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, "
        "%r13}, {%r14, %r15}, {%f1, %f2, %f3, %f4};\n"
        "mov.b32 %r16, %f1; mov.b32 %r17, %f2; mov.b32 %r18, %f3; mov.b32 %r19, %f4;\n" STORE_SUMS};
    static const uint32_t halves[] = {0x3C00, 0x4000, 0xC000, 0x3800}; /* 1, 2, -2, 0.5 */
    static const float of[] = {1, 2, -2, 0.5f};
    memset(j.in, 0, sizeof j.in);
    for (int k = 0; k < 16; k++)
        for (int row = 0; row < 16; row++) {
            const int lane = k % 8 / 2, bits = 16 * (k % 2);
            j.in[(4 * (row % 8) + lane) * 10 + row / 8 + 2 * (k / 8)] |= halves[(row + k) % 4] << bits;
            if (row < 8) /* a column of B */
                j.in[(4 * row + lane) * 10 + 4 + k / 8] |= halves[(row + 3 * k) % 4] << bits;
        }
    assert_int_equal(run(&j), 0);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            float want = 0, got;
            for (int k = 0; k < 16; k++)
                want += of[(row + k) % 4] * of[(column + 3 * k) % 4];
            memcpy(&got, &j.out[(4 * (row % 8) + column / 2) * 4 + column % 2 + 2 * (row / 8)], sizeof got);
            assert_true(got == want);
        }
}

/* ---- faults ---------------------------------------------------------------------------------- */

static const fault faults[] = {
    {"a race of a writer and a reader",
     "st.shared.u32 [%rd5], %r1; xor.b32 %r2, %r1, 63; mul.wide.u32 %rd9, %r2, 4;"
     "mov.u64 %rd6, words; add.s64 %rd6, %rd6, %rd9; ld.shared.u32 %r3, [%rd6];",
     "st.shared.u32 [%rd5], %r1; xor.b32 %r2, %r1, 63; mul.wide.u32 %rd9, %r2, 4; bar.sync 0;"
     "mov.u64 %rd6, words; add.s64 %rd6, %rd6, %rd9; ld.shared.u32 %r3, [%rd6];",
     "", 64, 0, 1, TARGET},
    {"a race of two writers", "st.shared.u32 [words], %r1;",
     "setp.ne.s32 %p1, %r1, 0; @%p1 bra END; st.shared.u32 [words], %r1;\nEND:",
     "race: writes byte 0 of words", 64, 0, 1, TARGET},
    {"a write over what others read",
     "st.shared.u32 [%rd5], %r1; bar.sync 0; ld.shared.u32 %r2, [words];"
     "st.shared.u32 [%rd5], %r2;",
     "st.shared.u32 [%rd5], %r1; bar.sync 0; ld.shared.u32 %r2, [words]; bar.sync 0; st.shared.u32 [%rd5], "
     "%r2;",
     "race: ", 64, 0, 1, TARGET},
    {"a read of local memory that nobody wrote", "ld.shared.u32 %r2, [words+300];",
     "st.shared.u32 [%rd5], %r1; bar.sync 0; ld.shared.u32 %r2, [words+252];",
     "byte 300 of words, which nobody wrote", 64, 0, 1, TARGET},
    {"a write behind an array in local memory",
     "setp.ne.s32 %p1, %r1, 3; @%p1 bra END;"
     "st.shared.u32 [words+512], %r1;\nEND:",
     "setp.ne.s32 %p1, %r1, 3; @%p1 bra END; st.shared.u32 [words+508], %r1;\nEND:", "work-item 3,0,0", 64, 0,
     1, TARGET},
    {"a read behind a buffer", "ld.global.u32 %r2, [%rd4+4];", "ld.global.u32 %r2, [%rd4];",
     "read of 4 bytes at byte 256 of argument 1, which has 256 bytes", 64, 256, 1, TARGET},
    {"a read before a buffer", "ld.global.u32 %r2, [%rd4+-4];", "ld.global.u32 %r2, [%rd4];",
     "read of 4 bytes at byte -4 of argument 1", 64, 0, 1, TARGET},
    {"a write to address 0", "mov.u64 %rd6, 0; st.global.u32 [%rd6], %r1;", "st.global.u32 [%rd1], %r1;",
     "which is in no buffer", 1, 0, 1, TARGET},
    {"a misaligned read", "ld.global.u32 %r2, [%rd4+2];", "ld.global.u32 %r2, [%rd4+4];",
     "misaligned read of 4 bytes at byte", 64, 0, 1, TARGET},
    {"a misaligned vector", "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd2+8];",
     "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd2+16];",
     "misaligned read of 16 bytes at byte 8 of argument 1", 64, 0, 1, TARGET},
    {"a vector in an array of words", "st.shared.v4.u32 [words], {%r1, %r1, %r1, %r1};",
     "st.shared.v4.u32 [quads], {%r1, %r1, %r1, %r1};", "misaligned write of 16 bytes at byte 0 of words", 1,
     0, 1, TARGET},
    {"a barrier that a warp does not reach", "setp.lt.u32 %p1, %r1, 32; @%p1 bra END; bar.sync 0;\nEND:",
     "setp.lt.u32 %p1, %r1, 64; @!%p1 bra END; bar.sync 0;\nEND:", "barrier in divergent flow", 64, 0, 1,
     TARGET},
    {"a barrier in divergent flow",
     "setp.lt.u32 %p1, %r1, 5; @%p1 bra OTHER; bar.sync 0; bra.uni END;\n"
     "OTHER: bar.sync 0;\nEND:",
     "setp.lt.u32 %p1, %r1, 5; @%p1 bra OTHER; mov.u32 %r2, 1; bra.uni END;\nOTHER: mov.u32 %r2, 2;\nEND: "
     "bar.sync 0;",
     "barrier in divergent flow", 32, 0, 1, TARGET},
    {"a barrier after work-items have returned", "setp.ge.u32 %p1, %r1, 40; @%p1 bra END; bar.sync 0;\nEND:",
     "bar.sync 0; setp.ge.u32 %p1, %r1, 40; @%p1 bra END;\nEND:", "has returned", 64, 0, 1, TARGET},
    {"a shuffle of some lanes",
     "setp.eq.s32 %p1, %r1, 9; @%p1 bra END; shfl.sync.bfly.b32 %r2, %r1, 1, 0x1f, "
     "0xffffffff;\nEND:",
     "shfl.sync.bfly.b32 %r2, %r1, 1, 0x1f, 0xffffffff;",
     "lanes 0xffffffff take part, and 0xfffffdff are here", 64, 0, 1, TARGET},
    {"a product of matrices by a part of a warp",
     "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r16, %r17, %r18, "
     "%r19}, {%r10, %r11}, {%r14}, {%r16, %r17, %r18, %r19};",
     "bar.sync 0;", "takes all lanes, and 0x00ffffff are here", 24, 0, 1, TARGET},
    {"two writers in global memory", "st.global.u32 [%rd1], %r1;", "st.global.u32 [%rd3], %r1;",
     "race in global memory: writes what work-item ", 64, 0, 1, TARGET},
    {"a group that reads what another writes",
     "mov.u32 %r2, %ctaid.x; setp.eq.s32 %p1, %r2, 0; @%p1 bra END; ld.global.u32 %r3, [%rd1];\nEND:"
     "mul.wide.u32 %rd6, %r2, 256; add.s64 %rd6, %rd6, %rd3; st.global.u32 [%rd6], %r1;",
     "mov.u32 %r2, %ctaid.x; setp.eq.s32 %p1, %r2, 0; @%p1 bra END; ld.global.u32 %r3, [%rd1+1024];\nEND:"
     "mul.wide.u32 %rd6, %r2, 256; add.s64 %rd6, %rd6, %rd3; st.global.u32 [%rd6], %r1;",
     "another group", 64, 0, 2, TARGET},
    {"a work-item that reads what another of its group writes",
     "st.global.u32 [%rd3], %r1; ld.global.u32 %r2, [%rd1+16];",
     "st.global.u32 [%rd3], %r1; bar.sync 0; ld.global.u32 %r2, [%rd1+16];", "its group", 64, 0, 1, TARGET},
};

static void faults_are_found_and_healthy_kernels_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        check_fault(&faults[i], 5);
}

static void an_instruction_that_is_not_known_is_named(void **state)
{
    (void)state;
    check_refused(TARGET, "add.s32 %r2, %r1, 1;\nvote.sync.all.pred %p1, %p2, 0xffffffff;",
                  "instruction 'vote.sync.all.pred' is not known");
    check_refused(TARGET, "bra.uni NOWHERE;", "label 'NOWHERE' is not there");
}

/* Warps take turns in an order that the seed decides: 8 warps, each of which notes its turn. */
static void warps_run_in_another_order_with_another_seed(void **state)
{
    (void)state;
    int differ = 0;
    uint32_t first[8];
    for (uint64_t seed = 0; seed < 8; seed++) {
        static job j;
        j = (job){
            .body =
                "and.b32 %r2, %r1, 31; setp.ne.s32 %p1, %r2, 0; @%p1 bra END;\n"
                "shr.u32 %r3, %r1, 5; atom.global.exch.b32 %r4, [%rd1], %r3; mul.wide.u32 %rd10, %r3, 4;\n"
                "add.s64 %rd11, %rd1, %rd10; st.global.u32 [%rd11+4], %r4;\nEND:",
            .items = 256,
            .seed = seed};
        assert_int_equal(run(&j), 0);
        differ |= seed > 0 && memcmp(first, j.out + 1, sizeof first) != 0;
        memcpy(first, j.out + 1, sizeof first);
    }
    assert_true(differ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_compute_what_the_isa_says),
        cmocka_unit_test(lanes_that_part_meet_again),
        cmocka_unit_test(lanes_read_one_of_their_four),
        cmocka_unit_test(a_product_of_bytes_is_right),
        cmocka_unit_test(a_product_of_halves_is_right),
        cmocka_unit_test(faults_are_found_and_healthy_kernels_pass),
        cmocka_unit_test(an_instruction_that_is_not_known_is_named),
        cmocka_unit_test(warps_run_in_another_order_with_another_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
