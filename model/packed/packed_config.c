/* What a config.json says of quantised weights. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "graph/fail.h"
#include "model/packed/packed.h"

typedef struct reading {
    const json_t *object;
    const char *file;
    clef__packed_config *out;
    clef_error *err;
} reading;

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static clef_status refuse(const reading *r, const char *key, const char *expected)
{
    const json_t *value = json_object_get(r->object, key);
    char text[64] = "missing";
    const size_t n = value ? json_dumpb(value, text, sizeof text - 1, JSON_ENCODE_ANY | JSON_COMPACT) : 0;
    if (n > 0)
        text[n < sizeof text ? n : sizeof text - 1] = 0;
    return clef__fail(r->err, CLEF_E_UNSUPPORTED, "%s: quantization_config: %s of %s is %s, expected %s",
                      r->file, key, r->out->method, text, expected);
}

static int32_t int_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    const json_int_t i = json_integer_value(value);
    return json_is_integer(value) && i >= -1 && i <= INT32_MAX ? (int32_t)i : 0;
}

static int is_unset(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* 1: the text is one of these, in letters of any case. The list ends with NULL. */
static int is_one_of(const char *text, const char *const *names)
{
    for (; *names; names++) {
        size_t i = 0;
        while (text[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)(*names)[i]))
            i++;
        if (text[i] == (*names)[i])
            return 1;
    }
    return 0;
}

/* 1: some modules have bits or groups of their own. Those that are left out ("-:" in GPTQModel's patterns, 16
 * bits of AutoRound) do not count: they are stored as plain matrices. */
static int has_own_bits(const json_t *modules)
{
    const char *pattern;
    json_t *own;
    json_object_foreach((json_t *)(uintptr_t)modules, pattern, own) {
        if (strncmp(pattern, "-:", 2) != 0 && json_object_size(own) > 0 && int_of(own, "bits") < 16)
            return 1;
    }
    return 0;
}

static clef_status read_gptq(reading *r)
{
    const char *format = text_of(r->object, "checkpoint_format"), *pack = text_of(r->object, "pack_dtype");
    format = format ? format : text_of(r->object, "format");
    r->out->bits = int_of(r->object, "bits");
    r->out->group = int_of(r->object, "group_size");
    if (r->out->bits != 4 && r->out->bits != 8)
        return refuse(r, "bits", "4 or 8");
    if (r->out->group == 0)
        return refuse(r, "group_size", "a number of columns, or -1");
    if (format && strcmp(format, "gptq") != 0 && strcmp(format, "gptq_v2") != 0)
        return refuse(r, "checkpoint_format", "gptq or gptq_v2");
    if (!is_unset(json_object_get(r->object, "is_marlin_format")))
        return refuse(r, "is_marlin_format", "false");
    if (pack && strcmp(pack, "int32") != 0)
        return refuse(r, "pack_dtype", "int32");
    r->out->varies = has_own_bits(json_object_get(r->object, "dynamic"));
    r->out->zero_shift = !format || strcmp(format, "gptq") == 0;
    return CLEF_OK;
}

static clef_status read_awq(reading *r)
{
    static const char *const gemm[] = {"gemm", NULL};
    const char *version = text_of(r->object, "version"), *format = text_of(r->object, "checkpoint_format");
    const json_t *zeros = json_object_get(r->object, "zero_point");
    r->out->bits = int_of(r->object, json_object_get(r->object, "bits") ? "bits" : "w_bit");
    r->out->group =
        int_of(r->object, json_object_get(r->object, "group_size") ? "group_size" : "q_group_size");
    if (r->out->bits != 4)
        return refuse(r, "bits", "4");
    if (r->out->group == 0)
        return refuse(r, "group_size", "a number of columns, or -1");
    if (version && !is_one_of(version, gemm))
        return refuse(r, "version", "gemm");
    if (format && !is_one_of(format, gemm))
        return refuse(r, "checkpoint_format", "gemm");
    return zeros && !json_is_true(zeros) ? refuse(r, "zero_point", "true") : CLEF_OK;
}

