/* Sources that are joined into one: each keeps its constants, macros, types and functions. The device
 * computes with them. Memory may run out at any place. */
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/device/source.h"
#include "tests/check.h"

enum { N_PARTS = 3, N_RESULTS = 7 };

/* 1 in a single work-item where a product and a sum are contracted to one operation: 4097 * 4097 needs 25
 * bits. */
#define CONTRACTS "(4096.0f + get_global_size(0)) * (4096.0f + get_global_size(0)) - 16785408.0f == 1.0f"

/* Every way in which a kernel's source makes a name at file scope. The three parts differ in their constants
 * alone. */
static const char part[] =
    "#ifndef GUARD\n"
    "#define GUARD /* an apostrophe: don't */\n"
    "#define JOIN_(a, b) a##b\n"
    "#define JOIN(a, b) JOIN_(a, b)\n"
    "enum { FIRST = A,\n"
    "#if A == 3\n"
    "    BETWEEN = (int)FIRST\n"
    "#else\n"
    "    BETWEEN_OTHERS\n"
    "#endif\n"
    "    , SECOND = FIRST + 1 };\n"
    "enum { THIRD,\n"
    "#if A == 3\n"
    "    FOURTH = 4,\n"
    "#endif\n"
    "    FIFTH };\n"
    "#if A == 1\n"
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#endif\n"
    "#define LIST(X) X(one) X(two)\n"
    "#define ENUMERATE(name) KIND_##name,\n"
    "enum kinds { LIST(ENUMERATE) KINDS = 10 * A };\n"
    "typedef struct pair { int x, y; } pair;\n"
    "#if A > 1\n"
    "static inline int twice(int x) { return 2 * x; }\n"
    "#else\n"
    "#define twice(x) \\\n"
    "    ((x) + (x))\n"
    "#endif\n"
    "typedef float elem_0;\n"
    "typedef int elem_1;\n"
    "#define ELEM(type) JOIN(elem_, type)\n"
    "#define DEFINE_ADD(N) static int add_##N(int x) { return x + N; }\n"
    "DEFINE_ADD(4)\n"
    "DEFINE_ADD(5)\n"
    "#define DEFINE_NAMED(name, by) static int name(int x) { return x * by; }\n"
    "DEFINE_NAMED(scaled, A)\n"
    "static int q_16(int x) { return x + A; }\n"
    "#define CALL(name, x) name##_16(x)\n"
    "static int later(int x);\n"
    "constant int table[2] = {A, A + 1}, other = 3;\n"
    "constant float limit = FLT_MAX;\n"
    "#if A == 2\n"
    "constant int most = INT_MAX, least =\n"
    "#else\n"
    "constant int most = A, least =\n"
    "#endif\n"
    "    INT_MIN;\n"
    "#if A == 2\n"
    "static int branch(int x)\n"
    "{\n"
    "#else\n"
    "static int branch(int x)\n"
    "{\n"
    "    x++;\n"
    "#endif\n"
    "    return x;\n"
    "}\n"
    "static int later(int x) { pair p = {x, SECOND}; return p.x + p.y + KINDS + KIND_two; }\n"
    "#endif\n"
    "#define ENTRY_OF(i) fused_stage_##i\n"
    "#define ENTRY(i) ENTRY_OF(i)\n"
    "void ENTRY(STAGE)(global int *out);\n"
    "void ENTRY(STAGE)(global int *out)\n"
    "{\n"
    "    const ELEM(TYPE) half_of_seven = (ELEM(TYPE))7 / 2;\n"
    "    out[0] = later(0);\n"
    "    out[1] = twice(FIRST) + add_4(1) + JOIN(add_, 5)(1);\n"
    "    out[2] = scaled(10) + CALL(q, 1);\n"
    "    out[3] = table[1] + other + branch(10);\n"
    "    out[4] = (int)(half_of_seven * 10);\n"
    "    out[5] = FIFTH + (limit == FLT_MAX) + (most == INT_MAX) + (least == INT_MIN);\n"
    "    out[6] = " CONTRACTS ";\n"
    "}\n";

static const char driver[] = "void fused_stage_0(global int *out);\n"
                             "void fused_stage_1(global int *out);\n"
                             "void fused_stage_2(global int *out);\n"
                             "#define GUARD 7\n"
                             "static int later(int x) { return x + WIDTH + GUARD - 7; }\n"
                             "kernel void joined(global int *got)\n"
                             "{\n"
                             "    fused_stage_0(got);\n"
                             "    fused_stage_1(got + later(2));\n"
                             "    fused_stage_2(got + later(9));\n"
                             "    got[later(16)] = " CONTRACTS ";\n"
                             "}\n";
/* What a source without a pragma does. */
static const char alone[] = "kernel void contracts(global int *got) { *got = " CONTRACTS "; }\n";

static clef_status try_to_join(char **text, size_t *n, clef_error *err)
{
    const clef_unit units[N_PARTS + 1] = {
        {part, sizeof part - 1, "-cl-std=CL1.2 -D A=1 -D TYPE=0 -D STAGE=0"},
        {part, sizeof part - 1, "-cl-std=CL1.2 -D A=2 -D TYPE=1 -D STAGE=1"},
        {part, sizeof part - 1, "-cl-std=CL1.2 -D A=3 -D TYPE=0 -D STAGE=2"},
        {driver, sizeof driver - 1, "-cl-std=CL1.2 -D WIDTH=5"}};
    return clef__source_join(units, N_PARTS + 1, text, n, err);
}

