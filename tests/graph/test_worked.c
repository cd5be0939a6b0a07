/* Attention worked by hand (tests/fixtures/worked_examples.json), stage by stage: each stage starts from the
 * printed table before it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "run_graph.h"
#include "tests/check.h"

#ifndef CLEF_SOURCE_DIR
#    define CLEF_SOURCE_DIR "."
#endif

enum { MAX = 16 };
static clef_device *dev;
static json_t *examples;

/* A table of numbers or of rows of numbers; "-inf" stands for minus infinity. Returns how many. */
static size_t table(const json_t *j, float out[MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(j); i++) {
        const json_t *x = json_array_get(j, i);
        if (json_is_array(x)) {
            n += table(x, out + n);
        } else {
            assert_true(n < MAX);
            out[n++] = json_is_string(x) ? -INFINITY : (float)json_number_value(x);
        }
    }
    return n;
}

static size_t field(const char *example, const char *name, float out[MAX])
{
    const json_t *j = json_object_get(json_object_get(examples, example), name);
    assert_non_null(j);
    return table(j, out);
}

static void near(const float *got, const float *want, size_t n, float tolerance, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= tolerance))
            fail_msg("%s[%zu]: %g, printed %g", what, i, (double)got[i], (double)want[i]);
}

TEST(projection)
{
    float x[MAX], w[MAX], q[MAX], got[MAX];
    field("self_attention_4x4", "X", x);
    field("self_attention_4x4", "Wq", w);
    field("self_attention_4x4", "Q", q);
#if defined(CLEF_HAVE_CLBLAST)
    const int n_gemms = 2;
#else
    const int n_gemms = 1;
#endif
    for (int clblast = 0; clblast < n_gemms; clblast++) {
        test_run(dev, "input x f32 [4, 4]\ninput w f32 [4, 2]\nq = matmul(x, w)\noutput q\n", 1,
                 clblast ? CLEF_GEMM_CLBLAST : CLEF_GEMM_OWN,
                 (test_tensor[]){{"x", x, 64}, {"w", w, 32}, {0}}, "q", got, 32);
        near(got, q, 8, 1e-6f, "Q");
    }
}

TEST(scores)
{
    float q[MAX], k[MAX], want[MAX], got[MAX];
    field("self_attention_4x4", "Q", q);
    field("self_attention_4x4", "K", k);
    field("self_attention_4x4", "scores_printed", want);
    test_run(dev, "input q f32 [4, 2]\ninput k f32 [4, 2]\ns = matmul(q, k) transpose_b=1\noutput s\n", 1,
             CLEF_GEMM_OWN, (test_tensor[]){{"q", q, 32}, {"k", k, 32}, {0}}, "s", got, 64);
    want[1 * 4 + 3] = got[1 * 4 + 3]; /* (love, phones) and (phones, phones) are misprinted in the source */
    want[3 * 4 + 3] = got[3 * 4 + 3];
    assert_true(fabsf(got[1 * 4 + 3] - (1.0f * 1.3f + 1.1f * 0.3f)) < 1e-5f); /* what they really are */
    assert_true(fabsf(got[3 * 4 + 3] - (0.4f * 1.3f + 1.3f * 0.3f)) < 1e-5f);
    near(got, want, 16, 0.0051f, "scores");
}

TEST(weights)
{
    float s[MAX], want[MAX], got[MAX];
    field("self_attention_4x4", "scores_printed", s);
    field("self_attention_4x4", "weights_printed", want);
    test_run(dev, "input s f32 [4, 4]\np = softmax(s) scale=0.707106769\noutput p\n", 1, CLEF_GEMM_OWN,
             (test_tensor[]){{"s", s, 64}, {0}}, "p", got, 64);
    near(got, want, 16, 0.0006f, "weights");
}

TEST(output_rows)
{
    float p[MAX], v[MAX], want[MAX], got[MAX];
    field("self_attention_4x4", "weights_printed", p);
    field("self_attention_4x4", "V", v);
    field("self_attention_4x4", "output_printed", want);
    test_run(dev, "input p f32 [4, 4]\ninput v f32 [4, 2]\no = matmul(p, v)\noutput o\n", 1, CLEF_GEMM_OWN,
             (test_tensor[]){{"p", p, 64}, {"v", v, 32}, {0}}, "o", got, 32);
    near(got, want, 8, 0.0015f, "output");
}

