/* Prints the list of clef_variants_list(), for several commands. */
#ifndef CLEF_TOOLS_VARIANTS_H
#define CLEF_TOOLS_VARIANTS_H

#include "clef/clef.h"

/** Prints the device's variants, one on a line: op, variant, key, and the reason. Returns CLEF_OK, or the
 *  error of the list. */
clef_status cli_variants_print(clef_device *device, clef_error *err);
/** cli_variants_print() as a JSON array. */
clef_status cli_variants_print_json(clef_device *device, clef_error *err);

#endif
