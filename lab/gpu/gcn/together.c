/* Instructions that take values of several lanes: exchanges, and products of matrices. */
#include <string.h>

#include "lab/gpu/gcn/gcn.h"
#include "lab/gpu/run/bits.h"

/* ---- exchanges ------------------------------------------------------------------------------- */

static uint32_t first_lane(const gcn_wave *w)
{
    return w->exec ? (uint32_t)__builtin_ctzll(w->exec) : 0;
}

static void read_first_lane(gcn_wave *w, const gcn_insn *i)
{
    gcn_set_scalar(w, &i->d[0], gcn_read(w, i, 0, 0)[first_lane(w)]);
}

static void read_lane(gcn_wave *w, const gcn_insn *i)
{
    gcn_set_scalar(w, &i->d[0], gcn_read(w, i, 0, 0)[gcn_scalar(w, &i->s[1]) & (w->lanes - 1)]);
}

static void write_lane(gcn_wave *w, const gcn_insn *i)
{
    gcn_lanes_of(w, i->d[0].at)[gcn_scalar(w, &i->s[1]) & (w->lanes - 1)] = (uint32_t)gcn_scalar(w, &i->s[0]);
}

/* Each lane gets the value of the lane that its address names, in bytes; 0 from one that does not take part.
 */
static void backward_permute(gcn_wave *w, const gcn_insn *i)
{
    const uint32_t *at = gcn_read(w, i, 0, 0), *from = gcn_read(w, i, 1, 0);
    uint32_t out[GCN_LANES];
    for (uint32_t l = 0; l < w->lanes; l++) {
        const uint32_t lane = (at[l] + (uint32_t)i->offset) / 4 & (w->lanes - 1);
        out[l] = w->exec >> lane & 1 ? from[lane] : 0;
    }
    memcpy(gcn_result(w, i, 0, 0), out, w->lanes * sizeof *out);
    gcn_written(w, i);
}

/* Lane l of a row of 16 gets the value of lane (selectors >> 4 l) of the row beside (x) or of its own.
 * op_sel: lanes that do not take part are read, too; else the result stays, or is 0. */
static void permute_rows(gcn_wave *w, const gcn_insn *i, uint32_t other)
{
    const uint32_t *from = gcn_read(w, i, 0, 0), low = (uint32_t)gcn_scalar(w, &i->s[1]),
                   high = (uint32_t)gcn_scalar(w, &i->s[2]);
    uint32_t out[GCN_LANES], *to = gcn_lanes_of(w, i->d[0].at);
    for (uint32_t l = 0; l < w->lanes; l++) {
        const uint32_t at = l & 15, in_row = (at < 8 ? low >> 4 * at : high >> 4 * (at - 8)) & 15;
        const uint32_t lane = ((l & ~15u) ^ other) | in_row;
        const int is_there = (w->exec >> lane & 1) || (i->op_sel & 1);
        out[l] = is_there ? from[lane] : i->op_sel & 2 ? 0 : to[l];
    }
    for (uint32_t l = 0; l < w->lanes; l++)
        to[l] = w->on[l] ? out[l] : to[l];
}

static void permute_row(gcn_wave *w, const gcn_insn *i)
{
    permute_rows(w, i, 0);
}

static void permute_other_row(gcn_wave *w, const gcn_insn *i)
{
    permute_rows(w, i, 16);
}

static void move_relative(gcn_wave *w, const gcn_insn *i, uint32_t to, uint32_t from)
{
    gcn_check_register(w, to);
    gcn_check_register(w, from);
    uint32_t *d = gcn_lanes_of(w, to);
    const uint32_t *a = gcn_lanes_of(w, from);
    for (uint32_t l = 0; l < w->lanes; l++)
        d[l] = w->on[l] ? a[l] : d[l];
    (void)i;
}

static void move_from(gcn_wave *w, const gcn_insn *i)
{
    move_relative(w, i, i->d[0].at, i->s[0].at + w->s[GCN_M0]);
}

static void move_to(gcn_wave *w, const gcn_insn *i)
{
    const uint32_t *a = gcn_read(w, i, 0, 0);
    uint32_t *d;
    gcn_check_register(w, i->d[0].at + w->s[GCN_M0]);
    d = gcn_lanes_of(w, i->d[0].at + w->s[GCN_M0]);
    for (uint32_t l = 0; l < w->lanes; l++)
        d[l] = w->on[l] ? a[l] : d[l];
}

