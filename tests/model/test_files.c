/* The file formats alone: GGUF and safetensors, malformed and good; and runtime/os/os.h, on which they
 * stand. */
#define TEST_NAME "test-files"
#include "tests/files.h"

#include "model/file/gguf.h"
#include "model/file/safetensors.h"

/* ---- GGUF ------------------------------------------------------------------------------------ */

#define HEAD(tensors, keys) "t:GGUF 4:3 8:" tensors " 8:" keys " "
#define U32(key, value) "s:" key " 4:4 4:" value " "
#define TENSOR(name, type, rank, dims, offset) "s:" name " 4:" rank " " dims " 4:" type " 8:" offset " "

/* Every value type, an array of numbers and one of strings, four tensors of four dtypes. */
static const char good_gguf[] =
    HEAD("4", "15") "s:a.u8 4:0 1:200 s:a.i8 4:1 1:-5 s:a.u16 4:2 2:60000 s:a.i16 4:3 2:-300 s:a.u32 4:4 "
                    "4:4000000000 s:a.i32 4:5 4:-7 "
                    "s:a.f32 4:6 f:1.5 s:a.bool 4:7 1:1 s:a.str 4:8 s:text s:a.u64 4:10 "
                    "8:18446744073709551615 s:a.i64 4:11 8:-9 s:a.f64 "
                    "4:12 8:0x4004000000000000 "
                    "s:a.ints 4:9 4:5 8:3 4:1 4:-2 4:3 s:a.words 4:9 4:8 8:2 s:one s: s:general.alignment "
                    "4:4 4:64 " TENSOR("f", "0", "2", "8:3 8:2", "0") TENSOR("q", "8", "2", "8:64 8:2", "64")
                        TENSOR("h", "1", "1", "8:5", "256")
                            TENSOR("i", "26", "0", "",
                                   "320") "p:64 f:1 f:2 f:3 f:4 f:5 f:6 p:64 z:136 p:64 z:10 p:64 4:77";

