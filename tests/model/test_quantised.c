/* Quantised folders: matrices that are repacked without loss, and files that are refused by name. */
#define TEST_NAME "test-quantised"
#include "tests/files.h"

#include <math.h>

#include "model/open/model.h"
#include "model/open/quantised.h"
#include "tests/skip.h"

#define Q "model.layers.0.self_attn.q_proj"
#define CONFIG(quantization)                                                                                 \
    "{\"model_type\":\"llama\",\"hidden_size\":32,\"intermediate_size\":32,\"num_hidden_layers\":1,"         \
    "\"num_attention_heads\":1,\"num_key_value_heads\":1,\"max_position_embeddings\":8,\"vocab_size\":5,"    \
    "\"quantization_config\":{" quantization "}}"
#define GPTQ "\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32"
#define AWQ "\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"zero_point\":true,\"version\":\"gemm\""
#define CT(of) "\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"g\":{\"weights\":{" of "}}}"

static const struct {
    const char *name;
    int bytes;
} types[] = {{"I8", 1},  {"U8", 1},  {"F8_E4M3", 1}, {"F16", 2}, {"BF16", 2},
             {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8}};

/* Writes model.safetensors. A tensor is ".end:TYPE:dim,dim=byte", of the module Q, or of layer 0 if the end
 * begins with /: all its bytes are that byte, or 0; with ~ in place of =byte its words are 0 and 1 in turn;
 * with @a,b the first are a and b; with 'text' they are the text. */
static void write_tensors(const char *spec)
{
    static char header[4096];
    static unsigned char data[1 << 22];
    char end[64], type[16], shape[32];
    size_t n = 0, n_header = 1;
    header[0] = '{';
    for (int used = 0; sscanf(spec, " %63[^:]:%15[^:]:%31[0-9,]%n", end, type, shape, &used) == 3;
         spec += used) {
        int a = 1, b = 1, byte = 0, more = 0, t = 0;
        sscanf(shape, "%d,%d", &a, &b);
        if (sscanf(spec + used, "=%d%n", &byte, &more) == 1)
            used += more;
        while (strcmp(types[t].name, type) != 0)
            t++;
        const size_t bytes = (size_t)a * (size_t)b * (size_t)types[t].bytes;
        assert_true(n + bytes <= sizeof data);
        const int in_turn = spec[used] == '~';
        const char *text = spec[used] == '\'' ? spec + used + 1 : NULL;
        memset(data + n, byte, bytes);
        for (size_t i = 4; in_turn && i < bytes; i += 8)
            data[n + i] = 1;
        used += in_turn;
        if (text) {
            memcpy(data + n, text, bytes);
            used += (int)bytes + 2;
        }
        if (sscanf(spec + used, "@%d,%d%n", &a, &b, &more) == 2) {
            const int32_t words[2] = {a, b};
            memcpy(data + n, words, sizeof words);
            used += more;
        }
        n_header +=
            (size_t)snprintf(header + n_header, sizeof header - n_header,
                             "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                             n_header > 1 ? "," : "", end[0] == '/' ? "model.layers.0." : Q,
                             end + (end[0] == '/'), type, shape, n, n + bytes);
        n += bytes;
    }
    header[n_header++] = '}';
    static unsigned char file[sizeof header + sizeof data];
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)(n_header >> 8 * i);
    memcpy(file + 8, header, n_header);
    memcpy(file + 8 + n_header, data, n);
    write_file(temp_path("model.safetensors"), file, 8 + n_header + n);
}

static clef_status open_folder(const char *config, const char *spec, clef_model **out, clef_error *err)
{
    write_text(temp_path("config.json"), config);
    write_tensors(spec);
    return clef_model_open(temp_dir, out, err);
}