/* gfx9: the numbers of some operands of the next instructions are changed by m0. */
static void index_on(gcn_wave *w, const gcn_insn *i)
{
    w->s[GCN_M0] = (uint32_t)gcn_scalar(w, &i->s[0]);
    w->index_mode = i->op_sel;
}

static void index_off(gcn_wave *w, const gcn_insn *i)
{
    (void)i;
    w->index_mode = 0;
}

/* ---- products of matrices ---------------------------------------------------------------------- */

enum { SIDE = 16, MOST_K = 32 };

/* Element j of a lane's registers. type: b signed bytes, u bytes, h halves, f bf16. */
static double element(const uint32_t *const words[8], int j, uint32_t lane, char type)
{
    if (type == 'b' || type == 'u') {
        const uint32_t byte = words[j / 4][lane] >> 8 * (j % 4) & 255;
        return type == 'b' ? (int8_t)byte : (int)byte;
    }
    const uint16_t bits = (uint16_t)(words[j / 2][lane] >> 16 * (j % 2));
    return type == 'h' ? gpu_half_of(bits) : (double)gpu_float_of((uint32_t)bits << 16);
}

static void read_words(gcn_wave *w, const gcn_insn *i, int k, const uint32_t *words[8])
{
    for (int n = 0; n < i->s[k].n && n < 8; n++)
        words[n] = gcn_lanes_of(w, i->s[k].at + (uint32_t)n);
}

static void all_lanes(gcn_wave *w)
{
    const uint64_t every = w->lanes == 64 ? ~(uint64_t)0 : 0xFFFFFFFF;
    if (w->exec != every)
        gpu_fault(&w->base, first_lane(w), "a product of matrices takes all lanes, and 0x%llx are here",
                  (unsigned long long)w->exec);
}

/* Adds a . b to the sums, the register and lane of each by `place`. Sums of floats are rounded after each
 * product. */
static void add_products(gcn_wave *w, const gcn_insn *i, const double a[SIDE][MOST_K],
                         const double b[SIDE][MOST_K], int n_k, int is_int,
                         void place(int row, int column, int *reg, int *lane))
{
    uint32_t out[8][GCN_LANES];
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            int reg, lane;
            place(row, column, &reg, &lane);
            uint32_t bits = i->s[2].kind == GCN_VECTOR ? gcn_lanes_of(w, i->s[2].at + (uint32_t)reg)[lane]
                                                       : (uint32_t)gcn_scalar(w, &i->s[2]);
            if (is_int) {
                for (int k = 0; k < n_k; k++)
                    bits += (uint32_t)((int32_t)a[row][k] * (int32_t)b[column][k]);
            } else {
                float sum = gpu_float_of(bits);
                for (int k = 0; k < n_k; k++)
                    sum += (float)a[row][k] * (float)b[column][k];
                bits = gpu_float_bits(sum);
            }
            out[reg][lane] = bits;
        }
    for (int reg = 0; reg < i->d[0].n; reg++)
        memcpy(gcn_lanes_of(w, i->d[0].at + (uint32_t)reg), out[reg], w->lanes * sizeof **out);
}

/* CDNA2 ISA, 7.1: lane l has row (column) l % 16 of a (b), elements n (l / 16) .. of k; of the sums, rows 4
 * (l / 16) .. of column l % 16. */
static void mfma_place(int row, int column, int *reg, int *lane)
{
    *reg = row % 4;
    *lane = row / 4 * 16 + column;
}

static void mfma(gcn_wave *w, const gcn_insn *i, int n_k, char type)
{
    double of[2][SIDE][MOST_K];
    all_lanes(w);
    for (int k = 0; k < 2; k++) {
        const uint32_t *words[8];
        read_words(w, i, k, words);
        for (uint32_t l = 0; l < 64; l++)
            for (int j = 0; j < n_k / 4; j++)
                of[k][l % 16][(int)(l / 16) * (n_k / 4) + j] = element(words, j, l, type);
    }
    add_products(w, i, of[0], of[1], n_k, type == 'b', mfma_place);
}

static void mfma_bytes_16(gcn_wave *w, const gcn_insn *i)
{
    mfma(w, i, 16, 'b');
}

