/* Lowering for devices that are not here: capabilities are plain data. */
#include <stdio.h>
#include <string.h>

#include "graph/lower/panel/panel.h"
#include "graph/lower/variant.h"
#include "graph/pass/pass.h"
#include "tests/check.h"

/* What lowering the graph's last node says on a device whose loops are short, or are not. */
static clef_status lower_last(const char *text, int32_t short_loops, clef_error *err)
{
    const clef_caps caps = {
        .short_loops = short_loops, .max_group = 256, .max_items = {256, 256, 256}, .n_units = 4};
    unsigned char args[8 * CLEF_MAX_ARGS_BYTES];
    clef_launch launches[8];
    int64_t symbols[CLEF_MAX_SYMBOLS] = {0};
    clef_graph *g = NULL;
    assert_int_equal(clef_graph_parse(text, strlen(text), "test", &g, err), CLEF_OK);
    const clef_value *n = g->outputs[0].value;
    for (int32_t i = 0; i < g->n_symbols; i++)
        symbols[i] = g->symbols[i].bound;
    clef_lowering lo = {.graph = g,
                        .caps = &caps,
                        .symbols = symbols,
                        .node = n,
                        .launches = launches,
                        .cap = 8,
                        .args = args};
    const clef_status s = clef__ops[n->op]->lower(&lo, n, err);
    clef_graph_destroy(g);
    return s;
}

#define ATTENTION(keys, options)                                                                             \
    "symbol S <= " keys                                                                                      \
    "\ninput q f32 [1, 1, 1, 64]\ninput k f16 [1, 1, S, 64]\ny = attention(q, k, k) " options "\noutput y\n"

/* A device that ends loops early is reported before it gives wrong numbers. */
TEST(short_loops)
{
    clef_error err = {0};
    assert_int_equal(lower_last(ATTENTION("40000", "scale=1"), 1, &err), CLEF_OK);
    assert_int_equal(lower_last(ATTENTION("70000", "scale=1"), 0, &err), CLEF_OK);
    assert_int_equal(lower_last(ATTENTION("70000", "scale=1 causal=1 window=4096"), 1, &err), CLEF_OK);
    assert_int_equal(lower_last(ATTENTION("70000", "scale=1"), 1, &err), CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "70000 keys"));
    assert_int_equal(lower_last("input x f32 [3, 1000000]\ny = softmax(x)\noutput y\n", 1, &err),
                     CLEF_OK); /* groups share the row */
}

/* The launches of a graph's output. */
enum { MOST_LAUNCHES = 8 };
typedef struct lowered {
    clef_launch launches[MOST_LAUNCHES];
    unsigned char args[MOST_LAUNCHES * CLEF_MAX_ARGS_BYTES];
    int32_t n;
} lowered;

/* At `rows` for its first symbol. */
static void lower_output(const clef_graph *g, const clef_caps *caps, int64_t rows, lowered *out)
{
    const int64_t symbols[CLEF_MAX_SYMBOLS] = {rows};
    const clef_value *n = g->outputs[0].value;
    clef_error err = {0};
    clef_lowering lo = {.graph = g,
                        .caps = caps,
                        .symbols = symbols,
                        .node = n,
                        .launches = out->launches,
                        .cap = MOST_LAUNCHES,
                        .args = out->args};
    assert_int_equal(clef__ops[n->op]->lower(&lo, n, &err), CLEF_OK);
    assert_true(lo.n > 0);
    out->n = lo.n;
}

static clef_graph *parse(const char *text)
{
    clef_graph *g = NULL;
    clef_error err = {0};
    assert_int_equal(clef_graph_parse(text, strlen(text), "test", &g, &err), CLEF_OK);
    return g;
}

/* The kernel that multiplies for the graph's output, at most `rows` rows of x. */
static const char *multiplies(const char *text, clef_caps caps, int64_t rows)
{
    static lowered l;
    clef_graph *g = parse(text);
    lower_output(g, &caps, rows, &l);
    clef_graph_destroy(g);
    assert_true(l.launches[l.n - 1].local[0] <= (uint32_t)caps.max_group);
    return l.launches[l.n - 1].kernel;
}

#define PRODUCT(dtype, options)                                                                              \
    "symbol T <= 512\ninput x f32 [T, 256]\nweight w " dtype                                                 \
    " [300, 256]\np = pack(w)\ny = panel_matmul(x, p) n=300 k=256 dtype=" dtype " " options "\noutput y\n"