static const struct {
    const char *what, *config, *tensors;
    clef_status status;
    const char *piece;
} refused[] = {
    {"3 bits", CONFIG("\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":32"), "", CLEF_E_UNSUPPORTED,
     "bits of gptq is 3, expected 4 or 8"},
    {"a method", CONFIG("\"quant_method\":\"quip\""), "", CLEF_E_UNSUPPORTED,
     "quantization_config (quip) is not supported"},
    {"a form of GPTQ", CONFIG(GPTQ ",\"checkpoint_format\":\"marlin\""), "", CLEF_E_UNSUPPORTED,
     "checkpoint_format of gptq is \"marlin\", expected gptq or gptq_v2"},
    {"bits of a module", CONFIG(GPTQ ",\"dynamic\":{\"x\":{\"bits\":3}}"),
     ".qweight:I32:3,8 .qzeros:I32:1,1 .scales:F16:2,8", CLEF_E_SHAPE, Q ".qzeros is I32 with 1 elements"},
    {"words of GPTQ", CONFIG(GPTQ ",\"pack_dtype\":\"int16\""), "", CLEF_E_UNSUPPORTED,
     "pack_dtype of gptq is \"int16\", expected int32"},
    {"another form of AWQ", CONFIG(AWQ ",\"checkpoint_format\":\"gemv_fast\""), "", CLEF_E_UNSUPPORTED,
     "checkpoint_format of awq"},
    {"a form of AutoRound", CONFIG("\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round\""), "",
     CLEF_E_UNSUPPORTED, "packing_format of auto-round is \"auto_round\""},
    {"floats of AutoRound",
     CONFIG("\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round:auto_gptq\",\"bits\":4,"
            "\"data_type\":\"mx_fp\""),
     "", CLEF_E_UNSUPPORTED, "data_type of auto-round"},
    {"a format of compressed-tensors", CONFIG(CT("") ",\"format\":\"marlin-24\""), "", CLEF_E_UNSUPPORTED,
     "format of compressed-tensors is \"marlin-24\""},
    {"inputs that are multiplied", CONFIG("\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4_AWQ\""), "",
     CLEF_E_UNSUPPORTED, "quant_algo of modelopt is \"NVFP4_AWQ\""},
    {"zero points of FP8", CONFIG("\"quant_method\":\"compressed-tensors\""),
     ".weight:F8_E4M3:4,32 .weight_scale:BF16:4,1 .weight_zero_point:F8_E4M3:4,1=56", CLEF_E_SHAPE,
     "expected zeros"},
    {"a form of AWQ", CONFIG("\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemv\""),
     "", CLEF_E_UNSUPPORTED, "version of awq is \"gemv\""},
    {"int 5", CONFIG(CT("\"type\":\"int\",\"num_bits\":5")), "", CLEF_E_UNSUPPORTED, "num_bits"},
    {"sparse", CONFIG(CT("") ",\"sparsity_config\":{\"format\":\"sparse-24\"}"), "", CLEF_E_UNSUPPORTED,
     "sparsity_config"},
    {"rotated", CONFIG(CT("") ",\"transform_config\":{\"a\":1}"), "", CLEF_E_UNSUPPORTED, "transform_config"},
    {"fp4", CONFIG("\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"fp4\""),
     "", CLEF_E_UNSUPPORTED, "bnb_4bit_quant_type of bitsandbytes is \"fp4\""},
    {"no scales", CONFIG(GPTQ), ".qweight:I32:4,8 .qzeros:I32:1,1", CLEF_E_NOT_FOUND, Q ".scales is missing"},
    {"no zeros", CONFIG(AWQ), ".qweight:I32:32,1 .scales:F16:1,8", CLEF_E_NOT_FOUND, Q ".qzeros is missing"},
    {"scales of other groups", CONFIG(GPTQ), ".qweight:I32:4,8 .qzeros:I32:1,1 .scales:F16:2,8", CLEF_E_SHAPE,
     Q ".scales is F16 with 16 elements"},
    {"scales of another type", CONFIG(GPTQ), ".qweight:I32:4,8 .qzeros:I32:1,1 .scales:I32:1,8", CLEF_E_SHAPE,
     Q ".scales is I32"},
    {"zeros of other rows", CONFIG(AWQ), ".qweight:I32:32,2 .qzeros:I32:1,1 .scales:F16:1,16", CLEF_E_SHAPE,
     Q ".qzeros is I32 with 1 elements"},
    {"a group that is not there", CONFIG(GPTQ),
     ".qweight:I32:4,8 .qzeros:I32:1,1 .scales:F16:1,8 .g_idx:I32:32=1", CLEF_E_FORMAT,
     "column 0 has group 16843009, expected 0 to 0"},
    {"codes in a line", CONFIG(AWQ), ".qweight:I32:32 .qzeros:I32:1,1 .scales:F16:1,8", CLEF_E_SHAPE,
     "expected a matrix"},
    {"FP8 alone", CONFIG("\"quant_method\":\"fp8\""), ".weight:F8_E4M3:4,32", CLEF_E_NOT_FOUND,
     "is missing, expected it beside " Q ".weight"},
    {"FP8 of other blocks", CONFIG("\"quant_method\":\"fp8\",\"weight_block_size\":[2,16]"),
     ".weight:F8_E4M3:4,32 .weight_scale_inv:F32:2,3", CLEF_E_SHAPE, "a scale for each group of columns"},
    {"no matrix at all", CONFIG("\"quant_method\":\"fp8\""), ".other:F8_E4M3:4,32", CLEF_E_UNSUPPORTED,
     "has a dtype that no weight of fp8 has"},
    {"E5M2", CONFIG("\"quant_method\":\"fp8\",\"fmt\":\"e5m2\""), "", CLEF_E_UNSUPPORTED, "fmt of fp8"},
    {"no zero points", CONFIG(CT("\"type\":\"int\",\"num_bits\":4,\"symmetric\":false,\"group_size\":32")),
     ".weight_packed:I32:2,4 .weight_scale:BF16:2,1 .weight_shape:I64:2=0", CLEF_E_SHAPE,
     "expected a matrix"},
    {"no shape", CONFIG(CT("\"type\":\"int\",\"num_bits\":4")),
     ".weight_packed:I32:2,4 .weight_scale:BF16:2,1", CLEF_E_NOT_FOUND, Q ".weight_shape is missing"},
    {"NVFP4 without its factor", CONFIG("\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\""),
     ".weight:U8:2,16 .weight_scale:F8_E4M3:2,2", CLEF_E_NOT_FOUND, Q ".weight_scale_2 is missing"},
    {"NVFP4 of a factor 0", CONFIG("\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\""),
     ".weight:U8:2,16 .weight_scale:F8_E4M3:2,2 .weight_scale_2:F32:1", CLEF_E_SHAPE, "a number over 0"},
    {"NF4's state", CONFIG("\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true"),
     ".weight:U8:64,1 .weight.absmax:F32:2 .weight.quant_state.bitsandbytes__nf4:U8:4=32", CLEF_E_FORMAT,
     "bitsandbytes__nf4"},
    {"NF4 in blocks of more than all", CONFIG("\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true"),
     ".weight:U8:64,1 .weight.absmax:F32:0 "
     ".weight.quant_state.bitsandbytes__nf4:U8:67'{\"quant_type\":\"nf4\",\"shape\":[4,32],\"blocksize\":"
     "9223372036854775776}'",
     CLEF_E_UNSUPPORTED, "expected nf4 in blocks"},
    {"int8 in tiles", CONFIG("\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true"),
     ".weight:I8:4,32 .SCB:F32:4 .weight_format:U8:1=1", CLEF_E_SHAPE, "rows in order"},
};

TEST(refused_by_name)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        clef_error err = {0};
        clef_model *m = NULL;
        check_error(refused[i].what, open_folder(refused[i].config, refused[i].tensors, &m, &err), &err,
                    refused[i].status, refused[i].piece);
        assert_null(m);
    }
}