/* AutoRound packs as GPTQ or AWQ do. */
static clef_status read_auto_round(reading *r)
{
    const char *format = text_of(r->object, "packing_format"), *type = text_of(r->object, "data_type");
    const int is_awq = format && strcmp(format, "auto_round:auto_awq") == 0;
    if (!is_awq && !(format && strcmp(format, "auto_round:auto_gptq") == 0))
        return refuse(r, "packing_format", "auto_round:auto_gptq or auto_round:auto_awq");
    if (type && strcmp(type, "int") != 0)
        return refuse(r, "data_type", "int");
    r->out->method = is_awq ? "awq" : "gptq";
    const clef_status status = is_awq ? read_awq(r) : read_gptq(r);
    r->out->varies = has_own_bits(json_object_get(r->object, "extra_config"));
    return status;
}

static clef_status read_fp8(reading *r)
{
    const char *fmt = text_of(r->object, "fmt");
    const json_t *block = json_object_get(r->object, "weight_block_size");
    if (fmt && strcmp(fmt, "e4m3") != 0)
        return refuse(r, "fmt", "e4m3");
    if (is_unset(block))
        return CLEF_OK;
    for (size_t i = 0; i < 2; i++) {
        const json_int_t n = json_integer_value(json_array_get(block, i));
        if (json_array_size(block) != 2 || n < 1 || n > INT32_MAX)
            return refuse(r, "weight_block_size", "two numbers");
        r->out->block[i] = (int32_t)n;
    }
    return CLEF_OK;
}

/* In the modes that multiply inputs before they are quantised (NVFP4_AWQ), the matrices alone do not give the
 * result. Weights in blocks have 128 rows and columns in each. null: only the KV cache is quantised. */
static clef_status read_modelopt(reading *r)
{
    static const char *const known[] = {"NVFP4", "W4A16_NVFP4",     "FP8",       "FP8_PER_CHANNEL_PER_TOKEN",
                                        "MXFP8", "MIXED_PRECISION", "FP8_PB_WO", NULL};
    const char *algorithm = text_of(r->object, "quant_algo");
    r->out->block[0] = r->out->block[1] = 128;
    return (algorithm ? is_one_of(algorithm, known) : json_is_null(json_object_get(r->object, "quant_algo")))
               ? CLEF_OK
               : refuse(r, "quant_algo", "NVFP4, FP8 or MXFP8");
}

static clef_status read_bitsandbytes(reading *r)
{
    const char *type = text_of(r->object, "bnb_4bit_quant_type"),
               *storage = text_of(r->object, "bnb_4bit_quant_storage");
    const int four = json_is_true(json_object_get(r->object, "load_in_4bit"));
    if (four && type && strcmp(type, "nf4") != 0)
        return refuse(r, "bnb_4bit_quant_type", "nf4");
    if (four && storage && strcmp(storage, "uint8") != 0)
        return refuse(r, "bnb_4bit_quant_storage", "uint8");
    return CLEF_OK;
}

static clef_status read_mlx(reading *r)
{
    const char *mode = text_of(r->object, "mode");
    r->out->bits = int_of(r->object, "bits");
    r->out->group = int_of(r->object, "group_size");
    if (mode && strcmp(mode, "affine") != 0)
        return refuse(r, "mode", "affine");
    if (r->out->bits != 4)
        return refuse(r, "bits", "4");
    return r->out->group < 1 ? refuse(r, "group_size", "a number of columns") : CLEF_OK;
}

/* One group of modules of compressed-tensors. */
static clef_status read_scheme(reading *r, const json_t *weights, int is_first)
{
    const reading own = {weights, r->file, r->out, r->err};
    const char *type = text_of(weights, "type");
    const int32_t bits = int_of(weights, "num_bits");
    const int has_zeros = json_is_false(json_object_get(weights, "symmetric"));
    if (type && strcmp(type, "int") == 0 && bits != 4 && bits != 8)
        return refuse(&own, "num_bits", "4 or 8");
    if (type && strcmp(type, "float") == 0 && bits != 4 && bits != 8)
        return refuse(&own, "num_bits", "4 or 8");
    const json_t *block = json_object_get(weights, "block_structure");
    for (size_t i = 0; json_array_size(block) == 2 && i < 2; i++)
        r->out->block[i] = (int32_t)json_integer_value(json_array_get(block, i));
    r->out->group =
        is_first || r->out->group == int_of(weights, "group_size") ? int_of(weights, "group_size") : 0;
    r->out->has_zeros = is_first || r->out->has_zeros == has_zeros ? has_zeros : -1;
    return CLEF_OK;
}

