#include "run_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

const clef_device_opts *test_device_opts(void)
{
    static const clef_device_opts without_cache = {.cache_dir = ""};
    const char *store = getenv("CLEF_TEST_STORE");
    return store && strcmp(store, "0") == 0 ? &without_cache : NULL;
}

clef_device *test_device(void)
{
    clef_device_info *list;
    int32_t n;
    clef_error err = {0};
    clef_device *dev = NULL;
    char which[32] = "";
    if (clef_devices_list(&list, &n, &err) == CLEF_OK) {
        for (int32_t i = 0; i < n && !*which; i++)
            if (list[i].caps.is_cpu && !*list[i].refused)
                snprintf(which, sizeof which, "%d:%d", list[i].platform, list[i].index);
        clef_devices_free(list);
    }
    const char *wanted = getenv("CLEF_TEST_DEVICE");
    if (clef_device_open(wanted ? wanted : *which ? which : NULL, test_device_opts(), &dev, &err))
        fprintf(stderr, "no device to test on: %s\n", err.text);
    return dev;
}

clef_device *shared_device;

int open_shared_device(void **state)
{
    (void)state;
    shared_device = test_device();
    return !shared_device;
}

int close_shared_device(void **state)
{
    (void)state;
    clef_device_close(shared_device);
    return 0;
}

void test_run(clef_device *dev, const char *text, int optimize, clef_gemm gemm, const test_tensor *inputs,
              const char *output, void *out, size_t n_bytes)
{
    clef_error err = {0};
    clef_graph *g = NULL;
    clef_plan *plan = NULL;
    clef_status s = clef_graph_parse(text, strlen(text), "test.clef", &g, &err);
    if (!s && optimize)
        s = clef_graph_optimize(g, NULL, &err);
    if (!s)
        s = clef_plan_create(dev, g, &(clef_plan_opts){.compile.gemm = gemm}, &plan, &err);
    for (; !s && inputs->name; inputs++)
        s = clef_plan_write(plan, clef_plan_input(plan, inputs->name), inputs->data, inputs->n_bytes, &err);
    if (!s)
        s = clef_plan_run(plan, &err);
    if (!s)
        s = clef_plan_read(plan, clef_plan_output(plan, output), out, n_bytes, &err);
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
    if (s)
        fail_msg("%s: %s", clef_status_name(s), err.text);
}
