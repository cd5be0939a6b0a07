/* The texts of programs (runtime/device/program_text.h): which form a launch gets, and that PoCL gets the
 * form that compiles fastest. That both forms compute the same is up to test_ops (ops_N and ops_plain). */
#include <stdlib.h>
#include <string.h>

#include "runtime/device/program_text.h"
#include "tests/check.h"
#include "tests/run_graph.h"

static const clef_launch pack = {.source = "pack", .kernel = "pack", .n_bufs = 2};

static char *text_of(const clef_device *dev, const clef_launch *launch)
{
    char *text = NULL;
    size_t n = 0;
    clef_error err = {0};
    if (clef__program_text(dev, launch, clef__has_whole_body(dev, launch), &text, &n, &err))
        fail_msg("%s", err.text);
    assert_int_equal(strlen(text), n);
    return text;
}

static void has(const char *text, const char *part, int wanted)
{
    if (!strstr(text, part) != !wanted)
        fail_msg("expected a text %s '%s'", wanted ? "with" : "without", part);
}

TEST(forms)
{
    for (int form = 0; form < 4; form++) {
        const clef_device dev = {.info.caps = {.own_builtins = form & 1, .whole_body = form >> 1}};
        char *text = text_of(&dev, &pack), options[CLEF__TEXT_OPTIONS];
        clef__text_options(&dev, pack.c_version, clef__has_whole_body(&dev, &pack), options);
        has(text, "__attribute__((overloadable, const)) size_t get_group_id(uint);", form & 1);
        has(text, "atomic_xchg(", 0);
        has(text, "/*", 0);
        has(options, "_OPENCL_H_", form & 1);
        has(text, "kernel void pack(const pack_args a, global void *b0, global void *b1)", form >> 1);
        has(options, "WHOLE_BODY", form >> 1);
        free(text);
    }
}

/* Kernels of several work-items, in a later OpenCL C, or without a row in substeps.def stay as they are. */
TEST(other_kernels)
{
    const clef_device dev = {.info.caps = {.own_builtins = 1, .whole_body = 1}};
    clef_launch wide = pack, later = pack, unknown = pack;
    char options[CLEF__TEXT_OPTIONS];
    wide.local[0] = 64;
    later.c_version = 30;
    unknown.kernel = "unpack";
    assert_true(clef__has_whole_body(&dev, &pack));
    assert_false(clef__has_whole_body(&dev, &wide));
    assert_false(clef__has_whole_body(&dev, &later));
    assert_false(clef__has_whole_body(&dev, &unknown));
    clef__text_options(&dev, later.c_version, 0, options);
    assert_string_equal(options, "");
}

/* Without this, a mistake in builtins.def or cl/inline.h would only make all programs compile slowly. */
TEST(pocl)
{
    clef_device *dev = test_device();
    assert_non_null(dev);
    const clef_device_info *info = clef_device_describe(dev);
    if (strcmp(info->platform_name, "Portable Computing Language") == 0 && info->caps.is_cpu) {
        assert_true(info->caps.own_builtins);
        assert_true(info->caps.whole_body);
    }
    clef_device_close(dev);
}

TESTS(NULL, NULL)
