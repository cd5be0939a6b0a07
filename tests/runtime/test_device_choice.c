/* Which device clef takes where none is named: machines as their drivers describe them. The first is to be
 * taken, whatever the order in which the loader lists them. */
#include <string.h>

#include "runtime/device/device_find.h"
#include "tests/check.h"

enum { CPU = CL_DEVICE_TYPE_CPU, GPU = CL_DEVICE_TYPE_GPU, MOST = 4 };

typedef struct row {
    const char *name;
    int32_t type, units, mhz, shares_memory, mib, opencl;
    const char *card;
} row;

static const row machines[][MOST] = {
    {{"RTX 4060 Laptop", GPU, 24, 2370, 0, 8188, 30, "0000:01:00.0"},
     {"Iris Xe", GPU, 96, 1300, 1, 25400, 30, ""}},
    {{"Arc A770", GPU, 512, 2400, 0, 15474, 30, "0000:03:00.0"},
     {"UHD 770", GPU, 32, 1650, 1, 51000, 30, "0000:00:02.0"},
     {"i9-13900K", CPU, 32, 5800, 1, 64000, 30, ""}},
    {{"gfx1100 by ROCm", GPU, 48, 2371, 0, 24560, 21, "0000:0c:00.0"},
     {"gfx1036 by ROCm", GPU, 1, 2200, 1, 31000, 21, "0000:1a:00.0"}},
    {{"RX 7900 XTX by rusticl", GPU, 96, 2371, 0, 24560, 30, "0000:0c:00.0"},
     {"RX 7900 XTX by Clover", GPU, 96, 2371, 0, 24576, 11, "0000:0c:00.0"}},
    {{"RTX 3090", GPU, 82, 1695, 0, 24268, 30, "0000:01:00.0"},
     {"RTX 2060", GPU, 30, 1755, 0, 5926, 30, "0000:02:00.0"}},
    {{"Tesla P40", GPU, 30, 1531, 0, 24451, 30, "0000:04:00.0"},
     {"GTX 1080", GPU, 20, 1733, 0, 8119, 30, "0000:03:00.0"}},
    {{"Radeon 680M", GPU, 6, 2200, 1, 14000, 20, "0000:e3:00.0"},
     {"Ryzen 7 6800H by PoCL", CPU, 16, 4785, 1, 30000, 30, ""}},
    {{"Adreno 740 by Mesa", GPU, 9999, 0, 1, 7500, 30, ""}, {"Kryo by PoCL", CPU, 8, 3187, 1, 11000, 30, ""}},
    {{"Van Gogh by Mesa", GPU, 8, 0, 1, 12000, 30, "0000:04:00.0"},
     {"Zen 2 by PoCL", CPU, 8, 3500, 1, 14000, 30, ""}},
    {{"H100", GPU, 132, 1980, 0, 81079, 30, "0000:8d:00.0"},
     {"EPYC 9554 by Intel", CPU, 256, 3750, 1, 773000, 30, ""}},
    {{"Xeon by Intel", CPU, 64, 2000, 1, 257000, 30, ""},
     {"Xeon by PoCL 1.8", CPU, 64, 2000, 1, 250000, 12, ""}},
};

static clef_found found_of(const row *r)
{
    clef_found f = {.type = (cl_device_type)r->type};
    f.info.caps.is_cpu = r->type == CPU;
    f.info.caps.is_gpu = r->type == GPU;
    f.info.caps.n_units = r->units;
    f.info.caps.mhz = r->mhz;
    f.info.caps.unified_memory = r->shares_memory;
    f.info.caps.global_bytes = (uint64_t)r->mib << 20;
    f.info.caps.opencl_version = r->opencl;
    strcpy(f.card, r->card);
    return f;
}

static void test_machines(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (size_t i = 1; i < MOST && machines[m][i].name; i++) {
            const clef_found best = found_of(&machines[m][0]), other = found_of(&machines[m][i]);
            const char *why = "";
            if (!clef__found_is_better(&best, &other, &why) || clef__found_is_better(&other, &best, &why))
                fail_msg("%s beside %s: %s", machines[m][0].name, machines[m][i].name, why);
        }
}

static void test_reasons(void **state)
{
    (void)state;
    static const struct {
        size_t machine;
        const char *word;
    } reasons[] = {{0, "memory of its own"}, {3, "newest OpenCL"}, {4, "most memory"}, {6, "GPU"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        const row *machine = machines[reasons[i].machine];
        const clef_found best = found_of(&machine[0]), other = found_of(&machine[1]);
        const char *why = "";
        assert_int_equal(1, clef__found_is_better(&best, &other, &why));
        assert_non_null(strstr(why, reasons[i].word));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_machines), cmocka_unit_test(test_reasons)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
