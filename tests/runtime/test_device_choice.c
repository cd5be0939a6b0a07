/* Which device clef takes where none is named: machines as their drivers describe them. The first is to be
 * taken, whatever the order in which the loader lists them. */
#include <string.h>

#include "runtime/device/device_find.h"
#include "tests/check.h"

enum { CPU = CL_DEVICE_TYPE_CPU, GPU = CL_DEVICE_TYPE_GPU, MOST = 4 };

typedef struct row {
    const char *name;
    int32_t type, units, mhz, shares_memory, mib, opencl;
    const char *card, *uuid;
    double gb_s; /* reading, as measured; 0: not measured */
} row;

static const row machines[][MOST] = {
    {{"RTX 4060 Laptop", GPU, 24, 2370, 0, 8188, 30, "0000:01:00.0", "", 0},
     {"Iris Xe", GPU, 96, 1300, 1, 25400, 30, "", "", 0}},
    {{"Arc A770", GPU, 512, 2400, 0, 15474, 30, "0000:03:00.0", "", 0},
     {"UHD 770", GPU, 32, 1650, 1, 51000, 30, "0000:00:02.0", "", 0},
     {"i9-13900K", CPU, 32, 5800, 1, 64000, 30, "", "", 0}},
    {{"gfx1100 by ROCm", GPU, 48, 2371, 0, 24560, 21, "0000:0c:00.0", "", 0},
     {"gfx1036 by ROCm", GPU, 1, 2200, 1, 31000, 21, "0000:1a:00.0", "", 0}},
    {{"RX 7900 XTX by OpenCL 3.0", GPU, 96, 2371, 0, 24560, 30, "0000:0c:00.0", "", 0},
     {"RX 7900 XTX by OpenCL 2.1", GPU, 48, 2371, 0, 24576, 21, "0000:0c:00.0", "", 0},
     {"a second card", GPU, 48, 2371, 0, 24570, 21, "0000:0d:00.0", "", 0}},
    {{"RTX 3090", GPU, 82, 1695, 0, 24268, 30, "0000:01:00.0", "", 0},
     {"RTX 2060", GPU, 30, 1755, 0, 5926, 30, "0000:02:00.0", "", 0}},
    {{"Tesla P40", GPU, 30, 1531, 0, 24451, 30, "0000:04:00.0", "", 0},
     {"GTX 1080", GPU, 20, 1733, 0, 8119, 30, "0000:03:00.0", "", 0}},
    {{"Radeon 680M", GPU, 6, 2200, 1, 14000, 20, "0000:e3:00.0", "", 0},
     {"Ryzen 7 6800H by PoCL", CPU, 16, 4785, 1, 30000, 30, "", "", 0}},
    {{"Adreno 740 by Mesa", GPU, 9999, 0, 1, 7500, 30, "", "", 0},
     {"Kryo by PoCL", CPU, 8, 3187, 1, 11000, 30, "", "", 0}},
    {{"Van Gogh by Mesa", GPU, 8, 0, 1, 12000, 30, "0000:04:00.0", "", 0},
     {"Zen 2 by PoCL", CPU, 8, 3500, 1, 14000, 30, "", "", 0}},
    {{"H100", GPU, 132, 1980, 0, 81079, 30, "0000:8d:00.0", "", 0},
     {"EPYC 9554 by Intel", CPU, 256, 3750, 1, 773000, 30, "", "", 0}},
    {{"RTX 4070", GPU, 46, 2475, 0, 12282, 30, "0000:02:00.0", "", 462.4},
     {"RTX 3060", GPU, 28, 1777, 0, 12282, 30, "0000:01:00.0", "", 331.8}},
    {{"Arc B580 by OpenCL 3.0", GPU, 160, 2850, 0, 11605, 30, "", "bmg", 0},
     {"Arc B580 by OpenCL 2.1", GPU, 20, 2850, 0, 12216, 21, "0000:03:00.0", "bmg", 418.1},
     {"Arc A750", GPU, 448, 2400, 0, 7721, 30, "0000:04:00.0", "dg2", 0}},
    {{"Xeon by Intel", CPU, 64, 2000, 1, 257000, 30, "", "", 0},
     {"Xeon by PoCL 1.8", CPU, 64, 2000, 1, 258000, 12, "", "", 0}},
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
    f.read_gb_s = r->gb_s;
    strcpy(f.card, r->card);
    memcpy(f.uuid, r->uuid, strlen(r->uuid));
    strcpy(f.info.name, r->name);
    return f;
}

/* Row i of a machine is at place order[i]. */
static const char *choice_of(const row *machine, const int order[MOST], int n, const char **name)
{
    static clef_found found[MOST];
    clef_found_list list = {.at = found, .n = n, .n_platforms = 1};
    const clef_found *best = NULL;
    for (int i = 0; i < n; i++)
        found[order[i]] = found_of(&machine[i]);
    clef__find_choice(&list);
    assert_int_equal(CLEF_OK, clef__find_one(&list, NULL, &best, NULL));
    *name = best->info.name;
    return best->info.chosen;
}

TEST(whatever_the_order)
{
    static const int orders[][MOST] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
            const char *name = "";
            int n = 0;
            while (n < MOST && machines[m][n].name)
                n++;
            if (n == 3 || (orders[o][0] < n && orders[o][1] < n)) {
                (void)choice_of(machines[m], orders[o], n, &name);
                assert_string_equal(machines[m][0].name, name);
            }
        }
}

TEST(reasons)
{
    static const struct {
        size_t machine;
        const char *why;
    } reasons[] = {{0, "memory of its own"},   {3, "the newest OpenCL for it"},
                   {4, "the most memory"},     {6, "the only GPU"},
                   {10, "the fastest memory"}, {11, "the newest OpenCL for it"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        const char *name;
        assert_string_equal(reasons[i].why,
                            choice_of(machines[reasons[i].machine], (int[MOST]){1, 0}, 2, &name));
    }
}

/* Of equals the first is taken, unless all were measured. */
TEST(one_without_a_measurement)
{
    for (int i = 0; i < 2; i++) {
        row machine[2];
        const char *name;
        memcpy(machine, machines[10], sizeof machine);
        machine[i].gb_s = 0;
        assert_string_equal("the first of equals", choice_of(machine, (int[MOST]){0, 1}, 2, &name));
        assert_string_equal("RTX 4070", name);
        assert_string_equal("the first of equals", choice_of(machine, (int[MOST]){1, 0}, 2, &name));
        assert_string_equal("RTX 3060", name);
    }
    const row three[] = {
        machines[10][0], {"another", GPU, 46, 2475, 0, 12282, 30, "0000:03:00.0", "", 0}, machines[10][1]};
    for (int first = 0; first < 3; first++) {
        const char *name;
        const int order[MOST] = {(3 - first) % 3, (4 - first) % 3, (5 - first) % 3};
        assert_string_equal("the first of equals", choice_of(three, order, 3, &name));
        assert_string_equal(three[first].name, name);
    }
}

TESTS(NULL, NULL)