static const void *bytes_of(clef_model *m, const clef_tensor_info *t)
{
    const void *data = clef_model_weight(m, t->name, t->dtype, t->n_bytes);
    assert_non_null(data);
    return data;
}

/* Codes are 5, scales 0x0101 as bf16; a module that was left out is there as it is. */
TEST(small_and_made_by_hand)
{
    static const char config[] = CONFIG(CT("\"type\":\"int\",\"num_bits\":4,\"group_size\":32"));
    clef_error err = {0};
    clef_model *m = NULL;
    check_error(
        "open",
        open_folder(config,
                    ".weight:F16:2,32=60 _left.weight_packed:I32:2,4=85 _left.weight_scale:BF16:2,1=61 "
                    "_left.weight_shape:I32:2=0",
                    &m, &err),
        &err, CLEF_E_SHAPE, "expected a matrix");
    check_error("open", open_folder(config, ".weight:F16:2,32=60", &m, &err), &err, CLEF_OK, "");
    assert_null(clef__packed_of(m, clef__model_find(m, Q ".weight")));
    clef_model_close(m);
}

/* What published folders have: each opens, and row 0 begins with this number. */
static const struct {
    const char *config, *tensors;
    float first;
} read_as[] = {
    {CONFIG(GPTQ ",\"dynamic\":{\"-:.*mlp.*\":{}}"),
     ".qweight:I32:4,8=153 .qzeros:I32:1,1=119 .scales:F16:1,8=60", 1 * 1.05859375f},
    {CONFIG(GPTQ ",\"dynamic\":{\"+:.*\":{\"bits\":8,\"group_size\":16}}"),
     ".qweight:I32:8,8=131 .qzeros:I32:2,2=127 .scales:F16:2,8=60", 3 * 1.05859375f},
    {CONFIG("\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round:auto_gptq\",\"bits\":4,"
            "\"group_size\":32,\"data_type\":\"int\",\"extra_config\":{\"lm_head\":{\"bits\":16}}"),
     ".qweight:I32:4,8=170 .qzeros:I32:1,1=119 .scales:F16:1,8=60", 2 * 1.05859375f},
    {CONFIG("\"quant_method\":\"compressed_tensors\",\"quantization_status\":\"frozen\",\"config_groups\":"
            "{\"g\":{\"format\":\"mxfp8-quantized\",\"weights\":{\"type\":\"float\",\"num_bits\":8,"
            "\"group_size\":32}}},\"format\":\"mixed-precision\""),
     ".weight:F8_E4M3:4,32=56 .weight_scale:U8:4,1=129 .weight_zero_point:I8:4,1 .input_scale:F32:1", 4},
    {CONFIG(CT("\"type\":\"int\",\"num_bits\":4,\"group_size\":16,\"actorder\":\"group\"")),
     ".weight_packed:I32:2,4=187 .weight_scale:BF16:2,2=64 .weight_g_idx:I32:32=255 .weight_shape:I32:2@2,32",
     3 * 3},
    {CONFIG("\"quant_algo\":null,\"kv_cache_quant_algo\":\"FP8\""), ".weight:F16:4,32=60 .k_scale:F32:1",
     1.05859375f},
    {CONFIG("\"quant_algo\":\"fp8_pb_wo\",\"producer\":{\"name\":\"modelopt\"}"),
     ".weight:F8_E4M3:4,32=56 .weight_scale:F32:1,1,1,1=64", 3.00392151f},
};