static const struct {
    const char *spec;
    clef_status status;
    const char *piece;
} bad_gguf[] = {
    {"", CLEF_E_FORMAT, "the magic"},
    {"t:GGU", CLEF_E_FORMAT, "the magic takes 4 bytes, 3 remain"},
    {"t:GGML 4:3 8:0 8:0", CLEF_E_FORMAT, "expected \"GGUF\""},
    {"t:GGUF 4:1 8:0 8:0", CLEF_E_UNSUPPORTED, "version 1"},
    {"t:GGUF 4:4 8:0 8:0", CLEF_E_UNSUPPORTED, "version 4"},
    {"t:GGUF 4:0 8:0 8:0", CLEF_E_UNSUPPORTED, "version 0"},
    {"t:GGUF 4:0x03000000 8:0 8:0", CLEF_E_UNSUPPORTED, "big-endian"},
    {"t:GGUF 4:3 8:0", CLEF_E_FORMAT, "the key count"},
    {"t:GGUF 4:3", CLEF_E_FORMAT, "the tensor count"},
    {HEAD("0", "1"), CLEF_E_FORMAT, "1 keys"},
    {HEAD("0", "0xFFFFFFFFFFFFFFFF"), CLEF_E_FORMAT, "18446744073709551615 keys"},
    {HEAD("0", "0x4000000000000001") "z:64", CLEF_E_FORMAT, "keys of at least"},
    {HEAD("0xFFFFFFFFFFFFFFFF", "0"), CLEF_E_FORMAT, "18446744073709551615 tensors"},
    {HEAD("0x0400000000000001", "0") "z:64", CLEF_E_FORMAT, "tensors of at least"},
    {HEAD("0", "1") "8:0 4:4 4:1 z:8", CLEF_E_FORMAT, "key of 0 bytes"},
    {HEAD("0", "1") "8:0xFFFFFFFFFFFFFFFF t:abcdefgh z:8", CLEF_E_FORMAT,
     "a key takes 18446744073709551615 bytes"},
    {HEAD("0", "1") "8:99 t:abc 4:4 4:1", CLEF_E_FORMAT, "a key takes 99 bytes"},
    {HEAD("0", "1") "s:a\nb 4:4 4:1", CLEF_E_FORMAT, "control characters"},
    {HEAD("0", "1") "8:3 t:a 1:0 t:b 4:4 4:1", CLEF_E_FORMAT, "control characters"},
    {HEAD("0", "1") "s:key 4:13 4:1", CLEF_E_FORMAT, "key has value type 13"},
    {HEAD("0", "1") "s:key 4:-1 4:1", CLEF_E_FORMAT, "value type 4294967295"},
    {HEAD("0", "1") "s:key 4:10 4:1", CLEF_E_FORMAT, "a value takes 8 bytes, 4 remain"},
    {HEAD("0", "1") "s:key 4:7 1:2", CLEF_E_FORMAT, "key is the bool 2"},
    {HEAD("0", "1") "s:key 4:9 4:7 8:3 1:0 1:1 1:9", CLEF_E_FORMAT, "key is the bool 9"},
    {HEAD("0", "1") "s:key 4:8 8:5 t:abc", CLEF_E_FORMAT, "a string takes 5 bytes, 3 remain"},
    {HEAD("0", "1") "s:key 4:8 8:0x8000000000000000 t:abc", CLEF_E_FORMAT, "a string takes"},
    {HEAD("0", "1") "s:key 4:9 4:9 8:1 4:4 8:0", CLEF_E_UNSUPPORTED, "key is an array of arrays"},
    {HEAD("0", "1") "s:key 4:9 4:44 8:1 4:4", CLEF_E_FORMAT, "value type 44"},
    {HEAD("0", "1") "s:key 4:9 4:4 8:3 4:1 4:2", CLEF_E_FORMAT, "3 array items"},
    {HEAD("0", "1") "s:key 4:9 4:4 8:0x4000000000000001 4:1", CLEF_E_FORMAT, "array items"},
    {HEAD("0", "1") "s:key 4:9 4:12 8:0x2000000000000001 8:1", CLEF_E_FORMAT, "array items"},
    {HEAD("0", "1") "s:key 4:9 4:8 8:0x1000000000000001 8:1", CLEF_E_FORMAT, "strings of at least 8"},
    {HEAD("0", "1") "s:key 4:9 4:8 8:2 s:a 8:99 t:b", CLEF_E_FORMAT, "a string takes 99 bytes"},
    {HEAD("0", "2") U32("key", "1") U32("key", "2"), CLEF_E_FORMAT, "key key occurs twice"},
    {HEAD("0", "1") U32("general.alignment", "0"), CLEF_E_FORMAT, "general.alignment is 0"},
    {HEAD("0", "1") U32("general.alignment", "1"), CLEF_E_FORMAT, "general.alignment is 1, expected a power"},
    {HEAD("0", "1") U32("general.alignment", "48"), CLEF_E_FORMAT, "general.alignment is 48"},
    {HEAD("0", "1") "s:general.alignment 4:5 4:-32", CLEF_E_FORMAT, "general.alignment is -32"},
    {HEAD("0", "1") "s:general.alignment 4:8 s:32", CLEF_E_FORMAT, "general.alignment is 0"},
    {HEAD("1", "1") "s:general.alignment 4:10 8:0x4000000000000000 " TENSOR("t", "0", "1", "8:1",
                                                                            "0") "p:32 z:4",
     CLEF_E_FORMAT, "before its tensors' data"},
    {HEAD("1", "0") "8:0 4:1 8:1 4:0 8:0 p:32 z:4", CLEF_E_FORMAT, "tensor name of 0 bytes"},
    {HEAD("1", "0") TENSOR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "0", "1",
                           "8:1", "0") "p:32 z:4",
     CLEF_E_FORMAT, "tensor name of 65 bytes"},
    {HEAD("1", "0") "8:2 t:a 1:0 4:1 8:1 4:0 8:0 p:32 z:4", CLEF_E_FORMAT, "control characters"},
    {HEAD("1", "0") TENSOR("t", "0", "5", "8:1 8:1 8:1 8:1 8:1", "0") "p:32 z:4", CLEF_E_FORMAT,
     "tensor t has 5 dims"},
    {HEAD("1", "0") TENSOR("t", "0", "0xFFFFFFFF", "8:1", "0") "p:32 z:4", CLEF_E_FORMAT,
     "tensor t has 4294967295 dims"},
    {HEAD("1", "0") TENSOR("t", "0", "2", "8:4 8:0", "0") "p:32 z:4", CLEF_E_FORMAT,
     "tensor t has a dim of 0"},
    {HEAD("1", "0") TENSOR("t", "0", "1", "8:-1", "0") "p:32 z:4", CLEF_E_FORMAT,
     "tensor t has a dim of 18446744073709551615"},
    {HEAD("1", "0") TENSOR("t", "0", "2", "8:0x100000000 8:0x100000000", "0") "p:32 z:4", CLEF_E_FORMAT,
     "tensor t: the product"},
    {HEAD("1", "0") TENSOR("t", "0", "1", "8:0x4000000000000000", "0") "p:32 z:4", CLEF_E_FORMAT,
     "tensor t: the product"},
    {HEAD("1", "0") TENSOR("t", "0", "4", "8:0x8000 8:0x8000 8:0x8000 8:0x7fff", "0") "p:32 z:4",
     CLEF_E_FORMAT, "tensor t has"},
    {HEAD("1", "0") TENSOR("t", "8", "1", "8:33", "0") "p:32 z:64", CLEF_E_FORMAT, "tensor t has rows of 33"},
    {HEAD("1", "0") TENSOR("t", "2", "0", "", "0") "p:32 z:64", CLEF_E_FORMAT, "tensor t has rows of 1"},
    {HEAD("1", "0") TENSOR("t", "15", "1", "8:256", "0") "p:32 z:292", CLEF_E_UNSUPPORTED,
     "tensor t has type 15 (q8_K), supported are: f32"},
    {HEAD("1", "0") TENSOR("t", "4", "1", "8:32", "0") "p:32 z:144", CLEF_E_UNSUPPORTED,
     "tensor t has type 4 (unknown to ggml)"},
    {HEAD("1", "0") TENSOR("t", "-1", "1", "8:32", "0") "p:32 z:144", CLEF_E_UNSUPPORTED,
     "tensor t has type 4294967295"},
    {HEAD("1", "0") TENSOR("t", "0", "1", "8:9", "0") "p:32 z:35", CLEF_E_FORMAT,
     "tensor t has 36 bytes at offset 0 of the data, which has 35"},
    {HEAD("1", "0") TENSOR("t", "0", "1", "8:1", "64") "p:32 z:64", CLEF_E_FORMAT,
     "tensor t has 4 bytes at offset 64"},
    {HEAD("1", "0") TENSOR("t", "0", "1", "8:1", "0xFFFFFFFFFFFFFFE0") "p:32 z:64", CLEF_E_FORMAT,
     "tensor t has 4 bytes at offset"},
    {HEAD("1", "0") TENSOR("t", "0", "1", "8:1", "4") "p:32 z:64", CLEF_E_FORMAT, "tensor t is at offset 4"},
    {HEAD("1", "0") TENSOR("t", "0", "1", "8:1", "0"), CLEF_E_FORMAT, "before its tensors' data"},
    {HEAD("2", "0") TENSOR("t", "0", "1", "8:1", "0") TENSOR("t", "0", "1", "8:1", "0") "p:32 z:64",
     CLEF_E_FORMAT, "tensor t occurs twice"},
};