static clef_status check_format(const reading *r, const json_t *object)
{
    static const char *const known[] = {"dense",
                                        "pack-quantized",
                                        "naive-quantized",
                                        "int-quantized",
                                        "float-quantized",
                                        "nvfp4-pack-quantized",
                                        "mxfp4-pack-quantized",
                                        "mxfp8-quantized",
                                        "mixed-precision",
                                        NULL};
    const reading own = {object, r->file, r->out, r->err};
    const char *format = text_of(object, "format");
    return !format || is_one_of(format, known)
               ? CLEF_OK
               : refuse(&own, "format", "one that is not sparse, of 4 or 8 bits");
}

static clef_status read_compressed_tensors(reading *r)
{
    const json_t *sparsity = json_object_get(r->object, "sparsity_config");
    const char *sparse = text_of(sparsity, "format"),
               *status_text = text_of(r->object, "quantization_status"), *key;
    clef_status status = CLEF_OK;
    json_t *group;
    int n = 0;
    if (!is_unset(sparsity) && sparse && strcmp(sparse, "dense") != 0)
        return refuse(r, "sparsity_config", "dense weights");
    if (!is_unset(json_object_get(r->object, "transform_config")))
        return refuse(r, "transform_config", "no rotations");
    if (status_text && strcmp(status_text, "compressed") != 0 && strcmp(status_text, "frozen") != 0)
        return refuse(r, "quantization_status", "compressed or frozen");
    status = check_format(r, r->object);
    json_object_foreach(json_object_get(r->object, "config_groups"), key, group) {
        const json_t *weights = json_object_get(group, "weights");
        if (json_is_object(weights) && status == CLEF_OK)
            status = read_scheme(r, weights, n++ == 0);
        if (status == CLEF_OK)
            status = check_format(r, group);
    }
    return status;
}

static const struct {
    const char *name, *method; /* of the file, and the one of clef's layouts */
    clef_status (*read)(reading *r);
} methods[] = {
    {"gptq", "gptq", read_gptq},
    {"awq", "awq", read_awq},
    {"auto-round", "auto-round", read_auto_round},
    {"fp8", "fp8", read_fp8},
    {"fbgemm_fp8", "fp8", read_fp8},
    {"compressed-tensors", "compressed-tensors", read_compressed_tensors},
    {"compressed_tensors", "compressed-tensors", read_compressed_tensors},
    {"modelopt", "modelopt", read_modelopt},
    {"bitsandbytes", "bitsandbytes", read_bitsandbytes},
    {"mlx", "mlx", read_mlx},
};

const json_t *clef__packed_object(const json_t *config)
{
    const json_t *usual = json_object_get(config, "quantization_config"),
                 *mlx = json_object_get(config, "quantization"),
                 *old = json_object_get(config, "compression_config"); /* of compressed-tensors */
    usual = json_is_null(usual) || !usual ? old : usual;
    return json_is_object(mlx) ? mlx : json_is_null(usual) ? NULL : usual;
}

clef_status clef__packed_read_config(const json_t *quantization, const char *file, clef__packed_config *out,
                                     clef_error *err)
{
    const char *method = text_of(quantization, "quant_method");
    if (!method && json_object_get(quantization, "quant_algo"))
        method = "modelopt";
    if (!method && int_of(quantization, "bits") && int_of(quantization, "group_size"))
        method = "mlx";
    *out = (clef__packed_config){.has_zeros = -1};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(method ? method : "", methods[i].name) == 0) {
            out->method = methods[i].method;
            return methods[i].read(&(reading){quantization, file, out, err});
        }
    return clef__fail(err, CLEF_E_UNSUPPORTED,
                      "%s: quantization_config (%.40s) is not supported, expected gptq, awq, auto-round, "
                      "fp8, compressed-tensors, modelopt, bitsandbytes or MLX's",
                      file, method ? method : "no quant_method");
}
