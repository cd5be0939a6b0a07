/* The file formats alone: GGUF and safetensors, malformed and good; and runtime/os/os.h, on which they
 * stand. */
#define TEST_NAME "test-files"
#include "tests/cases.h"
#include "tests/files.h"

#include "model/file/gguf.h"
#include "model/file/safetensors.h"

/* ---- GGUF ------------------------------------------------------------------------------------ */

static void check_gguf(const json_t *c)
{
    blob b = {.n = 0};
    clef_gguf g;
    clef_error err = {0};
    assemble(&b, case_text(c, "spec"));
    void *data = exact(b.p, b.n);
    check_case(c, clef__gguf_parse(data, b.n, "bad.gguf", &g, &err), &err);
    assert_non_null(strstr(err.text, "bad.gguf: "));
    assert_null(g.entries);
    free(data);
}

TEST(gguf_malformed)
{
    for_each_case("model_files.json", "gguf", check_gguf);
}

/* Every value type, an array of numbers and one of strings, four tensors of four dtypes. */
static void assemble_good(blob *b)
{
    assemble(b, json_string_value(case_file("model_files.json", "good_gguf")));
}

/* Reads every byte that the parsed file points to. */
static uint64_t gguf_touch(const clef_gguf *g)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < g->n_entries; i++)
        for (uint64_t k = 0; k < g->entries[i].n; k++) {
            const clef_gguf_entry *e = &g->entries[i];
            sum += (uint64_t)clef__gguf_item_int(e, k) + (clef__gguf_item_float(e, k) > 0);
            for (size_t c = 0; e->strings && c < e->strings[k].n_bytes; c++)
                sum += (unsigned char)e->strings[k].text[c];
        }
    for (uint64_t i = 0; i < g->n_tensors; i++)
        for (uint64_t k = 0; k < g->tensors[i].n_bytes; k++)
            sum += ((const unsigned char *)g->tensors[i].data)[k];
    return sum;
}

TEST(gguf_good)
{
    blob b = {.n = 0};
    assemble_good(&b);
    void *data = exact(b.p, b.n);
    clef_gguf g;
    clef_error err = {0};
    check_error("good", clef__gguf_parse(data, b.n, "good", &g, &err), &err, CLEF_OK, "");
    gguf_touch(&g);
    assert_int_equal(g.n_entries, 15);
    assert_int_equal(clef__gguf_int(&g, "a.u8", 0), 200);
    assert_int_equal(clef__gguf_int(&g, "a.i8", 0), -5);
    assert_int_equal(clef__gguf_int(&g, "a.u16", 0), 60000);
    assert_int_equal(clef__gguf_int(&g, "a.i16", 0), -300);
    assert_int_equal(clef__gguf_int(&g, "a.u32", 0), 4000000000);
    assert_int_equal(clef__gguf_int(&g, "a.i32", 0), -7);
    assert_int_equal(clef__gguf_int(&g, "a.u64", 0), INT64_MAX);
    assert_int_equal(clef__gguf_int(&g, "a.i64", 0), -9);
    assert_int_equal(clef__gguf_int(&g, "a.bool", 0), 1);
    assert_int_equal(clef__gguf_int(&g, "a.f64", 0), 2);
    assert_int_equal(clef__gguf_int(&g, "a.str", -4), -4);
    assert_int_equal(clef__gguf_int(&g, "a.none", -4), -4);
    assert_true(clef__gguf_float(&g, "a.f32", 0) == 1.5 && clef__gguf_float(&g, "a.f64", 0) == 2.5 &&
                clef__gguf_float(&g, "a.i8", 0) == -5);
    assert_int_equal(clef__gguf_item_int(clef__gguf_find(&g, "a.ints"), 1), -2);
    assert_int_equal(clef__gguf_item_int(clef__gguf_find(&g, "a.ints"), 3), 0);
    assert_int_equal(clef__gguf_find(&g, "a.words")->strings[1].n_bytes, 0);
    char text[4];
    assert_true(clef__gguf_text(&g, "a.str", text, sizeof text));
    assert_string_equal(text, "tex");
    assert_false(clef__gguf_text(&g, "a.words", text, sizeof text));
    assert_string_equal(text, "");

    assert_int_equal(g.n_tensors, 4);
    assert_string_equal(g.tensors[0].name, "f");
    assert_true(g.tensors[0].rank == 2 && g.tensors[0].dims[0] == 2 && g.tensors[0].dims[1] == 3 &&
                g.tensors[0].n_bytes == 24);
    float f[6];
    memcpy(f, g.tensors[0].data, sizeof f);
    assert_true(f[0] == 1 && f[5] == 6);
    assert_true(g.tensors[1].dtype == CLEF_Q8_0 && g.tensors[1].n_bytes == 2 * 2 * 34);
    assert_true(g.tensors[2].dtype == CLEF_F16 && g.tensors[2].n_bytes == 10);
    assert_true(g.tensors[3].rank == 0 && g.tensors[3].n_bytes == 4 &&
                *(const unsigned char *)g.tensors[3].data == 77);
    clef__gguf_close(&g);
    clef__gguf_close(&g); /* takes a zeroed one */
    free(data);
}