static char *join(void)
{
    clef_error err = {0};
    char *text = NULL;
    size_t n = 0;
    if (try_to_join(&text, &n, &err))
        fail_msg("%s", err.text);
    assert_int_equal(strlen(text), n);
    return text;
}

/* Fills want with what each part writes: A is its number plus 1. */
static void expected(int32_t want[N_PARTS][N_RESULTS], int32_t contracts)
{
    for (int32_t i = 0; i < N_PARTS; i++) {
        const int32_t a = i + 1;
        want[i][0] = a + 1 + 10 * a + 1;
        want[i][1] = 2 * a + 5 + 6;
        want[i][2] = 10 * a + 1 + a;
        want[i][3] = a + 1 + 3 + (a == 2 ? 10 : 11);
        want[i][4] = a == 2 ? 30 : 35;
        want[i][5] = (a == 3 ? 5 : 1) + 1 + (a == 2) + 1;
        want[i][6] = a == 1 ? 0 : contracts;
    }
}

/* Runs a source's kernel in one work-item. */
static void run(clef_device *dev, const char *text, const char *name, int32_t *got, size_t n_bytes)
{
    char log[4096] = "";
    cl_int code[4];
    const cl_program program = clCreateProgramWithSource(dev->context, 1, &text, NULL, &code[0]);
    code[1] = clBuildProgram(program, 1, &dev->id, "-cl-std=CL1.2", NULL, NULL);
    clGetProgramBuildInfo(program, dev->id, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
    if (code[0] || code[1])
        fail_msg("does not build: %s", log);
    const cl_kernel kernel = clCreateKernel(program, name, &code[0]);
    const cl_mem mem = clCreateBuffer(dev->context, CL_MEM_READ_WRITE, n_bytes, NULL, &code[1]);
    const size_t once = 1;
    assert_int_equal(clSetKernelArg(kernel, 0, sizeof mem, &mem), CL_SUCCESS);
    code[2] = clEnqueueNDRangeKernel(dev->queue, kernel, 1, NULL, &once, &once, 0, NULL, NULL);
    code[3] = clEnqueueReadBuffer(dev->queue, mem, CL_TRUE, 0, n_bytes, got, 0, NULL, NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(code[i], CL_SUCCESS);
    clReleaseMemObject(mem);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

static void test_computes(void **state)
{
    (void)state;
    clef_error err = {0};
    clef_device *dev;
    int32_t want[N_PARTS][N_RESULTS], got[N_PARTS * N_RESULTS + 1] = {0}, contracts = -1;
    const clef_status s = clef_device_open(NULL, &(clef_device_opts){.cache_dir = ""}, &dev, &err);
    if (s == CLEF_E_DEVICE)
        skip();
    if (s)
        fail_msg("%s", err.text);
    char *text = join();
    run(dev, text, "joined", got, sizeof got);
    run(dev, alone, "contracts", &contracts, sizeof contracts);
    expected(want, contracts);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(got[N_PARTS * N_RESULTS], contracts);
    free(text);
    clef_device_close(dev);
}

/* Joins a source with n levels of #if to another. */
static clef_status join_nested(int n, char **text, clef_error *err)
{
    char nested[1024] = "";
    size_t n_bytes = 0;
    for (int i = 0; i < n; i++)
        strcat(nested, "#if 1\n");
    for (int i = 0; i < n; i++)
        strcat(nested, "#endif\n");
    const clef_unit units[2] = {{nested, strlen(nested), ""}, {alone, sizeof alone - 1, ""}};
    return clef__source_join(units, 2, text, &n_bytes, err);
}

static void test_nests_too_deep(void **state)
{
    (void)state;
    clef_error err = {0};
    char *text = NULL;
    assert_int_equal(join_nested(32, &text, &err), CLEF_OK);
    free(text);
    assert_int_equal(join_nested(33, &text, &err), CLEF_E_LIMIT);
    assert_string_equal(err.text, "kernel sources to be joined: #if is nested more than 32 deep");
    assert_null(text);
}

/* ---- memory that runs out ------------------------------------------------------------------------ */

#ifdef CLEF_LINKER_WRAPS
static int n_allocations, fail_allocation;

/* The linker gives every call of realloc to it (tests/CMakeLists.txt). */
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_realloc(void *p, size_t n)
{
    return ++n_allocations == fail_allocation ? NULL : __real_realloc(p, n);
}

static void test_no_memory(void **state)
{
    (void)state;
    char *expected_text = join();
    for (int i = 1;; i++) {
        clef_error err = {0};
        char untouched, *text = &untouched;
        size_t n = 1;
        n_allocations = 0;
        fail_allocation = i;
        const clef_status s = try_to_join(&text, &n, &err);
        fail_allocation = 0;
        if (n_allocations < i) {
            assert_true(i > 2 * (N_PARTS + 1)); /* the names of each source, and the text */
            assert_int_equal(s, CLEF_OK);
            assert_string_equal(text, expected_text);
            free(text);
            break;
        }
        assert_int_equal(s, CLEF_E_NOMEM);
        assert_string_equal(err.text, "no memory for the text of 4 sources");
        assert_null(text);
        assert_int_equal(n, 0);
    }
    free(expected_text);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_computes),
        cmocka_unit_test(test_nests_too_deep),
#ifdef CLEF_LINKER_WRAPS
        cmocka_unit_test(test_no_memory),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
