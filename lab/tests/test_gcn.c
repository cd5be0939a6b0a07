/* The interpreter of AMD's instructions: what they compute, by the instruction set guides, and that faults of
 * kernels are found. Each fault has a healthy twin, which passes. */
#define TARGET "gfx90a"
#include "lab/gpu/run/bits.h"
#include "lab/tests/gpu_test.h"

/* A kernel of two buffers, s[4:5] and s[6:7]. v0 is the work-item's number, v1 four times that. */
static void kernel_text(const char *target, const char *body, char text[TEXT])
{
    const int is_32 = target[3] == '1';
    snprintf(text, TEXT,
             "\t.text\n\t.type kern,@function\nkern:\n%s\ts_load_dwordx4 s[4:7], s[0:1], 0x0\n"
             "\tv_lshlrev_b32_e32 v1, 2, v0\n%s\n\ts_endpgm\n"
             "\t.section .rodata,#alloc\n\t.amdhsa_kernel kern\n\t.amdhsa_group_segment_fixed_size 1024\n"
             "\t.amdhsa_private_segment_fixed_size 16\n\t.amdhsa_user_sgpr_count 2\n"
             "\t.amdhsa_user_sgpr_kernarg_segment_ptr 1\n%s\t.amdhsa_system_sgpr_workgroup_id_x 1\n"
             "\t.amdhsa_system_vgpr_workitem_id 0\n\t.amdhsa_next_free_vgpr %d\n\t.amdhsa_accum_offset 64\n"
             "\t.end_amdhsa_kernel\n\t.text\n\t.amdgpu_metadata\n---\namdhsa.kernels:\n  - .args:\n"
             "      - .offset: 0\n        .size: 8\n        .value_kind: global_buffer\n"
             "      - .offset: 8\n        .size: 8\n        .value_kind: global_buffer\n"
             "      - .offset: 16\n        .size: 8\n        .value_kind: hidden_global_offset_x\n"
             "    .kernarg_segment_size: 24\n    .name: kern\n...\n\t.end_amdgpu_metadata\n",
             strcmp(target, "gfx1030") != 0 ? "\tv_and_b32_e32 v0, 0x3ff, v0\n" : "", body,
             is_32 ? "\t.amdhsa_wavefront_size32 1\n" : "", is_32 ? 64 : 96);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Each instruction on a in v2 and s8, and b in v3; the result is in v4. */
#define LOAD                                                                                                 \
    "\tglobal_load_dword v2, v1, s[6:7]\n\tglobal_load_dword v3, v1, s[6:7] offset:1024\n"                   \
    "\ts_load_dword s8, s[6:7], 0x0\n\ts_waitcnt vmcnt(0)\n"
#define STORE "\n\tglobal_store_dword v1, v4, s[4:5]"
static const value gfx9_values[] = {
    {"v_add_u32_e32 v4, v2, v3", 0xFFFFFFFF, 2, 1},
    {"v_sub_u32_e64 v4, v2, v3 clamp", 3, 5, 0},
    {"v_subrev_u32_e32 v4, 7, v2", 3, 0, 0xFFFFFFFC},
    {"v_lshlrev_b32_e32 v4, 33, v2", 3, 0, 6},
    {"v_ashrrev_i32_e32 v4, 4, v2", 0x80000000, 0, 0xF8000000},
    {"v_bfe_u32 v4, v2, 8, 4", 0xABCD, 0, 0xB},
    {"v_bfe_i32 v4, v2, 4, 4", 0x180, 0, 0xFFFFFFF8},
    {"v_bfi_b32 v4, v2, v3, 0x12345678", 0xFFFF0000, 0xAAAAAAAA, 0xAAAA5678},
    {"v_perm_b32 v4, v2, v3, 0x07050301", 0x77665544, 0x33221100, 0x77553311}, /* 0 .. 3: of the second */
    {"v_mov_b32_e32 v5, 0x0d0c0b08\n\tv_perm_b32 v4, v2, v3, v5", 0x80000000, 0x80000080, 0xFF00FF00},
    {"v_alignbit_b32 v4, v2, v3, 8", 0x11223344, 0xAABBCCDD, 0x44AABBCC},
    {"v_mul_i32_i24_e32 v4, v2, v3", 0x00FFFFFF, 5, 0xFFFFFFFB},
    {"v_mul_hi_u32 v4, v2, v3", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE},
    {"v_mad_u64_u32 v[4:5], s[2:3], v2, v3, 1\n\tv_mov_b32_e32 v4, v5", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE},
    {"v_lshlrev_b64 v[4:5], 4, v[2:3]\n\tv_mov_b32_e32 v4, v5", 0xF0000000, 1, 0x1F},
    {"v_add_co_u32_e32 v4, vcc, v2, v3\n\tv_addc_co_u32_e32 v4, vcc, 0, v2, vcc", 0xFFFFFFFF, 1, 0},
    {"v_cmp_lt_i32_e32 vcc, v2, v3\n\tv_cndmask_b32_e32 v4, 2, v3, vcc", 0xFFFFFFFF, 1, 1},
    {"v_cmp_ngt_f32_e32 vcc, v2, v3\n\tv_cndmask_b32_e64 v4, 2, 5, vcc", NAN_BITS, 0, 5},
    {"v_cmp_class_f32_e64 s[2:3], v2, 0x60\n\tv_cndmask_b32_e64 v4, 2, 5, s[2:3]", 0x80000000, 0, 5},
    {"v_cmp_class_f32_e64 s[2:3], v2, 0x204\n\tv_cndmask_b32_e64 v4, 2, 5, s[2:3]", 0xFF800000, 0, 5},
    {"v_dot4_i32_i8 v4, v2, v3, -1", 0x80FF017F, 0x81FE037F, 16129 + 3 + 2 + 128 * 127 - 1},
    {"v_mov_b32_e32 v4, 10\n\tv_dot4c_i32_i8_e32 v4, v2, v3", 0xFF, 0x7F, 0xFFFFFF8B},
    {"v_mul_i32_i24_sdwa v4, sext(v2), v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:DWORD",
     0x00FE0000, 3, 0xFFFFFFFA},
    {"v_lshrrev_b32_sdwa v4, v2, v3 dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD", 4,
     0xABC, 0xAB00},
    {"v_mov_b32_e32 v4, -1\n\tv_mov_b32_sdwa v4, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE "
     "src0_sel:WORD_0",
     0x1234, 0, 0x1234FFFF},
    {"v_fma_f32 v4, v2, v3, -|v2|", 0x40000000, 0x40400000, 0x40800000},
    {"v_mul_f32_e64 v4, v2, v3 mul:2", 0x40000000, 0x40400000, 0x41400000},
    {"v_add_f32_e64 v4, v2, v3 clamp", 0x40000000, 0x40400000, 0x3F800000},
    {"v_max_f32_e32 v4, v2, v3", NAN_BITS, 0x40000000, 0x40000000},
    {"v_med3_f32 v4, v2, 1.0, v3", 0x40400000, 0x40000000, 0x40000000},
    {"v_cvt_i32_f32_e32 v4, v2", 0xC0200000, 0, 0xFFFFFFFE},
    {"v_cvt_u32_f32_e32 v4, v2", 0xC0200000, 0, 0},
    {"v_rndne_f32_e32 v4, v2", 0x40200000, 0, 0x40000000},
    {"v_cvt_f32_ubyte2_e32 v4, v2", 0x00030000, 0, 0x40400000},
    {"v_cvt_f16_f32_e32 v4, v2", 0x3F801000, 0, 0x3C00}, /* half way */
    {"v_mov_b32_e32 v4, -1\n\tv_cvt_f16_f32_e32 v4, v2", 0x40000000, 0,
     0x4000}, /* the upper half is cleared */
    {"v_cvt_f32_f16_sdwa v4, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1", 0x40000000, 0,
     0x40000000},
    {"v_pk_fma_f16 v4, v2, v3, 1.0 op_sel_hi:[0,1,0]", 0xFFFF4000, 0x42004000,
     0x47004500}, /* 2 3 + 1, 2 2 + 1 */
    {"v_pk_mul_f32 v[4:5], v[2:3], v[2:3] op_sel:[1,0]\n", 0x40000000, 0x40400000, 0x40C00000},
    {"v_pk_mov_b32 v[4:5], v[2:3], v[2:3] op_sel:[1,0]\n", 1, 2, 2},
    {"v_mov_b32_e32 v4, -1\n\tv_fma_mixlo_f16 v4, v2, v3, 0", 0x40000000, 0x40400000, 0xFFFF4600},
    {"v_mov_b32_e32 v4, 5\n\tv_fma_mixhi_f16 v4, v2, v3, v3", 0x40000000, 0x40400000,
     0x48800005}, /* 2 3 + 3 */
    {"v_mov_b32_e32 v4, -1\n\tv_mad_u16 v4, v2, v3, 1", 2, 3, 0xFFFF0007},
    {"v_mov_b32_e32 v4, -1\n\tv_mad_legacy_u16 v4, v2, v3, 1", 2, 3, 7},
    {"v_frexp_exp_i32_f32_e32 v4, v2", 0x41000000, 0, 4},
    {"v_ldexp_f32 v4, v2, 3", 0x3F800000, 0, 0x41000000},
    {"v_ffbh_u32_e32 v4, v2", 0, 0, 0xFFFFFFFF},
    {"v_mbcnt_lo_u32_b32 v4, -1, 0\n\tv_mbcnt_hi_u32_b32 v4, -1, v4\n\tv_readlane_b32 s2, v4, "
     "63\n\tv_mov_b32_e32 v4, s2",
     0, 0, 63},
    {"s_mov_b32 s2, 0x10008\n\ts_bfe_i32 s2, s8, 0x80008\n\tv_mov_b32_e32 v4, s2", 0xFF00, 0, 0xFFFFFFFF},
    {"s_add_u32 s2, s8, 1\n\ts_addc_u32 s2, 5, 0\n\tv_mov_b32_e32 v4, s2", 0xFFFFFFFF, 0, 6},
    {"s_sub_u32 s2, s8, 1\n\ts_subb_u32 s2, 5, 0\n\tv_mov_b32_e32 v4, s2", 0, 0, 4},
    {"s_cmpk_lt_i32 s8, 0xfff0\n\ts_cselect_b32 s2, 1, 2\n\tv_mov_b32_e32 v4, s2", 0xFFFFFFEF, 0, 1},
    {"s_movk_i32 s2, 0xff80\n\ts_addk_i32 s2, 0x7f\n\tv_mov_b32_e32 v4, s2", 0, 0, 0xFFFFFFFF},
    {"s_mov_b64 s[2:3], -1\n\ts_lshr_b64 s[2:3], s[2:3], 60\n\tv_mov_b32_e32 v4, s2", 0, 0, 15},
    {"v_mov_b32_e32 v4, 3\n\tv_cmp_gt_u32_e32 vcc, 8, v0\n\ts_and_saveexec_b64 s[2:3], vcc\n\tv_mov_b32_e32 "
     "v4, 4\n"
     "\ts_or_b64 exec, exec, s[2:3]\n\tv_readlane_b32 s9, v4, 7\n\tv_readlane_b32 s10, v4, 8\n"
     "\ts_lshl_b32 s9, s9, 4\n\ts_or_b32 s9, s9, s10\n\tv_mov_b32_e32 v4, s9",
     0, 0, 0x43},
    {"v_mov_b32_e32 v4, -1\n\tv_mov_b32_dpp v4, v0 row_shl:1 row_mask:0xf bank_mask:0xf\n\tv_readlane_b32 "
     "s2, v4, 15\n"
     "\tv_readlane_b32 s3, v4, 3\n\ts_add_u32 s2, s2, s3\n\tv_mov_b32_e32 v4, s2",
     0, 0, 3}, /* lane 15 keeps -1, lane 3 has 4 */
    {"v_mov_b32_e32 v4, -1\n\tv_mov_b32_dpp v4, v0 row_shr:1 row_mask:0xf bank_mask:0xf "
     "bound_ctrl:0\n\tv_readlane_b32 s2, v4, 16\n"
     "\tv_readlane_b32 s3, v4, 3\n\ts_add_u32 s2, s2, s3\n\tv_mov_b32_e32 v4, s2",
     0, 0, 2}, /* lane 16 has 0, lane 3 has 2 */
    {"v_mov_b32_e32 v4, v0\n\ts_nop 1\n\tv_mov_b32_dpp v4, v0 row_bcast:15 row_mask:0xa "
     "bank_mask:0xf\n\tv_readlane_b32 s2, v4, 50\n"
     "\tv_readlane_b32 s3, v4, 33\n\ts_lshl_b32 s2, s2, 8\n\ts_add_u32 s2, s2, s3\n\tv_mov_b32_e32 v4, s2",
     0, 0, 47 << 8 | 33},
    {"v_mov_b32_dpp v4, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf\n\tv_readlane_b32 s2, v4, "
     "6\n\tv_mov_b32_e32 v4, s2",
     0, 0, 7},
    {"v_xor_b32_e32 v5, 0x50, v1\n\tds_bpermute_b32 v4, v5, v0\n\tv_readlane_b32 s2, v4, 3\n\tv_mov_b32_e32 "
     "v4, s2",
     0, 0, 23},
    {"s_mov_b32 s2, 1\n\ts_set_gpr_idx_on s2, gpr_idx(SRC0)\n\tv_mov_b32_e32 v4, v2\n\ts_set_gpr_idx_off", 7,
     9, 9},
    {"v_div_scale_f32 v5, s[2:3], v3, v3, v2\n\tv_div_scale_f32 v6, vcc, v2, v3, v2\n\tv_rcp_f32_e32 v7, v5\n"
     "\tv_mul_f32_e32 v8, v6, v7\n\tv_fma_f32 v9, -v5, v8, v6\n\tv_div_fmas_f32 v8, v9, v7, "
     "v8\n\tv_div_fixup_f32 v4, v8, v3, v2",
     0x00800000, 0x7F000000, 0}, /* far below the least */
    {"v_div_scale_f32 v5, s[2:3], v3, v3, v2\n\tv_div_scale_f32 v6, vcc, v2, v3, v2\n\tv_rcp_f32_e32 v7, v5\n"
     "\tv_mul_f32_e32 v8, v6, v7\n\tv_fma_f32 v9, -v5, v8, v6\n\tv_div_fmas_f32 v8, v9, v7, "
     "v8\n\tv_div_fixup_f32 v4, v8, v3, v2",
     0x7F000000, 0x7E800000, 0x40000000},
    {"v_div_fixup_f32 v4, 1.0, v3, v2", 0x3F800000, 0x80000000, 0xFF800000}, /* 1 / -0 */
    {"v_mov_b32_e32 v4, 0\n\ts_nop 0\n\tglobal_atomic_swap v5, v1, v2, s[4:5] glc\n\tglobal_atomic_swap v1, "
     "v3, s[4:5]\n"
     "\tglobal_load_dword v4, v1, s[4:5]\n\tv_or_b32_e32 v4, v4, v5",
     1, 2, 2},
    {"v_accvgpr_write_b32 a3, v2\n\tv_accvgpr_read_b32 v4, a3", 9, 0, 9},
    {"ds_write_b32 v1, v2\n\ts_barrier\n\tds_read2st64_b32 v[4:5], v1 offset1:0\n\tv_mov_b32_e32 v4, v5", 9,
     0, 9},
    {"v_mov_b32_e32 v5, 0x100\n\tds_write2_b32 v5, v2, v3 offset0:2 offset1:1\n\tds_read_b64 v[6:7], v5 "
     "offset:4\n\tv_mov_b32_e32 v4, v6",
     1, 2, 2},
    {"buffer_store_dword v2, off, s[12:15], 0 offset:12\n\tbuffer_load_ubyte v4, off, s[12:15], 0 offset:13",
     0xABCD, 0, 0xAB},
};
static const value gfx942_values[] = {{"v_mov_b32_e32 v6, 7\n\tv_mov_b32_e32 v7, 1\n\tv_lshl_add_u64 v[4:5], "
                                       "v[2:3], 4, v[6:7]\n\tv_mov_b32_e32 v4, v5",
                                       0xF0000000, 1, 0x20}};
static const value gfx11_values[] = {
    {"v_dual_mov_b32 v4, v3 :: v_dual_mov_b32 v3, v4", 1, 2, 2},
    {"v_dual_mov_b32 v2, v3 :: v_dual_mov_b32 v3, v2\n\tv_sub_nc_u32_e32 v4, v3, v2", 7, 4,
     3}, /* exchanged */
    {"v_mov_b32_e32 v4, 1.0\n\tv_dual_fmac_f32 v4, v2, v3 :: v_dual_add_nc_u32 v5, 1, v4", 0x40000000,
     0x40400000, 0x40E00000},
    {"v_cmp_lt_i32_e32 vcc_lo, v2, v3\n\tv_dual_cndmask_b32 v4, v2, v3 :: v_dual_mov_b32 v9, 0", 1, 2, 2},
    {"v_cmpx_gt_u32_e32 8, v0\n\tv_mov_b32_e32 v2, 5\n\ts_mov_b32 exec_lo, -1\n\tv_readlane_b32 s2, v2, "
     "8\n\tv_mov_b32_e32 v4, s2",
     3, 0, 3},
    {"v_dot4_i32_iu8 v4, v2, v3, 0 neg_lo:[1,0,0]", 0xFF, 0xFF, 0xFFFFFF01}, /* -1 times 255 */
    {"v_dot4_i32_iu8 v4, v2, v3, 0 neg_lo:[1,1,0]", 0xFF, 0xFF, 1},
    {"v_mov_b32_e32 v4, -1\n\tv_cvt_f16_f32_e32 v4, v2", 0x40000000, 0,
     0xFFFF4000}, /* the upper half stays */
    {"v_mov_b32_e32 v4, 0\n\tv_add_nc_u16 v4, v2, v3 op_sel:[1,0,1]", 0x00050000, 2, 0x00070000},
    {"v_fma_mix_f32 v4, v2, v3, v3 op_sel:[1,0,0] op_sel_hi:[1,0,0]", 0x40000000, 0x40400000,
     0x41100000}, /* 2 3 + 3 */
    {"v_permlanex16_b32 v4, v0, 0x76543210, 0xfedcba98\n\tv_readlane_b32 s2, v4, 5\n\tv_mov_b32_e32 v4, s2",
     0, 0, 21},
    {"v_permlanex16_b32 v4, v0, 0, 0\n\tv_readlane_b32 s2, v4, 21\n\tv_mov_b32_e32 v4, s2", 0, 0, 0},
    {"v_mov_b32_dpp v4, v0 row_share:3 row_mask:0xf bank_mask:0xf\n\tv_readlane_b32 s2, v4, "
     "21\n\tv_mov_b32_e32 v4, s2",
     0, 0, 19},
    {"v_mov_b32_dpp v4, v0 dpp8:[7,6,5,4,3,2,1,0]\n\tv_readlane_b32 s2, v4, 8\n\tv_mov_b32_e32 v4, s2", 0, 0,
     15},
    {"v_mad_u64_u32 v[4:5], null, v2, v3, 5", 3, 4, 17},
    {"v_maxmin_i32 v4, v2, 0, v3", 0xFFFFFFF0, 9, 0},
    {"s_mov_b32 m0, 1\n\tv_movrels_b32_e32 v4, v2", 7, 9, 9},
    {"v_fmaak_f32 v4, v2, v3, 0x3f800000", 0x40000000, 0x40400000, 0x40E00000},
    {"scratch_store_b64 off, v[2:3], off offset:8\n\tscratch_load_b32 v4, off, off offset:12", 1, 2, 2},
    {"v_mov_b32_e32 v5, 0x100\n\tds_store_2addr_b32 v5, v2, v3 offset1:1\n\tds_load_b64 v[4:5], "
     "v5\n\tv_mov_b32_e32 v4, v5",
     1, 2, 2},
    {"v_clz_i32_u32_e32 v4, v2", 0x00010000, 0, 15},
    {"s_getpc_b64 s[2:3]\n\ts_add_u32 s2, s2, table@rel32@lo+4\n\ts_addc_u32 s3, s3, "
     "table@rel32@hi+12\n\ts_load_b32 s2, s[2:3], 0x4\n"
     "\tv_mov_b32_e32 v4, s2\n\ts_branch .LBB0_9\n\t.section .rodata\ntable:\n\t.byte 1,2,3,4\n\t.short "
     "0x1234\n\t.ascii \"A\\n\"\n"
     "\t.size table, 8\n\t.text\n.LBB0_9:",
     0, 0, 0x0A411234}};

static void check_values(const char *target, uint32_t lanes, const value *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        static job j;
        char body[TEXT];
        snprintf(body, sizeof body, "%s\t%s%s", LOAD, list[i].text, STORE);
        j = (job){.target = target, .body = body, .items = lanes, .finds_races = 1};
        for (int l = 0; l < 64; l++) {
            j.in[l] = list[i].a;
            j.in[256 + l] = list[i].b;
        }
        check_value(&j, &list[i], lanes);
    }
}