TEST(gguf_cut_and_changed)
{
    blob b = {.n = 0};
    assemble_good(&b);
    clef_gguf g;
    clef_error err;
    for (size_t n = 0; n < b.n; n++) {
        void *data = exact(b.p, n);
        err = (clef_error){0};
        check_error("cut", clef__gguf_parse(data, n, "cut.gguf", &g, &err), &err, CLEF_E_FORMAT, "cut.gguf");
        free(data);
    }
    static const unsigned char values[] = {0, 1, 9, 0x7F, 0x80, 0xFF};
    unsigned char *data = exact(b.p, b.n);
    for (size_t at = 0; at < b.n; at++) {
        for (size_t v = 0; v < sizeof values; v++) {
            data[at] = values[v];
            if (clef__gguf_parse(data, b.n, "changed", &g, &err) == CLEF_OK)
                gguf_touch(&g);
            clef__gguf_close(&g);
        }
        data[at] = b.p[at];
    }
    free(data);
}

/* ---- GGUF in parts --------------------------------------------------------------------------- */

static const char *const part_names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                         "m-00003-of-00003.gguf"};

/* Writes three parts by a list of their specs; null: that file is missing. */
static void write_parts(const json_t *specs)
{
    for (size_t i = 0; i < 3; i++) {
        blob b = {.n = 0};
        const char *path = temp_path(part_names[i]), *spec = json_string_value(json_array_get(specs, i));
        remove(path);
        if (!spec)
            continue;
        assemble(&b, spec);
        write_file(path, b.p, b.n);
    }
}

TEST(gguf_parts)
{
    write_parts(case_file("model_files.json", "good_parts"));
    for (int i = 0; i < 3; i++) { /* from any part */
        clef_gguf g;
        clef_error err = {0};
        char text[8];
        check_error(part_names[i], clef__gguf_open(temp_path(part_names[i]), &g, &err), &err, CLEF_OK, "");
        assert_true(g.n_tensors == 3 && g.n_more == 2 && clef__gguf_text(&g, "key", text, sizeof text));
        for (uint64_t k = 0; k < 3; k++) {
            float x;
            memcpy(&x, g.tensors[k].data, sizeof x);
            assert_true(g.tensors[k].name[0] == (char)('a' + k) && x == (float)(k + 1));
        }
        clef__gguf_close(&g);
    }
}

static void check_parts(const json_t *c)
{
    clef_gguf g;
    clef_error err = {0};
    write_parts(case_value(c, "parts"));
    check_case(c, clef__gguf_open(temp_path(part_names[(int)case_number(c, "opened", 0)]), &g, &err), &err);
    assert_true(!g.entries && !g.tensors && !g.more);
}

TEST(gguf_parts_refused)
{
    for_each_case("model_files.json", "parts", check_parts);
    write_parts(NULL);
}

/* ---- safetensors ----------------------------------------------------------------------------- */

/* A header and so many bytes of data. */
static void put_safetensors(blob *b, const char *header, size_t n_data)
{
    put_int(b, strlen(header), 8);
    put(b, header, strlen(header));
    for (size_t i = 0; i < n_data; i++)
        put(b, &(unsigned char){(unsigned char)i}, 1);
}

#define T(name, dtype, shape, offsets)                                                                       \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void check_safetensors(const json_t *c)
{
    blob b = {.n = 0};
    clef_safetensors st;
    clef_error err = {0};
    if (case_text(c, "spec"))
        assemble(&b, case_text(c, "spec"));
    else
        put_safetensors(&b, case_text(c, "header"), (size_t)case_number(c, "n_data", 0));
    void *data = exact(b.p, b.n);
    check_case(c, clef__safetensors_parse(data, b.n, "bad.st", &st, &err), &err);
    assert_non_null(strstr(err.text, "bad.st: "));
    assert_null(st.tensors);
    free(data);
}

