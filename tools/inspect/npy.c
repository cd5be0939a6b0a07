/* .npy files: numpy.lib.format, version 1.0.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#include "tools/inspect/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/output.h"
#include "tools/cli/terminal.h"

/* The header's length has 2 bytes; the whole head is a multiple of 64. */
void cli_npy_head(FILE *to, const char *code, int32_t rank, const int64_t *dims)
{
    enum { ALIGN = 64, BEFORE = 10 };
    const uint16_t one = 1;
    char header[4 * ALIGN];
    size_t n = (size_t)snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                                code[1] == '1'                 ? '|'
                                : *(const unsigned char *)&one ? '<'
                                                               : '>',
                                code);
    for (int32_t i = 0; i < rank; i++)
        n += (size_t)snprintf(header + n, sizeof header - n, "%s%" PRId64, i ? ", " : "", dims[i]);
    n += (size_t)snprintf(header + n, sizeof header - n, "%s), }", rank == 1 ? "," : "");
    while ((BEFORE + n + 1) % ALIGN)
        header[n++] = ' ';
    header[n++] = '\n';
    fwrite("\x93NUMPY\x01\x00", 1, 8, to);
    fputc((int)(n & 255), to);
    fputc((int)(n >> 8), to);
    fwrite(header, 1, n, to);
}

int cli_is_npy(const char *path)
{
    const size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".npy") == 0;
}

static const char *code_of(clef_dtype dtype)
{
    static const struct {
        clef_dtype dtype;
        const char *code;
    } codes[] = {{CLEF_F32, "f4"}, {CLEF_F16, "f2"}, {CLEF_I32, "i4"}, {CLEF_I8, "i1"}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].dtype == dtype)
            return codes[i].code;
    return NULL;
}

static clef_status write_tensor(void *user, FILE *to, clef_error *err)
{
    const clef_tensor_info *t = user;
    cli_npy_head(to, code_of(t->dtype), t->rank, t->dims);
    fwrite(t->data, 1, (size_t)t->n_bytes, to);
    return ferror(to) ? cli_error(err, CLEF_E_IO, "cannot write: %s", strerror(errno)) : CLEF_OK;
}

static clef_status check_tensor(const char *path, const clef_tensor_info *t, clef_error *err)
{
    if (!code_of(t->dtype))
        return cli_error(err, CLEF_E_UNSUPPORTED,
                         "%s: %s is %s, which a .npy file cannot hold; a .safetensors file can", path,
                         t->name, clef_dtype_name(t->dtype));
    return CLEF_OK;
}

static clef_status write_in_folder(const char *folder, clef_tensor_info *t, clef_error *err)
{
    const size_t n = strlen(folder) + strlen(t->name) + 8;
    char *path = malloc(n);
    if (!path)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    snprintf(path, n, "%s%s%s.npy", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", t->name);
    const clef_status status = cli_output(path, write_tensor, t, err);
    free(path);
    return status;
}

static clef_status write_folder(const char *path, const clef_tensor_info *tensors, int32_t n, clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < n && status == CLEF_OK; i++) {
        if (strchr(tensors[i].name, '/'))
            return cli_error(err, CLEF_E_ARG,
                             "%s: %s cannot be a file's name; a .safetensors file can hold it", path,
                             tensors[i].name);
        status = check_tensor(path, &tensors[i], err);
    }
    if (status == CLEF_OK && !cli_terminal_make_folder(path))
        status = cli_error(err, CLEF_E_IO, "%s: cannot make the folder: %s", path, strerror(errno));
    for (int32_t i = 0; i < n && status == CLEF_OK; i++) {
        clef_tensor_info t = tensors[i];
        status = write_in_folder(path, &t, err);
    }
    return status;
}

clef_status cli_tensors_write(const char *path, const clef_tensor_info *tensors, int32_t n, clef_error *err)
{
    if (*path && (path[strlen(path) - 1] == '/' || cli_terminal_is_folder(path)))
        return write_folder(path, tensors, n, err);
    if (!cli_is_npy(path))
        return clef_tensor_file_write(path, tensors, n, err);
    if (n != 1)
        return cli_error(err, CLEF_E_ARG,
                         "%s: expected one value, got %" PRId32
                         " (%s ..); a folder can hold a .npy file for each",
                         path, n, n ? tensors[0].name : "none");
    clef_tensor_info t = tensors[0];
    const clef_status status = check_tensor(path, &t, err);
    return status == CLEF_OK ? cli_output(path, write_tensor, &t, err) : status;
}
