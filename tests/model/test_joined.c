/* Weights that a folder stores in parts: found when it is opened, put together when they are asked for,
 * refused by name. */
#define TEST_NAME "test-joined"
#include "tests/files.h"

#include <math.h>

#include "model/open/joined.h"
#include "model/open/model.h"

#define SIZES                                                                                                \
    "\"hidden_size\":4,\"intermediate_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":1,\"num_key_" \
    "value_heads\":1,"                                                                                       \
    "\"max_position_embeddings\":8,\"vocab_size\":5"
static const char mixtral[] =
    "{\"model_type\":\"mixtral\",\"num_local_experts\":2,\"num_experts_per_tok\":1," SIZES "}";
static const char gpt_oss[] =
    "{\"model_type\":\"gpt_oss\",\"num_local_experts\":2,\"num_experts_per_tok\":1,\"head_dim\":4,"
    "\"quantization_config\":{\"quant_method\":\"mxfp4\"}," SIZES "}";
static const char qwen35[] =
    "{\"model_type\":\"qwen3_5_text\",\"head_dim\":8,\"layer_types\":[\"linear_attention\"]," SIZES "}";

/* A folder of these tensors, opened. */
static clef_status open_folder(const char *config, const clef_tensor_info *tensors, int32_t n,
                               clef_model **out, clef_error *err)
{
    clef_error ignored = {0};
    write_text(temp_path("config.json"), config);
    if (clef_tensor_file_write(temp_path("model.safetensors"), tensors, n, &ignored) != CLEF_OK)
        fail_msg("%s", ignored.text);
    return clef_model_open(temp_dir, out, err);
}

static clef_tensor_info tensor(const char *name, clef_dtype dtype, int32_t rank, const int64_t *dims,
                               const void *data)
{
    clef_tensor_info t = {.name = name, .dtype = dtype, .rank = rank, .data = data};
    uint64_t n = (uint64_t)clef_dtype_block_bytes(dtype);
    for (int32_t i = 0; i < rank; i++) {
        t.dims[i] = dims[i];
        n *= (uint64_t)dims[i];
    }
    t.n_bytes = n;
    return t;
}

