/* Files and folders that are not what they should be: the message says what they are, and what to do. */
#define TEST_NAME "test-foreign"
#include "tests/files.h"

#include "clef/model.h"
#include "model/file/foreign.h"
#include "model/open/arch.h"

static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
                  page[] = "\xef\xbb\xbf\n<!DOCTYPE HTML>\n<html><title>Sign in</title></html>\n",
                  config[] = "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":160,"
                             "\"num_hidden_layers\":3,\"num_attention_heads\":8,\"num_key_value_heads\":2,"
                             "\"max_position_embeddings\":256,\"vocab_size\":100,\"rms_norm_eps\":1e-6,"
                             "\"hidden_act\":\"silu\",\"bos_token_id\":1,\"eos_token_id\":2}";

TEST(kinds)
{
    static const struct {
        const char *begin;
        size_t n;
        const char *piece; /* NULL: not known */
    } rows[] = {
        {"PK\3\4\0\0\0\0", 8, "expected a file, got PyTorch's pickle"},
        {"\x80\2}q\0", 5, "got PyTorch's pickle"},
        {"tjgg\1\0\0\0", 8, "got a GGML file from before GGUF"},
        {"\x89HDF\r\n", 6, "got an HDF5 file"},
        {"\x1f\x8b\10", 3, "got a gzip archive"},
        {"GGUF\3\0\0\0", 8, "got a GGUF file"},
        {"\x40\0\0\0\0\0\0\0{\"__metadata__\":", 20, "got a .safetensors file"},
        {"{\"error\":", 9, "got a JSON text"},
        {"<html lang", 10, "got a page of HTML"},
        {"version https://git-lfs.github.com/", 35, "`git lfs pull`"},
        {"version https://git", 19, NULL}, /* cut */
        {"PK\3", 3, NULL},
        {"<htm", 4, NULL},
        {"{{ bos_token }}<html>", 21, NULL},
        {"", 0, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clef_error err = {0};
        void *data = exact(rows[i].begin, rows[i].n);
        check_error(rows[i].begin, clef__foreign(data, rows[i].n, "x", "a file", &err), &err,
                    rows[i].piece ? CLEF_E_FORMAT : CLEF_OK, rows[i].piece);
        free(data);
    }
}

/* A folder with this config.json (NULL: without), and one file with this text. */
static void refused(const char *config_text, const char *file, const char *text, clef_status status,
                    const char *piece)
{
    clef_error err = {0};
    clef_model *m = NULL;
    if (config_text)
        write_text(temp_path("config.json"), config_text);
    write_text(temp_path(file), text);
    check_error(file, clef_model_open(temp_dir, &m, &err), &err, status, piece);
    assert_null(m);
    clef__os_remove(temp_path("config.json"));
    clef__os_remove(temp_path(file));
}

TEST(folders)
{
    static const struct {
        const char *file, *piece;
    } weights[] = {
        {"pytorch_model.bin", "but pytorch_model.bin: clef reads .safetensors alone; transformers'"},
        {"consolidated.00.pth", "but consolidated.00.pth: clef reads .safetensors alone"},
        {"tf_model.h5", "but tf_model.h5: clef reads .safetensors alone; transformers' from_tf"},
        {"model-00001-of-00001.safetensors",
         "but model-00001-of-00001.safetensors: shards need their model.s"},
        {"m-Q4_0.gguf", "but m-Q4_0.gguf: a GGUF file is named itself"},
        {"training_args.bin", "index.json, expected a Hugging Face folder or a GGUF file"},
        {"notes.txt", "index.json, expected a Hugging Face folder or a GGUF file"},
    };
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        refused(config, weights[i].file, "x", CLEF_E_NOT_FOUND, weights[i].piece);
    write_text(temp_path("b.bin"), "x");
    write_text(temp_path("c.bin"), "x");
    refused(config, "a.bin", "x", CLEF_E_NOT_FOUND, "but a.bin and 2 others: clef reads");
    clef__os_remove(temp_path("c.bin"));
    refused(config, "a.safetensors", "x", CLEF_E_NOT_FOUND, "but a.safetensors: shards need"); /* likelier */
    clef__os_remove(temp_path("b.bin"));
    refused(NULL, "m.gguf", "x", CLEF_E_NOT_FOUND,
            "has no config.json, but m.gguf: a GGUF file is named itself");
    refused(NULL, "adapter_model.safetensors", "x", CLEF_E_NOT_FOUND, "an adapter is named by --lora");

    refused(config, "model.safetensors", pointer, CLEF_E_FORMAT,
            "model.safetensors: expected a .safetensors file, got a Git LFS pointer; `git lfs pull`");
    refused(config, "model.safetensors", page, CLEF_E_FORMAT, "got a page of HTML; the download failed");
    refused(config, "model.safetensors.index.json", page, CLEF_E_FORMAT,
            "model.safetensors.index.json: expected JSON, got a page of HTML");
    refused(pointer, "notes.txt", "x", CLEF_E_FORMAT, "config.json: expected JSON, got a Git LFS pointer");
}

TEST(files)
{
    clef_error err = {0};
    clef_model *m = NULL;
    write_text(temp_path("m.gguf"), pointer);
    check_error("m.gguf", clef_model_open(temp_path("m.gguf"), &m, &err), &err, CLEF_E_FORMAT,
                "m.gguf: expected a GGUF file, got a Git LFS pointer");
    write_text(temp_path("m.gguf"), "abcdefgh");
    check_error("m.gguf", clef_model_open(temp_path("m.gguf"), &m, &err), &err, CLEF_E_FORMAT,
                "begins with bytes 61 62 63 64, expected \"GGUF\"");
    clef__os_remove(temp_path("m.gguf"));
}

/* The message has the names that begin alike, of the file's own format alone. */
TEST(names)
{
    clef_error folder = {0}, gguf = {0};
    assert_int_equal(clef__arch_unknown("gpt_x", 0, "f", &folder), CLEF_E_UNSUPPORTED);
    assert_int_equal(clef__arch_unknown("gpt_x", 1, "f", &gguf), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(folder.text, "gpt_x is not supported; names like it are: gpt2 "));
    assert_non_null(strstr(folder.text, " gpt_neox "));
    assert_null(strstr(folder.text, " gptneox "));
    assert_null(strstr(folder.text, "llama"));
    assert_non_null(strstr(gguf.text, " gptneox "));
    assert_null(strstr(gguf.text, " gpt_neox "));
    assert_int_equal(clef__arch_unknown("x", 0, "f", &folder), CLEF_E_UNSUPPORTED);
    assert_non_null(strstr(folder.text, "x is not supported (docs/models.md lists the "));
}

TESTS(make_temp_dir, remove_temp_dir)
