/* Asks a driver what its device is and can do. The code never looks at a name. */
#include "runtime/device/caps.h"

#include "graph/lower/panel/panel.h"

#include <stdio.h>
#include <string.h>

/* Extension lists are the longest texts: a few KiB in practice. */
enum { TEXT_BYTES = 32 * 1024, MIN_BASE_ALIGN = 128 };
enum { MAX_SUBGROUPS = 0x105C /* CL_DEVICE_MAX_NUM_SUB_GROUPS, of OpenCL 2.1 and later headers */ };

/* A text of a device or, with device NULL, of a platform. Empty when the driver does not answer or the text
 * is too long. */
static void query_text(cl_platform_id platform, cl_device_id device, cl_uint what, char text[TEXT_BYTES])
{
    size_t n = 0;
    const cl_int code = device ? clGetDeviceInfo(device, what, TEXT_BYTES - 1, text, &n)
                               : clGetPlatformInfo(platform, what, TEXT_BYTES - 1, text, &n);
    text[code == CL_SUCCESS && n < TEXT_BYTES ? n : 0] = 0;
}

/* Copies a text to `out`: trimmed, with runs of blanks replaced by one, cut to the capacity. Empty if there
 * is none. */
static void take_text(char *out, size_t capacity, cl_platform_id platform, cl_device_id device, cl_uint what)
{
    char text[TEXT_BYTES];
    size_t n = 0;
    int blank = 0;
    query_text(platform, device, what, text);
    for (const char *p = text; *p && n + 1 < capacity; p++) {
        if ((unsigned char)*p <= ' ') {
            blank = n > 0;
            continue;
        }
        if (blank && n + 2 < capacity)
            out[n++] = ' ';
        blank = 0;
        out[n++] = *p;
    }
    out[n] = 0;
}

/* A number in any of the sizes that OpenCL uses (cl_uint, size_t, cl_ulong); 0 when the driver does not
 * answer. */
static uint64_t query_number(cl_device_id device, cl_device_info what)
{
    unsigned char bytes[8] = {0};
    size_t n = 0;
    uint32_t small;
    uint64_t large;
    if (clGetDeviceInfo(device, what, sizeof bytes, bytes, &n) != CL_SUCCESS)
        return 0;
    memcpy(&small, bytes, sizeof small);
    memcpy(&large, bytes, sizeof large);
    return n == sizeof small ? small : n == sizeof large ? large : 0;
}

static int32_t query_int(cl_device_id device, cl_device_info what)
{
    const uint64_t x = query_number(device, what);
    return x > INT32_MAX ? INT32_MAX : (int32_t)x;
}

static int32_t has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; p && (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == 0))
            return 1;
    return 0;
}

/* "OpenCL 3.0 PoCL ..." -> 30; 0 for another form (OpenCL 1.2, table 4.3:
 * "OpenCL<space><major.minor><space>..."). */
static int32_t parse_version(const char *text)
{
    static const char head[] = "OpenCL ";
    if (strncmp(text, head, sizeof head - 1) != 0)
        return 0;
    const char *p = text + sizeof head - 1;
    if (p[0] < '0' || p[0] > '9' || p[1] != '.' || p[2] < '0' || p[2] > '9')
        return 0;
    return (p[0] - '0') * 10 + (p[2] - '0');
}

static void query_items(cl_device_id device, int32_t out[3])
{
    size_t sizes[16] = {0}, n = 0;
    if (clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, &n) != CL_SUCCESS)
        return;
    for (size_t i = 0; i < 3 && i < n / sizeof *sizes; i++)
        out[i] = sizes[i] > INT32_MAX ? INT32_MAX : (int32_t)sizes[i];
}

/* A device of 32-bit addresses reaches 4 GiB, of which its driver may report more. */
static void limit_addresses(int32_t bits, clef_caps *caps)
{
    if (bits != 32)
        return;
    if (caps->global_bytes > UINT32_MAX)
        caps->global_bytes = UINT32_MAX;
    if (caps->max_alloc_bytes > UINT32_MAX)
        caps->max_alloc_bytes = UINT32_MAX;
}

