/* Declarations of OpenCL C's built-in functions.
 *
 * PoCL reads clang's opencl-c.h before each program: 16,000 lines with all built-in functions, and reading
 * them takes longer than compiling most kernels. -D _OPENCL_H_, its own guard, leaves it out. A program then
 * begins with declarations of the functions that it uses (runtime/device/builtins.def). On PoCL, a function
 * without a row there shows as "use of undeclared identifier". */
#ifndef CLEF_RUNTIME_BUILTINS_H
#define CLEF_RUNTIME_BUILTINS_H

#include <stddef.h>

#include "graph/fail.h"

/** Writes the declarations of the built-in functions whose names are in a program's text, which ends with
 *  NUL, for the types that it mentions. *out, of n_bytes, ends with NUL too; the caller frees it.
 *  CLEF_E_NOMEM. */
clef_status clef__builtins_declare(const char *source, char **out, size_t *n_bytes, clef_error *err);

#endif