TEST(folders_as_they_are_published)
{
    for (size_t i = 0; i < sizeof read_as / sizeof *read_as; i++) {
        clef_error err = {0};
        clef_model *m = NULL;
        float x[64];
        check_error(read_as[i].config, open_folder(read_as[i].config, read_as[i].tensors, &m, &err), &err,
                    CLEF_OK, "");
        const clef_tensor_info *w = clef__model_find(m, Q ".weight");
        assert_non_null(w);
        clef_dtype_decode(w->dtype, bytes_of(m, w), 32, x);
        if (x[0] != read_as[i].first)
            fail_msg("%s: got %.9g, expected %.9g", read_as[i].config, (double)x[0],
                     (double)read_as[i].first);
        clef_model_close(m);
    }
}

/* Gate and up in one matrix become two: the first number of each. */
static const struct {
    const char *quantization, *tensors;
    float gate, up;
} fused[] = {
    {GPTQ,
     "/shared_mlp.input_linear.qweight:I32:4,8=153 /shared_mlp.input_linear.qzeros:I32:1,1=119 "
     "/shared_mlp.input_linear.scales:F16:1,8=60@1006648320,1006648320",
     1, 1.05859375f},
    {"\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"",
     "/shared_mlp.input_linear.weight:U8:4,32=34 /shared_mlp.input_linear.weight_scale_2:F32:1=63 "
     "/shared_mlp.input_linear.weight_scale:F8_E4M3:4,4=56@1077952576,1077952576",
     2, 1},
};