/* By cl_khr_pci_bus_info, cl_nv_device_attribute_query or cl_amd_device_attribute_query. */
void clef__caps_card(cl_device_id id, char out[24])
{
    enum { PCI_KHR = 0x410F, BUS_NV = 0x4008, SLOT_NV = 0x4009, DOMAIN_NV = 0x400A, TOPOLOGY_AMD = 0x4037 };
    cl_uint at[4] = {0}; /* domain, bus, device, function */
    struct {
        cl_uint type;
        unsigned char unused[17], bus, device, function;
    } amd = {0};
    out[0] = 0;
    if (clGetDeviceInfo(id, PCI_KHR, sizeof at, at, NULL) != CL_SUCCESS) {
        const int is_nv = clGetDeviceInfo(id, BUS_NV, sizeof at[1], &at[1], NULL) == CL_SUCCESS;
        const int is_amd = !is_nv &&
                           clGetDeviceInfo(id, TOPOLOGY_AMD, sizeof amd, &amd, NULL) == CL_SUCCESS &&
                           amd.type == 1;
        if (!is_nv && !is_amd)
            return;
        at[0] = is_nv ? (cl_uint)query_number(id, DOMAIN_NV) : 0;
        const cl_uint slot = is_nv ? (cl_uint)query_number(id, SLOT_NV) : 0; /* 8 * device + function */
        at[1] = is_amd ? amd.bus : at[1];
        at[2] = is_amd ? amd.device : slot / 8;
        at[3] = is_amd ? amd.function : slot % 8;
    }
    snprintf(out, 24, "%04x:%02x:%02x.%x", at[0] & 0xFFFF, at[1] & 0xFF, at[2] & 0x1F, at[3] & 7);
}

void clef__caps_uuid(cl_device_id id, unsigned char out[16])
{
    enum { UUID_KHR = 0x106A, BYTES = 16 };
    if (clGetDeviceInfo(id, UUID_KHR, BYTES, out, NULL) != CL_SUCCESS)
        memset(out, 0, BYTES);
}

/* cl_khr_integer_dot_product is also there where a compiler makes many instructions of one (Mesa on Adreno
 * and older Radeons): then other kernels are faster. The extension's first version cannot be asked. */
static int has_fast_dot(cl_device_id id, const char *extensions)
{
    enum { ACCELERATION_OF_PACKED = 0x1075 };
    cl_bool fast[6] = {0}; /* of signed numbers first */
    return has_word(extensions, "cl_khr_integer_dot_product") &&
           (clGetDeviceInfo(id, ACCELERATION_OF_PACKED, sizeof fast, fast, NULL) != CL_SUCCESS || fast[0]);
}

