/* Printing what `clef_variants_list()` says, for several commands. */
#ifndef CLEF_TOOLS_VARIANTS_H
#define CLEF_TOOLS_VARIANTS_H

#include "clef/clef.h"

/** Prints the device's variants, a line each: op, variant, key, and why. CLEF_OK, or what the list failed
 *  with. */
clef_status cli_variants_print(clef_device *device, clef_error *err);
/** The same as a JSON array. */
clef_status cli_variants_print_json(clef_device *device, clef_error *err);

#endif