TEST(rows_that_a_family_has_apart)
{
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++) {
        char config[600];
        clef_error err = {0};
        clef_model *m = NULL;
        snprintf(config, sizeof config,
                 "{\"model_type\":\"granitemoehybrid\",\"vocab_size\":5,\"hidden_size\":64,"
                 "\"intermediate_size\":4,\"shared_intermediate_size\":4,\"num_attention_heads\":1,"
                 "\"num_local_experts\":0,\"num_experts_per_tok\":0,\"num_hidden_layers\":1,"
                 "\"layer_types\":[\"attention\"],\"max_position_embeddings\":8,"
                 "\"quantization_config\":{%s}}",
                 fused[i].quantization);
        check_error(config, open_folder(config, fused[i].tensors, &m, &err), &err, CLEF_OK, "");
        for (int up = 0; up < 2; up++) {
            const clef_tensor_info *w =
                clef__model_find(m, up ? "model.layers.0.shared_mlp.up_linear.weight"
                                       : "model.layers.0.shared_mlp.gate_linear.weight");
            float x[64], whole[64];
            assert_non_null(w);
            clef_dtype_decode(w->dtype, bytes_of(m, w), (size_t)clef_dtype_block_elems(w->dtype), x);
            assert_true(clef__packed_decode_row(clef__packed_of(m, w), 0, whole));
            if (x[0] != (up ? fused[i].up : fused[i].gate) ||
                whole[0] != x[0] * clef__packed_of(m, w)->factor)
                fail_msg("%s: got %g and %g", fused[i].quantization, (double)x[0], (double)whole[0]);
        }
        clef_model_close(m);
    }
}