/* Units for matrices take many rows of what they multiply, where a group and its memory suffice. */
TEST(matrix_units)
{
    for (int32_t unit = CLEF_MATRIX_MMA; unit < CLEF_N_MATRICES; unit++) {
        const clef_caps all = {.is_gpu = 1,
                               .max_group = 256,
                               .max_items = {256, 256, 256},
                               .n_units = 4,
                               .local_bytes = 48 << 10,
                               .matrix = (clef_matrix)unit,
                               .matrix_types = CLEF_MATRIX_BYTES | CLEF_MATRIX_HALVES | CLEF_MATRIX_BF16};
        clef_caps less = all;
        assert_string_equal(multiplies(PRODUCT("q4_k", "activations=int8"), all, 512), "panel_gpu_gemm_mma");
        const char *of_halves = unit == CLEF_MATRIX_DPAS ? "panel_gpu_gemm_mma_local" : "panel_gpu_gemm_mma";
        assert_string_equal(multiplies(PRODUCT("f16", "activations=half"), all, 5), "panel_gpu_few_mma");
        assert_string_equal(multiplies(PRODUCT("q4_k", "activations=int8"), all, 16), "panel_gpu_few_mma");
        assert_string_equal(multiplies(PRODUCT("q4_k", "activations=int8"), all, 17), "panel_gpu_gemm_mma");
        assert_string_equal(multiplies(PRODUCT("bf16", "activations=half"), all, 512), of_halves);
        assert_string_equal(multiplies(PRODUCT("q8_0", "activations=half"), all, 512), "panel_gpu_gemm_mma");
        assert_string_equal(multiplies(PRODUCT("f16", "activations=half"), all, 4), "panel_gpu_gemv");
        assert_string_equal(multiplies(PRODUCT("f16", "activations=half batch_invariant=1"), all, 1),
                            of_halves);
        assert_string_equal(multiplies(PRODUCT("f16", ""), all, 512), "panel_gpu_gemm");
        less.matrix_types = CLEF_MATRIX_BYTES;
        assert_string_equal(multiplies(PRODUCT("bf16", "activations=half"), less, 512), "panel_gpu_gemm");
        assert_string_equal(multiplies(PRODUCT("q4_k", "activations=int8"), less, 512), "panel_gpu_gemm_mma");
        less.max_group = 32;
        assert_string_equal(multiplies(PRODUCT("q4_k", "activations=int8"), less, 8), "panel_gpu_gemv");
        less.max_group = 256;
        less.local_bytes = 4096;
        assert_string_equal(multiplies(PRODUCT("q4_k", "activations=int8"), less, 8), "panel_gpu_gemv");
    }
}

/* A constant of the launch that multiplies for the graph's output, at most `rows` rows of x. */
static int32_t constant(const char *text, clef_caps caps, int64_t rows, const char *name)
{
    static lowered l;
    clef_graph *g = parse(text);
    lower_output(g, &caps, rows, &l);
    clef_graph_destroy(g);
    const clef_def *def = l.launches[l.n - 1].defs;
    while (def->name && strcmp(def->name, name) != 0)
        def++;
    assert_non_null(def->name);
    return def->value;
}

#define DECODED(dtype, n, k)                                                                                 \
    "symbol T <= 512\ninput x f32 [T, " #k "]\nweight w " dtype " [" #n ", " #k "]\np = pack(w)\n"           \
    "y = panel_matmul(x, p) n=" #n " k=" #k " dtype=" dtype " activations=by_device\noutput y\n"

/* How the product of blocks that may be rounded to bf16 takes its rows of x. */
static int32_t rounds(clef_caps caps, int64_t rows)
{
    return constant(DECODED("q4_k", 700, 256), caps, rows, "QUANTISE");
}