static void mfma_bytes_32(gcn_wave *w, const gcn_insn *i)
{
    mfma(w, i, 32, 'b');
}

static void mfma_halves(gcn_wave *w, const gcn_insn *i)
{
    mfma(w, i, 16, 'h');
}

static void mfma_bf16(gcn_wave *w, const gcn_insn *i)
{
    mfma(w, i, 16, 'f');
}

/* RDNA3 ISA, 7.9: lanes l and l + 16 both have row (column) l of a (b), all of k; of the sums, row 2 r + l /
 * 16 of column l % 16 in register r. */
static void wmma_place(int row, int column, int *reg, int *lane)
{
    *reg = row / 2;
    *lane = row % 2 * 16 + column;
}

static void wmma(gcn_wave *w, const gcn_insn *i, char type_a, char type_b)
{
    double of[2][SIDE][MOST_K];
    all_lanes(w);
    for (int k = 0; k < 2; k++) {
        const uint32_t *words[8];
        read_words(w, i, k, words);
        for (int word = 0; word < i->s[k].n; word++)
            for (uint32_t l = 0; l < 16; l++)
                if (words[word][l] != words[word][l + 16])
                    gpu_fault(&w->base, l, "lanes %u and %u of operand %d have to be equal", l, l + 16, k);
        for (uint32_t l = 0; l < 16; l++)
            for (int j = 0; j < 16; j++)
                of[k][l][j] = element(words, j, l, k ? type_b : type_a);
    }
    add_products(w, i, of[0], of[1], 16, type_a == 'b' || type_a == 'u', wmma_place);
}

/* neg_lo says which of the two is signed. */
static void wmma_bytes(gcn_wave *w, const gcn_insn *i)
{
    wmma(w, i, i->neg_lo & 1 ? 'b' : 'u', i->neg_lo & 2 ? 'b' : 'u');
}

static void wmma_halves(gcn_wave *w, const gcn_insn *i)
{
    wmma(w, i, 'h', 'h');
}

static void wmma_bf16(gcn_wave *w, const gcn_insn *i)
{
    wmma(w, i, 'f', 'f');
}

const gcn_row gcn_together_rows[] = {{"v_readfirstlane_b32", "w:w", read_first_lane, GCN_PLAIN},
                                     {"v_readlane_b32", "w:ww", read_lane, GCN_PLAIN},
                                     {"v_writelane_b32", "w:ww", write_lane, GCN_PLAIN},
                                     {"ds_bpermute_b32", "w:ww", backward_permute, GCN_PLAIN},
                                     {"v_permlane16_b32", "w:www", permute_row, GCN_PLAIN},
                                     {"v_permlanex16_b32", "w:www", permute_other_row, GCN_PLAIN},
                                     {"v_movrels_b32", "w:w", move_from, GCN_PLAIN},
                                     {"v_movreld_b32", "w:w", move_to, GCN_PLAIN},
                                     {"s_set_gpr_idx_on", ":w", index_on, GCN_PLAIN},
                                     {"s_set_gpr_idx_off", ":", index_off, GCN_PLAIN},
                                     {"v_mfma_i32_16x16x16i8", "n:nnn", mfma_bytes_16, GCN_PLAIN},
                                     {"v_mfma_i32_16x16x32_i8", "n:nnn", mfma_bytes_32, GCN_PLAIN},
                                     {"v_mfma_f32_16x16x16f16", "n:nnn", mfma_halves, GCN_PLAIN},
                                     {"v_mfma_f32_16x16x16_f16", "n:nnn", mfma_halves, GCN_PLAIN},
                                     {"v_mfma_f32_16x16x16bf16_1k", "n:nnn", mfma_bf16, GCN_PLAIN},
                                     {"v_mfma_f32_16x16x16_bf16", "n:nnn", mfma_bf16, GCN_PLAIN},
                                     {"v_wmma_i32_16x16x16_iu8", "n:nnn", wmma_bytes, GCN_PLAIN},
                                     {"v_wmma_f32_16x16x16_f16", "n:nnn", wmma_halves, GCN_PLAIN},
                                     {"v_wmma_f32_16x16x16_bf16", "n:nnn", wmma_bf16, GCN_PLAIN},
                                     {0}};
