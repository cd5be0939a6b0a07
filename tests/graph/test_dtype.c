/* Half floats and block formats: every half, rounding, and blocks worked out by hand; ggml's own blocks where
 * they are at hand. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/graph.h"
#include "graph/hash.h"
#include "tests/skip.h"

static float decode_16(clef_dtype dtype, uint16_t h)
{
    float x;
    clef_dtype_decode(dtype, &h, 1, &x);
    return x;
}

static uint16_t encode_16(clef_dtype dtype, float x)
{
    uint16_t h;
    clef_dtype_encode(dtype, &x, 1, &h);
    return h;
}

TEST(every_half_comes_back)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float a = decode_16(CLEF_F16, (uint16_t)h), b = decode_16(CLEF_BF16, (uint16_t)h);
        assert_true(isnan(a) ? isnan(decode_16(CLEF_F16, encode_16(CLEF_F16, a)))
                             : encode_16(CLEF_F16, a) == h);
        assert_true(isnan(b) ? isnan(decode_16(CLEF_BF16, encode_16(CLEF_BF16, b)))
                             : encode_16(CLEF_BF16, b) == h);
    }
}

TEST(halves_are_ieee)
{
    assert_true(decode_16(CLEF_F16, 0x3c00) == 1 && decode_16(CLEF_F16, 0xc000) == -2 &&
                decode_16(CLEF_F16, 0x7bff) == 65504);
    assert_true(decode_16(CLEF_F16, 1) == 0x1p-24f && decode_16(CLEF_F16, 0x8400) == -0x1p-14f);
    assert_true(decode_16(CLEF_F16, 0x7c00) == INFINITY && isnan(decode_16(CLEF_F16, 0x7c01)));
    assert_true(decode_16(CLEF_BF16, 0x3f80) == 1 && decode_16(CLEF_BF16, 0xff80) == -INFINITY);
}

TEST(halves_round_to_even)
{
    static const struct {
        float x;
        uint16_t f16;
    } cases[] = {{1 + 0x1p-11f, 0x3c00}, {1 + 0x3p-11f, 0x3c02}, {1 + 0x1.01p-11f, 0x3c01},
                 {65519.0f, 0x7bff},     {65520.0f, 0x7c00},     {-1e30f, 0xfc00},
                 {0x1p-25f, 0},          {0x1.8p-25f, 1},        {0x3p-25f, 2},
                 {-0.0f, 0x8000},        {0x1.ffbp-15f, 0x3ff},  {0x1.ffcp-15f, 0x400}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(encode_16(CLEF_F16, cases[i].x), cases[i].f16);
    assert_int_equal(encode_16(CLEF_BF16, 1 + 0x1p-8f), 0x3f80);
    assert_int_equal(encode_16(CLEF_BF16, 1 + 0x3p-8f), 0x3f82);
    assert_int_equal(encode_16(CLEF_BF16, 0x1.ffffp127f), 0x7f80);
}

/* d = 127 / 127 = 1: the numbers are their own codes, halves away from 0. */
TEST(q8_0_by_hand)
{
    float x[32] = {127, -127, 0.5f, -0.5f, 1.49f, 0}, back[32];
    uint8_t block[34];
    clef_dtype_encode(CLEF_Q8_0, x, 32, block);
    const uint8_t wanted[8] = {0x00, 0x3c, 127, 0x81, 1, 0xff, 1, 0};
    assert_memory_equal(block, wanted, sizeof wanted);
    clef_dtype_decode(CLEF_Q8_0, block, 32, back);
    assert_true(back[0] == 127 && back[3] == -1 && back[31] == 0);
}

/* The largest, -8, is code 0: d = 1; low nibbles first. */
TEST(q4_0_by_hand)
{
    float x[32] = {-8, 7, 0, 1.4f}, back[32];
    x[16] = 3;
    x[17] = 8; /* beyond 7 d: cut */
    uint8_t block[18];
    clef_dtype_encode(CLEF_Q4_0, x, 32, block);
    const uint8_t wanted[6] = {0x00, 0x3c, 0xb0, 0xff, 0x88, 0x89};
    assert_memory_equal(block, wanted, sizeof wanted);
    clef_dtype_decode(CLEF_Q4_0, block, 32, back);
    assert_true(back[0] == -8 && back[1] == 7 && back[16] == 3 && back[17] == 7 && back[31] == 0);
}