TEST(safetensors_malformed)
{
    for_each_case("model_files.json", "raw_safetensors", check_safetensors);
    for_each_case("model_files.json", "safetensors", check_safetensors);
    clef_safetensors st;
    char deep[400] = "{\"a\":";
    memset(deep + 5, '[', 300);
    blob b = {.n = 0};
    clef_error err = {0};
    put_safetensors(&b, deep, 0);
    check_error("deep", clef__safetensors_parse(b.p, b.n, "bad.st", &st, &err), &err, CLEF_E_FORMAT,
                "nest deeper than 64");
}

TEST(safetensors_cut_and_changed)
{
    blob b = {.n = 0};
    put_safetensors(&b,
                    "{\"__metadata__\":{\"format\":\"pt\"}," T("w", "F32", "[2,2]", "[0,16]") "," T(
                        "z", "BF16", "[0,7]", "[16,16]") "," T("i", "I64", "[]", "[16,24]") "}",
                    24);
    clef_safetensors st;
    clef_error err = {0};
    check_error("good", clef__safetensors_parse(b.p, b.n, "good", &st, &err), &err, CLEF_OK, "");
    assert_int_equal(st.n_tensors, 3);
    assert_int_equal(st.tensors[2].dtype, CLEF_N_DTYPES);
    clef__safetensors_close(&st);
    for (size_t n = 0; n < b.n; n++) {
        void *data = exact(b.p, n);
        check_error("cut", clef__safetensors_parse(data, n, "cut.st", &st, &err), &err, CLEF_E_FORMAT,
                    "cut.st");
        free(data);
    }
    static const unsigned char values[] = {0, '0', '9', '"', '[', '}', 0x80, 0xFF};
    unsigned char *data = exact(b.p, b.n);
    for (size_t at = 0; at < b.n; at++) {
        for (size_t v = 0; v < sizeof values; v++) {
            data[at] = values[v];
            if (clef__safetensors_parse(data, b.n, "changed", &st, &err) == CLEF_OK)
                clef__safetensors_close(&st);
        }
        data[at] = b.p[at];
    }
    free(data);
}