/* Units decode blocks to bf16 where that is as fast as bytes are, for more rows than a few. */
TEST(units_decode_blocks)
{
    enum { BYTES = 1, BF16 = 4 };
    clef_caps caps = {.is_gpu = 1,
                      .max_group = 1024,
                      .max_items = {1024, 1024, 64},
                      .n_units = 4,
                      .local_bytes = 48 << 10,
                      .nv_asm = 1,
                      .matrix = CLEF_MATRIX_MMA,
                      .matrix_types = CLEF_MATRIX_BYTES | CLEF_MATRIX_HALVES | CLEF_MATRIX_BF16};
    assert_int_equal(rounds(caps, 16), BYTES);
    assert_int_equal(rounds(caps, 17), BF16);
    assert_int_equal(rounds(caps, 512), BF16);
    assert_int_equal(rounds(caps, 40), BF16);
    caps.nv_bulk_copies = 1; /* where a group has many rows */
    assert_int_equal(rounds(caps, 512), BF16);
    assert_int_equal(rounds(caps, 40), BYTES);
    caps.nv_warps = 48; /* of cards that add in f32 at half the rate */
    assert_int_equal(rounds(caps, 512), BYTES);
    caps.nv_warps = 64;
    assert_int_equal(rounds(caps, 512), BF16);
    caps.nv_bulk_copies = 0;
    caps.matrix_types = CLEF_MATRIX_BYTES | CLEF_MATRIX_HALVES;
    assert_int_equal(rounds(caps, 512), BYTES);
    caps.matrix_types = CLEF_MATRIX_BYTES | CLEF_MATRIX_BF16;
    caps.nv_asm = 0;
    caps.matrix = CLEF_MATRIX_MFMA;
    assert_int_equal(rounds(caps, 512), BF16);
}

/* Units that decode blocks take two of them at a time, if they come in pairs. A group has 128 rows of the
 * weight, unless half as many keep more processors busy. */
TEST(units_decode_two_blocks)
{
    const clef_caps caps = {.is_gpu = 1,
                            .max_group = 1024,
                            .max_items = {1024, 1024, 64},
                            .n_units = 108,
                            .local_bytes = 48 << 10,
                            .nv_asm = 1,
                            .nv_warps = 64,
                            .matrix = CLEF_MATRIX_MMA,
                            .matrix_types = CLEF_MATRIX_BYTES | CLEF_MATRIX_HALVES | CLEF_MATRIX_BF16};
    clef_caps small = caps;
    assert_int_equal(constant(DECODED("q4_k", 4096, 4096), caps, 512, "TOKENS"), 4);
    assert_int_equal(constant(DECODED("q4_k", 4096, 4096), caps, 512, "STEP"), 2);
    assert_int_equal(constant(DECODED("q4_k", 4096, 4096), caps, 512, "TILES"), 8);
    assert_int_equal(constant(DECODED("q4_0", 4096, 4064), caps, 512, "STEP"), 1);
    assert_int_equal(constant(DECODED("q4_k", 14336, 4096), caps, 512, "TOKENS"), 8);
    assert_int_equal(constant(DECODED("q4_k", 14336, 4096), caps, 512, "STEP"), 1);
    assert_int_equal(constant(DECODED("q4_k", 2048, 4096), caps, 512, "PARTS"), 2);
    assert_int_equal(constant(DECODED("q4_k", 2048, 4096), caps, 512, "STEP"), 2);
    small.local_bytes = 32 << 10;
    assert_int_equal(constant(DECODED("q4_k", 2048, 4096), small, 512, "PARTS"), 2);
    small.local_bytes = 12 << 10;
    assert_int_equal(constant(DECODED("q4_k", 4096, 4096), small, 512, "STEP"), 1);
}

/* Checks the launches of an attention at T positions and S keys: parts cover the keys, none has more than a
 * device with short loops takes, and their records fit the scratch that is stated, which is the same for all
 * lengths. */
static void check_flash(const clef_graph *g, const clef_caps *caps, int64_t T, int64_t S, uint64_t *scratch)
{
    unsigned char args[8 * CLEF_MAX_ARGS_BYTES];
    clef_launch launches[8];
    clef_error err = {0};
    const int64_t symbols[CLEF_MAX_SYMBOLS] = {T, S};
    const clef_value *n = g->outputs[0].value;
    clef_lowering lo = {.graph = g,
                        .caps = caps,
                        .symbols = symbols,
                        .node = n,
                        .launches = launches,
                        .cap = 8,
                        .args = args};
    assert_int_equal(clef__ops[n->op]->lower(&lo, n, &err), CLEF_OK);
    const attention_flash_args *f = (const void *)launches[0].args;
    const int is_wide = caps->short_loops && n->shape.dim[3].n > 256;
    assert_string_equal(launches[0].kernel,
                        f->a.group * T <= 16 && !is_wide ? "attention_gpu_decode" : "attention_gpu_flash");
    const uint64_t E = (uint64_t)n->shape.dim[3].n, queries = (uint64_t)f->a.n[0] * f->a.n[1] * f->a.n[2],
                   record = 4 + E;
    assert_int_equal(lo.n, f->a.splits > 1 ? 2 : 1);
    if (f->a.splits > 1)
        assert_true(4 * (f->parts + queries * f->a.splits * record) <= launches[0].scratch_bytes);
    assert_true(!*scratch || *scratch == launches[0].scratch_bytes);
    *scratch = launches[0].scratch_bytes;
    const int64_t window = f->a.window, seen = window && window * (f->a.causal ? 1 : 2) + T < S
                                                   ? window * (f->a.causal ? 1 : 2) + T
                                                   : S;
    if (caps->short_loops)
        assert_true(seen <= 2048 * (int64_t)f->a.splits);
}

