#include "tools/cli/common.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"

const char *const cli_pin_names[] = {"off", "on", "auto", NULL};
const char *const cli_gemm_names[] = {"auto", "own", "clblast", NULL};
const char *const cli_kv_type_names[] = {"auto", "f32", "f16", "q8_0", NULL};

const char *const cli_shape_dtype_names[] = {"f16",  "bf16", "f32",  "q8_0",  "q6_k",
                                             "q5_k", "q4_k", "q4_0", "mxfp4", NULL};

int cli_is_shape_file(const char *path)
{
    const size_t n = strlen(path);
    return n >= 5 && strcmp(path + n - 5, ".json") == 0;
}

clef_status cli_model_open_to_plan(const char *path, int32_t dtype, clef_model **out, clef_error *err)
{
    static const clef_dtype dtypes[] = {CLEF_F16,  CLEF_BF16, CLEF_F32,  CLEF_Q8_0, CLEF_Q6_K,
                                        CLEF_Q5_K, CLEF_Q4_K, CLEF_Q4_0, CLEF_MXFP4};
    return cli_is_shape_file(path) ? clef_model_open_shape(path, dtypes[dtype], out, err)
                                   : clef_model_open(path, out, err);
}

int32_t cli_format_of(const char *command, const char *const *names, const char *text, int32_t format,
                      const char *out)
{
    char wanted[160] = "";
    size_t n = 0;
    const char *slash = out ? strrchr(out, '/') : NULL, *dot = out ? strrchr(slash ? slash : out, '.') : NULL;
    if (format >= 0 || !dot || strcmp(dot, ".txt") == 0 || strcmp(dot + 1, text) == 0)
        return format >= 0 ? format : 0;
    for (int32_t i = 1; names[i]; i++) {
        if (strcmp(dot + 1, names[i]) == 0)
            return i;
        n += (size_t)snprintf(wanted + n, sizeof wanted - n, ".%s, ", names[i]);
    }
    cli_fail(CLI_USAGE, "%s: -o %s: expected --format, or a name that ends in %s.%s or nothing", command, out,
             wanted, text);
    return -1;
}

const char *const cli_wire_names[] = {"f32", "f16", "q8", NULL};

void cli_say_notice(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "clef: %s\n", text);
}

typedef struct said {
    const char *title;
    int n;
} said;

static void say_item(void *user, const char *item)
{
    said *s = user;
    fprintf(stderr, "%s%s", s->n == 0 ? s->title : ", ", item);
    s->n++;
}

void cli_say_unread(const clef_model *model)
{
    said s = {"clef: note: keys that are not read: ", 0};
    clef_model_unread(model, say_item, &s);
    if (s.n > 0)
        fputc('\n', stderr);
}

void cli_say_left_out(const clef_model *model)
{
    said s = {"clef: note: parts that are left out: ", 0};
    clef_model_left_out(model, say_item, &s);
    if (s.n > 0)
        fputc('\n', stderr);
}

int cli_is_graph_file(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".clef") == 0;
}

int32_t cli_is_classifier(const clef_model *model)
{
    clef_graph *graph = NULL;
    const clef_build_opts opts = {.n_context = 1, .n_batch = 1, .classify = 1};
    const clef_status status = clef_model_build(model, &opts, &graph, NULL);
    clef_graph_destroy(graph);
    return status == CLEF_OK;
}

clef_dtype cli_kv_type(const clef_model *model, int32_t choice, int32_t exact)
{
    static const clef_dtype types[] = {CLEF_F32, CLEF_F32, CLEF_F16, CLEF_Q8_0};
    uint64_t all = 0, full = 0;
    if (choice || exact || !model)
        return types[choice];
    for (int32_t i = 0; i < clef_model_n_tensors(model); i++) {
        const clef_tensor_info t = clef_model_tensor(model, i);
        all += t.n_bytes;
        full += t.dtype == CLEF_F32 ? t.n_bytes : 0;
    }
    return 2 * full < all ? CLEF_F16 : CLEF_F32;
}

clef_status cli_error(clef_error *err, clef_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    err->status = status;
    err->cl_code = 0;
    return status;
}

