/* Loads and stores: of scalars, of global memory, of local memory (ds), of private memory (scratch and
 * buffer: kernels of OpenCL use buffers for nothing else). */
#include <stdlib.h>
#include <string.h>

#include "lab/gpu/gcn/gcn.h"

/* ---- names ----------------------------------------------------------------------------------- */

/* What is behind "global_load_" and the like: of gfx9 and gfx10, then of gfx11. */
static const struct {
    const char *name;
    uint8_t bytes, words, is_signed, high,
        keeps; /* high: the upper half of a register; keeps: its other half */
} widths[] = {
    {"dword", 4, 1, 0, 0, 0},        {"dwordx2", 4, 2, 0, 0, 0},      {"dwordx3", 4, 3, 0, 0, 0},
    {"dwordx4", 4, 4, 0, 0, 0},      {"ubyte", 1, 1, 0, 0, 0},        {"sbyte", 1, 1, 1, 0, 0},
    {"byte", 1, 1, 0, 0, 0},         {"ushort", 2, 1, 0, 0, 0},       {"sshort", 2, 1, 1, 0, 0},
    {"short", 2, 1, 0, 0, 0},        {"short_d16", 2, 1, 0, 0, 1},    {"short_d16_hi", 2, 1, 0, 1, 1},
    {"ubyte_d16", 1, 1, 0, 0, 1},    {"ubyte_d16_hi", 1, 1, 0, 1, 1}, {"sbyte_d16", 1, 1, 1, 0, 1},
    {"sbyte_d16_hi", 1, 1, 1, 1, 1}, {"byte_d16_hi", 1, 1, 0, 1, 1},  {"b32", 4, 1, 0, 0, 0},
    {"b64", 4, 2, 0, 0, 0},          {"b96", 4, 3, 0, 0, 0},          {"b128", 4, 4, 0, 0, 0},
    {"u8", 1, 1, 0, 0, 0},           {"i8", 1, 1, 1, 0, 0},           {"b8", 1, 1, 0, 0, 0},
    {"u16", 2, 1, 0, 0, 0},          {"i16", 2, 1, 1, 0, 0},          {"b16", 2, 1, 0, 0, 0},
    {"d16_b16", 2, 1, 0, 0, 1},      {"d16_hi_b16", 2, 1, 0, 1, 1},   {"d16_u8", 1, 1, 0, 0, 1},
    {"d16_hi_u8", 1, 1, 0, 1, 1},    {"d16_i8", 1, 1, 1, 0, 1},       {"d16_hi_i8", 1, 1, 1, 1, 1},
    {"d16_hi_b8", 1, 1, 0, 1, 1},    {"u16_d16", 2, 1, 0, 0, 1},      {"u16_d16_hi", 2, 1, 0, 1, 1},
    {"u8_d16", 1, 1, 0, 0, 1},       {"u8_d16_hi", 1, 1, 0, 1, 1},    {"i8_d16", 1, 1, 1, 0, 1},
    {"i8_d16_hi", 1, 1, 1, 1, 1},    {"b16_d16_hi", 2, 1, 0, 1, 1},   {"b8_d16_hi", 1, 1, 0, 1, 1},
    {"u16_d16", 2, 1, 0, 0, 1}};

static int starts(const char **at, const char *with)
{
    const size_t n = strlen(with);
    if (strncmp(*at, with, n) != 0)
        return 0;
    *at += n;
    return 1;
}

static int set_width(gcn_insn *i, const char *name)
{
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
        if (strcmp(widths[k].name, name) == 0) {
            i->bytes = widths[k].bytes;
            i->words = widths[k].words;
            i->is_signed = widths[k].is_signed;
            i->high = widths[k].high;
            i->keeps_rest = widths[k].keeps;
            return 1;
        }
    return 0;
}

/* ds_read2st64_b32 and ds_load_2addr_stride64_b32 are one instruction. */
static int local_access(gcn_insn *i, const char *at, const char **operands)
{
    const int is_load = starts(&at, "read") || starts(&at, "load"),
              is_store = !is_load && (starts(&at, "write") || starts(&at, "store"));
    if (!is_load && !is_store)
        return 0;
    i->space = GCN_LOCAL;
    i->two = (uint8_t)(starts(&at, "2") || starts(&at, "_2addr"));
    i->stride = (uint8_t)(i->two && (starts(&at, "st64") || starts(&at, "_stride64")) ? 64 : 1);
    i->act = is_load ? gcn_load : gcn_store;
    *operands = is_load ? "n:w" : i->two ? ":wnn" : ":wn";
    return starts(&at, "_") && set_width(i, at);
}