static void gguf_malformed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_gguf / sizeof *bad_gguf; i++) {
        blob b = {.n = 0};
        assemble(&b, bad_gguf[i].spec);
        void *data = exact(b.p, b.n);
        clef_gguf g;
        clef_error err = {0};
        const clef_status status = clef__gguf_parse(data, b.n, "bad.gguf", &g, &err);
        check_error(bad_gguf[i].spec, status, &err, bad_gguf[i].status, bad_gguf[i].piece);
        assert_non_null(strstr(err.text, "bad.gguf: "));
        assert_null(g.entries);
        free(data);
    }
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

static void gguf_good(void **state)
{
    (void)state;
    blob b = {.n = 0};
    assemble(&b, good_gguf);
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

static void gguf_cut_and_changed(void **state)
{
    (void)state;
    blob b = {.n = 0};
    assemble(&b, good_gguf);
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

#define PART(no, count, total)                                                                               \
    "s:split.no 4:2 2:" no " s:split.count 4:2 2:" count " s:split.tensors.count 4:5 4:" total " "
#define PART_1                                                                                               \
    HEAD("1", "4") PART("0", "3", "3") "s:key 4:8 s:text " TENSOR("a", "0", "1", "8:1", "0") "p:32 f:1"
#define PART_2 HEAD("1", "3") PART("1", "3", "3") TENSOR("b", "0", "1", "8:1", "0") "p:32 f:2"
#define PART_3 HEAD("1", "3") PART("2", "3", "3") TENSOR("c", "0", "1", "8:1", "0") "p:32 f:3"

static const char *const part_names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                         "m-00003-of-00003.gguf"};

static void write_parts(const char *const specs[3])
{
    for (int i = 0; i < 3; i++) {
        blob b = {.n = 0};
        const char *path = temp_path(part_names[i]);
        remove(path);
        if (!specs[i])
            continue;
        assemble(&b, specs[i]);
        write_file(path, b.p, b.n);
    }
}

static void gguf_parts(void **state)
{
    (void)state;
    write_parts((const char *const[]){PART_1, PART_2, PART_3});
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

static void gguf_parts_refused(void **state)
{
    (void)state;
    static const struct {
        const char *what, *parts[3];
        int opened;
        clef_status status;
        const char *piece;
    } rows[] = {
        {"missing",
         {PART_1, NULL, PART_3},
         0,
         CLEF_E_NOT_FOUND,
         "m-00002-of-00003.gguf: is missing, part 2 of 3"},
        {"the first is missing",
         {NULL, PART_2, PART_3},
         2,
         CLEF_E_NOT_FOUND,
         "m-00001-of-00003.gguf: is missing, part 1 of 3"},
        {"twice",
         {PART_1, PART_3, PART_3},
         0,
         CLEF_E_FORMAT,
         "m-00002-of-00003.gguf: is part 3 of 3 by its keys split.no and split.count, expected part 2 of 3"},
        {"of four",
         {PART_1, PART_2, HEAD("1", "3") PART("2", "4", "3") TENSOR("c", "0", "1", "8:1", "0") "p:32 f:3"},
         0,
         CLEF_E_FORMAT,
         "is part 3 of 4 by its keys"},
        {"of another file",
         {PART_1, PART_2, HEAD("1", "3") PART("2", "3", "9") TENSOR("c", "0", "1", "8:1", "0") "p:32 f:3"},
         0,
         CLEF_E_FORMAT,
         "split.tensors.count is 9, expected 3"},
        {"a tensor in two",
         {PART_1, PART_2, HEAD("1", "3") PART("2", "3", "3") TENSOR("a", "0", "1", "8:1", "0") "p:32 f:3"},
         0,
         CLEF_E_FORMAT,
         "tensor a is in "},
        {"too few tensors",
         {PART_1, PART_2, HEAD("0", "3") PART("2", "3", "3")},
         0,
         CLEF_E_FORMAT,
         "have 2 tensors, expected 3"},
        {"not a part", {PART_1, PART_2, HEAD("0", "0")}, 1, CLEF_E_FORMAT, "is part 0 of -1"},
        {"another name",
         {PART_2, NULL, NULL},
         0,
         CLEF_E_FORMAT,
         "is part 2 of 3 of a split file, expected a name that ends with -00002-of-00003.gguf"},
        {"too many parts",
         {HEAD("0", "3") PART("0", "60000", "3"), NULL, NULL},
         0,
         CLEF_E_FORMAT,
         "split.count 60000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clef_gguf g;
        clef_error err = {0};
        write_parts(rows[i].parts);
        check_error(rows[i].what, clef__gguf_open(temp_path(part_names[rows[i].opened]), &g, &err), &err,
                    rows[i].status, rows[i].piece);
        assert_true(!g.entries && !g.tensors && !g.more);
    }
    write_parts((const char *const[]){NULL, NULL, NULL});
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

static const struct {
    const char *header;
    size_t n_data;
    clef_status status;
    const char *piece;
} bad_safetensors[] = {
    {"[]", 0, CLEF_E_FORMAT, "does not begin with '{'"},
    {"", 0, CLEF_E_FORMAT, "does not begin with '{'"},
    {"{", 0, CLEF_E_FORMAT, "does not begin with '{'"},
    {"{}}", 0, CLEF_E_FORMAT, "line 1"},
    {"{\"a\":", 0, CLEF_E_FORMAT, "line 1"},
    {"{\"a\":\"\xff\"}", 0, CLEF_E_FORMAT, "line 1"},
    {"{} ", 1, CLEF_E_FORMAT, "cover 0 of the 1 bytes"},
    {"{\"a\":1}", 0, CLEF_E_FORMAT, "tensor a is an integer"},
    {"{\"\":{}}", 0, CLEF_E_FORMAT, "name is empty"},
    {"{\"a\\u0007\":{}}", 0, CLEF_E_FORMAT, "control characters"},
    {"{\"a\\u0000b\":{}}", 0, CLEF_E_FORMAT, "line 1"},
    {"{\"__metadata__\":3}", 0, CLEF_E_FORMAT, "__metadata__ is an integer"},
    {"{\"__metadata__\":{\"k\":3}}", 0, CLEF_E_FORMAT, "__metadata__.k is an integer"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, CLEF_E_FORMAT, "tensor a: dtype is nothing"},
    {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, CLEF_E_FORMAT,
     "tensor a: dtype is an integer"},
    {"{" T("a", "F7", "[1]", "[0,4]") "}", 4, CLEF_E_UNSUPPORTED, "tensor a has dtype F7"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, CLEF_E_FORMAT, "tensor a: shape is nothing"},
    {"{" T("a", "F32", "4", "[0,4]") "}", 4, CLEF_E_FORMAT, "tensor a: shape is an integer"},
    {"{" T("a", "F32", "[1,1,1,1,1]", "[0,4]") "}", 4, CLEF_E_UNSUPPORTED, "tensor a has 5 dims"},
    {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, CLEF_E_FORMAT, "tensor a: dim 0 is negative"},
    {"{" T("a", "F32", "[1.0]", "[0,4]") "}", 4, CLEF_E_FORMAT, "tensor a: dim 0 is a fraction"},
    {"{" T("a", "F32", "[1e3]", "[0,4]") "}", 4, CLEF_E_FORMAT, "tensor a: dim 0 is a fraction"},
    {"{" T("a", "F32", "[18446744073709551617]", "[0,4]") "}", 4, CLEF_E_FORMAT, "too big integer"},
    {"{" T("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4, CLEF_E_FORMAT, "tensor a: the product"},
    {"{" T("a", "F32", "[4611686018427387904]", "[0,0]") "}", 0, CLEF_E_FORMAT, "tensor a: the product"},
    {"{" T("a", "F32", "[0,4294967296,4294967296]", "[0,0]") "}", 0, CLEF_E_FORMAT, "tensor a: the product"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, CLEF_E_FORMAT, "tensor a: data_offsets is nothing"},
    {"{" T("a", "F32", "[1]", "[0]") "}", 4, CLEF_E_FORMAT, "tensor a: data_offsets is another array"},
    {"{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, CLEF_E_FORMAT, "tensor a: data_offsets is another array"},
    {"{" T("a", "F32", "[1]", "[\"0\",4]") "}", 4, CLEF_E_FORMAT, "tensor a: data_offsets is another array"},
    {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, CLEF_E_FORMAT, "tensor a: data_offsets are 4 to 0"},
    {"{" T("a", "F32", "[1]", "[-4,0]") "}", 4, CLEF_E_FORMAT, "tensor a: data_offsets are -4 to 0"},
    {"{" T("a", "F32", "[1]", "[0,5]") "}", 4, CLEF_E_FORMAT,
     "tensor a: data_offsets are 0 to 5, the data has 4"},
    {"{" T("a", "F32", "[1]", "[9223372036854775803,9223372036854775807]") "}", 4, CLEF_E_FORMAT,
     "tensor a: data_offsets are"},
    {"{" T("a", "F32", "[2]", "[0,4]") "}", 4, CLEF_E_FORMAT,
     "tensor a: data_offsets span 4 bytes, its shape needs 8"},
    {"{" T("a", "F16", "[2]", "[0,8]") "}", 8, CLEF_E_FORMAT,
     "tensor a: data_offsets span 8 bytes, its shape needs 4"},
    {"{" T("a", "F32", "[1]", "[0,4]") "}", 8, CLEF_E_FORMAT, "cover 4 of the 8 bytes"},
    {"{" T("a", "F32", "[1]", "[4,8]") "}", 8, CLEF_E_FORMAT, "tensor a begins at 4 of the data, expected 0"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[0,4]") "}", 4, CLEF_E_FORMAT,
     "tensor b begins at 0"},
    {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[4,12]") "}", 12, CLEF_E_FORMAT,
     "tensor b begins at 4"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8, CLEF_E_FORMAT, "duplicate"},
};

static void safetensors_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *piece;
    } raw[] = {
        {"", "has 0 bytes"},
        {"z:7", "has 7 bytes"},
        {"8:100000001 t:{}", "100000001 bytes, expected at most 100000000"},
        {"8:0xFFFFFFFFFFFFFFFF t:{}", "18446744073709551615 bytes, expected at most"},
        {"8:3 t:{}", "3 bytes, 2 remain"},
        {"8:2 1:0 t:{}", "does not begin with '{'"},
    };
    clef_safetensors st;
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        blob b = {.n = 0};
        clef_error err = {0};
        assemble(&b, raw[i].spec);
        void *data = exact(b.p, b.n);
        check_error(raw[i].spec, clef__safetensors_parse(data, b.n, "bad.st", &st, &err), &err, CLEF_E_FORMAT,
                    raw[i].piece);
        free(data);
    }
    for (size_t i = 0; i < sizeof bad_safetensors / sizeof *bad_safetensors; i++) {
        blob b = {.n = 0};
        clef_error err = {0};
        put_safetensors(&b, bad_safetensors[i].header, bad_safetensors[i].n_data);
        void *data = exact(b.p, b.n);
        const clef_status status = clef__safetensors_parse(data, b.n, "bad.st", &st, &err);
        check_error(bad_safetensors[i].header, status, &err, bad_safetensors[i].status,
                    bad_safetensors[i].piece);
        assert_non_null(strstr(err.text, "bad.st: "));
        assert_null(st.tensors);
        free(data);
    }
    char deep[400] = "{\"a\":";
    memset(deep + 5, '[', 300);
    blob b = {.n = 0};
    clef_error err = {0};
    put_safetensors(&b, deep, 0);
    check_error("deep", clef__safetensors_parse(b.p, b.n, "bad.st", &st, &err), &err, CLEF_E_FORMAT,
                "nest deeper than 64");
}

static void safetensors_cut_and_changed(void **state)
{
    (void)state;
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

static void tensor_file_round_trip(void **state)
{
    (void)state;
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

static void tensor_file_other_dtypes(void **state)
{
    (void)state;
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

static void tensor_file_write_refuses(void **state)
{
    (void)state;
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

static void errors(void **state)
{
    (void)state;
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

static void os_files(void **state)
{
    (void)state;
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

static void os_process(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_malformed),
        cmocka_unit_test(gguf_good),
        cmocka_unit_test(gguf_cut_and_changed),
        cmocka_unit_test(gguf_parts),
        cmocka_unit_test(gguf_parts_refused),
        cmocka_unit_test(safetensors_malformed),
        cmocka_unit_test(safetensors_cut_and_changed),
        cmocka_unit_test(tensor_file_round_trip),
        cmocka_unit_test(tensor_file_other_dtypes),
        cmocka_unit_test(tensor_file_write_refuses),
        cmocka_unit_test(errors),
        cmocka_unit_test(os_files),
        cmocka_unit_test(os_process),
    };
    return cmocka_run_group_tests(tests, make_temp_dir, remove_temp_dir);
}