TEST(odd_numbers_do_no_harm)
{
    static const float odd[] = {0, INFINITY, NAN, 3e38f, 1e-45f};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        float x[256] = {odd[i], -odd[i]}, back[256];
        uint8_t block[34 * 8];
        for (clef_dtype t = CLEF_Q8_0; t < CLEF_N_DTYPES; t++) {
            if (!clef_dtype_encodes(t))
                continue;
            clef_dtype_encode(t, x, 256, block);
            clef_dtype_decode(t, block, 256, back);
            assert_true(odd[i] != 0 || (back[0] == 0 && back[255] == 0));
        }
    }
    const float large[] = {3e9f, -3e9f, 1000, -1000, NAN};
    int32_t words[5];
    int8_t bytes[5];
    clef_dtype_encode(CLEF_I32, large, 5, words);
    clef_dtype_encode(CLEF_I8, large, 5, bytes);
    assert_true(words[0] == INT32_MAX && words[1] == INT32_MIN && words[2] == 1000 && words[4] == 0);
    assert_true(bytes[2] == 127 && bytes[3] == -128 && bytes[4] == 0);
}

static size_t read_file(const char *folder, const char *name, void *data, size_t capacity)
{
    char path[512];
    snprintf(path, sizeof path, "%s/data/ggml-quants/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        return 0;
    const size_t n = fread(data, 1, capacity, f);
    fclose(f);
    return n;
}

/* $CLEF_SHARED: blocks that ggml made of the same numbers. */
TEST(blocks_are_ggmls)
{
    static const struct {
        clef_dtype dtype;
        const char *input, *expected;
    } files[] = {{CLEF_Q8_0, "q8_0_64_noim_input.bin", "q8_0_64_noim_expected.bin"},
                 {CLEF_Q4_0, "q4_0_64_noim_input.bin", "q4_0_64_noim_expected.bin"},
                 {CLEF_Q4_1, "q4_1_64_noim_input.bin", "q4_1_64_noim_expected.bin"},
                 {CLEF_Q5_0, "q5_0_64_noim_input.bin", "q5_0_64_noim_expected.bin"},
                 {CLEF_Q5_1, "q5_1_64_noim_input.bin", "q5_1_64_noim_expected.bin"}};
    const char *folder = getenv("CLEF_SHARED");
    int n_seen = 0;
    for (size_t i = 0; folder && i < sizeof files / sizeof *files; i++) {
        float x[256];
        uint8_t wanted[1024], blocks[1024];
        const size_t n = read_file(folder, files[i].input, x, sizeof x) / sizeof *x;
        const size_t n_bytes = read_file(folder, files[i].expected, wanted, sizeof wanted);
        if (!n)
            continue;
        n_seen++;
        assert_int_equal(n_bytes, n / 32 * (size_t)clef_dtype_block_bytes(files[i].dtype));
        clef_dtype_encode(files[i].dtype, x, n, blocks);
        assert_memory_equal(blocks, wanted, n_bytes);
    }
    if (n_seen == 0)
        skip_without("blocks of ggml");
}

static uint64_t random_state;

static uint32_t random_byte(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 56);
}