TEST(flash_records)
{
    static const char *const graphs[] = {
        "symbol T <= 512\nsymbol S <= 32768\ninput q f32 [1, 14, T, 64]\ninput k f16 [1, 2, S, 64]\ny = "
        "attention(q, k, k) causal=1\noutput y\n",
        "symbol T <= 512\nsymbol S <= 32768\ninput q f32 [3, 8, T, 128]\ninput k f16 [3, 8, S, 128]\ny = "
        "attention(q, k, k) causal=1 window=2047\n"
        "output y\n",
        "symbol T <= 512\nsymbol S <= 32768\ninput q f32 [1, 4, T, 512]\ninput k f16 [1, 1, S, 512]\ny = "
        "attention(q, k, k) window=2047\noutput y\n"};
    static const int32_t units[] = {1, 2, 16, 132};
    static const int64_t T[] = {1, 2, 5, 33, 512}, S[] = {1, 64, 127, 4096, 32768};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
        for (int32_t j = 0; j < 8; j++) {
            const clef_caps caps = {.is_gpu = 1,
                                    .short_loops = j / 4,
                                    .max_group = 256,
                                    .max_items = {256, 256, 256},
                                    .n_units = units[j % 4],
                                    .local_bytes = 64 << 10};
            clef_graph *g = NULL;
            clef_error err = {0};
            uint64_t scratch = 0;
            assert_int_equal(clef_graph_parse(graphs[i], strlen(graphs[i]), "test", &g, &err), CLEF_OK);
            for (size_t t = 0; t < sizeof T / sizeof *T; t++)
                for (size_t s = 0; s < sizeof S / sizeof *S; s++)
                    check_flash(g, &caps, T[t], S[s], &scratch);
            clef_graph_destroy(g);
        }
}

/* Checks the launches of cached_attention of `rows` rows with pages: the records of the parts fit the scratch
 * that is stated. Returns the parts. */
static uint32_t check_parts(const clef_graph *g, const clef_caps *caps, int64_t rows)
{
    unsigned char args[8 * CLEF_MAX_ARGS_BYTES];
    clef_launch launches[8];
    clef_error err = {0};
    const int64_t symbols[CLEF_MAX_SYMBOLS] = {rows};
    const clef_value *n = g->outputs[0].value;
    clef_lowering lo = {.graph = g,
                        .caps = caps,
                        .symbols = symbols,
                        .node = n,
                        .launches = launches,
                        .cap = 8,
                        .args = args};
    assert_int_equal(clef__ops[n->op]->lower(&lo, n, &err), CLEF_OK);
    int32_t at = 0;
    while (strcmp(launches[at].kernel, "attention_gpu_decode") != 0 &&
           strcmp(launches[at].kernel, "attention_gpu_flash") != 0)
        assert_true(++at < lo.n);
    const attention_flash_args *f = (const void *)launches[at].args;
    const uint64_t record = 4 + 64;
    if (f->a.splits > 1)
        assert_true(4 * (f->parts + (uint64_t)rows * f->a.n[1] * f->a.splits * record) <=
                    launches[at].scratch_bytes);
    return f->a.splits;
}

