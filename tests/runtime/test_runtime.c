/* The OpenCL base: codes, hashes, program sources, finding and opening devices, building kernels, the disk
 * cache, CLBlast. With OPENCL_LAYERS set to tests/layers/count_layer.c's object, every OpenCL call is also
 * made to fail in turn. */
#define _POSIX_C_SOURCE 200809L

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cl/args.h"
#include "runtime/device/cache.h"
#include "runtime/device/source.h"
#include "runtime/os/os.h"
#include "tests/check.h"
#include "tests/debug.h"
#include "tests/layers/count.h"

static char scratch[256]; /* a folder of this run */

static const char *scratch_path(const char *name, char out[512])
{
    snprintf(out, 512, "%s/%s", scratch, name);
    return out;
}

static void write_file(const char *path, const void *data, size_t n)
{
    clef_error err;
    assert_int_equal(clef__os_write(path, data, n, &err), CLEF_OK);
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        remove(path);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        char child[1024];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        remove_tree(child);
    }
    closedir(dir);
    rmdir(path);
}

/* The default device without a cache; skips the test where there is none. */
static clef_device *open_device(const clef_device_opts *opts)
{
    clef_device *dev;
    clef_error err = {0};
    const clef_status status =
        clef_device_open(NULL, opts ? opts : &(clef_device_opts){.cache_dir = ""}, &dev, &err);
    if (status == CLEF_E_DEVICE) {
        print_message("%s\n", err.text);
        skip();
    }
    if (status != CLEF_OK)
        fail_msg("%s", err.text);
    return dev;
}

static const clef_launch softmax = {.source = "softmax",
                                    .kernel = "softmax_rows",
                                    .defs = {{"WG", 1}, {"MASK", 0}, {"POS", 0}, {"SINKS", DTYPE_NONE}}};