static void instructions_compute_what_the_guides_say(void **state)
{
    (void)state;
    check_values("gfx90a", 64, gfx9_values, sizeof gfx9_values / sizeof *gfx9_values);
    check_values("gfx942", 64, gfx942_values, sizeof gfx942_values / sizeof *gfx942_values);
    check_values("gfx1100", 32, gfx11_values, sizeof gfx11_values / sizeof *gfx11_values);
}

/* ---- products of matrices ---------------------------------------------------------------------- */

static int element_of(int kind, int row, int k)
{
    return (row * (kind ? 29 : 37) + k * 17 + row * k * 7 + kind) % 15 - 7;
}

/* One number of a type: b bytes, h halves, f bf16. */
static uint32_t bits_of(int x, char type)
{
    return type == 'b' ? (uint32_t)x & 255 : type == 'h' ? gpu_half_bits(x) : gpu_float_bits((float)x) >> 16;
}

/* Where the guides put element k of a row of A, or of a column of B; and row and column of a sum. */
typedef struct layout {
    const char *target, *text;
    char type;
    int n_k, words, sums, lanes; /* words: of an operand of a lane */
} layout;

/* A from v10, B from v20, sums 5 in v30 at first. */
static const layout layouts[] = {
    {"gfx90a", "v_mfma_f32_16x16x16f16 v[30:33], v[10:11], v[20:21], v[30:33]", 'h', 16, 2, 4, 64},
    {"gfx90a", "v_mfma_f32_16x16x16bf16_1k v[30:33], v[10:11], v[20:21], v[30:33]", 'f', 16, 2, 4, 64},
    {"gfx90a", "v_mfma_i32_16x16x16i8 v[30:33], v10, v20, v[30:33]", 'b', 16, 1, 4, 64},
    {"gfx942", "v_mfma_i32_16x16x32_i8 v[30:33], v[10:11], v[20:21], v[30:33]", 'b', 32, 2, 4, 64},
    {"gfx1100", "v_wmma_f32_16x16x16_f16 v[30:37], v[10:17], v[20:27], v[30:37]", 'h', 16, 8, 8, 32},
    {"gfx1100", "v_wmma_f32_16x16x16_bf16 v[30:37], v[10:17], v[20:27], v[30:37]", 'f', 16, 8, 8, 32},
    {"gfx1100", "v_wmma_i32_16x16x16_iu8 v[30:37], v[10:13], v[20:23], v[30:37] neg_lo:[1,1,0]", 'b', 16, 4,
     8, 32}};