#define TENSOR(name, dtype, data, ...)                                                                       \
    tensor(name, dtype, (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                       \
           (int64_t[]){__VA_ARGS__}, data)

#define EXPERTS "model.layers.0.mlp.experts."
#define W1 "model.layers.0.block_sparse_moe.experts."

TEST(stack)
{
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11, 12},
                all[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const clef_tensor_info tensors[] = {TENSOR(W1 "1.w1.weight", CLEF_F32, b, 2, 3),
                                        TENSOR(W1 "0.w1.weight", CLEF_F32, a, 2, 3)};
    clef_error err = {0};
    clef_model *m = NULL;
    check_error("open", open_folder(mixtral, tensors, 2, &m, &err), &err, CLEF_OK, "");
    const clef_tensor_info *t = clef__model_find(m, W1 "*.w1.weight");
    assert_non_null(t);
    assert_true(t->rank == 3 && t->dims[0] == 2 && t->dims[1] == 2 && t->dims[2] == 3 &&
                t->n_bytes == sizeof all && !t->data);
    assert_null(clef_model_weight(m, t->name, CLEF_F16, sizeof all));
    assert_null(clef_model_weight(m, t->name, CLEF_F32, sizeof a));
    for (int turn = 0; turn < 2; turn++) { /* the same after it was let go */
        const void *data = clef_model_weight(m, t->name, CLEF_F32, sizeof all);
        assert_non_null(data);
        assert_memory_equal(data, all, sizeof all);
        assert_ptr_equal(data, clef_model_weight(m, t->name, CLEF_F32, sizeof all));
        clef__joined_drop(m, t);
    }
    assert_int_equal(clef_model_n_tensors(m), 2); /* what the file has */
    assert_null(clef__model_find(m, W1 "*.w2.weight"));
    clef_model_close(m);
}

TEST(stack_refused)
{
    const float x[8] = {0};
    const clef_tensor_info shapes[] = {TENSOR(W1 "0.w1.weight", CLEF_F32, x, 2, 3),
                                       TENSOR(W1 "1.w1.weight", CLEF_F32, x, 3, 2)};
    const clef_tensor_info dtypes[] = {TENSOR(W1 "0.w1.weight", CLEF_F32, x, 2, 2),
                                       TENSOR(W1 "1.w1.weight", CLEF_F16, x, 2, 2)};
    const clef_tensor_info ranks[] = {TENSOR(W1 "0.w1.weight", CLEF_F32, x, 2, 1, 1, 2)};
    clef_error err = {0};
    clef_model *m = NULL;
    check_error("shape", open_folder(mixtral, shapes, 2, &m, &err), &err, CLEF_E_SHAPE,
                "experts.1.w1.weight differs from");
    check_error("dtype", open_folder(mixtral, dtypes, 2, &m, &err), &err, CLEF_E_SHAPE,
                "experts.1.w1.weight differs from");
    check_error("rank", open_folder(mixtral, ranks, 1, &m, &err), &err, CLEF_E_SHAPE,
                "experts.0.w1.weight has 4 dims");
}

/* Each element of a row is its number 0 .. 15, or 15 - that: row r of expert e begins with element r + e. */
TEST(mxfp4)
{
    enum { EXPERTS_N = 2, ROWS = 4, CODES = 16, K = 32 };
    static const float numbers[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    unsigned char blocks[EXPERTS_N][ROWS][CODES], scales[EXPERTS_N][ROWS];
    for (int e = 0; e < EXPERTS_N; e++)
        for (int r = 0; r < ROWS; r++) {
            scales[e][r] = (unsigned char)(127 + r - e);
            for (int i = 0; i < CODES; i++)
                blocks[e][r][i] = (unsigned char)(((2 * i + r + e) & 15) | ((2 * i + 1 + r + e) & 15) << 4);
        }
    const clef_tensor_info tensors[] = {
        TENSOR(EXPERTS "gate_up_proj_blocks", CLEF_I8, blocks, EXPERTS_N, ROWS, 1, CODES),
        TENSOR(EXPERTS "gate_up_proj_scales", CLEF_I8, scales, EXPERTS_N, ROWS, 1)};
    clef_error err = {0};
    clef_model *m = NULL;
    check_error("open", open_folder(gpt_oss, tensors, 2, &m, &err), &err, CLEF_OK, "");
    for (int half = 0; half < 2; half++) { /* gate: rows 0, 2; up: rows 1, 3 */
        const clef_tensor_info *t =
            clef__model_find(m, half ? EXPERTS "*.up_proj.weight" : EXPERTS "*.gate_proj.weight");
        assert_non_null(t);
        assert_true(t->dtype == CLEF_MXFP4 && t->rank == 3 && t->dims[0] == EXPERTS_N &&
                    t->dims[1] == ROWS / 2 && t->dims[2] == K);
        float x[EXPERTS_N * ROWS / 2 * K];
        const void *data = clef_model_weight(m, t->name, CLEF_MXFP4, t->n_bytes);
        assert_non_null(data);
        clef_dtype_decode(CLEF_MXFP4, data, sizeof x / sizeof *x, x);
        for (int i = 0; i < EXPERTS_N * ROWS / 2 * K; i++) {
            const int e = i / K / (ROWS / 2), r = i / K % (ROWS / 2) * 2 + half;
            const float wanted = ldexpf(numbers[(i % K + r + e) & 15], r - e);
            if (x[i] != wanted)
                fail_msg("%s: element %d is %g, expected %g", t->name, i, (double)x[i], (double)wanted);
        }
    }
    clef_model_close(m);
    check_error("no scales", open_folder(gpt_oss, tensors, 1, &m, &err), &err, CLEF_E_NOT_FOUND,
                EXPERTS "gate_up_proj_scales is missing");
    const clef_tensor_info fewer[] = {
        tensors[0], TENSOR(EXPERTS "gate_up_proj_scales", CLEF_I8, scales, EXPERTS_N, 2, 1)};
    check_error("fewer scales", open_folder(gpt_oss, fewer, 2, &m, &err), &err, CLEF_E_SHAPE,
                "gate_up_proj_blocks with ");
}

TEST(columns)
{
    const float w[2][3][4] = {{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}},
                              {{12, 13, 14, 15}, {16, 17, 18, 19}, {20, 21, 22, 23}}};
    const float up[2][2][3] = {{{1, 5, 9}, {3, 7, 11}}, {{13, 17, 21}, {15, 19, 23}}},
                bias[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    const float gate_bias[2][2] = {{1, 3}, {5, 7}};
    const clef_tensor_info tensors[] = {TENSOR(EXPERTS "gate_up_proj", CLEF_F32, w, 2, 3, 4),
                                        TENSOR(EXPERTS "gate_up_proj_bias", CLEF_F32, bias, 2, 4)};
    clef_error err = {0};
    clef_model *m = NULL;
    check_error("open", open_folder(gpt_oss, tensors, 2, &m, &err), &err, CLEF_OK, "");
    assert_memory_equal(clef_model_weight(m, EXPERTS "*.up_proj.weight", CLEF_F32, sizeof up), up, sizeof up);
    assert_memory_equal(clef_model_weight(m, EXPERTS "*.gate_proj.bias", CLEF_F32, sizeof gate_bias),
                        gate_bias, sizeof gate_bias);
    clef_model_close(m);
    const clef_tensor_info odd[] = {TENSOR(EXPERTS "gate_up_proj", CLEF_F32, w, 2, 4, 3)};
    check_error("odd", open_folder(gpt_oss, odd, 1, &m, &err), &err, CLEF_E_SHAPE,
                "experts.gate_up_proj has a shape");
}

TEST(rates)
{
    const float logs[] = {0, 1, -2.5f};
    const clef_tensor_info tensors[] = {TENSOR("model.layers.0.linear_attn.A_log", CLEF_F32, logs, 3)};
    clef_error err = {0};
    clef_model *m = NULL;
    check_error("open", open_folder(qwen35, tensors, 1, &m, &err), &err, CLEF_OK, "");
    const float *x = clef_model_weight(m, "model.layers.0.linear_attn.rates", CLEF_F32, sizeof logs);
    assert_non_null(x);
    for (int i = 0; i < 3; i++)
        assert_true(x[i] == (float)-exp((double)logs[i]));
    clef_model_close(m);
}

static int remove_all(void **state)
{
    clef__os_remove(temp_path("config.json"));
    clef__os_remove(temp_path("model.safetensors"));
    return remove_temp_dir(state);
}

TESTS(make_temp_dir, remove_all)