/* Builds the softmax kernel, runs it on two rows of three, and compares. */
static void check_softmax(clef_device *dev)
{
    cl_kernel kernel;
    clef_error err = {0};
    float x[6] = {1, 2, 3, -1, 0, 5};
    const softmax_args args = {.n = {1, 1, 2, 3}, .x = {.stride = {0, 0, 3, 1}}, .scale = 1};
    const size_t groups = 2, local = 1;
    if (clef__kernel_create(dev, &softmax, &kernel, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    cl_mem buffer = clCreateBuffer(dev->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof x, x, NULL),
           none = NULL;
    assert_non_null(buffer);
    assert_int_equal(clSetKernelArg(kernel, 0, sizeof args, &args), 0);
    for (cl_uint i = 1; i <= 5; i++)
        assert_int_equal(clSetKernelArg(kernel, i, sizeof buffer, i <= 2 ? &buffer : &none), 0);
    assert_int_equal(clEnqueueNDRangeKernel(dev->queue, kernel, 1, NULL, &groups, &local, 0, NULL, NULL), 0);
    float y[6];
    assert_int_equal(clEnqueueReadBuffer(dev->queue, buffer, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL), 0);
    for (int r = 0; r < 2; r++) {
        double sum = 0;
        for (int i = 0; i < 3; i++)
            sum += exp((double)x[3 * r + i]);
        for (int i = 0; i < 3; i++)
            assert_true(fabs((double)y[3 * r + i] - exp((double)x[3 * r + i]) / sum) < 1e-6);
    }
    clReleaseMemObject(buffer);
    clReleaseKernel(kernel);
}

/* ---- codes, hashes, sources ------------------------------------------------------------------ */

static void test_names(void **state)
{
    (void)state;
    clef_error err;
    assert_string_equal(clef__cl_name(0), "CL_SUCCESS");
    assert_string_equal(clef__cl_name(-5), "CL_OUT_OF_RESOURCES");
    assert_string_equal(clef__cl_name(-68), "CL_INVALID_DEVICE_PARTITION_COUNT");
    assert_string_equal(clef__cl_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
    assert_string_equal(clef__cl_name(-1011), "CLBlastInsufficientMemoryA");
    assert_string_equal(clef__cl_name(-2039), "CLBlastUnexpectedError");
    assert_string_equal(clef__cl_name(-999), "unknown");
    assert_string_equal(clef__cl_name(7), "unknown");
    assert_int_equal(clef__cl_fail(&err, "clCreateBuffer", "arena", -6), CLEF_E_CL);
    assert_int_equal(err.cl_code, -6);
    assert_string_equal(err.text, "clCreateBuffer(arena): CL_OUT_OF_HOST_MEMORY (-6)");
    assert_int_equal(clef__cl_fail(NULL, "clFinish", NULL, -36), CLEF_E_CL);
}

static void check_sha256(const char *text, int times, const char *want)
{
    clef_sha256 s;
    unsigned char sum[CLEF_SHA256_BYTES];
    char hex[2 * CLEF_SHA256_BYTES + 1];
    clef__sha256_init(&s);
    for (int i = 0; i < times; i++)
        clef__sha256_add(&s, text, strlen(text));
    clef__sha256_finish(&s, sum);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    assert_string_equal(hex, want);
}

static void test_sha256(void **state) /* NIST's example values */
{
    (void)state;
    check_sha256("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha256("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_sha256("aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    char *whole = malloc(1000001); /* the same text in one piece: whole blocks have a faster way */
    assert_non_null(whole);
    memset(whole, 'a', 1000000);
    whole[1000000] = 0;
    check_sha256(whole, 1, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(whole);
}

static void test_source(void **state)
{
    (void)state;
    char *text;
    size_t n;
    clef_error err;
    assert_int_equal(clef__source_assemble("softmax", &text, &n, &err), CLEF_OK);
    assert_int_equal(strlen(text), n);
    assert_ptr_equal(strstr(text, "#line 1 \"softmax.cl\"\n"), text);
    assert_non_null(strstr(text, "\n#line 1 \"args.h\"\n"));
    assert_non_null(strstr(text, "\n#line 1 \"group.h\"\n"));
    assert_null(strstr(text, "#include \"args.h\""));
    free(text);

    assert_int_equal(clef__source_assemble("no_such_kernel", &text, &n, &err), CLEF_E_NOT_FOUND);
    assert_null(text);
    assert_non_null(strstr(err.text, "no_such_kernel.cl"));
}

static void test_source_from_disk(void **state)
{
    (void)state;
    static const char a[] = "first\n  # include \"b.h\"\nthird\n#include \"c.h\"\nlast",
                      b[] = "b1\n#include \"c.h\"\n", c[] = "#include \"b.h\"\nc2\n";
    char path[512], *text;
    size_t n;
    clef_error err;
    write_file(scratch_path("a.cl", path), a, sizeof a - 1);
    write_file(scratch_path("b.h", path), b, sizeof b - 1);
    write_file(scratch_path("c.h", path), c, sizeof c - 1);
    set_debug("cl_dir", scratch);
    assert_int_equal(clef__source_assemble("a", &text, &n, &err), CLEF_OK);
    assert_string_equal(text, "#line 1 \"a.cl\"\nfirst\n#line 1 \"b.h\"\nb1\n#line 1 \"c.h\"\n#line 2 "
                              "\"c.h\"\nc2\n#line 3 \"b.h\"\n#line 3 \"a.cl\"\n"
                              "third\n#line 5 \"a.cl\"\nlast\n");
    free(text);
    assert_int_equal(clef__source_assemble("softmax", &text, &n, &err), CLEF_E_IO);
    assert_non_null(strstr(err.text, "softmax.cl"));
    set_debug("cl_dir", NULL);
}

/* ---- devices --------------------------------------------------------------------------------- */

static void test_list(void **state)
{
    (void)state;
    clef_device_info *list;
    int32_t n;
    clef_error err;
    assert_int_equal(clef_devices_list(&list, &n, &err), CLEF_OK);
    assert_true((n == 0) == (list == NULL));
    for (int32_t i = 0; i < n; i++) {
        const clef_device_info *d = &list[i];
        assert_true(d->name[0] && d->name[0] != ' ' && d->name[strlen(d->name) - 1] != ' ');
        if (d->refused[0])
            continue;
        assert_true(d->caps.opencl_version >= 12);
        assert_true(d->caps.n_units > 0 && d->caps.max_group > 0 && d->caps.max_items[0] > 0 &&
                    d->caps.base_align > 0);
        assert_true(d->caps.local_bytes > 0 && d->caps.max_alloc_bytes <= d->caps.global_bytes);
        assert_non_null(strstr(d->driver, "; OpenCL"));
    }
    clef_devices_free(list);
    clef_devices_free(NULL);
    clef_device_close(NULL);
}

static void check_opens(const char *which, const clef_device_info *want)
{
    clef_device *dev;
    clef_error err = {0};
    if (clef_device_open(which, &(clef_device_opts){.cache_dir = ""}, &dev, &err) != CLEF_OK)
        fail_msg("\"%s\": %s", which, err.text);
    assert_memory_equal(clef_device_describe(dev), want, sizeof *want);
    clef_device_close(dev);
}

static void check_refused(const char *which, const char *part)
{
    clef_device *dev;
    clef_error err = {0};
    assert_int_equal(clef_device_open(which, NULL, &dev, &err), CLEF_E_DEVICE);
    assert_null(dev);
    if (!strstr(err.text, part))
        fail_msg("\"%s\": \"%s\" does not say \"%s\"", which, err.text, part);
}

static void test_open_names(void **state)
{
    (void)state;
    clef_device_info *list;
    int32_t n, n_like_first = 0;
    assert_int_equal(clef_devices_list(&list, &n, NULL), CLEF_OK);
    if (n == 0) {
        check_refused(NULL, "install an OpenCL driver");
        skip();
    }
    for (int32_t i = 0; i < n; i++) {
        char which[32], counted[32];
        snprintf(which, sizeof which, "%d:%d", list[i].platform, list[i].index);
        snprintf(counted, sizeof counted, "%d", i);
        if (list[i].refused[0]) {
            check_refused(which, list[i].refused);
            continue;
        }
        check_opens(which, &list[i]);
        check_opens(counted, &list[i]);
        int alike = 0;
        for (int32_t j = 0; j < n; j++)
            alike += strstr(list[j].name, list[i].name) != NULL;
        char upper[128];
        for (size_t k = 0; k < sizeof upper; k++)
            upper[k] = (char)toupper((unsigned char)list[i].name[k]);
        if (alike == 1)
            check_opens(upper, &list[i]);
        n_like_first += strcmp(list[i].platform_name, list[0].platform_name) == 0;
    }
    static const char *const wrong[] = {"0:99", "99:0", "999", "0:",          ":0",    "0:0x",
                                        "-1",   "0:-1", "1e0", "99999999999", "0:0:0", "no such device"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_refused(wrong[i], list[0].name);
    if (n_like_first > 1)
        check_refused(list[0].platform_name, "expected one: ");
    clef_devices_free(list);
}

static void test_open_default(void **state)
{
    (void)state;
    clef_device *dev = open_device(NULL);
    char which[32];
    const clef_device_info info = *clef_device_describe(dev);
    assert_string_equal(dev->cache_dir, "");
    clef_device_close(dev);

    const char *saved = getenv("CLEF_DEVICE");
    char *copy = saved ? strdup(saved) : NULL;
    snprintf(which, sizeof which, "%d:%d", info.platform, info.index);
    setenv("CLEF_DEVICE", which, 1);
    setenv("CLEF_CACHE_DIR", scratch, 1);
    dev = open_device(&(clef_device_opts){.profile = 1});
    assert_string_equal(dev->cache_dir, scratch);
    cl_command_queue_properties properties;
    assert_int_equal(
        clGetCommandQueueInfo(dev->queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL), 0);
    assert_true(properties & CL_QUEUE_PROFILING_ENABLE);
    clef_device_close(dev);
    setenv("CLEF_DEVICE", "no such device", 1);
    check_refused(NULL, "no such device");
    unsetenv("CLEF_CACHE_DIR");
    unsetenv("CLEF_DEVICE");
    if (copy)
        setenv("CLEF_DEVICE", copy, 1);
    free(copy);
}

/* ---- programs -------------------------------------------------------------------------------- */

static void test_kernels(void **state)
{
    (void)state;
    clef_device *dev = open_device(NULL);
    cl_kernel kernel;
    clef_error err;
    check_softmax(dev);
    check_softmax(dev);
    assert_int_equal(dev->n_built, 1);
    clef_launch other = softmax;
    other.kernel = "no_such_kernel";
    assert_int_equal(clef__kernel_create(dev, &other, &kernel, &err), CLEF_E_CL);
    assert_null(kernel);
    assert_non_null(strstr(err.text, "no_such_kernel of cl/softmax.cl"));
    assert_int_equal(dev->n_built, 1);
    other = softmax;
    other.defs[1].value = 1;
    assert_int_equal(clef__kernel_create(dev, &other, &kernel, &err), CLEF_OK);
    assert_int_equal(dev->n_built, 2);
    clReleaseKernel(kernel);
    clef_device_close(dev);
}

static void test_build_failure(void **state)
{
    (void)state;
    clef_device *dev = open_device(NULL);
    static const char broken[] =
        "kernel void softmax_rows(global float *x)\n{\n    x[0] = no_such_thing;\n}\n";
    char path[512];
    cl_kernel kernel;
    clef_error err;
    write_file(scratch_path("softmax.cl", path), broken, sizeof broken - 1);
    set_debug("cl_dir", scratch);
    assert_int_equal(clef__kernel_create(dev, &softmax, &kernel, &err), CLEF_E_BUILD);
    set_debug("cl_dir", NULL);
    assert_int_equal(err.status, CLEF_E_BUILD);
    assert_true(err.cl_code < 0);
    assert_null(kernel);
    static const char *const wanted[] = {"cl/softmax.cl", "softmax_rows", "-D WG=1", "no_such_thing"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(err.text, wanted[i]))
            fail_msg("\"%s\" does not say \"%s\"", err.text, wanted[i]);
    assert_non_null(strstr(err.text, dev->info.name));
    check_softmax(dev); /* nothing of the failure stays */
    clef_device_close(dev);
}

/* ---- disk cache ------------------------------------------------------------------------------ */

/* Opens a device with the cache, runs softmax, closes. */
static void use_cache(const char *dir, int want_built)
{
    clef_device *dev = open_device(&(clef_device_opts){.cache_dir = dir});
    check_softmax(dev);
    assert_int_equal(dev->n_built, want_built);
    assert_int_equal(dev->n_cached, 1 - want_built);
    assert_int_equal(clef__programs_unsaved(dev), want_built);
    clef__program_save(dev);
    assert_int_equal(clef__programs_unsaved(dev), 0);
    clef_device_close(dev);
}

/* The path of the cache's only entry. */
static void find_entry(const char *dir, char out[1024])
{
    char programs[512];
    int n = 0;
    snprintf(programs, sizeof programs, "%s/programs", dir);
    DIR *at = opendir(programs);
    assert_non_null(at);
    for (struct dirent *e; (e = readdir(at));)
        if (e->d_name[0] != '.') {
            snprintf(out, 1024, "%s/%s", programs, e->d_name);
            n++;
        }
    closedir(at);
    assert_int_equal(n, 1);
}

static void check_cache(const char *dir)
{
    char path[1024], *entry;
    size_t n;
    use_cache(dir, 1);
    use_cache(dir, 0);
    find_entry(dir, path);
    assert_int_equal(clef__os_read(path, 1 << 28, &entry, &n, NULL), CLEF_OK);
    assert_true(n > 100);

    for (size_t at = 0; at < n;
         at += at < 120 ? 13 : n / 3) { /* a bit flipped: in every field, and in the binary */
        entry[at] ^= 4;
        write_file(path, entry, n);
        entry[at] ^= 4;
        use_cache(dir, 1);
        find_entry(dir, path);
    }
    const size_t cuts[] = {0, 7, 60, 84, n / 2, n - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        write_file(path, entry, cuts[i]);
        use_cache(dir, 1);
    }
    char *longer = calloc(1, n + 1);
    memcpy(longer, entry, n);
    write_file(path, longer, n + 1);
    use_cache(dir, 1);
    use_cache(dir, 0);
    free(longer);
    free(entry);
}

static void test_cache(void **state)
{
    (void)state;
    char dir[512];
    check_cache(scratch_path("cache", dir));
}

typedef struct stopper {
    int n_calls, stop;
} stopper;

static int count_or_stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    stopper *s = user;
    assert_string_equal(what, "cache");
    assert_true(done < total);
    s->n_calls++;
    return s->stop;
}

/* What was built is written when the device is closed, unless the user stops it. */
static void test_cache_at_close(void **state)
{
    (void)state;
    char dir[512];
    scratch_path("cache-at-close", dir);
    const int want_cached[] = {0, 0, 1}, want_calls[] = {1, 1, 0};
    for (int i = 0; i < 3; i++) {
        stopper s = {.stop = i == 0};
        clef_device *dev = open_device(
            &(clef_device_opts){.cache_dir = dir, .progress = count_or_stop, .progress_user = &s});
        check_softmax(dev);
        assert_int_equal(dev->n_cached, want_cached[i]);
        clef_device_close(dev);
        assert_int_equal(s.n_calls, want_calls[i]);
    }
}

/* The variable alone: PoCL has read it long before. */
static void test_pin(void **state)
{
    (void)state;
    const char *const saved = getenv("POCL_AFFINITY");
    char *copy = saved ? strdup(saved) : NULL;
    setenv("POCL_AFFINITY", "0", 1);
    clef_device_close(open_device(&(clef_device_opts){.cache_dir = "", .pin = 1}));
    assert_string_equal(getenv("POCL_AFFINITY"), "0");
    unsetenv("POCL_AFFINITY");
    clef_device_close(open_device(NULL));
    assert_null(getenv("POCL_AFFINITY"));
    clef_device_close(open_device(&(clef_device_opts){.cache_dir = "", .pin = 1}));
    if (clef__os_has_all_cpus())
        assert_string_equal(getenv("POCL_AFFINITY"), "1");
    else
        assert_null(getenv("POCL_AFFINITY"));
    unsetenv("POCL_AFFINITY");
    clef_device_close(open_device(&(clef_device_opts){.cache_dir = "", .pin = CLEF_PIN_AUTO}));
    if (!clef__os_has_all_cpus()) /* else as the machine is */
        assert_null(getenv("POCL_AFFINITY"));
    unsetenv("POCL_AFFINITY");
    if (copy)
        setenv("POCL_AFFINITY", copy, 1);
    free(copy);
}

static void test_cache_keys(void **state)
{
    (void)state;
    static const char source[] = "kernel void f(void) {}", options[] = "-cl-std=CL1.2";
    char dir[512];
    size_t n;
    unsigned char *binary;
    scratch_path("keys", dir);
    clef_device *dev = open_device(&(clef_device_opts){.cache_dir = dir});
    const clef_cache_key key = clef__cache_key(dev, source, sizeof source - 1, options);
    assert_int_equal(clef__cache_load(dev, &key, &binary, &n), 0);
    clef__cache_store(dev, &key, (const unsigned char *)"a binary", 8);
    assert_int_equal(clef__cache_load(dev, &key, &binary, &n), 1);
    assert_int_equal(n, 8);
    assert_memory_equal(binary, "a binary", 8);
    free(binary);
    clef__cache_drop(dev, &key);
    assert_int_equal(clef__cache_load(dev, &key, &binary, &n), 0);

    clef_cache_key other = clef__cache_key(dev, source, sizeof source - 2, options);
    assert_memory_not_equal(&other, &key, sizeof key);
    other = clef__cache_key(dev, source, sizeof source - 1, "-cl-std=CL1.2 -D WG=1");
    assert_memory_not_equal(&other, &key, sizeof key);
    snprintf(dev->info.driver, sizeof dev->info.driver, "another driver");
    other = clef__cache_key(dev, source, sizeof source - 1, options);
    assert_memory_not_equal(&other, &key, sizeof key);
    clef_device_close(dev);
}

/* PoCL returns such a binary when another process replaces the file with the code, and aborts on loading it.
 */
static void test_cache_without_code(void **state)
{
    (void)state;
    static const char none[] = "poclbin\0head\13\0\0\0/program.bc\0\0\0\0",
                      some[] = "poclbin\0head\13\0\0\0/program.bc\1\0\0\0.";
    char dir[512];
    size_t n;
    unsigned char *binary;
    scratch_path("without_code", dir);
    clef_device *dev = open_device(&(clef_device_opts){.cache_dir = dir});
    const clef_cache_key key = clef__cache_key(dev, "source", 6, "");
    clef__cache_store(dev, &key, (const unsigned char *)none, sizeof none);
    assert_int_equal(clef__cache_has(dev, &key), 0);
    clef__cache_store(dev, &key, (const unsigned char *)some, sizeof some);
    assert_int_equal(clef__cache_load(dev, &key, &binary, &n), 1);
    assert_int_equal(n, sizeof some);
    free(binary);
    clef_device_close(dev);
}

/* Adds 1 to the number in a file many times, each time under the lock. */
static void count_under_lock(const char *path, const char *lock_path)
{
    for (int i = 0; i < 300; i++) {
        const int lock = clef__os_lock(lock_path, UINT64_MAX);
        FILE *file = fopen(path, "r+");
        int n = -1;
        if (lock < 0 || !file || fscanf(file, "%d", &n) != 1)
            _exit(1);
        rewind(file);
        fprintf(file, "%d", n + 1);
        fclose(file);
        clef__os_unlock(lock);
    }
}

static void test_lock(void **state)
{
    (void)state;
    char path[512], lock_path[512], text[16] = "";
    write_file(scratch_path("count", path), "0", 1);
    scratch_path("count.lock", lock_path);
    const pid_t child = fork();
    assert_true(child >= 0);
    count_under_lock(path, lock_path);
    if (!child)
        _exit(0);
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    FILE *file = fopen(path, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "600");

    const int one = clef__os_lock(lock_path, 4),
              other = clef__os_lock(lock_path, 8); /* other places are free */
    assert_true(one >= 0 && other >= 0);
    clef__os_unlock(one);
    clef__os_unlock(other);
    assert_int_equal(clef__os_lock("/no/such/folder/lock", 0), -1);
    clef__os_unlock(-1);
}

static void test_cache_unwritable(void **state)
{
    (void)state;
    char file[512], dir[600];
    write_file(scratch_path("file", file), "x", 1);
    snprintf(dir, sizeof dir, "%s/cache", file); /* a folder within a file */
    use_cache(dir, 1);
    use_cache(dir, 1);
    if (geteuid() == 0)
        return; /* root may write everywhere */
    scratch_path("read_only", dir);
    assert_int_equal(mkdir(dir, 0500), 0);
    use_cache(dir, 1);
    use_cache(dir, 1);
}

/* ---- CLBlast --------------------------------------------------------------------------------- */

static float element(const float *x, uint32_t transpose, uint32_t ld, uint32_t i, uint32_t j)
{
    return transpose ? x[j * ld + i] : x[i * ld + j];
}

static void check_gemm(clef_device *dev, const clef_gemm_call *g)
{
    enum { N = 600 };
    float a[N], b[N], c[N], out[N];
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i * 7 % 23 - 11) / 8;
        b[i] = (float)(i * 5 % 19 - 9) / 4;
        c[i] = (float)(i % 13);
    }
    cl_mem mem[3];
    float *const host[3] = {c, a, b};
    for (int i = 0; i < 3; i++)
        assert_non_null(mem[i] = clCreateBuffer(dev->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                                sizeof a, host[i], NULL));
    clef_error err = {0};
    cl_event event = NULL;
    if (clef__clblast_gemm(dev, g, mem[0], mem[1], mem[2], &event, &err) != CLEF_OK)
        fail_msg("%s", err.text);
    assert_non_null(event);
    assert_int_equal(clEnqueueReadBuffer(dev->queue, mem[0], CL_TRUE, 0, sizeof out, out, 0, NULL, NULL), 0);
    for (uint32_t batch = 0; batch < g->batch; batch++)
        for (uint32_t i = 0; i < g->m; i++)
            for (uint32_t j = 0; j < g->n; j++) {
                double sum = 0;
                for (uint32_t k = 0; k < g->k; k++)
                    sum +=
                        (double)element(a + g->a_offset + batch * g->a_stride, g->transpose_a, g->a_ld, i,
                                        k) *
                        (double)element(b + g->b_offset + batch * g->b_stride, g->transpose_b, g->b_ld, k, j);
                float *at = &c[g->c_offset + batch * g->c_stride + i * g->c_ld + j];
                *at = (float)((double)g->alpha * sum + (double)g->beta * (double)*at);
            }
    for (int i = 0; i < N; i++) /* what lies between the rows is not touched */
        if (fabs((double)out[i] - (double)c[i]) > 1e-4)
            fail_msg("element %d: %g, expected %g (transposes %u %u, batch %u)", i, (double)out[i],
                     (double)c[i], g->transpose_a, g->transpose_b, g->batch);
    for (int i = 0; i < 3; i++)
        clReleaseMemObject(mem[i]);
    clReleaseEvent(event);
}

static void test_clblast(void **state)
{
    (void)state;
    clef_device *dev = open_device(NULL);
    clef_error err;
    clef_gemm_call g = {.m = 5,
                        .n = 7,
                        .k = 9,
                        .batch = 1,
                        .a_offset = 3,
                        .b_offset = 4,
                        .c_offset = 2,
                        .a_ld = 11,
                        .b_ld = 10,
                        .c_ld = 8,
                        .alpha = 1.5f,
                        .beta = 0.5f};
    if (clef__clblast_missing()) {
        assert_int_equal(clef__clblast_gemm(dev, &g, NULL, NULL, NULL, NULL, &err), CLEF_E_UNSUPPORTED);
        clef_device_close(dev);
        skip();
    }
    for (uint32_t transposes = 0; transposes < 4; transposes++) {
        g.transpose_a = transposes & 1;
        g.transpose_b = transposes >> 1;
        g.batch = 1;
        check_gemm(dev, &g);
        g.batch = 3;
        g.a_stride = 110;
        g.b_stride = transposes == 1 ? 0 : 120; /* 0: the same b for all */
        g.c_stride = 41;
        check_gemm(dev, &g);
    }
    g.a_ld = 2;
    assert_int_equal(clef__clblast_gemm(dev, &g, NULL, NULL, NULL, NULL, &err), CLEF_E_CL);
    assert_non_null(strstr(err.text, "m=5 n=7 k=9 batch=3"));
    assert_string_not_equal(clef__cl_name(err.cl_code), "unknown");
    clef_device_close(dev);
}

/* ---- failing calls --------------------------------------------------------------------------- */

static int find_layer(count_layer *l)
{
    cl_uint n;
    clGetPlatformIDs(0, NULL, &n); /* starts the loader */
    return open_count_layer(l);
}

/* Open, build, save, close, with call n of all failing, for n = 1, 2, 3 .. until none is left to fail. */
static void fail_each(const count_layer *l, const char *cache_dir, int sticky)
{
    for (long n = 1;; n++) {
        clef_device *dev = NULL;
        cl_kernel kernel = NULL;
        clef_error err = {0};
        l->fail_at(NULL, n, sticky);
        clef_status status = clef_device_open(NULL, &(clef_device_opts){.cache_dir = cache_dir}, &dev, &err);
        if (status == CLEF_OK)
            status = clef__kernel_create(dev, &softmax, &kernel, &err);
        if (kernel)
            clReleaseKernel(kernel);
        clef_device_close(dev);
        assert_int_equal(l->live(NULL), 0);
        if (status != CLEF_OK && (err.status != status || !err.text[0]))
            fail_msg("call %ld fails with status %d, but \"%s\"", n, (int)status, err.text);
        if (l->count(NULL) < n) {
            assert_int_equal(status, CLEF_OK);
            break;
        }
        assert_true(n < 10000);
    }
    l->fail_at(NULL, 0, 0);
}

static void test_failing_calls(void **state)
{
    (void)state;
    count_layer l;
    char dir[512];
    clef_device_close(open_device(NULL)); /* skips where there is none */
    if (!find_layer(&l))
        skip();
    fail_each(&l, "", 0);
    fail_each(&l, "", 1);
    scratch_path("cache", dir); /* filled by test_cache */
    fail_each(&l, dir, 0);
}

/* A driver that refuses a stored binary, or gives none. */
static void test_cache_refused(void **state)
{
    (void)state;
    count_layer l;
    char dir[512];
    static const char *const loading[] = {"clCreateProgramWithBinary", "clBuildProgram"};
    clef_device_close(open_device(NULL));
    if (!find_layer(&l))
        skip();
    scratch_path("refused", dir);
    l.fail_at("clGetProgramInfo", 1, 1);
    use_cache(dir, 1);
    l.fail_at(NULL, 0, 0);
    use_cache(dir, 1); /* the run before could store nothing */
    for (size_t i = 0; i < 2; i++) {
        l.fail_at(loading[i], 1, 0);
        use_cache(dir, 1);
        l.fail_at(NULL, 0, 0);
        use_cache(dir, 0);
    }
}

static void test_nothing_left(void **state)
{
    (void)state;
    count_layer l;
    if (!find_layer(&l))
        skip();
    static const char *const kinds[] = {"context", "queue", "mem", "program", "kernel", "event"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (l.live(kinds[i]) != 0)
            fail_msg("%ld references of kind %s are left", l.live(kinds[i]), kinds[i]);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%.200s/clef-runtime-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(scratch))
        return 1;
    setenv("POCL_DEVICES", "pthread basic", 0); /* two devices on one platform, so that a name can fit both */
    /* trying one at opening would build a program more than the tests count */
    set_debug("caps", "-x86_vnni:-x86_avxvnni:-x86_avx2:-x86_amd:-arm64_i8mm:-arm64_sdot:-arm64_bf16:"
                      "-own_builtins:-whole_body");
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_source),        cmocka_unit_test(test_source_from_disk),
        cmocka_unit_test(test_list),          cmocka_unit_test(test_open_names),
        cmocka_unit_test(test_open_default),  cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_build_failure), cmocka_unit_test(test_cache),
        cmocka_unit_test(test_cache_keys),    cmocka_unit_test(test_cache_unwritable),
        cmocka_unit_test(test_lock),          cmocka_unit_test(test_cache_without_code),
        cmocka_unit_test(test_pin),           cmocka_unit_test(test_cache_at_close),
        cmocka_unit_test(test_clblast),       cmocka_unit_test(test_failing_calls),
        cmocka_unit_test(test_cache_refused), cmocka_unit_test(test_nothing_left),
    };
    const int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_tree(scratch);
    return n_failed;
}