/* A mask may have more columns than the pages of a sequence have positions. */
TEST(masks_wider_than_pages)
{
    static const char text[] =
        "symbol B <= 33\nstate k f16 [60, 2, 64, 64]\nstate v f16 [60, 2, 64, 64]\n"
        "input x f32 [B, 1, 4, 64]\ninput y f32 [B, 1, 2, 64]\ninput p i32 [B]\n"
        "input r i32 [4, 3]\ninput g i32 [4, 4]\ninput s f32 [4, 1, 1152]\n"
        "o = cached_attention(x, y, y, k, v, p, _, s, _, _, r, g) causal=1\noutput o\n";
    clef_graph *g = NULL;
    clef_error err = {0};
    ok(clef_graph_parse(text, strlen(text), "test", &g, &err), &err);
    for (int32_t units = 4; units <= 256; units *= 2) {
        const clef_caps caps = {.is_gpu = 1,
                                .max_group = 1024,
                                .max_items = {1024, 1024, 1024},
                                .n_units = units,
                                .local_bytes = 48 << 10};
        for (int64_t rows = 1; rows <= 33; rows += 8)
            assert_in_range(check_parts(g, &caps, rows), 1, 2); /* of 128 keys */
    }
    clef_graph_destroy(g);
}

/* One launch makes the heads of a step and computes their attention where no group of it reads what another
 * one writes. Scratch memory is the same for all lengths that these kernels share. */
TEST(heads_of_step)
{
    static const char
        *const one = "symbol T <= 16\nstate k f16 [2, 1, 256, 64]\nstate v f16 [2, 1, 256, 64]\n"
                     "input q f32 [2, T, 4, 64]\ninput x f32 [2, T, 1, 64]\ninput p i32 [2]\n"
                     "weight f f32 [32]\no = cached_attention(q, x, x, k, v, p, f) causal=1\n"
                     "output o\n",
               *const paged = "symbol B <= 16\nstate k f16 [9, 1, 64, 64]\nstate v f16 [9, 1, 64, 64]\n"
                              "input q f32 [B, 1, 4, 64]\ninput x f32 [B, 1, 1, 64]\ninput p i32 [B]\n"
                              "weight f f32 [32]\ninput r i32 [2, 3]\ninput g i32 [2, 4]\n"
                              "o = cached_attention(q, x, x, k, v, p, f, _, _, _, r, g) causal=1\noutput o\n";
    static const struct {
        const char *graph;
        int64_t rows;
        int32_t joined;
    } cases[] = {{one, 1, 1}, {one, 2, 1}, {one, 3, 0}, {one, 16, 0}, {paged, 2, 1}, {paged, 3, 0}};
    const clef_caps gpu = {
        .is_gpu = 1, .max_group = 256, .max_items = {256, 256, 256}, .n_units = 4, .local_bytes = 64 << 10};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static lowered first, l;
        clef_graph *g = parse(cases[i].graph);
        lower_output(g, &gpu, 1, &first);
        lower_output(g, &gpu, cases[i].rows, &l);
        assert_string_equal(l.launches[0].kernel,
                            cases[i].joined ? "attention_gpu_decode" : "attention_heads");
        if (cases[i].graph == one)
            assert_true(l.launches[l.n - 1].scratch_bytes == first.launches[first.n - 1].scratch_bytes);
        clef_graph_destroy(g);
    }
}

#define HALVES(d, e, options)                                                                                \
    "symbol T <= 512\ninput q f32 [1, 4, T, " d "]\ninput k f16 [1, 2, 300, " d                              \
    "]\ninput v f16 [1, 2, 300, " e "]\ny = attention(q, k, v) " options "\noutput y\n"

/* Units multiply halves of attention for many queries, where they fit. */
TEST(attention_units)
{
    const clef_caps caps = {.is_gpu = 1,
                            .max_group = 256,
                            .max_items = {256, 256, 256},
                            .n_units = 1,
                            .local_bytes = 64 << 10,
                            .matrix = CLEF_MATRIX_MFMA,
                            .matrix_types = CLEF_MATRIX_BYTES | CLEF_MATRIX_HALVES | CLEF_MATRIX_BF16};
    clef_caps other = caps;
    assert_string_equal(multiplies(HALVES("128", "128", ""), caps, 512), "attention_gpu_flash_mma");
    assert_string_equal(multiplies(HALVES("64", "16", ""), caps, 9), "attention_gpu_flash_mma");
    assert_string_equal(multiplies(HALVES("64", "64", ""), caps, 8), "attention_gpu_decode");
    assert_string_equal(multiplies(HALVES("72", "64", ""), caps, 512), "attention_gpu_flash");
    assert_string_equal(multiplies(HALVES("64", "256", ""), caps, 512), "attention_gpu_flash");
    assert_string_equal(multiplies(HALVES("64", "64", "batch_invariant=1"), caps, 512),
                        "attention_gpu_flash");
    other.matrix = CLEF_MATRIX_WMMA;
    assert_string_equal(multiplies(HALVES("64", "64", ""), other, 512), "attention_gpu_flash_mma");
    other.matrix = CLEF_MATRIX_DPAS;
    assert_string_equal(multiplies(HALVES("64", "64", ""), other, 512), "attention_gpu_flash_dpas");
    assert_string_equal(multiplies(HALVES("128", "128", ""), other, 512), "attention_gpu_flash_dpas");
    assert_string_equal(multiplies(HALVES("96", "96", ""), other, 512), "attention_gpu_flash");
    assert_string_equal(multiplies(HALVES("128", "64", ""), other, 512), "attention_gpu_flash");
    other = caps;
    other.matrix_types = CLEF_MATRIX_BYTES;
    assert_string_equal(multiplies(HALVES("64", "64", ""), other, 512), "attention_gpu_flash");
    other = caps;
    other.local_bytes = 8 << 10;
    assert_string_not_equal(multiplies(HALVES("128", "128", ""), other, 512), "attention_gpu_flash_mma");
}