/* Two groups of 16 columns take turns: the columns are ordered, and each group is filled up to a block. */
TEST(columns_in_the_order_of_their_groups)
{
    static const char config[] = CONFIG("\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":16");
    clef_error err = {0};
    clef_model *m = NULL;
    check_error("open",
                open_folder(config,
                            ".qweight:I32:8,4=131 .qzeros:I32:2,1=127 .scales:F32:2,4=63 .g_idx:I32:32~", &m,
                            &err),
                &err, CLEF_OK, "");
    const clef_tensor_info *w = clef__model_find(m, Q ".weight"), *order = clef__model_find(m, Q ".order");
    assert_non_null(w);
    assert_non_null(order);
    assert_int_equal(w->dims[1], 64);
    const int32_t *columns = order->data;
    assert_true(columns[0] == 0 && columns[1] == 2 && columns[15] == 30 && columns[16] == -1 &&
                columns[32] == 1 && columns[47] == 31 && columns[48] == -1);
    float x[64], scale;
    memset(&scale, 63, sizeof scale);
    clef_dtype_decode(w->dtype, bytes_of(m, w), 64, x);
    assert_true(x[0] == 3 * scale && x[47] == 3 * scale);
    clef_model_close(m);
}

/* Pages of files and other shared pages in memory; 0 where the system does not tell, as Windows (Wine has the
 * file, and counts other pages). */
static long shared_pages(void)
{
#ifdef _WIN32
    return 0;
#else
    long all, resident, shared = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld %ld", &all, &resident, &shared) != 3)
        shared = 0;
    if (f)
        fclose(f);
    return shared;
#endif
}

/* A matrix that is asked for again, as by a plan that packs it in pieces, need not stay in memory. It is read
 * again where it is needed. */
TEST(what_is_read_in_pieces_does_not_stay)
{
    enum { N = 1000 * 1000, FEW_PAGES = 200 };
    clef_error err = {0};
    clef_model *m = NULL;
    check_error("open",
                open_folder(CONFIG("\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32"),
                            ".weight:F32:1000,1000=60", &m, &err),
                &err, CLEF_OK, "");
    const clef_tensor_info *t = clef__model_find(m, Q ".weight");
    assert_non_null(t);
    for (int round = 0; round < 2; round++) {
        const float *data = bytes_of(m, t);
        const long before = shared_pages();
        float sum = 0;
        for (int i = 0; i < N; i++)
            sum += data[i];
        assert_true(sum > 0);
        if (before > 0 && shared_pages() - before < FEW_PAGES)
            fail_msg("round %d: %ld pages became resident, expected %d at least", round,
                     shared_pages() - before, FEW_PAGES);
    }
    clef_model_close(m);
}

/* ---- ../shared/oracle/quantised --------------------------------------------------------------- */

static const char *const formats[] = {
    "awq",           "bnb-int8",    "bnb-nf4",           "bnb-nf4-double",  "ct-fp8-channel",
    "ct-fp8-tensor", "ct-int4-g32", "ct-int4-g128-asym", "ct-int8-channel", "fp8-block",
    "fp8-tensor",    "gptq4",       "gptq4-act",         "gptq4-v2",        "gptq8",
    "gptq8-act",     "mlx4",        "nvfp4-ct",          "nvfp4-modelopt"};

/* The blocks, times the factor, are the row up to the rounding of the factor. */
static void check_blocks(clef_model *m, const clef__packed *p, const clef_tensor_info *t, int64_t row,
                         const float *wanted)
{
    const size_t row_bytes = (size_t)(t->n_bytes / (uint64_t)t->dims[0]);
    float *x = malloc((size_t)t->dims[1] * sizeof *x);
    assert_non_null(x);
    clef_dtype_decode(t->dtype, (const unsigned char *)bytes_of(m, t) + (size_t)row * row_bytes,
                      (size_t)t->dims[1], x);
    for (int64_t k = 0; k < t->dims[1]; k++) {
        const int64_t column = p->order ? p->order[k] : k;
        const float got = x[k] * p->factor, expected = column < 0 ? got : wanted[column];
        if (fabsf(got - expected) > 3e-7f * fabsf(expected))
            fail_msg("%s, row %d, column %d: the block has %g, expected %g", t->name, (int)row, (int)column,
                     (double)got, (double)expected);
    }
    free(x);
}

static void check_matrix(clef_model *m, const clef_safetensors *expected, int32_t i)
{
    const clef_tensor_info *e = &expected->tensors[i], *t = clef__model_find(m, e->name);
    const clef__packed *p = t ? clef__packed_of(m, t) : NULL;
    if (!p || p->n_rows != e->dims[0] || p->n_columns != e->dims[1])
        fail_msg("%s is not a matrix of the expected shape", e->name);
    assert_true(t->n_bytes * 8 <= (uint64_t)(e->dims[0] * e->dims[1]) * 12);
    float *x = malloc((size_t)p->n_columns * 2 * sizeof *x), *wanted = x + p->n_columns;
    assert_non_null(x);
    for (int64_t row = 0; row < p->n_rows; row++) {
        const size_t bytes = (size_t)clef_dtype_block_bytes(e->dtype) * (size_t)p->n_columns;
        clef_dtype_decode(e->dtype, (const unsigned char *)e->data + (size_t)row * bytes,
                          (size_t)p->n_columns, wanted);
        assert_true(clef__packed_decode_row(p, row, x));
        if (memcmp(x, wanted, (size_t)p->n_columns * sizeof *x) != 0)
            fail_msg("%s, row %d differs from the format's definition", e->name, (int)row);
        check_blocks(m, p, t, row, wanted);
    }
    free(x);
}

TEST(weights_equal_their_definitions)
{
    const char *shared = getenv("CLEF_SHARED");
    char path[600];
    int n_seen = 0;
    for (size_t f = 0; shared && f < sizeof formats / sizeof *formats; f++) {
        clef_safetensors expected;
        clef_error err = {0};
        clef_model *m = NULL;
        snprintf(path, sizeof path, "%s/oracle/quantised/%s/dequantised.safetensors", shared, formats[f]);
        if (clef__safetensors_open(path, &expected, &err) != CLEF_OK)
            continue;
        *strrchr(path, '/') = 0;
        check_error(formats[f], clef_model_open(path, &m, &err), &err, CLEF_OK, "");
        for (int32_t i = 0; i < expected.n_tensors; i++)
            check_matrix(m, &expected, i);
        n_seen++;
        clef_model_close(m);
        clef__safetensors_close(&expected);
    }
    if (n_seen == 0)
        skip_without("quantised folders");
}

static int remove_all(void **state)
{
    remove(temp_path("config.json"));
    remove(temp_path("model.safetensors"));
    return remove_temp_dir(state);
}

TESTS(make_temp_dir, remove_all)