/* tests/fixtures/blocks.txt says how each format decodes random blocks (blocks.py made it). */
TEST(blocks_decode_as_gguf_says)
{
    enum { N_BLOCKS = 64 };
    static uint8_t blocks[N_BLOCKS * 210];
    static float x[N_BLOCKS * 256];
    char name[16];
    uint32_t first[4];
    uint64_t wanted;
    int n_formats = 0;
    FILE *f = fopen(CLEF_SOURCE_DIR "/tests/fixtures/blocks.txt", "r");
    assert_non_null(f);
    while (fscanf(f, "%15s %" SCNx32 " %" SCNx32 " %" SCNx32 " %" SCNx32 " %" SCNx64, name, &first[0],
                  &first[1], &first[2], &first[3], &wanted) == 6) {
        clef_dtype t = CLEF_Q8_0;
        while (t < CLEF_N_DTYPES && strcmp(clef_dtype_name(t), name) != 0)
            t++;
        assert_true(t < CLEF_N_DTYPES);
        random_state = 1;
        for (size_t i = 0; i < (size_t)(N_BLOCKS * clef_dtype_block_bytes(t)); i++)
            blocks[i] = (uint8_t)random_byte();
        const size_t n = (size_t)(N_BLOCKS * clef_dtype_block_elems(t));
        clef_dtype_decode(t, blocks, n, x);
        uint64_t hash = CLEF__HASH_START;
        for (size_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, &x[i], sizeof bits);
            bits = isnan(x[i]) ? 0x7fc00000u : bits;
            if (i < 4 && bits != first[i])
                fail_msg("%s: element %zu is %08" PRIx32 ", expected %08" PRIx32, name, i, bits, first[i]);
            hash = clef__hash(hash, &bits, sizeof bits); /* little-endian, as clef's hosts are */
        }
        if (hash != wanted)
            fail_msg("%s: the elements' hash is %016" PRIx64 ", expected %016" PRIx64, name, hash, wanted);
        n_formats++;
    }
    fclose(f);
    assert_int_equal(n_formats, CLEF_N_DTYPES - CLEF_Q8_0);
}

/* The root of the mean squared error on a bell curve of width 1. */
TEST(encoding_is_close)
{
    static const struct {
        clef_dtype dtype;
        float most;
    } formats[] = {{CLEF_Q8_0, 0.006f},   {CLEF_Q4_0, 0.09f},   {CLEF_Q4_1, 0.083f}, {CLEF_Q5_0, 0.045f},
                   {CLEF_Q5_1, 0.04f},    {CLEF_Q4_K, 0.074f},  {CLEF_Q5_K, 0.037f}, {CLEF_Q6_K, 0.018f},
                   {CLEF_IQ4_NL, 0.079f}, {CLEF_MXFP4, 0.117f}, {CLEF_NVFP4, 0.1f},  {CLEF_Q1_0, 0.61f},
                   {CLEF_Q2_0, 0.9f},     {CLEF_Q2_K, 0.275f},  {CLEF_Q3_K, 0.152f}, {CLEF_IQ4_XS, 0.079f},
                   {CLEF_IQ3_S, 0.139f}};
    enum { N = 256 * 64 };
    static float x[N], back[N];
    static uint8_t blocks[N * 2];
    random_state = 7;
    for (size_t i = 0; i < N; i++) {
        x[i] = 0;
        for (int k = 0; k < 12; k++)
            x[i] += (float)random_byte() / 256;
        x[i] -= 6;
    }
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (float scale = 1e-2f; scale < 1e2f; scale *= 10) {
            double error = 0;
            for (size_t i = 0; i < N; i++)
                x[i] *= scale;
            clef_dtype_encode(formats[f].dtype, x, N, blocks);
            clef_dtype_decode(formats[f].dtype, blocks, N, back);
            for (size_t i = 0; i < N; i++) {
                error += ((double)x[i] - (double)back[i]) * ((double)x[i] - (double)back[i]);
                x[i] /= scale;
            }
            error = sqrt(error / (double)N) / (double)scale;
            if (error > (double)formats[f].most)
                fail_msg("%s at %g: an error of %g, expected at most %g", clef_dtype_name(formats[f].dtype),
                         (double)scale, error, (double)formats[f].most);
        }
}

TEST(names_and_sizes)
{
    assert_string_equal(clef_dtype_name(CLEF_Q4_0), "q4_0");
    assert_string_equal(clef_dtype_name(CLEF_N_DTYPES), "?");
    assert_int_equal(clef_dtype_block_elems(CLEF_Q8_0), 32);
    assert_int_equal(clef_dtype_block_bytes(CLEF_Q8_0), 34);
    assert_int_equal(clef_dtype_block_bytes(CLEF_BF16), 2);
}

TESTS(NULL, NULL)