#define EXPERTS(options)                                                                                     \
    "symbol T <= 512\ninput x f32 [1, T, 256]\nweight w q4_k [16, 300, 256]\ninput i i32 [1, T, 4]\n"        \
    "y = expert_matmul(x, w, i) transpose_b=1 " options "\noutput y\n"

/* Experts share what is read of them where they have a few rows each, on GPUs with memory for it, and unless
 * results must not depend on other rows. */
TEST(expert_groups)
{
    const clef_caps gpu = {
        .is_gpu = 1, .max_group = 256, .max_items = {256, 256, 256}, .n_units = 4, .local_bytes = 32 << 10};
    clef_caps less = gpu;
    assert_string_equal(multiplies(EXPERTS(""), gpu, 16), "expert_tiles");
    assert_string_equal(multiplies(EXPERTS("int8=1"), gpu, 512), "expert_tiles");
    assert_string_equal(multiplies(EXPERTS("int8=1"), gpu, 15), "expert_few");
    assert_string_equal(multiplies(EXPERTS("int8=1 batch_invariant=1"), gpu, 512), "expert_few");
    less.matrix = CLEF_MATRIX_MMA;
    less.matrix_types = CLEF_MATRIX_BF16;
    assert_string_equal(multiplies(EXPERTS("int8=1"), less, 512), "expert_tiles_mma");
    assert_string_equal(multiplies(EXPERTS("int8=1"), less, 15), "expert_few");
    assert_string_equal(multiplies(EXPERTS("int8=1 batch_invariant=1"), less, 512), "expert_few");
    assert_string_equal(multiplies(EXPERTS(""), less, 512), "expert_tiles");
    less.matrix_types = CLEF_MATRIX_BYTES;
    assert_string_equal(multiplies(EXPERTS("int8=1"), less, 512), "expert_tiles");
    less = gpu;
    less.local_bytes = 16 << 10;
    assert_string_equal(multiplies(EXPERTS(""), less, 512), "expert_few");
    less = gpu;
    less.max_group = 128;
    assert_string_equal(multiplies(EXPERTS(""), less, 512), "expert_few");
    less.max_group = 64;
    assert_string_equal(multiplies(EXPERTS(""), less, 512), "expert_nk");
    less = gpu;
    less.is_cpu = 1;
    assert_string_equal(multiplies(EXPERTS(""), less, 512), "expert_nk");
}

/* On CPUs packed experts share what is read of them where there are as many pairs as experts, or where
 * results must not depend on other rows. */
TEST(expert_panels)
{
#define PANELS(options)                                                                                      \
    "symbol T <= 512\ninput x f32 [1, T, 256]\nweight w q4_k [16, 304, 256]\np = pack(w)\ninput i i32 [1, "  \
    "T, 4]\n"                                                                                                \
    "y = panel_experts(x, p, i) n=304 k=256 experts=16 dtype=q4_k " options "\noutput y\n"
    const clef_caps cpu = {
        .is_cpu = 1, .max_group = 1, .max_items = {1, 1, 1}, .n_units = 2, .local_bytes = 32 << 10};
    assert_string_equal(multiplies(PANELS(""), cpu, 3), "expert_panels_few");
    assert_string_equal(multiplies(PANELS(""), cpu, 4), "expert_panels");
    assert_string_equal(multiplies(PANELS("batch_invariant=1"), cpu, 3), "expert_panels");
}