static void query_caps(cl_device_id id, const char *version, clef_caps *caps)
{
    const uint64_t type = query_number(id, CL_DEVICE_TYPE);
    char extensions[TEXT_BYTES];
    query_text(NULL, id, CL_DEVICE_EXTENSIONS, extensions);
    *caps = (clef_caps){
        .is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0,
        .is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0,
        .unified_memory = query_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0,
        .fp16 = has_word(extensions, "cl_khr_fp16"),
        .fp64 = has_word(extensions, "cl_khr_fp64") || query_number(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0,
        .int_dot = has_fast_dot(id, extensions),
        .arm_dot = has_word(extensions, "cl_arm_integer_dot_product_accumulate_int8"),
        .matrix = has_word(extensions, "cl_intel_subgroup_matrix_multiply_accumulate") ? CLEF_MATRIX_DPAS
                                                                                       : CLEF_MATRIX_NONE,
        .subgroup_demand = has_word(extensions, "cl_intel_required_subgroup_size"),
        .opencl_version = parse_version(version),
        .n_units = query_int(id, CL_DEVICE_MAX_COMPUTE_UNITS),
        .max_group = query_int(id, CL_DEVICE_MAX_WORK_GROUP_SIZE),
        .float_width = query_int(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT),
        .mhz = query_int(id, CL_DEVICE_MAX_CLOCK_FREQUENCY),
        .base_align = query_int(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, /* the query's unit is bits */
        .local_bytes = query_number(id, CL_DEVICE_LOCAL_MEM_SIZE),
        .max_alloc_bytes = query_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
        .global_bytes = query_number(id, CL_DEVICE_GLOBAL_MEM_SIZE),
    };
    query_items(id, caps->max_items);
    limit_addresses((int32_t)query_number(id, CL_DEVICE_ADDRESS_BITS), caps);
    if (has_word(extensions, "cl_khr_subgroup_shuffle") || has_word(extensions, "cl_intel_subgroups"))
        caps->subgroups = CLEF_SUBGROUP_SUPPORT_SHUFFLE;
    else
        caps->subgroups = has_word(extensions, "cl_khr_subgroups") ||
                                  (caps->opencl_version >= 30 && query_number(id, MAX_SUBGROUPS) > 0)
                              ? CLEF_SUBGROUP_SUPPORT_PLAIN
                              : CLEF_SUBGROUP_SUPPORT_NONE;
    if (caps->base_align < MIN_BASE_ALIGN) /* the minimum of full-profile devices (long16), which also suits a
                                              device that allows less */
        caps->base_align = MIN_BASE_ALIGN;
}

/* An embedded profile is not a reason to refuse: the features that kernels need are queried one by one. */
static void refuse_device(cl_device_id id, clef_device_info *info)
{
    const clef_caps *caps = &info->caps;
    const size_t capacity = sizeof info->refused;
    info->refused[0] = 0;
    if (!info->version[0])
        snprintf(info->refused, capacity, "its driver does not answer CL_DEVICE_VERSION");
    else if (caps->opencl_version == 0)
        snprintf(info->refused, capacity, "\"%.60s\" is not an OpenCL version, expected 1.2", info->version);
    else if (caps->opencl_version < 12)
        snprintf(info->refused, capacity, "OpenCL %d.%d, expected 1.2", caps->opencl_version / 10,
                 caps->opencl_version % 10);
    else if (!query_number(id, CL_DEVICE_AVAILABLE))
        snprintf(info->refused, capacity, "the driver says that it is not available");
    else if (!query_number(id, CL_DEVICE_COMPILER_AVAILABLE))
        snprintf(info->refused, capacity, "its driver has no compiler, expected OpenCL C 1.2");
    else if (!query_number(id, CL_DEVICE_ENDIAN_LITTLE))
        snprintf(info->refused, capacity, "big-endian, expected little-endian");
    else if (!(query_number(id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_INF_NAN))
        snprintf(info->refused, capacity, "no infinity in f32, which masks need");
    else if (caps->n_units < 1 || caps->max_group < 1 || caps->max_items[0] < 1 || caps->max_items[1] < 1 ||
             caps->max_items[2] < 1 || caps->max_alloc_bytes < MIN_BASE_ALIGN)
        snprintf(info->refused, capacity,
                 "%d units, groups of %d, buffers of %llu bytes: expected 1 or more of each",
                 (int)caps->n_units, (int)caps->max_group, (unsigned long long)caps->max_alloc_bytes);
}

void clef__caps_query(cl_platform_id platform, cl_device_id id, clef_device_info *info)
{
    take_text(info->name, sizeof info->name, platform, id, CL_DEVICE_NAME);
    take_text(info->vendor, sizeof info->vendor, platform, id, CL_DEVICE_VENDOR);
    take_text(info->platform_name, sizeof info->platform_name, platform, NULL, CL_PLATFORM_NAME);
    take_text(info->version, sizeof info->version, platform, id, CL_DEVICE_VERSION);
    take_text(info->driver, sizeof info->driver, platform, id, CL_DRIVER_VERSION);

    /* Some drivers keep their driver version over many releases while the platform's text changes. */
    char platform_version[sizeof info->driver];
    take_text(platform_version, sizeof platform_version, platform, NULL, CL_PLATFORM_VERSION);
    const size_t n = strlen(info->driver);
    snprintf(info->driver + n, sizeof info->driver - n, "%s%s", n > 0 ? "; " : "", platform_version);

    query_caps(id, info->version, &info->caps);
    refuse_device(id, info);
}