/* Reads `file` to its end. The caller frees *out, also on failure. */
static int read_all(FILE *file, char **out, size_t *n_bytes)
{
    size_t n = 0, capacity = 1 << 16;
    *out = NULL;
    for (;;) {
        char *more = realloc(*out, capacity + 1);
        if (!more)
            return ENOMEM;
        *out = more;
        errno = 0;
        n += fread(*out + n, 1, capacity - n, file);
        if (n < capacity)
            break;
        if (capacity > SIZE_MAX / 4)
            return ENOMEM;
        capacity *= 2;
    }
    if (ferror(file))
        return errno ? errno : EIO;
    (*out)[n] = 0;
    *n_bytes = n;
    return 0;
}

static int read_path(const char *path, char **out, size_t *n_bytes)
{
    if (strcmp(path, "-") == 0)
        return read_all(stdin, out, n_bytes);
    *out = NULL;
    FILE *file = fopen(path, "rb");
    if (!file)
        return errno ? errno : EIO;
    const int code = read_all(file, out, n_bytes);
    fclose(file);
    return code;
}

int cli_read_file(const char *path, char **out, size_t *n_bytes)
{
    const int code = read_path(path, out, n_bytes);
    if (!code)
        return CLI_GO_ON;
    free(*out);
    *out = NULL;
    return cli_fail(CLI_FAILED, "%s: cannot read: %s", path, strerror(code));
}

clef_status cli_graph_file_open(const char *path, clef_graph **out, clef_error *err)
{
    char *text = NULL;
    size_t n_bytes = 0;
    const int code = read_path(path, &text, &n_bytes);
    clef_status status;
    if (code)
        status = cli_error(err, CLEF_E_IO, "%s: cannot read: %s", path, strerror(code));
    else
        status = clef_graph_parse(text, n_bytes, path, out, err);
    free(text);
    return status;
}

static int has_output(const clef_graph *graph, const char *name)
{
    for (int32_t i = 0; i < clef_graph_n_outputs(graph); i++) {
        const char *output = NULL;
        clef_graph_output(graph, i, &output);
        if (strcmp(output, name) == 0)
            return 1;
    }
    return 0;
}

clef_status cli_graph_tap(clef_graph *graph, const char *path, const cli_list *taps, clef_error *err)
{
    for (int32_t i = 0; i < taps->n; i++) {
        clef_value *value = clef_graph_find(graph, taps->items[i]);
        if (!value)
            return cli_error(err, CLEF_E_NOT_FOUND, "%s: no value called %s to tap", path, taps->items[i]);
        if (!has_output(graph, taps->items[i]))
            clef_output(graph, taps->items[i], value);
    }
    return clef_graph_error(graph, err);
}

const char *cli_title_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

char *cli_dims_text(int32_t rank, const int64_t *dims, char out[96])
{
    size_t n = 1;
    strcpy(out, "[");
    for (int32_t i = 0; i < rank && n < 70; i++)
        n += (size_t)snprintf(out + n, 96 - n, "%s%" PRId64, i ? ", " : "", dims[i]);
    strcpy(out + n, "]");
    return out;
}

char *cli_bytes_text(uint64_t n_bytes, char out[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)n_bytes;
    size_t unit = 0;
    while (x >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        x /= 1024;
        unit++;
    }
    snprintf(out, 24, unit ? "%.1f %s" : "%.0f %s", x, units[unit]);
    return out;
}

int cli_size_read(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (*text < '0' || *text > '9' || errno || (*end && (!unit || end[1])) || n > UINT64_MAX >> shift || !n)
        return 0;
    *out = (uint64_t)n << shift;
    return 1;
}

clef_status cli_begin_with_bos(const char *model, const clef_tokenizer *tok, int32_t **ids, int32_t *n,
                               clef_error *err)
{
    const int32_t bos = clef_tokenizer_leading_bos(tok);
    if (bos < 0 || !*n || cli_terminal_is_folder(model))
        return CLEF_OK;
    return clef_tokens_begin_with(bos, ids, n, err);
}