/* 1 if a launch prepares the rows of x. */
static int prepares_x(const char *text, clef_caps caps)
{
    static lowered l;
    clef_graph *g = parse(text);
    int found = 0;
    lower_output(g, &caps, 512, &l);
    clef_graph_destroy(g);
    for (int32_t i = 0; i < l.n; i++)
        found |= strcmp(l.launches[i].kernel, "panel_gpu_activations") == 0;
    return found;
}

/* x is rounded to 8 bits only where there is an instruction for products of bytes: a matrix unit does not
 * count. */
TEST(expert_bytes)
{
    clef_caps gpu = {
        .is_gpu = 1, .max_group = 256, .max_items = {256, 256, 256}, .n_units = 4, .local_bytes = 32 << 10};
    assert_false(prepares_x(EXPERTS("int8=1"), gpu));
    gpu.matrix = CLEF_MATRIX_DPAS;
    gpu.matrix_types = CLEF_MATRIX_BYTES;
    assert_false(prepares_x(EXPERTS("int8=1"), gpu));
    gpu.int_dot = 1;
    assert_true(prepares_x(EXPERTS("int8=1"), gpu));
    assert_false(prepares_x(EXPERTS(""), gpu));
}

#define FUSED                                                                                                \
    "symbol T <= 512\ninput x f32 [1, T, 256]\ninput s f32 [1, T, 16]\nweight v q4_k [16, 512, 256]\n"       \
    "weight w q4_k [16, 512, 256]\nweight d q4_k [16, 256, 512]\ni = topk(s) k=4\n"                          \
    "g = expert_matmul(x, v, i) transpose_b=1\nu = expert_matmul(x, w, i) transpose_b=1\na = swiglu(g, u)\n" \
    "z = expert_matmul(a, d, i) transpose_b=1\np = softmax(s)\ne = gather_elements(p, i)\nt = reduce(e) "    \
    "kind=sum\nf = div(e, t)\nq = reshape(f) : f32 [1, T, 1, 4]\nb = matmul(q, z)\nc = reshape(b) : f32 "    \
    "[1, T, 256]\nr = add(x, c)\noutput r\n"

/* What surrounds products with experts becomes two ops on GPUs. With few pairs these compute the products,
 * which have no launch then. */
