/* NumPy's files, and files of tensors in the form that a name asks for. */
#ifndef CLEF_TOOLS_NPY_H
#define CLEF_TOOLS_NPY_H

#include <stdio.h>

#include "clef/clef.h"

/** Writes the head of a .npy file (numpy.lib.format, version 1.0) in the host's byte order; the numbers
 *  follow, row-major. `code` is NumPy's name of a kind and a size: "f4", "i1", "u1". */
void cli_npy_head(FILE *to, const char *code, int32_t rank, const int64_t *dims);

/** 1 when the path ends in .npy. */
int cli_is_npy(const char *path);

/** Writes the tensors to PATH: a folder (it exists, or PATH ends in /, which makes it) gets NAME.npy of each;
 *  FILE.npy takes a single one; any other name is a .safetensors file. In .npy go f32, f16, i32 and i8.
 *  CLEF_E_ARG (several for one .npy; a name that no file can have), CLEF_E_UNSUPPORTED (another dtype),
 *  CLEF_E_IO, CLEF_E_NOMEM. */
clef_status cli_tensors_write(const char *path, const clef_tensor_info *tensors, int32_t n, clef_error *err);

#endif