static uint32_t word_of(const layout *of, int kind, int lane, int word)
{
    const int per = of->type == 'b' ? 4 : 2, bits = 32 / per;
    uint32_t out = 0;
    for (int j = 0; j < per; j++) {
        /* CDNA2, 7.1: of 16 elements lane l has 4, from 4 (l / 16) on; CDNA3: of 32 it has 8; RDNA3, 7.9: all
         */
        const int k = (of->lanes == 64 ? lane / 16 * of->n_k / 4 : 0) + word * per + j;
        out |= bits_of(element_of(kind, lane % 16, k), of->type) << bits * j;
    }
    return out;
}

static void check_layout(const layout *of)
{
    static job j;
    char body[TEXT] = "";
    size_t n = 0;
    j = (job){.target = of->target, .body = body, .items = (uint32_t)of->lanes, .finds_races = 1};
    for (int kind = 0; kind < 2; kind++)
        for (int word = 0; word < of->words; word++) {
            n +=
                (size_t)snprintf(body + n, sizeof body - n, "\tglobal_load_dword v%d, v1, s[6:7] offset:%d\n",
                                 10 + 10 * kind + word, (kind * 8 + word) * 256);
            for (int l = 0; l < of->lanes; l++)
                j.in[(kind * 8 + word) * 64 + l] = word_of(of, kind, l, word);
        }
    for (int r = 0; r < of->sums; r++)
        n += (size_t)snprintf(body + n, sizeof body - n, "\tv_mov_b32_e32 v%d, %s\n", 30 + r,
                              of->type == 'b' ? "5" : "0x40a00000");
    n += (size_t)snprintf(body + n, sizeof body - n, "\t%s\n", of->text);
    for (int r = 0; r < of->sums; r++)
        n += (size_t)snprintf(body + n, sizeof body - n, "\tglobal_store_dword v1, v%d, s[4:5] offset:%d\n",
                              30 + r, 256 * r);
    if (run(&j))
        fail_msg("%s", j.why);
    for (int r = 0; r < of->sums; r++)
        for (int l = 0; l < of->lanes; l++) {
            const int row = of->lanes == 64 ? l / 16 * 4 + r : 2 * r + l / 16, column = l % 16;
            int want = 5;
            float got = (float)(int32_t)j.out[64 * r + l];
            for (int k = 0; k < of->n_k; k++)
                want += element_of(0, row, k) * element_of(1, column, k);
            if (of->type != 'b')
                memcpy(&got, &j.out[64 * r + l], sizeof got);
            if ((int)got != want)
                fail_msg("%s: row %d, column %d: expected %d, got %g", of->text, row, column, want,
                         (double)got);
        }
}