TEST(expert_fusion)
{
    static const struct {
        int is_cpu, fused;
        int64_t T;
        const char *kernels;
    } cases[] = {{0, 1, 1, " topk_rows expert_few expert_few_sum"},
                 {0, 1, 512,
                  " topk_rows expert_order expert_tiles expert_order expert_tiles elementwise expert_order "
                  "expert_tiles expert_sum"},
                 {1, 0, 1, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const clef_caps caps = {.is_gpu = !cases[i].is_cpu,
                                .is_cpu = cases[i].is_cpu,
                                .max_group = 256,
                                .max_items = {256, 256, 256},
                                .n_units = 4,
                                .local_bytes = 32 << 10,
                                .max_alloc_bytes = 1 << 30};
        static clef_launch launches[32];
        static unsigned char args[32 * CLEF_MAX_ARGS_BYTES];
        clef_graph *g = parse(FUSED);
        clef_error err = {0};
        char kernels[512] = "";
        clef_lowering lo = {
            .graph = g, .caps = &caps, .symbols = &cases[i].T, .launches = launches, .cap = 32, .args = args};
        int fused = 0;
        assert_int_equal(clef__pass_choose(g, &caps, CLEF_GEMM_OWN, 1, &err), CLEF_OK);
        for (int32_t k = 0; k < g->n_values; k++) {
            lo.node = g->values[k];
            fused += lo.node->op == CLEF_OP_expert_gated || lo.node->op == CLEF_OP_expert_sum;
            if (lo.node->op != CLEF_OP_NONE && clef__ops[lo.node->op]->lower)
                assert_int_equal(clef__ops[lo.node->op]->lower(&lo, lo.node, &err), CLEF_OK);
        }
        for (int32_t k = 0; k < lo.n; k++)
            strcat(strcat(kernels, " "), launches[k].kernel);
        assert_int_equal(fused, 2 * cases[i].fused);
        if (cases[i].kernels)
            assert_string_equal(kernels, cases[i].kernels);
        clef_graph_destroy(g);
    }
}

#define GATED(more)                                                                                          \
    "symbol T <= 512\ninput x f32 [1, T, 256]\ninput i i32 [1, T, 4]\nweight v q4_k [16, 512, 256]\n"        \
    "weight w q4_k [16, 512, 256]\ng = expert_matmul(x, v, i) transpose_b=1\nu = expert_matmul(x, w, i) "    \
    "transpose_b=1\ny = expert_gated(g, u, x, v, w, i)\n" more "output y\n"

/* A launch computes a product only for the one node that reads it. */
TEST(expert_readers)
{
    const clef_caps gpu = {
        .is_gpu = 1, .max_group = 256, .max_items = {256, 256, 256}, .n_units = 4, .local_bytes = 32 << 10};
    clef_graph *g = parse(GATED("z = silu(g)\n")), *copy;
    clef_error err = {0};
    static lowered l;
    lower_output(g, &gpu, 1, &l);
    assert_string_equal(l.launches[0].kernel, "elementwise");
    assert_int_equal(clef__pass_drop(g, &err), CLEF_OK); /* drops the silu */
    lower_output(g, &gpu, 1, &l);
    assert_string_equal(l.launches[0].kernel, "expert_few");
    copy = clef_graph_clone(g);
    assert_non_null(copy);
    lower_output(copy, &gpu, 1, &l);
    assert_string_equal(l.launches[0].kernel, "expert_few");
    clef_graph_destroy(copy);
    clef_graph_destroy(g);
}

/* Scratch memory is taken for the longest step, so that a shorter one, whose tiles have fewer rows, must not
 * need more; and it holds what the kernels write. */
TEST(expert_scratch)
{
    static const struct {
        const char *graph;
        clef_matrix unit;
        uint64_t x_words; /* of a row */
    } cases[] = {{EXPERTS(""), CLEF_MATRIX_NONE, 0},
                 {EXPERTS("int8=1"), CLEF_MATRIX_NONE, 256 / 32 * 11},
                 {EXPERTS("int8=1"), CLEF_MATRIX_MMA, 256 / 2 + 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const clef_caps gpu = {.is_gpu = 1,
                               .max_group = 256,
                               .max_items = {256, 256, 256},
                               .n_units = 4,
                               .local_bytes = 32 << 10,
                               .int_dot = 1,
                               .matrix = cases[i].unit,
                               .matrix_types = CLEF_MATRIX_BF16};
        clef_graph *g = parse(cases[i].graph);
        uint64_t before = 0;
        for (int64_t T = 16; T <= 512; T++) {
            lowered l;
            lower_output(g, &gpu, T, &l);
            assert_string_equal(l.launches[0].kernel, "expert_order");
            const expert_order_args *order = (const void *)l.launches[0].args;
            const uint64_t tiles = order->pairs / order->rows + order->experts + 1,
                           words = order->order + order->pairs + tiles * EXPERT_TILE_WORDS;
            assert_int_equal(order->order, (uint64_t)T * cases[i].x_words);
            assert_true(4 * words <= l.launches[0].scratch_bytes);
            assert_true(before <= l.launches[0].scratch_bytes);
            assert_int_equal(l.launches[l.n - 1].groups[1], tiles);
            before = l.launches[0].scratch_bytes;
        }
        clef_graph_destroy(g);
    }
}

/* The message lists all names that could have been meant. */
TEST(unknown_variants)
{
    const clef_variant *forced[CLEF_N_OPS];
    clef_error ops = {0};
    char text[100], word[100];
    assert_int_equal(clef__variants_force("nonsense=own", forced, &ops), CLEF_E_ARG);
#define VARIANT(op, name) {CLEF_OP_##op, #name},
    static const struct {
        clef_op op;
        const char *name;
    } all[] = {
#include "graph/lower/variants.def"
    };
#undef VARIANT
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *op = clef__ops[all[i].op]->name;
        clef_error names = {0};
        snprintf(text, sizeof text, "%s=nonsense", op);
        assert_int_equal(clef__variants_force(text, forced, &names), CLEF_E_ARG);
        snprintf(word, sizeof word, " %s", op);
        assert_non_null(strstr(ops.text, word));
        snprintf(word, sizeof word, " %s", all[i].name);
        if (!strstr(names.text, word))
            fail_msg("%s is missing in: %s", word, names.text);
    }
}

TESTS(NULL, NULL)
