/* CLBlast's functions: of the library that this one links, or with CLEF_DLOPEN_OPENCL of the one that is
 * installed where clef runs. Only for builds that have CLBlast's header (CLEF_HAVE_CLBLAST). */
#ifndef CLEF_RUNTIME_CLBLAST_LOADER_H
#define CLEF_RUNTIME_CLBLAST_LOADER_H

#include "runtime/device/opencl.h"

#include <clblast_c.h>

typedef struct clef__clblast {
#define NAME(name) __typeof__(name) *name;
#include "runtime/device/clblast_names.def"
#undef NAME
} clef__clblast;

/** NULL where clef__clblast_missing() has a reason. */
const clef__clblast *clef__clblast_functions(void);

#endif