TEST(tensor_file_round_trip)
{
    const float f[6] = {0, 1, -2, 0.5f, 3e38f, -0.0f};
    const int8_t i8[3] = {-128, 0, 127};
    const int32_t i32[2] = {INT32_MIN, INT32_MAX};
    uint16_t h[3], bf[5] = {0x3F80, 0xC000, 0, 0x7F80, 0x0001};
    clef_dtype_encode(CLEF_F16, f, 3, h);
    const clef_tensor_info in[] = {
        {.name = "bytes", .dtype = CLEF_I8, .rank = 1, .dims = {3}, .n_bytes = 3, .data = i8},
        {.name = "w", .dtype = CLEF_F32, .rank = 2, .dims = {2, 3}, .n_bytes = 24, .data = f},
        {.name = "half \"q\" \xc3\xa9",
         .dtype = CLEF_F16,
         .rank = 3,
         .dims = {1, 3, 1},
         .n_bytes = 6,
         .data = h},
        {.name = "b", .dtype = CLEF_BF16, .rank = 1, .dims = {5}, .n_bytes = 10, .data = bf},
        {.name = "ints", .dtype = CLEF_I32, .rank = 1, .dims = {2}, .n_bytes = 8, .data = i32},
        {.name = "empty", .dtype = CLEF_F32, .rank = 2, .dims = {0, 4}, .n_bytes = 0, .data = NULL},
        {.name = "scalar", .dtype = CLEF_F32, .rank = 0, .n_bytes = 4, .data = f + 3},
    };
    enum { N = sizeof in / sizeof *in };
    const char *path = temp_path("round.safetensors");
    clef_error err = {0};
    check_error("write", clef_tensor_file_write(path, in, N, &err), &err, CLEF_OK, "");
    clef_tensor_file *file = NULL;
    check_error("open", clef_tensor_file_open(path, &file, &err), &err, CLEF_OK, "");
    assert_int_equal(clef_tensor_file_count(file), N);
    for (int i = 0; i < N; i++) {
        const int32_t at = clef_tensor_file_find(file, in[i].name);
        assert_true(at >= 0);
        const clef_tensor_info t = clef_tensor_file_get(file, at);
        assert_string_equal(t.name, in[i].name);
        assert_true(t.dtype == in[i].dtype && t.rank == in[i].rank && t.n_bytes == in[i].n_bytes);
        assert_memory_equal(t.dims, in[i].dims, sizeof t.dims);
        if (t.n_bytes > 0)
            assert_memory_equal(t.data, in[i].data, t.n_bytes);
        assert_true((uintptr_t)t.data % (uintptr_t)clef_dtype_block_bytes(t.dtype) == 0);
    }
    float x[6];
    int32_t n[3];
    check_error("f16",
                clef_tensor_file_read(file, clef_tensor_file_find(file, in[2].name), CLEF_F32, x, 3, &err),
                &err, CLEF_OK, "");
    assert_true(x[0] == 0 && x[1] == 1 && x[2] == -2);
    check_error("bf16", clef_tensor_file_read(file, clef_tensor_file_find(file, "b"), CLEF_F32, x, 5, &err),
                &err, CLEF_OK, "");
    assert_true(x[0] == 1 && x[1] == -2);
    check_error("i8", clef_tensor_file_read(file, clef_tensor_file_find(file, "bytes"), CLEF_I32, n, 3, &err),
                &err, CLEF_OK, "");
    assert_true(n[0] == -128 && n[2] == 127);
    check_error("count", clef_tensor_file_read(file, 0, CLEF_F32, x, 9, &err), &err, CLEF_E_ARG,
                "elements, expected 9");
    check_error("number", clef_tensor_file_read(file, N, CLEF_F32, x, 1, &err), &err, CLEF_E_ARG,
                "tensor number 7");
    check_error("as", clef_tensor_file_read(file, clef_tensor_file_find(file, "scalar"), CLEF_I8, x, 1, &err),
                &err, CLEF_E_ARG, "scalar");
    check_error("f as i",
                clef_tensor_file_read(file, clef_tensor_file_find(file, "scalar"), CLEF_I32, n, 1, &err),
                &err, CLEF_E_UNSUPPORTED, "tensor scalar: cannot read F32 as i32");
    assert_int_equal(clef_tensor_file_find(file, "absent"), -1);
    assert_null(clef_tensor_file_get(file, -1).name);
    clef_tensor_file_close(file);
    clef_tensor_file_close(NULL);
    clef__os_remove(path);
}

TEST(tensor_file_other_dtypes)
{
    blob b = {.n = 0};
    const char *header = "{" T("i", "I64", "[3]", "[0,24]") "," T("d", "F64", "[1]", "[24,32]") "," T(
        "u", "U8", "[2]", "[32,34]") "," T("n", "BOOL", "[1]",
                                           "[34,35]") "," T("q", "F8_E4M3", "[1]",
                                                            "[35,36]") "," T("s", "I16", "[1]",
                                                                             "[36,38]") "," T("big", "U64",
                                                                                              "[1]",
                                                                                              "[38,46]") "}";
    put_int(&b, strlen(header), 8);
    put(&b, header, strlen(header));
    assemble(&b, "8:-3 8:2147483647 8:5 8:0x3FF8000000000000 1:200 1:7 1:1 1:0 2:-2 8:-1");
    const char *path = temp_path("dtypes.safetensors");
    write_file(path, b.p, b.n);
    clef_tensor_file *f = NULL;
    clef_error err = {0};
    int32_t n[3];
    float x[3];
    check_error("open", clef_tensor_file_open(path, &f, &err), &err, CLEF_OK, "");
    assert_int_equal(clef_tensor_file_get(f, 2).dtype, CLEF_I8);
    check_error("i64", clef_tensor_file_read(f, 0, CLEF_I32, n, 3, &err), &err, CLEF_OK, "");
    assert_true(n[0] == -3 && n[1] == INT32_MAX && n[2] == 5);
    check_error("i64", clef_tensor_file_read(f, 0, CLEF_F32, x, 3, &err), &err, CLEF_OK, "");
    assert_true(x[0] == -3);
    check_error("f64", clef_tensor_file_read(f, 1, CLEF_F32, x, 1, &err), &err, CLEF_OK, "");
    assert_true(x[0] == 1.5f);
    check_error("u8", clef_tensor_file_read(f, 2, CLEF_I32, n, 2, &err), &err, CLEF_OK, "");
    assert_true(n[0] == 200 && n[1] == 7);
    check_error("f8", clef_tensor_file_read(f, 4, CLEF_F32, x, 1, &err), &err, CLEF_E_UNSUPPORTED,
                "tensor q: cannot read F8_E4M3 as f32");
    check_error("i16", clef_tensor_file_read(f, 5, CLEF_I32, n, 1, &err), &err, CLEF_OK, "");
    assert_int_equal(n[0], -2);
    check_error("u64", clef_tensor_file_read(f, 6, CLEF_I32, n, 1, &err), &err, CLEF_E_LIMIT,
                "tensor big: element 0");
    check_error("u64", clef_tensor_file_read(f, 6, CLEF_F32, x, 1, &err), &err, CLEF_OK, "");
    assert_true(x[0] == 0x1p64f);
    clef_tensor_file_close(f);
    clef__os_remove(path);
}