static void matrices_are_laid_out_as_the_guides_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        check_layout(&layouts[i]);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static const fault faults[] = {
    {"a read behind a buffer", "\tglobal_load_dword v2, v1, s[6:7] offset:4",
     "\tglobal_load_dword v2, v1, s[6:7]", "read of 4 bytes at byte 256 of argument 1, which has 256 bytes",
     64, 256, 1, "gfx90a"},
    {"a read before a buffer", "\tglobal_load_dword v2, v1, s[6:7] offset:-4",
     "\tglobal_load_dword v2, v1, s[6:7]", "read of 4 bytes at byte -4 of argument 1", 64, 0, 1, "gfx1100"},
    {"a scalar read behind a buffer", "\ts_load_dwordx2 s[8:9], s[6:7], 0xfc",
     "\ts_load_dwordx2 s[8:9], s[6:7], 0xf8", "read of 8 bytes at byte 252 of argument 1", 64, 256, 1,
     "gfx90a"},
    {"a misaligned scalar read", "\ts_load_dword s8, s[6:7], 0x2", "\ts_load_dword s8, s[6:7], 0x4",
     "misaligned read of 4 bytes", 64, 0, 1, "gfx90a"},
    {"a write to address 0",
     "\tv_mov_b32_e32 v2, 0\n\tv_mov_b32_e32 v3, 0\n\tglobal_store_dword v[2:3], v0, off",
     "\tv_mov_b32_e32 v2, s4\n\tv_mov_b32_e32 v3, s5\n\tglobal_store_dword v[2:3], v0, off",
     "which is in no buffer", 1, 0, 1, "gfx90a"},
    {"a write behind local memory", "\tds_write_b32 v1, v0 offset:1024", "\tds_write_b32 v1, v0 offset:768",
     "byte 1024 of local memory, which is behind its arrays", 64, 0, 1, "gfx90a"},
    {"a read of local memory that nobody wrote", "\tds_read_b32 v2, v1",
     "\tds_write_b32 v1, v0\n\tds_read_b32 v2, v1", "which nobody wrote", 64, 0, 1, "gfx1030"},
    {"a race of two waves", "\tds_write_b32 v1, v0\n\tv_mov_b32_e32 v3, 0\n\tds_read_b32 v2, v3",
     "\tds_write_b32 v1, v0\n\tv_mov_b32_e32 v3, 0\n\ts_barrier\n\tds_read_b32 v2, v3", "", 128, 0, 1,
     "gfx90a"},
    {"a wave that does not come to a barrier",
     "\tv_cmp_gt_u32_e32 vcc_lo, 32, v0\n\ts_cbranch_vccnz .LBB0_2\n\ts_barrier\n.LBB0_2:",
     "\tv_cmp_gt_u32_e32 vcc_lo, 32, v0\n\ts_cbranch_vccnz .LBB0_2\n.LBB0_2:\n\ts_barrier",
     "barrier in divergent flow", 64, 0, 1, "gfx1100"},
    {"a product of matrices by a part of a wave", "\tv_mfma_i32_16x16x16i8 v[4:7], v2, v3, 0",
     "\tv_mov_b32_e32 v4, v2", "takes all lanes, and 0xffffff are here", 24, 0, 1, "gfx90a"},
    {"halves of a wave with other rows",
     "\tv_mov_b32_e32 v2, v0\n\tv_wmma_i32_16x16x16_iu8 v[4:11], v[2:5], v[2:5], v[4:11]",
     "\tv_and_b32_e32 v2, 15, v0\n\tv_dual_mov_b32 v3, v2 :: v_dual_mov_b32 v4, v2\n\tv_mov_b32_e32 v5, v2\n"
     "\tv_wmma_i32_16x16x16_iu8 v[4:11], v[2:5], v[2:5], v[4:11]",
     "lanes 0 and 16 of operand 0 have to be equal", 32, 0, 1, "gfx1100"},
    {"private memory", "\tscratch_load_b64 v[2:3], off, off offset:12",
     "\tscratch_load_b64 v[2:3], off, off offset:8",
     "read of 8 bytes at byte 12 of private memory, which has 16 bytes", 64, 0, 1, "gfx1100"},
    {"a register behind the last", "\ts_movk_i32 s2, 0x40\n\ts_mov_b32 m0, s2\n\tv_movrels_b32_e32 v4, v2",
     "\ts_mov_b32 m0, 1\n\tv_movrels_b32_e32 v4, v2", "register v66, of 64", 64, 0, 1, "gfx1100"},
    {"two writers in global memory", "\tv_mov_b32_e32 v2, 0\n\tglobal_store_dword v2, v0, s[4:5]",
     "\tglobal_store_dword v1, v0, s[4:5]", "race in global memory", 128, 0, 1, "gfx90a"}};

static void faults_are_found_and_healthy_kernels_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        check_fault(&faults[i], 3);
}

static void what_is_not_known_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *body, *words;
    } rows[] = {{"\tv_frobnicate_b32_e32 v1, v2", "line 7: instruction 'v_frobnicate_b32' is not known"},
                {"\tv_mov_b32_e32 v1, v2 op_hat:1", "'op_hat' is not known"},
                {"\ts_branch .LBB0_7", "label '.LBB0_7' is not there"},
                {"\tv_mov_b32_e32 v200, v2", "register v200, of 96"},
                {"\tv_mov_b32_e32 v[2:3], v2", "an operand of 2 registers, expected 1"},
                {"\tv_and_b32_e64 v1, v2, v3 clamp", "its limits are not known"},
                {"\ts_getpc_b64 s[2:3]\n\ts_add_u32 s2, s2, table@rel32@lo+4", "'table' is not there"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused(TARGET, rows[i].body, rows[i].words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_compute_what_the_guides_say),
        cmocka_unit_test(matrices_are_laid_out_as_the_guides_say),
        cmocka_unit_test(faults_are_found_and_healthy_kernels_pass),
        cmocka_unit_test(what_is_not_known_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