/* The stages as one graph, unfused and fused into attention: the same numbers. */
TEST(whole_attention)
{
    static const char text[] =
        "input q f32 [1, 1, 4, 2]\ninput k f32 [1, 1, 4, 2]\ninput v f32 [1, 1, 4, 2]\n"
        "s = matmul(q, k) transpose_b=1 alpha=0.707106769\np = softmax(s) causal=1\no = matmul(p, v)\noutput "
        "o\n";
    float q[MAX], k[MAX], v[MAX], plain[MAX], fused[MAX];
    field("self_attention_4x4", "Q", q);
    field("self_attention_4x4", "K", k);
    field("self_attention_4x4", "V", v);
    const test_tensor in[] = {{"q", q, 32}, {"k", k, 32}, {"v", v, 32}, {0}};
    test_run(dev, text, 0, CLEF_GEMM_OWN, in, "o", plain, 32);
    test_run(dev, text, 1, CLEF_GEMM_OWN, in, "o", fused, 32);
    near(fused, plain, 8, 1e-6f, "fused");
    near(fused, v, 2, 1e-6f, "the first row sees only itself");
}

TEST(one_row)
{
    float s[MAX], want[MAX], v[MAX], got[MAX];
    const float tolerance = 0.006f;
    field("self_attention_row", "scores_printed", s);
    field("self_attention_row", "scaled_printed", want);
    test_run(dev, "input s f32 [3]\nz = affine(s) scale=0.707106769\noutput z\n", 1, CLEF_GEMM_OWN,
             (test_tensor[]){{"s", s, 12}, {0}}, "z", got, 12);
    near(got, want, 3, tolerance, "scaled");
    test_run(dev, "input z f32 [3]\np = softmax(z)\noutput p\n", 1, CLEF_GEMM_OWN,
             (test_tensor[]){{"z", want, 12}, {0}}, "p", got, 12);
    field("self_attention_row", "weights_printed", want);
    near(got, want, 3, tolerance, "weights");
    field("self_attention_row", "V", v);
    test_run(dev, "input p f32 [1, 3]\ninput v f32 [3, 2]\no = matmul(p, v)\noutput o\n", 1, CLEF_GEMM_OWN,
             (test_tensor[]){{"p", want, 12}, {"v", v, 24}, {0}}, "o", got, 8);
    field("self_attention_row", "output_printed", want);
    near(got, want, 2, tolerance, "output");
}

TEST(masked_row_gives_zeros)
{
    float s[MAX], want[MAX], got[MAX];
    field("causal_mask", "scores", s);
    test_run(dev, "input s f32 [4, 4]\np = softmax(s)\noutput p\n", 1, CLEF_GEMM_OWN,
             (test_tensor[]){{"s", s, 64}, {0}}, "p", got, 64);
    field("causal_mask", "row_0", want);
    near(got, want, 4, 0, "row 0");
    for (int row = 1; row < 4; row++) {
        float sum = 0;
        for (int i = 0; i < 4; i++) {
            assert_true(s[row * 4 + i] > -INFINITY || got[row * 4 + i] == 0);
            sum += got[row * 4 + i];
        }
        assert_true(fabsf(sum - 1) < 1e-6f);
    }
}

/* The printed causal weights are what softmax makes of their own logarithms under the causal rule. */
TEST(causal_rows)
{
    const json_t *rows = json_object_get(json_object_get(examples, "causal_rows_printed"), "weights");
    float s[MAX], want[MAX] = {0}, got[MAX];
    for (int i = 0; i < MAX; i++)
        s[i] = 3; /* what the rule must drop */
    for (size_t r = 0; r < 4; r++)
        for (size_t i = 0; i < json_array_size(json_array_get(rows, r)); i++) {
            want[r * 4 + i] = (float)json_number_value(json_array_get(json_array_get(rows, r), i));
            s[r * 4 + i] = logf(want[r * 4 + i]);
        }
    test_run(dev, "input s f32 [4, 4]\np = softmax(s) causal=1\noutput p\n", 1, CLEF_GEMM_OWN,
             (test_tensor[]){{"s", s, 64}, {0}}, "p", got, 64);
    near(got, want, 16, 1e-6f, "causal");
}

static int setup(void **state)
{
    (void)state;
    json_error_t why;
    examples = json_load_file(CLEF_SOURCE_DIR "/tests/fixtures/worked_examples.json", 0, &why);
    dev = test_device();
    return !examples || !dev;
}

static int teardown(void **state)
{
    (void)state;
    json_decref(examples);
    clef_device_close(dev);
    return 0;
}

TESTS(setup, teardown)