TEST(tensor_file_write_refuses)
{
    const float f[2] = {1, 2};
    const clef_tensor_info good = {
        .name = "a", .dtype = CLEF_F32, .rank = 1, .dims = {2}, .n_bytes = 8, .data = f};
    clef_tensor_info t[2] = {good, good};
    const char *path = temp_path("never.safetensors");
    clef_error err = {0};
    check_error("twice", clef_tensor_file_write(path, t, 2, &err), &err, CLEF_E_ARG,
                "two tensors have the name a");
    t[0].name = NULL;
    check_error("no name", clef_tensor_file_write(path, t, 1, &err), &err, CLEF_E_ARG, "name is NULL");
    t[0] = good, t[0].name = "\xff";
    check_error("no UTF-8", clef_tensor_file_write(path, t, 1, &err), &err, CLEF_E_ARG, "UTF-8");
    t[0] = good, t[0].dtype = CLEF_Q8_0;
    check_error("dtype", clef_tensor_file_write(path, t, 1, &err), &err, CLEF_E_UNSUPPORTED,
                "tensor a is q8_0");
    t[0] = good, t[0].n_bytes = 4;
    check_error("bytes", clef_tensor_file_write(path, t, 1, &err), &err, CLEF_E_ARG,
                "tensor a has 4 bytes, its shape needs 8");
    t[0] = good, t[0].dims[0] = -2;
    check_error("dims", clef_tensor_file_write(path, t, 1, &err), &err, CLEF_E_ARG, "tensor a has a dim");
    t[0] = good, t[0].data = NULL;
    check_error("data", clef_tensor_file_write(path, t, 1, &err), &err, CLEF_E_ARG, "tensor a has no data");
    assert_false(clef__os_is_file(path));
    check_error("folder", clef_tensor_file_write(temp_path("no/such/x"), &good, 1, &err), &err, CLEF_E_IO,
                "no/such/x: cannot write");
    check_error("absent", clef_tensor_file_open(path, &(clef_tensor_file *){NULL}, &err), &err, CLEF_E_IO,
                "never.safetensors: cannot open");
    check_error("a folder", clef_tensor_file_open(temp_dir, &(clef_tensor_file *){NULL}, &err), &err,
                CLEF_E_IO, "is a folder");
}

/* ---- errors and the system ------------------------------------------------------------------- */

TEST(errors)
{
    assert_string_equal(clef_status_name(CLEF_E_SHAPE), "E_SHAPE");
    assert_string_equal(clef_status_text(CLEF_E_CANCELLED), "interrupted by the caller");
    assert_string_equal(clef_status_name((clef_status)-1), "?");
    assert_string_equal(clef_status_text(CLEF_N_STATUSES), "?");
    for (int i = 0; i < CLEF_N_STATUSES; i++)
        assert_true(clef_status_name((clef_status)i)[0] && clef_status_text((clef_status)i)[0]);
    assert_int_equal(clef__fail(NULL, CLEF_E_IO, "nowhere %d", 1), CLEF_E_IO);

    clef_error err = {0};
    assert_int_equal(clef__fail_cl(&err, CLEF_E_CL, -5, "x %d", 7), CLEF_E_CL);
    assert_true(err.cl_code == -5 && err.status == CLEF_E_CL);
    clef__fail(&err, CLEF_E_FORMAT, "loading: %s", err.text);
    assert_string_equal(err.text, "loading: x 7");
    assert_int_equal(err.cl_code, 0);
    clef__fail(&err, CLEF_E_FORMAT, "a\x1b[31m\tb\nc\r");
    assert_string_equal(err.text, "a?[31m\tb\nc?");

    static const char *const characters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8e\xbc"};
    for (size_t c = 0; c < 4; c++) {
        char text[2400] = "";
        for (size_t shift = 0; shift < 4; shift++) {
            memset(text, '.', shift);
            text[shift] = 0;
            while (strlen(text) < 2000)
                strcat(text, characters[c]);
            clef__fail(&err, CLEF_E_FORMAT, "%s", text);
            const size_t n = strlen(err.text);
            assert_true(n < sizeof err.text && n + 4 >= sizeof err.text);
            assert_int_equal((n - shift) % strlen(characters[c]), 0);
        }
    }
}