int gcn_decode_access(gcn_insn *i, const char *name, const char **operands)
{
    const char *at = name;
    if (starts(&at, "s_load_")) {
        i->act = gcn_scalar_load;
        i->bytes = 4;
        *operands = "n:qw";
        return at[0] == 'b' || at[0] == 'd';
    }
    if (starts(&at, "ds_"))
        return local_access(i, at, operands);
    const int is_flat = starts(&at, "flat_"); /* no kernel makes a flat address of local or private memory */
    i->space = is_flat || starts(&at, "global_") ? GCN_GLOBAL : GCN_PRIVATE;
    const int is_buffer = i->space == GCN_PRIVATE && starts(&at, "buffer_");
    if (i->space == GCN_PRIVATE && !is_buffer && !starts(&at, "scratch_"))
        return 0;
    if (i->space == GCN_GLOBAL && (strcmp(at, "atomic_swap") == 0 || strcmp(at, "atomic_swap_b32") == 0)) {
        i->act = gcn_swap;
        i->bytes = 4;
        i->words = 1;
        *operands = "w:nwn"; /* without the first where nothing comes back */
        return 1;
    }
    const int is_load = starts(&at, "load_");
    if (!is_load && !starts(&at, "store_"))
        return 0;
    i->act = is_load ? gcn_load : gcn_store;
    /* the address, and a scalar one; of buffers the descriptor and a scalar offset */
    *operands = is_buffer ? (is_load ? "n:wnw" : ":nwnw")
                : is_flat ? (is_load ? "n:q" : ":qn")
                : is_load ? "n:nn"
                          : ":nnn";
    i->two = (uint8_t)(is_buffer ? 2 : 0);
    return set_width(i, at);
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* Any address will do: drivers for OpenCL set the mode of unaligned access. */
static unsigned char *place(gcn_wave *w, const gcn_insn *i, uint32_t lane, uint64_t address, unsigned n,
                            int how)
{
    switch (i->space) {
    case GCN_GLOBAL:
        return gpu_global_place(&w->base, lane, address, n, 1, how);
    case GCN_LOCAL:
        return gpu_local_place(&w->base, lane, address & 0xFFFFFFFF, n, 1, how);
    default:
        return gpu_private_place(&w->base, lane, address & 0xFFFFFFFF, n, 1, how);
    }
}

/* The address in each lane, without the instruction's offset: source k is a vector address, and behind it may
 * stand a scalar one. */
static void addresses(gcn_wave *w, const gcn_insn *i, int k, int scalar_at, uint64_t out[GCN_LANES])
{
    const gcn_operand *vector = &i->s[k], *scalar = scalar_at < 0 ? NULL : &i->s[scalar_at];
    const uint64_t base = scalar && scalar->kind != GCN_ABSENT ? gcn_scalar(w, scalar) : 0;
    const uint32_t *low = vector->kind != GCN_ABSENT ? gcn_read(w, i, k, 0) : NULL,
                   *high = vector->n > 1 ? gcn_read(w, i, k, 1) : NULL;
    for (uint32_t l = 0; l < w->lanes; l++)
        out[l] = base + (low ? low[l] : 0) + (high ? (uint64_t)high[l] << 32 : 0);
}

/* ---- loads ----------------------------------------------------------------------------------- */

static uint32_t taken(const gcn_insn *i, const unsigned char *from, uint32_t old)
{
    uint32_t x = 0;
    memcpy(&x, from, i->bytes);
    if (i->is_signed)
        x = i->bytes == 1 ? (uint32_t)(int8_t)x : (uint32_t)(int16_t)x;
    if (!i->keeps_rest)
        return x;
    return i->high ? (old & 0xFFFF) | x << 16 : (old & 0xFFFF0000) | (x & 0xFFFF);
}

static int scalar_of(const gcn_insn *i)
{
    return i->two == 2 ? 2 : i->space == GCN_GLOBAL || i->space == GCN_PRIVATE ? 1 : -1;
}

static int32_t second_offset(const gcn_insn *i)
{
    return i->offset1 * i->bytes * i->words * i->stride;
}

static int32_t first_offset(const gcn_insn *i)
{
    return i->two == 1 ? i->offset * i->bytes * i->words * i->stride : i->offset;
}

void gcn_load(gcn_wave *w, const gcn_insn *i)
{
    uint64_t at[GCN_LANES];
    const unsigned n = (unsigned)i->bytes * i->words;
    addresses(w, i, 0, scalar_of(i), at);
    for (int part = 0; part < (i->two == 1 ? 2 : 1); part++) {
        const uint64_t offset = (uint64_t)(int64_t)(part ? second_offset(i) : first_offset(i));
        uint32_t *to = gcn_lanes_of(w, i->d[0].at + (uint32_t)(part * i->words));
        for (uint32_t l = 0; l < w->lanes; l++) {
            if (!(w->exec >> l & 1))
                continue;
            const unsigned char *from = place(w, i, l, at[l] + offset, n, GPU_READ);
            for (uint32_t word = 0; word < i->words; word++)
                to[word * w->lanes + l] = taken(i, from + word * i->bytes, to[word * w->lanes + l]);
        }
    }
}

/* ---- stores ---------------------------------------------------------------------------------- */

static void store_part(gcn_wave *w, const gcn_insn *i, const uint64_t at[GCN_LANES], int source,
                       uint64_t offset)
{
    const unsigned n = (unsigned)i->bytes * i->words;
    const uint32_t *from[4];
    for (int word = 0; word < i->words; word++) /* a value has no modifiers, and four words */
        from[word] = i->s[source].kind == GCN_VECTOR ? gcn_lanes_of(w, i->s[source].at + (uint32_t)word)
                                                     : gcn_read(w, i, source, word);
    for (uint32_t l = 0; l < w->lanes; l++) {
        if (!(w->exec >> l & 1))
            continue;
        unsigned char *to = place(w, i, l, at[l] + offset, n, GPU_WRITE);
        for (int word = 0; word < i->words; word++) {
            const uint32_t x = i->high ? from[word][l] >> 16 : from[word][l];
            memcpy(to + word * i->bytes, &x, i->bytes);
        }
    }
}

/* Of ds: address, value, second value; of global memory: address, value, scalar address; of scratch the same.
 */
void gcn_store(gcn_wave *w, const gcn_insn *i)
{
    uint64_t at[GCN_LANES];
    addresses(w, i, 0, i->space == GCN_GLOBAL || i->space == GCN_PRIVATE ? 2 : -1, at);
    store_part(w, i, at, 1, (uint64_t)(int64_t)first_offset(i));
    if (i->two == 1)
        store_part(w, i, at, 2, (uint64_t)(int64_t)second_offset(i));
}

void gcn_swap(gcn_wave *w, const gcn_insn *i)
{
    uint64_t at[GCN_LANES];
    addresses(w, i, 0, 2, at);
    const uint32_t *from = gcn_read(w, i, 1, 0);
    uint32_t *to = i->d[0].kind == GCN_VECTOR ? gcn_lanes_of(w, i->d[0].at) : NULL;
    for (uint32_t l = 0; l < w->lanes; l++) {
        if (!(w->exec >> l & 1))
            continue;
        unsigned char *place =
            gpu_global_place(&w->base, l, at[l] + (uint64_t)(int64_t)i->offset, 4, 4, GPU_ATOMIC);
        const uint32_t old = __atomic_exchange_n((uint32_t *)(void *)place, from[l], __ATOMIC_SEQ_CST);
        if (to)
            to[l] = old;
    }
}

/* ---- scalars --------------------------------------------------------------------------------- */

void gcn_scalar_load(gcn_wave *w, const gcn_insn *i)
{
    const uint64_t at =
        gcn_scalar(w, &i->s[0]) + (uint32_t)gcn_scalar(w, &i->s[1]) + (uint64_t)(int64_t)i->offset;
    const unsigned n = 4u * i->d[0].n;
    const uint32_t lane = w->exec ? (uint32_t)__builtin_ctzll(w->exec) : 0;
    memcpy(&w->s[i->d[0].at], gpu_global_place(&w->base, lane, at, n, 4, GPU_READ), n);
}