TEST(os_files)
{
    clef_error err = {0};
    clef_mapping map;
    char *text = NULL;
    size_t n = 0;
    const char *path = temp_path("deep/er/file");
    check_error("dirs", clef__os_make_dirs(temp_path("deep/er"), &err), &err, CLEF_OK, "");
    check_error("again", clef__os_make_dirs(temp_path("deep/er"), &err), &err, CLEF_OK, "");
    write_text(path, "");
    check_error("map", clef__os_map(path, &map, &err), &err, CLEF_OK, "");
    assert_true(map.data == NULL && map.n_bytes == 0);
    clef__os_unmap(&map);
    check_error("read", clef__os_read(path, 0, &text, &n, &err), &err, CLEF_OK, "");
    assert_true(n == 0 && text[0] == '\0');
    free(text);

    write_text(path, "twelve bytes");
    check_error("map", clef__os_map(path, &map, &err), &err, CLEF_OK, "");
    assert_true(map.n_bytes == 12 && memcmp(map.data, "twelve bytes", 12) == 0);
    clef__os_unmap(&map);
    assert_null(map.data);
    check_error("read", clef__os_read(path, 12, &text, &n, &err), &err, CLEF_OK, "");
    assert_string_equal(text, "twelve bytes");
    free(text);
    check_error("limit", clef__os_read(path, 11, &text, &n, &err), &err, CLEF_E_LIMIT,
                "deep/er/file: more than 11 bytes");
    assert_null(text);
    check_error("under a file", clef__os_make_dirs(temp_path("deep/er/file/x"), &err), &err, CLEF_E_IO,
                "cannot make the folder");

    clef_os_file *file = NULL;
    check_error("begin", clef__os_file_begin(path, &file, &err), &err, CLEF_OK, "");
    check_error("piece", clef__os_file_write(file, "new", 3, &err), &err, CLEF_OK, "");
    clef__os_file_abort(file);
    clef__os_file_abort(NULL);
    check_error("read", clef__os_read(path, 99, &text, &n, &err), &err, CLEF_OK, "");
    assert_string_equal(text, "twelve bytes");
    free(text);

    assert_true(clef__os_is_file(path) && !clef__os_is_dir(path) && clef__os_is_dir(temp_dir) &&
                !clef__os_is_file(temp_dir));
    clef__os_remove(path);
    clef__os_remove(path);
    assert_false(clef__os_is_file(path));
    check_error("absent", clef__os_read(path, 9, &text, &n, &err), &err, CLEF_E_IO,
                "deep/er/file: cannot open");
    check_error("absent", clef__os_map(path, &map, &err), &err, CLEF_E_IO, "deep/er/file: cannot open");
    check_error("folder", clef__os_read(temp_dir, 9, &text, &n, &err), &err, CLEF_E_IO, "is a folder");
    assert_int_equal(remove(temp_path("deep/er")), 0); /* empty again: nothing temporary was left */
    assert_int_equal(remove(temp_path("deep")), 0);
}

TEST(os_process)
{
    char dir[300], tiny[4];
    const double t = clef__os_seconds();
    assert_true(clef__os_seconds() >= t);
    assert_null(clef__os_env("CLEF_NO_SUCH_VARIABLE"));
    if (clef__os_env("HOME")) {
        assert_true(clef__os_cache_dir(dir, sizeof dir));
        assert_string_equal(dir + strlen(dir) - 5, "/clef");
        assert_false(clef__os_cache_dir(tiny, sizeof tiny));
    }
}

TESTS(make_temp_dir, remove_temp_dir)
